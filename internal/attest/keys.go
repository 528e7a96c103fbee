package attest

import (
	"bytes"
	"errors"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/sshsign"
)

// namespace is what a line of a signers file must name for its key to attest.
const namespace = "rigward-attestation"

// A KeyRing is Keys from files. Its zero value trusts nobody.
type KeyRing struct {
	keys map[string]ringKey
}

type ringKey struct {
	key   ssh.PublicKey
	worth Verdict
}

// Judge implements Keys.
func (r *KeyRing) Judge(id string) (ssh.PublicKey, Verdict) { return r.keys[id].key, r.keys[id].worth }

// Empty reports whether nobody is trusted.
func (r *KeyRing) Empty() bool { return len(r.keys) == 0 }

func (r *KeyRing) add(key ssh.PublicKey, worth Verdict) {
	if r.keys == nil {
		r.keys = map[string]ringKey{}
	}
	if id := ssh.FingerprintSHA256(key); raw(key) != nil {
		r.keys[id] = ringKey{key, max(worth, r.keys[id].worth)}
	}
}

// AddKey lets a key count, unless it is revoked.
func (r *KeyRing) AddKey(key ssh.PublicKey, revoked *sshsign.Revocations) {
	worth := Good
	if revoked.Revokes(key) {
		worth = Revoked
	}
	r.add(key, worth)
}

// AddFile lets the public keys of a file count, one a line as in *.pub files.
func (r *KeyRing) AddFile(data []byte, revoked *sshsign.Revocations) error {
	for any := false; ; any = true {
		data = bytes.TrimSpace(data)
		key, _, _, rest, err := ssh.ParseAuthorizedKey(data)
		if err != nil {
			if any && len(data) == 0 {
				return nil
			}
			return errors.New("it holds no public key, expected lines as in *.pub files")
		}
		if raw(key) == nil {
			return errors.New("it holds a key of type " + key.Type() + ", expected ssh-ed25519")
		}
		r.AddKey(key, revoked)
		data = rest
	}
}

// AddSigners lets those keys of a signers file count whose line names the
// namespace. One whose time is over is as one that was revoked.
func (r *KeyRing) AddSigners(s *sshsign.Signers, revoked *sshsign.Revocations, now time.Time) {
	for _, line := range s.List() {
		if !line.HasNamespaces || line.CertAuthority || !sshsign.MatchPrincipals(line.Namespaces, namespace) {
			continue
		}
		switch v := s.Judge(line.Key, revoked, sshsign.Options{Namespace: namespace, At: now}); {
		case v.Good():
			r.add(line.Key, Good)
		case v.Reason == sshsign.Revoked || v.Reason == sshsign.Expired:
			r.add(line.Key, Revoked)
		}
	}
}
