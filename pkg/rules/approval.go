package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// An Approval is what the end of a commit's message says of the people who stand
// for it beside its signer (docs/spec/quorum.md#approvals).
type Approval struct {
	On         string // commit that what they approved of was made on
	Ref        string // that it is for
	Signatures []byte // armored, one after the other
}

const approvalHead = "rigward approval 1\n"

// ErrNotApprovable is what an error wraps that says why nobody can approve of a
// commit.
var ErrNotApprovable = errors.New("")

func notApprovable(format string, a ...any) error {
	return fmt.Errorf("%s%w", fmt.Sprintf(format, a...), ErrNotApprovable)
}

// maxApproved is how many paths a commit changes at the most of which somebody
// approves: a person reads them all.
const maxApproved = 16

// Block returns the lines that a commit's message ends with.
func (a Approval) Block() []byte {
	return append([]byte(approvalHead+"on: "+a.On+"\nref: "+a.Ref+"\n\n"), a.Signatures...)
}

// ParseApproval reads the end of a commit's message, and what is before it. ok
// is false if there is no approval; one that is not of its form is the zero
// Approval.
func ParseApproval(message []byte) (a Approval, before []byte, ok bool) {
	i := bytes.LastIndex(message, []byte("\n"+approvalHead))
	if i < 0 {
		return a, message, false
	}
	rest := message[i+1+len(approvalHead):]
	for _, f := range []struct {
		key   string
		value *string
	}{{"on: ", &a.On}, {"ref: ", &a.Ref}} {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		value, is := bytes.CutPrefix(line, []byte(f.key))
		if !found || !is || len(value) == 0 {
			return Approval{}, message[:i+1], true
		}
		*f.value, rest = string(value), after
	}
	if a.Signatures, ok = bytes.CutPrefix(rest, []byte("\n")); !ok {
		return Approval{}, message[:i+1], true
	}
	return a, message[:i+1], true
}

// ApprovalText returns the text that people sign who stand for a commit beside its
// signer: what it changes, to the byte, by whom and when it was made, on which
// commit and for which ref. The message and what else the commit says are not
// part of it, nor its parent. An error that wraps ErrNotApprovable says why there
// can be no approval of it.
func ApprovalText(repo Repo, c *gitrepo.Commit, on, ref string) ([]byte, error) {
	if len(c.Parents) != 1 {
		return nil, notApprovable("a commit with %d parents cannot be approved of: make the change by a commit with one", len(c.Parents))
	}
	parent, err := repo.Commit(c.Parents[0])
	if err != nil {
		return nil, err
	}
	changes, err := repo.DiffTrees(parent.Tree, c.Tree)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 || len(changes) > maxApproved {
		return nil, notApprovable("the commit changes %d paths, and 1 to %d can be approved of at once", len(changes), maxApproved)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\non: %s\nref: %s\nby: %s\nat: %s\n", approvalHead, on, ref, c.Author.Email, time.Unix(c.Author.When, 0).UTC().Format(time.RFC3339))
	for _, ch := range changes {
		old, err := sumOf(repo, ch.OldMode, ch.OldID)
		if err != nil {
			return nil, err
		}
		is, err := sumOf(repo, ch.NewMode, ch.NewID)
		if err != nil {
			return nil, err
		}
		// Hashes and modes come first, so that no path can stand for more.
		fmt.Fprintf(&b, "change: %s %s %s\n", old, is, finding.Quote(ch.Path))
	}
	return b.Bytes(), nil
}

// sumOf is the mode and the SHA-256 of what is at a path, "-" for nothing.
func sumOf(repo Repo, mode gitrepo.Mode, id string) (string, error) {
	if mode == 0 {
		return "-", nil
	}
	if !mode.IsFile() {
		return "", notApprovable("an entry of mode %s cannot be approved of", mode)
	}
	sum := sha256.New()
	err := repo.Objects([]string{id}, policy.MaxTrustBytes, func(o gitrepo.Object) error {
		sum.Write(o.Data)
		if errors.Is(o.Err, gitrepo.ErrTooLarge) {
			return notApprovable("what has more than %d bytes cannot be approved of", policy.MaxTrustBytes)
		}
		return o.Err
	})
	if err != nil {
		return "", err
	}
	return mode.String() + ":" + hex.EncodeToString(sum.Sum(nil)), nil
}

// wellFormed reports whether an approval names a commit and a ref.
func (a Approval) wellFormed(digits int) bool {
	return len(a.On) == digits && strings.Trim(a.On, "0123456789abcdef") == "" && gitrepo.CheckRefName(a.Ref) == nil
}
