package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/rigvectors"
)

// TestHostileInstall installs every archive of the vectors. A refused one
// leaves nothing at all; of an accepted one come regular files and directories
// below the target with plain modes, and nothing beside it (F13).
func TestHostileInstall(t *testing.T) {
	dir := rigvectors.Dir(t)
	entries, _ := rigvectors.Read(t, dir)
	refused, installed := 0, 0
	for _, e := range entries {
		if e.Kind != "archive" {
			continue
		}
		work := t.TempDir()
		target := filepath.Join(work, "in", "T")
		args := []string{"install", filepath.Join(dir, e.File), "--target", target}
		for name, v := range e.Limits {
			args = append(args, "--limit", name+"="+strconv.FormatInt(v, 10))
		}
		status, out, errs := command(work, nil, args...)
		if status == 2 {
			t.Errorf("%s: could not decide: %s", e.ID, errs)
		}
		if status != 0 {
			refused++
			if left, _ := os.ReadDir(work); len(left) > 0 {
				t.Errorf("%s: refused with %q, and left %v", e.ID, out, left)
			}
			continue
		}
		installed++
		if e.Code != "ok" {
			t.Errorf("%s: installed, the vector says %s", e.ID, e.Code)
		}
		filepath.WalkDir(work, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Error(err)
				return err
			}
			info, err := d.Info()
			if err != nil {
				t.Error(err)
				return err
			}
			inside := strings.HasPrefix(target+"/", p+"/") || strings.HasPrefix(p, target+"/")
			mode := info.Mode()
			switch {
			case !inside:
				t.Errorf("%s: wrote %s outside the target", e.ID, p)
			case d.IsDir():
			case !mode.IsRegular() || mode != 0o644 && mode != 0o755:
				t.Errorf("%s: %s has mode %v", e.ID, p, mode)
			}
			return nil
		})
	}
	t.Logf("%d refused, %d installed", refused, installed)
}
