package drift

import (
	"errors"
	"testing"

	"github.com/rigward/rigward/pkg/policy"
)

// TestSigner: where the policy names a signer, nothing is decided without
// trusted signers.
func TestSigner(t *testing.T) {
	r := start(t, agentFiles)
	b := agentBundle
	commitBundle(t, r, b)
	b.Signer = "op@example.com"
	_, err := judge(t, r, "HEAD~1", "HEAD", b)
	var u *policy.Undecided
	if !errors.As(err, &u) || u.Hint == "" {
		t.Errorf("without signers: %v", err)
	}
	b.Signer = ""
	if j := must(t, r, "HEAD~1", "HEAD", b); len(j.Findings) > 0 {
		t.Errorf("without a signer: %v", j.Findings)
	}
}
