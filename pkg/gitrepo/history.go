package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rigward/rigward/internal/files"
)

// A Rev is one commit of a walk.
type Rev struct {
	ID      ID
	Parents []ID // all of them, as the commit names them
}

// RevListOptions says how RevList walks.
type RevListOptions struct {
	Reverse bool // parents before children; without it children come first
	Max     int  // at most so many commits; 0: no limit
	// Unordered gives them in the order in which git comes to them, which it
	// can begin before it has seen all.
	Unordered bool
	// FirstParent follows no other parents.
	FirstParent bool
}

const (
	cutMessage = "the history is cut: commits of the range, or their parents, are not present in this shallow or partial repository"
	cutHint    = "git fetch --unshallow (in a GitHub workflow: fetch-depth: 0)"
)

// RevList yields the commits that are reachable from include but not from
// exclude, in topological order. The sequence ends with the first error; a
// walk that failed is never an empty or short one. Annotated tags count as
// what they tag; what is not a commit in the end adds none.
//
// The shallow file is not obeyed: where a commit that belongs to the walk is
// not present, the error is ErrCut. A commit of the excluded side that is not
// present does not stop git, and makes old commits look new; see CutIn.
func (r *Repo) RevList(ctx context.Context, include, exclude []ID, opt RevListOptions) iter.Seq2[Rev, error] {
	return func(yield func(Rev, error) bool) {
		begun := false
		if revs, ok := r.shortLine(ctx, include, exclude, opt); ok {
			for _, rev := range revs {
				if !yield(rev, nil) {
					return
				}
			}
			return
		}
		for rev, err := range r.revList(ctx, include, exclude, opt, nil) {
			if err != nil && !begun && len(exclude) > 0 && errors.Is(err, ErrCut) {
				// Dates say which side git reads first, and so whether it meets
				// what is not present. Where it stops at the shallow commits it
				// does not, and without one of them the range is whole.
				shallow, e := r.Shallow()
				if e == nil {
					for rev, err := range r.revList(ctx, include, exclude, opt, shallow) {
						if !yield(rev, err) || err != nil {
							return
						}
					}
					return
				}
			}
			begun = true
			if !yield(rev, err) || err != nil {
				return
			}
		}
	}
}

// revList is RevList which git walks down to the commits of shallow, all that
// the shallow file lists, if there are any; one of them in the walk is ErrCut.
func (r *Repo) revList(ctx context.Context, include, exclude []ID, opt RevListOptions, shallow map[ID]bool) iter.Seq2[Rev, error] {
	return func(yield func(Rev, error) bool) {
		if len(include) == 0 {
			return
		}
		var stdin bytes.Buffer
		for i, ids := range [][]ID{include, exclude} {
			for _, id := range ids {
				if err := r.checkID(id); err != nil {
					yield(Rev{}, err)
					return
				}
				if i == 1 {
					stdin.WriteByte('^')
				}
				stdin.WriteString(id + "\n")
			}
		}
		args := []string{"rev-list", "--parents"}
		if !opt.Unordered {
			args = append(args, "--topo-order")
		}
		if opt.Reverse {
			args = append(args, "--reverse")
		}
		if opt.FirstParent {
			args = append(args, "--first-parent")
		}
		if opt.Max > 0 {
			args = append(args, "--max-count="+strconv.Itoa(opt.Max))
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := context.AfterFunc(r.ctx, cancel)
		defer stop()
		cmd, stderr := r.env.process(ctx, r.git, append(args, "--stdin")...)
		if shallow != nil {
			cmd.Env = r.env.obeyingShallow(cmd.Env)
		}
		cmd.Env = append(cmd.Env, "GIT_FLUSH=0") // a write for many commits (git(1))
		cmd.Stdin = &stdin
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			yield(Rev{}, failure(ctx, "git rev-list", nil, err))
			return
		}
		finish := func() error {
			_, _ = io.Copy(io.Discard, out)
			return cmd.Wait()
		}
		lines := bufio.NewReaderSize(out, 64<<10)
		for {
			line, err := lines.ReadString('\n')
			if errors.Is(err, io.EOF) && line == "" {
				break
			}
			rev, ok := r.parseRev(line)
			if !ok || err != nil || shallow[rev.ID] {
				cancel()
				_ = finish()
				if err := r.ctx.Err(); err != nil {
					yield(Rev{}, failure(r.ctx, "git rev-list", nil, err))
				} else if ok && shallow[rev.ID] {
					yield(Rev{}, &Error{Kind: ErrCut, Message: cutMessage, Hint: cutHint})
				} else {
					yield(Rev{}, &Error{Kind: ErrDied, Message: "git rev-list gave an answer of unknown form"})
				}
				return
			}
			if !yield(rev, nil) {
				cancel()
				_ = finish()
				return
			}
		}
		if err := finish(); err != nil {
			yield(Rev{}, r.orCut(failure(ctx, "git rev-list", stderr.Bytes(), err)))
		}
	}
}

