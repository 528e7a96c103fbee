package controlplane

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/outbox"
)

// AddPushes writes what hooks have told of pushes, and what became of them. A record that is
// there already is left as it is, so that any number of programs may tell the same.
func (d *DB) AddPushes(ctx context.Context, repo string, records []outbox.Record) error {
	return told(ctx, d.target, together(ctx, d.conn, func() error {
		var args []any
		id, err := lockRepository(ctx, d.conn, repo)
		if err != nil {
			return err
		}
		var pushes []string
		for i := range records {
			r := &records[i]
			var exit, millis, commits any
			if r.Stage == outbox.Judged {
				exit, millis, commits = r.Exit, r.Millis, r.Commits
			}
			pushes = append(pushes, name(r.Push))
			args = append(args, id, name(r.ID), name(r.Push), r.Stage, name(r.Hook), name(r.At), optional(name(r.Pusher())), packed(r.Who), packed(r.Refs),
				exit, millis, commits, optional(rulesOf(r.Places)), packed(r.Places), optional(r.Problem))
		}
		err = insert(ctx, d.conn, "rigward_pushes", strings.Fields("repo_id id push stage hook at pusher who refs exit_code duration_ms commits rules places problem"),
			args, "ON CONFLICT DO NOTHING", nil)
		if err != nil {
			return err
		}
		slices.Sort(pushes)
		return settle(ctx, d.conn, id, slices.Compact(pushes))
	}))
}

// settle finds out what became of pushes, and counts them by day. A push is shown by its
// judgement, and without one by what there is of it; its other records have the outcome "".
func settle(ctx context.Context, c conn, id int64, pushes []string) error {
	keys, err := listed(pushes)
	if err != nil {
		return err
	}
	change := pushTallies{}
	of := "repo_id = $1 AND push " + among(c, 2, "text")
	if err := change.count(ctx, c, -1, of, id, keys); err != nil {
		return err
	}
	err = c.exec(ctx, `UPDATE rigward_pushes SET outcome = CASE
  WHEN stage <> 'judged' AND EXISTS (SELECT 1 FROM rigward_pushes o WHERE o.repo_id = $1 AND o.push = rigward_pushes.push AND o.stage <> rigward_pushes.stage) THEN ''
  WHEN stage = 'received' THEN 'unfinished' WHEN exit_code = 1 THEN 'refused' WHEN exit_code > 1 THEN 'undecided'
  WHEN stage = 'landed' OR EXISTS (SELECT 1 FROM rigward_pushes l WHERE l.repo_id = $1 AND l.push = rigward_pushes.push AND l.stage = 'landed') THEN 'landed'
  ELSE 'accepted' END,
pushed_by = coalesce(pusher, (SELECT min(r.pusher) FROM rigward_pushes r WHERE r.repo_id = $1 AND r.push = rigward_pushes.push AND r.stage = 'received' AND rigward_pushes.stage = 'judged' AND r.hook = rigward_pushes.hook))
WHERE `+of, id, keys)
	if err == nil {
		err = change.count(ctx, c, 1, of, id, keys)
	}
	if err != nil {
		return err
	}
	return change.write(ctx, c, id)
}

// count counts the pushes of a condition, or takes them away.
func (t pushTallies) count(ctx context.Context, c conn, sign int64, of string, args ...any) error {
	return each(ctx, c, "SELECT substr(at, 1, 10), coalesce(pushed_by, ''), outcome, coalesce(duration_ms, -1) FROM rigward_pushes WHERE "+of+" AND outcome <> ''", args, func(r rows) error {
		var day, who, outcome string
		var took float64
		err := r.Scan(&day, &who, &outcome, &took)
		one := &pushTally{pushes: 1, took: histogram{}}
		switch outcome {
		case "refused":
			one.refused = 1
		case "undecided", "unfinished":
			one.undecided = 1
		}
		if took >= 0 {
			one.took[millis(took)] = 1
		}
		t.of(day, who).add(one, sign)
		return err
	})
}

// write adds tallies to those that are written.
func (t pushTallies) write(ctx context.Context, c conn, id int64) error {
	var days []string
	for key := range t {
		days = append(days, key.day)
	}
	slices.Sort(days)
	keys, err := listed(slices.Compact(days))
	if err != nil || len(days) == 0 {
		return err
	}
	err = each(ctx, c, "SELECT day, pusher, pushes, refused, undecided, took FROM rigward_push_days WHERE repo_id = $1 AND day "+among(c, 2, "text"), []any{id, keys}, func(r rows) error {
		var key dayRig
		var took string
		had := &pushTally{}
		err := r.Scan(&key.day, &key.rig, &had.pushes, &had.refused, &had.undecided, &took)
		if had.took = parseHistogram(took); t[key] != nil {
			t[key].add(had, 1)
		}
		return err
	})
	if err != nil {
		return err
	}
	var args []any
	for _, key := range t.keys() {
		v := t[key]
		args = append(args, id, key.day, key.rig, v.pushes, v.refused, v.undecided, v.took.String())
	}
	err = insert(ctx, c, "rigward_push_days", strings.Fields("repo_id day pusher pushes refused undecided took"), args,
		"ON CONFLICT (repo_id, day, pusher) DO UPDATE SET pushes = excluded.pushes, refused = excluded.refused, undecided = excluded.undecided, took = excluded.took", nil)
	if err != nil {
		return err
	}
	return c.exec(ctx, "DELETE FROM rigward_push_days WHERE repo_id = $1 AND pushes = 0 AND day "+among(c, 2, "text"), id, keys)
}

