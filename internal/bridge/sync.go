package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// Reasons of a refused sync, in the order in which the first that holds is
// told (docs/spec/client.md#sync).
const (
	reasonRewritten = "remote_history_rewritten"
	reasonDiverged  = "both_sides_diverged"
	reasonNonAppend = "non_append_change_on_remote"
	reasonContent   = "invalid_content"
	reasonInTheWay  = "local_files_in_the_way"
)

// added is an envelope that commits of one side brought.
type added struct {
	path, thread string
	commit       string // that added it
	blob         string
	from, typ    string
	date         string
	hash, reply  string
	references   []string
}

// changed is a path that was touched otherwise than by adding an envelope.
type changed struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Commit string `json:"commit"`
}

// incoming is what the commits of one side that the other lacks contain.
type incoming struct {
	added     []added // present at the tip, by path
	changed   []changed
	findings  []finding.Finding
	trusted   []string // paths of policy, signers and revocations that are changed
	trustedBy []string // the last commit that changes each
	moves     []trustChange
	beside    bool // a commit changes what is in no thread
	signed    bool // a commit has a signature
}

// incoming judges the commits of theirs that head lacks: every one, against
// each parent, without rename detection, by the rules of the push gate.
func (r *run) incoming(w *work, t target, head, theirs string) (*incoming, error) {
	in, err := r.collect(w, head, theirs)
	if err != nil {
		return nil, err
	}
	in.findings, err = w.judgeRange(r.ctx, t, head, theirs, head, false, true)
	if err != nil && r.ctx.Err() == nil {
		own, cerr := w.judgeContent(in.added)
		if cerr == nil && finding.Worst(own) == finding.Error {
			in.findings, err = own, nil
		}
	} else if err == nil {
		err = w.takenOut(in)
	}
	if err != nil {
		return in, forReader(err, t)
	}
	if _, other, err := w.trusted(head); err != nil || other { // what the branch has of such files counts for nothing
		return in, err
	}
	in.moves, err = w.trustChanges(r.ctx, in, head, theirs)
	return in, err
}

// takenOut takes off the list of changes the tombstones that the gates let pass.
func (w *work) takenOut(in *incoming) error {
	var left []changed
	for _, c := range in.changed {
		if c.Reason == "modified" && !slices.ContainsFunc(in.findings, func(f finding.Finding) bool { return f.Rule == "append-only" && f.Path == c.Path }) {
			tree, err := w.tree(c.Commit)
			if err != nil {
				return err
			}
			e, _, err := w.repo.EntryAt(tree, c.Path)
			if err != nil {
				return gitProblem(err)
			}
			data, err := w.repo.Blob(e.ID, envelope.DefaultLimits().File)
			if err != nil {
				return gitProblem(err)
			}
			if env, _ := envelope.Parse(data, envelope.Options{}); env != nil && env.Tombstone != nil {
				continue
			}
		}
		left = append(left, c)
	}
	in.changed = left
	return nil
}

// forReader is an undecided judgement of what others sent, told to the one who
// pulls: the hints of the gates are for the one who pushes.
func forReader(err error, t target) error {
	var u *policy.Undecided
	if !errors.As(err, &u) || !errors.Is(err, policy.ErrNobody) {
		return err
	}
	f := asFailure(context.Background(), err)
	f.message = "what came from " + quote(t.label()) + " must be signed, and this clone knows no signers"
	return f.withHint("ask who looks after the server for its signers file, then: git config rigward.allowedSigners FILE; "+
		"or a person looks at it with git log --patch ..%s and takes it with git merge --ff-only %s", finding.Word(t.label()), finding.Word(t.label()))
}

