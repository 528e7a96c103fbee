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
	if !w.untouched() || !plain.MatchString(rig) {
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
}

const patternClone, patternRig = "pattern-clone", "pattern-rig"

var plain = regexp.MustCompile(`^[a-z0-9-]+$`)

var patterns sync.Mutex

// pattern returns a directory with a server and a clone of it, made once: all
// servers, and all clones of servers that are still as they were, are copies of
// those, since it takes twenty processes to make them.
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
	if m.w == nil {
		t.Fatal("another test could not make this world")
	}
	err := filepath.WalkDir(m.w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		to := w.path(strings.TrimPrefix(path, m.w.dir))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to, info.Mode().Perm())
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no file", path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, bytes.ReplaceAll(data, []byte(m.w.dir), []byte(w.dir)), info.Mode().Perm()); err != nil {
			return err
		}
		return os.Chtimes(to, info.ModTime(), info.ModTime())
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// set sets a variable of a clone's configuration that is not there yet.
func (w *world) set(clone, key, value string) {
	w.t.Helper()
	i := strings.LastIndexByte(key, '.')
	section := key[:i]
	if before, sub, ok := strings.Cut(section, "."); ok {
		section = before + ` "` + sub + `"`
	}
	file := clone + "/.git/config"
	w.write(file, fmt.Sprintf("%s[%s]\n\t%s = %q\n", w.read(file), section, key[i+1:], value))
}

// untouched reports whether a clone of the server would be one of the pattern's.
func (w *world) untouched() bool {
	if !slices.Equal(w.vars, surroundings(w.dir)) || w.read("home/.gitconfig") != gitconfig {
		return false
	}
	state := func(dir string) (state string) {
		for _, name := range []string{"config", "HEAD", "packed-refs", "refs"} {
			err := filepath.WalkDir(filepath.Join(dir, name), func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				state += path[len(dir):] + " " + string(data) + "\n"
				return err
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.t.Fatal(err)
			}
		}
		return state
	}
	return state(w.path("origin.git")) == state(filepath.Join(pattern(w.t), "origin.git"))
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
	w.git(clone, append([]string{"add", "-f", "--"}, slices.Collect(maps.Keys(files))...)...)
	w.git(clone, "commit", "-q", "-m", "policy")
	w.git(clone, "push", "-q")
}
