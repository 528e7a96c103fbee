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
	refused bool
	order   order.Message
}

// writeThreads finds out where threads stand: by the order in which the client
// shows messages (docs/spec/client.md#order), without what the gates refuse.
func (x *Indexer) writeThreads(ctx context.Context, names []string) error {
	c := x.DB.conn
	for part := range slices.Chunk(names, 1000) {
		keys, err := listed(part)
		if err != nil {
			return err
		}
		words := map[string][]*word{}
		seen := map[[3]string]bool{}
		err = each(ctx, c, `SELECT id, thread, filename, commit_sha, message_type, envelope_date, body_hash, coalesce(in_reply_to, ''), commit_time,
  verdict, coalesce(rules, ''), attested_by IS NOT NULL OR attested_at IS NOT NULL FROM bridge_messages WHERE repo_id = $1 AND thread IN `+list(c, 2, "text")+
			" AND lifecycle_state <> 'superseded'", []any{x.id, keys}, func(r rows) error {
			w := &word{}
			var thread, date, state, rules string
			var relay bool
			if err := r.Scan(&w.id, &thread, &w.order.File, &w.commit, &w.order.Type, &date, &w.order.Hash, &w.order.ReplyTo, &w.time, &state, &rules, &relay); err != nil {
				return err
			}
			if key := [3]string{thread, w.order.File, w.commit}; !seen[key] {
				seen[key] = true
				w.refused = verdict.State(state) == verdict.Refused && verdict.Apart(strings.Fields(rules), relay)
				w.order.Dated(date)
				words[thread] = append(words[thread], w)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := c.exec(ctx, "DELETE FROM rigward_threads WHERE repo_id = $1 AND thread IN "+list(c, 2, "text"), x.id, keys); err != nil {
			return err
		}
		var args []any
		for _, thread := range part {
			all := slices.DeleteFunc(words[thread], func(w *word) bool { return w.refused })
			if len(all) == 0 {
				continue
			}
			sortWords(all)
			last := all[len(all)-1]
			var turn any
			closed := false
			for _, w := range all {
				if w.order.Type != "ACK" {
					turn = w.id
				}
				closed = closed || w.order.Type == "RESOLUTION"
			}
			args = append(args, x.id, thread, last.id, turn, last.time, closed)
		}
		if err := insert(ctx, c, "rigward_threads", strings.Fields("repo_id thread last_id turn_id last_time closed"), args, "", nil); err != nil {
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
