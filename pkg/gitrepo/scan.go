package gitrepo

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
)

// ScanOptions says what ScanCommits reads ahead.
type ScanOptions struct {
	// Blob chooses blobs to be read together with the commit: it is called
	// for every Change with a new side that is not a gitlink. nil: none. It runs
	// beside the caller's function.
	Blob      func(c *Commit, change Change) bool
	BlobLimit int64 // in bytes; a larger blob comes as ErrTooLarge
	// BlobBytes is after how many bytes of blobs no more are read ahead, of
	// commits that are read together; 0: no limit. What is not in Scanned.Blobs
	// then is left to the caller: a few small blobs may stand for many large
	// ones in a pack.
	BlobBytes int64
	BlobCount int // the same in blobs; 0: no limit
}

// A Scanned is a commit with what it changes.
type Scanned struct {
	*Commit
	Diffs []Diff // against each parent, in order; see DiffCommit
	Blobs Blobs  // what ScanOptions.Blob chose, by NewID; read-only
}

// Blobs are objects, sorted by their ids. Most commits have one.
type Blobs []Object

// Get returns the one with that id.
func (b Blobs) Get(id ID) (o Object, ok bool) {
	i, ok := slices.BinarySearchFunc(b, id, func(o Object, id ID) int { return strings.Compare(o.ID, id) })
	if ok {
		o = b[i]
	}
	return o, ok
}

// How many commits are read together. The number doubles from chunk to chunk, so
// that a walk which ends early has not read far ahead, and follows the weight
// of their trees, so that a chunk holds about chunkBytes.
const (
	firstChunk = 32
	maxChunk   = 512
	chunkBytes = 4 << 20
)

// Listed yields revs, as a walk for ScanCommits.
func Listed(revs []Rev) iter.Seq2[Rev, error] {
	return func(yield func(Rev, error) bool) {
		for _, rev := range revs {
			if !yield(rev, nil) {
				return
			}
		}
	}
}

