package rig

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/rigward/rigward/internal/test/rigvectors"
	"github.com/rigward/rigward/pkg/bundle"
)

// verifyFile judges a file as the command does.
func verifyFile(t testing.TB, name string, o bundle.Options) *Result {
	t.Helper()
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bundle.Input{Name: filepath.Base(name), File: f, Size: size}
	if b, err := os.ReadFile(name + ".sha256"); err == nil {
		in.Checksum = b
		if b == nil {
			in.Checksum = []byte{}
		}
	}
	r, err := Verify(context.Background(), in, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerifyVectors(t *testing.T) {
	dir := rigvectors.Dir(t)
	entries, _ := rigvectors.Read(t, dir)
	n := 0
	for _, e := range entries {
		if e.Kind != "archive" {
			continue
		}
		n++
		t.Run(e.ID, func(t *testing.T) {
			file := filepath.Join(dir, e.File)
			o := bundle.Options{RequireChecksum: true}
			if e.Limits != nil {
				l := bundle.DefaultLimits()
				for k, v := range e.Limits {
					if err := l.Set(k + "=" + strconv.FormatInt(v, 10)); err != nil {
						t.Fatal(err)
					}
				}
				o.Limits = l
			}
			r := verifyFile(t, file, o)
			if r.Code != e.Code {
				t.Fatalf("code %s, want %s: %s", r.Code, e.Code, r.Message)
			}
			if e.TarDigest != "" && r.TarDigest.String() != e.TarDigest {
				t.Errorf("tar digest %s, want %s", r.TarDigest, e.TarDigest)
			}
			if e.Code == bundle.OK {
				for _, want := range e.Notes {
					if !slices.ContainsFunc(r.Notes, func(n bundle.Note) bool { return n.Code == want }) {
						t.Errorf("note %s is missing among %v", want, r.Notes)
					}
				}
			}
			o.Strict = true
			want := e.Code
			if e.Strict != nil {
				want = e.Strict.Code
			}
			if r := verifyFile(t, file, o); r.Code != want {
				t.Errorf("strict: code %s, want %s: %s", r.Code, want, r.Message)
			}
			if e.AllowMissing != nil {
				if r := verifyFile(t, file, bundle.Options{}); r.Code != e.AllowMissing.Code {
					t.Errorf("--allow-missing-digest: code %s, want %s: %s", r.Code, e.AllowMissing.Code, r.Message)
				}
			}
		})
	}
	t.Logf("%d archives", n)
}
