package main

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// A role says whose configuration counts.
type role int

const (
	asServer role = iota // rigward.controlPlane of the repository only
	asClient             // .bridge/config.yaml of the clone only
	asEither             // the server's, else the client's
)

// errNone says that no database is configured.
var errNone = &policy.Undecided{
	Message: "no control plane is configured",
	Hint:    "git config rigward.controlPlane sqlite:control.db",
}

// A place is a repository and its control plane.
type place struct {
	repo   *gitrepo.Repo
	target controlplane.Target
	name   string
	rig    string // of a clone
	server bool
	uuid   string // that was given to it just now
}

func (p *place) close() { p.repo.Close() }

// open finds the repository and what it says of its control plane: never
// what was pushed or pulled does.
func (a *app) open(ctx context.Context, r role) (*place, error) {
	p, err := a.find(ctx, "")
	if err != nil {
		return nil, err
	}
	if err := p.configure(r); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// find finds the repository at dir, "" for where the program was started.
func (a *app) find(ctx context.Context, dir string) (*place, error) {
	env := gitrepo.Env{Environ: a.env.Environ, Dir: a.env.Dir}
	if dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(a.env.Dir, dir)
		}
		env = env.Foreign(dir)
	}
	repo, err := gitrepo.OpenHere(ctx, env)
	var own *gitrepo.Error
	if errors.As(err, &own) && own.Kind == gitrepo.ErrUnsafe {
		// What root makes in the repository the hooks of its owner could not write to.
		if owner, _ := gitrepo.Owner(env.Dir); !owner.Current() && owner.Lent() {
			err = &policy.Undecided{Message: own.Message, Hint: "sudo -u " + finding.Word(owner.Name) + " " + a.program + " " + a.command, Cause: err}
		}
	}
	return &place{repo: repo}, err
}

func (p *place) configure(r role) error {
	text := ""
	var err error
	if r != asClient {
		if text, _, err = p.repo.ConfigLast("rigward.controlPlane"); err != nil {
			return err
		}
		p.server = text != ""
	}
	if r != asServer && text == "" && p.repo.WorkTree() != "" {
		if p.rig, text, err = bridge.ControlPlane(p.repo.WorkTree()); err != nil {
			return &policy.Undecided{Message: finding.Clean(err.Error())}
		}
		if text != "" {
			if err := p.untracked(); err != nil {
				return err
			}
		}
	}
	if text == "" {
		return errNone
	}
	if p.target, err = controlplane.ParseTarget(text, p.repo.CommonDir()); err != nil {
		return err
	}
	own, _, err := p.repo.ConfigLast("rigward.repository")
	if err != nil {
		return err
	}
	if own == "" && p.target.Postgres() {
		return &policy.Undecided{Message: "a PostgreSQL database is for several repositories, and rigward.repository does not say what this one is called", Hint: "git config rigward.repository NAME"}
	}
	return p.call(own)
}

// call gives the repository its name, which may be its own one.
func (p *place) call(own string) error {
	dir := p.repo.WorkTree()
	if dir == "" {
		dir = p.repo.CommonDir()
	}
	origin, _, err := p.repo.ConfigLast("remote.origin.url")
	p.name = controlplane.RepositoryName(own, origin, dir)
	return err
}

// untracked refuses a configuration that is part of the history: whoever can
// push could send the rows anywhere.
func (p *place) untracked() error {
	const file = policy.CloneConfig
	_, head, err := p.repo.HEAD()
	if err != nil || head == "" {
		return err
	}
	c, err := p.repo.Commit(head)
	if err != nil {
		return err
	}
	_, tracked, err := p.repo.EntryAt(c.Tree, file)
	if err == nil && tracked {
		err = &policy.Undecided{Message: file + " is committed, so whoever pushes could choose the control plane", Hint: "git rm --cached " + file}
	}
	return err
}

// indexer is what brings the database up.
func (p *place) indexer(db *controlplane.DB, now func() time.Time) *controlplane.Indexer {
	l := hooks.NewLoader(p.repo)
	signers, _, err := p.repo.ConfigLast("rigward.allowedSigners")
	x := &controlplane.Indexer{DB: db, Repo: p.repo, Name: p.name, At: l.At, Accepted: l.Accepted, Strict: signers != "" || err != nil, Rig: p.rig, Now: now}
	if x.Main, _, err = p.repo.HEAD(); err != nil {
		x.Strict = true // told when the refs are read
	}
	x.Is.Place = filepath.ToSlash(p.repo.CommonDir())
	if p.server {
		if x.Is.UUID = p.uuid; x.Is.UUID == "" {
			x.Is.UUID, _, err = p.repo.ConfigLast("rigward.uuid")
			x.Strict = x.Strict || err != nil
		}
	}
	x.Refs = p.branches
	if p.server {
		x.Refs = func(ctx context.Context, _ []string) (map[string]string, error) { return p.protected(ctx, l) }
	}
	return x
}

// branches are, of a clone, the branch that is checked out and those that were
// when something was recorded before.
func (p *place) branches(_ context.Context, recorded []string) (map[string]string, error) {
	ref, head, err := p.repo.HEAD()
	if err != nil {
		return nil, err
	}
	tips := map[string]string{}
	for _, name := range recorded {
		id, ok, err := p.repo.Ref(name)
		if err != nil {
			return nil, err
		}
		if ok {
			tips[name] = id
		}
	}
	if ref != "" && head != "" {
		tips[ref] = head
	}
	return tips, nil
}

// protected are, of a server, the refs that the policy protects.
func (p *place) protected(ctx context.Context, l *policy.Loader) (map[string]string, error) {
	head, headID, err := p.repo.HEAD()
	if err != nil {
		return nil, err
	}
	rules, _, err := l.AtCommit(headID)
	if err != nil {
		return nil, err
	}
	if len(rules.Protect) == 0 { // HEAD's branch alone
		if head == "" || headID == "" {
			return nil, nil
		}
		return map[string]string{head: headID}, nil
	}
	tips, tags := map[string]string{}, map[string]string{}
	var ids []string
	for ref, err := range p.repo.Refs(ctx) {
		if err != nil {
			return nil, err
		}
		if ref.Target == "" && rules.Protected(ref.Name, head) {
			tips[ref.Name] = ref.ID
			ids = append(ids, ref.ID)
		}
	}
	types, err := p.repo.Has(ids)
	if err != nil {
		return nil, err
	}
	kind := map[string]string{}
	for i, id := range ids {
		kind[id] = types[i]
	}
	for name, id := range tips {
		switch kind[id] {
		case "commit":
		case "tag":
			commit, err := p.repo.Resolve(ctx, id+"^{commit}")
			if errors.Is(err, gitrepo.ErrMissing) {
				commit = "" // a tag of a tree or a blob
			} else if err != nil {
				return nil, err
			}
			tags[name] = commit
		default:
			tags[name] = ""
		}
	}
	maps.Copy(tips, tags)
	maps.DeleteFunc(tips, func(_, id string) bool { return id == "" })
	return tips, nil
}
