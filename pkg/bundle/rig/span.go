package rig

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// scalarSpan finds the bytes of a scalar, or of an alias, in the text it was
// read from: data[start:end] with its quotes but without anchor and tag. style
// is the kind of quotes: 0 for plain and block scalars and aliases.
func scalarSpan(data []byte, n *node) (start, end int, style byte, ok bool) {
	y := n.src
	start, ok = offsetOf(data, y.Line, y.Column)
	if !ok {
		return 0, 0, 0, false
	}
	if y.Kind == yaml.AliasNode {
		end = start
		for end < len(data) && bytes.IndexByte([]byte(" \t\r\n,[]{}"), data[end]) < 0 {
			end++
		}
		return start, end, 0, data[start] == '*'
	}
	start = skipProperties(data, start)
	if start >= len(data) {
		return 0, 0, 0, false
	}
	switch data[start] {
	case '"':
		for i := start + 1; i < len(data); i++ {
			switch data[i] {
			case '\\':
				i++
			case '"':
				return start, i + 1, '"', true
			}
		}
		return 0, 0, 0, false
	case '\'':
		for i := start + 1; i < len(data); i++ {
			if data[i] == '\'' {
				if i+1 < len(data) && data[i+1] == '\'' {
					i++
					continue
				}
				return start, i + 1, '\'', true
			}
		}
		return 0, 0, 0, false
	case '|', '>':
		end, ok = blockEnd(data, start)
		return start, end, 0, ok
	}
	end, ok = plainEnd(data, start, y.Value)
	return start, end, 0, ok
}

// offsetOf finds line and column, both counted from 1, the column in code
// points without a byte order mark.
func offsetOf(data []byte, line, col int) (int, bool) {
	i := 0
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		i = 3
	}
	for ; line > 1; line-- {
		j := bytes.IndexAny(data[i:], "\r\n\u0085\u2028\u2029")
		if j < 0 {
			return 0, false
		}
		i += j
		_, n := utf8.DecodeRune(data[i:])
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			n = 2
		}
		i += n
	}
	for ; col > 1 && i < len(data); col-- {
		_, n := utf8.DecodeRune(data[i:])
		i += n
	}
	return i, i < len(data)
}

// skipProperties skips anchors and tags with the white space after them.
func skipProperties(data []byte, i int) int {
	for i < len(data) && (data[i] == '&' || data[i] == '!') {
		for i < len(data) && !isSpace(data[i]) {
			i++
		}
		for i < len(data) && isSpace(data[i]) {
			i++
		}
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// plainEnd follows a plain scalar whose value is known: its characters are the
// value's, except that a line end with white space around stands for a blank,
// or n+1 line ends for n.
func plainEnd(data []byte, i int, value string) (int, bool) {
	for v := 0; v < len(value); {
		if i >= len(data) {
			return 0, false
		}
		if isSpace(data[i]) {
			run, lines := i, 0
			for run < len(data) && isSpace(data[run]) {
				if data[run] == '\n' || data[run] == '\r' && (run+1 >= len(data) || data[run+1] != '\n') {
					lines++
				}
				run++
			}
			if lines > 0 {
				want := " "
				if lines > 1 {
					want = strings.Repeat("\n", lines-1)
				}
				if !strings.HasPrefix(value[v:], want) {
					return 0, false
				}
				v += len(want)
				i = run
				continue
			}
		}
		if data[i] != value[v] {
			return 0, false
		}
		i, v = i+1, v+1
	}
	return i, true
}

// blockEnd finds the end of a block scalar's last line that is not blank,
// without its line end.
func blockEnd(data []byte, i int) (int, bool) {
	nl := bytes.IndexByte(data[i:], '\n')
	if nl < 0 {
		return 0, false
	}
	end, indent := 0, -1
	for at := i + nl + 1; at < len(data); {
		line := data[at:]
		if j := bytes.IndexByte(line, '\n'); j >= 0 {
			line = line[:j]
		}
		text := bytes.TrimRight(line, " \t\r")
		if len(text) > 0 {
			in := len(text) - len(bytes.TrimLeft(text, " "))
			if indent < 0 {
				indent = in
			}
			if in < indent || in == 0 {
				break
			}
			end = at + len(text)
		}
		at += len(line) + 1
	}
	return end, end > 0
}

// spell writes a ref with the kind of quotes that it had; a plain text that
// would be read otherwise gets double quotes.
func spell(s string, style byte) string {
	switch {
	case style == '\'':
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	case style == '"', styleOf(s, false) != stylePlain, strings.ContainsAny(s, ",[]{}"):
		return doubleQuoted(s)
	}
	return s
}
