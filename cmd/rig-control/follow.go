package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/pkg/finding"
)

// A feed is a command line of query events --follow.
type feed struct {
	once  bool
	place controlplane.Place
}

// A happening is one line of the feed.
type happening struct {
	object
	Query  string              `json:"query"`
	Cursor string              `json:"cursor"` // for --after
	Reset  string              `json:"reset,omitempty"`
	Event  *controlplane.Event `json:"event,omitempty"`
}

const (
	feedPage  = 500
	feedPause = time.Second
)

// follow prints the events that there are and those that come, until it is ended or
// nobody reads any more. A database that is away is told of once, and waited for.
func (a *app) follow(ctx context.Context, q question, db *controlplane.DB) int {
	at, told := q.feed.place, ""
	print := func(h happening, place controlplane.Place) error {
		h.object, h.Query, h.Cursor = head, "events", place.String()
		line, err := bridge.Line(h)
		if err == nil {
			_, err = a.env.Stdout.Write(append(line, '\n'))
		}
		if err != nil {
			return io.ErrClosedPipe
		}
		at = place.Copy()
		return nil
	}
	for {
		more, err := false, db.Renew(ctx)
		if err == nil {
			more, err = db.Feed(ctx, q.p.Repos, at, feedPage, func(e controlplane.Event, place controlplane.Place) error {
				if !q.wants(e) {
					at = place.Copy()
					return nil
				}
				return print(happening{Event: &e}, place)
			}, func(repo string, place controlplane.Place) error { return print(happening{Reset: repo}, place) })
		}
		switch {
		case ctx.Err() != nil:
			return 0
		case err == io.ErrClosedPipe:
			return 0
		case err != nil && q.feed.once:
			return a.refuse(q, "runtime", 2, err)
		case err != nil && err.Error() != told:
			told = err.Error()
			fmt.Fprintf(a.env.Stderr, "%s: query: %s\n", a.program, finding.Clean(told))
		case err == nil:
			told = ""
		}
		if more {
			continue
		}
		if q.feed.once {
			return 0
		}
		if err != nil {
			db = a.again(ctx, db)
		}
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(feedPause):
		}
	}
}

// again opens the database anew, and keeps the connection where that fails.
func (a *app) again(ctx context.Context, db *controlplane.DB) *controlplane.DB {
	p, err := a.open(ctx, asEither)
	if err != nil {
		return db
	}
	defer p.close()
	other, err := controlplane.Open(ctx, p.target, false)
	if err != nil {
		return db
	}
	_ = db.Close() // it is broken
	return other
}

// wants reports whether an event is asked for.
func (q question) wants(e controlplane.Event) bool {
	at, err := time.Parse(time.RFC3339, e.At)
	return (q.p.To == "" || e.To == q.p.To) && (q.p.From == "" || e.From == q.p.From) && (q.p.Type == "" || e.Type == q.p.Type) &&
		(err != nil || !at.Before(q.p.Since) && (q.p.Until.IsZero() || at.Before(q.p.Until)))
}
