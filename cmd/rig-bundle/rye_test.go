package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A ryeRun runs the command in one folder with one environment.
type ryeRun struct {
	t       *testing.T
	dir     string
	machine string // folder of the machine's store
	env     map[string]string
}

func newRyeRun(t *testing.T) *ryeRun {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl, which makes the keys, is not installed")
	}
	dir := t.TempDir()
	for _, d := range []string{"home", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &ryeRun{t: t, dir: filepath.Join(dir, "work"), env: map[string]string{"HOME": filepath.Join(dir, "home"), "SOURCE_DATE_EPOCH": "1773709321"}}
}

func (r *ryeRun) run(args ...string) (status int, stdout, stderr string) {
	r.t.Helper()
	var out, errs bytes.Buffer
	status = Main(r.t.Context(), Env{
		Args: args, Stdout: &out, Stderr: &errs,
		Getenv: func(k string) string { return r.env[k] }, Dir: r.dir, Machine: r.machine,
		Now: func() time.Time { return time.Date(2026, 3, 18, 8, 0, 0, 0, time.UTC) },
	})
	return status, out.String(), errs.String()
}

// want runs the command and expects an exit status and a text on one of the two
// streams.
func (r *ryeRun) want(status int, text string, args ...string) string {
	r.t.Helper()
	got, stdout, stderr := r.run(args...)
	if got != status || !strings.Contains(stdout+stderr, text) {
		r.t.Errorf("%q: status %d, want %d and %q\n%s%s", args, got, status, text, stdout, stderr)
	}
	return stdout
}

func (r *ryeRun) key(name string) {
	r.t.Helper()
	p := filepath.Join(r.dir, name)
	if out, err := exec.Command("openssl", "genpkey", "-algorithm", "ed25519", "-out", p).CombinedOutput(); err != nil {
		r.t.Fatal(err, string(out))
	}
	if err := os.Chmod(p, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *ryeRun) put(p, text string) {
	r.t.Helper()
	p = filepath.Join(r.dir, p)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *ryeRun) get(p string) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, p))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// TestRyeCommands goes a bundle's whole way on the command line: keys and
