package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/test/gittest"
)

const release = "refs/heads/release/1"

// takes expects that a push of tip to a ref passes.
func (s *scene) takes(tip, ref string) {
	s.Helper()
	if res := s.push(tip, ref); res.Code != 0 {
		s.Fatalf("the push to %s was refused:\n%s", ref, res.Stderr)
	}
}

// denies expects that a push of tip to a ref is refused for a rule, or, if says
// is not a rule, because it cannot be decided, and that it moves nothing.
func (s *scene) denies(tip, ref, says string) string {
	s.Helper()
	before := s.server.RefOrNone(ref)
	res := s.push(tip, ref)
	text := unwrapped(res.Stderr)
	if res.Code == 0 || !slices.Contains(told(res.Stderr), says) && !strings.Contains(text, says) {
		s.Fatalf("the push to %s: exit %d, expected %q:\n%s", ref, res.Code, says, res.Stderr)
	}
	if after := s.server.RefOrNone(ref); after != before {
		s.Fatalf("%s moved from %s to %s", ref, before, after)
	}
	return text
}

// rule commits a policy on main, signed by key A, and pushes it.
func (s *scene) rule(text string) {
	s.Helper()
	s.accepted(s.commit(opts{key: keyA, at: s.now.Add(-time.Second), files: map[string]string{".bridge/policy.yaml": "version: 1\nrevoked: .bridge/revoked\n" + text}}))
}

// ownPolicy names a policy of the server's own.
func (s *scene) ownPolicy(text string) {
	s.Helper()
	write(s, filepath.Join(s.server.Dir, "own.yaml"), "version: 1\n"+text)
	s.server.Config("rigward.policy", "own.yaml")
}

