package hooks

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// A Receiver is what a gate knows of the repository that gets a push.
type Receiver struct {
	// Head is the full name of the default branch, "" if there is none or it
	// is not known; HeadID its commit before the push, "" if it has none or
	// that is not known.
	Head, HeadID string
	// Refs lists the refs of the receiver that are known.
	Refs func(context.Context) iter.Seq2[gitrepo.Ref, error]
	// Own says that it is the repository at hand: its symbolic refs are known,
	// all its objects are here, and a first push needs its consent.
	Own bool
	// Judged is the receiver's record of what it has judged; nil where that
	// cannot be known, so that all it has counts as judged.
	Judged *Judged
	// After says that the updates may have been made already, and that who
	// names them is trusted to say what was there before.
	After bool
}

// OwnReceiver is the repository at hand as the receiver: that of a server, to
// its own hooks.
func OwnReceiver(repo *gitrepo.Repo) (r Receiver, err error) {
	r.Own, r.Judged = true, judgedOf(repo)
	r.Refs = func(ctx context.Context) iter.Seq2[gitrepo.Ref, error] { return repo.Refs(ctx) }
	r.Head, r.HeadID, err = repo.HEAD()
	return r, err
}

// RemoteReceiver is a remote as far as it is known here by the refs that
// follow it: its branches, and which of them is the default.
func RemoteReceiver(ctx context.Context, repo *gitrepo.Repo, remote string) (Receiver, error) {
	at, err := repo.Remote(ctx, remote)
	return Receiver{Head: at.Head, HeadID: at.Refs[at.Head], Refs: refsOf(at.Refs)}, err
}

// refsOf lists refs by their names.
func refsOf(ids map[string]string) func(context.Context) iter.Seq2[gitrepo.Ref, error] {
	return func(context.Context) iter.Seq2[gitrepo.Ref, error] {
		return func(yield func(gitrepo.Ref, error) bool) {
			for _, name := range slices.Sorted(maps.Keys(ids)) {
				if !yield(gitrepo.Ref{Name: name, ID: ids[name]}, nil) {
					return
				}
			}
		}
	}
}

// A Door turns the ref updates of one push into what is to be judged: ranges of
// commits, and findings on the refs themselves. All gates that learn of ref
// updates ask it, so that one answers as the other.
//
// What is protected, and by which policy, signers and revocations it is judged,
// is said by the default branch's commit before the push, or by the receiver's
// own files: never by a ref that nobody guards, and never by the push.
type Door struct {
	Receiver
	Repo   *gitrepo.Repo
	Loader *policy.Loader
	Judge  *rules.Judge // gets the findings on refs
	// Free lets the commits of refs be judged that are not protected.
	Free bool

	// Policy and Trust are those of the receiver, once the door is open.
	Policy *policy.Policy
	Trust  *policy.Trust
	Refs   int      // updates so far
	Notes  []string // what is to be told besides

	consent bool
	listed  []gitrepo.Ref     // of the receiver, once they were asked for
	known   bool              // the next three were read
	tips    []string          // commits of protected refs before the push
	names   []string          // those refs
	base    []string          // commits whose history is accepted
	came    []string          // commits that protected refs get in this push
	before  map[string]string // by ref, what the updates found there; "" of new refs
	record  []record
}

// Open reads policy and trust for the updates of one push.
func (d *Door) Open(updates []change.RefUpdate) (err error) {
	d.before = map[string]string{}
	for _, u := range updates {
		if _, twice := d.before[u.Ref]; twice {
			continue
		}
		d.before[u.Ref] = ""
		if !u.Create() {
			d.before[u.Ref] = u.Old
		}
		if d.After && u.Ref == d.Head && u.New == d.HeadID && !u.Create() {
			if d.HeadID, err = d.commit(u.Old); err != nil {
				return err
			}
		}
	}
	if d.Policy, d.Trust, err = d.rules(); err != nil {
		return err
	}
	if d.Policy.LeavesOut(d.Head) {
		// Anybody can write to that branch, so what its tree says of signers
		// counts for nothing.
		if own, _, err := d.Loader.Repo.ConfigLast("rigward.allowedSigners"); err != nil {
			return err
		} else if own == "" {
			d.Trust = policy.NewTrust("", func() ([]byte, []policy.RevocationFile, error) {
				return nil, nil, &policy.Undecided{
					Message: "the server's own policy leaves the default branch out of protect, so anybody may write the signers file that lies there",
					Hint:    "on the server: git config rigward.allowedSigners FILE; or add the branch to protect",
				}
			})
		}
	}
	if d.Own {
		if d.consent, _, err = d.Repo.ConfigBool("rigward.bootstrap"); err != nil {
			return err
		}
		d.Judge.Bootstrap, d.Judge.Receives = d.consent, true
	}
	return d.Judged.open(d)
}

