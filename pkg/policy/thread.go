package policy

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// A fact is what later commits need to know of an envelope.
type fact struct {
	path   string
	blob   string
	commit string   // that brought it; "" if it was there before the range
	bounds []string // then, the commits just outside the range that have it

	hash, from, kind, nonce, reply string
	class                          string // of the status
	refs                           []string
	relay                          bool
	valid                          bool      // parsed, and satisfies the schema
	attested                       time.Time // attested_at of a relay
}

// A thread is what is known of one thread directory: what was in it before the
// range, and what the commits of the range have brought so far. Whether a
// given commit has a fact's file is to be looked up.
type thread struct {
	facts  []*fact
	byHash map[string][]*fact
	// names holds, by folded path below the policy's root, every path that was
	// seen in this directory or in one that could be taken for it.
	names map[string][]string
}

func (t *thread) put(f *fact) {
	t.facts = append(t.facts, f)
	if f.hash != "" {
		t.byHash[f.hash] = append(t.byHash[f.hash], f)
	}
}

func factOf(path, blob, commit string, env *envelope.Envelope) *fact {
	f := &fact{path: path, blob: blob, commit: commit}
	if env == nil {
		return f
	}
	f.hash, f.from, f.kind, f.nonce, f.reply, f.refs = env.Hash, env.From, env.Type, env.Nonce, env.InReplyTo, env.References
	f.class, f.relay, f.valid = envelope.StatusClass(env.Status), env.IsRelay(), env.Valid()
	if f.relay && env.AttestedAt != "" {
		f.attested, _, _ = envelope.ParseTime(env.AttestedAt)
	}
	return f
}

// thread returns what is known of a thread directory, reading what was there
// before the range when it is first asked for.
func (j *Judge) thread(p *Policy, name string) (*thread, error) {
	if t := j.threads[name]; t != nil {
		return t, nil
	}
	t := &thread{byHash: map[string][]*fact{}, names: map[string][]string{}}
	dir := name
	if p.Root != "" {
		dir = p.Root + "/" + name
	}
	at := map[string]map[string][]string{} // blob and path to the commits that have it
	var ids []string
	for _, b := range j.bounds {
		tree, err := j.dir(b.tree, dir)
		if err != nil {
			return nil, err
		}
		if tree == nil {
			continue
		}
		for e := range tree.Entries() {
			path := dir + "/" + e.Name
			t.note(p, path)
			if !e.Mode.IsFile() || !p.Candidate(path) {
				continue
			}
			if at[e.ID] == nil {
				ids = append(ids, e.ID)
				at[e.ID] = map[string][]string{}
			}
			at[e.ID][path] = append(at[e.ID][path], b.id)
		}
	}
	if err := j.oddDirectories(p); err != nil {
		return nil, err
	}
	for d := range j.oddDirs {
		if envelope.FoldPath(d) != envelope.FoldPath(dir) || d == dir {
			continue
		}
		for _, b := range j.bounds {
			names, err := j.names(b.tree, d)
			if err != nil {
				return nil, err
			}
			for _, n := range names {
				t.note(p, d+"/"+n)
			}
		}
	}
	var envs []*envelope.Envelope
	var objs []gitrepo.Object
	err := j.Repo.Objects(ids, p.MaxFile, func(o gitrepo.Object) error {
		if o.Err != nil && !errors.Is(o.Err, gitrepo.ErrTooLarge) {
			return o.Err
		}
		if envelope.HasFence(o.Data) {
			objs = append(objs, o)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	envs = make([]*envelope.Envelope, len(objs))
	Parallel(len(objs), func(i int) {
		envs[i], _ = envelope.Parse(objs[i].Data, envelope.Options{Limits: p.envelopeLimits()})
	})
	for i, o := range objs {
		for _, path := range sortedKeys(at[o.ID]) {
			f := factOf(path, o.ID, "", envs[i])
			f.bounds = at[o.ID][path]
			t.put(f)
		}
	}
	j.threads[name] = t
	return t, nil
}

func (t *thread) note(p *Policy, path string) {
	fold := p.fold(path)
	if !slices.Contains(t.names[fold], path) {
		t.names[fold] = append(t.names[fold], path)
	}
}

// fold returns the key under which two paths below the policy's root are one
// file on some file system.
func (p *Policy) fold(path string) string {
	if p.Root != "" {
		path = strings.TrimPrefix(path, p.Root+"/")
	}
	return envelope.FoldPath(path)
}

// oddDirectories finds, once, the directories beside the threads whose names
// folding changes.
func (j *Judge) oddDirectories(p *Policy) error {
	if j.oddDirs != nil {
		return nil
	}
	j.oddDirs = map[string]bool{}
	for _, b := range j.bounds {
		tree, err := j.dir(b.tree, p.Root)
		if err != nil {
			return err
		}
		if tree == nil {
			continue
		}
		for e := range tree.Entries() {
			if envelope.FoldPath(e.Name) != e.Name {
				j.oddDirs[p.under(e.Name)] = true
			}
		}
	}
	return nil
}

// under puts the policy's root before a path.
func (p *Policy) under(path string) string {
	if p.Root == "" {
		return path
	}
	return p.Root + "/" + path
}

// remember makes an entry known to the commits that follow.
func (j *Judge) remember(c *commit, e *entry) error {
	t, err := j.thread(c.policy, e.thread)
	if err == nil && e.fenced {
		t.put(factOf(e.path, e.blob, c.id, e.env))
	}
	e.env = nil
	return err
}

// present tells whether a tree holds the fact's file, with its content.
func (j *Judge) present(f *fact, tree string) (bool, error) {
	e, ok, err := j.Repo.EntryAt(tree, f.path)
	return ok && e.ID == f.blob, err
}

// before tells whether the fact's envelope came in the history of c, without c
// itself.
func (j *Judge) before(c *commit, f *fact) bool {
	if c.obj == nil {
		return f.commit == ""
	}
	if f.commit != "" {
		return f.commit != c.id && j.ancestor(f.commit, c.id)
	}
	for _, b := range j.below[c.id] {
		if slices.Contains(f.bounds, b) {
			return true
		}
	}
	return false
}

// twin returns a path of c's tree that a file system could take for the path,
// "" if there is none. t is the thread that both lie in, after folding.
func (j *Judge) twin(c *commit, t *thread, path string) (string, error) {
	for _, other := range t.names[c.policy.fold(path)] {
		if other == path {
			continue
		}
		if e, ok, err := j.lookup(c, other); err != nil || ok && e.Mode != gitrepo.ModeTree {
			return other, err
		}
	}
	return "", nil
}
