package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// An Indexer writes what the refs of one repository hold. Make one for each
// run; all fields but Strict, Rig and Chunk must be set.
type Indexer struct {
	DB   *DB
	Repo Repo
	// Name of the repository in the database; see RepositoryName.
	Name string
	// Refs returns the refs to be indexed, by full name, with their commits as
	// they are now. It is called while the database is locked for this
	// repository. recorded are the names that it returned before.
	Refs func(ctx context.Context, recorded []string) (map[string]string, error)
	// At returns the policy and the trust of a tree, "" for no tree. A commit
	// is read by those of its first parent.
	At func(tree string) (*policy.Policy, *policy.Trust, error)
	// Accepted is At for what the history before a commit accepted; see
	// rules.Judge.OfTheTime.
	Accepted func(policy.Accepted) (*policy.Policy, *policy.Trust, error)
	// Main is the ref whose policy and signers count, by full name.
	Main string
	// Is tells this repository from others of its name; its root is found.
	Is Identity
	// Strict makes signers that cannot be read an error: they come from a file
	// of the server, not from the history.
	Strict bool
	// Rig is the rig whose clone this is: its own messages were sent, all
	// others received. "" is a server, where all were received.
	Rig string
	Now func() time.Time
	// Chunk is how many commits are written in one transaction; 0: as many as take
	// about half a second.
	Chunk int

	remember int // messages in memory; 0: remembered
	piece    int // commits that are judged together; 0: as many as take about a second
	caused   int // to how many rows one cause does something; 0: maxCaused

	bulky   bool               // much is to be written
	chunk   int                // how many commits the next transaction has, where Chunk does not say it
	id      int64              // of the repository in the database, in locked
	check   bool               // what is expected is written, in memory that is small: digests in place of words
	first   bool               // all rows of the repository were written by this run, each commit's once
	heard   *hearing           // of what is to be done after the part at work
	loading *sync.Mutex        // held while At or Accepted is called
	rules   map[string]ruleSet // that the trees of commits hold
	trees   map[string]string  // of the latest commits of the range
	clock   *order.Clock       // of the range
	late    []any              // of rigward_late, to be written with the next portion
}

// A ruleSet is what a tree says of itself.
type ruleSet struct {
	policy *policy.Policy
	trust  *policy.Trust
}

// A Result says what a run did.
type Result struct {
	Commits    int // read
	Messages   int // envelopes that they brought
	Superseded int // commits that are no longer reachable
	Left       int // commits that are still to be read, where time was up
}

// errMoved says that another writer was here between two transactions.
var errMoved = errors.New("another writer recorded its progress")

// Update brings the database up to the refs: it reads the commits that are not
// recorded yet, in portions that are kept one by one, so that a run which is
// cut off leaves less for the next one. On an error the Result says how far it
// came.
func (x *Indexer) Update(ctx context.Context) (Result, error) {
	return x.run(ctx)
}

// Rebuild throws away all that is derived for the repository, and reads everything
// anew.
func (x *Indexer) Rebuild(ctx context.Context) (Result, error) {
	if err := x.wipe(ctx); err != nil {
		return Result{}, told(ctx, x.DB.target, err)
	}
	return x.run(ctx)
}

// wipe throws away all that is derived.
func (x *Indexer) wipe(ctx context.Context) error {
	c := x.DB.conn
	return x.locked(ctx, func(map[string][]string) error {
		// The history decides, and events that somebody invented go as well.
		before, after := "SET LOCAL rigward.rebuild = 'on'", "SET LOCAL rigward.rebuild = 'off'"
		if !c.postgres() {
			before, after = "DROP TRIGGER IF EXISTS bridge_message_events_no_delete", noDelete("bridge_message_events")
		}
		if err := c.exec(ctx, before); err != nil {
			return err
		}
		for _, statement := range []string{
			"DELETE FROM bridge_message_events WHERE repo_id = $1", "DELETE FROM rigward_threads WHERE repo_id = $1", "DELETE FROM rigward_refused WHERE repo_id = $1",
			"DELETE FROM rigward_open WHERE repo_id = $1", "DELETE FROM rigward_turns WHERE repo_id = $1", "DELETE FROM rigward_backlog WHERE repo_id = $1", "DELETE FROM rigward_late WHERE repo_id = $1", "DELETE FROM rigward_days WHERE repo_id = $1",
			"DELETE FROM rigward_tips WHERE repo_id = $1", "DELETE FROM bridge_messages WHERE repo_id = $1", "UPDATE rigward_repositories SET judged = NULL WHERE repo_id = $1",
		} {
			if err := c.exec(ctx, statement, x.id); err != nil {
				return err
			}
		}
		return c.exec(ctx, after)
	})
}

