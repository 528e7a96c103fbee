package rig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
	"gopkg.in/yaml.v3"
)

// kind of a node by the YAML 1.2 core schema.
type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindList
	kindMap
)

func (k kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "a map"}[k]
}

// node is one value of a document. Aliased values are shared, never copied.
type node struct {
	kind      kind
	text      string // string value; number as spelled; "true" or "false"
	line, col int    // counted from 1; col in code points
	items     []*node
	fields    []field
	size      int        // nodes below and with it, aliases expanded
	src       *yaml.Node // the node as it stands in the text: an alias node for an alias
}

type field struct {
	key   string
	line  int
	col   int
	value *node
}

// get returns the value of a key; nil if it is absent or null, which counts as
// absent.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].key == key {
			if n.fields[i].value.kind == kindNull {
				return nil
			}
			return n.fields[i].value
		}
	}
	return nil
}

// Limits of docs/spec/rigbundle.md#yaml.
const (
	maxAliases    = 100
	maxAliasNodes = 10_000
	maxYAMLDepth  = 64
)

// yamlError is a fault of docs/spec/rigbundle.md#yaml.
type yamlError struct {
	what      yamlFault
	line, col int
	msg       string
}

type yamlFault int

const (
	faultSyntax yamlFault = iota
	faultEncoding
	faultDuplicate
)

// parseYAML reads one document by the profile of docs/spec/rigbundle.md#yaml. An empty
// document is null.
func parseYAML(data []byte) (*node, *yamlError) { return newReader().document(data) }

func (r *yamlReader) document(data []byte) (*node, *yamlError) {
	if i := yamlprofile.InvalidUTF8(data); i >= 0 {
		line := 1 + bytes.Count(data[:i], []byte("\n"))
		return nil, &yamlError{faultEncoding, line, 0, "is not valid UTF-8"}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return &node{kind: kindNull, line: 1, col: 1}, nil
		}
		return nil, syntaxError(err)
	}
	var next yaml.Node
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, syntaxError(err)
		}
		return nil, &yamlError{faultSyntax, next.Line, next.Column, "holds more than one document"}
	}
	if len(doc.Content) != 1 {
		return &node{kind: kindNull, line: 1, col: 1}, nil
	}
	return r.read(doc.Content[0], 1)
}

