package rules

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// A fake is a repository in memory: objects are git's, and every answer is
// found in the plainest way. TestFakeIsLikeGit holds it equal to a real one.
type fake struct {
	objects map[string]gitrepo.Object
	shallow map[string]bool
	config  map[string]string
	reads   int // objects that Objects and Heads were asked for
}

func (f *fake) write(typ string, data []byte) string {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", typ, len(data), data))
	id := hex.EncodeToString(sum[:])
	f.objects[id] = gitrepo.Object{ID: id, Type: typ, Size: int64(len(data)), Data: data}
	return id
}

// A file is an entry of a flat tree.
type file struct {
	mode gitrepo.Mode
	id   string
}

// writeTree writes files, by path, as nested trees.
func (f *fake) writeTree(files map[string]file) string {
	entries, below := map[string]file{}, map[string]map[string]file{}
	for path, e := range files {
		dir, rest, nested := strings.Cut(path, "/")
		if !nested {
			entries[path] = e
			continue
		}
		if below[dir] == nil {
			below[dir] = map[string]file{}
		}
		below[dir][rest] = e
	}
	for dir, files := range below {
		entries[dir] = file{gitrepo.ModeTree, f.writeTree(files)}
	}
	key := func(name string) string {
		if entries[name].mode == gitrepo.ModeTree {
			return name + "/"
		}
		return name
	}
	var raw bytes.Buffer
	for _, name := range slices.SortedFunc(maps.Keys(entries), func(a,
		b string) int {
		return cmp.Compare(key(a), key(b))
	}) {
		id, _ := hex.DecodeString(entries[name].id)
		fmt.Fprintf(&raw, "%o %s\x00%s", entries[name].mode, name, id)
	}
	return f.write("tree", raw.Bytes())
}

// flat returns all files of a tree by path.
func (f *fake) flat(tree string) map[string]file {
	files := map[string]file{}
	for name, e := range f.entries(tree) {
		if e.mode != gitrepo.ModeTree {
			files[name] = e
			continue
		}
		for path, below := range f.flat(e.id) {
			files[name+"/"+path] = below
		}
	}
	return files
}

func (f *fake) object(id string, limit int64) gitrepo.Object {
	o, ok := f.objects[id]
	switch {
	case !ok:
		return gitrepo.Object{ID: id, Err: gitrepo.ErrMissing}
	case o.Size > limit:
		o.Data, o.Err = nil, gitrepo.ErrTooLarge
	}
	return o
}

func (f *fake) ObjectFormat() string { return "sha1" }

