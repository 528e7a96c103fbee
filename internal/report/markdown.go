package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// maxMarkdown is how many bytes a job summary gets at the most: GitHub refuses
// one of more than 1 MiB.
const maxMarkdown = 900 << 10

// A summaryWriter collects whole rows and sections until the limit.
type summaryWriter struct {
	strings.Builder
	limit int
}

// add appends a piece if it fits, whole or not at all.
func (b *summaryWriter) add(piece string) bool {
	if b.Len()+len(piece) > b.limit {
		return false
	}
	b.WriteString(piece)
	return true
}

// writeMarkdown writes a job summary in GitHub Flavored Markdown: the verdict,
// the findings, a graph for each thread and a diff for each bundle. It is cut
// between rows and sections at maxMarkdown, and says so.
func writeMarkdown(w io.Writer, r *Report) error {
	const tail = 400 // for the lines that tell what is left out
	b := &summaryWriter{limit: maxMarkdown - 4*tail}
	b.add("## " + verdictSign(r) + " rigward: " + r.summary() + "\n\n")
	if r.Problem != nil {
		text := "**Cannot decide:** " + markdownText(cut(r.Problem.Error(), 2000)) + "\n\n"
		if r.Hint != "" {
			text += "Hint: " + markdownCode(cut(r.Hint, 2000)) + "\n\n"
		}
		b.add(text)
	}
	capabilityTable(b, r)
	findingsTable(b, r)
	b.limit += tail
	for i, t := range r.Threads {
		if !b.add(threadSection(t)) {
			b.limit += tail
			b.add(fmt.Sprintf("*%s left out: the summary is full.*\n\n", plural(len(r.Threads)-i, "thread")))
			break
		}
	}
	for i, x := range r.Bundles {
		if !b.add(bundleSection(x)) {
			b.limit += tail
			b.add(fmt.Sprintf("*%s left out: the summary is full.*\n\n", plural(len(r.Bundles)-i, "bundle")))
			break
		}
	}
	for _, n := range r.notes() {
		b.add("Note: " + markdownText(cut(n, 2000)) + "\n\n")
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}

func verdictSign(r *Report) string {
	switch r.ExitCode() {
	case ExitClean:
		return "✅"
	case ExitFindings:
		return "❌"
	}
	return "⚠️"
}

// maxGains is how many gains the table at the top has.
const maxGains = 30

// capabilityTable says what bundles may do and could not before.
func capabilityTable(b *summaryWriter, r *Report) {
	n := 0
	for _, x := range r.Bundles {
		for _, g := range x.Capabilities {
			if !g.Gain {
				continue
			}
			if n++; n == 1 {
				b.add("**Bundles may do more than before:**\n\n| Bundle | May now | Where | Before | After |\n|---|---|---|---|---|\n")
			}
			if n <= maxGains {
				b.add(fmt.Sprintf("| %s | %s | %s | %s | %s |\n", markdownCode(cut(x.Name, 60)), markdownText(cut(g.Kind, 40)), markdownCode(cut(g.Where, 100)),
					markdownCode(cut(g.Old, 150)), markdownCode(cut(g.New, 150))))
			}
		}
	}
	if n > maxGains {
		b.add(fmt.Sprintf("\n*%s left out.*\n", plural(n-maxGains, "more gain")))
	}
	if n > 0 {
		b.add("\n")
	}
}

func findingsTable(b *summaryWriter, r *Report) {
	if len(r.Findings) == 0 {
		return
	}
	b.add("| | Where | What | Rule |\n|---|---|---|---|\n")
	for i, f := range worstFirst(r.Findings) {
		what := markdownText(cut(f.Message, 2000))
		if f.Commit != "" {
			what += " (commit " + markdownCode(finding.Short(f.Commit)) + ")"
		}
		if f.Hint != "" {
			what += "<br>Hint: " + markdownCode(cut(f.Hint, 2000))
		}
		row := fmt.Sprintf("| %s | %s | %s | %s |\n", f.Severity, markdownCode(cut(place(f), 500)), what, markdownCode(f.Rule))
		if !b.add(row) {
			b.limit += 400
			b.add(fmt.Sprintf("\n*%s left out: the summary is full; the log lists all.*\n", plural(len(r.Findings)-i+r.More.Total(), "more finding")))
			break
		}
	}
	b.add("\n")
}

func threadSection(t Thread) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Thread %s\n\n", markdownCode(cut(t.ID, 100)))
	graph, left := fitting(t)
	b.WriteString("```mermaid\n" + graph + "```\n\n")
	if left > 0 {
		fmt.Fprintf(&b, "*The graph leaves out %s.*\n\n", plural(left, "earlier turn"))
	}
	b.WriteString("| Turn | Type | From | To | Date | In short |\n|---|---|---|---|---|---|\n")
	for _, u := range t.Turns {
		if !u.New {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", markdownCode(cut(u.Path, 300)), markdownText(cut(typeOf(u), 40)), markdownText(cut(u.From, 100)),
			markdownText(cut(strings.Join(u.To, ", "), 200)), markdownText(cut(u.Date, 40)), markdownText(cut(u.TLDR, 300)))
	}
	b.WriteString("\n")
	if t.Cut > 0 {
		fmt.Fprintf(&b, "*%s left out.*\n\n", plural(t.Cut, "further turn"))
	}
	if t.Untold > 0 {
		fmt.Fprintf(&b, "*%s left out.*\n\n", plural(t.Untold, "further diverging pair"))
	}
	return b.String()
}

// maxSectionDiff is how many bytes the diffs of one bundle get.
const maxSectionDiff = 64 << 10

