package hooks

import (
	"context"
	"errors"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// A GuardedRef is what holds on a ref.
type GuardedRef struct {
	Ref     string
	Guarded bool   // history rules hold
	Why     string // they hold, or do not
	Note    string // what is to be known of it besides, "" for nothing
}

// A Guarding says of every ref of a repository, or of the remote that a clone
// pushes to, whether it is guarded.
type Guarding struct {
	Refs     []GuardedRef
	Warnings []string // on the repository as a whole
}

// NewDoor opens a door to a repository without any update: the bare repository
// at hand or, of a clone, its remote origin as far as it is known here.
func NewDoor(ctx context.Context, repo *gitrepo.Repo) (*Door, error) {
	at, err := OwnReceiver(repo)
	if err != nil {
		return nil, err
	}
	d := &Door{Receiver: at, Repo: repo, Loader: NewLoader(repo), Judge: &rules.Judge{Repo: repo}}
	if !repo.Bare() {
		d.Judged = nil
		if d.Loader.Own, err = OwnPolicy(repo); err != nil {
			return nil, err
		}
		remote, err := RemoteReceiver(ctx, repo, "origin")
		if err != nil {
			return nil, err
		}
		if remote.HeadID != "" {
			d.Receiver = remote
		}
	}
	return d, d.Open(nil)
}

// another is what may be done instead of pushing the default branch: at a server
// HEAD may name one that is there.
func another(repo *gitrepo.Repo) string {
	if !repo.Bare() {
		return ""
	}
	return ", or let HEAD name another one: git symbolic-ref HEAD refs/heads/BRANCH"
}

// Guarding tells of every ref whether it is guarded.
func (d *Door) Guarding(ctx context.Context) (g Guarding, err error) {
	switch {
	case d.Head == "":
		g.Warnings = append(g.Warnings, "HEAD names no branch, so it is not known which is the default branch")
	case d.HeadID == "":
		g.Warnings = append(g.Warnings, "the default branch "+finding.Path(d.Head)+" does not exist, so nobody says who is trusted: push it"+another(d.Repo))
	case d.Policy.LeavesOut(d.Head):
		g.Warnings = append(g.Warnings, "the server's own policy leaves the default branch "+finding.Path(d.Head)+" out of protect: who may push can change it as they like, and the signers file that lies there counts for nothing")
	case !d.Policy.Server && len(d.Policy.Protect) > 0 && !d.Policy.Lists(d.Head):
		g.Warnings = append(g.Warnings, "protect does not name the default branch "+finding.Path(d.Head)+", which is protected all the same")
	}
	whose := "the policy"
	if d.Policy.Server {
		whose = "the server's own policy"
	}
	for _, what := range d.Policy.Loosened() {
		g.Warnings = append(g.Warnings, whose+" is looser than the default: "+what)
	}
	own := ""
	if d.HeadID != "" {
		if own, err = d.dotBridge(d.HeadID); err != nil {
			return g, err
		}
	}
	for ref, err := range d.Receiver.Refs(ctx) {
		if err != nil {
			return g, err
		}
		name := ref.Name
		if ref.Target != "" {
			name = ref.Target
		}
		r := GuardedRef{Ref: ref.Name}
		if r.Guarded, r.Why = d.Guard(name); ref.Target != "" {
			r.Why = "it stands for " + finding.Path(name) + ": " + r.Why
		}
		if r.Guarded && ref.Target == "" {
			if r.Note, err = d.note(ref, own); err != nil {
				return g, err
			}
		}
		g.Refs = append(g.Refs, r)
	}
	return g, nil
}

// note tells what of a guarded ref is not as those who look at it may think.
func (d *Door) note(ref gitrepo.Ref, own string) (string, error) {
	id, err := d.commit(ref.ID)
	var none *policy.Undecided
	if errors.As(err, &none) {
		return "", nil // a tag of a tree or a blob
	}
	if err != nil {
		return "", err
	}
	if !d.judged(ref.Name, id) {
		return "not judged since it is protected: its next push is judged over all commits that no other protected ref has", nil
	}
	if ref.Name == d.Head {
		return "", nil
	}
	theirs, err := d.dotBridge(id)
	if err == nil && theirs != "" && theirs != own {
		return "its own " + policy.Dir + "/ counts for nothing", nil
	}
	return "", err
}

// dotBridge returns the object of .bridge in a commit, "" if there is none.
func (d *Door) dotBridge(commit string) (string, error) {
	c, err := d.Repo.Commit(commit)
	if err != nil {
		return "", err
	}
	e, _, err := d.Repo.EntryAt(c.Tree, policy.Dir)
	return e.ID, err
}

// Accept notes in a server's record that what a protected ref has now counts as
// judged, and returns that commit.
func (d *Door) Accept(ref string) (id string, err error) {
	if d.Judged == nil {
		return "", &policy.Undecided{Message: "this repository is not a server", Hint: "rig-hook accept --server DIR " + finding.Word(ref)}
	}
	if err := gitrepo.CheckRefName(ref); err != nil {
		return "", err
	}
	if ref, err = d.target(ref); err != nil {
		return "", err
	}
	id, ok, err := d.Repo.Ref(ref)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", &policy.Undecided{Message: "there is no ref " + finding.Quote(ref), Hint: "git for-each-ref lists them, by their full names"}
	}
	if protected, why := d.Guard(ref); !protected {
		return "", &policy.Undecided{Message: finding.Path(ref) + " is not guarded: " + why}
	}
	if id, err = d.commit(id); err != nil {
		return "", err
	}
	d.Judged.mark(id, ref)
	if ref == d.Head {
		d.Judged.setDefault(ref)
	}
	return id, d.Judged.flush()
}

// AcceptAll is Accept for all protected refs of a server that has no record
// yet: what is there when hooks are installed is not judged.
func (d *Door) AcceptAll(ctx context.Context) error {
	if d.Judged == nil || d.Judged.lines > 0 {
		return nil
	}
	if _, err := d.accepted(ctx); err != nil {
		return err
	}
	for i, name := range d.names {
		d.Judged.mark(d.tips[i], name)
	}
	if d.HeadID != "" && !d.Policy.LeavesOut(d.Head) {
		d.Judged.setDefault(d.Head)
	}
	return d.Judged.flush()
}
