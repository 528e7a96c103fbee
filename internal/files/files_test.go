package files

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	for i, write := range []func(string, []byte, os.FileMode) error{Replace, Swap, Replace} {
		data := []byte{byte('a' + i)}
		if err := write(file, data, 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != string(data) {
			t.Errorf("%q %v", got, err)
		}
	}
	if err := errors.Join(os.WriteFile(other, []byte("other"), 0o644), os.Remove(file)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other", file); err != nil {
		t.Skip("no links here: what stands in a file's place is not tried")
	}
	if err := Replace(file, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(other); string(got) != "other" {
		t.Errorf("a link was followed: %q", got)
	}
	failure := errors.New("no")
	if err := fill(file, 0o644, func(f *os.File) error { f.WriteString("half"); return failure }); !errors.Is(err, failure) {
		t.Error(err)
	}
	if got, _ := os.ReadFile(file); string(got) != "new" {
		t.Errorf("a write that failed left %q", got)
	}
	if err := Replace(filepath.Join(dir, "none", "file"), nil, 0o644); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(file, os.O_RDONLY|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b := open(), open()
	if err := Lock(a); err != nil {
		t.Fatal(err)
	}
	if err := TryLock(b); !errors.Is(err, ErrLocked) {
		t.Errorf("a lock that is held was taken: %v", err)
	}
	got := make(chan error, 1)
	go func() { got <- Lock(b) }()
	Unlock(a)
	if err := <-got; err != nil {
		t.Error(err)
	}
	if err := TryLock(a); !errors.Is(err, ErrLocked) {
		t.Errorf("a lock that went over was taken: %v", err)
	}
}

// TestOutput: a file that the user names is replaced as a whole, through a link, and what is no file is written into.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	for _, text := range []string{"new", "another"} {
		if err := Output(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(file); string(got) != text {
			t.Errorf("%q", got)
		}
	}
	if os.Symlink("file", link) == nil {
		if err := Output(link, []byte("through")); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(file); string(got) != "through" {
			t.Errorf("%q", got)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode().IsRegular() {
			t.Errorf("the link is replaced: %v %v", info, err)
		}
	}
	if err := Output(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s is replaced: %v", os.DevNull, err)
	}
	if err := Output(dir, []byte("x")); err == nil {
		t.Error("a directory was written")
	}
}

func TestTemporary(t *testing.T) {
	dir := t.TempDir()
	d, err := NewDraft(filepath.Join(dir, "file"), 0o600, func(*os.File) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || !Temporary(left[0].Name()) {
		t.Errorf("%v %v", left, err)
	}
	d.Drop()
	for name, want := range map[string]bool{
		TempPrefix + "123": true, TempPrefix + "0123456789abcdef0123456789abcdef": true, TempPrefix: false, TempPrefix + "123a": false,
		TempPrefix + "notes": false, "x" + TempPrefix + "123": false, TempPrefix + "123.md": false, "rigward-123": false,
	} {
		if Temporary(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

func TestHint(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are of other systems")
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&os.PathError{Path: "/a b/c", Err: syscall.ENOSPC}, "make room, and run it again: df -h '/a b'; df -i '/a b'"},
		{&os.PathError{Path: "c", Err: syscall.EDQUOT}, "make room, and run it again: df -h; df -i"},
		{&os.PathError{Path: "/a/c", Err: syscall.EROFS}, "the file system can only be read: df /a"},
		{&os.PathError{Path: "/a/c", Err: syscall.EACCES}, "ls -ld /a"},
		{syscall.EFBIG, "no larger file may be written here: ulimit -f"}, {os.ErrNotExist, ""}, {os.ErrPermission, ""}, {errors.New("no"), ""},
	} {
		if got := Hint(c.err); got != c.want {
			t.Errorf("%v: %q", c.err, got)
		}
	}
}

// Read is what os.ReadFile is, of files of any size and of what is none.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 511, 4096, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3 << 20} {
		name := filepath.Join(dir, "f")
		want := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d of %d bytes, %v", len(got), size, err)
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, "none"), filepath.Join(dir, "f", "below")} {
		_, want := os.ReadFile(name)
		if _, err := Read(name); err == nil || err.Error() != want.Error() || errors.Is(err, fs.ErrNotExist) != errors.Is(want, fs.ErrNotExist) {
			t.Errorf("%v, expected %v", err, want)
		}
	}
}
