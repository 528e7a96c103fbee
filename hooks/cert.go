package hooks

import (
	"bytes"
	"time"

	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// verifyCert judges the signature of a push certificate: its text, then the
// armor, as of a tag (gitformat-signature(5)).
func verifyCert(cert []byte, s *sshsign.Signers, r *sshsign.Revocations, p *policy.Policy, now time.Time) sshsign.Verdict {
	text, armor := cert, []byte(nil)
	if i := bytes.LastIndex(cert, []byte("\n-----BEGIN ")); i >= 0 {
		text, armor = cert[:i+1], cert[i+1:]
	}
	return sshsign.VerifyMessage(text, armor, s, r, sshsign.Options{MinRSABits: p.MinRSABits, At: now})
}
