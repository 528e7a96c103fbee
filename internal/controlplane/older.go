package controlplane

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// loadThreads reads the messages of threads from the database, those that are
// reachable, with what acked them.
func (x *Indexer) loadThreads(ctx context.Context, d *deriver, names []string, also string) error {
	c := x.DB.conn
	byID := map[int64]*row{}
	for part := range slices.Chunk(names, 500) {
		threads, err := listed(part)
		if err != nil {
			return err
		}
		args := []any{x.Name, threads}
		in := "repo = $1 AND thread IN " + list(c, 2, "text") + " AND lifecycle_state <> 'superseded' " + also
		type key struct{ thread, commit, file string }
		facts := map[key]*fact{}
		err = each(ctx, c, "SELECT id, thread, commit_sha, filename, message_type, from_rig, to_rig, body_hash, coalesce(in_reply_to, ''), coalesce(parent_refs, ''), commit_time FROM bridge_messages WHERE "+in+" ORDER BY id",
			args, func(r rows) error {
				var k key
				w := &row{}
				f := &fact{index: -1}
				var refs string
				if err := r.Scan(&w.id, &k.thread, &k.commit, &k.file, &f.typ, &f.from, &w.to, &f.hash, &f.reply, &refs, &f.time); err != nil {
					return err
				}
				if d.written != nil && !d.written.has(w.id) {
					return nil
				}
				byID[w.id] = w
				if known := facts[k]; known != nil {
					known.rows = append(known.rows, w)
					return nil
				}
				f.commit, f.file, f.rows = k.commit, k.file, []*row{w}
				if refs != "" {
					if err := json.Unmarshal([]byte(refs), &f.refs); err != nil {
						f.refs = nil // nobody of ours wrote this
					}
				}
				facts[k] = f
				t := d.thread(k.thread)
				t.facts = append(t.facts, f)
				t.closed = t.closed || f.typ == "RESOLUTION"
				return nil
			})
		if err != nil {
			return err
		}
		if also != "" {
			continue
		}
		err = each(ctx, c, "SELECT e.message_id, e.rig, e.commit_sha FROM bridge_messages m JOIN bridge_message_events e ON e.message_id = m.id WHERE e.event_type = 'acked' AND "+stands("m", "e")+" AND m."+in,
			args, func(r rows) error {
				var id int64
				var rig, commit string
				if err := r.Scan(&id, &rig, &commit); err != nil {
					return err
				}
				if _, inside := d.graph.index[commit]; d.written != nil && !inside {
					return nil
				}
				if w := byID[id]; w != nil && w.to == rig {
					w.acks = append(w.acks, commit)
				}
				return nil
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// stands is the condition that the message which caused an event of another
// one is still reachable.
func stands(message, event string) string {
	return "EXISTS (SELECT 1 FROM bridge_messages c WHERE c.repo = " + message + ".repo AND c.commit_sha = " + event + ".commit_sha AND c.lifecycle_state <> 'superseded')"
}

// supersede marks the rows of commits that the refs no longer reach, and finds
// out again where their threads stand.
func (x *Indexer) supersede(ctx context.Context, commits []string) error {
	c := x.DB.conn
	for part := range slices.Chunk(commits, 500) {
		lost, err := listed(part)
		if err != nil {
			return err
		}
		args := []any{x.Name, lost}
		in := "repo = $1 AND commit_sha IN " + list(c, 2, "text")
		for _, statement := range []string{
			"INSERT INTO bridge_message_events (message_id, event_type, rig, created_at, commit_sha) SELECT id, 'superseded', from_rig, commit_time, commit_sha FROM bridge_messages WHERE " + in + " ON CONFLICT DO NOTHING",
			"UPDATE bridge_messages SET lifecycle_state = 'superseded' WHERE " + in,
			// What they did to others no longer counts.
			`UPDATE bridge_messages SET lifecycle_state = CASE
  WHEN EXISTS (SELECT 1 FROM bridge_message_events e WHERE e.message_id = bridge_messages.id AND e.event_type = 'resolved' AND ` + stands("bridge_messages", "e") + `) THEN 'resolved'
  WHEN EXISTS (SELECT 1 FROM bridge_message_events e WHERE e.message_id = bridge_messages.id AND e.event_type = 'acked' AND ` + stands("bridge_messages", "e") + `) THEN 'acked'
  WHEN EXISTS (SELECT 1 FROM bridge_message_events e WHERE e.message_id = bridge_messages.id AND e.event_type = 'received') THEN 'received'
  ELSE 'sent' END
WHERE repo = $1 AND lifecycle_state IN ('acked', 'resolved') AND thread IN (SELECT thread FROM bridge_messages WHERE ` + in + ")",
			"DELETE FROM rigward_threads WHERE repo = $1 AND thread IN (SELECT thread FROM bridge_messages WHERE " + in + ")",
			`INSERT INTO rigward_threads (repo, thread, last_id, turn_id, last_time, closed)
SELECT t.repo, t.thread, t.last_id, t.turn_id, l.commit_time, t.resolutions > 0 FROM (
  SELECT repo, thread, max(id) AS last_id, max(CASE WHEN message_type <> 'ACK' THEN id END) AS turn_id, sum(CASE WHEN message_type = 'RESOLUTION' THEN 1 ELSE 0 END) AS resolutions
  FROM bridge_messages WHERE lifecycle_state <> 'superseded' AND repo = $1 AND thread IN (SELECT thread FROM bridge_messages WHERE ` + in + `) GROUP BY repo, thread) t
JOIN bridge_messages l ON l.id = t.last_id WHERE true ON CONFLICT DO NOTHING`,
		} {
			if err := c.exec(ctx, statement, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep marks every row whose commit the refs do not reach, and returns how
// many commits that concerns.
func (x *Indexer) sweep(ctx context.Context, tips map[string]string) (int, error) {
	reachable, err := x.reachable(ctx, tips)
	if err != nil {
		return 0, err
	}
	var lost []string
	err = each(ctx, x.DB.conn, "SELECT DISTINCT commit_sha FROM bridge_messages WHERE repo = $1 AND lifecycle_state <> 'superseded'", []any{x.Name}, func(r rows) error {
		var id string
		if err := r.Scan(&id); err != nil {
			return err
		}
		if !reachable[id] {
			lost = append(lost, id)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(lost), x.supersede(ctx, lost)
}

func (x *Indexer) reachable(ctx context.Context, tips map[string]string) (map[string]bool, error) {
	all := map[string]bool{}
	if len(tips) == 0 {
		return all, nil
	}
	for rev, err := range x.Repo.RevList(ctx, slices.Compact(slices.Sorted(maps.Values(tips))), nil, gitrepo.RevListOptions{}) {
		if err != nil {
			return nil, err
		}
		all[rev.ID] = true
	}
	return all, nil
}
