package hooks_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// What hooks keep in the git directory takes the place of a link and of a FIFO that
// lie there: nothing is written elsewhere, and nobody waits.
func TestKeptFilesAreFiles(t *testing.T) {
	t.Parallel()
	for name, lay := range map[string]func(file, other string) error{
		"a link": func(file, other string) error { return os.Symlink(other, file) },
		"a FIFO": func(file, _ string) error { return syscall.Mkfifo(file, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := developer(t, gittest.Options{})
			c := w.clone
			own(t, c, "version: 1\n")
			c.Write("release-check/STATE.md", turn("release-check", "STATE", "Good.\n"))
			c.Run("add", "release-check")
			message, other := filepath.Join(c.Dir, ".git", "MESSAGE"), filepath.Join(c.Home, "other")
			write(t, message, "Say it\n")
			write(t, other, "of somebody else\n")
			dir := filepath.Join(c.Dir, ".git", "rigward")
			for _, file := range []string{"staged", "git", "root"} {
				if err := os.RemoveAll(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := lay(filepath.Join(dir, file), other); err != nil {
					t.Fatal(err)
				}
			}
			must(t, rig(c, c.Dir, "", "commit-msg", message), 0)
			must(t, rig(c, c.Dir, "", "pre-commit"), 0)
			must(t, rig(c, c.Dir, "", "commit-msg", message), 0)
			if info, err := os.Lstat(filepath.Join(dir, "staged")); err != nil || !info.Mode().IsRegular() {
				t.Errorf("staged is kept as %v, %v", info, err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			elsewhere := filepath.Join(c.Home, "elsewhere")
			if err := os.Mkdir(elsewhere, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(elsewhere, dir); err != nil {
				t.Fatal(err)
			}
			must(t, rig(c, c.Dir, "", "pre-commit"), 0)
			must(t, rig(c, c.Dir, "", "commit-msg", message), 0)
			must(t, rig(c, c.Dir, "", "check", "--all"), 0)
			for _, args := range [][]string{{"status"}, {"thread", "release-check"}} {
				if _, errs, code := (&reader{t, c}).run(args...); code != 0 {
					t.Errorf("%q: exit %d %s", args, code, errs)
				}
			}
			if list, err := os.ReadDir(elsewhere); err != nil || len(list) > 0 {
				t.Errorf("where the directory leads to: %v, %v", list, err)
			}
			// Made anew it is open to whoever may write beside it.
			if err := errors.Join(os.Remove(dir), os.Chmod(filepath.Dir(dir), 0o775)); err != nil {
				t.Fatal(err)
			}
			if _, errs, code := (&reader{t, c}).run("thread", "release-check"); code != 0 {
				t.Errorf("thread: exit %d %s", code, errs)
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o775 {
				t.Errorf("the directory is made as %v, %v", info.Mode(), err)
			}
			if text, err := os.ReadFile(other); err != nil || string(text) != "of somebody else\n" {
				t.Errorf("what the link leads to: %q, %v", text, err)
			}
		})
	}
}
