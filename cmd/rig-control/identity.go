package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// marked gives a server's repository a UUID in its own configuration, if it has
// none.
func (p *place) marked(ctx context.Context) error {
	have, _, err := p.repo.ConfigLast("rigward.uuid")
	if err != nil || have != "" || !p.server {
		return err
	}
	// Two that begin at once agree on one.
	dir := filepath.Join(p.repo.CommonDir(), "rigward")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return &policy.Undecided{Message: "the directory " + finding.Path(filepath.ToSlash(dir)) + " cannot be made", Cause: err}
	}
	files.Share(dir)
	f, err := os.OpenFile(filepath.Join(dir, "uuid.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		defer f.Close()
		files.Share(f.Name())
		err = files.Lock(f)
	}
	if err != nil {
		return &policy.Undecided{Message: "the lock of the repository's UUID cannot be taken", Cause: err}
	}
	again, err := gitrepo.OpenIdle(ctx, p.repo.Env().Foreign(p.repo.GitDir()))
	if err != nil {
		return err
	}
	defer again.Close()
	if p.uuid, _, err = again.ConfigLast("rigward.uuid"); err != nil || p.uuid != "" {
		return err
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // which never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	p.uuid = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	return hooks.Configure(ctx, p.repo, "rigward.uuid", p.uuid)
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
