package yamlprofile

import (
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// syntax tells a syntax error of the library in a sentence of our own.
func (p *parser) syntax(err error) error {
	text := err.Error()
	e := &Error{Col: 1, Message: "this is not valid YAML"}
	line := 1
	if rest, ok := strings.CutPrefix(text, "yaml: line "); ok {
		if number, _, ok := strings.Cut(rest, ":"); ok {
			if n, err := strconv.Atoi(number); err == nil && n > 0 {
				line = n
				if strings.Contains(text, "did not find expected") && !strings.Contains(text, "hexdecimal") && !strings.Contains(text, "comment") {
					line++ // the library's parser counts lines from 0, its scanner from 1
				}
			}
		}
	}
	line = min(line, strings.Count(strings.TrimSuffix(p.text, "\n"), "\n")+1)
	for _, known := range sentences {
		if strings.Contains(text, known.library) {
			e.Message = known.sentence
			break
		}
	}
	e.Line, e.Hint = p.first+line-1, p.hint(line)
	return e
}

// sentences gives our sentence for what the library says, first match.
var sentences = []struct{ library, sentence string }{
	{"sequence entries are not allowed", "a plain value begins with a - and a blank, or a list begins on the line of its key"},
	{"mapping keys are not allowed", "a plain value begins with a ? and a blank"},
	{"unknown anchor", "a YAML alias is not allowed"},
	{"mapping values are not allowed", "a plain value has a colon followed by a blank, or a line is indented too much"},
	{"could not find expected ':'", "a key has no colon followed by a blank, or a value goes on in a line that is not indented"},
	{"exceeded max depth", "lists and mappings are nested too deep"},
	{"cannot start any token", "a TAB, or a character that no plain value may begin with, stands here"},
	{"tab character", "a TAB is used as indentation"},
	{"unknown escape character", "a double-quoted value has an escape that YAML does not know"},
	{"did not find expected hexdecimal number", "a double-quoted value has an escape with too few hexadecimal digits"},
	{"invalid Unicode character escape code", "a double-quoted value has an escape that is no Unicode character"},
	{"found unexpected end of stream", "a quoted value is not closed"},
	{"found unexpected document indicator", "a quoted value is not closed"},
	{"did not find expected ',' or ']'", "a list in brackets is not closed, or a value goes on after one"},
	{"did not find expected ',' or '}'", "a mapping in braces is not closed, or a value goes on after one"},
	{"did not find expected key", "a line is neither key: value nor the continuation of a value"},
	{"did not find expected '-' indicator", "a line of a list does not begin with a - of the same indentation"},
	{"did not find expected comment or line break", "something other than text lines follows a | or >"},
	{"did not find expected <document start>", "text follows the end of the mapping, expected nothing after it"},
	{"did not find expected node content", "a value is missing, or begins with a character that no plain value may begin with"},
}

// hint shows how to write the line at or next to the given line of the text
// whose plain value has a known cause of trouble, "" if there is none.
func (p *parser) hint(line int) string {
	lines := strings.Split(strings.TrimSuffix(p.text, "\n"), "\n")
	for _, i := range []int{line - 1, line, line - 2} {
		if i < 0 || i >= len(lines) || len(lines[i]) > 200 {
			continue
		}
		key, value, ok := strings.Cut(lines[i], ":")
		if !ok || !isWord(strings.TrimLeft(key, " -")) {
			continue
		}
		advice := "put the value in double quotes: "
		if value != "" && value[0] != ' ' && value[0] != '\t' {
			advice = "put a blank after the colon: "
		} else if value = strings.Trim(value, " \t"); value == "" || !needsQuotes(value) {
			continue
		}
		return advice + key + ": " + finding.Quote(strings.TrimSpace(value))
	}
	return ""
}

func isWord(key string) bool {
	return key != "" && skip(key, func(c byte) bool { return 'a' <= c && c <= 'z' || c == '_' }) == len(key)
}

// needsQuotes tells plain text that YAML takes for something else.
func needsQuotes(value string) bool {
	switch value[0] {
	case '"', '\'':
		return false
	case '[':
		return strings.Contains(value, "]") && !strings.HasSuffix(value, "]")
	case '{':
		return strings.Contains(value, "}") && !strings.HasSuffix(value, "}")
	case ']', '}', ',', '#', '&', '*', '!', '|', '>', '%', '@', '`':
		return true
	}
	return strings.Contains(value, ": ") || strings.Contains(value, ":\t") || strings.HasSuffix(value, ":") || strings.HasPrefix(value, "- ") || strings.HasPrefix(value, "? ")
}
