package bridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/screen"
)

// A draft is a message that is about to be written.
type draft struct {
	fields   envelope.Fields
	name     string // file name; "" for the first free one of the type
	scaffold []byte // bytes of the edited scaffold that is replaced, nil if none
	subject  func(path string) string
	signed   bool                        // commit with -S, identity from the configuration only
	key      string                      // digest of what the user asked for
	verify   func(*gitrepo.Commit) error // judges the commit that was made; nil: nothing more
	alone    bool                        // the index holds what HEAD does
	opens    bool                        // the thread's directory is made for it
}

// posted is a message that is committed, and where it went.
type posted struct {
	path    string
	data    []byte
	env     *envelope.Envelope
	commit  string
	target  target
	pushed  bool
	retries int
	crossed []crossing
	notes   []finding.Finding // warnings

	repeated bool // an earlier run sent it
}

// A delivery is a message on its way: what is written and committed, by which
// clone, and the record by which the next run completes it.
type delivery struct {
	*run
	w *work
	j *journal
	d draft // the zero value once the commit is made
	p *posted
}

// A crossing is an envelope that came in between in the same thread.
type crossing struct {
	Path   string `json:"path"`
	From   string `json:"from"`
	Commit string `json:"commit"`
}

// begin takes the clone's lock and settles what a killed run left: r.left is
// its journal if its commit exists. Called again it does nothing.
func (r *run) begin(w *work) error {
	if w.held != nil {
		return nil
	}
	unlock, err := w.lock(r.ctx)
	if err != nil {
		return err
	}
	r.atEnd(func() error { unlock(); return nil })
	t, err := w.target()
	if err != nil {
		return err
	}
	if err := w.afterKilled(r.ctx, t); err != nil {
		return err
	}
	if r.left, err = w.recover(r.ctx); err == nil && r.left != nil {
		err = w.keepKey(r.left)
	}
	return err
}

// post writes, commits and pushes a message (docs/spec/client.md#sending). What the
// message says is judged before anything is written; what only its commit can
// show (signature, history) is judged on the commit, which is taken back if it
// does not pass.
func (r *run) post(w *work, d draft) (*posted, error) {
	if err := r.begin(w); err != nil {
		return nil, err
	}
	thread := d.fields.Thread
	t, err := w.target()
	if err != nil {
		return nil, err
	}
	before, err := w.ref(t.branch)
	if err != nil {
		return nil, err
	}
	if before == "" && r.left == nil && !r.opts.Has("--no-push") {
		if before, err = r.joined(w, t); err != nil {
			return nil, err
		}
	}
	old := r.left
	if old != nil && old.Key == d.key && old.Root == w.root && old.Branch == t.branch && r.env.Now().Sub(old.Started) < resumable {
		return r.resume(w, old, t)
	}
	if w.begun("MERGE_HEAD") || w.begun("CHERRY_PICK_HEAD") {
		f := fail(codeRefused, "a merge or a cherry-pick waits to be committed, and git makes no commit of one file before it is")
		w.ending(f)
		return nil, f
	}
	if len(d.fields.To) == 0 {
		return nil, usageError(r.cmd, "%s is missing", r.arg("--to"))
	}
	if err := r.ownIdentity(w); err != nil {
		return nil, err
	}
	var moved map[string]string
	if old != nil {
		moved = old.Moved
		r.note("an earlier run was cut off after its commit %s of %s; the message is kept", short(old.Commit), old.Path)
		if len(moved) == 0 {
			if err := w.dropJournal(); err != nil {
				return nil, err
			}
		}
	}
	p := &posted{target: t}
	taken, index, err := w.taken(r.ctx, t, before, thread)
	if err != nil {
		return nil, err
	}
	if d.alone, err = w.indexIsHead(index, before); err != nil {
		return nil, err
	}
	name := d.name
	switch {
	case name == "":
		name = firstFree(taken, d.fields.Type)
	case d.scaffold == nil && taken[portable.Fold(name)]:
		return nil, fail(codeExists, "%s/%s exists already", thread, name)
	}
	p.path = thread + "/" + name
	d.fields.Body = envelope.NormalizeBody(d.fields.Body)
	d.fields.BodyHash = envelope.BodyHash(d.fields.Body)
	if p.data, err = envelope.Render(d.fields); err != nil {
		return nil, fail(codeInvalid, "the message cannot be rendered: %s", err.Error())
	}
	if p.env, p.notes, err = r.refuseInvalid(w, p.path, p.data); err != nil {
		return nil, err
	}
	j := &journal{Version: 1, Started: r.env.Now(), Key: d.key, Root: w.root, Path: p.path, Blob: w.blobID(p.data),
		Branch: t.branch, Tracking: t.tracking, Before: before, Scaffold: d.scaffold != nil, Opens: d.opens, Moved: moved,
		Client: r.client, Typed: r.typed()}
	x := &delivery{r, w, j, d, p}
	if err := x.commit(); err != nil {
		return nil, err
	}
	if err := w.keepKey(j); err != nil {
		return p, err // the journal stays, by which the next run keeps it
	}
	for _, f := range p.notes {
		r.note("%s: %s", f.Severity, f.Message)
	}
	r.kept = fmt.Sprintf("the commit %s of %s is kept and not pushed; push it with `%s`", short(p.commit), p.path, pushHint(t))
	r.atEnd(func() error { return w.endJournal(j, p) })
	if r.opts.Has("--no-push") {
		r.kept = fmt.Sprintf("the commit %s of %s is kept", short(p.commit), p.path)
		return p, nil
	}
	return p, x.pushKeyed()
}

