package action

import (
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// An eventSpan is what an event of GitHub asks to be judged: ids and names as the
// payload has them, nothing of it looked up yet.
type eventSpan struct {
	Base   string // commit; "" if there is none before Head
	Head   string // commit, or a tag of one
	Ref    string // full name of the ref that moved or will; "" if none does
	Branch string // the default branch's name, whose policy counts, and to which a new ref is compared
	Kind   spanKind
}

// head is the full name of the default branch, "" if the payload names none.
func (s eventSpan) head() string {
	if s.Branch == "" {
		return ""
	}
	return "refs/heads/" + s.Branch
}

// spanKind is how an eventSpan relates to its ref.
type spanKind int

const (
	proposal spanKind = iota // Base..Head may become part of Ref: a pull request, a merge group
	moved                    // Ref went from Base to Head
	created                  // Ref is new at Head
	deleted                  // Ref was at Base and is gone
	whole                    // the whole history of Head
)

// spanOf is the table of events: what each of GitHub's events asks to be
// judged. event is the value of GITHUB_EVENT_NAME, sha and ref those of
// GITHUB_SHA and GITHUB_REF, payload the parsed file at GITHUB_EVENT_PATH. An
// event that is not in the table, and a payload without what its event must
// have, is an error: there is nothing to pass.
//
// The payload's list of commits is never used: it is capped at 20. Nor is the
// merge commit that GitHub makes of a pull request: nobody wrote it.
func spanOf(event, sha, ref string, payload map[string]any) (eventSpan, error) {
	p := reader{event: event, payload: payload}
	s := eventSpan{Branch: p.optional("repository", "default_branch")}
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
		return eventSpan{}, &policy.Undecided{Message: "GITHUB_EVENT_NAME is not set, so there is no event to judge", Hint: "outside a workflow: rig-hook check BASE..HEAD"}
	default:
		return eventSpan{}, &policy.Undecided{
			Message: "the event " + finding.QuoteMax(event, 40) + " does not say which commits are to be judged, expected one of " + strings.Join(events(), ", "),
			Hint:    "set the inputs base and head, or take this event from the workflow's `on:`",
		}
	}
	if s.Kind == whole && !isID(s.Head) {
		p.fail("comes without a commit in GITHUB_SHA")
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

func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

func zero(id string) bool { return id != "" && strings.Trim(id, "0") == "" }
