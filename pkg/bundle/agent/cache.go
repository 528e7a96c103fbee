package agent

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Cache keeps verified bundles of local builds under their keys (docs/spec/agentbundle.md#cache-key):
// KEY.tar.gz or KEY.tar.zst and the digest file beside it. Anybody can have put
// an entry there, a checkout for one. So the user's state directory records
// which file a build of this user made for a key, and another one counts as
// absent.
type Cache struct {
	Dir    string
	Limits bundle.Limits
	Allow  []string // as in [bundle.Options]
	State  string   // the user's state directory, see [bundle.OpenState]
}

// built is where the state directory says which file was built for a key.
func built(key string) string { return "builds/" + key }

var keyPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[0-9a-f]{64}\z`) })

// Get opens the bundle under a key, nil if there is none that still stands:
// it is hashed against its digest file and what this user has built, and judged
// again; a damaged one counts as absent. The caller closes the file, from which the result's
// archive reads.
func (c *Cache) Get(ctx context.Context, key string, target *Target, runtime *Runtime) (*Result, *os.File, error) {
	if !keyPattern().MatchString(key) {
		return nil, nil, fmt.Errorf("no cache key: %s", finding.QuoteMax(key, 80))
	}
	made, err := bundle.ReadState(c.State, built(key))
	if err != nil || made == nil {
		return nil, nil, err
	}
	for _, ext := range []string{extGzip, extZstd} {
		name := filepath.Join(c.Dir, key+ext)
		sum, err := bundle.ReadBeside(name + ".sha256")
		if err != nil {
			return nil, nil, err
		}
		if sum == nil {
			continue
		}
		f, size, err := bundle.OpenFile(name)
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		r, err := Verify(ctx, bundle.Input{Name: name, File: f, Size: size, Checksum: sum}, Format{Target: target, Runtime: runtime, AnyName: true}, bundle.Options{Limits: c.Limits, RequireChecksum: true, Allow: c.Allow})
		if err != nil {
			f.Close()
			return nil, nil, err
		}
		if len(r.Findings) == 0 && r.Archive.FileDigest.Hex() == string(made) {
			return r, f, nil
		}
		f.Close()
	}
	return nil, nil, nil
}

// Put judges the one bundle that a build left in dir and keeps it under key.
// Findings of the result say why a bundle is not accepted; nothing is kept
// then. The caller closes the file.
func (c *Cache) Put(ctx context.Context, key, dir string, target *Target, runtime *Runtime) (*Result, *os.File, error) {
	if !keyPattern().MatchString(key) {
		return nil, nil, fmt.Errorf("no cache key: %s", finding.QuoteMax(key, 80))
	}
	name, err := onlyBundle(dir)
	if err != nil {
		return nil, nil, err
	}
	in, size, err := bundle.OpenFile(name)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	r, err := Verify(ctx, bundle.Input{Name: name, File: in, Size: size, Made: true}, Format{Target: target, Runtime: runtime}, bundle.Options{Limits: c.Limits, Allow: c.Allow})
	if err != nil || len(r.Findings) > 0 {
		return r, nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, nil, err
	}
	kept := filepath.Join(c.Dir, key+kindOf(name))
	err = bundle.WriteFile(kept, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(in, 0, size))
		return err
	}, nil, func() (string, []byte) { return sidecar(kept, r.Archive.FileDigest) })
	if err != nil {
		return nil, nil, err
	}
	if err := bundle.WriteState(c.State, built(key), []byte(r.Archive.FileDigest.Hex())); err != nil {
		return nil, nil, err
	}
	kr, f, err := c.Get(ctx, key, target, runtime)
	if err == nil && kr == nil {
		err = fmt.Errorf("the bundle in the cache is not the one that was put there: %s", finding.Path(kept))
	}
	return kr, f, err
}

// onlyBundle is the path of the one bundle file in a directory.
func onlyBundle(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return !strings.HasPrefix(e.Name(), filePrefix) || kindOf(e.Name()) == ""
	})
	if len(entries) != 1 {
		return "", fmt.Errorf("the build left %d files named %s*%s or %s, one is expected", len(entries), filePrefix, extGzip, extZstd)
	}
	return filepath.Join(dir, entries[0].Name()), nil
}