// resumable is how long a run that was cut off after its commit is completed
// by the same command, instead of being followed by a second message.
const resumable = 10 * time.Minute

// resume completes a run that was killed after its commit.
func (r *run) resume(w *work, j *journal, t target) (*posted, error) {
	p := &posted{path: j.Path, commit: j.Commit, target: t}
	_, data, err := w.repo.Object(j.Blob, envelope.DefaultLimits().File)
	if err != nil {
		return nil, gitProblem(err)
	}
	p.data = data
	if p.env, _, err = r.refuseInvalid(w, p.path, data); err != nil {
		return nil, err
	}
	r.note("an earlier run of this command was cut off after its commit %s; it is completed, not repeated", short(j.Commit))
	r.kept = fmt.Sprintf("the commit %s of %s is kept and not pushed; push it with `%s`", short(p.commit), p.path, pushHint(t))
	r.atEnd(func() error { return w.endJournal(j, p) })
	if r.opts.Has("--no-push") {
		return p, nil
	}
	return p, (&delivery{run: r, w: w, j: j, p: p}).pushKeyed()
}

// refuseInvalid judges a rendered message by all rules that need no history.
func (r *run) refuseInvalid(w *work, path string, data []byte) (*envelope.Envelope, []finding.Finding, error) {
	e, fs := screened(data, path, 0o100644)
	fs, err := w.excepted(fs)
	if err != nil {
		return e, fs, err
	}
	_, none := os.Lstat(filepath.Join(w.root, filepath.FromSlash(path)))
	for i := range fs {
		fs[i].Path = path
		if fs[i].Rule == screen.RuleHidden && none != nil { // the file that the hint would edit is not written
			_, allow, except := strings.Cut(fs[i].Hint, "; ")
			if fs[i].Hint = "say it without that character"; except {
				fs[i].Hint += "; " + allow
			}
		}
	}
	if finding.Worst(fs) == finding.Error {
		return e, fs, invalid(fs)
	}
	return e, fs, nil
}

