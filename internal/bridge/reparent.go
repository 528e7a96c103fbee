package bridge

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// judgeAgain judges the commits that were made again, as the gates will: a
// freeze, say, that came in between keeps them from getting on top of it.
func (r *run) judgeAgain(w *work, t target, theirs, tip, trusted string) error {
	_, trust, err := w.policyAt(trusted)
	if err != nil {
		return err
	}
	fs, err := w.judgeRange(r.ctx, t, theirs, tip, trusted, true, false)
	switch {
	case finding.Worst(fs) == finding.Error:
		return invalid(fs)
	case err != nil && trust.Exists():
		return err
	}
	return r.ctx.Err()
}

// An unpushed commit of ours, to be made again on top of what others pushed.
type unpushed struct {
	commit *gitrepo.Commit
	path   string
	blob   string
	env    *envelope.Envelope
}

// reparent fetches, judges what came, and makes the unpushed commits again on
// top of it: the same envelope bytes, the same author, the next free name if
// the path was taken. Nothing of the branch moves yet: that is follow, after
// the push. On return p names the new commit.
func (r *delivery) reparent() error {
	w, j, p := r.w, r.j, r.p
	ctx, t := r.ctx, p.target
	head, err := w.ref(t.branch)
	if err != nil {
		return err
	}
	seen, err := w.ref(t.tracking)
	if err != nil {
		return err
	}
	theirs, err := w.fetch(ctx, t)
	if err != nil {
		return err
	}
	if err := w.refresh(ctx); err != nil {
		return err
	}
	if seen != "" {
		ok, err := w.ancestor(ctx, seen, theirs)
		if err != nil {
			return err
		}
		if !ok {
			return fail(codeRefused, "the history of %s was rewritten: %s is not in the history of %s", quote(t.label()), short(seen), short(theirs)).
				withHint("rig-bridge sync")
		}
	}
	in, err := r.incoming(w, t, head, theirs)
	if err != nil {
		return err
	}
	if finding.Worst(in.findings) == finding.Error {
		f := invalid(in.findings)
		f.message = "what came from " + quote(t.label()) + " does not pass: " + f.message
		return f
	}
	thread, _ := splitPath(p.path)
	p.crossed = nil
	var own []string
	for _, made := range j.Moved {
		own = append(own, made)
	}
	for _, a := range in.added {
		if a.thread == thread && !slices.Contains(own, a.commit) {
			p.crossed = append(p.crossed, crossing{a.path, a.from, a.commit})
		}
	}
	if p.pushed, err = w.arrived(ctx, p.commit, theirs); p.pushed || err != nil {
		return err // a push that was cut off had arrived, and others came on top
	}
	ours, err := r.unpushed(w, theirs, head)
	if err != nil {
		return err
	}
	tip := theirs
	moved := map[string]string{}
	for old, made := range j.Moved {
		moved[old] = made
	}
	signed := slices.ContainsFunc(ours, func(u unpushed) bool { return u.commit.Signed() })
	left := in.added
	for _, u := range ours {
		made, there, err := r.remake(w, &u, tip, theirs, moved, signed, left)
		if err != nil {
			return err
		}
		if there && made == "" {
			made = theirs
		}
		if there { // it stands for one of ours, not for another of the same words
			left = slices.DeleteFunc(slices.Clone(left), func(a added) bool { return a.path == u.path })
		}
		if u.commit.ID == j.Commit {
			p.path, p.commit, p.pushed = u.path, made, there
		}
		if !there {
			moved[u.commit.ID], tip = made, made
		}
	}
	p.crossed = slices.DeleteFunc(p.crossed, func(c crossing) bool { // its own is none
		return !slices.ContainsFunc(left, func(a added) bool { return a.path == c.Path })
	})
	if err := r.judgeAgain(w, t, theirs, tip, theirs); err != nil {
		return err
	}
	if res, err := w.git(ctx, "read-tree", "-n", "-m", "-u", head, tip); err != nil {
		return err
	} else if res.Code != 0 {
		f := gitFailed("moving the branch", res)
		f.code, f.exit = codeRefused, 1
		return f.withHint("move away what is in the way; the next send takes this message along")
	}
	j.Moved, j.Tip, j.From = moved, tip, head
	if err := w.writeJournal(j); err != nil {
		return err
	}
	if p.pushed {
		return r.follow() // an earlier push had arrived after all
	}
	return nil
}