// ScanCommits calls fn for each commit of a walk, in its order, with what it
// changes against each parent. The next commits are read and compared while fn
// works, and walk is ranged over, in another goroutine, and blobs of a long walk
// are read in a third one; fn may use the Repo. The first error, of the walk, of
// reading or of fn, ends the scan and is returned.
func (r *Repo) ScanCommits(ctx context.Context, walk iter.Seq2[Rev, error], opt ScanOptions, fn func(*Scanned) error) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &scan{Repo: r, ctx: ctx, opt: opt, results: make(chan portion), done: make(chan struct{})}
	defer func() { // nothing reads on behind the caller's back
		cancel()
		for range s.results {
		}
	}()
	go func() {
		defer close(s.results)
		defer s.close()
		s.all(walk)
	}()
	for res := range s.results {
		if res.err != nil {
			return res.err
		}
		for _, c := range res.scanned {
			if err := ctx.Err(); err != nil {
				return failure(ctx, "the walk", nil, err)
			}
			if err := fn(c); err != nil {
				return err
			}
		}
		if weighs(res.scanned) > chunkChanges {
			res.scanned = nil
			select {
			case s.done <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}
	if ctx.Err() != nil {
		return failure(ctx, "the walk", nil, ctx.Err())
	}
	return nil
}

// A scan reads ahead for ScanCommits.
type scan struct {
	*Repo
	ctx     context.Context
	opt     ScanOptions
	results chan portion
	done    chan struct{} // tells that a heavy portion was used

	compared chan portion  // what blobs are still to be read of; nil: they are read at once
	ended    chan struct{} // closed when there will be no more of these
}

// A portion is what was read of some commits together, or why it cannot be.
type portion struct {
	scanned []*Scanned
	err     error
}

// all reads the commits of a walk.
func (s *scan) all(walk iter.Seq2[Rev, error]) {
	size := firstChunk
	known := make(map[ID]*Commit)
	var revs []Rev
	flush := func() bool {
		for len(revs) > 0 {
			before := s.cat.bytesRead()
			scanned, err := s.scanRevs(revs, known)
			n, heavy := len(scanned), weighs(scanned) > chunkChanges
			if n == 0 && err == nil {
				err = errors.New("no commit of a walk was read") // never
			}
			if !s.send(portion{scanned, err}) {
				return false
			}
			if weight := (s.cat.bytesRead() - before) / int64(n); weight > 0 {
				size = int(max(8, min(maxChunk, 2*int64(size), chunkBytes/weight)))
			}
			// Parents are mostly near; older ones are read again.
			if len(known) > 2*maxChunk {
				clear(known)
			}
			scanned = nil
			if heavy { // nothing is read ahead beside it
				select {
				case <-s.done:
				case <-s.ctx.Done():
					return false
				}
			}
			revs = revs[n:]
		}
		revs = revs[:0]
		return true
	}
	for rev, err := range walk {
		if err != nil {
			if flush() {
				s.send(portion{err: err})
			}
			return
		}
		if revs = append(revs, rev); len(revs) >= size {
			s.apart()
			if !flush() {
				return
			}
		}
		if s.ctx.Err() != nil {
			return
		}
	}
	flush()
}

// apart has blobs read beside the next commits and their trees.
func (s *scan) apart() {
	if s.compared != nil || s.opt.Blob == nil {
		return
	}
	s.compared, s.ended = make(chan portion), make(chan struct{})
	go func() {
		defer close(s.ended)
		for p := range s.compared {
			if !s.finish(p) {
				break
			}
		}
	}()
}

// close ends what apart has begun.
func (s *scan) close() {
	if s.compared != nil {
		close(s.compared)
		<-s.ended
	}
}

// send passes a portion on; false says that no more is wanted.
func (s *scan) send(p portion) bool {
	if s.compared == nil {
		return s.finish(p)
	}
	select {
	case s.compared <- p:
		return p.err == nil
	case <-s.ended:
	case <-s.ctx.Done():
	}
	return false
}

// finish reads the blobs of a portion and hands it to the caller.
func (s *scan) finish(p portion) bool {
	if p.err == nil && s.opt.Blob != nil {
		p.err = s.readBlobs(p.scanned, s.opt)
	}
	select {
	case s.results <- p:
		return p.err == nil
	case <-s.ctx.Done():
		return false
	}
}

// chunkChanges is about how many changes the commits have that are read together.
const chunkChanges = 1 << 16

// weighs counts what commits change.
func weighs(scanned []*Scanned) (changes int) {
	for _, s := range scanned {
		for _, d := range s.Diffs {
			changes += len(d.Changes)
		}
	}
	return changes
}

// scanRevs reads the first commits of a walk and what they change: all of them,
// or as many as weigh little enough to be held together.
func (r *Repo) scanRevs(revs []Rev, known map[ID]*Commit) ([]*Scanned, error) {
	ids := make([]ID, len(revs))
	for i, rev := range revs {
		ids[i] = rev.ID
	}
	commits, err := r.learn(ids, known)
	if err != nil {
		return nil, err
	}
	var scanned []*Scanned
	for n := len(commits); ; n = max(1, n/4) {
		most := chunkChanges
		if n == 1 {
			most = MaxChanges
		}
		if scanned, err = r.scanChunk(commits[:n], known, most); n == 1 || !errors.Is(err, ErrTooLarge) {
			break
		}
	}
	return scanned, err
}

// learn returns the first commits of ids, with their bytes: all, or as many as
// have about chunkBytes. Those that are not known are read into known.
func (r *Repo) learn(ids []ID, known map[ID]*Commit) ([]*Commit, error) {
	var unknown []ID
	asked := make(map[ID]bool)
	for _, id := range ids {
		if c := known[id]; (c == nil || c.Raw == nil) && !asked[id] {
			asked[id] = true
			unknown = append(unknown, id)
		}
	}
	bytes := 0
	err := r.EachCommit(unknown, func(c *Commit) error {
		known[c.ID] = c
		if bytes += len(c.Raw); bytes > chunkBytes {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	var commits []*Commit
	for _, id := range ids {
		c := known[id]
		if c == nil || c.Raw == nil {
			break
		}
		commits = append(commits, c)
	}
	return commits, nil
}

// learnParents reads commits that are not known yet, but keeps of them no more
// than what they name: a commit may have very many parents.
func (r *Repo) learnParents(ids []ID, known map[ID]*Commit) error {
	var unknown []ID
	asked := make(map[ID]bool)
	for _, id := range ids {
		if known[id] == nil && !asked[id] {
			asked[id] = true
			unknown = append(unknown, id)
		}
	}
	return r.EachCommit(unknown, func(c *Commit) error {
		known[c.ID] = &Commit{ID: c.ID, Tree: c.Tree}
		return nil
	})
}

// scanChunk compares commits with their parents, all together. Parents that
// are not known are read into known. It is an ErrTooLarge if they change more
// than most paths.
func (r *Repo) scanChunk(commits []*Commit, known map[ID]*Commit, most int) ([]*Scanned, error) {
	var parents []ID
	for _, c := range commits {
		parents = append(parents, c.Parents...)
	}
	if err := r.learnParents(parents, known); err != nil {
		return nil, r.orCut(err)
	}
	var diffs []treeDiff
	for _, c := range commits {
		for _, p := range c.Parents {
			diffs = append(diffs, treeDiff{old: known[p].Tree, new: c.Tree})
		}
		if len(c.Parents) == 0 {
			diffs = append(diffs, treeDiff{new: c.Tree})
		}
	}
	if err := r.diff(diffs, most); err != nil {
		return nil, err
	}
	scanned := make([]*Scanned, len(commits))
	for i, c := range commits {
		s := &Scanned{Commit: c}
		for _, p := range c.Parents {
			s.Diffs = append(s.Diffs, Diff{Parent: p, Changes: diffs[0].changes})
			diffs = diffs[1:]
		}
		if len(c.Parents) == 0 {
			s.Diffs = append(s.Diffs, Diff{Changes: diffs[0].changes})
			diffs = diffs[1:]
		}
		scanned[i] = s
	}
	return scanned, nil
}

// readBlobs reads the blobs that opt chooses.
func (r *Repo) readBlobs(scanned []*Scanned, opt ScanOptions) error {
	var ids []ID
	users := make(map[ID][]*Scanned)
	for _, s := range scanned {
		for _, d := range s.Diffs {
			for _, c := range d.Changes {
				if c.Deleted() || c.NewMode == ModeGitlink || !opt.Blob(s.Commit, c) {
					continue
				}
				if users[c.NewID] == nil {
					if opt.BlobCount > 0 && len(ids) == opt.BlobCount {
						continue
					}
					ids = append(ids, c.NewID)
				}
				if by := users[c.NewID]; len(by) == 0 || by[len(by)-1] != s {
					users[c.NewID] = append(by, s)
				}
			}
		}
	}
	read := int64(0)
	err := r.Objects(ids, opt.BlobLimit, func(o Object) error {
		if read += int64(len(o.Data)); opt.BlobBytes > 0 && read > opt.BlobBytes {
			return errEnough
		}
		for _, s := range users[o.ID] {
			s.Blobs = append(s.Blobs, o)
		}
		return nil
	})
	for _, s := range scanned {
		slices.SortFunc(s.Blobs, func(a, b Object) int { return strings.Compare(a.ID, b.ID) })
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var errEnough = errors.New("enough is read ahead")
