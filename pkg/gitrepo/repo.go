package gitrepo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rigward/rigward/internal/files"
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

	knownOnce sync.Once
	known     map[string][]configValue // the configuration as read without git; nil: git is asked for all
	stored    *store                   // nil: objects are read by git alone

	packedOnce sync.Once
	packed     *packReader // of many commits
	much       atomic.Bool // packed was asked for more than trees

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
	if r.knownGit() && r.stored != nil {
		return r, nil
	}
	if err := r.cat.start(); err != nil {
		return nil, err
	}
	// Whoever reads objects reads the configuration, too: both start now.
	go func() { _, _ = r.configValues("") }()
	return r, nil
}

// knownGit reports whether files of the repository can be read in git's place: it
// is a plain one, git is a program that is known to read them so, and all of its
// configuration can be read.
func (r *Repo) knownGit() bool {
	r.knownOnce.Do(func() {
		if !r.plain || !r.env.As.Current() || r.env.tested() {
			return
		}
		system, ok := r.systemConfig()
		if !ok {
			return
		}
		if r.known, ok = plainConfig(r.env, system, filepath.Join(r.commonDir, "config")); ok {
			r.stored = newStore(r.env, r.commonDir, r.HashLen()/2)
		}
	})
	return r.known != nil
}

// tested reports whether a variable is set by which git's own tests make it behave
// in another way.
func (e Env) tested() bool {
	for _, kv := range e.Environ {
		if strings.HasPrefix(kv, "GIT_TEST_") && !strings.HasPrefix(kv, "GIT_TEST_FSYNC=") {
			return true
		}
	}
	return false
}

// headers returns type and size of objects, in the order of ids: as the files of
// the repository say, else git.
func (r *Repo) headers(ids []ID) ([]header, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err // git may answer once more before it ends
	}
	heads, all := make([]header, len(ids)), false
	if r.knownGit() {
		heads, all = r.stored.info(ids)
	}
	if !all && (len(ids) > maxStoreBatch || r.stored.exhausted()) {
		r.much.Store(true)
		all = r.packReader().info(ids, heads)
	}
	if all {
		return heads, nil
	}
	return r.otherHeaders(ids, heads)
}

// otherHeaders asks git for those of headers that have no id yet.
func (r *Repo) otherHeaders(ids []ID, heads []header) ([]header, error) {
	var rest []ID
	for i, h := range heads {
		if h.id == "" {
			rest = append(rest, ids[i])
		}
	}
	more, err := r.cat.info(rest)
	if err != nil {
		return nil, err
	}
	for i, h := range heads {
		if h.id == "" {
			heads[i], more = more[0], more[1:]
		}
	}
	return heads, nil
}

// packReader is what reads much from packs: where this process has the rights by which
// git reads.
func (r *Repo) packReader() *packReader {
	r.packedOnce.Do(func() {
		if r.env.As.Current() && !r.env.tested() {
			r.packed = newPackReader(newStore(r.env, r.commonDir, r.HashLen()/2))
		}
	})
	return r.packed
}

// treeHeaders is headers of what is expected to be trees: where they are many, those
// that packs have are read at once.
func (r *Repo) treeHeaders(ids []ID) ([]header, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	heads := make([]header, len(ids))
	if r.knownGit() {
		var all bool
		if heads, all = r.stored.info(ids); all {
			return heads, nil
		}
	}
	var read weighed
	for i, id := range ids {
		if heads[i].id != "" {
			continue
		}
		if read.bytes > treeCacheBytes/2 {
			break // the first ones would be gone before they are used
		}
		if t := r.packReader().tree(id); t != nil {
			r.trees.put(t)
			read.add(t)
			r.cat.read.Add(int64(len(t.raw)))
			heads[i] = header{id: id, typ: "tree", size: int64(t.stored())}
		}
	}
	return r.otherHeaders(ids, heads)
}

// treeContents reads trees that treeHeaders has returned: fn gets each once, parsed or
// as data that it may keep.
func (r *Repo) treeContents(heads []header, fn func(i int, t *Tree, data []byte)) error {
	if r.ctx.Err() == nil && r.knownGit() {
		if list, ok := r.stored.contents(heads); ok {
			for i, data := range list {
				r.cat.read.Add(int64(len(data)))
				fn(i, nil, data)
			}
			return nil
		}
	}
	var rest []header
	var at []int
	for i, h := range heads {
		if t := r.packReader().tree(h.id); t != nil && r.ctx.Err() == nil {
			fn(i, t, nil)
		} else {
			rest, at = append(rest, h), append(at, i)
		}
	}
	return r.cat.contents(rest, MaxTree, func(i int, data []byte) { fn(at[i], nil, data) })
}

// contents reads objects that headers has returned, as session.contents does.
func (r *Repo) contents(heads []header, most int64, fn func(i int, data []byte)) error {
	if r.ctx.Err() == nil && r.knownGit() {
		if list, ok := r.stored.contents(heads); ok {
			for i, data := range list {
				r.cat.read.Add(int64(len(data)))
				fn(i, data[:min(int64(len(data)), most)])
			}
			return nil
		}
	}
	if r.ctx.Err() != nil || !r.much.Load() {
		return r.cat.contents(heads, most, fn)
	}
	at := r.packReader().contents(heads, func(i int, data []byte) {
		r.cat.read.Add(int64(len(data)))
		fn(i, data[:min(int64(len(data)), most)])
	})
	if len(at) == 0 {
		return nil
	}
	rest := make([]header, len(at))
	for k, i := range at {
		rest[k] = heads[i]
	}
	return r.cat.contents(rest, most, func(k int, data []byte) { fn(at[k], data) })
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
	r.knownOnce.Do(func() {})
	r.stored.close()
	r.packedOnce.Do(func() {})
	r.packed.close()
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
		f, err := files.Open(env.path(dir))
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
	hint := "rm " + finding.Word(file)
	if v, ok := r.env.Lookup("GIT_GRAFT_FILE"); ok {
		file, hint = r.env.path(v), "unset GIT_GRAFT_FILE" // the file may be anything
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
		Hint: hint}
}
