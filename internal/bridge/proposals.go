package bridge

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/sshsign"
)

// A proposal is a commit on a branch that nobody guards, for which fewer people
// stand than the policy wants (docs/spec/quorum.md).
type proposal struct {
	Branch    string `json:"branch"` // as the remote names it
	CommitSHA string `json:"commit_sha"`
	By        string `json:"by"` // its author's address
	Subject   string `json:"subject"`
	Approvals int    `json:"approvals"`
	Reason    string `json:"reason"`
	Show      string `json:"show"` // the command that shows it in full
}

// How much is looked at for proposals.
const (
	maxProposals = 20 // branches
	maxProposed  = 16 // commits of a branch that the default branch lacks
)

// proposals finds what waits for others to approve of it, as of the last fetch.
// Where it cannot be known there is none: the gates judge what comes of it.
func (w *work) proposals(ctx context.Context) (list []proposal) {
	t, err := w.target()
	if err != nil || t.remote == "" || t.remote == "." {
		return nil
	}
	at, err := w.repo.Remote(ctx, t.remote)
	tip := at.Refs[at.Head]
	if err != nil || tip == "" {
		return nil
	}
	// The clone itself may be behind.
	p, _, err := w.policyAt(tip)
	if err != nil || p.QuorumTrust < 2 && len(p.QuorumRelays) == 0 {
		return nil
	}
	t.ref = at.Head
	seen := 0
	for _, ref := range slices.Sorted(maps.Keys(at.Refs)) {
		branch, is := strings.CutPrefix(ref, "refs/heads/")
		if !is || p.Protected(ref, at.Head) {
			continue
		}
		if seen++; seen > maxProposals {
			break
		}
		id, ahead := at.Refs[ref], 0
		for _, err := range w.repo.RevList(ctx, []string{id}, []string{tip}, gitrepo.RevListOptions{Max: maxProposed + 1}) {
			if ahead++; err != nil {
				ahead = maxProposed + 1
			}
		}
		if ahead == 0 || ahead > maxProposed {
			continue
		}
		fs, err := w.judgeRange(ctx, t, tip, id, tip, false, false)
		i := slices.IndexFunc(fs, func(f finding.Finding) bool { return f.Rule == "quorum" && f.Commit == id })
		c, err2 := w.repo.Commit(id)
		if err != nil || err2 != nil || i < 0 || w.cameIn(c, tip) {
			continue
		}
		a, _, _ := rules.ParseApproval(c.Message)
		subject, _, _ := bytes.Cut(c.Message, []byte("\n"))
		list = append(list, proposal{branch, id, finding.Clean(c.Author.Email), finding.Clean(string(subject)), len(sshsign.Armored(a.Signatures)),
			fs[i].Message, "rig-hook approve " + finding.Word(t.remote+"/"+branch) + " --ref " + finding.Word(at.Head)})
	}
	return list
}

// cameIn reports whether a commit has already all that another one changes.
func (w *work) cameIn(c *gitrepo.Commit, tip string) bool {
	at, err := w.repo.Commit(tip)
	if err != nil || len(c.Parents) != 1 {
		return false
	}
	before, err := w.repo.Commit(c.Parents[0])
	if err != nil {
		return false
	}
	changes, err := w.repo.DiffTrees(before.Tree, c.Tree)
	for _, ch := range changes {
		e, ok, err := w.repo.EntryAt(at.Tree, ch.Path)
		if err != nil || ok == ch.Deleted() || ok && e.ID != ch.NewID {
			return false
		}
	}
	return err == nil
}