// A long history is judged and written in pieces, each of which ends at a commit
// of the main ref's line and is kept: of as many commits as take about a second.
const (
	pieceTime  = time.Second
	firstPiece = 512
	maxPiece   = 1 << 13
)

// Of a piece, the commits of one transaction. Many together write a page of an index
// once that each would change.
const (
	chunkTime  = time.Second / 2
	firstChunk = 1000
	minChunk   = 250
	maxChunk   = 1 << 13
)

func (x *Indexer) run(ctx context.Context) (total Result, err error) {
	defer func() {
		if x.bulky && err == nil {
			err = told(ctx, x.DB.target, x.DB.conn.bulk(ctx, false))
		}
		x.bulky = false
	}()
	defer x.dismiss()
	piece := cmp.Or(x.piece, firstPiece)
	x.first, x.loading = false, &sync.Mutex{}
	for {
		began := x.Now()
		r, more, err := x.once(ctx, piece)
		if err != nil {
			x.dismiss()
		}
		total.Commits, total.Messages, total.Superseded, total.Left = total.Commits+r.Commits, total.Messages+r.Messages, total.Superseded+r.Superseded, r.Left
		switch {
		case errors.Is(err, errMoved) && ctx.Err() == nil:
			x.first = false
			continue
		case errors.Is(err, errStrayed):
			if err := x.wipe(ctx); err != nil {
				return total, told(ctx, x.DB.target, err)
			}
			piece = 0 // all of it, and at once
			continue
		case err != nil || !more:
			return total, told(ctx, x.DB.target, err)
		}
		if took := x.Now().Sub(began); x.piece == 0 && took < pieceTime/2 {
			piece = min(2*piece, x.most(maxPiece))
		} else if x.piece == 0 && took > 2*pieceTime {
			piece = max(piece/2, firstPiece)
		}
	}
}

// locked runs fn in a transaction that no other writer of this repository can
// enter meanwhile, with the commits recorded so far by ref. The ref "" has
// what is recorded of a range that is not finished.
func (x *Indexer) locked(ctx context.Context, fn func(recorded map[string][]string) error) error {
	c := x.DB.conn
	return together(ctx, c, func() error {
		var err error
		if x.id, err = lockRepository(ctx, c, x.Name); err != nil {
			return err
		}
		recorded := map[string][]string{}
		err = each(ctx, c, "SELECT ref, commit_sha FROM rigward_tips WHERE repo_id = $1 ORDER BY ref, commit_sha", []any{x.id}, func(r rows) error {
			var ref, id string
			if err := r.Scan(&ref, &id); err != nil {
				return err
			}
			recorded[ref] = append(recorded[ref], id)
			return nil
		})
		if err != nil {
			return err
		}
		for _, list := range recorded {
			slices.Sort(list) // the database may have another order
		}
		return fn(recorded)
	})
}

// record is what is recorded of refs that are done. Two of them whose names
// differ only in bytes that are not text are one there, with both commits.
func record(tips map[string]string) map[string][]string {
	all := map[string][]string{}
	for ref, id := range tips {
		ref = name(ref)
		all[ref] = append(all[ref], id)
	}
	for ref, list := range all {
		slices.Sort(list)
		all[ref] = slices.Compact(list)
	}
	return all
}

// record replaces what is recorded.
func (x *Indexer) record(ctx context.Context, tips map[string][]string) error {
	c := x.DB.conn
	if err := c.exec(ctx, "DELETE FROM rigward_tips WHERE repo_id = $1", x.id); err != nil {
		return err
	}
	var args []any
	for _, ref := range slices.Sorted(maps.Keys(tips)) {
		for _, id := range tips[ref] {
			args = append(args, x.id, ref, id)
		}
	}
	return insert(ctx, c, "rigward_tips", []string{"repo_id", "ref", "commit_sha"}, args, "ON CONFLICT DO NOTHING", nil)
}

