package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// packRig makes a RigBundle with some more files and returns its path.
func packRig(t *testing.T, version string, files map[string]string) string {
	t.Helper()
	dir := newRig(t)
	for name, text := range files {
		put(t, filepath.Join(dir, name), text, 0o644)
	}
	name := filepath.Join(t.TempDir(), "b.rigbundle")
	if status, _, errs := command(dir, nil, "create", "rig.yaml", "-o", name, "--bundle-version", version, "--created-at", "2026-01-01T00:00:00Z"); status != 0 {
		t.Fatal(errs)
	}
	return name
}

// TestPlantedJournal (J10): a checkout that brings the journal of an interrupted
// run, of any form, gets nothing undone: no hook, no configuration, no workflow.
// It is named, and stays. The same names without such a journal are installed
// (TestKilledAtEveryStep shows that the journal of an own run is obeyed).
func TestPlantedJournal(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	one := packRig(t, "1.0.0", nil)
	victims := []string{".git/hooks/pre-commit", ".git/config", ".github/workflows/ci.yml", "kept.txt"}
	var ops []string
	for i, v := range victims {
		ops = append(ops, fmt.Sprintf(`{"kind":"put","path":%q,"n":%d,"sha256":"%s"},{"kind":"remove","path":%q,"n":%d}`, v, i+1, bundle.Sum([]byte("kept")).Hex(), v, i+1))
	}
	old := `{"schema":1,"ops":[` + strings.Join(ops, ",") + `]}`
	for _, area := range []string{".rigbundle-install", ".rigbundle-install-0123456789abcdef0123456789abcdef", ".RIGBUNDLE-INSTALL", ".ai/.rigward-rye"} {
		target := t.TempDir()
		git(t, target, "init", "-q")
		put(t, filepath.Join(target, "kept.txt"), "kept", 0o644)
		put(t, filepath.Join(target, ".github/workflows/ci.yml"), "kept", 0o644)
		for i := range victims {
			put(t, filepath.Join(target, area, "old", fmt.Sprint(i+1)), "#!/bin/sh\nexec evil\n", 0o755)
		}
		put(t, filepath.Join(target, area, "journal.json"), old, 0o644)
		put(t, filepath.Join(target, area, "installed.json"), `{"schema_version":"1.0","bundles":[]}`, 0o644)
		before := tree(t, target)
		exact := area == ".rigbundle-install" && runtime.GOOS != "darwin" || area == ".ai/.rigward-rye"
		told := func(errs string) {
			t.Helper()
			if named := strings.Contains(errs, "interrupted-foreign: "); named != exact && runtime.GOOS == "linux" || strings.Contains(errs, "undone") {
				t.Errorf("%s: told is %q", area, errs)
			}
		}
		unchanged := func(what string) {
			t.Helper()
			got := tree(t, target)
			for name, is := range before {
				if got[name] != is {
					t.Errorf("%s: %s changed %s: %s", area, what, name, got[name])
				}
			}
			if _, err := os.Lstat(filepath.Join(target, ".git/hooks/pre-commit")); err == nil {
				t.Errorf("%s: %s made a hook", area, what)
			}
		}
		if area == ".ai/.rigward-rye" {
			status, _, errs := command(target, nil, "uninstall", "no/such", "--space", target)
			if status != 1 {
				t.Errorf("%s: %d %s", area, status, errs)
			}
			told(errs)
			unchanged("uninstall")
			continue
		}
		for _, args := range [][]string{
			{"install", one, "--target", target, "--plan"}, {"install", one, "--target", target}, {"install", one, "--target", target}, {"uninstall", "demo", "--target", target},
		} {
			status, out, errs := command(target, nil, args...)
			if status != 0 {
				t.Errorf("%s: %v: %d %s%s", area, args, status, out, errs)
			}
			told(errs)
			unchanged(args[0])
		}
		if got := tree(t, target); !maps.Equal(got, before) {
			t.Errorf("%s: after all of it %v", area, diffStates(got, before, before))
		}
	}
}

