package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// MaxDepth is the number of arrays and objects that may be open at once in
// manifest.json (docs/spec/agentbundle.md#manifest).
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
// The order of judgement is that of docs/spec/agentbundle.md#manifest:
// bytes, syntax, duplicate keys, surrogates. Keys and strings are compared
// and returned decoded, as they are spelled. It takes linear time and at most
// MaxDepth levels of stack.
func parseJSON(data []byte) (*jsonValue, *jsonError) {
	if i := yamlprofile.InvalidUTF8(data); i >= 0 {
		return nil, &jsonError{codeManifestEncoding, i, "a byte that is not UTF-8"}
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return nil, &jsonError{codeManifestJSON, 0, "it begins with a byte order mark"}
	}
	var at *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &at) {
		return nil, &jsonError{codeManifestJSON, min(max(int(at.Offset)-1, 0), len(data)), finding.Clean(at.Error())}
	}
	p := &jsonParser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	v := p.value(0)
	for _, fault := range []*jsonError{p.err, p.duplicate, p.surrogate} {
		if fault != nil {
			return nil, fault
		}
	}
	return v, nil
}

// jsonParser makes the values of a text that is known to be JSON.
type jsonParser struct {
	data      []byte
	dec       *json.Decoder
	start     int // offset of the token that was read last
	err       *jsonError
	duplicate *jsonError
	surrogate *jsonError
}

// token reads the next token. lone tells that a string has a surrogate without
// its other half.
func (p *jsonParser) token() (t json.Token, lone bool) {
	p.start = int(p.dec.InputOffset())
	for p.start < len(p.data) && strings.IndexByte(" \t\r\n,:", p.data[p.start]) >= 0 {
		p.start++
	}
	t, err := p.dec.Token()
	if err != nil && p.err == nil { // the text is JSON: a limit of the decoder
		p.err = &jsonError{codeManifestJSON, p.start, finding.Clean(err.Error())}
	}
	if _, ok := t.(string); ok {
		if i := loneSurrogate(p.data[p.start:p.dec.InputOffset()]); i >= 0 {
			if lone = true; p.surrogate == nil {
				p.surrogate = &jsonError{codeManifestEncoding, p.start + i, "a lone surrogate escape"}
			}
		}
	}
	return t, lone
}

// loneSurrogate returns where a string as it is spelled escapes half a
// surrogate pair, -1 if nowhere.
func loneSurrogate(raw []byte) int {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		r := escaped(raw[i:])
		switch {
		case !utf16.IsSurrogate(r):
			i++ // the byte behind the backslash
		case i+6 < len(raw) && utf16.DecodeRune(r, escaped(raw[i+6:])) != utf8.RuneError:
			i += 11
		default:
			return i
		}
	}
	return -1
}

// escaped is the code unit of \uXXXX, 0 if b begins otherwise.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n)
}

// value reads a value; depth is the number of open arrays and objects.
func (p *jsonParser) value(depth int) *jsonValue {
	t, _ := p.token()
	v := &jsonValue{offset: p.start}
	switch t := t.(type) {
	case bool:
		v.kind, v.bool = jsonBool, t
	case string:
		v.kind, v.text = jsonString, t
	case json.Number:
		v.kind, v.text = jsonNumber, t.String()
	case json.Delim:
		if depth == MaxDepth {
			p.err = &jsonError{codeManifestJSON, p.start, "it holds more than 64 levels of nesting"}
			return v
		}
		if v.kind = jsonArray; t == '{' {
			v.kind = jsonObject
		}
		p.inside(v, depth+1)
	}
	return v
}

// inside reads what an array or object holds, and its end.
func (p *jsonParser) inside(v *jsonValue, depth int) {
	seen := map[string]bool{}
	for p.err == nil && p.dec.More() {
		if v.kind == jsonArray {
			v.items = append(v.items, p.value(depth))
			continue
		}
		t, lone := p.token()
		key, _ := t.(string)
		f := jsonField{key: key, offset: p.start}
		if lone { // halves are not text, so that two keys may look the same
			key = string(p.data[p.start:p.dec.InputOffset()])
		}
		if seen[key] && p.duplicate == nil {
			p.duplicate = &jsonError{codeManifestDuplicateKey, f.offset, f.key}
		}
		seen[key] = true
		f.value = p.value(depth)
		v.fields = append(v.fields, f)
	}
	if p.err == nil {
		p.token()
	}
}

// equal reports whether two values mean the same: objects in any order of keys,
// numbers by value.
func (v *jsonValue) equal(w *jsonValue) bool {
	if v == nil || w == nil {
		return v == w
	}
	return bytes.Equal(v.append(nil, true), w.append(nil, true))
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

// append writes the value as compact JSON: strings escaped as they must be and
// no further, numbers as they were spelled, fields in their order. With meaning
// set, equal values give equal texts.
func (v *jsonValue) append(b []byte, meaning bool) []byte {
	switch v.kind {
	case jsonNull:
		return append(b, "null"...)
	case jsonBool:
		return strconv.AppendBool(b, v.bool)
	case jsonNumber:
		if meaning {
			return append(b, canonicalNumber(v.text)...)
		}
		return append(b, v.text...)
	case jsonString:
		return append(b, bundle.JSONText(v.text)...)
	case jsonArray:
		b = append(b, '[')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b, meaning)
		}
		return append(b, ']')
	}
	fields := v.fields
	if meaning {
		fields = slices.Clone(fields)
		slices.SortFunc(fields, func(x, y jsonField) int { return strings.Compare(x.key, y.key) })
	}
	b = append(b, '{')
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.value.append(append(append(b, bundle.JSONText(f.key)...), ':'), meaning)
	}
	return append(b, '}')
}