// ids returns all commits of a record, each once.
func ids(recorded map[string][]string) []string {
	var all []string
	for _, list := range recorded {
		all = append(all, list...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func equalRecord(a, b map[string][]string) bool { return maps.EqualFunc(a, b, slices.Equal) }

// A span is the work of one run: the commits from what is recorded to the refs.
type span struct {
	tips  map[string]string
	known []string // recorded commits that are in the history of the tips
	lost  []string // recorded commits that are not
	revs  []gitrepo.Rev
	fresh bool // nothing that is in the database counts
	full  bool // revs are all that the tips have, or have beyond after
	part  bool // there is more to do when it is done
	// carried are, of a part, recorded commits that its tips do not stand for: of refs that are
	// gone, or of a range that was not finished.
	carried []string
	// after is, where the span is what an earlier one of the same run has left, the commit of
	// the main ref's line up to which that one went.
	after string
	whole *span // that a part was cut from; nil: it is none
	// line are the places in revs of the main ref's line, oldest first, counted from what was revs
	// when they were looked up: of that, the first before are gone.
	line   []int32
	before int
}

// recorded is what is recorded when a span is done.
func (s *span) recorded() map[string][]string {
	all := record(s.tips)
	if len(s.carried) > 0 {
		slices.Sort(s.carried)
		all[""] = slices.Compact(s.carried)
	}
	return all
}

// rest is what remains of a span when a part of it is recorded.
func (s *span) rest(main string, recorded map[string][]string) *span {
	rest := &span{tips: s.whole.tips, known: ids(recorded), after: s.tips[main], full: s.full}
	n := len(s.revs)
	if s.whole.revs[n-1].ID == s.revs[n-1].ID { // the part is how the whole begins
		clear(s.whole.revs[:n])
		rest.revs, rest.line, rest.before = s.whole.revs[n:], s.whole.line, s.whole.before+n
		return rest
	}
	done := map[string]bool{}
	for _, rev := range s.revs {
		done[rev.ID] = true
	}
	rest.revs = slices.DeleteFunc(s.whole.revs, func(rev gitrepo.Rev) bool { return done[rev.ID] })
	return rest
}

// root returns the first commit of the line of first parents that ends at tip, "" where revs do not tell it.
func (s *span) root(tip string) string {
	if s.line == nil {
		s.follow(tip)
	}
	if len(s.line) > 0 && s.before == 0 {
		if first := s.revs[s.line[0]]; len(first.Parents) == 0 {
			return first.ID
		}
	}
	return ""
}

// follow looks up the line of first parents that ends at tip.
func (s *span) follow(tip string) {
	var at map[string]int // mostly not needed: a parent stands right before its child
	find := func(id string, below int) int {
		if below > 0 && s.revs[below-1].ID == id {
			return below - 1
		}
		if at == nil {
			at = make(map[string]int, len(s.revs))
			for i, rev := range s.revs {
				at[rev.ID] = i
			}
		}
		if i, inside := at[id]; inside {
			return i
		}
		return -1
	}
	s.line, s.before = []int32{}, 0
	for i := find(tip, len(s.revs)); i >= 0; {
		s.line = append(s.line, int32(i))
		if len(s.revs[i].Parents) == 0 {
			break
		}
		i = find(s.revs[i].Parents[0], i)
	}
	slices.Reverse(s.line)
}

// cut makes a span of more commits than a piece one that ends earlier: at a commit of the main
// ref's line, about so many commits from its beginning. All other refs come at the end.
func (x *Indexer) cut(s *span, recorded map[string][]string, piece int) {
	if piece == 0 || len(s.revs) <= piece || len(s.lost) > 0 {
		return
	}
	if s.line == nil {
		s.follow(s.tips[x.Main])
	}
	line := s.line[sort.Search(len(s.line), func(i int) bool { return int(s.line[i]) >= s.before }):]
	last := sort.Search(len(line), func(i int) bool { return int(line[i])-s.before >= piece }) - 1
	if last < 0 || int(line[last])-s.before < piece/2 {
		last++
	}
	if last >= len(line)-1 {
		return
	}
	end := int(line[last]) - s.before
	way := s.revs[end].ID
	tips := map[string]string{}
	for ref, list := range recorded {
		switch {
		case ref != "" && len(list) == 1 && s.tips[ref] != "":
			tips[ref] = list[0]
		case ref != x.Main:
			s.carried = append(s.carried, list...)
		}
	}
	tips[x.Main] = way
	inside := map[string]bool{way: true}
	var revs []gitrepo.Rev
	for i := end; i >= 0; i-- {
		if rev := s.revs[i]; inside[rev.ID] {
			revs = append(revs, rev)
			for _, id := range rev.Parents {
				inside[id] = true
			}
		}
	}
	slices.Reverse(revs)
	whole := *s
	s.tips, s.revs, s.part, s.whole = tips, revs, true, &whole
}

func (x *Indexer) span(ctx context.Context, recorded map[string][]string) (*span, error) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(recorded)), func(ref string) bool { return ref == "" })
	tips, err := x.Refs(ctx, names)
	if err != nil {
		return nil, err
	}
	s := &span{tips: tips}
	heads := slices.Compact(slices.Sorted(maps.Values(tips)))
	old := ids(recorded)
	if len(old) > 0 {
		types, err := x.Repo.Has(old)
		if err != nil {
			return nil, err
		}
		// Another server that knows more, or a history that was rewritten
		// and is gone: then it must be seen as a whole.
		s.fresh = slices.ContainsFunc(types, func(t string) bool { return t != "commit" })
	}
	if len(old) == 0 {
		s.fresh = true
	}
	if s.full = s.fresh; !s.fresh {
		s.known = old
	}
	if len(heads) > 0 && !slices.Equal(s.known, heads) {
		line := false
		if len(heads) == 1 && len(s.known) == 1 {
			s.revs, line = x.Repo.Line(heads[0], s.known[0])
		}
		if !line {
			if s.revs, err = x.beyond(ctx, heads, s.known); err != nil {
				return nil, err
			}
		}
		if err := x.Repo.CutIn(s.revs, s.known); err != nil {
			return nil, err
		}
	}
	return s, x.leave(ctx, s, heads)
}

