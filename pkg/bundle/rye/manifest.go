package rye

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"golang.org/x/text/unicode/norm"
	"gopkg.in/yaml.v3"
)

// A Manifest is what the body of a manifest says (docs/spec/ryebundle.md#manifest).
// Every value is text as written, whatever YAML would make of it.
type Manifest struct {
	ID          string
	Version     string
	Entrypoint  string // id of the item to run, "" if none
	Description string
	CreatedAt   string // unproven, as every time in a bundle
	Type        string
	Digest      string // manifest_digest, "" if absent
	Entries     []Entry

	head      bool // of the HEAD generation: Entries are the files that are there
	hasDigest bool
	lines     map[string]int // of the fields of bundle, counted from 1 in the file
}

// An Entry is one listed file.
type Entry struct {
	Path         string
	ObjectHash   string // 64 hex, "" if absent
	SHA256       string // 64 hex, "" if absent
	InlineSigned bool
	ItemType     string // "" if absent
	Line         int    // of its path, counted from 1 in the file

	hasItemType bool
	fault       *bundle.Finding // why it is malformed or has no hash, nil if neither
}

// ManifestPath returns the path of a bundle's manifest below its root.
func ManifestPath(id string) string { return path.Join(".ai/bundles", id, "manifest.yaml") }

// parseManifest reads the body of an authentic manifest. It stops after the
// first of its steps that finds something: YAML, shape, not empty, limits,
// paths, id (docs/spec/ryebundle.md#verify, layer 5).
func parseManifest(body []byte) (*Manifest, []*bundle.Finding) {
	root, deep, faults := parseYAML(body)
	if len(faults) > 0 {
		return nil, faults
	}
	m, files, faults := readShape(root)
	if len(faults) > 0 {
		return nil, faults
	}
	if len(files.Content) == 0 {
		return nil, []*bundle.Finding{bundle.Faultf(FilesEmpty, "", "the manifest lists no files, so it covers nothing")}
	}
	if faults = checkLimits(m, deep); len(faults) > 0 {
		return nil, faults
	}
	if faults = checkPaths(m.paths()); len(faults) > 0 {
		return nil, faults
	}
	if !ValidID(m.ID) {
		return nil, []*bundle.Finding{m.fault(BundleIDInvalid, "id", "the bundle id %s %s", finding.QuoteMax(m.ID, 200), idGrammar)}
	}
	return m, nil
}

const idGrammar = "is not one to four components of letters, digits, dots, _ and -, joined by /, each of at most 64 characters, beginning with a letter or digit and not ending in a dot"

// fault is a finding about a field of the bundle section.
func (m *Manifest) fault(code, field, format string, args ...any) *bundle.Finding {
	f := bundle.Faultf(code, "", format, args...)
	f.Field, f.Line = "bundle."+field, m.lines[field]
	return f
}

func (m *Manifest) paths() []string {
	paths := make([]string, len(m.Entries))
	for i := range m.Entries {
		paths[i] = m.Entries[i].Path
	}
	return paths
}

