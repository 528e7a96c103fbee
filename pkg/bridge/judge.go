package bridge

import "github.com/rigward/rigward/pkg/finding"

// judgeRange judges every commit of tip that base lacks by all rules of the
// push gate, with policy and signers from base.
func (r *run) judgeRange(w *work, t target, base, tip string) ([]finding.Finding, error) {
	return nil, nil
}
