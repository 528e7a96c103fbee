package gitrepo

import (
	"context"
	"errors"
	"iter"
)

// ScanOptions says what ScanCommits reads ahead.
type ScanOptions struct {
	// Blob chooses blobs to be read together with the commit: it is called
	// for every Change with a new side that is no gitlink. nil: none. It runs
	// beside the caller's function.
	Blob      func(c *Commit, change Change) bool
	BlobLimit int64 // in bytes; a larger blob comes as ErrTooLarge
	// BlobBytes is after how many bytes of blobs no more are read ahead, of
	// commits that are read together; 0: no limit. What is not in Scanned.Blobs
	// then is left to the caller: a few small blobs may stand for many large
	// ones in a pack.
	BlobBytes int64
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
	results := make(chan result)
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
			if len(revs) == 0 {
				return true
			}
			before := r.cat.bytesRead()
			s, err := r.scanRevs(revs, known, opt)
			if weight := (r.cat.bytesRead() - before) / int64(len(revs)); weight > 0 {
				size = int(max(8, min(maxChunk, 2*int64(size), chunkBytes/weight)))
			}
			// Parents are mostly near; older ones are read again.
			if len(known) > 2*maxChunk {
				clear(known)
			}
			revs = revs[:0]
			return send(s, err)
		}
		for rev, err := range walk {
			if err != nil {
				if flush() {
					send(nil, err)
				}
				return
			}
			if revs = append(revs, rev); len(revs) >= size && !flush() {
				return
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
	}
	if ctx.Err() != nil {
		return failure(ctx, "the walk", nil, ctx.Err())
	}
	return nil
}

// scanRevs reads the commits of a chunk of a walk and what they change.
func (r *Repo) scanRevs(revs []Rev, known map[ID]*Commit, opt ScanOptions) ([]*Scanned, error) {
	ids := make([]ID, len(revs))
	for i, rev := range revs {
		ids[i] = rev.ID
	}
	if err := r.learn(ids, known); err != nil {
		return nil, err
	}
	commits := make([]*Commit, len(ids))
	for i, id := range ids {
		commits[i] = known[id]
	}
	scanned, err := r.scanChunk(commits, known)
	if err != nil || opt.Blob == nil {
		return scanned, err
	}
	return scanned, r.readBlobs(scanned, opt)
}

// learn reads commits that are not known yet.
func (r *Repo) learn(ids []ID, known map[ID]*Commit) error {
	var unknown []ID
	asked := make(map[ID]bool)
	for _, id := range ids {
		if known[id] == nil && !asked[id] {
			asked[id] = true
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	commits, err := r.Commits(unknown)
	if err != nil {
		return err
	}
	for _, c := range commits {
		known[c.ID] = c
	}
	return nil
}

// scanChunk compares commits with their parents, all together. Parents that
// are not known are read into known.
func (r *Repo) scanChunk(commits []*Commit, known map[ID]*Commit) ([]*Scanned, error) {
	var parents []ID
	for _, c := range commits {
		parents = append(parents, c.Parents...)
	}
	if err := r.learn(parents, known); err != nil {
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
	if err := r.diff(diffs); err != nil {
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
