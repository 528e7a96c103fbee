package rules_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// A program of one's own that judges what a branch has gained: by the policy and
// the signers of the commit before, as the hooks do.
func ExampleJudge_Range() {
	ctx := context.Background()
	dir, before, after, err := twoCommits()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	repo, err := gitrepo.Open(ctx, gitrepo.Env{Environ: os.Environ(), Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer repo.Close()
	loader := &policy.Loader{Repo: repo, ReadFile: os.ReadFile}
	demands, trust, err := loader.AtCommit(before)
	if err != nil {
		fmt.Println("cannot decide:", err, policy.HintOf(err))
		return
	}
	judge := &rules.Judge{Repo: repo, Gate: rules.PreReceive, Now: time.Date(2026, 1, 5, 9, 30, 0, 0, time.UTC)}
	err = judge.Range(ctx, rules.Range{
		Ref: "refs/heads/main", Old: before, New: after, Exclude: []string{before}, History: true,
		Policy: demands, Trust: trust,
	})
	if err != nil {
		fmt.Println("cannot decide:", err, policy.HintOf(err))
		return
	}
	finding.Sort(judge.Findings)
	for _, f := range judge.Findings {
		fmt.Printf("%s: %s: %s [%s]\n", finding.Path(f.Path), f.Severity, f.Message, f.Rule)
	}
	fmt.Println(judge.Commits, "commit,", judge.Envelopes, "envelopes")
	// Output:
	// thread/REQUEST.md: error: an accepted envelope is deleted [append-only]
	// 1 commit, 0 envelopes
}

// ExampleAll lists what can be judged, and where.
func ExampleAll() {
	for _, r := range rules.All() {
		if r.Off == policy.FromServer && r.Gates.String() == "all" {
			fmt.Printf("%s (%s): %s\n", r.ID, r.Default, r.Says)
		}
	}
	// Output:
	// append-only (error): an accepted envelope is never changed, moved, retyped or deleted; only its body is taken out, as the policy's expunge says
	// signers-change (error): policy and signers are changed only by a commit that the old signers accept
	// relay-suffix (error): attestation and a sender ending in -relay go together
	// relay-fields (error): a relay has all attestation fields and a type that may be relayed
	// relay-nonce (error): the nonce has its form and is unique in the history of the new tip
	// relay-reply (error): in_reply_to is the body hash of an earlier envelope of the thread
}

// twoCommits makes a repository of which the second commit deletes an envelope.
func twoCommits() (dir, before, after string, err error) {
	if dir, err = os.MkdirTemp("", "example-"); err != nil {
		return "", "", "", err
	}
	git := func(args ...string) (out string) {
		if err != nil {
			return ""
		}
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Op", "-c", "user.email=op@example.com",
			"-c", "commit.gpgsign=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-05T09:00:00Z", "GIT_COMMITTER_DATE=2026-01-05T09:00:00Z")
		var data []byte
		data, err = cmd.Output()
		return string(data[:max(0, len(data)-1)])
	}
	git("init", "-q")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "thread"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "thread", "REQUEST.md"), []byte("---\nfrom: rig-a\n---\nHello\n"), 0o644)
	}
	git("add", ".")
	git("commit", "-q", "-m", "Ask")
	before = git("rev-parse", "HEAD")
	git("rm", "-q", "thread/REQUEST.md")
	git("commit", "-q", "-m", "Take it back")
	return dir, before, git("rev-parse", "HEAD"), err
}
