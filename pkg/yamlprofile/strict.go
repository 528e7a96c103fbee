package yamlprofile

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// strict closes what the library accepts and YAML 1.2 does not: rule 6 of
// docs/spec/envelope.md#yaml. Places come from the library's nodes, the text
// between them is read again.
func (p *parser) strict(root *yaml.Node) error {
	p.line = 0 // begin again
	if err := p.block(root, -1); err != nil {
		return err
	}
	return nil
}

func (p *parser) refuse(at int, message, hint string) *Error {
	line, col := p.place(at)
	return &Error{Line: line, Col: col, Message: message, Hint: hint}
}

// block judges a node that stands in a block collection indented by indent
// blanks (-1: the document itself).
func (p *parser) block(y *yaml.Node, indent int) *Error {
	at := p.offset(y.Line, y.Column)
	switch {
	case y.Kind == yaml.ScalarNode:
		if isQuoted(y) {
			_, err := p.quoted(at, indent)
			return err
		}
		if y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
			return p.commentsAbove(at, indent)
		}
		return p.blockScalar(at, indent)
	case y.Style&yaml.FlowStyle != 0:
		return p.flow(y, at, indent)
	}
	indent = y.Column - 1
	if y.Kind == yaml.SequenceNode {
		for _, item := range y.Content {
			if err := p.inside(item, indent); err != nil {
				return err
			}
		}
		return nil
	}
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		if isQuoted(k) {
			if _, err := p.quoted(p.offset(k.Line, k.Column), indent); err != nil {
				return err
			}
		}
		if k.Column > y.Column && v.Line > k.Line && !isEmpty(v) {
			return p.refuse(p.offset(k.Line, k.Column), "key and value are on two lines, each with a mark of its own", "write key: value")
		}
		if v.Kind == yaml.SequenceNode && v.Style&yaml.FlowStyle == 0 && v.Column == y.Column {
			if err := p.block(v, indent); err != nil { // a list may stand right below its key
				return err
			}
		} else if err := p.inside(v, indent); err != nil {
			return err
		}
	}
	return nil
}

// inside judges a node that must be indented by more than indent blanks.
func (p *parser) inside(y *yaml.Node, indent int) *Error {
	if !isEmpty(y) && y.Column-1 <= indent {
		return p.refuse(p.offset(y.Line, y.Column), notIndented(indent), "")
	}
	return p.block(y, indent)
}

const (
	noBlank     = "there is no blank before this comment"
	blankBefore = "put a blank before the #"
	blankAfter  = "put a blank after the #"
)

func isEmpty(y *yaml.Node) bool {
	return y.Kind == yaml.ScalarNode && y.Style == 0 && y.Value == ""
}

func isQuoted(y *yaml.Node) bool {
	return y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
}

func notIndented(indent int) string {
	return fmt.Sprintf("the value goes on in a line that is indented too little, expected at least %d blank(s)", indent+1)
}

// quoted judges the quoted scalar at at and returns its end.
func (p *parser) quoted(at, indent int) (end int, err *Error) {
	end = p.quotedEnd(at)
	t := p.text[at:end]
	for i := 0; ; {
		n := strings.IndexByte(t[i:], '\n')
		if n < 0 {
			break
		}
		if i += n; t[i-1] == ' ' || t[i-1] == '\t' {
			return end, p.refuse(at, "a line of this quoted value ends with a blank, which readers keep or drop", "write the value on one line, or remove the blank")
		}
		i++
		if blanks, _ := indentation(t[i:]); blanks <= indent && t[i+blanks] != '\n' {
			return end, p.refuse(at, notIndented(indent), "")
		}
	}
	if t[0] == '"' {
		for i := 1; i+1 < len(t); i++ {
			if t[i] != '\\' {
				continue
			}
			switch i++; t[i] {
			case '\n':
				return end, p.refuse(at, "a backslash at the end of a line of a double-quoted value is not allowed", "write the value on one line")
			case '\'':
				return end, p.refuse(at, `a double-quoted value has the escape \', which YAML does not know`, "write ' without the backslash")
			}
		}
	}
	return end, p.closed(at, end)
}

// blockScalar judges a literal or folded scalar: a comment behind its header,
// and the empty lines at its begin, from which the library takes the
// indentation where YAML takes it from the first line of text.
func (p *parser) blockScalar(at, indent int) *Error {
	header, lines, _ := strings.Cut(p.text[at:], "\n")
	header = word(header)
	if n := strings.IndexByte(header, '#'); n >= 0 {
		return p.refuse(at+n, noBlank, blankBefore)
	}
	inner := -1 // blanks before each line of text
	if n := strings.IndexAny(header, "123456789"); n >= 0 {
		inner = max(indent, 0) + int(header[n]-'0')
	}
	odd := false // a line of blanks goes beyond them, and no text has followed yet
	for most := 0; lines != ""; {
		line, rest, _ := strings.Cut(lines, "\n")
		blanks, first := indentation(lines)
		if first == '\n' {
			odd = odd || inner >= 0 && len(line) > inner
			most, lines = max(most, blanks), rest
			continue
		}
		if inner < 0 {
			if blanks > indent && blanks < most {
				return p.refuse(at, "an empty line at the begin of this value has more blanks than its first line of text", "remove the blanks of the empty line")
			}
			inner = max(blanks, indent+1)
		}
		if blanks < inner {
			lines = ""
		} else {
			odd, lines = false, rest
		}
	}
	if odd {
		return p.refuse(at, "this value ends with a line of blanks that readers keep or drop", "remove the blanks of the last lines")
	}
	return nil
}

