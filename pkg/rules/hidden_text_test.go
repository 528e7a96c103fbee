package rules

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/texts"
	"github.com/rigward/rigward/pkg/screen"
)

// letsBe is what a hint says of the policy, for a line.
func letsBe(line string) string {
	return "; if it belongs there, the policy may say allow: [" + screen.Key(screen.RuleHidden+"\x00"+line) + "]"
}

const tagsOK = "\U000e004f\U000e004b"

var hiddenTextPlays = []play{
	{name: "in the body", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Is it?"+tagsOK+"\n")))
	}, want: []string{
		`error hidden-text t-one/a.md:10:7 @c: 2 characters that readers do not see: U+E004F TAG LATIN CAPITAL LETTER O, ` +
			`U+E004B TAG LATIN CAPITAL LETTER K; it spells "OK" | perl -CSD -i -pe 's/\x{E004F}\x{E004B}// if $. == 10' -- t-one/a.md` + letsBe("Is it?"+tagsOK),
	}},
	{name: "a flag", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f\n")))
	}},
	{name: "in the front matter", make: func(w *world) {
		w.commit("c", put("t-one/a.md", strings.Replace(turn("rig-a", "STATE", "Is it?\n"), "▶ Going on", "▶ Going\u200b on", 1)))
	}, want: []string{`error hidden-text t-one/a.md:5:16 @c: a character that readers do not see: U+200B ZERO WIDTH SPACE`}},
	{name: "as an escape", make: func(w *world) {
		w.commit("c", put("t-one/a.md", strings.Replace(turn("rig-a", "STATE", "Is it?\n"), `▶ Going on`, `"▶ Going\u200B on"`, 1)))
	}, want: []string{`error hidden-text t-one/a.md:5:9 @c: written as an escape: a character that readers do not see: U+200B ZERO WIDTH SPACE`}},
	{name: "an escape in the body is seen", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", `"\u200B" is a blank`+"\n")))
	}},
	{name: "in the commit message", make: func(w *world) {
		w.commit("c"+tagsOK, put("t-one/a.md", turn("rig-a", "STATE", "Is it?\n")))
	}, want: []string{
		"error hidden-text - @c" + tagsOK + `: the commit message has in line 1, column 2 2 characters that readers do not see: ` +
			`U+E004F TAG LATIN CAPITAL LETTER O, U+E004B TAG LATIN CAPITAL LETTER K; it spells "OK" | ` +
			"say it in other words: git rebase --interactive <c" + tagsOK + ">^" + letsBe("c"+tagsOK),
	}},
	{name: "in the message of a signed commit", make: func(w *world) {
		w.commit("c\u200b", signed(keyOp), put("t-one/a.md", turn("rig-a", "STATE", "Is it?\n")))
	}, want: []string{
		"error hidden-text - @c\u200b: the commit message has in line 1, column 2 a character that readers do not see: U+200B ZERO WIDTH SPACE | " +
			"say it in other words: git rebase --gpg-sign --interactive <c\u200b>^" + letsBe("c\u200b"),
	}},
	{name: "in the name of the author", make: func(w *world) {
		w.commit("c", author("Op\u200b <op@example.com>"), put("t-one/a.md", turn("rig-a", "STATE", "Is it?\n")))
	}, want: []string{`error hidden-text - @c: the author has a character that readers do not see: U+200B ZERO WIDTH SPACE`}},
	{name: "in the message of a commit that brings no envelope", make: func(w *world) {
		w.commit("c\u200b", put("README.md", "x\n"))
	}},
	{name: "in the name of a file", make: func(w *world) {
		w.commit("c", put("docs/a\u200bb/x.txt", "x\n"))
	}, want: []string{`error hidden-text "docs/a\u200bb/x.txt":1:1 @c: the path has a character that readers do not see: U+200B ZERO WIDTH SPACE | ` +
		`give it another name: git mv -- $'docs/a\342\200\213b/x.txt' NAME`}},
	{name: "in the name of a file, in another order", make: func(w *world) {
		w.commit("c", put("docs/\u2067a.txt", "x\n"))
	}, want: []string{`error hidden-text "docs/\u2067a.txt":1:1 @c: in the path U+2067 RIGHT-TO-LEFT ISOLATE is not closed on its line`}},
	{name: "in a message, in another order", make: func(w *world) {
		w.commit("c\u2067a", put("t-one/a.md", turn("rig-a", "STATE", "Is it?\n")))
	}, want: []string{`error hidden-text - @c` + "\u2067a" + `: in line 1, column 2 of the commit message U+2067 RIGHT-TO-LEFT ISOLATE is not closed on its line`}},
	{name: "a name with a joined emoji", make: func(w *world) {
		w.commit("c", put("docs/👩\u200d🚀.txt", "x\n"))
	}},
	{name: "in a file that is not an envelope", make: func(w *world) {
		w.commit("c", put("notes/a.md", "Is it?"+tagsOK+"\n"))
	}},
	{name: "in a file without a fence in a thread", make: func(w *world) {
		w.commit("c", put("t-one/a.md", "Is it?\u200b\n"))
	}, want: []string{
		`error envelope-parse t-one/a.md:1:1 @c: line 1 is "Is it?\u200b", expected the opening fence ---`,
		`error hidden-text t-one/a.md:1:7 @c: a character that readers do not see: U+200B ZERO WIDTH SPACE`,
	}},
	{name: "brought by a merge alone", make: func(w *world) {
		w.policy = "rules: {divergence: off}\n"
		side := w.commit("side", on(w.base), put("t-one/a.md", turn("rig-a", "STATE", "Is it?\n")))
		ours := w.commit("ours", on(w.base), put("t-one/b.md", turn("rig-b", "STATE", "Is it?\n")))
		w.commit("merge", on(ours, side), put("t-one/c.md", turn("rig-b", "STATE", "Yes.\u2060\n")))
	}, want: []string{`error hidden-text t-one/c.md:10:5 @merge: a character that readers do not see: U+2060 WORD JOINER`}},
	{name: "accepted before", make: func(w *world) {
		w.commit("b", put("t-one/a.md", turn("rig-a", "STATE", "Is it?"+tagsOK+"\n")))
		w.accept()
		w.commit("c", put("t-one/b.md", turn("rig-b", "STATE", "Yes.\n")))
	}},
	{name: "a warning, if the policy says so", make: func(w *world) {
		w.policy = "rules: {hidden-text: warning}\n"
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Is\u200bit?\n")))
	}, want: []string{`warning hidden-text t-one/a.md:10:3 @c: a character that readers do not see: U+200B ZERO WIDTH SPACE`}},
	{name: "let be by the policy", make: func(w *world) {
		w.policy = "allow: [" + screen.Key(screen.RuleHidden+"\x00Is\u200bit?") + "]\n"
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Is\u200bit?\n")))
	}},
	{name: "another line is let be", make: func(w *world) {
		w.policy = "allow: [" + screen.Key(screen.RuleHidden+"\x00Is\u200bit?") + "]\n"
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Is\u200bit not?\n")))
	}, want: []string{`error hidden-text t-one/a.md:10:3 @c: a character that readers do not see: U+200B ZERO WIDTH SPACE`}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {hidden-text: off}\n"
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Is\u200bit?\n")))
	}},
}

