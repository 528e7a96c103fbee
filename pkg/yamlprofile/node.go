package yamlprofile

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Kind is the type of a Node after YAML 1.2 core schema resolution.
type Kind uint8

// The kinds of a node.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

// String names the kind for a sentence: "null", "a boolean", "a list".
func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case Bool:
		return "a boolean"
	case Number:
		return "a number"
	case String:
		return "a string"
	case List:
		return "a list"
	}
	return "a mapping"
}

// A Node is one value of a document with its place.
type Node struct {
	Kind   Kind
	Line   int     // counted from 1, in the file that holds the document
	Col    int     // in code points, counted from 1
	Value  string  // of a scalar: its text after folding and unescaping
	Source string  // of a scalar on one line: its text as written, quotes included; else ""
	Plain  bool    // of a scalar: it stands without quotes and is not a block
	Items  []*Node // of a List
	Fields []Field // of a Map, in the order of the document
}

// A Field is one key with its value. Keys are unique within a mapping.
type Field struct {
	Key   *Node // a scalar; its Value is the key
	Value *Node
}

// Get returns the value of a key, nil if n is not a mapping or has no such key.
func (n *Node) Get(key string) *Node {
	if f := n.Field(key); f != nil {
		return f.Value
	}
	return nil
}

// Field returns the field of a key, nil if n is not a mapping or has no such key.
func (n *Node) Field(key string) *Field {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Key.Value == key {
			return &n.Fields[i]
		}
	}
	return nil
}

// Int returns the value of a Number written as an integer (decimal, 0o or 0x);
// ok is false for any other node and outside int64.
func (n *Node) Int() (i int64, ok bool) {
	if n == nil || n.Kind != Number {
		return 0, false
	}
	digits, base := integer(n.Value)
	if base == 0 {
		return 0, false
	}
	i, err := strconv.ParseInt(digits, base, 64)
	return i, err == nil
}

// Float returns the value of a Number, which may be infinite or NaN; ok is
// false for any other node.
func (n *Node) Float() (f float64, ok bool) {
	if n == nil || n.Kind != Number {
		return 0, false
	}
	if digits, base := integer(n.Value); base == 8 || base == 16 {
		u, err := strconv.ParseUint(digits, base, 64)
		if err != nil { // more than 64 bits
			for _, d := range digits {
				v, _ := strconv.ParseUint(string(d), base, 8)
				f = f*float64(base) + float64(v)
			}
			return f, true
		}
		return float64(u), true
	}
	switch strings.ToLower(strings.TrimLeft(n.Value, "+-")) {
	case ".inf":
		if n.Value[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	case ".nan":
		return math.NaN(), true
	}
	f, _ = strconv.ParseFloat(n.Value, 64) // out of range gives ±Inf, as it should
	return f, true
}

// True reports whether a Bool is true.
func (n *Node) True() bool {
	return n != nil && n.Kind == Bool && (n.Value[0] == 't' || n.Value[0] == 'T')
}

// integer splits the text of a Number written as an integer into its digits
// (with sign) and base; the base is 0 if it is not an integer.
func integer(s string) (digits string, base int) {
	switch {
	case strings.HasPrefix(s, "0o"):
		return s[2:], 8
	case strings.HasPrefix(s, "0x"):
		return s[2:], 16
	}
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (i > 0 || s[i] != '-' && s[i] != '+') {
			return "", 0
		}
	}
	return s, 10
}

// Interface returns the value as encoding/json would decode it: nil, bool,
// json.Number, string, []any, map[string]any. ok is false if the value holds a
// number that JSON can't hold (infinite or NaN); it stands as nil.
func (n *Node) Interface() (v any, ok bool) {
	switch n.Kind {
	case Bool:
		return n.True(), true
	case Number:
		s := n.jsonNumber()
		if s == "" {
			return nil, false
		}
		return json.Number(s), true
	case String:
		return n.Value, true
	case List:
		list := make([]any, len(n.Items))
		ok = true
		for i, item := range n.Items {
			v, fine := item.Interface()
			list[i], ok = v, ok && fine
		}
		return list, ok
	case Map:
		m := make(map[string]any, len(n.Fields))
		ok = true
		for _, f := range n.Fields {
			v, fine := f.Value.Interface()
			m[f.Key.Value], ok = v, ok && fine
		}
		return m, ok
	}
	return nil, true
}

// jsonNumber is the JSON form of a Number, "" if there is none. Decimal
// integers keep all their digits.
func (n *Node) jsonNumber() string {
	if digits, base := integer(n.Value); base == 10 {
		sign := ""
		if digits[0] == '-' {
			sign = "-"
		}
		digits = strings.TrimLeft(strings.TrimLeft(digits, "+-"), "0")
		if digits == "" {
			return "0"
		}
		return sign + digits
	}
	f, _ := n.Float()
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return ""
	}
	b, _ := json.Marshal(f)
	return string(b)
}

// MarshalJSON writes the value with its keys in the order of the document.
// Numbers that JSON can't hold become {"$number": "NaN"}, "Infinity" or
// "-Infinity".
func (n *Node) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := n.writeJSON(&b)
	return b.Bytes(), err
}

func (n *Node) writeJSON(b *bytes.Buffer) error {
	switch n.Kind {
	case Null:
		b.WriteString("null")
	case Bool:
		b.WriteString(strconv.FormatBool(n.True()))
	case Number:
		s := n.jsonNumber()
		if s == "" {
			f, _ := n.Float()
			name := "Infinity"
			if math.IsNaN(f) {
				name = "NaN"
			} else if f < 0 {
				name = "-Infinity"
			}
			s = `{"$number":"` + name + `"}`
		}
		b.WriteString(s)
	case String:
		return writeJSONString(b, n.Value)
	case List:
		b.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := item.writeJSON(b); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case Map:
		b.WriteByte('{')
		for i, f := range n.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSONString(b, f.Key.Value); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := f.Value.writeJSON(b); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	}
	return nil
}

func writeJSONString(b *bytes.Buffer, s string) error {
	q, err := json.Marshal(s)
	b.Write(q)
	return err
}
