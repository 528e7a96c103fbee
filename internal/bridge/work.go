package bridge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// work is the repository that a command works in, with its work tree.
type work struct {
	root   string // top of the work tree
	repo   *gitrepo.Repo
	runner *gitrepo.Runner
	memory *Memory
	now    func() time.Time
	held   *os.File    // the clone's lock while this run has it, else nil
	killed atomic.Bool // a git of this run was killed, and may have left its locks
}

// StartHint is for whoever starts a server for agents in another place.
const StartHint = "rig-bridge mcp --clone DIR, with the path of the rig's clone"

// open finds the repository around the current directory. A repository without
// a work tree is none for the client.
func (r *run) open() (*work, error) {
	repo, err := r.repository()
	if errors.Is(err, gitrepo.ErrNotRepository) {
		f := fail(codeNoRepo, "%s is not inside a git repository", quote(r.env.Dir)).orTool("%s", StartHint)
		if r.cmd.Name == "init" {
			return nil, f.withHint("cd <clone>; git clone <url> <clone> makes one")
		}
		return nil, f.withHint("cd <clone>; where there is none yet, git clone <url> <clone>, and rig-bridge init --rig-id <id> in it")
	}
	if err != nil {
		return nil, gitProblem(err)
	}
	if repo.Bare() || repo.WorkTree() == "" {
		repo.Close()
		return nil, fail(codeNoRepo, "the git repository at %s has no work tree", quote(repo.GitDir())).
			withHint("cd <clone>; git clone %s <clone> makes one", finding.Word(filepath.ToSlash(repo.GitDir()))).orTool("%s", StartHint)
	}
	r.root = repo.WorkTree()
	if r.writes || r.cmd.Name == "thread" {
		// What is asked for anyway starts while the command line is looked at.
		go repo.Config("user.name")
	}
	environ := absolute(repo.Env().Environ, r.env.Dir)
	if !leads(r.env.Dir, r.root) {
		environ = append(environ, "GIT_DIR="+repo.GitDir(), "GIT_WORK_TREE="+r.root)
	}
	runner := &gitrepo.Runner{Env: gitrepo.Env{Environ: environ, Dir: r.root}, Now: r.env.Second}
	return &work{root: r.root, repo: repo, runner: runner, memory: r.env.Memory, now: r.env.Now}, nil
}

// repository opens the one that holds this clone's configuration. A hook of
// another repository hands on variables that name that one to all that it
// starts, also to a client that is run in a clone: they do not count then.
// Where neither is certain, the error names both.
func (r *run) repository() (*gitrepo.Repo, error) {
	env := gitrepo.Env{Environ: slices.DeleteFunc(slices.Clone(r.env.Environ), func(kv string) bool {
		return strings.HasPrefix(kv, "GIT_CONFIG_PARAMETERS=") // of a surrounding `git -c key=value`
	}), Dir: r.env.Dir}
	if !env.Tied() {
		return gitrepo.OpenIdle(r.ctx, env)
	}
	around, err := gitrepo.OpenIdle(r.ctx, env.Foreign(env.Dir))
	if errors.Is(err, gitrepo.ErrNotRepository) {
		return gitrepo.OpenIdle(r.ctx, env)
	}
	if err != nil {
		return nil, err
	}
	if around.WorkTree() != "" {
		if _, err := os.Lstat(filepath.Join(around.WorkTree(), filepath.FromSlash(configFile))); err == nil {
			return around, nil
		}
	}
	if err := around.Only(r.ctx, env); err != nil {
		around.Close()
		return nil, err
	}
	return around, nil
}

// openAsRig is open and the clone's configuration.
func (r *run) openAsRig() (*work, config, error) {
	w, err := r.open()
	if err != nil {
		return nil, config{}, err
	}
	c, err := readConfig(w.root)
	if err != nil {
		w.close()
		return nil, config{}, err
	}
	return w, c, nil
}

// leads reports whether git, started in the top of the work tree, finds the repository
// that it found in dir. It does not where core.worktree names another place than the one
// that .git lies in; there the repository has to be named.
func leads(dir, top string) bool {
	at, err := os.Stat(top)
	if err != nil {
		return false
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil || dir == filepath.Dir(dir) {
			found, err := os.Stat(dir)
			return err == nil && os.SameFile(at, found)
		}
	}
}

// absolute makes the paths in git's own variables absolute: they were meant
// from the current directory, and git runs in the top of the work tree.
func absolute(environ []string, dir string) []string {
	out := append([]string(nil), environ...)
	for i, kv := range out {
		name, path, _ := strings.Cut(kv, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY":
			if path != "" && !filepath.IsAbs(path) {
				out[i] = name + "=" + filepath.Join(dir, path)
			}
		}
	}
	return out
}

func (w *work) close() { w.repo.Close() }

