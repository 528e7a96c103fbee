package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwner: root is told to index as the user of the hooks, which could not write
// to what root makes. For whoever owns the repository nothing changes.
func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving a repository to another user needs root")
	}
	bare, _ := server(t, "team", "")
	must(t, bare, "index") // control
	err := filepath.WalkDir(bare.Dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, 65534, 65534)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"index"}, {"status"}, {"ship", "--once"}} {
		if got := control(bare, args...); got.code != 2 || !strings.Contains(got.err, "another user owns it") || !strings.Contains(got.err, "hint: sudo -u nobody rig-hook "+args[0]+"\n") {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
}
