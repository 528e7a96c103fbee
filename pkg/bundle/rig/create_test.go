package rig

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/rigvectors"
	"github.com/rigward/rigward/pkg/bundle"
)

// unpackInput puts the input of a create vector into a new directory.
func unpackInput(t testing.TB, vectors string, e *rigvectors.Expectation) string {
	t.Helper()
	src, ok := rigvectors.InputOf(vectors, e)
	if !ok {
		t.Skipf("%s is not kept here and ../shared is absent", e.Input)
	}
	dir := filepath.Join(t.TempDir(), "in")
	rigvectors.Copy(t, src, dir)
	for name, mode := range e.Chmod {
		m, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), fs.FileMode(m)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range e.Setup {
		cmd := exec.Command("sh", "-c", s)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", s, err, out)
		}
	}
	return dir
}

// createIn runs Create on a directory as the command does.
func createIn(t testing.TB, dir, spec, rigRoot string, o Options, output string, v bundle.Options) *Result {
	t.Helper()
	tree, err := bundle.OpenDirs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if rigRoot == "" {
		rigRoot = filepath.ToSlash(filepath.Dir(spec))
	}
	src := &Source{Tree: tree, Spec: spec, RigRoot: rigRoot, Abs: dir}
	if o.Now == nil {
		o.Now = func() time.Time { return time.Unix(0, 0) }
	}
	r, err := Create(context.Background(), src, o, output, v)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCreateVectors(t *testing.T) {
	dir := rigvectors.Dir(t)
	entries, _ := rigvectors.Read(t, dir)
	for _, e := range entries {
		if e.Kind != "create" {
			continue
		}
		t.Run(e.ID, func(t *testing.T) {
			in := unpackInput(t, dir, &e)
			root, spec, rigRoot := in, e.Spec, e.RigRoot
			if e.SourceRoot == "" {
				// outside any work tree the source root is the rig root
				if rigRoot == "" {
					rigRoot = filepath.Dir(spec)
				}
				root = filepath.Join(in, rigRoot)
				rel, err := filepath.Rel(root, filepath.Join(in, spec))
				if err != nil {
					t.Fatal(err)
				}
				spec, rigRoot = filepath.ToSlash(rel), "."
			}
			o := Options{Name: e.Name, Version: e.Version, CreatedAt: e.CreatedAt, Provenance: e.Provenance, Compatibility: e.Compat, DropServices: slices.Contains(e.Flags, "--drop-services")}
			out := filepath.Join(t.TempDir(), "out.rigbundle")
			r := createIn(t, root, spec, rigRoot, o, out, bundle.Options{})
			if r.Code != e.Code {
				t.Fatalf("code %s, want %s: %s", r.Code, e.Code, r.Message)
			}
			if e.Strict != nil {
				if r := createIn(t, root, spec, rigRoot, o, out+".strict", bundle.Options{Strict: true}); r.Code != e.Strict.Code {
					t.Errorf("strict: code %s, want %s: %s", r.Code, e.Strict.Code, r.Message)
				}
			}
			if e.Code != bundle.OK {
				if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); len(left) > 0 {
					t.Errorf("a failed create left %v", left)
				}
				return
			}
			for _, want := range e.Notes {
				if !slices.ContainsFunc(r.Notes, func(n bundle.Note) bool { return n.Code == want }) {
					t.Errorf("note %s is missing among %v", want, r.Notes)
				}
			}
			if want := e.TarSHA256 + e.SpecSHA256; want != "" && r.TarDigest.String() != "sha256:"+want {
				t.Errorf("tar digest %s, want %s", r.TarDigest, want)
			}
			if e.FileSHA256 != "" && r.FileDigest.String() != "sha256:"+e.FileSHA256 {
				t.Errorf("file digest %s, want %s: is klauspost/compress pinned at v1.20.4?", r.FileDigest, e.FileSHA256)
			}
			if e.Agents != nil {
				for i, a := range e.Agents {
					if r.Agents[i].Name != a.Name || r.Agents[i].Path != a.Path {
						t.Errorf("agents %v, want %v", r.Agents, e.Agents)
					}
				}
			}
			if want := e.Compat04; want != "" {
				o.Form = FormOpenRig
				if r := createIn(t, root, spec, rigRoot, o, out, bundle.Options{}); r.TarDigest.String() != "sha256:"+want {
					t.Errorf("--form openrig-0.4: %s, tar digest %s, want %s", r.Code, r.TarDigest, want)
				}
			}
			if v := verifyFile(t, out, bundle.Options{Strict: e.Strict == nil, RequireChecksum: true}); !v.OK() && o.Form == "" {
				t.Errorf("verify says %s: %s", v.Code, v.Message)
			}
		})
	}
}
