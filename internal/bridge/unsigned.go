package bridge

import (
	"fmt"
	"strings"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// listed reports whether the signers that count on top of a commit name a key for a
// rig, and where.
func (w *work) listed(head, rig string) (file string, yes bool) {
	p, trust, err := w.policyAt(head)
	if err != nil || !trust.Exists() {
		return "", false
	}
	signers, _, err := trust.Signers()
	if err != nil {
		return "", false // the gates say so where a signature is needed
	}
	for _, s := range signers.List() {
		if s.Matches(rig) {
			return p.Signers, true
		}
	}
	return "", false
}

// signing are the commands that make git sign each commit, as far as they are
// still needed.
func (w *work) signing() (string, error) {
	var commands []string
	for _, kv := range [][2]string{{"gpg.format", "ssh"}, {"user.signingkey", "<file of the public key>"}, {"commit.gpgsign", "true"}} {
		v, err := w.config(kv[0])
		if err != nil {
			return "", err
		}
		if kv[0] == "user.signingkey" && v != "" || strings.EqualFold(v, kv[1]) {
			continue
		}
		commands = append(commands, "git config "+kv[0]+" "+kv[1])
	}
	return strings.Join(commands, " && "), nil
}

// unsigned is the warning for a message that nobody can verify though the signers
// list a key of its rig; nil where there is nothing to warn of.
func (w *work) unsigned(before string, c *gitrepo.Commit, p *posted) (*finding.Finding, error) {
	if c.Signed() {
		return nil, nil
	}
	file, yes := w.listed(before, p.env.From)
	if !yes {
		return nil, nil
	}
	commands, err := w.signing()
	if err != nil || commands == "" {
		return nil, err
	}
	return &finding.Finding{Rule: "commit-signed", Severity: finding.Warning, Path: p.path, Commit: c.ID,
		Message: fmt.Sprintf("the message is unsigned, though %s lists a key of %s; `%s` signs the next ones", finding.Path(file), p.env.From, commands),
		Hint:    commands}, nil
}

// ready says in words what keeps a new rig from sending, or from being verified.
func (r *run) ready(w *work, rig string) error {
	missing, err := w.unnamed()
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		var keys, commands []string
		for _, what := range missing {
			keys, commands = append(keys, "user."+what), append(commands, nameCommand(what))
		}
		r.note("%s must be set before a message can be sent: `%s`", strings.Join(keys, " and "), strings.Join(commands, " && "))
	}
	if strings.HasSuffix(rig, envelope.RelaySuffix) {
		return nil // relay itself asks for the key
	}
	commands, err := w.signing()
	if err != nil || commands == "" {
		return err
	}
	_, head, err := w.repo.HEAD()
	if err != nil {
		return gitProblem(err)
	}
	if file, yes := w.listed(head, rig); yes {
		r.note("%s lists a key of %s, and messages are not signed yet: `%s`", finding.Path(file), rig, commands)
	} else {
		r.note("messages will be unsigned, so that nobody can verify who wrote them; to sign them: `%s`", commands)
	}
	return nil
}
