package controlplane

import (
	"cmp"
	"slices"
	"strings"
)

// Every event is a function of the commit that causes it, the commit of the
// message that it happens to, and whether one is in the history of the other:
//
//	received, sent  the message's own commit
//	acked           an ACK that names the message by in_reply_to or references,
//	                or that names nothing and comes from a recipient
//	resolved        a RESOLUTION of the thread
//	frozen          a relay that freezes the thread and answers the message
//	diverged        a merge that brings together two messages of a thread whose
//	                authors did not know each other's
//
// The message is in the history of the cause, or the cause itself, and what the sender of
// an ACK, or any RESOLUTION, did to it before in that history is not done again. One
// cause does something to no more than maxCaused messages. So a thread of n messages has
// about n events of each kind, whoever writes what into it, unless branches are many.
//
// None depends on the order in which commits came, so a history read in
// portions gives the same as one read at once. Commits are taken parents
// first.

// A fact is what later messages of a thread need to know of one.
type fact struct {
	commit, file, typ, from, time string
	hash, reply                   string
	refs                          []string
	index                         int // of its commit in the range, -1 if older
	rows                          []*row
}

// A row is a fact for one recipient.
type row struct {
	of    *fact
	to    string
	id    int64
	state int     // that it was written with by this portion, counted in states from 1
	acks  []cause // of what acked it
	ends  []cause // and resolved it
}

// A cause is a commit with who made it what it is.
type cause struct {
	rig, commit string
	index       int // in the range, -1 if older
}

func (f *fact) cause() cause { return cause{f.from, f.commit, f.index} }

// maxCaused is to how many rows one cause does something at the most: the newest.
const maxCaused = 1000

// maxRecipients is of how many recipients a message has rows: the first.
const maxRecipients = 256

// maxBeside is of how many rigs on the other side a message is said to have diverged.
const maxBeside = 16

// An event waits to be written.
type event struct {
	of               *fact
	row              *row
	kind, rig, notes string
	time, commit     string
}

// A thread is what is known of one.
type thread struct {
	facts  []*fact
	byHash map[string][]*fact
	byFile map[string][]*fact
	fronts map[string]*front
}

func (t *thread) add(f *fact) {
	t.facts = append(t.facts, f)
	t.byHash[f.hash] = append(t.byHash[f.hash], f)
	t.byFile[f.file] = append(t.byFile[f.file], f)
	for _, r := range f.rows {
		for _, of := range []string{anyone, r.to} {
			if front := t.fronts[of]; front != nil {
				front.todo = append(front.todo, r)
			}
		}
	}
}

// A front is how far the rows of a thread that are to one rig have been acked by it,
// or, of anyone, how far all have been resolved.
type front struct {
	todo  []*row  // at least those to which that has not happened
	heads []cause // by which it did, apart from those in the history of another one
}

// anyone is no rig.
const anyone = ""

// causes returns by what a row came behind the front of a rig, or of anyone.
func (r *row) causes(of string) []cause {
	if of == anyone {
		return r.ends
	}
	return r.acks
}

// front returns the front of a rig or of anyone.
func (t *thread) front(of string) *front {
	if f := t.fronts[of]; f != nil {
		return f
	}
	f := &front{}
	t.fronts[of] = f
	known := map[cause]bool{}
	for _, r := range t.all(of) {
		own := false
		for _, c := range r.causes(of) {
			if of != anyone && c.rig != of {
				continue
			}
			if own = true; !known[c] {
				known[c] = true
				f.heads = append(f.heads, c)
			}
		}
		if !own {
			f.todo = append(f.todo, r)
		}
	}
	return f
}

// all returns the rows that are to a rig, or to anyone.
func (t *thread) all(of string) []*row {
	var all []*row
	for _, f := range t.facts {
		for _, r := range f.rows {
			if of == anyone || r.to == of {
				all = append(all, r)
			}
		}
	}
	return all
}

// moves moves a front up to what is in the history of a cause, and reports whether
// all that it consisted of is.
func (f *front) moves(d *deriver, z cause) (whole bool, err error) {
	whole = true
	heads := f.heads[:0:0]
	for _, h := range f.heads {
		inside, err := d.precedes(h.commit, h.index, z)
		if err != nil {
			return false, err
		}
		if !inside {
			whole = false
			heads = append(heads, h)
		}
	}
	f.heads = append(heads, z)
	return whole, nil
}

// A deriver makes events of commits.
type deriver struct {
	rig     string // whose clone this is; "" for a server
	graph   *graph
	threads map[string]*thread
	caused  int // maxCaused, or less
	// foreign reports whether an older commit is not in the history of commit
	// index of the range.
	foreign func(commit string, index int) (bool, error)

	rows      []newRow
	events    []event
	nextEvent int64 // the key of the first

	// written are, of a run for which nothing counts that was in the database
	// before, the rows that it wrote itself; else nil.
	written keySet
	limit   int  // of messages that are kept in memory
	forgot  bool // threads are read from the database when they are needed
}