// TestDefaultBranchIsGuarded is case J04: no policy of a repository leaves the
// default branch out.
func TestDefaultBranchIsGuarded(t *testing.T) {
	t.Parallel()
	t.Run("J04 protect does not name it", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.rule("protect: [refs/heads/release/*]\n")
		s.denies(s.commit(opts{files: map[string]string{".bridge/policy.yaml": "version: 1\nrules: {tldr-length: off}\n"}}), "refs/heads/main", "signers-change")
		s.denies(s.parent(s.base), "refs/heads/main", "fast-forward")
		if res := s.repo.Push(s.server.Dir, ":refs/heads/main"); res.Code == 0 || !strings.Contains(unwrapped(res.Stderr), "git symbolic-ref HEAD") {
			t.Errorf("main is deleted: exit %d\n%s", res.Code, res.Stderr)
		}
		must(t, rig(s.server, s.server.Dir, "", "explain", "--guarded", "--server", "."), 0,
			"warning: protect does not name the default branch refs/heads/main, which is protected all the same", "guarded refs/heads/main: it is the default branch")
		// What protect names is guarded besides, and the rest is free.
		s.takes(s.base, release)
		s.denies(s.parent(s.base), release, "fast-forward")
		s.takes(s.base, "refs/heads/topic")
		s.takes(s.parent(s.base), "refs/heads/topic")
		s.accepted(s.relayed(opts{}, nil))
	})
	t.Run("J04 what is left out and malformed stops nobody else", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.ownPolicy("protect: [refs/heads/release/*]\n")
		write(t, filepath.Join(s.server.Dir, "signers"), sceneSigners(s.now))
		s.server.Config("rigward.allowedSigners", "signers")
		good := s.commit(opts{files: map[string]string{"README.md": "x\n"}})
		_, raw, _ := strings.Cut(s.server.Run("cat-file", "commit", s.base), "\n")
		bad := s.server.WriteObject("commit", []byte("tree "+s.server.EmptyTreeID()+"\n"+strings.Replace(raw, "committer ", "committer \x00", 1)))
		s.server.SetRef("refs/heads/old", s.base)
		write(t, filepath.Join(s.server.Dir, "refs", "heads", "main"), bad+"\n")
		s.takes(s.base, release)
		s.takes(good, "refs/heads/topic")
		s.denies(s.parent(s.base), release, "fast-forward")
		// Where it is protected, nothing can be decided.
		s.server.Run("config", "--unset", "rigward.policy")
		s.denies(good, "refs/heads/main", "cannot decide")
	})
	t.Run("J04 a server's own file leaves it out", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.ownPolicy("protect: [refs/heads/release/*]\n")
		old, first := s.base, s.parent(s.base)
		s.takes(first, "refs/heads/main")
		s.takes(s.commit(opts{files: map[string]string{".bridge/allowed_signers": nobody.Line("op@example.com,op-relay", "")}}), "refs/heads/main")
		must(t, rig(s.server, s.server.Dir, "", "explain", "--guarded", "--server", "."), 0,
			"warning: the server's own policy leaves the default branch refs/heads/main out of protect", "free refs/heads/main: the server's own policy leaves the default branch out")
		// So nobody's signers file counts, until the server names one.
		s.base = old
		byNobody := s.relayed(opts{key: nobody}, nil)
		good := s.relayed(opts{}, nil)
		for _, tip := range []string{byNobody, good} {
			s.denies(tip, release, "anybody may write the signers file that lies there")
		}
		write(t, filepath.Join(s.server.Dir, "signers"), sceneSigners(s.now))
		s.server.Config("rigward.allowedSigners", "signers")
		s.denies(byNobody, release, "commit-signed")
		s.takes(good, release)
		// Protected again, it is judged anew: what it got meanwhile counts for nothing.
		s.server.Run("config", "--unset", "rigward.policy")
		tip := s.server.Ref("refs/heads/main")
		text := s.denies(s.commit(opts{parents: []string{tip}, files: map[string]string{"notes.txt": "x"}}), "refs/heads/main", "signers-change")
		if !strings.Contains(text, "rig-hook accept --server DIR refs/heads/main") {
			t.Error(text)
		}
		must(t, rig(s.server, s.server.Dir, "", "accept", "--server", ".", "refs/heads/main"), 0, tip)
		s.takes(s.commit(opts{parents: []string{tip}, files: map[string]string{"notes.txt": "x"}}), "refs/heads/main")
	})
	t.Run("J04 a server's own file that names no refs keeps it", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.ownPolicy("revoked: .bridge/revoked\n")
		s.denies(s.parent(s.base), "refs/heads/main", "fast-forward")
		s.accepted(s.relayed(opts{}, nil))
	})
	t.Run("J04 a client's own policy cannot", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		hooked(t, w.clone)
		w.clone.Run("fetch", "-q", "origin")
		own(t, w.clone, "version: 1\nprotect: [refs/heads/release/*]\n")
		w.clone.Run("commit", "-q", "--no-verify", "--amend", "-m", "Anew")
		if res := w.clone.Push("--force", "origin", "main"); res.Code == 0 || !strings.Contains(res.Stderr, "[fast-forward]") {
			t.Errorf("exit %d\n%s", res.Code, res.Stderr)
		}
	})
	t.Run("J04 HEAD without a branch", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.server.Run("update-ref", "--no-deref", "HEAD", s.base)
		s.takes(s.base, "refs/heads/topic")
		s.denies(s.parent(s.base), "refs/heads/topic", "fast-forward")
		s.denies(s.parent(s.base), "refs/heads/main", "fast-forward")
		s.server.Run("symbolic-ref", "HEAD", "refs/heads/none")
		s.denies(s.parent(s.base), "refs/heads/main", "fast-forward")
		s.denies(s.commit(opts{files: map[string]string{".bridge/allowed_signers": nobody.Line("*", "")}}), "refs/heads/none", "signers-change")
		must(t, rig(s.server, s.server.Dir, "", "explain", "--guarded", "--server", "."), 0, "warning: the default branch refs/heads/none does not exist")
	})
}

