package relay

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// crockford is the alphabet of Crockford's base 32, upper case. It has no I, L,
// O and U, which that encoding reads as other characters: a nonce is compared
// as text, so that one value must have one spelling. The first character is at
// most 7 because more would be above 128 bits.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// nonceForm says in words what ValidNonce demands.
const nonceForm = "a ULID (26 characters 0-9 A-Z without I L O U, the first 0-7) nor ten such characters, a hyphen and ten more"

// ValidNonce reports whether s has one of the accepted forms of a nonce
// (docs/spec/relay.md#nonce): a ULID, or ten such characters, a hyphen and ten
// more, the first character 0 to 7 in both.
func ValidNonce(s string) bool {
	switch len(s) {
	case 26:
	case 21:
		if s[10] != '-' {
			return false
		}
	default:
		return false
	}
	for i := range len(s) {
		if i == 10 && len(s) == 21 {
			continue
		}
		if strings.IndexByte(crockford, s[i]) < 0 {
			return false
		}
	}
	return s[0] <= '7'
}

// NewNonce returns a ULID of the given time, whose 80 random bits it reads from
// random. It is an error if random fails, or if the time is before 1970 or
// takes more than 48 bits of milliseconds.
func NewNonce(now time.Time, random io.Reader) (string, error) {
	ms := now.UnixMilli()
	if ms < 0 || ms >= 1<<48 {
		return "", fmt.Errorf("the time %s has no ULID", now.UTC().Format(time.RFC3339))
	}
	var entropy [10]byte
	if _, err := io.ReadFull(random, entropy[:]); err != nil {
		return "", fmt.Errorf("reading random bits: %w", err)
	}
	var out [26]byte
	for i := 9; i >= 0; i-- {
		out[i] = crockford[ms&31]
		ms >>= 5
	}
	var bits uint64
	have, next := 0, 10
	for _, b := range entropy {
		bits, have = bits<<8|uint64(b), have+8
		for ; have >= 5; have -= 5 {
			out[next] = crockford[bits>>(have-5)&31]
			next++
		}
	}
	return string(out[:]), nil
}
