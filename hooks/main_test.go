package hooks_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/pkg/envelope"
)

// program is rig-hook, built once: the hooks of the tests are the real ones,
// started by git. With RIGWARD_TEST_RESIDENT=1 it is rig-hook-client, and a
// resident judge does the work.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if flag.Parse(); testing.Short() {
		fmt.Println("skipped with -short: all tests here start git and a built program")
		return 0
	}
	dir, err := os.MkdirTemp("", "rigward-hooks-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "rig-hook")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if err := programs.Build(dir, "rig-hook"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv("RIGWARD_TEST_RESIDENT") != "" {
		end, err := throughResident()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer end()
	}
	return m.Run()
}

// reftable tells, once, whether the installed git knows that ref backend.
var reftable = sync.OnceValue(func() bool {
	return exec.Command("git", "init", "-q", "--ref-format=reftable", filepath.Join(filepath.Dir(program), "probe")).Run() == nil
})

// formats runs a test in the matrix of object formats and ref backends that
// the installed git knows. By default that is SHA-1 with the files backend;
// RIGWARD_TEST_FORMATS=all runs the whole matrix.
func formats(t *testing.T, name string, test func(t *testing.T, o gittest.Options)) {
	t.Run(name, func(t *testing.T) {
		if os.Getenv("RIGWARD_TEST_FORMATS") == "all" {
			matrix(t, test)
			return
		}
		t.Parallel()
		test(t, gittest.Options{})
	})
}

// everyFormat is formats for what depends on the format: always the matrix.
func everyFormat(t *testing.T, name string, test func(t *testing.T, o gittest.Options)) {
	t.Run(name, func(t *testing.T) { matrix(t, test) })
}

func matrix(t *testing.T, test func(t *testing.T, o gittest.Options)) {
	for _, object := range []string{"sha1", "sha256"} {
		for _, refs := range []string{"files", "reftable"} {
			t.Run(object+" "+refs, func(t *testing.T) {
				t.Parallel()
				if refs == "reftable" && !reftable() {
					t.Skip("the installed git has no reftable backend")
				}
				test(t, gittest.Options{ObjectFormat: object, RefFormat: refs})
			})
		}
	}
}

// A world is a server with the hooks of a server, and a clone without hooks
// whose branch main is at the server's.
type world struct {
	*testing.T
	server, clone *gittest.Repo
	base          string // commit of main at the server
}

// request is the first envelope of every world.
const request = "release-check/REQUEST.md"

// newWorld makes a world with one envelope. Worlds of one format are copies of
// the first one.
func newWorld(t *testing.T, o gittest.Options) *world {
	t.Helper()
	return copyOf(t, "world-"+o.ObjectFormat+o.RefFormat, func() *world {
		w := emptyWorld(t, o)
		w.server.Config("rigward.bootstrap", "true")
		w.clone.Run("remote", "set-url", "origin", "../../server.git")
		w.clone.Commit("Ask", map[string]string{
			request:     turn("release-check", "REQUEST", "Is the release ready?\n"),
			"README.md": "# Nobody's business\n",
		})
		w.accepted(w.clone.Push("file://"+filepath.ToSlash(w.server.Dir), "main"))
		w.server.Run("config", "--unset", "rigward.bootstrap")
		return w
	})
}

