package envelope

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// maxViolations of the schema are told per file, then one finding counts the
// rest (docs/spec/envelope.md#schema).
const maxViolations = 20

// A property is one row of the schema's table (docs/spec/envelope.md#schema), in
// the order of the schema.
type property struct {
	name     string
	required bool
	judge    func(c *checker, n *yamlprofile.Node) bool
}

var properties = [...]property{
	{"from", true, func(c *checker, n *yamlprofile.Node) bool { return c.rigID(n, "from", "from", "a rig id", &c.e.From) }},
	{"to", true, (*checker).to},
	{"date", true, func(c *checker, n *yamlprofile.Node) bool { return c.date(n, "date", &c.e.Date) }},
	{"status", true, (*checker).status},
	{"type", true, (*checker).messageType},
	{"thread", true, (*checker).threadID},
	{"display_name", false, func(c *checker, n *yamlprofile.Node) bool {
		return c.length(n, "display_name", 80, &c.e.DisplayName)
	}},
	{"tldr", false, (*checker).tldr},
	{"references", false, (*checker).references},
	{"body_hash", false, func(c *checker, n *yamlprofile.Node) bool { return c.hash(n, "body_hash", &c.e.BodyHash) }},
	{"in_reply_to", false, func(c *checker, n *yamlprofile.Node) bool { return c.hash(n, "in_reply_to", &c.e.InReplyTo) }},
	{"attested_by", false, func(c *checker, n *yamlprofile.Node) bool {
		return c.length(n, "attested_by", 256, &c.e.AttestedBy)
	}},
	{"attested_at", false, func(c *checker, n *yamlprofile.Node) bool {
		return c.date(n, "attested_at", &c.e.AttestedAt)
	}},
	{"nonce", false, func(c *checker, n *yamlprofile.Node) bool { return c.length(n, "nonce", 64, &c.e.Nonce) }},
}

func propertyIndex(key string) int {
	for i := range properties {
		if properties[i].name == key {
			return i
		}
	}
	return -1
}

// checker judges one envelope and fills in its fields.
type checker struct {
	e          *Envelope
	text       string // the front matter
	findings   []finding.Finding
	violations int // of the schema
	ambiguous  int // values with two readings
}

func (c *checker) add(rule string, s finding.Severity, line, col int, message, hint string) {
	c.findings = append(c.findings, finding.Finding{Rule: rule, Severity: s, Path: c.e.Path, Line: line, Col: col, Message: message, Hint: hint})
}

// violation tells one violation of the schema and returns false. tell gives
// message and hint; it is not asked beyond maxViolations, nor must it be: a
// front matter may hold thousands.
func (c *checker) violation(line, col int, tell func() (message, hint string)) bool {
	if c.violations++; c.violations <= maxViolations {
		message, hint := tell()
		c.add(RuleSchema, finding.Error, line, col, message, hint)
	} else if c.violations == maxViolations+1 {
		c.add(RuleSchema, finding.Error, line, col, "", "") // counted by schema
	}
	return false
}

// schema judges the front matter: keys in the order of the file, then the
// missing ones.
func (c *checker) schema() {
	e := c.e
	var present uint32
	begin := len(c.findings)
	for i := range e.Frontmatter.Fields {
		f := &e.Frontmatter.Fields[i]
		p := propertyIndex(f.Key.Value)
		if p < 0 {
			c.violation(f.Key.Line, f.Key.Col, func() (string, string) { return unknownKey(f.Key.Value) })
			continue
		}
		present |= 1 << p
		if properties[p].judge(c, f.Value) {
			e.conforming |= 1 << p
			c.oneReading(f.Value, f.Key.Value, f.Key.Value)
			for _, item := range f.Value.Items {
				c.oneReading(item, "an item of "+f.Key.Value, f.Key.Value)
			}
		}
	}
	var missing []string
	for i, p := range properties {
		if p.required && present&(1<<i) == 0 {
			missing = append(missing, p.name)
		}
	}
	if missing != nil {
		c.violation(e.Closing, 1, func() (string, string) {
			hint := ""
			if dirs := strings.Split(e.Path, "/"); len(dirs) > 1 && slices.Contains(missing, "thread") && ValidThreadID(dirs[len(dirs)-2]) {
				hint = "add the line thread: " + dirs[len(dirs)-2]
			}
			if len(missing) == 1 {
				return "the required key " + missing[0] + " is missing", hint
			}
			return "required keys are missing: " + strings.Join(missing, ", "), hint
		})
	}
	e.valid = c.violations == 0
	if more := c.violations - maxViolations; more > 0 {
		for i := range c.findings[begin:] {
			if f := &c.findings[begin+i]; f.Rule == RuleSchema && f.Message == "" {
				f.Message = fmt.Sprintf("the schema is violated %d more time(s) from here on", more)
			}
		}
	}
}

