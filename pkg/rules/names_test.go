package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

func TestTakenFor(t *testing.T) {
	const guarded = ".bridge/allowed_signers"
	for _, c := range []struct {
		path, whole string
		exact       bool
	}{
		{".bridge/allowed_signers", guarded, true},
		{".bridge/allowed_signers/x", guarded, true},
		{".bridge/other", ".bridge", true},
		{".bridge", ".bridge", true},
		{".bridges/allowed_signers", "", false},
		{".BRIDGE/other", ".bridge", false},
		{".Bridge/Allowed_Signers", guarded, false},
		{".bridge/ALLOWED_SIGNERS", guarded, false},
		{".bridge/allowed_signers.", guarded, false}, // Windows drops the dot
		{".bridge/ALLOWE~1", guarded, false},
		{".bridge\\allowed_signers", guarded, false},
		{".bridge\u200c/allowed_signers", guarded, false}, // HFS+ ignores it
		{"src/main.go", "", false},
		{"b/.bridge/allowed_signers", "", false},
	} {
		if whole, exact := takenFor(c.path, guarded); whole != c.whole || exact != c.exact {
			t.Errorf("%q is taken for %q, exact %v, want %q, %v", c.path, whole, exact, c.whole, c.exact)
		}
	}
}

func TestBesideThreads(t *testing.T) {
	top, below := policy.Default(), policy.Default()
	below.Root = "talk/here"
	for _, c := range []struct {
		p          *policy.Policy
		path, name string
		odd        bool
	}{
		{top, "t-one/a.md", "t-one", false},
		{top, "README.md", "README.md", true}, // in capital letters
		{top, "readme.md", "readme.md", false},
		{top, "T-One/a.md", "T-One", true},
		{top, "relea~1/a", "relea~1", true},
		{top, `t-one\a.md`, `t-one\a.md`, true},
		{below, "talk/here/T-One/a.md", "T-One", true},
		{below, "talk/here/t-one/a.md", "t-one", false},
		{below, "T-One/a.md", "", false},
	} {
		if name, odd := besideThreads(c.p, c.path); name != c.name || odd != c.odd {
			t.Errorf("%q: %q, %v, want %q, %v", c.path, name, odd, c.name, c.odd)
		}
	}
}

func TestEnvelopePlace(t *testing.T) {
	top, below := policy.Default(), policy.Default()
	below.Root = "talk"
	for _, c := range []struct {
		p           *policy.Policy
		path, place string
		ok          bool
	}{
		{top, "T-One/A.MD", "T-One/A.MD", true},
		{top, "t-one/a.md/x/y", "t-one/a.md", true},
		{top, "t-one/a.txt", "t-one/a.txt", false},
		{top, "t-one", "", false},
		{top, "dist/a.md", "dist/a.md", false}, // never a thread
		{top, `t-one\a.md`, `t-one\a.md`, true},
		{below, "talk/T-One/A.md", "talk/T-One/A.md", true},
		{below, "TALK/t-one/a.md", "TALK/t-one/a.md", true},
		{below, "t-one/a.md/x", "t-one/a.md/x", false},
	} {
		if place, ok := envelopePlace(c.p, c.path); place != c.place || ok != c.ok {
			t.Errorf("%q: %q, %v, want %q, %v", c.path, place, ok, c.place, c.ok)
		}
	}
	if rest, ok := belowFolded(below, portable.Fold("TALK/T-One/A.md")); rest != "t-one/a.md" || !ok {
		t.Errorf("below the root: %q, %v", rest, ok)
	}
}

// TestHow: what happened to an envelope, in words.
func TestHow(t *testing.T) {
	const a, b = "1", "2"
	for want, ch := range map[string]gitrepo.Change{
		"deleted":                     {OldMode: gitrepo.ModeFile, OldID: a},
		"changed in place":            {OldMode: gitrepo.ModeFile, OldID: a, NewMode: gitrepo.ModeFile, NewID: b},
		"replaced by a symbolic link": {OldMode: gitrepo.ModeFile, OldID: a, NewMode: gitrepo.ModeSymlink, NewID: b},
		"replaced by a submodule":     {OldMode: gitrepo.ModeFile, OldID: a, NewMode: gitrepo.ModeGitlink, NewID: b},
		"changed in mode from 100644 to 100755": {OldMode: gitrepo.ModeFile, OldID: a, NewMode: gitrepo.ModeExecutable,
			NewID: a},
	} {
		if got := how(ch, ""); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	changes := []gitrepo.Change{
		{Path: "a", OldMode: gitrepo.ModeFile, OldID: a},
		{Path: "b", NewMode: gitrepo.ModeFile, NewID: a},
		{Path: "c", NewMode: gitrepo.ModeFile, NewID: a},
	}
	if got := how(changes[0], additions(changes)[a]); got != `moved to "b"` {
		t.Errorf("got %q", got)
	}
}

// TestApart: of two envelopes, which parent has which.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		a, b []int32 // parents that lack them
		want sides
	}{
		{[]int32{0}, []int32{1}, sides{lacks: 0, has: 1}},
		{[]int32{1}, []int32{0}, sides{lacks: 1, has: 0}},
		{[]int32{0}, []int32{0, 1}, sides{}}, // who lacks the one lacks the other
		{[]int32{0, 2}, []int32{1, 2}, sides{lacks: 0, has: 1}},
		{[]int32{0, 1, 2}, []int32{2, 3}, sides{lacks: 0, has: 3}},
		{nil, []int32{1}, sides{}},
	} {
		d := diverged{told: map[[2]int]sides{}}
		a, b := &newFact{lacks: c.a, group: 1}, &newFact{lacks: c.b, group: 2}
		if got := d.apart(a, b); got != c.want {
			t.Errorf("%v and %v: %+v, want %+v", c.a, c.b, got, c.want)
		}
		if got := d.apart(a, b); got != c.want {
			t.Errorf("%v and %v, asked again: %+v", c.a, c.b, got)
		}
	}
	if (&diverged{}).apart(&newFact{group: 1}, &newFact{group: 1}) != (sides{}) {
		t.Error("envelopes of one side came apart")
	}
}

// TestManyEnvelopesApart: of two sides with very many envelopes, so many pairs
// are compared, and it is said that there are more.
func TestManyEnvelopesApart(t *testing.T) {
	w := newWorld(t)
	bring := func(from string) []edit {
		edits := []edit{on(w.base)}
		for i := range 400 {
			name := strings.Repeat("x", i%7) + from + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
			edits = append(edits, put("t-one/"+name+".md", turn(from, "STATE", name+"\n")))
		}
		return edits
	}
	a, b := w.commit("ours", bring("rig-a")...), w.commit("theirs", bring("rig-b")...)
	w.commit("merge", on(a, b))
	j, err := w.judgeAt(PrePush)
	if err != nil {
		t.Fatal(err)
	}
	pairs := slices.DeleteFunc(slices.Clone(j.Findings), func(f finding.Finding) bool { return f.Path == "" })
	last := j.Findings[0].Message
	if len(pairs) != maxPairs || !strings.HasSuffix(last, "; there are too many to compare all") {
		t.Errorf("%d pairs, then %q", len(pairs), last)
	}
}
