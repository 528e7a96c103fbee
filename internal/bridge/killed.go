package bridge

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// Notes of what a run without a journal does to files on which git has locks. They lie in
// rigward/ of the git directory, and are empty while nobody does it.
const (
	fetchingNote = "fetching"
	pullingNote  = "pulling"
)

// afterKilled sets right what runs have left that were killed while they fetched or moved
// the branch. The clone's lock is held.
func (w *work) afterKilled(ctx context.Context, t target) error {
	dir, err := w.stateDir(false)
	if err != nil {
		return nil // then there are no notes
	}
	for _, name := range []string{pullingNote, fetchingNote} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			continue
		}
		if err := w.noted(ctx, name, t, "", func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// noted runs do, and keeps a note of it meanwhile, of which what is the text. Where a run
// was killed that had noted the same, the locks that it left are removed first
// (removeLocks), and what it had taken half is taken back. Without a note it is done, too,
// as when another run here does the same.
func (w *work) noted(ctx context.Context, name string, t target, what string, do func() error) error {
	dir, err := w.stateDir(true)
	if err != nil {
		return do()
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|files.NoFollow, 0o644)
	if err != nil {
		return do()
	}
	defer f.Close()
	if files.TryLock(f) != nil { // which ends with its process
		return do()
	}
	defer files.Unlock(f)
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return do()
	}
	if info.Size() > 0 {
		locked := []string{"index", "HEAD", "ORIG_HEAD", t.branch}
		if name == fetchingNote {
			locked = []string{t.tracking}
		}
		err := w.removeLocks(ctx, w.root, locked, info.ModTime(), info.ModTime())
		if err == nil && name == pullingNote {
			data := make([]byte, maxNote)
			n, _ := f.ReadAt(data, 0)
			err = w.untake(ctx, t, string(data[:n]))
		}
		if err != nil {
			return err
		}
	}
	if f.Truncate(0) != nil {
		return do()
	}
	if _, err := f.WriteAt([]byte(what+"\n"), 0); err != nil {
		return do()
	}
	err = do()
	if !w.killed.Load() { // else its git may have left locks
		_ = f.Truncate(0)
	}
	return err
}

// maxNote is how much of a note is read, in bytes.
const maxNote = 256

// untake takes back what a pull has put into index and work tree that was killed before
// it moved the branch: the files that it adds, as far as they are what it adds. Else they
// would be in the way of the next one. The note names the commits that it pulled from and to.
func (w *work) untake(ctx context.Context, t target, note string) error {
	from, to, _ := strings.Cut(strings.TrimSpace(note), " ")
	head, err := w.ref(t.branch)
	if err != nil || head != from || !w.repo.ValidID(to) {
		return err
	}
	changes, err := w.diff(from, to)
	if err != nil {
		return err
	}
	index, err := w.repo.Index(ctx)
	if err != nil {
		return gitProblem(err)
	}
	var staged []string
	for _, ch := range changes {
		if !ch.Added() {
			continue
		}
		if e, there := index.Lookup(ch.Path); there && e.ID == ch.NewID {
			staged = append(staged, ch.Path)
		}
		file := filepath.Join(w.root, filepath.FromSlash(ch.Path))
		if dir, err := os.Lstat(filepath.Dir(file)); err != nil || !dir.IsDir() || strings.Count(ch.Path, "/") > 1 {
			continue // it is not known where that leads
		}
		if data, err := readFile(file, envelope.DefaultLimits().File); err == nil && w.blobID(data) == ch.NewID {
			if err := os.Remove(file); err != nil {
				return cannotWrite(file, err)
			}
		}
	}
	if len(staged) == 0 {
		return nil
	}
	res, err := w.gitWith(ctx, gitrepo.Command{Args: []string{"update-index", "--force-remove", "-z", "--stdin"}, Stdin: []byte(strings.Join(staged, "\x00") + "\x00"), Timeout: localTime})
	if err == nil && res.Code != 0 {
		return gitFailed("git update-index", res)
	}
	return err
}