// leave finds the recorded commits that the refs no longer reach, and what
// remains recorded without them.
func (x *Indexer) leave(ctx context.Context, s *span, heads []string) error {
	apart := map[string]bool{} // recorded commits that neither a ref nor a new commit names
	for _, id := range s.known {
		apart[id] = true
	}
	for _, id := range heads {
		delete(apart, id)
	}
	for _, rev := range s.revs {
		for _, id := range rev.Parents {
			delete(apart, id)
		}
	}
	if len(apart) == 0 {
		return nil // the refs moved forward, as they should
	}
	gone := map[string]bool{}
	var parents []string
	left, err := x.beyond(ctx, s.known, heads)
	if err != nil {
		return err
	}
	for _, rev := range left {
		gone[rev.ID] = true
		s.lost = append(s.lost, rev.ID)
		parents = append(parents, rev.Parents...)
	}
	if len(gone) > 0 {
		s.known = slices.DeleteFunc(append(slices.Clone(s.known), parents...), func(id string) bool { return gone[id] })
		slices.Sort(s.known)
		s.known = slices.Compact(s.known)
	}
	return nil
}

// once does one run, which ends with errMoved if another writer recorded
// something between two of its transactions.
func (x *Indexer) once(ctx context.Context, piece int) (res Result, more bool, err error) {
	var s *span
	var expected map[string][]string // what is recorded when the next transaction begins
	done, finished := 0, false
	nothing, idle := false, false
	var d *deriver
	var c *court
	x.rules, x.trees = map[string]ruleSet{}, map[string]string{}
	// step makes one transaction of a portion of the commits.
	step := func(batch []*landed, upTo int) (taken, at int, err error) {
		err = x.locked(ctx, func(recorded map[string][]string) error {
			if !equalRecord(recorded, expected) {
				return errMoved
			}
			if done == 0 && len(s.lost) > 0 {
				if err := x.supersede(ctx, s.lost); err != nil {
					return err
				}
			}
			if err := x.writeLate(ctx); err != nil {
				return err
			}
			if taken, err = x.write(ctx, s, d, c, batch); err != nil {
				return err
			}
			if taken < len(batch) {
				upTo = batch[taken].index
			}
			if upTo == len(s.revs) {
				if err := x.writeRefused(ctx, s, c); err != nil {
					return err
				}
				if err := x.writeJudged(ctx, c.state); err != nil {
					return err
				}
			}
			next := map[string][]string{}
			if upTo < len(s.revs) {
				next[""] = append(frontier(s.revs, upTo), s.known...)
				slices.Sort(next[""])
				next[""] = slices.Compact(next[""])
			} else {
				next = s.recorded()
			}
			if !equalRecord(next, recorded) {
				if err := x.record(ctx, next); err != nil {
					return err
				}
			}
			expected, finished = next, upTo == len(s.revs)
			return nil
		})
		return taken, upTo, err
	}
	// What there is to do is found out under the lock, so that of many
	// writers the first does it all.
	err = x.locked(ctx, func(recorded map[string][]string) (err error) {
		expected = recorded
		if x.heard != nil && !equalRecord(recorded, x.heard.recorded) {
			x.dismiss()
		}
		if x.heard == nil {
			if s, err = x.span(ctx, recorded); err != nil {
				return err
			}
		} else {
			s = x.heard.s
		}
		if err := x.identify(ctx, s); err != nil {
			return err
		}
		if len(recorded) == 0 && !x.first {
			n, err := number(ctx, x.DB.conn, "SELECT count(*) FROM (SELECT 1 FROM bridge_messages WHERE repo_id = $1 LIMIT 1) AS one", x.id)
			if err != nil {
				return err
			}
			x.first = n == 0
		}
		if x.heard != nil {
			return nil
		}
		x.cut(s, recorded, piece)
		from, err := x.readJudged(ctx)
		nothing = len(s.revs) == 0 && len(s.lost) == 0 && equalRecord(record(s.tips), expected)
		if idle = nothing && from.Tip == s.tips[x.Main]; err == nil && !idle {
			x.heard = x.hear(ctx, s, recorded, from)
		}
		return err
	})
	if err != nil {
		return res, false, err
	}
	res.Left = len(s.revs)
	if len(s.revs) > firstChunk && !x.bulky {
		if err := x.DB.conn.bulk(ctx, true); err != nil {
			return res, false, err
		}
		x.bulky = true
	}
	if idle {
		return res, false, nil
	}
	if c, err = x.verdicts(); err != nil {
		return res, false, err
	}
	if s.part && (!s.fresh || x.first) { // else what was recorded may not be there
		next := s.recorded()
		rest := s.rest(x.Main, next)
		x.cut(rest, next, piece)
		x.heard = x.hear(ctx, rest, next, c.state)
	}
	d = x.deriver(ctx, s)
	x.clock = x.newClock(ctx)
	began := x.Now()
	err = x.scan(ctx, s, c, func(batch []*landed, upTo int) error {
		for first := true; first || len(batch) > 0; first = false {
			taken, at, err := step(batch, upTo)
			if err != nil {
				return err
			}
			now := x.Now()
			x.paced(at-done, now.Sub(began))
			began = now
			res.Commits += at - done
			for _, l := range batch[:taken] {
				res.Messages += len(l.messages)
			}
			if done == 0 {
				res.Superseded = len(s.lost)
			}
			batch, done = batch[taken:], at
			res.Left = len(s.revs) - done
			d.forget(s.fresh)
		}
		return nil
	})
	if err == nil && !finished && !nothing {
		if _, _, err = step(nil, len(s.revs)); err == nil {
			res.Superseded = len(s.lost)
		}
	}
	return res, s.part, err
}

