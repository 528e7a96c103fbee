package rules

import (
	"errors"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// maxParsed is how many parsed envelopes are held at a time: their nodes take
// ten times as much as their text.
const maxParsed = 1024

// large tells fn of those blobs over the policy's limit that begin with a
// fence: their beginning, and what they say as far as it is read. whole reports
// whether that is all.
func (ps *pass) large(p *policy.Policy, ids []string, fn func(id string, head []byte, env *envelope.Envelope, whole bool)) error {
	limits := p.AcceptedLimits()
	var fenced []string
	err := ps.Repo.Heads(ids, envelope.FenceBytes, func(o gitrepo.Object) error {
		if envelope.HasFence(o.Data) {
			fenced = append(fenced, o.ID)
		}
		return o.Err
	})
	if err != nil {
		return err
	}
	var rest []string // of which no more than the front matter is read
	err = ps.Repo.Objects(fenced, limits.File, func(o gitrepo.Object) error {
		if errors.Is(o.Err, gitrepo.ErrTooLarge) {
			rest = append(rest, o.ID)
			return nil
		}
		if o.Err == nil {
			fn(o.ID, o.Data, p.ParseAccepted(o.Data), true)
		}
		return o.Err
	})
	if err != nil {
		return err
	}
	return ps.Repo.Heads(rest, envelope.HeadBytes(limits.Frontmatter), func(o gitrepo.Object) error {
		var env *envelope.Envelope
		if head, ok := envelope.Head(o.Data, o.Size); ok {
			if env = p.ParseAccepted(head); env != nil {
				env.Hash = "" // of its body, which was not read
			}
		}
		fn(o.ID, o.Data, env, false)
		return o.Err
	})
}

// heads holds the beginnings of blobs that commits of a batch take the place
// of, by id.
type heads map[string][]byte

// learn reads the beginnings of blobs that are not known yet.
func (ps *pass) learn(ids []string) error {
	if ps.heads == nil {
		ps.heads = heads{}
	}
	return ps.Repo.Heads(ids, envelope.FenceBytes, func(o gitrepo.Object) error {
		ps.heads[o.ID] = o.Data
		return o.Err
	})
}

// replaces reports whether a change takes the place of an accepted envelope, or
// takes it away.
func (ps *pass) replaces(p *policy.Policy, ch gitrepo.Change) (bool, error) {
	return ps.accepted(p, ch.Path, ch.OldMode, ch.OldID)
}

// accepted is Accepted for an entry of which the blob's id is known.
func (ps *pass) accepted(p *policy.Policy, path string, mode gitrepo.Mode, id string) (bool, error) {
	if !mode.IsFile() || !p.Candidate(path) {
		return false, nil
	}
	head, known := ps.heads[id]
	if !known {
		if err := ps.learn([]string{id}); err != nil {
			return false, err
		}
		head = ps.heads[id]
	}
	return p.Accepted(path, mode, head), nil
}

// lookBack reads the beginnings of all that the commits of a batch take the
// place of, at paths where an envelope may lie.
func (ps *pass) lookBack(batch []*commit) error {
	ps.heads = nil
	asked := map[string]bool{}
	var ids []string
	for _, c := range batch {
		for _, d := range c.diffs {
			for _, ch := range d.Changes {
				if ch.OldMode.IsFile() && !asked[ch.OldID] && c.policy.Candidate(ch.Path) {
					asked[ch.OldID] = true
					ids = append(ids, ch.OldID)
				}
			}
		}
	}
	return ps.learn(ids)
}

// fresh tells of each entry whether it is a new envelope: no parent has an
// accepted one at its path. Where the policy lets accepted envelopes be
// changed, what replaces one is new as well.
func (ps *pass) fresh(batch []*commit) error {
	for _, c := range batch {
		for _, e := range c.entries {
			for old := range c.changesAt(e.path) {
				was, err := ps.replaces(c.policy, old)
				if err != nil {
					return err
				}
				e.replaces = e.replaces || was
			}
			e.added = !e.replaces || !c.policy.Refuses("append-only")
		}
	}
	return nil
}

// peek finds out whether files over the limit begin with a fence, and reads
// those whose size alone does not refuse them.
func (ps *pass) peek(batch []*commit) error {
	users := map[string][]*entry{}
	var ids []string
	for _, c := range batch {
		for _, e := range c.entries {
			if e.tooLarge {
				if users[e.blob] == nil {
					ids = append(ids, e.blob)
				}
				users[e.blob] = append(users[e.blob], e)
			}
		}
	}
	err := ps.Repo.Heads(ids, envelope.FenceBytes, func(o gitrepo.Object) error {
		for _, e := range users[o.ID] {
			e.fenced = envelope.HasFence(o.Data)
		}
		return o.Err
	})
	if err != nil {
		return err
	}
	for _, c := range batch {
		if c.policy.Refuses(envelope.RuleParse) {
			continue
		}
		for _, e := range c.entries {
			if !e.tooLarge || !e.fenced || !e.mode.IsFile() {
				continue
			}
			err := ps.Repo.Objects([]string{e.blob}, c.policy.AcceptedLimits().File, func(o gitrepo.Object) error {
				if errors.Is(o.Err, gitrepo.ErrTooLarge) {
					return nil
				}
				e.data = o.Data
				return o.Err
			})
			if err != nil {
				return err
			}
			e.parse(c, ps.Judge)
		}
	}
	return nil
}
