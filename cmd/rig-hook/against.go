package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// A comparison proves that one history is another one, rewritten commit by commit, in
// which nothing but bodies is gone that the other one has tombstones of
// (docs/spec/tombstone.md#rewritten).
type comparison struct {
	repo   *gitrepo.Repo
	policy *policy.Policy
	found  *rules.Judge
	tree   string             // of the old tip
	stones map[[3]string]bool // by path, old and new blob: whether the one buries the other

	commits, signed int
	bodies          map[string]bool // paths whose body is gone
}

// against compares the history of HEAD with that of old.
func against(ctx context.Context, repo *gitrepo.Repo, p *policy.Policy, rep *report.Report, found *rules.Judge, head, old string) error {
	tip, err := repo.Commit(old)
	if err != nil {
		return err
	}
	shallow, err := repo.Shallow()
	if err != nil {
		return err
	}
	if len(shallow) > 0 {
		return &policy.Undecided{Message: "the history is cut, so it cannot be compared", Hint: "git fetch --unshallow"}
	}
	c := &comparison{repo: repo, policy: p, found: found, tree: tip.Tree, stones: map[[3]string]bool{}, bodies: map[string]bool{}}
	pairs, todo := map[string]string{head: old}, []string{head}
	from := map[string]string{old: head} // no old commit stands for two
	for len(todo) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		was := pairs[id]
		if id == was {
			continue // and so is all below it
		}
		parents, err := c.commit(id, was)
		if err != nil {
			return err
		}
		for _, pair := range parents {
			other, known := pairs[pair[0]]
			if back, used := from[pair[1]]; known && other != pair[1] || used && back != pair[0] {
				c.tell(id, "", "its parent "+finding.Short(pair[0])+" stands for two commits of the other history, or two stand for one")
				continue
			}
			if !known {
				pairs[pair[0]], from[pair[1]] = pair[1], pair[0]
				todo = append(todo, pair[0])
			}
		}
	}
	if found.Commits = c.commits; finding.Worst(found.Findings) < finding.Error {
		rep.Notes = append(rep.Notes,
			fmt.Sprintf("proved: the %d rewritten commits have the parents, authors, dates, messages and trees of those of %s, but for %d bodies that tombstones of %s stand for: %s",
				c.commits, finding.Short(old), len(c.bodies), finding.Short(old), cmp.Or(strings.Join(c.paths(), " "), "none")),
			fmt.Sprintf("not proved: who made them. The signatures of %d commits cannot hold any more, and references to ids of rewritten commits lead nowhere; judge the other history by rig-hook check --all before it is given up",
				c.signed))
	}
	return nil
}

func (c *comparison) paths() (out []string) {
	for path := range c.bodies {
		out = append(out, finding.Path(path))
	}
	slices.Sort(out)
	return out
}

func (c *comparison) tell(id, path, message string) {
	c.found.Findings = append(c.found.Findings, finding.Finding{Rule: "append-only", Severity: finding.Error, Commit: id, Path: path, Message: message})
}

// commit compares two commits, and returns the pairs of their parents.
func (c *comparison) commit(id, was string) (parents [][2]string, err error) {
	now, err := c.repo.Commit(id)
	if err != nil {
		return nil, err
	}
	old, err := c.repo.Commit(was)
	if err != nil {
		return nil, err
	}
	c.commits++
	mine, _ := withoutIDs(now.Raw)
	theirs, signed := withoutIDs(old.Raw)
	if signed {
		c.signed++
	}
	if !bytes.Equal(mine, theirs) {
		c.tell(id, "", "author, committer, dates or message differ from those of commit "+finding.Short(was))
	}
	if len(now.Parents) != len(old.Parents) {
		c.tell(id, "", fmt.Sprintf("it has %d parents, commit %s has %d", len(now.Parents), finding.Short(was), len(old.Parents)))
		return nil, nil
	}
	changes, err := c.repo.DiffTrees(old.Tree, now.Tree)
	if err != nil {
		return nil, err
	}
	for _, ch := range changes {
		lawful, err := c.buried(ch)
		if err != nil {
			return nil, err
		}
		if lawful {
			c.bodies[ch.Path] = true
			continue
		}
		c.tell(id, ch.Path, "the file is not what commit "+finding.Short(was)+" has, nor the tombstone of it that the tip of the other history has")
	}
	for i, p := range now.Parents {
		parents = append(parents, [2]string{p, old.Parents[i]})
	}
	return parents, nil
}

// buried reports whether a path has, in the place of a message, the tombstone of it
// that the old tip has.
func (c *comparison) buried(ch gitrepo.Change) (bool, error) {
	if ch.OldMode != gitrepo.ModeFile || ch.NewMode != gitrepo.ModeFile || !c.policy.Candidate(ch.Path) {
		return false, nil
	}
	key := [3]string{ch.Path, ch.OldID, ch.NewID}
	if known, asked := c.stones[key]; asked {
		return known, nil
	}
	tip, ok, err := c.repo.EntryAt(c.tree, ch.Path)
	if err != nil {
		return false, err
	}
	if ok = ok && tip.ID == ch.NewID; ok {
		var data [2][]byte
		for i, id := range []string{ch.OldID, ch.NewID} {
			if data[i], err = c.repo.Blob(id, c.policy.AcceptedLimits().File); err != nil {
				if !errors.Is(err, gitrepo.ErrTooLarge) {
					return false, err
				}
				ok = false
			}
		}
		t, err := envelope.Buries(data[0], data[1], c.policy.AcceptedLimits())
		ok = ok && err == nil && t.Path == ch.Path
	}
	c.stones[key] = ok
	return ok, nil
}

// withoutIDs returns a commit without what rewriting changes of necessity: its
// parents, its tree and its signature; signed reports whether it had one.
func withoutIDs(raw []byte) (rest []byte, signed bool) {
	head, message, _ := bytes.Cut(raw, []byte("\n\n"))
	drop := false
	for line := range bytes.Lines(append(bytes.Clone(head), '\n')) {
		if bytes.HasPrefix(line, []byte(" ")) && drop {
			continue
		}
		if drop = bytes.HasPrefix(line, []byte("gpgsig")); drop {
			signed = true
			continue
		}
		if !bytes.HasPrefix(line, []byte("tree ")) && !bytes.HasPrefix(line, []byte("parent ")) {
			rest = append(rest, line...)
		}
	}
	return append(append(rest, '\n'), message...), signed
}
