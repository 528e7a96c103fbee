package rules

import (
	"errors"
	"slices"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/relay"
)

// takeOver makes known to the commits after c what its tree has at paths that are
// those of envelopes in the era that it begins, and were none before (envelopes.root,
// envelopes.ignore): nobody has judged it, and it is accepted as it is. Gates that
// judge only later commits find it in the tree before them.
func (ps *pass) takeOver(c *commit) error {
	if ps.OfTheTime == nil || c.obj == nil {
		return nil
	}
	n := ps.eras.of[c.n]
	era := ps.eras.list[n]
	if era.Commit != c.id || era.From < 0 {
		return nil
	}
	was, err := ps.set(int32(era.From))
	if err != nil {
		return policy.UnlessUndecided(err)
	}
	now, err := ps.set(n)
	if err != nil || now.policy.Root == was.policy.Root && slices.Equal(now.policy.Ignore, was.policy.Ignore) {
		return policy.UnlessUndecided(err) // the next commit says what cannot be read
	}
	top, err := ps.dir(c.obj.Tree, now.policy.Root)
	if top == nil || err != nil {
		return err
	}
	for d := range top.Entries() {
		if d.Mode != gitrepo.ModeTree {
			continue
		}
		dir := now.policy.Under(d.Name)
		tree, err := ps.dir(c.obj.Tree, dir)
		if err != nil {
			return err
		}
		paths := map[string][]string{} // by blob
		var names []string
		for e := range tree.Entries() {
			p := dir + "/" + e.Name
			names = append(names, p)
			if e.Mode.IsFile() && now.policy.Candidate(p) && !was.policy.Candidate(p) {
				paths[e.ID] = append(paths[e.ID], p)
			}
		}
		if len(paths) == 0 {
			continue
		}
		t, err := ps.thread(now.policy, d.Name)
		if err != nil {
			return err
		}
		for _, p := range names {
			t.note(p)
		}
		if err := ps.takeOverIn(c, now.policy, t, paths); err != nil {
			return err
		}
	}
	return nil
}

// takeOverIn is takeOver for the blobs of one thread.
func (ps *pass) takeOverIn(c *commit, p *policy.Policy, t *thread, paths map[string][]string) error {
	known := map[version]bool{} // it was there before the range
	for _, f := range t.facts {
		known[version{f.path, f.blob}] = true
	}
	put := func(id string, env *envelope.Envelope) {
		for _, path := range paths[id] {
			if known[version{path, oidOf(id)}] {
				continue
			}
			ps.put(t, &fact{path: path, blob: oidOf(id), commit: c.n}, sayingOf(env))
			if env != nil && env.IsRelay() && env.Conforms("nonce") && relay.ValidNonce(env.Nonce) {
				ps.uses = append(ps.uses, nonceUse{nonce: env.Nonce, path: path, blob: id, commit: c.n, policy: p, taken: true})
			}
		}
	}
	var large []string
	err := ps.Repo.Objects(sortedKeys(paths), p.MaxFile, func(o gitrepo.Object) error {
		switch {
		case errors.Is(o.Err, gitrepo.ErrTooLarge):
			large = append(large, o.ID)
			return nil
		case o.Err == nil && envelope.HasFence(o.Data):
			put(o.ID, p.ParseAccepted(o.Data))
		}
		return o.Err
	})
	if err != nil {
		return err
	}
	return ps.large(p, large, func(id string, head []byte, env *envelope.Envelope, _ bool) {
		if envelope.HasFence(head) {
			put(id, env)
		}
	})
}
