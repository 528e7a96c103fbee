package rules

import (
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
)

var referencesPlays = []play{
	{name: "to an ancestor", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers(prefix(w.base)))))
	}},
	{name: "to an ancestor of the same push", make: func(w *world) {
		b := w.commit("b", put("README.md", "x\n"))
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers(prefix(b)))))
	}},
	{name: "to nothing", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers(prefix(w.base), "abcdef012345"))))
	}, want: []string{
		`warning references t-one/a.md:10:5 @c: no commit has the id "abcdef012345" | ` +
			"name commits that the branch has, as this tells them: git log --format=%H",
	}},
	{name: "to nothing, where the history is cut", make: func(w *world) {
		w.shallow = map[string]bool{w.base: true}
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers("abcdef012345"), answers("Never.\n"))))
	}},
	{name: "to a blob", make: func(w *world) {
		id := w.write("blob", []byte("x"))
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers(prefix(id)))))
	}, want: []string{
		`warning references t-one/a.md:9:5 @c: no commit has the id "c1b0730e0133"`,
	}},
	{name: "to what two commits begin with", make: func(w *world) {
		w.commit("b", put("README.md", "x\n"))
		w.objects[w.base[:12]+"0000000000000000000000000000"] = w.objects[w.tip]
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers(prefix(w.base)))))
	}, want: []string{
		`warning references t-one/a.md:9:5 @c: the id "<base>" is ambiguous: several commits begin with it`,
	}},
	{name: "to a commit of another side of the push", make: func(w *world) {
		side := w.commit("side", on(w.base), put("README.md", "x\n"))
		ours := w.commit("ours", on(w.base), put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers(prefix(side)))))
		w.commit("merge", on(ours, side))
	}, want: []string{
		`warning references t-one/a.md:9:5 @ours: commit "<side>" is not an ancestor of the commit that adds the ` +
			`envelope`,
	}},
	{name: "to a commit that is on no way here", make: func(w *world) {
		stray := w.commit("stray", on(w.base), put("README.md", "x\n"))
		w.commit("c", on(w.base), put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers(prefix(stray)))))
	}, want: []string{
		`warning references t-one/a.md:9:5 @c: commit "<stray>" is not an ancestor of the commit that adds the ` +
			`envelope`,
	}},
	{name: "in_reply_to a turn of the thread", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", answers(asked))))
	}},
	{name: "in_reply_to a turn of the same push", make: func(w *world) {
		w.commit("b", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n")))
		w.commit("c", put("t-one/b.md", turn("rig-a", "ACK", "Good.\n", answers("Yes.\n"))))
	}},
	{name: "in_reply_to nothing", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", answers("Never said.\n"))))
	}, want: []string{
		`warning references t-one/a.md:8:14 @c: no earlier envelope of the thread has the body hash ` +
			`"23a2840af5ea74f7993a2af2316389ec32430d2ac89e2bfc0229cf1e5b22b3d4"`,
	}},
	{name: "in_reply_to a turn of the same commit", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n")), put("t-one/b.md",
			turn("rig-a", "ACK", "Good.\n", answers("Yes.\n"))))
	}, want: []string{
		`warning references t-one/b.md:8:14 @c: no earlier envelope of the thread has the body hash ` +
			`"c629a282f0a9012a9ff31002514bbd23083b60e9efa730fe91fa70909a1b75e4"`,
	}},
	{name: "in_reply_to a turn of another thread", make: func(w *world) {
		w.commit("c", put("t-two/a.md", turn("rig-b", "ACK", "Yes.\n", to("t-two"), answers(asked))))
	}, want: []string{
		`warning references t-two/a.md:8:14 @c: no earlier envelope of the thread has the body hash ` +
			`"dba9c64cfaeffa3b082b16b99d2371f6562f34bacb96ce51b9505b79c3ae36ef"`,
	}},
	{name: "in_reply_to what another side said", make: func(w *world) {
		side := w.commit("side", on(w.base), put("t-one/a.md", turn("rig-a", "STATE", "Soon.\n")))
		ours := w.commit("ours", on(w.base), put("t-one/b.md", turn("rig-b", "ACK", "Good.\n", answers("Soon.\n"))))
		w.commit("merge", on(ours, side))
	}, want: []string{
		`warning references t-one/b.md:8:14 @ours: no earlier envelope of the thread has the body hash ` +
			`"5913282853ca383012091e816aea15a9681463272bdd7e08d971178ef425a735"`,
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {references: off}\n"
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers("abcdef012345"), answers("Never.\n"))))
	}},
	{name: "an error, if the policy says so", make: func(w *world) {
		w.policy = "rules: {references: error}\n"
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n", refers("abcdef012345"))))
	}, want: []string{
		`error references t-one/a.md:9:5 @c: no commit has the id "abcdef012345"`,
	}},
	{name: "items that are not references", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-b", "ACK", "Yes.\n",
			func(f *envelope.Fields) { f.References = []string{"not an id"} })))
	}, want: []string{
		`error envelope-schema t-one/a.md:9:5 @c: an item of references is "not an id", expected a commit id of ` +
			`7 to 40 lower-case hexadecimal digits`,
	}},
}

func TestReferences(t *testing.T) { run(t, referencesPlays) }
