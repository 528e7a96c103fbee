// Package userschema judges envelopes by a JSON Schema 2020-12 of the user's
// own, besides that of the protocol.
//
// A schema that can't be used is an error of configuration, never a finding:
// see Compile. The schema engine takes milliseconds to start, so that only what
// needs it imports this package.
package userschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// MaxBytes is the size of the largest schema that Compile takes.
const MaxBytes = 1 << 20

// A Schema is compiled and may be used by several goroutines at once.
type Schema struct {
	compiled *jsonschema.Schema
}

// location is the base of a schema without $id. References that lead out of the
// document are refused, whatever their scheme.
const location = "urn:rigward:schema:user"

// Compile reads a schema. An error says which property and which pattern can't
// be used: patterns are RE2 (docs/spec/envelope.md#patterns), so that look-around
// and back references are refused; references lead nowhere but into the
// document itself.
func Compile(doc []byte) (*Schema, error) {
	if len(doc) > MaxBytes {
		return nil, fmt.Errorf("the schema has %d bytes, at most %d are allowed", len(doc), MaxBytes)
	}
	var tree any
	if err := json.Unmarshal(doc, &tree); err != nil {
		return nil, fmt.Errorf("the schema is not valid JSON: %s", finding.QuoteMax(err.Error(), 120))
	}
	if err := checkPatterns(tree, nil); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	var foreign string
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		if foreign == "" {
			foreign = url
		}
		return nil, errors.New("not loaded")
	}
	err := c.AddResource(location, bytes.NewReader(doc))
	var compiled *jsonschema.Schema
	if err == nil {
		compiled, err = c.Compile(location)
	}
	switch {
	case foreign != "":
		return nil, fmt.Errorf("the schema refers to %s, expected references into the document only", finding.QuoteMax(foreign, 120))
	case err != nil:
		return nil, compileError(err)
	}
	return &Schema{compiled}, nil
}

// compileError names the place in the schema that the engine refused.
func compileError(err error) error {
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		leaf := leaves(invalid, nil)[0]
		return fmt.Errorf("the schema is not a JSON Schema 2020-12 at %s: %s", finding.QuoteMax(leaf.InstanceLocation, 120), finding.QuoteMax(leaf.Message, 200))
	}
	return fmt.Errorf("the schema can't be used: %s", finding.QuoteMax(err.Error(), 200))
}

// checkPatterns compiles every pattern of a schema, in a fixed order.
func checkPatterns(node any, path []string) error {
	switch node := node.(type) {
	case []any:
		for i, item := range node {
			if err := checkPatterns(item, append(path, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case map[string]any:
		keys := make([]string, 0, len(node))
		for k := range node {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		named := len(path) > 0 && (path[len(path)-1] == "properties" || path[len(path)-1] == "$defs")
		for _, k := range keys {
			if !named && (k == "const" || k == "enum" || k == "default" || k == "examples") {
				continue // data, not schemas
			}
			if pattern, ok := node[k].(string); ok && k == "pattern" && !named {
				if err := checkPattern(pattern, path); err != nil {
					return err
				}
			}
			if patterns, ok := node[k].(map[string]any); ok && k == "patternProperties" && !named {
				for pattern := range patterns {
					if err := checkPattern(pattern, path); err != nil {
						return err
					}
				}
			}
			if err := checkPatterns(node[k], append(path, k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPattern names the innermost property that a pattern is about.
func checkPattern(pattern string, path []string) error {
	_, err := regexp.Compile(pattern)
	if err == nil {
		return nil
	}
	where := "the schema"
	for i := len(path) - 1; i > 0; i-- {
		if path[i-1] == "properties" {
			where = "the schema's property " + finding.QuoteMax(path[i], 60)
			break
		}
	}
	return fmt.Errorf("%s has the pattern %s at %s, which RE2 does not know (%s): write it without look-around, back references and ECMA escapes",
		where, finding.QuoteMax(pattern, 120), finding.QuoteMax("/"+strings.Join(path, "/"), 120), finding.QuoteMax(err.Error(), 120))
}

// Check returns what the schema refuses in an envelope's front matter, one
// finding a place, sorted, as rule envelope-schema at error.
func (s *Schema) Check(e *envelope.Envelope) []finding.Finding {
	value, ok := e.Frontmatter.Interface()
	var fs []finding.Finding
	if !ok { // the engine must not see NaN
		numbers(e.Frontmatter, func(n *yamlprofile.Node) {
			fs = append(fs, violation(e, n.Line, n.Col, "the number "+finding.Quote(n.Value)+" can't be judged by a JSON Schema"))
		})
		finding.Sort(fs)
		return fs
	}
	err := s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) { // as a schema that refers to itself without end
		return []finding.Finding{violation(e, e.Closing, 1, "the user's schema can't judge this front matter: "+finding.QuoteMax(err.Error(), 120))}
	}
	for _, leaf := range leaves(invalid, nil) {
		line, col, name := place(e, leaf.InstanceLocation)
		fs = append(fs, violation(e, line, col, fmt.Sprintf("%s violates the user's schema at %s: %s", name, finding.QuoteMax(leaf.KeywordLocation, 120), finding.QuoteMax(leaf.Message, 160))))
	}
	finding.Sort(fs)
	return slices.CompactFunc(fs, func(a, b finding.Finding) bool { return a.Line == b.Line && a.Col == b.Col })
}

func violation(e *envelope.Envelope, line, col int, message string) finding.Finding {
	return finding.Finding{Rule: envelope.RuleSchema, Severity: finding.Error, Path: e.Path, Line: line, Col: col, Message: message}
}

// leaves are the errors that have no cause of their own.
func leaves(e *jsonschema.ValidationError, to []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return append(to, e)
	}
	for _, c := range e.Causes {
		to = leaves(c, to)
	}
	return to
}

// place follows a JSON pointer into the front matter. What concerns the whole
// front matter stands at the closing fence.
func place(e *envelope.Envelope, pointer string) (line, col int, name string) {
	n := e.Frontmatter
	if pointer == "" {
		return e.Closing, 1, "the front matter"
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		next := n.Get(unescape.Replace(step))
		if i, err := strconv.Atoi(step); err == nil && n.Kind == yamlprofile.List && i >= 0 && i < len(n.Items) {
			next = n.Items[i]
		}
		if next == nil {
			break
		}
		n = next
	}
	return n.Line, n.Col, finding.QuoteMax(strings.TrimPrefix(pointer, "/"), 60)
}

// numbers visits the numbers that JSON can't hold.
func numbers(n *yamlprofile.Node, visit func(*yamlprofile.Node)) {
	if n.Kind == yamlprofile.Number {
		if _, ok := n.Interface(); !ok {
			visit(n)
		}
	}
	for _, item := range n.Items {
		numbers(item, visit)
	}
	for _, f := range n.Fields {
		numbers(f.Value, visit)
	}
}
