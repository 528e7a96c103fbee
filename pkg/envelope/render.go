package envelope

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// Fields is what Render writes. Empty strings and lists are left out.
type Fields struct {
	From        string
	To          []string // one is written as a string, more as a list
	Date        string
	Status      string
	Type        string
	Thread      string
	InReplyTo   string
	AttestedBy  string
	AttestedAt  string
	Nonce       string
	DisplayName string
	TLDR        string
	References  []string
	BodyHash    string
	Body        []byte
}

// Render writes an envelope (docs/spec/envelope.md#rendering): LF, no byte order
// mark, one key a line in a fixed order, the body normalised. Parsing the
// result gives the same values again. It is an error if a value is not valid
// UTF-8 or the file would be over a default limit; whether the values satisfy
// the schema is not judged.
func Render(f Fields) ([]byte, error) {
	var b strings.Builder
	var err error
	check := func(key, s string) {
		if err == nil && !utf8.ValidString(s) {
			err = fmt.Errorf("%s is not valid UTF-8", key)
		}
	}
	value := func(key, s string) {
		if s != "" {
			check(key, s)
			text := scalar(s)
			if isDateKey(key) && s >= "0100" && yamlprofile.InYAML11(s) == "a date" {
				text = s // as a date it is the same
			}
			b.WriteString(key + ": " + text + "\n")
		}
	}
	list := func(key string, items []string) {
		if len(items) > 0 {
			b.WriteString(key + ":\n")
			for _, item := range items {
				check(key, item)
				b.WriteString("  - " + scalar(item) + "\n")
			}
		}
	}
	value("from", f.From)
	if len(f.To) == 1 {
		value("to", f.To[0])
	} else {
		list("to", f.To)
	}
	value("date", f.Date)
	value("status", f.Status)
	value("type", f.Type)
	value("thread", f.Thread)
	value("in_reply_to", f.InReplyTo)
	value("attested_by", f.AttestedBy)
	value("attested_at", f.AttestedAt)
	value("nonce", f.Nonce)
	value("display_name", f.DisplayName)
	value("tldr", f.TLDR)
	list("references", f.References)
	value("body_hash", f.BodyHash)
	check("the body", string(f.Body))
	if err != nil {
		return nil, err
	}
	l := DefaultLimits()
	if int64(b.Len()) > l.Frontmatter {
		return nil, fmt.Errorf("the front matter would have %d bytes, at most %d are allowed", b.Len(), l.Frontmatter)
	}
	body := NormalizeBody(f.Body)
	if n := int64(2*len(fence+"\n") + b.Len() + len(body)); n > l.File {
		return nil, fmt.Errorf("the envelope would have %d bytes, at most %d are allowed", n, l.File)
	}
	return append([]byte(fence+"\n"+b.String()+fence+"\n"), body...), nil
}

// scalar writes a string on one line so that every reader reads it back as
// that string: plain if it can be, else quoted.
func scalar(s string) string {
	escaped := strings.ContainsFunc(s, isEscaped)
	switch {
	case !escaped && isPlain(s):
		return s
	case !escaped && strings.Contains(s, `"`) && !strings.Contains(s, "'"):
		return "'" + s + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '\\', r == '"':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case !isEscaped(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// isEscaped reports the escape set of docs/spec/envelope.md#rendering.
func isEscaped(r rune) bool {
	return r < 0x20 || 0x7F <= r && r < 0xA0 || portable.Bidi(r) || r == 0x2028 || r == 0x2029 ||
		r == 0xFEFF || r == 0xFFFE || r == 0xFFFF
}

// isPlain reports whether a string without characters of the escape set may
// stand without quotes.
func isPlain(s string) bool {
	switch {
	case yamlprofile.Resolve(s) != yamlprofile.String, yamlprofile.InYAML11(s) != "": // the empty string, too
		return false
	case strings.IndexByte(" ,[]{}#&*!|>'\"%@`", s[0]) >= 0:
		return false
	case s[0] == '-' || s[0] == '?' || s[0] == ':':
		if len(s) == 1 || s[1] == ' ' {
			return false
		}
	}
	last := s[len(s)-1]
	return last != ' ' && last != ':' && !strings.Contains(s, ": ") && !strings.Contains(s, " #")
}
