package bundle

import (
	"crypto/sha256"
	"encoding/hex"
)

// Type of a member.
type Type byte

// The types of members, with tar's own flags.
const (
	File     Type = '0'
	Hardlink Type = '1'
	Symlink  Type = '2'
	Dir      Type = '5'
)

// String returns "file", "hard link", "symlink" or "directory".
func (t Type) String() string {
	switch t {
	case File:
		return "file"
	case Hardlink:
		return "hard link"
	case Symlink:
		return "symlink"
	case Dir:
		return "directory"
	}
	return "unknown type"
}

// A Member is one member of an archive, by its normalised header.
type Member struct {
	Name    string // without a leading "./" and a directory's trailing slash
	Type    Type
	Mode    uint32 // normalised: 0644 or 0755; 0777 for a symlink
	RawMode uint32 // permission bits as the header says, at most 07777
	Size    int64  // bytes of content
	Link    string // target of a symlink or hard link, as written
	SHA256  Digest // of a file's content

	data int64 // offset of the content in the tar stream
}

// A Digest is a SHA-256.
type Digest [sha256.Size]byte

// Hex returns 64 lower-case hex digits.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// String returns "sha256:" and 64 hex digits, the form in which digests are
// printed; the zero Digest, one that was not computed, is "".
func (d Digest) String() string {
	if d == (Digest{}) {
		return ""
	}
	return "sha256:" + d.Hex()
}

// ParseHex reads exactly 64 lower-case hex digits.
func ParseHex(s string) (d Digest, ok bool) {
	if len(s) != 2*len(d) {
		return d, false
	}
	for i := range len(s) {
		v := s[i] - '0'
		if v > 9 {
			if v = s[i] - 'a' + 10; v < 10 || v > 15 {
				return Digest{}, false
			}
		}
		d[i/2] = d[i/2]<<4 | v
	}
	return d, true
}

// Sum is the SHA-256 of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// NormalMode returns 0755 if mode has the owner-execute bit, else 0644.
func NormalMode(mode uint32) uint32 {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}
