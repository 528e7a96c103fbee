package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstallBackup: --backup never moves a file to a name that the bundle
// itself fills, nor the lock, and hints name what helps.
func TestInstallBackup(t *testing.T) {
	for _, c := range []struct {
		name, doc string // a further file of the bundle
		prepare   func(target string) error
		status    int
		hint      string
	}{
		{"a foreign file", "a.md", nil, 0, ""},
		{"the bundle fills the backup's name", "rig.yaml.rigbundle-backup", nil, 1, "is taken"},
		{"the bundle has a directory of that name", "rig.yaml.rigbundle-backup/a", nil, 1, "is taken"},
		{"the backup's name is taken", "a.md", func(d string) error {
			return os.WriteFile(filepath.Join(d, "rig.yaml.rigbundle-backup"), nil, 0o644)
		}, 1, "is taken"},
		{"a directory in the way", "a.md", func(d string) error { return os.Mkdir(filepath.Join(d, "a.md"), 0o755) }, 1, "not a regular file"},
		{"the bundle fills the lock's name", ".RigBundle-lock.json", nil, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newRig(t)
			spec := filepath.Join(dir, "rig.yaml")
			text, err := os.ReadFile(spec)
			if err != nil {
				t.Fatal(err)
			}
			doc, target := filepath.Join(dir, c.doc), filepath.Join(dir, "T")
			for _, err := range []error{
				os.WriteFile(spec, append(text, "docs: [{path: "+c.doc+"}]\n"...), 0o644),
				os.MkdirAll(filepath.Dir(doc), 0o755), os.WriteFile(doc, []byte("ours\n"), 0o644),
				os.Mkdir(target, 0o755), os.WriteFile(filepath.Join(target, "rig.yaml"), []byte("foreign\n"), 0o644),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if c.prepare != nil {
				if err := c.prepare(target); err != nil {
					t.Fatal(err)
				}
			}
			if status, _, errs := command(dir, nil, "create", "rig.yaml", "-o", "x.rigbundle"); status != 0 {
				t.Fatal(errs)
			}
			status, out, errs := command(dir, nil, "install", "x.rigbundle", "--target", "T", "--backup")
			if status != c.status || !strings.Contains(errs, c.hint) || strings.Contains(errs, "--backup moves") {
				t.Errorf("exit %d, %s%s", status, out, errs)
			}
			kept := filepath.Join(target, "rig.yaml")
			if status == 0 {
				kept += ".rigbundle-backup"
			}
			if got, err := os.ReadFile(kept); err != nil || string(got) != "foreign\n" {
				t.Errorf("the foreign file: %q, %v", got, err)
			}
		})
	}
}