// trust, create, verify, change, rebuild, diff, install, upgrade, uninstall.
func TestRyeCommands(t *testing.T) {
	r := newRyeRun(t)
	r.key("own.pem")
	r.key("other.pem")
	tool, manifest := "b/.ai/tools/team/notes/save.py", "b/.ai/bundles/team/notes/manifest.yaml"
	r.put(tool, "#!/usr/bin/env python3\nprint('saved')\n")
	r.put("b/.ai/knowledge/team/notes/style.md", "Short sentences.\n")
	r.put("b/.ai/tools/team/notes/__pycache__/x.pyc", "x")
	if err := os.Chmod(filepath.Join(r.dir, tool), 0o755); err != nil {
		t.Fatal(err)
	}
	create := []string{"create", "--format", "rye", "b", "--id", "team/notes", "--version", "1.0.0", "--key", "own.pem"}

	r.want(2, "is never made on the way", "create", "--format", "rye", "b", "--id", "team/notes", "--version", "1.0.0")
	r.want(2, "no such file", "create", "--format", "rye", "b", "--id", "team/notes", "--version", "1.0.0", "--key", "none.pem")
	epoch := r.env["SOURCE_DATE_EPOCH"]
	delete(r.env, "SOURCE_DATE_EPOCH")
	r.want(2, "SOURCE_DATE_EPOCH=$(git log", create...)
	r.env["SOURCE_DATE_EPOCH"] = epoch
	if err := os.Chmod(filepath.Join(r.dir, "own.pem"), 0o640); err != nil {
		t.Fatal(err)
	}
	r.want(2, "chmod 600", create...)
	if err := os.Chmod(filepath.Join(r.dir, "own.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(0, "left out: .ai/tools/team/notes/__pycache__/: verify will call it extra", append(create, "--sign-items")...)
	if err := os.RemoveAll(filepath.Join(r.dir, "b/.ai/tools/team/notes/__pycache__")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(r.dir, tool)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("signing changed the mode: %v %v", info.Mode(), err)
	}
	first := r.get(manifest)
	r.want(0, "created team/notes 1.0.0: 2 files, 0 items signed", append(create, "--sign-items")...)
	if r.get(manifest) != first {
		t.Error("equal input gives other bytes")
	}

	r.want(1, "untrusted-key", "verify", "b")
	r.want(1, "key-signer-untrusted", "trust", "add", "--key", "other.pem", filepath.Join(r.ownDocument("own.pem")))
	r.want(0, "added", "trust", "add", "--key", "own.pem", "--owner", "me")
	out := r.want(0, `"status":"verified"`, "verify", "b", "--json")
	if !strings.HasPrefix(out, `{"schema_version":"1.0","command":"verify","code":"ok","message":"the bundle is verified","findings":[],"notes":[],"codes":[],"name":"team/notes","version":"1.0.0",`+
		`"status":"verified","manifest_valid":true,"files_checked":2,"files_ok":2,"files_missing":[],"files_tampered":[],"files_extra":[],"signer":"`) ||
		!strings.HasSuffix(out, "\"trust\":\"user\"}\n") {
		t.Errorf("report %s", out)
	}
	r.want(0, `"trusted":true`, "trust", "list", "--json")
	r.want(0, `owner "me"`, "trust", "list")
	r.want(0, "verified", "verify", "--item", tool)
	r.want(2, "give --type", "verify", "--item", "own.pem")
	r.want(1, "untrusted-key", "verify", "--item", r.signed("other.pem", "x.py"), "--type", "tool")
	r.want(0, "identical", "rebuild", "b")
	r.want(0, `"unverified":{"id":"team/notes"`, "inspect", "b", "--json")

	r.want(0, "installed team/notes: 2 files written", "install", "b", "--space", r.space("s"))
	r.want(0, "unchanged", "install", "b", "--space", "s")
	r.want(0, "verified team/notes: 2 files", "verify", "--space", "s", "--id", "team/notes")
	r.put("s/.ai/tools/team/notes/save.py", "mine\n")
	r.want(1, "hash-mismatch", "verify", "--space", "s", "--id", "team/notes")

	if err := os.CopyFS(filepath.Join(r.dir, "old"), os.DirFS(filepath.Join(r.dir, "b"))); err != nil {
		t.Fatal(err)
	}
	r.put(tool, strings.Replace(r.get(tool), "saved", "kept", 1))
	r.want(1, "hash-mismatch", "verify", "b", "--id", "team/notes")
	r.want(1, "content-modified", "create", "--format=rye", "b", "--id", "team/notes", "--version", "1.1.0", "--key", "own.pem")
	r.want(1, "content-modified", "rebuild", "b")
	r.want(0, "signed", "sign", "--format", "rye", tool, "--key", "own.pem")
	r.want(1, "modified .ai/tools/team/notes/save.py", "rebuild", "b")
	create[7] = "1.1.0"
	r.want(0, "created", create...)
	r.want(1, "modified .ai/tools/team/notes/save.py", "diff", "old", "b")
	r.want(1, `version: "1.0.0" -> "1.1.0"`, "diff", "old", "b")
	r.want(0, "equal", "diff", "b", "b", "--format", "rye")

	r.want(1, "user-modified", "install", "b", "--space", "s")
	r.put("s/.ai/tools/team/notes/save.py", r.get("old/.ai/tools/team/notes/save.py"))
	_, stdout, stderr := r.run("install", "b", "--space", "s", "--dry-run")
	if !strings.Contains(stderr, "plan: replace .ai/tools/team/notes/save.py") || !strings.Contains(stdout, "upgraded") {
		t.Errorf("dry run: %s%s", stdout, stderr)
	}
	r.want(0, `"status":"upgraded"`, "install", "b", "--space", "s", "--json")
	r.want(1, "version-not-newer", "install", "old", "--space", "s")
	r.want(0, "upgraded", "install", "old", "--space", "s", "--allow-downgrade")
	r.want(0, `"status":"uninstalled"`, "uninstall", "team/notes", "--space", "s", "--json")
	r.want(1, "not-installed", "uninstall", "team/notes", "--space", "s")
	r.want(1, "bundle-id-invalid", "uninstall", "..", "--space", "s")

	r.put("roots.yaml", "bundles:\n- {bundle_id: team/notes, root_path: b, categories: [team/notes]}\n- {bundle_id: team/notes, root_path: old, categories: [other]}\n")
	var list struct {
		Bundles []struct{ Status string }
		Items   []struct {
			Path     string
			BundleID string `json:"bundle_id"`
		}
	}
	if err := json.Unmarshal([]byte(r.want(0, "", "list", "--roots", "roots.yaml", "--json")), &list); err != nil || len(list.Bundles) != 2 || len(list.Items) != 2 {
		t.Errorf("%+v %v", list, err)
	}
	r.want(1, "manifest-missing", "list", "--root", "none", "--root", "b")
	r.want(2, "needs --root", "list")

	fp := r.fingerprint()
	r.want(0, "removed", "trust", "remove", fp)
	r.want(1, "untrusted-key", "trust", "remove", fp)
	r.want(2, "16 or 64", "trust", "remove", "../x")
	r.want(1, "untrusted-key", "verify", "b")
	for _, k := range []string{"RYE_DEV_MODE", "RYE_SKIP_VERIFY"} {
		r.env[k] = "1"
	}
	r.want(1, "untrusted-key", "verify", "b")
	r.want(2, "a pin is", "verify", "b", "--trust-fingerprint", "x")
	r.want(1, "untrusted-key", "verify", "b", "--trust-fingerprint", fp)
	r.want(0, "added", "trust", "add", "--project", ".", "--key", "own.pem")
	r.want(0, "trust project", "verify", "b")
	r.want(0, "trust pinned", "verify", "b", "--trust-fingerprint", fp)

	r.env["HOME"] = r.dir
	r.want(2, "say --space . if that is meant", "install", "b")
	r.env["HOME"] = ""
	r.want(2, "exactly one manifest", "verify", "s", "--format", "rye")
}

func (r *ryeRun) space(name string) string {
	if err := os.Mkdir(filepath.Join(r.dir, name), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return name
}

// ownDocument makes the self-signed document of a key in a project of its own.
func (r *ryeRun) ownDocument(key string) string {
	r.t.Helper()
	r.want(0, "added", "trust", "add", "--project", "doc-"+key, "--key", key)
	found, err := filepath.Glob(filepath.Join(r.dir, "doc-"+key, ".ai/config/keys/trusted/*.toml"))
	if err != nil || len(found) != 1 {
		r.t.Fatal(found, err)
	}
	return found[0]
}

func (r *ryeRun) signed(key, name string) string {
	r.t.Helper()
	r.put(name, "x\n")
	r.want(0, "signed", "sign", name, "--type", "tool", "--key", key)
	return name
}

// fingerprint is that of the only signer in the bundle's manifest.
func (r *ryeRun) fingerprint() string {
	line, _, _ := strings.Cut(r.get("b/.ai/bundles/team/notes/manifest.yaml"), "\n")
	parts := strings.Split(line, ":")
	return parts[len(parts)-1]
}

// TestRyeSecondSigner puts the document of another key into a store, signed by
// the own one.
func TestRyeSecondSigner(t *testing.T) {
	r := newRyeRun(t)
	r.key("own.pem")
	r.key("other.pem")
	item := r.signed("other.pem", "x.py")
	doc := r.ownDocument("other.pem")
	r.want(1, "untrusted-key", "verify", "--item", item, "--type", "tool")
	r.want(0, "added", "trust", "add", "--key", "own.pem")
	r.want(0, "added", "trust", "add", doc, "--key", "own.pem")
	r.want(0, "trust user", "verify", "--item", item, "--type", "tool")
	out := r.want(0, "", "trust", "list")
	if n := strings.Count(out, " trusted "); n != 2 {
		t.Errorf("%d trusted keys in\n%s", n, out)
	}
	if !slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool { return strings.HasPrefix(l, "user ") && strings.Contains(l, "trusted") }) {
		t.Errorf("%s", out)
	}
}

// TestUntrustedKeyHint plays what the hint of untrusted-key says: it is a whole
// command, after which the bundle verifies.
func TestUntrustedKeyHint(t *testing.T) {
	r := newRyeRun(t)
	r.key("theirs.pem")
	r.put("a b/.ai/knowledge/notes.md", "text\n")
	r.want(0, "created", "create", "--format", "rye", "a b", "--id", "notes", "--version", "1.0.0", "--key", "theirs.pem", "--sign-items")
	hint := func(args ...string) string {
		t.Helper()
		status, _, errs := r.run(args...)
		_, rest, ok := strings.Cut(errs, "\nhint: ")
		text, _, _ := strings.Cut(rest, "\n")
		if status != 1 || !ok {
			t.Fatalf("%q: status %d, no hint: %s", args, status, errs)
		}
		return text
	}
	play := func(status int, text, command string) {
		t.Helper()
		out, err := exec.Command("sh", "-c", "set -- "+command+"\nprintf '%s\\0' \"$@\"").Output()
		if err != nil {
			t.Fatal(command, err)
		}
		words := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if words[0] != "rig-bundle" {
			t.Fatalf("%q is not a command of rig-bundle", command)
		}
		r.want(status, text, words[1:]...)
	}

	got := hint("verify", "a b", "--format", "rye") // nobody has the key
	before, own, ok := strings.Cut(strings.TrimSuffix(got, ")"), " (OWN.pem is your own key, which is trusted once: ")
	_, add, ok2 := strings.Cut(before, ", then: ")
	if !ok || !ok2 {
		t.Fatal(got)
	}
	name := strings.Fields(add)[3]
	r.key("OWN.pem")
	r.env["HOME"] = filepath.Join(r.dir, "theirs")
	r.want(0, "added", "trust", "add", "--key", "theirs.pem")
	doc, err := os.ReadFile(filepath.Join(r.dir, "theirs/.ai/config/keys/trusted", name))
	if err != nil {
		t.Fatal(err)
	}
	r.env["HOME"] = filepath.Join(r.dir, "mine")
	r.put(name, string(doc))
	play(0, "added", own)
	play(0, "added", add)
	play(0, "trust user", "rig-bundle verify 'a b' --format rye")

	r.env["HOME"] = filepath.Join(r.dir, "empty")
	r.put("a b/.ai/config/keys/trusted/"+name, string(doc)) // the bundle brings it
	r.want(0, "created", "create", "--format", "rye", "a b", "--id", "notes", "--version", "1.0.0", "--key", "theirs.pem", "--sign-items")
	play(0, "trust pinned", hint("verify", "a b", "--format", "rye"))
}
