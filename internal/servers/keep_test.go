//go:build linux

package servers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
)

// TestKeeping: what an administrator does in the life of a repository, by the
// words of the page: keys come and go, an exception is made, the index is lost.
func TestKeeping(t *testing.T) {
	t.Parallel()
	program(t, "ssh-keygen", "openssh-client")
	dir := gittest.TempDir(t)
	documented(t, "A bare repository over SSH", 0).with("/srv/git", dir).run(dir, shell(dir))
	server := filepath.Join(dir, "bridge.git")
	ssh := filepath.Join(dir, ".ssh")
	if err := os.Mkdir(ssh, 0o700); err != nil {
		t.Fatal(err)
	}
	old, next := keyPair(t, filepath.Join(ssh, "old")), keyPair(t, filepath.Join(ssh, "new"))
	env := append(shell(dir), "GIT_TERMINAL_PROMPT=0")
	clone := filepath.Join(dir, "clone")
	do := func(text string) string { t.Helper(); return block{t, text}.run(clone, env) }
	if err := os.Mkdir(clone, 0o755); err != nil {
		t.Fatal(err)
	}
	do("git init -q -b main && git remote add origin '" + server + "' && git config user.name You && git config user.email you@example.com\n" +
		"git config gpg.format ssh && git config user.signingkey ~/.ssh/old.pub && git config push.default current && rig-hook keys add you@example.com,you-relay ~/.ssh/old.pub")
	write(t, filepath.Join(clone, "th-a", "STATE.md"), turn("th-a", "STATE", "One\n"), 0o644)
	do("git add . && git commit -q -m Begin && git push -q -u origin main && git -C '" + server + "' config --unset-all rigward.bootstrap")
	push := func(want string) { // "" for a push that is accepted
		t.Helper()
		if out := do("git push -q || echo refused"); strings.Contains(out, "refused") != (want != "") || !strings.Contains(out, want) {
			t.Fatalf("expected %q: %s", want, out)
		}
	}
	try := func(key, name, want string) {
		t.Helper()
		do("git config user.signingkey " + key + ".pub && git fetch -q && git reset -q --hard origin/main")
		do("echo '# " + name + "' >>.bridge/allowed_signers && git commit -q -a -S -m " + name)
		push(want)
	}
	reset := func() {
		do("git fetch -q && git reset -q --hard origin/main && git config user.signingkey ~/.ssh/new.pub")
	}

	// The stranger's key first, then the change, then the old key again.
	try(next, "stranger", "unknown key")
	do("git reset -q --hard origin/main && git config user.signingkey ~/.ssh/old.pub")
	documented(t, "Changing keys", 0).run(clone, env)
	try(old, "old", "unknown key")
	try(next, "new", "")
	reset()
	documented(t, "Changing keys", 1).run(clone, env)
	do("printf 'you@example.com %s\\n' \"$(cat ~/.ssh/old.pub)\" >>.bridge/allowed_signers && git commit -q -a -S -m 'Listed again' && git push -q")
	try(old, "again", "revoked: the key")

	// An edit is refused, let in by the exception, and the next one refused.
	edit := func(body, want string) {
		t.Helper()
		reset()
		write(t, filepath.Join(clone, "th-a", "STATE.md"), turn("th-a", "STATE", body), 0o644)
		do("git commit -q -a -m Edit")
		push(want)
	}
	edit("Two\n", "[append-only]")
	documented(t, "Letting something in by exception", 0).with("/srv/git", dir).run(dir, env)
	edit("Three\n", "")
	documented(t, "Letting something in by exception", 1).with("/srv/git", dir).run(dir, env)
	edit("Four\n", "[append-only]")
	exceptions(t, dir, env)
	reset()
	write(t, filepath.Join(clone, "th-a", "ACK.md"), turn("th-a", "STATE", "Five\n"), 0o644)
	do("git add . && git commit -q -m More && git push -q")

	// A damaged index of nonces does not let a used one pass.
	hash := envelope.BodyHash(envelope.NormalizeBody([]byte("Five\n")))
	relay := func(file string) string {
		return "printf -- '---\\nfrom: you-relay\\nto: rig-a\\ndate: 2026-01-05\\nstatus: ▶ Relayed\\ntype: ACK\\nthread: th-a\\nin_reply_to: " + hash +
			"\\nattested_by: '$(ssh-keygen -lf ~/.ssh/new.pub | cut -d' ' -f2)'\\nattested_at: '$(date -u +%FT%TZ)'\\nnonce: 01ARZ3NDEKTSV4RRFFQ69G5FAV\\nbody_hash: " + hash +
			"\\n---\\nFive\\n' >th-a/" + file + " && git add . && git commit -q -S -m " + file + "\n"
	}
	do(relay("RELAY.md") + "git push -q")
	files, err := filepath.Glob(filepath.Join(server, "rigward", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: there is no index", err)
	}
	for _, f := range files {
		write(t, f, "damaged", 0o644)
	}
	do(relay("AGAIN.md"))
	push("[relay-nonce]")
}

// exceptions plays I16: the page's words for an exception hold for a repository
// without a policy, as the README leaves it, and for every form in which one may
// have rules already.
func exceptions(t *testing.T, dir string, env []string) {
	t.Helper()
	for name, text := range map[string]string{
		"none":           "",
		"without rules":  "version: 1\nprotect: [refs/heads/main]\n",
		"rules in block": "version: 1\nrules:\n  tldr-length: off\nfail-level: error\n",
		"rules in flow":  "version: 1\nrules: {tldr-length: off}\nfail-level: error\n",
	} {
		srv := filepath.Join(gittest.TempDir(t), "srv")
		bridge := filepath.Join(srv, "bridge.git")
		block{t, "git init -q -b main work && cd work && mkdir -p .bridge th-a && printf '%s' \"$POLICY\" >.bridge/policy.yaml\n" +
			"test -s .bridge/policy.yaml || rm .bridge/policy.yaml\n" +
			"printf '%s' \"$TURN\" >th-a/STATE.md && git add -A . && git commit -q -m First\n" +
			"mkdir -p '" + srv + "' && git clone -q --bare . '" + bridge + "' && rig-hook install --server '" + bridge + "'\n" +
			"git remote add origin '" + bridge + "' && git fetch -q origin"}.run(gittest.TempDir(t), append(slices.Clone(env), "POLICY="+text, "TURN="+turn("th-a", "STATE", "One\n"),
			"GIT_AUTHOR_NAME=N", "GIT_AUTHOR_EMAIL=n@example.com", "GIT_COMMITTER_NAME=N", "GIT_COMMITTER_EMAIL=n@example.com"))
		c := gittest.New(t, gittest.Options{})
		c.Now = time.Now().Unix() // the first commit was made by the clock
		c.Run("pull", "-q", bridge, "main")
		edit := func(body string) gittest.Result {
			c.Run("fetch", "-q", bridge, "main")
			c.Run("reset", "-q", "--hard", "FETCH_HEAD")
			c.Commit("Edit", map[string]string{"th-a/STATE.md": turn("th-a", "STATE", body)})
			return c.Push(bridge, "main")
		}
		if res := edit("Two\n"); res.Code == 0 || !strings.Contains(res.Stderr, "[append-only]") {
			t.Fatalf("%s: %s", name, res.Stderr)
		}
		documented(t, "Letting something in by exception", 0).with("/srv/git", srv).run(dir, env)
		if res := edit("Three\n"); res.Code != 0 {
			t.Fatalf("%s: %s", name, res.Stderr)
		}
		documented(t, "Letting something in by exception", 1).with("/srv/git", srv).run(dir, env)
		if res := edit("Four\n"); res.Code == 0 {
			t.Fatalf("%s: an edit was taken after the exception", name)
		}
	}
}
