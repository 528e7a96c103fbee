package rules

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/gitrepo"
)

var appendOnlyPlays = []play{
	{name: "a new envelope", make: func(w *world) { w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n"))) }},
	{name: "changed in place", make: func(w *world) {
		w.commit("c", put(request, turn("rig-a", "REQUEST", "Or not?\n")))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is changed in place | write a new envelope " +
			"instead; to take the change back: git rebase --onto <c>~1 <c>",
	}},
	{name: "changed in place, below a signed commit", make: func(w *world) {
		w.commit("c", put(request, turn("rig-a", "REQUEST", "Or not?\n")))
		w.commit("d", signed(keyOp), put("README.md", "x\n"))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is changed in place | write a new envelope " +
			"instead; to take the change back: git rebase --gpg-sign --onto <c>~1 <c>",
	}},
	{name: "changed in place with more, signed", make: func(w *world) {
		w.commit("c", signed(keyOp), put(request, turn("rig-a", "REQUEST", "Or not?\n")), put("README.md", "x\n"))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is changed in place | write a new envelope " +
			"instead; to take the change back: git rebase --gpg-sign --interactive <base>",
	}},
	{name: "deleted", make: func(w *world) { w.commit("c", del(request)) }, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is deleted",
	}},
	{name: "moved", make: func(w *world) {
		w.commit("c", del(request), put("t-two/REQUEST.md", turn("rig-a", "REQUEST", asked)))
	}, want: []string{
		`error append-only t-one/REQUEST.md @c: an accepted envelope is moved to "t-two/REQUEST.md"`,
		`error envelope-path t-two/REQUEST.md:7:9 @c: thread is "t-one", the file lies in the directory "t-two", ` +
			`expected the same name | thread: t-two`,
	}},
	{name: "made executable", make: func(w *world) {
		w.commit("c", putAs(gitrepo.ModeExecutable, request, turn("rig-a", "REQUEST", asked)))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is changed in mode from 100644 to 100755",
		"error envelope-path t-one/REQUEST.md:1:1 @c: an envelope is executable (mode 100755), expected a " +
			"regular file of mode 100644 | git update-index --chmod=-x -- t-one/REQUEST.md",
	}},
	{name: "replaced by a symbolic link", make: func(w *world) {
		w.commit("c", putAs(gitrepo.ModeSymlink, request, "other.md"))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is replaced by a symbolic link",
		"error envelope-path t-one/REQUEST.md:1:1 @c: an envelope is a symbolic link (mode 120000), expected a " +
			"regular file of mode 100644 | put a file in its place: git rm --cached -- t-one/REQUEST.md",
	}},
	{name: "replaced by a submodule", make: func(w *world) {
		w.commit("c", putAs(gitrepo.ModeGitlink, request, ""))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is replaced by a submodule",
		"error envelope-path t-one/REQUEST.md:1:1 @c: an envelope is a submodule (mode 160000), expected a " +
			"regular file of mode 100644 | git rm --cached -- t-one/REQUEST.md",
	}},
	{name: "replaced by a directory", make: func(w *world) {
		w.commit("c", del(request), put(request+"/a.md", "x\n"))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is deleted",
	}},
	{name: "what has no fence is not an envelope", make: func(w *world) {
		w.commit("b", put("notes/a.md", "Notes.\n"))
		w.accept()
		w.commit("c", put("notes/a.md", "Other notes.\n"))
	}},
	{name: "a file outside threads", make: func(w *world) {
		w.commit("b", put("README.md", "One.\n"))
		w.accept()
		w.commit("c", put("README.md", "Two.\n"))
	}},
	{name: "what the policy ignores", make: func(w *world) {
		w.policy = "envelopes: {ignore: ['t-one/**']}\n"
		w.commit("c", del(request))
	}},
	{name: "below another root", make: func(w *world) {
		w.policy = "envelopes: {root: talk}\n"
		w.commit("c", del(request))
	}},
	{name: "a malformed envelope is accepted all the same", make: func(w *world) {
		w.commit("b", put("t-one/bad.md", "---\nfrom: [\n---\n"))
		w.accept()
		w.commit("c", del("t-one/bad.md"))
	}, want: []string{
		"error append-only t-one/bad.md @c: an accepted envelope is deleted",
	}},
	{name: "larger than a limit of now", make: func(w *world) {
		w.policy = "limits: {file: 8}\n"
		w.commit("c", del(request))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is deleted",
	}},
	{name: "a closing envelope that is larger than a limit of now closes all the same", make: func(w *world) {
		w.policy = "limits: {file: 300}\n"
		w.commit("b", put("t-one/end.md", turn("rig-a", "RESOLUTION", strings.Repeat("Done. ", 100)+"\n")))
		w.accept()
		w.commit("c", put("t-one/late.md", turn("rig-b", "STATE", "Wait.\n")))
	}, want: []string{
		`warning thread-closed t-one/late.md:6:7 @c: the thread was closed by "t-one/end.md" | open a new ` +
			`thread: rig-bridge new THREAD`,
	}},
	{name: "and taken back in the same push", make: func(w *world) {
		w.commit("c", del(request))
		w.commit("d", put(request, turn("rig-a", "REQUEST", asked)))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is deleted",
	}},
	{name: "brought and changed in one push", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
		w.commit("d", put("t-one/a.md", turn("rig-a", "ACK", "No.\n")))
	}, want: []string{
		"error append-only t-one/a.md @d: an accepted envelope is changed in place",
	}},
	{name: "deleted by a side branch", make: func(w *world) {
		side := w.commit("side", on(w.base), del(request))
		ours := w.commit("ours", on(w.base), put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
		w.commit("merge", on(ours, side), del(request))
	}, want: []string{
		"error append-only t-one/REQUEST.md @merge: an accepted envelope is deleted",
		"error append-only t-one/REQUEST.md @side: an accepted envelope is deleted",
	}},
	{name: "a warning, if a server's policy says so", make: func(w *world) {
		w.policy = "rules: {append-only: warning}\n"
		w.commit("c", del(request))
	}, want: []string{
		"warning append-only t-one/REQUEST.md @c: an accepted envelope is deleted",
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {append-only: off}\n"
		w.commit("c", del(request))
	}},
	{name: "in the index", make: func(w *world) {
		w.gate = PreCommit
		w.commit("c", del(request))
	}, want: []string{
		"error append-only t-one/REQUEST.md @: an accepted envelope is deleted | write a new envelope instead; " +
			"to take the change back: git restore --source=<base> --staged --worktree -- t-one/REQUEST.md",
	}},
	{name: "in the index, before anybody else has it", make: func(w *world) {
		w.gate = PreCommit
		first := w.base
		w.commit("own", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
		w.accept()
		w.published = []string{first}
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "No.\n")))
	}},
	{name: "in the index, as one of two clones has it", make: func(w *world) {
		w.gate = PreCommit
		old := w.base
		w.commit("b", del(request))
		w.accept()
		w.published = []string{w.base, old}
		w.commit("c", put(request, turn("rig-a", "REQUEST", "Or not?\n")))
		w.base = old
	}, want: []string{
		"error append-only t-one/REQUEST.md @: an accepted envelope is changed in place",
	}},
}

func TestAppendOnly(t *testing.T) { run(t, appendOnlyPlays) }