func (f *fake) Objects(ids []string, limit int64, fn func(gitrepo.Object) error) error {
	f.reads += len(ids)
	for _, id := range ids {
		if err := fn(f.object(id, limit)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Heads(ids []string, most int64, fn func(gitrepo.Object) error) error {
	return f.Objects(ids, 1<<40, func(o gitrepo.Object) error {
		o.Data = o.Data[:min(int64(len(o.Data)), most)]
		return fn(o)
	})
}

func (f *fake) Commit(id string) (*gitrepo.Commit, error) {
	o := f.object(id, 1<<40)
	if o.Err != nil {
		return nil, o.Err
	}
	return gitrepo.ParseCommit(id, o.Data)
}

func (f *fake) EachCommit(ids []string, fn func(*gitrepo.Commit) error) error {
	for _, id := range ids {
		c, err := f.Commit(id)
		if err == nil {
			err = fn(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Tree(id string) (*gitrepo.Tree, error) {
	o := f.object(id, 1<<40)
	if o.Err != nil {
		return nil, o.Err
	}
	return gitrepo.ParseTree(id, o.Data)
}

func (f *fake) EntryAt(root, path string) (gitrepo.TreeEntry, bool, error) {
	dir, rest, nested := strings.Cut(path, "/")
	t, err := f.Tree(root)
	if err != nil {
		return gitrepo.TreeEntry{}, false, err
	}
	e, ok := t.Lookup(dir)
	if !ok || !nested {
		return e, ok, nil
	}
	if e.Mode != gitrepo.ModeTree {
		return gitrepo.TreeEntry{}, false, nil
	}
	return f.EntryAt(e.ID, rest)
}

func (f *fake) DiffTrees(old, new string) (changes []gitrepo.Change, err error) {
	f.diff("", old, new, &changes)
	slices.SortFunc(changes, func(a, b gitrepo.Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, nil
}

// diff appends what differs between two trees, "" for none. Trees that are equal
// are not looked at.
func (f *fake) diff(dir, old, new string, changes *[]gitrepo.Change) {
	was, is := f.entries(old), f.entries(new)
	for name := range was {
		if _, there := is[name]; !there {
			is[name] = file{}
		}
	}
	for name, now := range is {
		then := was[name]
		if then == now {
			continue
		}
		oldTree, newTree := "", ""
		ch := gitrepo.Change{Path: dir + name, OldMode: then.mode, OldID: then.id, NewMode: now.mode, NewID: now.id}
		if then.mode == gitrepo.ModeTree {
			oldTree, ch.OldMode, ch.OldID = then.id, gitrepo.ModeNone, ""
		}
		if now.mode == gitrepo.ModeTree {
			newTree, ch.NewMode, ch.NewID = now.id, gitrepo.ModeNone, ""
		}
		if oldTree != newTree {
			f.diff(dir+name+"/", oldTree, newTree, changes)
		}
		if ch.OldMode != ch.NewMode || ch.OldID != ch.NewID {
			*changes = append(*changes, ch)
		}
	}
}

func (f *fake) entries(tree string) map[string]file {
	entries := map[string]file{}
	if tree == "" {
		return entries
	}
	t, err := f.Tree(tree)
	if err != nil {
		panic(err)
	}
	for e := range t.Entries() {
		entries[e.Name] = file{e.Mode, e.ID}
	}
	return entries
}

// reach returns what can be reached from commits, children before parents.
func (f *fake) reach(ids []string) (all []gitrepo.Rev, err error) {
	seen := map[string]bool{}
	var visit func(id string) error
	visit = func(id string) error {
		if seen[id] {
			return nil
		}
		seen[id] = true
		c, err := f.Commit(id)
		var bad *gitrepo.MalformedCommitError
		if errors.As(err, &bad) {
			c, err = &gitrepo.Commit{}, nil // git reads it in its own way
		}
		if err != nil {
			return err
		}
		for _, p := range c.Parents {
			if err := visit(p); err != nil {
				return err
			}
		}
		all = append(all, gitrepo.Rev{ID: id, Parents: c.Parents})
		return nil
	}
	for _, id := range ids {
		if err := visit(id); err != nil {
			return nil, err
		}
	}
	slices.Reverse(all)
	return all, nil
}

func (f *fake) RevList(_ context.Context, include, exclude []string,
	o gitrepo.RevListOptions) iter.Seq2[gitrepo.Rev, error] {
	return func(yield func(gitrepo.Rev, error) bool) {
		without, err := f.reach(exclude)
		var all []gitrepo.Rev
		if err == nil {
			all, err = f.reach(include)
		}
		if err != nil {
			yield(gitrepo.Rev{}, err)
			return
		}
		excluded := map[string]bool{}
		for _, r := range without {
			excluded[r.ID] = true
		}
		all = slices.DeleteFunc(all, func(r gitrepo.Rev) bool { return excluded[r.ID] })
		if o.Reverse {
			slices.Reverse(all)
		}
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (f *fake) ScanCommits(_ context.Context, walk iter.Seq2[gitrepo.Rev, error], o gitrepo.ScanOptions,
	fn func(*gitrepo.Scanned) error) error {
	for rev, err := range walk {
		if err != nil {
			return err
		}
		c, err := f.Commit(rev.ID)
		if err != nil {
			return err
		}
		s := &gitrepo.Scanned{Commit: c}
		parents := c.Parents
		if len(parents) == 0 {
			parents = []string{""}
		}
		for _, p := range parents {
			old := ""
			if p != "" {
				parent, err := f.Commit(p)
				if err != nil {
					return err
				}
				old = parent.Tree
			}
			changes, err := f.DiffTrees(old, c.Tree)
			if err != nil {
				return err
			}
			for _, ch := range changes {
				if !ch.Deleted() && ch.NewMode != gitrepo.ModeGitlink && o.Blob(c, ch) {
					s.Blobs = append(s.Blobs, f.object(ch.NewID, o.BlobLimit))
				}
			}
			s.Diffs = append(s.Diffs, gitrepo.Diff{Parent: p, Changes: changes})
		}
		slices.SortFunc(s.Blobs, func(a, b gitrepo.Object) int { return strings.Compare(a.ID, b.ID) })
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Line(new, old string) ([]gitrepo.Rev, bool) { return nil, false }

func (f *fake) CutIn([]gitrepo.Rev, []string) error { return nil }

func (f *fake) MergeBases(ctx context.Context, a, b string) (bases []string, err error) {
	of, err := f.reach([]string{a})
	if err != nil {
		return nil, err
	}
	for _, r := range of {
		if ok, err := f.IsAncestor(ctx, r.ID, b); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		best := true
		for _, other := range bases {
			if ok, _ := f.IsAncestor(ctx, r.ID, other); ok {
				best = false
			}
		}
		if best {
			bases = append(bases, r.ID)
		}
	}
	return bases, nil
}

func (f *fake) IsAncestor(_ context.Context, a, b string) (bool, error) {
	of, err := f.reach([]string{b})
	return slices.ContainsFunc(of, func(r gitrepo.Rev) bool { return r.ID == a }), err
}

func (f *fake) ResolvePrefix(prefix string) (ids []string, err error) {
	for id := range f.objects {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (f *fake) Has(ids []string) (types []string, err error) {
	for _, id := range ids {
		types = append(types, f.objects[id].Type)
	}
	return types, nil
}

func (f *fake) Shallow() (map[string]bool, error) { return f.shallow, nil }

// What a policy.Loader needs besides.

func (f *fake) Blob(id string, limit int64) ([]byte, error) {
	o := f.object(id, limit)
	return o.Data, o.Err
}

func (f *fake) ConfigLast(key string) (value string, set bool, err error) {
	value, set = f.config[key]
	return value, set, nil
}