// plantLock writes a lock that claims files of a target, with their digests.
func plantLock(t *testing.T, target, name, version string, paths ...string) {
	t.Helper()
	type file struct {
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
		Mode   string `json:"mode"`
	}
	var files []file
	for _, p := range paths {
		b, err := os.ReadFile(filepath.Join(target, p))
		if err != nil {
			t.Fatal(err)
		}
		info, _ := os.Stat(filepath.Join(target, p))
		files = append(files, file{p, bundle.Sum(b).Hex(), fmt.Sprintf("%04o", info.Mode().Perm())})
	}
	b, err := json.Marshal(map[string]any{"schema_version": "1.0", "bundles": []any{map[string]any{
		"name": name, "version": version, "file_digest": "sha256:" + strings.Repeat("0", 64), "tar_digest": "sha256:" + strings.Repeat("0", 64),
		"files": files, "directories": []string{"empty"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(target, ".rigbundle-lock.json"), string(b), 0o644)
}

// TestPlantedLock: what only the lock of a target claims is neither removed nor
// replaced, whatever digests it names. What this user has installed is, also
// after another user's run or a copy of the target; a copy is taken over by
// installing the bundle there.
func TestPlantedLock(t *testing.T) {
	one := packRig(t, "1.0.0", map[string]string{"agents/impl/x.md": "one"})
	two := packRig(t, "2.0.0", map[string]string{"agents/impl/x.md": "two"})
	target := filepath.Join(t.TempDir(), "T")
	for name, text := range map[string]string{"mine.txt": "mine", "agents/impl/x.md": "the user's own", ".git/config": "[core]\n", ".git/hooks/pre-commit": "#!/bin/sh\n"} {
		put(t, filepath.Join(target, name), text, 0o644)
	}
	if err := os.Mkdir(filepath.Join(target, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	plantLock(t, target, "demo", "0.1.0", "mine.txt", "agents/impl/x.md", ".git/config", ".git/hooks/pre-commit")
	before := tree(t, target)
	for _, args := range [][]string{{"uninstall", "demo", "--target", target}, {"install", two, "--target", target}, {"install", two, "--target", target, "--plan"}} {
		status, out, errs := command(target, nil, args...)
		if status != 1 || !strings.Contains(out+errs, "install-") && !strings.Contains(out, "conflict ") || !strings.Contains(errs, "hint: ") {
			t.Errorf("%v: %d %s%s", args, status, out, errs)
		}
		if got := tree(t, target); !maps.Equal(got, before) {
			t.Errorf("%v changed %v", args, diffStates(got, before, before))
		}
	}
	if _, err := os.Stat(filepath.Join(target, "empty")); err != nil {
		t.Error("a directory of the user was removed")
	}
	if status, out, errs := command(target, nil, "install", two, "--target", target, "--backup"); status != 0 {
		t.Fatalf("install --backup: %s%s", out, errs)
	}
	if status, out, errs := command(target, nil, "uninstall", "demo", "--target", target); status != 0 {
		t.Fatalf("uninstall: %s%s", out, errs)
	}
	before["agents/impl/x.md.rigbundle-backup"] = before["agents/impl/x.md"]
	delete(before, "agents/impl/x.md")
	if got := tree(t, target); !maps.Equal(got, before) {
		t.Errorf("after install and uninstall: %v", diffStates(got, before, before))
	}

	// The lawful ones: an upgrade of what this user has installed, and a copy.
	target = filepath.Join(t.TempDir(), "T")
	other := filepath.Join(t.TempDir(), "copy")
	for _, bundle := range []string{one, two, one} {
		if status, out, errs := command(".", nil, "install", bundle, "--target", target); status != 0 {
			t.Fatalf("%s%s", out, errs)
		}
	}
	if err := os.CopyFS(other, os.DirFS(target)); err != nil {
		t.Fatal(err)
	}
	status, out, errs := command(".", nil, "uninstall", "demo", "--target", other)
	if status != 1 || !strings.Contains(out, "this user has not installed it") || !strings.Contains(errs, "hint: rig-bundle install FILE --target ") {
		t.Errorf("uninstall of a copy: %d %s%s", status, out, errs)
	}
	if status, out, _ := command(".", nil, "install", two, "--target", other); status != 1 || !strings.Contains(out, "install-conflict") {
		t.Errorf("upgrade of a copy: %d %s", status, out)
	}
	for _, args := range [][]string{{"install", one}, {"install", two}, {"uninstall", "demo"}} {
		if status, out, errs := command(".", nil, append(args, "--target", other)...); status != 0 {
			t.Errorf("%v in a copy that was taken over: %s%s", args, out, errs)
		}
	}
	if left := tree(t, other); len(left) > 0 {
		t.Errorf("left in the copy: %v", left)
	}
	// Another user's state does not know it.
	env := []string{"XDG_STATE_HOME=" + filepath.Join(t.TempDir(), "x")}
	if status, _, _ := command(".", env, "uninstall", "demo", "--target", target); status != 1 {
		t.Error("another user's uninstall removes files")
	}
	if status, out, errs := command(".", nil, "uninstall", "demo", "--target", target); status != 0 {
		t.Errorf("%s%s", out, errs)
	}
}

// TestPlantedRyeLock: the same for the lockfile in a space. There a manifest
// that a trusted key has signed confirms what the lockfile says; trust that lies
// in the space itself does not.
func TestPlantedRyeLock(t *testing.T) {
	r := newRyeRun(t)
	r.key("own.pem")
	r.put("b/.ai/knowledge/team/a.md", "a\n")
	r.want(0, "added", "trust", "add", "--key", "own.pem")
	r.want(0, "created", "create", "--format", "rye", "b", "--id", "team/notes", "--version", "1.0.0", "--key", "own.pem", "--sign-items")
	mine := "s/.ai/knowledge/mine.md"
	r.put(mine, "mine\n")
	hash := bundle.Sum([]byte("mine\n")).Hex()
	r.put("s/.ai/bundles/team/notes/.bundle-lock.json", `{"bundle_id":"team/notes","version":"1.0.0","manifest_hash":null,"installed_at":"2026-01-01T00:00:00Z",`+
		`"files":[".ai/knowledge/mine.md"],"file_hashes":{".ai/knowledge/mine.md":"`+hash+`"}}`)
	uninstall := []string{"uninstall", "team/notes", "--space", "s", "--format", "rye"}
	r.want(1, "not-installed", uninstall...)
	// A manifest and a trust store that the checkout brings, too.
	r.key("evil.pem")
	r.put("e/.ai/knowledge/mine.md", "mine\n")
	r.want(0, "added", "trust", "add", "--project", "e", "--key", "evil.pem")
	r.want(0, "created", "create", "--format", "rye", "e", "--id", "team/notes", "--version", "1.0.0", "--key", "evil.pem", "--project", "e")
	manifest := r.get("e/.ai/bundles/team/notes/manifest.yaml")
	r.put("s/.ai/bundles/team/notes/manifest.yaml", manifest)
	if err := os.CopyFS(filepath.Join(r.dir, "s/.ai/config"), os.DirFS(filepath.Join(r.dir, "e/.ai/config"))); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--project", "s"}} {
		r.want(1, "not-installed", append(uninstall, more...)...)
	}
	if r.get(mine) != "mine\n" {
		t.Error("a file of the user was removed")
	}
	// The lawful ones: a space that came with a bundle of a trusted key, and an own install.
	r.want(0, "installed", "install", "b", "--space", r.space("s1"))
	if err := os.CopyFS(filepath.Join(r.dir, "s2"), os.DirFS(filepath.Join(r.dir, "s1"))); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"s1", "s2"} {
		r.want(0, "1 file removed", "uninstall", "team/notes", "--space", s)
		if left, _ := filepath.Glob(filepath.Join(r.dir, s, ".ai/*")); len(left) > 0 {
			t.Errorf("left in %s: %v", s, left)
		}
	}
}

// TestPlantedCacheEntry: a good bundle that somebody has put into the cache
// under the key of a build is not staged: the build runs. The own one is taken
// out again.
func TestPlantedCacheEntry(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the build command is a shell line")
	}
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "good"))
	agentTree(t, filepath.Join(dir, "evil"))
	put(t, filepath.Join(dir, "evil/bin/agent"), "#!/bin/sh\nexec evil\n", 0o755)
	put(t, filepath.Join(dir, "src/main.js"), "1\n", 0o644)
	for _, b := range []string{"good", "evil"} {
		if err := os.MkdirAll(filepath.Join(dir, "out", b), 0o755); err != nil {
			t.Fatal(err)
		}
		agentObject(t, dir, nil, 0, "create", b, "-o", filepath.Join(dir, "out", b))
	}
	stage := func(out string, more ...string) (int, string, string) {
		return agentRun(t, dir, nil, append([]string{"stage", "--source", "src", "--target", "linux/amd64/musl", "--cache", "cache",
			"--build-cmd", "cp " + filepath.Join(dir, "out/good", demoFile) + ` "$RIG_BUNDLE_OUT"`, "--base", "alpine:3", "--unchecked-base", "--out", out}, more...)...)
	}
	_, key, _ := stage("none", "--print-key")
	key = strings.TrimSpace(key)
	plant := func() {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, "out/evil", demoFile))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "cache", key+".tar.gz"), string(b), 0o644)
		put(t, filepath.Join(dir, "cache", key+".tar.gz.sha256"), bundle.Sum(b).Hex()+"\n", 0o644)
	}
	agentOf := func(out string) string {
		b, _ := os.ReadFile(filepath.Join(dir, out, "agent/bin/agent"))
		return string(b)
	}
	for i, planted := range []bool{true, false, true} { // before the first build, its own, after it
		if planted {
			plant()
		}
		out := fmt.Sprint("out", i)
		code, _, errs := stage(out)
		if code != 0 || agentOf(out) != "#!/bin/sh\n" || strings.Contains(errs, "taken from the cache") == planted {
			t.Errorf("planted %t: %d %s, staged is %q", planted, code, errs, agentOf(out))
		}
	}
}

