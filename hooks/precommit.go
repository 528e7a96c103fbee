package hooks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/screen"
)

// preCommit judges what is staged, as the index that git names holds it. Words
// are paths that a hook manager wants judged whether they changed or not.
func (g *gate) preCommit(ctx context.Context) error {
	mark, keep := g.repo.IndexMark()
	staged, err := g.staged(ctx)
	if err != nil {
		return err
	}
	if len(g.args) > 0 {
		if err := g.named(ctx, &staged); err != nil {
			return err
		}
	}
	if err := g.judge.Index(ctx, staged); err != nil {
		return err
	}
	// Where nothing is staged HEAD is amended, and commit-msg looks at what it brings.
	if keep && len(g.args) == 0 && len(staged.Changes) > 0 {
		g.keepStaged(mark, staged.Head)
		g.root.keep()
	}
	return nil
}

// staged reads the index and what of HEAD is needed to judge it.
func (g *gate) staged(ctx context.Context) (s rules.Staged, err error) {
	branch, head, err := g.repo.HEAD()
	if err != nil {
		return s, err
	}
	s.Head = head
	root, err := g.rootOf(branch, head)
	if err != nil {
		return s, err
	}
	g.rootID = root
	if root == "" {
		s.Policy, s.Trust, err = g.loader.At("")
	} else if g.root, err = newRoot(g.repo, root); err == nil {
		g.loader.Repo = g.root
		s.Policy, s.Trust, err = g.loader.At(g.root.tree)
	}
	if err != nil {
		return s, err
	}
	g.use(s.Policy)
	changes, index, err := g.repo.Staged(ctx)
	if err != nil {
		return s, err
	}
	s.Changes = changes
	brings, touches := false, false
	for _, ch := range s.Changes {
		brings = brings || !ch.Deleted()
		touches = touches || !ch.Added() && s.Policy.Candidate(ch.Path)
	}
	if brings || len(g.args) > 0 {
		if index == nil {
			if index, err = g.repo.Index(ctx); err != nil {
				return s, err
			}
		}
		s.Index = index
	}
	if touches {
		s.Published, err = g.published(ctx, branch)
	}
	return s, err
}

// rootOf returns the commit whose policy and signers count for what is committed on
// a branch, as pre-push and the server have it: that of the default branch of the
// remote, as far as it is known here, else HEAD.
func (g *gate) rootOf(branch, head string) (string, error) {
	up, err := g.upstream(branch)
	if err != nil || up.remote == "." {
		return head, err
	}
	_, id, err := g.repo.RemoteHead(cmp.Or(up.remote, "origin"))
	return cmp.Or(id, head), err
}

