package bridge

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/verdict"
)

// longestHold is how long what is there already is held back for the first fetch,
// which may bring more.
const longestHold = 10 * time.Second

// Pauses of wait: between two looks at the clone's files, and between two
// fetches. The first fetches come soon after each other, because answers often do;
// then the pauses grow by half to the longest. They start anew when something has
// come.
const (
	lookPause    = 30 * time.Millisecond
	remotePause  = 5 * time.Millisecond // between two looks at the files of a remote
	firstFetch   = 100 * time.Millisecond
	soon         = 20 // fetches
	longestFetch = 5 * time.Second
	longestWait  = 7 * 24 * time.Hour
	exitNothing  = 3
)

// untaken is what was fetched and `sync --auto` would not take: it is not in HEAD.
type untaken struct {
	Reason     string      `json:"reason"`
	RemoteHead string      `json:"remote_head"`
	Hint       string      `json:"hint"`
	Items      []inboxItem `json:"items"`
}

type waitObject struct {
	head
	Event    string        `json:"event,omitempty"`
	Seq      int           `json:"seq,omitempty"`
	At       string        `json:"at,omitempty"`
	Rig      string        `json:"rig"`
	Items    []inboxItem   `json:"items"`
	Refused  []refusedItem `json:"refused"`
	More     bool          `json:"more"`
	TimedOut bool          `json:"timed_out"`
	Untaken  *untaken      `json:"untaken,omitempty"`
	// TrustChanges are those that were taken.
	TrustChanges []trustChange `json:"trust_changes,omitempty"`
	Cursor       string        `json:"cursor,omitempty"`
	Judged       judgedState   `json:"judged"`
	// NotFetched is why it is not known whether more has come.
	NotFetched string `json:"not_fetched,omitempty"`
}

func (o *waitObject) stamp(event string, seq int, at string) { o.Event, o.Seq, o.At = event, seq, at }

// A waiter is one run of wait.
type waiter struct {
	r        *run
	after    string
	state    string // of the clone's files, before the last look
	tried    string // both sides when they were last compared
	untaken  *untaken
	fetched  bool  // a fetch has come back
	failed   error // why the last one failed
	upstream bool
	trust    []trustChange
	shown    map[string]bool // with --watch
	seq      int
	lastErr  string // of --watch
}

// runWait is `rig-bridge wait` (docs/spec/client.md#wait).
func runWait(r *run) error {
	timeout, err := r.timeout()
	if err != nil {
		return err
	}
	if t, given := r.opts.Lookup("--thread"); given {
		if err := checkThread(t); err != nil {
			return err
		}
	}
	w, c, err := r.openAsRig()
	if err != nil {
		return err
	}
	defer w.close()
	if _, err := r.cursorOf(w, r.opts.Get("--after")); err != nil {
		return err
	}
	t, err := w.target()
	if err != nil {
		return err
	}
	x := &waiter{r: r, after: r.opts.Get("--after"), upstream: t.upstream, shown: map[string]bool{}}
	if !t.upstream {
		r.note("the branch %s has no upstream, so nothing is fetched", quote(t.short()))
	}
	o, err := x.wait(w, t, timeout)
	if err != nil || o == nil {
		return err
	}
	switch {
	case o.TimedOut && x.seq == 0:
		r.exit = exitNothing
	case !o.TimedOut && len(o.Items) == 0:
		r.exit = 1 // somebody must act, as for sync
	}
	o.Rig = c.rigID
	if r.opts.Has("--watch") {
		return nil
	}
	if r.json {
		return r.object(o)
	}
	fmt.Fprintf(&r.out, "rig-bridge: wait rig=%s messages=%d timed_out=%t", o.Rig, len(o.Items), o.TimedOut)
	if o.Untaken != nil {
		fmt.Fprintf(&r.out, " untaken=%d reason=%s", len(o.Untaken.Items), o.Untaken.Reason)
	}
	r.out.WriteString("\n")
	r.itemRows(o.Items)
	if o.Untaken != nil {
		for _, i := range o.Untaken.Items {
			fmt.Fprintf(&r.out, "untaken=%s type=%s from=%s verdict=%s\n", token(i.Path), token(i.Type), token(i.From), i.Verdict.State)
		}
		r.note("fetched and not taken, because of %s; %s", o.Untaken.Reason, o.Untaken.Hint)
	}
	return nil
}

