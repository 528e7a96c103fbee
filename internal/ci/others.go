package ci

import (
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// bitbucket reads the variables of a step of Bitbucket Pipelines. They tell a
// pull request's destination, and of a push only the commit after it: a push to
// the default branch has its whole history judged, one to another what that
// branch has before the default one.
func bitbucket(e *event) {
	e.Head = e.id("BITBUCKET_COMMIT")
	e.ofUser()
	switch {
	case e.env("BITBUCKET_PR_ID") != "":
		e.onto("BITBUCKET_PR_DESTINATION_BRANCH")
		e.Since = e.text("BITBUCKET_PR_DESTINATION_COMMIT")
		if n := len(e.Since); n < 12 || strings.Trim(e.Since, "0123456789abcdef") != "" {
			e.fail("BITBUCKET_PR_DESTINATION_COMMIT is "+finding.QuoteMax(e.Since, 80)+", expected at least 12 digits of a commit id", "")
		}
	case e.env("BITBUCKET_TAG") != "":
		e.Kind, e.Ref = created, "refs/tags/"+e.name("refs/tags/", "BITBUCKET_TAG")
	default:
		e.Kind, e.Ref = whole, "refs/heads/"+e.name("refs/heads/", "BITBUCKET_BRANCH")
	}
}

// jenkins reads the variables of a multibranch build. What came since the last
// build that succeeded is judged, so that a commit that was refused is not
// forgotten by the next build. Of a pull request GIT_COMMIT is its head, where
// the branch source discovers "the current pull request revision".
func jenkins(e *event) {
	e.Head = e.id("GIT_COMMIT")
	if e.env("BRANCH_IS_PRIMARY") == "true" && e.branch == "" {
		e.branch = e.env("BRANCH_NAME")
	}
	e.ofUser()
	switch {
	case e.env("CHANGE_ID") != "":
		e.onto("CHANGE_TARGET")
	case e.env("TAG_NAME") != "":
		e.Kind, e.Ref = created, "refs/tags/"+e.name("refs/tags/", "TAG_NAME")
	default:
		e.Ref = "refs/heads/" + e.name("refs/heads/", "BRANCH_NAME")
		if e.Kind = whole; e.env("GIT_PREVIOUS_SUCCESSFUL_COMMIT") != "" {
			e.moved(e.id("GIT_PREVIOUS_SUCCESSFUL_COMMIT"))
		}
	}
}
