package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/verdict"
)

// A Said is a message of a thread as it is looked at.
type Said struct {
	Path, File, Blob, Commit, At, Date      string
	Type, From, Status, StatusClass, TLDR   string
	To                                      []string
	Hash, ReplyTo, AttestedBy               string
	References                              []string
	Verdict, Rules, Signer, Principal, Good string // Good: "true", "false", or "" without a signature
	Events                                  []Happened
	Apart                                   bool // the gates refuse it, and a reader sets it apart
}

// A Happened is what was done to a message.
type Happened struct{ Kind, By, Notes, At string }

// A Refusal is a change of the history that the gates refuse.
type Refusal struct{ Path, File, Rules, Committer, Commit, At string }

// A Look is what is known of one thread.
type Look struct {
	Said     []*Said   // in the client's order, what is apart behind all else
	Refusals []Refusal // that are no messages: edits, deletions
	Closed   bool
}

// Look returns a thread, without what the refs no longer reach.
func (d *DB) Look(ctx context.Context, repo, thread string) (l Look, err error) {
	id, err := d.id(ctx, repo)
	if err != nil {
		return l, err
	}
	args := []any{id, name(thread)}
	type key struct{ commit, file string }
	byKey := map[key]*Said{}
	var words, apart []*word
	of := map[*word]*Said{}
	err = each(ctx, d.conn, `SELECT m.id, m.path, m.filename, m.blob, m.commit_sha, m.commit_time, m.envelope_date, m.message_type, m.from_rig, m.to_rig, m.status_text, m.status_class, coalesce(m.tldr, ''),
  m.body_hash, coalesce(m.in_reply_to, ''), coalesce(m.attested_by, ''), coalesce(m.parent_refs, ''), m.verdict, coalesce(m.rules, ''), coalesce(m.signer, ''), coalesce(m.signer_principal, ''),
  CASE WHEN m.signature_good THEN 'true' WHEN NOT m.signature_good THEN 'false' ELSE '' END, m.attested_by IS NOT NULL OR m.attested_at IS NOT NULL, `+lateColumns+`
FROM bridge_messages m `+joinLate+` WHERE m.repo_id = $1 AND m.thread = $2 AND m.lifecycle_state <> 'superseded' ORDER BY m.id`, args, func(r rows) error {
		w, s := &word{}, &Said{}
		var to, refs string
		var relay bool
		var second, step int64
		if err := r.Scan(&w.id, &s.Path, &s.File, &s.Blob, &s.Commit, &s.At, &s.Date, &s.Type, &s.From, &to, &s.Status, &s.StatusClass, &s.TLDR,
			&s.Hash, &s.ReplyTo, &s.AttestedBy, &refs, &s.Verdict, &s.Rules, &s.Signer, &s.Principal, &s.Good, &relay, &second, &step); err != nil {
			return err
		}
		if known := byKey[key{s.Commit, s.File}]; known != nil {
			known.To = append(known.To, to)
			return nil
		}
		byKey[key{s.Commit, s.File}] = s
		s.To = []string{to}
		if refs != "" && json.Unmarshal([]byte(refs), &s.References) != nil {
			s.References = nil // nobody of ours wrote this
		}
		w.time, w.blob = s.At, s.Blob
		w.order.Came = came(s.Commit, s.At, second, step)
		w.order.File, w.order.Type, w.order.Hash, w.order.ReplyTo = s.File, s.Type, s.Hash, s.ReplyTo
		w.order.Dated(s.Date)
		of[w] = s
		if s.Apart = verdict.State(s.Verdict) == verdict.Refused && verdict.Apart(strings.Fields(s.Rules), relay); s.Apart {
			apart = append(apart, w)
		} else {
			l.Closed = l.Closed || s.Type == "RESOLUTION"
			words = append(words, w)
		}
		return nil
	})
	if err == nil {
		err = each(ctx, d.conn, `SELECT DISTINCT m.commit_sha, m.filename, e.event_type, e.rig, coalesce(e.notes, ''), e.created_at
FROM bridge_messages m JOIN bridge_message_events e ON e.message_id = m.id AND e.repo_id = m.repo_id
WHERE m.repo_id = $1 AND m.thread = $2 AND m.lifecycle_state <> 'superseded' AND e.event_type IN ('acked', 'diverged', 'frozen') AND (e.event_type = 'diverged' OR `+stands("$1", "e")+`)
ORDER BY e.created_at, e.event_type, e.rig`, args, func(r rows) error {
			var k key
			var h Happened
			err := r.Scan(&k.commit, &k.file, &h.Kind, &h.By, &h.Notes, &h.At)
			if s := byKey[k]; s != nil {
				s.Events = append(s.Events, h)
			}
			return err
		})
	}
	if err == nil {
		err = each(ctx, d.conn, "SELECT path, filename, rules, coalesce(committer, ''), commit_sha, commit_time FROM rigward_refused WHERE repo_id = $1 AND thread = $2 ORDER BY commit_time, commit_sha, path", args, func(r rows) error {
			var f Refusal
			err := r.Scan(&f.Path, &f.File, &f.Rules, &f.Committer, &f.Commit, &f.At)
			if byKey[key{f.Commit, f.File}] == nil {
				l.Refusals = append(l.Refusals, f)
			}
			return err
		})
	}
	for _, w := range slices.Concat(sortWords(words), sortWords(apart)) {
		l.Said = append(l.Said, of[w])
	}
	return l, told(ctx, d.target, err)
}

// Version is a text that changes whenever something about repositories does.
func (d *DB) Version(ctx context.Context, repos []string) (string, error) {
	sum := sha256.New()
	for _, repo := range repos {
		for _, statement := range []string{"SELECT coalesce(judged, ''), coalesce(indexed_at, '') FROM rigward_repositories WHERE repo = $1", "SELECT coalesce(max(at), ''), '' FROM rigward_pushes WHERE repo_id = " + theID} {
			err := each(ctx, d.conn, statement, []any{repo}, func(r rows) error {
				var one, two string
				err := r.Scan(&one, &two)
				sum.Write([]byte(repo + "\x00" + one + "\x00" + two + "\x00"))
				return err
			})
			if err != nil {
				return "", told(ctx, d.target, err)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}

// A PushCount is how many pushes of a repository ended with an exit code: 0 taken, 1 refused, 2
// not decided, or never ended.
type PushCount struct {
	Repo string
	Exit int
	N    int64
}

// Pushes counts the pushes of repositories that are in the log.
func (d *DB) Pushes(ctx context.Context, repos []string) (all []PushCount, err error) {
	for _, repo := range repos {
		var n, refused, undecided int64
		err = each(ctx, d.conn, "SELECT coalesce(sum(CAST(pushes AS INTEGER)), 0), coalesce(sum(CAST(refused AS INTEGER)), 0), coalesce(sum(CAST(undecided AS INTEGER)), 0) FROM rigward_push_days WHERE repo_id = "+theID, []any{repo},
			func(r rows) error { return r.Scan(&n, &refused, &undecided) })
		if err != nil {
			return nil, told(ctx, d.target, err)
		}
		for exit, n := range []int64{n - refused - undecided, refused, undecided} {
			if n > 0 {
				all = append(all, PushCount{repo, exit, n})
			}
		}
	}
	return all, nil
}