// rules reads policy and trust. Where anybody may write to the default branch, a
// malformed commit there, or a malformed tree, stops no push to other refs.
func (d *Door) rules() (*policy.Policy, *policy.Trust, error) {
	p, t, err := d.Loader.AtCommit(d.HeadID)
	var commit *gitrepo.MalformedCommitError
	var tree *gitrepo.MalformedTreeError
	if errors.As(err, &commit) || errors.As(err, &tree) {
		if own, none, e := d.Loader.AtCommit(""); e == nil && own.LeavesOut(d.Head) {
			return own, none, nil
		}
	}
	return p, t, err
}

// Each calls judge with the range that each update brings, if it brings one
// that is to be judged. It ends with the first error.
func (d *Door) Each(ctx context.Context, updates []change.RefUpdate, judge func(rules.Range) error) error {
	for _, u := range updates {
		if err := d.update(ctx, u, judge); err != nil {
			return err
		}
	}
	return nil
}

// head is the name of the default branch for the policy: "" if there is no such
// branch, for then any may become it.
func (d *Door) head() string {
	if d.HeadID == "" {
		return ""
	}
	return d.Head
}

// Guard reports whether history rules hold on a ref of the receiver, and why.
func (d *Door) Guard(ref string) (protected bool, why string) {
	return d.Policy.Guard(ref, d.head())
}

func (d *Door) update(ctx context.Context, u change.RefUpdate, judge func(rules.Range) error) (err error) {
	if d.Own {
		if u.Ref, err = d.target(u.Ref); err != nil {
			return err
		}
	}
	d.Refs++
	if twin, err := d.twin(ctx, u); err != nil {
		return err
	} else if twin != "" {
		d.Judge.Twin(d.Policy, u.Ref, twin)
	}
	guarded := d.Judge.Ref(d.Policy, u, d.head())
	if u.Delete() || !guarded && !d.Free {
		return nil
	}
	r := rules.Range{Ref: u.Ref, History: true, Policy: d.Policy, Trust: d.Trust, From: d.HeadID, Beside: d.HeadID == "" && u.Ref != d.Head}
	if r.New, err = d.commit(u.New); err != nil {
		return err
	}
	judged := true
	if u.Create() {
		if r.Exclude, err = d.accepted(ctx); err != nil {
			return err
		}
		if _, known := slices.BinarySearch(r.Exclude, r.New); known {
			r.Exclude = []string{r.New} // of many tips it is enough
		}
		if len(d.tips) == 0 {
			if err := d.first(); err != nil {
				return err
			}
		}
	} else {
		if !d.Own {
			if types, err := d.Repo.Has([]string{u.Old}); err != nil {
				return err
			} else if types[0] == "" {
				sign, err := d.Judge.Resign(r.New)
				if err != nil {
					return err
				}
				d.Judge.Findings = append(d.Judge.Findings, finding.Finding{Rule: "fast-forward", Severity: d.Policy.Level("fast-forward"), Ref: u.Ref,
					Message: "the remote has commits that this clone lacks, so the push cannot be a fast-forward", Hint: "git pull --rebase" + sign})
				return nil
			}
		}
		old, err := d.commit(u.Old)
		if err != nil {
			return err
		}
		if guarded {
			r.Old = old
		}
		if judged = !guarded || d.judged(u.Ref, old); judged {
			r.Exclude = []string{old}
			if u.Ref != d.Head && d.HeadID != "" && d.HeadID != old && d.settled(d.Head, d.HeadID) {
				r.Exclude = append(r.Exclude, d.HeadID)
			}
		} else if r.Exclude, err = d.accepted(ctx); err != nil {
			return err
		}
	}
	r.First = len(r.Exclude) == 0
	if d.Policy.NonceRefs {
		if _, err := d.accepted(ctx); err != nil {
			return err
		}
		r.NonceTips = slices.Concat(d.tips, d.came)
	}
	found := len(d.Judge.Findings)
	err = judge(r)
	refused := func(f finding.Finding) bool { return f.Severity == finding.Error }
	if !judged && (err != nil || slices.ContainsFunc(d.Judge.Findings[found:], refused)) {
		d.Notes = append(d.Notes, fmt.Sprintf("this server has not judged %s since it is protected, so all is judged that no other protected ref has; "+
			"push it anew while protect does not name it, or on the server: rig-hook accept --server DIR %s", finding.Path(u.Ref), finding.Word(u.Ref)))
	}
	if err != nil {
		return err
	}
	if guarded {
		if !slices.Contains(d.came, r.New) {
			d.came = append(d.came, r.New)
		}
		d.record = append(d.record, record{u, r.New})
	}
	return nil
}

