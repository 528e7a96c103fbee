package bridge

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// Bounds of a push that others were faster than (docs/spec/client.md#sending).
const (
	pushFor = 30 * time.Second // after which it is not tried again
	// pushPause is the longest pause before the next try. It does not grow: who has
	// lost often must not be slower than who comes new.
	pushPause    = 400 * time.Millisecond
	networkTime  = 2 * time.Minute // of one push or fetch
	relayPushAge = 9 * time.Minute // the relay-clock rule allows ten
)

// pushAnswer is what came of one push.
type pushAnswer int

const (
	accepted   pushAnswer = iota
	raced                 // somebody else was faster
	locked                // the branch over there is locked: somebody moves it, or died while doing so
	denied                // the remote, or a pre-push hook, said no
	hookDenied            // a pre-push hook said no, and the remote was not asked
	unreached
)

// push sends the new commit to its target. If others were faster it puts the
// unpushed commits on top of theirs and tries again. The commit stays whatever
// happens.
func (r *delivery) push() error {
	w, p := r.w, r.p
	t := p.target
	if t.remote == "" {
		return r.unsent(codePush, "there is no remote to push to").
			withHint("git remote add origin <url> && git push origin %s", finding.Word(t.short()))
	}
	start, lock := r.env.Now(), ""
	own := r.takeTurn()
	defer own.end()
	for {
		answer, why, err := raced, "the branch over there has moved", error(nil)
		if !w.overtaken(r.ctx, t, p.commit) {
			answer, why, err = w.pushOnce(r.ctx, t, p.commit)
		}
		if err != nil {
			if r.ctx.Err() != nil {
				return err
			}
			return r.unsent(codeRuntime, asFailure(r.ctx, err).message)
		}
		switch answer {
		case accepted:
			p.pushed = true
			r.kept = fmt.Sprintf("the commit %s of %s is pushed", short(p.commit), p.path)
			return r.follow()
		case denied:
			f := r.unsent(codePush, "the push was refused: "+why)
			if f.hint == pushHint(t) && strings.Contains(why, " hint: ") { // the same commit would be refused again
				return f.withHint("do what it says, then %s", pushHint(t))
			}
			return f
		case unreached:
			if lock != "" { // which outlives this
				why += "; at the try before: " + lock
			}
			return r.unsent(codeRuntime, "git push failed: "+why)
		}
		if lock = ""; answer == locked {
			lock = why
		}
		if r.env.Now().Sub(start) > pushFor {
			if lock != "" {
				f := r.unsent(codePush, fmt.Sprintf("the branch over there is locked, also after %d tries: %s", p.retries+1, why))
				return f.withHint("who looks after the server removes that file, if no git runs there; then %s", pushHint(t))
			}
			return r.unsent(codePush, fmt.Sprintf("others were faster %d times: %s", p.retries+1, why))
		}
		if !own.lasts() {
			select {
			case <-time.After(rand.N(pushPause)):
			case <-r.ctx.Done():
				return context.Cause(r.ctx)
			}
		}
		p.retries++
		if err := r.reparent(); err != nil {
			if r.ctx.Err() != nil {
				return err
			}
			f := asFailure(r.ctx, err)
			u := r.unsent(f.code, f.message)
			u.findings = f.findings
			if f.hint != "" {
				u.hint = f.hint
			}
			return u
		}
		if p.pushed {
			return nil
		}
	}
}

// unsent is the failure of a message that is committed and did not get out. It names the
// commit that the branch has, not one that was to stand for it on top of what others pushed.
func (r *delivery) unsent(code, why string) *failure {
	p := r.p
	f := fail(code, "%s; the commit %s of %s is kept, do not send the message again", why, short(cmp.Or(r.j.Commit, p.commit)), cmp.Or(r.j.Path, p.path))
	if code != codeRuntime {
		f.exit = 1
	}
	if setting := settingHint(why); setting != "" {
		return f.withHint("%s; then %s", setting, pushHint(p.target))
	}
	return f.withHint("%s", pushHint(p.target))
}

