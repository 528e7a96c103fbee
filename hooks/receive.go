package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/change"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
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
	return g.receive(ctx, []change.RefUpdate{u})
}

// receive judges ref updates at a server.
func (g *gate) receive(ctx context.Context, updates []change.RefUpdate) error {
	head, headID, err := g.repo.HEAD()
	if err != nil {
		return err
	}
	// What is protected is said by the server or by the default branch, never
	// by a ref that nobody guards.
	p, trust, err := g.loader.AtCommit(headID)
	if err != nil {
		return err
	}
	g.use(p)
	bootstrap, _, err := g.repo.ConfigBool("rigward.bootstrap")
	if err != nil {
		return err
	}
	g.judge.Bootstrap = bootstrap
	if err := g.pushCert(p, trust); err != nil {
		return err
	}
	protected := func(ref string) bool { return p.Protected(ref, head) }
	if len(p.Protect) == 0 && (head == "" || headID == "") {
		// HEAD names no branch, or one that does not exist: better too much
		// than nothing.
		protected = func(ref string) bool { return strings.HasPrefix(ref, "refs/heads/") }
	}
	var tips []string // of protected refs before the push, read when first needed
	tipsKnown := false
	protectedTips := func() ([]string, error) {
		if !tipsKnown {
			for ref, err := range g.repo.Refs(ctx) {
				if err != nil {
					return nil, err
				}
				if !protected(ref.Name) || ref.Target != "" {
					continue
				}
				id, err := g.commit(ref.ID)
				var none *policy.Undecided
				if errors.As(err, &none) {
					continue // a tag of a tree or a blob
				}
				if err != nil {
					return nil, err
				}
				tips = append(tips, id)
			}
			tipsKnown = true
		}
		return tips, nil
	}
	var came []string // commits that protected refs get in this push
	for _, u := range updates {
		if u.Ref, err = g.target(u.Ref); err != nil {
			return err
		}
		g.report.Refs++
		if !g.judge.Ref(p, u, protected(u.Ref)) {
			continue
		}
		r := policy.Range{Ref: u.Ref, History: true, Policy: p, Trust: trust, From: headID}
		if r.New, err = g.commit(u.New); err != nil {
			return err
		}
		if u.Create() {
			if r.Exclude, err = protectedTips(); err != nil {
				return err
			}
			if r.First = len(r.Exclude) == 0; r.First {
				if err := g.first(bootstrap); err != nil {
					return err
				}
			}
		} else {
			if r.Old, err = g.commit(u.Old); err != nil {
				return err
			}
			r.Exclude = []string{r.Old}
			if r.Policy, r.Trust, err = g.loader.AtCommit(r.Old); err != nil {
				return err
			}
		}
		if r.Policy.NonceRefs {
			before, err := protectedTips()
			if err != nil {
				return err
			}
			r.NonceTips = slices.Concat(before, came)
		}
		if err := g.judge.Range(ctx, r); err != nil {
			return err
		}
		came = append(came, r.New)
	}
	g.save()
	return nil
}

// first refuses the first push into an empty repository, where nothing can be
// trusted yet, unless the server says what to judge it by or that it may come.
func (g *gate) first(bootstrap bool) error {
	if bootstrap {
		return nil
	}
	if paths, err := g.loader.ServerPaths(); paths || err != nil {
		return err
	}
	return &policy.Undecided{
		Message: "the first push into an empty repository: there is no policy and no signer yet to judge it by",
		Hint:    "on the server: git config rigward.bootstrap true",
	}
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
	if !p.PushCert || g.kind != policy.PreReceive {
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
	if v := verifyCert(cert, signers, revoked, p, g.judge.Now); !v.Good() {
		why := string(v.Reason)
		if v.Detail != "" {
			why += ": " + v.Detail
		}
		add("the push certificate: "+why, hint)
	}
	return nil
}