// TestOneRootOfTrust is case J05: policy and signers are those of the default
// branch, and what came to a ref while it was free is judged once it is not.
func TestOneRootOfTrust(t *testing.T) {
	t.Parallel()
	mine := func(s *scene) opts {
		return opts{at: s.now.Add(-2 * time.Second), files: map[string]string{".bridge/allowed_signers": nobody.Line("op@example.com,op-relay", ""), ".bridge/policy.yaml": "version: 1\n"}}
	}
	t.Run("J05 a free ref is prepared, then protected", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		prepared := s.commit(mine(s))
		s.takes(prepared, release) // anybody may write to a free ref
		s.rule("protect: [main, refs/heads/release/*]\n")
		must(t, rig(s.server, s.server.Dir, "", "explain", "--guarded", "--server", "."), 0, "guarded "+release+": protect names \"refs/heads/release/*\"; not judged since it is protected")
		// The first push after that, by the attacker's key or by none.
		forged := s.relayed(opts{parents: []string{prepared}, key: nobody}, nil)
		text := s.denies(forged, release, "commit-signed")
		if !strings.Contains(text, "rig-hook accept --server DIR "+release) {
			t.Error(text)
		}
		s.denies(s.commit(opts{parents: []string{prepared}, files: map[string]string{"notes.txt": "x"}}), release, "signers-change")
		// And a new protected ref at that tip, or one commit on.
		s.denies(prepared, "refs/heads/release/2", "signers-change")
		s.denies(forged, "refs/heads/release/2", "commit-signed")
		// Even after the server took the ref as it is, its signers count for nothing.
		must(t, rig(s.server, s.server.Dir, "", "accept", "--server", ".", release), 0, prepared)
		s.denies(forged, release, "commit-signed")
		s.takes(s.relayed(opts{parents: []string{prepared}}, nil), release)
		must(t, rig(s.server, s.server.Dir, "", "explain", "--guarded", "--server", "."), 0, "its own .bridge/ counts for nothing")
	})
	t.Run("J05 a forged relay came while the ref was free", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		forged := s.relayed(opts{parents: []string{s.commit(mine(s))}, key: nobody}, nil)
		s.takes(forged, release)
		s.rule("protect: [main, refs/heads/release/*]\n")
		s.denies(s.commit(opts{parents: []string{forged}, files: map[string]string{"notes.txt": "x"}}), release, "commit-signed")
		// The way out that the refusal names: free, anew, protected again.
		s.rule("protect: [main]\n")
		fresh := s.relayed(opts{}, nil)
		s.takes(fresh, release)
		s.rule("protect: [main, refs/heads/release/*]\n")
		s.takes(s.relayed(opts{parents: []string{fresh}}, nil), release)
	})
	t.Run("J05 a lawful ref that becomes protected", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		tip := s.relayed(opts{}, nil)
		s.takes(tip, release)
		s.rule("protect: [main, refs/heads/release/*]\n")
		next := s.relayed(opts{parents: []string{tip}}, nil)
		s.takes(next, release)
		// It was judged once: the next push is judged from there, though the key
		// that signed is out by now.
		s.accepted(s.commit(opts{key: keyBoth, at: s.now.Add(-time.Second), files: map[string]string{".bridge/allowed_signers": keyBoth.Line("op@example.com,op-relay", "")}}))
		s.takes(s.relayed(opts{parents: []string{next}, key: keyBoth}, nil), release)
		s.denies(s.relayed(opts{parents: []string{next}}, nil), release, "fast-forward")
	})
	t.Run("J05 freed in between", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		guarded := "protect: [main, refs/heads/release/*]\n"
		s.rule(guarded)
		s.takes(s.base, release)
		s.rule("protect: [main]\n")
		s.takes(s.relayed(opts{key: nobody}, nil), release)
		forged := s.server.Ref(release)
		s.rule(guarded)
		s.denies(s.commit(opts{parents: []string{forged}, files: map[string]string{"notes.txt": "x"}}), release, "commit-signed")
	})
	t.Run("J05 the record is lost", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.rule("protect: [main, refs/heads/release/*]\n")
		good := s.relayed(opts{}, nil)
		s.takes(good, release)
		if err := os.RemoveAll(filepath.Join(s.server.Dir, "rigward")); err != nil {
			t.Fatal(err)
		}
		s.takes(s.relayed(opts{parents: []string{good}}, nil), release) // it is judged again, and good
		s.denies(good, release, "fast-forward")
	})
	t.Run("J05 a record of a push that moved nothing", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.rule("protect: [main, refs/heads/release/*]\n")
		s.takes(s.base, release)
		// What a pusher claims that a ref had is not a reason to take the rest as judged.
		forged := s.relayed(opts{key: nobody}, nil)
		s.takes(forged, "refs/heads/topic")
		next := s.commit(opts{parents: []string{forged}, files: map[string]string{"notes.txt": "x"}})
		s.takes(next, "refs/heads/topic")
		rig(s.server, s.server.Dir, forged+" "+next+" "+release+"\n", "pre-receive")
		s.rule("protect: [main]\n")
		s.takes(next, release)
		s.rule("protect: [main, refs/heads/release/*]\n")
		s.denies(s.commit(opts{parents: []string{next}, files: map[string]string{"more.txt": "x"}}), release, "commit-signed")
	})
	t.Run("J05 another default branch", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.rule("rules: {tldr-length: off}\n")
		forged := s.relayed(opts{key: nobody}, nil)
		s.takes(forged, "refs/heads/next")
		s.server.Run("symbolic-ref", "HEAD", "refs/heads/next")
		must(t, rig(s.server, s.server.Dir, "", "explain", "--guarded", "--server", "."), 0, "guarded refs/heads/next: it is the default branch; not judged since it is protected")
		s.denies(s.commit(opts{parents: []string{forged}, files: map[string]string{"notes.txt": "x"}}), "refs/heads/next", "commit-signed")
		// A lawful one goes on from what the old one had, and the old one may go.
		s.server.SetRef("refs/heads/next", s.base)
		s.takes(s.relayed(opts{}, nil), "refs/heads/next")
		if res := s.repo.Push(s.server.Dir, ":refs/heads/main"); res.Code != 0 {
			t.Error(res.Stderr)
		}
	})
	t.Run("J05 what a release branch does to its own signers is guarded, and counts for nothing", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.rule("protect: [main, refs/heads/release/*]\n")
		s.takes(s.base, release)
		o := mine(s)
		s.denies(s.commit(o), release, "signers-change")
		o.key = keyA
		own := s.commit(o)
		s.takes(own, release)
		s.denies(s.relayed(opts{parents: []string{own}, key: nobody}, nil), release, "commit-signed")
		s.takes(s.relayed(opts{parents: []string{own}}, nil), release)
	})
	t.Run("J05 main is merged into a release after a change of keys", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.rule("protect: [main, refs/heads/release/*]\n")
		side := s.commit(opts{files: map[string]string{"fix.txt": "x"}})
		s.takes(side, release)
		s.accepted(s.relayed(opts{}, nil))
		s.accepted(s.commit(opts{key: keyBoth, files: map[string]string{".bridge/allowed_signers": keyBoth.Line("op@example.com,op-relay", "")}}))
		merge := s.commit(opts{parents: []string{s.base, side}, files: map[string]string{"fix.txt": "x"}})
		s.takes(merge, release)
		// One that keeps the old signers takes main's back.
		odd := s.commit(opts{parents: []string{s.base, merge}, files: map[string]string{"fix.txt": "x", ".bridge/allowed_signers": sceneSigners(s.now)}})
		s.denies(odd, release, "signers-change")
	})
	t.Run("J05 a release is brought forward to main", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.rule("protect: [main, refs/heads/release/*]\n")
		s.takes(s.base, release)
		s.accepted(s.relayed(opts{}, nil))
		s.accepted(s.commit(opts{files: map[string]string{"a.txt": "x"}}))
		s.takes(s.base, release)
		s.denies(s.parent(s.base), release, "fast-forward")
	})
	t.Run("J05 several refs in a first push", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		empty := gittest.New(t, gittest.Options{Bare: true})
		if _, err := hooks.Install(filepath.Join(empty.Dir, "hooks"), program, hooks.ServerHooks); err != nil {
			t.Fatal(err)
		}
		push := func(specs ...string) gittest.Result { return s.repo.Push(append([]string{empty.Dir}, specs...)...) }
		first := s.parent(s.base)
		dev := s.commit(opts{parents: []string{first}, at: s.now.Add(-2 * time.Minute), files: map[string]string{".bridge/allowed_signers": nobody.Line("op@example.com,op-relay", "")}})
		if res := push(first+":refs/heads/main", dev+":refs/heads/dev"); res.Code == 0 || !strings.Contains(unwrapped(res.Stderr), "the first push into an empty repository") {
			t.Fatalf("exit %d\n%s", res.Code, res.Stderr)
		}
		empty.Config("rigward.bootstrap", "true")
		if res := push(first+":refs/heads/main", dev+":refs/heads/dev"); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
		empty.Run("config", "--unset", "rigward.bootstrap")
		// A branch alone, where the default one is still to come, is told of: its
		// signers count for nothing.
		other := gittest.New(t, gittest.Options{Bare: true})
		if _, err := hooks.Install(filepath.Join(other.Dir, "hooks"), program, hooks.ServerHooks); err != nil {
			t.Fatal(err)
		}
		other.Config("rigward.bootstrap", "true")
		const says = "note: the default branch refs/heads/main does not exist here, and policy and signers of no other branch count: " +
			"git push origin dev:main, or on the server: git symbolic-ref HEAD refs/heads/dev"
		res := s.repo.Push(other.Dir, dev+":refs/heads/dev")
		if res.Code != 0 || strings.Count(unwrapped(res.Stderr), says) != 1 || !strings.Contains(res.Stderr, "push accepted: 0 errors") {
			t.Errorf("exit %d\n%s", res.Code, res.Stderr)
		}
		if res := s.repo.Push(other.Dir, first+":refs/heads/main"); res.Code != 0 || strings.Contains(res.Stderr, "note") {
			t.Errorf("exit %d\n%s", res.Code, res.Stderr)
		}
		// main's signers count for both; dev is free now.
		if res := push(s.relayed(opts{parents: []string{first}, key: nobody}, nil) + ":refs/heads/main"); res.Code == 0 || !slices.Contains(told(res.Stderr), "commit-signed") {
			t.Errorf("exit %d\n%s", res.Code, res.Stderr)
		}
		if res := push(s.base + ":refs/heads/main"); res.Code != 0 {
			t.Error(res.Stderr)
		}
	})
	t.Run("J05 pre-push judges by the remote's default branch", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.rule("protect: [main, refs/heads/release/*]\n")
		own := s.commit(opts{key: keyA, files: map[string]string{".bridge/allowed_signers": nobody.Line("op@example.com,op-relay", "")}})
		s.takes(own, release)
		forged, good := s.relayed(opts{parents: []string{own}, key: nobody}, nil), s.relayed(opts{parents: []string{own}}, nil)
		s.repo.Run("remote", "add", "origin", s.server.Dir)
		s.repo.Run("fetch", "-q", "origin")
		line := func(tip string) string { return "x " + tip + " " + release + " " + own + "\n" }
		must(t, rig(s.repo, s.repo.Dir, line(forged), "pre-push", "origin", s.server.Dir), 1, "[commit-signed]")
		must(t, rig(s.repo, s.repo.Dir, line(good), "pre-push", "origin", s.server.Dir), 0)
	})
}

