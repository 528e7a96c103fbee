package report

import (
	"io"

	"github.com/rigward/rigward/pkg/finding"
)

// A qualityIssue is one entry of a code quality report, with the keys that
// GitLab reads (docs.gitlab.com, code quality report format).
type qualityIssue struct {
	Description string          `json:"description"`
	Check       string          `json:"check_name"`
	Fingerprint string          `json:"fingerprint"`
	Severity    string          `json:"severity"`
	Location    qualityLocation `json:"location"`
}

type qualityLocation struct {
	Path  string       `json:"path"`
	Lines qualityLines `json:"lines"`
}

type qualityLines struct {
	Begin int `json:"begin"`
}

// writeCodeQuality writes GitLab's code quality JSON: the worst maxResults
// findings, errors as critical and warnings as minor, and one blocker if no
// decision was possible. GitLab shows which issues a merge request brings by
// their fingerprints, which depend neither on lines nor on commits. It leaves
// out an issue without a file, so what belongs to none names its ref or commit.
func writeCodeQuality(w io.Writer, r *Report) error {
	issues := []qualityIssue{}
	prints := fingerprints{}
	add := func(severity string, f finding.Finding) {
		path := f.Path
		switch {
		case path != "":
		case f.Ref != "":
			path = f.Ref
		case f.Commit != "":
			path = "commit/" + f.Commit
		default:
			path = "."
		}
		issues = append(issues, qualityIssue{
			Description: withHint(finding.Clean(f.Message), f.Hint), Check: f.Rule, Fingerprint: prints.next(f),
			Severity: severity, Location: qualityLocation{path, qualityLines{max(f.Line, 1)}},
		})
	}
	if r.Problem != nil {
		add("blocker", finding.Finding{Rule: "undecided", Message: "cannot decide: " + r.Problem.Error(), Hint: r.Hint})
	}
	left := r.More
	for i, f := range worstFirst(r.Findings) {
		if i >= maxResults {
			left.Add(f.Severity)
			continue
		}
		add(quality(f.Severity), f)
	}
	if left.Total() > 0 {
		add(quality(left.Worst()), finding.Finding{Rule: "unlisted", Message: unlisted(left)})
	}
	return encode(w, issues)
}

// quality is a severity in GitLab's words.
func quality(s finding.Severity) string {
	if s >= finding.Error {
		return "critical"
	}
	return "minor"
}
