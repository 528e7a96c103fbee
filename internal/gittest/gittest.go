// Package gittest builds real git repositories for tests.
//
// Everything goes through the installed git, isolated from the machine: no
// system or global configuration, an empty HOME, a fixed identity and a clock
// that starts at Epoch and moves one minute with each commit. The same calls
// therefore give the same object ids everywhere. Helpers fail the test instead
// of returning errors; the Try variants report the exit code.
package gittest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// Epoch is the committer time of the first commit, in Unix seconds:
// 2026-01-05T09:00:00Z.
const Epoch = 1767603600

// Name and Email are the identity of commits that Repo.Commit makes.
const (
	Name  = "Test Operator"
	Email = "op@example.com"
)

// Options of a new repository. The zero value is a SHA-1 repository with a
// worktree, the files ref backend and the branch main.
type Options struct {
	Bare         bool
	ObjectFormat string // "sha1" or "sha256"; "" is sha1
	RefFormat    string // "files" or "reftable"; "" is files
}

// A Repo is a repository in a temporary directory of the test.
type Repo struct {
	T    testing.TB
	Dir  string   // top of the worktree, or the bare repository
	Home string   // HOME of every git process
	Env  []string // environment of every git process; add to it freely
	Now  int64    // author and committer time of the next commit, Unix seconds
}

// New makes an empty repository.
func New(t testing.TB, o Options) *Repo {
	t.Helper()
	r := &Repo{T: t, Dir: filepath.Join(TempDir(t), "repo"), Home: TempDir(t), Now: Epoch}
	if o.Bare {
		r.Dir += ".git"
	}
	r.Env = Environ(r.Home)
	if o.RefFormat == "reftable" && !HasReftable(t) {
		t.Skip("the installed git has no reftable backend")
	}
	args := []string{"init", "-q", "-b", "main", "--template="}
	if o.Bare {
		args = append(args, "--bare")
	}
	if o.ObjectFormat != "" {
		args = append(args, "--object-format="+o.ObjectFormat)
	}
	if o.RefFormat == "reftable" {
		args = append(args, "--ref-format=reftable")
	}
	r.must(r.Home, nil, append(args, r.Dir)...)
	return r
}