// settleOlder settles pushes that an earlier version wrote.
func settleOlder(ctx context.Context, c conn) (more bool, err error) {
	of := map[int64][]string{}
	err = each(ctx, c, "SELECT DISTINCT repo_id, push FROM rigward_pushes WHERE outcome IS NULL LIMIT "+itoa(moved/5), nil, func(r rows) error {
		var id int64
		var push string
		err := r.Scan(&id, &push)
		of[id] = append(of[id], push)
		return err
	})
	for id, pushes := range of {
		if err == nil {
			err = settle(ctx, c, id, pushes)
		}
	}
	return len(of) > 0, err
}

// forgotten is how many records of pushes lead to what one transaction deletes: others wait for it.
const forgotten = 2000

// ForgetPushes deletes the pushes of which all was told before a moment, and takes them from what
// was counted. A push is kept as a whole or not at all, so that what is told of it again, before
// this, meanwhile or after, neither counts it twice nor brings a part of it back for longer than
// until the next time.
func (d *DB) ForgetPushes(ctx context.Context, repo string, before time.Time) error {
	const old = " FROM rigward_pushes WHERE repo_id = $1 AND at < $2"
	id, err := d.id(ctx, repo)
	args := []any{id, before.UTC().Format(outbox.Time)}
	for more := err == nil; more && err == nil; {
		n := 0
		n, err = number(ctx, d.conn, "SELECT count(*) FROM (SELECT 1"+old+" LIMIT 1) AS one", args...)
		if n == 0 || err != nil { // nobody waits for that
			break
		}
		more = false
		err = together(ctx, d.conn, func() error {
			if _, err := lockRepository(ctx, d.conn, repo); err != nil {
				return err
			}
			pushes, err := d.ended(ctx, old, args)
			if more = len(pushes) > 0; err != nil || !more {
				return err
			}
			keys, err := listed(pushes)
			if err != nil {
				return err
			}
			gone, of := pushTallies{}, "repo_id = $1 AND push "+among(d.conn, 2, "text")
			if err := gone.count(ctx, d.conn, -1, of, id, keys); err != nil {
				return err
			}
			if err := d.conn.exec(ctx, "DELETE FROM rigward_pushes WHERE "+of, id, keys); err != nil {
				return err
			}
			return gone.write(ctx, d.conn, id)
		})
	}
	return told(ctx, d.target, err)
}

// ended are the pushes that the oldest records are of, without those of which there is a later one
// than are asked for: these are few, and the last.
func (d *DB) ended(ctx context.Context, old string, args []any) (pushes []string, err error) {
	all := func(statement string, args ...any) (some []string, err error) {
		err = each(ctx, d.conn, statement, args, func(r rows) error {
			var push, last string
			err := r.Scan(&push, &last)
			if last < args[1].(string) {
				some = append(some, push)
			}
			return err
		})
		return some, err
	}
	some, err := all("SELECT DISTINCT push, '' FROM (SELECT push"+old+" ORDER BY at LIMIT "+itoa(forgotten)+") AS old", args...)
	if err != nil || len(some) == 0 {
		return nil, err
	}
	keys, err := listed(some)
	if err != nil {
		return nil, err
	}
	return all("SELECT push, max(at) FROM rigward_pushes WHERE repo_id = $1 AND $2 <> '' AND push "+among(d.conn, 3, "text")+" GROUP BY push", args[0], args[1], keys)
}

// lockRepository returns the key of a repository, which it is given where it has none. Other
// writers of it wait until the transaction ends.
func lockRepository(ctx context.Context, c conn, repo string) (id int64, err error) {
	err = each(ctx, c, "INSERT INTO rigward_repositories (repo) VALUES ($1) ON CONFLICT (repo) DO UPDATE SET repo = excluded.repo RETURNING repo_id", []any{repo},
		func(r rows) error { return r.Scan(&id) })
	return id, err
}

// rulesOf lists the rules of places, each once.
func rulesOf(places []outbox.Place) string {
	var rules []string
	for _, p := range places {
		if !slices.Contains(rules, p.Rule) {
			rules = append(rules, p.Rule)
		}
	}
	return strings.Join(rules, " ")
}

// optional is NULL for "".
func optional(s string) any {
	if s == "" {
		return nil
	}
	return text(s)
}

// packed is the JSON text of a value, NULL for an empty one.
func packed[T []outbox.Ref | []outbox.Place | map[string]string](v T) any {
	if len(v) == 0 {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil // none of these types fails
	}
	return text(string(data))
}
