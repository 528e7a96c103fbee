package report

import (
	"crypto/sha256"
	_ "embed" // the style of the page
	"encoding/base64"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

//go:embed page.css
var pageStyle string

// Limits of the page.
const (
	maxPageFindings  = 5000
	maxPageDiffLines = 2000
	maxPageTies      = 6   // of one turn, told in words
	maxPageText      = 500 // characters of one field of a turn
)

// What the page is made of. All texts are clean; they are escaped for HTML when it
// is written.
type (
	page struct {
		Policy   string // Content-Security-Policy
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
	sum := sha256.Sum256([]byte(pageStyle))
	verdict, checked, _ := strings.Cut(r.summary(), ": ")
	p := page{
		Policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'",
		Gate:   r.Gate, Result: r.result(), Exit: r.ExitCode(),
		Verdict: strings.ToUpper(verdict[:1]) + strings.Replace(verdict[1:], ", ", ": ", 1), Checked: checked,
		Hint: finding.Clean(r.Hint),
	}
	if r.Problem != nil {
		p.Problem = finding.Clean(r.Problem.Error())
	}
	for _, n := range r.notes() {
		p.Notes = append(p.Notes, finding.Clean(n))
	}
	for i, f := range worstFirst(r.Findings) {
		if i == maxPageFindings {
			p.Omitted = len(r.Findings) - i + r.More.Total()
			break
		}
		p.Findings = append(p.Findings, pageFinding{f.Severity.String(), place(f), finding.Clean(f.Message), finding.Clean(f.Hint), f.Rule, finding.Short(f.Commit), ruleURI(f.Rule)})
	}
	for i, t := range r.Threads {
		p.Threads = append(p.Threads, threadOf(i+1, t))
	}
	for _, x := range r.Bundles {
		p.Bundles = append(p.Bundles, bundleOf(x))
	}
	return p.write(w)
}

func threadOf(number int, t Thread) pageThread {
	ties := tiesOf(t)
	shown := ties
	if len(ties) > maxGraphEdges {
		// Answers and references first: who did not know of whom grows with the
		// square of the turns.
		shown = slices.Clone(ties)
		slices.SortStableFunc(shown, func(a, b tie) int { return known(b) - known(a) })
		shown = shown[:maxGraphEdges]
	}
	p := pageThread{Number: number, Name: finding.Clean(cut(t.ID, maxPageText)), Drawn: draw(t, shown)}
	var left []string
	if t.Cut > 0 {
		left = append(left, plural(t.Cut, "further turn")+" left out")
	}
	if t.Untold > 0 {
		left = append(left, plural(t.Untold, "further diverging pair")+" left out")
	}
	if n := len(ties) - len(shown); n > 0 {
		left = append(left, plural(n, "tie")+" not drawn")
	}
	p.Cut = strings.Join(left, ", ")
	said := make([][]string, len(t.Turns))
	more := make([]int, len(t.Turns))
	for _, e := range ties {
		if len(said[e.from]) == maxPageTies {
			more[e.from]++
			continue
		}
		said[e.from] = append(said[e.from], fmt.Sprintf("%s %d (%s)", e.how, e.to+1, text(path.Base(t.Turns[e.to].Path))))
	}
	news := 0
	for i, u := range t.Turns {
		if u.New {
			news++
		}
		if more[i] > 0 {
			said[i] = append(said[i], fmt.Sprintf("and %d more", more[i]))
		}
		p.Turns = append(p.Turns, pageTurn{
			Type: text(typeOf(u)), From: text(u.From), To: text(strings.Join(u.To, ", ")), Date: text(u.Date),
			TLDR: text(u.TLDR), Path: text(u.Path), Commit: finding.Short(u.Commit), New: u.New, Relay: u.Relay, Ties: strings.Join(said[i], "; "),
		})
	}
	p.Said = fmt.Sprintf("%s, %d of them new, and %s between them. The list says the same in words.", plural(len(t.Turns), "turn"), news, plural(len(ties), "tie"))
	return p
}

// text is a field of a turn as the page shows it.
func text(s string) string { return finding.Clean(cut(s, maxPageText)) }

// known is 1 for a tie of turns of which one knew the other, else 0.
func known(e tie) int {
	if e.how == diverges {
		return 0
	}
	return 1
}

func bundleOf(x Bundle) pageBundle {
	p := pageBundle{Name: finding.Clean(x.Name), Verdict: bundleVerdict(x), Bad: x.Drift || x.Image != nil && x.Image.Digest == "" || x.Rebuilt != "" && !x.Deterministic || x.Touched && x.Rebuilt == "", Truncated: x.Truncated}
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
