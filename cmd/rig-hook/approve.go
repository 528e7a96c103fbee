package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/sshsign"
)

// approve shows what people sign who stand for a commit beside its signer, and
// puts their signatures into it (docs/spec/quorum.md).
func approve(ctx context.Context, env *hooks.Env, f cli.Line) int {
	repo, err := gitrepo.OpenHere(ctx, gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
	if err != nil {
		return fail(env, "approve", err)
	}
	defer repo.Close()
	x := &approver{task: task{ctx: ctx, env: env, repo: repo, line: f}}
	if err := x.run(); err != nil {
		return fail(env, "approve", err)
	}
	return report.ExitClean
}

type approver struct {
	task
	commit *gitrepo.Commit
	block  rules.Approval
	before []byte // of the message, without the block
	text   []byte // that is signed
}

func (x *approver) run() error {
	name := "HEAD"
	if len(x.line.Words) > 0 {
		name = x.line.Words[0]
	}
	if err := x.open(name); err != nil {
		return err
	}
	if approvals := x.line.All("--approval"); len(approvals) > 0 {
		return x.add(approvals)
	}
	if file := x.line.Get("--write"); file != "" {
		if err := files.Output(x.file(file), x.text); err != nil {
			return undecided(files.Hint(err), "%s cannot be written: %s", finding.Quote(file), finding.Clean(err.Error()))
		}
		if err := x.show(); err != nil {
			return err
		}
		fmt.Fprintf(x.env.Stdout, "wrote %s: who has read this and stands for it signs it: ssh-keygen -Y sign -n %s -f KEY %s\n",
			finding.Path(file), sshsign.NamespaceApproval, finding.Word(file))
		return nil
	}
	return x.show()
}

// open reads the commit and makes the text.
func (x *approver) open(name string) error {
	id, err := x.git(nil, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return undecided("rig-hook approve COMMIT", "there is no commit %s", finding.QuoteMax(name, 80))
	}
	if x.commit, err = x.repo.Commit(id); err != nil {
		return err
	}
	var found bool
	x.block, x.before, found = rules.ParseApproval(x.commit.Message)
	if on := x.line.Get("--on"); on != "" {
		if x.block.On, err = x.git(nil, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", on+"^{commit}"); err != nil {
			return undecided("", "there is no commit %s", finding.QuoteMax(on, 80))
		}
	} else if !found || x.block.On == "" {
		if len(x.commit.Parents) != 1 {
			return undecided("make the change by a commit with one parent", "the commit %s has %d parents", finding.Short(id), len(x.commit.Parents))
		}
		x.block.On = x.commit.Parents[0]
	}
	if ref := x.line.Get("--ref"); ref != "" {
		x.block.Ref = ref
	} else if x.block.Ref == "" {
		if x.block.Ref, _, err = hooks.Pushed(x.repo); err != nil {
			return err
		}
	}
	if err := gitrepo.CheckRefName(x.block.Ref); err != nil {
		return undecided("--ref refs/heads/main", "%s is not a full ref name", finding.QuoteMax(x.block.Ref, 80))
	}
	x.text, err = rules.ApprovalText(x.repo, x.commit, x.block.On, x.block.Ref)
	if errors.Is(err, rules.ErrNotApprovable) {
		return undecided("", "%s", err)
	}
	return err
}

// show prints what the commit changes, line by line.
func (x *approver) show() error {
	parent, err := x.repo.Commit(x.commit.Parents[0])
	if err != nil {
		return err
	}
	changes, err := x.repo.DiffTrees(parent.Tree, x.commit.Tree)
	if err != nil {
		return err
	}
	out := x.env.Stdout
	fmt.Fprintf(out, "commit %s by %s for %s, on %s\n", finding.Short(x.commit.ID), finding.QuoteMax(x.commit.Author.Email, 100),
		finding.Path(x.block.Ref), finding.Short(x.block.On))
	for _, ch := range changes {
		var data [2][]byte
		for i, id := range []string{ch.OldID, ch.NewID} {
			if i == 0 && ch.OldMode == 0 || i == 1 && ch.Deleted() {
				continue
			}
			if data[i], err = x.repo.Blob(id, policy.MaxTrustBytes); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "\n%s\n", finding.Path(ch.Path))
		text := diff.Diff("before", data[0], "after", data[1])
		if _, rest, ok := bytes.Cut(text, []byte("\n@@")); ok {
			text = append([]byte("@@"), rest...)
		}
		for line := range strings.Lines(string(text)) {
			fmt.Fprintf(out, "  %s\n", finding.Clean(strings.TrimSuffix(line, "\n")))
		}
	}
	fmt.Fprintf(out, "\nsigned besides by: %d; to sign as well: rig-hook approve %s --write FILE\n",
		len(sshsign.Armored(x.block.Signatures)), finding.Short(x.commit.ID))
	return nil
}

// add makes the commit anew, with approvals in its message, signed again.
func (x *approver) add(files []string) error {
	_, root, err := hooks.Pushed(x.repo)
	if err != nil {
		return err
	}
	if there, err := x.repo.IsAncestor(x.ctx, x.commit.ID, root); err != nil || there {
		if err == nil {
			err = undecided("rig-hook approve COMMIT, of a commit that was not taken yet", "the commit %s is accepted already", finding.Short(x.commit.ID))
		}
		return err
	}
	p, trust, err := hooks.NewLoader(x.repo).AtCommit(root)
	if err != nil {
		return err
	}
	signers, revoked, err := trust.Signers()
	if err != nil {
		return err
	}
	o := sshsign.Options{Namespace: sshsign.NamespaceApproval, MinRSABits: p.MinRSABits, At: x.env.Now()}
	for _, name := range files {
		data, err := os.ReadFile(x.file(name))
		if err != nil {
			return undecided("", "the approval %s cannot be read: %s", finding.Quote(name), finding.Clean(err.Error()))
		}
		if v := sshsign.VerifyMessage(x.text, data, signers, revoked, o); !v.Good() {
			by := ""
			if v.Fingerprint != "" {
				by = ", key " + v.Fingerprint
			}
			return undecided("rig-hook approve "+finding.Short(x.commit.ID)+" --write FILE; ssh-keygen -Y sign -n "+sshsign.NamespaceApproval+" -f KEY FILE",
				"%s is no approval of commit %s that counts: %s%s", finding.Quote(name), finding.Short(x.commit.ID), v.Why(), by)
		}
		if !bytes.Contains(x.block.Signatures, data) {
			x.block.Signatures = append(x.block.Signatures, data...)
		}
	}
	branch, head, err := x.repo.HEAD()
	if err != nil {
		return err
	}
	a := x.commit.Author
	message := append(append(bytes.TrimRight(x.before, "\n"), "\n\n"...), x.block.Block()...)
	args := []string{"-c", "gpg.format=ssh", "commit-tree", "-S", x.commit.Tree, "-F", "-"}
	for _, p := range x.commit.Parents {
		args = append(args, "-p", p)
	}
	id, err := x.git(message, []string{"GIT_AUTHOR_NAME=" + a.Name, "GIT_AUTHOR_EMAIL=" + a.Email, fmt.Sprintf("GIT_AUTHOR_DATE=@%d %s", a.When, a.Zone)}, args...)
	if err != nil {
		return fmt.Errorf("the commit could not be made: %w", err)
	}
	if head != x.commit.ID || !strings.HasPrefix(branch, "refs/heads/") {
		fmt.Fprintf(x.env.Stdout, "commit %s has them; no branch was moved\n", id)
		return nil
	}
	if _, err := x.git(nil, nil, "update-ref", "-m", "rig-hook: approve", branch, id, head); err != nil {
		return err
	}
	fmt.Fprintf(x.env.Stdout, "commit %s has %d approval(s) besides its signer; it counts once it is pushed\n", finding.Short(id), len(sshsign.Armored(x.block.Signatures)))
	return nil
}
