package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/sshsign"
)

// A Trust says who may sign: the signers file and the revocation files of the
// default branch or of the server. They are read when a rule first needs them, since
// most pushes hold nothing that must be signed.
type Trust struct {
	read    func() (signers []byte, revoked []RevocationFile, err error)
	source  string // for people: where the signers come from
	missing bool   // there is no signers file where the policy says it lies

	once sync.Once
	s    *sshsign.Signers
	r    *sshsign.Revocations
	err  error
}

// A RevocationFile is one of the lists of keys that count for nothing.
type RevocationFile struct {
	Source string // for people: where it lies
	Data   []byte
}

// NewTrust returns a Trust that reads the files by read when they are first
// needed. source is where the signers come from, for messages.
func NewTrust(source string, read func() (signers []byte, revoked []RevocationFile, err error)) *Trust {
	return &Trust{read: read, source: source}
}

// ErrNobody is the cause of an Undecided that needs a signer where nobody is
// trusted yet.
var ErrNobody = errors.New("nobody is trusted yet")

// Untrusting returns a Trust without a signers file: asking it is an error.
func Untrusting(source string) *Trust {
	return &Trust{source: source, missing: true, read: func() ([]byte, []RevocationFile, error) {
		return nil, nil, &Undecided{Cause: ErrNobody,
			Message: "there are no trusted signers: " + source + " is missing in what was there before",
			Hint:    "push the commit that adds it first, by itself; or name a file of the server: git config rigward.allowedSigners FILE",
		}
	}}
}

// Exists reports whether there is a signers file, readable or not.
func (t *Trust) Exists() bool { return !t.missing }

// Signers returns the parsed files. A file that is missing, empty or malformed
// is an error: nothing that needs a signature can be decided then.
func (t *Trust) Signers() (*sshsign.Signers, *sshsign.Revocations, error) {
	t.once.Do(func() {
		signers, revoked, err := t.read()
		if err != nil {
			t.err = err
			return
		}
		if t.s, err = sshsign.ParseSigners(signers); err != nil {
			t.err = malformed("the signers file "+t.source, err)
			return
		}
		var lists []*sshsign.Revocations
		for _, f := range revoked {
			list, err := sshsign.ParseRevocations(f.Data)
			if err != nil {
				t.err = malformed("the revocation file "+f.Source, err)
				return
			}
			lists = append(lists, list)
		}
		t.r = sshsign.JoinRevocations(lists...)
	})
	return t.s, t.r, t.err
}

// Files returns the signers file and the revocation files as they are. Whether they can
// be used, Signers says.
func (t *Trust) Files() (signers []byte, revoked []RevocationFile, err error) { return t.read() }

// Digests returns the SHA-256 of the signers file and of each revocation file, ""
// for a signers file that is missing or cannot be read.
func (t *Trust) Digests() (signers string, revoked []string) {
	data, files, err := t.read()
	if err != nil {
		return "", nil
	}
	for _, f := range files {
		revoked = append(revoked, digest(f.Data))
	}
	return digest(data), revoked
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func malformed(what string, err error) error {
	u := &Undecided{Message: what + " is malformed: " + finding.Clean(err.Error()), Cause: err}
	var p *sshsign.ParseError
	if errors.As(err, &p) {
		u.Hint = p.Hint
	}
	return u
}
