package envelope

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/rigward/rigward/pkg/finding"
)

// RelaySuffix ends the rig id of a relay sender (docs/spec/relay.md#words).
const RelaySuffix = "-relay"

// ValidRigID reports whether id is a rig id: ^[a-z][a-z0-9-]*$.
func ValidRigID(id string) bool {
	return id != "" && isLower(id[0]) && idEnd(id) == len(id)
}

// ValidThreadID reports whether id is a thread id:
// ^[a-z0-9][a-z0-9-]*[a-z0-9]$.
func ValidThreadID(id string) bool {
	return len(id) >= 2 && id[0] != '-' && id[len(id)-1] != '-' && idEnd(id) == len(id)
}

// idEnd counts the leading bytes of s that are a-z, 0-9 or a hyphen.
func idEnd(s string) int {
	for i := range len(s) {
		if c := s[i]; !isLower(c) && (c < '0' || c > '9') && c != '-' {
			return i
		}
	}
	return len(s)
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

// NormalizeRigID returns the rig id that a person typed: white space at both
// ends goes and A-Z become a-z (docs/spec/envelope.md#rig-ids). What then is no
// rig id is an error that says what is wrong.
func NormalizeRigID(typed string) (id string, err error) {
	id = strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.TrimFunc(typed, isSpace))
	if problem := rigIDProblem(id); problem != "" {
		return "", errors.New(problem)
	}
	return id, nil
}

// rigIDProblem says why id is not a rig id, "" if it is one.
func rigIDProblem(id string) string {
	switch {
	case id == "":
		return "a rig id is empty, expected a-z, then a-z, 0-9 and hyphens"
	case ValidRigID(id):
		return ""
	case idEnd(id) > 0:
		if !isLower(id[0]) {
			return fmt.Sprintf("%s is not a rig id: it begins with %q, expected a letter a-z", finding.QuoteMax(id, 60), id[0])
		}
	}
	for _, r := range id[idEnd(id):] {
		return fmt.Sprintf("%s is not a rig id: it contains %s, expected a-z, 0-9 and hyphens", finding.QuoteMax(id, 60), codePoint(r))
	}
	return ""
}

// codePoint names a character by code point, and shows it if it is visible.
func codePoint(r rune) string {
	if q := finding.Quote(string(r)); !isSpace(r) && !unicode.Is(unicode.M, r) && len(q) == len(string(r))+2 {
		return fmt.Sprintf("U+%04X %s", r, q)
	}
	return fmt.Sprintf("U+%04X", r)
}
