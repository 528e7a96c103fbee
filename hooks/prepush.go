package hooks

import (
	"cmp"
	"context"
	"strings"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/drift/ask"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
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

	at, err := g.remote(ctx, remote, updates)
	if err != nil {
		return err
	}
	d, err := g.door(at, updates)
	if err != nil {
		return err
	}
	err = g.through(ctx, d, updates, func(r rules.Range) error {
		if err := g.judge.Range(ctx, r); err != nil {
			return err
		}
		return judgeBundles(ctx, g.env.Bundles, ask.Question{Range: r, Now: g.judge.Now}, g.repo, &g.report, g.judge)
	})
	if err != nil {
		return err
	}
	if g.source != "" && g.judge.Total > 0 {
		g.report.Notes = append(g.report.Notes, "no ref lines on standard input; "+g.source)
	}
	g.save()
	if g.accepted() {
		g.judge.Keep()
	}
	return nil
}

// remote is what is known here of the repository that gets the push: by its
// name if it has one, and by what git has just asked it for the lines.
func (g *gate) remote(ctx context.Context, name string, updates []change.RefUpdate) (at Receiver, err error) {
	at.Refs = refsOf(nil)
	if name != "" && !strings.ContainsAny(name, ":/\\ ") {
		if at, err = RemoteReceiver(ctx, g.repo, name); err != nil {
			return at, err
		}
	}
	for _, u := range updates {
		// Where nothing is known of a default branch, the first ref that moves
		// has to stand for it.
		if u.Create() || at.Head != u.Ref && (at.Head != "" || at.HeadID != "") {
			continue
		}
		types, err := g.repo.Has([]string{u.Old})
		if err != nil {
			return at, err
		}
		if types[0] != "" {
			if at.HeadID, err = commitOf(g.repo, u.Old); err != nil {
				return at, err
			}
		}
	}
	return at, nil
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
			return nil, &policy.Undecided{Message: "PRE_COMMIT_FROM_REF and PRE_COMMIT_TO_REF are not object ids"}
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
	specs, err := g.repo.Refspecs(u.remote)
	u.tracking = specs.Tracking(u.ref)
	return u, err
}

// Pushed returns the ref that the branch of HEAD is pushed to, and the commit whose
// policy and signers count for what is committed on it.
func Pushed(repo *gitrepo.Repo) (ref, root string, err error) {
	g := &gate{repo: repo}
	branch, head, err := repo.HEAD()
	if err != nil {
		return "", "", err
	}
	up, err := g.upstream(branch)
	if err != nil {
		return "", "", err
	}
	root, err = g.rootOf(branch, head)
	return cmp.Or(up.ref, branch), root, err
}
