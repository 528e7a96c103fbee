package bridge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// A trustChange is what others changed of the files that say who is trusted.
type trustChange struct {
	Path      string   `json:"path"`
	Commit    string   `json:"commit"`    // the last one that changed it
	Author    string   `json:"author"`    // of that commit, as it names itself
	Signature string   `json:"signature"` // in words: by whom, and whether this clone trusts the key
	Added     []string `json:"added"`     // lines
	Removed   []string `json:"removed"`
}

// maxTrustLines is how many lines of a change are told to people, maxTrustFile how
// much of a file is looked at, in bytes.
const (
	maxTrustLines = 8
	maxTrustFile  = 1 << 20
)

// trustChanges says what the commits of theirs that head lacks change of policy,
// signers and revocations, against what both sides had, and who signed for it: by whom
// each commit's parent trusts if all of them pass, else by whom head trusts.
func (w *work) trustChanges(ctx context.Context, in *incoming, head, theirs string) ([]trustChange, error) {
	if len(in.trusted) == 0 {
		return nil, nil
	}
	shared := head
	if head != "" {
		bases, err := w.repo.MergeBases(ctx, head, theirs)
		if err != nil {
			return nil, gitProblem(err)
		}
		if len(bases) > 0 {
			shared = bases[0]
		}
	}
	var out []trustChange
	for i, path := range in.trusted {
		before, err := w.linesAt(shared, path)
		if err != nil {
			return nil, err
		}
		after, err := w.linesAt(theirs, path)
		if err != nil {
			return nil, err
		}
		commit, err := w.repo.Commit(in.trustedBy[i])
		if err != nil {
			return nil, gitProblem(err)
		}
		by := head
		if finding.Worst(in.findings) < finding.Error && len(commit.Parents) > 0 {
			by = commit.Parents[0]
		}
		signed, err := w.signedBy(commit.Raw, by)
		if err != nil {
			return nil, err
		}
		out = append(out, trustChange{
			Path: path, Commit: commit.ID, Author: commit.Author.Name + " <" + commit.Author.Email + ">", Signature: signed,
			Added: without(after, before), Removed: without(before, after),
		})
	}
	return out, nil
}

// signedBy says in words who signed a commit, by whom another one trusts.
func (w *work) signedBy(raw []byte, by string) (string, error) {
	p, trust, err := w.policyAt(by)
	if err != nil {
		return "", err
	}
	signers, revoked, err := trust.Signers()
	known := err == nil
	v := sshsign.VerifyCommit(raw, sshsign.ObjectFormat(w.repo.ObjectFormat()), signers, revoked, sshsign.Options{MinRSABits: p.MinRSABits})
	switch {
	case v.Reason == sshsign.Unsigned:
		return "unsigned", nil
	case v.Good():
		return "signed by " + strings.Join(v.Principals, ",") + " " + v.Fingerprint, nil
	case v.Fingerprint == "":
		return "with a signature that cannot be read", nil
	case !known:
		return "signed by the key " + v.Fingerprint + ", and this clone knows no signers yet", nil
	}
	return fmt.Sprintf("signed by the key %s, which is not accepted: %s", v.Fingerprint, v.Reason), nil
}

// linesAt returns the lines of a file in a commit, none if it is not there.
func (w *work) linesAt(commit, path string) ([]string, error) {
	tree, err := w.tree(commit)
	if err != nil || tree == "" {
		return nil, err
	}
	e, ok, err := w.repo.EntryAt(tree, path)
	if err != nil {
		return nil, gitProblem(err)
	}
	if !ok || !e.Mode.IsFile() {
		return nil, nil
	}
	data, err := w.repo.Blob(e.ID, policy.MaxTrustBytes)
	if err != nil {
		return nil, gitProblem(err)
	}
	var out []string
	for line := range strings.Lines(string(data[:min(len(data), maxTrustFile)])) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			out = append(out, line)
		}
	}
	return out, nil
}

// without returns those of lines that are not among others, each as often as it
// is there more often.
func without(lines, others []string) []string {
	count := map[string]int{}
	for _, l := range others {
		count[l]++
	}
	return slices.DeleteFunc(append([]string{}, lines...), func(l string) bool {
		count[l]--
		return count[l] >= 0
	})
}

// lines tells the change to people.
func (c trustChange) lines() []string {
	out := []string{fmt.Sprintf("%s changes by commit %s of %s, %s", finding.Path(c.Path), short(c.Commit), finding.QuoteMax(c.Author, 80), finding.Clean(c.Signature))}
	for sign, lines := range map[string][]string{"+": c.Added, "-": c.Removed} {
		for i, l := range lines {
			if i == maxTrustLines {
				out = append(out, fmt.Sprintf("  %s and %d lines more", sign, len(lines)-i))
				break
			}
			out = append(out, "  "+sign+" "+finding.QuoteMax(l, 120))
		}
	}
	slices.SortStableFunc(out[1:], func(a, b string) int { return -strings.Compare(a[:3], b[:3]) })
	return out
}

// agreed asks at a terminal whether to take what came, where it changes who is
// trusted.
func (r *run) agreed(o *syncObject) bool {
	if len(o.TrustChanges) == 0 || r.env.Ask == nil || r.json || r.opts.Has("--check") || r.opts.Has("--watch") {
		return false
	}
	var b strings.Builder
	for _, c := range o.TrustChanges {
		for _, line := range c.lines() {
			b.WriteString(escapeLine(line) + "\n")
		}
	}
	return r.env.Ask(b.String() + "take it? [y/N] ")
}
