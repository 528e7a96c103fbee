package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/verdict"
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
	Verdict  *jsonVerdict    `json:"verdict,omitempty"` // with --wide or --to
	// CommittedAt is the committer date of the commit that brought it, with
	// --wide or --to, where it is known.
	CommittedAt string `json:"committed_at,omitempty"`
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
	Unread        *int           `json:"unread,omitempty"` // messages to the rig of To

	latest *message
	tied   []*message // the messages of its day
	place  place
	toRig  int // messages to the rig of To
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
	To              string      `json:"to,omitempty"` // the rig whose unread messages are counted
	Unread          *int        `json:"unread,omitempty"`
}

// runStatus is `rig-bridge status` (docs/spec/client.md#status).
func runStatus(r *run) error {
	interval, err := r.interval(defaultStatusInterval)
	if err != nil {
		return err
	}
	if r.opts.Has("--watch") {
		return r.watch(interval, func() (watched, error) {
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
	if r.opts.Has("--to") {
		fmt.Fprintf(&r.out, " to=%s unread=%s", o.To, r.paint(fmt.Sprint(*o.Unread), unreadColour(*o.Unread)))
	}
	r.out.WriteString("\n")
	for _, t := range o.Threads {
		r.statusRow(t)
	}
	return nil
}

func unreadColour(n int) int {
	if n > 0 {
		return yellow
	}
	return 0
}

// wide reports whether status says of each thread whose word its latest message is
// and when it was committed, which costs a look at the verdicts.
func (r *run) wide() bool { return r.opts.Has("--wide") || r.opts.Has("--to") }

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
	if r.opts.Has("--wide") {
		e := t.latest.envelope()
		fmt.Fprintf(&r.out, " from=%s to=%s closed=%t envelopes=%d", token(e.From), token(strings.Join(e.To, ",")), t.IsClosed, t.EnvelopeCount)
	}
	if t.InvalidCount > 0 {
		fmt.Fprintf(&r.out, " invalid=%d", t.InvalidCount)
	}
	if v := t.latest.verdict; r.opts.Has("--wide") && v.State != verdict.NotCommitted {
		fmt.Fprintf(&r.out, " verdict=%s", r.paint(string(v.State), stateColour(v.State)))
		if v.Fingerprint != "" {
			r.out.WriteString(" signer=" + token(v.Principal))
		}
		if v.Revoked {
			r.out.WriteString(r.paint(" revoked=true", red))
		}
	}
	if at := t.at(); at != "" && r.wide() {
		r.out.WriteString(" at=" + at)
	}
	if t.Unread != nil && (*t.Unread > 0 || r.opts.Has("--to")) {
		fmt.Fprintf(&r.out, " unread=%s", r.paint(fmt.Sprint(*t.Unread), unreadColour(*t.Unread)))
	}
	r.out.WriteString("\n")
}

// at is the time of the latest message: when it was committed, or the instant
// that its date names where that is not known; "" without either.
func (t threadRow) at() string {
	if t.Latest.CommittedAt == "" && strings.Contains(t.Latest.Date, "T") {
		return t.LastModified
	}
	return t.Latest.CommittedAt
}

// envelope is what a message says, nothing where it cannot be read.
func (m *message) envelope() *envelope.Envelope {
	if m.env == nil {
		return &envelope.Envelope{}
	}
	return m.env
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
	if err := w.threadsOnTop(); err != nil {
		return nil, nil, err
	}
	got, err := w.treeStatus(r.ctx)
	if err != nil {
		return nil, nil, err
	}
	o := &statusObject{head: r.head(), Threads: []threadRow{}, DirtyFiles: []string{}, UnpushedCommits: []string{}}
	touched, dirty := map[string]bool{}, map[string]bool{}
	for _, l := range got.lines {
		if l.shown {
			o.DirtyFiles = append(o.DirtyFiles, l.text)
		}
		for _, p := range l.paths {
			thread, _, _ := strings.Cut(p, "/")
			touched[thread], dirty[thread] = true, dirty[thread] || l.shown
		}
	}
	rig, marks, err := r.reader(w)
	if err != nil {
		return nil, nil, err
	}
	kept := r.summaries(w)
	threads, trees, own, err := w.atHead(got.head, touched, kept)
	if err != nil {
		return nil, nil, err
	}
	for thread := range touched {
		if info, err := os.Lstat(filepath.Join(w.root, thread)); err != nil || !info.IsDir() || !isThreadName(thread) {
			continue
		}
		g, err := w.glanceAt(thread)
		if err != nil {
			return nil, nil, err
		}
		threads = append(threads, seen{thread, own[thread], *g})
	}
	slices.SortFunc(threads, func(a, b seen) int { return cmp.Compare(a.name, b.name) })
	kept.save(trees)
	o.To = rig
	var problems []*message
	if err := r.rows(w, o, threads, got.head, &problems); err != nil {
		return nil, nil, err
	}
	if marks != nil {
		if err := w.countUnread(o, marks, touched); err != nil {
			return nil, nil, err
		}
	}
	if o.UnpushedCommits, err = w.unpushedLines(r.ctx, got); err != nil {
		return nil, nil, err
	}
	for i := range o.Threads {
		o.Threads[i].Dirty = dirty[o.Threads[i].ThreadID]
	}
	o.Dirty, o.Unpushed = len(o.DirtyFiles), len(o.UnpushedCommits)
	return o, problems, nil
}

// rows fills in the threads, most recent first.
func (r *run) rows(w *work, o *statusObject, threads []seen, head string, problems *[]*message) error {
	for _, g := range threads {
		if !g.isThread || r.opts.Has("--to") && g.toRig(o.To) == 0 {
			continue
		}
		until, err := r.frozenUntil(w, g.relays, head)
		if err != nil {
			return err
		}
		*problems = append(*problems, g.bad...)
		row := threadRow{ThreadID: g.name, EnvelopeCount: g.count, InvalidCount: g.invalid, IsClosed: g.closed, FrozenUntil: until,
			latest: g.last(), tied: g.latest, place: place{g.name, g.tree}, toRig: g.toRig(o.To)}
		if row.latest == nil { // no message of it can be read
			row.latest = g.bad[len(g.bad)-1]
		}
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
		return cmp.Or(cmp.Compare(b.latest.day, a.latest.day), b.latest.when.Compare(a.latest.when), cmp.Compare(a.ThreadID, b.ThreadID))
	})
	if r.wide() {
		return r.whose(w, o)
	}
	return nil
}

// whose says of the latest message of each thread whose word it is, and when it
// was committed.
func (r *run) whose(w *work, o *statusObject) error {
	book, err := r.book(w, maxJudged)
	if err != nil {
		return err
	}
	commits := make([]string, len(o.Threads))
	for i := range o.Threads {
		row := &o.Threads[i]
		verdicts := book.Thread(row.ThreadID)
		if len(row.tied) > 1 { // as the work tree holds it
			placed(verdicts, row.tied)
			sortMessages(row.tied)
			row.latest = row.tied[len(row.tied)-1]
		}
		if row.latest, err = w.newest(verdicts, row.latest, false); err != nil {
			return err
		}
		row.describe()
		row.latest.verdict = verdicts.Of(row.latest.file, row.latest.blob)
		v := jsonOf(row.latest.verdict)
		row.Latest.Verdict, commits[i] = &v, row.latest.verdict.Commit
	}
	times, err := w.committed(commits)
	if err != nil {
		return err
	}
	for i := range o.Threads {
		o.Threads[i].Latest.CommittedAt = times[commits[i]]
	}
	r.behind(book)
	return nil
}

// committed returns the committer dates of commits as text, of those that have
// one that a calendar has.
func (w *work) committed(commits []string) (map[string]string, error) {
	ids := slices.DeleteFunc(slices.Clone(commits), func(id string) bool { return id == "" })
	slices.Sort(ids)
	ids = slices.Compact(ids)
	out := make(map[string]string, len(ids))
	add := func(c *gitrepo.Commit) error {
		if at := time.Unix(c.Committer.When, 0).UTC(); at.Year() >= 1970 && at.Year() <= 9999 {
			out[c.ID] = at.Format("2006-01-02T15:04:05Z")
		}
		return nil
	}
	err := w.repo.EachCommit(ids, add)
	var bad *gitrepo.MalformedCommitError
	if !errors.As(err, &bad) && !errors.Is(err, gitrepo.ErrMissing) {
		return out, gitProblemOrNil(err)
	}
	for _, id := range ids { // one of them cannot be read
		if c, err := w.repo.Commit(id); err == nil {
			_ = add(c)
		} else if !errors.As(err, &bad) && !errors.Is(err, gitrepo.ErrMissing) {
			return nil, gitProblem(err)
		}
	}
	return out, nil
}

// reader returns the rig whose unread messages status counts, and its marks:
// the one of --to, else that of this clone where the output has room for it. ""
// if there is none, as in a clone without configuration.
func (r *run) reader(w *work) (string, *marks, error) {
	if !r.wide() && !r.json {
		return "", nil, nil
	}
	to, given := r.opts.Lookup("--to")
	rig := to
	if !given || to == "" || to == "me" {
		c, err := readConfig(w.root)
		if err != nil && given {
			return "", nil, err
		}
		rig = c.rigID
	} else {
		id, err := envelope.NormalizeRigID(to)
		if err != nil {
			return "", nil, usageError(r.cmd, "--to %s: %s", quote(to), err.Error())
		}
		rig = id
	}
	if rig == "" {
		return "", nil, nil
	}
	m, err := w.readMarks(rig)
	if err != nil && !given {
		// A count that is a guess is none.
		f := asFailure(r.ctx, err)
		r.note("%s", f.message)
		return "", nil, nil
	}
	return rig, m, err
}

// countUnread fills in how many messages to a rig are unread.
func (w *work) countUnread(o *statusObject, m *marks, touched map[string]bool) error {
	var look []place
	total := 0
	counts := make([]int, len(o.Threads))
	for i, t := range o.Threads {
		// HEAD's messages count. Where the work tree has others, or some of them
		// are marked, which ones has to be looked at.
		if l := m.of(t.ThreadID); touched[t.ThreadID] || l.tree != "" || l.keys != "" {
			look = append(look, t.place)
		} else {
			counts[i] = t.toRig
		}
	}
	unread, err := w.unread(o.To, m, look)
	if err != nil {
		return err
	}
	for i := range o.Threads {
		counts[i] += len(unread[o.Threads[i].ThreadID])
		o.Threads[i].Unread = &counts[i]
		total += counts[i]
	}
	o.Unread = &total
	return nil
}

// describe fills in what a row says about its latest envelope.
func (t *threadRow) describe() {
	m := t.latest
	e := m.envelope()
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
	data, err := finding.JSON(v)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return data
}

// A dirtyLine is one line of `git status --porcelain`, unquoted, with the
// paths in it: two for a rename.
type dirtyLine struct {
	shown bool   // by the user's configuration
	xy    string // the two status letters
	text  string
	paths []string
}

// treeStatus is what git says of work tree, branch and upstream.
type treeStatus struct {
	lines []dirtyLine
	head  string // the commit of HEAD, "" if there is none
	ahead bool   // there is an upstream, and HEAD has commits that it lacks
}

// treeStatus asks git for all of it at once. Untracked and ignored files are
// looked for whatever the user's configuration says, because they may be
// messages; shown are those that it lets git status show.
func (w *work) treeStatus(ctx context.Context) (treeStatus, error) {
	ask := func(untracked string) (treeStatus, error) {
		res, err := w.gitWith(ctx, gitrepo.Command{Args: []string{"status", "--porcelain=v2", "--branch", "-z", "--untracked-files=" + untracked, "--ignored=matching"},
			Env: []string{"GIT_OPTIONAL_LOCKS=0"}, Timeout: localTime})
		if err != nil {
			return treeStatus{}, err
		}
		if res.Code != 0 {
			f := gitFailed("git status", res)
			f.code, f.exit = codeRuntime, 2
			return treeStatus{}, f
		}
		return parseStatus(string(res.Stdout)), nil
	}
	type answer struct {
		value string
		err   error
	}
	config := make(chan answer, 1)
	go func() {
		value, _, err := w.repo.ConfigLast("status.showUntrackedFiles")
		config <- answer{value, err}
	}()
	s, err := ask("normal")
	set := <-config
	if err == nil && set.err != nil {
		err = gitProblem(set.err)
	}
	switch strings.ToLower(set.value) {
	case "no", "false", "off", "0":
		for i := range s.lines {
			s.lines[i].shown = s.lines[i].shown && s.lines[i].xy != "??"
		}
	case "all":
		if err == nil {
			return ask("all")
		}
	}
	return s, err
}

// statusFields are the numbers of fields, separated by blanks, of the lines of
// `git status --porcelain=v2` (git-status, Porcelain Format Version 2). The
// last field is the path.
var statusFields = map[byte]int{'1': 9, '2': 10, 'u': 11, '?': 2, '!': 2}

// parseStatus reads `git status --porcelain=v2 --branch -z`. Each line becomes
// the one that `git status --porcelain` prints: XY SP path, and for a rename or
// copy the old path, an arrow and the new one.
func parseStatus(out string) treeStatus {
	var s treeStatus
	items := strings.Split(out, "\x00")
	for i := 0; i < len(items); i++ {
		item := items[i]
		if id, ok := strings.CutPrefix(item, "# branch.oid "); ok && id != "(initial)" {
			s.head = id
		}
		if ab, ok := strings.CutPrefix(item, "# branch.ab "); ok {
			s.ahead = !strings.HasPrefix(ab, "+0 ")
		}
		if item == "" || statusFields[item[0]] == 0 {
			continue
		}
		fields := strings.SplitN(item, " ", statusFields[item[0]])
		if len(fields) < statusFields[item[0]] {
			continue
		}
		path := fields[len(fields)-1]
		l := dirtyLine{shown: item[0] != '!', xy: item[:1] + item[:1], paths: []string{path}}
		if len(fields) > 2 {
			l.xy = strings.ReplaceAll(fields[1], ".", " ")
		}
		l.text = l.xy + " " + path
		if item[0] == '2' && i+1 < len(items) {
			i++
			l.text = l.xy + " " + items[i] + " -> " + path
			l.paths = append(l.paths, items[i])
		}
		s.lines = append(s.lines, l)
	}
	// The older format has what is not merged among the others, by path.
	tracked := len(s.lines)
	if i := slices.IndexFunc(s.lines, func(l dirtyLine) bool { return l.xy == "??" || l.xy == "!!" }); i >= 0 {
		tracked = i
	}
	slices.SortStableFunc(s.lines[:tracked], func(a, b dirtyLine) int { return cmp.Compare(a.paths[0], b.paths[0]) })
	return s
}

// unpushedLines lists the commits of HEAD that the upstream lacks.
func (w *work) unpushedLines(ctx context.Context, s treeStatus) ([]string, error) {
	out := []string{}
	if !s.ahead {
		return out, nil
	}
	text, err := w.must(ctx, "-c", "log.showSignature=false", "log", "--no-color", "--encoding=UTF-8", "--format=%h %s", "@{upstream}.."+s.head)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out, nil
}

// frozenUntil returns until when an operator's freeze holds in a thread, ""
// if none does or the policy does not know freezes (docs/spec/relay.md#freeze).
func (r *run) frozenUntil(w *work, ms []*message, head string) (string, error) {
	var freezes []*message
	for _, m := range ms {
		if m.isFreeze() {
			freezes = append(freezes, m)
		}
	}
	if len(freezes) == 0 {
		return "", nil
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

// isFreeze reports whether a message says "wait": a relay of type ACK whose
// status is pending.
func (m *message) isFreeze() bool {
	return m.valid() && m.env.Type == "ACK" && m.env.AttestedAt != "" && envelope.StatusClass(m.env.Status) == "pending"
}

// thaws reports whether a relay ends the freeze z, attested at that time.
func (m *message) thaws(z *message, at time.Time) bool {
	if !m.valid() || m.env.AttestedAt == "" || m.env.From != z.env.From || m.isFreeze() {
		return false
	}
	t, _, err := envelope.ParseTime(m.env.AttestedAt)
	return err == nil && t.After(at)
}