// Copy copies r, with its worktree, into a new temporary directory of t.
func (r *Repo) Copy(t testing.TB) *Repo {
	t.Helper()
	c := &Repo{T: t, Dir: filepath.Join(TempDir(t), filepath.Base(r.Dir)), Home: TempDir(t), Now: r.Now}
	c.Env = append(c.Env, r.Env...)
	c.Setenv("HOME", c.Home)
	if err := os.CopyFS(c.Dir, os.DirFS(r.Dir)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TempDir is t.TempDir with symbolic links resolved, so that paths compare
// equal to those that git prints.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// HasReftable tries whether the installed git knows the reftable ref backend.
func HasReftable(t testing.TB) bool {
	t.Helper()
	home := TempDir(t)
	cmd := exec.Command("git", "init", "-q", "--ref-format=reftable", filepath.Join(home, "probe"))
	cmd.Env = Environ(home)
	return cmd.Run() == nil
}

// Environ is an environment in which git reads no configuration but the
// repository's own.
func Environ(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + home,
		"LC_ALL=C",
		"TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_TERMINAL_PROMPT=0",
		"GIT_TEST_FSYNC=0", // nothing here has to outlive a crash
		"GIT_AUTHOR_NAME=" + Name,
		"GIT_AUTHOR_EMAIL=" + Email,
		"GIT_COMMITTER_NAME=" + Name,
		"GIT_COMMITTER_EMAIL=" + Email,
	}
}

// A Result is what a git process printed and how it ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Try runs git in r.Dir, with stdin if it isn't nil, and reports how it ended.
func (r *Repo) Try(stdin []byte, args ...string) Result {
	r.T.Helper()
	return r.try(r.Dir, stdin, args...)
}

// Run runs git in r.Dir, fails the test unless it exits with 0, and returns
// its standard output without the final newline.
func (r *Repo) Run(args ...string) string {
	r.T.Helper()
	return r.must(r.Dir, nil, args...)
}

// RunIn is Run with stdin.
func (r *Repo) RunIn(stdin []byte, args ...string) string {
	r.T.Helper()
	return r.must(r.Dir, stdin, args...)
}

func (r *Repo) must(dir string, stdin []byte, args ...string) string {
	r.T.Helper()
	res := r.try(dir, stdin, args...)
	if res.Code != 0 {
		r.T.Fatalf("git %s: exit %d\n%s%s", strings.Join(args, " "), res.Code, res.Stdout, res.Stderr)
	}
	return strings.TrimSuffix(res.Stdout, "\n")
}

func (r *Repo) try(dir string, stdin []byte, args ...string) Result {
	r.T.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	date := fmt.Sprintf("%d +0000", r.Now)
	cmd.Env = append([]string{"GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date}, r.Env...)
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.T.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return Result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// Setenv sets a variable for later git processes.
func (r *Repo) Setenv(key, value string) {
	r.Unsetenv(key)
	r.Env = append(r.Env, key+"="+value)
}

// Unsetenv removes a variable for later git processes.
func (r *Repo) Unsetenv(key string) {
	var env []string
	for _, kv := range r.Env {
		if !strings.HasPrefix(kv, key+"=") {
			env = append(env, kv)
		}
	}
	r.Env = env
}

// Write writes a file of the worktree, with its directories.
func (r *Repo) Write(path, content string) {
	r.T.Helper()
	full := filepath.Join(r.Dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		r.T.Fatal(err)
	}
}

// Add writes files of the worktree and stages exactly those.
func (r *Repo) Add(files map[string]string) {
	r.T.Helper()
	var list bytes.Buffer
	for _, path := range sortedKeys(files) {
		r.Write(path, files[path])
		list.WriteString(path + "\x00")
	}
	if list.Len() > 0 {
		r.RunIn(list.Bytes(), "add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul")
	}
}

// Commit stages files (path to content) on top of what is staged, commits
// them, hooks included, and returns the commit's id. The clock moves on by a
// minute. Extra arguments go to git commit.
func (r *Repo) Commit(message string, files map[string]string, args ...string) string {
	r.T.Helper()
	r.Add(files)
	r.Run(append([]string{"commit", "-q", "--allow-empty", "-m", message}, args...)...)
	r.Now += 60
	return r.Run("rev-parse", "HEAD")
}

// WriteObject writes an object of any type as the raw bytes say, well-formed
// or not, and returns its id.
func (r *Repo) WriteObject(typ string, raw []byte) string {
	r.T.Helper()
	return r.RunIn(raw, "hash-object", "--literally", "-t", typ, "-w", "--stdin")
}

// A TreeEntry of a hand-made tree. Mode and Name are written as they are.
type TreeEntry struct {
	Mode, Name, ID string
}

// RawTree encodes entries in the given order, without any check.
func RawTree(entries ...TreeEntry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		b.WriteString(e.Mode + " " + e.Name + "\x00")
		for i := 0; i+1 < len(e.ID); i += 2 {
			var c byte
			if _, err := fmt.Sscanf(e.ID[i:i+2], "%02x", &c); err != nil {
				panic(err)
			}
			b.WriteByte(c)
		}
	}
	return b.Bytes()
}

// Tree writes a hand-made tree and returns its id.
func (r *Repo) Tree(entries ...TreeEntry) string {
	r.T.Helper()
	return r.WriteObject("tree", RawTree(entries...))
}

// EmptyTreeID writes the tree without entries and returns its id.
func (r *Repo) EmptyTreeID() string {
	r.T.Helper()
	return r.WriteObject("tree", []byte{})
}

// Blob writes a blob and returns its id.
func (r *Repo) Blob(content string) string {
	r.T.Helper()
	return r.WriteObject("blob", []byte(content))
}

// CommitTree writes a commit of a tree with the given parents and returns its
// id, without touching any ref. The clock moves on by a minute.
func (r *Repo) CommitTree(tree, message string, parents ...string) string {
	r.T.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	ident := fmt.Sprintf("%s <%s> %d +0000", Name, Email, r.Now)
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s\n", ident, ident, message)
	r.Now += 60
	return r.WriteObject("commit", b.Bytes())
}

// Clone clones r into a new temporary directory. Extra arguments go to git
// clone; the source is given as a file:// address, so --depth and --filter
// work.
func (r *Repo) Clone(args ...string) *Repo {
	r.T.Helper()
	c := &Repo{T: r.T, Dir: filepath.Join(TempDir(r.T), "clone"), Home: r.Home, Now: r.Now}
	c.Env = append(c.Env, r.Env...)
	all := append([]string{"clone", "-q"}, args...)
	r.must(r.Home, nil, append(all, "file://"+filepath.ToSlash(r.Dir), c.Dir)...)
	return c
}

// Push pushes to a remote, as `git push <args>` does, and reports how it
// ended; a refusal by a hook is exit code 1 with its text in Stderr.
func (r *Repo) Push(args ...string) Result {
	r.T.Helper()
	return r.Try(nil, append([]string{"push"}, args...)...)
}

// Hook installs an executable hook script, with its first line and all.
func (r *Repo) Hook(name, script string) {
	r.T.Helper()
	dir := r.Run("rev-parse", "--path-format=absolute", "--git-path", "hooks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		r.T.Fatal(err)
	}
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
