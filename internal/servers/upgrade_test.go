//go:build linux

package servers

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

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
)

// A version is the programs of one, rig-control apart: a hook that finds it beside itself starts it.
type version struct{ name, bin, control string }

// versions builds this version, and an older one from the repository's own history: the last tag, or what main was
// forty commits ago. Where there is no such history, the older one differs by its version alone.
func versions(t *testing.T) (old, now version) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	from, err := git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
	if err != nil {
		from, _ = git("rev-list", "--first-parent", "--max-count=1", "--skip=40", "HEAD")
	}
	older := root
	if from == "" {
		t.Log("this is no clone with forty commits: the older version is this source by another name")
	} else {
		older = gittest.TempDir(t)
		archive := exec.Command("git", "-C", root, "archive", "--format=tar", from)
		unpack := exec.Command("tar", "-x", "-C", older)
		var errs bytes.Buffer
		archive.Stderr, unpack.Stderr = &errs, &errs
		if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
		if err := unpack.Start(); err != nil {
			t.Fatal(err)
		}
		if err := archive.Run(); err != nil {
			t.Fatalf("%v: %s", err, errs.String())
		}
		if err := unpack.Wait(); err != nil {
			t.Fatalf("%v: %s", err, errs.String())
		}
		t.Logf("the older version is that of %s", from)
	}
	build := func(source, name string) version {
		v := version{name, filepath.Join(gittest.TempDir(t), name), ""}
		v.control = v.bin + "-control"
		for dir, programs := range map[string][]string{v.bin: {"./cmd/rig-hook", "./cmd/rig-bridge"}, v.control: {"./cmd/rig-control"}} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", append([]string{"build", "-buildvcs=false", "-ldflags", "-s -w -X github.com/rigward/rigward/cmd/internal/version.release=rigward-release=" + name + ";", "-o", dir}, programs...)...)
			cmd.Dir = source
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		return v
	}
	return build(older, "0.1.0"), build(root, "0.2.0")
}

// installed is a server with the hooks of one version, and a clone with the programs of another.
type installed struct {
	*site
	clone          *gittest.Repo
	server, client version
}

// tool runs a program in a repository, which must end as it is said.
func (i *installed) tool(r *gittest.Repo, exit int, program string, args ...string) string {
	i.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exit {
		i.Fatalf("%s %q: %v, expected exit %d\n%s%s", program, args, err, exit, out.String(), errs.String())
	}
	return out.String()
}

// commit commits now, as the client does: a server refuses other clocks.
func (i *installed) commit(message string, files map[string]string, args ...string) string {
	i.Helper()
	i.clone.Now = time.Now().Unix()
	return i.clone.Commit(message, files, args...)
}

// thread is what a version says of each message of a thread.
func (i *installed) thread(v version) string {
	i.Helper()
	return strings.TrimSpace(i.tool(i.clone, 0, filepath.Join(v.bin, "rig-bridge"), "thread", "release-check", "--json"))
}

// TestUpgrade is the section "A new version" of docs/servers.md: hooks of one version and a server of another work
// together both ways, and each reads what the other has written: the verdicts of a clone, the outbox, the index of nonces
// and the record of judged refs of a server.
func TestUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two versions")
	}
	old, now := versions(t)
	for _, c := range []struct{ client, server version }{{old, now}, {now, old}} {
		t.Run("client "+c.client.name+", server "+c.server.name, func(t *testing.T) {
			dir := filepath.Join(gittest.TempDir(t), "team.git")
			if out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			i := &installed{site: &site{T: t, repo: bare(t, dir), url: dir}, server: c.server, client: c.client}
			i.repo.Run("config", "rigward.controlPlane", "sqlite:control.db")
			// Where pre-receive's record does not get to the disk in that time, update and post-receive do not find it, and
			// each tells of the push as of one of its own: on a busy machine 5 ms are not enough to count by.
			i.repo.Run("config", "rigward.pushLogWait", "1m")
			i.tool(i.repo, 0, filepath.Join(c.server.bin, "rig-hook"), "install", "--server", dir, "--bootstrap")
			i.clone = i.site.client()
			i.upgrade(c.server, c.client)
		})
	}
}

