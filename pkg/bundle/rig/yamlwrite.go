package rig

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// writeYAML writes a map as the canonical text of docs/spec/rigbundle.md#canonical-text.
func writeYAML(root *node) []byte {
	w := &yamlWriter{}
	w.fields(root.fields, 0, false)
	return w.Bytes()
}

const lineWidth = 80

type yamlWriter struct{ bytes.Buffer }

func (w *yamlWriter) pad(n int) {
	for range n {
		w.WriteByte(' ')
	}
}

// fields writes the fields of a map at a column. behind: the first key goes on
// behind a dash that is written already.
func (w *yamlWriter) fields(fs []field, col int, behind bool) {
	if n := len(fs); n > 100 { // room for lines like the first
		w.Grow(n * (col + len(fs[0].key) + len(fs[0].value.text) + len(": \n") + 8))
	}
	for i, f := range fs {
		if i > 0 || !behind {
			w.pad(col)
		}
		key := writtenKey(f.key, col == 0)
		if units(key) > 1024 {
			w.WriteString("? " + key + "\n")
			w.pad(col)
			w.value(f.value, col, 0, col+2)
			continue
		}
		w.WriteString(key)
		w.value(f.value, col, units(key), col+2)
	}
}

// value writes ":" and what follows. key is the width of the written key,
// cont the column of continuation lines.
func (w *yamlWriter) value(v *node, col, key, cont int) {
	w.WriteString(":")
	switch {
	case v.kind == kindMap && len(v.fields) > 0:
		w.WriteString("\n")
		w.fields(v.fields, col+2, false)
	case v.kind == kindList && len(v.items) > 0:
		w.WriteString("\n")
		w.list(v.items, col+2, false)
	default:
		w.WriteByte(' ')
		w.WriteString(scalar(v, cont, lineWidth-(key+2)))
		w.WriteByte('\n')
	}
}

func (w *yamlWriter) list(items []*node, col int, behind bool) {
	for i, v := range items {
		if i > 0 || !behind {
			w.pad(col)
		}
		w.WriteString("- ")
		switch {
		case v.kind == kindMap && len(v.fields) > 0:
			w.fields(v.fields, col+2, true)
		case v.kind == kindList && len(v.items) > 0:
			w.list(v.items, col+2, true)
		default:
			w.WriteString(scalar(v, col+2, lineWidth-(col+2)) + "\n")
		}
	}
}

// scalar writes a value without content below it. cont is I, the column of
// continuation lines; room is F, the room on the first line.
func scalar(v *node, cont, room int) string {
	switch v.kind {
	case kindMap:
		return "{}"
	case kindList:
		return "[]"
	case kindNull:
		return "null"
	case kindBool, kindNumber:
		return v.text
	}
	s := v.text
	switch styleOf(s, false) {
	case styleBlock:
		return block(s, cont)
	case styleOneLine:
		return doubleQuoted(s)
	case styleQuoted:
		q := quoted(s)
		return fold(q, cont, room, q[0] == '"')
	}
	return fold(s, cont, room, false)
}

// writtenKey is a key in its style; keys are never folded.
func writtenKey(s string, top bool) string {
	switch {
	case strings.Contains(s, "\n"):
		return doubleQuoted(s)
	case styleOf(s, top) == stylePlain:
		return s
	}
	return quoted(s)
}

type yamlStyle int

const (
	stylePlain yamlStyle = iota
	styleQuoted
	styleOneLine // double-quoted, never folded
	styleBlock
)

// styleOf chooses the style of a string, the first that applies. top: it is a
// key of the outermost map.
func styleOf(s string, top bool) yamlStyle {
	if hasControl(s) {
		return styleQuoted
	}
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		if tail := s[i+1:]; tail != "" && strings.Trim(tail, " \t") == "" {
			return styleOneLine
		}
		return styleBlock
	}
	switch {
	case s == "",
		strings.ContainsRune("\t ,[]{}#&*!|>'\"%@`", rune(s[0])),
		(s[0] == '-' || s[0] == '?') && (len(s) == 1 || s[1] == ' ' || s[1] == '\t'),
		strings.Contains(s, ": "), strings.Contains(s, ":\t"), strings.Contains(s, " #"), strings.Contains(s, "\t#"),
		strings.ContainsRune(" \t:", rune(s[len(s)-1])),
		resolve(s) != kindString,
		top && (strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...")):
		return styleQuoted
	}
	return stylePlain
}

// hasControl: a control character other than tab and LF.
func hasControl(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < 0x20 && r != '\t' && r != '\n' || r >= 0x7f && r <= 0x9f }) >= 0
}

// quoted is single-quoted if the text holds a double and no single quote and
// no control character, else double-quoted.
func quoted(s string) string {
	if !hasControl(s) && strings.Contains(s, `"`) && !strings.Contains(s, "'") {
		return "'" + s + "'"
	}
	return doubleQuoted(s)
}

func doubleQuoted(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\b':
			b.WriteString(`\b`)
		case '\f':
			b.WriteString(`\f`)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case 0:
			b.WriteString(`\0`)
		case 7:
			b.WriteString(`\a`)
		case 11:
			b.WriteString(`\v`)
		case 27:
			b.WriteString(`\e`)
		default:
			if r < 0x20 {
				b.WriteString(`\x`)
				b.WriteByte(hex[r>>4])
				b.WriteByte(hex[r&15])
				continue
			}
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// units counts UTF-16 units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += unitsOf(r)
	}
	return n
}