// remembered is how many messages a run keeps in memory at the most, besides
// those of the portion at work, before it reads them back from the database.
const remembered = 1 << 15

// deriver makes the deriver of a run.
func (x *Indexer) deriver(ctx context.Context, s *span) *deriver {
	d := &deriver{rig: name(x.Rig), graph: newGraph(s.revs), threads: map[string]*thread{}, caused: cmp.Or(x.caused, maxCaused)}
	if s.fresh {
		d.written, d.limit = keySet{}, x.remember
		if d.limit == 0 {
			d.limit = remembered
		}
	}
	beside := map[string]map[string]bool{} // by the older commits that one descends from
	d.foreign = func(commit string, index int) (bool, error) {
		if s.fresh {
			return true, nil
		}
		below := slices.Clone(d.graph.belows[d.graph.below[index]])
		slices.Sort(below)
		if !slices.ContainsFunc(s.known, func(id string) bool { return !slices.Contains(below, id) }) {
			return false, nil
		}
		key := strings.Join(below, " ")
		not, asked := beside[key]
		if !asked {
			not = map[string]bool{}
			revs, err := x.beyond(ctx, s.known, below)
			if err != nil {
				return false, err
			}
			for _, rev := range revs {
				not[rev.ID] = true
			}
			beside[key] = not
		}
		return not[commit], nil
	}
	return d
}

// most is how many commits a piece or a transaction may have, of so many where nothing
// but time counts.
func (x *Indexer) most(commits int) int {
	if x.check {
		return min(commits, 2048)
	}
	return commits
}

// size is how many commits the next transaction has.
func (x *Indexer) size() int { return cmp.Or(x.Chunk, x.chunk, firstChunk) }

// paced makes the next transaction larger or smaller, by how long one of n commits took.
func (x *Indexer) paced(n int, took time.Duration) {
	switch size := x.size(); {
	case n >= size && took < chunkTime:
		x.chunk = min(2*size, x.most(maxChunk))
	case took > 2*chunkTime:
		x.chunk = max(min(n, size)/2, minChunk)
	}
}