// pushOnce pushes exactly one commit to the target's branch.
func (w *work) pushOnce(ctx context.Context, t target, commit string) (pushAnswer, string, error) {
	res, err := w.gitRemote(ctx, "push", "--porcelain", "--no-follow-tags", "--no-recurse-submodules", "--", t.remote, commit+":"+t.ref)
	if err != nil {
		return unreached, "", err
	}
	answer, why := readPush(res)
	if answer != hookDenied {
		return answer, why, nil
	}
	// A pre-push hook may have said no because somebody else was faster: git
	// asks it first, and rig-hook's is one that looks.
	dry, err := w.gitRemote(ctx, "push", "--dry-run", "--no-verify", "--porcelain", "--no-follow-tags", "--no-recurse-submodules", "--", t.remote, commit+":"+t.ref)
	if err != nil {
		return unreached, "", err
	}
	if answer, why := readPush(dry); answer == raced {
		return raced, why, nil
	}
	return denied, why, nil
}

// readPush reads what `git push --porcelain` printed about one ref.
func readPush(res gitrepo.Result) (pushAnswer, string) {
	if res.Code == 0 {
		return accepted, ""
	}
	for line := range strings.Lines(string(res.Stdout)) {
		flag, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || flag != "!" {
			continue
		}
		_, summary, _ := strings.Cut(rest, "\t")
		for _, race := range races {
			if strings.Contains(summary, race) {
				if lock := lockLine(res.Stderr); lock != "" {
					return locked, finding.QuoteMax(lock, 200)
				}
				return raced, finding.QuoteMax(summary, 120)
			}
		}
		if said := remoteSaid(res.Stderr); said != "" {
			summary = said
		}
		if strings.Contains(rest, "(unpacker error)") && machine(res.Stderr) { // nobody over there has judged it
			return unreached, finding.QuoteMax(summary, 160)
		}
		return denied, finding.QuoteMax(summary, 400)
	}
	if res.Code == 1 {
		said := hookLine(res.Stderr)
		if hint := hintOf(res.Stderr, said); hint != "" {
			said += " hint: " + hint
		}
		return hookDenied, "the pre-push hook said no: " + finding.QuoteMax(said, 400)
	}
	return unreached, finding.QuoteMax(tellingLine(res.Stderr), 160)
}

// races are the reasons by which git says that the branch over there is not
// where it was thought to be.
var races = [...]string{
	"(fetch first)", "(non-fast-forward)", "(stale info)", "cannot lock ref", "failed to lock", "failed to update ref",
	"incorrect old value provided", "reference already exists",
}

// lockLine returns the line in which a remote's git says that the lock of a ref is
// there.
func lockLine(stderr []byte) string {
	for line := range strings.Lines(string(stderr)) {
		if said, ok := strings.CutPrefix(line, "remote: "); ok && strings.Contains(said, "nable to create '") && strings.Contains(said, ".lock'") {
			return strings.TrimRight(said, " \r\n")
		}
	}
	return ""
}

// remoteSaid returns the first line that the remote's hook printed; of a server
// of ours its first finding besides, whose lines are broken for terminals.
func remoteSaid(stderr []byte) string {
	said, place := "", false
	for line := range strings.Lines(string(stderr)) {
		line, ok := strings.CutPrefix(line, "remote: ")
		if line = strings.TrimRight(line, " \r\n"); !ok || line == "" {
			continue
		}
		switch indented := strings.HasPrefix(line, "  "); {
		case said == "":
			if said = line; !strings.Contains(line, "rigward: push refused") {
				return said
			}
		case indented:
			said += " " + strings.TrimSpace(line)
		case place:
			return said
		default:
			said, place = said+": "+line, true
		}
	}
	return said
}

// hookLine returns the first line that a hook of this side printed.
func hookLine(stderr []byte) string {
	for line := range strings.Lines(string(stderr)) {
		line = strings.TrimRight(line, " \r\n")
		if line != "" && !strings.HasPrefix(line, "error: failed to push") && !strings.HasPrefix(line, "hint: ") {
			return line
		}
	}
	return "no message"
}