func unknownKey(key string) (message, hint string) {
	message = "the key " + finding.QuoteMax(key, 60) + " is not known to the schema"
	names := make([]string, len(properties))
	for i, p := range properties {
		names[i] = p.name
	}
	if near := nearest(key, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	return message, hint
}

// str stores a string, or tells that the value is none. name says in the
// message what has the value, key is the front matter's key.
// fits reports whether the text in quotes would satisfy the schema; nil says that
// no number does. A number is told to be quoted wherever one may stand for text.
func (c *checker) str(n *yamlprofile.Node, name, key, expected string, fits func(string) bool, to *string) bool {
	if n.Kind == yamlprofile.String {
		*to = n.Value
		return true
	}
	return c.violation(n.Line, n.Col, func() (string, string) {
		hint := ""
		if fits != nil && (n.Kind == yamlprofile.Number || n.Kind < yamlprofile.Number && n.Value != "" && fits(n.Value)) {
			hint = c.lineWith(n, key, `"`+n.Value+`"`)
		}
		return fmt.Sprintf("%s is %s, expected %s", name, describe(n), expected), hint
	})
}

// oneReading tells of a plain scalar that is a string by YAML 1.2 and something
// else by YAML 1.1, which many readers still follow. The schema is satisfied
// all the same. Dates may stand so: as text and as a date they are one instant;
// but gray-matter reads years before 100 as of another century.
func (c *checker) oneReading(n *yamlprofile.Node, name, key string) {
	if !n.Plain {
		return
	}
	kind := yamlprofile.InYAML11(n.Value)
	if kind == "" || isDateKey(key) && kind == "a date" && n.Value >= "0100" {
		return
	}
	if c.ambiguous++; c.ambiguous <= maxViolations {
		c.add(RuleSchema, finding.Error, n.Line, n.Col, fmt.Sprintf("%s is %s without quotes, which readers of YAML 1.1 take for %s", name, finding.QuoteMax(n.Value, 70), kind),
			c.lineWith(n, key, scalar(n.Value)))
	}
}

// isDateKey reports whether the value of a key is a date.
func isDateKey(key string) bool { return key == "date" || key == "attested_at" }

func always(string) bool { return true }
func never(string) bool  { return false }

// describe says what a value that is not a string is.
func describe(n *yamlprofile.Node) string {
	switch n.Kind {
	case yamlprofile.Null, yamlprofile.Number, yamlprofile.Bool:
		if n.Value == "" {
			return "empty (null)"
		}
		return n.Kind.String() + " (" + finding.QuoteMax(n.Value, 70) + ")"
	}
	return n.Kind.String()
}

// lineWith returns the line of a scalar with another value in its place, or
// the key with that value if the line can't be shown as it is.
func (c *checker) lineWith(n *yamlprofile.Node, key, value string) string {
	if n.Source != "" {
		lines := strings.Split(c.text, "\n")
		line := lines[n.Line-2] // the text begins at line 2
		at := 0
		for range n.Col - 1 {
			_, size := utf8.DecodeRuneInString(line[at:])
			at += size
		}
		if rest, ok := strings.CutPrefix(line[at:], n.Source); ok {
			whole := strings.TrimRight(line[:at]+value+rest, " \t")
			if showable(whole) {
				return whole
			}
		}
	}
	if line := key + ": " + value; showable(line) {
		return line
	}
	return ""
}

// showable reports whether text can stand in a message as it is: it is short,
// and Quote would escape nothing but quotes and backslashes.
func showable(s string) bool {
	return len(s) <= 200 && len(finding.Quote(s)) == len(s)+2+strings.Count(s, `"`)+strings.Count(s, `\`)
}

// rigID judges a rig id, the value of a key or an item of it.
func (c *checker) rigID(n *yamlprofile.Node, name, key, expected string, to *string) bool {
	if !c.str(n, name, key, expected, ValidRigID, to) {
		return false
	}
	if ValidRigID(n.Value) {
		return true
	}
	return c.violation(n.Line, n.Col, func() (string, string) {
		if id, err := NormalizeRigID(n.Value); err == nil {
			return name + ": " + rigIDProblem(n.Value) + "; normalised it is " + finding.QuoteMax(id, 60), c.lineWith(n, key, scalar(id))
		}
		return name + ": " + rigIDProblem(n.Value), ""
	})
}

func (c *checker) to(n *yamlprofile.Node) bool {
	const expected = "a rig id or a list of rig ids"
	if n.Kind != yamlprofile.List {
		var id string
		ok := c.rigID(n, "to", "to", expected, &id)
		if id != "" {
			c.e.To = []string{id}
		}
		return ok
	}
	c.e.ToList = true
	if len(n.Items) == 0 {
		return c.violation(n.Line, n.Col, func() (string, string) { return "to is an empty list, expected at least one rig id", "" })
	}
	all := true
	for _, item := range n.Items {
		var id string
		if !c.rigID(item, "an item of to", "to", "a rig id", &id) {
			all = false
		}
		if id != "" {
			c.e.To = append(c.e.To, id)
		}
	}
	return all
}

func (c *checker) date(n *yamlprofile.Node, key string, to *string) bool {
	form := "YYYY-MM-DD, or that with Thh:mm:ss and Z or ±hh:mm"
	timed := key == "attested_at"
	if timed {
		form = "YYYY-MM-DDThh:mm:ss with Z or ±hh:mm"
	}
	if !c.str(n, key, key, "a date of the form "+form, nil, to) {
		return false
	}
	d, ok := scanDate(n.Value)
	if !ok || timed && d.dayOnly {
		return c.violation(n.Line, n.Col, func() (string, string) {
			return fmt.Sprintf("%s is %s, expected %s", key, finding.QuoteMax(n.Value, 60), form), ""
		})
	}
	if problem := d.problem(); problem != "" {
		c.add(RuleDate, finding.Error, n.Line, n.Col, key+" is not a real date: "+problem, "")
	}
	return true
}

const statusForm = "▶, ⏸, 🎯, ✅ or ❌, a blank, and text on one line"

func (c *checker) status(n *yamlprofile.Node) bool {
	if !c.str(n, "status", "status", statusForm, nil, &c.e.Status) {
		return false
	}
	if validStatus(n.Value) {
		return true
	}
	return c.violation(n.Line, n.Col, func() (string, string) {
		problem, repaired := statusProblem(n.Value)
		hint := ""
		if repaired != "" {
			hint = c.lineWith(n, "status", scalar(repaired))
		}
		return fmt.Sprintf("status is %s: %s, expected %s", finding.QuoteMax(n.Value, 60), problem, statusForm), hint
	})
}

// lookalikes are taken for a marker, and the marker that is meant.
var lookalikes = map[rune]rune{0x25BA: 0x25B6, '>': 0x25B6, 0x2714: 0x2705, 0x2716: 0x274C}

// statusProblem says why a status is refused, and what was meant if that is
// clear.
func statusProblem(s string) (problem, repaired string) {
	if trimmed := strings.TrimLeftFunc(s, isSpace); trimmed != s && StatusClass(trimmed) != "" {
		problem, repaired = "white space stands before the marker", trimmed
		if !validStatus(trimmed) {
			_, repaired = statusProblem(trimmed)
		}
		return problem, repaired
	}
	marker, size := utf8.DecodeRuneInString(s)
	rest := s[size:]
	if meant, ok := lookalikes[marker]; ok {
		repaired = string(meant) + strings.TrimPrefix(rest, "\uFE0F")
		if !validStatus(repaired) {
			_, repaired = statusProblem(repaired)
		}
		return fmt.Sprintf("it begins with %s, did you mean %s", codePoint(marker), codePoint(meant)), repaired
	}
	if markerClass(marker) == "" {
		if size == 0 {
			return "it is empty", ""
		}
		return fmt.Sprintf("it begins with %s, which is not a marker", codePoint(marker)), ""
	}
	next, size := utf8.DecodeRuneInString(rest)
	switch {
	case next == 0xFE0F:
		return fmt.Sprintf("the marker is followed by U+FE0F, use U+%04X alone", marker), string(marker) + rest[size:]
	case size == 0:
		return "nothing follows the marker", ""
	case !isSpace(next):
		if codePoint(next) == fmt.Sprintf("U+%04X", next) { // not visible
			rest = strings.TrimLeft(rest[size:], " ")
		}
		if repaired = string(marker) + " " + rest; !validStatus(repaired) {
			repaired = ""
		}
		return fmt.Sprintf("the marker is followed by %s, not by a blank", codePoint(next)), repaired
	case len(rest) == size:
		return "no text follows the marker", ""
	}
	return "it has a line end", ""
}

// types are the values of type, in the order of the schema.
var types = [...]string{"REQUEST", "HANDOFF", "RESPONSE", "ACK", "RESOLUTION", "STATE", "RESULT", "RECOVERY", "VERIFY", "DECISIONS"}

// Types returns the values that type may have, in the order of the schema.
func Types() []string { return append([]string(nil), types[:]...) }

func (c *checker) messageType(n *yamlprofile.Node) bool {
	if !c.str(n, "type", "type", "one of "+strings.Join(types[:], ", "), nil, &c.e.Type) {
		return false
	}
	for _, t := range types {
		if t == n.Value {
			return true
		}
	}
	return c.violation(n.Line, n.Col, func() (string, string) {
		hint := ""
		if near := nearest(strings.ToUpper(n.Value), types[:]); near != "" {
			hint = c.lineWith(n, "type", near)
		}
		return fmt.Sprintf("type is %s, expected one of %s", finding.QuoteMax(n.Value, 60), strings.Join(types[:], ", ")), hint
	})
}

func (c *checker) threadID(n *yamlprofile.Node) bool {
	const expected = "a thread id of two or more characters a-z, 0-9 and hyphens"
	if !c.str(n, "thread", "thread", expected, ValidThreadID, &c.e.Thread) {
		return false
	}
	if ValidThreadID(n.Value) {
		return true
	}
	return c.violation(n.Line, n.Col, func() (string, string) {
		return fmt.Sprintf("thread is %s: %s, expected %s", finding.QuoteMax(n.Value, 60), threadProblem(n.Value), expected), ""
	})
}

func threadProblem(id string) string {
	for _, r := range id[idEnd(id):] {
		return "it contains " + codePoint(r)
	}
	switch {
	case len(id) < 2:
		return fmt.Sprintf("it has %d character(s)", len(id))
	case id[0] == '-':
		return "it begins with a hyphen"
	}
	return "it ends with a hyphen"
}

// length judges a string of 1 to most code points.
func (c *checker) length(n *yamlprofile.Node, key string, most int, to *string) bool {
	if !c.str(n, key, key, "a string", always, to) {
		return false
	}
	if n.Value == "" {
		return c.violation(n.Line, n.Col, func() (string, string) {
			return key + " is an empty string, expected at least one character", "remove the key, or give it a value"
		})
	}
	if len(n.Value) <= most || most == 0 {
		return true
	}
	if count := utf8.RuneCountInString(n.Value); count > most {
		return c.violation(n.Line, n.Col, func() (string, string) {
			return fmt.Sprintf("%s has %d characters, at most %d are allowed", key, count, most), ""
		})
	}
	return true
}

func (c *checker) tldr(n *yamlprofile.Node) bool {
	if !c.length(n, "tldr", 0, &c.e.TLDR) {
		return false
	}
	if len(n.Value) > maxTLDR {
		if count := utf8.RuneCountInString(n.Value); count > maxTLDR {
			c.add(RuleTLDR, finding.Warning, n.Line, n.Col, fmt.Sprintf("tldr has %d characters, at most %d are shown everywhere", count, maxTLDR), "")
		}
	}
	return true
}

func (c *checker) references(n *yamlprofile.Node) bool {
	const expected = "a commit id of 7 to 40 lower-case hexadecimal digits"
	if n.Kind != yamlprofile.List {
		return c.violation(n.Line, n.Col, func() (string, string) {
			hint := ""
			if n.Kind == yamlprofile.String && isHex(n.Value, 7, 40) {
				hint = c.lineWith(n, "references", "["+scalar(n.Value)+"]")
			}
			return "references is " + describe(n) + ", expected a list of commit ids", hint
		})
	}
	all := true
	seen := make(map[string]bool, len(n.Items))
	for _, item := range n.Items {
		var id string
		if !c.str(item, "an item of references", "references", expected, never, &id) {
			all = false
			continue
		}
		c.e.References = append(c.e.References, id)
		switch {
		case !isHex(id, 7, 40):
			all = c.violation(item.Line, item.Col, func() (string, string) {
				hint := ""
				if lower := strings.ToLower(id); isHex(lower, 7, 40) {
					hint = c.lineWith(item, "references", scalar(lower))
				}
				return fmt.Sprintf("an item of references is %s, expected %s", finding.QuoteMax(id, 60), expected), hint
			})
		case seen[id]:
			all = c.violation(item.Line, item.Col, func() (string, string) {
				return "references names " + id + " a second time, expected each commit once", "remove the second one"
			})
		}
		seen[id] = true
	}
	return all
}

func (c *checker) hash(n *yamlprofile.Node, key string, to *string) bool {
	const expected = "64 lower-case hexadecimal digits"
	if !c.str(n, key, key, "a string of "+expected, never, to) {
		return false
	}
	if isHex(n.Value, 64, 64) {
		return true
	}
	return c.violation(n.Line, n.Col, func() (string, string) {
		hint := ""
		if lower := strings.ToLower(n.Value); isHex(lower, 64, 64) {
			hint = c.lineWith(n, key, scalar(lower))
		}
		return fmt.Sprintf("%s is %s (%d characters), expected %s", key, finding.QuoteMax(n.Value, 70), utf8.RuneCountInString(n.Value), expected), hint
	})
}

// isHex reports least to most lower-case hexadecimal digits.
func isHex(s string, least, most int) bool {
	if len(s) < least || len(s) > most {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// nearest returns the word that s most likely stands for, "" if none is near:
// without regard to case, at most a third of the word and half of s differ.
func nearest(s string, words []string) string {
	best, least := "", 0
	if len(s) > 32 {
		return ""
	}
	for _, w := range words {
		d := distance(strings.ToLower(s), strings.ToLower(w))
		if d <= max(1, len(w)/3) && 2*d <= min(len(s), len(w)) && (best == "" || d < least) {
			best, least = w, d
		}
	}
	return best
}

// distance counts the bytes to insert, delete, replace or swap with their
// neighbour that make b of a.
func distance(a, b string) int {
	var before, above []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(above[j], row[j-1]) + 1
			if a[i-1] == b[j-1] {
				row[j] = min(row[j], above[j-1])
			} else {
				row[j] = min(row[j], above[j-1]+1)
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
