package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

type latestEnvelope struct {
	Filename string          `json:"filename"`
	Type     string          `json:"type"`
	Date     string          `json:"date"`
	From     string          `json:"from"`
	BodyHash string          `json:"body_hash"`
	To       json.RawMessage `json:"to"`
}

type threadRow struct {
	ThreadID      string         `json:"thread_id"`
	Last          string         `json:"last"`
	LastModified  string         `json:"last_modified"`
	StatusClass   string         `json:"status_class"`
	Type          string         `json:"type"`
	Dirty         bool           `json:"dirty"`
	IsClosed      bool           `json:"is_closed"`
	EnvelopeCount int            `json:"envelope_count"`
	InvalidCount  int            `json:"invalid_count"`
	Latest        latestEnvelope `json:"latest_envelope"`
	FrozenUntil   string         `json:"frozen_until,omitempty"`

	latest *message
}

type statusObject struct {
	head
	Event           string      `json:"event,omitempty"`
	Seq             int         `json:"seq,omitempty"`
	At              string      `json:"at,omitempty"`
	Threads         []threadRow `json:"threads"`
	DirtyFiles      []string    `json:"dirty_files"`
	UnpushedCommits []string    `json:"unpushed_commits"`
	Open            int         `json:"open"`
	Closed          int         `json:"closed"`
	Dirty           int         `json:"dirty"`
	Unpushed        int         `json:"unpushed"`
	Invalid         int         `json:"invalid"`
}

// runStatus is `rig-bridge status` (spec/cli.md section 7).
func runStatus(r *run) error {
	if r.opts.has("--watch") {
		return r.watch(defaultStatusInterval, func() (watched, error) {
			o, _, err := r.statusOnce()
			if err != nil {
				return nil, err
			}
			return o, nil
		})
	}
	o, problems, err := r.statusOnce()
	if err != nil {
		return err
	}
	if r.json {
		return r.object(o)
	}
	r.paged = true
	nameProblems(r, problems)
	dirtyColour, unpushedColour := green, green
	if o.Dirty > 0 {
		dirtyColour = red
	}
	if o.Unpushed > 0 {
		unpushedColour = yellow
	}
	fmt.Fprintf(&r.out, "rig-bridge: status open=%d closed=%d dirty=%s unpushed=%s", o.Open, o.Closed,
		r.paint(fmt.Sprint(o.Dirty), dirtyColour), r.paint(fmt.Sprint(o.Unpushed), unpushedColour))
	if o.Invalid > 0 {
		fmt.Fprintf(&r.out, " invalid=%d", o.Invalid)
	}
	r.out.WriteString("\n")
	for _, t := range o.Threads {
		r.statusRow(t)
	}
	return nil
}

func (r *run) statusRow(t threadRow) {
	dirtyColour := green
	if t.Dirty {
		dirtyColour = red
	}
	last := t.Last
	if last == "" {
		last = "unknown"
	}
	fmt.Fprintf(&r.out, "thread=%s last=%s status=%s type=%s dirty=%s", t.ThreadID, last,
		r.paint(t.StatusClass, classColour(t.StatusClass)), token(t.Type), r.paint(fmt.Sprint(t.Dirty), dirtyColour))
	if r.opts.has("--wide") {
		e := t.latest.env
		fmt.Fprintf(&r.out, " from=%s to=%s closed=%t envelopes=%d", token(e.From), token(strings.Join(e.To, ",")), t.IsClosed, t.EnvelopeCount)
	}
	if t.InvalidCount > 0 {
		fmt.Fprintf(&r.out, " invalid=%d", t.InvalidCount)
	}
	r.out.WriteString("\n")
}

func classColour(class string) int {
	switch class {
	case "active", "targeted":
		return blue
	case "pending":
		return yellow
	case "completed":
		return green
	case "cancelled":
		return red
	}
	return 0
}

