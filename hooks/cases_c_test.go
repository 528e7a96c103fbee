package hooks_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// state returns a good turn of the thread that every world has.
func state(n int) map[string]string {
	return map[string]string{fmt.Sprintf("release-check/S%d.md", n): turn("release-check", "STATE", fmt.Sprint(n, "\n"))}
}

// TestCasesC: the server side.
func TestCasesC(t *testing.T) {
	t.Parallel()
	everyFormat(t, "C01 loose and packed objects in quarantine", func(t *testing.T, o gittest.Options) {
		for _, unpack := range []string{"100", "1"} { // below and above: loose, and a pack that is kept
			w := newWorld(t, o)
			w.server.Config("receive.unpackLimit", unpack)
			// A quarantine of another push, dead or alive, is not ours to look at.
			write(t, filepath.Join(w.server.Dir, "objects", "tmp_objdir-incoming-AAAAAA", "pack", "junk.pack"), "junk")
			w.clone.Commit("Good", state(1))
			w.accepted(w.push("main"))
			w.settle()
			w.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
			w.clone.Commit("Good", state(2))
			w.refused(w.push("main"), "envelope-schema")
		}
	})

	t.Run("C01 two pushes in flight", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		w.policy("version: 1\nprotect: ['**']\n")
		w.clone.Run("branch", "bad")
		w.clone.Commit("Good", state(1))
		w.clone.Run("checkout", "-q", "bad")
		w.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
		done := make(chan gittest.Result, 1)
		go func() { done <- w.clone.Push("--no-verify", "origin", "bad:refs/heads/bad") }()
		w.accepted(w.push("main"))
		w.settle()
		must(t, <-done, 1, "[envelope-schema]")
		if w.server.Try(nil, "rev-parse", "-q", "--verify", "refs/heads/bad").Code == 0 {
			t.Error("the bad branch is there")
		}
	})

	formats(t, "C02 a wrapper loses or maps the variables", func(t *testing.T, o gittest.Options) {
		for name, line := range map[string]string{
			"dropped": "exec env -i PATH=\"$PATH\" HOME=\"$HOME\" '" + program + "' pre-receive",
			"mapped":  "GIT_QUARANTINE_PATH=/elsewhere/objects GIT_OBJECT_DIRECTORY=/elsewhere/objects exec '" + program + "' pre-receive",
			"partly":  "unset GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES; exec '" + program + "' pre-receive",
		} {
			w := newWorld(t, o)
			w.server.Hook("pre-receive", "#!/bin/sh\n"+line+"\n")
			w.clone.Commit("Good", state(1))
			res := w.push("main")
			w.undecided(res, "")
			if name == "mapped" && !strings.Contains(unwrapped(res.Stderr), "/elsewhere/objects") {
				t.Errorf("%s: %s", name, res.Stderr)
			}
		}
	})

	everyFormat(t, "C03 canary: refused, unmoved, and the next push passes", func(t *testing.T, o gittest.Options) {
		w := emptyWorld(t, o)
		w.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
		// Without anything to judge it by, a first push cannot be decided.
		w.undecided(w.push("main"), "git config rigward.bootstrap true")
		w.server.Config("rigward.bootstrap", "true")
		w.refused(w.push("main"), "envelope-schema")
		if refs := w.server.Run("for-each-ref"); refs != "" {
			t.Fatalf("refs: %q", refs)
		}
		w.clone.Run("update-ref", "-d", "HEAD")
		w.clone.Run("rm", "-q", "-r", "--cached", ".")
		w.clone.Commit("Good", map[string]string{request: turn("release-check", "REQUEST", "x\n")})
		w.accepted(w.push("main"))
		w.settle()
		// A policy of the server decides a first push, too.
		v := emptyWorld(t, o)
		v.policy("version: 1\n")
		v.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
		v.refused(v.push("main"), "envelope-schema")
		v.clone.Run("update-ref", "-d", "HEAD")
		v.clone.Run("rm", "-q", "-r", "--cached", ".")
		v.clone.Commit("Good", map[string]string{request: turn("release-check", "REQUEST", "x\n")})
		v.accepted(v.push("main"))
	})

	t.Run("C04 a new ref among a thousand", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		var b strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&b, "create refs/heads/b%d %s\n", i, w.base)
		}
		w.server.RunIn([]byte(b.String()), "update-ref", "--stdin")
		w.policy("version: 1\nprotect: ['**']\n")
		w.clone.Run("checkout", "-q", "-b", "topic")
		w.clone.Commit("Good", state(1))
		must(t, w.clone.Push("--no-verify", "origin", "topic"), 0)
		w.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
		w.refused(w.push("topic:refs/heads/topic2"), "envelope-schema")
		// Only what is new is judged: one finding of one commit.
		must(t, w.push("topic:refs/heads/topic3"), 1, "push refused: 1 error")
	})

	t.Run("C06 C07 time is up", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		for i := range 30 {
			w.clone.Commit("Good", state(i))
		}
		w.server.Hook("pre-receive", "#!/bin/sh\nexec '"+program+"' pre-receive --timeout 1ms\n")
		w.undecided(w.push("main"), "then the time was up hint: push in smaller parts, or raise --timeout")
		// The policy's timeout counts, too; and never skips the check.
		w.server.Hook("pre-receive", "#!/bin/sh\nexec '"+program+"' pre-receive\n")
		w.policy("version: 1\ntimeout: 1 ms\n")
		w.undecided(w.push("main"), "then the time was up hint: push in smaller parts, or raise the policy's timeout")
		w.server.Config("rigward.timeout", "1ms")
		w.undecided(w.push("main"), "or raise rigward.timeout")
		w.server.Run("config", "--unset", "rigward.timeout")
		w.policy("version: 1\ntimeout: 60 s\n")
		w.accepted(w.push("main"))
	})

	formats(t, "C08 C10 C11 no variable but git's own", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
		for _, env := range []string{
			"unset HOME XDG_CONFIG_HOME USER LOGNAME LANG LC_ALL TERM;",
			"export HOME=/nonexistent GL_ID=key-1 GL_REPOSITORY=x GITEA_PUSHER_ID=1 GIT_TRACE=1;",
			"export SSH_CLIENT= BUNDLE_GEMFILE=/x RUBYLIB=/x GIT_AUTHOR_DATE=junk;",
		} {
			w.server.Hook("pre-receive", "#!/bin/sh\n"+env+" exec '"+program+"' pre-receive\n")
			w.refused(w.push("main"), "envelope-schema")
		}
		w.again()
		w.clone.Commit("Good", state(1))
		w.server.Hook("pre-receive", "#!/bin/sh\nunset HOME; exec '"+program+"' pre-receive\n")
		w.accepted(w.push("main"))
	})

	formats(t, "C09 GitLab shows lines with its prefix only", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
		w.server.Hook("pre-receive", "#!/bin/sh\nGL_PROTOCOL=web exec '"+program+"' pre-receive\n")
		res := w.clone.Push("--no-verify", "origin", "main")
		w.refused(res, "envelope-schema")
		n := 0
		for line := range strings.Lines(res.Stderr) {
			if text, ok := strings.CutPrefix(line, "remote: "); ok && strings.TrimSpace(text) != "" {
				if n++; !strings.HasPrefix(text, "GL-HOOK-ERR: ") || len(strings.TrimSpace(text)) > 71 {
					t.Errorf("%q", line)
				}
			}
		}
		if n < 3 {
			t.Error(res.Stderr)
		}
	})

	formats(t, "C12 Gerrit's hooks", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		zero := strings.Repeat("0", len(w.base))
		good := w.clone.Commit("Good", state(1))
		w.accepted(w.push("main:refs/heads/review"))
		flags := func(ref, old, now string) []string {
			return []string{"--project", "rigs", "--refname", ref, "--uploader", "Op <op@example.com>", "--uploader-username", "op", "--oldrev", old, "--newrev", now}
		}
		gerrit := func(hook string, args ...string) gittest.Result {
			return rig(w.server, w.server.Dir, "", append([]string{"gerrit", hook}, args...)...)
		}
		must(t, gerrit("ref-update", flags("refs/heads/main", w.base, good)...), 0)
		must(t, gerrit("ref-update", flags("main", w.base, good)...), 0)
		must(t, gerrit("commit-received", append(flags("refs/heads/main", w.base, good), "--cmdref", "refs/for/main")...), 0)
		w.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
		tip := w.clone.Ref("HEAD")
		w.accepted(w.push("main:refs/heads/review"))
		must(t, gerrit("ref-update", flags("refs/heads/main", w.base, tip)...), 1, "[envelope-schema]")
		must(t, gerrit("commit-received", append(flags("refs/heads/main", w.base, tip), "--cmdref", "refs/for/main")...), 1, "[envelope-schema]")
		must(t, gerrit("ref-update", flags("refs/heads/main", w.base, zero)...), 1, "[fast-forward]")
		must(t, gerrit("ref-update", flags("refs/heads/main", zero, tip)...), 1, "[envelope-schema]")
		// Called in a way that this program does not know.
		must(t, gerrit("ref-update", flags("refs/heads/main", w.base, good)[2:4]...), 2, "there is no flag --oldrev")
		must(t, gerrit("ref-update", append(flags("refs/heads/main", w.base, good), "--what", "x")...), 2, "unknown flag")
		must(t, gerrit("patchset-created"), 2, "ref-update", "commit-received")
	})

	formats(t, "C14 C16 nothing is written, nothing is fetched", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.server.Config("remote.origin.url", "http://127.0.0.1:1/x")
		refs := w.server.Run("for-each-ref")
		objects := w.server.Run("count-objects", "-v")
		w.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
		w.refused(w.push("main"), "envelope-schema")
		if now := w.server.Run("for-each-ref"); now != refs {
			t.Error(now)
		}
		if now := w.server.Run("count-objects", "-v"); now != objects {
			t.Error(now)
		}
	})

	formats(t, "C17 the policy is not read from what is pushed", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		off := "version: 1\nrules:\n  envelope-schema: off\n"
		w.clone.Commit("Allow and use", map[string]string{".bridge/policy.yaml": off, "release-check/B.md": bad("release-check")})
		w.refused(w.push("main"), "envelope-schema")
		w.again()
		w.clone.Commit("Allow", map[string]string{".bridge/policy.yaml": off})
		w.clone.Commit("Use", map[string]string{"release-check/B.md": bad("release-check")})
		w.refused(w.push("main"), "envelope-schema")
		// By way of a branch that nobody guards: its policy does not count for main.
		w.accepted(w.push("main:scratch"))
		w.refused(w.push("main"), "envelope-schema")
		// Nor does that of a new protected ref.
		w.policy("version: 1\nprotect: [main, fresh]\n")
		w.refused(w.push("main:fresh"), "envelope-schema")
		w.server.Run("config", "--unset", "rigward.policy")
		// The change alone takes effect for the next push; here nobody is trusted
		// yet, so a server must say that it wants it.
		w.again()
		w.clone.Commit("Allow", map[string]string{".bridge/policy.yaml": off})
		w.refused(w.push("main"), "signers-change")
		w.server.Config("rigward.bootstrap", "true")
		w.accepted(w.push("main"))
		w.clone.Commit("Use", map[string]string{"release-check/B.md": bad("release-check")})
		w.accepted(w.push("main"))
	})

	formats(t, "a symbolic ref is judged as what it names", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.server.Run("symbolic-ref", "refs/heads/alias", "refs/heads/main")
		w.server.Config("receive.denyDeleteCurrent", "ignore")
		w.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
		w.refused(w.push("main:alias"), "envelope-schema")
		w.refused(w.push(":alias"), "fast-forward")
	})

	formats(t, "refs that change what others see", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		fake := w.clone.Commit("Fake", state(1))
		w.refused(w.push(fake+":refs/replace/"+w.base), "other-refs")
		w.refused(w.push(fake+":refs/notes/commits"), "other-refs")
		w.accepted(w.push(fake + ":refs/heads/side"))
		// A replacement that is there already is not obeyed.
		w.server.SetRef("refs/replace/"+w.base, fake)
		w.again()
		w.clone.Commit("Tamper", map[string]string{request: turn("release-check", "REQUEST", "Ship it.\n")})
		w.refused(w.push("main"), "append-only")
		w.policy("version: 1\nother-refs: deny\nallow-refs: ['refs/notes/*']\n")
		w.refused(w.push(fake+":refs/heads/other"), "other-refs")
		w.accepted(w.push(fake + ":refs/notes/commits"))
	})
}
