// Package finding holds the one value that rules produce and renderers tell.
//
// A Finding says what was found, where, what was expected, and how to repair
// it. It has no behaviour but its order and the quoting of untrusted text, so
// that every other package can depend on it.
package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Severity of a finding. The zero value is Off.
type Severity int

// Severities, in rising order.
const (
	Off Severity = iota
	Warning
	Error
)

// String returns "off", "warning" or "error", the words of the policy file.
func (s Severity) String() string {
	switch s {
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return "off"
}

// ParseSeverity reads the words of the policy file; ok is false for any other.
func ParseSeverity(word string) (s Severity, ok bool) {
	switch word {
	case "off":
		return Off, true
	case "warning":
		return Warning, true
	case "error":
		return Error, true
	}
	return Off, false
}

// A Finding is one violation of one rule at one place.
//
// Message is one sentence without a final period; untrusted text in it has
// gone through Quote. Hint, if any, is the exact command or line that repairs
// it, also with untrusted text quoted. Path is raw: renderers quote it.
type Finding struct {
	Rule     string   // stable rule id, see docs/rules.md
	Severity Severity // as the rule's default says, until the policy maps it
	Path     string   // path in the repository, raw bytes, "" if none
	Line     int      // counted from 1; 0: no place in the file
	Col      int      // in code points, counted from 1; 0: no place
	Commit   string   // full object id, "" if none
	Ref      string   // full ref name, raw bytes, "" if none
	Message  string
	Hint     string
	Key      string // by which a policy can except it, "" if none can
}

// IsKey reports whether a text has the form of a Finding's Key.
func IsKey(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }

// Compare is the total order of findings: path, line, column, rule, then
// ref, commit, severity and text, so that equal input prints equal output.
func Compare(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Line, b.Line),
		cmp.Compare(a.Col, b.Col),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.Ref, b.Ref),
		cmp.Compare(a.Commit, b.Commit),
		cmp.Compare(a.Severity, b.Severity),
		cmp.Compare(a.Message, b.Message),
		cmp.Compare(a.Hint, b.Hint),
	)
}

// Sort orders findings by Compare.
func Sort(fs []Finding) { slices.SortFunc(fs, Compare) }

// Worst returns the highest severity among fs, Off if there is none.
func Worst(fs []Finding) Severity {
	w := Off
	for _, f := range fs {
		w = max(w, f.Severity)
	}
	return w
}

// Quote returns untrusted text between double quotes with every character
// escaped that could forge a line, act on a terminal or reorder text: C0, DEL,
// C1, U+2028, U+2029, bidi controls, U+FEFF, other characters that are not
// printed or not seen, and invalid UTF-8. So is the bracket of "##[", with
// which a workflow command may begin anywhere in a line (the ActionCommand of
// GitHub's runner). The result is one line of printable text.
func Quote(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	escapeTo(&b, s, true)
	b.WriteByte('"')
	return b.String()
}

// QuoteMax is Quote of at most max code points, with "…" where it was cut.
func QuoteMax(s string, max int) string {
	n := 0
	for i := range s {
		if n == max {
			q := Quote(s[:i])
			return q[:len(q)-1] + "…\""
		}
		n++
	}
	return Quote(s)
}

// Path returns a path as it is if it is plain, else as Quote does. Plain is
// what no reader can take for something else: printable, without blanks of any
// width, quotes, backslashes, colons or "##[", and not empty.
func Path(p string) string {
	if p == "" {
		return `""`
	}
	for _, r := range p {
		if unicode.IsSpace(r) || r == '"' || r == '\\' || r == ':' || !Printable(r) || r == emojiSelector || r == 0xFFFD {
			return Quote(p)
		}
	}
	if strings.Contains(p, "##[") {
		return Quote(p)
	}
	return p
}

// Word returns text, such as a path, as one word of a command line for a POSIX
// shell: as it is if it is plain, else between quotes in which the shell takes
// nothing for its own, so that a hint with a file's name in it runs only what
// it shows. What Quote would not show stands in octal in $'…' (POSIX.1-2024).
func Word(s string) string {
	plain := s != "" && Clean(s) == s
	for _, c := range []byte(s) {
		plain = plain && (c >= 0x80 || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._/@%+,:", c) >= 0)
	}
	if plain {
		return s
	}
	if Clean(s) == s {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i, r := range s {
		size := max(1, utf8.RuneLen(r))
		if r == 0xFFFD && !strings.HasPrefix(s[i:], "\uFFFD") {
			size = 1
		}
		switch part := s[i : i+size]; {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + part)
		case Clean(part) == part && !strings.HasSuffix(s[:i+size], "##["):
			b.WriteString(part)
		default:
			for _, c := range []byte(part) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
	}
	return b.String() + "'"
}

func escapeTo(b *strings.Builder, s string, quotes bool) {
	var before rune // the last one that was written as it is, 0 after an escape
	for i, r := range s {
		last := before
		before = 0
		switch {
		case r == '[' && strings.HasSuffix(s[:i], "##"):
			b.WriteString(`\x5b`)
		case r == emojiSelector && (last < 0x80 || !unicode.IsSymbol(last) && !unicode.IsPunct(last)):
			b.WriteString(`\ufe0f`)
		case quotes && (r == '"' || r == '\\'):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == 0xFFFD && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(b, `\x%02x`, s[i])
		case Printable(r):
			before = r
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
}

// Short returns the abbreviation of an object id in a message: its first 12
// digits, or less where there are less.
func Short(id string) string {
	if id = id[:min(12, len(id))]; strings.Trim(id, "0123456789abcdef") == "" {
		return id
	}
	return Clean(id)
}

// Clean returns s with everything escaped that Quote would escape, but
// without quotes around it and with quotes and backslashes left alone. It is
// the renderers' last guard: messages are one line whatever is in them.
func Clean(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	escapeTo(&b, s, false)
	return b.String()
}

// Text is Clean for text of several lines: line ends and tabs stay.
func Text(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		i := strings.IndexAny(s, "\n\t")
		if i < 0 {
			i = len(s)
		}
		if escapeTo(&b, s[:i], false); i < len(s) {
			b.WriteByte(s[i])
			i++
		}
		s = s[i:]
	}
	return b.String()
}