// statusOnce looks once. problems are the messages with findings.
func (r *run) statusOnce() (*statusObject, []*message, error) {
	w, err := r.open()
	if err != nil {
		return nil, nil, err
	}
	defer w.close()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	// git looks at the work tree while we read it.
	type answer struct {
		lines []dirtyLine
		err   error
	}
	dirty := make(chan answer, 1)
	go func() {
		lines, err := w.dirtyLines(ctx)
		dirty <- answer{lines, err}
	}()
	names, err := threadNames(w.root)
	if err != nil {
		return nil, nil, err
	}
	threads, err := readThreads(w.root, names)
	if err != nil {
		return nil, nil, err
	}
	o := &statusObject{head: r.head(), Threads: []threadRow{}, DirtyFiles: []string{}, UnpushedCommits: []string{}}
	got := <-dirty
	if got.err != nil {
		return nil, nil, got.err
	}
	var problems []*message
	if err := r.rows(w, o, names, threads, got.lines, &problems); err != nil {
		return nil, nil, err
	}
	if o.UnpushedCommits, err = w.unpushedLines(ctx); err != nil {
		return nil, nil, err
	}
	touched := map[string]bool{}
	for _, l := range got.lines {
		o.DirtyFiles = append(o.DirtyFiles, l.text)
		for _, p := range l.paths {
			thread, _, _ := strings.Cut(p, "/")
			touched[thread] = true
		}
	}
	for i := range o.Threads {
		o.Threads[i].Dirty = touched[o.Threads[i].ThreadID]
	}
	o.Dirty, o.Unpushed = len(o.DirtyFiles), len(o.UnpushedCommits)
	return o, problems, nil
}

// rows fills in the threads, most recent first.
func (r *run) rows(w *work, o *statusObject, names []string, threads []glance, dirty []dirtyLine, problems *[]*message) error {
	var ties []*message
	byDay := map[int]int{}
	for _, g := range threads {
		if g.isThread {
			byDay[g.day]++
		}
	}
	// Messages of one thread and day, and threads whose latest day is the
	// same, are told apart by history.
	for _, g := range threads {
		if g.isThread && (len(g.latest) > 1 || byDay[g.day] > 1) {
			ties = append(ties, g.latest...)
		}
	}
	if err := r.findLatest(w, ties, dirty); err != nil {
		return err
	}
	for i, g := range threads {
		if !g.isThread {
			continue
		}
		until, err := r.frozenUntil(w, g.relays)
		if err != nil {
			return err
		}
		*problems = append(*problems, g.bad...)
		row := threadRow{ThreadID: names[i], EnvelopeCount: g.count, InvalidCount: g.invalid, IsClosed: g.closed, FrozenUntil: until,
			latest: slices.MaxFunc(g.latest, compareMessages)}
		row.describe()
		o.Invalid += g.invalid
		if row.IsClosed {
			o.Closed++
		} else {
			o.Open++
		}
		o.Threads = append(o.Threads, row)
	}
	slices.SortFunc(o.Threads, func(a, b threadRow) int {
		return cmp.Or(compareMessages(b.latest, a.latest), cmp.Compare(a.ThreadID, b.ThreadID))
	})
	return nil
}

// describe fills in what a row says about its latest envelope.
func (t *threadRow) describe() {
	m := t.latest
	e := m.env
	t.Type = e.Type
	t.StatusClass = envelope.StatusClass(e.Status)
	if t.StatusClass == "" {
		t.StatusClass = "unknown"
	}
	if m.day != noDay {
		t.Last = m.when.Format("2006-01-02")
		t.LastModified = m.when.Format("2006-01-02T15:04:05.000Z")
	}
	t.Latest = latestEnvelope{Filename: m.file, Type: e.Type, Date: e.Date, From: e.From, BodyHash: e.Hash, To: recipientsJSON(e)}
}

// recipientsJSON is the value of `to` as it is written: a string or a list.
func recipientsJSON(e *envelope.Envelope) json.RawMessage {
	var v any = e.To
	if !e.ToList {
		v = strings.Join(e.To, ",")
	}
	data, err := marshal(v)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return data
}

// A dirtyLine is one line of `git status --porcelain`, unquoted, with the
// paths in it: two for a rename.
type dirtyLine struct {
	text  string
	paths []string
}

func (w *work) dirtyLines(ctx context.Context) ([]dirtyLine, error) {
	res, err := w.gitWith(ctx, gitrepo.Command{Args: []string{"status", "--porcelain", "-z"}, Env: []string{"GIT_OPTIONAL_LOCKS=0"}, Timeout: localTime})
	if err != nil {
		return nil, err
	}
	if res.Code != 0 {
		f := gitFailed("git status", res)
		f.code, f.exit = codeRuntime, 2
		return nil, f
	}
	return parseStatus(string(res.Stdout)), nil
}

// parseStatus reads `git status --porcelain -z`: XY SP path NUL, and for a
// rename or copy the old path and NUL.
func parseStatus(out string) []dirtyLine {
	var lines []dirtyLine
	fields := strings.Split(out, "\x00")
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		if len(f) < 4 {
			continue
		}
		path := f[3:]
		l := dirtyLine{text: f, paths: []string{path}}
		if strings.ContainsAny(f[:2], "RC") && i+1 < len(fields) {
			i++
			l.text = f[:3] + fields[i] + " -> " + path
			l.paths = append(l.paths, fields[i])
		}
		lines = append(lines, l)
	}
	return lines
}

