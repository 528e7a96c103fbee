package controlplane

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/outbox"
)

// AddPushes writes what hooks have told of pushes. A record that is there
// already is left as it is, so that any number of programs may tell the same.
func (d *DB) AddPushes(ctx context.Context, repo string, records []outbox.Record) error {
	var args []any
	var id int64
	err := each(ctx, d.conn, "INSERT INTO rigward_repositories (repo) VALUES ($1) ON CONFLICT (repo) DO UPDATE SET repo = excluded.repo RETURNING repo_id", []any{repo},
		func(r rows) error { return r.Scan(&id) })
	if err != nil {
		return told(ctx, d.target, err)
	}
	for i := range records {
		r := &records[i]
		var exit, millis, commits any
		if r.Stage == outbox.Judged {
			exit, millis, commits = r.Exit, r.Millis, r.Commits
		}
		args = append(args, id, name(r.ID), name(r.Push), r.Stage, name(r.Hook), name(r.At), optional(r.Pusher()), packed(r.Who), packed(r.Refs),
			exit, millis, commits, optional(rulesOf(r.Places)), packed(r.Places), optional(r.Problem))
	}
	return told(ctx, d.target, insert(ctx, d.conn, "rigward_pushes", strings.Fields("repo_id id push stage hook at pusher who refs exit_code duration_ms commits rules places problem"),
		args, "ON CONFLICT DO NOTHING", nil))
}

// ForgetPushes deletes what was told of pushes before a moment.
func (d *DB) ForgetPushes(ctx context.Context, repo string, before time.Time) error {
	return told(ctx, d.target, d.conn.exec(ctx, "DELETE FROM rigward_pushes WHERE repo_id = "+theID+" AND at < $2", repo, before.UTC().Format(outbox.Time)))
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
