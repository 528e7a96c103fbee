package controlplane

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// What is shown of a database and of a repository holds no password and
// nothing that moves a terminal's cursor.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"x.db", "sqlite:a/b.db", "/srv/x.db", "postgres://db.example/rigs", "postgres://u:hunter2@db.example/rigs?sslmode=disable",
		"postgres://u:1/hunter2@db.example/rigs", "postgresql:///rigs?host=/run/postgresql", "mysql://x", "", "sqlite:", "a\x1b[2J.db"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := ParseTarget(s, "/dir")
		for _, shown := range []string{target.String(), errorText(err)} {
			if strings.ContainsFunc(shown, unicode.IsControl) {
				t.Errorf("%q is shown as %q", s, shown)
			}
		}
		if err != nil {
			return
		}
		if (target.dsn == "") == (target.path == "") {
			t.Errorf("%q: neither or both of file and address: %+v", s, target)
		}
		if target.path != "" && !filepath.IsAbs(target.path) {
			t.Errorf("%q: the relative path %q", s, target.path)
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestNoPasswordShown(t *testing.T) {
	for _, s := range []string{"postgres://u:hunter2@db.example/rigs", "postgres://u:1/hunter2@db.example/rigs", "postgres://db.example/rigs?password=hunter2", "postgres://u:hunter2%zz@db.example/rigs", "postgres://u:a b/hunter2@h/d"} {
		target, err := ParseTarget(s, "/dir")
		if shown := target.String() + errorText(err); strings.Contains(shown, "hunter2") {
			t.Errorf("%s is shown as %s", s, shown)
		}
	}
	if target, err := ParseTarget("postgres://u:hunter2@db.example/rigs", "/dir"); err != nil || target.String() != "postgres://db.example/rigs" {
		t.Errorf("control: %v, %v", target, err)
	}
	if got := RepositoryName("", "https://u:hunter2@example.com/team/bridge.git", "/srv/x"); strings.Contains(got, "hunter2") || got == "" {
		t.Errorf("the origin is named %q", got)
	}
}