// TestServerRevokes: a server revokes by itself, besides what the repository
// revokes.
func TestServerRevokes(t *testing.T) {
	t.Parallel()
	both := func(t *testing.T, s *scene) { // key A and the repository's key R are out, another one counts
		t.Helper()
		s.denies(s.relayed(opts{}, nil), "refs/heads/main", "revoked")
		s.denies(s.relayed(opts{key: keyR}, nil), "refs/heads/main", "revoked")
		s.accepted(s.relayed(opts{key: keyBoth}, nil))
	}
	t.Run("rig-hook keys revoke --server", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		must(t, rig(s.server, s.server.Dir, "", "keys", "revoke", "--server", ".", keyA.Fingerprint()), 0, "revoked "+keyA.Fingerprint())
		both(t, s)
		// Another one, by its file: the first stays revoked.
		file := filepath.Join(s.repo.Home, "both.pub")
		write(t, file, keyBoth.Authorized()+"\n")
		must(t, rig(s.server, s.server.Dir, "", "keys", "revoke", "--server", s.server.Dir, file), 0)
		s.denies(s.relayed(opts{key: keyBoth}, nil), "refs/heads/main", "revoked")
		s.denies(s.relayed(opts{}, nil), "refs/heads/main", "revoked")
		s.accepted(s.relayed(opts{key: keyEC}, nil))
		must(t, rig(s.server, s.server.Dir, "", "keys", "revoke", "--server", ".", nobody.Fingerprint()), 2, "no line of the signers file")
		must(t, rig(s.server, s.server.Dir, "", "keys", "list", "--server", "."), 2, "--server is for revoke alone")
		// From elsewhere, which has a list of its own or is no repository: the server that is named is meant.
		ec := filepath.Join(s.repo.Home, "ec.pub")
		write(t, ec, keyEC.Authorized()+"\n")
		must(t, rig(s.repo, s.repo.Dir, "", "keys", "revoke", "--server", s.server.Dir, ec), 0, filepath.ToSlash(s.server.Dir))
		s.denies(s.relayed(opts{key: keyEC}, nil), "refs/heads/main", "revoked")
		must(t, rig(s.repo, s.repo.Home, "", "keys", "revoke", "--server", s.server.Dir, keyA.Fingerprint()), 0)
		must(t, rig(s.repo, s.repo.Dir, "", "keys", "revoke", "--server", s.repo.Dir, ec), 2, "is not a bare repository")
		if _, err := os.Stat(filepath.Join(s.repo.Dir, ".git", "rigward-revoked")); err == nil {
			t.Error("the clone has a list now, which no server reads")
		}
	})
	t.Run("a server's own policy", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		list := filepath.Join(s.server.Dir, "list")
		write(t, list, keyA.Authorized()+"\n")
		s.ownPolicy("revoked: " + list + "\n")
		both(t, s)
		// The repository's own list is still guarded.
		s.denies(s.commit(opts{files: map[string]string{".bridge/revoked": "# nobody\n"}}), "refs/heads/main", "signers-change")
		s.ownPolicy("revoked: .bridge/revoked\n")
		s.server.Config("rigward.revoked", "list")
		both(t, s)
		os.Remove(list)
		s.denies(s.relayed(opts{key: keyBoth}, nil), "refs/heads/main", "the server's revocation file")
		s.accepted(s.commit(opts{files: map[string]string{"notes.txt": "x"}}))
		must(t, rig(s.server, s.server.Dir, "", "doctor", "--server", "."), 2, "the server's revocation file")
	})
	t.Run("a policy of the repository names no file of the server", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.denies(s.commit(opts{key: keyA, files: map[string]string{".bridge/policy.yaml": "version: 1\nrevoked: /etc/passwd\n"}}), "refs/heads/main", "signers-change")
	})
}