// readShape takes the values out of the document.
func readShape(root *yaml.Node) (m *Manifest, files *yaml.Node, faults []*bundle.Finding) {
	wrong := func(n *yaml.Node, field, format string, args ...any) {
		f := bundle.Faultf(ManifestMalformed, "", format, args...)
		f.Field = field
		if n != nil {
			f.Line = n.Line + 1
		}
		faults = append(faults, f)
	}
	m = &Manifest{lines: map[string]int{}}
	section := child(root, "bundle")
	if section == nil || section.Kind != yaml.MappingNode {
		wrong(section, "bundle", "the manifest has no mapping bundle")
	} else {
		for _, field := range []struct {
			key      string
			to       *string
			required bool
		}{
			{"id", &m.ID, true}, {"version", &m.Version, true}, {"entrypoint", &m.Entrypoint, false}, {"description", &m.Description, false},
			{"created_at", &m.CreatedAt, false}, {"type", &m.Type, false}, {"manifest_digest", &m.Digest, false},
		} {
			n := child(section, field.key)
			switch {
			case n == nil && field.required:
				wrong(section, "bundle."+field.key, "bundle has no %s", field.key)
			case n == nil:
			case n.Kind != yaml.ScalarNode:
				wrong(n, "bundle."+field.key, "bundle.%s is not a text", field.key)
			default:
				*field.to = n.Value
				m.lines[field.key] = n.Line + 1
				m.hasDigest = m.hasDigest || field.key == "manifest_digest"
			}
		}
	}
	if files = child(root, "files"); files == nil || files.Kind != yaml.MappingNode {
		wrong(files, "files", "the manifest has no mapping files")
		return m, files, faults
	}
	if n := len(files.Content) / 2; n > MaxEntries {
		return m, files, append(faults, tooMany(n))
	}
	m.Entries = make([]Entry, 0, len(files.Content)/2)
	for i := 0; i+1 < len(files.Content); i += 2 {
		m.Entries = append(m.Entries, readEntry(files.Content[i], files.Content[i+1]))
	}
	return m, files, faults
}

// readEntry takes an entry as it is: what is malformed in it condemns its file
// alone.
func readEntry(k, v *yaml.Node) Entry {
	e := Entry{Path: k.Value, Line: k.Line + 1}
	malformed := func(format string, args ...any) {
		if e.fault == nil {
			e.fault = bundle.Faultf(EntryMalformed, e.Path, "line %d of the manifest: "+format, append([]any{e.Line}, args...)...)
		}
	}
	if v.Kind != yaml.MappingNode {
		malformed("the entry is not a mapping")
		return e
	}
	for _, h := range []struct {
		key string
		to  *string
	}{{"object_hash", &e.ObjectHash}, {"sha256", &e.SHA256}} {
		n := child(v, h.key)
		if n == nil {
			continue
		}
		*h.to = n.Value
		if n.Kind != yaml.ScalarNode || !isHex(n.Value, 64) {
			malformed("%s is %s, expected 64 lower-case hex digits", h.key, finding.QuoteMax(n.Value, 100))
		}
	}
	if n := child(v, "inline_signed"); n != nil {
		e.InlineSigned = n.Kind == yaml.ScalarNode && n.Value == "true"
		if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
			malformed("inline_signed is %s, expected true or false", finding.QuoteMax(n.Value, 60))
		}
	}
	if n := child(v, "item_type"); n != nil {
		e.hasItemType = true
		e.ItemType = n.Value
		if n.Kind != yaml.ScalarNode {
			malformed("item_type is not a text")
		}
	}
	if e.fault == nil && e.ObjectHash == "" && e.SHA256 == "" {
		e.fault = bundle.Faultf(EntryHashMissing, e.Path, "line %d of the manifest: the entry has neither object_hash nor sha256", e.Line)
	}
	return e
}

func tooMany(entries int) *bundle.Finding {
	return bundle.Faultf(LimitExceeded, "", "the manifest lists %d files, the limit is %d", entries, MaxEntries)
}

func checkLimits(m *Manifest, deep bool) (faults []*bundle.Finding) {
	if len(m.Entries) > MaxEntries {
		faults = append(faults, tooMany(len(m.Entries)))
	}
	if deep {
		faults = append(faults, bundle.Faultf(LimitExceeded, "", "the manifest nests YAML collections more than %d deep", MaxNesting))
	}
	for _, e := range m.Entries {
		if len(e.Path) > MaxPath {
			f := bundle.Faultf(LimitExceeded, "", "the path %s has %d bytes, the limit is %d", finding.QuoteMax(e.Path, 60), len(e.Path), MaxPath)
			f.Line = e.Line
			faults = append(faults, f)
		}
	}
	return faults
}

var idPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){0,3}$`)
})

// ValidID reports whether s follows the grammar of a bundle id.
func ValidID(s string) bool {
	return idPattern().MatchString(s) && !strings.HasSuffix(s, ".") && !strings.Contains(s, "./")
}

// ownedFolders are the folders below .ai that a bundle may list files of.
var ownedFolders = []string{"directives", "tools", "knowledge", "config", "trusted_keys", "plans", "lockfiles"}

// checkPaths judges the paths of a manifest or a lockfile: each on its own,
// then those that are safe against each other.
func checkPaths(paths []string) (faults []*bundle.Finding) {
	var safe []string
	for _, p := range paths {
		if f := checkPath(p); f != nil {
			faults = append(faults, f)
		} else {
			safe = append(safe, p)
		}
	}
	return append(faults, collisions(safe)...)
}

// collisions judges safe paths against each other.
func collisions(paths []string) (faults []*bundle.Finding) {
	names := make([]bundle.Name, len(paths))
	for i, p := range paths {
		names[i] = bundle.Name{Path: p, Type: bundle.File}
	}
	for _, f := range bundle.CheckTree(names, portable.FullFold) {
		f.Code = PathCollision
		faults = append(faults, f)
	}
	return faults
}

// checkPath judges one path: path-unsafe, path-not-covered or nil.
func checkPath(p string) *bundle.Finding {
	if f := pathUnsafe(p); f != nil {
		return f
	}
	if parts := strings.SplitN(p, "/", 3); len(parts) < 3 || parts[0] != ".ai" || !slices.Contains(ownedFolders, parts[1]) {
		return bundle.Faultf(PathNotCovered, p, "the path %s is outside of the folders that a bundle may own, .ai/{%s}", finding.QuoteMax(p, 200), strings.Join(ownedFolders, ","))
	}
	return nil
}

// pathUnsafe judges what no path of any generation may be.
func pathUnsafe(p string) *bundle.Finding {
	if f := bundle.CheckName(p); f != nil {
		f.Code = PathUnsafe
		return f
	}
	if why := unportable(p); why != "" {
		return bundle.Faultf(PathUnsafe, p, "the path %s %s", finding.QuoteMax(p, 200), why)
	}
	return nil
}

// unportable says why a path that [bundle.CheckName] lets pass cannot be the
// same file on every system, "" if it can.
func unportable(p string) string {
	if !norm.NFC.IsNormalString(p) {
		return "is not in Unicode normalization form C"
	}
	if strings.Contains(p, ":") {
		return "holds a colon"
	}
	for c := range strings.SplitSeq(p, "/") {
		switch {
		case strings.EqualFold(c, ".git"):
			return "has a component " + finding.Quote(c) + ", which is git's own"
		case strings.HasSuffix(c, "."), strings.HasSuffix(c, " "):
			return "has a component that ends in a dot or blank"
		}
	}
	return ""
}

// path returns where the manifest stands below the bundle's root.
func (m *Manifest) path() string {
	if m.head {
		return headManifest
	}
	return ManifestPath(m.ID)
}

// digest returns the manifest_digest of a manifest.
func (m *Manifest) digest() string {
	entries := slices.Clone(m.Entries)
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	b := make([]byte, 0, 256+200*len(entries))
	b = append(b, `{"domain":"rigward.rye-manifest.v1","entrypoint":`...)
	b = appendJSON(b, m.Entrypoint)
	b = append(b, `,"files":{`...)
	for i, e := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, e.Path)
		b = append(b, `:{"inline_signed":`...)
		if e.InlineSigned {
			b = append(b, "true"...)
		} else {
			b = append(b, "false"...)
		}
		b = append(b, `,"item_type":"`...)
		b = append(b, TypeOf(e.Path)...)
		b = append(b, '"')
		if e.ObjectHash != "" {
			b = appendJSON(append(b, `,"object_hash":`...), e.ObjectHash)
		} else if e.SHA256 != "" {
			b = appendJSON(append(b, `,"sha256":`...), e.SHA256)
		}
		b = append(b, '}')
	}
	b = append(b, `},"id":`...)
	b = appendJSON(b, m.ID)
	b = append(b, `,"path":`...)
	b = appendJSON(b, m.path())
	b = append(b, `,"version":`...)
	b = appendJSON(b, m.Version)
	return hexSum(append(b, '}'))
}
