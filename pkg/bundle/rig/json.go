package rig

import (
	"bytes"
	"encoding/json"
	"regexp"
	"sync"
)

var jsonNumber = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)
})

// MarshalJSON writes a value with its keys in the order of the document. A
// number that JSON spells otherwise is written as a string.
func (n *node) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := n.json(&b)
	return b.Bytes(), err
}

func (n *node) json(b *bytes.Buffer) error {
	if n == nil {
		b.WriteString("null")
		return nil
	}
	switch n.kind {
	case kindNull:
		b.WriteString("null")
	case kindBool:
		b.WriteString(n.text)
	case kindNumber:
		if jsonNumber().MatchString(n.text) {
			b.WriteString(n.text)
			return nil
		}
		return jsonString(b, n.text)
	case kindString:
		return jsonString(b, n.text)
	case kindList:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := item.json(b); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case kindMap:
		b.WriteByte('{')
		for i, f := range n.fields {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := jsonString(b, f.key); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := f.value.json(b); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	}
	return nil
}

func jsonString(b *bytes.Buffer, s string) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the line feed
	return nil
}

// compact is a value as compact JSON, with maps sorted by key, so that equal
// meaning is equal text.
func compact(n *node) string {
	if n == nil {
		return "null"
	}
	raw, err := n.MarshalJSON()
	if err != nil {
		return ""
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return string(raw)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return string(raw)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
