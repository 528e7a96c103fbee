// Package screen tells what a text holds that should not be in it: characters
// that its readers do not see, and secrets. It works on bytes and knows no
// format, no repository and no policy.
package screen

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
)

// RuleHidden is the rule of hidden text.
const RuleHidden = "hidden-text"

//go:generate go run gen.go

// maxTold is how many places of one rule are told of one text. The last of them
// counts the others.
const maxTold = 20

// A Where is what a text is, for hints.
type Where struct {
	Path   string // of the file that holds it, "" if it is none
	Commit string // of which it is the message, "" if it is none
	Signed bool   // the commit is, and is to stay so when it is made again
	Loose  bool   // it may be no text: control characters are passed over
	Member bool   // it is of a bundle: who judges that says how a finding is excepted
}

// rebase is the command by which a person gives the commit another message.
func (w Where) rebase() string {
	sign := ""
	if w.Signed {
		sign = " --gpg-sign"
	}
	return "git rebase" + sign + " --interactive " + w.Commit + "^"
}

// Exception is how a policy lets what a finding with this key tells be.
func Exception(key string) string {
	return "; if it belongs there, the policy may say allow: [" + key + "]"
}

// Text returns what is wrong with a text, in the order of places, as errors
// without a path: rules RuleHidden and RuleSecret; and the secrets, by which other
// messages about the text are to be cleaned. Bytes that are not UTF-8 are passed
// over.
func Text(data []byte, w Where) ([]finding.Finding, Secrets) {
	fs := hidden(data, w)
	more, found := secrets(data, w)
	if len(more) > 0 {
		fs = append(fs, more...)
		finding.Sort(fs)
		for i := range fs {
			if f := &fs[i]; f.Rule != RuleSecret {
				f.Message, f.Hint = found.Hide(f.Message), found.Hide(f.Hint)
			}
		}
	}
	return fs, found
}

// Value is Text for a value that stands in a document written with escapes, at
// most one finding for each key. line and col are where it stands; raw is what Text
// told of the document, which is not told again.
func Value(value string, line, col int, w Where, raw []finding.Finding) ([]finding.Finding, Secrets) {
	fs, found := Text([]byte(value), w)
	var out []finding.Finding
	for _, f := range fs {
		if slices.ContainsFunc(out, func(g finding.Finding) bool { return g.Rule == f.Rule && g.Key == f.Key }) || repeats(raw, line, f) {
			continue
		}
		f.Line, f.Col = line, col
		f.Message = "written as an escape: " + f.Message
		if f.Rule == RuleHidden {
			f.Hint = "write the value without it"
		}
		out = append(out, f)
	}
	return out, found
}

// repeats reports whether what a line says once its escapes are resolved was told of
// it as it stands: the same secret; of hidden text the key is that of the whole line.
func repeats(raw []finding.Finding, line int, f finding.Finding) bool {
	return slices.ContainsFunc(raw, func(g finding.Finding) bool {
		return g.Line == line && g.Rule == f.Rule && (f.Rule == RuleHidden || g.Key == f.Key)
	})
}

// A told collects the findings of one rule.
type told struct {
	data  []byte
	fs    []finding.Finding
	again int  // how many of fs have the key of one before them
	more  int  // how many places are not in fs
	other bool // some of them have a key that none of fs has

	line, at int // place of the last finding, from which the next is counted
}

// full reports whether a finding with this key is not told, and counts it then. Of
// many, those go first whose key another one has.
func (t *told) full(key string) bool {
	known := slices.ContainsFunc(t.fs, func(f finding.Finding) bool { return f.Key == key })
	switch {
	case len(t.fs) < maxTold:
		if known {
			t.again++
		}
		return false
	case known:
	case t.again > 0:
		t.again--
		for i := len(t.fs) - 1; i > 0; i-- {
			if slices.ContainsFunc(t.fs[:i], func(f finding.Finding) bool { return f.Key == t.fs[i].Key }) {
				t.fs = slices.Delete(t.fs, i, i+1)
				break
			}
		}
		t.more++
		return false
	default:
		t.other = true
	}
	t.more++
	return true
}

// add adds a finding at an offset.
func (t *told) add(rule string, at int, key, message, hint string) {
	if t.line == 0 {
		t.line = 1
	}
	if at < t.at {
		t.line, t.at = 1, 0
	}
	t.line += bytes.Count(t.data[t.at:at], []byte("\n"))
	t.at = at
	start := bytes.LastIndexByte(t.data[:at], '\n') + 1
	t.fs = append(t.fs, finding.Finding{Rule: rule, Severity: finding.Error, Line: t.line,
		Col: utf8.RuneCount(t.data[start:at]) + 1, Message: message, Hint: hint, Key: key})
}

// all returns the findings. One that stands for places with other keys has none.
func (t *told) all(w Where) []finding.Finding {
	if t.more > 0 {
		last := &t.fs[len(t.fs)-1]
		if last.Message += fmt.Sprintf("; and %d more places", t.more); t.other {
			last.Key = ""
			last.Hint += fmt.Sprintf("; allow is for at most %d of a text", maxTold)
		}
	}
	for i := range t.fs {
		if f := &t.fs[i]; f.Key != "" && !w.Member {
			f.Hint += Exception(f.Key)
		}
	}
	return t.fs
}

// Escaped is Text for what a document in JSON, YAML or TOML says once the escapes
// \u and \U of its double-quoted texts are resolved, where that differs. Columns
// are not known.
func Escaped(data []byte, w Where) []finding.Finding {
	if bytes.IndexByte(data, '\\') < 0 {
		return nil
	}
	var b []byte
	quoted, high := false, rune(0)
	for i := 0; i < len(data); {
		c := data[i]
		if c == '"' || c == '\n' {
			quoted = c == '"' && !quoted
		}
		if c != '\\' || !quoted || i+1 == len(data) {
			b, high = append(b, c), 0
			i++
			continue
		}
		digits := 0
		switch data[i+1] {
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		}
		v, err := strconv.ParseUint(string(data[min(i+2, len(data)):min(i+2+digits, len(data))]), 16, 32)
		if digits == 0 || err != nil || i+2+digits > len(data) || v < 0x20 || v == '"' || v == '\\' {
			b, high = append(b, c, data[i+1]), 0
			i += 2
			continue
		}
		r := rune(v)
		switch {
		case utf16.IsSurrogate(r) && r < 0xdc00:
			high = r
		case utf16.IsSurrogate(r):
			b, high = utf8.AppendRune(b, utf16.DecodeRune(high, r)), 0
		default:
			b, high = utf8.AppendRune(b, r), 0
		}
		i += 2 + digits
	}
	raw, _ := Text(data, w)
	var out []finding.Finding
	decoded, _ := Text(b, w)
	for _, f := range decoded {
		if repeats(raw, f.Line, f) {
			continue
		}
		if f.Col = 0; f.Rule == RuleHidden {
			f.Hint = "write the value without it"
		}
		f.Message = "written as an escape: " + f.Message
		out = append(out, f)
	}
	return out
}
