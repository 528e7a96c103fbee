package rye

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"gopkg.in/yaml.v3"
)

// parseYAML reads a body by docs/spec/ryebundle.md#manifest: one document,
// mappings with unique scalar keys, no anchors, aliases, tags, directives and
// merge keys. All faults of the document are returned, with lines counted in
// the file, whose first line is the signature line. deep tells that collections
// are nested deeper than MaxNesting.
func parseYAML(body []byte) (root *yaml.Node, deep bool, faults []*bundle.Finding) {
	more := 0
	defer func() {
		if more > 0 {
			faults[len(faults)-1].Message += fmt.Sprintf("; and %d more places", more)
		}
	}()
	fault := func(code string, line int, format string, args ...any) {
		if len(faults) == bundle.MaxTold {
			more++
			return
		}
		f := bundle.Faultf(code, "", format, args...)
		f.Line = line + 1
		faults = append(faults, f)
	}
	var doc, next yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&doc); err != nil {
		if err == io.EOF {
			fault(YAMLInvalid, 1, "the manifest holds no YAML document")
		} else {
			fault(YAMLInvalid, 0, "the manifest is not valid YAML: %s", finding.QuoteMax(strings.TrimPrefix(err.Error(), "yaml: "), 200))
			faults[0].Line = 0
		}
		return nil, false, faults
	}
	if line := directiveLine(body); line > 0 {
		fault(YAMLInvalid, line, "a YAML directive has no place in a manifest")
	}
	if err := dec.Decode(&next); err != io.EOF {
		fault(YAMLInvalid, next.Line, "the manifest holds more than one YAML document")
	}
	w := yamlWalk{fault: fault}
	if bytes.IndexByte(body, '!') >= 0 {
		w.lines = bytes.Split(body, []byte("\n"))
	}
	for _, n := range doc.Content {
		w.node(n, 0)
	}
	if len(doc.Content) == 1 {
		root = doc.Content[0]
	}
	return root, w.deep, faults
}

// directiveLine returns the line of a %DIRECTIVE before the document, 0 if
// there is none: the library takes %TAG and %YAML 1.1 without a word.
func directiveLine(body []byte) int {
	i := 0
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		i++
		t := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		switch {
		case len(t) == 0 || t[0] == '#':
		case t[0] == '%':
			return i
		default:
			return 0
		}
	}
	return 0
}

type yamlWalk struct {
	lines [][]byte // of the body; nil if no tag can be in it
	deep  bool
	fault func(code string, line int, format string, args ...any)
}

func (w *yamlWalk) node(n *yaml.Node, depth int) {
	if n.Anchor != "" {
		w.fault(YAMLAlias, n.Line, "the anchor %s has no place in a manifest", finding.QuoteMax("&"+n.Anchor, 60))
	}
	if n.Style&yaml.TaggedStyle != 0 || w.tagAt(n) {
		w.fault(YAMLInvalid, n.Line, "a tag has no place in a manifest")
	}
	switch n.Kind {
	case yaml.AliasNode:
		w.fault(YAMLAlias, n.Line, "the alias %s has no place in a manifest", finding.QuoteMax("*"+n.Value, 60))
		return
	case yaml.ScalarNode:
		return
	}
	if depth++; depth > MaxNesting {
		w.deep = true
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			w.node(item, depth)
		}
		return
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode && k.Kind != yaml.AliasNode:
			w.fault(YAMLInvalid, k.Line, "a key must be a scalar")
		case k.Tag == "!!merge" && k.Style == 0:
			w.fault(YAMLInvalid, k.Line, "a merge key has no place in a manifest")
		case k.Kind == yaml.ScalarNode && seen[k.Value]:
			w.fault(YAMLDuplicateKey, k.Line, "the key %s stands there twice", finding.QuoteMax(k.Value, 120))
		}
		if k.Kind == yaml.ScalarNode {
			seen[k.Value] = true
		}
		w.node(k, depth)
		w.node(v, depth)
	}
}

// tagAt reports whether a node begins with "!": the library drops the
// non-specific tag.
func (w *yamlWalk) tagAt(n *yaml.Node) bool {
	if n.Line < 1 || n.Line > len(w.lines) {
		return false
	}
	line := w.lines[n.Line-1]
	for col := 1; col < n.Column && len(line) > 0; col++ {
		size := 1
		for size < len(line) && line[size]&0xc0 == 0x80 {
			size++
		}
		line = line[size:]
	}
	return len(line) > 0 && line[0] == '!'
}

// child returns the value of a key, nil if n is no mapping or has no such key.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
