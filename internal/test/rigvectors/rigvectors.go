// Package rigvectors gives tests the vectors of the RigBundle format.
package rigvectors

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rigward/rigward/internal/test/module"
)

// Dir unpacks testdata/rigbundle/vectors.tar.zst and returns the directory.
func Dir(t testing.TB) string {
	t.Helper()
	f, err := os.Open(filepath.Join(module.Root(), "testdata", "rigbundle", "vectors.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	dir := t.TempDir()
	unpack(t, z, dir)
	return dir
}

// shared returns a path below ../shared/vectors/rigbundle beside the module,
// for what may not be copied into it. ok is false where that is not there.
func shared(name string) (path string, ok bool) {
	path = filepath.Join(module.Root(), "..", "shared", "vectors", "rigbundle", name)
	_, err := os.Stat(path)
	return path, err == nil
}

// unpack writes a tar stream of the tests' own making, with its modes and
// links, whatever the umask.
func unpack(t testing.TB, r io.Reader, dir string) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.MkdirAll(dir, 0o755))
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		check(err)
		name := filepath.Join(dir, h.Name)
		check(os.MkdirAll(filepath.Dir(name), 0o755))
		switch h.Typeflag {
		case tar.TypeDir:
			check(os.MkdirAll(name, 0o755))
		case tar.TypeSymlink:
			check(os.Symlink(h.Linkname, name))
		case tar.TypeReg:
			b, err := io.ReadAll(tr)
			check(err)
			check(os.WriteFile(name, b, 0o644))
			check(os.Chmod(name, fs.FileMode(h.Mode).Perm()))
		case tar.TypeXGlobalHeader:
		default:
			t.Fatalf("%s has type %c", h.Name, h.Typeflag)
		}
	}
}

// Expectation is one of the entries of expectations.json.
type Expectation struct {
	ID         string            `json:"id"`
	Kind       string            `json:"kind"` // create or archive
	File       string            `json:"file"`
	Input      string            `json:"input"`
	Spec       string            `json:"spec"`
	Name       string            `json:"name"`
	Version    string            `json:"version"`
	CreatedAt  string            `json:"created_at"`
	RigRoot    string            `json:"rig_root"`
	SourceRoot string            `json:"source_root"`
	Flags      []string          `json:"flags"`
	Setup      []string          `json:"setup"`
	Chmod      map[string]string `json:"chmod"`
	Provenance map[string]string `json:"provenance"`
	Compat     map[string]string `json:"compatibility"`
	Limits     map[string]int64  `json:"limits"`
	Code       string            `json:"code"`
	Notes      []string          `json:"notes"`
	TarDigest  string            `json:"tar_digest"`
	TarSHA256  string            `json:"tar_sha256"`
	SpecSHA256 string            `json:"spec_tar_sha256"`
	Compat04   string            `json:"compat_tar_sha256"`
	FileSHA256 string            `json:"file_sha256"`
	Reference  string            `json:"reference_file"`
	Agents     []struct {
		Name, Path string
	} `json:"agents"`
	Strict       *Outcome `json:"strict"`
	AllowMissing *Outcome `json:"allow_missing_digest"`
}

// Outcome is a verdict and its code.
type Outcome struct{ Verdict, Code string }

// Scenario is one of the scenarios of expectations.json.
type Scenario struct {
	ID, Kind              string // diff, rebuild or install
	A, B                  string
	Source, Spec, Against string
	Flags                 []string
	Chmod                 map[string]string
	Exit                  int
	Code                  string
	Bundles               string
	Steps                 []Step
	Want                  map[string]json.RawMessage `json:"-"` // all fields
}

// Step is one step of an install scenario; one field is set.
type Step struct {
	Run     []string
	Exit    int
	Code    string
	Paths   []string
	Write   map[string]string
	Script  map[string]string
	Mkdir   string
	Symlink map[string]string
	Env     map[string]string
	Tree    map[string]struct{ Mode, SHA256 string }
	Absent  string
	Empty   string
	Args    json.RawMessage
}

// UnmarshalJSON keeps all fields beside those that have names.
func (s *Scenario) UnmarshalJSON(b []byte) error {
	type plain Scenario
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return err
	}
	return json.Unmarshal(b, &s.Want)
}

// Read returns what expectations.json in a directory says.
func Read(t testing.TB, dir string) (entries []Expectation, scenarios []Scenario) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "expectations.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Entries   []Expectation
		Scenarios []Scenario
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	changed := readChanged(t)
	for i := range all.Entries {
		e := &all.Entries[i]
		if c, ok := changed.Entries[e.ID]; ok {
			e.Code, e.Notes, e.Strict = c.Code, c.Notes, &Outcome{Code: c.Strict}
			delete(changed.Entries, e.ID)
		}
	}
	for i := range all.Scenarios {
		s := &all.Scenarios[i]
		if c, ok := changed.Scenarios[s.ID]; ok {
			s.Steps = c.Steps
			delete(changed.Scenarios, s.ID)
		}
	}
	for id := range changed.Entries {
		t.Errorf("changed.json names the entry %s, which does not exist", id)
	}
	for id := range changed.Scenarios {
		t.Errorf("changed.json names the scenario %s, which does not exist", id)
	}
	return all.Entries, all.Scenarios
}

// changed is testdata/rigbundle/changed.json: where a later rule gives another
// verdict than the vectors were recorded with.
type changed struct {
	Entries map[string]struct {
		Why    string
		Code   string
		Strict string
		Notes  []string
	}
	Scenarios map[string]struct {
		Why   string
		Steps []Step
	}
}

func readChanged(t testing.TB) (c changed) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(module.Root(), "testdata", "rigbundle", "changed.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// InputOf returns the path of a create vector's input, from the directory or
// from shared; not ok if neither has it.
func InputOf(dir string, e *Expectation) (string, bool) {
	name := filepath.Join(dir, filepath.FromSlash(e.Input))
	if _, err := os.Stat(name); err == nil {
		return name, true
	}
	return shared(e.Input)
}

// Copy copies a source tree, or unpacks it if it is a tar file, with all files
// 0644 unless the tar file says otherwise.
func Copy(t testing.TB, src, dir string) {
	t.Helper()
	if strings.HasSuffix(src, ".tar") {
		f, err := os.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		unpack(t, f, dir)
		return
	}
	if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			return os.Chmod(p, 0o644)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
