package attack

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/test/gittest"
	kept "github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/rules"
)

// audits audits the history of what the updates bring, whether or not it may pass: at
// once, and by the mark that audits of parts of it have left. The text tells what is
// found in one way only.
func (p *player) audits(updates []mupdate) string {
	for _, u := range updates {
		if change.Zero(u.new) || p.trees[u.new] == nil {
			continue
		}
		want, err := p.audit(u.new, 0)
		for _, step := range []int{1, 2, 3} {
			got, err2 := p.audit(u.new, step)
			if fmt.Sprint(err) != fmt.Sprint(err2) {
				return fmt.Sprintf("audit of %s, a mark at each commit of %d: %v; without: %v", u.new, step, err2, err)
			}
			if err == nil && (got.Commits != want.Commits || got.Envelopes != want.Envelopes || got.More != want.More || !slices.Equal(got.Findings, want.Findings)) {
				return fmt.Sprintf("audit of %s, a mark at each commit of %d: %d commits, %d envelopes, %v\nwithout: %d, %d, %v", u.new, step, got.Commits, got.Envelopes, got.Findings,
					want.Commits, want.Envelopes, want.Findings)
			}
		}
	}
	return ""
}

// audit audits the history of a commit, after every step-th one of its first parents;
// 0: without a mark.
func (p *player) audit(head string, step int) (rep report.Report, err error) {
	ctx := context.Background()
	env := &hooks.Env{Environ: append([]string{"GIT_DIR=."}, p.env...), Dir: p.server, Now: func() time.Time { return time.Unix(p.now, 0) }}
	repo, err := gitrepo.Open(ctx, gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
	if err != nil {
		return rep, err
	}
	defer repo.Close()
	heads, dir := []string{head}, ""
	if step > 0 {
		dir, heads = gittest.TempDir(p.t), nil
		n := 0
		for rev, err := range repo.RevList(ctx, []string{head}, nil, gitrepo.RevListOptions{Reverse: true, FirstParent: true}) {
			if err != nil {
				return rep, err
			}
			if n++; n%step == 0 || rev.ID == head {
				heads = append(heads, rev.ID)
			}
		}
	}
	for _, id := range heads {
		rep = report.Report{}
		c := hooks.NewChecker(env, repo, &rep)
		c.NoBundles, c.Head = true, id
		var mark *kept.Audit
		if step > 0 {
			mark = kept.OpenAudit(kept.Options{Repo: repo, Loader: c.Loader, Dir: dir, Secret: []byte("mine"), Now: env.Now()}, "program")
		}
		err = c.Whole(ctx, rules.Range{New: id, History: true, First: true}, mark)
		c.Tell()
	}
	return rep, err
}

// readers says which messages that a push has brought to main a reader is told are
// refused, though the server has accepted them.
func (p *player) readers(updates []mupdate) string {
	ctx := context.Background()
	var out []string
	for _, u := range updates {
		if u.ref != "refs/heads/main" || p.trees[u.new] == nil {
			continue
		}
		repo, err := gitrepo.Open(ctx, gitrepo.Env{Environ: append([]string{"GIT_DIR=."}, p.env...), Dir: p.server})
		if err != nil {
			return err.Error()
		}
		book, err := kept.Open(ctx, kept.Options{Repo: repo, Loader: hooks.NewLoader(repo), Now: time.Unix(p.now, 0)}, kept.View{Accepted: u.new, Head: u.new})
		for q, e := range p.trees[u.new] {
			if err != nil || p.trees[u.old][q] == e {
				continue
			}
			if v := book.Thread(path.Dir(q)).Of(path.Base(q), e.id); v.State == kept.Refused {
				out = append(out, fmt.Sprintf("a reader is told that %s is refused: %q", q, v.Rules))
			}
		}
		repo.Close()
		if err != nil {
			return err.Error()
		}
	}
	return strings.Join(out, "\n")
}
