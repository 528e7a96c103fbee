package rig

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rigward/rigward/pkg/bundle"
)

var jsonNumber = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)
})

// MarshalJSON writes a value with its keys in the order of the document. A
// number that JSON spells otherwise is written as a string.
func (n *node) MarshalJSON() ([]byte, error) { return n.append(nil, false), nil }

// compact is a value as compact JSON, with maps sorted by key, so that equal
// meaning is equal text.
func compact(n *node) string { return string(n.append(nil, true)) }

func (n *node) append(b []byte, sorted bool) []byte {
	switch {
	case n == nil || n.kind == kindNull:
		return append(b, "null"...)
	case n.kind == kindBool, n.kind == kindNumber && jsonNumber().MatchString(n.text):
		return append(b, n.text...)
	case n.kind == kindList:
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b, sorted)
		}
		return append(b, ']')
	case n.kind != kindMap:
		return append(b, bundle.JSONText(n.text)...)
	}
	fields := n.fields
	if sorted {
		fields = slices.Clone(fields)
		slices.SortFunc(fields, func(x, y field) int { return strings.Compare(x.key, y.key) })
	}
	b = append(b, '{')
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.value.append(append(append(b, bundle.JSONText(f.key)...), ':'), sorted)
	}
	return append(b, '}')
}
