package action

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// A runner is a machine that runs the step program of action.yml, with a server
// of files in the place of the release.
type runner struct {
	t                *testing.T
	action           string // GITHUB_ACTION_PATH
	temp, tools      string
	asked            int
	served           []byte // what the release has; nil: nothing
	releases, digest string
}

const released = "rig-action_0.1.0_linux_amd64"

func newRunner(t *testing.T, program []byte) *runner {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	sum := sha256.Sum256(program)
	r := &runner{t: t, action: gittest.TempDir(t), temp: gittest.TempDir(t), tools: gittest.TempDir(t), served: program, digest: hex.EncodeToString(sum[:])}
	r.write(filepath.Join(r.action, "action/program.sh"), read(t, "program.sh"))
	r.sums(r.digest + "  " + released + "\n" + strings.Repeat("1", 64) + "  rig-action_0.1.0_windows_amd64.exe\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked++
		if r.served == nil || q.URL.Path != "/v0.1.0/"+released {
			http.NotFound(w, q)
			return
		}
		_, _ = w.Write(r.served)
	}))
	t.Cleanup(server.Close)
	r.releases = server.URL
	return r
}

func (r *runner) write(name, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func (r *runner) sums(text string) { r.write(filepath.Join(r.action, "action/SHA256SUMS"), text) }

// get runs the step and returns what it has got, "" if the action is to be
// built, and what it said.
func (r *runner) get(vars ...string) (program, said string) {
	r.t.Helper()
	outputs := filepath.Join(r.temp, "outputs")
	r.write(outputs, "")
	cmd := exec.Command("bash", filepath.Join(r.action, "action/program.sh"))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "RUNNER_OS=Linux", "RUNNER_ARCH=X64", "RUNNER_TEMP=" + r.temp, "RUNNER_TOOL_CACHE=" + r.tools,
		"GITHUB_ACTION_PATH=" + r.action, "GITHUB_OUTPUT=" + outputs, "INPUT_BUILD=false", "INPUT_RELEASES=" + r.releases}, vars...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	at := filepath.Join(r.temp, "rig-action")
	data, err := os.ReadFile(at)
	switch there := read(r.t, outputs) == "there=true\n"; {
	case there && err == nil:
		sum := sha256.Sum256(data)
		if hex.EncodeToString(sum[:]) != r.digest {
			r.t.Errorf("a program with another digest is there")
		}
		return at, string(out)
	case there || err == nil:
		r.t.Errorf("there is a program: %v, and the step says: %v", err == nil, there)
	}
	if !strings.Contains(string(out), "the action is built from its own source") {
		r.t.Errorf("not said that it is built: %s", out)
	}
	return "", string(out)
}

