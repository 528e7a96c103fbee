package hooks

import (
	"context"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/change"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// prePush judges what a push will bring, as the server will: every ref line,
// each range from what the remote is known to have.
func (g *gate) prePush(ctx context.Context) error {
	remote := ""
	if len(g.args) > 0 {
		remote = g.args[0]
	}
	data, err := g.stdin()
	if err != nil {
		return err
	}
	updates, err := change.ParsePrePush(data)
	if err != nil {
		return err
	}
	if len(updates) == 0 {
		if updates, err = g.pushed(ctx, &remote); err != nil || len(updates) == 0 {
			return err
		}
	}

	known, head := map[string]string{}, ""
	if remote != "" && !strings.ContainsAny(remote, ":/\\ ") {
		var err error
		if known, head, err = remoteBranches(ctx, g.repo, remote); err != nil {
			return err
		}
	}
	p, trust, err := g.loader.AtCommit(known[head])
	if err != nil {
		return err
	}
	g.use(p)
	protected := func(ref string) bool { return p.Protected(ref, head) }
	if len(p.Protect) == 0 && head == "" {
		protected = func(ref string) bool { return strings.HasPrefix(ref, "refs/heads/") || p.Protected(ref, head) }
	}
	var tips []string // of protected refs there, as far as known, and those of this push
	for _, name := range sortedNames(known) {
		if protected(name) {
			tips = append(tips, known[name])
		}
	}
	before := len(tips)
	for _, u := range updates {
		g.report.Refs++
		if !g.judge.Ref(p, u, protected(u.Ref)) {
			continue
		}
		r := policy.Range{Ref: u.Ref, History: true, Policy: p, Trust: trust, From: known[head]}
		if r.New, err = g.commit(u.New); err != nil {
			return err
		}
		if u.Create() {
			r.Exclude = slices.Clone(tips[:before])
			r.First = len(r.Exclude) == 0
		} else {
			types, err := g.repo.Has([]string{u.Old})
			if err != nil {
				return err
			}
			if types[0] == "" {
				g.judge.Findings = append(g.judge.Findings, finding.Finding{Rule: "fast-forward", Severity: p.Level("fast-forward"), Ref: u.Ref,
					Message: "the remote has commits that this clone lacks, so the push cannot be a fast-forward", Hint: "git fetch, then git rebase onto what came"})
				continue
			}
			if r.Old, err = g.commit(u.Old); err != nil {
				return err
			}
			r.Exclude = []string{r.Old}
			if r.Policy, r.Trust, err = g.loader.AtCommit(r.Old); err != nil {
				return err
			}
		}
		if r.Policy.NonceRefs {
			r.NonceTips = slices.Clone(tips)
		}
		if err := g.judge.Range(ctx, r); err != nil {
			return err
		}
		tips = append(tips, r.New)
		if err := g.bundles(ctx, r); err != nil {
			return err
		}
	}
	if g.source != "" && g.judge.Total > 0 {
		g.report.Notes = append(g.report.Notes, "no ref lines on standard input; "+g.source)
	}
	g.save()
	return nil
}

// pushed finds what is pushed where a hook manager has kept git's lines to
// itself: from its variables, else from the branch and its upstream. It says
// which source was used.
func (g *gate) pushed(ctx context.Context, remote *string) ([]change.RefUpdate, error) {
	from, to := g.env.Getenv("PRE_COMMIT_FROM_REF"), g.env.Getenv("PRE_COMMIT_TO_REF")
	ref := g.env.Getenv("PRE_COMMIT_REMOTE_BRANCH")
	if name := g.env.Getenv("PRE_COMMIT_REMOTE_NAME"); name != "" {
		*remote = name
	}
	if to != "" && ref != "" {
		if !strings.HasPrefix(ref, "refs/") {
			ref = "refs/heads/" + ref
		}
		if from == "" {
			from = g.repo.ZeroID()
		}
		if !g.repo.ValidID(from) || !g.repo.ValidID(to) {
			return nil, &policy.Undecided{Message: "PRE_COMMIT_FROM_REF and PRE_COMMIT_TO_REF are no object ids"}
		}
		g.source = "judged what PRE_COMMIT_FROM_REF and PRE_COMMIT_TO_REF name, which is one ref of the push at most"
		return []change.RefUpdate{{Ref: ref, Old: from, New: to}}, nil
	}
	// git itself gives no lines when there is nothing to push. A manager that
	// lost them looks the same, so the branch is judged all the same.
	branch, id, err := g.repo.HEAD()
	if err != nil || id == "" {
		return nil, err
	}
	up, err := g.upstream(branch)
	if err != nil {
		return nil, err
	}
	if *remote == "" {
		*remote = up.remote
	}
	if branch == "" || *remote == "" {
		return nil, &policy.Undecided{Message: "no ref lines on standard input, and no upstream that says what would be pushed",
			Hint: "let the hook manager pass standard input (lefthook: use_stdin: true), or: git branch --set-upstream-to"}
	}
	if up.tracking == "" || up.remote != *remote {
		g.source = "judged the branch against what is known of the remote"
		return []change.RefUpdate{{Ref: branch, Old: g.repo.ZeroID(), New: id}}, nil
	}
	old, ok, err := g.repo.Ref(up.tracking)
	if err != nil {
		return nil, err
	}
	if !ok {
		old = g.repo.ZeroID()
	} else if old == id {
		return nil, nil
	} else if behind, err := g.repo.IsAncestor(ctx, id, old); behind || err != nil {
		return nil, err
	}
	g.source = "judged the branch against its upstream " + finding.Path(up.tracking)
	return []change.RefUpdate{{Ref: up.ref, Old: old, New: id}}, nil
}

// upstream is where a branch is pushed to and fetched from.
type upstream struct {
	remote   string // name of the remote
	ref      string // full ref name there
	tracking string // full name of the ref that follows it here, "" if there is none
}

func (g *gate) upstream(branch string) (u upstream, err error) {
	name, ok := strings.CutPrefix(branch, "refs/heads/")
	if !ok {
		return u, nil
	}
	if u.remote, _, err = g.repo.ConfigLast("branch." + name + ".remote"); err != nil {
		return u, err
	}
	if u.ref, _, err = g.repo.ConfigLast("branch." + name + ".merge"); err != nil || u.remote == "" || u.ref == "" {
		return u, err
	}
	if u.remote == "." {
		u.tracking = u.ref
		return u, nil
	}
	specs, err := g.repo.Config("remote." + u.remote + ".fetch")
	if err != nil {
		return u, err
	}
	for _, spec := range specs {
		from, to, ok := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
		if !ok {
			continue
		}
		if from == u.ref {
			u.tracking = to
		}
		head, tail, star := strings.Cut(from, "*")
		toHead, toTail, toStar := strings.Cut(to, "*")
		if star && toStar && len(u.ref) >= len(head)+len(tail) && strings.HasPrefix(u.ref, head) && strings.HasSuffix(u.ref, tail) {
			u.tracking = toHead + u.ref[len(head):len(u.ref)-len(tail)] + toTail
		}
	}
	return u, nil
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// remoteBranches returns what is known here of a remote: its branches by their
// full names there, with their commits, and which is its default branch.
func remoteBranches(ctx context.Context, repo *gitrepo.Repo, remote string) (known map[string]string, head string, err error) {
	known = map[string]string{}
	prefix := "refs/remotes/" + remote + "/"
	for ref, err := range repo.Refs(ctx, prefix) {
		if err != nil {
			return nil, "", err
		}
		name := strings.TrimPrefix(ref.Name, prefix)
		if ref.Target != "" {
			if name == "HEAD" {
				head = "refs/heads/" + strings.TrimPrefix(ref.Target, prefix)
			}
			continue
		}
		known["refs/heads/"+name] = ref.ID
	}
	for _, usual := range []string{"refs/heads/main", "refs/heads/master"} {
		if _, ok := known[usual]; ok && head == "" {
			head = usual
		}
	}
	return known, head, nil
}
