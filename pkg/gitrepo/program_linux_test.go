package gitrepo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// What is kept of a git program is heeded for that program as it is, and only if nobody
// else could have written it.
func TestSystemConfigIsKept(t *testing.T) {
	g := gittest.New(t, gittest.Options{})
	of, err := os.ReadFile("/usr/bin/git")
	if _, known := systemConfig("/usr/bin/git"); err != nil || !known {
		t.Skip("there is no git in /usr/bin that is read in its place")
	}
	git := filepath.Join(g.Home, "git")
	if err := os.WriteFile(git, of, 0o755); err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		r, err := OpenIdle(context.Background(), Env{Environ: g.Env, Dir: g.Dir, Git: git})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		path, ok := r.systemConfig()
		if !ok {
			t.Fatal("a copy of git is not known")
		}
		return path
	}
	dir := filepath.Join(g.Dir, ".git", "rigward")
	file := filepath.Join(dir, "git")
	own := ask()
	if _, err := os.Lstat(dir); err == nil {
		t.Errorf("%s was made for it", dir)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ask()
	line, err := os.ReadFile(file)
	if err != nil || !bytes.HasSuffix(line, []byte(" "+own+"\n")) {
		t.Fatalf("%v, %q is kept", err, line)
	}
	put := func(text []byte, mode os.FileMode) {
		t.Helper()
		_ = os.Remove(file)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	other := bytes.Replace(line, []byte(" "+own+"\n"), []byte(" /elsewhere\n"), 1)
	for _, c := range []struct {
		what string
		text []byte
		mode os.FileMode
		want string
	}{
		{"what is kept is heeded", other, 0o644, "/elsewhere"},
		{"others could write it", other, 0o646, own},
		{"its group could write it", other, 0o664, own},
		{"it is cut off", bytes.TrimSuffix(other, []byte("\n")), 0o644, own},
		{"it is relative", bytes.Replace(other, []byte(" /elsewhere"), []byte(" elsewhere"), 1), 0o644, own},
		{"it is empty", nil, 0o644, own},
		{"it is of another program", bytes.Replace(other, []byte("git"), []byte("gat"), 1), 0o644, own},
	} {
		put(c.text, c.mode)
		if got := ask(); got != c.want {
			t.Errorf("%s: %q, expected %q", c.what, got, c.want)
		}
	}
	// A program that was written anew is another one, also with the same size and time.
	put(other, 0o644)
	info, err := os.Stat(git)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(git, of, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(git, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != own {
		t.Errorf("of a program written anew: %q", got)
	}
	if text, _ := os.ReadFile(file); strings.Contains(string(text), "/elsewhere") {
		t.Errorf("it is kept: %q", text)
	}
}