// TestProgram: G15. What is downloaded runs only if its digest is in the
// action's own commit; else the action is built from its source.
func TestProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the step is played as on Linux")
	}
	program := []byte("#!/bin/sh\necho ran\n")
	builds := func(t *testing.T, r *runner, says string, vars ...string) {
		t.Helper()
		if got, said := r.get(vars...); got != "" || !strings.Contains(said, says) {
			t.Errorf("%q, and said %q, expected %q", got, said, says)
		}
	}
	t.Run("cold, then warm", func(t *testing.T) {
		r := newRunner(t, program)
		for range 2 {
			got, said := r.get()
			if out, err := exec.Command(got).CombinedOutput(); err != nil || string(out) != "ran\n" || said != "" {
				t.Errorf("%v: %s, %s", err, out, said)
			}
		}
		if r.asked != 1 {
			t.Errorf("%d downloads, expected 1", r.asked)
		}
		r.get("RUNNER_TOOL_CACHE=") // a runner that keeps nothing
		if r.asked != 2 {
			t.Errorf("%d downloads, expected 2", r.asked)
		}
	})
	t.Run("a download that is not what the commit says", func(t *testing.T) {
		r := newRunner(t, program)
		r.served = []byte("#!/bin/sh\necho evil\n")
		builds(t, r, "has not the SHA-256 "+r.digest)
		builds(t, r, "has not the SHA-256 "+r.digest) // and was not kept
		r.served = append([]byte(nil), program[:8]...)
		builds(t, r, "has not the SHA-256")
		r.served = program
		if got, said := r.get(); got == "" {
			t.Error(said)
		}
	})
	t.Run("somebody else's file in the tool cache", func(t *testing.T) {
		r := newRunner(t, program)
		planted := filepath.Join(r.tools, "rigward", r.digest, released)
		r.write(planted, "#!/bin/sh\necho evil\n")
		if got, said := r.get(); got == "" || r.asked != 1 {
			t.Errorf("%q %q", got, said)
		}
		if data := read(t, planted); data != string(program) {
			t.Errorf("the cache still has %q", data)
		}
		r.served = nil
		if got, said := r.get(); got == "" {
			t.Error(said)
		}
		r.write(planted, "#!/bin/sh\necho evil\n")
		builds(t, r, "cannot be fetched")
	})
	t.Run("a tool cache that takes nothing", func(t *testing.T) {
		r := newRunner(t, program)
		r.write(filepath.Join(r.tools, "file"), "")
		if got, _ := r.get("RUNNER_TOOL_CACHE=" + filepath.Join(r.tools, "file")); got == "" {
			t.Error("not taken from the release")
		}
	})
	t.Run("an attestation, where there are gh and a token", func(t *testing.T) {
		r := newRunner(t, program)
		bin := gittest.TempDir(t)
		// gh needs GitHub: this stands in for it, and says what it was asked.
		r.write(filepath.Join(bin, "gh"), "#!/bin/sh\necho \"asked: $1 $2 $4 $5\"\nexit $GH_SAYS\n")
		path := "PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH")
		builds(t, r, "the attestation of the release does not verify", path, "GH_TOKEN=x", "GH_SAYS=1")
		if got, said := r.get(path, "GH_TOKEN=x", "GH_SAYS=0"); got == "" || said != "asked: attestation verify --repo rigward/rigward\n" {
			t.Errorf("%q %q", got, said)
		}
		r = newRunner(t, program)
		if got, said := r.get(path, "GH_SAYS=1"); got == "" || said != "" {
			t.Errorf("without a token: %q %q", got, said)
		}
	})
	t.Run("built from source", func(t *testing.T) {
		r := newRunner(t, program)
		builds(t, r, "the input build is true", "INPUT_BUILD=true")
		builds(t, r, "no release is made for Linux on RISCV", "RUNNER_ARCH=RISCV")
		builds(t, r, "no release is made for Plan9", "RUNNER_OS=Plan9")
		builds(t, r, "this commit is not one of a release", "RUNNER_ARCH=ARM64")
		builds(t, r, "cannot be fetched", "INPUT_RELEASES=http://127.0.0.1:1")
		builds(t, r, "cannot be fetched", "INPUT_RELEASES=--version")
		for _, sums := range []string{"", r.digest[:63] + "  " + released + "\n", "  " + released + "\n", r.digest + "  rig-hook_0.1.0_linux_amd64\n"} {
			r.sums(sums)
			builds(t, r, "this commit is not one of a release")
		}
		if r.asked != 0 {
			t.Errorf("%d downloads without a digest", r.asked)
		}
	})
	t.Run("an input that is neither", func(t *testing.T) {
		r := newRunner(t, program)
		cmd := exec.Command("bash", filepath.Join(r.action, "action/program.sh"))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "RUNNER_TEMP=" + r.temp, "INPUT_BUILD=maybe"}
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// TestStart measures the action's own time, from the start of its first step to
// the verdict on a pull request of five commits:
//
//	go test ./action -run TestStart -v
func TestStart(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("builds the program of a release, of linux_amd64")
	}
	built := filepath.Join(gittest.TempDir(t), "rig-action")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", built, "github.com/rigward/rigward/cmd/rig-action")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, data)
	repo, base, head, _ := bridge(t)
	repo.Run("reset", "-q", "--hard", head)
	for i := range 4 {
		head = repo.Commit("more", turn("talk", fmt.Sprintf("STATE-1%d.md", i), "rig-b"))
	}
	for _, name := range []string{"cold", "warm"} {
		start := time.Now()
		got, said := r.get()
		if got == "" {
			t.Fatal(said)
		}
		cmd := exec.Command(got)
		summary, outputs := filepath.Join(r.temp, "summary"), filepath.Join(r.temp, "outputs")
		cmd.Dir, cmd.Env = repo.Dir, append(repo.Env, "GITHUB_WORKSPACE="+repo.Dir, "GITHUB_STEP_SUMMARY="+summary, "GITHUB_OUTPUT="+outputs, "INPUT_BASE="+base, "INPUT_HEAD="+head)
		r.write(summary, "")
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %v from the start of the step to the verdict on 5 commits, %d bytes", name, time.Since(start).Round(time.Millisecond), len(data))
		if err != nil || !strings.Contains(string(out), "clean: 5 commits, 5 envelopes checked") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// TestSums: the digests that are committed are those of one version on all six
// platforms, and of the source that they are committed with.
func TestSums(t *testing.T) {
	text := read(t, "SHA256SUMS")
	if text == "" {
		return // no commit of a release: the action is built from source
	}
	versions, platforms := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(text) {
		m := regexp.MustCompile(`^[0-9a-f]{64}  rig-action_(\d+\.\d+\.\d+)_((?:linux|darwin)_(?:amd64|arm64)|windows_(?:amd64|arm64)\.exe)\n$`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a line of SHA256SUMS: %q", line)
		}
		versions[m[1]], platforms[m[2]] = true, true
	}
	if len(versions) != 1 || len(platforms) != 6 {
		t.Errorf("versions %v, platforms %v", versions, platforms)
	}
	last, err := exec.Command("git", "log", "-1", "--format=%H", "--", "SHA256SUMS").Output()
	if err != nil || len(last) < 40 {
		t.Skip("not a clone with history")
	}
	diff := exec.Command("git", "diff", "--stat", strings.TrimSpace(string(last)), "--", ":/*.go", ":/go.mod", ":/go.sum", ":/schemas", ":/internal/report/page.*")
	if out, err := diff.Output(); err != nil || len(out) > 0 {
		t.Errorf("the source has changed since its digests were committed, so that the action would run another program than its source; empty action/SHA256SUMS: %v\n%s", err, out)
	}
}
