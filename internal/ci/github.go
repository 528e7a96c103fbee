package ci

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// gitHub reads the event of a workflow: its name and the payload that
// GITHUB_EVENT_PATH names.
func gitHub(e *event) {
	payload := map[string]any{}
	if name := e.env("GITHUB_EVENT_PATH"); name != "" {
		data, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &payload)
		}
		if err != nil {
			e.err = &policy.Undecided{Message: "the event's payload cannot be read", Hint: "GITHUB_EVENT_PATH must name the JSON file of the event", Cause: err}
			return
		}
	}
	e.Span, e.err = spanOf(e.env("GITHUB_EVENT_NAME"), e.env("GITHUB_SHA"), e.env("GITHUB_REF"), payload)
	if e.branch != "" && e.branch != e.Branch {
		e.fail("--branch is "+finding.QuoteMax(e.branch, 80)+", and the payload's repository.default_branch is "+finding.QuoteMax(e.Branch, 80), "leave --branch out")
	}
}

// spanOf is the table of events: what each of GitHub's events asks to be
// judged. event is the value of GITHUB_EVENT_NAME, sha and ref those of
// GITHUB_SHA and GITHUB_REF, payload the parsed file at GITHUB_EVENT_PATH. An
// event that is not in the table, and a payload without what its event must
// have, is an error.
//
// The payload's list of commits is never used: it is capped at 20. Nor is the
// merge commit that GitHub makes of a pull request: nobody wrote it.
func spanOf(event, sha, ref string, payload map[string]any) (Span, error) {
	p := reader{event: event, payload: payload}
	s := Span{Branch: p.optional("repository", "default_branch")}
	switch event {
	case "pull_request", "pull_request_target":
		s.Base, s.Head = p.id("pull_request", "base", "sha"), p.id("pull_request", "head", "sha")
		s.Ref = "refs/heads/" + p.text("pull_request", "base", "ref")
	case "merge_group":
		// With a queue, the group before this one is the base, not the branch.
		s.Base, s.Head = p.id("merge_group", "base_sha"), p.id("merge_group", "head_sha")
		s.Ref = p.text("merge_group", "base_ref")
	case "push":
		s.Base, s.Head, s.Ref = p.id("before"), p.id("after"), p.text("ref")
		switch {
		case zero(s.Base) && zero(s.Head):
			p.fail("has neither a commit before nor one after")
		case zero(s.Head):
			s.Kind, s.Head = deleted, ""
		case zero(s.Base):
			s.Kind, s.Base, s.Branch = created, "", p.text("repository", "default_branch")
		default:
			s.Kind = moved
		}
	case "release":
		p.text("release", "tag_name")
		s.Kind, s.Head = whole, sha
	case "schedule", "workflow_dispatch":
		s.Kind, s.Head, s.Ref = whole, sha, ref
	case "":
		return Span{}, &policy.Undecided{Message: "GITHUB_EVENT_NAME is not set, so there is no event to judge", Hint: "outside a workflow: rig-hook check BASE..HEAD"}
	default:
		return Span{}, &policy.Undecided{
			Message: "the event " + finding.QuoteMax(event, 40) + " does not say which commits are to be judged, expected one of " + strings.Join(events(), ", "),
			Hint:    "set the inputs base and head, or take this event from the workflow's `on:`",
		}
	}
	if s.Kind == whole && !isID(s.Head) {
		p.fail("comes without a commit in GITHUB_SHA")
	}
	// Of a ref by another name nobody says whether it is guarded.
	if event != "release" && gitrepo.CheckRefName(s.Ref) != nil {
		p.fail("has " + finding.QuoteMax(s.Ref, 80) + " as its ref, expected a full name such as refs/heads/main")
	}
	return s, p.err
}

// Events lists the events that spanOf knows.
func events() []string {
	return []string{"push", "pull_request", "pull_request_target", "merge_group", "workflow_dispatch", "schedule", "release"}
}

// A reader takes values out of a payload and keeps the first complaint.
type reader struct {
	event   string
	payload map[string]any
	err     error
}

func (p *reader) fail(what string) {
	if p.err == nil {
		p.err = &policy.Undecided{Message: "the payload of the event " + p.event + " " + what, Hint: "run the action on an event of GitHub's, not on one made by hand"}
	}
}

func (p *reader) optional(path ...string) string {
	var v any = p.payload
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	text, _ := v.(string)
	return text
}

func (p *reader) text(path ...string) string {
	text := p.optional(path...)
	if text == "" {
		p.fail("has no " + strings.Join(path, "."))
	}
	return text
}

func (p *reader) id(path ...string) string {
	text := p.text(path...)
	if text != "" && !isID(text) {
		p.fail("has " + finding.QuoteMax(text, 80) + " as " + strings.Join(path, ".") + ", expected a commit id")
		return ""
	}
	return text
}