// scan reads the commits of a span and calls fn with portions of them: the
// commits with something to derive, and how many of the span are done.
func (x *Indexer) scan(ctx context.Context, s *span, heard *court, fn func(batch []*landed, upTo int) error) error {
	if len(s.revs) == 0 {
		return nil
	}
	var batch []*landed
	at, written, until := 0, 0, x.size()
	flush := func() error {
		if err := ahead(x.Repo, batch); err != nil {
			return err
		}
		for _, l := range batch {
			if err := l.settle(x.Repo); err != nil {
				return err
			}
		}
		rules.Parallel(len(batch), func(i int) { batch[i].read() })
		err := fn(batch, at)
		batch, written, until = nil, at, at+x.size()
		return err
	}
	opt := gitrepo.ScanOptions{BlobLimit: policy.Default().MaxFile, Blob: func(_ *gitrepo.Commit, c gitrepo.Change) bool {
		return strings.HasSuffix(c.Path, ".md") && c.NewMode.IsFile()
	}}
	take := func(c *gitrepo.Scanned) error {
		set, err := x.ruleSet(c)
		if err != nil {
			return err
		}
		if _, err := x.clock.Tick(c.ID, c.Committer.When, c.Parents); err != nil {
			return err
		}
		if l := land(c, at, set.policy); len(l.found) > 0 || l.missed != nil {
			l.recall(&heard.reading)
			batch = append(batch, l)
		}
		if at++; at == until {
			return flush()
		}
		return nil
	}
	for at < len(s.revs) {
		if c := heard.kept[s.revs[at].ID]; c != nil {
			delete(heard.kept, c.ID)
			if err := take(c); err != nil {
				return err
			}
			continue
		}
		n := slices.IndexFunc(s.revs[at:], func(rev gitrepo.Rev) bool { return heard.kept[rev.ID] != nil })
		if n < 0 {
			n = len(s.revs) - at
		}
		if err := x.Repo.ScanCommits(ctx, gitrepo.Listed(s.revs[at:at+n]), opt, take); err != nil {
			return err
		}
	}
	if at > written {
		return flush()
	}
	return nil
}

// nearby is of how many commits of the range the trees are kept.
const nearby = 4096

// ruleSet returns the policy and the trust of a commit's first parent, and
// keeps those of its own tree for its children.
func (x *Indexer) ruleSet(c *gitrepo.Scanned) (ruleSet, error) {
	if len(x.trees) > nearby { // parents are mostly near; others are read again
		clear(x.trees)
		clear(x.rules)
	}
	x.trees[c.ID] = c.Tree
	first := ""
	if len(c.Parents) > 0 {
		first = c.Parents[0]
	}
	set, known := x.rules[first]
	if !known {
		tree, inside := x.trees[first]
		if first != "" && !inside {
			p, err := x.Repo.Commit(first)
			if err != nil {
				return set, err
			}
			tree = p.Tree
		}
		var err error
		if set, err = x.at(tree); err != nil {
			return set, err
		}
		x.rules[first] = set
	}
	own := set
	for _, ch := range c.Diffs[0].Changes {
		if strings.HasPrefix(ch.Path, policy.Dir+"/") || ch.Path == set.policy.Signers || ch.Path == set.policy.Revoked {
			var err error
			if own, err = x.at(c.Tree); err != nil {
				return set, err
			}
			break
		}
	}
	x.rules[c.ID] = own
	return set, nil
}

// at is At; a policy of the history that cannot be read, which no gate would
// have let in, counts as none, so that what follows it is read all the same.
func (x *Indexer) at(tree string) (ruleSet, error) {
	x.loading.Lock()
	defer x.loading.Unlock()
	p, t, err := x.At(tree)
	var undecided *policy.Undecided
	var unread *gitrepo.Error
	if errors.As(err, &undecided) && !errors.As(err, &unread) && tree != "" {
		p, t, err = x.At("")
	}
	return ruleSet{p, t}, err
}

// maxWritten is after how many rows and events a transaction takes no other commit.
const maxWritten = 1 << 16

// write derives and writes what a portion of commits brings, and returns how many of them
// it took: not all if they bring more than one transaction should have.
func (x *Indexer) write(ctx context.Context, s *span, d *deriver, c *court, batch []*landed) (n int, err error) {
	if !s.fresh || d.forgot {
		if err := x.load(ctx, s, d, batch); err != nil {
			return 0, err
		}
	}
	d.rows, d.events = nil, nil
	for n < len(batch) && len(d.rows)+len(d.events) < maxWritten {
		if err := d.take(batch[n]); err != nil {
			return 0, err
		}
		n++
	}
	if err := x.writeRows(ctx, c, d); err != nil {
		return 0, err
	}
	if s.fresh {
		for _, n := range d.rows {
			d.written.add(n.row.id)
		}
	}
	return n, x.writeEvents(ctx, d)
}

// states are the states that an event of another message leads to; later ones
// win.
var states = []string{"acked", "resolved"}

