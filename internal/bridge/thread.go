package bridge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

type threadEnvelope struct {
	Frontmatter json.RawMessage `json:"frontmatter"`
	Body        string          `json:"body"`
	File        string          `json:"file"`
	Path        string          `json:"path"`
	BodyHash    string          `json:"body_hash"`
	StatusClass string          `json:"status_class"`
	Valid       bool            `json:"valid"`
	CommitSHA   *string         `json:"commit_sha"`
	Findings    []jsonFinding   `json:"findings"`
	Verdict     jsonVerdict     `json:"verdict"`
	Restored    bool            `json:"restored,omitempty"` // accepted, and not what the work tree holds
	// CommittedAt is the committer date of CommitSHA; Unread says that the
	// message is to this clone's rig, which has not marked it as read.
	CommittedAt string `json:"committed_at,omitempty"`
	Unread      bool   `json:"unread,omitempty"`
}

// A refusedFile is what is not among what was said: a message that the gates
// refuse, or a deletion.
type refusedFile struct {
	File        string          `json:"file"`
	Path        string          `json:"path"`
	CommitSHA   *string         `json:"commit_sha"`
	Verdict     jsonVerdict     `json:"verdict"`
	Findings    []jsonFinding   `json:"findings"`
	Frontmatter json.RawMessage `json:"frontmatter,omitempty"`
	Body        *string         `json:"body,omitempty"`
	BodyHash    string          `json:"body_hash,omitempty"`
	CommittedAt string          `json:"committed_at,omitempty"`
	Unread      bool            `json:"unread,omitempty"`
}

