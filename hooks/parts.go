package hooks

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"iter"

	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/rules"
)

// parts divide a long history: commits of its line of first parents, parents first,
// between which are about maxAtOnce commits of that line, and the last one.
type parts struct {
	tips []string
	line *line // where there is nothing beside the line
}

// repo is what the parts are read from.
func (p parts) repo(repo *gitrepo.Repo) rules.Repo {
	if p.line != nil {
		return p.line
	}
	return repo
}

// parts divides the history of tip behind from, "" for all of it.
func (c *Checker) parts(ctx context.Context, tip, from string) (p parts, err error) {
	var exclude []string
	if from != "" {
		exclude = append(exclude, from)
	}
	p.line = &line{Repo: c.Repo, ends: map[string]int{from: 0}}
	n, before := 0, from
	for rev, err := range c.Repo.RevList(ctx, []string{tip}, exclude, gitrepo.RevListOptions{Reverse: true, FirstParent: true}) {
		if err != nil {
			return parts{}, err
		}
		n++
		if p.line != nil && !p.line.add(rev, before) {
			p.line = nil
		}
		if before = rev.ID; p.line != nil && (n%cmp.Or(c.atOnce, maxAtOnce) == 0 || rev.ID == tip) {
			p.line.ends[rev.ID] = n
		}
		if n%cmp.Or(c.atOnce, maxAtOnce) == 0 && rev.ID != tip {
			p.tips = append(p.tips, rev.ID)
		}
	}
	p.tips = append(p.tips, tip)
	return p, nil
}

// maxLine is how many commits of a line are remembered, in 20 bytes each.
const maxLine = 1 << 20

// A line is a repository of which a long history without merges was walked: git need
// not walk each part of it again.
type line struct {
	*gitrepo.Repo
	ids  []byte         // of all commits, parents first
	ends map[string]int // where a part begins or ends: the number of commits up to there
}

// add adds a commit; it is false where that is not a line any more.
func (l *line) add(rev gitrepo.Rev, before string) (ok bool) {
	if before == "" && len(rev.Parents) > 0 || before != "" && (len(rev.Parents) != 1 || rev.Parents[0] != before) {
		return false
	}
	l.ids, _ = hex.AppendDecode(l.ids, []byte(rev.ID))
	return len(l.ids) <= maxLine*len(rev.ID)/2
}

// RevList is that of the repository, which is asked for what is no part.
func (l *line) RevList(ctx context.Context, include, exclude []string, o gitrepo.RevListOptions) iter.Seq2[gitrepo.Rev, error] {
	from, to, ok := l.between(include, exclude, o)
	if !ok {
		return l.Repo.RevList(ctx, include, exclude, o)
	}
	return func(yield func(gitrepo.Rev, error) bool) {
		hash := l.HashLen() / 2
		id := func(n int) string { return hex.EncodeToString(l.ids[n*hash:][:hash]) }
		var before []string
		if len(exclude) > 0 {
			before = exclude
		}
		for n := from; n < to; n++ {
			rev := gitrepo.Rev{ID: id(n), Parents: before}
			if !yield(rev, nil) {
				return
			}
			before = []string{rev.ID}
		}
	}
}

// between returns which commits a walk has.
func (l *line) between(include, exclude []string, o gitrepo.RevListOptions) (from, to int, ok bool) {
	if o != (gitrepo.RevListOptions{Reverse: true}) || len(include) != 1 || len(exclude) > 1 {
		return 0, 0, false
	}
	base := ""
	if len(exclude) > 0 {
		base = exclude[0]
	}
	from, begins := l.ends[base]
	to, ends := l.ends[include[0]]
	return from, to, begins && ends && from < to
}

// ScanCommits is that of the repository; what has several parents is no line, whatever
// git said of it.
func (l *line) ScanCommits(ctx context.Context, walk iter.Seq2[gitrepo.Rev, error], o gitrepo.ScanOptions, fn func(*gitrepo.Scanned) error) error {
	return l.Repo.ScanCommits(ctx, walk, o, func(s *gitrepo.Scanned) error {
		if len(s.Parents) > 1 {
			return errors.New("commit " + s.ID + " has several parents, git named one")
		}
		return fn(s)
	})
}
