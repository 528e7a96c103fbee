package ci

import (
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// gitLabWhole are the sources of pipelines that say nothing of what is new: the
// whole history of the branch is judged.
var gitLabWhole = []string{
	"schedule", "web", "api", "trigger", "pipeline", "parent_pipeline", "chat", "external",
	"ondemand_dast_scan", "ondemand_dast_validation", "security_orchestration_policy",
}

// gitLab reads the predefined variables of a pipeline of GitLab.
//
// In a pipeline of merged results, and in a merge train, CI_COMMIT_SHA is a
// merge that GitLab made. Of the former it is thrown away, so what the author
// has is judged; of the latter it becomes the target branch if all is well. Their
// variables name the target's commit: in a train that of the merge request
// before this one. In a plain pipeline of a merge request no variable does: it
// is the target branch as the checkout has it, which must not be older than the
// commit at which the merge request was compared to it.
func gitLab(e *event) {
	source := e.text("CI_PIPELINE_SOURCE")
	e.Branch = e.name("refs/heads/", "CI_DEFAULT_BRANCH")
	if e.branch != "" && e.branch != e.Branch {
		e.fail("--branch is "+finding.QuoteMax(e.branch, 80)+" and CI_DEFAULT_BRANCH is "+finding.QuoteMax(e.Branch, 80), "leave --branch out")
	}
	e.Head = e.id("CI_COMMIT_SHA")
	branch, tag := e.env("CI_COMMIT_BRANCH"), e.env("CI_COMMIT_TAG")
	switch {
	case tag != "":
		e.Ref = "refs/tags/" + e.name("refs/tags/", "CI_COMMIT_TAG")
	case branch != "":
		e.Ref = "refs/heads/" + e.name("refs/heads/", "CI_COMMIT_BRANCH")
	}
	switch {
	case e.env("CI_MERGE_REQUEST_IID") != "":
		e.mergeRequest()
	case source == "external_pull_request_event":
		e.onto("CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME")
		e.Base, e.Head = e.id("CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_SHA"), e.id("CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_SHA")
	case source == "push" || source == "webide":
		if e.Ref == "" {
			e.text("CI_COMMIT_BRANCH")
		}
		e.moved(e.id("CI_COMMIT_BEFORE_SHA"))
	case slices.Contains(gitLabWhole, source):
		e.Kind = whole
	default:
		e.fail("a pipeline whose CI_PIPELINE_SOURCE is "+finding.QuoteMax(source, 40)+" does not say which commits are to be judged, expected one of push, webide, merge_request_event, external_pull_request_event, "+strings.Join(gitLabWhole, ", "), "take it from the job's rules")
	}
}

func (e *event) mergeRequest() {
	e.onto("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
	switch {
	case e.env("CI_MERGE_REQUEST_EVENT_TYPE") == "merge_train":
		e.Base = e.id("CI_MERGE_REQUEST_TARGET_BRANCH_SHA")
	case e.env("CI_MERGE_REQUEST_TARGET_BRANCH_SHA") != "" && e.env("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") != "":
		e.Base, e.Head = e.id("CI_MERGE_REQUEST_TARGET_BRANCH_SHA"), e.id("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA")
	case e.text("CI_MERGE_REQUEST_PROJECT_ID") == e.text("CI_PROJECT_ID"):
		e.Since = e.id("CI_MERGE_REQUEST_DIFF_BASE_SHA")
	default:
		// The remote is the fork's, and says nothing of the target.
		e.Foreign = true
		e.Base, e.Branch = e.id("CI_MERGE_REQUEST_DIFF_BASE_SHA"), strings.TrimPrefix(e.Ref, "refs/heads/")
		e.Note = "this pipeline runs in the project of a fork, whose owner decides what it runs; the verdict that counts is that of a pipeline in the project " + finding.Path(e.env("CI_MERGE_REQUEST_PROJECT_PATH"))
	}
}
