package rye

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// A tomlTable holds what parseTOML read: strings as string, tables as
// *tomlTable, arrays as []any and all other values as tomlScalar.
type tomlTable struct {
	values map[string]any
	header bool // opened by a [header]: not again
	dotted bool // made by a dotted key: no header may open it
	closed bool // an inline table: nothing may be added
}

// A tomlScalar is a number, boolean or date as written.
type tomlScalar string

func newTOMLTable() *tomlTable { return &tomlTable{values: map[string]any{}} }

// text returns the string at a path of keys.
func (t *tomlTable) text(path ...string) (string, bool) {
	for _, k := range path[:len(path)-1] {
		next, ok := t.values[k].(*tomlTable)
		if !ok {
			return "", false
		}
		t = next
	}
	s, ok := t.values[path[len(path)-1]].(string)
	return s, ok
}

// maxTOMLDepth bounds arrays and inline tables within each other, and the parts
// of a dotted key.
const maxTOMLDepth = 16

// parseTOML reads TOML 1.0 as far as key documents can need it: arrays of
// tables ([[x]]) are refused. Text must be valid UTF-8 with LF line ends.
func parseTOML(text string) (*tomlTable, error) {
	p := &tomlParser{s: text, line: 1}
	root := newTOMLTable()
	err := p.document(root)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line, err)
	}
	return root, nil
}

type tomlParser struct {
	s    string // what is left
	line int
}

func (p *tomlParser) document(root *tomlTable) error {
	current := root
	for {
		p.blanks()
		switch {
		case p.s == "":
			return nil
		case p.s[0] == '\n' || p.s[0] == '#':
		case p.s[0] == '[':
			t, err := p.header(root)
			if err != nil {
				return err
			}
			current = t
		default:
			if err := p.keyValue(current); err != nil {
				return err
			}
		}
		if err := p.endOfLine(); err != nil {
			return err
		}
	}
}

func (p *tomlParser) blanks() { p.s = strings.TrimLeft(p.s, " \t") }

// endOfLine takes blanks, a comment, and the line feed or the end.
func (p *tomlParser) endOfLine() error {
	p.blanks()
	if strings.HasPrefix(p.s, "#") {
		comment, _, _ := strings.Cut(p.s, "\n")
		if i := strings.IndexFunc(comment, tomlControl); i >= 0 {
			return errors.New("a control character in a comment")
		}
		p.s = p.s[len(comment):]
	}
	if p.s == "" {
		return nil
	}
	if p.s[0] != '\n' {
		return errors.New("expected the end of the line")
	}
	p.s = p.s[1:]
	p.line++
	return nil
}

func tomlControl(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }

func (p *tomlParser) header(root *tomlTable) (*tomlTable, error) {
	if strings.HasPrefix(p.s, "[[") {
		return nil, errors.New("an array of tables has no place in a key document")
	}
	p.s = p.s[1:]
	keys, err := p.keys()
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(p.s, "]") {
		return nil, errors.New("expected ] after the name of a table")
	}
	p.s = p.s[1:]
	t := root
	for _, k := range keys {
		switch v := t.values[k].(type) {
		case nil:
			next := newTOMLTable()
			t.values[k] = next
			t = next
		case *tomlTable:
			if v.closed {
				return nil, errors.New("an inline table cannot be opened again")
			}
			t = v
		default:
			return nil, errors.New("a table has the name of a value")
		}
	}
	if t.header || t.dotted {
		return nil, errors.New("a table is defined twice")
	}
	t.header = true
	return t, nil
}

func (p *tomlParser) keyValue(t *tomlTable) error { return p.keyValueAt(t, 0) }

func (p *tomlParser) keyValueAt(t *tomlTable, depth int) error {
	keys, err := p.keys()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(p.s, "=") {
		return errors.New("expected = after a key")
	}
	p.s = p.s[1:]
	p.blanks()
	for _, k := range keys[:len(keys)-1] {
		switch v := t.values[k].(type) {
		case nil:
			next := newTOMLTable()
			next.dotted = true
			t.values[k] = next
			t = next
		case *tomlTable:
			if v.closed || v.header || !v.dotted {
				return errors.New("a dotted key adds to a table that is defined elsewhere")
			}
			t = v
		default:
			return errors.New("a dotted key goes through a value")
		}
	}
	k := keys[len(keys)-1]
	if _, twice := t.values[k]; twice {
		return errors.New("a key stands there twice")
	}
	v, err := p.value(depth)
	if err != nil {
		return err
	}
	t.values[k] = v
	return nil
}

