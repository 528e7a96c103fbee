package agent

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is the number of arrays and objects that may be open at once in
// manifest.json (spec/agentbundle.md section 4).
const MaxDepth = 64

type jsonKind byte

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

func (k jsonKind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// A jsonValue is one value of a JSON text, with the offset of its first byte.
type jsonValue struct {
	kind   jsonKind
	offset int
	bool   bool
	text   string // a string decoded, a number as it is spelled
	items  []*jsonValue
	fields []jsonField // in the order of the text
}

// A jsonField is one key of an object and its value.
type jsonField struct {
	key    string
	offset int // of the key
	value  *jsonValue
}

// get returns the value of a key that is spelled exactly so, nil if there is none.
func (v *jsonValue) get(key string) *jsonValue {
	for i := range v.fields {
		if v.fields[i].key == key {
			return v.fields[i].value
		}
	}
	return nil
}

// A jsonError is what stops a JSON text from being read, at a byte offset.
type jsonError struct {
	code    string // manifest-encoding, manifest-json or manifest-duplicate-key
	offset  int
	message string
}

// parseJSON reads one JSON text (RFC 8259) in UTF-8 without byte order mark.
// The order of judgement is that of spec/agentbundle.md section 8, step 5:
// bytes, syntax, duplicate keys, surrogates. Keys and strings are compared
// and returned decoded. It takes linear time and at most MaxDepth levels of
// stack.
func parseJSON(data []byte) (*jsonValue, *jsonError) {
	if i := invalidUTF8(data); i >= 0 {
		return nil, &jsonError{codeManifestEncoding, i, "a byte that is not UTF-8"}
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return nil, &jsonError{codeManifestJSON, 0, "a byte order mark"}
	}
	p := &jsonParser{data: data}
	p.space()
	v := p.value(0)
	if p.err == nil {
		p.space()
		if p.pos < len(p.data) {
			p.fail("something after the end of the value")
		}
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case p.duplicate != nil:
		return nil, p.duplicate
	case p.surrogate != nil:
		return nil, p.surrogate
	}
	return v, nil
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

type jsonParser struct {
	data      []byte
	pos       int
	err       *jsonError
	duplicate *jsonError
	surrogate *jsonError
}

func (p *jsonParser) fail(message string) {
	if p.err == nil {
		p.err = &jsonError{codeManifestJSON, p.pos, message}
	}
}

func (p *jsonParser) space() {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end of the text; a NUL in the text
// begins no token, so that the two need not be told apart.
func (p *jsonParser) peek() byte {
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

func (p *jsonParser) value(depth int) *jsonValue {
	v := &jsonValue{offset: p.pos}
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if depth == MaxDepth {
			p.fail("more than 64 levels of nesting")
			return nil
		}
		p.pos++
		if c == '{' {
			v.kind = jsonObject
			p.object(v, depth+1)
		} else {
			v.kind = jsonArray
			p.array(v, depth+1)
		}
	case c == '"':
		v.kind = jsonString
		v.text = p.string()
	case c == '-' || '0' <= c && c <= '9':
		v.kind = jsonNumber
		v.text = p.number()
	case p.word("true"):
		v.kind, v.bool = jsonBool, true
	case p.word("false"):
		v.kind = jsonBool
	case p.word("null"):
		v.kind = jsonNull
	case p.pos == len(p.data):
		p.fail("the end of the text instead of a value")
	case c == '/':
		p.fail("a comment, which JSON does not have")
	case c == '\'':
		p.fail("a single quote, where JSON has double quotes")
	default:
		p.fail("no JSON value")
	}
	return v
}

func (p *jsonParser) word(w string) bool {
	if !bytes.HasPrefix(p.data[p.pos:], []byte(w)) {
		return false
	}
	p.pos += len(w)
	return true
}

func (p *jsonParser) object(v *jsonValue, depth int) {
	p.space()
	if p.peek() == '}' {
		p.pos++
		return
	}
	seen := map[string]bool{}
	for p.err == nil {
		p.space()
		f := jsonField{offset: p.pos}
		if p.peek() != '"' {
			p.fail("no key in double quotes, where one is due")
			return
		}
		f.key = p.string()
		if p.err == nil && seen[f.key] && p.duplicate == nil {
			p.duplicate = &jsonError{codeManifestDuplicateKey, f.offset, f.key}
		}
		seen[f.key] = true
		p.space()
		if p.err == nil && p.peek() != ':' {
			p.fail("no colon after a key")
		}
		if p.err != nil {
			return
		}
		p.pos++
		p.space()
		f.value = p.value(depth)
		v.fields = append(v.fields, f)
		if !p.next('}', "neither comma nor closing brace after a value") {
			return
		}
	}
}

func (p *jsonParser) array(v *jsonValue, depth int) {
	p.space()
	if p.peek() == ']' {
		p.pos++
		return
	}
	for p.err == nil {
		p.space()
		v.items = append(v.items, p.value(depth))
		if !p.next(']', "neither comma nor closing bracket after a value") {
			return
		}
	}
}

// next goes over a comma and says that another item follows, or over the
// closing byte.
func (p *jsonParser) next(closing byte, message string) bool {
	if p.err != nil {
		return false
	}
	p.space()
	switch p.peek() {
	case ',':
		p.pos++
		return true
	case closing:
		p.pos++
		return false
	}
	p.fail(message)
	return false
}

func (p *jsonParser) number() string {
	start := p.pos
	digits := func() int {
		n := p.pos
		for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
			p.pos++
		}
		return p.pos - n
	}
	if p.peek() == '-' {
		p.pos++
	}
	if p.peek() == '0' {
		p.pos++
	} else if digits() == 0 {
		p.fail("a number without digits")
	}
	if p.peek() == '.' {
		p.pos++
		if digits() == 0 {
			p.fail("a number without digits after its point")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.pos++
		if c := p.peek(); c == '+' || c == '-' {
			p.pos++
		}
		if digits() == 0 {
			p.fail("a number without digits in its exponent")
		}
	}
	return string(p.data[start:p.pos])
}

// string reads a string and decodes it. A lone surrogate is remembered and
// kept as the three bytes that would encode it, which no other text yields.
func (p *jsonParser) string() string {
	p.pos++ // the opening quote
	var b strings.Builder
	for p.pos < len(p.data) {
		start := p.pos
		for p.pos < len(p.data) && p.data[p.pos] != '"' && p.data[p.pos] != '\\' && p.data[p.pos] >= 0x20 {
			p.pos++
		}
		b.Write(p.data[start:p.pos])
		switch c := p.peek(); {
		case p.pos == len(p.data):
		case c == '"':
			p.pos++
			return b.String()
		case c == '\\':
			p.escape(&b)
		default:
			p.fail("a control character in a string")
		}
		if p.err != nil {
			return ""
		}
	}
	p.fail("a string without end")
	return ""
}

func (p *jsonParser) escape(b *strings.Builder) {
	start := p.pos
	p.pos++
	c := p.peek()
	if i := strings.IndexByte(`"\/bfnrt`, c); c != 0 && i >= 0 {
		b.WriteByte("\"\\/\b\f\n\r\t"[i])
		p.pos++
		return
	}
	if c != 'u' {
		p.fail("an escape that JSON does not have")
		return
	}
	r, ok := p.unicode()
	if !ok {
		return
	}
	if utf16.IsSurrogate(r) {
		if mark := p.pos; r < 0xdc00 && bytes.HasPrefix(p.data[p.pos:], []byte(`\u`)) {
			p.pos++
			low, ok := p.unicode()
			if !ok {
				return
			}
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				b.WriteRune(pair)
				return
			}
			p.pos = mark
		}
		if p.surrogate == nil {
			p.surrogate = &jsonError{codeManifestEncoding, start, "a lone surrogate escape"}
		}
		b.Write([]byte{0xe0 | byte(r>>12), 0x80 | byte(r>>6)&0x3f, 0x80 | byte(r)&0x3f})
		return
	}
	b.WriteRune(r)
}

// unicode reads uXXXX behind a backslash.
func (p *jsonParser) unicode() (rune, bool) {
	if len(p.data)-p.pos >= 5 {
		hex := string(p.data[p.pos+1 : p.pos+5])
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil {
			p.pos += 5
			return rune(n), true
		}
	}
	p.fail("a \\u escape without four hex digits")
	return 0, false
}

// equal tells whether two values mean the same: objects in any order of keys,
// numbers by value.
func (v *jsonValue) equal(w *jsonValue) bool {
	if v == nil || w == nil {
		return v == w
	}
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case jsonBool:
		return v.bool == w.bool
	case jsonString:
		return v.text == w.text
	case jsonNumber:
		return canonicalNumber(v.text) == canonicalNumber(w.text)
	case jsonArray:
		if len(v.items) != len(w.items) {
			return false
		}
		for i := range v.items {
			if !v.items[i].equal(w.items[i]) {
				return false
			}
		}
	case jsonObject:
		if len(v.fields) != len(w.fields) {
			return false
		}
		byKey := w.byKey()
		for _, f := range v.fields {
			if g := byKey[f.key]; g == nil || !f.value.equal(g) {
				return false
			}
		}
	}
	return true
}

func (v *jsonValue) byKey() map[string]*jsonValue {
	m := make(map[string]*jsonValue, len(v.fields))
	for _, f := range v.fields {
		m[f.key] = f.value
	}
	return m
}

// canonicalNumber gives numbers of one value one spelling: sign, digits
// without zeros around, exponent of the last digit. An exponent beyond 18
// digits is left as it is spelled.
func canonicalNumber(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	mantissa, exp, _ := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return "0"
	}
	e := int64(0)
	if exp != "" {
		n, err := strconv.ParseInt(exp, 10, 64)
		if err != nil || len(exp) > 19 {
			return sign + s
		}
		e = n
	}
	e += int64(len(digits)-len(trimmed)) - int64(len(fraction))
	return sign + trimmed + "e" + strconv.FormatInt(e, 10)
}

// MarshalJSON writes the value as compact JSON: strings escaped as they must
// be and no further, numbers as they were spelled, fields in their order.
func (v *jsonValue) MarshalJSON() ([]byte, error) {
	return v.append(nil), nil
}

func (v *jsonValue) append(b []byte) []byte {
	switch v.kind {
	case jsonNull:
		return append(b, "null"...)
	case jsonBool:
		return strconv.AppendBool(b, v.bool)
	case jsonNumber:
		return append(b, v.text...)
	case jsonString:
		return appendJSONString(b, v.text)
	case jsonArray:
		b = append(b, '[')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b)
		}
		return append(b, ']')
	default:
		b = append(b, '{')
		for i, f := range v.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSONString(b, f.key)
			b = append(b, ':')
			b = f.value.append(b)
		}
		return append(b, '}')
	}
}

// appendJSONString escapes what JSON requires and every other control
// character, so that the text can be shown on a terminal.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || isBidi(r):
			b = append(b, '\\', 'u')
			const hex = "0123456789abcdef"
			b = append(b, hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

func isBidi(r rune) bool { return 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 }
