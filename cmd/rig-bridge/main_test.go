package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/outputschema"
	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/pkg/envelope"
)

// beHook makes the test binary behave as the hook of that name.
const beHook = "RIG_BRIDGE_TEST_BE_HOOK"

func TestMain(m *testing.M) {
	if os.Getenv(beHook) != "" {
		os.Exit(hook(os.Getenv(beHook)))
	}
	programs.Main(m)
}

// program is the path of rig-bridge as it is shipped, with no rig-hook beside it. This
// binary could be it, too, but takes twice as long to start.
func program(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(programs.Dir(t), "client")
	alone.Do(func() { linked = errors.Join(os.Mkdir(dir, 0o755), programs.Build(dir, "rig-bridge")) })
	if linked != nil {
		t.Fatal(linked)
	}
	return filepath.Join(dir, "rig-bridge")
}

var (
	alone  sync.Once
	linked error
)

// A world is a directory with a server and clones, apart from the user's own
// configuration.
type world struct {
	t    testing.TB
	dir  string
	vars []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	gittest.NotShort(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return worldAt(t, dir)
}

// worldAt makes a world in an empty directory.
func worldAt(t testing.TB, dir string) *world {
	w := &world{t: t, dir: dir, vars: surroundings(dir)}
	w.write("home/.gitconfig", gitconfig)
	return w
}

// gitconfig is what a user of a world has set.
const gitconfig = "[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n"

// surroundings is the environment of a world in a directory.
func surroundings(dir string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8", "TZ=UTC", "GIT_TERMINAL_PROMPT=0"}
}

func (w *world) path(rel string) string { return filepath.Join(w.dir, rel) }

// git runs git in a directory of the world and returns its output.
func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.tryGit(dir, args...)
	if err != nil {
		w.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (w *world) tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = w.path(dir), w.vars
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// server makes a bare repository with one seed commit on main.
func (w *world) server() {
	w.t.Helper()
	for _, name := range []string{"origin.git", "seed"} {
		if err := os.CopyFS(w.path(name), os.DirFS(filepath.Join(pattern(w.t), name))); err != nil {
			w.t.Fatal(err)
		}
	}
}

// clone makes a clone of the server that is the rig of that id.
func (w *world) clone(name, rig string) {
	w.t.Helper()
	if !w.likePattern() || !plain.MatchString(rig) {
		w.makeClone(name, rig)
		return
	}
	from := pattern(w.t)
	if err := os.CopyFS(w.path(name), os.DirFS(filepath.Join(from, patternClone))); err != nil {
		w.t.Fatal(err)
	}
	now := strings.NewReplacer(from, w.dir, patternClone, name, patternRig, rig)
	for _, file := range []string{".git/config", ".git/logs/HEAD", ".git/logs/refs/heads/main", ".git/logs/refs/remotes/origin/HEAD", ".bridge/config.yaml"} {
		w.write(name+"/"+file, now.Replace(w.read(name+"/"+file)))
	}
	w.pull(name)
}

const patternClone, patternRig = "pattern-clone", "pattern-rig"

var plain = regexp.MustCompile(`^[a-z0-9-]+$`)

var patterns sync.Mutex

// pattern returns a directory with a server and a clone of it, made once: all
// servers, and all clones of servers that have nothing but other branches, are
// copies of those, since it takes twenty processes to make them.
func pattern(t testing.TB) string {
	t.Helper()
	patterns.Lock()
	defer patterns.Unlock()
	dir := filepath.Join(programs.Dir(t), "pattern")
	if _, err := os.Stat(dir); err != nil {
		making, err := os.MkdirTemp(programs.Dir(t), "making-")
		if err != nil {
			t.Fatal(err)
		}
		w := worldAt(t, making)
		w.makeServer()
		w.makeClone(patternClone, patternRig)
		// Its own name is all that is to be replaced.
		for _, file := range []string{".git/config", ".git/logs/HEAD", ".git/logs/refs/heads/main", ".git/logs/refs/remotes/origin/HEAD"} {
			w.write(patternClone+"/"+file, strings.ReplaceAll(w.read(patternClone+"/"+file), making, dir))
		}
		if err := os.Rename(making, dir); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A model is what a world was when it had been made, by one test for all that ask for it.
type model struct {
	once sync.Once
	w    *world // nil: it could not be made
}

// of returns a world like the one that build makes in an empty world: a copy of the first one, with
// its own directory wherever that one's is named.
func (m *model) of(t testing.TB, build func(w *world)) *world {
	t.Helper()
	w := newWorld(t)
	m.once.Do(func() {
		dir, err := os.MkdirTemp(programs.Dir(t), "model-")
		if err != nil {
			t.Fatal(err)
		}
		made := worldAt(t, dir)
		build(made)
		m.w = made
	})
	if m.w == nil { // why, this test then says itself
		build(w)
		return w
	}
	gittest.CopyDir(t, m.w.dir, w.dir, m.w.dir, w.dir)
	return w
}

// set sets a variable of a clone's configuration that is not there yet.
func (w *world) set(clone, key, value string) {
	w.t.Helper()
	w.add(clone+"/.git/config", key, value)
}

// config sets a variable of a clone's configuration.
func (w *world) config(clone, key, value string) {
	w.t.Helper()
	w.repo(clone).Config(key, value)
}

// unset takes a variable out of a clone's configuration.
func (w *world) unset(clone, key string) {
	w.t.Helper()
	w.repo(clone).Unset(key)
}

// add adds a variable to a file of git's configuration.
func (w *world) add(file, key, value string) {
	w.t.Helper()
	i := strings.LastIndexByte(key, '.')
	section := key[:i]
	if before, sub, ok := strings.Cut(section, "."); ok {
		section = before + ` "` + sub + `"`
	}
	w.write(file, fmt.Sprintf("%s[%s]\n\t%s = %q\n", w.read(file), section, key[i+1:], value))
}

// likePattern reports whether a clone of the server would be one of the pattern's, but
// for what its branches have.
func (w *world) likePattern() bool {
	if !slices.Equal(w.vars, surroundings(w.dir)) || w.read("home/.gitconfig") != gitconfig {
		return false
	}
	server := filepath.Join(pattern(w.t), "origin.git")
	for _, name := range []string{"config", "HEAD"} {
		data, err := os.ReadFile(filepath.Join(server, name))
		if err != nil {
			w.t.Fatal(err)
		}
		if string(data) != w.read("origin.git/"+name) {
			return false
		}
	}
	return w.branches() != nil
}

// branches are the server's refs with their ids, nil unless all of them are branches,
// each a file.
func (w *world) branches() map[string]string {
	all := map[string]string{}
	refs := w.path("origin.git/refs")
	err := filepath.WalkDir(refs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, isBranch := strings.CutPrefix(filepath.ToSlash(path[len(refs):]), "/heads/")
		if !isBranch {
			all = nil
		} else if all != nil {
			all[name] = strings.TrimSpace(string(data))
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := os.Stat(w.path("origin.git/packed-refs")); err == nil || all["main"] == "" {
		return nil
	}
	return all
}

// plainly reports whether nothing but the branches counts when a clone, on main, fetches from
// the server or pushes to it: neither has hooks, and each is configured as it was when it was
// made, but for who the user is.
func (w *world) plainly(clone string) bool {
	for _, dir := range []string{"origin.git/hooks", clone + "/.git/hooks"} {
		hooks, _ := os.ReadDir(w.path(dir))
		if slices.ContainsFunc(hooks, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".sample") }) {
			return false
		}
	}
	config := w.read(clone + "/.git/config")
	return w.likePattern() && w.read(clone+"/.git/HEAD") == "ref: refs/heads/main\n" &&
		strings.Contains(config, "[remote \"origin\"]\n\turl = "+w.path("origin.git")+"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[") &&
		!strings.Contains(config, "push") && !strings.Contains(config, "fetch.")
}

// repo is a clone's files of git.
func (w *world) repo(dir string) *gittest.Repo {
	return &gittest.Repo{T: w.t, Dir: w.path(dir), Home: w.path("home"), Env: w.vars}
}

// lend gives one repository the objects of another that it does not have.
func (w *world) lend(from, to string) {
	w.t.Helper()
	from, to = w.path(from+"/objects"), w.path(to+"/objects")
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		there := to + path[len(from):]
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(there, 0o755)
		}
		if err := os.Link(path, there); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// push is git push of main to the server where that is ahead of what the server has. Where
// nothing can hinder it, no process is started, in place of eight: it is for tests of
// something else.
func (w *world) push(clone string) {
	w.t.Helper()
	if !w.current(clone) || !w.ahead(clone) {
		w.git(clone, "push", "-q")
		return
	}
	w.bring(clone)
}

// current reports whether a clone, to which nothing but branches counts, knows all that
// the server's main has.
func (w *world) current(clone string) bool {
	return w.plainly(clone) && w.repo(clone).RefOrNone("refs/remotes/origin/main") == w.repo("origin.git").Ref("refs/heads/main")
}

// bring gives the server main of a clone, without a process.
func (w *world) bring(clone string) {
	w.t.Helper()
	repo, server := w.repo(clone), w.repo("origin.git")
	w.lend(clone+"/.git", "origin.git")
	tip := repo.Ref("refs/heads/main")
	server.SetRef("refs/heads/main", tip)
	repo.SetRef("refs/remotes/origin/main", tip)
}

// ahead reports whether main of a clone is on top of what it knows of the server's.
func (w *world) ahead(clone string) bool {
	_, err := w.tryGit(clone, "merge-base", "--is-ancestor", "origin/main", "main")
	return err == nil
}

// fetch is git fetch, which starts no process where nothing counts but the branches: it is
// for tests of something else.
func (w *world) fetch(clone string) {
	w.t.Helper()
	if !w.plainly(clone) {
		w.git(clone, "fetch", "-q")
		return
	}
	w.lend("origin.git", clone+"/.git")
	for name, id := range w.branches() {
		w.repo(clone).SetRef("refs/remotes/origin/"+name, id)
	}
}

// pull is git pull, which starts one process at the most, in place of ten, where the clone
// has no commits of its own: it is for tests of something else.
func (w *world) pull(clone string) {
	w.t.Helper()
	repo := w.repo(clone)
	if !w.plainly(clone) || repo.Ref("refs/heads/main") != repo.RefOrNone("refs/remotes/origin/main") {
		w.git(clone, "pull", "-q")
		return
	}
	w.fetch(clone)
	if repo.Ref("refs/heads/main") != repo.Ref("refs/remotes/origin/main") {
		w.git(clone, "merge", "-q", "--ff-only", "origin/main")
	}
}

func (w *world) makeServer() {
	w.t.Helper()
	w.git(".", "init", "-q", "--bare", "-b", "main", "origin.git")
	w.git(".", "init", "-q", "-b", "main", "seed")
	w.write("seed/seed.txt", "seed\n")
	w.git("seed", "add", ".")
	w.git("seed", "-c", "user.name=S", "-c", "user.email=s@example.com", "commit", "-q", "-m", "seed")
	w.git("seed", "push", "-q", w.path("origin.git"), "main")
}

func (w *world) makeClone(name, rig string) {
	w.t.Helper()
	w.git(".", "clone", "-q", "origin.git", name)
	w.set(name, "user.name", "Op "+name)
	w.set(name, "user.email", name+"@example.com")
	w.ok(name, "init", "--rig-id", rig, "--no-hooks")
}

func (w *world) write(rel, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(rel)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(rel), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// program writes a file that can be run.
func (w *world) program(rel, text string) {
	w.t.Helper()
	w.write(rel, text)
	if err := os.Chmod(w.path(rel), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

type outcome struct {
	code           int
	stdout, stderr string
}

// command is a call of rig-bridge that has not been started.
func (w *world) command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(w.t), args...)
	cmd.Dir, cmd.Env = w.path(dir), slices.Clone(w.vars)
	return cmd
}

func (w *world) run(dir string, args ...string) outcome {
	w.t.Helper()
	o := finish(w.t, w.command(dir, args...))
	if slices.Contains(args, "--json") && !slices.Contains(args, "--help") {
		holds(w.t, args, o.stdout)
	}
	return o
}

// holds holds what a command printed with --json against the published schema.
func holds(t testing.TB, args []string, stdout string) {
	t.Helper()
	s, err := outputschema.Strict()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(stdout) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("rig-bridge %s: %v in %s", strings.Join(args, " "), err, line)
		} else if err := s.Validate(v); err != nil {
			t.Errorf("rig-bridge %s: %#v\n%s", strings.Join(args, " "), err, line)
		}
	}
}

func finish(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// ok runs rig-bridge and fails the test unless it succeeds.
func (w *world) ok(dir string, args ...string) outcome {
	w.t.Helper()
	o := w.run(dir, args...)
	if o.code != 0 {
		w.t.Fatalf("rig-bridge %s: exit %d\n%s%s", strings.Join(args, " "), o.code, o.stdout, o.stderr)
	}
	return o
}

func (w *world) read(rel string) string {
	w.t.Helper()
	data, err := os.ReadFile(w.path(rel))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func (w *world) bodyHash(rel string) string {
	w.t.Helper()
	e, _ := envelope.Parse([]byte(w.read(rel)), envelope.Options{})
	return e.Hash
}

// commitFiles commits files of a clone as they are and pushes them.
func (w *world) commitFiles(clone string, files map[string]string) {
	w.t.Helper()
	for path, text := range files {
		w.write(clone+"/"+path, text)
	}
	repo := w.repo(clone)
	ahead := w.current(clone) && repo.Ref("refs/heads/main") == repo.Ref("refs/remotes/origin/main")
	w.git(clone, append([]string{"add", "-f", "--"}, slices.Collect(maps.Keys(files))...)...)
	w.git(clone, "commit", "-q", "-m", "policy")
	if ahead { // by that commit
		w.bring(clone)
	} else {
		w.push(clone)
	}
}
