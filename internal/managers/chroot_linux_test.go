package managers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rigward/rigward/internal/test/programs"
)

var library = regexp.MustCompile(`(/\S+) \(0x`)

// TestStatic runs the programs in a root directory that holds nothing but
// them, git, and the libraries that git itself needs.
func TestStatic(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("chroot is root's")
	}
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	root := filepath.Join(d.home, "root")
	list, err := exec.Command("ldd", git).Output()
	if err != nil {
		t.Skip("ldd does not say what git needs")
	}
	files := map[string]string{"bin/git": git}
	for _, m := range library.FindAllStringSubmatch(string(list), -1) {
		files[strings.TrimPrefix(m[1], "/")] = m[1]
	}
	for _, p := range []string{"rig-hook", "rig-bridge", "rig-bundle"} {
		files["bin/"+p] = filepath.Join(programs.Dir(t), p)
	}
	for to, from := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		d.write(filepath.Join(root, to), string(data))
		if err := os.Chmod(filepath.Join(root, to), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.write(filepath.Join(root, "dev", "null"), "")
	d.must(d.home, "mkdir root/tmp && cp -r bridge root/bridge && sed s/REQUEST/ORDER/ bridge/release-check/REQUEST.md >root/bridge/release-check/STATE.md && git -C root/bridge add . && git -C root/bridge commit -q -m Bad")
	run := func(want int, words string, args ...string) {
		t.Helper()
		cmd := exec.Command("/bin/"+args[0], args[1:]...)
		cmd.Dir, cmd.Env = "/bridge", []string{"PATH=/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if cmd.ProcessState == nil {
			t.Fatalf("%q: %v", args, err)
		}
		if cmd.ProcessState.ExitCode() != want || !strings.Contains(out.String(), words) {
			t.Errorf("%q: exit %d, expected %d with %q\n%s", args, cmd.ProcessState.ExitCode(), want, words, out.String())
		}
	}
	run(0, "rig-hook ", "rig-hook", "version")
	run(0, "1 envelope checked", "rig-hook", "pre-commit", "release-check/REQUEST.md")
	run(1, "[envelope-schema]", "rig-hook", "check", "--all")
	run(0, "invalid=0", "rig-bridge", "validate", "release-check/REQUEST.md")
	run(1, "invalid=1", "rig-bridge", "validate", "release-check/STATE.md")
	run(2, "usage: rig-bundle COMMAND", "rig-bundle")
}
