package controlplane

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/internal/verdict"
)

// A word is what is said in a thread, as far as it decides where the thread stands.
type word struct {
	id      int64 // of its first recipient
	time    string
	commit  string
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
		err = each(ctx, c, `SELECT id, thread, filename, commit_sha, message_type, envelope_date, body_hash, coalesce(in_reply_to, ''), commit_time, from_rig, to_rig,
  verdict, coalesce(rules, ''), attested_by IS NOT NULL OR attested_at IS NOT NULL FROM bridge_messages WHERE repo_id = $1 AND thread IN `+list(c, 2, "text")+
			" AND lifecycle_state <> 'superseded'", []any{x.id, keys}, func(r rows) error {
			w := &word{}
			var thread, date, to, state, rules string
			var relay bool
			if err := r.Scan(&w.id, &thread, &w.order.File, &w.commit, &w.order.Type, &date, &w.order.Hash, &w.order.ReplyTo, &w.time, &w.from, &to, &state, &rules, &relay); err != nil {
				return err
			}
			key := [3]string{thread, w.order.File, w.commit}
			if known := seen[key]; known != nil {
				known.to = append(known.to, recipient{w.id, to})
				return nil
			}
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
		err = each(ctx, c, "SELECT counts FROM rigward_threads WHERE repo_id = $1 AND thread IN "+list(c, 2, "text"), []any{x.id, keys}, func(r rows) error {
			var counts string
			err := r.Scan(&counts)
			had = append(had, parseTallies(counts))
			return err
		})
		if err != nil {
			return err
		}
		for _, table := range []string{"rigward_threads", "rigward_open", "rigward_turns"} {
			if err := c.exec(ctx, "DELETE FROM "+table+" WHERE repo_id = $1 AND thread IN "+list(c, 2, "text"), x.id, keys); err != nil {
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
			sortWords(all)
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
		if err := x.writeTallies(ctx, had, have); err != nil {
			return err
		}
	}
	return nil
}

// sortWords puts the words of a thread in the order of the client.
func sortWords(all []*word) {
	// By the time of the commit, so that it does not count what was indexed first; of
	// one second a parent is written before its child.
	came := slices.Clone(all)
	slices.SortFunc(came, func(a, b *word) int {
		return cmp.Or(strings.Compare(a.time, b.time), cmp.Compare(a.id, b.id))
	})
	for i, w := range came {
		w.order.Came = i + 1
		if i > 0 && came[i-1].commit == w.commit {
			w.order.Came = came[i-1].order.Came
		}
	}
	slices.SortFunc(all, func(a, b *word) int { return strings.Compare(a.commit, b.commit) })
	order.Sort(all, func(w *word) order.Message { return w.order })
}
