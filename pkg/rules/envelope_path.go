package rules

import (
	"context"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// guardedNames judges that nothing a commit brings takes the place of what is
// guarded on some file system, though its name is another one: of the policy
// and what it names, of the root, of a thread. (Of envelopes twin tells.) File,
// directory, symlink and gitlink are one here: each would be written through or
// read in the place of the other. package portable says what names are meant.
func (ps *pass) guardedNames(_ context.Context, c *commit) error {
	if err := ps.guardNames(c); err != nil {
		return err
	}
	return ps.noteNames(c)
}

func (ps *pass) guardNames(c *commit) error {
	g := &guard{pass: ps, c: c, told: map[string]bool{}}
	for _, ch := range c.brought {
		if ch.Deleted() || g.trust(ch.Path) {
			continue
		}
		if name, odd := besideThreads(c.policy, ch.Path); odd {
			if err := ps.oddDirectories(c.policy); err != nil {
				return err
			}
			ps.oddDirectory(c.policy, c.policy.Root, name)
			if err := g.directory(name, ch.Path, true); err != nil {
				return err
			}
		}
	}
	for _, ch := range c.brought {
		if ch.Deleted() || !c.policy.Candidate(ch.Path) {
			continue
		}
		if err := g.thread(c.policy.ThreadOf(ch.Path), ch.Path); err != nil {
			return err
		}
	}
	if len(c.diffs) < 2 {
		return nil
	}
	// What each side brings a merge brings together.
	for _, d := range c.diffs {
		for _, ch := range d.Changes {
			if !ch.Added() {
				continue
			}
			var err error
			if name, odd := besideThreads(c.policy, ch.Path); odd {
				err = g.directory(name, ch.Path, false)
			} else if rest, ok := c.policy.Below(ch.Path); ok && c.policy.Candidate(ch.Path) {
				dir, _, _ := strings.Cut(rest, "/")
				err = g.thread(dir, ch.Path)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// A guard judges the names of one commit.
type guard struct {
	*pass
	c    *commit
	told map[string]bool // pairs of names that were looked at
}

func (g *guard) refuse(rule, path, message string) {
	g.tell(g.c, finding.Finding{Rule: rule, Path: path, Line: 1, Col: 1,
		Message: message, Hint: "give it another name: git mv -- " + finding.Word(path) + " NAME"})
}

// trust refuses other names of policy, signers, revocation file and the
// client's configuration, of a directory above them, and of the root; and what
// is no directory where one of these directories must be.
func (g *guard) trust(path string) bool {
	p := g.c.policy
	rule := "signers-change"
	for i, guarded := range []string{policy.Path, policy.CloneConfig, p.Signers, p.Revoked, p.Root} {
		if guarded == "" {
			continue
		}
		if i == 4 {
			rule = envelope.RulePath
		}
		switch whole, exact := takenFor(path, guarded); {
		case whole == "":
		case !exact:
			g.refuse(rule, path, "some file systems take this path for "+finding.Quote(whole)+", which is guarded")
			return true
		case path == whole && whole != guarded && rule != envelope.RulePath:
			g.refuse(rule, path, "a directory is expected here, for "+finding.Quote(guarded))
			return true
		}
	}
	if rest, ok := strings.CutPrefix(path, p.Root+"/"); ok && p.Root != "" {
		if whole, exact := takenFor(rest, policy.CloneConfig); whole == policy.CloneConfig && !exact {
			g.refuse("clone-config", path, "some file systems take this path for "+finding.Quote(p.Under(whole))+", which is each clone's own")
			return true
		}
	}
	return false
}

// takenFor compares a path with a guarded one, and returns as much of that, by
// whole components, as some file system takes the begin of path for; exact
// tells that the path begins with just these bytes.
func takenFor(path, guarded string) (whole string, exact bool) {
	if path[0] != guarded[0] && strings.IndexByte(path, '\\') < 0 {
		if first, _, _ := strings.Cut(path, "/"); portable.Fold(first) == first && strings.IndexByte(first, '~') < 0 {
			return "", false // as nearly all are
		}
	}
	parts := portable.Parts(path)
	n := 0
	for rest := guarded; rest != "" && n < len(parts); n++ {
		part, after, more := strings.Cut(rest, "/")
		if !portable.Same(parts[n], part) {
			break
		}
		if whole = guarded; more {
			whole = guarded[:len(guarded)-len(after)-1]
		}
		rest = after
	}
	return whole, path == whole || strings.HasPrefix(path, whole+"/")
}

// besideThreads returns the component of a path that stands where the names of
// threads do; odd tells that some file system could take it for another one,
// which has the form of a thread's name.
func besideThreads(p *policy.Policy, path string) (name string, odd bool) {
	rest := path
	if p.Root != "" {
		var ok bool
		if rest, ok = strings.CutPrefix(path, p.Root+"/"); !ok {
			return "", false
		}
	}
	if strings.IndexByte(rest, '\\') >= 0 {
		return rest, true // its components are others on Windows
	}
	name, _, _ = strings.Cut(rest, "/")
	return name, strings.IndexByte(name, '~') >= 0 || portable.Fold(name) != name
}

// maxMistaken is how many directories are looked at that a short name may stand
// for. If none of so many is a thread, it is taken for one of a thread.
const maxMistaken = 64

// directory judges an odd name beside the threads: it is that of no thread. A
// commit that brings it may not, whatever was there before; a merge may not
// bring the two together.
func (g *guard) directory(name, path string, brought bool) error {
	p := g.c.policy
	see := func(thread string) (done bool, err error) {
		if !envelope.IsEnvelopePath(thread+"/x.md") || g.told[name+"/"+thread] {
			return false, nil
		}
		g.told[name+"/"+thread] = true
		ok, err := g.isThread(thread)
		if err != nil || !ok {
			return false, err
		}
		if !brought {
			ok, err := g.together(p.Under(name), thread)
			if err != nil || ok {
				return false, err
			}
		}
		g.refuse(envelope.RulePath, path, "some file systems take "+finding.Quote(name)+" for the thread "+finding.Quote(thread))
		return true, nil
	}
	first, _, _ := strings.Cut(portable.Fold(name), "/")
	if done, err := see(first); done || err != nil {
		return err
	}
	first = name
	if parts := portable.Parts(name); len(parts) > 0 {
		first = parts[0]
	}
	if _, ok := portable.ParseShort(first); !ok {
		return nil
	}
	if err := g.allNames(); err != nil {
		return err
	}
	looked := 0
	for thread := range g.dirNames.Twins(first) {
		done, err := see(thread)
		if done || err != nil {
			return err
		}
		if looked++; looked == maxMistaken {
			g.refuse(envelope.RulePath, path, "some file systems take "+finding.Quote(name)+" for one of many directories")
			return nil
		}
	}
	return nil
}

// thread judges a directory that a commit has an envelope in: no odd name that
// the commit's tree has beside it is taken for it, unless that was so before.
func (g *guard) thread(thread, path string) error {
	p := g.c.policy
	if g.told[thread] {
		return nil
	}
	g.told[thread] = true
	if err := g.oddDirectories(p); err != nil {
		return err
	}
	if g.dirNames != nil && !g.dirSeen[thread] {
		g.dirSeen[thread] = true
		g.dirNames.Add(thread)
	}
	dir := p.Under(thread)
	others := g.oddDirs[portable.Fold(dir)]
	for name := range g.oddNames.Twins(thread) {
		others = append(others[:len(others):len(others)], p.Under(name))
	}
	for _, other := range others {
		name := strings.TrimPrefix(other, p.Under(""))
		if other == dir || g.told[name+"/"+thread] {
			continue
		}
		ok, err := g.exists(g.c, other)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if ok, err = g.isThread(thread); err != nil || !ok {
			return err
		}
		if ok, err = g.together(other, thread); err != nil {
			return err
		}
		if !ok {
			g.refuse(envelope.RulePath, path, "some file systems take "+finding.Quote(other)+", which is there, for the thread "+finding.Quote(thread))
			return nil
		}
	}
	return nil
}

// isThread reports whether c's tree has an envelope in a directory.
func (g *guard) isThread(thread string) (bool, error) {
	if g.c.fenced[thread] {
		return true, nil
	}
	t, err := g.pass.thread(g.c.policy, thread)
	if err != nil {
		return false, err
	}
	for f, err := range t.all() {
		if err != nil {
			return false, err
		}
		e, ok, err := g.lookup(g.c, f.path)
		if err != nil || ok && e.Mode != gitrepo.ModeTree {
			return err == nil, err
		}
	}
	return false, nil
}

// together reports whether a parent of c has both a path and the thread.
func (g *guard) together(path, thread string) (bool, error) {
	for _, id := range g.c.parents {
		parent, err := g.Repo.Commit(id)
		if err != nil {
			return false, err
		}
		if _, ok, err := g.Repo.EntryAt(parent.Tree, path); err != nil || !ok {
			if err != nil {
				return false, err
			}
			continue
		}
		t, err := g.pass.thread(g.c.policy, thread)
		if err != nil {
			return false, err
		}
		for f, err := range t.all() {
			if err != nil {
				return false, err
			}
			if ok, err := g.present(f, parent.Tree); err != nil || ok {
				return ok, err
			}
		}
	}
	return false, nil
}

// allNames lists the names beside the threads, once: those of the commits just
// outside the range, and of the threads that were seen since.
func (g *guard) allNames() error {
	if g.dirNames != nil {
		return nil
	}
	p := g.c.policy
	names, seen := &portable.Shorts{}, map[string]bool{}
	for _, b := range g.walk.bounds {
		all, err := g.names(b.tree, p.Root)
		if err != nil {
			return err
		}
		for _, name := range all {
			if !seen[name] {
				seen[name] = true
				names.Add(name)
			}
		}
	}
	for dir := range g.threads {
		if name, ok := strings.CutPrefix(dir, p.Under("")); ok && !seen[name] {
			seen[name] = true
			names.Add(name)
		}
	}
	for _, ch := range g.c.brought {
		if ch.Deleted() || !p.Candidate(ch.Path) {
			continue
		}
		if name := p.ThreadOf(ch.Path); !seen[name] {
			seen[name] = true
			names.Add(name)
		}
	}
	g.dirNames, g.dirSeen = names, seen
	return nil
}

// twinOf tells of a twin of an envelope's path in its commit's tree.
func (ps *pass) twinOf(_ context.Context, c *commit, e *entry) error {
	if !e.judged {
		return nil
	}
	other, err := ps.twin(c, e.in, e.path)
	if err != nil {
		return err
	}
	ps.twins(c, e.path, other)
	return nil
}

// twinsTogether tells of twins of which one is no envelope's path, and of those
// that a merge brings together.
func (ps *pass) twinsTogether(ctx context.Context, c *commit) error {
	for _, s := range c.strangers {
		other, err := ps.twin(c, s.thread, s.path)
		if err != nil {
			return err
		}
		if c.policy.Candidate(other) {
			ps.twins(c, s.path, other)
		}
	}
	return ps.joined(ctx, c)
}

// joined tells of twins that a merge brings together: each came by a side of
// its own, and no side has both.
func (ps *pass) joined(ctx context.Context, c *commit) error {
	if len(c.diffs) < 2 {
		return nil
	}
	told := map[string]bool{} // by path
	for _, ch := range c.brought {
		told[ch.Path] = true
	}
	var lacks []map[string]bool // see addedTo
	for _, d := range c.diffs {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, ch := range d.Changes {
			if !ch.Added() || told[ch.Path] || !c.policy.Candidate(ch.Path) {
				continue
			}
			t, err := ps.thread(c.policy, c.policy.ThreadOf(ch.Path))
			if err != nil {
				return err
			}
			if !t.is {
				continue // no thread
			}
			other, err := ps.twin(c, t, ch.Path)
			if err != nil {
				return err
			}
			if other == "" || told[other] {
				continue
			}
			if lacks == nil {
				lacks = addedTo(c.diffs)
			}
			if !slices.ContainsFunc(lacks, func(paths map[string]bool) bool { return !paths[ch.Path] && !paths[other] }) {
				told[ch.Path], told[other] = true, true
				ps.twins(c, ch.Path, other)
			}
		}
	}
	return nil
}

// addedTo returns what each parent of a merge has not of it.
func addedTo(diffs []gitrepo.Diff) (lacks []map[string]bool) {
	for _, d := range diffs {
		paths := map[string]bool{}
		for _, ch := range d.Changes {
			if ch.Added() {
				paths[ch.Path] = true
			}
		}
		lacks = append(lacks, paths)
	}
	return lacks
}

func (ps *pass) twins(c *commit, path, other string) {
	if other == "" {
		return
	}
	f := envelope.Twin(other)
	f.Path = path
	ps.tell(c, f)
}

// A stranger is a path that is no envelope's, but would be if names were
// folded.
type stranger struct {
	path   string
	thread *thread
}

// noteNames makes the names that a commit brings known, each to the thread that
// a file system could put it in, and keeps those that are no envelopes.
func (ps *pass) noteNames(c *commit) error {
	for _, ch := range c.brought {
		if ch.Deleted() {
			continue
		}
		p, ok := ch.Path, c.policy.Candidate(ch.Path)
		rest, _ := c.policy.Below(p)
		if !ok {
			var place bool
			if p, place = envelopePlace(c.policy, ch.Path); !place {
				continue
			}
			rest, _ = belowFolded(c.policy, portable.Fold(p))
		}
		name, _, _ := strings.Cut(rest, "/")
		t, err := ps.thread(c.policy, name)
		if err != nil {
			return err
		}
		t.note(p)
		if !ok && ch.Added() {
			c.strangers = append(c.strangers, stranger{p, t})
		}
	}
	return nil
}

// envelopePlace returns the begin of a path that has as many components as an
// envelope's; ok reports whether a file system could take it for one. A directory
// takes an envelope's place as a file does.
func envelopePlace(p *policy.Policy, path string) (place string, ok bool) {
	if strings.IndexByte(path, '\\') >= 0 {
		place = path
	} else {
		n := 2
		if p.Root != "" {
			n += 1 + strings.Count(p.Root, "/")
		}
		for i := range len(path) + 1 {
			if i == len(path) || path[i] == '/' {
				if n--; n == 0 {
					place = path[:i]
					break
				}
			}
		}
	}
	if place == "" {
		return "", false
	}
	_, ok = belowFolded(p, portable.Fold(place))
	return place, ok
}
