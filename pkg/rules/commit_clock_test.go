package rules

import (
	"testing"
	"time"
)

var commitClockPlays = []play{
	{name: "in order", make: func(w *world) {
		w.commit("b", put("README.md", "x\n"))
		w.commit("c", put("README.md", "y\n"))
	}},
	{name: "ahead of the server's clock", make: func(w *world) {
		w.commit("c", at(40*time.Minute), put("README.md", "x\n"))
	}, want: []string{
		"error commit-clock - @c: the committer date 2026-01-05T09:40:00Z is 600 s (10m0s) ahead of this " +
			"server's clock, at most 300 s (5m0s) are allowed | set the clock, then: git commit --amend --no-edit",
	}},
	{name: "ahead by less than the policy takes", make: func(w *world) {
		w.commit("c", at(34*time.Minute), put("README.md", "x\n"))
	}},
	{name: "ahead by more than the policy takes", make: func(w *world) {
		w.policy = "clock: {skew: 60 s}\n"
		w.commit("c", at(34*time.Minute), put("README.md", "x\n"))
	}, want: []string{
		"error commit-clock - @c: the committer date 2026-01-05T09:34:00Z is 240 s (4m0s) ahead of this server's " +
			"clock, at most 60 s (1m0s) are allowed",
	}},
	{name: "before its parent", make: func(w *world) {
		w.commit("c", at(-time.Hour), put("README.md", "x\n"))
	}, want: []string{
		"error commit-clock - @c: the committer date 2026-01-05T08:00:00Z is 3660 s (1h1m0s) before its " +
			"parent's, at most 300 s (5m0s) are allowed",
	}},
	{name: "before its parent in the push, signed", make: func(w *world) {
		w.commit("b", at(20*time.Minute), put("README.md", "x\n"))
		w.commit("c", at(2*time.Minute), signed(keyOp), put("README.md", "y\n"))
		w.commit("d", at(21*time.Minute), put("README.md", "z\n"))
	}, want: []string{
		"error commit-clock - @c: the committer date 2026-01-05T09:02:00Z is 1080 s (18m0s) before its parent's, " +
			"at most 300 s (5m0s) are allowed | set the clock, then: git rebase --no-ff --rebase-merges --gpg-sign <b>",
	}},
	{name: "before one parent of a merge", make: func(w *world) {
		a := w.commit("ours", on(w.base), at(2*time.Minute), put("README.md", "x\n"))
		b := w.commit("theirs", on(w.base), at(20*time.Minute), put("LICENSE", "x\n"))
		w.commit("merge", on(a, b), at(3*time.Minute))
	}, want: []string{
		"error commit-clock - @merge: the committer date 2026-01-05T09:03:00Z is 1020 s (17m0s) before its " +
			"parent's, at most 300 s (5m0s) are allowed",
	}},
	{name: "after the year 9999", make: func(w *world) {
		w.commit("c", atUnix(253402300800), put("README.md", "x\n"))
	}, want: []string{
		"error commit-clock - @c: the committer date lies after the year 9999",
	}},
	{name: "where no server's clock counts", make: func(w *world) {
		w.gate = PrePush
		w.commit("c", at(40*time.Minute), put("README.md", "x\n"))
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {commit-clock: off}\n"
		w.commit("c", at(40*time.Minute), put("README.md", "x\n"))
	}},
}

// atUnix is at in seconds of Unix time.
func atUnix(unix int64) edit { return func(_ *world, d *draft) { d.at = time.Unix(unix, 0) } }

func TestCommitClock(t *testing.T) { run(t, commitClockPlays) }
