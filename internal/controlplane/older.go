package controlplane

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// loadThreads reads the messages of threads from the database, those that are
// reachable, with what acked and resolved them.
func (x *Indexer) loadThreads(ctx context.Context, d *deriver, names []string) error {
	c := x.DB.conn
	for part := range slices.Chunk(names, 1000) {
		byID, caused := map[int64]*row{}, false
		threads, err := listed(part)
		if err != nil {
			return err
		}
		args := []any{x.id, threads}
		in := "repo_id = $1 AND thread " + among(c, 2, "text") + " AND lifecycle_state <> 'superseded'"
		type key struct{ thread, commit, file string }
		facts := map[key]*fact{}
		err = each(ctx, c, "SELECT id, thread, commit_sha, filename, message_type, from_rig, to_rig, body_hash, coalesce(in_reply_to, ''), coalesce(parent_refs, ''), commit_time FROM bridge_messages WHERE "+in+" ORDER BY id",
			args, func(r rows) error {
				var k key
				f := &fact{}
				w := &row{of: f}
				var refs string
				if err := r.Scan(&w.id, &k.thread, &k.commit, &k.file, &f.typ, &f.from, &w.to, &f.hash, &f.reply, &refs, &f.time); err != nil {
					return err
				}
				if d.written != nil && !d.written.has(w.id) {
					return nil
				}
				byID[w.id] = w
				if known := facts[k]; known != nil {
					w.of, known.rows = known, append(known.rows, w)
					return nil
				}
				f.commit, f.file, f.rows, f.index = k.commit, k.file, []*row{w}, d.indexOf(k.commit)
				if refs != "" {
					if err := json.Unmarshal([]byte(refs), &f.refs); err != nil {
						f.refs = nil // nobody of ours wrote this
					}
				}
				facts[k] = f
				d.thread(k.thread).add(f)
				caused = caused || f.typ == "ACK" || f.typ == "RESOLUTION"
				return nil
			})
		if err != nil {
			return err
		}
		if !caused {
			continue
		}
		// By key: of a table that was just filled PostgreSQL does not know which rows are many.
		keys, err := listed(slices.Sorted(maps.Keys(byID)))
		if err != nil {
			return err
		}
		statement := "SELECT e.message_id, e.event_type, e.rig, e.commit_sha FROM bridge_message_events e WHERE e.repo_id = $1 AND e.message_id " + among(c, 2, "bigint") + " AND e.event_type IN ('acked', 'resolved')"
		if !x.first { // else all of it is of this run
			statement += " AND " + stands("$1", "e")
		}
		err = each(ctx, c, statement, []any{x.id, keys}, func(r rows) error {
			var id int64
			var kind string
			var by cause
			if err := r.Scan(&id, &kind, &by.rig, &by.commit); err != nil {
				return err
			}
			by.index = d.indexOf(by.commit)
			switch w := byID[id]; {
			case w == nil || d.written != nil && by.index < 0:
			case kind == "acked":
				w.acks = append(w.acks, by)
			default:
				w.ends = append(w.ends, by)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stands is the condition that the message which caused an event of another one of a
// repository is still reachable.
func stands(repo, event string) string {
	return "EXISTS (SELECT 1 FROM bridge_messages c WHERE c.repo_id = " + repo + " AND c.commit_sha = " + event + ".commit_sha AND c.lifecycle_state <> 'superseded')"
}

// supersede marks the rows of commits that the refs no longer reach, and finds
// out again where their threads stand.
func (x *Indexer) supersede(ctx context.Context, commits []string) error {
	c := x.DB.conn
	of := ""
	if c.postgres() {
		of = " WHERE repo_id = $1"
	}
	for part := range slices.Chunk(commits, 500) {
		lost, err := listed(part)
		if err != nil {
			return err
		}
		args := []any{x.id, lost}
		in := "repo_id = $1 AND commit_sha " + among(c, 2, "text")
		for _, statement := range []string{
			"INSERT INTO bridge_message_events (repo_id, id, message_id, event_type, rig, created_at, commit_sha) SELECT repo_id, (SELECT coalesce(max(id), 0) FROM bridge_message_events" + of + ") + row_number() OVER (ORDER BY id), id, 'superseded', from_rig, commit_time, commit_sha FROM bridge_messages WHERE " + in + " ON CONFLICT DO NOTHING",
			"UPDATE bridge_messages SET lifecycle_state = 'superseded', words = NULL WHERE " + in,
			// What they did to others no longer counts.
			`UPDATE bridge_messages SET lifecycle_state = CASE
  WHEN EXISTS (SELECT 1 FROM bridge_message_events e WHERE e.message_id = bridge_messages.id AND e.repo_id = bridge_messages.repo_id AND e.event_type = 'resolved' AND ` + stands("$1", "e") + `) THEN 'resolved'
  WHEN EXISTS (SELECT 1 FROM bridge_message_events e WHERE e.message_id = bridge_messages.id AND e.repo_id = bridge_messages.repo_id AND e.event_type = 'acked' AND ` + stands("$1", "e") + `) THEN 'acked'
  WHEN EXISTS (SELECT 1 FROM bridge_message_events e WHERE e.message_id = bridge_messages.id AND e.repo_id = bridge_messages.repo_id AND e.event_type = 'received') THEN 'received'
  ELSE 'sent' END
WHERE repo_id = $1 AND lifecycle_state IN ('acked', 'resolved') AND thread IN (SELECT thread FROM bridge_messages WHERE ` + in + ")",
			"DELETE FROM rigward_refused WHERE " + in,
			"DELETE FROM rigward_late WHERE " + in,
		} {
			if err := c.exec(ctx, statement, args...); err != nil {
				return err
			}
		}
		var names []string
		err = each(ctx, c, "SELECT DISTINCT thread FROM bridge_messages WHERE "+in, args, func(r rows) error {
			var name string
			err := r.Scan(&name)
			names = append(names, name)
			return err
		})
		if err == nil {
			err = x.writeThreads(ctx, names)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// beyond returns the commits in the history of some that are not in that of
// others, parents first. git leaves out what it meets in time, by dates that may be anything: so
// what it gives is held against the whole history of the others.
func (x *Indexer) beyond(ctx context.Context, of, others []string) (revs []gitrepo.Rev, err error) {
	for rev, err := range x.Repo.RevList(ctx, of, others, gitrepo.RevListOptions{Reverse: true}) {
		if err != nil {
			return nil, err
		}
		// Of a long history only the names stay, each once: most commits follow their parent.
		own := gitrepo.Rev{ID: strings.Clone(rev.ID), Parents: slices.Clone(rev.Parents)}
		for i, id := range own.Parents {
			if last := len(revs) - 1; last >= 0 && revs[last].ID == id {
				own.Parents[i] = revs[last].ID
			} else {
				own.Parents[i] = strings.Clone(id)
			}
		}
		revs = append(revs, own)
	}
	if len(revs) == 0 || len(others) == 0 {
		return revs, nil
	}
	inside := make(map[string]bool, len(revs)) // whether the others have it, too
	for _, rev := range revs {
		inside[rev.ID] = false
	}
	for rev, err := range x.Repo.RevList(ctx, others, nil, gitrepo.RevListOptions{Unordered: true}) {
		if err != nil {
			return nil, err
		}
		if _, asked := inside[rev.ID]; asked {
			inside[rev.ID] = true
		}
	}
	return slices.DeleteFunc(revs, func(rev gitrepo.Rev) bool { return inside[rev.ID] }), nil
}

// reachable returns the commits of a history.
func (x *Indexer) reachable(ctx context.Context, tips []string) (map[string]bool, error) {
	all := map[string]bool{}
	if len(tips) == 0 {
		return all, nil
	}
	for rev, err := range x.Repo.RevList(ctx, tips, nil, gitrepo.RevListOptions{Unordered: true}) {
		if err != nil {
			return nil, err
		}
		all[strings.Clone(rev.ID)] = true
	}
	return all, nil
}
