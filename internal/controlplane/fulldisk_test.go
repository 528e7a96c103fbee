package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/fulldisk"
	"github.com/rigward/rigward/pkg/policy"
)

// TestFullDisk: where the disk of the database is full, that is what is said, with the
// command that shows it, and the database goes on when there is room again.
func TestFullDisk(t *testing.T) {
	disk := fulldisk.New(t, "2m")
	dir := filepath.Join(disk.Dir, "db")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	target, err := ParseTarget("sqlite:control.db", dir)
	if err != nil {
		t.Fatal(err)
	}
	use := func() error {
		db, err := Open(t.Context(), target, true)
		if err != nil {
			return err
		}
		defer db.Close()
		return db.Rename(t.Context(), "none", "other")
	}
	if err := use(); err != nil && strings.Contains(err.Error(), "disk") {
		t.Fatal(err) // control
	}
	disk.Fill(t, 0)
	err = use()
	if err == nil || !strings.Contains(err.Error(), "full") || !strings.HasPrefix(policy.HintOf(err), "make room, and run it again: df -h ") {
		t.Errorf("%v\nhint: %s", err, policy.HintOf(err))
	}
	disk.Free(t)
	if err := use(); err != nil && strings.Contains(err.Error(), "disk") {
		t.Error(err)
	}
}
