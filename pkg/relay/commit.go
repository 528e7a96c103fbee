package relay

import (
	"fmt"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/finding"
)

// A Person is the author or committer of a commit, bytes as they stand there.
type Person struct {
	Name  string
	Email string
}

// Author judges relay-author (docs/spec/relay.md#commit): the author of a relay's
// commit is its committer, byte for byte, a principal of the key that signed,
// and no default of a bridge program. principal reports whether the key may sign
// for an address; nil leaves that out. denied are further patterns, with `*`
// for any run of characters, matched without case against name and address. It
// returns what is wrong, "" if nothing is.
func Author(author, committer Person, principal func(email string) bool, denied []string) string {
	switch {
	case author.Email != committer.Email:
		return fmt.Sprintf("the author is %s, the committer %s; a relay's author is its committer", finding.Quote(author.Email), finding.Quote(committer.Email))
	case author.Name != committer.Name:
		return fmt.Sprintf("the author's name is %s, the committer's %s; a relay's author is its committer", finding.Quote(author.Name), finding.Quote(committer.Name))
	}
	if why := BridgeDefault(author, denied); why != "" {
		return why
	}
	if principal != nil && !principal(author.Email) {
		return fmt.Sprintf("the author %s is not a principal of the key that signed", finding.Quote(author.Email))
	}
	return ""
}

// BridgeDefault tells why an identity is a program's and not an operator's:
// an address that is empty, without "@", or of a local host, or a name that a
// bridge program or a bot uses. It returns "" for an operator's.
func BridgeDefault(p Person, denied []string) string {
	at := strings.LastIndexByte(p.Email, '@')
	host := strings.ToLower(p.Email[at+1:])
	name := strings.ToLower(p.Name)
	switch {
	case p.Email == "":
		return "the author has no e-mail address"
	case at < 0:
		return fmt.Sprintf("the author's address %s has no @", finding.Quote(p.Email))
	case host == "localhost" || strings.HasSuffix(host, ".local") || host == "(none)" || strings.HasSuffix(host, ".(none)"):
		return fmt.Sprintf("the author's address %s is a program's default", finding.Quote(p.Email))
	case name == "rig-bridge" || name == "rigward" || strings.HasSuffix(name, "[bot]"):
		return fmt.Sprintf("the author %s is a program, not an operator", finding.Quote(p.Name))
	}
	for _, d := range denied {
		if wildcard(strings.ToLower(d), name) || wildcard(strings.ToLower(d), strings.ToLower(p.Email)) {
			return fmt.Sprintf("the author %s is denied by relay.denied-authors %s", finding.Quote(p.Name+" <"+p.Email+">"), finding.Quote(d))
		}
	}
	return ""
}

// wildcard matches s against a pattern in which * is any run of bytes.
func wildcard(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return s == pattern
	}
	rest, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// Clock judges relay-clock (docs/spec/relay.md#commit): attested_at lies within
// limit of the committer date. It returns what is wrong, "" if nothing is.
func Clock(attestedAt, committed time.Time, limit time.Duration) string {
	d := attestedAt.Sub(committed)
	if d.Abs() <= limit {
		return ""
	}
	side := "after"
	if d < 0 {
		side = "before"
	}
	return fmt.Sprintf("attested_at is %s %s the committer date %s, at most %s apart are allowed",
		span(d.Abs()), side, committed.UTC().Format(time.RFC3339), span(limit))
}

// CommitClock judges commit-clock (docs/spec/relay.md#commit): the committer date
// is at most skew ahead of the receive time now, and at most skew before the
// latest of its parents' dates. It returns what is wrong, "" if nothing is.
func CommitClock(committed, now time.Time, parents []time.Time, skew time.Duration) string {
	if d := committed.Sub(now); d > skew {
		return fmt.Sprintf("the committer date %s is %s ahead of this server's clock, at most %s are allowed",
			committed.UTC().Format(time.RFC3339), span(d), span(skew))
	}
	for _, p := range parents {
		if d := p.Sub(committed); d > skew {
			return fmt.Sprintf("the committer date %s is %s before its parent's, at most %s are allowed",
				committed.UTC().Format(time.RFC3339), span(d), span(skew))
		}
	}
	return ""
}

// span writes a duration without fractions of a second.
func span(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int64(d/time.Second))
	}
	return fmt.Sprintf("%d s (%s)", int64(d/time.Second), d.Truncate(time.Second))
}
