package main

import (
	"context"
	"fmt"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
)

// marked gives a server's repository a UUID in its own configuration, if it has
// none.
func (p *place) marked(ctx context.Context) (err error) {
	if p.server {
		p.uuid, err = hooks.Identify(ctx, p.repo)
	}
	return err
}

// rename gives a repository another name in the database, and this one, if it is
// that, in its configuration.
func (a *app) rename(ctx context.Context, words []string) int {
	return a.change(ctx, func(p *place, db *controlplane.DB) (string, error) {
		from, to := words[0], words[1]
		if err := db.Rename(ctx, from, controlplane.RepositoryName(to, "", "")); err != nil {
			return "", err
		}
		said := "rename old=" + finding.Quote(from) + " new=" + finding.Quote(to)
		if p.name != from {
			return said, nil
		}
		return said, hooks.Configure(ctx, p.repo, "rigward.repository", to)
	})
}

// move makes this repository the one of its name.
func (a *app) move(ctx context.Context) int {
	return a.change(ctx, func(p *place, db *controlplane.DB) (string, error) {
		if err := db.Move(ctx, p.name); err != nil {
			return "", err
		}
		_, err := p.indexer(db, a.env.Now).Update(ctx)
		return "move repo=" + finding.Quote(p.name), err
	})
}

func (a *app) change(ctx context.Context, do func(*place, *controlplane.DB) (string, error)) int {
	p, err := a.open(ctx, asServer)
	if err != nil {
		return a.fail(err)
	}
	defer p.close()
	db, err := controlplane.Open(ctx, p.target, true)
	if err != nil {
		return a.fail(err)
	}
	defer db.Close()
	err = p.marked(ctx)
	said := ""
	if err == nil {
		said, err = do(p, db)
	}
	if err != nil {
		return a.fail(err)
	}
	fmt.Fprintf(a.env.Stdout, "%s: %s\n", a.program, said)
	return report.ExitClean
}
