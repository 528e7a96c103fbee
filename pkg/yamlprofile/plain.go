package yamlprofile

import "strings"

// Limits of what plain reads; what goes beyond is left to the library.
const (
	maxPlainKey    = 64 // bytes
	maxPlainFields = 32
	nodesAtOnce    = 16
)

// A liner reads a document that has one key a line, as nearly all front matter is
// written: key: value, where the value is plain or in quotes without any escape, or
// a list of such values, in brackets or each on a line of its own. All of it stands
// on one line, without TAB and comment. The library reads such a document the same
// way, at ten times the cost, and everything else.
type liner struct {
	parser
	at   int // where the next line begins
	line int
	room []Node
}

// plain returns the mapping of a document of that form, whose characters are allowed;
// ok is false for any other one.
func (p *parser) plain() (root *Node, ok bool) {
	if p.text == "" || p.maxDepth < 2 {
		return nil, false
	}
	fields := min(maxPlainFields, strings.Count(p.text, "\n")+1)
	l := &liner{parser: *p, line: p.first, room: make([]Node, 2*fields+1)}
	root = l.node(1)
	root.Kind, root.Fields = Map, make([]Field, 0, fields)
	for l.at < len(l.text) {
		if len(root.Fields) == maxPlainFields || !l.field(root) {
			return nil, false
		}
	}
	return root, true
}

// node returns a new node on the line at hand.
func (l *liner) node(col int) *Node {
	if len(l.room) == 0 {
		l.room = make([]Node, nodesAtOnce)
	}
	n := &l.room[0]
	l.room = l.room[1:]
	n.Line, n.Col = l.line, col
	return n
}

// next returns the line at hand, without its end, and goes to the one behind it.
func (l *liner) next() (text string) {
	text, _, _ = strings.Cut(l.text[l.at:], "\n")
	l.at += len(text) + 1
	return text
}

// field reads a key and its value.
func (l *liner) field(root *Node) bool {
	text := l.next()
	colon := skip(text, isKey)
	if colon == 0 || colon > maxPlainKey || colon == len(text) || text[colon] != ':' || isDigit(text[0]) || text[0] == '-' {
		return false
	}
	key := l.node(1)
	key.Value = strings.Clone(text[:colon]) // or it would keep the whole text
	key.Source, key.Kind, key.Plain = key.Value, Resolve(key.Value), true
	if root.Field(key.Value) != nil {
		return false
	}
	begin := colon + 1 + skip(text[colon+1:], isBlank)
	var value *Node
	var ok bool
	switch {
	case begin == len(text):
		l.line++
		if value, ok = l.list(); !ok || begin != colon+1 {
			return false
		}
	case begin == colon+1:
		return false
	case text[begin] == '[':
		value, ok = l.brackets(text, begin)
	default:
		value, ok = l.scalar(text, begin)
	}
	root.Fields = append(root.Fields, Field{key, value})
	l.line++
	return ok
}

// list reads the lines of a list behind its key, and leaves the last one at hand.
func (l *liner) list() (list *Node, ok bool) {
	indent := skip(l.text[min(l.at, len(l.text)):], isBlank)
	for ; l.at < len(l.text); l.line++ {
		rest := l.text[l.at:]
		if blanks := skip(rest, isBlank); blanks == len(rest) || rest[blanks] != '-' && list != nil {
			break // a key, or what field refuses
		} else if blanks != indent || rest[blanks] != '-' {
			return nil, false
		}
		text := l.next()
		begin := indent + 1 + skip(text[indent+1:], isBlank)
		if begin == indent+1 || begin == len(text) {
			return nil, false
		}
		if list == nil {
			list = l.node(indent + 1)
			list.Kind, list.Items = List, make([]*Node, 0, 4)
		}
		item, ok := l.scalar(text, begin)
		if !ok {
			return nil, false
		}
		list.Items = append(list.Items, item)
	}
	l.line--
	return list, list != nil
}

// scalar reads a value that goes to the end of a line.
func (l *liner) scalar(text string, begin int) (n *Node, ok bool) {
	n = l.node(begin + 1)
	n.Source = strings.Clone(text[begin:])
	s := n.Source
	if strings.IndexByte(s, '\t') >= 0 {
		return nil, false
	}
	if quote := s[0]; quote == '"' || quote == '\'' {
		n.Kind, n.Value = String, s[1:max(1, len(s)-1)]
		return n, len(s) > 1 && s[len(s)-1] == quote && strings.IndexByte(n.Value, quote) < 0 && (quote == '\'' || strings.IndexByte(s, '\\') < 0)
	}
	n.Kind, n.Value, n.Plain = Resolve(s), s, true
	if strings.IndexByte("-?:,[]{}#&*!|>%@`", s[0]) >= 0 {
		return nil, false
	}
	for i := 1; i < len(s); i++ {
		if s[i] == '#' && s[i-1] == ' ' || s[i-1] == ':' && s[i] == ' ' {
			return nil, false
		}
	}
	last := s[len(s)-1]
	return n, last != ' ' && last != ':'
}

// brackets reads a list of simple words in brackets.
func (l *liner) brackets(text string, begin int) (list *Node, ok bool) {
	list = l.node(begin + 1)
	list.Kind, list.Items = List, make([]*Node, 0, 4)
	at := begin + 1
	at += skip(text[at:], isBlank)
	if text[at:] == "]" {
		return list, true
	}
	for {
		n := skip(text[at:], isSimple)
		if n == 0 || text[at] == '-' || text[at] == '.' {
			return nil, false
		}
		item := l.node(at + 1)
		item.Value = strings.Clone(text[at : at+n])
		item.Source, item.Kind, item.Plain = item.Value, Resolve(item.Value), true
		list.Items = append(list.Items, item)
		at += n
		at += skip(text[at:], isBlank)
		switch {
		case text[at:] == "]":
			return list, true
		case at == len(text) || text[at] != ',':
			return nil, false
		}
		at++
		at += skip(text[at:], isBlank)
	}
}

func isBlank(c byte) bool { return c == ' ' }

// isKey is of a key, isSimple of a word that needs no quotes anywhere.
func isKey(c byte) bool { return isSimple(c) && c != '.' }
func isSimple(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '-' || c == '.'
}
