package managers

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rigward/rigward/internal/test/programs"
)

// TestNPM packs the programs for npm and installs the packages from their files:
// npm takes the package of this platform and leaves out the others, and each
// program is there under its own name, that of the reference client among them.
func TestNPM(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("pack.sh is a script of a shell")
	}
	if testing.Short() {
		t.Skip("packs and installs programs")
	}
	for _, tool := range []string{"npm", "node", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	d := newDesk(t)
	root := programs.Root(t)
	platform := runtime.GOOS + "_" + runtime.GOARCH
	from := filepath.Join(d.home, "dist", platform)
	for _, name := range []string{"rig-hook", "rig-bridge", "rig-bundle"} {
		data, err := os.ReadFile(filepath.Join(programs.Dir(t), name))
		if err != nil {
			t.Fatal(err)
		}
		d.write(filepath.Join(from, name), string(data))
	}
	d.must(d.home, "mkdir app && '"+root+"/npm/pack.sh' 0.1.0 dist packages && ls packages")
	d.must(d.home+"/app", "npm init -y >/dev/null && npm install --offline --no-audit --no-fund --ignore-scripts ../packages/*.tgz")
	bin := "PATH=" + d.home + "/app/node_modules/.bin:$PATH "
	if got, want := d.must(d.home+"/app", "npx --offline --no -- rig-bridge --version"), d.must(d.home, "rig-bridge --version"); got != want {
		t.Errorf("npx rig-bridge says %q, expected %q", got, want)
	}
	// Standard streams, words and the exit code go through.
	d.want(d.clone, bin+"rig-bridge frob 'a b'", 1, "frob")
	d.want(d.clone, bin+"rig-hook check --all", 0, "check: clean")
	d.want(d.clone, bin+"rig-hook check a..b", 2, "cannot decide")
	d.want(d.clone, "echo x | "+bin+"rig-hook check --stdin", 2, "cannot decide")
	d.want(d.clone, bin+"rig-bundle --version", 0, "rig-bundle ")
	// A signal goes through, and is how the program has ended.
	d.want(d.clone, bin+"rig-bridge init --rig-id rig-x && { "+bin+"rig-bridge status --watch >/dev/null & pid=$!; sleep 1; kill -TERM $pid; wait $pid; }", 143)
	// What npm did not install is said.
	d.want(d.clone, bin+"rig-mcp", 2, "there is no program for")
	d.must(d.home+"/app", "rm -r node_modules/@rigward")
	d.want(d.clone, bin+"rig-hook --version", 2, "is not installed", "hint: npm install without --omit=optional")
}
