package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// maxAnnotations is how many annotations of one level GitHub shows of a step;
// it drops the rest without a word.
const maxAnnotations = 10

// writeGitHub writes workflow commands that become annotations: at most
// maxAnnotations of a level, worst first. Where that is not all, the last one
// of the level says how many more there are. It writes nothing else: the full
// list belongs into the log or the summary.
func writeGitHub(w io.Writer, r *Report) error {
	var b strings.Builder
	room := map[finding.Severity]int{finding.Error: maxAnnotations, finding.Warning: maxAnnotations}
	left := map[finding.Severity]int{finding.Error: r.count(finding.Error), finding.Warning: r.count(finding.Warning)}
	if r.Problem != nil {
		annotate(&b, finding.Error, []string{"title", r.Gate + ": cannot decide"}, withHint(r.Problem.Error(), r.Hint))
		room[finding.Error]--
	}
	for _, f := range worstFirst(r.Findings) {
		level := f.Severity
		if room[level] == 0 {
			continue
		}
		if room[level]--; room[level] == 0 && left[level] > 1 {
			annotate(&b, level, []string{"title", "rigward"}, plural(left[level], "more "+level.String())+" in the summary")
			continue
		}
		left[level]--
		var props []string
		if f.Path != "" {
			props = append(props, "file", f.Path)
			if f.Line > 0 {
				props = append(props, "line", fmt.Sprint(f.Line), "col", fmt.Sprint(max(f.Col, 1)))
			}
		}
		text := f.Message
		if f.Path == "" && f.Ref != "" {
			text = finding.Path(f.Ref) + ": " + text
		}
		if f.Commit != "" {
			text += " (commit " + finding.Short(f.Commit) + ")"
		}
		annotate(&b, level, append(props, "title", f.Rule), withHint(text, f.Hint))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// withHint joins a message and its hint into two lines of clean text.
func withHint(text, hint string) string {
	text = finding.Clean(text)
	if hint != "" {
		text += "\nhint: " + finding.Clean(hint)
	}
	return text
}

// annotate writes one workflow command: "::error file=…,line=…::message".
// props are names and values in turn.
func annotate(b *strings.Builder, level finding.Severity, props []string, message string) {
	b.WriteString("::" + level.String())
	for i := 0; i+1 < len(props); i += 2 {
		sep := ","
		if i == 0 {
			sep = " "
		}
		b.WriteString(sep + props[i] + "=" + commandProperty.Replace(finding.Clean(props[i+1])))
	}
	b.WriteString("::" + commandData.Replace(message) + "\n")
}

// What the runner unescapes in the data and in the properties of a workflow
// command (docs.github.com, "Workflow commands for GitHub Actions"; the
// runner's ActionCommand).
var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
