package bridge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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
	Unreadable    []unreadableFile `json:"unreadable"`
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
	if err := w.threadDir(thread, "rig-bridge status"); err != nil {
		return err
	}
	all, err := readThread(w.root, thread)
	if err != nil {
		return err
	}
	var ms, bad []*message
	for _, m := range all {
		if m.env != nil {
			ms = append(ms, m)
		} else {
			bad = append(bad, m)
		}
	}
	if !r.json {
		for _, m := range bad {
			r.note("%s is not readable: %s", finding.Path(m.path()), m.findings[0].Message)
		}
	}
	graph := r.opts.has("--graph") || format == "mermaid"
	wanted := tied(ms)
	if r.json || graph {
		wanted = ms // the commit of each is shown
	}
	if err := r.findPositions(w, wanted); err != nil {
		return err
	}
	sortMessages(ms)
	switch {
	case r.json:
		return r.threadJSON(thread, ms, bad)
	case len(ms) == 0:
		r.note("the thread %s holds no readable message", quote(thread))
		return nil
	case format == "mermaid":
		r.paged = true
		r.out.WriteString(mermaid(ms))
		return nil
	case graph:
		r.paged = true
		r.out.WriteString(asciiGraph(ms))
		return nil
	}
	r.paged = true
	for i, m := range ms {
		r.threadBlock(thread, i+1, len(ms), m)
	}
	return nil
}

func (r *run) threadJSON(thread string, ms, bad []*message) error {
	o := threadObject{head: r.head(), ThreadID: thread, EnvelopeCount: len(ms), Envelopes: []threadEnvelope{}, Unreadable: []unreadableFile{}}
	for _, m := range ms {
		front, err := frontmatterJSON(m.env.Frontmatter)
		if err != nil {
			return fmt.Errorf("cannot write the front matter of %s: %w", quote(m.path()), err)
		}
		e := threadEnvelope{
			Frontmatter: front, Body: string(m.env.Body), File: m.file, Path: m.path(), BodyHash: m.env.Hash,
			StatusClass: envelope.StatusClass(m.env.Status), Valid: m.valid(), Findings: jsonFindings(m.findings),
		}
		if e.StatusClass == "" {
			e.StatusClass = "unknown"
		}
		if m.commit != "" {
			e.CommitSHA = &m.commit
		}
		o.Envelopes = append(o.Envelopes, e)
	}
	for _, m := range bad {
		o.Unreadable = append(o.Unreadable, unreadableFile{m.file, jsonFindings(m.findings)})
	}
	return r.object(o)
}

const blockEnd = "==========================="

// threadBlock prints one message for people.
func (r *run) threadBlock(thread string, k, n int, m *message) {
	e := m.env
	typ := e.Type
	if typ == "" {
		typ = "(unknown)"
	}
	fmt.Fprintf(&r.out, "rig-bridge: thread %s envelope=%d of %d type=%s file=%s", thread, k, n, r.paint(token(typ), typeColour(typ)), token(m.file))
	var rules []string
	for _, f := range m.findings {
		if f.Severity == finding.Error && !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	if len(rules) > 0 {
		r.out.WriteString(" findings=" + strings.Join(rules, ","))
	}
	r.out.WriteString("\n---\n")
	for _, kv := range [][2]string{
		{"from", e.From}, {"to", strings.Join(e.To, ",")}, {"date", e.Date}, {"type", typ}, {"status", e.Status}, {"body_hash", e.BodyHash},
	} {
		if kv[1] != "" {
			r.out.WriteString(kv[0] + ": " + escapeLine(kv[1]) + "\n")
		}
	}
	r.out.WriteString("---\n" + escape(string(e.Body)) + blockEnd + "\n")
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
