package rig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// checker collects the faults of one document in the order of its tables.
type checker struct {
	kind   string // "manifest", "rig" or "agent": the prefix of the codes
	file   string // path of the document, for findings
	faults []*bundle.Finding
	notes  []bundle.Note
	kept   map[string]int // of notes, by code
	more   map[string]int // beyond bundle.MaxTold of a code
}

func (c *checker) fault(code, field string, at *node, format string, args ...any) {
	f := bundle.Faultf(code, c.file, format, args...)
	f.Field = field
	if at != nil {
		f.Line, f.Column = at.line, at.col
	}
	c.faults = append(c.faults, f)
}

func (c *checker) note(code, field, detail string) {
	c.tell(bundle.Note{Code: code, Path: c.file, Detail: strings.TrimPrefix(field+" ", " ") + detail})
}

// tell keeps a note, or counts it.
func (c *checker) tell(n bundle.Note) {
	if c.kept == nil {
		c.kept, c.more = map[string]int{}, map[string]int{}
	}
	if c.kept[n.Code] >= bundle.MaxTold {
		c.more[n.Code]++
		return
	}
	c.kept[n.Code]++
	c.notes = append(c.notes, n)
}

// noteAt notes a field of the document with its place.
func (c *checker) noteAt(code, field string, at *node, format string, args ...any) {
	n := bundle.Note{Code: code, Path: c.file, Field: field, Detail: field + " " + fmt.Sprintf(format, args...)}
	if at != nil {
		n.Line, n.Column = at.line, at.col
	}
	c.tell(n)
}

func (c *checker) missing(field string, in *node) {
	c.fault(c.kind+"-field-missing", field, in, "%s is missing", field)
}

func (c *checker) wrongType(field string, n *node, want string) {
	c.fault(c.kind+"-field-type", field, n, "%s is %v, expected %s", field, n.kind, want)
}

func (c *checker) wrongValue(field string, n *node, format string, args ...any) {
	c.fault(c.kind+"-field-value", field, n, "%s %s", field, fmt.Sprintf(format, args...))
}

// yaml reports a fault of the YAML profile with the code of the document.
func (c *checker) yaml(e *yamlError) {
	code := c.kind + "-yaml"
	if c.kind == "manifest" {
		switch e.what {
		case faultEncoding:
			code = ManifestEncoding
		case faultDuplicate:
			code = ManifestDuplicateKey
		}
	}
	f := bundle.Faultf(code, c.file, "%s %s", finding.QuoteMax(c.file, 200), e.msg)
	f.Line, f.Column = e.line, e.col
	c.faults = append(c.faults, f)
}

// document reads a document that is a map; nil if it is none.
func (c *checker) document(data []byte) *node {
	root, fault := parseYAML(data)
	if fault != nil {
		c.yaml(fault)
		return nil
	}
	if root.kind != kindMap {
		c.wrongType("document", root, "a map")
		return nil
	}
	return root
}

// child returns a field of a map, nil if it is absent; if it is required its
// absence is a fault.
func (c *checker) child(in *node, at, key string, required bool) (n *node, field string) {
	field = dot(at, key)
	n = in.get(key)
	if n == nil && required {
		c.missing(field, in)
	}
	return n, field
}

func dot(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// str checks a string field and returns its value; rule may judge it.
func (c *checker) str(in *node, at, key string, required bool, rule func(s string) string) (string, *node) {
	n, field := c.child(in, at, key, required)
	if n == nil {
		return "", nil
	}
	return c.strNode(n, field, rule), n
}

func (c *checker) strNode(n *node, field string, rule func(s string) string) string {
	if n.kind != kindString {
		c.wrongType(field, n, "a string")
		return ""
	}
	if rule != nil {
		if why := rule(n.text); why != "" {
			c.wrongValue(field, n, "%s %s", finding.QuoteMax(n.text, 100), why)
		}
	}
	return n.text
}

// boolean checks a boolean field and returns its value, def if it is absent.
func (c *checker) boolean(in *node, at, key string, required, def bool) bool {
	n, field := c.child(in, at, key, required)
	if n == nil {
		return def
	}
	if n.kind != kindBool {
		c.wrongType(field, n, "true or false")
		return def
	}
	return n.text == "true"
}

// strOrNumber checks a field that is a string or a number.
func (c *checker) strOrNumber(in *node, at, key string) {
	n, field := c.child(in, at, key, false)
	if n != nil && n.kind != kindString && n.kind != kindNumber {
		c.wrongType(field, n, "a string or a number")
	}
}

// mapping checks a map field; nil if it is absent or of another type.
func (c *checker) mapping(in *node, at, key string, required bool) (*node, string) {
	n, field := c.child(in, at, key, required)
	if n != nil && n.kind != kindMap {
		c.wrongType(field, n, "a map")
		return nil, field
	}
	return n, field
}

// each calls fn for each item of a list whose items are of one kind; nil if the
// list is absent or no list.
func (c *checker) each(in *node, at, key string, required bool, of kind, fn func(item *node, field string)) *node {
	n, field := c.child(in, at, key, required)
	if n == nil {
		return nil
	}
	if n.kind != kindList {
		c.wrongType(field, n, kindList.String())
		return nil
	}
	for i, item := range n.items {
		switch f := index(field, i); {
		case item.kind != of:
			c.wrongType(f, item, of.String())
		case fn != nil:
			fn(item, f)
		}
	}
	return n
}

// maps calls fn for each item of a list of maps.
func (c *checker) maps(in *node, at, key string, required bool, fn func(item *node, field string)) *node {
	return c.each(in, at, key, required, kindMap, fn)
}

// strings calls fn for each item of a list of strings.
func (c *checker) strings(in *node, at, key string, fn func(item *node, field string)) *node {
	return c.each(in, at, key, false, kindString, fn)
}

// unknown notes the keys of a map that no table names.
func (c *checker) unknown(in *node, at string, known ...string) {
	if in == nil {
		return
	}
	for _, f := range in.fields {
		if !slices.Contains(known, f.key) {
			c.note(NoteUnknownField, "", finding.QuoteMax(dot(at, f.key), 100)+" is not known to this version")
		}
	}
}

// Rules of strings: each returns why a value breaks it, "" if it does not.

func notEmpty(s string) string {
	if s == "" {
		return "is empty"
	}
	return ""
}

func cleanRule(s string) string {
	if !bundle.CleanPath(s) {
		return "is not a clean relative path"
	}
	return ""
}

// cleanRefRule allows one leading "./".
func cleanRefRule(s string) string {
	if _, ok := cleanRef(s); !ok {
		return "is not a clean relative path"
	}
	return ""
}

func safeRule(s string) string {
	if !safeComponent(s) {
		return "is not a safe name for a directory"
	}
	return ""
}

func charset(class func(c byte) bool, what string) func(string) string {
	return func(s string) string {
		for i := range len(s) {
			if !class(s[i]) {
				return "holds other characters than " + what
			}
		}
		return notEmpty(s)
	}
}

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func oneOf(words ...string) func(string) string {
	return func(s string) string {
		if slices.Contains(words, s) {
			return ""
		}
		return "is unknown, expected one of " + strings.Join(words, ", ")
	}
}

// emptyOr is a rule for a field whose empty value counts as none.
func emptyOr(rule func(string) string) func(string) string {
	return func(s string) string {
		if s == "" {
			return ""
		}
		return rule(s)
	}
}
