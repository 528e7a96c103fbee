// Package report tells findings: as text for people, in few short lines for
// the person at the other end of a push, and as JSON or JSON Lines for
// programs. A renderer knows findings and nothing else; the exit code follows
// from the Report and never from the format.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// Exit codes of every gate (design: exit codes and streams).
const (
	ExitClean     = 0 // everything could be read and nothing was found at the fail level
	ExitFindings  = 1 // at least one finding at or above the fail level
	ExitUndecided = 2 // usage, configuration, git failure, cut history, time-out
)

// A Report is what one gate has to say.
type Report struct {
	Gate      string            // the gate's name: "pre-receive", "check", …
	Findings  []finding.Finding // in the order of finding.Sort
	Commits   int               // commits that were judged
	Envelopes int               // envelope blobs that were read and judged
	Refs      int               // ref updates that were judged
	Fail      finding.Severity  // lowest severity that fails; zero means Error
	Problem   error             // why no decision was possible; nil if one was
	Hint      string            // the command that repairs Problem, if one does
	Notes     []string          // for people: what was used, what was left out
	Threads   []Thread          // what the range brings to each thread, where a gate was asked for it
	Bundles   []Bundle          // what became of the policy's bundles, where a gate judges them
}

// ExitCode returns 2 if the gate could not decide, else 1 if a finding is at
// or above the fail level, else 0.
func (r *Report) ExitCode() int {
	if r.Problem != nil {
		return ExitUndecided
	}
	fail := r.Fail
	if fail == finding.Off {
		fail = finding.Error
	}
	if finding.Worst(r.Findings) >= fail {
		return ExitFindings
	}
	return ExitClean
}

// result is the one word for the exit code in machine formats.
func (r *Report) result() string {
	switch r.ExitCode() {
	case ExitUndecided:
		return "undecided"
	case ExitFindings:
		return "findings"
	}
	return "clean"
}

func (r *Report) count(s finding.Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Formats lists the names that Write takes.
func Formats() []string { return []string{"text", "json", "jsonl"} }

// Write renders r in one of Formats. Text goes to people: findings, then what
// was checked. It returns an error for an unknown format or a failed write.
func Write(w io.Writer, r *Report, format string) error {
	switch format {
	case "text":
		return writeText(w, r)
	case "json":
		return writeJSON(w, r)
	case "jsonl":
		return writeJSONLines(w, r)
	}
	return fmt.Errorf("unknown format %s, expected one of %s", finding.Quote(format), strings.Join(Formats(), ", "))
}

// place is "path:line:col" with what is known, or the ref, or the commit.
func place(f finding.Finding) string {
	switch {
	case f.Path != "" && f.Line > 0:
		return fmt.Sprintf("%s:%d:%d", finding.Path(f.Path), f.Line, max(f.Col, 1))
	case f.Path != "":
		return finding.Path(f.Path)
	case f.Ref != "":
		return finding.Path(f.Ref)
	case f.Commit != "":
		return short(f.Commit)
	}
	return "-"
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}

func writeText(w io.Writer, r *Report) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s: %s [%s]", place(f), f.Severity, finding.Clean(f.Message), f.Rule)
		if f.Commit != "" && (f.Path != "" || f.Ref != "") {
			fmt.Fprintf(&b, " (commit %s)", short(f.Commit))
		}
		b.WriteByte('\n')
		if f.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", finding.Clean(f.Hint))
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s: note: %s\n", r.Gate, finding.Clean(n))
	}
	if r.Problem != nil {
		fmt.Fprintf(&b, "%s: cannot decide: %s\n", r.Gate, finding.Clean(r.Problem.Error()))
		if r.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", finding.Clean(r.Hint))
		}
	}
	fmt.Fprintf(&b, "%s: %s\n", r.Gate, r.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// summary is the verdict with its counts: "clean: 3 commits, 4 envelopes
// checked" or "2 errors, 1 warning: …".
func (r *Report) summary() string {
	var what []string
	if n := r.count(finding.Error); n > 0 {
		what = append(what, plural(n, "error"))
	}
	if n := r.count(finding.Warning); n > 0 {
		what = append(what, plural(n, "warning"))
	}
	head := strings.Join(what, ", ")
	switch r.ExitCode() {
	case ExitUndecided:
		head = strings.TrimSuffix("undecided, "+head, ", ")
	case ExitFindings:
		head = "refused, " + head
	default:
		head = strings.TrimSuffix("clean, "+head, ", ")
	}
	return fmt.Sprintf("%s: %s, %s checked", head, plural(r.Commits, "commit"), plural(r.Envelopes, "envelope"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// worstFirst returns the findings by falling severity, each level in order.
func worstFirst(fs []finding.Finding) []finding.Finding {
	fs = slices.Clone(fs)
	slices.SortStableFunc(fs, func(a, b finding.Finding) int { return int(b.Severity) - int(a.Severity) })
	return fs
}