// judgedState says whether all verdicts are known, and if not why.
type judgedState struct {
	Complete bool   `json:"complete"`
	Reason   string `json:"reason,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

type unreadableFile struct {
	File     string        `json:"file"`
	Findings []jsonFinding `json:"findings"`
}

type threadObject struct {
	head
	Event         string           `json:"event,omitempty"`
	Seq           int              `json:"seq,omitempty"`
	At            string           `json:"at,omitempty"`
	ThreadID      string           `json:"thread_id"`
	EnvelopeCount int              `json:"envelope_count"`
	Envelopes     []threadEnvelope `json:"envelopes"`
	Refused       []refusedFile    `json:"refused"`
	Unreadable    []unreadableFile `json:"unreadable"`
	Judged        judgedState      `json:"judged"`
	// Mark is for read --at: it marks what was committed of what is shown here.
	Mark string `json:"mark,omitempty"`
}

func (o *threadObject) stamp(event string, seq int, at string) { o.Event, o.Seq, o.At = event, seq, at }

// A threadView is one look at a thread.
type threadView struct {
	thread  string
	count   int    // of the messages that were said
	mark    string // the tree that HEAD had of it before the look
	ms      []*message
	refused []*message
	bad     []*message // cannot be read
	judged  judgedState
}

// runThread is `rig-bridge thread` (docs/spec/client.md#thread).
func runThread(r *run) error {
	thread := strings.TrimSuffix(r.opts.Word(0), "/")
	if err := checkThread(thread); err != nil {
		return err
	}
	format, given := r.opts.Lookup("--format")
	if given && format != "text" && format != "mermaid" {
		return usageError(r.cmd, "--format %s is neither text nor mermaid", quote(format))
	}
	interval, err := r.interval(defaultStatusInterval)
	if err != nil {
		return err
	}
	if r.opts.Has("--watch") {
		if format == "mermaid" || r.opts.Has("--graph") {
			return usageError(r.cmd, "--watch shows messages as they come, not a graph of all")
		}
		return r.watchThread(interval, thread, format == "text" && !r.opts.Has("--json"))
	}
	v, err := r.lookAt(thread)
	if err != nil {
		return err
	}
	switch {
	case r.json:
		o, err := r.threadJSON(v)
		if err != nil {
			return err
		}
		return r.object(o)
	case len(v.ms)+len(v.refused) == 0:
		r.note("the thread %s holds no readable message", quote(thread))
		return nil
	case format == "mermaid":
		r.paged = true
		r.out.WriteString(mermaid(v.ms))
		return nil
	case r.opts.Has("--graph"):
		r.paged = true
		r.out.WriteString(asciiGraph(v.ms))
		return nil
	}
	r.paged = true
	r.notCommitted(v.ms)
	for i, m := range v.ms {
		r.threadBlock(thread, i+1, len(v.ms), m)
	}
	for i, m := range v.refused {
		r.refusedBlock(thread, i+1, len(v.refused), m)
	}
	return nil
}

// lookAt reads and judges a thread.
func (r *run) lookAt(thread string) (*threadView, error) {
	w, err := r.open()
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.threadDir(r.ctx, thread, listing, false); err != nil {
		return nil, err
	}
	// Before the files, so that the mark never holds what was not seen.
	at, err := w.headPlace(thread)
	if err != nil {
		return nil, err
	}
	all, err := w.readThread(r.ctx, thread)
	if err != nil {
		return nil, err
	}
	// What is new in the history is judged while nothing else is to be done.
	book, err := r.book(w, maxJudged)
	if err != nil {
		return nil, err
	}
	all, gone, err := r.judged(w, book, thread, all)
	if err != nil {
		return nil, err
	}
	if err := r.annotate(w, at, all, gone); err != nil {
		return nil, err
	}
	v := &threadView{thread: thread, mark: at.tree}
	for _, m := range all {
		if m.env == nil {
			v.bad = append(v.bad, m)
		}
		switch {
		case m.env == nil && !m.apart():
		case m.env == nil:
			v.refused = append(v.refused, m)
		case m.apart() && !r.opts.Has("--allow-refused"):
			v.refused = append(v.refused, m)
		default:
			v.ms = append(v.ms, m)
		}
	}
	if !r.json {
		for _, m := range v.bad {
			r.note("%s is not readable: %s", finding.Path(m.path()), m.findings[0].Message)
		}
	}
	r.behind(book)
	sortMessages(v.ms)
	sortMessages(v.refused)
	v.refused = append(v.refused, gone...)
	v.count = len(v.ms)
	v.judged = r.judgedState(book)
	return v, nil
}

// notCommitted names the messages that nobody else can have.
func (r *run) notCommitted(ms []*message) {
	var own []string
	for _, m := range ms {
		if m.verdict.State == verdict.NotCommitted {
			own = append(own, finding.Path(m.file))
		}
	}
	if len(own) > 0 {
		r.note("not committed, so that nobody else has it yet: %s", strings.Join(own[:min(len(own), 10)], " "))
	}
}

// annotate fills in when the commits of messages were made, and which messages
// the rig of this clone has not marked as read.
func (r *run) annotate(w *work, at place, lists ...[]*message) error {
	var commits []string
	for _, ms := range lists {
		for _, m := range ms {
			commits = append(commits, m.commit)
		}
	}
	times, err := w.committed(commits)
	if err != nil {
		return err
	}
	unread := map[string]bool{}
	rig := ""
	if c, err := readConfig(w.root); err == nil {
		marks, err := w.readMarks(c.rigID)
		if err != nil {
			r.note("%s", asFailure(r.ctx, err).message)
		} else {
			rig = c.rigID
			left, err := w.unmarked(marks, []place{at})
			if err != nil {
				return err
			}
			for _, f := range left[at.thread] {
				unread[f.name] = true
			}
		}
	}
	for _, ms := range lists {
		for _, m := range ms {
			m.made = times[m.commit]
			m.unread = unread[m.file] && m.isTo(rig)
		}
	}
	return nil
}

func (r *run) threadJSON(v *threadView) (*threadObject, error) {
	o := &threadObject{head: r.head(), ThreadID: v.thread, EnvelopeCount: v.count, Envelopes: []threadEnvelope{}, Refused: []refusedFile{},
		Unreadable: []unreadableFile{}, Judged: v.judged, Mark: v.mark}
	wanted := func(m *message, after int) bool {
		hash := ""
		if m.env != nil {
			hash = m.env.Hash
		}
		return r.env.Want == nil || r.env.Want(m.file, hash, after)
	}
	for i, m := range v.ms {
		if !wanted(m, len(v.ms)-1-i) {
			continue
		}
		front, err := m.frontmatter()
		if err != nil {
			return nil, err
		}
		e := threadEnvelope{
			Frontmatter: front, Body: string(m.env.Body), File: m.file, Path: m.path(), BodyHash: m.env.Hash,
			StatusClass: envelope.StatusClass(m.env.Status), Valid: m.valid() && m.verdict.State != verdict.Refused, CommitSHA: m.commitSHA(),
			Findings: jsonFindings(m.findings), Verdict: jsonOf(m.verdict), Restored: m.restored, CommittedAt: m.made, Unread: m.unread,
		}
		if e.StatusClass == "" {
			e.StatusClass = "unknown"
		}
		o.Envelopes = append(o.Envelopes, e)
	}
	for _, m := range v.refused {
		if !wanted(m, 0) {
			continue
		}
		f := refusedFile{File: m.file, Path: m.path(), CommitSHA: m.commitSHA(), Verdict: jsonOf(m.verdict), Findings: jsonFindings(m.findings),
			CommittedAt: m.made, Unread: m.unread}
		if f.Verdict.Deleted = m.gone; m.env != nil {
			front, err := m.frontmatter()
			if err != nil {
				return nil, err
			}
			body := string(m.env.Body)
			f.Frontmatter, f.Body, f.BodyHash = front, &body, m.env.Hash
		}
		o.Refused = append(o.Refused, f)
	}
	for _, m := range v.bad {
		o.Unreadable = append(o.Unreadable, unreadableFile{m.file, jsonFindings(m.findings)})
	}
	return o, nil
}

func (m *message) frontmatter() (json.RawMessage, error) {
	front, err := frontmatterJSON(m.env.Frontmatter)
	if err != nil {
		return nil, fmt.Errorf("cannot write the front matter of %s: %w", quote(m.path()), err)
	}
	return front, nil
}

func (m *message) commitSHA() *string {
	if m.commit == "" {
		return nil
	}
	return &m.commit
}

const blockEnd = "==========================="

// threadBlock prints one message for people.
func (r *run) threadBlock(thread string, k, n int, m *message) {
	r.blockHead(thread, fmt.Sprintf("envelope=%d of %d", k, n), m)
	if m.verdict.State != verdict.NotCommitted {
		r.out.WriteString(r.wordLine(m, m.env.From))
	}
	if m.restored {
		r.out.WriteString("as it was accepted; the work tree does not hold it\n")
	}
	if m.again {
		r.out.WriteString("its text was shown before\n" + blockEnd + "\n")
		return
	}
	r.blockText(m)
}

// refusedBlock prints what the gates refuse, so that nobody takes it for what
// was said.
func (r *run) refusedBlock(thread string, k, n int, m *message) {
	r.blockHead(thread, fmt.Sprintf("refused=%d of %d", k, n), m)
	if m.env == nil {
		what := "it is not a message"
		if m.gone {
			what = "the file was deleted; what was accepted stands above"
		}
		r.out.WriteString(r.wordLine(m, "") + what + "\n" + blockEnd + "\n")
		return
	}
	r.out.WriteString(r.wordLine(m, m.env.From) + "what follows was not said in this thread: the gates refuse it\n")
	r.blockText(m)
}

func (r *run) blockHead(thread, place string, m *message) {
	fmt.Fprintf(&r.out, "rig-bridge: thread %s %s", thread, place)
	if m.env != nil {
		fmt.Fprintf(&r.out, " type=%s", r.paint(token(shownType(m.env)), typeColour(m.env.Type)))
	}
	r.out.WriteString(" file=" + token(m.file))
	var rules []string
	for _, f := range m.findings {
		if f.Severity == finding.Error && !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	if len(rules) > 0 {
		r.out.WriteString(" findings=" + strings.Join(rules, ","))
	}
	if m.unread {
		r.out.WriteString(" unread=true")
	}
	r.out.WriteString("\n")
}

// wordLine is the line under the header: whose word a message is, and since when
// it is there.
func (r *run) wordLine(m *message, from string) string {
	line := r.verdictLine(m.verdict, from)
	if m.made != "" {
		line += ", committed " + m.made
	}
	return line + "\n"
}

func (r *run) blockText(m *message) {
	e := m.env
	r.out.WriteString("---\n")
	for _, kv := range [][2]string{
		{"from", e.From}, {"to", strings.Join(e.To, ",")}, {"date", e.Date}, {"type", shownType(e)}, {"status", e.Status}, {"body_hash", e.BodyHash},
		{"in_reply_to", e.InReplyTo}, {"attested_by", e.AttestedBy}, {"attested_at", e.AttestedAt}, {"nonce", e.Nonce},
	} {
		if kv[1] != "" {
			r.out.WriteString(kv[0] + ": " + escapeLine(kv[1]) + "\n")
		}
	}
	r.out.WriteString("---\n" + escape(string(e.Body)) + blockEnd + "\n")
}

// shownType is an envelope's type, or what stands for one that is no string.
func shownType(e *envelope.Envelope) string {
	if e.Type == "" {
		return "(unknown)"
	}
	return e.Type
}

func typeColour(typ string) int {
	switch typ {
	case "REQUEST", "HANDOFF":
		return blue
	case "RESPONSE", "ACK", "RESOLUTION":
		return green
	case "RECOVERY":
		return yellow
	case "VERIFY", "DECISIONS":
		return red
	}
	return 0
}