// TestSignedSpeaks is J14's part at the gate: a commit that a listed key signed
// is one of that key's owner, though it need not be signed.
func TestSignedSpeaks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	turn := func(name, from string) map[string]string {
		return map[string]string{"t-one/" + name + ".md": s.plain("t-one", from, "STATE", name+"\n")}
	}
	s.refused(s.commit(opts{key: keyA, files: turn("A", "rig-a")}), true, []string{"sender-key"})
	s = newScene(t)
	s.refused(s.commit(opts{key: keyB, files: map[string]string{"notes.txt": "x"}}), true, []string{"signer-identity"})
	s = newScene(t)
	s.refused(s.commit(opts{key: keyB, author: operator, committer: "Bob <bob@example.com>", files: map[string]string{"notes.txt": "x"}}), true, []string{"signer-identity"})
	// Unsigned, or signed by a key that nobody lists, they speak for nobody.
	s = newScene(t)
	s.accepted(s.commit(opts{files: turn("A", "rig-a")}))
	s.accepted(s.commit(opts{key: nobody, files: turn("B", "rig-a")}))
	s.accepted(s.commit(opts{author: operator, committer: "Bob <bob@example.com>", files: map[string]string{"notes.txt": "x"}}))
	s.accepted(s.commit(opts{key: keyOld, files: turn("C", "rig-a")}))
	s.accepted(s.commit(opts{key: keyB, author: "Bob <bob@example.com>", files: map[string]string{"notes.txt": "y"}}))
}