// published returns the commits that others may have: the branch's upstream,
// else all that remotes are known to have.
func (g *gate) published(ctx context.Context, branch string) ([]string, error) {
	up, err := g.upstream(branch)
	if err != nil {
		return nil, err
	}
	if up.tracking != "" {
		if id, ok, err := g.repo.Ref(up.tracking); err != nil {
			return nil, err
		} else if ok {
			return []string{id}, nil
		}
	}
	var ids []string
	for ref, err := range g.repo.Refs(ctx, "refs/remotes/") {
		if err != nil {
			return nil, err
		}
		if ref.Target != "" {
			continue
		}
		id, err := commitOf(g.repo, ref.ID)
		var none *policy.Undecided
		if errors.As(err, &none) {
			continue // a tag of a tree or a blob
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// named adds the index entries of the paths on the command line. A path that
// is not in the index cannot be judged, and is not a pass.
func (g *gate) named(_ context.Context, s *rules.Staged) error {
	changed := map[string]bool{}
	for _, ch := range s.Changes {
		changed[ch.Path] = true
	}
	for _, word := range g.args {
		p, err := g.inTree(word)
		if err != nil {
			return err
		}
		e, ok := s.Index.Lookup(p)
		if !ok {
			return &policy.Undecided{Message: fmt.Sprintf("%s is not in the index, so nothing of it was read", finding.Quote(word)), Hint: "git add -- " + finding.Word(word)}
		}
		if !changed[p] {
			s.Changes = append(s.Changes, gitrepo.Change{Path: p, NewMode: e.Mode, NewID: e.ID})
		}
	}
	return nil
}

// inTree is the path of a word of the command line below the work tree's top.
func (g *gate) inTree(word string) (string, error) {
	p := filepath.ToSlash(word)
	if filepath.IsAbs(word) {
		rel, err := filepath.Rel(g.repo.WorkTree(), word)
		if err != nil {
			return "", &policy.Undecided{Message: finding.Quote(word) + " lies outside the work tree"}
		}
		p = filepath.ToSlash(rel)
	}
	if p = path.Clean(p); p == ".." || strings.HasPrefix(p, "../") {
		return "", &policy.Undecided{Message: finding.Quote(word) + " lies outside the work tree"}
	}
	return p, nil
}

// commitMsg judges the message of a commit that brings an envelope by rules
// hidden-text and secret, and gives advice: a relay is staged, and this commit
// will not be signed. The signature does not exist yet; pre-push and the server
// look at it.
func (g *gate) commitMsg(ctx context.Context) error {
	get := func(key string) string {
		v, _, _ := g.repo.ConfigLast(key)
		return v
	}
	key, format := get("user.signingkey"), get("gpg.format")
	signs, _, unclear := g.repo.ConfigBool("commit.gpgsign")
	text, err := g.message()
	if err != nil {
		return err
	}
	told, _ := screen.Text(text, screen.Where{})
	if len(told) == 0 && unclear == nil && signs && format == "ssh" && key != "" {
		return nil // the commit will be signed, whatever it holds
	}
	need, kept := "", false
	if len(told) == 0 {
		need, kept = g.keptStaged()
	}
	if !kept {
		staged, err := g.staged(ctx)
		if err != nil {
			return err
		}
		if need, err = g.judge.Message(ctx, staged, text); err != nil {
			return err
		}
	}
	if need == "" {
		return nil
	}
	if unclear != nil {
		return nil // git itself will say what is wrong with its configuration
	}
	switch {
	case format != "ssh":
		g.report.Notes = append(g.report.Notes, need+" must be signed with an SSH key: git config gpg.format ssh")
	case key == "":
		g.report.Notes = append(g.report.Notes, need+" must be signed, and no key is configured: git config user.signingkey FILE")
	case !signs:
		g.report.Notes = append(g.report.Notes, need+" must be signed: commit with -S, or git config commit.gpgsign true")
	}
	return nil
}

// scissors is where git cuts off a message that shows the change below it.
const scissors = " ------------------------ >8 ------------------------\n"

// message reads what was written for the commit: the file that git names, without
// comments as far as they are known here. Where it names none there is no message
// to judge.
func (g *gate) message() ([]byte, error) {
	if len(g.args) == 0 {
		return nil, nil
	}
	name := g.args[0]
	if !filepath.IsAbs(name) {
		name = filepath.Join(g.env.Dir, name)
	}
	data, err := files.Read(name)
	if err != nil {
		return nil, &policy.Undecided{Message: "the commit message " + finding.Quote(g.args[0]) + " cannot be read", Cause: err}
	}
	comment, _, err := g.repo.ConfigLast("core.commentChar")
	if err != nil {
		return nil, err
	}
	if comment == "" || comment == "auto" {
		comment = "#"
	}
	if i := bytes.Index(data, []byte(comment+scissors)); i == 0 || i > 0 && data[i-1] == '\n' {
		data = data[:i]
	}
	var lines [][]byte
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if bytes.HasPrefix(line, []byte(comment)) {
			line = nil // so that the others keep their numbers
		}
		lines = append(lines, line)
	}
	return bytes.Join(lines, []byte("\n")), nil
}
