// Package report tells findings: as text for people, in few short lines for
// the person at the other end of a push, as JSON, JSON Lines, SARIF, JUnit or code
// quality for programs, as annotations and a job summary for GitHub, and as one page of
// HTML. A renderer knows a Report and nothing else; the exit code follows from
// the Report and never from the format.
//
// Whatever a Report holds may have been written by an attacker. Each format
// escapes it for its own medium, after finding.Clean has made it one line that
// neither acts on a terminal nor reorders text.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// Exit codes of every gate (docs/spec/policy.md#gates).
const (
	ExitClean     = 0 // everything could be read and nothing was found at the fail level
	ExitFindings  = 1 // at least one finding at or above the fail level
	ExitUndecided = 2 // usage, configuration, git failure, cut history, time-out
)

// A Report is what one gate has to say.
type Report struct {
	Gate      string            // the gate's name: "pre-receive", "check", …
	Findings  []finding.Finding // in the order of finding.Sort
	More      finding.Counts    // findings that were counted only
	Commits   int               // commits that were judged
	Envelopes int               // envelope blobs that were read and judged
	Refs      int               // ref updates that were judged
	Fail      finding.Severity  // lowest severity that fails; zero means Error
	Problem   error             // why no decision was possible; nil if one was
	Hint      string            // the command that repairs Problem, if one does
	Notes     []string          // for people: what was used, what was left out
	Threads   []Thread          // what the range brings to each thread, where a gate was asked for it
	Bundles   []Bundle          // what became of the policy's bundles, where a gate judges them
	Rules     []Rule            // what the rules say, for formats that explain them; may be nil
}

// A Rule is what a format tells of a rule beside its findings.
type Rule struct {
	ID      string
	Default finding.Severity
	Says    string // what holds where the rule is kept: a clause without capital and period, in Markdown
}

// ExitCode returns 2 if the gate could not decide, else 1 if a finding is at
// or above the fail level, else 0.
func (r *Report) ExitCode() int {
	if r.Problem != nil {
		return ExitUndecided
	}
	if max(finding.Worst(r.Findings), r.More.Worst()) >= r.failLevel() {
		return ExitFindings
	}
	return ExitClean
}

func (r *Report) failLevel() finding.Severity {
	if r.Fail == finding.Off {
		return finding.Error
	}
	return r.Fail
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
	n := r.More.Of(s)
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// notes are the report's, and how many findings are not told one by one.
func (r *Report) notes() []string {
	if r.More.Total() == 0 {
		return r.Notes
	}
	return append(slices.Clip(r.Notes), unlisted(r.More))
}

// unlisted says how many findings are not told one by one.
func unlisted(n finding.Counts) string {
	return fmt.Sprintf("%s and %s more were found than are listed", plural(n.Errors, "error"), plural(n.Warnings, "warning"))
}

// A format is one way to tell a report. A writer must tell the Problem with its
// hint, every finding (a finding may have no path, no line, no commit), that
// more were found than are listed, and the notes, where its medium has a place
// for them; nothing but finding.Clean text reaches it.
type format struct {
	name  string
	write func(io.Writer, *Report) error
}

// formats is the registry, in the order of the documentation.
var formats = [...]format{
	{"text", writeText},
	{"json", writeJSON},
	{"jsonl", writeJSONLines},
	{"sarif", writeSARIF},
	{"junit", writeJUnit},
	{"codequality", writeCodeQuality},
	{"github", writeGitHub},
	{"markdown", writeMarkdown},
	{"html", writeHTML},
}

// Formats lists the names that Write takes.
func Formats() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

// Draws reports whether a format shows Threads as graphs, so that a gate has to
// find them.
func Draws(format string) bool { return format == "markdown" || format == "html" }

// Write renders r in one of Formats. Text goes to people: findings, then what
// was checked. It returns an error for an unknown format or a failed write.
func Write(w io.Writer, r *Report, format string) error {
	for _, f := range formats {
		if f.name == format {
			return f.write(w, r)
		}
	}
	return unknownFormat(format)
}

func unknownFormat(format string) error {
	return fmt.Errorf("unknown format %s, expected one of %s", finding.QuoteMax(format, 40), strings.Join(Formats(), ", "))
}

// A Target is a report that goes into a file.
type Target struct {
	Format string // one of Formats
	File   string // path, as the user gave it
}

// ParseTarget reads a target as it is given on the command line:
// FORMAT=FILE. The error says what was expected.
func ParseTarget(s string) (Target, error) {
	name, file, ok := strings.Cut(s, "=")
	if !ok || file == "" {
		return Target{}, fmt.Errorf("%s names no report, expected FORMAT=FILE, such as html=report.html", finding.QuoteMax(s, 80))
	}
	for _, f := range formats {
		if f.name == name {
			return Target{name, file}, nil
		}
	}
	return Target{}, unknownFormat(name)
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
		return finding.Short(f.Commit)
	}
	return "-"
}

func writeText(w io.Writer, r *Report) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s: %s [%s]", place(f), f.Severity, finding.Clean(f.Message), f.Rule)
		if f.Commit != "" && (f.Path != "" || f.Ref != "") {
			fmt.Fprintf(&b, " (commit %s)", finding.Short(f.Commit))
		}
		b.WriteByte('\n')
		if f.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", finding.Clean(f.Hint))
		}
	}
	for _, n := range r.notes() {
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
