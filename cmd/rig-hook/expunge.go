package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/sshsign"
)

// stays says what expunge does not do. It is printed wherever it did something.
const stays = "the body stays in the history and in every clone that has it: whoever has a clone can read it, so replace a key or a token " +
	"first; rewriting the history is an administrator's own work, and rig-hook check --against compares the result"

// expunge takes the body of a message out by a signed commit (docs/spec/tombstone.md).
func expunge(ctx context.Context, env *hooks.Env, f cli.Line) int {
	repo, err := gitrepo.OpenHere(ctx, gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
	if err != nil {
		return fail(env, "expunge", err)
	}
	defer repo.Close()
	x := &expunger{task: task{ctx: ctx, env: env, repo: repo, line: f}}
	switch err := x.run(); {
	case errors.Is(err, errRefused):
		return report.ExitFindings
	case err != nil:
		return fail(env, "expunge", err)
	}
	return report.ExitClean
}

// A task is what a command has to work with that makes commits.
type task struct {
	ctx  context.Context
	env  *hooks.Env
	repo *gitrepo.Repo
	line cli.Line
}

type expunger struct {
	task

	branch, head string // that the commit is made on
	ref, root    string // see hooks.Pushed
	policy       *policy.Policy
	trust        *policy.Trust
}

func undecided(hint, format string, a ...any) error {
	return &policy.Undecided{Message: fmt.Sprintf(format, a...), Hint: hint}
}

func (x *expunger) run() error {
	if len(x.line.Words) != 1 {
		return undecided("rig-hook expunge --help", "expected the path of one message, such as t-one/REQUEST.md")
	}
	path := filepath.ToSlash(filepath.Clean(x.line.Words[0]))
	var err error
	if x.branch, x.head, err = x.repo.HEAD(); err != nil {
		return err
	}
	if !strings.HasPrefix(x.branch, "refs/heads/") || x.head == "" {
		return undecided(switchBranch(x.repo), "HEAD names no branch with a commit")
	}
	if x.ref, x.root, err = hooks.Pushed(x.repo); err != nil {
		return err
	}
	if x.policy, x.trust, err = hooks.NewLoader(x.repo).AtCommit(x.root); err != nil {
		return err
	}
	if len(x.policy.ExpungeSigners) == 0 {
		return undecided("a trusted signer commits to "+policy.Path+": expunge: {signers: [ADDRESS], quorum: 1}",
			"the policy of commit %s names nobody who may take a body out (expunge.signers)", finding.Short(x.root))
	}
	old, err := x.message(path)
	if err != nil {
		return err
	}
	text, err := x.text(path, old)
	if err != nil {
		return err
	}
	if name := x.line.Get("--write"); x.line.Has("--write") {
		if err := files.Output(x.file(name), text); err != nil {
			return undecided(files.Hint(err), "%s cannot be written: %s", finding.Quote(name), finding.Clean(err.Error()))
		}
		fmt.Fprintf(x.env.Stdout, "wrote %s; each further signer reads it and signs it: ssh-keygen -Y sign -n %s -f KEY %s\n",
			finding.Path(name), sshsign.NamespaceApproval, finding.Word(name))
		return nil
	}
	var approvals [][]byte
	for _, name := range x.line.All("--approval") {
		data, err := os.ReadFile(x.file(name))
		if err != nil {
			return undecided("", "the approval %s cannot be read: %s", finding.Quote(name), finding.Clean(err.Error()))
		}
		approvals = append(approvals, data)
	}
	if err := x.untouched(path); err != nil {
		return err
	}
	commit, err := x.commit(path, envelope.Approve(text, approvals...))
	if err != nil {
		return err
	}
	if err := x.judged(path, commit); err != nil {
		return err
	}
	if _, err := x.git(nil, nil, "update-ref", "-m", "rig-hook: expunge "+path, x.branch, commit, x.head); err != nil {
		return err
	}
	if x.repo.WorkTree() != "" {
		if _, err := x.git(nil, nil, "restore", "--source="+commit, "--staged", "--worktree", "--", ":(top,literal)"+path); err != nil {
			return err
		}
	}
	counts := "it counts once it is pushed: git push"
	if x.repo.WorkTree() == "" { // nobody pushes from a server
		counts = "no gate was asked; it counts here from now on"
	}
	fmt.Fprintf(x.env.Stdout, "took the body of %s out in commit %s; %s\n", finding.Path(path), finding.Short(commit), counts)
	fmt.Fprintf(x.env.Stderr, "rig-hook: expunge: %s\n", stays)
	return nil
}

// file is the path of a file that a flag names.
func (x *task) file(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(x.env.Dir, name)
}

// message reads the accepted message at a path of HEAD.
func (x *expunger) message(path string) ([]byte, error) {
	c, err := x.repo.Commit(x.head)
	if err != nil {
		return nil, err
	}
	e, ok, err := x.repo.EntryAt(c.Tree, path)
	if err != nil {
		return nil, err
	}
	if !ok || e.Mode != gitrepo.ModeFile || !x.policy.Candidate(path) {
		return nil, undecided("git ls-tree -r --full-tree --name-only HEAD lists what there is; the path counts from the top of the repository",
			"HEAD has no message at %s", finding.Quote(path))
	}
	return x.repo.Blob(e.ID, x.policy.AcceptedLimits().File)
}

// text is the tombstone without approvals: the one that --text names, else a new one.
func (x *expunger) text(path string, old []byte) ([]byte, error) {
	limits := x.policy.AcceptedLimits()
	if name := x.line.Get("--text"); x.line.Has("--text") {
		if x.line.Has("--why") || x.line.Has("--write") {
			return nil, undecided("", "--text names a text that is written already, expected no --why and no --write beside it")
		}
		data, err := os.ReadFile(x.file(name))
		if err != nil {
			return nil, undecided("", "the text %s cannot be read: %s", finding.Quote(name), finding.Clean(err.Error()))
		}
		t, err := envelope.Buries(old, data, limits)
		if err == nil && (t.Path != path || !bytes.Equal(data, t.Signed)) {
			err = errors.New("it is about another path, or has approvals")
		}
		if err != nil {
			return nil, undecided("rig-hook expunge "+finding.Word(path)+" --why TEXT --write FILE",
				"%s is not a tombstone of what HEAD has at %s: %s", finding.Quote(name), finding.Quote(path), err)
		}
		return data, nil
	}
	if !x.line.Has("--why") {
		return nil, undecided("--why 'an access token'", "--why is missing: everybody who reads the thread is told the reason")
	}
	by, err := x.git(nil, nil, "var", "GIT_COMMITTER_IDENT")
	if err != nil {
		return nil, err
	}
	by = by[strings.LastIndexByte(by, '<')+1 : max(strings.LastIndexByte(by, '>'), strings.LastIndexByte(by, '<')+1)]
	root, err := x.first()
	if err != nil {
		return nil, err
	}
	data, err := envelope.Bury(old, &envelope.Tombstone{Path: path, Repository: root, Ref: x.ref, By: by,
		At: envelope.TombstoneTime(x.env.Now()), Why: x.line.Get("--why")}, limits)
	if err != nil {
		return nil, undecided("", "there can be no tombstone of %s: %s", finding.Quote(path), err)
	}
	return data, nil
}

// first returns the commit that the history begins with, the least of several.
func (x *expunger) first() (string, error) {
	shallow, err := x.repo.Shallow()
	if err != nil {
		return "", err
	}
	if len(shallow) > 0 {
		return "", undecided("git fetch --unshallow", "the history is cut, so what it begins with is not known")
	}
	first := ""
	for rev, err := range x.repo.RevList(x.ctx, []string{x.head}, nil, gitrepo.RevListOptions{}) {
		if err != nil {
			return "", err
		}
		if len(rev.Parents) == 0 && (first == "" || rev.ID < first) {
			first = rev.ID
		}
	}
	return first, nil
}

// git runs git to its end; one that fails is an error.
func (x *task) git(stdin []byte, env []string, args ...string) (string, error) {
	if stdin == nil {
		stdin = []byte{}
	}
	r := gitrepo.Runner{Env: gitrepo.Env{Environ: x.env.Environ, Dir: x.env.Dir}}
	res, err := r.Run(x.ctx, gitrepo.Command{Args: args, Stdin: stdin, Env: env})
	if err != nil {
		return "", err
	}
	if res.Code != 0 {
		return "", undecided("", "git %s failed: %s", args[0], finding.Clean(strings.TrimSpace(string(res.Stderr))))
	}
	return strings.TrimSpace(string(res.Stdout)), nil
}

// untouched refuses to overwrite what was changed at the path since HEAD.
func (x *expunger) untouched(path string) error {
	if x.repo.WorkTree() == "" {
		return nil
	}
	changed, err := x.git(nil, nil, "status", "--porcelain", "--", ":(top,literal)"+path)
	if err == nil && changed != "" {
		err = undecided("git restore --staged --worktree -- "+finding.Word(path), "%s differs from HEAD", finding.Quote(path))
	}
	return err
}

// commit writes a signed commit that changes one path. No ref moves.
func (x *expunger) commit(path string, data []byte) (string, error) {
	blob, err := x.git(data, nil, "hash-object", "-w", "--stdin")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(x.repo.GitDir(), "rigward-expunge-")
	if err != nil {
		return "", undecided("", "the git directory cannot be written: %s", finding.Clean(err.Error()))
	}
	defer os.RemoveAll(dir)
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	for _, args := range [][]string{{"read-tree", x.head}, {"update-index", "--cacheinfo", "100644," + blob + "," + path}} {
		if _, err := x.git(nil, index, args...); err != nil {
			return "", err
		}
	}
	tree, err := x.git(nil, index, "write-tree")
	if err != nil {
		return "", err
	}
	id, err := x.git([]byte("Take the body of "+path+" out\n"), nil, "-c", "gpg.format=ssh", "commit-tree", "-S", tree, "-p", x.head, "-F", "-")
	if err != nil {
		return "", fmt.Errorf("the commit could not be made: %w", err)
	}
	return id, nil
}

// judged judges the commit as a gate would, before anything moves.
func (x *expunger) judged(path, commit string) error {
	j := &rules.Judge{Repo: x.repo, Gate: rules.PrePush, Now: x.env.Now()}
	err := j.Range(x.ctx, rules.Range{Ref: x.ref, Old: x.head, New: commit, Exclude: []string{x.head}, History: true,
		Policy: x.policy, Trust: x.trust, From: x.root})
	if err != nil {
		return err
	}
	refused := false
	for _, f := range j.Findings {
		refused = refused || f.Severity >= x.policy.FailLevel
		fmt.Fprintf(x.env.Stderr, "rig-hook: expunge: %s: %s [%s]\n", finding.Path(path), f.Message, f.Rule)
	}
	if !refused {
		return nil
	}
	fmt.Fprintf(x.env.Stderr, "rig-hook: expunge: nothing was changed\n")
	if x.policy.ExpungeQuorum > 1 {
		fmt.Fprintf(x.env.Stderr, "hint: rig-hook expunge %[1]s --why TEXT --write FILE; the others: ssh-keygen -Y sign -n %[2]s -f KEY FILE; then rig-hook expunge %[1]s --text FILE --approval FILE.sig\n",
			finding.Word(path), sshsign.NamespaceApproval)
	}
	return errRefused
}
