package policy

import (
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// Accepted reports whether an entry of a tree is an envelope, so that it is an
// accepted one in every commit that a protected ref has: its path has the form
// of an envelope's below the policy's root and is not ignored, the entry is a
// regular file, and its blob begins with a fence. head is the beginning of the blob,
// at least envelope.FenceBytes of it or all.
//
// This is the one place that says so, and all that it asks is the history, the
// path, and where the policy puts threads. No limit takes part, neither one of
// now nor of then: what a later policy calls too large stays as it is, and a
// nonce in it stays used. Nor do read budgets: for each candidate the first
// bytes are read. What is not accepted is not an envelope: a change of it is free
// of append-only, and one that makes it an envelope brings a new one, which is
// held to every rule of a new one.
func (p *Policy) Accepted(path string, mode gitrepo.Mode, head []byte) bool {
	return mode.IsFile() && p.Candidate(path) && envelope.HasFence(head)
}

// What is read of an accepted envelope to know what it says (its nonce, whom it
// answers, whether it closes a thread), if the policy's own limits are lower: it
// may have come when they were higher.
const (
	acceptedFile        = 64 << 20
	acceptedFrontmatter = 1 << 20
)

// AcceptedLimits are the limits up to which an accepted envelope is read, also in
// forms that were not always refused. What is beyond them is frozen all the same.
func (p *Policy) AcceptedLimits() envelope.Limits {
	return envelope.Limits{File: max(p.MaxFile, acceptedFile), Frontmatter: max(p.MaxFrontmatter, acceptedFrontmatter), LoneCR: true}
}

// ParseAccepted reads an accepted envelope; nil if it cannot be parsed.
func (p *Policy) ParseAccepted(data []byte) *envelope.Envelope {
	e, _ := envelope.Parse(data, envelope.Options{Limits: p.EnvelopeLimits()})
	if e == nil {
		e, _ = envelope.Parse(data, envelope.Options{Limits: p.AcceptedLimits()})
	}
	return e
}

// EnvelopeLimits are the policy's, in the terms of package envelope.
func (p *Policy) EnvelopeLimits() envelope.Limits {
	return envelope.Limits{File: p.MaxFile, Frontmatter: p.MaxFrontmatter}
}