// next are the keys of the next message and of the next event. The writers of a
// repository wait for each other, and in SQLite all do.
func (x *Indexer) next(ctx context.Context) (message, event int64, err error) {
	of := ""
	if x.DB.conn.postgres() {
		of = " WHERE repo_id = " + strconv.FormatInt(x.id, 10)
	}
	err = each(ctx, x.DB.conn, "SELECT (SELECT coalesce(max(id), 0) + 1 FROM bridge_messages"+of+"), (SELECT coalesce(max(id), 0) + 1 FROM bridge_message_events"+of+")", nil,
		func(r rows) error { return r.Scan(&message, &event) })
	return message, event, err
}

var messageRow = strings.Fields(`repo_id id thread filename message_type from_rig to_rig lifecycle_state status_class status_text tldr envelope_date
  commit_sha parent_refs body_hash in_reply_to nonce attested_by attested_at path blob verdict rules signature_good signer signer_principal commit_time created_at words`)

// load reads the older messages of threads that need them: those of an ACK, a
// RESOLUTION, a freeze or a merge.
func (x *Indexer) load(ctx context.Context, s *span, d *deriver, batch []*landed) error {
	needed := map[string]bool{}
	for _, l := range batch {
		for _, m := range l.messages {
			if m.env.Type == "ACK" || m.env.Type == "RESOLUTION" || m.freeze != "" {
				needed[m.thread] = true
			}
		}
		for _, paths := range l.missed {
			for _, path := range paths {
				needed[path[0]] = true
			}
		}
	}
	if err := x.loadThreads(ctx, d, slices.Sorted(maps.Keys(needed))); err != nil {
		return err
	}
	if s.fresh {
		return nil // it is all of this run
	}
	// What another server brought, and this one lacks, is in no history here.
	var commits []string
	for _, t := range d.threads {
		for _, f := range t.facts {
			commits = append(commits, f.commit)
			for _, r := range f.rows {
				for _, c := range slices.Concat(r.acks, r.ends) {
					commits = append(commits, c.commit)
				}
			}
		}
	}
	slices.Sort(commits)
	commits = slices.Compact(commits)
	if len(commits) == 0 {
		return nil
	}
	types, err := x.Repo.Has(commits)
	if err != nil {
		return err
	}
	absent := map[string]bool{}
	for i, id := range commits {
		if types[i] != "commit" {
			absent[id] = true
		}
	}
	if len(absent) == 0 {
		return nil
	}
	gone := func(c cause) bool { return absent[c.commit] }
	all := d.threads
	d.threads = map[string]*thread{}
	for name, t := range all {
		for _, f := range t.facts {
			if absent[f.commit] {
				continue
			}
			for _, r := range f.rows {
				r.acks, r.ends = slices.DeleteFunc(r.acks, gone), slices.DeleteFunc(r.ends, gone)
			}
			d.thread(name).add(f)
		}
	}
	return nil
}

// expunged is the text of the status of a message whose body was taken out
// (docs/spec/tombstone.md#readers).
const expunged = "Expunged"