// TestTrustThroughLink: a checkout cannot lead a document of its store out of
// itself, neither to write nor to remove one. The user's own store may lead
// where the user wants.
func TestTrustThroughLink(t *testing.T) {
	r := newRyeRun(t)
	r.key("own.pem")
	r.put("outside/keys/x", "")
	outside := filepath.Join(r.dir, "outside")
	for _, root := range []string{"project", "../home"} {
		if err := os.MkdirAll(filepath.Join(r.dir, root, ".ai"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(r.dir, root, ".ai/config")); err != nil {
			t.Skip("no symlinks here")
		}
	}
	r.want(2, "is a symlink", "trust", "add", "--project", "project", "--key", "own.pem")
	if left, _ := filepath.Glob(filepath.Join(outside, "keys/*")); len(left) != 1 {
		t.Errorf("written through a link: %v", left)
	}
	r.want(0, "added", "trust", "add", "--key", "own.pem")
	left, _ := filepath.Glob(filepath.Join(outside, "keys/trusted/*.toml"))
	if len(left) != 1 {
		t.Fatalf("the user's store has %v", left)
	}
	fp := strings.TrimSuffix(filepath.Base(left[0]), ".toml")
	r.want(2, "is a symlink", "trust", "remove", fp, "--project", "project")
	if _, err := os.Stat(left[0]); err != nil {
		t.Error("removed through a link")
	}
	r.want(0, "removed", "trust", "remove", fp)
}

// TestStateDirectory: without a state directory of the user's own nothing is
// installed, and the message says what to do.
func TestStateDirectory(t *testing.T) {
	one := packRig(t, "1.0.0", nil)
	target := filepath.Join(t.TempDir(), "T")
	open := t.TempDir()
	if err := os.Mkdir(filepath.Join(open, "rig-bundle"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(open, "rig-bundle"), 0o755); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{"relative": "hint: set XDG_STATE_HOME"}
	if runtime.GOOS != "windows" {
		cases[open] = "hint: chmod 700 "
	}
	for dir, hint := range cases {
		status, _, errs := command(".", []string{"XDG_STATE_HOME=" + dir}, "install", one, "--target", target)
		if status != 2 || !strings.Contains(errs, hint) {
			t.Errorf("%s: %d %s", dir, status, errs)
		}
		if _, err := os.Stat(target); err == nil {
			t.Errorf("%s: something was installed", dir)
		}
	}
	status, _, errs := command(".", []string{"XDG_STATE_HOME=relative", "HOME=" + t.TempDir(), "LOCALAPPDATA=" + t.TempDir()}, "install", one, "--target", target)
	if status != 0 {
		t.Errorf("the home directory's: %d %s", status, errs)
	}
	// A target with the state directory in it: the state is no place for files.
	home := t.TempDir()
	evil := packRig(t, "1.0.0", map[string]string{"agents/impl/state/rig-bundle/x/journal.json": "{}"})
	env := []string{"XDG_STATE_HOME=" + filepath.Join(home, "agents/impl/state")}
	if status, out, errs := command(".", env, "install", evil, "--target", home); status != 2 || !strings.Contains(errs, "not a place for a bundle") {
		t.Errorf("a file in the state directory: %d %s%s", status, out, errs)
	}
	if status, out, errs := command(".", env, "install", one, "--target", home); status != 0 {
		t.Errorf("files beside the state directory: %d %s%s", status, out, errs)
	}
}

// TestHostileRepository: an archive can bring a repository whose configuration
// names programs wherever git runs one. Making, rebuilding and verifying a
// bundle from it runs none of them, and fetches nothing that is missing; the
// bundle is the one that a plain repository gives.
func TestHostileRepository(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	plain, hostile := newRig(t), newRig(t)
	work := t.TempDir()
	ran := filepath.Join(work, "ran")
	evil := filepath.Join(work, "evil")
	put(t, evil, "#!/bin/sh\necho \"$0 $@\" >> "+ran+"\nexit 1\n", 0o755)
	for _, dir := range []string{plain, hostile} {
		git(t, dir, "init", "-q")
		put(t, filepath.Join(dir, ".gitattributes"), "*.md filter=evil diff=evil\n", 0o644)
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-qm", "one")
	}
	for key, value := range map[string]string{
		"core.fsmonitor": evil, "core.hooksPath": work, "core.sshCommand": evil, "core.pager": evil, "core.editor": evil, "core.askPass": evil,
		"core.alternateRefsCommand": evil, "core.gitProxy": evil, "diff.external": evil, "diff.evil.textconv": evil, "diff.evil.command": evil,
		"filter.evil.clean": evil, "filter.evil.smudge": evil, "filter.evil.process": evil, "filter.evil.required": "true", "gpg.program": evil,
		"gpg.ssh.program": evil, "credential.helper": "!" + evil, "uploadpack.packObjectsHook": evil, "remote.origin.url": "ext::" + evil,
		"remote.origin.uploadpack": evil, "remote.origin.promisor": "true", "protocol.ext.allow": "always", "extensions.partialClone": "origin",
		"core.repositoryFormatVersion": "1", "alias.cat-file": "!" + evil, "alias.rev-parse": "!" + evil, "pager.cat-file": evil,
	} {
		git(t, hostile, "config", key, value)
	}
	for _, hook := range []string{"post-index-change", "reference-transaction", "fsmonitor-watchman"} {
		put(t, filepath.Join(work, hook), "#!/bin/sh\necho hook >> "+ran+"\n", 0o755)
	}
	var sums []string
	for _, dir := range []string{plain, hostile} {
		os.Remove(ran) // what git itself ran above
		for _, more := range [][]string{{"--created-at", "2026-01-01T00:00:00Z"}, {"--created-at", "2026-01-01T00:00:00Z", "--from", "HEAD"}, nil} {
			out := filepath.Join(work, "out.rigbundle")
			if status, text, errs := command(dir, nil, append([]string{"create", "rig.yaml", "-o", out, "--bundle-version", "1.0.0"}, more...)...); status != 0 {
				t.Fatalf("create %v: %s%s", more, text, errs)
			}
			if b, err := os.ReadFile(out); err == nil && more != nil {
				sums = append(sums, bundle.Sum(b).Hex())
			}
			for _, args := range [][]string{{"verify", out}, {"rebuild", "rig.yaml", "--against", out}} {
				if status, text, errs := command(dir, nil, args...); status != 0 {
					t.Errorf("%v: %s%s", args, text, errs)
				}
			}
		}
		if b, err := os.ReadFile(ran); err == nil {
			t.Errorf("it was run:\n%s", b)
		}
	}
	for _, s := range sums {
		if s != sums[0] {
			t.Errorf("the bundles differ: %q", sums)
		}
	}
	// A blob that is missing is told, not fetched.
	id := strings.TrimSpace(git(t, hostile, "rev-parse", "HEAD:agents/impl/role.md"))
	if err := os.Remove(filepath.Join(hostile, ".git/objects", id[:2], id[2:])); err != nil {
		t.Fatal(err)
	}
	os.Remove(ran)
	if status, text, errs := command(hostile, nil, "create", "rig.yaml", "-o", filepath.Join(work, "x.rigbundle"), "--bundle-version", "1.0.0", "--from", "HEAD"); status != 2 {
		t.Errorf("a missing blob: %d %s%s", status, text, errs)
	}
	if b, err := os.ReadFile(ran); err == nil {
		t.Errorf("it was run:\n%s", b)
	}
}
