package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/outputschema"
	"github.com/rigward/rigward/pkg/envelope"
)

// beMain makes the test binary behave as rig-bridge itself.
const beMain = "RIG_BRIDGE_TEST_BE_MAIN"

// beHook makes it behave as the hook of that name.
const beHook = "RIG_BRIDGE_TEST_BE_HOOK"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" || os.Getenv(bridge.KeyVariable) != "" {
		os.Unsetenv(beMain)
		os.Exit(run())
	}
	if os.Getenv(beHook) != "" {
		os.Exit(hook(os.Getenv(beHook)))
	}
	os.Exit(m.Run())
}

// wrapper writes a program that is rig-bridge, for tests that need its path.
func wrapper(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rig-bridge")
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", beMain, self)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

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
	w := &world{t: t, dir: dir}
	os.Mkdir(w.path("home"), 0o755)
	w.vars = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8", "TZ=UTC", "GIT_TERMINAL_PROMPT=0"}
	os.WriteFile(w.path("home/.gitconfig"), []byte("[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"), 0o644)
	return w
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
	w.git(".", "init", "-q", "--bare", "-b", "main", "origin.git")
	w.git(".", "init", "-q", "-b", "main", "seed")
	w.write("seed/seed.txt", "seed\n")
	w.git("seed", "add", ".")
	w.git("seed", "-c", "user.name=S", "-c", "user.email=s@example.com", "commit", "-q", "-m", "seed")
	w.git("seed", "push", "-q", w.path("origin.git"), "main")
}

// clone makes a clone of the server that is the rig of that id.
func (w *world) clone(name, rig string) {
	w.t.Helper()
	w.git(".", "clone", "-q", "origin.git", name)
	w.git(name, "config", "user.name", "Op "+name)
	w.git(name, "config", "user.email", name+"@example.com")
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
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = w.path(dir)
	cmd.Env = append(append([]string(nil), w.vars...), beMain+"=1")
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
		w.git(clone, "add", "-f", path)
	}
	w.git(clone, "commit", "-q", "-m", "policy")
	w.git(clone, "push", "-q")
}
