package agent

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// CacheKey computes the key of a local build (docs/spec/agentbundle.md#cache-key)
// from the source tree, the lockfile (its content; nil: none) and the place
// where the bundle is to run (runtime nil: none given). The key is 64 hex
// digits. A *bundle.Finding as error says that the tree holds what cannot be
// part of a bundle.
func CacheKey(source bundle.Source, lock io.Reader, target Target, runtime *Runtime) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "agent-cache-v1\ntarget %s\n", target)
	if runtime != nil {
		fmt.Fprintf(h, "runtime %s\n", runtime)
	} else {
		io.WriteString(h, "runtime -\n")
	}
	if lock != nil {
		sum, _, err := digest(lock)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "lock %s\n", sum.Hex())
	} else {
		io.WriteString(h, "lock -\n")
	}
	lines, err := cacheLines(source)
	if err != nil {
		return "", err
	}
	for _, l := range lines {
		io.WriteString(h, l.text)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

type cacheLine struct{ path, text string }

// cacheLines describes files and links of the tree, by the bytes of their
// paths; what a build makes again is left out.
func cacheLines(source bundle.Source) ([]cacheLine, error) {
	var lines []cacheLine
	err := bundle.WalkSource(source, ".", func(name string, it bundle.Item) error {
		if name == "." {
			return nil
		}
		if it.Kind == bundle.KindDir && (it.Name == ".git" || it.Name == "node_modules" || name == "dist") {
			return fs.SkipDir
		}
		if f := checkName(name); f != nil {
			return f
		}
		switch it.Kind {
		case bundle.KindDir:
		case bundle.KindSymlink:
			lines = append(lines, cacheLine{name, fmt.Sprintf("l %s %s\n", bundle.Sum([]byte(it.Link)).Hex(), name)})
		case bundle.KindFile:
			sum, size, err := digestOf(source, name)
			if err != nil {
				return err
			}
			lines = append(lines, cacheLine{name, fmt.Sprintf("f %04o %d %s %s\n", bundle.NormalMode(it.Mode), size, sum.Hex(), name)})
		default:
			return specialFile(name)
		}
		return nil
	})
	slices.SortFunc(lines, func(a, b cacheLine) int { return cmp.Compare(a.path, b.path) })
	return lines, err
}

func specialFile(name string) *bundle.Finding {
	return bundle.Faultf(bundle.MemberType, name, "%s is neither file nor directory nor symlink", finding.QuoteMax(name, 200))
}

func digestOf(source bundle.Source, name string) (bundle.Digest, int64, error) {
	r, err := source.Open(name)
	if err != nil {
		return bundle.Digest{}, 0, err
	}
	defer r.Close()
	return digest(r)
}

func digest(r io.Reader) (d bundle.Digest, size int64, err error) {
	h := sha256.New()
	size, err = io.Copy(h, r)
	h.Sum(d[:0])
	return d, size, err
}
