package controlplane

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

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
	Refusals []Refusal // that are no messages: edits, deletions; the newest maxRefusals
	Closed   bool

	// Of a thread of more than maxWhole messages, the above is a part.
	Part   bool
	Total  int    // messages of the thread, with what is apart
	Older  string // the cursor of the part before this one, "" for none
	Frozen string // until when the thread is frozen, whatever part that is in; "" for not at all
}

// A Part says what of a thread is looked at.
type Part struct {
	Commit, File string // one message; "": all
	Before       string // the cursor of a part of a long thread; "": the newest
	Limit        int    // rows of a part of a long thread

	whole int // 0: maxWhole
}

// maxWhole is how many messages of a thread are put in order and told of at once. Of more, the last
// that were committed are, then those before them.
const maxWhole = 2000

// maxRefusals is how many changes that the gates refuse are told of at once.
const maxRefusals = 500

// Look returns a thread, without what the refs no longer reach.
func (d *DB) Look(ctx context.Context, repo, thread string, part Part) (l Look, err error) {
	id, err := d.id(ctx, repo)
	if err != nil {
		return l, err
	}
	args := []any{id, name(thread)}
	which, within := "", ""
	if part.File != "" {
		which, args = " AND m.commit_sha = $3 AND m.filename = $4", append(args, part.Commit, name(part.File))
	} else {
		err = each(ctx, d.conn, "SELECT counts, closed FROM rigward_threads WHERE repo_id = $1 AND thread = $2", args, func(r rows) error {
			var counts string
			err := r.Scan(&counts, &l.Closed)
			for _, t := range parseTallies(counts) {
				l.Total += int(t.sent)
			}
			return err
		})
		if l.Part = l.Total > cmp.Or(part.whole, maxWhole); l.Part && err == nil {
			var from, before place
			if from, before, err = d.part(ctx, args, part, &l); err == nil {
				which = " AND m.commit_time >= $3 AND m.commit_time <= $5 AND (m.commit_time, m.id) >= ($3, $4) AND (m.commit_time, m.id) < ($5, $6)"
				within = " AND f.commit_time >= $3 AND f.commit_time < $4"
				args = append(args, from.at, from.id, before.at, before.id)
			}
		}
		if err != nil {
			return l, told(ctx, d.target, err)
		}
	}
	type key struct{ commit, file string }
	byKey := map[key]*Said{}
	var words, apart []*word
	of := map[*word]*Said{}
	err = each(ctx, d.conn, `SELECT m.id, m.path, m.filename, m.blob, m.commit_sha, m.commit_time, m.envelope_date, m.message_type, m.from_rig, m.to_rig, m.status_text, m.status_class, coalesce(m.tldr, ''),
  m.body_hash, coalesce(m.in_reply_to, ''), coalesce(m.attested_by, ''), coalesce(m.parent_refs, ''), m.verdict, coalesce(m.rules, ''), coalesce(m.signer, ''), coalesce(m.signer_principal, ''),
  CASE WHEN m.signature_good THEN 'true' WHEN NOT m.signature_good THEN 'false' ELSE '' END, m.attested_by IS NOT NULL OR m.attested_at IS NOT NULL, `+lateColumns+`
FROM bridge_messages m `+joinLate+` WHERE m.repo_id = $1 AND m.thread = $2 AND m.lifecycle_state <> 'superseded'`+which+` ORDER BY m.id`, args, func(r rows) error {
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
WHERE m.repo_id = $1 AND m.thread = $2 AND m.lifecycle_state <> 'superseded'`+which+` AND e.event_type IN ('acked', 'diverged', 'frozen') AND (e.event_type = 'diverged' OR `+stands("$1", "e")+`)
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
	if err == nil && part.File == "" {
		of := args[:2:2]
		if l.Part {
			of = append(of, args[2], args[4])
		}
		err = each(ctx, d.conn, `SELECT f.path, f.filename, f.rules, coalesce(f.committer, ''), f.commit_sha, f.commit_time FROM rigward_refused f WHERE f.repo_id = $1 AND f.thread = $2`+within+`
AND NOT EXISTS (SELECT 1 FROM bridge_messages m WHERE m.repo_id = $1 AND m.commit_sha = f.commit_sha AND m.thread = $2 AND m.filename = f.filename AND m.lifecycle_state <> 'superseded')
ORDER BY f.commit_time DESC, f.commit_sha DESC, f.path DESC LIMIT `+itoa(maxRefusals), of, func(r rows) error {
			var f Refusal
			err := r.Scan(&f.Path, &f.File, &f.Rules, &f.Committer, &f.Commit, &f.At)
			l.Refusals = append(l.Refusals, f)
			return err
		})
		slices.Reverse(l.Refusals)
	}
	for _, w := range slices.Concat(sortWords(words), sortWords(apart)) {
		l.Said = append(l.Said, of[w])
	}
	return l, told(ctx, d.target, err)
}

// A place is where a row of a thread stands, in the order in which they were committed and written.
type place struct {
	at string
	id int64
}

func (p place) String() string { return p.at + "." + strconv.FormatInt(p.id, 10) }

// part finds from where to before where a part of a long thread reaches. No message is in two
// parts, to however many it is.
func (d *DB) part(ctx context.Context, args []any, part Part, l *Look) (from, before place, err error) {
	before = place{"9999", math.MaxInt64}
	if part.Before != "" {
		at, id, _ := strings.Cut(part.Before, ".")
		n, wrong := strconv.ParseInt(id, 10, 64)
		if _, noTime := time.Parse(time.RFC3339, at); wrong != nil || noTime != nil {
			at, n = "", 0 // nobody of ours wrote this: there is nothing
		}
		before = place{at, n}
	}
	const of = " FROM bridge_messages m WHERE m.repo_id = $1 AND m.thread = $2 AND m.lifecycle_state <> 'superseded'"
	commit, file := "", ""
	err = each(ctx, d.conn, "SELECT m.commit_time, m.id, m.commit_sha, m.filename"+of+" AND m.commit_time <= $3 AND (m.commit_time, m.id) < ($3, $4) ORDER BY m.commit_time DESC, m.id DESC LIMIT 1 OFFSET "+itoa(max(part.Limit, 1)-1),
		append(args[:2:2], before.at, before.id), func(r rows) error { return r.Scan(&from.at, &from.id, &commit, &file) })
	if err == nil && commit != "" {
		if err = each(ctx, d.conn, "SELECT min(m.id)"+of+" AND m.commit_sha = $3 AND m.filename = $4", append(args[:2:2], commit, file), func(r rows) error { return r.Scan(&from.id) }); err == nil {
			err = each(ctx, d.conn, "SELECT 1"+of+" AND m.commit_time <= $3 AND (m.commit_time, m.id) < ($3, $4) LIMIT 1", append(args[:2:2], from.at, from.id), func(rows) error {
				l.Older = from.String()
				return nil
			})
		}
	}
	if err == nil {
		err = each(ctx, d.conn, `SELECT coalesce(max(e.notes), '') FROM bridge_message_events e JOIN bridge_messages m ON m.id = e.message_id AND m.repo_id = e.repo_id
WHERE e.repo_id = $1 AND e.event_type IN ('diverged', 'frozen') AND e.event_type = 'frozen' AND m.thread = $2 AND m.lifecycle_state <> 'superseded' AND `+stands("$1", "e"), args[:2:2], func(r rows) error { return r.Scan(&l.Frozen) })
	}
	return from, before, err
}

// Version is a text that changes whenever something about repositories does.
func (d *DB) Version(ctx context.Context, repos []string) (string, error) {
	ids, err := d.ids(ctx, repos)
	var all []string
	note := func(repo string, row []any) { all = append(all, fmt.Sprintf("%s\x00%v", repo, row)) }
	for _, text := range []string{"SELECT coalesce(s.judged, ''), coalesce(s.indexed_at, '') FROM rigward_repositories s WHERE s.repo_id = :repo", "SELECT coalesce(max(p.at), ''), '' FROM rigward_pushes p WHERE p.repo_id = :repo"} {
		if err == nil {
			err = d.over(ctx, ids, repos, text, map[string]any{}, 2, note)
		}
	}
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(all, "\x00\x00")))
	return hex.EncodeToString(sum[:12]), told(ctx, d.target, err)
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
	ids, err := d.ids(ctx, repos)
	if err == nil {
		sums := "SELECT CAST(coalesce(sum(pushes), 0) AS BIGINT), CAST(coalesce(sum(refused), 0) AS BIGINT), CAST(coalesce(sum(undecided), 0) AS BIGINT) FROM rigward_push_days WHERE repo_id = :repo"
		err = d.over(ctx, ids, repos, sums, map[string]any{}, 3, func(repo string, row []any) {
			n, _ := row[0].(int64)
			refused, _ := row[1].(int64)
			undecided, _ := row[2].(int64)
			for exit, n := range []int64{n - refused - undecided, refused, undecided} {
				if n > 0 {
					all = append(all, PushCount{repo, exit, n})
				}
			}
		})
	}
	slices.SortStableFunc(all, func(a, b PushCount) int { return strings.Compare(a.Repo, b.Repo) })
	return all, told(ctx, d.target, err)
}
