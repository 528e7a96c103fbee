package sshsign

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
)

// Revocations says which keys and certificates no longer count, whatever date
// a signature bears.
type Revocations struct {
	keys   map[string]bool // public key blobs
	sha1   map[[sha1.Size]byte]bool
	sha256 map[[sha256.Size]byte]bool
	certs  map[string]*revokedCerts // by blob of the authority, "" for any
	others []*Revocations
}

// JoinRevocations returns what any of several lists revokes; nil, which revokes
// nothing, if there are none.
func JoinRevocations(lists ...*Revocations) *Revocations {
	if len(lists) == 0 {
		return nil
	}
	r := *lists[0]
	r.others = slices.Concat(r.others, lists[1:])
	return &r
}

// revokedCerts are the revoked certificates of one authority.
type revokedCerts struct {
	serials []serialRange // sorted, neither overlapping nor touching
	bitmaps []serialBitmap
	ids     map[string]bool
}

type serialRange struct{ low, high uint64 }

// A serialBitmap holds the serial number offset + n if bit n of the big-endian
// number bits is set.
type serialBitmap struct {
	offset uint64
	bits   []byte
}

// ParseRevocations reads a revocation file: a key revocation list as
// ssh-keygen -k writes it (OpenSSH PROTOCOL.krl), or one public key a line as
// in *.pub files. A key that is listed revokes its certificates and, if it is
// an authority's, those that it made. What cannot be honoured as it stands is
// an error, of type *ParseError. So is a file without any text: to revoke
// nothing, write a comment into it.
func ParseRevocations(data []byte) (*Revocations, error) {
	r := &Revocations{
		keys:   map[string]bool{},
		sha1:   map[[sha1.Size]byte]bool{},
		sha256: map[[sha256.Size]byte]bool{},
		certs:  map[string]*revokedCerts{},
	}
	if bytes.HasPrefix(data, []byte(krlMagic)[:6]) {
		if err := r.parseKRL(data); err != nil {
			return nil, err
		}
		return r, nil
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &ParseError{Message: "it is empty", Hint: "to revoke nothing, write a comment line that begins with #"}
	}
	err := eachLine(data, func(c *cursor) *ParseError {
		blob, err := parseRevokedKey(c)
		if err != nil {
			return err
		}
		r.keys[blob] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// parseRevokedKey reads "type base64 [comment]" and returns the key's blob.
func parseRevokedKey(c *cursor) (string, *ParseError) {
	const copyHint = "copy the line from the *.pub file"
	start := c.at
	kind := c.word()
	switch {
	case supportedCertificate(kind):
		return "", c.errorf("a certificate, where a public key is expected").hint("list the key itself, or revoke the certificate in a KRL (ssh-keygen -k)")
	case !revocable(kind):
		return "", c.errorf("no public key, but %s", finding.QuoteMax(kind, 60)).hint("a revocation file holds one public key a line, <key type> <base64 key>, or is a KRL of ssh-keygen -k")
	}
	c.at += len(kind)
	c.blanks()
	blob, err := base64.StdEncoding.Strict().DecodeString(c.word())
	if err != nil || len(blob) == 0 {
		return "", c.errorf("the key is not base64").hint(copyHint)
	}
	actual, ok := revocableBlob(blob)
	if !ok {
		return "", c.errorf("the base64 does not hold a public key as OpenSSH writes it").hint(copyHint)
	}
	if actual != kind {
		return "", c.errorAt(start, "the line says %s, the key in it is %s", kind, finding.QuoteMax(actual, 60)).hint(copyHint)
	}
	return string(blob), nil
}

// revocable reports whether keys of that type can be listed. DSA keys can: none
// is ever accepted, but a list that revokes one is a good list.
func revocable(kind string) bool { return supportedKey(kind) || kind == "ssh-dss" }

// revocableBlob returns the type that the blob of a public key names; ok is
// false if it is none as OpenSSH writes it.
func revocableBlob(blob []byte) (kind string, ok bool) {
	var name struct {
		Type string
		Rest []byte `ssh:"rest"`
	}
	if ssh.Unmarshal(blob, &name) != nil || !revocable(name.Type) {
		return "", false
	}
	if name.Type == "ssh-dss" {
		return name.Type, true // compared byte by byte, never parsed
	}
	_, ok = parsePublicKey(blob)
	return name.Type, ok
}

// Revokes reports whether key, or if it is a certificate its authority, is
// revoked.
func (r *Revocations) Revokes(key ssh.PublicKey) bool { return r.revokes(key) != "" }

// revokes says how key is revoked, "" if it is not.
func (r *Revocations) revokes(key ssh.PublicKey) string {
	if r == nil {
		return ""
	}
	for _, other := range r.others {
		if why := other.revokes(key); why != "" {
			return why
		}
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		if r.holds(key) {
			return "it is revoked"
		}
		return ""
	}
	switch {
	case r.holds(cert.Key):
		return "it is revoked"
	case r.holds(cert.SignatureKey):
		return "the authority of its certificate is revoked"
	}
	for _, authority := range []string{string(cert.SignatureKey.Marshal()), ""} {
		if c := r.certs[authority]; c != nil {
			if c.ids[cert.KeyId] {
				return "its certificate is revoked by key id"
			}
			if c.holds(cert.Serial) {
				return fmt.Sprintf("its certificate is revoked by its serial number %d", cert.Serial)
			}
		}
	}
	return ""
}

// holds reports whether a plain key is listed.
func (r *Revocations) holds(key ssh.PublicKey) bool {
	blob := key.Marshal()
	return r.keys[string(blob)] ||
		len(r.sha1) > 0 && r.sha1[sha1.Sum(blob)] ||
		len(r.sha256) > 0 && r.sha256[sha256.Sum256(blob)]
}

// holds reports whether a serial number is revoked; 0 means that the authority
// gave none, and no list can hold it.
func (c *revokedCerts) holds(serial uint64) bool {
	_, found := slices.BinarySearchFunc(c.serials, serial, func(r serialRange, serial uint64) int {
		switch {
		case r.high < serial:
			return -1
		case r.low > serial:
			return 1
		}
		return 0
	})
	if found {
		return true
	}
	for _, b := range c.bitmaps {
		n := serial - b.offset
		if serial >= b.offset && n < 8*uint64(len(b.bits)) && b.bits[uint64(len(b.bits))-1-n/8]&(1<<(n%8)) != 0 {
			return true
		}
	}
	return false
}
