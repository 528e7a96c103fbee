package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/rigvectors"
	"github.com/rigward/rigward/pkg/bundle"
)

// testState is the parent of the state directory of all tests and of their children.
var testState string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rig-bundle-state-")
	if err != nil {
		panic(err)
	}
	testState = dir
	os.Setenv("XDG_STATE_HOME", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// command runs the command in a directory; env holds KEY=value.
func command(dir string, env []string, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	get := func(key string) string {
		for _, kv := range env {
			if v, ok := strings.CutPrefix(kv, key+"="); ok {
				return v
			}
		}
		if key == "XDG_STATE_HOME" {
			return testState
		}
		return ""
	}
	environ := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}, env...)
	status = Main(context.Background(), Env{
		Args: args, Stdout: &out, Stderr: &errs,
		Getenv: get, Environ: environ, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }, Dir: dir,
		Exec: func(path string, args, environ []string) (int, error) {
			cmd := exec.Command(path, args[1:]...)
			cmd.Env, cmd.Stdout = environ, &out
			err := cmd.Run()
			return cmd.ProcessState.ExitCode(), err
		},
	})
	return status, out.String(), errs.String()
}

// withJSON runs the command with --json and returns its object.
func withJSON(t *testing.T, dir string, env []string, args ...string) (status int, got map[string]json.RawMessage) {
	t.Helper()
	status, out, errs := command(dir, env, append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &got); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("rig-bundle %q printed no single JSON object: %v\n%s\n%s", args, err, out, errs)
	}
	if text := func() string { var s string; json.Unmarshal(got["schema_version"], &s); return s }(); text != "1.0" {
		t.Errorf("schema_version is %q", text)
	}
	return status, got
}

func field(t *testing.T, got map[string]json.RawMessage, key string) (s string) {
	t.Helper()
	if err := json.Unmarshal(got[key], &s); err != nil {
		t.Fatalf("%s: %s", key, got[key])
	}
	return s
}

// same compares a field of the output with the vector's.
func same(t *testing.T, key string, got, want json.RawMessage) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &g); err != nil || !reflect.DeepEqual(g, w) {
		t.Errorf("%s is %s, want %s", key, got, want)
	}
}

func TestRigScenarios(t *testing.T) {
	dir := rigvectors.Dir(t)
	_, scenarios := rigvectors.Read(t, dir)
	for _, s := range scenarios {
		t.Run(s.ID, func(t *testing.T) {
			switch s.Kind {
			case "diff":
				status, got := withJSON(t, dir, nil, "diff", s.A, s.B)
				if status != s.Exit || field(t, got, "code") != s.Code {
					t.Fatalf("exit %d code %s, want %d %s", status, got["code"], s.Exit, s.Code)
				}
				for _, key := range []string{"same_file", "same_tar", "same_content", "files", "manifest"} {
					same(t, key, got[key], s.Want[key])
				}
			case "rebuild":
				src := filepath.Join(t.TempDir(), "src")
				rigvectors.Copy(t, filepath.Join(dir, s.Source), src)
				chmod(t, src, s.Chmod)
				args := append([]string{"rebuild", s.Spec, "--against", filepath.Join(dir, s.Against)}, s.Flags...)
				status, got := withJSON(t, src, nil, args...)
				if status != s.Exit || field(t, got, "code") != s.Code {
					t.Fatalf("exit %d code %s, want %d %s: %s", status, got["code"], s.Exit, s.Code, got["message"])
				}
				for _, key := range []string{"tar_digest", "rebuilt_tar_digest", "form", "drift", "manifest"} {
					if want, ok := s.Want[key]; ok {
						same(t, key, got[key], want)
					}
				}
			case "install":
				runSteps(t, filepath.Join(dir, s.Bundles), s.Steps)
			default:
				t.Fatalf("unknown kind %s", s.Kind)
			}
		})
	}
}

