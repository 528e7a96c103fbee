package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/sshsign"
)

// expectations is testdata/agentbundle/expectations.json.
type expectations struct {
	Cases []struct {
		ID, File, Generate, Code, Why string
		TarDigest                     string `json:"tar_digest"`
		Limits                        map[string]string
		Notes                         []string
	}
	Diff []struct {
		ID, A, B, Code string
		SameBytes      bool              `json:"same_bytes"`
		SameTar        bool              `json:"same_tar"`
		SameContent    bool              `json:"same_content"`
		Changes        []json.RawMessage `json:"changes"`
	}
	Rebuild []struct {
		ID, File, Code string
		TarDigest      string `json:"tar_digest"`
		Rebuilt        string `json:"rebuilt_tar_digest"`
	}
	Sidecar []struct {
		ID, Bundle, File, Code string
		Require                bool
	}
	Signature []struct {
		ID, Bundle, File, Code, Signer string
		AllowedSigners                 string `json:"allowed_signers"`
		Require                        bool
	}
	Compat []struct {
		ID, File, Target, Runtime, Code string
		Notes                           []string
	}
	Refs []struct {
		ID, Ref, Code, Mirror, Target, Want string
		Parsed                              map[string]string
	}
	CacheKey []struct {
		ID                         string
		Tree                       []treeEntry
		Lock, Runtime, Target, Key string
	} `json:"cache_key"`
}

type treeEntry struct{ Path, Mode, Text, Link string }

// unpacked is the directory that vectorDir made, for TestMain to remove.
var unpacked string

// vectorDir unpacks testdata/agentbundle once and returns its path.
var vectorDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "agentbundle")
	if err != nil {
		return "", err
	}
	unpacked = dir
	src := filepath.Join("..", "..", "..", "testdata", "agentbundle")
	put := func(name string, data []byte) error {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		return os.WriteFile(p, data, 0o644)
	}
	err = filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(src, p)
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if whole, ok := strings.CutSuffix(name, ".gz"); ok && strings.Contains(whole, ".tar.") {
			name = whole
			zr, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				return err
			}
			if data, err = io.ReadAll(zr); err != nil {
				return err
			}
		}
		return put(name, data)
	})
	if err != nil {
		return "", err
	}
	const stem = "agent-bundle-agent-demo-0.1.0-linux-amd64-glibc"
	for _, cut := range []struct{ from, to, ext string }{
		{"c10-gzip-bad-crc", "c08-gzip-truncated-half", extGzip},
		{"c13-zstd-bad-checksum", "c12-zstd-truncated", extZstd},
	} {
		data, err := os.ReadFile(filepath.Join(dir, "cases", cut.from, stem+cut.ext))
		if err != nil {
			return "", err
		}
		if err := put(filepath.Join("cases", cut.to, stem+cut.ext), data[:len(data)/2]); err != nil {
			return "", err
		}
	}
	return dir, generate(dir, stem)
})

// generate makes what is too big to store: b04, a bundle of 250,000 members.
func generate(dir, stem string) error {
	from, err := os.ReadFile(filepath.Join(dir, "cases", "v01-script-dotslash", stem+extGzip))
	if err != nil {
		return err
	}
	zr, err := gzip.NewReader(bytes.NewReader(from))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	zw, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	tr, tw := tar.NewReader(zr), tar.NewWriter(zw)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(tw, tr); err != nil {
			return err
		}
	}
	for i := range 250_000 {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("./assets/%06d", i), Mode: 0o644, Format: tar.FormatUSTAR}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	if err := zw.Close(); err != nil {
		return err
	}
	p := filepath.Join(dir, "cases", "b04-250k-entries")
	if err := os.MkdirAll(p, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p, stem+extGzip), out.Bytes(), 0o644)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if unpacked != "" {
		os.RemoveAll(unpacked)
	}
	os.Exit(code)
}

func vectors(t testing.TB) (dir string, e expectations) {
	t.Helper()
	dir, err := vectorDir()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "expectations.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return dir, e
}

