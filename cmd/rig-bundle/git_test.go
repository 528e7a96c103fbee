package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNoRepository: git is left out only where it finds no repository, either.
func TestNoRepository(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"plain/a/b", "tree/a", "file/a", "linked", "odd/a"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) error {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = top, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + top, "GIT_CONFIG_NOSYSTEM=1"}
		return cmd.Run()
	}
	if git("rev-parse", "--git-dir") == nil {
		t.Skip("the directory for temporary files lies in a repository")
	}
	for _, args := range [][]string{{"init", "-q", "tree"}, {"init", "-q", "--bare", "bare"}, {"init", "-q", "--separate-git-dir", "elsewhere", "file"}} {
		if err := git(args...); err != nil {
			t.Fatal(args, err)
		}
	}
	put(t, filepath.Join(top, "odd/HEAD"), "no repository, but git decides", 0o644)
	link := os.Symlink(filepath.Join(top, "tree/a"), filepath.Join(top, "linked/a")) == nil
	for _, c := range []struct {
		dir  string
		env  []string
		want bool
	}{
		{"plain/a/b", nil, true},
		{"plain/a/b", []string{"GIT_DIR=" + top + "/tree/.git"}, false},
		{"plain/a/b", []string{"GIT_DIR="}, false},
		{"tree", nil, false},
		{"tree/a", nil, false},
		{"file/a", nil, false},
		{"bare", nil, false},
		{"bare/refs", nil, false},
		{"odd/a", nil, false},
		{"linked/a", nil, !link},
		{"none", nil, false},
	} {
		got := (&call{Env: Env{Environ: c.env}}).noRepository(filepath.Join(top, c.dir))
		if got != c.want {
			t.Errorf("%s %v: %t", c.dir, c.env, got)
		}
		if got && git("-C", c.dir, "rev-parse", "--git-dir") == nil {
			t.Errorf("git finds a repository for %s", c.dir)
		}
	}
}
