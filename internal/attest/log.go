package attest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// Ref is where a server keeps its chain (docs/spec/attestation.md#where).
const Ref = "refs/rigward/attestations"

// Names in the tree of each of its commits: what the commit adds.
const (
	statementsFile = "statements.intoto.jsonl"
	checkpointFile = "checkpoint"
)

const (
	maxFile  = 32 << 20 // bytes of one commit's statements
	fileTime = time.Minute
)

// A Source has chains by the ids of their last commits.
type Source interface {
	// Follows reports whether one chain is the beginning of another, by their
	// commits alone; false where the first one is not there.
	Follows(ctx context.Context, old, tip string) (bool, error)
	// Lines gives the statements of the commits that tip has and since, "" for
	// none, has not, oldest first.
	Lines(ctx context.Context, tip, since string, each func(commit string, parents int, lines [][]byte) error) error
}

// Git is the Source that a repository is.
func Git(repo *gitrepo.Repo) Source { return gitSource{repo} }

type gitSource struct{ repo *gitrepo.Repo }

// Follows implements Source.
func (g gitSource) Follows(ctx context.Context, old, tip string) (bool, error) {
	types, err := g.repo.Has([]string{old})
	if err != nil || types[0] != "commit" {
		return false, err
	}
	return g.repo.IsAncestor(ctx, old, tip)
}

// Lines implements Source.
func (g gitSource) Lines(ctx context.Context, tip, since string, each func(commit string, parents int, lines [][]byte) error) error {
	return read(ctx, g.repo, tip, since, each)
}

// read gives the lines of the commits that tip has and since, "" for none, has
// not, oldest first.
func read(ctx context.Context, repo *gitrepo.Repo, tip, since string, each func(commit string, parents int, lines [][]byte) error) error {
	var exclude []string
	if since != "" {
		exclude = []string{since}
	}
	for rev, err := range repo.RevList(ctx, []string{tip}, exclude, gitrepo.RevListOptions{Reverse: true}) {
		if err != nil {
			return err
		}
		data, err := fileOf(repo, rev.ID, statementsFile)
		if err != nil {
			return err
		}
		var lines [][]byte
		for line := range bytes.Lines(data) {
			lines = append(lines, bytes.TrimSuffix(line, []byte("\n")))
		}
		if err := each(rev.ID, len(rev.Parents), lines); err != nil {
			return err
		}
	}
	return nil
}

// fileOf reads a file of a commit of a chain; one without it has nothing in it.
func fileOf(repo *gitrepo.Repo, commit, name string) ([]byte, error) {
	c, err := repo.Commit(commit)
	if err != nil {
		return nil, err
	}
	id, err := policy.FileIn(repo, c.Tree, name)
	if err != nil || id == "" {
		return nil, err
	}
	return repo.Blob(id, maxFile)
}

// Verify reads a chain, or what of it follows c, up to a commit, and returns what
// is wrong with it. seen, if not nil, gets every statement.
func (c *Chain) Verify(ctx context.Context, src Source, tip string, keys Keys, seen func(*Signed)) (found []Problem, err error) {
	err = src.Lines(ctx, tip, c.Tip, func(commit string, parents int, lines [][]byte) error {
		if parents > 1 || parents == 0 && c.Size > 0 {
			found = append(found, Problem{Sequence: c.Size, Message: "commit " + short(commit) + " of the chain joins two chains"})
		}
		if len(lines) == 0 {
			found = append(found, Problem{Sequence: c.Size, Message: "commit " + short(commit) + " of the chain has no statement"})
		}
		for _, line := range lines {
			s, bad := c.Add(line, keys)
			found = append(found, bad...)
			if s != nil && seen != nil {
				seen(s)
			}
		}
		return nil
	})
	c.Tip = tip
	return found, err
}

// write adds statements to the chain, with one process of git, that moves the ref
// only from the commit that it is at.
func write(ctx context.Context, repo *gitrepo.Repo, tip string, lines [][]byte, checkpoint []byte, message string, now time.Time) (string, error) {
	var b bytes.Buffer
	data := func(text []byte) { fmt.Fprintf(&b, "data %d\n%s\n", len(text), text) }
	fmt.Fprintf(&b, "commit %s\nmark :1\ncommitter rig-hook <rig-hook@invalid> %d +0000\n", Ref, now.Unix())
	data([]byte(message))
	if tip != "" {
		fmt.Fprintf(&b, "from %s\n", tip)
	}
	fmt.Fprintf(&b, "deleteall\nM 100644 inline %s\n", statementsFile)
	data(append(bytes.Join(lines, []byte("\n")), '\n'))
	if len(checkpoint) > 0 {
		fmt.Fprintf(&b, "M 100644 inline %s\n", checkpointFile)
		data(checkpoint)
	}
	b.WriteString("get-mark :1\ndone\n")
	run := gitrepo.Runner{Env: repo.Env().Foreign(repo.GitDir())}
	res, err := run.Run(ctx, gitrepo.Command{Args: []string{"-c", "core.logAllRefUpdates=false", "fast-import", "--quiet", "--done"}, Stdin: b.Bytes(), Timeout: fileTime})
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(res.Stdout))
	if res.Code != 0 || !repo.ValidID(id) {
		return "", errors.New("git fast-import failed: " + finding.QuoteMax(strings.TrimSpace(string(res.Stderr)), 200))
	}
	return id, nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
