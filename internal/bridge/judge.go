package bridge

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/screen"
)

// ownPolicy is the client's own policy in git's common directory; it can only
// tighten the repository's.
const ownPolicy = "rigward.yaml"

// loader reads the policy and the signers that count, without the client's own.
func (w *work) loader() *policy.Loader {
	return &policy.Loader{Repo: w.repo, ReadFile: func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(w.repo.CommonDir(), name)
		}
		return os.ReadFile(name)
	}}
}

// ownLoader is loader with the client's own policy.
func (w *work) ownLoader() (*policy.Loader, error) {
	l := w.loader()
	path := filepath.Join(w.repo.CommonDir(), ownPolicy)
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		if l.Own, err = policy.DecodeFile(data, policy.FromClient, path); err != nil {
			return nil, undecided(err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, cannotRead(path, err)
	}
	return l, nil
}

// trusted returns the commit whose policy and signers count for what comes on top of
// a commit of the current branch. On the default branch of the remote, or where
// that is not known, it is that commit; other says that it is another branch's:
// what the current branch itself has in .bridge then counts for nothing, as at
// the gates.
func (w *work) trusted(commit string) (root string, other bool, err error) {
	branch, _, err := w.repo.HEAD()
	if err != nil || !strings.HasPrefix(branch, "refs/heads/") {
		return commit, false, gitProblemOrNil(err)
	}
	t, err := w.target()
	if err != nil || t.remote == "" || t.remote == "." {
		return commit, false, err
	}
	ref, id, err := w.repo.RemoteHead(t.remote)
	if err != nil || id == "" || ref == t.ref {
		return commit, false, gitProblemOrNil(err)
	}
	return id, true, nil
}

// policyAt returns policy and trust by which what comes on top of a commit of the
// current branch is judged.
func (w *work) policyAt(commit string) (*policy.Policy, *policy.Trust, error) {
	l, err := w.ownLoader()
	if err != nil {
		return nil, nil, err
	}
	root, _, err := w.trusted(commit)
	if err != nil {
		return nil, nil, err
	}
	p, t, err := l.AtCommit(root)
	if err != nil {
		return nil, nil, undecided(err)
	}
	return p, t, nil
}

// threadsOnTop refuses a repository whose policy keeps the threads elsewhere
// than in the top of the work tree, where alone this client reads and writes
// them. A policy that cannot be read is left to those who judge by it.
func (w *work) threadsOnTop() error {
	data, err := readFile(filepath.Join(w.root, filepath.FromSlash(policy.Path)), policy.MaxPolicyBytes)
	if err != nil || len(data) > policy.MaxPolicyBytes {
		return nil
	}
	p, err := policy.Decode(data, policy.FromRepository)
	if err != nil || p.Root == "" {
		return nil
	}
	return fail(codeRefused, "the policy keeps the threads in %s (envelopes.root); rig-bridge knows them only in the top of the work tree", quote(p.Root)).
		withHint("write and commit the message with git; the hooks judge it there")
}

// undecided is the failure for a rule that could not be judged.
func undecided(err error) error {
	var u *policy.Undecided
	if errors.As(err, &u) {
		f := fail(codeRuntime, "%s", u.Message).withHint("%s", policy.HintOf(err))
		f.cause = err
		return f
	}
	return gitProblem(err)
}

// judgeRange judges every commit of tip that base lacks by all rules of the
// push gate, with policy and signers from trusted, or from the default branch if
// that is another one (docs/spec/client.md#sync). An error means that it could not be
// decided; the findings so far come with it. linear says that base is known to be
// in the history of tip. moves says that what an accepted commit changes of policy
// and signers counts for those after it, as at a server that got them one by one.
func (w *work) judgeRange(ctx context.Context, t target, base, tip, trusted string, linear, moves bool) ([]finding.Finding, error) {
	if tip == "" || tip == base {
		return nil, nil
	}
	p, trust, err := w.policyAt(trusted)
	if err != nil {
		return nil, err
	}
	r := rules.Range{Ref: t.ref, Old: base, New: tip, History: true, First: base == "", Policy: p, Trust: trust}
	root, other, err := w.trusted(trusted)
	if err != nil {
		return nil, err
	}
	if other {
		r.From, moves = root, false
	}
	if p.NonceRefs && t.remote != "" && t.remote != "." {
		at, err := w.repo.Remote(ctx, t.remote)
		if err != nil {
			return nil, gitProblem(err)
		}
		delete(at.Refs, t.ref)
		r.NonceTips = p.ProtectedTips(at.Refs, at.Head)
	}
	if base != "" {
		r.Exclude = []string{base}
	}
	if base != "" && !linear {
		// Where both sides moved, the range begins at what they share.
		bases, err := w.repo.MergeBases(ctx, base, tip)
		if err != nil {
			return nil, gitProblem(err)
		}
		if r.History = len(bases) > 0; r.History {
			r.Old = bases[0]
		}
	}
	j := &rules.Judge{Repo: w.repo, Gate: rules.PrePush, Memory: &w.memory.said, Nonces: &history.Index{
		// The hooks' own index is read where there is one, and not written.
		Repo: w.repo, Dir: filepath.Join(w.repo.CommonDir(), "rigward"), Envelope: p.Candidate,
	}}
	l, err := w.ownLoader()
	if err != nil {
		return nil, err
	}
	j.Later = l.Accepted
	if moves {
		tree, err := w.tree(trusted)
		if err != nil {
			return nil, err
		}
		j.OfTheTime, j.Eras = l.Accepted, rules.ErasFrom(tree)
	}
	err = j.Range(ctx, r)
	if other {
		// On a branch that nobody guards something waits for others to approve of it.
		head, _, err := w.repo.RemoteHead(t.remote)
		if err != nil {
			return nil, gitProblem(err)
		}
		if !p.Protected(t.ref, head) {
			j.Findings = slices.DeleteFunc(j.Findings, func(f finding.Finding) bool { return f.Rule == "quorum" })
		}
	}
	finding.Sort(j.Findings)
	if err != nil {
		if ctx.Err() != nil {
			return j.Findings, context.Cause(ctx)
		}
		return j.Findings, undecided(err)
	}
	return j.Findings, nil
}

// excepted maps what package screen found by the policy that counts on HEAD: it may
// lower these rules.
func (w *work) excepted(fs []finding.Finding) ([]finding.Finding, error) {
	ofScreen := func(f finding.Finding) bool { return f.Rule == screen.RuleHidden || f.Rule == screen.RuleSecret }
	if !slices.ContainsFunc(fs, ofScreen) {
		return fs, nil
	}
	_, head, err := w.repo.HEAD()
	if err != nil {
		return nil, gitProblem(err)
	}
	p, _, err := w.policyAt(head)
	if err != nil {
		return nil, err
	}
	var out []finding.Finding
	for _, f := range fs {
		on := true
		if ofScreen(f) {
			f, on = p.Apply(f)
		}
		if on {
			out = append(out, f)
		}
	}
	return out, nil
}

// judgeContent judges envelopes by the rules that need no history. It decides
// where the others could not: what is wrong in itself is refused whoever signed.
func (w *work) judgeContent(list []added) ([]finding.Finding, error) {
	ids := make([]string, len(list))
	for i, a := range list {
		ids[i] = a.blob
	}
	var out []finding.Finding
	i := 0
	err := w.repo.Objects(ids, envelope.DefaultLimits().File, func(o gitrepo.Object) error {
		a := list[i]
		i++
		if o.Err != nil || o.Type != "blob" {
			return nil
		}
		_, fs := judged(o.Data, envelope.Options{Path: a.path, Screen: true})
		for _, f := range fs {
			f.Path, f.Commit = a.path, a.commit
			out = append(out, f)
		}
		return nil
	})
	if err != nil {
		return nil, gitProblem(err)
	}
	return out, nil
}