// unpushed lists the commits of head that theirs lacks, oldest first, and
// refuses those that cannot be made again.
func (r *run) unpushed(w *work, theirs, head string) ([]unpushed, error) {
	var list []*gitrepo.Scanned
	var ids []string
	err := w.scan(r.ctx, theirs, head, func(c *gitrepo.Scanned) error {
		list, ids = append(list, c), append(ids, c.ID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []unpushed
	for _, c := range list {
		stop := func(format string, a ...any) *failure {
			f := fail(codeRefused, "the unpushed commit %s %s; it is not put on top of %s", short(c.ID), fmt.Sprintf(format, a...), short(theirs))
			if slices.ContainsFunc(list, func(c *gitrepo.Scanned) bool { return c.Commit.Signed() }) {
				return f.withHint("git pull --rebase --gpg-sign, look at the result, then git push")
			}
			return f.withHint("git pull --rebase, look at the result, then git push")
		}
		if len(c.Parents) != 1 {
			return nil, stop("is a merge or has no parent")
		}
		changes := c.Diffs[0].Changes
		if len(changes) != 1 || !changes[0].Added() || changes[0].NewMode != gitrepo.ModeFile || !envelope.IsEnvelopePath(changes[0].Path) {
			return nil, stop("does more than add one message")
		}
		_, data, err := w.repo.Object(changes[0].NewID, envelope.DefaultLimits().File)
		if err != nil {
			return nil, gitProblem(err)
		}
		e, fs := content(data, changes[0].Path, 0)
		if e == nil || finding.Worst(fs) == finding.Error {
			return nil, stop("adds a message that is not valid")
		}
		for _, ref := range e.References {
			for _, id := range ids {
				if strings.HasPrefix(id, ref) {
					return nil, stop("refers to the unpushed commit %s, whose id would change", short(id))
				}
			}
		}
		if e.IsRelay() {
			at, _, err := envelope.ParseTime(e.AttestedAt)
			if err != nil || r.env.Now().Sub(at) > relayPushAge {
				return nil, stop("is a relay attested more than %d minutes ago", int(relayPushAge.Minutes())).
					withHint("%s, which takes the commit out; then relay it again", dropCommand(c.ID, true))
			}
		}
		out = append(out, unpushed{commit: c.Commit, path: changes[0].Path, blob: changes[0].NewID, env: e})
	}
	return out, nil
}

// remake makes one unpushed commit again on top of tip and returns its id.
// there says that theirs holds the message already; the id is empty if it is not known
// who brought it. signed says that unpushed commits are signed; news are the messages
// of theirs that are new here and stand for none of ours so far.
func (r *run) remake(w *work, u *unpushed, tip, theirs string, moved map[string]string, signed bool, news []added) (id string, there bool, err error) {
	ctx := r.ctx
	if made := moved[u.commit.ID]; made != "" {
		has, err := w.repo.Has([]string{made})
		if err != nil {
			return "", false, gitProblem(err)
		}
		if has[0] == "commit" {
			ok, err := w.arrived(ctx, made, theirs)
			if ok && err == nil {
				u.path, err = w.addedPath(made)
			}
			if ok || err != nil {
				return made, ok, err
			}
		}
	}
	if a, err := w.arrivedAs(u, news); a != nil || err != nil {
		if a != nil {
			u.path, id = a.path, a.commit
		}
		return id, a != nil, err
	}
	thread, name := splitPath(u.path)
	files, err := w.treeFiles(tip, thread)
	if err != nil {
		return "", false, err
	}
	taken := map[string]bool{}
	for f := range files {
		taken[portable.Fold(f)] = true
	}
	message := string(u.commit.Message)
	if taken[portable.Fold(name)] {
		if keepsName(u.env, message) {
			return "", false, fail(codeExists, "%s exists at the upstream already, with other content", quote(u.path)).
				withHint("%s (theirs stands, %s is dropped)", dropCommand(u.commit.ID, signed), short(u.commit.ID))
		}
		old := u.path
		u.path = thread + "/" + firstFree(taken, u.env.Type)
		message = strings.Replace(message, old, u.path, 1)
	}
	tree, err := w.withFile(ctx, tip, u.path, u.blob)
	if err != nil {
		return "", false, err
	}
	args, err := w.encoding(encodingOf(u.commit))
	if err != nil {
		return "", false, err
	}
	a := u.commit.Author
	c := gitrepo.Command{
		Args:  append(args, "commit-tree", tree, "-p", tip, "-F", "-"),
		Stdin: []byte(message),
		Env: []string{"GIT_AUTHOR_NAME=" + a.Name, "GIT_AUTHOR_EMAIL=" + a.Email,
			fmt.Sprintf("GIT_AUTHOR_DATE=@%d %s", a.When, a.Zone)},
		Timeout: localTime,
	}
	if u.commit.Signed() {
		c.Args = append(c.Args, "-S")
	}
	c.Drop = r.foreignIdentity(u.env.IsRelay())
	res, err := w.gitWith(ctx, c)
	if err != nil {
		return "", false, err
	}
	if res.Code != 0 {
		return "", false, gitFailed("git commit-tree", res)
	}
	return strings.TrimSpace(string(res.Stdout)), false, nil
}

// arrivedAs finds the message of theirs that is an unpushed one of ours, nil if there is
// none: it has our bytes at our path, or elsewhere in the thread and in a commit of our
// author of the same second, as one has that was made again on top of what others
// pushed. So it is found whatever became of the run that pushed it.
func (w *work) arrivedAs(u *unpushed, news []added) (*added, error) {
	var found *added
	for i, a := range news {
		if a.blob != u.blob || firstOf(a.path) != firstOf(u.path) {
			continue
		}
		if a.path == u.path {
			return &news[i], nil
		}
		c, err := w.repo.Commit(a.commit)
		if err != nil {
			return nil, gitProblem(err)
		}
		if found == nil && c.Author == u.commit.Author {
			found = &news[i]
		}
	}
	return found, nil
}

// keepsName reports whether a message never gets another name than the one it was
// committed under: a relay does not, nor does what close wrote.
func keepsName(e *envelope.Envelope, message string) bool {
	return e.IsRelay() || closing().MatchString(message)
}

// dropCommand takes one unpushed commit out of the branch. signed says that some
// are signed: a rebase drops a signature that it is not told to make again.
func dropCommand(commit string, signed bool) string {
	if signed {
		return fmt.Sprintf("git rebase --gpg-sign --onto %[1]s^ %[1]s", short(commit))
	}
	return fmt.Sprintf("git rebase --onto %[1]s^ %[1]s", short(commit))
}

// encodingOf is the encoding that a commit names for its message.
func encodingOf(c *gitrepo.Commit) string {
	headers, _, _ := bytes.Cut(c.Raw, []byte("\n\n"))
	for line := range bytes.Lines(headers) {
		if name, ok := bytes.CutPrefix(line, []byte("encoding ")); ok {
			return string(bytes.TrimSuffix(name, []byte("\n")))
		}
	}
	return "UTF-8"
}

// closing matches the message of close, whose file never gets another name.
var closing = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^RESOLUTION: [a-z0-9-]+ (completed|cancelled)(\n|$)`)
})

// withFile stores the tree of a commit plus one regular file in a directory
// of its root, and returns the id of the new root tree.
func (w *work) withFile(ctx context.Context, commit, path, blob string) (string, error) {
	c, err := w.repo.Commit(commit)
	if err != nil {
		return "", gitProblem(err)
	}
	root, err := w.repo.Tree(c.Tree)
	if err != nil {
		return "", gitProblem(err)
	}
	thread, name := splitPath(path)
	sub := w.repo.EmptyTree()
	if e, there := root.Lookup(thread); there && e.Mode == gitrepo.ModeTree {
		sub = e.ID
	}
	files, err := w.repo.Tree(sub)
	if err != nil {
		return "", gitProblem(err)
	}
	id, err := w.storeTree(ctx, files.With(gitrepo.TreeEntry{Name: name, Mode: gitrepo.ModeFile, ID: blob}))
	if err != nil {
		return "", err
	}
	return w.storeTree(ctx, root.With(gitrepo.TreeEntry{Name: thread, Mode: gitrepo.ModeTree, ID: id}))
}

func (w *work) storeTree(ctx context.Context, tree []byte) (string, error) {
	res, err := w.gitWith(ctx, gitrepo.Command{Args: []string{"hash-object", "-t", "tree", "-w", "--stdin"}, Stdin: tree, Timeout: localTime})
	if err != nil {
		return "", err
	}
	if res.Code != 0 {
		return "", gitFailed("git hash-object", res)
	}
	return strings.TrimSpace(string(res.Stdout)), nil
}

type treeEntry struct{ mode, name, id string }

// splitTree takes a tree object apart that gitrepo has judged before.
func splitTree(data []byte, idBytes int) ([]treeEntry, error) {
	var out []treeEntry
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, ok2 := strings.Cut(string(head), " ")
		if !ok || !ok2 || len(rest) < idBytes {
			return nil, fail(codeRuntime, "a tree object is malformed")
		}
		out = append(out, treeEntry{mode, name, hex.EncodeToString(rest[:idBytes])})
		data = rest[idBytes:]
	}
	return out, nil
}

// How long follow waits for the index.
const (
	indexWait  = 5 * time.Second
	indexPause = 200 * time.Millisecond
)

// follow moves the branch, the index and the work tree to the commits that
// were pushed, keeping local changes. A branch that is there already stays.
func (r *delivery) follow() error {
	w, j, p := r.w, r.j, r.p
	if j.Tip == "" {
		return nil
	}
	// The message is out: nothing may stop the branch from following.
	ctx := context.WithoutCancel(r.ctx)
	w, err := w.steady(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	res, err := w.git(ctx, "read-tree", "-m", "-u", j.From, j.Tip)
	for wait := indexWait; err == nil && res.Code != 0 && wait > 0 && bytes.Contains(res.Stderr, []byte("index.lock")); wait -= indexPause {
		time.Sleep(indexPause) // another git has the index
		res, err = w.git(ctx, "read-tree", "-m", "-u", j.From, j.Tip)
	}
	if err == nil && res.Code != 0 {
		err = gitFailed("git read-tree", res)
	}
	if err == nil {
		res, err = w.git(ctx, "update-ref", "-m", "rig-bridge: put on top of what others pushed", j.Branch, j.Tip, j.From)
		if err == nil && res.Code != 0 {
			err = gitFailed("git update-ref", res)
		}
	}
	if err != nil {
		f := asFailure(ctx, err)
		return fail(codeRuntime, "the message is pushed as %s (%s), but the branch could not follow: %s", short(p.commit), p.path, f.message).
			withHint("run the command again: it is completed, not repeated").orTool("the same call again: it is completed, not repeated")
	}
	j.Tip, j.From, j.Moved = "", "", nil
	return nil
}
