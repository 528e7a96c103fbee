package rules

import (
	"testing"
)

var fastForwardPlays = []play{
	{name: "forward", make: func(w *world) { w.commit("c", put("README.md", "x\n")) }},
	{name: "to another history with the same base", make: func(w *world) {
		old := w.base
		w.commit("b", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
		w.accept()
		w.commit("c", on(old), put("README.md", "x\n"))
	}, want: []string{
		`error fast-forward - @c: a protected ref moves from <b> to a commit that does not contain it; it would ` +
			`lose "t-one/a.md" | git pull --rebase, then git push without --force`,
	}},
	{name: "to another history, which is signed", make: func(w *world) {
		old := w.base
		w.commit("b", put("README.md", "x\n"))
		w.accept()
		w.commit("c", on(old), signed(keyOp), put("README.md", "y\n"))
	}, want: []string{
		"error fast-forward - @c: a protected ref moves from <b> to a commit that does not contain it | " +
			"git pull --rebase --gpg-sign, then git push without --force",
	}},
	{name: "back", make: func(w *world) {
		old := w.base
		w.commit("b", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")), put("t-one/b.md", turn("rig-b", "ACK", "No.\n")))
		w.accept()
		w.tip = old
	}, want: []string{
		`error fast-forward - @base: a protected ref moves from <b> to a commit that does not contain it; it ` +
			`would lose 2 files in threads, the first "t-one/a.md"`,
	}},
	{name: "back over what holds no envelope", make: func(w *world) {
		old := w.base
		w.commit("b", put("README.md", "x\n"))
		w.accept()
		w.tip = old
	}, want: []string{
		"error fast-forward - @base: a protected ref moves from <b> to a commit that does not contain it",
	}},
	{name: "a ref that may move as it likes", make: func(w *world) {
		old := w.base
		w.commit("b", put("README.md", "x\n"))
		w.accept()
		w.tip = old
		w.judge = func(_ *Judge, r *Range) { r.History = false }
	}},
	{name: "a second root", make: func(w *world) {
		side := w.commit("root", on(), put("README.md", "x\n"))
		w.commit("merge", on(w.base, side))
	}, want: []string{
		"error fast-forward - @root: a root commit: its history begins anew beside the protected one | git " +
			"rebase --root --onto <base>",
	}},
	{name: "the first root", make: func(w *world) {
		w.base, w.tip = "", w.base
		w.signers = ""
		w.judge = func(j *Judge, _ *Range) { j.Bootstrap = true }
	}},
	{name: "two roots, of which one is the first", make: func(w *world) {
		side := w.commit("root", on(), put("README.md", "x\n"))
		w.commit("merge", on(w.base, side))
		w.base, w.signers = "", ""
		w.judge = func(j *Judge, _ *Range) { j.Bootstrap = true }
	}, want: []string{
		"error fast-forward - @root: a root commit: its history begins anew beside the protected one | git " +
			"rebase --root --onto the first root",
	}},
	{name: "what lies between is accepted already", make: func(w *world) {
		old := w.base
		middle := w.commit("b", put("README.md", "x\n"))
		w.commit("c", put("README.md", "y\n"))
		w.judge = func(_ *Judge, r *Range) { r.Old, r.Exclude = old, []string{old, middle} }
	}},
}

func TestFastForward(t *testing.T) { run(t, fastForwardPlays) }
