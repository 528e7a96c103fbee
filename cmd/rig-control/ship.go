package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/stream"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

const (
	// shipPause is how long a service waits before it looks again.
	shipPause = time.Second
	// shipAnew is after how long it reads the refs without being told of a push.
	shipAnew = time.Minute
	// shipLongest is the longest wait after failures.
	shipLongest = time.Minute
	// shipRecords are written in one transaction at the most.
	shipRecords = 500
	// pushesKept is how long the push log goes back where rigward.pushLogKeep
	// does not say it.
	pushesKept = 365 * 24 * time.Hour
)

// ship takes outboxes further: what hooks told of pushes goes into the
// database, and the index is brought up to the refs.
func (a *app) ship(ctx context.Context, line cli.Line) int {
	pause := shipPause
	if text := line.Get("--every"); text != "" {
		var err error
		if pause, err = time.ParseDuration(text); err != nil || pause < 10*time.Millisecond {
			return a.fail(&policy.Undecided{Message: "--every is " + finding.QuoteMax(text, 40) + ", expected a duration such as 1s"})
		}
	}
	dirs := line.Words
	if len(dirs) == 0 {
		dirs = []string{""}
	}
	var all []*shipper
	for _, dir := range dirs {
		p, err := a.find(ctx, dir)
		if err != nil {
			return a.fail(err)
		}
		s := &shipper{app: a, place: p, dir: outbox.Dir(p.repo.CommonDir())}
		all = append(all, s)
		defer func() { s.place.close() }()
	}
	if line.Has("--once") {
		code := report.ExitClean
		for _, s := range all {
			if err := s.whole(ctx); err != nil {
				code = a.fail(err)
			}
		}
		return code
	}
	for ctx.Err() == nil {
		for _, s := range all {
			if s.lock == nil { // then hooks need not start another one
				if lock, err := outbox.Lock(s.dir); err == nil {
					s.lock = lock
					defer lock.Close()
				}
			}
			if err := s.service(ctx); err != nil && ctx.Err() == nil {
				a.fail(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return report.ExitClean
}

// A shipper takes the outbox of one repository further.
type shipper struct {
	*app
	place  *place
	dir    string
	lock   *os.File  // of the outbox, nil where another one has it
	looked time.Time // when the refs were read
	again  time.Time // not before this, after a failure
	failed int       // how often, one after another
}

// service does what there is to do, if there is anything.
func (s *shipper) service(ctx context.Context) error {
	now := s.env.Now()
	waiting, err := s.waits()
	if err != nil {
		return err
	}
	if now.Before(s.again) && s.again.Sub(now) <= shipLongest || !waiting && now.Sub(s.looked) < shipAnew && !now.Before(s.looked) {
		return nil
	}
	if err = s.reopen(ctx); err == nil {
		err = s.once(ctx)
	}
	if err != nil {
		s.again = now.Add(min(shipLongest, shipPause<<min(s.failed, 10)))
		s.failed++
		return err
	}
	s.failed, s.looked = 0, now
	return nil
}

// reopen reads the configuration anew, and lets go of what is known of objects.
func (s *shipper) reopen(ctx context.Context) error {
	p, err := s.find(ctx, s.place.repo.GitDir())
	if err == nil {
		s.place.close()
		s.place = p
	}
	return err
}

// waits reports whether the outbox has records that were not taken further.
func (s *shipper) waits() (bool, error) {
	at := outbox.Shipped(s.dir)
	n, err := outbox.Waiting(s.dir, at)
	if err == nil && n > 0 { // or the beginning of a line that a full disk has cut off
		var b outbox.Batch
		b, err = outbox.Read(s.dir, at, 1)
		n = int64(len(b.Records) + b.Torn)
	}
	if err != nil {
		return false, &policy.Undecided{Message: "the outbox cannot be read", Cause: err}
	}
	return n > 0, nil
}

// whole takes all further that is there. Hooks that tell something meanwhile start nobody while
// the lock is held; so it is looked once more without it. A hook that starts this has taken the
// lock for it, as its input; where another one has got it meanwhile, that one does the work.
func (s *shipper) whole(ctx context.Context) error {
	given, ok := s.env.Stdin.(*os.File)
	ok = ok && outbox.IsLock(s.dir, given)
	for {
		var err error
		if lock := given; ok {
			if err = files.TryLock(lock); errors.Is(err, files.ErrLocked) {
				return nil
			}
			err = s.once(ctx)
			files.Unlock(lock)
		} else {
			lock, _ = outbox.Lock(s.dir) // whoever else ships does no harm
			err = s.once(ctx)
			if lock != nil {
				lock.Close()
			}
		}
		if err != nil {
			return err
		}
		if waits, err := s.waits(); err != nil || !waits {
			return err
		}
		if err := s.reopen(ctx); err != nil {
			return err
		}
	}
}

// once takes the outbox further, and notes how it went.
func (s *shipper) once(ctx context.Context) error {
	var state outbox.State
	state.Read(s.dir)
	state.Tried = s.env.Now().UTC().Format(outbox.Time)
	err := s.work(ctx, &state)
	state.Problem = ""
	if err != nil {
		state.Problem = finding.Clean(err.Error())
	} else {
		state.Done = s.env.Now().UTC().Format(outbox.Time)
	}
	if writeErr := state.Write(s.dir); err == nil && writeErr != nil {
		err = notWritten("state", writeErr)
	}
	return err
}

// notWritten says why what the outbox keeps of itself cannot be written.
func notWritten(what string, err error) error {
	return &policy.Undecided{
		Message: "the " + what + " of the outbox cannot be written: " + finding.Clean(files.Cause(err).Error()),
		Hint:    files.Hint(err), Cause: err,
	}
}

func (s *shipper) work(ctx context.Context, state *outbox.State) error {
	if err := s.place.configure(asServer); err != nil {
		return err
	}
	db, err := controlplane.Open(ctx, s.place.target, true)
	if err != nil {
		return err
	}
	defer db.Close()
	streamErr := s.records(ctx, db, state)
	var other *streamError
	if streamErr != nil && !errors.As(streamErr, &other) {
		return streamErr
	}
	kept, err := s.place.kept()
	if err != nil {
		return err
	}
	if kept > 0 {
		if err := db.ForgetPushes(ctx, s.place.name, s.env.Now().Add(-kept)); err != nil {
			return err
		}
	}
	if err := s.place.marked(ctx); err != nil {
		return err
	}
	res, err := s.place.indexer(db, s.env.Now).Update(ctx)
	if err != nil && res.Left > 0 {
		err = fmt.Errorf("%w, %d commits are not in the control plane yet", err, res.Left)
	}
	if err == nil {
		err = streamErr
	}
	return err
}

// A streamError is one of the stream, for which the database does not wait.
type streamError struct{ error }

func (e *streamError) Unwrap() error { return e.error }

// records takes records into the database and to the stream, if there is one, for which the
// database does not wait. A place in the outbox is kept when both have what is before it.
func (s *shipper) records(ctx context.Context, db *controlplane.DB, state *outbox.State) error {
	address, err := s.place.stream()
	if err != nil {
		return err
	}
	shipped := outbox.Shipped(s.dir)
	keep := func(b outbox.Batch) error {
		state.Ahead[0] = b.Next
		state.Shipped, state.Torn = state.Shipped+len(b.Records), state.Torn+b.Torn
		if err := outbox.Keep(s.dir, b.Next, s.env.Now()); err != nil {
			return notWritten("place", err)
		}
		return nil
	}
	if state.Ahead[0] != shipped {
		state.Ahead = [2]outbox.Cursor{shipped, shipped}
	}
	err = s.from(state.Ahead[1], func(b outbox.Batch) error {
		if len(b.Records) > 0 {
			if err := db.AddPushes(ctx, s.place.name, b.Records); err != nil {
				return err
			}
		}
		if state.Ahead[1] = b.Next; address.URL == "" {
			return keep(b)
		}
		return nil
	})
	if err != nil || address.URL == "" {
		return err
	}
	var to *stream.Stream
	defer func() {
		if to != nil {
			to.Close()
		}
	}()
	return s.from(shipped, func(b outbox.Batch) (err error) {
		if len(b.Records) > 0 && to == nil {
			if to, err = stream.Open(ctx, address, s.place.name); err != nil {
				return &streamError{err}
			}
		}
		if len(b.Records) > 0 {
			if err := to.Tell(ctx, b.Records); err != nil {
				return &streamError{err}
			}
		}
		return keep(b)
	})
}

// from gives fn what the outbox has after a place, in portions.
func (s *shipper) from(at outbox.Cursor, fn func(outbox.Batch) error) error {
	for {
		b, err := outbox.Read(s.dir, at, shipRecords)
		if err != nil {
			return &policy.Undecided{Message: "the outbox cannot be read", Cause: err}
		}
		if b.Next == at {
			return nil
		}
		if err := fn(b); err != nil {
			return err
		}
		at = b.Next
	}
}

// stream is where records are told to, besides the database; its URL is "" for nowhere.
func (p *place) stream() (a stream.Address, err error) {
	for key, into := range map[string]*string{"rigward.nats": &a.URL, "rigward.natsCredentials": &a.Credentials, "rigward.natsStream": &a.Stream} {
		if *into, _, err = p.repo.ConfigLast(key); err != nil {
			return a, err
		}
	}
	a.Stream = cmp.Or(a.Stream, "RIGWARD")
	return a, nil
}

// kept is how long the push log goes back, 0 for ever.
func (p *place) kept() (time.Duration, error) {
	text, _, err := p.repo.ConfigLast("rigward.pushLogKeep")
	if err != nil || text == "" {
		return pushesKept, err
	}
	days, ok := strings.CutSuffix(text, "d")
	n, err := strconv.Atoi(days)
	if text == "0" || text == "forever" {
		return 0, nil
	}
	if !ok || err != nil || n < 1 || n > 36500 {
		return 0, &policy.Undecided{Message: "rigward.pushLogKeep is " + finding.QuoteMax(text, 40) + ", expected a number of days such as 90d, or forever", Hint: "git config rigward.pushLogKeep 90d"}
	}
	return time.Duration(n) * 24 * time.Hour, nil
}