func unitsOf(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// fold breaks a plain or quoted text: each line takes as much as fits and ends
// at its last break point, a blank with neither blank nor tab on either side.
// Without one it runs on to the next; a double-quoted line is cut instead.
func fold(s string, cont, room int, double bool) string {
	if units(s) <= lineWidth+1-cont {
		return s
	}
	rest := max(lineWidth-cont, 1)
	indent := "\n" + strings.Repeat(" ", cont)
	var b strings.Builder
	for {
		end, next, ok := breakLine(s, room, double)
		if !ok {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:end])
		if next == end { // cut, not at a blank
			b.WriteByte('\\')
		}
		b.WriteString(indent)
		s = s[next:]
		room = rest
	}
}

// breakLine finds where the first line of s ends and the next begins; not ok
// if the rest is one line.
func breakLine(s string, room int, double bool) (end, next int, ok bool) {
	width := 0             // units before i
	last := -1             // last break point within the room
	cut, cutWidth := 0, -1 // last place where a double-quoted line may be cut
	for i := 0; i < len(s); {
		if width > room && last < 0 && double {
			break
		}
		if isBreak(s, i) {
			if width <= room {
				last = i
			} else if last < 0 {
				return i, i + 1, true // ran on to the next break point
			}
		}
		if width >= room && last >= 0 {
			return last, last + 1, true
		}
		if double && i > 0 && width <= room-1 {
			cut, cutWidth = i, width
		}
		n, w := atom(s[i:], double)
		i += n
		width += w
	}
	if width <= room {
		return 0, 0, false
	}
	if last >= 0 {
		return last, last + 1, true
	}
	if !double || cutWidth < 0 {
		return 0, 0, false
	}
	// The next line must not begin with a blank, which a reader would drop.
	for cut < len(s) && (s[cut] == ' ' || s[cut] == '\t') {
		cut++
	}
	if cut >= len(s) {
		return 0, 0, false
	}
	return cut, cut, true
}

func isBreak(s string, i int) bool {
	if s[i] != ' ' || i == 0 || i+1 == len(s) {
		return false
	}
	p, n := s[i-1], s[i+1]
	return p != ' ' && p != '\t' && p != '\n' && n != ' ' && n != '\t' && n != '\n'
}

// atom is what can't be broken: a character, in double quotes an escape.
func atom(s string, double bool) (bytes, width int) {
	if double && s[0] == '\\' && len(s) > 1 {
		if s[1] == 'x' && len(s) >= 4 {
			return 4, 4
		}
		return 2, 2
	}
	r, n := utf8.DecodeRuneInString(s)
	return n, unitsOf(r)
}

// block writes a text with line feeds in literal or folded style.
func block(s string, cont int) string {
	body := strings.TrimRight(s, "\n\t ")
	tail := s[len(body):]
	head := ""
	if lead := strings.TrimLeft(s, "\n"); strings.HasPrefix(lead, " ") {
		head = "2"
	}
	switch i := strings.IndexByte(tail, '\n'); {
	case i < 0:
		head += "-"
	case body == "" || i != len(tail)-1:
		head += "+"
	}
	text := strings.TrimSuffix(s, "\n") // the last LF ends the last line
	indent := strings.Repeat(" ", cont)
	limit := lineWidth - cont
	long := false
	for line := range strings.SplitSeq(s, "\n") {
		long = long || units(line) > limit
	}
	if long && !strings.Contains(head, "2") {
		if folded, ok := foldBlock(text, limit); ok {
			return ">" + head + "\n" + indentLines(folded, indent)
		}
	}
	return "|" + head + "\n" + indentLines(text, indent)
}

func indentLines(s, indent string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = indent + l
		}
	}
	return strings.Join(lines, "\n")
}

// foldBlock wraps a text for folded style; not ok if a line can't be wrapped.
func foldBlock(s string, limit int) (string, bool) {
	lines := strings.Split(s, "\n")
	var b strings.Builder
	prev := "" // last non-empty line
	gap := 0   // LFs since prev
	whole := units(s) <= limit+1
	for i, l := range lines {
		if i > 0 {
			gap++
		}
		if l == "" {
			continue
		}
		more := l[0] == ' ' || l[0] == '\t'
		if prev == "" {
			b.WriteString(strings.Repeat("\n", gap))
		} else {
			n := gap + 1
			if more || prev[0] == ' ' || prev[0] == '\t' {
				n = gap
			}
			b.WriteString(strings.Repeat("\n", n))
		}
		gap, prev = 0, l
		if more || whole {
			b.WriteString(l)
			continue
		}
		for {
			end, next, ok := breakLine(l, limit, false)
			if !ok {
				break
			}
			if units(l[:end]) > limit {
				return "", false
			}
			b.WriteString(l[:end] + "\n")
			l = l[next:]
		}
		if units(l) > limit {
			return "", false
		}
		b.WriteString(l)
	}
	b.WriteString(strings.Repeat("\n", gap))
	return b.String(), true
}