func TestHiddenText(t *testing.T) { run(t, hiddenTextPlays) }

// Every text of the smuggling corpus is refused at every gate, and none of the
// lawful corpus is.
func TestCorporaAtEveryGate(t *testing.T) {
	for g := PreCommit; g <= Check; g++ {
		w := newWorld(t)
		w.policy = "rules: {body-hash: off}\n"
		hidden, lawful := map[string]string{}, 0
		var edits []edit
		for i, x := range texts.Smuggled() {
			path := "t-one/smuggled-" + strings.Repeat("a", i%7) + string(rune('a'+i/7%26)) + string(rune('a'+i/7/26)) + ".md"
			hidden[path] = x.Name
			edits = append(edits, put(path, x.Envelope("t-one")))
		}
		for i, x := range texts.Lawful() {
			if lawful++; g != PreReceive && lawful > 2000 {
				break
			}
			edits = append(edits, put("t-one/lawful-"+strings.Repeat("a", i%7)+string(rune('a'+i/7%26))+string(rune('a'+i/7/26%26))+string(rune('a'+i/7/26/26))+".md", x.Envelope("t-one")))
		}
		w.commit("c", edits...)
		j, err := w.judgeAt(g)
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]bool{}
		for _, f := range j.Findings {
			if f.Rule == screen.RuleHidden {
				told[f.Path] = true
			}
		}
		for path, name := range hidden {
			if !told[path] {
				t.Errorf("%s: %s passes", g, name)
			}
			delete(told, path)
		}
		for path := range told {
			t.Errorf("%s: %s is refused", g, path)
		}
		if j.Envelopes < len(hidden)+2000 || len(hidden) < 200 || lawful < 2000 {
			t.Errorf("%s: %d envelopes judged, %d smuggled, %d lawful", g, j.Envelopes, len(hidden), lawful)
		}
	}
}
