//go:build unix

package history

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The index of a repository that a group writes to is the group's, whatever the
// umask of who made it; that of another repository stays as it is; and a link
// in its place is not followed.
func TestShare(t *testing.T) {
	top := t.TempDir()
	place := func(name string, above, mode fs.FileMode) string {
		t.Helper()
		dir := filepath.Join(top, name, "rigward")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Dir(dir), above); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	mode := func(dir string) fs.FileMode {
		t.Helper()
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode() & (fs.ModePerm | fs.ModeSetgid)
	}
	for _, c := range []struct {
		name              string
		above, made, want fs.FileMode
	}{
		{"group", 0o775 | fs.ModeSetgid, 0o700, 0o775 | fs.ModeSetgid},
		{"group only", 0o770 | fs.ModeSetgid, 0o700 | fs.ModeSetgid, 0o770 | fs.ModeSetgid},
		{"one user", 0o755, 0o700, 0o700},
	} {
		dir := place(c.name, c.above, c.made)
		_ = (&Index{Dir: dir}).Save()
		if m := mode(dir); m != c.want {
			t.Errorf("%s: the index has mode %v, want %v", c.name, m, c.want)
		}
	}
	elsewhere := place("elsewhere", 0o755, 0o700)
	link := filepath.Join(filepath.Dir(place("linked", 0o775, 0o700)), "link")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	_ = (&Index{Dir: link}).Save()
	if m := mode(elsewhere); m != 0o700 {
		t.Errorf("what a link leads to has mode %v", m)
	}

	if os.Geteuid() != 0 {
		t.Skip("not root: whom root's index goes to is not tried")
	}
	dir := place("owned", 0o755, 0o755)
	if err := os.Chown(filepath.Dir(dir), 12345, 12346); err != nil {
		t.Fatal(err)
	}
	_ = (&Index{Dir: dir}).Save()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 12345 || st.Gid != 12346 {
		t.Errorf("the index belongs to %d:%d", st.Uid, st.Gid)
	}
}
