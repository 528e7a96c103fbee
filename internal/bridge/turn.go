package bridge

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rigward/rigward/internal/verdict"
)

// Clients of one user that push to the same branch of the same remote take turns:
// else most of what they do is to be overtaken by each other. A turn is courtesy and
// nothing depends on it. Who has it loses it when the process ends, and after
// longestTurn; who does not get it in lockWait pushes without one, as everybody does
// who pushes from elsewhere.
type turn struct {
	mine atomic.Bool
	end  func() // may be called twice
}

const longestTurn = 5 * time.Second

// lasts reports whether nobody else of this user pushes there now.
func (t *turn) lasts() bool { return t.mine.Load() }

// takeTurn waits for the turn to push to the target.
func (r *delivery) takeTurn() *turn {
	none := &turn{end: func() {}}
	t, dir := r.p.target, verdict.UserDir(r.env.Getenv)
	url, err := r.w.config("remote." + t.remote + ".url")
	if err != nil || url == "" {
		url = t.remote
	}
	name := digest("turn", url, t.ref)
	if dir == "" || name == "" || os.MkdirAll(filepath.Join(dir, "turns"), 0o700) != nil {
		return none
	}
	_, unlock, err := lockFileAt(r.ctx, filepath.Join(dir, "turns", name))
	if err != nil {
		return none
	}
	own := &turn{}
	own.mine.Store(true)
	own.end = sync.OnceFunc(func() {
		own.mine.Store(false)
		unlock()
	})
	time.AfterFunc(longestTurn, own.end)
	return own
}

// overtaken reports whether it can be seen in the files of a remote of this machine
// that it would not take a commit, since its branch has moved. No is not certain.
func (w *work) overtaken(ctx context.Context, t target, commit string) bool {
	files := w.repo.RemoteFiles(t.remote, t.ref)
	if other, err := w.config("remote." + t.remote + ".pushurl"); len(files) == 0 || other != "" || err != nil {
		return false
	}
	data, err := readFile(files[0], maxRefFile)
	tip := strings.TrimSpace(string(data))
	if err != nil || !w.repo.ValidID(tip) {
		return false
	}
	has, err := w.repo.Has([]string{tip})
	if err != nil {
		return false
	}
	if has[0] != "commit" {
		return true
	}
	behind, err := w.repo.IsAncestor(ctx, tip, commit)
	return err == nil && !behind
}
