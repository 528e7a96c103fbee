package rules

import "testing"

var threadClosedPlays = []play{
	{name: "a turn after the end", make: func(w *world) {
		w.commit("b", put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")))
		w.accept()
		w.commit("c", put("t-one/late.md", turn("rig-b", "STATE", "Wait.\n")))
	}, want: []string{
		`warning thread-closed t-one/late.md:6:7 @c: the thread was closed by "t-one/end.md" | open a new ` +
			`thread: rig-bridge new THREAD`,
	}},
	{name: "two turns after an end in the same push", make: func(w *world) {
		w.commit("b", put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")))
		w.commit("c", put("t-one/late.md", turn("rig-b", "STATE", "Wait.\n")), put("t-one/later.md",
			turn("rig-b", "STATE", "Still.\n")))
	}, want: []string{
		`warning thread-closed t-one/late.md:6:7 @c: the thread was closed by "t-one/end.md"`,
		`warning thread-closed t-one/later.md:6:7 @c: the thread was closed by "t-one/end.md"`,
	}},
	{name: "another thread", make: func(w *world) {
		w.commit("b", put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")))
		w.commit("c", put("t-two/a.md", turn("rig-b", "STATE", "Wait.\n", to("t-two"))))
	}},
	{name: "the end itself, and a turn beside it", make: func(w *world) {
		w.commit("c", put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")), put("t-one/now.md",
			turn("rig-b", "STATE", "Wait.\n")))
	}},
	{name: "a turn of a side that did not know the end", make: func(w *world) {
		side := w.commit("side", on(w.base), put("t-one/a.md", turn("rig-b", "STATE", "Wait.\n", answers(asked))))
		w.policy = "rules: {divergence: off}\n"
		w.commit("end", on(w.base), put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")))
		w.commit("merge", on(w.tip, side))
	}},
	{name: "an end that breaks the schema closes nothing", make: func(w *world) {
		w.commit("b", put("t-one/end.md", "---\nfrom: rig-a\nthread: t-one\ntype: RESOLUTION\n---\nDone.\n"))
		w.accept()
		w.commit("c", put("t-one/late.md", turn("rig-b", "STATE", "Wait.\n")))
	}},
	{name: "after a merge that brings the end", make: func(w *world) {
		w.policy = "rules: {divergence: off}\n"
		side := w.commit("side", on(w.base), put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")))
		ours := w.commit("ours", on(w.base), put("t-one/a.md", turn("rig-b", "STATE", "Wait.\n")))
		w.commit("merge", on(ours, side))
		w.commit("c", put("t-one/late.md", turn("rig-b", "STATE", "Still.\n")))
	}, want: []string{
		`warning thread-closed t-one/late.md:6:7 @c: the thread was closed by "t-one/end.md" | open a new ` +
			`thread: rig-bridge new THREAD`,
	}},
	{name: "a second end", make: func(w *world) {
		w.commit("b", put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")))
		w.accept()
		w.commit("c", put("t-one/end2.md", turn("rig-b", "RESOLUTION", "Done as well.\n")))
	}, want: []string{
		`warning thread-closed t-one/end2.md:6:7 @c: the thread was closed by "t-one/end.md"`,
	}},
	{name: "an error, if the policy says so", make: func(w *world) {
		w.policy = "rules: {thread-closed: error}\n"
		w.commit("b", put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")))
		w.commit("c", put("t-one/late.md", turn("rig-b", "STATE", "Wait.\n")))
	}, want: []string{
		`error thread-closed t-one/late.md:6:7 @c: the thread was closed by "t-one/end.md"`,
	}},
	{name: "in the index", make: func(w *world) {
		w.gate = PreCommit
		w.commit("b", put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")))
		w.accept()
		w.commit("c", put("t-one/late.md", turn("rig-b", "STATE", "Wait.\n")))
	}, want: []string{
		`warning thread-closed t-one/late.md:6:7 @: the thread was closed by "t-one/end.md"`,
	}},
}

func TestThreadClosed(t *testing.T) { run(t, threadClosedPlays) }