// emptyRemote reports whether the remote has no branch at all: nobody has sent
// anything yet.
func (w *work) emptyRemote(ctx context.Context, t target) (bool, error) {
	if seen, err := w.ref(t.tracking); seen != "" || err != nil {
		return false, err
	}
	res, err := w.gitRemote(ctx, "ls-remote", "--heads", "--", t.remote)
	return err == nil && res.Code == 0 && len(bytes.TrimSpace(res.Stdout)) == 0, err
}

// fetch brings the target's branch, without moving the tracking ref backwards,
// and returns the id that came, "" where
// the remote is empty.
func (w *work) fetch(ctx context.Context, t target) (id string, err error) {
	err = w.noted(ctx, fetchingNote, t, "fetching "+t.tracking, func() error {
		id, err = w.fetchNow(ctx, t)
		return err
	})
	return id, err
}

// gitFetch has git fetch what is named, and nothing else.
func (w *work) gitFetch(ctx context.Context, args ...string) (gitrepo.Result, error) {
	untended, err := w.untended()
	if err != nil {
		return gitrepo.Result{}, err
	}
	// Not --quiet: with it git does not say that it rejected a rewritten branch.
	return w.gitRemote(ctx, slices.Concat(untended, []string{"fetch", "--no-tags", "--no-recurse-submodules", "--refmap="}, args)...)
}

func (w *work) fetchNow(ctx context.Context, t target) (string, error) {
	idle, err := w.nothingToMaintain()
	if err != nil {
		return "", err
	}
	if idle && t.tracking != "" && t.remote != "." {
		if id, done := w.repo.FetchFiles(t.remote, t.ref, t.tracking, w.now()); done {
			return id, nil
		}
	}
	// FETCH_HEAD is left to the pull of somebody else that may be about to read it.
	to := t.ref
	if t.tracking != "" && t.remote != "." {
		to += ":" + t.tracking
	}
	res, err := w.gitFetch(ctx, "--no-write-fetch-head", "--", t.remote, to)
	if err != nil {
		return "", err
	}
	if res.Code == 0 && t.tracking != "" {
		return w.ref(t.tracking)
	}
	if res.Code != 0 && !bytes.Contains(res.Stderr, []byte("[rejected]")) {
		if bytes.Contains(res.Stderr, []byte("find remote ref")) {
			if empty, err := w.emptyRemote(ctx, t); empty || err != nil {
				return "", err
			}
		}
		f := gitFailed("git fetch", res)
		if f.code, f.exit = codeRuntime, 2; f.hint == "" {
			f.withHint("try again when it answers; git remote set-url %s URL, if it has moved", finding.Word(t.remote))
		}
		return "", f
	}
	return w.remoteTip(ctx, t)
}

// remoteTip returns the commit at which the target's branch is, where no ref of this
// clone says so: a branch that was rewritten, or that none follows. The remote is asked,
// since any other fetch may write FETCH_HEAD meanwhile. Its objects are here, from the
// fetch before or from another one.
func (w *work) remoteTip(ctx context.Context, t target) (string, error) {
	for try := range 3 { // it may move in between
		if try > 0 {
			if _, err := w.gitFetch(ctx, "--no-write-fetch-head", "--", t.remote, t.ref); err != nil {
				return "", err
			}
		}
		res, err := w.gitRemote(ctx, "ls-remote", "--", t.remote, t.ref)
		if err != nil {
			return "", err
		}
		id := ""
		for line := range strings.Lines(string(res.Stdout)) {
			if of, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); name == t.ref {
				id = of
			}
		}
		if res.Code != 0 {
			f := gitFailed("git ls-remote", res)
			f.code, f.exit = codeRuntime, 2
			return "", f
		}
		if !w.repo.ValidID(id) {
			return "", fail(codeRuntime, "git fetch brought no commit of %s", quote(t.ref))
		}
		if typ, err := w.repo.Has([]string{id}); err != nil {
			return "", gitProblem(err)
		} else if typ[0] != "" {
			return id, nil
		}
	}
	return "", fail(codeRuntime, "%s moves faster than it is fetched; run this again when it rests", quote(t.ref))
}
