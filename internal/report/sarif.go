package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// maxResults is how many results of a run GitHub shows; it refuses a file of
// more than 25,000.
const maxResults = 5000

const (
	sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	homepage    = "https://github.com/rigward/rigward"
)

type (
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Bases       sarifBases        `json:"originalUriBaseIds"`
		ColumnKind  string            `json:"columnKind"`
		Results     []sarifResult     `json:"results"`
	}
	sarifBases struct {
		Root struct {
			Description sarifText `json:"description"`
		} `json:"%SRCROOT%"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string      `json:"id"`
		Short   sarifText   `json:"shortDescription"`
		Full    sarifText   `json:"fullDescription"`
		Help    sarifText   `json:"help"`
		HelpURI string      `json:"helpUri"`
		Default sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level string `json:"level"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		ExitCode      int                 `json:"exitCode"`
		ExitReason    string              `json:"exitCodeDescription"`
		Notifications []sarifNotification `json:"toolExecutionNotifications"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Properties   map[string]string `json:"properties,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI    string `json:"uri"`
		BaseID string `json:"uriBaseId"`
	}
	sarifRegion struct {
		Line int `json:"startLine"`
		Col  int `json:"startColumn"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

// writeSARIF writes one run of SARIF 2.1.0 (OASIS, errata 01): the worst
// maxResults findings, and a notification that counts the rest.
func writeSARIF(w io.Writer, r *Report) error {
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: "rigward", InformationURI: homepage, Rules: []sarifRule{}}},
		ColumnKind: "unicodeCodePoints",
		Results:    []sarifResult{},
	}
	run.Bases.Root.Description.Text = "The root of the repository's work tree."
	inv := sarifInvocation{Successful: r.Problem == nil, ExitCode: r.ExitCode(), ExitReason: r.result(), Notifications: []sarifNotification{}}
	notify := func(level, text string) {
		inv.Notifications = append(inv.Notifications, sarifNotification{level, message(text)})
	}
	if r.Problem != nil {
		notify("error", withHint("cannot decide: "+r.Problem.Error(), r.Hint))
	}
	for _, n := range r.notes() {
		notify("note", finding.Clean(n))
	}
	index := map[string]int{}
	prints := fingerprints{}
	for i, f := range worstFirst(r.Findings) {
		if i == maxResults {
			notify("warning", fmt.Sprintf("%d of %d findings are left out, the least severe", len(r.Findings)+r.More.Total()-maxResults, len(r.Findings)+r.More.Total()))
			break
		}
		n, known := index[f.Rule]
		if !known {
			n = len(run.Tool.Driver.Rules)
			index[f.Rule] = n
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, r.sarifRule(f))
		}
		res := sarifResult{
			RuleID: f.Rule, RuleIndex: n, Level: f.Severity.String(),
			Message:   message(withHint(f.Message, f.Hint)),
			Locations: []sarifLocation{location(f)},
		}
		res.Fingerprints = map[string]string{"rigward/v1": prints.next(f)}
		if f.Commit != "" {
			res.Properties = map[string]string{"commit": f.Commit}
		}
		run.Results = append(run.Results, res)
	}
	run.Invocations = []sarifInvocation{inv}
	return encode(w, sarifLog{sarifSchema, "2.1.0", []sarifRun{run}})
}

func (r *Report) sarifRule(f finding.Finding) sarifRule {
	rule := Rule{ID: f.Rule, Default: f.Severity, Says: "the rule " + f.Rule + " holds"}
	for _, known := range r.Rules {
		if known.ID == f.Rule {
			rule = known
		}
	}
	level := rule.Default.String()
	if rule.Default == finding.Off {
		level = "none"
	}
	says := sentence(rule.Says)
	return sarifRule{
		ID: rule.ID, Short: sarifText{says}, Full: sarifText{says},
		Help:    sarifText{says + " What breaks it and how to repair it: rig-hook explain " + rule.ID},
		HelpURI: ruleURI(rule.ID),
		Default: sarifConfig{level},
	}
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// message escapes what SARIF gives a meaning in a plain text message:
// placeholders (SARIF section 3.11.5) and embedded links (3.11.6).
func message(text string) sarifText { return sarifText{sarifEscaper.Replace(text)} }

var sarifEscaper = strings.NewReplacer("{", "{{", "}", "}}", "](", "] (")

// location says where a finding is. GitHub refuses a file in which a result
// has no physical location, so a finding of a ref or a commit names that in
// place of a file.
func location(f finding.Finding) sarifLocation {
	loc := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{BaseID: "%SRCROOT%"}}}
	switch {
	case f.Path != "":
		loc.Physical.Artifact.URI = relativeURI(f.Path)
		if f.Line > 0 {
			loc.Physical.Region = &sarifRegion{f.Line, max(f.Col, 1)}
		}
	case f.Ref != "":
		loc.Physical.Artifact.URI = relativeURI(f.Ref)
	case f.Commit != "":
		loc.Physical.Artifact.URI = "commit/" + relativeURI(f.Commit)
	default:
		loc.Physical.Artifact.URI = "."
	}
	if f.Ref != "" {
		loc.Logical = append(loc.Logical, sarifLogical{finding.Clean(f.Ref), "ref"})
	}
	if f.Commit != "" {
		loc.Logical = append(loc.Logical, sarifLogical{finding.Clean(f.Commit), "commit"})
	}
	return loc
}

// relativeURI returns the path as a relative reference (RFC 3986 section 4.2):
// each byte that is neither unreserved nor a slash is percent-encoded.
func relativeURI(path string) string {
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~':
			b.WriteByte(c)
		case c == '/' && i > 0 && path[i-1] != '/':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// fingerprint identifies a finding from one run to the next: by what it says
// of what, and neither by its line nor by a commit, which a rebase renames.
func fingerprint(f finding.Finding) string {
	where := f.Path
	if where == "" {
		where = f.Ref
	}
	sum := sha256.Sum256([]byte(f.Rule + "\x00" + where + "\x00" + f.Message))
	return hex.EncodeToString(sum[:16])
}

// fingerprints makes the fingerprints of one report differ: it counts how often
// each came.
type fingerprints map[string]int

func (seen fingerprints) next(f finding.Finding) string {
	print := fingerprint(f)
	seen[print]++
	return print + ":" + strconv.Itoa(seen[print])
}