// steady is the same repository for cleaning up: no signal ends what it does.
func (w *work) steady(ctx context.Context) (*work, error) {
	repo, err := gitrepo.OpenIdle(ctx, w.repo.Env())
	if err != nil {
		return nil, gitProblem(err)
	}
	return &work{root: w.root, repo: repo, runner: &gitrepo.Runner{Env: w.runner.Env}, memory: w.memory, now: w.now, held: w.held}, nil
}

// gitProblem is the failure for an error of gitrepo: git could not answer.
func gitProblem(err error) error {
	var f *failure
	if errors.As(err, &f) || errors.Is(err, context.Canceled) {
		return err
	}
	var g *gitrepo.Error
	if errors.As(err, &g) {
		return fail(codeRuntime, "%s", g.Message).withHint("%s", g.Hint)
	}
	f = fail(codeRuntime, "git could not answer: %s", finding.QuoteMax(err.Error(), 200))
	f.cause = err
	return f
}

// localTime is the most that a git command without a network may take. A
// commit may wait for a person to touch a key.
const localTime = 5 * time.Minute

// git runs a git command in the top directory of the work tree. Only a git
// that could not be run is an error, not its exit code.
func (w *work) git(ctx context.Context, args ...string) (gitrepo.Result, error) {
	return w.gitWith(ctx, gitrepo.Command{Args: args, Timeout: localTime})
}

// gitWith keeps the clone's lock, if this run has it, for as long as git runs:
// a git that outlives a killed run may hold index.lock.
func (w *work) gitWith(ctx context.Context, c gitrepo.Command) (gitrepo.Result, error) {
	c.Hold = w.held
	return w.start(ctx, c)
}

// gitRemote runs a command that a remote may keep waiting. It does not keep
// the lock: that would keep the run after a killed one waiting, too.
func (w *work) gitRemote(ctx context.Context, args ...string) (gitrepo.Result, error) {
	return w.start(ctx, gitrepo.Command{Args: args, Timeout: networkTime})
}

func (w *work) start(ctx context.Context, c gitrepo.Command) (gitrepo.Result, error) {
	res, err := w.runner.Run(ctx, c)
	res.Stderr = uncoloured(res.Stderr)
	if err != nil || res.Code < 0 {
		w.killed.Store(true)
	}
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return res, context.Cause(ctx)
	case errors.Is(err, gitrepo.ErrTimeout):
		return res, fail(codeRuntime, "git %s took longer than %s", verb(c.Args), c.Timeout)
	}
	return res, gitProblem(err)
}

// must runs a git command that has to succeed, and returns its output without
// the final line end.
func (w *work) must(ctx context.Context, args ...string) (string, error) {
	res, err := w.git(ctx, args...)
	if err != nil {
		return "", err
	}
	if res.Code != 0 {
		return "", gitFailed("git "+verb(args), res)
	}
	return strings.TrimSuffix(string(res.Stdout), "\n"), nil
}

// verb is the subcommand among git's arguments.
func verb(args []string) string {
	for i := 0; i < len(args); i++ {
		if args[i] == "-c" {
			i++
			continue
		}
		return args[i]
	}
	return ""
}

// uncoloured removes the sequences that give text a colour, which git and what
// it runs print where the user's configuration says always.
func uncoloured(text []byte) []byte {
	out := text[:0]
	for len(text) > 0 {
		if rest, ok := bytes.CutPrefix(text, []byte("\x1b[")); ok {
			if rest = bytes.TrimLeft(rest, "0123456789;"); len(rest) > 0 && rest[0] == 'm' {
				text = rest[1:]
				continue
			}
		}
		out, text = append(out, text[0]), text[1:]
	}
	return out
}

// environmental are texts by which git reports that the machine, not the
// user, is in the way.
var environmental = [...]string{
	"No space left on device", "Disk quota exceeded", "Read-only file system", "Input/output error",
	"Permission denied", "insufficient permission", "unable to write", "unable to create", "Unable to create",
	"Too many open files", "cannot allocate", "Out of diskspace", "couldn't write '", "unable to append to '",
	"failed to write new configuration file",
}

// machine reports whether git says that the machine is in the way.
func machine(stderr []byte) bool {
	return slices.ContainsFunc(environmental[:], func(text string) bool { return bytes.Contains(stderr, []byte(text)) })
}

// roomHint is the hint where git says, of this side, that a disk is full.
func roomHint(stderr []byte) string {
	for line := range bytes.Lines(stderr) {
		if !bytes.HasPrefix(line, []byte("remote: ")) && (bytes.Contains(line, []byte("No space left on device")) || bytes.Contains(line, []byte("Out of diskspace"))) {
			return files.HintAt(syscall.ENOSPC, ".")
		}
	}
	return ""
}

// lockHint says how a lock is taken away that a git has left here, which was killed.
func lockHint(stderr []byte) string {
	for line := range bytes.Lines(stderr) {
		_, rest, _ := bytes.Cut(line, []byte("Unable to create '"))
		path, _, held := bytes.Cut(rest, []byte("': File exists"))
		if held && bytes.HasSuffix(path, []byte(".lock")) && !bytes.HasPrefix(line, []byte("remote: ")) {
			hint := fmt.Sprintf("rm %s, if no git is at work there any more", finding.Word(string(path)))
			return hint
		}
	}
	return ""
}

