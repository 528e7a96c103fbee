package hooks

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/sshsign"
)

// preReceive judges all refs of a push together, before any of them moves.
func (g *gate) preReceive(ctx context.Context) error {
	data, err := g.stdin()
	if err != nil {
		return err
	}
	updates, err := change.ParseReceive(data)
	if err != nil {
		return err
	}
	if len(updates) == 0 {
		return &policy.Undecided{Message: "no ref lines on standard input", Hint: "git runs this hook; to check by hand: rig-hook check"}
	}
	return g.receive(ctx, updates)
}

// update judges one ref, when the objects of the push have been taken in and
// the refs before it may have moved.
func (g *gate) update(ctx context.Context) error {
	u, err := change.ParseUpdate(g.args)
	if err != nil {
		return err
	}
	if err := g.receive(ctx, []change.RefUpdate{u}); err != nil {
		return err
	}
	g.told = g.accepted() && len(g.judge.Findings) > 0 && preReceives(ctx, g.repo)
	return nil
}

// preReceives reports whether our pre-receive runs before update, and has told
// of the same push already.
func preReceives(ctx context.Context, repo *gitrepo.Repo) bool {
	dir, err := repo.HooksPath(ctx)
	if err != nil {
		return false
	}
	names := []string{"pre-receive"}
	entries, _ := os.ReadDir(filepath.Join(dir, "pre-receive.d")) // which a forge's own hook runs
	for _, e := range entries {
		names = append(names, filepath.Join("pre-receive.d", e.Name()))
	}
	return slices.ContainsFunc(names, func(name string) bool {
		file := filepath.Join(dir, name)
		if !Executable(file) {
			return false
		}
		data, err := files.Read(file)
		return err == nil && (IsShim(data) || bytes.Contains(data, []byte("rig-hook")) && bytes.Contains(data, []byte("pre-receive")))
	})
}

// receive judges ref updates at a server.
func (g *gate) receive(ctx context.Context, updates []change.RefUpdate) error {
	if g.log != nil { // git runs the hook, not Gerrit
		g.log.receive(updates)
	}
	if len(updates) == 1 && !updates[0].Delete() {
		g.repo.Expect(updates[0].New)
	}
	own, err := OwnReceiver(g.repo)
	if err != nil {
		return err
	}
	d, err := g.door(own, updates)
	if err != nil {
		return err
	}
	if err := own.Judged.flush(); err != nil {
		return &policy.Undecided{Message: "another branch is the default now, or the default branch is not protected any more, and this server cannot write that down",
			Hint: "let the user of the hooks write to " + finding.Path(filepath.ToSlash(own.Judged.file)), Cause: err}
	}
	if err := g.pushCert(d.Policy, d.Trust); err != nil {
		return err
	}
	if g.kind == rules.PreReceive { // which sees the whole push
		if err := d.unborn(updates); err != nil {
			return err
		}
	}
	if err := g.through(ctx, d, updates, func(r rules.Range) error { return g.judge.Range(ctx, r) }); err != nil {
		return err
	}
	g.save()
	if g.accepted() {
		if err := g.judge.Claim(filepath.Join(g.repo.CommonDir(), "rigward"), d.pending); err != nil {
			return err
		}
	}
	if g.accepted() && g.log != nil {
		if err := g.attests(d, updates); err != nil {
			return err
		}
	}
	if g.accepted() {
		g.judge.Keep()
		// What is not kept is judged anew.
		_ = d.Keep(ctx)
	}
	return nil
}

// accepted reports whether what was found refuses nothing.
func (g *gate) accepted() bool {
	r := g.report
	r.Findings, r.More = g.judge.Findings, g.judge.More
	return r.ExitCode() == report.ExitClean
}

// save keeps the nonce index for the next push. It is derived: if it cannot be
// written, the next push reads more.
func (g *gate) save() {
	if g.judge.Nonces != nil {
		_ = g.judge.Nonces.Save()
	}
}

// pushCert judges the push certificate where the policy requires one.
func (g *gate) pushCert(p *policy.Policy, trust *policy.Trust) error {
	if !p.PushCert || g.kind != rules.PreReceive {
		return nil
	}
	add := func(message, hint string) {
		g.judge.Findings = append(g.judge.Findings, finding.Finding{Rule: "push-cert", Severity: p.Level("push-cert"), Message: message, Hint: hint})
	}
	const hint = "git push --signed"
	id := g.env.Getenv("GIT_PUSH_CERT")
	if id == "" || !g.repo.ValidID(id) || change.Zero(id) {
		add("the push carries no certificate, and the policy requires one (push-cert: require)", hint)
		return nil
	}
	nonce := g.env.Getenv("GIT_PUSH_CERT_NONCE_STATUS")
	if !slices.Contains([]string{"OK", "SLOP"}, nonce) {
		add(fmt.Sprintf("the nonce of the push certificate is %s, expected OK", finding.QuoteMax(nonce, 20)), "on the server: git config receive.certNonceSeed SECRET; then "+hint)
		return nil
	}
	cert, err := g.repo.Blob(id, policy.MaxTrustBytes)
	if err != nil {
		return err
	}
	signers, revoked, err := trust.Signers()
	if err != nil {
		return err
	}
	text, armor := cert, []byte(nil) // as of a tag (gitformat-signature(5))
	if i := bytes.LastIndex(cert, []byte("\n-----BEGIN ")); i >= 0 {
		text, armor = cert[:i+1], cert[i+1:]
	}
	if v := sshsign.VerifyMessage(text, armor, signers, revoked, sshsign.Options{MinRSABits: p.MinRSABits, At: g.judge.Now}); !v.Good() {
		add("the push certificate: "+v.Why(), hint)
	}
	return nil
}
