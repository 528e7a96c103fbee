package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"syscall"
	"time"

	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/finding"
)

// Default pauses between two looks of --watch.
const (
	defaultStatusInterval = 2 * time.Second
	defaultSyncInterval   = 30 * time.Second
)

// watched is an object that --watch prints whenever its content changes.
type watched interface {
	stamp(event string, seq int, at string)
}

func (o *statusObject) stamp(event string, seq int, at string) { o.Event, o.Seq, o.At = event, seq, at }
func (o *syncObject) stamp(event string, seq int, at string)   { o.Event, o.Seq, o.At = event, seq, at }

type watchError struct {
	jsonError
	Event string `json:"event"`
	Seq   int    `json:"seq"`
	At    string `json:"at"`
}

func (e *watchError) stamp(event string, seq int, at string) { e.Event, e.Seq, e.At = event, seq, at }

// interval returns the pause that --interval names, else usual.
func (r *run) interval(usual time.Duration) (time.Duration, error) {
	v, given := r.opts.Lookup("--interval")
	if !given {
		return usual, nil
	}
	seconds, err := strconv.ParseFloat(v, 64)
	if err != nil || !(seconds >= 0.1 && seconds <= 86400) {
		return 0, usageError(r.cmd, "--interval %s is not a number of seconds from 0.1 to 86400", quote(v))
	}
	if !r.opts.Has("--watch") {
		return 0, usageError(r.cmd, "--interval is the time between two looks of --watch, which is not given")
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// watch prints one JSON object a line: at once, then whenever the content
// differs from the last one (docs/spec/client.md#terminal). A look that fails prints
// an error object, once, and watching goes on. It ends by a signal, or when
// nobody reads standard output any more.
func (r *run) watch(interval time.Duration, look func() (watched, error)) error {
	var last []byte
	seq := 1
	return r.rounds(interval, func() error {
		o, err := look()
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if o == nil && err == nil {
			return nil // nothing to tell
		}
		event := "change"
		if err != nil {
			f := asFailure(r.ctx, err)
			o = &watchError{jsonError: jsonError{schemaVersion, r.cmd.Name, r.errorBody(f)}}
			event = "error"
		} else if seq == 1 {
			event = "snapshot"
		}
		bare, err := finding.JSON(o)
		if err != nil {
			return err
		}
		if bytes.Equal(bare, last) {
			return nil
		}
		last = bare
		o.stamp(event, seq, r.env.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
		seq++
		return r.object(o)
	})
}

// rounds looks again and again. What a look puts into r.out is written at once,
// whole.
func (r *run) rounds(interval time.Duration, look func() error) error {
	var unread <-chan struct{}
	if r.env.Unread != nil {
		unread = r.env.Unread()
	}
	for {
		if err := look(); err != nil {
			return err
		}
		if r.out.Len() > 0 {
			_, err := r.env.Stdout.Write(r.out.Bytes())
			if r.out.Reset(); errors.Is(err, syscall.EPIPE) {
				return nil
			}
			if err != nil {
				return fail(codeRuntime, "cannot write to standard output: %s", reason(err))
			}
		}
		r.notes, r.kept = nil, ""
		select {
		case <-time.After(interval):
		case <-unread:
			return nil
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
}

// watchThread shows the messages of a thread, then those that come. A message
// that is not committed is shown when it was the same in two looks: before, it
// may be half written. One whose verdict changes is shown again; to people
// without its text.
func (r *run) watchThread(interval time.Duration, thread string, text bool) error {
	r.json = !text
	r.colour = r.wantsColour()
	f := &follower{shown: map[string]string{}, told: map[string]bool{}}
	if text {
		return r.rounds(interval, func() error { return r.followText(f, thread) })
	}
	return r.watch(interval, func() (watched, error) {
		v, err := r.lookAt(thread)
		if err != nil {
			f.failed = true
			return nil, err
		}
		news := f.news(v)
		if len(news.ms)+len(news.refused)+len(news.bad) == 0 && f.begun && !f.failed {
			return nil, nil
		}
		f.begun, f.failed = true, false
		o, err := r.threadJSON(news)
		if err != nil {
			return nil, err
		}
		return o, nil
	})
}

// A follower knows what was shown of a thread.
type follower struct {
	shown         map[string]string // verdicts, by what was shown
	before        map[string]bool   // what the look before saw
	told          map[string]bool   // notes of the look before
	begun, failed bool
}

// news returns what of a look was not shown before.
func (f *follower) news(v *threadView) *threadView {
	now := map[string]bool{}
	isNew := func(m *message) bool {
		id, word := m.identity(), m.word()
		now[id] = true
		was, known := f.shown[id]
		if known && was == word || m.verdict.State == verdict.NotCommitted && !f.before[id] {
			return false
		}
		m.again = known
		f.shown[id] = word
		return true
	}
	only := func(ms []*message) (out []*message) {
		for _, m := range ms {
			if isNew(m) {
				out = append(out, m)
			}
		}
		return out
	}
	n := *v
	n.ms, n.refused, n.bad = only(v.ms), only(v.refused), only(v.bad)
	maps.DeleteFunc(f.shown, func(id, _ string) bool { return !now[id] })
	f.before = now
	return &n
}

// identity names what a message of a look shows.
func (m *message) identity() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %t %t ", m.file, m.blob, m.restored, m.gone)
	h.Write(m.data)
	return string(h.Sum(nil))
}

// word is its verdict, to be compared.
func (m *message) word() string {
	v := m.verdict
	return fmt.Sprintf("%s %q %t %q %q %q", v.State, v.Fingerprint, v.Revoked, v.Principal, v.Rules, v.Reason)
}

// followText is a look of `thread --watch --format text`.
func (r *run) followText(f *follower, thread string) error {
	v, err := r.lookAt(thread)
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	var news threadView
	if err != nil {
		r.note("%s", asFailure(r.ctx, err).message)
	} else {
		news = *f.news(v)
		r.notCommitted(news.ms)
	}
	told := map[string]bool{}
	for _, n := range r.notes {
		if told[n] = true; !f.told[n] {
			fmt.Fprintf(r.env.Stderr, "rig-bridge: %s: %s\n", r.cmd.Name, escapeLine(n))
		}
	}
	if f.told = told; err != nil {
		return nil
	}
	number := map[*message]int{}
	for _, list := range [][]*message{v.ms, v.refused} {
		for i, m := range list {
			number[m] = i + 1
		}
	}
	for _, m := range news.ms {
		r.threadBlock(thread, number[m], len(v.ms), m)
	}
	for _, m := range news.refused {
		r.refusedBlock(thread, number[m], len(v.refused), m)
	}
	return nil
}