func chmod(t *testing.T, dir string, modes map[string]string) {
	t.Helper()
	for name, mode := range modes {
		m, err := strconv.ParseUint(mode, 8, 32)
		if err == nil {
			err = os.Chmod(filepath.Join(dir, name), fs.FileMode(m))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func runSteps(t *testing.T, bundles string, steps []rigvectors.Step) {
	work := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(bundles); err == nil {
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(bundles, e.Name()))
			check(err)
			check(os.WriteFile(filepath.Join(work, e.Name()), b, 0o644))
		}
	}
	env := []string{"PATH=" + os.Getenv("PATH")}
	write := func(files map[string]string, mode fs.FileMode) {
		for name, text := range files {
			p := filepath.Join(work, name)
			check(os.MkdirAll(filepath.Dir(p), 0o755))
			check(os.WriteFile(p, []byte(text), mode))
			check(os.Chmod(p, mode))
		}
	}
	for i, s := range steps {
		switch {
		case s.Run != nil:
			status, got := withJSON(t, work, env, s.Run...)
			if status != s.Exit || field(t, got, "code") != s.Code {
				t.Fatalf("step %d %q: exit %d code %s, want %d %s: %s", i, s.Run, status, got["code"], s.Exit, s.Code, got["message"])
			}
			if s.Paths != nil {
				var paths []string
				check(json.Unmarshal(got["paths"], &paths))
				if !slices.Equal(paths, s.Paths) {
					t.Errorf("step %d: paths %q, want %q", i, paths, s.Paths)
				}
			}
		case s.Write != nil:
			write(s.Write, 0o644)
		case s.Script != nil:
			write(s.Script, 0o755)
		case s.Mkdir != "":
			check(os.MkdirAll(filepath.Join(work, s.Mkdir), 0o755))
		case s.Symlink != nil:
			for name, to := range s.Symlink {
				p := filepath.Join(work, name)
				check(os.MkdirAll(filepath.Dir(p), 0o755))
				check(os.Symlink(to, p))
			}
		case s.Env != nil:
			for k, v := range s.Env {
				if k == "PATH" {
					v = filepath.Join(work, v)
				}
				env = append([]string{k + "=" + v}, env...)
			}
		case s.Tree != nil:
			got := tree(t, filepath.Join(work, "T"))
			for name, want := range s.Tree {
				if got[name] != want.Mode+" "+want.SHA256 {
					t.Errorf("step %d: T/%s is %q, want %s %s", i, name, got[name], want.Mode, want.SHA256)
				}
				delete(got, name)
			}
			if len(got) > 0 {
				t.Errorf("step %d: also in T: %v", i, got)
			}
		case s.Absent != "":
			if _, err := os.Lstat(filepath.Join(work, s.Absent)); err == nil {
				t.Errorf("step %d: %s exists", i, s.Absent)
			}
		case s.Empty != "":
			if entries, err := os.ReadDir(filepath.Join(work, s.Empty)); err != nil || len(entries) > 0 {
				t.Errorf("step %d: %s is not empty: %v %v", i, s.Empty, entries, err)
			}
		default:
			t.Fatalf("step %d has nothing that this test knows", i)
		}
	}
}

// tree describes all files of a directory but the lock, as "MODE SHA256".
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".rigbundle-lock.json" {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			out[filepath.ToSlash(rel)] = "-> " + to
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		out[filepath.ToSlash(rel)] = fmt.Sprintf("%04o %s", info.Mode().Perm(), bundle.Sum(b).Hex())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// diffStates tells which files are not the same in all three states.
func diffStates(got, old, after map[string]string) (out []string) {
	for _, m := range []map[string]string{got, old, after} {
		for k := range m {
			if got[k] != old[k] || got[k] != after[k] {
				out = append(out, k+": "+strings.Join([]string{got[k], old[k], after[k]}, " | "))
			}
		}
	}
	return out
}

// newRig writes a small rig with an executable file and returns its directory.
func newRig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"rig.yaml":               "version: \"0.2\"\nname: demo\npods:\n  - id: dev\n    label: Dev\n    members:\n      - id: impl\n        agent_ref: local:agents/impl\n        profile: default\n        runtime: codex\n        cwd: .\n",
		"agents/impl/agent.yaml": "name: impl\nversion: \"1.0\"\nprofiles:\n  default: {}\n",
		"agents/impl/role.md":    "Build it.\n",
		"agents/impl/run.sh":     "#!/bin/sh\n",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	chmod(t, dir, map[string]string{"agents/impl/run.sh": "0755", "rig.yaml": "0644", "agents/impl/role.md": "0644", "agents/impl/agent.yaml": "0644"})
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=1750000000 +0000", "GIT_COMMITTER_DATE=1750000000 +0000"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestCreateFromCommit covers --from: blobs and tree modes of the commit, not
// the work tree; the committer time; the note on converted line ends.
func TestCreateFromCommit(t *testing.T) {
	dir := newRig(t)
	git(t, dir, "init", "-q")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "one")
	out := filepath.Join(t.TempDir(), "a.rigbundle")
	status, clean := withJSON(t, dir, nil, "create", "rig.yaml", "-o", out)
	if status != 0 || field(t, clean, "created_at") != "2025-06-15T15:06:40.000Z" {
		t.Fatalf("a clean work tree: exit %d, created_at %s", status, clean["created_at"])
	}
	t.Run("F12 line ends of the work tree do not count", func(t *testing.T) {
		role := filepath.Join(dir, "agents/impl/role.md")
		if err := os.WriteFile(role, []byte("Build it.\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		from := filepath.Join(t.TempDir(), "b.rigbundle")
		status, got := withJSON(t, dir, nil, "create", "rig.yaml", "--from", "HEAD", "-o", from)
		if status != 0 || field(t, got, "tar_digest") != field(t, clean, "tar_digest") {
			t.Errorf("--from HEAD: exit %d, %s, want %s", status, got["tar_digest"], clean["tar_digest"])
		}
		status, got = withJSON(t, dir, nil, "create", "rig.yaml", "-o", filepath.Join(t.TempDir(), "c.rigbundle"))
		if status != 0 || !strings.Contains(string(got["notes"]), "eol-converted") || !strings.Contains(string(got["notes"]), "created-at-now") {
			t.Errorf("the work tree: exit %d, notes %s", status, got["notes"])
		}
		status, got = withJSON(t, dir, nil, "rebuild", "rig.yaml", "--from", "HEAD", "--against", out)
		if status != 0 {
			t.Errorf("rebuild --from HEAD: exit %d %s %s", status, got["code"], got["drift"])
		}
		status, got = withJSON(t, dir, nil, "rebuild", "rig.yaml", "--against", out)
		if status != 1 || field(t, got, "code") != "tar-differs" {
			t.Errorf("rebuild of the changed work tree: exit %d %s", status, got["code"])
		}
	})
	t.Run("from a subdirectory and a bare clone", func(t *testing.T) {
		status, got := withJSON(t, filepath.Join(dir, "agents"), nil, "create", "../rig.yaml", "--from", "HEAD", "-o", filepath.Join(t.TempDir(), "s.rigbundle"))
		if status != 0 || field(t, got, "tar_digest") != field(t, clean, "tar_digest") {
			t.Errorf("subdirectory: exit %d %s", status, got["code"])
		}
		bare := filepath.Join(t.TempDir(), "bare.git")
		git(t, dir, "clone", "-q", "--bare", dir, bare)
		status, got = withJSON(t, bare, nil, "create", "rig.yaml", "--from", "HEAD", "-o", filepath.Join(t.TempDir(), "b.rigbundle"))
		if status != 0 || field(t, got, "tar_digest") != field(t, clean, "tar_digest") {
			t.Errorf("bare: exit %d %s %s", status, got["code"], got["message"])
		}
	})
	t.Run("a symlink and a submodule in the commit", func(t *testing.T) {
		dir := newRig(t)
		git(t, dir, "init", "-q")
		if err := os.Symlink("role.md", filepath.Join(dir, "agents/impl/link.md")); err != nil {
			t.Fatal(err)
		}
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", "link")
		status, got := withJSON(t, dir, nil, "create", "rig.yaml", "--from", "HEAD", "-o", filepath.Join(t.TempDir(), "l.rigbundle"))
		if status != 1 || field(t, got, "code") != "source-symlink" {
			t.Errorf("symlink: exit %d %s", status, got["code"])
		}
		git(t, dir, "rm", "-q", "--cached", "agents/impl/link.md")
		git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+strings.TrimSpace(git(t, dir, "rev-parse", "HEAD"))+",agents/impl/sub")
		git(t, dir, "commit", "-q", "-m", "sub")
		status, got = withJSON(t, dir, nil, "create", "rig.yaml", "--from", "HEAD", "-o", filepath.Join(t.TempDir(), "m.rigbundle"))
		if status != 1 || field(t, got, "code") != "source-type" {
			t.Errorf("submodule: exit %d %s", status, got["code"])
		}
	})
}

// TestSignAndVerify covers detached signatures: good, changed, foreign, none.
func TestSignAndVerify(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("no ssh-keygen here")
	}
	dir := newRig(t)
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	run(keygen, "-q", "-t", "ed25519", "-N", "", "-f", "key")
	run(keygen, "-q", "-t", "ed25519", "-N", "", "-f", "other")
	pub, err := os.ReadFile(filepath.Join(dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "signers"), append([]byte("op@example.com "), pub...), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := command(dir, nil, "create", "rig.yaml", "-o", "a.rigbundle", "--created-at", "2026-01-01T00:00:00Z"); status != 0 {
		t.Fatal(errs)
	}
	verify := func(want string, args ...string) {
		t.Helper()
		_, got := withJSON(t, dir, nil, append([]string{"verify", "a.rigbundle", "--allowed-signers", "signers"}, args...)...)
		if code := field(t, got, "code"); code != want {
			t.Errorf("verify %v: %s, want %s: %s", args, code, want, got["message"])
		}
	}
	verify("ok")
	verify("signature-missing", "--require-signature")
	if status, out, errs := command(dir, nil, "sign", "a.rigbundle", "--key", "key"); status != 0 || out != "a.rigbundle.sig\n" {
		t.Fatalf("sign: %d %s %s", status, out, errs)
	}
	verify("ok", "--require-signature", "--signer", "op@example.com")
	verify("signature-untrusted", "--signer", "else@example.com")
	run("sh", "-c", "ssh-keygen -Y verify -f signers -I op@example.com -n rigbundle -s a.rigbundle.sig < a.rigbundle")
	run("sh", "-c", "rm a.rigbundle.sig && ssh-keygen -q -Y sign -f key -n rigbundle a.rigbundle")
	verify("ok", "--require-signature")
	run("sh", "-c", "rm a.rigbundle.sig && ssh-keygen -q -Y sign -f key -n git a.rigbundle")
	verify("signature-namespace")
	run("sh", "-c", "rm a.rigbundle.sig && ssh-keygen -q -Y sign -f other -n rigbundle a.rigbundle")
	verify("signature-untrusted")
	run("sh", "-c", "rm a.rigbundle.sig && cp a.rigbundle x && printf x >> x && ssh-keygen -q -Y sign -f key -n rigbundle x && mv x.sig a.rigbundle.sig")
	verify("signature-invalid")
	if status, got := withJSON(t, dir, nil, "verify", "a.rigbundle", "--signer", "op@example.com"); status != 2 || field(t, got, "code") != "usage" {
		t.Errorf("--signer without --allowed-signers: %d %s", status, got["code"])
	}
}

// TestUp runs a rig program from PATH, and none that lies in the target.
func TestUp(t *testing.T) {
	dir := newRig(t)
	if status, _, errs := command(dir, nil, "create", "rig.yaml", "-o", "a.rigbundle", "--created-at", "2026-01-01T00:00:00Z"); status != 0 {
		t.Fatal(errs)
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "rig"), []byte("#!/bin/sh\necho \"$@\"\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	status, out, errs := command(dir, []string{"PATH=" + bin}, "up", "a.rigbundle", "--target", "T", "--cwd", "w")
	if want := "up " + filepath.Join(dir, "T/rig.yaml") + " --cwd " + filepath.Join(dir, "w") + "\n"; status != 7 && status != 2 || out != want {
		t.Errorf("up: exit %d, output %q, want %q\n%s", status, out, want, errs)
	}
	if status, got := withJSON(t, dir, []string{"PATH=bin:" + filepath.Join(dir, "T/bin")}, "up", "a.rigbundle", "--target", "T2"); status != 2 || field(t, got, "code") != "runtime-missing" {
		t.Errorf("relative PATH: exit %d %s", status, got["code"])
	}
	inside := filepath.Join(dir, "T3", "bin")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(inside, "rig"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if status, got := withJSON(t, dir, []string{"PATH=" + inside}, "up", "a.rigbundle", "--target", "T3"); status != 2 || field(t, got, "code") != "runtime-missing" {
		t.Errorf("program inside the target: exit %d %s", status, got["code"])
	}
	status, out, _ = command(dir, []string{"PATH=" + bin}, "up", "a.rigbundle", "--target", "T4", "--plan")
	if status != 0 || !strings.Contains(out, "\nrun      "+filepath.Join(bin, "rig")+" up ") {
		t.Errorf("up --plan: exit %d\n%s", status, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "T4")); err == nil {
		t.Error("up --plan wrote the target")
	}
}

func TestUsage(t *testing.T) {
	dir := newRig(t)
	for _, args := range [][]string{
		{"nope"}, {"create", "rig.yaml"}, {"create", "rig.yaml", "-o", "x.tar"}, {"create", "-o", "x.rigbundle"}, {"verify"},
		{"create", "rig.yaml", "-o", "x.rigbundle", "--created-at", "yesterday"}, {"create", "rig.yaml", "-o", "x.rigbundle", "--form", "new"},
		{"create", "rig.yaml", "-o", "x.rigbundle", "--provenance", "host=me"}, {"verify", "x", "--strict=nope"}, {"verify", "x", "--limit", "x=1"},
		{"rebuild", "rig.yaml"}, {"diff", "a"}, {"uninstall", "x.rigbundle", "--format", "rig"},
		{"install", "x.rigbundle", "--target", ""}, {"create", "rig.yaml", "-o", "x.rigbundle", "--from="}, {"verify", "--space", "", "--id", "x"}, {"ls"}, {"verify", "--no-such-flag", "x"},
	} {
		if status, got := withJSON(t, dir, nil, args...); status != 2 || field(t, got, "code") != "usage" {
			t.Errorf("%q: exit %d %s", args, status, got["code"])
		}
	}
	if status, got := withJSON(t, dir, []string{"SOURCE_DATE_EPOCH=1e3"}, "create", "rig.yaml", "-o", "x.rigbundle"); status != 2 || field(t, got, "code") != "usage" {
		t.Errorf("a malformed SOURCE_DATE_EPOCH: exit %d %s", status, got["code"])
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.rigbundle*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if status, out, _ := command(dir, nil, "completion", shell); status != 0 || !strings.Contains(out, "rebuild") {
			t.Errorf("completion %s: %d %s", shell, status, out)
		}
	}
	if status, out, _ := command(dir, nil, "man"); status != 0 || !strings.Contains(out, ".TH RIG\\-BUNDLE 1") {
		t.Errorf("man: %d", status)
	}
	if status, out, _ := command(dir, nil, "--version"); status != 0 || !strings.HasPrefix(out, "rig-bundle ") {
		t.Errorf("--version: %d %q", status, out)
	}
	if status, _, text := command(dir, nil, "nosuch"); status != 2 || text != "rig-bundle: usage: unknown command \"nosuch\"\nhint: rig-bundle --help\n" {
		t.Errorf("an unknown command: %d %q", status, text)
	}
}

// TestOutputLost: exit 0 without the result that was asked for is no answer.
func TestOutputLost(t *testing.T) {
	dir := newRig(t)
	if status, _, errs := command(dir, nil, "create", "rig.yaml", "-o", "x.rigbundle"); status != 0 {
		t.Fatal(errs)
	}
	for _, args := range [][]string{{"ls", "x.rigbundle"}, {"inspect", "x.rigbundle", "--json"}, {"verify", "x.rigbundle"}, {"--help"}} {
		var errs bytes.Buffer
		status := Main(t.Context(), Env{
			Args: args, Stdout: fullDisk{}, Stderr: &errs, Getenv: func(string) string { return "" }, Now: time.Now, Dir: dir,
		})
		if status != 2 || !strings.Contains(errs.String(), "io-error: the result could not be written: no space left") {
			t.Errorf("%q: exit %d, %s", args, status, errs.String())
		}
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