// list returns the refs of the receiver.
func (d *Door) list(ctx context.Context) ([]gitrepo.Ref, error) {
	if d.listed != nil {
		return d.listed, nil
	}
	for ref, err := range d.Receiver.Refs(ctx) {
		if err != nil {
			return nil, err
		}
		d.listed = append(d.listed, ref)
	}
	return d.listed, nil
}

// twin returns the guarded ref that some file system takes for the one that an update
// makes, moves or deletes: where refs are files there, the update would be one of that
// ref. What is there under its own name stays free to move; "" for no twin.
func (d *Door) twin(ctx context.Context, u change.RefUpdate) (string, error) {
	if u.Ref == d.Head || d.Judged != nil && d.Judged.has(u.Ref, u.Old) || !rules.MayTwin(d.Policy, u.Ref, d.head()) {
		return "", nil
	}
	list, err := d.list(ctx)
	if err != nil {
		return "", err
	}
	key, twin := portable.Fold(u.Ref), ""
	others := []string{d.head()}
	for ref := range d.before {
		others = append(others, ref) // which the push may bring
	}
	for _, ref := range list {
		if ref.Name == u.Ref && !u.Create() {
			return "", nil
		}
		others = append(others, ref.Name)
	}
	slices.Sort(others)
	for _, other := range others {
		if other == u.Ref || portable.Fold(other) != key {
			continue
		}
		if guarded, _ := d.Guard(other); guarded {
			twin = other
			break
		}
	}
	return twin, nil
}

// settled reports whether a ref is protected, and the commit that it has judged.
func (d *Door) settled(ref, id string) bool {
	protected, _ := d.Guard(ref)
	return protected && d.judged(ref, id)
}

// judged reports whether the receiver has judged a commit that one of its
// protected refs has. The default branch is protected as long as it is the
// default, so its name is enough.
func (d *Door) judged(ref, id string) bool {
	return d.Judged == nil || d.Judged.has(ref, id) || ref == d.Head && d.Judged.isDefault(ref)
}

// accepted returns the commits, sorted, whose history counts as accepted: what
// protected refs have that are known to have been judged, what the receiver's
// record names, and the server's baseline. It reads d.tips besides. Nothing of
// it changes while a push is judged, so that all is read once.
func (d *Door) accepted(ctx context.Context) ([]string, error) {
	if d.known {
		return d.base, nil
	}
	list, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, ref := range list {
		if protected, _ := d.Guard(ref.Name); !protected || ref.Target != "" {
			continue
		}
		id := ref.ID
		if before, moves := d.before[ref.Name]; moves && d.After {
			if id = before; id == "" {
				continue
			}
		}
		id, err := d.commit(id)
		var none *policy.Undecided
		if errors.As(err, &none) {
			continue // a tag of a tree or a blob
		}
		if err != nil {
			return nil, err
		}
		d.tips, d.names = append(d.tips, id), append(d.names, ref.Name)
		if d.judged(ref.Name, id) {
			d.base = append(d.base, id)
		}
	}
	more, err := d.Judged.commits(d.Repo)
	if err != nil {
		return nil, err
	}
	base, err := d.Repo.PresentCommits(d.Policy.Baseline)
	if err != nil {
		return nil, err
	}
	d.base = slices.Concat(d.base, more, base)
	slices.Sort(d.base)
	d.base, d.known = slices.Compact(d.base), true
	return d.base, nil
}

