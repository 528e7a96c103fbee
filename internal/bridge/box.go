package bridge

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// A box is one look at what waits for a rig.
type box struct {
	rig  string
	head string
	// The first of what waits after the cursor, the oldest first: as many as were asked
	// for, and some more if there are more.
	waiting []*message
	late    int // from where on they were not there when the cursor was made
	refused []*message
	frozen  []frozenThread
	// Of all that waits, wherever the cursor stands.
	unread, turns, decisions int

	judged    judgedState
	after     cursor
	timed     bool // it is known of all when they were committed
	proposals []proposal
}

// A candidate is a message that may wait. There may be as many as the clone has
// messages, so nothing else is held of those that are not shown.
type candidate struct {
	thread, file, blob string
	commit, made       string // "" where that is not known
	turn               bool   // it is the last word, and to the rig
	marked             bool   // it waits for nothing but its turn
	late               bool   // it was not there when the cursor was made
}

func (c *candidate) path() string { return c.thread + "/" + c.file }

// before is the order of an inbox: when a message was committed, those of which
// that is not known last; then by path.
func before(a, b candidate) int {
	unknown := func(c candidate) int {
		if c.made == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(unknown(a), unknown(b)), cmp.Compare(a.made, b.made), cmp.Compare(a.path(), b.path()))
}

// fill counts what waits in threads, and keeps the first limit of what is wanted.
func (b *box) fill(r *run, w *work, book *verdict.Book, marks *marks, threads []seen, limit int, wanted func(*message) bool) error {
	var all []candidate
	for portion := range slices.Chunk(threads, portionOfThreads) {
		more, err := b.candidates(r, w, book, marks, portion)
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	times, err := b.times(w, all)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].made = times[all[i].commit]
	}
	for _, m := range b.refused {
		m.made = times[m.commit]
		b.timed = b.timed && m.made != ""
	}
	slices.SortFunc(b.refused, func(a, b *message) int { return before(a.candidate(), b.candidate()) })
	slices.SortFunc(all, before)
	var old, late []candidate
	for _, c := range all {
		switch {
		case c.late:
			late = append(late, c)
		case b.after.seen == "" || c.made == "" || cmp.Or(cmp.Compare(c.made, b.after.made), cmp.Compare(c.path(), b.after.path)) > 0:
			old = append(old, c)
		}
	}
	if err := b.read(w, book, old, limit, wanted); err != nil {
		return err
	}
	b.late = len(b.waiting)
	return b.read(w, book, late, limit, wanted)
}

func (m *message) candidate() candidate {
	return candidate{thread: m.thread, file: m.file, blob: m.blob, commit: m.commit, made: m.made}
}

// times returns when the commits of candidates were made.
func (b *box) times(w *work, all []candidate) (map[string]string, error) {
	commits := map[string]bool{}
	for _, c := range all {
		commits[c.commit] = true
	}
	for _, m := range b.refused {
		commits[m.commit] = true
	}
	return w.committed(slices.Collect(maps.Keys(commits)))
}

