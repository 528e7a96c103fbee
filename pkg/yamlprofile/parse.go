package yamlprofile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
	"gopkg.in/yaml.v3"
)

// Default limits of docs/spec/envelope.md#limits.
const (
	DefaultMaxBytes = 65536 // of the document after line ends became LF
	DefaultMaxDepth = 16    // of nested lists and mappings, the document's mapping being 1
)

// Limits of a document. A zero field stands for its default.
type Limits struct {
	MaxBytes int64
	MaxDepth int
}

// An Error says why a document is refused and where. Message is one sentence
// and Hint an exact repair, as in a finding.Finding; untrusted text in both is
// quoted.
type Error struct {
	Line    int // counted from 1, in the file that holds the document
	Col     int // in code points, counted from 1
	Message string
	Hint    string
}

// Error returns place and message.
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Message) }

// Parse reads a whole file: UTF-8, one byte order mark at the start dropped,
// line ends LF or CRLF. It returns the document's mapping, or an error that
// is always an *Error.
func Parse(file []byte, l Limits) (*Node, error) {
	if at := InvalidUTF8(file); at >= 0 {
		line, col := Place(file, at)
		return nil, &Error{Line: line, Col: col, Message: fmt.Sprintf("byte 0x%02x at offset %d is not valid UTF-8", file[at], at)}
	}
	if err := LoneCR(file, len(file)); err != nil {
		return nil, err
	}
	text := string(bytes.TrimPrefix(file, []byte("\uFEFF")))
	return ParseText(strings.ReplaceAll(text, "\r\n", "\n"), 1, l)
}

// LoneCR refuses a CR that no LF follows among the first n bytes of a file:
// some readers end a line there, others go on with it, so that what stands
// behind it is a key for the one and a comment for the other. It returns nil if
// there is none.
func LoneCR(file []byte, n int) error {
	for at := 0; at < n; at++ {
		i := bytes.IndexByte(file[at:n], '\r')
		if i < 0 {
			return nil
		}
		if at += i; at+1 == len(file) || file[at+1] != '\n' {
			line, col := Place(file, at)
			return &Error{Line: line, Col: col,
				Message: "a CR without LF stands here, which readers take for a line end or for none",
				Hint:    "end all lines with LF, as a Unix text file does"}
		}
	}
	return nil
}

// ParseText reads a document that is part of a file: valid UTF-8 with LF line
// ends, whose first line is line firstLine of the file. It returns the
// document's mapping, or an error that is always an *Error.
func ParseText(text string, firstLine int, l Limits) (*Node, error) {
	maxBytes, maxDepth := l.MaxBytes, l.MaxDepth
	if maxBytes == 0 {
		maxBytes = DefaultMaxBytes
	}
	if maxDepth == 0 {
		maxDepth = DefaultMaxDepth
	}
	if int64(len(text)) > maxBytes {
		return nil, &Error{Line: firstLine, Col: 1, Message: fmt.Sprintf("the YAML document has %d bytes, at most %d are allowed", len(text), maxBytes)}
	}
	p := &parser{source: source{text: text, first: firstLine}, maxDepth: maxDepth}
	if err := p.characters(); err != nil {
		return nil, err
	}
	if n, ok := p.plain(); ok {
		return n, nil
	}
	return p.any()
}

// any reads a document whose characters are allowed.
func (p *parser) any() (*Node, error) {
	if err := p.markers(); err != nil {
		return nil, err
	}
	root, err := p.document()
	if err != nil {
		return nil, err
	}
	n, err := p.node(root, 1)
	if err != nil {
		return nil, err
	}
	if err := p.strict(root); err != nil {
		return nil, err
	}
	return n, nil
}

// InvalidUTF8 returns the offset of the first byte that is not UTF-8 by
// RFC 3629, -1 if there is none.
func InvalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; ; {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
}

// Place returns line and column of a byte offset in a file. Lines end at LF,
// CRLF and CR; columns are code points; a byte order mark at the start of the
// file takes no column.
func Place(file []byte, offset int) (line, col int) {
	line = 1
	start := 0
	for i := 0; i < offset; i++ {
		if file[i] == '\n' || file[i] == '\r' && (i+1 == len(file) || file[i+1] != '\n') {
			line++
			start = i + 1
		}
	}
	before := file[start:offset]
	if start == 0 {
		before = bytes.TrimPrefix(before, []byte("\uFEFF"))
	}
	return line, utf8.RuneCount(before) + 1
}

type parser struct {
	source
	maxDepth int
}

// characters refuses what YAML 1.1 and 1.2 readers or terminals take
// differently: docs/spec/envelope.md#yaml, rule 1.
func (p *parser) characters() error {
	for i := 0; i < len(p.text); {
		c := p.text[i]
		if c >= 0x20 && c < 0x7F || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(p.text[i:])
		if r < 0xA0 || r == 0x2028 || r == 0x2029 || r == 0xFEFF || r == 0xFFFE || r == 0xFFFF {
			line, col := p.place(i)
			return &Error{
				Line: line, Col: col,
				Message: fmt.Sprintf("character U+%04X is not allowed here", r),
				Hint:    fmt.Sprintf("remove it, or write it as an escape in double quotes: %s", escape(r)),
			}
		}
		i += size
	}
	return nil
}

func escape(r rune) string {
	if r < 0x100 {
		return fmt.Sprintf(`"\x%02x"`, r)
	}
	return fmt.Sprintf(`"\u%04x"`, r)
}