// A keySet is a set of keys, small where they are close together.
type keySet map[int64]uint64

func (s keySet) add(id int64) {
	if id > 0 {
		s[id>>6] |= 1 << (id & 63)
	}
}

func (s keySet) has(id int64) bool { return s[id>>6]>>(id&63)&1 != 0 }

// forget drops what is known of threads after a portion: at once where it came
// from the database, else when it becomes too much.
func (d *deriver) forget(fresh bool) {
	if fresh && !d.forgot {
		n := 0
		for _, t := range d.threads {
			n += len(t.facts)
		}
		d.forgot = n > d.limit
	}
	if !fresh || d.forgot {
		d.threads = map[string]*thread{}
	}
}

// A newRow waits to be written.
type newRow struct {
	row   *row
	state string
	from  *landed
	m     *message
}

func (d *deriver) thread(name string) *thread {
	t := d.threads[name]
	if t == nil {
		t = &thread{byHash: map[string][]*fact{}, byFile: map[string][]*fact{}, fronts: map[string]*front{}}
		d.threads[name] = t
	}
	return t
}

// precedes reports whether a commit, of the range by its index or older, is in the history of
// a commit of the range, without that one itself.
func (d *deriver) precedes(commit string, index int, of cause) (bool, error) {
	if index >= 0 {
		return d.graph.before(index, of.index), nil
	}
	foreign, err := d.foreign(commit, of.index)
	return !foreign, err
}

// indexOf returns the index of a commit in the range, -1 for an older one.
func (d *deriver) indexOf(commit string) int {
	if i, inside := d.graph.index[commit]; inside {
		return i
	}
	return -1
}

// names reports whether a message names another one: by its body hash, or by the
// commit that brought it.
func (f *fact) names(other *fact) bool {
	return f.reply != "" && f.reply == other.hash ||
		slices.ContainsFunc(f.refs, func(ref string) bool { return ref != "" && strings.HasPrefix(other.commit, ref) })
}

// take derives what a commit brings.
func (d *deriver) take(l *landed) error {
	for i := range l.messages {
		if err := d.message(l, &l.messages[i]); err != nil {
			return err
		}
	}
	if l.missed != nil {
		return d.merged(l)
	}
	return nil
}

func (d *deriver) message(l *landed, m *message) error {
	e := m.env
	t := d.thread(m.thread)
	f := &fact{commit: l.id, file: m.file, typ: e.Type, from: name(e.From), time: l.time, hash: e.Hash, reply: e.InReplyTo, refs: e.References, index: l.index}
	state := "received"
	if d.rig != "" && d.rig == f.from {
		state = "sent"
	}
	for _, to := range e.To {
		if to = name(to); slices.ContainsFunc(f.rows, func(r *row) bool { return r.to == to }) {
			continue
		}
		if len(f.rows) == maxRecipients {
			break
		}
		r := &row{of: f, to: to}
		f.rows = append(f.rows, r)
		d.rows = append(d.rows, newRow{r, state, l, m})
		who := to
		if state == "sent" {
			who = f.from
		}
		d.events = append(d.events, event{of: f, row: r, kind: state, rig: who, time: l.time, commit: l.id})
	}
	t.add(f)
	var err error
	switch {
	case e.Type == "RESOLUTION":
		err = d.resolved(t, f)
	case e.Type == "ACK":
		err = d.acked(t, f)
	}
	if m.freeze != "" && err == nil {
		err = d.frozen(t, f, m.freeze)
	}
	return err
}

// all gives rows an event that a message causes, and returns them: the newest if they are
// too many.
func (d *deriver) all(rows []*row, kind string, by *fact, notes string) []*row {
	rows = d.newest(rows)
	for _, r := range rows {
		d.events = append(d.events, event{r.of, r, kind, by.from, notes, by.time, by.commit})
	}
	return rows
}

// newest puts rows in order if there are too many, and returns those of them that one cause
// may do something to.
func (d *deriver) newest(rows []*row) []*row {
	if len(rows) > d.caused {
		slices.SortFunc(rows, func(a, b *row) int {
			return cmp.Or(cmp.Compare(b.of.time, a.of.time), cmp.Compare(a.of.commit, b.of.commit), cmp.Compare(a.of.file, b.of.file), cmp.Compare(a.to, b.to))
		})
		rows = rows[:d.caused]
	}
	return rows
}

func (d *deriver) resolved(t *thread, z *fact) error {
	rows, err := d.behind(t, anyone, z)
	for _, r := range d.all(rows, "resolved", z, "") {
		r.ends = append(r.ends, z.cause())
	}
	return err
}

