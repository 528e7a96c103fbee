package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
)

// serverColumns is the most columns of a line that a server hook prints, its
// prefix included: git puts "remote: " before it, and a terminal has 80. A hint
// goes beyond it, up to hintColumns: what it holds is pasted, and a command
// that is broken over two lines is another one.
const (
	serverColumns = 71
	hintColumns   = 400
)

// WriteServer renders r for the person who pushed: the verdict in the first
// line, at most maxLines lines, no colour, worst findings first. prefix
// stands before every line; GitLab shows only those with "GL-HOOK-ERR: ".
// A push that passes without a finding and without a note prints nothing.
func WriteServer(w io.Writer, r *Report, maxLines int, prefix string) error {
	if r.Problem == nil && len(r.Findings)+len(r.Notes)+r.More.Total() == 0 {
		return nil
	}
	if maxLines < 3 {
		maxLines = 3
	}
	columns := serverColumns - utf8.RuneCountInString(prefix)
	lines := wrap("rigward: "+r.headline(), "", columns)
	if r.Problem != nil {
		lines = append(lines, wrap(finding.Clean(r.Problem.Error()), "  ", columns)...)
		if r.Hint != "" {
			lines = append(lines, hintLines(r.Hint)...)
		}
	}
	for _, n := range r.Notes {
		lines = append(lines, wrap("note: "+finding.Clean(n), "  ", columns)...)
	}
	shown := 0
	for _, f := range worstFirst(r.Findings) {
		block := findingLines(f, columns)
		room := maxLines - len(lines) - 1 // one for the line that counts the rest
		if shown > 0 && len(block) > room || room < 1 {
			break
		}
		lines = append(lines, block[:min(len(block), room)]...)
		shown++
	}
	if rest := len(r.Findings) + r.More.Total() - shown; rest > 0 {
		lines = append(lines[:min(len(lines), maxLines-1)], fmt.Sprintf("%s more; `rig-hook check` lists all", plural(rest, "finding")))
	}
	var b strings.Builder
	for _, l := range lines[:min(len(lines), maxLines)] {
		b.WriteString(prefix)
		b.WriteString(strings.TrimRight(l, " "))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// headline is the verdict in one short line.
func (r *Report) headline() string {
	if r.Problem != nil {
		return "push refused: cannot decide"
	}
	s := plural(r.count(finding.Error), "error")
	if n := r.count(finding.Warning); n > 0 {
		s += ", " + plural(n, "warning")
	}
	if r.ExitCode() == ExitFindings {
		return "push refused: " + s
	}
	return "push accepted: " + s
}

func findingLines(f finding.Finding, columns int) []string {
	lines := wrap(fmt.Sprintf("%s: %s [%s]", place(f), f.Severity, f.Rule), "", columns)
	msg := finding.Clean(f.Message)
	if f.Commit != "" {
		msg += " (commit " + finding.Short(f.Commit) + ")"
	}
	lines = append(lines, wrap(msg, "  ", columns)...)
	if f.Hint != "" {
		lines = append(lines, hintLines(f.Hint)...)
	}
	return lines
}

// hintLines is a hint in one line, if it has not more than hintColumns.
func hintLines(hint string) []string { return wrap("hint: "+finding.Clean(hint), "  ", hintColumns) }

// wrap breaks text at blanks into lines of at most that many columns, each
// after indent; a longer word is cut hard.
func wrap(text, indent string, columns int) []string {
	width := max(columns-max(len(indent), 2), 20)
	var lines []string
	line, n := "", 0
	flush := func() {
		if len(lines) == 0 || indent != "" {
			line = indent + line
		} else {
			line = "  " + line // so that no text begins a line of ours
		}
		lines = append(lines, line)
		line, n = "", 0
	}
	for word := range strings.FieldsSeq(text) {
		wn := utf8.RuneCountInString(word)
		if n > 0 && n+1+wn > width {
			flush()
		}
		for wn > width {
			cut := 0
			for range width {
				_, size := utf8.DecodeRuneInString(word[cut:])
				cut += size
			}
			line = word[:cut]
			flush()
			word = word[cut:]
			wn -= width
		}
		if n > 0 {
			line += " "
			n++
		}
		line += word
		n += wn
	}
	if n > 0 || len(lines) == 0 {
		flush()
	}
	return lines
}
