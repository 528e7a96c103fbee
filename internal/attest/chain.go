package attest

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
)

// A Verdict is what a key's signature is worth.
type Verdict int

// Verdicts on keys.
const (
	unknown Verdict = iota // nobody trusts it
	Revoked                // it was trusted, and counts only under a later one that is good
	Good
)

// Keys say whose statements count.
type Keys interface {
	// Judge returns the key of that fingerprint and what it is worth.
	Judge(id string) (ssh.PublicKey, Verdict)
}

// A Problem is why a statement, or a chain, is not what it should be.
type Problem struct {
	Sequence int64  // of the statement, -1 for the chain as a whole
	Ref      string // "" for none
	Message  string
	Gap      bool // it is the server's own word that nobody was asked
}

// String tells it in one line.
func (p Problem) String() string {
	text := p.Message
	if p.Ref != "" {
		text = finding.Path(p.Ref) + ": " + text
	}
	if p.Sequence >= 0 {
		text = fmt.Sprintf("statement %d: %s", p.Sequence, text)
	}
	return text
}

// A Chain is what a series of statements comes to. The zero value is that of none.
type Chain struct {
	Size       int64             `json:"size"`
	Last       string            `json:"last"` // digest of the last statement
	Time       string            `json:"time"` // that it says
	Repository Repository        `json:"repository"`
	At         map[string]string `json:"at"`    // what refs have
	Tip        string            `json:"tip"`   // commit of the last statement
	Doubt      []int64           `json:"doubt"` // statements by revoked keys that no good one follows yet
	Edge       []Node            `json:"edge"`  // of the Merkle tree
	Begun      bool              `json:"begun"` // nothing but beginnings so far
}

// Add appends a line, and returns what is wrong with it. What can be taken of a
// statement that is wrong is taken, so that one fault is told once.
func (c *Chain) Add(line []byte, keys Keys) (*Signed, []Problem) {
	s, err := parse(line)
	if err != nil {
		c.Size++
		c.Last = ""
		return nil, []Problem{{Sequence: c.Size - 1, Message: "it was altered: " + err.Error()}}
	}
	var found []Problem
	bad := func(ref, format string, args ...any) {
		found = append(found, Problem{Sequence: c.Size, Ref: ref, Message: fmt.Sprintf(format, args...)})
	}
	switch key, verdict := keys.Judge(s.KeyID); {
	case verdict == unknown:
		bad("", "it is signed by the key %s, which is not trusted", finding.QuoteMax(s.KeyID, 80))
	case !s.By(key):
		bad("", "its signature by %s is bad: it was altered", finding.QuoteMax(s.KeyID, 80))
	case verdict == Revoked:
		c.Doubt = append(c.Doubt, c.Size)
	default:
		c.Doubt = nil // what is before it has its digest here
	}
	u := &s.Predicate.Update
	switch {
	case u.Sequence != c.Size:
		bad("", "it says that it is number %d: statements are missing, or in another order", u.Sequence)
	case u.Previous != c.Last && (c.Last != "" || c.Size == 0):
		bad("", "it follows another statement than the one before it")
	}
	if c.Size == 0 {
		c.Repository, c.At, c.Begun = u.Repository, map[string]string{}, true
	}
	if own := c.Repository; u.Repository.UUID != own.UUID || own.Root != "" && u.Repository.Root != own.Root {
		bad("", "it is of another repository, %s, expected %s", u.Repository, own)
	}
	if c.Repository.Root == "" {
		c.Repository.Root = u.Repository.Root
	}
	if u.Kind == kindBegin && !c.Begun {
		bad("", "the chain begins anew")
	}
	c.Begun = c.Begun && u.Kind == kindBegin
	for _, m := range u.Moves {
		if at := c.have(m); at != m.Old {
			bad(m.Ref, "it was at %s and is said to move from %s: the update in between has no statement", short(at), short(m.Old))
		}
		if u.Kind == kindGap {
			bad(m.Ref, "it moved from %s to %s, and no gate was asked", short(m.Old), short(m.New))
			found[len(found)-1].Gap = true
		}
		if c.At[m.Ref] = m.New; zero(m.New) {
			delete(c.At, m.Ref)
		}
	}
	c.grow(s.Payload)
	c.Size++
	c.Last, c.Time = Digest(s.Payload), s.Predicate.TimeVerified
	return s, found
}

// Ends returns what is wrong with a chain if nothing more comes.
func (c *Chain) Ends() (found []Problem) {
	for _, n := range c.Doubt {
		found = append(found, Problem{Sequence: n, Message: "it is signed by a revoked key, and none that counts follows it"})
	}
	return found
}

// have returns what a ref has before a move, zeros for nothing.
func (c *Chain) have(m Move) string {
	if id := c.At[m.Ref]; id != "" {
		return id
	}
	return zeros(len(m.Old))
}

// Refs lists the refs that the chain says exist.
func (c *Chain) Refs() []string { return slices.Sorted(maps.Keys(c.At)) }

// String names a repository for people.
func (r Repository) String() string {
	text := "UUID " + finding.QuoteMax(r.UUID, 40)
	if r.Root != "" {
		text += " and first commit " + short(r.Root)
	}
	return text
}

func short(id string) string {
	if zero(id) {
		return "nothing"
	}
	return finding.Short(id)
}

func zeros(n int) string {
	return "0000000000000000000000000000000000000000000000000000000000000000"[:n]
}
