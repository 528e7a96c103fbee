package controlplane

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/internal/verdict"
)

// A word is what is said in a thread, as far as it decides where the thread stands.
type word struct {
	id      int64 // of its first recipient
	time    string
	blob    string
	from    string
	to      []recipient
	bad     bool // the gates refuse it
	refused bool // and a reader sets it apart
	order   order.Message
}

// A recipient is a rig that a message is to, with the key of the row.
type recipient struct {
	id  int64
	rig string
}

// everyone stands in rigward_open for all rigs: no rig has this name.
const everyone = ""

// A waiting is what open threads wait for: a rig, since a message by another one, of a type.
type waiting struct{ rig, from, kind string }

// writeThreads finds out where threads stand: by the order in which the client
// shows messages (docs/spec/client.md#order), without what the gates refuse; and counts
// what is said in them.
func (x *Indexer) writeThreads(ctx context.Context, names []string) error {
	c := x.DB.conn
	for part := range slices.Chunk(names, 1000) {
		keys, err := listed(part)
		if err != nil {
			return err
		}
		words := map[string][]*word{}
		seen := map[[3]string]*word{}
		err = each(ctx, c, `SELECT m.id, m.thread, m.filename, m.blob, m.commit_sha, m.message_type, m.envelope_date, m.body_hash, coalesce(m.in_reply_to, ''), m.commit_time, m.from_rig, m.to_rig,
  m.verdict, coalesce(m.rules, ''), m.attested_by IS NOT NULL OR m.attested_at IS NOT NULL, `+lateColumns+` FROM bridge_messages m `+joinLate+` WHERE m.repo_id = $1 AND m.thread `+among(c, 2, "text")+
			" AND m.lifecycle_state <> 'superseded'", []any{x.id, keys}, func(r rows) error {
			w := &word{}
			var thread, commit, date, to, state, rules string
			var relay bool
			var second, step int64
			if err := r.Scan(&w.id, &thread, &w.order.File, &w.blob, &commit, &w.order.Type, &date, &w.order.Hash, &w.order.ReplyTo, &w.time, &w.from, &to, &state, &rules, &relay, &second, &step); err != nil {
				return err
			}
			key := [3]string{thread, w.order.File, commit}
			if known := seen[key]; known != nil {
				known.id = min(known.id, w.id)
				known.to = append(known.to, recipient{w.id, to})
				return nil
			}
			w.order.Came = came(commit, w.time, second, step)
			seen[key] = w
			w.to = []recipient{{w.id, to}}
			w.bad = verdict.State(state) == verdict.Refused
			w.refused = w.bad && verdict.Apart(strings.Fields(rules), relay)
			w.order.Dated(date)
			words[thread] = append(words[thread], w)
			return nil
		})
		if err != nil {
			return err
		}
		var had, have []tallies
		err = each(ctx, c, "SELECT counts FROM rigward_threads WHERE repo_id = $1 AND thread "+among(c, 2, "text"), []any{x.id, keys}, func(r rows) error {
			var counts string
			err := r.Scan(&counts)
			had = append(had, parseTallies(counts))
			return err
		})
		if err != nil {
			return err
		}
		waits := map[waiting]int64{} // how many threads more
		err = each(ctx, c, "SELECT rig, from_rig, message_type, count(*) FROM rigward_turns WHERE repo_id = $1 AND thread "+among(c, 2, "text")+" GROUP BY 1, 2, 3", []any{x.id, keys}, func(r rows) error {
			var w waiting
			var n int64
			err := r.Scan(&w.rig, &w.from, &w.kind, &n)
			waits[w] -= n
			return err
		})
		if err != nil {
			return err
		}
		for _, table := range []string{"rigward_threads", "rigward_open", "rigward_turns"} {
			if err := c.exec(ctx, "DELETE FROM "+table+" WHERE repo_id = $1 AND thread "+among(c, 2, "text"), x.id, keys); err != nil {
				return err
			}
		}
		var args, open, turns []any
		for _, thread := range part {
			if len(words[thread]) == 0 {
				continue
			}
			counts := tallied(words[thread])
			have = append(have, counts)
			rigs := []string{everyone}
			for _, w := range words[thread] {
				for _, r := range w.to {
					rigs = append(rigs, r.rig)
				}
			}
			all := slices.DeleteFunc(words[thread], func(w *word) bool { return w.refused })
			all = sortWords(all)
			var last, turn *word
			closed := false
			for _, w := range all {
				if last = w; w.order.Type != "ACK" {
					turn = w
				}
				closed = closed || w.order.Type == "RESOLUTION"
			}
			if last == nil { // all of it is set apart
				args = append(args, x.id, thread, nil, nil, "", false, counts.String())
				continue
			}
			var of any
			if turn != nil {
				of = turn.id
			}
			args = append(args, x.id, thread, last.id, of, last.time, closed, counts.String())
			if closed {
				continue
			}
			slices.Sort(rigs)
			for _, rig := range slices.Compact(rigs) {
				open = append(open, x.id, rig, thread, last.id, last.from, last.order.Type, last.time)
			}
			if turn != nil {
				for _, r := range turn.to {
					turns = append(turns, x.id, thread, r.rig, r.id, turn.from, turn.order.Type, turn.time, last.time)
					waits[waiting{r.rig, turn.from, turn.order.Type}]++
				}
			}
		}
		if err := insert(ctx, c, "rigward_threads", strings.Fields("repo_id thread last_id turn_id last_time closed counts"), args, "", nil); err != nil {
			return err
		}
		if err := insert(ctx, c, "rigward_open", strings.Fields("repo_id rig thread last_id from_rig message_type last_time"), open, "", nil); err != nil {
			return err
		}
		if err := insert(ctx, c, "rigward_turns", strings.Fields("repo_id thread rig message_id from_rig message_type at last_time"), turns, "", nil); err != nil {
			return err
		}
		if err := x.writeBacklog(ctx, waits); err != nil {
			return err
		}
		if err := x.writeTallies(ctx, had, have); err != nil {
			return err
		}
	}
	return nil
}