// maxLine is how many commits Line reads one by one before a walk by git itself
// is cheaper.
const maxLine = 16

// Line is RevList of new without old, parents first, for the usual case: at
// most 16 commits, each with one parent, the first one's being old. It costs no
// process. In any other case, and if an object can't be read as a commit, ok is
// false and RevList is to be asked.
func (r *Repo) Line(new, old ID) (revs []Rev, ok bool) {
	for id := new; id != old; {
		if len(revs) == maxLine {
			return nil, false
		}
		c, err := r.Commit(id)
		if err != nil || len(c.Parents) != 1 {
			return nil, false
		}
		revs = append(revs, Rev{ID: c.ID, Parents: c.Parents})
		id = c.Parents[0]
	}
	slices.Reverse(revs)
	return revs, true
}

// shortLine is RevList where Line says it and commits are read without a process.
func (r *Repo) shortLine(ctx context.Context, include, exclude []ID, opt RevListOptions) (revs []Rev, ok bool) {
	if len(include) != 1 || len(exclude) != 1 || ctx.Err() != nil || !r.readCommits(include[0], exclude[0]) {
		return nil, false
	}
	if revs, ok = r.Line(include[0], exclude[0]); !ok {
		return nil, false
	}
	if opt.Max > 0 && opt.Max < len(revs) {
		revs = revs[len(revs)-opt.Max:] // the newest, as git counts
	}
	if !opt.Reverse {
		slices.Reverse(revs)
	}
	return revs, true
}

// readCommits reports whether objects are commits, which can be read without a
// process.
func (r *Repo) readCommits(ids ...ID) bool {
	if !r.knownGit() {
		return false
	}
	heads, all := r.stored.info(ids)
	return all && !slices.ContainsFunc(heads, func(h header) bool { return h.typ != "commit" })
}

// parseRev parses `<id> (SP <parent>)* LF`.
func (r *Repo) parseRev(line string) (Rev, bool) {
	line, ok := strings.CutSuffix(line, "\n")
	if !ok {
		return Rev{}, false
	}
	ids := strings.Split(line, " ")
	for _, id := range ids {
		if !r.ValidID(id) {
			return Rev{}, false
		}
	}
	return Rev{ID: ids[0], Parents: ids[1:]}, true
}

// IsAncestor reports whether a is b or can be reached from b, whatever dates commits have.
// "No" in a history that is cut is ErrCut instead.
func (r *Repo) IsAncestor(ctx context.Context, a, b ID) (bool, error) {
	for _, id := range []ID{a, b} {
		if err := r.checkID(id); err != nil {
			return false, err
		}
	}
	if yes, known := r.inShortLine(ctx, a, b); known {
		return yes, nil
	}
	yes, err := r.isAncestor(ctx, a, b, false)
	if errors.Is(err, ErrCut) {
		// As with RevList: what is found above the shallow commits is so.
		if yes, e := r.isAncestor(ctx, a, b, true); e == nil && yes {
			return true, nil
		}
	}
	if err != nil || yes {
		return yes, err
	}
	cut, err := r.cutBoundary()
	if err == nil && len(cut) > 0 {
		err = &Error{Kind: ErrCut, Message: cutMessage, Hint: cutHint}
	}
	return false, err
}

