package bridge

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// quick reads an envelope that is written in the plainest form, as send writes
// it and most others do: one key a line in the order of docs/spec/envelope.md#rendering,
// plain values of harmless characters, a body that is normal and
// fits its hash, no attestation. Such a file has no finding, which spares
// status the YAML parser; ok is false for every other one, which content then
// judges. Frontmatter of the result is nil.
//
// A test holds quick against content: what it takes, content takes without a
// finding and reads alike.
func quick(data []byte, thread string) (e *envelope.Envelope, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte("---\n"))
	if !ok {
		return nil, false
	}
	end := bytes.Index(rest, []byte("\n---\n"))
	if end < 0 || end > 4096 {
		return nil, false
	}
	head, body := string(rest[:end]), rest[end+5:]
	if !utf8.Valid(body) || !bytes.Equal(envelope.NormalizeBody(body), body) {
		return nil, false
	}
	e = &envelope.Envelope{Body: body}
	lines := strings.Split(head, "\n")
	next := func(key string, plain func(string) bool) (value string, found bool) {
		if len(lines) == 0 {
			return "", false
		}
		value, found = strings.CutPrefix(lines[0], key)
		if found && !plain(value) {
			lines = nil // not in the plainest form
			return "", false
		}
		if found {
			lines = lines[1:]
		}
		return value, found
	}
	required := func(key string, into *string, valid func(string) bool) bool {
		v, found := next(key, func(s string) bool { return valid(s) && harmless(s) })
		*into = v
		return found
	}
	var to string
	if !required("from: ", &e.From, plainRigID) || strings.HasSuffix(e.From, envelope.RelaySuffix) ||
		!required("to: ", &to, plainRigID) {
		return nil, false
	}
	var found bool
	if e.Date, found = next("date: ", validDay); !found ||
		!required("status: ", &e.Status, validStatus) ||
		!required("type: ", &e.Type, func(s string) bool { return slices.Contains(envelope.Types(), s) }) ||
		!required("thread: ", &e.Thread, func(s string) bool { return s == thread }) {
		return nil, false
	}
	e.To = []string{to}
	if v, found := next("display_name: ", harmless); found {
		if e.DisplayName = v; utf8.RuneCountInString(v) > maxDisplayName {
			return nil, false
		}
	}
	if v, found := next("tldr: ", harmless); found {
		if e.TLDR = v; utf8.RuneCountInString(v) > 280 {
			return nil, false
		}
	}
	// Digits and one e alone would be a number.
	hash, found := next("body_hash: ", func(s string) bool { return strings.ContainsAny(s, "abcdf") })
	if !found || len(lines) != 0 {
		return nil, false
	}
	e.Hash = envelope.BodyHash(body)
	e.BodyHash = hash
	return e, hash == e.Hash
}

// harmless reports whether a plain value cannot mean anything but itself, nor
// another type than a string: it begins with a letter or a marker, is no word
// of YAML, and holds only letters, digits, single blanks and a few signs that
// mean nothing within a plain scalar.
func harmless(s string) bool {
	for i, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		case r == '▶', r == '⏸', r == '🎯', r == '✅', r == '❌':
		case i > 0 && (r >= '0' && r <= '9' || strings.ContainsRune(" -.,/()+", r)):
		default:
			return false
		}
	}
	if s == "" || s[len(s)-1] == ' ' {
		return false
	}
	return yamlprofile.Resolve(s) == yamlprofile.String && yamlprofile.InYAML11(s) == ""
}

func plainRigID(s string) bool { return envelope.ValidRigID(s) }

// validDay accepts a date alone.
func validDay(s string) bool {
	if len(s) != len("2026-01-02") {
		return false
	}
	_, dayOnly, err := envelope.ParseTime(s)
	return err == nil && dayOnly && s >= "0100" // else it has two readings
}

// validStatus accepts a marker, one blank and a text.
func validStatus(s string) bool {
	_, n := utf8.DecodeRuneInString(s)
	return n > 2 && len(s) > n+1 && s[n] == ' ' && s[n+1] != ' ' && envelope.StatusClass(s) != ""
}