// collect sorts the changes of the commits of tip that base lacks.
func (r *run) collect(w *work, base, tip string) (*incoming, error) {
	in := &incoming{}
	if tip == "" || tip == base {
		return in, nil
	}
	news := map[string]added{}
	told := map[string]bool{}
	blame := func(path, reason, commit string) {
		if !told[path] {
			told[path] = true
			in.changed = append(in.changed, changed{path, reason, commit})
		}
	}
	p, _, err := w.policyAt(base)
	if err != nil {
		return nil, err
	}
	err = w.scan(r.ctx, base, tip, func(c *gitrepo.Scanned) error {
		in.signed = in.signed || c.Commit.Signed()
		for _, d := range c.Diffs {
			isEnvelope, err := w.envelopes(p, d.Changes)
			if err != nil {
				return err
			}
			for _, ch := range d.Changes {
				switch was, is := isEnvelope(ch.Path, ch.OldMode, ch.OldID), isEnvelope(ch.Path, ch.NewMode, ch.NewID); {
				case p.Guards(ch.Path):
					in.trust(ch.Path, c.ID)
				case was:
					blame(ch.Path, how(ch), c.ID)
				case is:
					if _, known := news[ch.Path]; !known {
						thread, _ := splitPath(ch.Path)
						news[ch.Path] = added{path: ch.Path, thread: thread, commit: c.ID, blob: ch.NewID}
					}
				case len(c.Diffs) > 1 && w.accepted(base, ch): // the merge takes what is accepted here
				case !p.TakesOutside(ch.Path):
					blame(ch.Path, "outside-thread", c.ID)
				default:
					in.beside = true
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if slices.Contains(in.trusted, policy.Path) {
		if err := r.newlyTrusted(w, in, p, base, tip); err != nil {
			return nil, err
		}
	}
	thread, files := "", (*gitrepo.Tree)(nil)
	for _, path := range slices.Sorted(maps.Keys(news)) {
		a := news[path]
		if a.thread != thread {
			if files, err = w.threadTree(tip, a.thread); err != nil {
				return nil, err
			}
			thread = a.thread
		}
		_, name := splitPath(path)
		e, present := files.Lookup(name)
		if !present {
			continue
		}
		a.blob = e.ID
		if err := w.describe(&a); err != nil {
			return nil, err
		}
		in.added = append(in.added, a)
	}
	return in, nil
}

// trust notes that a commit changes a file that says who is trusted.
func (in *incoming) trust(path, commit string) {
	if i := slices.Index(in.trusted, path); i >= 0 {
		in.trustedBy[i] = commit
	} else {
		in.trusted, in.trustedBy = append(in.trusted, path), append(in.trustedBy, commit)
	}
}

// newlyTrusted notes the changes of files that say who is trusted only by the policy
// that comes with them, as a list of revoked keys does that it is the first to name.
func (r *run) newlyTrusted(w *work, in *incoming, before *policy.Policy, base, tip string) error {
	after, _, err := w.policyAt(tip)
	if err != nil || after.Signers == before.Signers && after.Revoked == before.Revoked {
		return nil // one that cannot be read names none; the judge tells of it
	}
	return w.scan(r.ctx, base, tip, func(c *gitrepo.Scanned) error {
		for _, d := range c.Diffs {
			for _, ch := range d.Changes {
				if after.Guards(ch.Path) && !before.Guards(ch.Path) && !envelope.IsEnvelopePath(ch.Path) {
					in.trust(ch.Path, c.ID)
				}
			}
		}
		return nil
	})
}

// describe reads what a report says about an envelope.
func (w *work) describe(a *added) error {
	_, data, err := w.repo.Object(a.blob, envelope.DefaultLimits().File)
	if err != nil {
		return gitProblem(err)
	}
	if e, _ := envelope.Parse(data, envelope.Options{}); e != nil {
		a.from, a.typ, a.date, a.hash, a.reply, a.references = e.From, e.Type, e.Date, e.Hash, e.InReplyTo, e.References
	}
	return nil
}

// how says in one word what happens to an envelope.
func how(ch gitrepo.Change) string {
	switch {
	case ch.Deleted():
		return "deleted"
	case ch.OldMode&modeType != ch.NewMode&modeType:
		return "retyped"
	case ch.OldID != ch.NewID:
		return "modified"
	}
	return "mode-changed"
}

const modeType = 0o170000

// envelopes returns what says whether an entry of one of the two sides of some
// changes is an envelope.
func (w *work) envelopes(p *policy.Policy, changes []gitrepo.Change) (func(path string, mode gitrepo.Mode, id string) bool, error) {
	var ids []string
	for _, ch := range changes {
		if !p.Candidate(ch.Path) {
			continue
		}
		if ch.OldMode.IsFile() {
			ids = append(ids, ch.OldID)
		}
		if ch.NewMode.IsFile() {
			ids = append(ids, ch.NewID)
		}
	}
	heads := map[string][]byte{}
	i := 0
	err := w.repo.Heads(ids, envelope.FenceBytes, func(o gitrepo.Object) error {
		if o.Err != nil {
			return o.Err
		}
		heads[ids[i]] = bytes.Clone(o.Data)
		i++
		return nil
	})
	if err != nil {
		return nil, gitProblem(err)
	}
	return func(path string, mode gitrepo.Mode, id string) bool { return p.Accepted(path, mode, heads[id]) }, nil
}

// accepted reports whether a merge's version of a path outside the threads is
// the one that base has.
func (w *work) accepted(base string, ch gitrepo.Change) bool {
	if base == "" || envelope.IsEnvelopePath(ch.Path) {
		return false
	}
	tree, err := w.tree(base)
	if err != nil {
		return false
	}
	e, ok, err := w.repo.EntryAt(tree, ch.Path)
	return err == nil && ok && e.ID == ch.NewID && e.Mode == ch.NewMode
}

// A collision is one path with different content on both sides.
type collision struct {
	Path   string `json:"path"`
	Local  string `json:"local"`  // blob id
	Remote string `json:"remote"` // blob id

	commit string // of this clone
}

type side struct {
	Path   string `json:"path"`
	From   string `json:"from"`
	Date   string `json:"date"`
	Commit string `json:"commit"`
}

// A divergence is a pair of envelopes of one thread of which neither knew the
// other (lock L3).
type divergence struct {
	ThreadID string `json:"thread_id"`
	Local    side   `json:"local"`
	Remote   side   `json:"remote"`
}

func collisions(ours, theirs []added) []collision {
	mine := map[string]added{}
	for _, a := range ours {
		mine[a.path] = a
	}
	out := []collision{}
	for _, b := range theirs {
		if a, both := mine[b.path]; both && a.blob != b.blob {
			out = append(out, collision{b.path, a.blob, b.blob, a.commit})
		}
	}
	return out
}

func divergences(ours, theirs []added) []divergence {
	byThread := map[string][]added{}
	for _, a := range ours {
		byThread[a.thread] = append(byThread[a.thread], a)
	}
	out := []divergence{}
	for _, b := range theirs {
		for _, a := range byThread[b.thread] {
			if a.path == b.path && a.blob == b.blob || knows(a, b) || knows(b, a) {
				continue
			}
			out = append(out, divergence{b.thread, side{a.path, a.from, a.date, a.commit}, side{b.path, b.from, b.date, b.commit}})
		}
	}
	return out
}

// knows reports whether a shows that its author had seen b.
func knows(a, b added) bool {
	if a.reply != "" && a.reply == b.hash {
		return true
	}
	return slices.ContainsFunc(a.references, func(ref string) bool { return ref != "" && strings.HasPrefix(b.commit, ref) })
}

type newEnvelope struct {
	Path     string `json:"path"`
	ThreadID string `json:"thread_id"`
	SHA      string `json:"sha"`
	From     string `json:"from"`
	Type     string `json:"type"`

	Verdict jsonVerdict `json:"verdict"`

	word string // the verdict for people
}

type divergenceReport struct {
	FastForwardEligible bool          `json:"fast_forward_eligible"`
	Diverged            bool          `json:"diverged"`
	LocalHead           string        `json:"local_head"`
	RemoteHead          string        `json:"remote_head"`
	MergeBase           *string       `json:"merge_base"`
	NewEnvelopes        []newEnvelope `json:"new_envelopes"`
	ChangedEnvelopes    []changed     `json:"changed_envelopes"`
	Collisions          []collision   `json:"collisions"`
	Divergences         []divergence  `json:"divergences"`
}

type syncObject struct {
	head
	Event               string           `json:"event,omitempty"`
	Seq                 int              `json:"seq,omitempty"`
	At                  string           `json:"at,omitempty"`
	Pulled              bool             `json:"pulled"`
	FastForwardEligible bool             `json:"fast_forward_eligible"`
	FastForward         bool             `json:"fast_forward"`
	Diverged            bool             `json:"diverged"`
	NewEnvelopes        int              `json:"new_envelopes"`
	NewEnvelopesCount   int              `json:"new_envelopes_count"`
	ChangedCount        int              `json:"changed_envelopes_count"`
	LocalHead           string           `json:"local_head"`
	RemoteHead          string           `json:"remote_head"`
	Reason              string           `json:"reason,omitempty"`
	Report              divergenceReport `json:"divergence_report"`
	Findings            []jsonFinding    `json:"findings"`
	TrustChanges        []trustChange    `json:"trust_changes,omitempty"`
	ControlPlane        string           `json:"control_plane,omitempty"` // with --check: whether its last row is of HEAD

	rebase  string   // what brings two sides together that both moved
	bySend  bool     // the next send does
	blocked []string // paths of this clone that are in the way
}

// runSync is `rig-bridge sync` (docs/spec/client.md#sync).
func runSync(r *run) error {
	if r.opts.Has("--check") && r.opts.Has("--auto") {
		return usageError(r.cmd, "--check writes nothing, --auto pulls; use one of them")
	}
	interval, err := r.interval(defaultSyncInterval)
	if err != nil {
		return err
	}
	if r.opts.Has("--watch") {
		return r.watch(interval, func() (watched, error) {
			o, err := r.syncOnce()
			if err != nil {
				return nil, err
			}
			return o, nil
		})
	}
	o, err := r.syncOnce()
	if err != nil {
		return err
	}
	if o.Reason != "" {
		r.exit = 1
	}
	if r.json {
		return r.object(o)
	}
	line := fmt.Sprintf("rig-bridge: sync pulled=%t fast_forward=%t diverged=%t new_envelopes=%d", o.Pulled, o.FastForward, o.Diverged, o.NewEnvelopes)
	if o.Reason != "" {
		line += " reason=" + o.Reason
	}
	r.out.WriteString(line + "\n")
	return nil
}

// syncOnce is one round: fetch, judge, and with --auto pull.
func (r *run) syncOnce() (*syncObject, error) {
	w, err := r.open()
	if err != nil {
		return nil, err
	}
	defer w.close()
	t, err := w.target()
	if err != nil {
		return nil, err
	}
	if !t.upstream {
		f := fail(codeRefused, "the branch %s has no upstream to sync with", quote(t.short()))
		there, err := w.ref(t.tracking)
		switch {
		case t.remote == "":
			return nil, f.withHint("git remote add origin <url> && git push --set-upstream origin %s", finding.Word(t.short()))
		case err == nil && there != "":
			return nil, f.withHint("git branch --set-upstream-to=%s", finding.Word(t.label()))
		}
		return nil, f.withHint("git push --set-upstream %s %s", finding.Word(t.remote), finding.Word(t.short()))
	}
	if r.opts.Has("--auto") {
		unlock, err := w.lock(r.ctx)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if err := w.afterKilled(r.ctx, t); err != nil {
			return nil, err
		}
	}
	head, err := w.ref(t.branch)
	if err != nil {
		return nil, err
	}
	seen, err := w.ref(t.tracking)
	if err != nil {
		return nil, err
	}
	theirs := seen
	if r.opts.Has("--check") {
		if seen == "" {
			return nil, fail(codeRuntime, "nothing was fetched from %s yet", quote(t.label())).withHint("rig-bridge sync")
		}
	} else {
		follows, err := w.follows()
		if err != nil {
			return nil, err
		}
		var before []sighting
		if follows {
			if before, err = w.witnessed(); err != nil {
				return nil, err
			}
		}
		if theirs, err = w.fetch(r.ctx, t); err != nil {
			return nil, err
		}
		if err := w.refresh(r.ctx); err != nil {
			return nil, err
		}
		if follows {
			if err := r.attested(w, t, before, head, theirs); err != nil {
				return nil, err
			}
		}
	}
	o, err := r.compare(w, t, head, seen, theirs)
	if err != nil {
		return nil, err
	}
	if o.Reason == "" && theirs != head && !o.ahead && (r.opts.Has("--auto") || r.agreed(o.syncObject)) {
		if err := r.pull(w, t, o.syncObject, head, theirs); err != nil {
			return nil, err
		}
	}
	r.tell(t, o.syncObject)
	if r.opts.Has("--check") {
		o.ControlPlane = r.lastSeen()
	} else {
		r.record()
	}
	return o.syncObject, nil
}

// joined takes what others have pushed meanwhile into a clone that was made when the
// remote was empty: a first commit of its own could not be put on top of theirs. It
// returns the branch's tip, "" while there is nothing.
func (r *run) joined(w *work, t target) (string, error) {
	if t.remote == "" || t.remote == "." {
		return "", nil
	}
	seen, err := w.ref(t.tracking)
	if err != nil {
		return "", err
	}
	theirs, err := w.fetch(r.ctx, t)
	if theirs == "" || err != nil {
		return "", r.ctx.Err() // the push says what is wrong with the remote
	}
	if err := w.refresh(r.ctx); err != nil {
		return "", err
	}
	o, err := r.compare(w, t, "", seen, theirs)
	if err == nil && o.Reason == "" {
		err = r.pull(w, t, o.syncObject, "", theirs)
	}
	if err != nil {
		return "", err
	}
	if !o.Pulled {
		return "", fail(codeRefused, "what others sent to %s cannot be taken first: %s", quote(t.label()), o.Reason).
			withHint("rig-bridge sync").orTool("wait says what stands in the way")
	}
	return theirs, nil
}

type comparison struct {
	*syncObject
	ahead bool // theirs is in our history: there is nothing to pull
}

// compare judges theirs against head. seen is what the tracking ref held
// before the fetch.
func (r *run) compare(w *work, t target, head, seen, theirs string) (*comparison, error) {
	ctx := r.ctx
	o := &syncObject{head: r.head(), LocalHead: head, RemoteHead: theirs, Findings: []jsonFinding{}}
	rep := &o.Report
	*rep = divergenceReport{LocalHead: head, RemoteHead: theirs, NewEnvelopes: []newEnvelope{}, ChangedEnvelopes: []changed{}, Collisions: []collision{}, Divergences: []divergence{}}
	c := &comparison{syncObject: o}
	kept, err := w.ancestor(ctx, seen, theirs)
	if err != nil {
		return nil, err
	}
	// In a shallow clone "no" is not certain, so it is not asked for where the
	// other answer decides.
	behind, berr := w.ancestor(ctx, head, theirs)
	if !behind || head == theirs {
		if c.ahead, err = w.ancestor(ctx, theirs, head); err == nil && !c.ahead {
			err = berr
		}
		if err != nil {
			return nil, err
		}
	}
	if head != "" && theirs != "" {
		bases, err := w.repo.MergeBases(ctx, head, theirs)
		if err != nil {
			return nil, gitProblem(err)
		}
		if len(bases) > 0 {
			rep.MergeBase = &bases[0]
		}
	}
	in := &incoming{}
	if !c.ahead {
		if in, err = r.incoming(w, t, head, theirs); err != nil {
			return nil, err
		}
	}
	book, err := r.bookOfTheirs(w, theirs)
	if err != nil {
		return nil, err
	}
	for _, a := range in.added {
		_, file := splitPath(a.path)
		v := book.Thread(a.thread).Of(file, a.blob)
		rep.NewEnvelopes = append(rep.NewEnvelopes, newEnvelope{a.path, a.thread, a.commit, a.from, a.typ, jsonOf(v), r.verdictLine(v, a.from)})
	}
	rep.ChangedEnvelopes = append(rep.ChangedEnvelopes, in.changed...)
	if !behind && !c.ahead {
		ours, err := r.collect(w, theirs, head)
		if err != nil {
			return nil, err
		}
		rep.Collisions = collisions(ours.added, in.added)
		if o.rebase, err = w.rebaseHint(o, t, ours, in, rep.Collisions); err != nil {
			return nil, err
		}
		rep.Divergences = divergences(ours.added, in.added)
	}
	if !kept {
		lost, err := r.lost(w, seen, theirs)
		if err != nil {
			return nil, err
		}
		rep.ChangedEnvelopes = append(rep.ChangedEnvelopes, lost...)
	}
	switch {
	case !kept:
		o.Reason = reasonRewritten
	case !behind && !c.ahead:
		o.Reason = reasonDiverged
	case len(in.changed) > 0:
		o.Reason = reasonNonAppend
	case finding.Worst(in.findings) == finding.Error:
		o.Reason = reasonContent
	}
	if slices.ContainsFunc(in.findings, func(f finding.Finding) bool { return f.Rule == "clone-config" && f.Severity == finding.Error }) {
		r.theirConfig()
	}
	o.Diverged = o.Reason == reasonRewritten || o.Reason == reasonDiverged || o.Reason == reasonNonAppend
	o.FastForward = o.Reason == ""
	o.FastForwardEligible = o.FastForward
	rep.FastForwardEligible, rep.Diverged = o.FastForward, o.Diverged
	o.NewEnvelopes = len(rep.NewEnvelopes)
	o.NewEnvelopesCount = o.NewEnvelopes
	o.ChangedCount = len(rep.ChangedEnvelopes)
	o.Findings = jsonFindings(in.findings)
	o.TrustChanges = in.moves
	return c, nil
}

// rebaseHint says how the unpushed commits come on top of theirs; "" where what
// came is refused. A signature is made again: rebase drops it otherwise.
func (w *work) rebaseHint(o *syncObject, t target, ours, theirs *incoming, both []collision) (string, error) {
	if finding.Worst(theirs.findings) == finding.Error {
		return "", nil
	}
	command := "git rebase "
	if ours.signed {
		command += "--gpg-sign "
	}
	command += finding.Word(t.label())
	switch other := len(ours.changed) > 0 || ours.trusted != nil || ours.beside; {
	case other && len(both) > 0:
		return fmt.Sprintf("run `%s`, and `git rebase --skip` where it stops: that leaves out the unpushed one of two", command), nil
	case other:
		return fmt.Sprintf("run `%s`", command), nil
	}
	for _, c := range both {
		keeps, err := w.keptName(c)
		if err != nil {
			return "", err
		}
		if keeps {
			return fmt.Sprintf("run `%s` to let theirs stand and drop %s", dropCommand(c.commit, ours.signed), short(c.commit)), nil
		}
	}
	o.bySend = true
	if len(both) > 0 {
		return "the next send puts the unpushed messages on top, under free names", nil
	}
	return fmt.Sprintf("the next send puts the unpushed messages on top, or run `%s`", command), nil
}

// lost names the envelopes that a rewritten branch lacks or holds otherwise.
func (r *run) lost(w *work, seen, theirs string) ([]changed, error) {
	changes, err := w.diff(seen, theirs)
	if err != nil {
		return nil, err
	}
	var out []changed
	for _, ch := range changes {
		switch {
		case !envelope.IsEnvelopePath(ch.Path) || ch.Added():
		case ch.Deleted():
			out = append(out, changed{ch.Path, "deleted", theirs})
		case ch.OldMode&modeType != ch.NewMode&modeType:
			out = append(out, changed{ch.Path, "retyped", theirs})
		case ch.OldID != ch.NewID:
			out = append(out, changed{ch.Path, "modified", theirs})
		default:
			out = append(out, changed{ch.Path, "mode-changed", theirs})
		}
	}
	return out, nil
}

// pull fast-forwards the branch to exactly theirs.
func (r *run) pull(w *work, t target, o *syncObject, head, theirs string) error {
	blocked, err := r.inTheWay(w, head, theirs)
	if err != nil {
		return err
	}
	if len(blocked) == 0 {
		untended, err := w.untended()
		if err != nil {
			return err
		}
		var res gitrepo.Result
		err = w.noted(r.ctx, pullingNote, t, head+" "+theirs, func() error {
			res, err = w.git(r.ctx, append(untended, "merge", "--ff-only", "--no-squash", "--quiet", "--no-autostash", "--no-overwrite-ignore", theirs)...)
			return err
		})
		if err != nil {
			return err
		}
		now, err := w.ref(t.branch)
		if err != nil {
			return err
		}
		if now == theirs {
			o.Pulled = true
			r.kept = fmt.Sprintf("the branch %s is at %s", t.short(), short(theirs))
			return nil
		}
		f := gitFailed("git merge", res)
		if f.code == codeRuntime {
			return f
		}
		if strings.Contains(f.message, "GPG signature") { // merge.verifySignatures is the user's own word
			return f.withHint("git merge --ff-only --no-verify-signatures %s", short(theirs))
		}
		if f.hint != "" {
			return f
		}
		if blocked = overwritten(res.Stderr); len(blocked) == 0 {
			blocked = []string{f.message}
		}
	}
	o.Reason, o.blocked = reasonInTheWay, blocked
	for i, path := range blocked {
		if i == 3 {
			r.note("and %d more", len(blocked)-i)
			break
		}
		r.note("in the way: %s", path)
	}
	if slices.Contains(blocked, configFile) {
		r.theirConfig()
	}
	return nil
}

// theirConfig says how the configuration of another clone is taken out.
func (r *run) theirConfig() {
	r.note("%s is each clone's own, and somebody has committed theirs; `%s` there takes it out", configFile,
		rules.WithoutConfig(configFile)+" && git push")
}

// overwritten lists the files that git merge says it would overwrite: one a
// line, after a TAB.
func overwritten(stderr []byte) []string {
	var out []string
	for line := range strings.Lines(string(stderr)) {
		if name, ok := strings.CutPrefix(line, "\t"); ok {
			out = append(out, finding.Path(strings.TrimSuffix(name, "\n")))
		}
	}
	return out
}

// inTheWay lists the paths that a fast-forward would touch and that are
// untracked or changed here.
func (r *run) inTheWay(w *work, head, theirs string) ([]string, error) {
	changes, err := w.diff(head, theirs)
	if err != nil {
		return nil, err
	}
	var out []string
	var known []string
	for _, ch := range changes {
		if !ch.Added() {
			known = append(known, ch.Path)
			continue
		}
		if _, err := os.Lstat(filepath.Join(w.root, filepath.FromSlash(ch.Path))); err == nil {
			out = append(out, finding.Path(ch.Path))
		}
	}
	if len(known) > 0 {
		res, err := w.git(r.ctx, append([]string{"diff-index", "-z", "--name-only", head, "--"}, known...)...)
		if err != nil {
			return nil, err
		}
		for _, path := range strings.Split(string(res.Stdout), "\x00") {
			if path != "" {
				out = append(out, finding.Path(path))
			}
		}
	}
	return out, nil
}

// tell names everything that stands between the two sides, at once (lock L4).
func (r *run) tell(t target, o *syncObject) {
	var lines []string
	for _, c := range o.Report.ChangedEnvelopes {
		lines = append(lines, fmt.Sprintf("%s: %s by commit %s", finding.Path(c.Path), c.Reason, short(c.Commit)))
	}
	for _, f := range o.Findings {
		if f.Severity == "error" {
			lines = append(lines, told(f))
		}
	}
	for _, c := range o.Report.Collisions {
		lines = append(lines, fmt.Sprintf("%s: exists on both sides with different content", finding.Path(c.Path)))
	}
	for _, d := range o.Report.Divergences {
		since := "no common commit"
		if o.Report.MergeBase != nil {
			since = short(*o.Report.MergeBase)
		}
		lines = append(lines, fmt.Sprintf("thread %s: %s by %s and %s by %s were written without knowledge of each other since %s",
			d.ThreadID, finding.Path(d.Local.Path), quote(d.Local.From), finding.Path(d.Remote.Path), quote(d.Remote.From), since))
	}
	for _, c := range o.TrustChanges {
		lines = append(lines, c.lines()...)
	}
	for _, e := range o.Report.NewEnvelopes {
		lines = append(lines, fmt.Sprintf("%s by %s: %s", finding.Path(e.Path), quote(e.From), e.word))
	}
	const most = 20
	for i, line := range lines {
		if i == most-1 && len(lines) > most {
			r.note("and %d more", len(lines)-i)
			break
		}
		r.note("%s", line)
	}
	up := finding.Word(t.label())
	switch {
	case o.Reason == reasonDiverged && o.rebase != "":
		r.note("both sides moved; %s", o.rebase)
	case o.Reason == "" && len(o.TrustChanges) > 0 && !o.Pulled && o.LocalHead != o.RemoteHead:
		r.note("whom to trust changes; `rig-bridge sync --auto` takes it")
	case o.Reason == "" && !r.opts.Has("--auto") && o.NewEnvelopes > 0:
		r.note("`rig-bridge sync --auto` takes what came")
	case o.Reason == reasonNonAppend || o.Reason == reasonContent:
		r.note("look at it with `git log --patch ..%s`; if it is to stand, a person takes it with `git merge --ff-only %s`", up, up)
	}
}

// keptName reports whether the message of this clone in a collision keeps its
// name, so that no send can put it on top.
func (w *work) keptName(c collision) (bool, error) {
	commit, err := w.repo.Commit(c.commit)
	if err != nil {
		return false, gitProblem(err)
	}
	_, data, err := w.repo.Object(c.Local, envelope.DefaultLimits().File)
	if err != nil {
		return false, gitProblem(err)
	}
	e, _ := envelope.Parse(data, envelope.Options{})
	return e != nil && keepsName(e, string(commit.Message)), nil
}

// told is a finding as a line of sync, with what is known of its place.
func told(f jsonFinding) string {
	text := fmt.Sprintf("%s [%s]", f.Message, f.Rule)
	switch {
	case f.Path == "":
		return fmt.Sprintf("commit %s: %s", short(f.Commit), text)
	case f.Line == 0:
		return fmt.Sprintf("%s: %s (commit %s)", finding.Path(f.Path), text, short(f.Commit))
	}
	return fmt.Sprintf("%s:%d:%d: %s (commit %s)", finding.Path(f.Path), f.Line, f.Col, text, short(f.Commit))
}
