package files

import (
	"errors"
	"os"
	"path/filepath"
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
	if err := Fill(file, 0o644, func(f *os.File) error { f.WriteString("half"); return failure }); !errors.Is(err, failure) {
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
