package rye

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Python is only read here, never run. What is read is the little that bundles
// write down as literals: texts, lists of texts, maps of texts. Anything else
// is unknown, and whoever asks says so.

// A pyToken is one token of Python source: a text literal, a name or number, or
// one character.
type pyToken struct {
	kind byte // 's' text, 'n' name or number, 0 any other character, 'x' what can't be read
	text string
	line int
	col  int // 0 for the first token of a line outside of brackets
}

// maxPython bounds the source that is looked through.
const maxPython = 1 << 20

// pyTokens splits source into tokens, comments left out. Texts that a program
// would change (f"", b"") are 'x'.
func pyTokens(src string) (out []pyToken) {
	line, start := 1, 0
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == '\n':
			line++
			i++
			start = i
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\\' && i+1 < len(src) && src[i+1] == '\n':
			i++
		case c == '#':
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case c == '"' || c == '\'':
			text, n, ok := pyText(src[i:], false)
			t := pyToken{'s', text, line, i - start}
			if !ok {
				t.kind = 'x'
			}
			out = append(out, t)
			line += strings.Count(src[i:i+n], "\n")
			i += n
		case isPyName(c):
			j := i
			for j < len(src) && (isPyName(src[j]) || src[j] >= '0' && src[j] <= '9') {
				j++
			}
			word := src[i:j]
			if j < len(src) && (src[j] == '"' || src[j] == '\'') && len(word) <= 2 {
				raw := strings.EqualFold(word, "r")
				text, n, ok := pyText(src[j:], raw)
				t := pyToken{'x', text, line, i - start}
				if ok && (raw || strings.EqualFold(word, "u")) {
					t.kind = 's'
				}
				out = append(out, t)
				line += strings.Count(src[j:j+n], "\n")
				i = j + n
				continue
			}
			out = append(out, pyToken{'n', word, line, i - start})
			i = j
		default:
			out = append(out, pyToken{0, string(c), line, i - start})
			i++
		}
	}
	return out
}

func isPyName(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80 || c >= '0' && c <= '9'
}

// pyText reads a text literal: its value and its length in source. Not ok for
// one without an end and for escapes that are not of the plain ones.
func pyText(src string, raw bool) (value string, n int, ok bool) {
	quote := src[:1]
	if strings.HasPrefix(src, strings.Repeat(quote, 3)) {
		quote = src[:3]
	}
	var b strings.Builder
	ok = true
	for i := len(quote); i < len(src); {
		switch {
		case strings.HasPrefix(src[i:], quote):
			return b.String(), i + len(quote), ok
		case src[i] == '\n' && len(quote) == 1:
			return "", i, false
		case src[i] == '\\' && i+1 < len(src) && raw:
			b.WriteString(src[i : i+2])
			i += 2
		case src[i] == '\\' && i+1 < len(src):
			if at := strings.IndexByte(`\'"n`, src[i+1]); at >= 0 {
				b.WriteByte("\\'\"\n"[at])
			} else {
				ok = false
			}
			i += 2
		default:
			b.WriteByte(src[i])
			i++
		}
	}
	return "", len(src), false
}

// pyTexts reads a list or tuple of texts that begins at token i. Not ok for
// anything else in it.
func pyTexts(toks []pyToken, i int) (list []string, next int, ok bool) {
	if i >= len(toks) || toks[i].kind != 0 || toks[i].text != "[" && toks[i].text != "(" {
		return nil, i, false
	}
	end := map[string]string{"[": "]", "(": ")"}[toks[i].text]
	list = []string{}
	for i++; i < len(toks); i++ {
		t := toks[i]
		if t.kind == 0 && t.text == end {
			return list, i + 1, true
		}
		if t.kind != 's' {
			return nil, i, false
		}
		list = append(list, t.text)
		if i+1 < len(toks) && toks[i+1].kind == 0 && toks[i+1].text == "," {
			i++
		} else if i+1 >= len(toks) || toks[i+1].text != end {
			return nil, i, false
		}
	}
	return nil, i, false
}

