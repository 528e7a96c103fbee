// Package ci turns what a CI system says of the event that it runs for into the
// commits that are to be judged, and lets them be judged: by policy and signers
// of the branch that they are proposed or pushed to, never by their own.
package ci

import (
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// A Span is what an event asks to be judged: ids and names as the CI system has
// them, nothing of it looked up yet.
type Span struct {
	Base   string // commit; "" if there is none before Head
	Head   string // commit, or a tag of one
	Ref    string // full name of the ref that moved or will; "" if none does
	Branch string // the default branch's name, whose policy counts, and to which a new ref is compared
	Since  string // commit that Base must have in its history, so that it is not an old state of its branch; "" if any will do
	Note   string // what a reader of the verdict has to know
	Kind   kind

	Foreign bool // the checkout's remote is not that of Ref, so its branches say nothing of it
}

// head is the full name of the default branch, "" if the event names none.
func (s Span) head() string {
	if s.Branch == "" {
		return ""
	}
	return "refs/heads/" + s.Branch
}

// kind is how a Span relates to its ref.
type kind int

const (
	proposal kind = iota // Base..Head may become part of Ref: a pull request, a merge group
	moved                // Ref went from Base to Head
	created              // Ref is new at Head
	deleted              // Ref was at Base and is gone
	whole                // the whole history of Head
)

// A System is a CI system whose events are known.
type System struct {
	Name  string // as `rig-hook check --ci` has it
	Whole string // what makes its checkout hold the whole history, a hint

	read func(e *event)
}

// systems are all that are known. Gitea, Forgejo and act speak as GitHub does.
var systems = [...]System{
	{"github", "set fetch-depth: 0 for actions/checkout", gitHub},
	{"gitlab", `set GIT_DEPTH: "0" in the job's variables`, gitLab},
	{"bitbucket", "set clone: {depth: full} in the step", bitbucket},
	{"jenkins", "let the checkout fetch all branches, without shallow clone", jenkins},
}

// Names lists what Find takes.
func Names() (names []string) {
	for _, s := range systems {
		names = append(names, s.Name)
	}
	return names
}

// Find returns the system of a name.
func Find(name string) (System, error) {
	for _, s := range systems {
		if s.Name == name {
			return s, nil
		}
	}
	u := &policy.Undecided{Message: "no CI system is known as " + finding.QuoteMax(name, 40) + ", expected one of " + strings.Join(Names(), ", ")}
	if name == "gitea" || name == "forgejo" {
		u.Hint = "its runners set the variables of GitHub's: --ci github"
	}
	return System{}, u
}

// Span reads the event out of the variables of the process. branch is the
// default branch, for systems that do not say which it is; "" elsewhere. An
// event that is not known, and one without what its kind must have, is an error:
// there is nothing to pass.
func (s System) Span(env func(string) string, branch string) (Span, error) {
	e := &event{env: env, branch: branch, system: s.Name}
	s.read(e)
	return e.Span, e.err
}

// An event is being read: it takes values out of variables and keeps the first
// complaint.
type event struct {
	Span
	env    func(string) string
	branch string // as the user has it
	system string
	err    error
}

func (e *event) fail(message, hint string) {
	if e.err == nil {
		e.err = &policy.Undecided{Message: message, Hint: hint}
	}
}

// text is the value of a variable that the event must have.
func (e *event) text(name string) string {
	v := e.env(name)
	if v == "" {
		e.fail(name+" is not set", "run it in a job of "+e.system+"; elsewhere: rig-hook check BASE..HEAD")
	}
	return v
}

// id is the commit id that a variable holds.
func (e *event) id(name string) string {
	v := e.text(name)
	if v != "" && !isID(v) {
		e.fail(name+" is "+finding.QuoteMax(v, 80)+", expected a commit id", "")
		return ""
	}
	return v
}

// name is the name of a branch or a tag that a variable holds; prefix makes a
// ref of it.
func (e *event) name(prefix, variable string) string {
	v := e.text(variable)
	if v != "" && gitrepo.CheckRefName(prefix+v) != nil {
		e.fail(variable+" is "+finding.QuoteMax(v, 80)+", expected the name of a branch or a tag", "")
		return ""
	}
	return v
}

// moved is a ref that went from the commit before to Head, where the system
// knows it.
func (e *event) moved(before string) {
	if e.Kind, e.Base = moved, before; before == "" || zero(before) {
		e.Kind, e.Base = created, ""
	}
}

// onto makes the event a proposal to a branch, as the checkout has that from its
// remote.
func (e *event) onto(variable string) {
	target := e.name("refs/heads/", variable)
	e.Kind, e.Ref, e.Base = proposal, "refs/heads/"+target, "refs/remotes/origin/"+target
}

// ofUser takes the default branch that the user named.
func (e *event) ofUser() {
	if e.Branch = e.branch; e.Branch == "" {
		e.fail("the variables of "+e.system+" do not say which branch is the default one", "rig-hook check --ci "+e.system+" --branch main")
	} else if gitrepo.CheckRefName(e.head()) != nil {
		e.fail("--branch is "+finding.QuoteMax(e.branch, 80)+", expected the name of a branch", "")
	}
}

func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

func zero(id string) bool { return id != "" && strings.Trim(id, "0") == "" }