func (i *installed) upgrade(server, client version) {
	i.Helper()
	c := i.clone
	hook, bridge := filepath.Join(client.bin, "rig-hook"), filepath.Join(client.bin, "rig-bridge")
	key := testkeys.Ed25519("upgrade")
	write(i.T, filepath.Join(c.Home, "key"), string(key.PEM()), 0o600)
	write(i.T, filepath.Join(c.Home, "key.pub"), key.Authorized()+"\n", 0o644)
	for _, kv := range [][2]string{{"gpg.format", "ssh"}, {"user.signingkey", filepath.Join(c.Home, "key.pub")}, {"commit.gpgsign", "true"}} {
		c.Run("config", kv[0], kv[1])
	}
	first := i.commit("Begin", map[string]string{".bridge/allowed_signers": key.Line(gittest.Email+",rig-a,op-relay", "") + "\n", ".bridge/policy.yaml": "version: 1\n", "README.md": "x\n"})
	i.accepted(c.Push("-u", "origin", "main"), "main", first)
	i.repo.Run("config", "--unset-all", "rigward.bootstrap")
	i.tool(c, 0, hook, "install")
	i.tool(c, 0, bridge, "init", "--rig-id", "rig-a")
	i.tool(c, 0, bridge, "new", "release-check")
	request := filepath.Join(c.Dir, "release-check", "REQUEST.md")
	scaffold, err := os.ReadFile(request)
	if err != nil {
		i.Fatal(err)
	}
	write(i.T, request, string(scaffold)+"Is it ready?\n", 0o644)
	i.tool(c, 0, bridge, "send", "REQUEST", "--thread", "release-check", "--to", "rig-b")
	i.tool(c, 0, bridge, "init", "--rig-id", "op-relay", "--force")
	i.tool(c, 0, bridge, "relay", "DECISIONS", "--thread", "release-check", "--in-reply-to", "REQUEST.md", "--tldr", "Ship it")
	i.accepted(c.Push("origin", "main"), "main", c.Ref("HEAD"))
	good := c.Ref("HEAD")

	// The client's hooks refuse, and so does the server whoever skips them.
	bad := map[string]string{"release-check/B.md": turn("release-check", "ORDER", "b\n")}
	c.Add(bad)
	if r := c.Try(nil, "commit", "-q", "-m", "Bad"); r.Code == 0 || !strings.Contains(r.Stderr, "[envelope-schema]") {
		i.Errorf("the client's hook: exit %d\n%s", r.Code, r.Stderr)
	}
	c.Run("commit", "-q", "--no-verify", "-m", "Bad")
	if r := c.Push("origin", "main"); r.Code == 0 || !strings.Contains(r.Stderr, "pre-push: refused") {
		i.Errorf("the client's hook lets it be pushed: exit %d\n%s", r.Code, r.Stderr)
	}
	i.refused(c.Push("--no-verify", "origin", "main"), "main", good, "[envelope-schema]")
	c.Run("reset", "-q", "--hard", good)
	// A relay once more is refused by the index of nonces and the history that the server's version has.
	relay := c.Run("show", "HEAD:"+c.Run("show", "--format=", "--name-only", "HEAD")) + "\n"
	i.commit("Again", map[string]string{"release-check/DECISIONS-2.md": relay}, "--no-verify")
	i.refused(c.Push("--no-verify", "origin", "main"), "main", good, "[relay-nonce]")
	c.Run("reset", "-q", "--hard", good)

	// What one version noted in the clone is what the other reads, and the other way about.
	one := i.thread(client)
	if two, again := i.thread(server), i.thread(client); !strings.Contains(one, `"verified"`) || again != one || verdicts(i.T, two) != verdicts(i.T, one) {
		i.Errorf("what the two versions say:\n%s\n%s\n%s", one, two, again)
	}

	// The server's version changes, and changes back: records of the one are the other's.
	for n, v := range []version{client, server} {
		i.tool(i.repo, 0, filepath.Join(v.bin, "rig-hook"), "install", "--server", i.repo.Dir)
		if text, err := os.ReadFile(filepath.Join(i.repo.Dir, "hooks", "pre-receive")); err != nil || !strings.Contains(string(text), v.bin) {
			i.Fatalf("the hook is not that of %s: %s %v", v.name, text, err)
		}
		next := i.commit("Next", map[string]string{"release-check/S" + string(rune('0'+n)) + ".md": turn("release-check", "STATE", "s\n")})
		i.accepted(c.Push("origin", "main"), "main", next)
		i.commit("Again", map[string]string{"release-check/DECISIONS-2.md": relay}, "--no-verify")
		i.refused(c.Push("--no-verify", "origin", "main"), "main", next, "[relay-nonce]")
		c.Run("reset", "-q", "--hard", next)
	}

	// The outbox that both wrote is taken further by the older version, and then by the newer one, after which the
	// database may have tables that the older one refuses.
	shippers := []version{client, server}
	slices.SortFunc(shippers, func(a, b version) int { return strings.Compare(a.name, b.name) })
	counts := []int{}
	for n, v := range shippers {
		i.tool(i.repo, 0, filepath.Join(v.control, "rig-control"), "ship", "--once")
		var pushes struct{ Rows []map[string]any }
		text := i.tool(i.repo, 0, filepath.Join(v.control, "rig-control"), "query", "pushes", "--json")
		if err := json.Unmarshal([]byte(text), &pushes); err != nil {
			i.Fatalf("%s: %v\n%s", v.name, err, text)
		}
		counts = append(counts, len(pushes.Rows))
		next := i.commit("Next", map[string]string{"release-check/T" + string(rune('0'+n)) + ".md": turn("release-check", "STATE", "t\n")})
		i.accepted(c.Push("origin", "main"), "main", next)
	}
	if !slices.Equal(counts, []int{9, 10}) {
		i.Errorf("the log has %v pushes, expected 9, and one more", counts)
	}
}

// verdicts are those of the messages of a thread, by their files.
func verdicts(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	var all []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if s, ok := v["verdict"]; ok {
				data, _ := json.Marshal([]any{v["file"], s})
				all = append(all, string(data))
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(v)
	if len(all) == 0 {
		t.Fatalf("no verdict in %s", text)
	}
	return strings.Join(all, "\n")
}
