package sshsign

import "strings"

// maxPattern is the length in bytes from which OpenSSH gives up on one pattern
// of a list, and with it on the whole list (match.c, match_pattern_list).
const maxPattern = 1023

// MatchPrincipals reports whether name is matched by a comma-separated list of
// patterns as OpenSSH does (ssh_config(5), PATTERNS): "*" stands for any
// number of bytes, "?" for exactly one, "!" before a pattern negates it. A
// negated pattern that matches decides against name wherever it stands; else
// one that matches is needed. Bytes are compared as they are.
func MatchPrincipals(patterns, name string) bool {
	matched := false
	for patterns != "" {
		var pattern string
		negated := patterns[0] == '!'
		if negated {
			patterns = patterns[1:]
		}
		pattern, patterns, _ = strings.Cut(patterns, ",")
		if len(pattern) >= maxPattern {
			return false
		}
		if !match(pattern, name) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// match compares with one pattern. Only the last "*" is ever tried again, so
// the cost is at most len(pattern) times len(name).
func match(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
