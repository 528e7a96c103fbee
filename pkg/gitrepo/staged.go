package gitrepo

import (
	"context"
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// Staged returns what the index changes against HEAD, sorted by path; against
// the empty tree where the branch is unborn. The index is the one that
// GIT_INDEX_FILE names, as a hook gets it, and is only read. Entries added
// with intent only (git add -N) are left out. Unmerged paths are an error. index is
// what was read for it, nil where git was asked.
func (r *Repo) Staged(ctx context.Context) (changes []Change, index *Index, err error) {
	_, id, err := r.HEAD()
	if err != nil {
		return nil, nil, err
	}
	if id == "" {
		id = r.EmptyTree()
	}
	if changes, index, ok := r.plainStaged(id); ok {
		return changes, index, nil
	}
	changes, err = r.askStaged(ctx, id)
	return changes, nil, err
}

// askStaged asks git what the index changes against a commit or a tree.
func (r *Repo) askStaged(ctx context.Context, base ID) ([]Change, error) {
	stdout, stderr, code, err := r.env.output(ctx, r.git, "diff-index", "--cached", "--raw", "-z", "--no-abbrev",
		"--no-renames", "--no-relative", "--ignore-submodules=none", "--ita-invisible-in-index", base, "--")
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, failure(ctx, "git diff-index", stderr, nil)
	}
	return r.parseRaw(string(stdout))
}

// parseRaw parses `git diff-index --raw -z`:
// `:<mode> SP <mode> SP <id> SP <id> SP <status> NUL <path> NUL`.
func (r *Repo) parseRaw(raw string) ([]Change, error) {
	unknown := &Error{Kind: ErrDied, Message: "git diff-index gave an answer of unknown form"}
	var changes []Change
	for raw != "" {
		head, rest, ok := strings.Cut(raw, "\x00")
		path, after, ok2 := strings.Cut(rest, "\x00")
		fields := strings.Split(head, " ")
		if !ok || !ok2 || path == "" || len(fields) != 5 || !strings.HasPrefix(fields[0], ":") {
			return nil, unknown
		}
		oldMode, err := strconv.ParseUint(fields[0][1:], 8, 32)
		newMode, err2 := strconv.ParseUint(fields[1], 8, 32)
		if err != nil || err2 != nil || !r.ValidID(fields[2]) || !r.ValidID(fields[3]) {
			return nil, unknown
		}
		if fields[4] == "U" {
			return nil, &Error{Message: "path " + finding.Path(path) + " is unmerged", Hint: "git add -- " + finding.Word(path)}
		}
		c := Change{Path: path, OldMode: Mode(oldMode), NewMode: Mode(newMode)}
		if c.OldMode != ModeNone {
			c.OldID = fields[2]
		}
		if c.NewMode != ModeNone {
			c.NewID = fields[3]
		}
		changes, raw = append(changes, c), after
	}
	return changes, nil
}

// askIndex lists the index with git.
func (r *Repo) askIndex(ctx context.Context) (*Index, error) {
	// ":/" is magic for the top: ls-files would list the current directory.
	cmd, tail := r.env.process(ctx, r.git, "ls-files", "-s", "-z", "--full-name", "--", ":/")
	cmd.Env = append(cmd.Env, "GIT_LITERAL_PATHSPECS=0")
	stdout, stderr, code, err := outcome(ctx, cmd, tail, "git ls-files")
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, failure(ctx, "git ls-files", stderr, nil)
	}
	unknown := &Error{Kind: ErrDied, Message: "git ls-files gave an answer of unknown form"}
	x := &Index{hash: r.HashLen() / 2}
	for item := range strings.SplitSeq(strings.TrimSuffix(string(stdout), "\x00"), "\x00") {
		if item == "" {
			continue
		}
		head, path, ok := strings.Cut(item, "\t")
		fields := strings.Split(head, " ")
		if !ok || len(fields) != 3 || path == "" || !r.ValidID(fields[1]) || len(fields[2]) != 1 {
			return nil, unknown
		}
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		stage := int(fields[2][0] - '0')
		if err != nil || stage < 0 || stage > 3 || !x.add(Mode(mode), fields[1], stage, path) {
			return nil, unknown
		}
	}
	return x, nil
}
