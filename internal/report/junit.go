package report

import (
	"encoding/xml"
	"io"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr,omitempty"`
	Line    int           `xml:"line,attr,omitempty"`
	Failure *junitOutcome `xml:"failure"`
	Error   *junitOutcome `xml:"error"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitOutcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes the report as one test suite: a failed case for each
// finding at or above the fail level, a passed case with its output for each
// one below it, an error if no decision was possible, and, in a clean report,
// one passed case that says what was checked.
func writeJUnit(w io.Writer, r *Report) error {
	s := junitSuite{Name: "rigward " + r.Gate}
	for _, f := range r.Findings {
		c := junitCase{Name: place(f), Class: f.Rule, File: finding.Clean(f.Path), Line: f.Line}
		text := withHint(f.Message, f.Hint)
		if f.Commit != "" {
			text += "\ncommit: " + finding.Clean(f.Commit)
		}
		if f.Ref != "" {
			text += "\nref: " + finding.Clean(f.Ref)
		}
		if f.Severity >= r.failLevel() {
			c.Failure = &junitOutcome{finding.Clean(f.Message), f.Severity.String(), text}
			s.Failures++
		} else {
			c.Output = f.Severity.String() + ": " + text
		}
		s.Cases = append(s.Cases, c)
	}
	if r.More.Total() > 0 {
		c := junitCase{Name: "findings that are not listed", Class: r.Gate}
		if r.More.Worst() >= r.failLevel() {
			c.Failure = &junitOutcome{unlisted(r.More), r.More.Worst().String(), unlisted(r.More)}
			s.Failures++
		} else {
			c.Output = unlisted(r.More)
		}
		s.Cases = append(s.Cases, c)
	}
	if r.Problem != nil {
		s.Errors++
		s.Cases = append(s.Cases, junitCase{Name: "decision", Class: r.Gate, Error: &junitOutcome{
			"cannot decide: " + finding.Clean(r.Problem.Error()), "undecided", withHint(r.Problem.Error(), r.Hint)}})
	}
	if len(s.Cases) == 0 {
		s.Cases = append(s.Cases, junitCase{Name: r.summary(), Class: r.Gate})
	}
	s.Tests = len(s.Cases)
	data, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{s}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, strings.Join([]string{xml.Header, string(data), "\n"}, ""))
	return err
}