func bundleSection(x Bundle) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Bundle %s: %s\n\n", markdownCode(cut(x.Name, 100)), bundleVerdict(x))
	b.WriteString("| | |\n|---|---|\n")
	for _, row := range bundleRows(x) {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], markdownCode(cut(row[1], 300)))
	}
	b.WriteString("\n")
	room := maxSectionDiff
	for _, list := range bundleLists(x) {
		fmt.Fprintf(&b, "<details><summary>%s</summary>\n\n| Change | Member | Before | After |\n|---|---|---|---|\n", list.title)
		for i, c := range list.changes {
			row := fmt.Sprintf("| %s | %s | %s | %s |\n", markdownText(c.Kind), markdownCode(cut(c.Path, 300)), markdownCode(cut(c.Old, 200)), markdownCode(cut(c.New, 200)))
			if room -= len(row); room < 0 {
				fmt.Fprintf(&b, "\n*%s left out.*\n", plural(len(list.changes)-i, "more change"))
				break
			}
			b.WriteString(row)
		}
		for _, c := range list.changes {
			if c.Diff == "" {
				continue
			}
			lines := diffLines(c.Diff)
			fence := fenceFor(lines)
			fmt.Fprintf(&b, "\n%s\n\n%sdiff\n", markdownCode(cut(c.Path, 300)), fence)
			for i, l := range lines {
				if room -= len(l) + 1; room < 0 {
					fmt.Fprintf(&b, "… %s left out\n", plural(len(lines)-i, "more line"))
					break
				}
				b.WriteString(l + "\n")
			}
			b.WriteString(fence + "\n")
			if room < 0 {
				break
			}
		}
		b.WriteString("\n</details>\n\n")
	}
	if x.Truncated > 0 {
		fmt.Fprintf(&b, "*%s left out.*\n\n", plural(x.Truncated, "more change"))
	}
	return b.String()
}

// bundleVerdict says in words what became of a bundle.
func bundleVerdict(x Bundle) string {
	switch {
	case x.Rebuilt == "" && x.Touched:
		return "could not be rebuilt"
	case x.Rebuilt == "":
		return "not touched, so not rebuilt"
	case !x.Deterministic:
		return "two rebuilds differ"
	case x.Drift && x.Committed == "":
		return "not committed"
	case x.Drift:
		return "the committed bundle is not the rebuilt one"
	case x.Base != "" && x.Base != x.Rebuilt:
		return "changed, and committed as rebuilt"
	}
	return "as committed"
}

// bundleRows are the facts of a bundle, each with its name.
func bundleRows(x Bundle) [][2]string {
	rows := [][2]string{{"Format", x.Format}, {"Source", x.Source}, {"Output", x.Output}}
	for _, d := range [][2]string{{"Base", x.Base}, {"Committed", x.Committed}, {"Rebuilt", x.Rebuilt}} {
		if d[1] != "" {
			rows = append(rows, d)
		}
	}
	if i := x.Image; i != nil {
		for _, d := range [][2]string{{"Image on", i.On}, {"Image before", i.Before}, {"Image", i.result()}} {
			if d[1] != "" {
				rows = append(rows, d)
			}
		}
	}
	return rows
}

type changeList struct {
	title   string
	changes []MemberChange
}

// bundleLists are the lists of changes, without an empty one.
func bundleLists(x Bundle) (lists []changeList) {
	if len(x.FromCommitted) > 0 {
		lists = append(lists, changeList{"From the committed bundle to the rebuilt one: " + plural(len(x.FromCommitted), "change"), x.FromCommitted})
	}
	if len(x.FromBase) > 0 {
		lists = append(lists, changeList{"From the base to this change: " + plural(len(x.FromBase), "change"), x.FromBase})
	}
	if x.Image != nil && len(x.Image.Changes) > 0 {
		lists = append(lists, changeList{"From the image before to this change's: " + plural(len(x.Image.Changes), "change"), x.Image.Changes})
	}
	return lists
}

// diffLines are the lines of a unified diff, each clean and of bounded length.
func diffLines(diff string) []string {
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	for i, l := range lines {
		lines[i] = diffLine(l)
	}
	return lines
}

// fenceFor returns a run of backticks that is longer than any in the lines.
func fenceFor(lines []string) string {
	longest := 2
	for _, l := range lines {
		n := 0
		for i := range len(l) {
			if l[i] != '`' {
				n = 0
				continue
			}
			n++
			longest = max(longest, n)
		}
	}
	return strings.Repeat("`", longest+1)
}

// markdownText escapes text for a place where GitHub Flavored Markdown takes
// inline content, a table cell too: what could begin markup, HTML, a link or
// mathematics becomes a character reference, which CommonMark (section 2.5)
// never takes for structure. GitHub looks for e-mail addresses, mentions, issues
// and emoji in the text that comes out of that; what they begin with stands in
// an element of its own, as GitHub's documentation has it for the dollar sign.
func markdownText(s string) string {
	s = finding.Clean(s)
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '@', c == '$', c == '#', c == ':' && i+1 < len(s) && s[i+1] != ' ':
			fmt.Fprintf(&b, "<span>&#%d;</span>", c)
		case strings.IndexByte("\\`*_{}[]<>()+!|~&\"", c) >= 0,
			c == '.' && i >= 3 && strings.EqualFold(s[i-3:i], "www"):
			fmt.Fprintf(&b, "&#%d;", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// markdownCode is text in the typeface of code. A code span could not hold
// every text in a table cell, so it is an element with escaped content.
func markdownCode(s string) string {
	if s == "" {
		return ""
	}
	return "<code>" + markdownText(s) + "</code>"
}
