package gitrepo

import (
	"context"
	"errors"
	"iter"
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
	Diffs []Diff        // against each parent, in order; see DiffCommit
	Blobs map[ID]Object // what ScanOptions.Blob chose, by NewID; read-only
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
// works, and walk is ranged over, in another goroutine; fn may use the Repo.
// The first error, of the walk, of reading or of fn, ends the scan and is
// returned.
func (r *Repo) ScanCommits(ctx context.Context, walk iter.Seq2[Rev, error], opt ScanOptions, fn func(*Scanned) error) error {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		scanned []*Scanned
		err     error
	}
	results, done := make(chan result), make(chan struct{})
	defer func() { // nothing reads on behind the caller's back
		cancel()
		for range results {
		}
	}()
	go func() {
		defer close(results)
		send := func(s []*Scanned, err error) bool {
			select {
			case results <- result{s, err}:
				return err == nil
			case <-ctx.Done():
				return false
			}
		}
		size := firstChunk
		known := make(map[ID]*Commit)
		var revs []Rev
		flush := func() bool {
			for len(revs) > 0 {
				before := r.cat.bytesRead()
				s, err := r.scanRevs(revs, known, opt)
				n := len(s)
				if n == 0 {
					return send(nil, err)
				}
				if weight := (r.cat.bytesRead() - before) / int64(n); weight > 0 {
					size = int(max(8, min(maxChunk, 2*int64(size), chunkBytes/weight)))
				}
				// Parents are mostly near; older ones are read again.
				if len(known) > 2*maxChunk {
					clear(known)
				}
				heavy := weighs(s) > chunkChanges
				if !send(s, err) {
					return false
				}
				s = nil
				if heavy { // nothing is read ahead beside it
					select {
					case <-done:
					case <-ctx.Done():
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
					send(nil, err)
				}
				return
			}
			if revs = append(revs, rev); len(revs) >= size {
				if !flush() {
					return
				}
			}
			if ctx.Err() != nil {
				return
			}
		}
		flush()
	}()
	for res := range results {
		if res.err != nil {
			return res.err
		}
		for _, s := range res.scanned {
			if err := ctx.Err(); err != nil {
				return failure(ctx, "the walk", nil, err)
			}
			if err := fn(s); err != nil {
				return err
			}
		}
		if weighs(res.scanned) > chunkChanges {
			res.scanned = nil
			select {
			case done <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}
	if ctx.Err() != nil {
		return failure(ctx, "the walk", nil, ctx.Err())
	}
	return nil
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
func (r *Repo) scanRevs(revs []Rev, known map[ID]*Commit, opt ScanOptions) ([]*Scanned, error) {
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
	if err != nil || opt.Blob == nil {
		return scanned, err
	}
	return scanned, r.readBlobs(scanned, opt)
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
				users[c.NewID] = append(users[c.NewID], s)
			}
		}
	}
	read := int64(0)
	err := r.Objects(ids, opt.BlobLimit, func(o Object) error {
		if read += int64(len(o.Data)); opt.BlobBytes > 0 && read > opt.BlobBytes {
			return errEnough
		}
		for _, s := range users[o.ID] {
			if s.Blobs == nil {
				s.Blobs = make(map[ID]Object)
			}
			s.Blobs[o.ID] = o
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var errEnough = errors.New("enough is read ahead")