// writeRows writes the rows of messages, with the states that the events of their
// portion lead to, and gives them their keys. A row that is there is made what it
// should be.
func (x *Indexer) writeRows(ctx context.Context, c *court, d *deriver) error {
	if len(d.rows) == 0 && len(d.events) == 0 {
		return nil
	}
	message, event, err := x.next(ctx)
	if err != nil {
		return err
	}
	d.nextEvent = event
	state := map[*row]int{} // of states, counted from 1
	for _, e := range d.events {
		if i := slices.Index(states, e.kind) + 1; i > state[e.row] {
			state[e.row] = i
		}
	}
	now := stamp(x.Now())
	type key struct{ commit, thread, file, to string }
	byKey := make(map[key]*row, len(d.rows))
	args := make([]any, 0, len(d.rows)*len(messageRow))
	threads := map[string]bool{}
	for i, n := range d.rows {
		k := key{n.from.id, n.m.thread, n.m.file, n.row.to}
		n.row.id = message + int64(i)
		n.row.state = state[n.row]
		if n.row.state > 0 {
			n.state = states[n.row.state-1]
		}
		e := n.m.env
		var refs any
		if r := references(e.References); r != nil {
			refs = *r
		}
		v := c.of(n.from.id, n.m.path)
		m, status, tldr := *n.m, e.Status, e.TLDR
		if blob, gone := c.gone[m.path]; gone {
			m.blob, m.words, status, tldr = blob, "", expunged, ""
		}
		if x.check && m.words != "" {
			m.words = wordsDigest(m.words)
		}
		args = append(args, x.id, n.row.id, k.thread, k.file, e.Type, name(e.From), k.to, n.state, envelope.StatusClass(e.Status), text(status), optional(tldr), text(e.Date),
			n.from.id, refs, e.Hash, optional(e.InReplyTo), optional(e.Nonce), optional(e.AttestedBy), optional(e.AttestedAt),
			name(m.path), m.blob, v.state, optional(v.rules), v.good, optional(v.signer), optional(v.by), n.from.time, now, optional(m.words))
		threads[k.thread] = true
		if !x.first {
			byKey[k] = n.row
		}
	}
	if x.first {
		err = x.DB.conn.load(ctx, "bridge_messages", messageRow, args)
	} else {
		err = insert(ctx, x.DB.conn, "bridge_messages", messageRow, args,
			`ON CONFLICT (repo_id, commit_sha, thread, filename, to_rig) DO UPDATE SET message_type = excluded.message_type, from_rig = excluded.from_rig,
  status_class = excluded.status_class, status_text = excluded.status_text, tldr = excluded.tldr, envelope_date = excluded.envelope_date,
  parent_refs = excluded.parent_refs, run_id = NULL, body_hash = excluded.body_hash, in_reply_to = excluded.in_reply_to, nonce = excluded.nonce,
  attested_by = excluded.attested_by, attested_at = excluded.attested_at, path = excluded.path, blob = excluded.blob, verdict = excluded.verdict, rules = excluded.rules,
  signature_good = excluded.signature_good, signer = excluded.signer, signer_principal = excluded.signer_principal, commit_time = excluded.commit_time, words = excluded.words,
  lifecycle_state = CASE WHEN bridge_messages.lifecycle_state IN ('superseded', 'drafted', 'sent') THEN excluded.lifecycle_state ELSE bridge_messages.lifecycle_state END
RETURNING id, commit_sha, thread, filename, to_rig`, func(r rows) error {
				var k key
				var id int64
				if err := r.Scan(&id, &k.commit, &k.thread, &k.file, &k.to); err != nil {
					return err
				}
				row := byKey[k]
				if row == nil {
					return fmt.Errorf("the database gave back a row that was not written")
				}
				if row.id != id { // it was there
					row.id, row.state = id, 0
				}
				return nil
			})
	}
	if err != nil {
		return err
	}
	return x.writeThreads(ctx, slices.Sorted(maps.Keys(threads)))
}

// asked are the events that are asked for by what their message is: they have it beside them.
var asked = []string{"acked", "diverged", "frozen"}

// writeEvents writes events, and raises the state of the rows that were there.
func (x *Indexer) writeEvents(ctx context.Context, d *deriver) error {
	columns := []string{"repo_id", "id", "message_id", "event_type", "rig", "notes", "created_at", "commit_sha", "to_rig", "from_rig", "message_type"}
	args := make([]any, 0, len(d.events)*len(columns))
	reached := make([][]int64, len(states))
	type key struct {
		row               *row
		kind, rig, commit string
	}
	written := map[key]bool{}
	for i, e := range d.events {
		if at := slices.Index(states, e.kind); at >= e.row.state {
			reached[at] = append(reached[at], e.row.id)
		}
		if k := (key{e.row, e.kind, e.rig, e.commit}); x.first && written[k] {
			continue
		} else if x.first {
			written[k] = true
		}
		args = append(args, x.id, d.nextEvent+int64(i), e.row.id, e.kind, e.rig, optional(e.notes), e.time, e.commit)
		if slices.Contains(asked, e.kind) {
			args = append(args, e.row.to, e.of.from, e.of.typ)
		} else {
			args = append(args, nil, nil, nil)
		}
	}
	var err error
	if x.first {
		err = x.DB.conn.load(ctx, "bridge_message_events", columns, args)
	} else {
		err = insert(ctx, x.DB.conn, "bridge_message_events", columns, args, "ON CONFLICT DO NOTHING", nil)
	}
	if err != nil {
		return err
	}
	for i, state := range states {
		if len(reached[i]) == 0 {
			continue
		}
		lower := "'" + strings.Join(append([]string{"drafted", "sent", "received"}, states[:i]...), "', '") + "'"
		keys, err := listed(reached[i])
		if err != nil {
			return err
		}
		statement := "UPDATE bridge_messages SET lifecycle_state = '" + state + "' WHERE repo_id = $1 AND lifecycle_state IN (" + lower + ") AND id " + among(x.DB.conn, 2, "bigint")
		x.DB.conn.keep(statement)
		if err := x.DB.conn.exec(ctx, statement, x.id, keys); err != nil {
			return err
		}
	}
	return nil
}
