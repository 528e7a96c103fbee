package main

import (
	"fmt"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

// How many findings, and how many notes, are told on standard error; JSON has
// more. Verdicts of a Rye bundle list its files.
const (
	shown    = 20
	shownRye = 100
)

// tell prints a result: in JSON one object, in text the given lines or the
// verdict, and what else there is to say on standard error. It returns the
// exit status.
func (c *call) tell(r *bundle.Result, text func()) (int, error) {
	if r.Recovered {
		c.say("an interrupted run was undone first")
	}
	status := c.print1(r, text)
	first := 1 // the first finding is in the verdict
	if c.verb.format == "rye" || c.verb.name == "diff" && text != nil {
		first = 0
	}
	c.sayFindings(r.Findings, first, r.More.Findings)
	c.sayNotes(r)
	return status, nil
}

// print1 prints a result on standard output only.
func (c *call) print1(r *bundle.Result, text func()) int {
	c.release()
	r.Finish()
	for _, f := range r.Findings {
		if f.Code == rye.UntrustedKey && strings.HasPrefix(f.Hint, "--") { // a flag for the command as it was given
			f.Hint = c.again() + " " + f.Hint
		}
		if f.Key != "" {
			f.Hint += "; if it belongs there: " + c.again() + " --allow " + f.Key
		}
	}
	switch {
	case c.Has("--json"):
		r.File = bundle.EscapeLine(r.File)
		if r.Whole != nil {
			c.object(r.Whole)
		} else {
			c.object(r)
		}
	case text != nil:
		text()
	default:
		c.verdict(r)
	}
	if !r.OK() {
		return exitFindings
	}
	return exitOK
}

// verdict prints whether a bundle was accepted, and for agent bundles what
// its digests are.
func (c *call) verdict(r *bundle.Result) {
	if r.OK() {
		c.print("ok %s", finding.Path(r.File))
	} else {
		c.print("%s", rejected(r, r.File))
	}
	if c.verb.format != "agent" {
		return
	}
	if r.FileDigest != (bundle.Digest{}) {
		c.print("  file digest %s", r.FileDigest)
	}
	if r.TarDigest != (bundle.Digest{}) {
		c.print("  tar digest  %s", r.TarDigest)
	}
}

// again is the command as it was given, for a shell.
func (c *call) again() string {
	s := "rig-bundle"
	for _, a := range c.Args {
		s += " " + finding.Word(a)
	}
	return s
}

func rejected(r *bundle.Result, name string) string {
	where := ""
	if len(r.Findings) > 0 {
		where = place(r.Findings[0])
	}
	return fmt.Sprintf("%s %s: %s%s", r.Code, finding.Path(name), where, r.Message)
}

// place is the line and column of a finding in its document.
func place(f *bundle.Finding) string {
	switch {
	case f.Line > 0 && f.Column > 0:
		return fmt.Sprintf("%s:%d:%d: ", finding.Path(f.Path), f.Line, f.Column)
	case f.Line > 0:
		return fmt.Sprintf("%s:%d: ", finding.Path(f.Path), f.Line)
	}
	return ""
}

func (c *call) most() int {
	if c.verb.format == "rye" {
		return shownRye
	}
	return shown
}

// sayFindings tells the findings from the first one on, and the hints of all; more of
// them were left out before.
func (c *call) sayFindings(fs []*bundle.Finding, first, more int) {
	also := ""
	if first > 0 {
		also = "also "
	}
	for i, f := range fs {
		if i == c.most() {
			c.say("and %d more findings", len(fs)-i+more)
			break
		}
		if i >= first {
			where := place(f)
			if where == "" && f.Path != "" && c.verb.format == "rye" {
				where = finding.Path(f.Path) + ": "
			}
			c.say("%s%s: %s%s", also, f.Code, where, f.Message)
		}
		if f.Hint != "" {
			c.say("hint: %s", f.Hint)
		}
	}
}

func (c *call) sayNotes(r *bundle.Result) {
	for i, n := range r.Notes {
		if i == c.most() {
			c.say("and %d more notes", len(r.Notes)-i+r.More.Notes)
			break
		}
		switch {
		case n.Detail == "":
			c.say("note: %s: %s", n.Code, finding.Path(n.Path))
		case n.Line > 0:
			c.say("note: %s: %s%s", n.Code, place(&bundle.Finding{Path: n.Path, Line: n.Line, Column: n.Column}), n.Detail)
		case n.Path != "":
			c.say("note: %s: %s: %s", n.Code, finding.Path(n.Path), n.Detail)
		default:
			c.say("note: %s: %s", n.Code, n.Detail)
		}
	}
}

// line makes a value of a bundle one that can be shown and stays on its line.
func line(s string) string { return bundle.EscapeLine(strings.ReplaceAll(s, "\n", `\n`)) }