// blobID is the id that git gives to a blob of these bytes.
func (w *work) blobID(data []byte) string {
	h := sha1.New()
	if w.repo.ObjectFormat() == "sha256" {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

var (
	listing = lookup{"rig-bridge status", "status with all names the threads"}
	syncing = lookup{"rig-bridge sync --auto", "wait fetches and takes what the others sent"}
)

// errNoThread is the cause where a thread is not there.
var errNoThread = errors.New("there is no such thread")

// commit writes the file and commits exactly that path. If anything fails
// before the commit exists, file, index and HEAD are as before.
func (r *delivery) commit() error {
	w, j, d, p := r.w, r.j, r.d, r.p
	if d.scaffold != nil {
		if err := files.Swap(filepath.Join(w.repo.CommonDir(), scaffoldFile), d.scaffold, 0o644); err != nil {
			return cannotWrite(scaffoldFile, err)
		}
	}
	if err := w.writeJournal(j); err != nil {
		return err
	}
	commit, err := r.writeAndCommit()
	if err == nil {
		j.Commit, p.commit = commit, commit
		return w.writeJournal(j)
	}
	// Nothing that ended the run may keep it from cleaning up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), time.Minute)
	defer cancel()
	killed := w.killed.Load() // a git that ended by itself has no locks left: what is there is another's
	w, cerr := w.steady(ctx)
	if cerr != nil {
		return cerr // the journal stays, the next run tries again
	}
	defer w.close()
	if killed {
		if lerr := w.removeStaleLocks(ctx, j); lerr != nil {
			return lerr
		}
	}
	found, ferr := w.findCommit(j)
	switch {
	case ferr != nil:
		return ferr // the journal stays, the next run tries again
	case found != "" && d.verify == nil && !errors.Is(err, errTakeBack):
		// The commit was there before the failure or the signal.
		if err := w.settleIndex(ctx, j); err != nil {
			return err
		}
		j.Commit, p.commit = found, found
		r.kept = fmt.Sprintf("the commit %s of %s is kept and not pushed; push it with `%s`", short(found), p.path, pushHint(p.target))
		if r.ctx.Err() == nil {
			return w.writeJournal(j)
		}
		if derr := w.dropJournal(); derr != nil {
			return derr
		}
		return err
	case found != "" || errors.Is(err, errTakeBack):
		if uerr := w.uncommit(ctx, j); uerr != nil {
			return uerr
		}
	}
	if berr := w.takeBack(ctx, j); berr != nil {
		return berr // the journal stays, the next run tries again
	}
	if derr := w.dropJournal(); derr != nil {
		return derr
	}
	return err
}

// errTakeBack marks a commit that must not stay.
var errTakeBack = errors.New("the commit does not pass")

// uncommit moves the branch back over a commit of ours that did not pass, if
// nothing came on top of it.
func (w *work) uncommit(ctx context.Context, j *journal) error {
	tip, err := w.ref(j.Branch)
	if err != nil || tip == "" || tip == j.Before {
		return err
	}
	c, err := w.repo.Commit(tip)
	if err != nil {
		return gitProblem(err)
	}
	args := []string{"update-ref", "-m", "rig-bridge: taken back", j.Branch, j.Before, tip}
	switch {
	case j.Before == "" && len(c.Parents) == 0:
		args = []string{"update-ref", "-m", "rig-bridge: taken back", "-d", j.Branch, tip}
	case len(c.Parents) != 1 || c.Parents[0] != j.Before:
		return fail(codeRuntime, "the branch moved while the message was written; look at commit %s", short(tip))
	}
	res, err := w.git(ctx, args...)
	if err == nil && res.Code != 0 {
		return gitFailed("git update-ref", res)
	}
	return err
}

func (r *delivery) writeAndCommit() (string, error) {
	w, j, d, p := r.w, r.j, r.d, r.p
	file := filepath.Join(w.root, filepath.FromSlash(j.Path))
	if d.opens {
		if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", cannotWrite(filepath.Dir(file), err)
		}
		if err := w.threadDir(r.ctx, firstOf(j.Path), listing, true); err != nil {
			return "", err
		}
	}
	if d.scaffold != nil {
		if err := files.Swap(file, p.data, 0o644); err != nil {
			return "", cannotWrite(file, err)
		}
	} else if err := w.createFile(file, p.data); err != nil {
		return "", err
	}
	// The judge will read the thread: what git does takes long enough for that.
	said, err := w.treeFiles(j.Before, firstOf(j.Path))
	if err != nil {
		return "", err
	}
	go w.repo.ReadAhead(r.ctx, slices.Collect(maps.Values(said)))
	if done, err := r.commitPlainly(); err != nil {
		return "", err
	} else if !done {
		if err := r.commitByGit(); err != nil {
			return "", err
		}
	}
	commit, err := w.findCommit(j)
	if err != nil {
		return "", err
	}
	if commit == "" {
		tip, err := w.ref(j.Branch)
		if err != nil {
			return "", err
		}
		if tip == j.Before {
			return "", fail(codeRefused, "git commit made no commit")
		}
		return "", foreign("a hook changed the bytes of %s while it was committed", quote(j.Path))
	}
	c2, err := w.repo.Commit(commit)
	if err != nil {
		return "", gitProblem(err)
	}
	diffs, err := w.repo.DiffCommit(c2)
	if err != nil {
		return "", gitProblem(err)
	}
	if n := len(diffs[0].Changes); n != 1 {
		return "", foreign("a hook added to the commit of %s: it changes %d paths", quote(j.Path), n)
	}
	if d.verify != nil {
		if err := d.verify(c2); err != nil {
			return "", takeBack(err)
		}
	}
	if err := r.judgeOwn(commit); err != nil {
		return commit, err
	}
	f, err := w.unsigned(j.Before, c2, p)
	if f != nil {
		p.notes = append(p.notes, *f)
	}
	return commit, err
}

// commitPlainly commits without git, where git would do no more than that.
func (r *delivery) commitPlainly() (done bool, err error) {
	w, j, d, p := r.w, r.j, r.d, r.p
	if d.signed || !d.alone || r.opts.Has("--author-from-env") {
		return false, nil
	}
	plain, err := w.unconverted(firstOf(j.Path), p.data)
	if err != nil || !plain {
		return false, err
	}
	if idle, err := w.nothingToMaintain(); !idle || err != nil {
		return false, err
	}
	message, err := r.message()
	if err != nil {
		return false, err
	}
	_, done = w.repo.CommitFile(gitrepo.FileCommit{Path: j.Path, Data: p.data, Branch: j.Branch, Parent: j.Before, Message: message, When: r.env.Now()})
	return done, nil
}

// message is that of the commit.
func (r *delivery) message() ([]byte, error) {
	seen, err := r.w.told()
	return []byte(r.d.subject(r.j.Path) + "\n" + seen), err
}

// commitByGit has git commit, with all that the user has set for it.
func (r *delivery) commitByGit() error {
	w, d := r.w, r.d
	// What is stored is compared with our bytes, so git need not fear for them.
	safe := []string{"-c", "core.safecrlf=false"}
	which, err := r.stage(safe)
	if err != nil {
		return err
	}
	untended, err := w.untended()
	if err != nil {
		return err
	}
	args, err := w.encoding("UTF-8")
	if err != nil {
		return err
	}
	message, err := r.message()
	if err != nil {
		return err
	}
	args = append(append(args, untended...), safe...)
	c := gitrepo.Command{Args: append(args, "commit", "--quiet", "--cleanup=verbatim", "-F", "-"), Stdin: message, Timeout: localTime}
	if d.signed {
		c.Args = append(c.Args, "-S")
	}
	c.Drop = r.foreignIdentity(d.signed)
	c.Args = append(c.Args, which...)
	res, err := w.gitWith(r.ctx, c)
	if err != nil {
		return err
	}
	if res.Code != 0 {
		return gitFailed("git commit", res)
	}
	return nil
}

// stage puts our path into the index, and returns what makes git commit nothing else.
func (r *delivery) stage(safe []string) (which []string, err error) {
	w, j, d, p := r.w, r.j, r.d, r.p
	plain, err := w.unconverted(firstOf(j.Path), p.data)
	if err != nil || plain && d.alone && w.repo.Stage(j.Path, p.data) {
		return nil, err
	}
	same := make(chan error, 1)
	go func() {
		if plain {
			same <- nil
		} else {
			same <- w.storesAsIs(r.ctx, j.Path, p.data)
		}
	}()
	// Where nothing else is staged, which the index says itself as a rule, ours is
	// all that a commit of the index commits. Else git is asked what is staged,
	// while it takes note of our path only.
	alone := make(chan bool, 1)
	add := []string{"add", "--", j.Path}
	if !d.alone {
		go func() { alone <- w.nothingStaged(r.ctx, j.Before) }()
		add = []string{"add", "--intent-to-add", "--", j.Path}
	}
	res, err := w.git(r.ctx, append(safe, add...)...)
	if serr := <-same; err == nil {
		err = serr
	}
	if !d.alone {
		which = []string{"--only", "--", j.Path}
		if <-alone {
			which[0] = "--include" // what git does for --only reads every tree of HEAD
		}
	}
	if err != nil {
		return nil, err
	}
	if res.Code != 0 {
		f := gitFailed("git add", res)
		if bytes.Contains(res.Stderr, []byte("sparse-checkout")) {
			f.message = "git add failed: the thread lies outside of the sparse checkout"
			f.hint = "git sparse-checkout add " + firstOf(j.Path)
		}
		if bytes.Contains(res.Stderr, []byte("are ignored by one of your")) {
			f.message = "git add failed: " + j.Path + " is ignored"
			f.hint = "git check-ignore -v " + j.Path + " says which line does"
		}
		return nil, f
	}
	return which, nil
}

// nothingStaged reports whether the index holds what HEAD does, and no merge or
// the like waits to be committed, so that a commit of the index and our path is
// one of our path. Where that changes meanwhile, the commit shows it.
func (w *work) nothingStaged(ctx context.Context, head string) bool {
	if head == "" || w.waits() {
		return false
	}
	res, err := w.git(ctx, "diff-index", "--cached", "--quiet", "--ignore-submodules=none", head, "--")
	return err == nil && res.Code == 0
}

// waits reports whether a merge or the like waits to be committed.
func (w *work) waits() bool {
	return slices.ContainsFunc([]string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"}, w.begun)
}

// begun reports whether a file of the git directory says that something was begun
// there that has not ended.
func (w *work) begun(name string) bool {
	_, err := os.Lstat(filepath.Join(w.repo.GitDir(), name))
	return !errors.Is(err, fs.ErrNotExist)
}

// ending gives a failure the hint that ends what was begun in the clone, and reports
// whether there is anything. A rebase picks commits, so it comes before a cherry-pick.
func (w *work) ending(f *failure) bool {
	for _, c := range [][2]string{{"rebase-apply/applying", "am"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"CHERRY_PICK_HEAD", "cherry-pick"}, {"MERGE_HEAD", "merge"}} {
		if w.begun(c[0]) {
			f.withHint("git %s --abort, or git %s --continue", c[1], c[1])
			return true
		}
	}
	if w.begun("BISECT_LOG") {
		f.withHint("git bisect reset")
		return true
	}
	return false
}

// encoding returns what makes git say of a commit's message that it is in that
// encoding, as it is, whatever the configuration names.
func (w *work) encoding(name string) ([]string, error) {
	set, err := w.config("i18n.commitEncoding")
	if err != nil || set == name || set == "" && name == "UTF-8" {
		return nil, err
	}
	return []string{"-c", "i18n.commitEncoding=" + name}, nil
}

// judgeOwn judges the new commit as the gates will.
func (r *delivery) judgeOwn(commit string) error {
	w, j, p := r.w, r.j, r.p
	fs, err := w.judgeRange(r.ctx, p.target, j.Before, commit, j.Before, true, false)
	switch {
	case err != nil:
		return takeBack(err)
	case finding.Worst(fs) == finding.Error:
		c, err := w.repo.Commit(commit)
		if err != nil {
			return takeBack(gitProblem(err))
		}
		f := invalid(fs)
		toSign, err := w.signing()
		if err != nil {
			return takeBack(err)
		}
		f.hint = anew(f, c.Signed(), toSign, p.target.remote)
		return takeBack(f)
	}
	p.notes = fs // the content's warnings are among them
	return nil
}

// anew is the hint of a failure whose commit is taken back. The gates' own hints
// change the commit that was judged, which is another one then. toSign are the
// commands that make git sign.
func anew(f *failure, signed bool, toSign, remote string) string {
	first := slices.IndexFunc(f.findings, func(x finding.Finding) bool { return x.Severity == finding.Error })
	if first < 0 {
		return f.hint
	}
	switch x := f.findings[first]; {
	case x.Rule == "commit-signed" && !signed:
		return cmp.Or(toSign, "git config commit.gpgsign true") + ", then send it again"
	case x.Rule == "commit-signed":
		return "git config user.signingkey <a key that the signers file lists>, then send it again"
	case x.Rule == "signer-identity":
		return "git config user.email <an address that the signers file lists for the key>, then send it again"
	case x.Rule == "quorum":
		return "git switch -c proposal && git push -u " + finding.Word(cmp.Or(remote, "origin")) + " proposal, then relay it there, where others approve of it"
	case x.Rule == "append-only", x.Rule == "fast-forward", x.Rule == "commit-clock", x.Path == "" && (x.Rule == "hidden-text" || x.Rule == "secret"):
		return ""
	}
	return f.hint
}

// takeBack marks a failure whose commit must not stay.
func takeBack(err error) error {
	var f *failure
	if errors.As(err, &f) {
		f.cause = errors.Join(f.cause, errTakeBack)
		return f
	}
	return err
}

// foreign is the failure for a commit that a hook has altered.
func foreign(format string, a ...any) error {
	f := fail(codeRefused, format, a...)
	f.cause = errTakeBack
	return f.withHint("let the hook leave the index alone: a message is committed by itself, as it is")
}

// identityVariables are the variables that override the configured identity and
// the clock (git, "Git Commits" of ENVIRONMENT VARIABLES).
var identityVariables = []string{
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE",
	"GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "EMAIL",
}

// short is the abbreviation of a commit id in text.
func short(id string) string { return id[:min(7, len(id))] }

func pushHint(t target) string {
	return fmt.Sprintf("git push %s %s", finding.Word(t.remote), finding.Word(t.short()+":"+t.remoteShort()))
}
