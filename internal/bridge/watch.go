package bridge

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"syscall"
	"time"
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
	v, given := r.opts.value("--interval")
	if !given {
		return usual, nil
	}
	seconds, err := strconv.ParseFloat(v, 64)
	if err != nil || !(seconds >= 0.1 && seconds <= 86400) {
		return 0, usageError(r.cmd, "--interval %s is not a number of seconds from 0.1 to 86400", quote(v))
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// watch prints one JSON object a line: at once, then whenever the content
// differs from the last one (spec/cli.md section 11). A look that fails prints
// an error object, once, and watching goes on. It ends by a signal, or when
// nobody reads standard output any more.
func (r *run) watch(interval time.Duration, look func() (watched, error)) error {
	var unread <-chan struct{}
	if r.env.Unread != nil {
		unread = r.env.Unread()
	}
	var last []byte
	for seq := 1; ; {
		o, err := look()
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		event := "change"
		if err != nil {
			f := asFailure(r.ctx, err)
			o = &watchError{jsonError: jsonError{schemaVersion, r.cmd.name, errorBody{f.code, f.message, f.hint, jsonFindings(f.findings)}}}
			event = "error"
		} else if seq == 1 {
			event = "snapshot"
		}
		bare, err := marshal(o)
		if err != nil {
			return err
		}
		if !bytes.Equal(bare, last) {
			last = bare
			o.stamp(event, seq, r.env.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
			line, err := marshal(o)
			if err != nil {
				return err
			}
			if _, err := r.env.Stdout.Write(append(line, '\n')); err != nil {
				if errors.Is(err, syscall.EPIPE) {
					return nil
				}
				return fail(codeRuntime, "cannot write to standard output: %s", reason(err))
			}
			seq++
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
