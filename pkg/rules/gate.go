package rules

import "strings"

// A Gate is the place where a change is judged. It decides which rules can be.
type Gate int

// Gates.
const (
	PreCommit Gate = iota
	PrePush
	PreReceive
	Update
	PullRequest
	Check
)

// String returns git's or GitHub's name of the gate.
func (g Gate) String() string {
	return [...]string{"pre-commit", "pre-push", "pre-receive", "update", "pull-request", "check"}[g]
}

// server reports whether the gate receives commits from untrusted pushers and
// has a clock that can be trusted.
func (g Gate) server() bool { return g == PreReceive || g == Update || g == PullRequest }

// Gates is a set of gates: bit g stands for Gate g.
type Gates uint8

// has reports whether a gate is in the set.
func (s Gates) has(g Gate) bool { return s&(1<<g) != 0 }

// String returns "all", or the names of the gates.
func (s Gates) String() string {
	if s == everywhere {
		return "all"
	}
	var names []string
	for g := PreCommit; g <= Check; g++ {
		if s.has(g) {
			names = append(names, strings.Replace(g.String(), "pull-", "pull ", 1))
		}
	}
	return strings.Join(names, ", ")
}
