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
// with intent only (git add -N) are left out. Unmerged paths are an error.
func (r *Repo) Staged(ctx context.Context) ([]Change, error) {
	_, id, err := r.HEAD()
	if err != nil {
		return nil, err
	}
	if id == "" {
		id = r.EmptyTree()
	}
	return r.StagedAgainst(ctx, id)
}

// StagedAgainst is Staged against any commit or tree.
func (r *Repo) StagedAgainst(ctx context.Context, base ID) ([]Change, error) {
	if err := r.checkID(base); err != nil {
		return nil, err
	}
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

// An IndexEntry is one entry of the index.
type IndexEntry struct {
	Path  string // raw bytes
	Mode  Mode
	ID    ID
	Stage int // 0; 1 to 3 while a merge is not resolved
}

// Index returns all entries of the index, in its order; the same index as
// Staged reads. Entries added with intent only are among them, with the id of
// the empty blob.
func (r *Repo) Index(ctx context.Context) ([]IndexEntry, error) {
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
	var entries []IndexEntry
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
		if err != nil || stage < 0 || stage > 3 {
			return nil, unknown
		}
		entries = append(entries, IndexEntry{Path: path, Mode: Mode(mode), ID: fields[1], Stage: stage})
	}
	return entries, nil
}
