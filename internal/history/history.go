// Package history answers what a whole history holds at the cost of a push:
// which envelope has used a nonce before.
//
// The answer is exact. Behind it is a derived index in the repository's own
// directory that can be deleted at any time: it knows, for a set of commits,
// the nonces of all envelopes in their histories. What it says was used is
// verified in the objects before it is told; what it has not covered is read;
// and a file that is torn, of another version or of another object format is
// as good as none. Two processes may use it at once, and one that may not
// write it only pays more.
package history

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// Repo is what the index needs of a repository. *gitrepo.Repo is one.
type Repo interface {
	ObjectFormat() string
	AllObjects(ctx context.Context, fn func(id, typ string, size int64) error) error
	Heads(ids []string, most int64, fn func(gitrepo.Object) error) error
	RevList(ctx context.Context, include, exclude []string, o gitrepo.RevListOptions) iter.Seq2[gitrepo.Rev, error]
	ScanCommits(ctx context.Context, walk iter.Seq2[gitrepo.Rev, error], o gitrepo.ScanOptions, fn func(*gitrepo.Scanned) error) error
	Commit(id string) (*gitrepo.Commit, error)
	DiffCommit(c *gitrepo.Commit) ([]gitrepo.Diff, error)
	DiffTrees(old, new string) ([]gitrepo.Change, error)
	Tree(id string) (*gitrepo.Tree, error)
	IsAncestor(ctx context.Context, a, b string) (bool, error)
	Has(ids []string) (types []string, err error)
	ConfigLast(key string) (value string, set bool, err error)
}

// A Hit is an older envelope with a nonce.
type Hit struct {
	Path   string
	Blob   string
	Commit string // that brought it; "" if only the tree was looked at
}

// An Index finds envelopes by nonce.
type Index struct {
	Repo Repo
	// Dir is where the index is kept, "" for nowhere. Its files are read and,
	// by Save, written; a failure of either costs time only.
	Dir string
	// Envelope reports whether an envelope may lie at a path, by the policy.
	Envelope func(path string) bool
	// Frontmatter is up to how many bytes of front matter are read for a nonce;
	// 0 stands for 1 MiB. It is not a limit of a policy: what was accepted under a
	// higher one has used its nonce.
	Frontmatter int64

	scope  [32]byte // of what Envelope takes
	loaded bool
	state  state
	dirty  bool // differs from what is stored
	built  bool // base has not been stored yet
}

// Use sets Envelope and Frontmatter. scope names both in some words: an index
// that was made for another scope is made anew.
func (x *Index) Use(scope string, envelope func(path string) bool, frontmatter int64) {
	sum := sha256.Sum256([]byte(scope))
	if x.loaded && sum != x.scope {
		x.loaded, x.dirty, x.built = false, false, false
	}
	x.scope, x.Envelope, x.Frontmatter = sum, envelope, frontmatter
}

// maxGap is how many commits the index may lag behind before it is cheaper to
// build it anew from all objects.
const maxGap = 2000

// Find returns, for each nonce, the envelopes in the histories of tips that
// have it. An error means that it could not be decided.
func (x *Index) Find(ctx context.Context, nonces []string, tips []string) (map[string][]Hit, error) {
	if err := x.cover(ctx, tips); err != nil {
		return nil, err
	}
	found := map[string][]Hit{}
	for _, nonce := range nonces {
		for _, e := range x.state.find(key(nonce)) {
			hit, ok, err := x.verify(ctx, nonce, e, tips)
			if err != nil {
				return nil, err
			}
			if ok && !slices.Contains(found[nonce], hit) {
				found[nonce] = append(found[nonce], hit)
			}
		}
	}
	return found, nil
}

// key is what the index stores of a nonce.
func key(nonce string) (k [16]byte) {
	sum := sha256.Sum256([]byte(nonce))
	copy(k[:], sum[:])
	return k
}

