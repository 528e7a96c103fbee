// Package gittest builds real git repositories for tests.
//
// All but loose objects and refs goes through the installed git, isolated from
// the machine: no system or global configuration, an empty HOME, a fixed
// identity and a clock that starts at Epoch and moves one minute with each
// commit. The same calls therefore give the same object ids everywhere. Helpers
// fail the test instead of returning errors; the Try variants report the exit
// code.
package gittest

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/resident"
	"github.com/rigward/rigward/internal/test/module"
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
	if o.RefFormat == "reftable" && !hasReftable(t) {
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
	if empty, ok := inits.Load(o); ok {
		r.lay(empty.(map[string]string))
		return r
	}
	r.must(r.Home, nil, append(args, r.Dir)...)
	inits.LoadOrStore(o, r.laid())
	return r
}

// inits has what git init writes for some Options, read once in a process: a
// map[string]string of contents by path, of a directory "" at a path with a slash.
var inits sync.Map

func (r *Repo) laid() map[string]string {
	r.T.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, r.Dir)
		if err != nil || d.IsDir() {
			all[name+"/"] = ""
			return err
		}
		text, err := os.ReadFile(path)
		all[name] = string(text)
		return err
	})
	if err != nil {
		r.T.Fatal(err)
	}
	return all
}

func (r *Repo) lay(all map[string]string) {
	r.T.Helper()
	for _, name := range sortedKeys(all) { // a directory before what is in it
		path := r.Dir + filepath.FromSlash(name)
		err := error(nil)
		if strings.HasSuffix(name, "/") {
			err = os.Mkdir(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(all[name]), 0o644)
		}
		if err != nil {
			r.T.Fatal(err)
		}
	}
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

// CopyDir copies the files and directories of a directory, with their modes and
// times, to another one, which may be there already. In what files hold, each
// old string of the pairs is replaced by the new one after it.
func CopyDir(t testing.TB, from, to string, oldNew ...string) {
	t.Helper()
	now := strings.NewReplacer(oldNew...)
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		there := to + strings.TrimPrefix(path, from)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(there, info.Mode().Perm())
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no file", path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(there, []byte(now.Replace(string(data))), info.Mode().Perm()); err != nil {
			return err
		}
		return os.Chtimes(there, info.ModTime(), info.ModTime())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TempDir is t.TempDir with symbolic links resolved, so that paths compare
// equal to those that git prints. It is for tests with git, which -short skips.
func TempDir(t testing.TB) string {
	t.Helper()
	NotShort(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what a hook has started may still write there
		for range 100 {
			if !errors.Is(os.RemoveAll(dir), syscall.ENOTEMPTY) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	return dir
}

// NotShort skips a test that starts many processes if the tests are to be short.
func NotShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts git or programs")
	}
}

// hasReftable tries, once, whether the installed git knows the reftable ref backend.
func hasReftable(t testing.TB) bool {
	t.Helper()
	reftable.Do(func() {
		home := TempDir(t)
		cmd := exec.Command("git", "init", "-q", "--ref-format=reftable", filepath.Join(home, "probe"))
		cmd.Env = Environ(home)
		reftable.known = cmd.Run() == nil
	})
	return reftable.known
}

var reftable struct {
	sync.Once
	known bool
}

// Environ is an environment in which git reads no configuration but the
// repository's own and the file gitconfig beside this one.
func Environ(home string) []string {
	return append(judge(), []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + home,
		"LC_ALL=C",
		"TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + filepath.Join(module.Root(), "internal", "test", "gittest", "gitconfig"),
		"GIT_TERMINAL_PROMPT=0",
		"GIT_TEST_FSYNC=0", // nothing here has to outlive a crash
		"GIT_AUTHOR_NAME=" + Name,
		"GIT_AUTHOR_EMAIL=" + Email,
		"GIT_COMMITTER_NAME=" + Name,
		"GIT_COMMITTER_EMAIL=" + Email,
	}...)
}

// judge is the resident judge of a test run that has one.
func judge() []string {
	if at := os.Getenv(resident.Variable); at != "" {
		return []string{resident.Variable + "=" + at}
	}
	return nil
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
	return r.Ref("HEAD")
}

// Ref returns the id that a ref, by its full name, or HEAD points to.
func (r *Repo) Ref(name string) string {
	r.T.Helper()
	if id, ok := r.ref(name); ok && id != "" {
		return id
	}
	return r.Run("rev-parse", name)
}

// RefOrNone is Ref, with "" for a ref that isn't there.
func (r *Repo) RefOrNone(name string) string {
	r.T.Helper()
	if id, ok := r.ref(name); ok {
		return id
	}
	return strings.TrimSuffix(r.Try(nil, "rev-parse", "-q", "--verify", name).Stdout, "\n")
}

