// Package fulldisk makes small disks for tests, and fills them.
package fulldisk

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// A Disk is a file system of its own in memory, until the test ends.
type Disk struct {
	Dir  string // where it is mounted
	fill string // takes the room
}

// New mounts a disk of a size as mount writes it, such as 4m. The test is skipped where
// that may not be done.
func New(t *testing.T, size string) *Disk {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("small disks are made on Linux alone")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "rigward-test", dir).CombinedOutput(); err != nil {
		t.Skipf("no tmpfs can be mounted here: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%s", out)
		}
	})
	return &Disk{dir, filepath.Join(dir, ".taken")}
}

// Fill takes the room but for so many bytes, which are whole pages.
func (d *Disk) Fill(t *testing.T, leave int64) {
	t.Helper()
	f, err := os.Create(d.fill)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, os.Getpagesize())
	size := int64(0)
	for {
		n, err := f.Write(page)
		if size += int64(n); err != nil {
			break
		}
	}
	if err := f.Truncate(max(0, size-leave)); err != nil {
		t.Fatal(err)
	}
}

// Free gives the room back.
func (d *Disk) Free(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.fill); err != nil {
		t.Fatal(err)
	}
}
