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
	ThreadID      string           `json:"thread_id"`
	EnvelopeCount int              `json:"envelope_count"`
	Envelopes     []threadEnvelope `json:"envelopes"`
	Refused       []refusedFile    `json:"refused"`
	Unreadable    []unreadableFile `json:"unreadable"`
	Judged        judgedState      `json:"judged"`
}

// runThread is `rig-bridge thread` (spec/cli.md section 8).
func runThread(r *run) error {
	if len(r.opts.words) == 0 {
		return usageError(r.cmd, "<thread-id> is missing")
	}
	thread := strings.TrimSuffix(r.opts.word(), "/")
	if err := checkThread(thread); err != nil {
		return err
	}
	format, given := r.opts.value("--format")
	if given && format != "text" && format != "mermaid" {
		return usageError(r.cmd, "--format %s is neither text nor mermaid", quote(format))
	}
	w, err := r.open()
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.threadDir(r.ctx, thread, "rig-bridge status", false); err != nil {
		return err
	}
	all, err := w.readThread(r.ctx, thread)
	if err != nil {
		return err
	}
	// What is new in the history is judged while nothing else is to be done.
	book, err := r.book(w, maxJudged)
	if err != nil {
		return err
	}
	all, gone, err := r.judged(w, book, thread, all)
	if err != nil {
		return err
	}
	var ms, refused, bad []*message
	for _, m := range all {
		if m.env == nil {
			bad = append(bad, m)
		}
		switch {
		case m.env == nil && !m.apart():
		case m.env == nil:
			refused = append(refused, m)
		case m.apart() && !r.opts.has("--allow-refused"):
			refused = append(refused, m)
		default:
			ms = append(ms, m)
		}
	}
	if !r.json {
		for _, m := range bad {
			r.note("%s is not readable: %s", finding.Path(m.path()), m.findings[0].Message)
		}
	}
	r.behind(book)
	sortMessages(ms)
	sortMessages(refused)
	refused = append(refused, gone...)
	switch {
	case r.json:
		return r.threadJSON(thread, ms, refused, bad, book)
	case len(ms)+len(refused) == 0:
		r.note("the thread %s holds no readable message", quote(thread))
		return nil
	case format == "mermaid":
		r.paged = true
		r.out.WriteString(mermaid(ms))
		return nil
	case r.opts.has("--graph"):
		r.paged = true
		r.out.WriteString(asciiGraph(ms))
		return nil
	}
	r.paged = true
	var own []string
	for _, m := range ms {
		if m.verdict.State == verdict.NotCommitted {
			own = append(own, finding.Path(m.file))
		}
	}
	if len(own) > 0 {
		r.note("not committed, so that nobody else has it yet: %s", strings.Join(own[:min(len(own), 10)], " "))
	}
	for i, m := range ms {
		r.threadBlock(thread, i+1, len(ms), m)
	}
	for i, m := range refused {
		r.refusedBlock(thread, i+1, len(refused), m)
	}
	return nil
}

func (r *run) threadJSON(thread string, ms, refused, bad []*message, book *verdict.Book) error {
	o := threadObject{head: r.head(), ThreadID: thread, EnvelopeCount: len(ms), Envelopes: []threadEnvelope{}, Refused: []refusedFile{}, Unreadable: []unreadableFile{}}
	for _, m := range ms {
		front, err := m.frontmatter()
		if err != nil {
			return err
		}
		e := threadEnvelope{
			Frontmatter: front, Body: string(m.env.Body), File: m.file, Path: m.path(), BodyHash: m.env.Hash,
			StatusClass: envelope.StatusClass(m.env.Status), Valid: m.valid() && m.verdict.State != verdict.Refused, CommitSHA: m.commitSHA(),
			Findings: jsonFindings(m.findings), Verdict: jsonOf(m.verdict), Restored: m.restored,
		}
		if e.StatusClass == "" {
			e.StatusClass = "unknown"
		}
		o.Envelopes = append(o.Envelopes, e)
	}
	for _, m := range refused {
		f := refusedFile{File: m.file, Path: m.path(), CommitSHA: m.commitSHA(), Verdict: jsonOf(m.verdict), Findings: jsonFindings(m.findings)}
		if f.Verdict.Deleted = m.gone; m.env != nil {
			front, err := m.frontmatter()
			if err != nil {
				return err
			}
			body := string(m.env.Body)
			f.Frontmatter, f.Body, f.BodyHash = front, &body, m.env.Hash
		}
		o.Refused = append(o.Refused, f)
	}
	for _, m := range bad {
		o.Unreadable = append(o.Unreadable, unreadableFile{m.file, jsonFindings(m.findings)})
	}
	o.Judged.Reason, o.Judged.Hint = book.Behind()
	o.Judged.Complete = o.Judged.Reason == ""
	return r.object(o)
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
		r.out.WriteString(r.verdictLine(m.verdict, m.env.From) + "\n")
	}
	if m.restored {
		r.out.WriteString("as it was accepted; the work tree does not hold it\n")
	}
	r.blockText(m)
}

// refusedBlock prints what the gates refuse, so that nobody takes it for what
// was said.
func (r *run) refusedBlock(thread string, k, n int, m *message) {
	r.blockHead(thread, fmt.Sprintf("refused=%d of %d", k, n), m)
	if m.env == nil {
		what := "it is no message"
		if m.gone {
			what = "the file was deleted; what was accepted stands above"
		}
		r.out.WriteString(r.verdictLine(m.verdict, "") + "\n" + what + "\n" + blockEnd + "\n")
		return
	}
	r.out.WriteString(r.verdictLine(m.verdict, m.env.From) + "\nwhat follows was not said in this thread: the gates refuse it\n")
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
	r.out.WriteString("\n")
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
