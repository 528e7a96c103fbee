package gitrepo

import "strings"

// ID is an object id in lower-case hexadecimal, 40 or 64 digits as the
// repository's object format says.
type ID = string

// IsZero reports whether id is all zeros and as long as an id of this
// repository: "no object" in the lines that git gives to hooks.
func (r *Repo) IsZero(id string) bool { return id == r.ZeroID() }

// ZeroID is the id that stands for "no object".
func (r *Repo) ZeroID() ID { return strings.Repeat("0", r.HashLen()) }

// HashLen is the number of hexadecimal digits of an id: 40 or 64.
func (r *Repo) HashLen() int {
	if r.format == "sha256" {
		return 64
	}
	return 40
}

// EmptyTree is the id of the tree without entries. git knows it even where no
// such object is stored.
func (r *Repo) EmptyTree() ID {
	if r.format == "sha256" {
		return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}

// ValidID reports whether id is a full, lower-case id of this repository's
// object format; the zero id is one.
func (r *Repo) ValidID(id string) bool { return len(id) == r.HashLen() && isHex(id) }

func (r *Repo) checkID(id string) error {
	if !r.ValidID(id) || r.IsZero(id) {
		return invalid("an object id of this repository", id)
	}
	return nil
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}