// cover makes the index know the histories of tips.
func (x *Index) cover(ctx context.Context, tips []string) error {
	x.load()
	x.loadBase()
	missing := slices.DeleteFunc(slices.Clone(tips), x.state.covers)
	if len(missing) == 0 {
		return nil
	}
	base, err := x.present(x.state.tips)
	if err != nil {
		return err
	}
	if len(base) > 0 {
		var walk []gitrepo.Rev
		for rev, err := range x.Repo.RevList(ctx, missing, base, gitrepo.RevListOptions{Max: maxGap + 1}) {
			if err != nil {
				return err
			}
			walk = append(walk, rev)
		}
		if len(walk) <= maxGap {
			if err := x.scan(ctx, walk); err != nil {
				return err
			}
			x.state.addTips(missing)
			x.dirty = true
			return nil
		}
	}
	return x.rebuild(ctx, tips)
}

// present returns those commits that the repository has: the tip of a push
// that was refused may have been covered and be gone.
func (x *Index) present(ids []string) ([]string, error) {
	types, err := x.Repo.Has(ids)
	if err != nil {
		return nil, err
	}
	var there []string
	for i, id := range ids {
		if types[i] == "commit" {
			there = append(there, id)
		}
	}
	return there, nil
}

// scan adds the envelopes that commits bring.
func (x *Index) scan(ctx context.Context, walk []gitrepo.Rev) error {
	return x.Repo.ScanCommits(ctx, gitrepo.Listed(walk), gitrepo.ScanOptions{}, func(s *gitrepo.Scanned) error {
		var blobs []string
		for _, d := range s.Diffs {
			for _, ch := range d.Changes {
				if !ch.Deleted() && ch.NewMode != gitrepo.ModeGitlink && strings.HasSuffix(ch.Path, ".md") {
					blobs = append(blobs, ch.NewID)
				}
			}
		}
		slices.Sort(blobs)
		return x.heads(slices.Compact(blobs), func(o gitrepo.Object) error {
			if nonce, ok := x.nonceOf(o); ok {
				x.state.add(record{key: key(nonce), blob: o.ID, commit: s.ID})
			}
			return o.Err
		})
	})
}

// frontmatter is Index.Frontmatter where that is not set.
const frontmatter = 1 << 20

// heads reads the beginnings of blobs, with all of their front matter.
func (x *Index) heads(blobs []string, fn func(gitrepo.Object) error) error {
	return x.Repo.Heads(blobs, envelope.HeadBytes(cmp.Or(x.Frontmatter, frontmatter)), fn)
}

// nonceOf returns the nonce of an envelope, of any size.
func (x *Index) nonceOf(o gitrepo.Object) (string, bool) {
	data, ok := envelope.Head(o.Data, o.Size)
	// The key may be written with escapes between double quotes.
	if !ok || !bytes.Contains(data, []byte("nonce")) && !bytes.ContainsRune(data, '\\') {
		return "", false
	}
	env, _ := envelope.Parse(data, envelope.Options{Limits: envelope.Limits{File: int64(len(data)) + 1, Frontmatter: cmp.Or(x.Frontmatter, frontmatter), LoneCR: true}})
	if env == nil || env.Nonce == "" {
		return "", false
	}
	return env.Nonce, true
}

// ErrBuilding is joined to the error of a Find that was cut short while it read
// the whole history, which only a repository without an index needs.
var ErrBuilding = errors.New("the nonces of the whole history were being read for the first time")

// rebuild makes the index anew from every object of the repository, which is
// more than the histories of tips hold: what is not in these is left out.
func (x *Index) rebuild(ctx context.Context, tips []string) error {
	if partial, _, err := x.Repo.ConfigLast("extensions.partialclone"); err != nil {
		return err
	} else if partial != "" {
		return &gitrepo.Error{Kind: gitrepo.ErrMissing, Message: "this partial clone does not have all envelopes, so no nonce is known to be new", Hint: "git fetch --refetch --no-filter"}
	}
	if err := x.build(ctx, tips); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(err, ErrBuilding)
		}
		return err
	}
	x.state.addTips(tips)
	x.dirty = true
	return nil
}