// candidates counts what waits in some threads, and returns what of it may be shown.
// What the gates refuse it reads.
func (b *box) candidates(r *run, w *work, book *verdict.Book, marks *marks, threads []seen) (out []candidate, err error) {
	places := make([]place, len(threads))
	var looked []place // of which a glance does not tell what is unread
	for i, s := range threads {
		places[i] = place{s.name, s.tree}
		if l := marks.of(s.name); l.tree == "" && l.keys == "" {
			b.unread += s.toRig(b.rig)
		} else {
			looked = append(looked, places[i])
		}
	}
	unread := map[string][]*message{}
	if err := w.unreadOf(b.rig, marks, looked, unread); err != nil {
		return nil, err
	}
	for _, ms := range unread {
		b.unread += len(ms)
	}
	left, err := w.unmarked(marks, places)
	if err != nil {
		return nil, err
	}
	was, err := w.filesAt(b.after.base, threads)
	if err != nil {
		return nil, err
	}
	is, err := w.filesAt(b.after.seen, threads)
	if err != nil {
		return nil, err
	}
	for _, s := range threads {
		verdicts := book.Thread(s.name)
		turn, err := w.turnOf(verdicts, s)
		if err != nil {
			return nil, err
		}
		if turn != nil && !turn.isTo(b.rig) {
			turn = nil
		}
		if turn != nil {
			b.turns++
		}
		add := func(c candidate) {
			c.late = b.after.seen != "" && !is[s.name][filed{c.file, c.blob}]
			if !was[s.name][filed{c.file, c.blob}] {
				out = append(out, c)
			}
		}
		for _, f := range left[s.name] {
			v := verdicts.Of(f.name, f.blob)
			if v.State == verdict.Refused || v.State == verdict.Verified && v.Relay {
				m, err := w.blobOf(s.name, f)
				if err != nil {
					return nil, err
				}
				m.verdict, m.commit = v, v.Commit
				if m.decides() {
					b.decisions++
				}
				if m.apart() {
					if m.isTo(b.rig) {
						b.refused = append(b.refused, m)
					}
					continue
				}
			}
			c := candidate{thread: s.name, file: f.name, blob: f.blob, commit: v.Commit}
			if turn != nil && turn.file == f.name {
				c.turn, turn = true, nil
			}
			add(c)
		}
		if turn != nil {
			add(candidate{thread: s.name, file: turn.file, blob: turn.blob, commit: turn.verdict.Commit, turn: true, marked: true})
		}
		if err := b.freeze(r, w, verdicts, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// blobOf reads a file of a thread as git stores it.
func (w *work) blobOf(thread string, f filed) (m *message, err error) {
	err = w.repo.Objects([]string{f.blob}, envelope.DefaultLimits().File, func(o gitrepo.Object) error {
		m = blobMessage(thread, f.name, o)
		return nil
	})
	return m, gitProblemOrNil(err)
}

// filesAt are the message files that a commit has in threads, by thread.
func (w *work) filesAt(commit string, threads []seen) (map[string]map[filed]bool, error) {
	root, err := w.tree(commit)
	if err != nil || root == "" {
		return nil, err
	}
	trees := map[string]string{}
	for _, s := range threads {
		e, ok, err := w.repo.EntryAt(root, s.name)
		if err != nil {
			return nil, gitProblem(err)
		}
		if ok && e.Mode == gitrepo.ModeTree {
			trees[s.name] = e.ID
		}
	}
	files, err := w.filesOf(slices.Collect(maps.Values(trees)))
	if err != nil {
		return nil, err
	}
	out := map[string]map[filed]bool{}
	for thread, tree := range trees {
		out[thread] = map[filed]bool{}
		for _, f := range files[tree] {
			out[thread][f] = true
		}
	}
	return out, nil
}

// portionOfMessages is how many messages are read together.
const portionOfMessages = 64

// read reads candidates in their order until more than limit of those that wait are
// wanted, and those of which it is not known when they were committed until one waits.
func (b *box) read(w *work, book *verdict.Book, all []candidate, limit int, wanted func(*message) bool) error {
	threads := map[string]*verdict.Thread{}
	for part := range slices.Chunk(all, portionOfMessages) {
		if len(b.waiting) > limit {
			part = slices.DeleteFunc(slices.Clone(part), func(c candidate) bool { return !b.timed || c.made != "" })
		}
		ids := make([]string, len(part))
		for i, c := range part {
			ids[i] = c.blob
		}
		i := 0
		err := w.repo.Objects(ids, envelope.DefaultLimits().File, func(o gitrepo.Object) error {
			c := part[i]
			i++
			if o.Err != nil && c.marked && !errors.Is(o.Err, gitrepo.ErrTooLarge) {
				return o.Err
			} else if o.Err != nil {
				return nil // of which it is not known whom it is to
			}
			m := newMessage(c.thread, c.file, o.Data)
			if m.env == nil {
				return nil
			}
			m.env.Body, m.env.Frontmatter = nil, nil
			if threads[c.thread] == nil {
				threads[c.thread] = book.Thread(c.thread)
			}
			m.blob, m.verdict = c.blob, threads[c.thread].Of(c.file, c.blob)
			m.commit, m.made = c.commit, c.made
			if m.unread = !c.marked && m.isTo(b.rig); m.unread {
				m.why = append(m.why, whyUnread)
			}
			if !c.marked && m.decides() {
				m.why = append(m.why, whyDecision)
			}
			if c.turn {
				m.why = append(m.why, whyTurn)
			}
			if len(m.why) == 0 {
				return nil
			}
			if b.timed = b.timed && m.made != ""; wanted(m) && len(b.waiting) <= limit {
				b.waiting = append(b.waiting, m)
			}
			return nil
		})
		if err != nil {
			return gitProblem(err)
		}
	}
	return nil
}
