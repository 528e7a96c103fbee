package rig

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// vectors finds the vectors of this format.
func vectors(t testing.TB) string {
	t.Helper()
	for _, dir := range []string{"../../../testdata/rigbundle", "../../../../shared/vectors/rigbundle"} {
		if _, err := os.Stat(filepath.Join(dir, "expectations.json")); err == nil {
			return dir
		}
	}
	t.Skip("no vectors of this format here")
	return ""
}

type expectation struct {
	ID          string            `json:"id"`
	Kind        string            `json:"kind"`
	File        string            `json:"file"`
	Input       string            `json:"input"`
	Spec        string            `json:"spec"`
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	CreatedAt   string            `json:"created_at"`
	RigRoot     string            `json:"rig_root"`
	SourceRoot  string            `json:"source_root"`
	Flags       []string          `json:"flags"`
	Setup       []string          `json:"setup"`
	Chmod       map[string]string `json:"chmod"`
	Provenance  map[string]string `json:"provenance"`
	Compat      map[string]string `json:"compatibility"`
	Limits      map[string]int64  `json:"limits"`
	Code        string            `json:"code"`
	Notes       []string          `json:"notes"`
	TarDigest   string            `json:"tar_digest"`
	TarSHA256   string            `json:"tar_sha256"`
	SpecSHA256  string            `json:"spec_tar_sha256"`
	Compat04    string            `json:"compat_tar_sha256"`
	FileSHA256  string            `json:"file_sha256"`
	Members     json.RawMessage   `json:"members"`
	Reference   string            `json:"reference_file"`
	Agents      []Agent           `json:"agents"`
	Strict      *struct{ Code string }
	AllowDigest json.RawMessage `json:"allow_missing_digest"`
}

func expectations(t testing.TB, dir string) (entries []expectation) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "expectations.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Entries []expectation }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all.Entries
}

// verifyFile judges a file as the command does.
func verifyFile(t testing.TB, name string, o VerifyOptions) *Result {
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
	dir := vectors(t)
	n := 0
	for _, e := range expectations(t, dir) {
		if e.Kind != "archive" {
			continue
		}
		n++
		t.Run(e.ID, func(t *testing.T) {
			file := filepath.Join(dir, e.File)
			o := VerifyOptions{}
			if e.Limits != nil {
				l := bundle.DefaultLimits()
				for k, v := range e.Limits {
					if err := l.Set(k + "=" + itoa(v)); err != nil {
						t.Fatal(err)
					}
				}
				o.Limits = &l
			}
			r := verifyFile(t, file, o)
			if r.Code != e.Code {
				t.Fatalf("code %s, want %s: %s", r.Code, e.Code, r.Message)
			}
			if e.TarDigest != "" && r.TarDigest != e.TarDigest {
				t.Errorf("tar digest %s, want %s", r.TarDigest, e.TarDigest)
			}
			if e.Code == OK {
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
		})
	}
	t.Logf("%d archives", n)
}

func itoa(v int64) string { b, _ := json.Marshal(v); return strings.TrimSpace(string(b)) }
