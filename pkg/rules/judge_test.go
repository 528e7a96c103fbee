package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// TestLimits: too much at a time is not decided, save where somebody asks for
// all of it.
func TestLimits(t *testing.T) {
	for _, p := range []struct{ policy, want string }{
		{"limits: {commits: 2}\n", "more than 2 commits are new (limits.commits)"},
		{"limits: {changes: 4}\n", "more than 4 paths change (limits.changes)"},
		{"limits: {commits: 3, changes: 6}\n", ""},
	} {
		for _, g := range []Gate{PrePush, PreReceive, Check} {
			w := newWorld(t)
			for i := range 3 {
				w.commit(fmt.Sprint(i), put(fmt.Sprintf("%d-a", i), "x\n"), put(fmt.Sprintf("%d-b", i), "x\n"))
			}
			w.policy = p.policy
			_, err := w.judgeAt(g)
			var u *policy.Undecided
			switch {
			case p.want == "" || g == Check:
				if err != nil {
					t.Errorf("%s at %s: %v", p.policy, g, err)
				}
			case !errors.As(err, &u) || u.Message != p.want || u.Hint != "push fewer commits at a time":
				t.Errorf("%s at %s: got %v, want %s", p.policy, g, err, p.want)
			}
		}
	}
}

// TestManyFindings: of very many, most are only counted, and no text fills the
// memory.
func TestManyFindings(t *testing.T) {
	j := &Judge{}
	p := policy.Default()
	for range maxFindings + 5 {
		j.add(p, finding.Finding{Rule: "append-only"})
		j.add(p, finding.Finding{Rule: "divergence"})
	}
	if len(j.Findings) != 2*maxFindings || j.More != (finding.Counts{Errors: 5, Warnings: 5}) {
		t.Errorf("%d kept, %+v more", len(j.Findings), j.More)
	}
	j = &Judge{}
	for range 10 {
		j.add(p, finding.Finding{Rule: "append-only", Message: strings.Repeat("x", maxFindingBytes/8)})
	}
	if len(j.Findings) != 8 || j.More.Errors != 2 {
		t.Errorf("%d kept, %+v more", len(j.Findings), j.More)
	}
	// Who is to be told of each envelope must know all.
	j = &Judge{Told: func(Verdict) {}}
	for range maxFindings + 5 {
		j.add(p, finding.Finding{Rule: "append-only"})
	}
	if len(j.Findings) != maxFindings+5 || j.More.Errors != 0 {
		t.Errorf("%d kept, %+v more", len(j.Findings), j.More)
	}
}

// TestWaitingFindings: what waits for a thread to come is counted once there
// is much of it, and told when the thread comes.
func TestWaitingFindings(t *testing.T) {
	w := newWorld(t)
	for k := range 3 {
		var edits []edit
		for i := range maxFindings / 2 {
			edits = append(edits, put(fmt.Sprintf("t-two/%d-%d.md", k, i), "Hello.\n"))
		}
		w.commit(fmt.Sprint(k), edits...)
	}
	j, err := w.judgeAt(Check)
	if err != nil || len(j.Findings) != 0 || j.More.Errors != 0 {
		t.Fatalf("%v: %d findings, %+v more", err, len(j.Findings), j.More)
	}
	w.commit("c", put("t-two/turn.md", turn("rig-a", "REQUEST", "What?\n", to("t-two"))))
	j, err = w.judgeAt(Check)
	if n := maxFindings / 2 * 3; err != nil || len(j.Findings)+j.More.Errors != n || j.Envelopes != n+1 {
		t.Errorf("%v: %d findings, %+v more, %d envelopes, want %d", err, len(j.Findings), j.More, j.Envelopes, n)
	}
}

// TestCannotDecide: what cannot be read is an error at once, never a pass.
func TestCannotDecide(t *testing.T) {
	w := newWorld(t)
	w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
	for id, o := range w.objects {
		if o.Type == "blob" && strings.Contains(string(o.Data), bodyHash("Yes.\n")) {
			delete(w.objects, id)
		}
	}
	if _, err := w.judgeAt(PreReceive); err == nil {
		t.Error("an envelope that is missing is not an error")
	}
	w = newWorld(t)
	w.relays("c")
	w.judge = func(j *Judge, _ *Range) {
		j.Used = func([]string) (map[string][]history.Hit, error) { return nil, errBroken }
	}
	if _, err := w.judgeAt(PreReceive); !errors.Is(err, errBroken) {
		t.Errorf("nonces that cannot be looked up: %v", err)
	}
	w = newWorld(t)
	w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	j := &Judge{Repo: w.fake, Gate: PreReceive}
	if err := j.Range(ctx, Range{New: w.tip, Exclude: []string{w.base}, Policy: w.demands(),
		Trust: w.trust()}); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that is over: %v", err)
	}
}

// TestProgress tells of every 256th commit.
func TestProgress(t *testing.T) {
	w := newWorld(t)
	for range 300 {
		w.commit("c")
	}
	var told []string
	w.judge = func(j *Judge, _ *Range) {
		j.Progress = func(done, total int) { told = append(told, fmt.Sprintf("%d of %d", done, total)) }
	}
	if _, err := w.judgeAt(PrePush); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(told, ", "); got != "256 of 300" {
		t.Errorf("told %q", got)
	}
}

// TestIndexScope: a nonce index knows for whose paths and limits it was made.
func TestIndexScope(t *testing.T) {
	w := newWorld(t)
	scopes := map[string]bool{}
	for _, text := range []string{"", "envelopes: {root: talk}\n", "envelopes: {ignore: ['x/**']}\n",
		"limits: {frontmatter: 2 MiB}\n"} {
		w.policy = text
		scopes[indexScope(w.demands())] = true
	}
	w.policy = "limits: {frontmatter: 32 KiB}\n" // accepted envelopes are read up to more all the same
	if !scopes[indexScope(w.demands())] || len(scopes) != 4 {
		t.Errorf("%d scopes", len(scopes))
	}
}