var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^yaml: (?:line (\d+): )?`) })

func syntaxError(err error) *yamlError {
	msg := err.Error()
	m := yamlLine().FindStringSubmatch(msg)
	e := &yamlError{what: faultSyntax}
	if m != nil {
		e.line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
	}
	e.msg = "is not valid YAML: " + finding.QuoteMax(msg, 120)
	return e
}

type yamlReader struct {
	anchored map[*yaml.Node]*node
	open     map[*yaml.Node]bool // anchored nodes that are being read
	aliases  int
	added    int
	runs     map[int]*lineRun // left out of the text, by line; see parseLong
}

func newReader() *yamlReader {
	return &yamlReader{anchored: map[*yaml.Node]*node{}, open: map[*yaml.Node]bool{}}
}

func (r *yamlReader) fault(y *yaml.Node, format string, args ...any) *yamlError {
	return &yamlError{faultSyntax, y.Line, y.Column, fmt.Sprintf(format, args...)}
}

func (r *yamlReader) read(y *yaml.Node, depth int) (*node, *yamlError) {
	if depth > maxYAMLDepth {
		return nil, r.fault(y, "is nested over %d levels", maxYAMLDepth)
	}
	if y.Kind == yaml.AliasNode {
		r.aliases++
		if r.aliases > maxAliases {
			return nil, r.fault(y, "has over %d aliases", maxAliases)
		}
		target := r.anchored[y.Alias]
		if target == nil || r.open[y.Alias] {
			return nil, r.fault(y, "has an alias inside its own anchor")
		}
		r.added += target.size
		if r.added > maxAliasNodes {
			return nil, r.fault(y, "has aliases that add over %d nodes", maxAliasNodes)
		}
		if depth+height(target) > maxYAMLDepth+1 {
			return nil, r.fault(y, "is nested over %d levels", maxYAMLDepth)
		}
		n := *target // its own place, shared content
		n.line, n.col, n.src = y.Line, y.Column, y
		return &n, nil
	}
	n := &node{line: y.Line, col: y.Column, size: 1, src: y}
	if y.Anchor != "" {
		r.anchored[y] = n
		r.open[y] = true
		defer delete(r.open, y)
	}
	tag, fault := r.tag(y)
	if fault != nil {
		return nil, fault
	}
	switch y.Kind {
	case yaml.ScalarNode:
		if n.kind, n.text, fault = r.scalar(y, tag); fault != nil {
			return nil, fault
		}
	case yaml.SequenceNode:
		if tag != "" && tag != "!!seq" {
			return nil, r.fault(y, "has the tag %s on a list", finding.QuoteMax(tag, 40))
		}
		n.kind = kindList
		for _, c := range y.Content {
			item, fault := r.read(c, depth+1)
			if fault != nil {
				return nil, fault
			}
			n.items = append(n.items, item)
			n.size += item.size
		}
	case yaml.MappingNode:
		if tag != "" && tag != "!!map" {
			return nil, r.fault(y, "has the tag %s on a map", finding.QuoteMax(tag, 40))
		}
		n.kind = kindMap
		n.fields = make([]field, 0, len(y.Content)/2)
		var seen map[string]bool
		add := func(key string, line, col int, value *node) bool {
			n.fields = append(n.fields, field{key, line, col, value})
			n.size += 1 + value.size
			return true
		}
		twice := func(key string) bool {
			last := len(n.fields) - 1
			if seen == nil && (last < 0 || integrityOrder(n.fields[last].key, key) < 0) {
				return false // as long as keys rise, no table of them is needed
			}
			if seen == nil {
				seen = make(map[string]bool, cap(n.fields))
				for i := range n.fields {
					seen[n.fields[i].key] = true
				}
			}
			was := seen[key]
			seen[key] = true
			return was
		}
		for i := 0; i+1 < len(y.Content); i += 2 {
			at := y.Content[i]
			key, fault := r.key(at, depth+1)
			if fault != nil {
				return nil, fault
			}
			if twice(key) {
				return nil, &yamlError{faultDuplicate, at.Line, at.Column, "has the key " + finding.QuoteMax(key, 80) + " twice"}
			}
			value, fault := r.read(y.Content[i+1], depth+1)
			if fault != nil {
				return nil, fault
			}
			add(key, at.Line, at.Column, value)
			if u := r.runs[at.Line]; u != nil && u.at(y, i) {
				delete(r.runs, at.Line)
				n.fields = slices.Grow(n.fields, u.n+(len(y.Content)-i)/2)
				same := true
				u.entries(func(key string, line, col int, value *node) bool {
					same = !twice(key)
					return same && add(key, line, col, value)
				})
				if !same { // the whole text will say where
					return nil, r.fault(at, "has a key twice")
				}
			}
		}
	}
	return n, nil
}

// key reads the key of an entry.
func (r *yamlReader) key(y *yaml.Node, depth int) (text string, fault *yamlError) {
	var k kind
	if y.Kind == yaml.ScalarNode && y.Anchor == "" && depth <= maxYAMLDepth { // needs no node of its own
		tag, fault := r.tag(y)
		if fault != nil {
			return "", fault
		}
		if k, text, fault = r.scalar(y, tag); fault != nil {
			return "", fault
		}
	} else {
		n, fault := r.read(y, depth)
		if fault != nil {
			return "", fault
		}
		k, text = n.kind, n.text
	}
	if k != kindString {
		return "", r.fault(y, "has a key that is %v, keys are strings", k)
	}
	return text, nil
}

// height is the number of levels of a value.
func height(n *node) int {
	h := 0
	for _, c := range n.items {
		h = max(h, height(c))
	}
	for _, f := range n.fields {
		h = max(h, height(f.value))
	}
	return h + 1
}

// tag returns an explicit tag, "" if there is none; only the core ones pass.
func (r *yamlReader) tag(y *yaml.Node) (string, *yamlError) {
	if y.Style&yaml.TaggedStyle == 0 {
		return "", nil
	}
	switch tag := y.ShortTag(); tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!seq", "!!map":
		return tag, nil
	default:
		return "", r.fault(y, "has the tag %s, only the core tags are allowed", finding.QuoteMax(y.Tag, 60))
	}
}

func (r *yamlReader) scalar(y *yaml.Node, tag string) (kind, string, *yamlError) {
	plain := y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	k := kindString
	if plain || tag != "" && tag != "!!str" {
		k = resolve(y.Value)
	}
	fits := true
	switch tag {
	case "!!str":
		k = kindString
	case "!!int", "!!float":
		fits = k == kindNumber
	case "!!bool":
		fits = k == kindBool
	case "!!null":
		fits = k == kindNull
	case "!!seq", "!!map":
		fits = false
	}
	if !fits {
		return 0, "", r.fault(y, "has the tag %s on a value that is %v", finding.QuoteMax(tag, 40), k)
	}
	if k == kindBool {
		return k, strings.ToLower(y.Value), nil
	}
	return k, y.Value, nil
}

// resolve is the core schema on plain text (docs/spec/rigbundle.md#yaml).
func resolve(plain string) kind {
	switch yamlprofile.Resolve(plain) {
	case yamlprofile.Null:
		return kindNull
	case yamlprofile.Bool:
		return kindBool
	case yamlprofile.Number:
		return kindNumber
	}
	return kindString
}

// isInt reports whether a number has the value want: 2.0 is 2.
func (n *node) isInt(want int64) bool {
	v, ok := wholeNumber(n.text)
	return ok && v == want && n.kind == kindNumber
}
