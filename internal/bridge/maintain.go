package bridge

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Below these `git maintenance run --auto`, which commit, fetch and merge start
// when they are done, finds nothing to do (git-gc: gc.auto is 6700 loose objects, told
// from the 256th part of them; gc.autoPackLimit is 50).
const (
	fewLoose = 20 // objects in one of 256 directories
	fewPacks = 50 // files beside packs
)

// nothingToMaintain tells that git need not look whether the repository wants
// maintenance, which costs the start of a process. Where the configuration
// speaks of it, or a look does not show it, git does.
func (w *work) nothingToMaintain() (bool, error) {
	if off, set, err := w.repo.ConfigBool("maintenance.auto"); err == nil && set && !off {
		return true, nil // then none of them starts it
	}
	for _, section := range []string{"gc", "maintenance"} {
		set, err := w.repo.ConfigSection(section)
		if err != nil {
			return false, gitProblem(err)
		}
		if len(set) > 0 {
			return false, nil
		}
	}
	if w.repo.Env().Get("GIT_OBJECT_DIRECTORY") != "" {
		return false, nil
	}
	objects := filepath.Join(w.repo.CommonDir(), "objects")
	for dir, most := range map[string]int{"17": fewLoose, "pack": fewPacks} {
		entries, err := os.ReadDir(filepath.Join(objects, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) > most {
			return false, nil
		}
	}
	return true, nil
}

// untended is what comes before a git command that would start maintenance: nothing,
// or what keeps it from that where there is nothing to maintain.
func (w *work) untended() ([]string, error) {
	idle, err := w.nothingToMaintain()
	if !idle || err != nil {
		return nil, err
	}
	return []string{"-c", "maintenance.auto=false"}, nil
}
