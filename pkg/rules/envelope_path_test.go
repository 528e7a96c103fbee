package rules

import (
	"testing"

	"github.com/rigward/rigward/pkg/gitrepo"
)

var envelopePathPlays = []play{
	{name: "a name beside another", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
	}},
	{name: "in a directory of another name", make: func(w *world) {
		w.commit("c", put("t-two/a.md", turn("rig-a", "ACK", "Yes.\n")))
	}, want: []string{
		`error envelope-path t-two/a.md:7:9 @c: thread is "t-one", the file lies in the directory "t-two", ` +
			`expected the same name | thread: t-two`,
	}},
	{name: "executable", make: func(w *world) {
		w.commit("c", putAs(gitrepo.ModeExecutable, "t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
	}, want: []string{
		"error envelope-path t-one/a.md:1:1 @c: an envelope is executable (mode 100755), expected a regular file " +
			"of mode 100644 | git update-index --chmod=-x -- t-one/a.md",
	}},
	{name: "a symbolic link", make: func(w *world) {
		w.commit("c", putAs(gitrepo.ModeSymlink, "t-one/a.md", "REQUEST.md"))
	}, want: []string{
		"error envelope-path t-one/a.md:1:1 @c: an envelope is a symbolic link (mode 120000), expected a regular " +
			"file of mode 100644 | put a file in its place: git rm --cached -- t-one/a.md",
	}},
	{name: "a submodule", make: func(w *world) {
		w.commit("c", putAs(gitrepo.ModeGitlink, "t-one/a.md", ""))
	}, want: []string{
		"error envelope-path t-one/a.md:1:1 @c: an envelope is a submodule (mode 160000), expected a regular " +
			"file of mode 100644 | git rm --cached -- t-one/a.md",
	}},
	{name: "a twin in the same case-blind name", make: func(w *world) {
		w.commit("c", put("t-one/request.md", turn("rig-a", "ACK", "Yes.\n")))
	}, want: []string{
		`error envelope-path t-one/request.md:1:1 @c: some file systems take this path and "t-one/REQUEST.md" ` +
			`for one file | give one of them another name`,
	}},
	{name: "two twins in one commit", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")), put("t-one/A.md", turn("rig-a", "ACK", "No.\n")))
	}, want: []string{
		`error envelope-path t-one/A.md:1:1 @c: some file systems take this path and "t-one/a.md" for one file`,
		`error envelope-path t-one/a.md:1:1 @c: some file systems take this path and "t-one/A.md" for one file`,
	}},
	{name: "a twin of a file that is deleted", make: func(w *world) {
		w.policy = "rules: {append-only: off}\n"
		w.commit("c", del(request), put("t-one/request.md", turn("rig-a", "ACK", "Yes.\n")))
	}},
	{name: "a twin that is not an envelope", make: func(w *world) {
		w.commit("c", put("t-one/Request.MD", "x\n"))
	}, want: []string{
		`error envelope-path t-one/Request.MD:1:1 @c: some file systems take this path and "t-one/REQUEST.md" ` +
			`for one file`,
	}},
	{name: "a twin that is a directory", make: func(w *world) {
		w.commit("c", put("t-one/Request.md/x", "x\n"))
	}, want: []string{
		`error envelope-path t-one/Request.md:1:1 @c: some file systems take this path and "t-one/REQUEST.md" ` +
			`for one file`,
	}},
	{name: "a short name of Windows", make: func(w *world) {
		w.commit("b", put("t-one/a-long-name-of-a-turn.md", turn("rig-a", "ACK", "Yes.\n")))
		w.accept()
		w.commit("c", put("t-one/A-LONG~1.MD", "x\n"))
	}, want: []string{
		`error envelope-path t-one/A-LONG~1.MD:1:1 @c: some file systems take this path and ` +
			`"t-one/a-long-name-of-a-turn.md" for one file`,
	}},
	{name: "twins that a merge brings together", make: func(w *world) {
		w.policy = "rules: {divergence: off}\n"
		a := w.commit("ours", on(w.base), put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
		b := w.commit("theirs", on(w.base), put("t-one/A.md", turn("rig-a", "ACK", "No.\n")))
		w.commit("merge", on(a, b))
	}, want: []string{
		`error envelope-path t-one/A.md:1:1 @merge: some file systems take this path and "t-one/a.md" for one ` +
			`file`,
	}},
	{name: "a directory that some file systems take for the thread", make: func(w *world) {
		w.commit("c", put("T-One/x.txt", "x\n"))
	}, want: []string{
		`error envelope-path T-One/x.txt:1:1 @c: some file systems take "T-One" for the thread "t-one" | give it ` +
			`another name: git mv -- T-One/x.txt NAME`,
	}},
	{name: "a link of such a name", make: func(w *world) {
		w.commit("c", putAs(gitrepo.ModeSymlink, "T-ONE", "elsewhere"))
	}, want: []string{
		`error envelope-path T-ONE:1:1 @c: some file systems take "T-ONE" for the thread "t-one" | give it ` +
			`another name: git mv -- T-ONE NAME`,
	}},
	{name: "a short name for a thread", make: func(w *world) {
		w.commit("b", put("release-notes/a.md", turn("rig-a", "REQUEST", "What?\n", to("release-notes"))))
		w.accept()
		w.commit("c", put("RELEAS~1/x.txt", "x\n"))
	}, want: []string{
		`error envelope-path RELEAS~1/x.txt:1:1 @c: some file systems take "RELEAS~1" for the thread ` +
			`"release-notes" | give it another name: git mv -- 'RELEAS~1/x.txt' NAME`,
	}},
	{name: "two threads, and a short name for one of them that comes in the push", make: func(w *world) {
		w.commit("b", put("release-notes/a.md", turn("rig-a", "REQUEST", "What?\n", to("release-notes"))))
		w.commit("c", put("RELEAS~1/x.txt", "x\n"), put("release-plan/a.md",
			turn("rig-a", "REQUEST", "When?\n", to("release-plan"))))
		w.commit("d", put("RELEAS~2/x.txt", "x\n"))
	}, want: []string{
		`error envelope-path RELEAS~1/x.txt:1:1 @c: some file systems take "RELEAS~1" for the thread ` +
			`"release-notes" | give it another name: git mv -- 'RELEAS~1/x.txt' NAME`,
		`error envelope-path RELEAS~2/x.txt:1:1 @d: some file systems take "RELEAS~2" for the thread ` +
			`"release-notes" | give it another name: git mv -- 'RELEAS~2/x.txt' NAME`,
		`error envelope-path release-plan/a.md:1:1 @c: some file systems take "RELEAS~1", which is there, for ` +
			`the thread "release-plan" | give it another name: git mv -- release-plan/a.md NAME`,
	}},
	{name: "a thread beside its short name, which was there before", make: func(w *world) {
		w.commit("b", put("RELEAS~1/x.txt", "x\n"))
		w.accept()
		w.commit("c", put("release-notes/a.md", turn("rig-a", "REQUEST", "What?\n", to("release-notes"))))
	}, want: []string{
		`error envelope-path release-notes/a.md:1:1 @c: some file systems take "RELEAS~1", which is there, for ` +
			`the thread "release-notes" | give it another name: git mv -- release-notes/a.md NAME`,
	}},
	{name: "a thread beside such a directory, which is taken away", make: func(w *world) {
		w.commit("b", put("T-Two/x.txt", "x\n"))
		w.accept()
		w.commit("c", del("T-Two/x.txt"), put("t-two/a.md", turn("rig-a", "REQUEST", "What?\n", to("t-two"))))
	}},
	{name: "no thread beside such a directory", make: func(w *world) {
		w.commit("b", put("Notes/x.txt", "x\n"))
		w.accept()
		w.commit("c", put("notes/a.md", "No envelope.\n"))
	}},
	{name: "a merge that keeps what one side had of both", make: func(w *world) {
		w.policy = "rules: {envelope-path: off}\n"
		w.commit("b", put("T-One/x.txt", "x\n"))
		w.accept()
		w.policy = ""
		side := w.commit("side", on(w.base), put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
		ours := w.commit("ours", on(w.base), put("README.md", "x\n"))
		w.commit("merge", on(ours, side))
	}},
	{name: "such a directory beside no thread", make: func(w *world) { w.commit("c", put("Docs/x.txt", "x\n")) }},
	{name: "a thread beside such a directory", make: func(w *world) {
		w.commit("b", put("T-Two/x.txt", "x\n"))
		w.accept()
		w.commit("c", put("t-two/a.md", turn("rig-a", "REQUEST", "What?\n", to("t-two"))))
	}, want: []string{
		`error envelope-path t-two/a.md:1:1 @c: some file systems take "T-Two", which is there, for the thread ` +
			`"t-two" | give it another name: git mv -- t-two/a.md NAME`,
	}},
	{name: "a thread that was beside it before", make: func(w *world) {
		w.policy = "rules: {envelope-path: off}\n"
		w.commit("b", put("T-One/x.txt", "x\n"))
		w.accept()
		w.policy = ""
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
	}},
	{name: "a merge of a thread and such a directory", make: func(w *world) {
		a := w.commit("ours", on(w.base), put("t-two/a.md", turn("rig-a", "REQUEST", "What?\n", to("t-two"))))
		b := w.commit("theirs", on(w.base), put("T-Two/x.txt", "x\n"))
		w.commit("merge", on(a, b))
	}, want: []string{
		`error envelope-path T-Two/x.txt:1:1 @merge: some file systems take "T-Two" for the thread "t-two" | ` +
			`give it another name: git mv -- T-Two/x.txt NAME`,
	}},
	{name: "a name with a backslash", make: func(w *world) {
		w.commit("c", put(`t-one\REQUEST.md`, "x\n"))
	}, want: []string{
		`error envelope-path "t-one\\REQUEST.md":1:1 @c: some file systems take "t-one\\REQUEST.md" for the ` +
			`thread "t-one" | give it another name: git mv -- 't-one\REQUEST.md' NAME`,
		`error envelope-path "t-one\\REQUEST.md":1:1 @c: some file systems take this path and "t-one/REQUEST.md" ` +
			`for one file`,
	}},
	{name: "another name for the root", make: func(w *world) {
		w.policy = "envelopes: {root: talk}\n"
		w.commit("c", put("Talk/x.txt", "x\n"))
	}, want: []string{
		`error envelope-path Talk/x.txt:1:1 @c: some file systems take this path for "talk", which is guarded | ` +
			`give it another name: git mv -- Talk/x.txt NAME`,
	}},
	{name: "below the root", make: func(w *world) {
		w.policy = "envelopes: {root: talk}\n"
		w.commit("b", put("talk/t-one/a.md", turn("rig-a", "REQUEST", "What?\n")))
		w.accept()
		w.commit("c", put("talk/T-ONE/x.txt", "x\n"))
	}, want: []string{
		`error envelope-path talk/T-ONE/x.txt:1:1 @c: some file systems take "T-ONE" for the thread "t-one" | ` +
			`give it another name: git mv -- talk/T-ONE/x.txt NAME`,
	}},
	{name: "in the index", make: func(w *world) {
		w.gate = PreCommit
		w.commit("c", put("t-one/request.md", turn("rig-a", "ACK", "Yes.\n")))
	}, want: []string{
		`error envelope-path t-one/request.md:1:1 @: some file systems take this path and "t-one/REQUEST.md" for ` +
			`one file`,
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {envelope-path: off}\n"
		w.commit("c", put("t-one/request.md", turn("rig-a", "ACK", "Yes.\n")), put("T-One/x", "x\n"))
	}},
}

func TestEnvelopePath(t *testing.T) { run(t, envelopePathPlays) }