// pending reports whether a ref is protected and was at a commit, "" for none,
// when what protected refs have was read.
func (d *Door) pending(ref, commit string) bool {
	protected, _ := d.Guard(ref)
	at := ""
	if i := slices.Index(d.names, ref); i >= 0 {
		at = d.tips[i]
	}
	return protected && at == commit
}

// first refuses the first push into an empty repository, where nothing can be
// trusted yet, unless the server says what to judge it by or that it may come.
func (d *Door) first() error {
	if d.consent || !d.Own {
		return nil
	}
	if paths, err := d.Loader.ServerPaths(); paths || err != nil {
		return err
	}
	return &policy.Undecided{
		Message: "the first push into an empty repository: there is no policy and no signer yet to judge it by",
		Hint:    "on the server: git config rigward.bootstrap true",
	}
}

// unborn tells, at a server, of a push that brings branches but not the default
// one, which does not exist: policy and signers of no other branch count, so
// neither do those of this push. Who clones an empty repository by a transport
// without git's protocol 2 gets a branch whose name the server never said.
func (d *Door) unborn(updates []change.RefUpdate) error {
	if !d.Own || d.Head == "" || d.HeadID != "" {
		return nil
	}
	if paths, err := d.Loader.ServerPaths(); paths || err != nil {
		return err
	}
	branch := ""
	for _, u := range updates {
		if u.Ref == d.Head {
			return nil
		}
		if name, ok := strings.CutPrefix(u.Ref, "refs/heads/"); ok && branch == "" && !u.Delete() {
			branch = name
		}
	}
	if branch != "" {
		d.Notes = append(d.Notes, fmt.Sprintf("the default branch %s does not exist here, and policy and signers of no other branch count: "+
			"git push origin %s, or on the server: git symbolic-ref HEAD %s", finding.Path(d.Head),
			finding.Word(branch+":"+strings.TrimPrefix(d.Head, "refs/heads/")), finding.Word("refs/heads/"+branch)))
	}
	return nil
}

// target follows a symbolic ref: a push through it moves, and deletes, the ref
// that it names (docs/spec/policy.md#protected).
func (d *Door) target(ref string) (string, error) { return target(d.Repo, ref) }

func target(repo *gitrepo.Repo, ref string) (string, error) {
	for range 5 {
		next, ok, err := repo.SymbolicTarget(ref)
		if err != nil || !ok {
			return ref, err
		}
		ref = next
	}
	return "", &policy.Undecided{Message: "the symbolic ref " + finding.Quote(ref) + " leads too far"}
}

func (d *Door) commit(id string) (string, error) { return commitOf(d.Repo, id) }

// tagHead is how many bytes of a tag are read: more than its first line has.
const tagHead = 128

// commitOf returns the commit that an object id stands for, peeling tags. Of what is
// no commit it is policy.Undecided, however large that is: of refs that nobody judges,
// anybody decides what they point at.
func commitOf(repo *gitrepo.Repo, id string) (string, error) {
	for range 10 {
		types, err := repo.Has([]string{id})
		switch {
		case err != nil:
			return "", err
		case types[0] == "commit":
			return id, nil
		case types[0] != "" && types[0] != "tag":
			return "", &policy.Undecided{Message: fmt.Sprintf("object %s is a %s, expected a commit", id, types[0])}
		}
		var data []byte
		err = repo.Heads([]string{id}, tagHead, func(o gitrepo.Object) error { data = o.Data; return o.Err })
		if err != nil {
			return "", err
		}
		line, _, _ := strings.Cut(string(data), "\n")
		next, ok := strings.CutPrefix(line, "object ")
		if !ok || !repo.ValidID(next) {
			return "", &policy.Undecided{Message: "tag " + id + " is malformed"}
		}
		id = next
	}
	return "", &policy.Undecided{Message: "too many tags point to each other"}
}
