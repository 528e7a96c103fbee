package bridge

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/rigward/rigward/internal/files"
)

// lockWait is how long a command waits for another one in the same clone.
const lockWait = 10 * time.Second

// lockFile serialises the writers of a clone. It lies in git's common
// directory, so that linked worktrees share it, and is never removed.
const lockFile = "rig-bridge.lock"

// lock takes the clone's lock, which the system releases when this process and
// the git children that inherited it (gitWith) have ended. unlock may be called
// twice.
func (w *work) lock(ctx context.Context) (unlock func(), err error) {
	f, release, err := lockFileAt(ctx, filepath.Join(w.repo.CommonDir(), lockFile))
	if err != nil {
		return nil, err
	}
	w.held = f
	return func() { w.held = nil; release() }, nil
}

// lockFileAt locks a file, which is made if it is not there; a link is not
// followed.
func lockFileAt(ctx context.Context, path string) (f *os.File, unlock func(), err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|files.NoFollow, 0o644)
	if err != nil {
		return nil, nil, cannotWrite(path, err)
	}
	pause := 16 * time.Millisecond // shorter the longer we wait, so that nobody starves
	timeout := time.NewTimer(lockWait)
	defer timeout.Stop()
	for {
		err := files.TryLock(f)
		if err == nil {
			// Released by name: a child that outlives us keeps its copy of f,
			// and must not keep the lock.
			return f, func() { files.Unlock(f); f.Close() }, nil
		}
		if !errors.Is(err, files.ErrLocked) {
			f.Close()
			return nil, nil, cannotWrite(path, &fs.PathError{Op: "lock", Path: path, Err: err})
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
			pause = max(pause-pause/32, time.Millisecond)
		case <-timeout.C:
			f.Close()
			return nil, nil, fail(codeRuntime, "another rig-bridge has been writing in this clone for %s (lock %s)", lockWait, quote(path)).
				withHint("run the command again when the other one has ended").orTool("the same call again, when the other one has ended")
		case <-ctx.Done():
			f.Close()
			return nil, nil, context.Cause(ctx)
		}
	}
}