func verifyFile(t testing.TB, name string, in bundle.Input, f Format, o bundle.Options) *Result {
	t.Helper()
	at := open(t, name)
	in.Name, in.File, in.Size = at.Name, at.File, at.Size
	r, err := Verify(t.Context(), in, f, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func checkResult(t *testing.T, r *Result, code string, notes []string) {
	t.Helper()
	if r.Code != code {
		t.Errorf("code %s, want %s", r.Code, code)
	}
	for _, f := range r.Findings {
		t.Logf("%s %q: %s (%s)", f.Code, f.Path, f.Message, f.Hint)
	}
	for _, n := range notes {
		if !slices.ContainsFunc(r.Notes, func(have bundle.Note) bool { return have.Code == n }) {
			t.Errorf("note %s is missing in %v", n, r.Notes)
		}
	}
}

func TestVectorsVerify(t *testing.T) {
	dir, e := vectors(t)
	for _, c := range e.Cases {
		t.Run(c.ID, func(t *testing.T) {
			o := bundle.Options{Limits: DefaultLimits()}
			for k, v := range c.Limits {
				if err := o.Limits.Set(k + "=" + v); err != nil {
					t.Fatal(err)
				}
			}
			file := c.File
			if file == "" {
				file = filepath.Join("cases", c.ID, "agent-bundle-agent-demo-0.1.0-linux-amd64-glibc.tar.gz")
			}
			r := verifyFile(t, filepath.Join(dir, filepath.FromSlash(file)), bundle.Input{}, Format{}, o)
			checkResult(t, r, c.Code, c.Notes)
			if c.TarDigest != "" && r.Archive.TarDigest.String() != c.TarDigest {
				t.Errorf("tar digest %s, want %s", r.Archive.TarDigest, c.TarDigest)
			}
		})
	}
}

func TestVectorsSidecar(t *testing.T) {
	dir, e := vectors(t)
	for _, c := range e.Sidecar {
		t.Run(c.ID, func(t *testing.T) {
			in, o := bundle.Input{}, bundle.Options{RequireChecksum: c.Require}
			if c.File != "" {
				var err error
				if in.Checksum, err = os.ReadFile(filepath.Join(dir, c.File)); err != nil {
					t.Fatal(err)
				}
			}
			checkResult(t, verifyFile(t, filepath.Join(dir, c.Bundle), in, Format{}, o), c.Code, nil)
		})
	}
}

func TestVectorsCompat(t *testing.T) {
	dir, e := vectors(t)
	for _, c := range e.Compat {
		t.Run(c.ID, func(t *testing.T) {
			var f Format
			target, err := ParseTarget(c.Target)
			if err != nil {
				t.Fatal(err)
			}
			f.Target = &target
			if c.Runtime != "" {
				runtime, err := ParseRuntime(c.Runtime)
				if err != nil {
					t.Fatal(err)
				}
				f.Runtime = &runtime
			}
			checkResult(t, verifyFile(t, filepath.Join(dir, c.File), bundle.Input{}, f, bundle.Options{}), c.Code, c.Notes)
		})
	}
}

func TestVectorsRefs(t *testing.T) {
	dir, e := vectors(t)
	for _, c := range e.Refs {
		t.Run(c.ID, func(t *testing.T) {
			ref, f := ParseRef(c.Ref)
			var got string
			if f == nil && c.Mirror != "" {
				target, err := ParseTarget(c.Target)
				if err != nil {
					t.Fatal(err)
				}
				if got, f, err = ref.Resolve(filepath.Join(dir, c.Mirror), &target); err != nil {
					t.Fatal(err)
				}
			}
			code := "ok"
			if f != nil {
				code = f.Code
				t.Log(f.Message, "|", f.Hint)
			}
			if code != c.Code {
				t.Errorf("code %s, want %s", code, c.Code)
			}
			if c.Want != "" && got != filepath.Join(dir, c.Want) {
				t.Errorf("got %s, want %s", got, c.Want)
			}
			if c.Parsed != nil {
				p := c.Parsed
				want := Ref{p["path"], p["owner"], p["repo"], p["tag"], p["asset"], p["sha256"]}
				if ref != want {
					t.Errorf("got %+v, want %+v", ref, want)
				}
			}
		})
	}
}

func TestVectorsCacheKey(t *testing.T) {
	_, e := vectors(t)
	for _, c := range e.CacheKey {
		t.Run(c.ID, func(t *testing.T) {
			dir := t.TempDir()
			for _, n := range c.Tree {
				p := filepath.Join(dir, filepath.FromSlash(n.Path))
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if n.Link != "" {
					if err := os.Symlink(n.Link, p); err != nil {
						t.Fatal(err)
					}
					continue
				}
				mode := os.FileMode(0o644)
				if n.Mode == "0755" {
					mode = 0o755
				}
				if err := os.WriteFile(p, []byte(n.Text), mode); err != nil {
					t.Fatal(err)
				}
			}
			src, err := bundle.OpenDirs(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			var lock io.Reader
			if c.Lock != "" {
				data, err := os.ReadFile(filepath.Join(dir, c.Lock))
				if err != nil {
					t.Fatal(err)
				}
				lock = bytes.NewReader(data)
			}
			target, err := ParseTarget(c.Target)
			if err != nil {
				t.Fatal(err)
			}
			runtime, err := ParseRuntime(c.Runtime)
			if err != nil {
				t.Fatal(err)
			}
			key, err := CacheKey(src, lock, target, &runtime)
			if err != nil {
				t.Fatal(err)
			}
			if key != c.Key {
				t.Errorf("key %s, want %s", key, c.Key)
			}
		})
	}
}

func open(t testing.TB, name string) bundle.Input {
	t.Helper()
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return bundle.Input{Name: name, File: f, Size: size}
}

func TestVectorsDiff(t *testing.T) {
	dir, e := vectors(t)
	for _, c := range e.Diff {
		t.Run(c.ID, func(t *testing.T) {
			d, err := Diff(t.Context(), open(t, filepath.Join(dir, c.A)), open(t, filepath.Join(dir, c.B)), bundle.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if d.Code != c.Code || d.SameBytes != c.SameBytes || d.SameTar != c.SameTar || d.SameContent != c.SameContent {
				t.Errorf("got %s %v %v %v, want %s %v %v %v", d.Code, d.SameBytes, d.SameTar, d.SameContent, c.Code, c.SameBytes, c.SameTar, c.SameContent)
			}
			if got, want := jsonOf(t, d.Listed), jsonOf(t, c.Changes); got != want {
				t.Errorf("changes %s, want %s", got, want)
			}
		})
	}
}

// jsonOf is a list as compact JSON, "[]" if it is empty.
func jsonOf[T any](t *testing.T, list []T) string {
	t.Helper()
	b, err := json.Marshal(append([]T{}, list...))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestVectorsRebuild(t *testing.T) {
	dir, e := vectors(t)
	for _, c := range e.Rebuild {
		t.Run(c.ID, func(t *testing.T) {
			r, err := Rebuild(t.Context(), open(t, filepath.Join(dir, c.File)), bundle.Input{}, Format{}, bundle.Options{Temp: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if r.Code != c.Code || r.TarDigest.String() != c.TarDigest || r.RebuiltTarDigest.String() != c.Rebuilt {
				t.Errorf("got %s %s %s, want %s %s %s", r.Code, r.TarDigest, r.RebuiltTarDigest, c.Code, c.TarDigest, c.Rebuilt)
			}
		})
	}
}

func TestVectorsSignature(t *testing.T) {
	dir, e := vectors(t)
	for _, c := range e.Signature {
		t.Run(c.ID, func(t *testing.T) {
			in, o := bundle.Input{}, bundle.Options{Signed: bundle.SignatureRules{
				Signer: c.Signer, Require: c.Require, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			}}
			list, err := os.ReadFile(filepath.Join(dir, c.AllowedSigners))
			if err != nil {
				t.Fatal(err)
			}
			if o.Signed.Signers, err = sshsign.ParseSigners(list); err != nil {
				t.Fatal(err)
			}
			if c.File != "" {
				if in.Signature, err = os.ReadFile(filepath.Join(dir, c.File)); err != nil {
					t.Fatal(err)
				}
			}
			checkResult(t, verifyFile(t, filepath.Join(dir, c.Bundle), in, Format{}, o), c.Code, nil)
		})
	}
}