// behind moves the front of a rig, or of anyone, up to a message, and returns the rows
// in its history that came behind the front by that.
func (d *deriver) behind(t *thread, of string, by *fact) (rows []*row, err error) {
	z := by.cause()
	front := t.front(of)
	whole, err := front.moves(d, z)
	if err != nil {
		return nil, err
	}
	all := front.todo
	if !whole {
		all = t.all(of)
	}
	todo := all[:0:0]
	for _, r := range all {
		inside := r.of == by && of == anyone
		if r.of != by {
			if inside, err = d.precedes(r.of.commit, r.of.index, z); err != nil {
				return nil, err
			}
		}
		if !inside {
			todo = append(todo, r)
			continue
		}
		done, err := d.done(r.causes(of), of, z)
		if err != nil {
			return nil, err
		}
		if !done {
			rows = append(rows, r)
		}
	}
	now := d.newest(rows)
	front.todo = append(todo, rows[len(now):]...)
	return now, nil
}

// done reports whether one of the causes, of a rig or of anyone, is in the history of z.
func (d *deriver) done(causes []cause, of string, z cause) (bool, error) {
	for _, c := range causes {
		if of != anyone && c.rig != of {
			continue
		}
		if done, err := d.precedes(c.commit, c.index, z); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

func (d *deriver) acked(t *thread, ack *fact) error {
	z := ack.cause()
	if ack.reply == "" && len(ack.refs) == 0 {
		rows, err := d.behind(t, ack.from, ack)
		for _, r := range d.all(rows, "acked", ack, "") {
			r.acks = append(r.acks, z)
		}
		return err
	}
	facts := t.byHash[ack.reply]
	if ack.reply == "" {
		facts = nil
	}
	if len(ack.refs) > 0 {
		facts = t.facts
	}
	var rows []*row
	for _, f := range facts {
		if f == ack || !ack.names(f) {
			continue
		}
		if earlier, err := d.precedes(f.commit, f.index, z); err != nil {
			return err
		} else if !earlier {
			continue
		}
		own := slices.IndexFunc(f.rows, func(r *row) bool { return r.to == ack.from })
		for i, r := range f.rows {
			if own >= 0 && own != i { // else it is somebody who speaks for all recipients, a relay say
				continue
			}
			done, err := d.done(r.acks, ack.from, z)
			if err != nil {
				return err
			}
			if !done {
				rows = append(rows, r)
			}
		}
	}
	own := false
	for _, r := range d.all(rows, "acked", ack, "") {
		r.acks = append(r.acks, z)
		own = own || r.to == ack.from
	}
	if front := t.fronts[ack.from]; front != nil && own {
		_, err := front.moves(d, z)
		return err
	}
	return nil
}

func (d *deriver) frozen(t *thread, z *fact, until string) error {
	if z.reply == "" {
		return nil
	}
	var rows []*row
	for _, f := range t.byHash[z.reply] {
		if f == z {
			continue
		}
		if earlier, err := d.precedes(f.commit, f.index, z.cause()); err != nil {
			return err
		} else if earlier {
			rows = append(rows, f.rows...)
		}
	}
	d.all(rows, "frozen", z, until)
	return nil
}

// A sided is a message that a merge joins with what some of its parents had.
type sided struct {
	*fact
	lacking []bool // by parent, whether that one did not have it
}

// apart reports whether no parent had both of two messages.
func (s *sided) apart(o *sided) bool {
	for i, lacking := range s.lacking {
		if !lacking && !o.lacking[i] {
			return false
		}
	}
	return true
}

// merged finds, at a merge, messages of one thread that were written on two
// sides without knowledge of each other. A message gets one event for each rig
// on the other side, of the first maxBeside; its notes name the first file.
func (d *deriver) merged(l *landed) error {
	z := cause{commit: l.id, index: l.index}
	threads := map[string][]*sided{}
	of := map[*fact]*sided{}
	for i, paths := range l.missed {
		for _, path := range paths {
			for _, f := range d.thread(path[0]).byFile[path[1]] {
				known := of[f]
				if known == nil {
					if earlier, err := d.precedes(f.commit, f.index, z); err != nil {
						return err
					} else if !earlier {
						continue
					}
					known = &sided{f, make([]bool, len(l.missed))}
					of[f] = known
					threads[path[0]] = append(threads[path[0]], known)
				}
				known.lacking[i] = true
			}
		}
	}
	beside := map[*row][]*sided{} // one for each rig, in order
	var rows []*row
	for _, all := range threads {
		slices.SortFunc(all, func(x, y *sided) int {
			return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.file, y.file), cmp.Compare(x.commit, y.commit))
		})
		for _, f := range all {
			var others []*sided
			for _, o := range all {
				if len(others) == maxBeside {
					break
				}
				if !f.apart(o) || len(others) > 0 && others[len(others)-1].from == o.from || f.names(o.fact) || o.names(f.fact) {
					continue
				}
				others = append(others, o)
			}
			for _, r := range f.rows {
				if len(others) > 0 {
					rows, beside[r] = append(rows, r), others
				}
			}
		}
	}
	for _, r := range d.newest(rows) {
		for _, o := range beside[r] {
			d.events = append(d.events, event{r.of, r, "diverged", o.from, o.file, l.time, l.id})
		}
	}
	return nil
}