// ref reads where a ref points to, "" if nowhere, out of the files of git: a
// process for each is what most of a test's time went to. It reports whether
// they could tell.
func (r *Repo) ref(name string) (id string, ok bool) {
	dir, ok := r.gitDir()
	if _, err := os.Stat(filepath.Join(dir, "reftable")); !ok || err == nil {
		return "", false
	}
	for at := name; ; {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(at)))
		if err != nil {
			packed, _ := os.ReadFile(filepath.Join(dir, "packed-refs"))
			for line := range strings.Lines(string(packed)) {
				if id, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && ref == at {
					return id, true
				}
			}
			return "", true
		}
		line := strings.TrimSuffix(string(text), "\n")
		target, symbolic := strings.CutPrefix(line, "ref: ")
		if !symbolic {
			return line, true
		}
		at = target
	}
}

// SetRef lets a ref, by its full name, point to an object, as git update-ref
// does, without a line in its log.
func (r *Repo) SetRef(name, id string) {
	r.T.Helper()
	dir, ok := r.gitDir()
	file := filepath.Join(dir, filepath.FromSlash(name))
	old, _ := os.ReadFile(file)
	_, reftable := os.Stat(filepath.Join(dir, "reftable"))
	_, noID := hex.DecodeString(id)
	if !ok || reftable == nil || noID != nil || len(id) < 40 || !strings.HasPrefix(name, "refs/") || strings.HasPrefix(string(old), "ref: ") ||
		os.MkdirAll(filepath.Dir(file), 0o755) != nil || os.WriteFile(file+".lock", []byte(id+"\n"), 0o644) != nil || os.Rename(file+".lock", file) != nil {
		r.Run("update-ref", name, id)
	}
}

// Config sets a variable of the repository's own configuration.
func (r *Repo) Config(key, value string) {
	r.T.Helper()
	file, text, section, ok := r.without(key)
	if !ok || strings.ContainsAny(key+value, "\"\\\n") {
		r.Run("config", key, value) // what is there already is replaced
		return
	}
	name := key[strings.LastIndexByte(key, '.')+1:]
	if err := os.WriteFile(file, fmt.Appendf(nil, "%s[%s]\n\t%s = \"%s\"\n", text, section, name, value), 0o644); err != nil {
		r.T.Fatal(err)
	}
}

// Unset takes a variable, if it is there, out of the repository's own configuration.
func (r *Repo) Unset(key string) {
	r.T.Helper()
	file, text, _, ok := r.without(key)
	if !ok {
		r.Try(nil, "config", "--unset-all", key)
		return
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		r.T.Fatal(err)
	}
}

// without is the text of the repository's own configuration without a variable, with the
// section where that belongs. ok is false where git has to change it, since it stands
// there otherwise than Config writes it.
func (r *Repo) without(key string) (file, text, section string, ok bool) {
	dir, ok := r.gitDir()
	file = filepath.Join(dir, "config")
	old, err := os.ReadFile(file)
	i := strings.LastIndexByte(key, '.')
	if !ok || err != nil || i < 1 || i == len(key)-1 {
		return "", "", "", false
	}
	section, text = key[:i], string(old)
	name := strings.ToLower(key[i+1:])
	if before, sub, ok := strings.Cut(section, "."); ok {
		section = before + " \"" + sub + "\""
	}
	if before, after, ours := strings.Cut(text, "["+section+"]\n\t"+key[i+1:]+" = \""); ours {
		if value, rest, _ := strings.Cut(after, "\"\n"); !strings.ContainsAny(value, "\"\\\n") && (rest == "" || rest[0] == '[') {
			text = before + rest
		}
	}
	return file, text, section, !strings.Contains(strings.ToLower(text), "\t"+name+" ")
}

// gitDir is the directory of git's own files, if it lies where it does in a
// repository that New made, and no variable names another.
func (r *Repo) gitDir() (string, bool) {
	for _, kv := range r.Env {
		if strings.HasPrefix(kv, "GIT_DIR=") || strings.HasPrefix(kv, "GIT_OBJECT_DIRECTORY=") {
			return "", false
		}
	}
	for _, dir := range []string{filepath.Join(r.Dir, ".git"), r.Dir} {
		st, err := os.Stat(filepath.Join(dir, "objects"))
		_, linked := os.Stat(filepath.Join(dir, "commondir"))
		if err == nil && st.IsDir() && linked != nil {
			return dir, true
		}
	}
	return "", false
}

