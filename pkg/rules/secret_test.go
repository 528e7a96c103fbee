package rules

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/screen"
)

// token has the form of a GitHub token; it is put together here, so that no
// scanner takes this file for a leak.
var token = "gh" + "p_Zq7Rb2Xw9Lk4Tn8Vd3Mp6Hc5Jf1Gs0AyZq7R"

func tells(where string) string {
	return "error secret " + where + "a GitHub personal access token: gh…7R, secret:" + screen.Key(token) +
		" | replace the key at its service first, then take it away here"
}

const excepts = "; if it belongs there, the policy may say allow: ["

var secretPlays = []play{
	{name: "in the body", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Use "+token+"\n")))
	}, want: []string{tells("t-one/a.md:10:5 @c: ") + excepts + screen.Key(token) + "]"}},
	{name: "in the commit message", make: func(w *world) {
		w.commit("c "+token, put("t-one/a.md", turn("rig-a", "STATE", "Is it?\n")))
	}, want: []string{
		"error secret - @c " + token + ": the commit message has in line 1, column 3 a GitHub personal access token: gh…7R, secret:" + screen.Key(token),
	}},
	{name: "in a path", make: func(w *world) {
		w.commit("c", put("docs/"+token+".txt", "x\n"))
	}, want: []string{
		"error secret docs/….txt:1:1 @c: the path has a GitHub personal access token: gh…7R, secret:" + screen.Key(token) + " | give it another name: git mv -- docs/….txt NAME",
	}},
	{name: "as an escape", make: func(w *world) {
		w.commit("c", put("t-one/a.md", strings.Replace(turn("rig-a", "STATE", "Is it?\n"), "▶ Going on", `"▶ ghp\u005f`+token[4:]+`"`, 1)))
	}, want: []string{
		"error secret t-one/a.md:5:9 @c: written as an escape: a GitHub personal access token: gh…7R, secret:" + screen.Key(token),
	}},
	{name: "where other rules quote it", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Is it?\n", func(f *envelope.Fields) { f.References = []string{token, token + " and more"} })))
	}, want: []string{
		`error envelope-schema t-one/a.md:9:5 @c: an item of references is "…", expected a commit id of 7 to 40 lower-case hexadecimal digits`,
		`error secret t-one/a.md:9:5 @c: a GitHub personal access token: gh…7R, secret:` + screen.Key(token),
		`error envelope-schema t-one/a.md:10:5 @c: an item of references is "… and more", expected a commit id of 7 to 40 lower-case hexadecimal digits`,
		`error secret t-one/a.md:10:5 @c: a GitHub personal access token: gh…7R, secret:` + screen.Key(token),
	}},
	{name: "what only looks like one, if the policy says so", make: func(w *world) {
		w.policy = "allow: [" + screen.Key(token) + "]\n"
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Use "+token+"\n")))
	}},
	{name: "another one than the policy says", make: func(w *world) {
		w.policy = "allow: [" + screen.Key("x") + "]\n"
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Use "+token+"\n")))
	}, want: []string{tells("t-one/a.md:10:5 @c: ") + excepts + screen.Key(token) + "]"}},
	{name: "a placeholder", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Use ghp_"+strings.Repeat("x", 36)+"\n")))
	}},
	{name: "in a file that is not an envelope", make: func(w *world) {
		w.commit("c", put("notes/a.md", token+"\n"))
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {secret: off}\n"
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Use "+token+"\n")))
	}},
}

func TestSecret(t *testing.T) { run(t, secretPlays) }

// Nothing that is told at any gate holds a part of the token.
func TestSecretIsNotTold(t *testing.T) {
	for _, p := range secretPlays {
		for g := PreCommit; g <= Check; g++ {
			w := newWorld(t)
			p.make(w)
			j, err := w.judgeAt(g)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range j.Findings {
				for i := 0; i+8 <= len(token); i++ {
					if strings.Contains(f.Path+"\n"+f.Message+"\n"+f.Hint, token[i:i+8]) {
						t.Fatalf("%s at %s: %+v", p.name, g, f)
					}
				}
			}
		}
	}
}
