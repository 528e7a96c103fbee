package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
)

// An Event is one of the feed of all that happened to messages. Key is the same
// wherever and however often the event was taken.
type Event struct {
	Repo    string  `json:"repo"`
	Key     string  `json:"key"`
	Thread  string  `json:"thread"`
	File    string  `json:"filename"`
	Type    string  `json:"message_type"`
	From    string  `json:"from_rig"`
	To      string  `json:"to_rig"`
	Verdict string  `json:"verdict"`
	Message string  `json:"message_sha"` // the commit of the message
	Event   string  `json:"event_type"`
	Rig     string  `json:"rig"`
	Notes   *string `json:"notes"`
	Commit  string  `json:"commit_sha"` // of the cause
	At      string  `json:"created_at"`

	id int64
}

func (e *Event) identify() {
	sum := sha256.Sum256([]byte(strings.Join([]string{e.Repo, e.Message, e.Thread, e.File, e.To, e.Event, e.Rig, e.Commit}, "\x00")))
	e.Key = hex.EncodeToString(sum[:12])
}

// A Place is how far somebody has read the feed of repositories: up to which event of
// each. Events of one repository are numbered in the order in which their
// transactions end, since its writers wait for each other; those of several are not.
type Place map[string]read

type read struct {
	ID  int64
	Key string
}

// MarshalJSON and UnmarshalJSON write it as a pair.
func (r read) MarshalJSON() ([]byte, error) { return json.Marshal([]any{r.ID, r.Key}) }

func (r *read) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &[]any{&r.ID, &r.Key}) }

// Copy returns a place that stays as it is.
func (p Place) Copy() Place { return maps.Clone(p) }

// String returns the place as ParsePlace reads it.
func (p Place) String() string {
	data, err := json.Marshal(p)
	if err != nil {
		return "" // texts and numbers never fail
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// ParsePlace reads a place; ok is false for what is none.
func ParsePlace(cursor string) (p Place, ok bool) {
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(data, &p) != nil {
		return nil, false
	}
	return p, p != nil
}

const feedSQL = `SELECT e.id, m.thread, m.filename, m.message_type, m.from_rig, m.to_rig, m.verdict, m.commit_sha, e.event_type, e.rig, e.notes, e.commit_sha, e.created_at
FROM bridge_message_events e JOIN bridge_messages m ON m.id = e.message_id AND m.repo_id = e.repo_id
WHERE e.repo_id = $1 AND e.id `

// Feed gives fn the events of repositories after a place, each with the place behind it,
// at most limit of each repository; more reports whether there may be more. Where the
// index was made anew, so that the place is none any more, reset is called, and the
// repository begins again: who reads sees an event at least once.
func (d *DB) Feed(ctx context.Context, repos []string, at Place, limit int, fn func(Event, Place) error, reset func(repo string, at Place) error) (more bool, err error) {
	at = maps.Clone(at)
	if at == nil {
		at = Place{}
	}
	for _, repo := range repos {
		of, err := d.id(ctx, repo)
		if err != nil {
			return false, err
		}
		if was, begun := at[repo]; begun {
			events, err := d.feed(ctx, of, repo, "= $2 LIMIT $3", was.ID, 1)
			if err != nil {
				return false, err
			}
			if len(events) == 0 || events[0].Key != was.Key {
				delete(at, repo)
				if err := reset(repo, at); err != nil {
					return false, err
				}
			}
		}
		events, err := d.feed(ctx, of, repo, "> $2 ORDER BY e.id LIMIT $3", at[repo].ID, limit)
		if err != nil {
			return false, err
		}
		more = more || len(events) == limit
		for _, e := range events {
			at[repo] = read{e.id, e.Key}
			if err := fn(e, at); err != nil {
				return false, err
			}
		}
	}
	return more, nil
}

func (d *DB) feed(ctx context.Context, of int64, repo, which string, id int64, limit int) (events []Event, err error) {
	err = each(ctx, d.conn, feedSQL+which, []any{of, id, limit}, func(r rows) error {
		e := Event{Repo: repo}
		err := r.Scan(&e.id, &e.Thread, &e.File, &e.Type, &e.From, &e.To, &e.Verdict, &e.Message, &e.Event, &e.Rig, &e.Notes, &e.Commit, &e.At)
		e.identify()
		events = append(events, e)
		return err
	})
	return events, told(ctx, d.target, err)
}

// Renew lets what is asked from now on see what was written meanwhile.
func (d *DB) Renew(ctx context.Context) error {
	if !d.conn.postgres() {
		return nil // each statement does
	}
	err := d.conn.exec(ctx, "COMMIT")
	if err == nil {
		err = d.conn.exec(ctx, beginReading)
	}
	return told(ctx, d.target, err)
}