// WriteObject writes a loose object of any type as the raw bytes say,
// well-formed or not, and returns its id (gitformat-loose of git's
// documentation: deflated header and content, named by their hash).
func (r *Repo) WriteObject(typ string, raw []byte) string {
	r.T.Helper()
	dir, ok := r.gitDir()
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	if !ok || err != nil {
		return r.RunIn(raw, "hash-object", "--literally", "-t", typ, "-w", "--stdin")
	}
	h := sha1.New()
	if bytes.Contains(bytes.ToLower(config), []byte("objectformat = sha256")) {
		h = sha256.New()
	}
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	out := io.MultiWriter(h, z)
	fmt.Fprintf(out, "%s %d\x00", typ, len(raw))
	_, _ = out.Write(raw) // neither a hash nor a buffer fails
	if err := z.Close(); err != nil {
		r.T.Fatal(err)
	}
	id := hex.EncodeToString(h.Sum(nil))
	file := filepath.Join(dir, "objects", id[:2], id[2:])
	if _, err := os.Stat(file); err == nil {
		return id
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.T.Fatal(err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "tmp_obj_")
	if err != nil {
		r.T.Fatal(err)
	}
	_, err = tmp.Write(deflated.Bytes())
	if err := errors.Join(err, tmp.Chmod(0o444), tmp.Close(), os.Rename(tmp.Name(), file)); err != nil {
		r.T.Fatal(err)
	}
	return id
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
		id, err := hex.DecodeString(e.ID)
		if err != nil {
			panic(err)
		}
		b.Write(id)
	}
	return b.Bytes()
}

// Tree writes a hand-made tree and returns its id.
func (r *Repo) Tree(entries ...TreeEntry) string {
	r.T.Helper()
	return r.WriteObject("tree", RawTree(entries...))
}

// A File of a commit, as git's index has it: a mode as "100644", and the id of
// its blob, or of a submodule's commit.
type File struct {
	Mode, ID string
}

// Put puts a file at a path of files, in the place of what is there: a file
// that the path goes through, or all that is below it.
func Put(files map[string]File, path string, f File) {
	for i, c := range path {
		if c == '/' {
			delete(files, path[:i])
		}
	}
	maps.DeleteFunc(files, func(other string, _ File) bool { return strings.HasPrefix(other, path+"/") })
	files[path] = f
}

// Differ lists the paths at which two trees differ, sorted.
func Differ[M ~map[string]V, V comparable](a, b M) []string {
	var paths []string
	for path, v := range b {
		if old, ok := a[path]; !ok || old != v {
			paths = append(paths, path)
		}
	}
	for path := range a {
		if _, ok := b[path]; !ok {
			paths = append(paths, path)
		}
	}
	sort.Strings(paths)
	return paths
}

// Files writes the trees of files, by their paths, and returns the id of the
// top one. It is what an index and git write-tree are, without a process.
func (r *Repo) Files(files map[string]File) string {
	r.T.Helper()
	entries := map[string]TreeEntry{} // by their names, a directory's with a slash, as trees are sorted
	below := map[string]map[string]File{}
	for path, f := range files {
		if dir, rest, ok := strings.Cut(path, "/"); !ok {
			entries[path] = TreeEntry{f.Mode, path, f.ID}
		} else if below[dir] == nil {
			below[dir] = map[string]File{rest: f}
		} else {
			below[dir][rest] = f
		}
	}
	for dir, files := range below {
		entries[dir+"/"] = TreeEntry{"40000", dir, r.Files(files)}
	}
	var sorted []TreeEntry
	for _, name := range sortedKeys(entries) {
		sorted = append(sorted, entries[name])
	}
	return r.Tree(sorted...)
}

// FilesOf returns the files of a commit or tree.
func (r *Repo) FilesOf(commit string) map[string]File {
	r.T.Helper()
	files := map[string]File{}
	for entry := range strings.SplitSeq(r.Run("ls-tree", "-r", "-z", "--full-tree", commit), "\x00") {
		if meta, path, ok := strings.Cut(entry, "\t"); ok {
			f := strings.Fields(meta)
			files[path] = File{f[0], f[2]}
		}
	}
	return files
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
	dir := r.HooksDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		r.T.Fatal(err)
	}
}

// HooksDir is the directory of the repository's hooks.
func (r *Repo) HooksDir() string {
	r.T.Helper()
	dir, ok := r.gitDir()
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	if text := strings.ToLower(string(config)); !ok || err != nil || strings.Contains(text, "hookspath") || strings.Contains(text, "include") || strings.Contains(text, "worktreeconfig") {
		return r.Run("rev-parse", "--path-format=absolute", "--git-path", "hooks")
	}
	return filepath.Join(dir, "hooks")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
