package managers

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
)

func TestMain(m *testing.M) { programs.Main(m) }

// A desk is a person's home with a clone of a guarded server.
type desk struct {
	t     *testing.T
	home  string
	clone string
	env   []string
}

// newDesk makes the server, with one request on it, and the clone, whose hooks
// are still to be installed. Each is a copy of the first one.
func newDesk(t *testing.T, path ...string) *desk {
	t.Helper()
	desks.Lock()
	defer desks.Unlock()
	home, model := gittest.TempDir(t), filepath.Join(programs.Dir(t), "desk")
	if _, err := os.Stat(model); err != nil {
		first := deskIn(t, home, path)
		first.begin()
		if err := os.CopyFS(model, os.DirFS(home)); err != nil {
			t.Fatal(err)
		}
		desks.of = home
		return first
	}
	if err := os.CopyFS(home, os.DirFS(model)); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(home, "bridge", ".git", "config") // names the server by its path
	text, err := os.ReadFile(config)
	if err == nil {
		err = os.WriteFile(config, bytes.ReplaceAll(text, []byte(desks.of), []byte(home)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return deskIn(t, home, path)
}

var desks struct {
	sync.Mutex
	of string // where the one that is copied was made
}

func deskIn(t *testing.T, home string, path []string) *desk {
	t.Helper()
	d := &desk{t: t, home: home, clone: filepath.Join(home, "bridge")}
	d.env = []string{"HOME=" + home, "LC_ALL=C.UTF-8", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1", "GIT_TEST_FSYNC=0", "GIT_TERMINAL_PROMPT=0", "NO_COLOR=1",
		"PATH=" + strings.Join(append(append(path, programs.Dir(t)), os.Getenv("PATH")), string(filepath.ListSeparator))}
	return d
}

func (d *desk) begin() {
	d.t.Helper()
	d.must(d.home, `git config --global user.name Op
git config --global user.email op@example.com
git config --global init.defaultBranch main
git config --global push.default current
git config --global protocol.file.allow always
git init -q --bare server.git
rig-hook install --server server.git --bootstrap
git clone -q server.git bridge`)
	d.write("release-check/REQUEST.md", envelope("REQUEST"))
	d.must(d.clone, "git add . && git commit -q -m Ask && git push -q && git branch -q --set-upstream-to=origin/main")
}

// envelope is one of that type; ORDER does not exist.
func envelope(kind string) string {
	return "---\nfrom: rig-a\nto: rig-b\ndate: 2026-01-05\nstatus: ▶ Asking\ntype: " + kind +
		"\nthread: release-check\nbody_hash: 87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7\n---\na\n"
}

// sh runs a script and returns what it printed, and its exit code.
func (d *desk) sh(dir, script string) (string, int) {
	d.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = dir, d.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func (d *desk) must(dir, script string) string {
	d.t.Helper()
	out, code := d.sh(dir, script)
	if code != 0 {
		d.t.Fatalf("%s: exit %d\n%s", script, code, out)
	}
	return out
}

// want runs a script, which must end with that code and say those words.
func (d *desk) want(dir, script string, code int, words ...string) string {
	d.t.Helper()
	out, got := d.sh(dir, script)
	if got != code {
		d.t.Errorf("%s: exit %d, expected %d\n%s", script, got, code, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			d.t.Errorf("%s: does not say %q:\n%s", script, w, out)
		}
	}
	return out
}

// refused runs a script that a hook must stop, saying the rule once.
func (d *desk) refused(dir, script, rule string) {
	d.t.Helper()
	out, code := d.sh(dir, script)
	if code == 0 || strings.Count(out, "["+rule+"]") != 1 {
		d.t.Errorf("%s: exit %d, expected a refusal with [%s] once:\n%s", script, code, rule, out)
	}
}

func (d *desk) write(path, content string) {
	d.t.Helper()
	file := path
	if !filepath.IsAbs(path) {
		file = filepath.Join(d.clone, filepath.FromSlash(path))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		d.t.Fatal(err)
	}
}
