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
//	                or, if it names nothing, the first one of a recipient who
//	                has not acked before: the message is in the ACK's history
//	resolved        a RESOLUTION of the thread that is not in the message's
//	                history
//	frozen          a relay that freezes the thread and answers the message
//	diverged        a merge that brings together two messages of a thread whose
//	                authors did not know each other's
//
// None depends on the order in which commits came, so a history read in
// portions gives the same as one read at once. Commits are taken parents
// first; of two messages, the one that is taken later finds the other.

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
	to    string
	id    int64
	state int      // that it was written with by this portion, counted in states from 1
	acks  []string // commits by which this recipient acked it
}

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
	closed bool // it has a RESOLUTION
}

// A deriver makes events of commits.
type deriver struct {
	rig     string // whose clone this is; "" for a server
	graph   *graph
	threads map[string]*thread
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
		t = &thread{}
		d.threads[name] = t
	}
	return t
}

// before reports whether a commit, of the range or older, is in the history of
// commit index of the range, without that one itself.
func (d *deriver) before(commit string, index int) (bool, error) {
	if i, inside := d.graph.index[commit]; inside {
		return d.graph.before(i, index), nil
	}
	foreign, err := d.foreign(commit, index)
	return !foreign, err
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
		r := &row{to: to}
		f.rows = append(f.rows, r)
		d.rows = append(d.rows, newRow{r, state, l, m})
		who := to
		if state == "sent" {
			who = f.from
		}
		d.events = append(d.events, event{of: f, row: r, kind: state, rig: who, time: l.time, commit: l.id})
	}
	// What closed the thread before, or beside, this message.
	if t.closed {
		for _, z := range t.facts {
			if z.typ != "RESOLUTION" {
				continue
			}
			later, err := d.before(z.commit, l.index)
			if err != nil {
				return err
			}
			if !later {
				d.all(f, "resolved", z, "")
			}
		}
	}
	t.facts = append(t.facts, f)
	var err error
	switch {
	case e.Type == "RESOLUTION":
		t.closed = true
		for _, old := range t.facts {
			d.all(old, "resolved", f, "")
		}
	case e.Type == "ACK":
		err = d.acked(t, f)
	}
	if m.freeze != "" && err == nil {
		err = d.frozen(t, f, m.freeze)
	}
	return err
}

// all gives every row of a message an event that another one causes.
func (d *deriver) all(f *fact, kind string, cause *fact, notes string) {
	for _, r := range f.rows {
		d.events = append(d.events, event{f, r, kind, cause.from, notes, cause.time, cause.commit})
	}
}

func (d *deriver) acked(t *thread, ack *fact) error {
	bare := ack.reply == "" && len(ack.refs) == 0
	for _, f := range t.facts {
		if f == ack || !bare && !ack.names(f) {
			continue
		}
		own := slices.IndexFunc(f.rows, func(r *row) bool { return r.to == ack.from })
		if bare && own < 0 {
			continue
		}
		if earlier, err := d.before(f.commit, ack.index); err != nil {
			return err
		} else if !earlier {
			continue
		}
		if own < 0 { // somebody who speaks for all recipients, a relay say
			d.all(f, "acked", ack, "")
			continue
		}
		r := f.rows[own]
		if bare {
			done := false
			for _, a := range r.acks {
				var err error
				if done, err = d.before(a, ack.index); err != nil {
					return err
				}
				if done {
					break
				}
			}
			if done {
				continue
			}
		}
		r.acks = append(r.acks, ack.commit)
		d.events = append(d.events, event{f, r, "acked", ack.from, "", ack.time, ack.commit})
	}
	return nil
}

func (d *deriver) frozen(t *thread, z *fact, until string) error {
	for _, f := range t.facts {
		if f == z || z.reply == "" || z.reply != f.hash {
			continue
		}
		if earlier, err := d.before(f.commit, z.index); err != nil {
			return err
		} else if earlier {
			d.all(f, "frozen", z, until)
		}
	}
	return nil
}

// merged finds, at a merge, messages of one thread that were written on two
// sides without knowledge of each other. A message gets one event for each rig
// on the other side; its notes name the first file.
func (d *deriver) merged(l *landed) error {
	// What is new against parent i comes from the other sides.
	news := make([]map[string][]*fact, len(l.missed))
	for i, paths := range l.missed {
		news[i] = map[string][]*fact{}
		for _, path := range paths {
			for _, f := range d.thread(path[0]).facts {
				if f.file != path[1] {
					continue
				}
				if earlier, err := d.before(f.commit, l.index); err != nil {
					return err
				} else if earlier {
					news[i][path[0]] = append(news[i][path[0]], f)
				}
			}
		}
	}
	for a := range news {
		for b := range news {
			if a == b {
				continue
			}
			for name, ours := range news[a] {
				theirs := slices.SortedFunc(slices.Values(news[b][name]), func(x, y *fact) int {
					return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.file, y.file), cmp.Compare(x.commit, y.commit))
				})
				for _, f := range ours {
					last := ""
					for _, o := range theirs {
						if o == f || o.from == last || f.names(o) || o.names(f) {
							continue
						}
						last = o.from
						for _, r := range f.rows {
							d.events = append(d.events, event{f, r, "diverged", o.from, o.file, l.time, l.id})
						}
					}
				}
			}
		}
	}
	return nil
}