// TestCheckStdin is case J08: ref updates that rig-hook check gets are judged
// as pre-receive judges them.
func TestCheckStdin(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	zero := strings.Repeat("0", 40)
	tag := s.repo.WriteObject("tag", []byte("object "+s.base+"\ntype commit\ntag v1\ntagger "+operator+" 1767603600 +0000\n\nOne\n"))
	note := s.commit(opts{parents: []string{}, files: map[string]string{"note": "x"}})
	for _, id := range []string{tag, note} {
		s.takes(id, "refs/tags/"+id)
	}
	s.server.Run("symbolic-ref", "refs/heads/alias", "refs/heads/main")
	good := s.relayed(opts{}, nil)
	s.takes(good, "refs/heads/topic")
	for _, c := range []struct {
		name, lines string
		code        int
		says        string
	}{
		{"J08 the default branch deleted", s.base + " " + zero + " refs/heads/main", 1, "[fast-forward]"},
		{"J08 through a symbolic ref", s.base + " " + zero + " refs/heads/alias", 1, "[fast-forward]"},
		{"J08 refs/replace", zero + " " + s.base + " refs/replace/" + s.base, 1, "[other-refs]"},
		{"J08 notes", zero + " " + note + " refs/notes/commits", 1, "[other-refs]"},
		{"J08 a tag", zero + " " + tag + " refs/tags/v1", 0, ""},
		{"J08 a free branch deleted", good + " " + zero + " refs/heads/topic", 0, ""},
		{"J08 forced", s.base + " " + s.parent(s.base) + " refs/heads/main", 1, "[fast-forward]"},
		{"J08 forward", s.base + " " + good + " refs/heads/main", 0, ""},
		{"J08 none", "", 2, "no ref lines"},
		{"J08 cut", s.base + " " + good + " refs/heads/ma\x00", 2, "standard input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := strings.TrimSuffix(c.lines, "\x00")
			if lines == c.lines && lines != "" {
				lines += "\n"
			}
			for _, gate := range [][]string{{"check", "--stdin"}, {"pre-receive"}} {
				res := rig(s.server, s.server.Dir, lines, gate...)
				if res.Code != c.code || !strings.Contains(res.Stdout+res.Stderr, c.says) {
					t.Errorf("%s: exit %d, expected %d and %q\n%s%s", gate[0], res.Code, c.code, c.says, res.Stdout, res.Stderr)
				}
			}
		})
	}
	t.Run("J08 input beyond the limit", func(t *testing.T) {
		line := zero + " " + s.base + " refs/heads/x\n"
		lines := strings.Repeat(line, change.MaxInput/len(line)+1)
		for _, gate := range [][]string{{"check", "--stdin"}, {"pre-receive"}, {"pre-push"}} {
			must(t, rig(s.server, s.server.Dir, lines, gate...), 2, fmt.Sprint("more than ", change.MaxInput, " bytes"))
		}
	})
	t.Run("J08 after the push", func(t *testing.T) {
		// Whoever looks at a push that was made is not judged by what it brought.
		s := newScene(t)
		forged := s.relayed(opts{parents: []string{s.commit(opts{files: map[string]string{".bridge/allowed_signers": nobody.Line("op@example.com,op-relay", "")}})}, key: nobody}, nil)
		before := s.base
		s.forced(forged)
		must(t, rig(s.server, s.server.Dir, before+" "+forged+" refs/heads/main\n", "check", "--stdin"), 1, "[commit-signed]")
		s.server.SetRef("refs/heads/new", forged)
		must(t, rig(s.server, s.server.Dir, zero+" "+forged+" refs/heads/new\n", "check", "--stdin"), 0)
	})
}