// Dependencies are the packages that a tool asks to be installed before it
// runs, in a list DEPENDENCIES at the top level of its source.
type Dependencies struct {
	Path string   `json:"path"`
	List []string `json:"dependencies"`
	Line int      `json:"line"`
	Open bool     `json:"open,omitempty"` // the list is computed: what is in it can't be read
}

// toolDependencies reads the list of one tool; nil if it has none. A list that
// is assigned more than once, or changed, is open.
func toolDependencies(p string, data []byte) *Dependencies {
	if TypeOf(p) != Tool || strings.ToLower(extension(p)) != ".py" || len(data) > maxPython || !strings.Contains(string(data), "DEPENDENCIES") {
		return nil
	}
	toks := pyTokens(string(data))
	equals := make([]int, len(toks)) // the next "=" of the line, 0 for none
	for i := len(toks) - 2; i >= 0; i-- {
		if next := toks[i+1]; next.line != toks[i].line {
			continue
		} else if next.kind == 0 && next.text == "=" {
			equals[i] = i + 1
		} else {
			equals[i] = equals[i+1]
		}
	}
	var out *Dependencies
	for i, t := range toks {
		if t.kind != 'n' || t.text != "DEPENDENCIES" {
			continue
		}
		at := equals[i] // behind an annotation, if there is one
		switch {
		case out != nil:
			changed := i+1 < len(toks) && toks[i+1].kind == 0 && strings.Contains(".+[", toks[i+1].text)
			out.Open = out.Open || at > 0 || changed
			continue
		case at == 0:
			continue
		}
		out = &Dependencies{Path: p, List: []string{}, Line: t.line}
		list, next, ok := pyTexts(toks, at+1)
		if out.Open = !ok || t.col != 0; !out.Open {
			out.List = list
			out.Open = next < len(toks) && toks[next].line == toks[next-1].line
		}
	}
	return out
}

// text is a list of dependencies as one text, for comparisons.
func (d *Dependencies) text() string {
	switch {
	case d == nil:
		return ""
	case d.Open:
		return "computed, see the source"
	}
	sorted := slices.Clone(d.List)
	slices.Sort(sorted)
	return strings.Join(sorted, ", ")
}

// An EntryPoint is a bundle that an installed Python package announces in its
// entry_points.txt, group rye.bundles.
type EntryPoint struct {
	Package string // folder, as "ryeos_core-0.1.0.dist-info"
	Name    string
	Root    Root // with Path below the site folder
}

// entryGroup is the group of entry points that name bundles.
const entryGroup = "rye.bundles"

const (
	maxSite  = 100_000 // entries of a site folder
	maxEntry = 1 << 16 // bytes of an entry_points.txt
)

// EntryPoints finds the bundles that the packages of a site folder announce, in
// the order of their names. Nothing is run: an entry point whose function says
// more than texts, lists of texts and Path(__file__).parent is a finding.
func EntryPoints(site bundle.Source) (found []EntryPoint, faults []*bundle.Finding, err error) {
	items, err := site.ReadDir(".")
	if err != nil {
		return nil, nil, err
	}
	for i, it := range items {
		if i >= maxSite {
			faults = append(faults, bundle.Faultf(LimitExceeded, "", "the site folder has more than %d entries", maxSite))
			break
		}
		if it.Kind != bundle.KindDir || !strings.HasSuffix(it.Name, ".dist-info") {
			continue
		}
		name := it.Name + "/entry_points.txt"
		data, fault, err := readSmall(site, name, maxEntry)
		if err != nil {
			return nil, nil, err
		}
		if fault != nil {
			faults = append(faults, fault)
		}
		for _, e := range parseEntryPoints(string(data)) {
			root, fault, err := readEntryPoint(site, it.Name, e[0], e[1])
			if err != nil {
				return nil, nil, err
			}
			if fault != nil {
				fault.Path = name
				faults = append(faults, fault)
				continue
			}
			found = append(found, EntryPoint{it.Name, e[0], root})
		}
	}
	slices.SortStableFunc(found, func(a, b EntryPoint) int { return strings.Compare(a.Name, b.Name) })
	return found, faults, nil
}

