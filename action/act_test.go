package action

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/internal/test/testkeys"
)

const workflow = `on: [pull_request]
permissions:
  contents: read
jobs:
  judge:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683
        with: { fetch-depth: 0 }
      - id: rigward
        uses: rigward/rigward@v1
        with:
          formats: sarif=rigward.sarif
      - if: always()
        env:
          RESULT: ${{ steps.rigward.outputs.result }}
          CHANGED: ${{ steps.rigward.outputs.bundles-changed }}
        run: |
          echo "RESULT=$RESULT CHANGED=$CHANGED"
          test -s rigward.sarif
`

// TestAct has the workflow run by act, on this machine: the real action.yml,
// built from a checkout of this tree, on a sample repository.
func TestAct(t *testing.T) {
	act := os.Getenv("RIGWARD_ACT")
	if act == "" {
		t.Skip("RIGWARD_ACT does not name the program act (github.com/nektos/act)")
	}
	if testing.Short() {
		t.Skip("runs a workflow five times")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := gittest.TempDir(t)
	goenv := func(name string) string {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return name + "=" + strings.TrimSpace(string(out))
	}
	// What is pinned is what runs: a checkout of its own, with what is new here.
	src := &gittest.Repo{T: t, Dir: filepath.Join(dir, "rigward"), Home: dir, Env: gittest.Environ(dir), Now: gittest.Epoch}
	files, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.go", "go.mod", "go.sum", "action.yml", "schemas", "pkg", "internal", "action", "hooks").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(src.Dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(src.Dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	src.Run("init", "-q", "-b", "main")
	src.Run("add", "-A")
	src.Run("commit", "-q", "-m", "As it is")
	// Go is there, so this action is never run; act wants to read it all the same.
	setup := filepath.Join(dir, "setup-go")
	if err := os.Mkdir(setup, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(setup, "action.yml"), []byte("name: unused\ndescription: unused\nruns:\n  using: composite\n  steps:\n    - shell: bash\n      run: exit 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`actions/setup-go@[0-9a-f]{40}`).FindString(read(t, filepath.Join(root, "action.yml")))
	if pinned == "" {
		t.Fatal("action.yml does not pin setup-go by a commit")
	}
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), goenv("GOCACHE"), goenv("GOMODCACHE"), goenv("GOPATH"), goenv("GOPROXY"), goenv("GOSUMDB"), "GIT_CONFIG_GLOBAL=" + os.DevNull}
	pull := func(t *testing.T, r *gittest.Repo, base, head string) string {
		t.Helper()
		event := filepath.Join(gittest.TempDir(t), "event.json")
		if err := os.WriteFile(event, payload(t, "pull_request", "@BASE@", base, "@HEAD@", head), 0o644); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, act, "pull_request", "-W", ".github/workflows/w.yml", "-e", event, "-P", "ubuntu-latest=-self-hosted",
			"--local-repository", "rigward/rigward@v1="+src.Dir, "--local-repository", pinned+"="+setup)
		cmd.Dir, cmd.Env = r.Dir, environ
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			t.Fatalf("act took too long:\n%s", out)
		}
		t.Logf("act ended: %v", err)
		return string(out)
	}
	says := func(t *testing.T, log, result string, words ...string) {
		t.Helper()
		for _, w := range append(words, "| RESULT="+result+" ") {
			if !strings.Contains(log, w) {
				t.Errorf("%q is not in what act printed:\n%s", w, log)
			}
		}
		if ok := strings.Contains(log, "Job succeeded"); ok != (result == "clean") {
			t.Errorf("the job succeeded: %v, with result %s", ok, result)
		}
	}

	// The runs after the first take the program of a release, which is faster.
	var server *runner
	workflow := workflow
	if runtime.GOARCH == "amd64" {
		built := filepath.Join(gittest.TempDir(t), "rig-action")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", built, "github.com/rigward/rigward/cmd/rig-action")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		server = newRunner(t, []byte(read(t, built)))
		workflow = strings.Replace(workflow, "        with:\n          formats", "        with:\n          releases: "+server.releases+"\n          formats", 1)
	}

	r := gittest.New(t, gittest.Options{})
	r.Commit("workflow", map[string]string{".github/workflows/w.yml": workflow, ".bridge/policy.yaml": "version: 1\n", ".bridge/allowed_signers": testkeys.Ed25519("operator").Line(gittest.Email+",op-relay", "") + "\n"})
	first := r.Commit("request", turn("talk", "REQUEST.md", "rig-a"))
	base := r.Commit("more", turn("talk", "STATE-0.md", "rig-a"))
	good := r.Commit("good", turn("talk", "STATE-1.md", "rig-b"))

	t.Run("clean", func(t *testing.T) {
		says(t, pull(t, r.Copy(t), base, good), "clean", "built from its own source", "::set-output:: checked=1", "::set-output:: findings=0", "rigward: clean", "```mermaid", "talk/STATE-1.md")
	})
	if server != nil {
		src.Commit("release", map[string]string{"action/SHA256SUMS": server.digest + "  " + released + "\n"})
	}
	t.Run("five kinds of findings", func(t *testing.T) {
		r := r.Copy(t)
		files := turn("talk", "REQUEST.md", "rig-a", "from: rig-a", "from: rig-c") // accepted long ago
		for _, m := range []map[string]string{
			turn("talk", "STATE-2.md", "rig-b", "type: STATE", "type: ORDER"),
			turn("talk", "STATE-3.md", "rig-b", "\nx\n", "\nanother body\n"),
			turn("talk", "STATE-4.md", "rig-b", "thread: talk", "thread: walk"),
			turn("talk", "STATE-5.md", "op-relay"),
		} {
			for name, text := range m {
				files[name] = text
			}
		}
		bad := r.Commit("bad", files)
		log := pull(t, r, base, bad)
		for try := 0; try < 3 && !strings.Contains(log, "::error file="); try++ {
			log = pull(t, r, base, bad) // act can lose the end of what a program prints before it exits
		}
		says(t, log, "findings", "envelope-schema", "body-hash", "envelope-path", "append-only", "relay-suffix", "::error file=talk/STATE-2.md")
		if !strings.Contains(log, "| Severity") && !strings.Contains(log, "|---|") {
			t.Errorf("no table in the summary:\n%s", log)
		}
	})
	t.Run("a forgotten bundle", func(t *testing.T) {
		r := r.Copy(t)
		tool := filepath.Join(gittest.TempDir(t), "rig-bundle")
		if err := programs.Build(filepath.Dir(tool), "rig-bundle"); err != nil {
			t.Fatal(err)
		}
		script := txtar.Parse([]byte(read(t, filepath.Join(root, "testdata/scripts/bundles/rig.txtar"))))
		files, role := map[string]string{}, ""
		for _, f := range script.Files {
			if strings.Contains(f.Name, "/") {
				files[f.Name] = string(f.Data)
			} else if f.Name == "role2.md" {
				role = string(f.Data)
			}
		}
		r.Commit("a rig", files)
		cmd := exec.Command(tool, "create", "rigs/team/rig.yaml", "--from", "HEAD", "-o", "dist/team.rigbundle")
		cmd.Dir, cmd.Env = r.Dir, r.Env
		if err := os.Mkdir(filepath.Join(r.Dir, "dist"), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		r.Run("add", "dist")
		base := r.Commit("its bundle", nil)
		head := r.Commit("say it better", map[string]string{"rigs/team/agents/impl/role.md": role})
		log := pull(t, r, base, head)
		says(t, log, "findings", "bundle-drift", "<details>", "role.md")
		if strings.Contains(log, "CHANGED=\n") {
			t.Errorf("no bundle is said to have changed:\n%s", log)
		}
	})
	t.Run("B07 a shallow checkout", func(t *testing.T) {
		c := gittest.New(t, gittest.Options{})
		c.Run("fetch", "-q", "--depth=1", "file://"+r.Dir, "main")
		c.Run("checkout", "-q", "-B", "main", "FETCH_HEAD")
		says(t, pull(t, c, first, good), "undecided", "fetch-depth: 0")
	})
	t.Run("G09 a fork", func(t *testing.T) {
		r := r.Copy(t)
		// Its policy lets everything pass, and is not asked.
		r.Run("checkout", "-q", "-b", "theirs", base)
		bad := turn("talk", "STATE-7.md", "rig-b", "type: STATE", "type: ORDER")
		bad[".bridge/policy.yaml"] = "version: 1\nrules:\n  envelope-schema: off\n"
		head := r.Commit("from a fork", bad)
		r.Run("update-ref", "refs/pull/7/head", head)
		r.Run("checkout", "-q", "main")
		r.Run("merge", "-q", "--no-ff", "-m", "Merge", head)
		says(t, pull(t, r, base, head), "findings", "envelope-schema")
	})
	t.Run("G15 the program of the release", func(t *testing.T) {
		if server == nil {
			t.Skip("the release that is played is of linux_amd64")
		}
		start := time.Now()
		log := pull(t, r, base, good)
		says(t, log, "clean", "rigward: clean")
		// All runs but the first had it from the tool cache.
		if t.Logf("the job took %v", time.Since(start)); server.asked != 1 || strings.Contains(log, "built from its own source") {
			t.Errorf("%d downloads, expected 1:\n%s", server.asked, log)
		}
		src.Commit("not this one", map[string]string{"action/SHA256SUMS": strings.Repeat("1", 64) + "  " + released + "\n"})
		says(t, pull(t, r, base, good), "clean", "has not the SHA-256 1111", "built from its own source")
	})
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