// unpushedLines lists the commits of HEAD that the upstream lacks.
func (w *work) unpushedLines(ctx context.Context) ([]string, error) {
	out := []string{}
	t, err := w.target()
	if err != nil || !t.upstream {
		return out, nil // detached, or no upstream: nothing can be unpushed
	}
	upstream, err := w.ref(t.tracking)
	if err != nil {
		return nil, err
	}
	head, err := w.ref(t.branch)
	if err != nil {
		return nil, err
	}
	if upstream == "" || head == "" || upstream == head {
		return out, nil
	}
	text, err := w.must(ctx, "-c", "log.showSignature=false", "log", "--no-color", "--format=%h %s", upstream+".."+head)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out, nil
}

// findPositions looks up in which commits messages came into HEAD, for those
// that tie by day. Larger is newer; not committed is largest.
func (r *run) findPositions(w *work, ms []*message) error {
	if len(ms) == 0 {
		return nil
	}
	_, head, err := w.repo.HEAD()
	if err != nil {
		return gitProblem(err)
	}
	committed, err := w.committedPaths(head, ms)
	if err != nil {
		return err
	}
	wanted := map[string]*message{}
	for _, m := range ms {
		if committed[m.path()] {
			wanted[m.path()] = m
		} else {
			m.position = uncommittedPosition
		}
	}
	return w.walkBack(r.ctx, head, wanted, false)
}

// findLatest is findPositions where only the newest message of each thread
// matters: of the others it is only known that they are older. What is not
// committed is taken from what git status said.
func (r *run) findLatest(w *work, ms []*message, dirty []dirtyLine) error {
	if len(ms) == 0 {
		return nil
	}
	_, head, err := w.repo.HEAD()
	if err != nil {
		return gitProblem(err)
	}
	fresh, freshDirs := map[string]bool{}, map[string]bool{}
	for _, l := range dirty {
		if strings.HasSuffix(l.paths[0], "/") {
			freshDirs[strings.TrimSuffix(l.paths[0], "/")] = true
		} else if strings.ContainsAny(l.text[:2], "?ARC") {
			fresh[l.paths[0]] = true
		}
	}
	wanted := map[string]*message{}
	newest := map[string]bool{} // threads whose newest message is not committed
	for _, m := range ms {
		if head == "" || freshDirs[m.thread] || fresh[m.path()] {
			m.position = uncommittedPosition
			newest[m.thread] = true
		}
	}
	for _, m := range ms {
		if !newest[m.thread] {
			wanted[m.path()] = m
		}
	}
	return w.walkBack(r.ctx, head, wanted, true)
}

// frozenUntil returns until when an operator's freeze holds in a thread, ""
// if none does or the policy does not know freezes (spec/relay.md section 8).
func (r *run) frozenUntil(w *work, ms []*message) (string, error) {
	var freezes []*message
	for _, m := range ms {
		if m.isFreeze() {
			freezes = append(freezes, m)
		}
	}
	if len(freezes) == 0 {
		return "", nil
	}
	_, head, err := w.repo.HEAD()
	if err != nil {
		return "", gitProblem(err)
	}
	p, _, err := w.policyAt(head)
	if err != nil {
		return "", err
	}
	if p.Level("relay-frozen") == finding.Off {
		return "", nil
	}
	var latest time.Time
	for _, z := range freezes {
		at, _, err := envelope.ParseTime(z.env.AttestedAt)
		if err != nil {
			continue
		}
		end := at.Add(time.Duration(p.FreezeMinutes) * time.Minute)
		if end.Before(r.env.Now()) || !end.After(latest) || slices.ContainsFunc(ms, func(m *message) bool { return m.thaws(z, at) }) {
			continue
		}
		latest = end
	}
	if latest.IsZero() {
		return "", nil
	}
	return latest.UTC().Format("2006-01-02T15:04:05.000Z"), nil
}

// isFreeze tells whether a message says "wait": a relay of type ACK whose
// status is pending.
func (m *message) isFreeze() bool {
	return m.valid() && m.env.Type == "ACK" && m.env.AttestedAt != "" && envelope.StatusClass(m.env.Status) == "pending"
}

// thaws tells whether a relay ends the freeze z, attested at that time.
func (m *message) thaws(z *message, at time.Time) bool {
	if !m.valid() || m.env.AttestedAt == "" || m.env.From != z.env.From || m.isFreeze() {
		return false
	}
	t, _, err := envelope.ParseTime(m.env.AttestedAt)
	return err == nil && t.After(at)
}
