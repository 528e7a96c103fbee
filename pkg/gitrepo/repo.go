package gitrepo

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/rigward/rigward/pkg/finding"
)

// A Repo is one repository, opened for reading. Its methods may be called from
// several goroutines.
type Repo struct {
	ctx context.Context
	env Env
	git string
	place
	cat   *session
	trees treeCache

	lately commits

	configOnce sync.Once
	config     map[string][]configValue
	configErr  error
}

// A place is where a repository is and of which kind.
type place struct {
	gitDir, commonDir string // absolute
	workTree          string // absolute; "" if there is none
	bare              bool
	format            string // "sha1" or "sha256"
	plain             bool   // refs are files that can be read without git
}

// Open finds the repository as git does from env: GIT_DIR, GIT_WORK_TREE and
// the other variables as given, else upwards from env.Dir. The context governs
// the whole life of the Repo: cancelling it kills the children and makes every
// later call fail. Close the Repo after use.
//
// Errors: ErrNotRepository, ErrNoGit, ErrUnsafe, ErrQuarantine if a push's
// objects should be readable and aren't, ErrGrafts. That git is too old
// (ErrTooOld) may also show at the first reading call.
func Open(ctx context.Context, env Env) (*Repo, error) {
	r, err := OpenIdle(ctx, env)
	if err != nil {
		return nil, err
	}
	if err := r.cat.start(); err != nil {
		return nil, err
	}
	// Whoever reads objects reads the configuration, too: both start now.
	go func() { _, _ = r.configValues("") }()
	return r, nil
}

// OpenIdle is Open for a caller that may need no object at all: no child is
// started before the first one is read.
func OpenIdle(ctx context.Context, env Env) (*Repo, error) {
	git, err := env.program()
	if err != nil {
		return nil, err
	}
	r := &Repo{ctx: ctx, env: env, git: git}
	if err := checkQuarantine(env); err != nil {
		return nil, err
	}
	var ok bool
	if r.place, ok = findPlain(env); !ok {
		if r.place, err = askPlace(ctx, env, git); err != nil {
			return nil, err
		}
	}
	if err := r.refuseGrafts(); err != nil {
		return nil, err
	}
	r.cat = &session{ctx: ctx, env: env, git: git, known: r.EmptyTree()}
	return r, nil
}

// Close ends the children and waits for them. Every later call fails.
func (r *Repo) Close() error {
	r.configOnce.Do(func() { r.configErr = errClosed() }) // or wait for it
	r.cat.close()
	r.lately.clear()
	return nil
}

// GitDir is the absolute path of the git directory; of a linked worktree, its
// own.
func (r *Repo) GitDir() string { return r.gitDir }

// CommonDir is the absolute path of the directory that all worktrees of the
// repository share.
func (r *Repo) CommonDir() string { return r.commonDir }

// WorkTree is the absolute path of the worktree's top, "" if there is none.
func (r *Repo) WorkTree() string { return r.workTree }

// Bare reports whether the repository is bare.
func (r *Repo) Bare() bool { return r.bare }

// ObjectFormat is "sha1" or "sha256".
func (r *Repo) ObjectFormat() string { return r.format }

// Program is the path of the git that answers.
func (r *Repo) Program() string { return r.git }

// Env is what the Repo was opened with.
func (r *Repo) Env() Env { return r.env }

// checkQuarantine finds out that a wrapper between git and the hook has
// dropped variables or mapped paths, so that the objects of a push, which are
// held apart until its hook has accepted them (git-receive-pack, QUARANTINE
// ENVIRONMENT), cannot be seen.
func checkQuarantine(env Env) error {
	path := env.Get("GIT_QUARANTINE_PATH")
	if path == "" {
		return nil
	}
	const hint = "run the hook as git starts it: same user, same paths, every GIT_* variable kept"
	if env.Get("GIT_OBJECT_DIRECTORY") == "" {
		return &Error{Kind: ErrQuarantine, Hint: hint,
			Message: "GIT_QUARANTINE_PATH is set but GIT_OBJECT_DIRECTORY is not, so the pushed objects cannot be read"}
	}
	for _, dir := range []string{path, env.Get("GIT_OBJECT_DIRECTORY")} {
		f, err := os.Open(env.path(dir))
		if err == nil {
			_, err = f.Readdirnames(1)
			_ = f.Close()
			if err != nil && isEOF(err) {
				err = nil
			}
		}
		if err != nil {
			return &Error{Kind: ErrQuarantine, Cause: err, Hint: hint,
				Message: "the pushed objects in " + finding.Path(dir) + " cannot be read: " + osReason(err)}
		}
	}
	return nil
}

// refuseGrafts refuses a history that grafts alter: git would show another one
// than the commits say, and our answers would differ from what people see.
func (r *Repo) refuseGrafts() error {
	file := filepath.Join(r.commonDir, "info", "grafts")
	if v, ok := r.env.Lookup("GIT_GRAFT_FILE"); ok {
		file = r.env.path(v)
		if v == "" {
			return nil
		}
	}
	st, err := os.Stat(file)
	if os.IsNotExist(err) || err == nil && (st.Size() == 0 || !st.Mode().IsRegular()) {
		return nil
	}
	if err != nil {
		return &Error{Kind: ErrGrafts, Cause: err, Message: "grafts file " + finding.Path(file) + " cannot be read: " + osReason(err)}
	}
	return &Error{Kind: ErrGrafts, Message: "grafts in " + finding.Path(file) + " alter the history, expected none",
		Hint: "rm " + finding.Word(file)}
}
