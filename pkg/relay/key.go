package relay

import (
	"bytes"
	"encoding/base64"
	"strings"

	"golang.org/x/crypto/ssh"
)

// A KeyVerdict says how attested_by and a key go together.
type KeyVerdict int

// The verdicts of NamesKey. The zero value is that of another key.
const (
	OtherKey KeyVerdict = iota // names another key, or nothing that is a key here
	SameKey                    // names this key
	NoKey                      // is a path, which names no key
)

// String returns "names another key", "names the key" or "is a path".
func (v KeyVerdict) String() string {
	switch v {
	case SameKey:
		return "names the key"
	case NoKey:
		return "is a path"
	}
	return "names another key"
}

// NamesKey compares attested_by with the key that signed (docs/spec/relay.md#keys):
// a SHA256 fingerprint, or a public key with or without key:: before it and
// whatever comment. A path names no key.
func NamesKey(attestedBy string, key ssh.PublicKey) KeyVerdict {
	if digest, ok := strings.CutPrefix(attestedBy, "SHA256:"); ok {
		if digest = strings.TrimSuffix(digest, "="); len(digest) == 43 && isBase64(digest) {
			return verdict("SHA256:"+digest == ssh.FingerprintSHA256(key))
		}
	}
	if kind, rest, ok := strings.Cut(strings.TrimPrefix(attestedBy, "key::"), " "); ok {
		text, _, _ := strings.Cut(rest, " ")
		if blob, err := base64.StdEncoding.Strict().DecodeString(text); err == nil && isBase64(text) && len(blob) > 0 {
			return verdict(kind == key.Type() && bytes.Equal(blob, key.Marshal()))
		}
	}
	if isPath(attestedBy) {
		return NoKey
	}
	return OtherKey
}

func verdict(same bool) KeyVerdict {
	if same {
		return SameKey
	}
	return OtherKey
}

// isBase64 reports text of the base64 alphabet alone: the decoder of the
// standard library skips line ends.
func isBase64(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '+' && r != '/' && r != '='
	})
}

// isPath reports what can only be meant as the path of a key file.
func isPath(s string) bool {
	for _, prefix := range []string{"/", "~", "./", "../"} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	if len(s) >= 2 && s[1] == ':' && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z') {
		return true // a drive letter
	}
	return strings.Contains(s, `\`) || strings.HasSuffix(s, ".pub")
}