// writeBacklog adds to how many threads wait, and takes out what none waits for.
func (x *Indexer) writeBacklog(ctx context.Context, waits map[waiting]int64) error {
	maps.DeleteFunc(waits, func(_ waiting, n int64) bool { return n == 0 })
	if len(waits) == 0 {
		return nil
	}
	var args []any
	var fewer []string // rigs
	for _, w := range slices.SortedFunc(maps.Keys(waits), func(a, b waiting) int {
		return cmp.Or(strings.Compare(a.rig, b.rig), strings.Compare(a.from, b.from), strings.Compare(a.kind, b.kind))
	}) {
		args = append(args, x.id, w.rig, w.from, w.kind, waits[w])
		if waits[w] < 0 {
			fewer = append(fewer, w.rig)
		}
	}
	err := insert(ctx, x.DB.conn, "rigward_backlog", strings.Fields("repo_id rig from_rig message_type threads"), args,
		"ON CONFLICT (repo_id, rig, from_rig, message_type) DO UPDATE SET threads = rigward_backlog.threads + excluded.threads", nil)
	if err != nil {
		return err
	}
	keys, err := listed(fewer)
	if err != nil || len(fewer) == 0 {
		return err
	}
	return x.DB.conn.exec(ctx, "DELETE FROM rigward_backlog WHERE repo_id = $1 AND threads = 0 AND rig "+among(x.DB.conn, 2, "text"), x.id, keys)
}

// sortWords puts the words of a thread in the order of the client. What several commits
// brought was said when the first of them did, and is there once.
func sortWords(all []*word) []*word {
	type version struct{ file, blob string }
	first := map[version]*word{}
	for _, w := range all {
		v := version{w.order.File, w.blob}
		if known := first[v]; known == nil || w.order.Came.Compare(known.order.Came) < 0 {
			first[v] = w
		}
	}
	all = slices.Collect(maps.Values(first))
	order.Sort(all, func(w *word) order.Message { return w.order })
	return all
}

// lateColumns and joinLate are what came needs of a message m besides its commit and the
// commit's time.
const (
	lateColumns = "coalesce(l.second, 0), coalesce(l.step, 0)"
	joinLate    = "LEFT JOIN rigward_late l ON l.repo_id = m.repo_id AND l.commit_sha = m.commit_sha"
)

// came is when a commit came.
func came(commit, at string, second, step int64) order.Moment {
	if step > 0 {
		return order.Moment{Second: second, Step: step, Commit: commit}
	}
	date, _ := time.Parse(time.RFC3339, at) // a time of ours
	return order.Alone(commit, date.Unix())
}

// newClock makes the clock of a run: it knows the commits that were recorded before, and
// has late ones written with the next portion.
func (x *Indexer) newClock(ctx context.Context) *order.Clock {
	x.late = nil
	return &order.Clock{
		Late: func(m order.Moment) { x.late = append(x.late, x.id, m.Commit, m.Second, m.Step) },
		Older: func(commit string) (order.Moment, error) {
			c, err := x.Repo.Commit(commit)
			if err != nil {
				return order.Moment{}, err
			}
			m := order.Alone(commit, c.Committer.When)
			err = each(ctx, x.DB.conn, "SELECT second, step FROM rigward_late WHERE repo_id = $1 AND commit_sha = $2", []any{x.id, commit}, func(r rows) error { return r.Scan(&m.Second, &m.Step) })
			return m, err
		},
	}
}

// writeLate writes the commits whose moment their own date does not tell.
func (x *Indexer) writeLate(ctx context.Context) error {
	err := insert(ctx, x.DB.conn, "rigward_late", []string{"repo_id", "commit_sha", "second", "step"}, x.late,
		"ON CONFLICT (repo_id, commit_sha) DO UPDATE SET second = excluded.second, step = excluded.step", nil)
	x.late = nil
	return err
}