// markers refuses directives and document markers: rule 2.
func (p *parser) markers() error {
	for line, rest := p.first, p.text; rest != ""; line++ {
		var l string
		l, rest, _ = strings.Cut(rest, "\n")
		switch {
		case strings.HasPrefix(l, "%"):
			return &Error{Line: line, Col: 1, Message: "a line that begins with % is a YAML directive, which is not allowed", Hint: "remove the line"}
		case isMarker(l, "---"), isMarker(l, "..."):
			return &Error{Line: line, Col: 1, Message: fmt.Sprintf("the line begins with the YAML document marker %s, which is not allowed", l[:3]), Hint: "remove the line"}
		}
	}
	return nil
}

func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// document has the library parse, and judges syntax and shape: rules 3 and 4.
func (p *parser) document() (*yaml.Node, error) {
	dec := yaml.NewDecoder(strings.NewReader(p.text))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, p.empty()
	}
	if err != nil {
		return nil, p.syntax(err)
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		return nil, &Error{Line: p.first + more.Line - 1, Col: 1, Message: "a second YAML document begins here, expected one mapping and nothing after it"}
	} else if !errors.Is(err, io.EOF) {
		return nil, p.syntax(err)
	}
	root := doc.Content[0]
	switch root.Kind {
	case yaml.MappingNode:
		return root, nil
	case yaml.ScalarNode:
		if root.Style == 0 && Resolve(root.Value) == Null {
			return nil, p.empty()
		}
	}
	e := &Error{Line: p.first + root.Line - 1, Col: root.Column, Message: "expected a YAML mapping of keys to values, found a single scalar", Hint: "write one key: value on each line, with a blank after the colon"}
	if root.Kind == yaml.SequenceNode {
		e.Message = "expected a YAML mapping of keys to values, found a list"
	}
	return nil, e
}

func (p *parser) empty() error {
	return &Error{Line: p.first, Col: 1, Message: "the YAML document is empty, expected a mapping of keys to values"}
}

// node converts a node of the library, depth first, and judges rule 5.
func (p *parser) node(y *yaml.Node, depth int) (*Node, error) {
	n := &Node{Line: p.first + y.Line - 1, Col: y.Column}
	at := p.offset(y.Line, y.Column)
	if y.Line > len(p.starts) { // an empty value at the end of the text
		n.Line, n.Col = p.place(at)
	}
	refuse := func(message, hint string) (*Node, error) {
		return nil, &Error{Line: n.Line, Col: n.Col, Message: message, Hint: hint}
	}
	var first byte
	if at < len(p.text) {
		first = p.text[at]
	}
	switch {
	case y.Kind == yaml.AliasNode:
		return refuse("a YAML alias ("+finding.QuoteMax("*"+y.Value, 40)+") is not allowed", "write the value out, or put it in double quotes if it is text")
	case y.Anchor != "":
		return refuse("a YAML anchor ("+finding.QuoteMax("&"+y.Anchor, 40)+") is not allowed", "remove the anchor, or put the value in double quotes if it is text")
	case first == '!', y.Style&yaml.TaggedStyle != 0:
		return refuse("a YAML tag ("+finding.QuoteMax(word(p.text[at:]), 40)+") is not allowed", "remove the tag; put the value in double quotes if it is text")
	}
	switch y.Kind {
	case yaml.ScalarNode:
		n.Value = y.Value
		n.Kind = String
		switch {
		case isQuoted(y):
			n.Source = strings.Clone(p.oneLine(at, p.quotedEnd(at))) // or it would keep the whole text
		case y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0:
			n.Kind, n.Plain = Resolve(y.Value), true
			if strings.HasPrefix(p.text[at:], y.Value) && !strings.Contains(y.Value, "\n") {
				n.Source = y.Value
			}
		}
		return n, nil
	case yaml.SequenceNode:
		n.Kind = List
	default:
		n.Kind = Map
	}
	if depth > p.maxDepth {
		return refuse(fmt.Sprintf("lists and mappings are nested deeper than %d levels", p.maxDepth), "")
	}
	if n.Kind == List {
		n.Items = make([]*Node, 0, len(y.Content))
		for _, item := range y.Content {
			c, err := p.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, c)
		}
		return n, nil
	}
	return n, p.fields(n, y, depth)
}

// fields converts the keys and values of a mapping.
func (p *parser) fields(n *Node, y *yaml.Node, depth int) error {
	n.Fields = make([]Field, 0, len(y.Content)/2)
	var seen map[string]*Node // only of large mappings
	if len(y.Content) > 64 {
		seen = make(map[string]*Node, len(y.Content)/2)
	}
	for i := 0; i+1 < len(y.Content); i += 2 {
		yk := y.Content[i]
		if yk.Kind == yaml.SequenceNode || yk.Kind == yaml.MappingNode {
			return &Error{Line: p.first + yk.Line - 1, Col: yk.Column, Message: "a key is a list or a mapping, expected a plain or quoted word", Hint: "write key: value"}
		}
		k, err := p.node(yk, depth+1)
		if err != nil {
			return err
		}
		if yk.Style == 0 && yk.Value == "<<" {
			return &Error{Line: k.Line, Col: k.Col, Message: "the YAML merge key << is not allowed", Hint: "write the keys out"}
		}
		var before *Node
		if seen != nil {
			before = seen[k.Value]
			seen[k.Value] = k
		} else if f := n.Field(k.Value); f != nil {
			before = f.Key
		}
		if before != nil {
			return &Error{Line: k.Line, Col: k.Col, Message: fmt.Sprintf("key %s is here a second time, first on line %d", finding.QuoteMax(k.Value, 40), before.Line), Hint: fmt.Sprintf("remove line %d or line %d", before.Line, k.Line)}
		}
		v, err := p.node(y.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		n.Fields = append(n.Fields, Field{k, v})
	}
	return nil
}

// word is the text up to the next blank or line end.
func word(s string) string {
	if i := strings.IndexAny(s, " \t\n"); i >= 0 {
		return s[:i]
	}
	return s
}