// readSmall reads a regular file that no link leads to; nil if it is not there.
func readSmall(t bundle.Source, name string, limit int64) ([]byte, *bundle.Finding, error) {
	data, code, err := load(t, name, limit, nil)
	switch code {
	case "":
		return data, nil, err
	case FileMissing:
		return nil, nil, nil
	case LimitExceeded:
		return nil, bundle.Faultf(code, name, "%s has more than %d bytes", finding.Path(name), limit), nil
	}
	return nil, bundle.Faultf(code, name, "%s is not a regular file that is reached without links", finding.Path(name)), nil
}

// parseEntryPoints returns name and value of each entry of the group.
func parseEntryPoints(text string) (out [][2]string) {
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			in = line == "["+entryGroup+"]"
		case in:
			if name, value, ok := strings.Cut(line, "="); ok {
				out = append(out, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
			}
		}
	}
	return out
}

var entryValue = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*):([A-Za-z_][A-Za-z0-9_]*)$`)
})

// readEntryPoint reads what the function of an entry point returns.
func readEntryPoint(site bundle.Source, dist, name, value string) (r Root, fault *bundle.Finding, err error) {
	wrong := func(format string, args ...any) (Root, *bundle.Finding, error) {
		f := bundle.Faultf(EntryPointUnread, "", "the entry point %s "+format, append([]any{finding.QuoteMax(name, 100)}, args...)...)
		f.Hint = "name the bundle's folder with --root DIR"
		return Root{}, f, nil
	}
	m := entryValue().FindStringSubmatch(value)
	if m == nil {
		return wrong("is %s, expected MODULE:FUNCTION", finding.QuoteMax(value, 200))
	}
	base := strings.ReplaceAll(m[1], ".", "/")
	var data []byte
	file := ""
	for _, file = range []string{base + ".py", base + "/__init__.py"} {
		if data, fault, err = readSmall(site, file, maxPython); err != nil || fault != nil || data != nil {
			break
		}
	}
	switch {
	case err != nil:
		return r, nil, err
	case fault != nil:
		return wrong("leads to %s: %s", finding.Path(file), fault.Message)
	case data == nil:
		return wrong("leads to the module %s, which is not there", finding.QuoteMax(m[1], 200))
	}
	fields, why := pyReturns(pyTokens(string(data)), m[2], path.Dir(file))
	if why != "" {
		return wrong("can't be read without running it: %s %s", finding.Path(file), why)
	}
	r = Root{ID: fields["bundle_id"].text, Path: fields["root_path"].text, Version: fields["version"].text, Categories: fields["categories"].list,
		Manifest: fields["manifest_path"].text}
	if fields["version"].own {
		version, ok, err := distVersion(site, dist, fields["version"].text)
		if err != nil {
			return r, nil, err
		}
		if r.Version = version; !ok {
			return wrong("takes its version from the package %s, which is not %s", finding.QuoteMax(fields["version"].text, 100), finding.QuoteMax(dist, 200))
		}
	}
	switch {
	case !ValidID(r.ID):
		return wrong("says the bundle id %s, which %s", finding.QuoteMax(r.ID, 100), idGrammar)
	case !fields["root_path"].file:
		return wrong("says no root_path that starts at Path(__file__).parent")
	}
	return r, nil, nil
}

// distVersion is the version of a package by its METADATA, which must be that
// of the folder dist.
func distVersion(site bundle.Source, dist, name string) (version string, ok bool, err error) {
	data, fault, err := readSmall(site, dist+"/METADATA", maxPython)
	if err != nil || fault != nil {
		return "", false, err
	}
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(s))
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break // the description
		}
		if v, is := strings.CutPrefix(line, "Name: "); is {
			ok = plain(v) == plain(name)
		} else if v, is := strings.CutPrefix(line, "Version: "); is {
			version = v
		}
	}
	return version, ok && version != "", nil
}

// pyValue is one value of the map that a function returns.
type pyValue struct {
	text string
	list []string
	own  bool // version("PACKAGE"): text is the package
	file bool // a path below the site, by Path(__file__)
}

// pyReturns reads the map that a function returns, if all that it does is to
// return one. dir is the folder of the module.
func pyReturns(toks []pyToken, function, dir string) (map[string]pyValue, string) {
	start := -1
	for i := 0; i+2 < len(toks); i++ {
		if toks[i].kind == 'n' && toks[i].text == "def" && toks[i].col == 0 && toks[i+1].text == function {
			if start >= 0 {
				return nil, "defines the function twice"
			}
			start = i + 2
		}
	}
	if start < 0 {
		return nil, "does not define the function"
	}
	i := start
	for depth := 0; i < len(toks); i++ {
		switch t := toks[i]; {
		case t.kind == 0 && strings.Contains("([{", t.text):
			depth++
		case t.kind == 0 && strings.Contains(")]}", t.text):
			depth--
		}
		if depth == 0 && toks[i].kind == 0 && toks[i].text == ":" {
			break
		}
	}
	if i++; i < len(toks) && toks[i].kind == 's' { // its description
		i++
	}
	if i+1 >= len(toks) || toks[i].text != "return" || toks[i+1].text != "{" {
		return nil, "does more than to return a map"
	}
	out := map[string]pyValue{}
	for i += 2; i < len(toks); {
		if toks[i].kind == 0 && toks[i].text == "}" {
			return out, ""
		}
		if toks[i].kind != 's' || i+2 >= len(toks) || toks[i+1].text != ":" {
			return nil, "has a key that is not text"
		}
		key := toks[i].text
		if _, twice := out[key]; twice {
			return nil, "has a key twice"
		}
		v, next, ok := pyRead(toks, i+2, dir)
		if !ok {
			return nil, "computes " + finding.QuoteMax(key, 60)
		}
		out[key], i = v, next
		if i < len(toks) && toks[i].kind == 0 && toks[i].text == "," {
			i++
		} else if i >= len(toks) || toks[i].text != "}" {
			return nil, "computes " + finding.QuoteMax(key, 60)
		}
	}
	return nil, "has no end"
}

// pyRead reads one value: a text, a list of texts, a path that starts at the
// module's own file, the version of a package.
func pyRead(toks []pyToken, i int, dir string) (v pyValue, next int, ok bool) {
	texts := func(words ...string) bool {
		if i+len(words) > len(toks) {
			return false
		}
		for k, w := range words {
			if w != "" && (toks[i+k].text != w || toks[i+k].kind == 's') {
				return false
			}
		}
		return true
	}
	switch {
	case toks[i].kind == 's':
		return pyValue{text: toks[i].text}, i + 1, true
	case texts("["), texts("(") && !texts("(", ")"):
		v.list, next, ok = pyTexts(toks, i)
		return v, next, ok
	case texts("version", "(", "", ")") && toks[i+2].kind == 's':
		return pyValue{text: toks[i+2].text, own: true}, i + 4, true
	case texts("Path", "(", "__file__", ")"):
		i += 4
		at, moved := "file", 0
		for {
			switch {
			case texts(".", "resolve", "(", ")") || texts(".", "absolute", "(", ")"):
				i += 4
			case texts(".", "parent"):
				i += 2
				if moved++; moved == 1 {
					at = dir
				} else {
					at = path.Dir(at)
				}
			case texts("/", "") && toks[i+1].kind == 's' && moved > 0:
				if !bundle.CleanPath(toks[i+1].text) {
					return v, i, false
				}
				at = path.Join(at, toks[i+1].text)
				i += 2
			default:
				return pyValue{text: at, file: true}, i, moved > 0 && (moved == 1 || dir != "." && strings.Count(dir, "/")+2 >= moved)
			}
		}
	}
	return v, i, false
}