var tomlBare = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]+`) })

// keys reads a key, dotted or not, and the blanks behind it.
func (p *tomlParser) keys() ([]string, error) {
	var keys []string
	for {
		p.blanks()
		var k string
		var err error
		switch {
		case strings.HasPrefix(p.s, `"""`), strings.HasPrefix(p.s, `'''`):
			err = errors.New("a key of several lines")
		case strings.HasPrefix(p.s, `"`), strings.HasPrefix(p.s, `'`):
			k, err = p.quoted(p.s[:1])
		default:
			if k = tomlBare().FindString(p.s); k == "" {
				err = errors.New("expected a key")
			}
			p.s = p.s[len(k):]
		}
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
		p.blanks()
		if len(keys) > maxTOMLDepth {
			return nil, errors.New("a key with too many parts")
		}
		if !strings.HasPrefix(p.s, ".") {
			return keys, nil
		}
		p.s = p.s[1:]
	}
}

var (
	tomlNumber = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[+-]?(?:0|[1-9](?:_?[0-9])*)(?:\.[0-9](?:_?[0-9])*)?(?:[eE][+-]?[0-9](?:_?[0-9])*)?|[+-]?(?:inf|nan)|0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*|true|false)$`)
	})
	tomlDate = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[0-9]{4}-[0-9]{2}-[0-9]{2})?(?:[Tt ]?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?)?$`)
	})
	tomlToken = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:)?[A-Za-z0-9_+:.-]+`)
	})
)

func (p *tomlParser) value(depth int) (any, error) {
	if depth > maxTOMLDepth {
		return nil, errors.New("values nested too deeply")
	}
	switch {
	case strings.HasPrefix(p.s, `"""`), strings.HasPrefix(p.s, `'''`):
		return p.quoted(p.s[:3])
	case strings.HasPrefix(p.s, `"`), strings.HasPrefix(p.s, `'`):
		return p.quoted(p.s[:1])
	case strings.HasPrefix(p.s, "["):
		return p.array(depth)
	case strings.HasPrefix(p.s, "{"):
		return p.inlineTable(depth)
	}
	token := tomlToken().FindString(p.s)
	if !tomlNumber().MatchString(token) && !realTOMLDate(token) {
		return nil, errors.New("expected a value")
	}
	p.s = p.s[len(token):]
	return tomlScalar(token), nil
}

func realTOMLDate(token string) bool {
	if len(token) < 8 || !tomlDate().MatchString(token) {
		return false
	}
	token = strings.ToUpper(strings.Replace(token, " ", "T", 1))
	for _, layout := range []string{"2006-01-02", "15:04:05", "2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00"} {
		if t, err := time.Parse(layout, token); err == nil {
			return !strings.Contains(layout, "2006") || t.Year() > 0
		}
	}
	return false
}

// lines takes blanks, comments and line feeds inside an array.
func (p *tomlParser) lines() error {
	for {
		p.blanks()
		if p.s == "" || p.s[0] != '#' && p.s[0] != '\n' {
			return nil
		}
		if err := p.endOfLine(); err != nil {
			return err
		}
	}
}

func (p *tomlParser) array(depth int) (any, error) {
	p.s = p.s[1:]
	list := []any{}
	for {
		if err := p.lines(); err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.s, "]") {
			p.s = p.s[1:]
			return list, nil
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if err := p.lines(); err != nil {
			return nil, err
		}
		switch {
		case strings.HasPrefix(p.s, ","):
			p.s = p.s[1:]
		case !strings.HasPrefix(p.s, "]"):
			return nil, errors.New("expected , or ] in an array")
		}
	}
}

func (p *tomlParser) inlineTable(depth int) (any, error) {
	p.s = p.s[1:]
	t := newTOMLTable()
	p.blanks()
	for first := true; !strings.HasPrefix(p.s, "}"); first = false {
		if !first {
			if !strings.HasPrefix(p.s, ",") {
				return nil, errors.New("expected , or } in an inline table")
			}
			p.s = p.s[1:]
		}
		if err := p.keyValueAt(t, depth+1); err != nil {
			return nil, err
		}
		p.blanks()
	}
	p.s = p.s[1:]
	t.close()
	return t, nil
}

// close forbids additions to an inline table and to the tables in it.
func (t *tomlTable) close() {
	t.closed = true
	for _, v := range t.values {
		if inner, ok := v.(*tomlTable); ok && !inner.closed {
			inner.close()
		}
	}
}

// quoted reads a string whose quotes are q: one or three of one kind.
func (p *tomlParser) quoted(q string) (string, error) {
	p.s = p.s[len(q):]
	long, literal := len(q) == 3, q[0] == '\''
	if long && strings.HasPrefix(p.s, "\n") {
		p.s = p.s[1:]
		p.line++
	}
	var b strings.Builder
	for {
		if p.s == "" {
			return "", errors.New("a string without its closing quotes")
		}
		if strings.HasPrefix(p.s, q) {
			p.s = p.s[len(q):]
			for extra := 0; long && extra < 2 && p.s != "" && p.s[0] == q[0]; extra++ {
				b.WriteByte(q[0])
				p.s = p.s[1:]
			}
			return b.String(), nil
		}
		c := p.s[0]
		switch {
		case c == '\n' && !long:
			return "", errors.New("a line feed in a string of one line")
		case c == '\n':
			p.line++
		case tomlControl(rune(c)):
			return "", errors.New("a control character in a string")
		case c == '\\' && !literal:
			if err := p.escape(&b, long); err != nil {
				return "", err
			}
			continue
		}
		b.WriteByte(c)
		p.s = p.s[1:]
	}
}

const tomlEscapes = "b\bt\tn\nf\fr\r\"\"\\\\"

func (p *tomlParser) escape(b *strings.Builder, long bool) error {
	p.s = p.s[1:]
	if p.s == "" {
		return errors.New("a string without its closing quotes")
	}
	c := p.s[0]
	for i := 0; i < len(tomlEscapes); i += 2 {
		if tomlEscapes[i] == c {
			b.WriteByte(tomlEscapes[i+1])
			p.s = p.s[1:]
			return nil
		}
	}
	digits := 0
	switch {
	case c == 'u':
		digits = 4
	case c == 'U':
		digits = 8
	case long && (c == ' ' || c == '\t' || c == '\n'):
		rest := strings.TrimLeft(p.s, " \t")
		if !strings.HasPrefix(rest, "\n") {
			break
		}
		after := strings.TrimLeft(rest, " \t\n")
		p.line += strings.Count(rest[:len(rest)-len(after)], "\n")
		p.s = after
		return nil
	}
	if digits == 0 || len(p.s) <= digits {
		return errors.New("an unknown escape in a string")
	}
	n, err := strconv.ParseUint(p.s[1:1+digits], 16, 32)
	if err != nil || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
		return errors.New("an escape that names no character")
	}
	b.WriteRune(rune(n))
	p.s = p.s[1+digits:]
	return nil
}