func (x *Index) build(ctx context.Context, tips []string) error {
	// Every commit must be there; a walk tells if one is not.
	for _, err := range x.Repo.RevList(ctx, tips, nil, gitrepo.RevListOptions{}) {
		if err != nil {
			return err
		}
	}
	x.state = state{format: x.Repo.ObjectFormat(), base: []byte{}}
	x.built = true
	bearers, err := x.bearers(ctx)
	if err != nil || len(bearers) == 0 {
		return err
	}
	// Nearly all lie in the trees of all tips; a walk finds where the others do,
	// if in this history at all: they may be of a push that was refused, or of
	// a branch that is not among tips. What only some tips have gets its commit,
	// or a question about the others would have to walk.
	had := map[string]int{}
	for n, tip := range tips {
		c, err := x.Repo.Commit(tip)
		if err != nil {
			return err
		}
		err = x.files(c.Tree, func(ch gitrepo.Change) {
			if _, ok := bearers[ch.NewID]; !ok || had[ch.NewID] != n || !x.Envelope(ch.Path) {
				return
			}
			if had[ch.NewID]++; n == len(tips)-1 {
				x.place(bearers, ch, "")
			}
		})
		if err != nil && !errors.Is(err, gitrepo.ErrTooLarge) {
			return err
		}
	}
	if len(bearers) == 0 {
		return nil
	}
	err = x.Repo.ScanCommits(ctx, x.Repo.RevList(ctx, tips, nil, gitrepo.RevListOptions{}), gitrepo.ScanOptions{}, func(s *gitrepo.Scanned) error {
		for _, d := range s.Diffs {
			for _, ch := range d.Changes {
				// Several tips may have it by commits of their own.
				if blob, nonce := ch.NewID, bearers[ch.NewID]; x.place(bearers, ch, s.ID) && len(tips) > 1 {
					bearers[blob] = nonce
				}
			}
		}
		if len(bearers) == 0 {
			return errPlaced
		}
		return nil
	})
	if errors.Is(err, errPlaced) {
		err = nil
	}
	return err
}

// files calls fn for each file of a tree, by its path. It holds those of one directory
// at a time: a large repository has many threads. The error is ErrTooLarge where
// DiffTrees against nothing would say so.
func (x *Index) files(tree string, fn func(gitrepo.Change)) error {
	left := gitrepo.MaxChanges
	return x.filesBelow(tree, "", &left, fn)
}