// timeout reads --timeout, 0 for none.
func (r *run) timeout() (time.Duration, error) {
	v, given := r.opts.Lookup("--timeout")
	if !given {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if seconds, ferr := strconv.ParseFloat(v, 64); ferr == nil && seconds < 1e9 {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d < 100*time.Millisecond || d > longestWait {
		return 0, usageError(r.cmd, "%s %s is not a number of seconds, or a time such as 90s or 10m, from 0.1 seconds to 7 days", r.arg("--timeout"), quote(v))
	}
	return d, nil
}

// wait looks until something is there, the time is over or a signal comes.
func (x *waiter) wait(w *work, t target, timeout time.Duration) (*waitObject, error) {
	r := x.r
	ctx, cancel := context.WithCancel(r.ctx)
	fetches := make(chan fetchedNow, 1)
	running := false
	defer func() {
		if cancel(); running {
			<-fetches // its git is ended
		}
	}()
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	var gone <-chan struct{}
	if r.opts.Has("--watch") && r.env.Unread != nil {
		gone = r.env.Unread()
	}
	look := time.NewTicker(lookPause)
	defer look.Stop()
	hold := time.NewTimer(longestHold)
	defer hold.Stop()
	var held *waitObject // what was there before the first fetch came back
	holding := x.upstream && !r.opts.Has("--watch")
	// Where the files of the remote can be seen, fetches come when one has changed,
	// and seldom besides.
	moved := x.remoteMoves(ctx, w, t)
	first, again := firstFetch, false
	if moved != nil {
		first = longestFetch
	}
	pause, fetched := first, 0
	next := time.NewTimer(0)
	defer next.Stop()
	fetch := func() {
		if again = running; x.upstream && !running {
			running = true
			go func() { fetches <- fetchNow(ctx, w) }()
		}
	}
	for {
		o, err := x.look(w, t)
		switch {
		case err != nil && (!r.opts.Has("--watch") || r.ctx.Err() != nil):
			return nil, err
		case err != nil:
			if err := x.printError(err); err != nil {
				return nil, err
			}
		case o != nil:
			pause, fetched = first, 0
			if held = o; r.opts.Has("--watch") {
				if err := x.print("change", o); err != nil {
					return nil, err
				}
				held = nil
			}
		}
		if held != nil && !holding {
			return x.told(held), nil
		}
		if again && !running {
			fetch() // not before what came is told
		}
		select {
		case <-look.C:
		case <-next.C:
			fetch()
		case <-moved:
			fetch()
		case f := <-fetches:
			running, holding = false, false
			x.state = "" // at least that often it is looked whether or not files have changed
			x.fetched, x.failed = x.fetched || f.err == nil, f.err
			if f.err == nil {
				if f.came {
					pause, fetched = first, 0
				}
				x.failed = x.take(w, f)
			}
			next.Reset(pause)
			if fetched++; fetched > soon || f.err != nil {
				pause = min(pause*3/2, longestFetch)
			}
		case <-hold.C:
			holding = false
		case <-over:
			if held != nil {
				return x.told(held), nil
			}
			return x.timeOver()
		case <-gone:
			return nil, nil
		case <-r.ctx.Done():
			return nil, context.Cause(r.ctx)
		}
	}
}

// remoteMoves returns a channel on which something comes whenever the branch of the
// remote may have moved, nil where only a fetch can tell.
func (x *waiter) remoteMoves(ctx context.Context, w *work, t target) <-chan struct{} {
	files := w.repo.RemoteFiles(t.remote, t.ref)
	if files == nil || !x.upstream {
		return nil
	}
	return watchFiles(ctx, files)
}

// watchFiles returns a channel on which something comes whenever one of the files has
// changed since the call.
func watchFiles(ctx context.Context, files []string) <-chan struct{} {
	moved := make(chan struct{}, 1)
	last := stateOf(files) // here: what changes before the first look is seen by it
	go func() {
		look := time.NewTicker(remotePause)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			if now := stateOf(files); now != last {
				last = now
				select {
				case moved <- struct{}{}:
				default:
				}
			}
		}
	}()
	return moved
}

// told adds to what there is to tell why more is not known.
func (x *waiter) told(o *waitObject) *waitObject {
	if x.upstream && x.failed != nil {
		o.NotFetched = asFailure(x.r.ctx, x.failed).message
	} else if x.upstream && !x.fetched {
		o.NotFetched = "the remote has not answered yet"
	}
	if o.NotFetched != "" {
		x.r.note("whether more has come is not known: %s", o.NotFetched)
	}
	return o
}

// timeOver is the answer where nothing came in time. What could not be fetched
// may have come.
func (x *waiter) timeOver() (*waitObject, error) {
	switch {
	case x.upstream && x.failed != nil:
		return nil, x.failed
	case x.upstream && !x.fetched:
		return nil, fail(codeRuntime, "nothing could be fetched in time, so whether something came is not known").
			withHint("rig-bridge wait with a longer --timeout").orTool("wait with more seconds")
	}
	b, err := x.r.lookIn(x.after, defaultInboxLimit, (*message).wakes)
	if err != nil {
		return nil, err
	}
	o, err := x.object(b)
	if err != nil {
		return nil, err
	}
	if len(o.Items) == 0 {
		o.TimedOut = true
	}
	return o, nil
}

type fetchedNow struct {
	target
	seen, theirs string
	came         bool
	err          error
}

// fetchNow fetches the upstream in a repository of its own, beside other work.
func fetchNow(ctx context.Context, w *work) (f fetchedNow) {
	w, f.err = w.steady(ctx)
	if f.err != nil {
		return f
	}
	defer w.close()
	if f.target, f.err = w.target(); f.err != nil || !f.upstream {
		return f
	}
	if f.seen, f.err = w.ref(f.tracking); f.err != nil {
		return f
	}
	f.theirs, f.err = w.fetch(ctx, f.target)
	f.came = f.err == nil && f.theirs != f.seen
	return f
}

// take does with what was fetched as `sync --auto` does. What is not taken is
// remembered to be told.
func (x *waiter) take(w *work, f fetchedNow) error {
	t := f.target
	head, err := w.ref(t.branch)
	if err != nil {
		return err
	}
	if f.theirs == "" || f.theirs == head {
		x.untaken = nil
		return nil
	}
	if sides := head + " " + f.theirs; sides == x.tried {
		return nil
	}
	// One writer for a clone: a send that is under way ends first.
	unlock, err := w.lock(x.r.ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := w.afterKilled(x.r.ctx, t); err != nil {
		return err
	}
	if err := w.refresh(x.r.ctx); err != nil {
		return err
	}
	if now, err := w.target(); err != nil || now != t {
		return err // another branch is checked out meanwhile
	}
	if head, err = w.ref(t.branch); err != nil {
		return err
	}
	o, err := x.r.compare(w, t, head, f.seen, f.theirs)
	if err != nil {
		return err
	}
	if o.Reason == "" && f.theirs != head && !o.ahead {
		if err := x.r.pull(w, t, o.syncObject, head, f.theirs); err != nil {
			return err
		}
	}
	if o.Pulled && len(o.TrustChanges) > 0 {
		x.trust = append(x.trust, o.TrustChanges...)
		for _, c := range o.TrustChanges {
			for _, line := range c.lines() {
				x.r.note("%s", line)
			}
		}
	}
	if x.untaken = nil; o.Reason == "" {
		return nil
	}
	x.tried = head + " " + f.theirs
	x.untaken = &untaken{Reason: o.Reason, RemoteHead: f.theirs, Items: []inboxItem{}, Hint: "rig-bridge sync says what stands in the way"}
	if o.Reason == reasonDiverged && o.rebase != "" {
		x.untaken.Hint = o.rebase
	}
	if o.Reason == reasonInTheWay {
		x.untaken.Hint = "move away what is in the way: " + strings.Join(o.blocked[:min(3, len(o.blocked))], ", ")
	}
	if x.r.env.Tool && o.bySend {
		x.untaken.Hint = "the next message that is sent puts the unpushed ones on top"
	} else {
		x.untaken.Hint = x.r.forPeople(x.untaken.Hint)
	}
	return x.describe(w, o.syncObject)
}

// describe adds to what is not taken the messages in it that are to this rig.
func (x *waiter) describe(w *work, o *syncObject) error {
	c, err := readConfig(w.root)
	if err != nil {
		return err
	}
	only, one := x.r.opts.Lookup("--thread")
	threads := map[string]map[string]*newEnvelope{} // by path
	for i := range o.Report.NewEnvelopes {
		e := &o.Report.NewEnvelopes[i]
		if one && e.ThreadID != only {
			continue
		}
		if threads[e.ThreadID] == nil {
			threads[e.ThreadID] = map[string]*newEnvelope{}
		}
		threads[e.ThreadID][e.Path] = e
	}
	for thread, news := range threads {
		files, err := w.treeFiles(o.RemoteHead, thread)
		if err != nil {
			return err
		}
		maps.DeleteFunc(files, func(name, _ string) bool { return news[thread+"/"+name] == nil })
		ms, err := w.messagesOf(thread, files)
		if err != nil {
			return err
		}
		for _, m := range ms {
			e := news[m.path()]
			if !m.isTo(c.rigID) || e.verdictOf() == verdict.Refused {
				continue
			}
			m.commit, m.unread, m.why = e.SHA, true, []string{whyUnread}
			item := m.item(x.r.env.Now())
			item.Verdict = e.Verdict
			x.untaken.Items = append(x.untaken.Items, item)
		}
	}
	slices.SortFunc(x.untaken.Items, func(a, b inboxItem) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

func (e newEnvelope) verdictOf() verdict.State { return verdict.State(e.Verdict.State) }

// look looks into the clone if something in it may have changed since the last
// look, and returns what there is to tell, nil if there is nothing.
func (x *waiter) look(w *work, t target) (*waitObject, error) {
	state := w.state(t)
	untold := x.untaken != nil && len(x.untaken.Items) > 0 && !x.shown["untaken "+x.tried]
	if state == x.state && !untold {
		return nil, nil
	}
	b, err := x.r.lookIn(x.after, defaultInboxLimit, (*message).wakes)
	if err != nil {
		return nil, err
	}
	x.state = state
	o, err := x.object(b)
	if err != nil {
		return nil, err
	}
	if x.r.opts.Has("--watch") {
		o.Items = slices.DeleteFunc(o.Items, func(i inboxItem) bool {
			id := "item " + i.Path + " " + i.BodyHash + " " + i.Verdict.State
			known := x.shown[id]
			x.shown[id] = true
			return known
		})
	}
	if len(o.Items) == 0 && !untold {
		return nil, nil
	}
	x.shown["untaken "+x.tried] = true
	return o, nil
}

// wakes reports whether a message ends the waiting: one that is unread, or an
// operator's decision. What the gates refuse wakes nobody.
func (m *message) wakes() bool { return m.unread || slices.Contains(m.why, whyDecision) }

// object is what there is to tell of a look.
func (x *waiter) object(b *box) (*waitObject, error) {
	in, err := b.object(x.r, defaultInboxLimit)
	if err != nil {
		return nil, err
	}
	return &waitObject{head: x.r.head(), Rig: b.rig, Items: in.Items, Refused: in.Refused, More: in.More, Cursor: in.Cursor, Judged: in.Judged, Untaken: x.untaken,
		TrustChanges: x.trust}, nil
}

// print prints an object of --watch.
func (x *waiter) print(event string, o watched) error {
	if x.seq == 0 && event == "change" {
		event = "snapshot"
	}
	x.seq++
	o.stamp(event, x.seq, x.r.env.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
	if err := x.r.object(o); err != nil {
		return err
	}
	_, err := x.r.env.Stdout.Write(x.r.out.Bytes())
	x.r.out.Reset()
	if err != nil {
		return fail(codeRuntime, "cannot write to standard output: %s", reason(err))
	}
	return nil
}

// printError prints an error of --watch, once; the waiting goes on.
func (x *waiter) printError(err error) error {
	f := asFailure(x.r.ctx, err)
	if f.message == x.lastErr {
		return nil
	}
	x.lastErr = f.message
	return x.print("error", &watchError{jsonError: jsonError{schemaVersion, x.r.cmd.Name, x.r.errorBody(f)}})
}

// state names the files by which a clone shows that HEAD, a branch or a mark has
// changed. It is taken before a look, so that what comes during it is seen by
// the next one.
func (w *work) state(t target) string {
	common := w.repo.CommonDir()
	return stateOf([]string{
		filepath.Join(common, filepath.FromSlash(t.branch)), filepath.Join(w.repo.GitDir(), "HEAD"), filepath.Join(common, "packed-refs"),
		filepath.Join(common, "reftable", "tables.list"), filepath.Join(w.root, filepath.FromSlash(configFile)),
	})
}

// stateOf tells files from what they were before. The first one is a branch, which
// can change more than once before its times do, so that what it says counts.
func stateOf(files []string) string {
	var b strings.Builder
	for i, file := range files {
		info, err := os.Lstat(file)
		if err == nil {
			fmt.Fprintf(&b, "%d %d ", info.ModTime().UnixNano(), info.Size())
		}
		if i == 0 && err == nil && info.Mode().IsRegular() {
			id, _ := readFile(file, maxRefFile)
			b.Write(id[:min(len(id), maxRefFile)])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// maxRefFile is how much of a branch's file is looked at, in bytes.
const maxRefFile = 256