// gitFailed is the failure for a git step that ended with an exit code.
// Refusals by hooks, attributes and configuration are the user's (exit code
// 1); a full disk or a missing permission is not (2).
func gitFailed(step string, res gitrepo.Result) *failure {
	line := tellingLine(res.Stderr)
	code := codeRefused
	if res.Code < 0 || machine(res.Stderr) {
		code = codeRuntime
	}
	if line == "" {
		return fail(code, "%s failed with exit code %d and no message", step, res.Code)
	}
	f := fail(code, "%s failed: %s", step, finding.QuoteMax(line, 200))
	return f.withHint("%s", cmp.Or(hintOf(res.Stderr, line), settingHint(string(res.Stderr)), roomHint(res.Stderr), lockHint(res.Stderr)))
}

// hintOf is the hint that a gate of ours, run as git's hook, has below a line.
func hintOf(stderr []byte, line string) string {
	_, below, _ := strings.Cut(string(stderr), line)
	_, below, _ = strings.Cut(below, "\n")
	below, _, _ = strings.Cut(below, "\n")
	hint, _ := strings.CutPrefix(below, "  hint: ")
	if hint == below {
		return ""
	}
	return finding.Clean(strings.TrimRight(hint, "\r "))
}

// tellingLine picks the line of git's messages that says most: the first one in which
// git is told to have failed, here or over there, where it is the cause of the rest.
func tellingLine(stderr []byte) string {
	first := ""
	for line := range strings.Lines(string(stderr)) {
		line = strings.TrimRight(line, "\r\n ")
		said := strings.TrimPrefix(line, "remote: ")
		if strings.HasPrefix(said, "fatal: ") || strings.HasPrefix(said, "error: ") {
			return line
		}
		if first == "" && strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "hint:") && !strings.HasPrefix(line, "warning:") {
			first = line
		}
	}
	return first
}

// config returns the last value of a configuration key, "" if it is not set.
func (w *work) config(key string) (string, error) {
	values, err := w.repo.Config(key)
	if err != nil {
		return "", gitProblem(err)
	}
	if len(values) == 0 {
		return "", nil
	}
	return values[len(values)-1], nil
}

// A target is where a branch is pushed to and fetched from.
type target struct {
	branch   string // full name of the local branch, refs/heads/…
	remote   string // name or URL; "" if there is none
	ref      string // full name of the branch over there
	tracking string // ref that remembers it here; "" if none
	upstream bool   // configured, not guessed
}

// short is the branch's name without refs/heads/.
func (t target) short() string { return strings.TrimPrefix(t.branch, "refs/heads/") }

func (t target) remoteShort() string { return strings.TrimPrefix(t.ref, "refs/heads/") }

// label is how people call the upstream.
func (t target) label() string {
	if name, ok := strings.CutPrefix(t.tracking, "refs/remotes/"); ok {
		return name
	}
	return t.remote + "/" + t.remoteShort()
}

// target finds the current branch and where it goes (docs/spec/client.md#sending):
// its upstream, else remote.pushDefault, else origin, with the same name.
func (w *work) target() (target, error) {
	var t target
	ref, _, err := w.repo.HEAD()
	if err != nil {
		return t, gitProblem(err)
	}
	if !strings.HasPrefix(ref, "refs/heads/") {
		f := fail(codeRefused, "HEAD is detached; a message is sent on a branch")
		if !w.ending(f) { // git switches no branch before that
			f.withHint("git switch <branch>")
		}
		return t, f
	}
	t.branch = ref
	remote, err := w.config("branch." + t.short() + ".remote")
	if err != nil {
		return t, err
	}
	merge, err := w.config("branch." + t.short() + ".merge")
	if err != nil {
		return t, err
	}
	if remote != "" && merge != "" {
		t.remote, t.ref, t.upstream = remote, merge, true
	} else {
		t.ref = ref
		if t.remote, err = w.config("remote.pushDefault"); err != nil {
			return t, err
		}
		if t.remote == "" {
			t.remote = "origin"
		}
		url, err := w.config("remote." + t.remote + ".url")
		if err != nil {
			return t, err
		}
		if url == "" {
			t.remote = ""
			return t, nil
		}
	}
	if t.remote == "." {
		t.tracking = t.ref
		return t, nil
	}
	specs, err := w.repo.Refspecs(t.remote)
	if err != nil {
		return t, gitProblem(err)
	}
	t.tracking = specs.Tracking(t.ref)
	return t, nil
}

// ref returns the id that a ref points to, "" if there is none.
func (w *work) ref(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	id, ok, err := w.repo.Ref(name)
	if err != nil {
		return "", gitProblem(err)
	}
	if !ok {
		return "", nil
	}
	return id, nil
}