// commentsAbove judges the comments between a key or dash and a plain value
// that begins on a line of its own. The reference loses its way where one is
// indented no more than the key, and either has no blank after its # or stands
// below an empty line.
func (p *parser) commentsAbove(at, indent int) *Error {
	begin := strings.LastIndexByte(p.text[:at], '\n') + 1
	if strings.Trim(p.text[begin:at], " ") != "" {
		return nil
	}
	for begin > 0 {
		end := begin - 1
		begin = strings.LastIndexByte(p.text[:end], '\n') + 1
		line := p.text[begin:end]
		blanks, first := indentation(line)
		if first == '\n' {
			continue
		}
		if first != '#' {
			return nil
		}
		if blanks > indent || line[blanks] != '#' {
			continue
		}
		if len(line) > blanks+1 && line[blanks+1] != ' ' && line[blanks+1] != '\t' {
			return p.refuse(begin+blanks, "there is no blank after the # of this comment, which stands between a key and its value", blankAfter)
		}
		if begin > 1 && p.text[begin-2] == '\n' {
			return p.refuse(begin+blanks, "this comment stands below an empty line between a key and its value", "indent the comment, or remove the empty line")
		}
	}
	return nil
}

// closed judges what follows a closing quote or bracket.
func (p *parser) closed(at, end int) *Error {
	if end == len(p.text) || strings.IndexByte(" \t\n,]}:", p.text[end]) >= 0 {
		return nil
	}
	return p.refuse(at, fmt.Sprintf("there is no blank after the closing %c of this value", p.text[end-1]), "put a blank after it, or the whole value in double quotes")
}

// indentation counts the blanks at the begin of a line, and returns the first
// character that is neither blank nor TAB, LF at the end.
func indentation(s string) (blanks int, first byte) {
	for blanks < len(s) && s[blanks] == ' ' {
		blanks++
	}
	for i := blanks; i < len(s); i++ {
		if s[i] != ' ' && s[i] != '\t' {
			return blanks, s[i]
		}
	}
	return blanks, '\n'
}

// flow judges an outermost flow collection, at at, in the block collection
// indented by indent blanks.
func (p *parser) flow(y *yaml.Node, at, indent int) *Error {
	var quotes []int // where quoted scalars begin: elsewhere a quote is text
	if err := p.scalars(y, &quotes); err != nil {
		return err
	}
	var open []int
	closing := -1 // where the last quote or bracket closed
	for i := at; i < len(p.text); {
		if len(quotes) > 0 && quotes[0] == i {
			end, err := p.quoted(i, indent)
			if err != nil {
				return err
			}
			i, quotes, closing = end, quotes[1:], end-1
			continue
		}
		switch p.text[i] {
		case '[', '{':
			open = append(open, i)
		case ']', '}':
			closing = i
			begin := open[len(open)-1]
			open = open[:len(open)-1]
			if err := p.closed(begin, i+1); err != nil {
				return err
			}
			if len(open) == 0 {
				return nil
			}
		case '#':
			switch before := p.text[i-1]; {
			case before == ' ', before == '\t', before == '\n':
				if n := strings.IndexByte(p.text[i:], '\n'); n > 0 {
					i += n
				} else {
					i = len(p.text)
				}
				continue
			case before == ',', before == '[', before == '{', before == ':' && closing == i-2:
				return p.refuse(i, noBlank, blankBefore)
			}
		case '\n':
			if blanks, first := indentation(p.text[i+1:]); first != '\n' && first != '#' && blanks <= indent {
				return p.refuse(at, notIndented(indent), "")
			}
		}
		i++
	}
	return nil
}

// scalars collects the offsets of the quoted scalars below a flow collection,
// in order, and judges the plain ones.
func (p *parser) scalars(y *yaml.Node, quotes *[]int) *Error {
	for _, c := range y.Content {
		switch {
		case c.Kind != yaml.ScalarNode:
			if err := p.scalars(c, quotes); err != nil {
				return err
			}
		case isQuoted(c):
			*quotes = append(*quotes, p.offset(c.Line, c.Column))
		case c.Value == "-" || c.Value == "?" || strings.HasSuffix(c.Value, ":"):
			return p.refuse(p.offset(c.Line, c.Column), "a plain value in brackets or braces is a single - or ? or ends with a colon, which readers take differently", "put the value in double quotes")
		}
	}
	return nil
}
