package rules

import (
	"fmt"
	"slices"
	"testing"
)

// apart makes two sides of one base, each with an envelope, and their merge.
func apart(w *world, ours, theirs string, edits ...edit) {
	a := w.commit("ours", on(w.base), put("t-one/ours.md", ours))
	b := w.commit("theirs", on(w.base), put("t-one/theirs.md", theirs))
	w.commit("merge", append([]edit{on(a, b)}, edits...)...)
}

var divergencePlays = []play{
	{name: "two sides", make: func(w *world) {
		apart(w, turn("rig-a", "STATE", "Ready.\n"), turn("rig-b", "STATE", "Not ready.\n"))
	}, want: []string{
		`warning divergence t-one/theirs.md @merge: "rig-b" wrote this and "rig-a" wrote "t-one/ours.md" without ` +
			`knowledge of each other, since commit <base> | answer both: rig-bridge send with --ref for each`,
	}},
	{name: "one after the other", make: func(w *world) {
		w.commit("a", put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n")))
		w.commit("b", put("t-one/b.md", turn("rig-b", "STATE", "Not ready.\n")))
	}},
	{name: "one answers the other", make: func(w *world) {
		w.policy = "rules: {references: off}\n" // which has its own tests
		apart(w, turn("rig-a", "STATE", "Ready.\n"), turn("rig-b", "STATE", "Not ready.\n", answers("Ready.\n")))
	}},
	{name: "one refers to a commit that has the other", make: func(w *world) {
		w.policy = "rules: {references: off}\n" // which has its own tests
		a := w.commit("ours", on(w.base), put("t-one/ours.md", turn("rig-a", "STATE", "Ready.\n")))
		b := w.commit("theirs", on(w.base), put("t-one/theirs.md", turn("rig-b", "STATE", "Not ready.\n", refers(prefix(a)))))
		w.commit("merge", on(a, b))
	}},
	{name: "one refers to a commit that has it not", make: func(w *world) {
		a := w.commit("ours", on(w.base), put("t-one/ours.md", turn("rig-a", "STATE", "Ready.\n")))
		b := w.commit("theirs", on(w.base), put("t-one/theirs.md", turn("rig-b", "STATE", "Not ready.\n",
			refers(prefix(w.base)))))
		w.commit("merge", on(a, b))
	}, want: []string{
		`warning divergence t-one/theirs.md @merge: "rig-b" wrote this and "rig-a" wrote "t-one/ours.md" without ` +
			`knowledge of each other, since commit <base>`,
	}},
	{name: "in two threads", make: func(w *world) {
		a := w.commit("ours", on(w.base), put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n")))
		b := w.commit("theirs", on(w.base), put("t-two/a.md", turn("rig-b", "STATE", "Not ready.\n", to("t-two"))))
		w.commit("merge", on(a, b))
	}},
	{name: "the same envelope on both sides", make: func(w *world) {
		text := turn("rig-a", "STATE", "Ready.\n")
		a := w.commit("ours", on(w.base), put("t-one/a.md", text))
		b := w.commit("theirs", on(w.base), put("t-one/a.md", text))
		w.commit("merge", on(a, b))
	}},
	{name: "what the merge itself brings", make: func(w *world) {
		a := w.commit("ours", on(w.base), put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n")))
		b := w.commit("theirs", on(w.base), put("README.md", "x\n"))
		w.commit("merge", on(a, b), put("t-one/b.md", turn("rig-b", "STATE", "Good.\n")))
	}},
	{name: "an octopus whose sides knew each other", make: func(w *world) {
		a := w.commit("one", on(w.base), put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n")))
		b := w.commit("two", on(a), put("t-one/b.md", turn("rig-b", "STATE", "Good.\n")))
		c := w.commit("three", on(w.base), put("README.md", "x\n"))
		w.commit("merge", on(c, a, b))
	}},
	{name: "an octopus", make: func(w *world) {
		a := w.commit("one", on(w.base), put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n")))
		b := w.commit("two", on(w.base), put("t-one/b.md", turn("rig-b", "STATE", "Good.\n")))
		c := w.commit("three", on(w.base), put("t-one/c.md", turn("rig-c", "STATE", "Bad.\n")))
		w.commit("merge", on(a, b, c))
	}, want: []string{
		`warning divergence t-one/b.md @merge: "rig-b" wrote this and "rig-a" wrote "t-one/a.md" without ` +
			`knowledge of each other, since commit <base>`,
		`warning divergence t-one/c.md @merge: "rig-c" wrote this and "rig-a" wrote "t-one/a.md" without ` +
			`knowledge of each other, since commit <base>`,
		`warning divergence t-one/c.md @merge: "rig-c" wrote this and "rig-b" wrote "t-one/b.md" without ` +
			`knowledge of each other, since commit <base>`,
	}},
	{name: "an octopus of four, of whom one answers two", make: func(w *world) {
		w.policy = "rules: {references: off}\n" // which has its own tests
		a := w.commit("one", on(w.base), put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n")))
		b := w.commit("two", on(w.base), put("t-one/b.md", turn("rig-b", "STATE", "Good.\n")))
		c := w.commit("three", on(w.base), put("t-one/c.md", turn("rig-c", "STATE", "Both seen.\n",
			refers(prefix(a), prefix(b)))))
		d := w.commit("four", on(w.base), put("README.md", "x\n"))
		w.commit("merge", on(a, b, c, d))
	}, want: []string{
		`warning divergence t-one/b.md @merge: "rig-b" wrote this and "rig-a" wrote "t-one/a.md" without ` +
			`knowledge of each other, since commit <base>`,
	}},
	{name: "more pairs than are named", make: func(w *world) {
		var ours, theirs []edit
		for i := range 5 {
			ours = append(ours, put(fmt.Sprintf("t-one/a%d.md", i), turn("rig-a", "STATE", fmt.Sprintf("A %d.\n", i))))
			theirs = append(theirs, put(fmt.Sprintf("t-one/b%d.md", i), turn("rig-b", "STATE", fmt.Sprintf("B %d.\n", i))))
		}
		a := w.commit("ours", append([]edit{on(w.base)}, ours...)...)
		b := w.commit("theirs", append([]edit{on(w.base)}, theirs...)...)
		w.commit("merge", on(a, b))
	}, want: slices.Insert(slices.Collect(func(yield func(string) bool) {
		for i := range 4 {
			for k := range 5 {
				if !yield(fmt.Sprintf(`warning divergence t-one/b%d.md @merge: "rig-b" wrote this and "rig-a" wrote "t-one/a%d.md" `+
					`without knowledge of each other, since commit <base> | answer both: rig-bridge send with --ref for each`, i, k)) {
					return
				}
			}
		}
	}), 0, "warning divergence - @merge: 5 more pairs of envelopes were written without knowledge of each other")},
	{name: "histories without a common commit", make: func(w *world) {
		a := w.commit("ours", on(w.base), put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n")))
		b := w.commit("root", on(), put("t-one/b.md", turn("rig-b", "STATE", "Good.\n")))
		w.commit("merge", on(a, b))
		w.judge = func(_ *Judge, r *Range) { r.History = false }
	}, want: []string{
		`warning divergence t-one/b.md @merge: "rig-b" wrote this and "rig-a" wrote "t-one/REQUEST.md" without ` +
			`knowledge of each other, since no common commit`,
		`warning divergence t-one/b.md @merge: "rig-b" wrote this and "rig-a" wrote "t-one/a.md" without ` +
			`knowledge of each other, since no common commit`,
	}},
	{name: "an error, if the policy says so", make: func(w *world) {
		w.policy = "rules: {divergence: error}\n"
		apart(w, turn("rig-a", "STATE", "Ready.\n"), turn("rig-b", "STATE", "Not ready.\n"))
	}, want: []string{
		`error divergence t-one/theirs.md @merge: "rig-b" wrote this and "rig-a" wrote "t-one/ours.md" without ` +
			`knowledge of each other, since commit <base>`,
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {divergence: off}\n"
		apart(w, turn("rig-a", "STATE", "Ready.\n"), turn("rig-b", "STATE", "Not ready.\n"))
	}},
}

func TestDivergence(t *testing.T) { run(t, divergencePlays) }