func (x *Index) filesBelow(tree, prefix string, left *int, fn func(gitrepo.Change)) error {
	t, err := x.Repo.Tree(tree)
	if err != nil {
		return err
	}
	dirs := 0
	for e := range t.Entries() {
		if e.Mode == gitrepo.ModeTree {
			dirs++
		}
	}
	few := dirs <= fewDirs && strings.Count(prefix, "/") < fewDirs // they may be on the way to the threads
	for e := range t.Entries() {
		if *left--; *left < 0 {
			return &gitrepo.Error{Kind: gitrepo.ErrTooLarge, Message: fmt.Sprintf("more than %d paths in a tree", gitrepo.MaxChanges)}
		}
		path := prefix + e.Name
		if e.Mode != gitrepo.ModeTree {
			fn(gitrepo.Change{Path: path, NewMode: e.Mode, NewID: e.ID})
			continue
		}
		if few {
			err = x.filesBelow(e.ID, path+"/", left, fn)
		} else {
			var all []gitrepo.Change
			all, err = x.Repo.DiffTrees("", e.ID)
			*left -= len(all)
			for _, ch := range all {
				ch.Path = path + "/" + ch.Path
				fn(ch)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fewDirs is up to how many directories beside each other, and below each other, may
// be those above all threads.
const fewDirs = 8

var errPlaced = errors.New("all are placed")

// place records a bearer that a change shows at an envelope's path, takes it out
// of bearers and says so.
func (x *Index) place(bearers map[string]string, ch gitrepo.Change, commit string) bool {
	nonce, ok := bearers[ch.NewID]
	if ok = ok && x.Envelope(ch.Path); ok {
		x.state.add(record{key: key(nonce), blob: ch.NewID, commit: commit})
		delete(bearers, ch.NewID)
	}
	return ok
}

// bearers returns the nonce of each blob of the repository that has one.
func (x *Index) bearers(ctx context.Context) (map[string]string, error) {
	bearers := map[string]string{}
	var blobs []string
	flush := func() error {
		err := x.heads(blobs, func(o gitrepo.Object) error {
			if nonce, ok := x.nonceOf(o); ok {
				bearers[o.ID] = nonce
			}
			return o.Err
		})
		blobs = blobs[:0]
		return err
	}
	err := x.Repo.AllObjects(ctx, func(id, typ string, size int64) error {
		if typ != "blob" || size < 8 {
			return nil
		}
		if blobs = append(blobs, id); len(blobs) == 4096 {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	return bearers, err
}

// verify finds where an entry of the index lies in the histories of tips; ok is
// false if nowhere.
func (x *Index) verify(ctx context.Context, nonce string, e record, tips []string) (hit Hit, ok bool, err error) {
	err = x.heads([]string{e.blob}, func(o gitrepo.Object) error {
		if o.Err != nil {
			if errors.Is(o.Err, gitrepo.ErrMissing) {
				return nil // of a push that was refused
			}
			return o.Err
		}
		n, is := x.nonceOf(o)
		ok = is && n == nonce
		return nil
	})
	if err != nil || !ok {
		return Hit{}, false, err
	}
	if e.commit != "" {
		return x.inCommit(ctx, e, tips)
	}
	ok = false
	for _, tip := range tips {
		c, err := x.Repo.Commit(tip)
		if err != nil {
			return Hit{}, false, err
		}
		err = x.files(c.Tree, func(ch gitrepo.Change) {
			if !ok && ch.NewID == e.blob && x.Envelope(ch.Path) {
				hit, ok = Hit{Path: ch.Path, Blob: e.blob}, true
			}
		})
		if err != nil || ok {
			return hit, ok, err
		}
	}
	return x.walkFor(ctx, e, tips)
}

// inCommit verifies an entry whose commit is known.
func (x *Index) inCommit(ctx context.Context, e record, tips []string) (Hit, bool, error) {
	if there, err := x.present([]string{e.commit}); err != nil || len(there) == 0 {
		return Hit{}, false, err
	}
	reached := false
	for _, tip := range tips {
		ok, err := x.Repo.IsAncestor(ctx, e.commit, tip)
		if err != nil {
			return Hit{}, false, err
		}
		if reached = ok; ok {
			break
		}
	}
	if !reached {
		return Hit{}, false, nil
	}
	c, err := x.Repo.Commit(e.commit)
	if err != nil {
		return Hit{}, false, err
	}
	diffs, err := x.Repo.DiffCommit(c)
	if err != nil {
		return Hit{}, false, err
	}
	for _, d := range diffs {
		for _, ch := range d.Changes {
			if ch.NewID == e.blob && x.Envelope(ch.Path) {
				return Hit{Path: ch.Path, Blob: e.blob, Commit: e.commit}, true, nil
			}
		}
	}
	return Hit{}, false, nil
}

// walkFor looks an entry up commit by commit: it is neither in a tip's tree nor
// known by its commit.
func (x *Index) walkFor(ctx context.Context, e record, tips []string) (hit Hit, ok bool, err error) {
	stop := errors.New("found")
	err = x.Repo.ScanCommits(ctx, x.Repo.RevList(ctx, tips, nil, gitrepo.RevListOptions{}), gitrepo.ScanOptions{}, func(s *gitrepo.Scanned) error {
		for _, d := range s.Diffs {
			for _, ch := range d.Changes {
				if ch.NewID == e.blob && x.Envelope(ch.Path) {
					hit, ok = Hit{Path: ch.Path, Blob: e.blob, Commit: s.ID}, true
					return stop
				}
			}
		}
		return nil
	})
	if errors.Is(err, stop) {
		err = nil
	}
	return hit, ok, err
}