// inShortLine is IsAncestor of commits between which lie at most 16 with one parent each,
// which are read without a process. It goes down from both, a step of each in turn: where b
// is below a, the answer is "no", for no commit is its own ancestor.
func (r *Repo) inShortLine(ctx context.Context, a, b ID) (yes, known bool) {
	if ctx.Err() != nil || !r.readCommits(a, b) {
		return false, false
	}
	if a == b {
		return true, true
	}
	below := func(id ID) ID {
		if id == "" {
			return ""
		}
		c, err := r.Commit(id)
		if err != nil || len(c.Parents) != 1 {
			return ""
		}
		return c.Parents[0]
	}
	belowA, belowB := a, b
	for range maxLine {
		if belowB = below(belowB); belowB == a {
			return true, true
		}
		if belowA = below(belowA); belowA == b {
			return false, true
		}
	}
	return false, false
}

// isAncestor is IsAncestor as git answers, with or without the shallow file. A walk of a
// without b would end by dates; this one does not.
func (r *Repo) isAncestor(ctx context.Context, a, b ID, obeyShallow bool) (bool, error) {
	_, stderr, code, err := r.mergeBase(ctx, obeyShallow, "--is-ancestor", a, b)
	if err == nil && (code > 1 || code == 1 && len(stderr) > 0) { // an older git says no where it cannot read on
		err = r.orCut(failure(ctx, "git merge-base", stderr, nil))
	}
	return err == nil && code == 0, err
}

// mergeBase runs git merge-base.
func (r *Repo) mergeBase(ctx context.Context, obeyShallow bool, args ...string) (stdout, stderr []byte, code int, err error) {
	cmd, tail := r.env.process(ctx, r.git, append([]string{"merge-base"}, args...)...)
	if obeyShallow {
		cmd.Env = r.env.obeyingShallow(cmd.Env)
	}
	return outcome(ctx, cmd, tail, "git merge-base")
}

// MergeBases returns all best common ancestors of a and b; none means that
// they have no common history. In a history that is cut, none is ErrCut.
func (r *Repo) MergeBases(ctx context.Context, a, b ID) ([]ID, error) {
	for _, id := range []ID{a, b} {
		if err := r.checkID(id); err != nil {
			return nil, err
		}
	}
	for _, pair := range [][2]ID{{a, b}, {b, a}} {
		if _, ok := r.shortLine(ctx, pair[:1], pair[1:], RevListOptions{}); ok {
			return []ID{pair[1]}, nil // one of the two
		}
	}
	ids, err := r.mergeBases(ctx, a, b, false)
	if !errors.Is(err, ErrCut) {
		return ids, err
	}
	// As with RevList, but what is found is only sure to be all and the best if
	// it is one, and nothing above it is cut.
	found, e := r.mergeBases(ctx, a, b, true)
	if e != nil || len(found) != 1 {
		return nil, err
	}
	shallow, e := r.Shallow()
	if e != nil {
		return nil, err
	}
	for _, e := range r.revList(ctx, []ID{a, b}, found, RevListOptions{}, shallow) {
		if e != nil {
			return nil, err
		}
	}
	return found, nil
}

// mergeBases is MergeBases as git answers, with or without the shallow file.
func (r *Repo) mergeBases(ctx context.Context, a, b ID, obeyShallow bool) ([]ID, error) {
	stdout, stderr, code, err := r.mergeBase(ctx, obeyShallow, "--all", a, b)
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(string(stdout))
	for _, id := range ids {
		if !r.ValidID(id) {
			return nil, &Error{Kind: ErrDied, Message: "git merge-base gave an answer of unknown form"}
		}
	}
	switch {
	case code == 0 && len(ids) > 0:
		return ids, nil
	case code > 1:
		return nil, r.orCut(failure(ctx, "git merge-base", stderr, nil))
	}
	cut, err := r.cutBoundary()
	if err != nil {
		return nil, err
	}
	if len(cut) > 0 || len(stderr) > 0 {
		return nil, &Error{Kind: ErrCut, Message: cutMessage, Hint: cutHint}
	}
	return nil, nil
}

