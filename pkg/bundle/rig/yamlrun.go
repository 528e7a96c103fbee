package rig

import (
	"bytes"
	"strings"

	"gopkg.in/yaml.v3"
)

// A lineRun is a number of lines that follow one another and have one form, that
// of a file's hash in a manifest: blanks, the same number on each, a key and a
// value of 64 hex digits, both of them plain text that can be nothing else.
//
// Where the first of these lines is an entry of a block map, so are all: each
// begins in the column of the map's keys, which ends the plain value before it,
// and leaves the reader in the state in which it found it. So a document is
// read with the inner lines of its runs empty, and these are put back as
// entries once the first and the last are seen to be entries of one map.
type lineRun struct {
	first, last string // lines
	inner       string // lines with their line feeds
	line        int    // of first, counted from 1
	n           int    // inner lines
	indent      int
}

// minRun is the number of lines from which on a run is worth the care.
const minRun = 16

// parseLong is parseYAML for a document that may have long runs. What it
// returns does not depend on them.
func parseLong(data []byte) (*node, *yamlError) {
	if cut, runs := cutRuns(data); len(runs) > 0 {
		r := newReader()
		r.runs = runs
		if n, fault := r.document(cut); fault == nil && len(r.runs) == 0 {
			return n, nil
		}
	}
	return parseYAML(data)
}

// cutRuns returns a document with the inner lines of its runs empty, and the
// runs by the numbers of their first lines.
func cutRuns(data []byte) (cut []byte, runs map[int]*lineRun) {
	runs = map[int]*lineRun{}
	kept := 0 // bytes of data that are in cut, or left out of it
	var start, second, last, lines, indent, number int
	flush := func(end int) {
		if lines >= minRun {
			cut = append(cut, data[kept:second]...)
			cut = append(cut, bytes.Repeat([]byte{'\n'}, lines-2)...)
			kept = last
			runs[number-lines+1] = &lineRun{
				first: string(data[start : second-1]), last: string(data[last : end-1]), inner: string(data[second:last]),
				line: number - lines + 1, n: lines - 2, indent: indent,
			}
		}
		lines = 0
	}
	at := 0
	for ; at < len(data); number++ {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			break
		}
		blanks, ok := plainEntry(data[at : at+n])
		if lines > 0 && (!ok || blanks != indent) {
			flush(at)
		}
		if ok {
			switch lines {
			case 0:
				start, indent = at, blanks
			case 1:
				second = at
			}
			last = at
			lines++
		}
		at += n + 1
	}
	flush(at)
	if len(runs) == 0 {
		return nil, nil
	}
	return append(cut, data[kept:]...), runs
}

// plainEntry reports whether a line has the form of a run, and its indentation.
func plainEntry(line []byte) (indent int, ok bool) {
	for indent < len(line) && line[indent] == ' ' {
		indent++
	}
	key, value, ok := splitEntry(line[indent:])
	if !ok || indent == 0 || len(key) == 0 || len(key) > 255 || key[0] == '-' {
		return 0, false
	}
	for _, c := range key {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '-' && c <= '9' || c == '_') {
			return 0, false
		}
	}
	for _, c := range value {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return 0, false
		}
	}
	return indent, resolve(string(key)) == kindString && resolve(string(value)) == kindString
}

// splitEntry takes a line of a run, without its indentation, apart.
func splitEntry[T string | []byte](line T) (key, value T, ok bool) {
	colon := len(line) - len(": ") - 64
	if colon < 0 || line[colon] != ':' || line[colon+1] != ' ' {
		return key, value, false
	}
	return line[:colon], line[colon+2:], true
}

// at reports whether the entry of a block map that is number i of its contents
// is the first line of the run, and the next entry its last.
func (u *lineRun) at(y *yaml.Node, i int) bool {
	return y.Style&yaml.FlowStyle == 0 && i+3 < len(y.Content) &&
		u.is(y.Content[i:i+2], u.first, u.line) && u.is(y.Content[i+2:i+4], u.last, u.line+u.n+1)
}

func (u *lineRun) is(entry []*yaml.Node, line string, number int) bool {
	key, value, _ := splitEntry(line[u.indent:])
	plain := func(y *yaml.Node, text string, col int) bool {
		return y.Kind == yaml.ScalarNode && y.Style == 0 && y.Anchor == "" && y.Value == text && y.Line == number && y.Column == col
	}
	return plain(entry[0], key, u.indent+1) && plain(entry[1], value, u.indent+1+len(key)+len(": "))
}

// entries calls fn for the inner lines.
func (u *lineRun) entries(fn func(key string, line, col int, value *node) bool) {
	values := make([]node, u.n)
	rest := u.inner
	for i := range values {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		key, value, _ := splitEntry(line[u.indent:])
		values[i] = node{kind: kindString, text: value, line: u.line + 1 + i, col: u.indent + 1 + len(key) + len(": "), size: 1}
		if !fn(key, u.line+1+i, u.indent+1, &values[i]) {
			return
		}
	}
}
