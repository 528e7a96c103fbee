package console

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rigward/rigward/internal/controlplane"
)

// A live tells pages that are open when something has changed.
type live struct {
	mu      sync.Mutex
	version string
	changed chan struct{}  // closed with each change
	pages   map[string]int // that are open, by who looks; "" for all
}

func newLive() *live { return &live{changed: make(chan struct{}), pages: map[string]int{}} }

func (l *live) set(version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version != l.version {
		l.version = version
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

func (l *live) get() (string, chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version, l.changed
}

// enter counts a page; ok is false if there are too many. Who looks, where that is known, has a
// part of them at the most.
func (l *live) enter(who string) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ok = l.pages[""] < maxLive && (who == "" || l.pages[who] < maxLiveOfOne); ok {
		l.pages[""]++
		if who != "" {
			l.pages[who]++
		}
	}
	return ok
}

func (l *live) leave(who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages[""]--
	if who == "" {
		return
	}
	if l.pages[who]--; l.pages[who] == 0 {
		delete(l.pages, who)
	}
}

// Run looks for changes until the context ends.
func (c *Console) Run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		c.Look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look looks once whether something has changed.
func (c *Console) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_ = c.with(ctx, func(db *controlplane.DB) error { // a page that is asked for says what is wrong
		shown, err := c.known(ctx, db)
		if err != nil {
			return err
		}
		version, err := db.Version(ctx, shown)
		if err == nil {
			c.live.set(version)
			_, err = c.tally(ctx, db, shown)
		}
		return err
	})
}

// serveLive sends an event for each change (server-sent events).
func (c *Console) serveLive(w http.ResponseWriter, r *http.Request) {
	who := "" // whom the proxy names; of a token nobody knows
	if c.o.Access.Header != "" {
		who = r.Header.Get(c.o.Access.Header)
	}
	if !c.live.enter(who) {
		c.refuse(w, http.StatusServiceUnavailable, "Too many pages are kept up to date.")
		return
	}
	defer c.live.leave(who)
	flow := http.NewResponseController(w)
	_ = flow.SetReadDeadline(time.Time{}) // it stays open; where that cannot be, it ends and is asked for again
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	send := func(format string, args ...any) bool {
		if flow.SetWriteDeadline(c.o.Clock().Add(answerTime)) != nil {
			return false
		}
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && flow.Flush() == nil
	}
	version, changed := c.live.get()
	if !send("retry: 5000\nevent: version\ndata: %s\n\n", version) {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-changed:
			version, changed = c.live.get()
			if !send("event: version\ndata: %s\n\n", version) {
				return
			}
		case <-time.After(25 * time.Second): // so that proxies keep the line
			if !send(": still here\n\n") {
				return
			}
		}
	}
}