// copyOf copies a world that is made once, by its name.
func copyOf(t *testing.T, name string, make func() *world) *world {
	t.Helper()
	models.Lock()
	defer models.Unlock()
	dir := filepath.Join(filepath.Dir(program), name)
	w := &world{T: t}
	if _, err := os.Stat(dir); err != nil {
		w := make()
		for from, r := range map[string]*gittest.Repo{"repo.git": w.server, "repo": w.clone} {
			if err := os.CopyFS(filepath.Join(dir, from), os.DirFS(r.Dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := gittest.TempDir(t)
	home := gittest.TempDir(t)
	w.server = &gittest.Repo{T: t, Dir: filepath.Join(at, "server.git"), Home: home, Env: gittest.Environ(home), Now: gittest.Epoch + 60}
	w.clone = &gittest.Repo{T: t, Dir: filepath.Join(at, "clones", "a"), Home: home, Env: gittest.Environ(home), Now: gittest.Epoch + 60}
	for from, r := range map[string]*gittest.Repo{"repo.git": w.server, "repo": w.clone} {
		if err := os.CopyFS(r.Dir, os.DirFS(filepath.Join(dir, from))); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	return w
}

var models sync.Mutex

// emptyWorld is a world before its first push.
func emptyWorld(t *testing.T, o gittest.Options) *world {
	t.Helper()
	w := &world{T: t}
	o.Bare = true
	w.server = gittest.New(t, o)
	if _, err := hooks.Install(filepath.Join(w.server.Dir, "hooks"), program, hooks.ServerHooks); err != nil {
		t.Fatal(err)
	}
	o.Bare = false
	w.clone = gittest.New(t, o)
	w.clone.Run("remote", "add", "origin", "file://"+filepath.ToSlash(w.server.Dir))
	return w
}

// hooked puts the client hooks into a repository.
func hooked(t testing.TB, r *gittest.Repo) {
	t.Helper()
	if _, err := hooks.Install(r.HooksDir(), program, hooks.ClientHooks); err != nil {
		t.Fatal(err)
	}
}

// push pushes from the clone past its own hooks, and looks at the form of what
// the server says.
func (w *world) push(args ...string) gittest.Result {
	w.Helper()
	res := w.clone.Push(append([]string{"--no-verify", "origin"}, args...)...)
	serverForm(w, res.Stderr)
	return res
}

// serverForm checks what every answer of a server must be like: at most 20
// lines of under 72 columns, but for hints, without control characters.
func serverForm(t testing.TB, stderr string) {
	t.Helper()
	n := 0
	for line := range strings.Lines(stderr) {
		text, ok := strings.CutPrefix(strings.TrimRight(line, " \n"), "remote: ")
		if !ok || strings.HasPrefix(text, "error: ") || strings.HasPrefix(text, "fatal: ") || strings.HasPrefix(text, "warning: ") {
			continue // git's own
		}
		if n++; n > 20 {
			t.Errorf("more than 20 lines:\n%s", stderr)
			return
		}
		if cols := utf8.RuneCountInString(text); cols > 71 && !strings.HasPrefix(text, "  hint: ") {
			t.Errorf("%d columns: %q", cols, text)
		}
		if strings.ContainsAny(text, "\x1b\r\x07") {
			t.Errorf("control character: %q", text)
		}
	}
}

func (w *world) accepted(res gittest.Result) {
	w.Helper()
	if res.Code != 0 {
		w.Fatalf("the push was refused:\n%s", res.Stderr)
	}
}

// refused checks that a push was refused for a rule, and moved no ref.
func (w *world) refused(res gittest.Result, rule string) {
	w.Helper()
	if res.Code == 0 || !strings.Contains(unwrapped(res.Stderr), "["+rule+"]") {
		w.Fatalf("exit %d, expected a refusal by %s:\n%s", res.Code, rule, res.Stderr)
	}
	w.unmoved()
}

// undecided checks that a push was refused because it could not be checked.
func (w *world) undecided(res gittest.Result, says string) {
	w.Helper()
	text := unwrapped(res.Stderr)
	if res.Code == 0 || !strings.Contains(text, "cannot decide") || !strings.Contains(text, says) {
		w.Fatalf("exit %d, expected no decision because of %q:\n%s", res.Code, says, res.Stderr)
	}
	w.unmoved()
}

func (w *world) unmoved() {
	w.Helper()
	if w.base == "" {
		return
	}
	if now := w.server.Ref("refs/heads/main"); now != w.base {
		w.Fatalf("main moved to %s", now)
	}
}

var remotePrefix = regexp.MustCompile(`(?m)^remote: ? *`)

// unwrapped is what a server said, as one line.
func unwrapped(stderr string) string {
	return strings.Join(strings.Fields(remotePrefix.ReplaceAllString(stderr, " ")), " ")
}

// policy makes a file the server's own policy.
func (w *world) policy(text string) {
	w.Helper()
	file := filepath.Join(w.server.Dir, "policy.yaml")
	write(w, file, text)
	w.server.Config("rigward.policy", file)
}

// own makes a file the client's own policy.
func own(t testing.TB, r *gittest.Repo, text string) {
	t.Helper()
	write(t, filepath.Join(r.Dir, ".git", "rigward.yaml"), text)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// settle takes what is at the server's main as the state to come back to.
func (w *world) settle() {
	w.Helper()
	w.base = w.server.Ref("refs/heads/main")
}

// again puts the clone back to the server's main.
func (w *world) again() {
	w.Helper()
	w.clone.Run("checkout", "-q", "-f", "-B", "main", w.base)
	w.clone.Run("clean", "-q", "-f", "-d")
}

// turn is a good envelope of a thread.
func turn(thread, kind, body string) string {
	return turnBy("rig-a", thread, kind, body, "")
}

// turnBy is a good envelope; reply is the body hash that it answers, or "".
func turnBy(from, thread, kind, body, reply string) string {
	text, err := envelope.Render(envelope.Fields{
		From: from, To: []string{"rig-z"}, Date: "2026-01-05", Status: "▶ Going on", Type: kind, Thread: thread,
		InReplyTo: reply, Body: []byte(body), BodyHash: hashOf(body),
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func hashOf(body string) string {
	return envelope.BodyHash(envelope.NormalizeBody([]byte(body)))
}

// served is the environment that git gives to the hooks of a server, which names the
// repository. Without it git is asked which one is meant, and much else.
func served(r *gittest.Repo) []string { return append(slices.Clone(r.Env), "GIT_DIR=.") }

// rig runs rig-hook in a directory as a shell would, with the environment of
// a repository's git processes; a hook of a server as git does.
func rig(r *gittest.Repo, dir, stdin string, args ...string) gittest.Result {
	r.T.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, r.Env
	if len(args) > 0 && slices.Contains(hooks.ServerHooks, args[0]) && strings.HasSuffix(dir, ".git") {
		cmd.Env = served(r)
	}
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if _, exit := err.(*exec.ExitError); err != nil && !exit {
		r.T.Fatal(err)
	}
	return gittest.Result{Stdout: out.String(), Stderr: errOut.String(), Code: cmd.ProcessState.ExitCode()}
}

// must checks the exit code of a command and that it says something.
func must(t testing.TB, res gittest.Result, code int, says ...string) {
	t.Helper()
	if res.Code != code {
		t.Fatalf("exit %d, expected %d\n%s%s", res.Code, code, res.Stdout, res.Stderr)
	}
	text := strings.Join(strings.Fields(res.Stdout+res.Stderr), " ")
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Fatalf("nothing says %q:\n%s%s", s, res.Stdout, res.Stderr)
		}
	}
}