// orCut makes ErrCut of ErrMissing in a shallow repository.
func (r *Repo) orCut(err error) error {
	if errors.Is(err, ErrMissing) {
		if shallow, e := r.Shallow(); e == nil && len(shallow) > 0 {
			return &Error{Kind: ErrCut, Message: cutMessage, Hint: cutHint, Cause: err}
		}
	}
	return err
}

// Shallow returns the commits at which the history was cut off when it was
// fetched, as the shallow file lists them; none if there is no such file.
// Whether that matters to a walk is for RevList and CutIn to say.
func (r *Repo) Shallow() (map[ID]bool, error) {
	file := filepath.Join(r.commonDir, "shallow")
	if v, ok := r.env.Lookup("GIT_SHALLOW_FILE"); ok {
		if v == "" {
			return nil, nil
		}
		file = r.env.path(v)
	}
	text, err := files.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	bad := &Error{Kind: ErrCut, Message: "the list of shallow commits cannot be read", Hint: cutHint, Cause: err}
	if err != nil {
		return nil, bad
	}
	ids := make(map[ID]bool)
	for line := range strings.Lines(string(text)) {
		id := strings.TrimSuffix(line, "\n")
		if !r.ValidID(id) {
			return nil, bad
		}
		ids[id] = true
	}
	return ids, nil
}

// cutBoundary returns those shallow commits which really lack a parent.
func (r *Repo) cutBoundary() (map[ID]bool, error) {
	shallow, err := r.Shallow()
	if err != nil || len(shallow) == 0 {
		return nil, err
	}
	ids := make([]ID, 0, len(shallow))
	for id := range shallow {
		ids = append(ids, id)
	}
	types, err := r.Has(ids)
	if err != nil {
		return nil, err
	}
	var present []ID
	for i, id := range ids {
		if types[i] == "commit" {
			present = append(present, id)
		}
	}
	commits, err := r.Commits(present)
	if err != nil {
		return nil, err
	}
	var parents []ID
	for _, c := range commits {
		parents = append(parents, c.Parents...)
	}
	types, err = r.Has(parents)
	if err != nil {
		return nil, err
	}
	cut := make(map[ID]bool)
	for _, c := range commits {
		for range c.Parents {
			if types[0] == "" {
				cut[c.ID] = true
			}
			types = types[1:]
		}
	}
	return cut, nil
}

// FirstCommit returns the commit in which the line of first parents of tip begins;
// "" for "".
func (r *Repo) FirstCommit(ctx context.Context, tip ID) (ID, error) {
	if tip == "" {
		return "", nil
	}
	first := map[ID]ID{}
	for rev, err := range r.RevList(ctx, []ID{tip}, nil, RevListOptions{}) {
		if err != nil {
			return "", err
		}
		if len(rev.Parents) > 0 {
			first[rev.ID] = rev.Parents[0]
		}
	}
	for first[tip] != "" {
		tip = first[tip]
	}
	return tip, nil
}

// CutIn returns ErrCut if the commits of a walk with RevList may include old
// ones that only look new, because the history of the excluded side is cut:
// some shallow commit really lacks a parent, and the walk went down to a root
// instead of ending at the excluded side. Without excluded commits every
// commit belongs to the walk, and nothing is cut that RevList has not refused.
func (r *Repo) CutIn(walk []Rev, exclude []ID) error {
	if len(exclude) == 0 {
		return nil
	}
	root := false
	for _, rev := range walk {
		root = root || len(rev.Parents) == 0
	}
	if !root {
		return nil
	}
	cut, err := r.cutBoundary()
	if err != nil {
		return err
	}
	if len(cut) > 0 {
		return &Error{Kind: ErrCut, Message: cutMessage, Hint: cutHint}
	}
	return nil
}
