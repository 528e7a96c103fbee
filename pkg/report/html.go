package report

import (
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"path"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

var (
	//go:embed page.html.tmpl
	pageTemplate string
	//go:embed page.css
	pageStyle string
)

// Limits of the page.
const (
	maxPageFindings  = 5000
	maxPageDiffLines = 2000
)

// What the template is given. All texts are clean; it escapes them for HTML.
type (
	page struct {
		Policy   string // Content-Security-Policy
		Style    template.CSS
		Gate     string
		Result   string // clean, findings, undecided
		Verdict  string
		Checked  string
		Exit     int
		Problem  string
		Hint     string
		Findings []pageFinding
		Omitted  int
		Threads  []pageThread
		Bundles  []pageBundle
		Notes    []string
	}
	pageFinding struct {
		Severity, Place, Message, Hint, Rule, Commit, RuleURI string
	}
	pageThread struct {
		Number int
		Name   string
		Drawn  drawing
		Said   string // the graph in one sentence
		Turns  []pageTurn
		Cut    string
	}
	pageTurn struct {
		Type, From, To, Date, TLDR, Path, Commit string
		New, Relay                               bool
		Ties                                     string
	}
	pageBundle struct {
		Name, Verdict string
		Bad           bool
		Rows          [][2]string
		Lists         []pageChanges
		Truncated     int
	}
	pageChanges struct {
		Title   string
		Changes []pageChange
	}
	pageChange struct {
		Kind, Path, Old, New string
		Lines                []pageLine
		Omitted              int
	}
	pageLine struct{ Class, Text string }
)

// writeHTML writes one page that stands for itself: no script, nothing loaded
// from anywhere, and a Content-Security-Policy that allows its own style and
// nothing else.
func writeHTML(w io.Writer, r *Report) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(pageStyle))
	verdict, checked, _ := strings.Cut(r.summary(), ": ")
	p := page{
		Policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'",
		Style:  template.CSS(pageStyle),
		Gate:   r.Gate, Result: r.result(), Exit: r.ExitCode(),
		Verdict: strings.ToUpper(verdict[:1]) + strings.Replace(verdict[1:], ", ", ": ", 1), Checked: checked,
		Hint: finding.Clean(r.Hint),
	}
	if r.Problem != nil {
		p.Problem = finding.Clean(r.Problem.Error())
	}
	for _, n := range r.Notes {
		p.Notes = append(p.Notes, finding.Clean(n))
	}
	for i, f := range worstFirst(r.Findings) {
		if i == maxPageFindings {
			p.Omitted = len(r.Findings) - i
			break
		}
		p.Findings = append(p.Findings, pageFinding{f.Severity.String(), place(f), finding.Clean(f.Message), finding.Clean(f.Hint), f.Rule, short(f.Commit), ruleURI(f.Rule)})
	}
	for i, t := range r.Threads {
		p.Threads = append(p.Threads, threadOf(i+1, t))
	}
	for _, x := range r.Bundles {
		p.Bundles = append(p.Bundles, bundleOf(x))
	}
	return t.Execute(w, p)
}

func threadOf(number int, t Thread) pageThread {
	p := pageThread{Number: number, Name: finding.Clean(t.ID), Drawn: draw(t)}
	if t.Cut > 0 {
		p.Cut = plural(t.Cut, "further turn") + " left out"
	}
	ties := tiesOf(t)
	said := make([][]string, len(t.Turns))
	for _, e := range ties {
		said[e.from] = append(said[e.from], fmt.Sprintf("%s %d (%s)", e.how, e.to+1, finding.Clean(path.Base(t.Turns[e.to].Path))))
	}
	news := 0
	for i, u := range t.Turns {
		if u.New {
			news++
		}
		p.Turns = append(p.Turns, pageTurn{
			Type: finding.Clean(typeOf(u)), From: finding.Clean(u.From), To: finding.Clean(strings.Join(u.To, ", ")), Date: finding.Clean(u.Date),
			TLDR: finding.Clean(u.TLDR), Path: finding.Clean(u.Path), Commit: short(u.Commit), New: u.New, Relay: u.Relay, Ties: strings.Join(said[i], "; "),
		})
	}
	p.Said = fmt.Sprintf("%s, %d of them new, and %s between them. The list says the same in words.", plural(len(t.Turns), "turn"), news, plural(len(ties), "tie"))
	return p
}

func bundleOf(x Bundle) pageBundle {
	p := pageBundle{Name: finding.Clean(x.Name), Verdict: bundleVerdict(x), Bad: x.Drift || x.Rebuilt != "" && !x.Deterministic || x.Touched && x.Rebuilt == "", Truncated: x.Truncated}
	for _, row := range bundleRows(x) {
		p.Rows = append(p.Rows, [2]string{row[0], finding.Clean(row[1])})
	}
	for _, list := range bundleLists(x) {
		l := pageChanges{Title: list.title}
		for _, c := range list.changes {
			pc := pageChange{Kind: finding.Clean(c.Kind), Path: finding.Clean(c.Path), Old: finding.Clean(c.Old), New: finding.Clean(c.New)}
			if c.Diff != "" {
				lines := diffLines(c.Diff)
				if len(lines) > maxPageDiffLines {
					pc.Omitted = len(lines) - maxPageDiffLines
					lines = lines[:maxPageDiffLines]
				}
				begun := false
				for _, line := range lines {
					begun = begun || strings.HasPrefix(line, "@@")
					class := "hunk" // and the two names before the first one
					if begun {
						class = lineClass(line)
					}
					pc.Lines = append(pc.Lines, pageLine{class, line})
				}
			}
			l.Changes = append(l.Changes, pc)
		}
		p.Lists = append(p.Lists, l)
	}
	return p
}

func lineClass(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return "ins"
	case strings.HasPrefix(line, "-"):
		return "del"
	case strings.HasPrefix(line, "@@"):
		return "hunk"
	}
	return "same"
}

// ruleURI is the page of a rule.
func ruleURI(rule string) string { return homepage + "/blob/main/docs/rules.md#" + rule }