// TestPrePushFollowsRefspecs is case J09: what is known of a remote lies where
// its refspecs say, the first that matches.
func TestPrePushFollowsRefspecs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gittest.Options{})
	c := w.clone
	for _, spec := range []string{"+refs/heads/*:refs/remotes/first/*", "+refs/heads/main:refs/remotes/last/main", "^refs/heads/hidden/*"} {
		c.Run("config", "--add", "remote.origin.fetch", spec)
	}
	c.Run("config", "--unset", "remote.origin.fetch", `refs/remotes/origin/`)
	c.Run("fetch", "-q", "origin")
	c.Config("branch.main.remote", "origin")
	c.Config("branch.main.merge", "refs/heads/main")
	c.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
	// The last one claims that the remote has it all.
	c.SetRef("refs/remotes/last/main", "HEAD")
	must(t, rig(c, c.Dir, "", "pre-push", "origin", w.server.Dir), 1, "[envelope-schema]", "refs/remotes/first/main")
	// A ref that is taken out is followed by none.
	c.Config("branch.main.merge", "refs/heads/hidden/main")
	c.SetRef("refs/remotes/first/hidden/main", "HEAD")
	must(t, rig(c, c.Dir, "", "pre-push", "origin", w.server.Dir), 1, "[envelope-schema]", "judged the branch against what is known of the remote")
	// Control: the first one has it.
	c.Config("branch.main.merge", "refs/heads/main")
	c.SetRef("refs/remotes/first/main", "HEAD")
	must(t, rig(c, c.Dir, "", "pre-push", "origin", w.server.Dir), 0)
}
