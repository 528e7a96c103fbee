package agent

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// A Difference is what Diff found between two bundles: Code is that of a side
// which cannot be compared.
type Difference struct {
	bundle.Result
	SameBytes   bool     `json:"same_bytes"`
	SameTar     bool     `json:"same_tar"` // of two sides that can be compared
	SameContent bool     `json:"same_content"`
	Listed      []Change `json:"changes"`
	A           *Result  `json:"a"`
	B           *Result  `json:"b"`
}

// A Change is one difference in the JSON form of docs/spec/agentbundle.md#commands: an array of kind,
// path and, of mode, type, link and manifest, the two values. The kind
// manifest-format says that only the spelling differs.
type Change bundle.Change

// MarshalJSON writes the array.
func (c Change) MarshalJSON() ([]byte, error) {
	out := []any{c.Change, c.Path}
	if c.Old != nil || c.New != nil {
		out = append(out, c.Old, c.New)
	}
	return finding.JSON(out)
}

// listed are changes in their JSON form.
func listed(changes []bundle.Change) []Change {
	out := make([]Change, len(changes))
	for i, c := range changes {
		out[i] = Change(c)
	}
	return out
}

// Diff compares two bundle files. Rules of the container and its members hold
// for both, else Code is that side's; what is wrong with manifest or entry is
// listed in the results and does not stop it.
func Diff(ctx context.Context, a, b bundle.Input, o bundle.Options) (*Difference, error) {
	ra, err := readTree(ctx, "diff", a, o)
	if err != nil {
		return nil, err
	}
	rb, err := readTree(ctx, "diff", b, o)
	if err != nil {
		return nil, err
	}
	d := &Difference{Result: bundle.NewResult("diff"), Listed: []Change{}, A: ra, B: rb, SameBytes: ra.FileDigest == rb.FileDigest}
	for _, r := range []*Result{ra, rb} {
		if !r.Comparable() {
			d.Differs(r.Code, "%s: %s", finding.Path(r.File), r.Message)
			return d, nil
		}
	}
	d.Changes = compare(ra.Archive, rb.Archive)
	var may [2][]bundle.Capability
	for i, r := range []*Result{ra, rb} {
		if may[i], err = r.capabilities(ctx); err != nil {
			return nil, err
		}
	}
	d.Capabilities = bundle.CompareCapabilities(may[0], may[1])
	d.Listed = listed(d.Changes)
	d.SameTar, d.SameContent = ra.TarDigest == rb.TarDigest, len(d.Changes) == 0
	d.Message = "the contents are the same"
	if !d.SameContent {
		places := "places"
		if len(d.Changes) == 1 {
			places = "place"
		}
		d.Differs(bundle.ContentDiffers, "the contents differ in %d %s", len(d.Changes), places)
	}
	if o.Texts {
		return d, bundle.DiffTexts(d.Changes, ra.Archive.Texts(ctx), rb.Archive.Texts(ctx))
	}
	return d, nil
}

// capabilities are what an agent may do, as far as its manifest and its files tell;
// of a manifest that cannot be read nothing is told.
func (r *Result) capabilities(ctx context.Context) ([]bundle.Capability, error) {
	list, err := r.Archive.Programs(ctx)
	m, _, _ := ParseManifest(r.Archive.Kept[ManifestName])
	if m == nil || err != nil {
		return list, err
	}
	add := func(kind, where, text string) {
		list = append(list, bundle.Capability{Kind: kind, Where: where, Text: text})
	}
	add("entry", "entry", "starts "+finding.QuoteMax(m.Entry, 200))
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		add("environment", "env."+name, "is set to "+finding.QuoteMax(m.Env[name], 200))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Capabilities)) {
		if m.Capabilities[name] {
			add("permission", "capabilities."+name, "is asked for")
		}
	}
	if m.Runtime != nil {
		add("needs", "runtime", "runs on "+finding.QuoteMax(m.Runtime.Type+" "+m.Runtime.Version, 200))
	}
	if m.Engine != nil {
		add("needs", "engine", "is built on "+finding.QuoteMax(strings.TrimSpace(m.Engine.Name+" "+m.Engine.SDK), 200))
	}
	return list, nil
}

// readTree reads a bundle for comparison: its file name and proof do not count.
func readTree(ctx context.Context, command string, in bundle.Input, o bundle.Options) (*Result, error) {
	r, err := scan(ctx, command, in, o)
	if err != nil {
		return nil, err
	}
	return r, r.judgeContent(ctx)
}

// compare lists the changes from a to b: those of the manifest by field, then
// those of other members by path.
func compare(a, b *bundle.Archive) []bundle.Change {
	var changes []bundle.Change
	for _, c := range bundle.Compare(comparable(a), comparable(b)) {
		switch c.Change {
		case "mode":
			c.Old, c.New = bundle.JSONText(c.ModeA), bundle.JSONText(c.ModeB)
		case "type":
			c.Old, c.New = bundle.JSONText(c.A.Type.String()), bundle.JSONText(c.B.Type.String())
		case "link":
			c.Old, c.New = bundle.JSONText(c.A.Link), bundle.JSONText(c.B.Link)
		case "modified":
			if c.Path == ManifestName {
				if fields, ok := compareManifests(a.Kept[ManifestName], b.Kept[ManifestName]); ok {
					changes = append(fields, changes...)
					continue
				}
			}
		}
		changes = append(changes, c)
	}
	return changes
}

// comparable are the nodes of a tree without the directories that have members.
func comparable(a *bundle.Archive) []bundle.Node {
	nodes := a.Nodes()
	parents := make(map[string]bool)
	for i := range nodes {
		for dir := path.Dir(nodes[i].Path); dir != "." && !parents[dir]; dir = path.Dir(dir) {
			parents[dir] = true
		}
	}
	return slices.DeleteFunc(nodes, func(n bundle.Node) bool { return n.Type == bundle.Dir && parents[n.Path] })
}

// compareManifests lists the leaves that differ, or that only the spelling
// does; not ok if one cannot be read.
func compareManifests(a, b []byte) (changes []bundle.Change, ok bool) {
	va, err := parseJSON(a)
	if err != nil {
		return nil, false
	}
	vb, err := parseJSON(b)
	if err != nil {
		return nil, false
	}
	if va.kind != jsonObject || vb.kind != jsonObject {
		return nil, false
	}
	compareFields(&changes, "", va, vb)
	slices.SortStableFunc(changes, func(x, y bundle.Change) int { return strings.Compare(x.Path, y.Path) })
	if len(changes) == 0 {
		changes = []bundle.Change{{Change: "manifest-format", Path: ManifestName}}
	}
	return changes, true
}

// compareFields compares two objects; nil stands for one that is absent.
func compareFields(changes *[]bundle.Change, prefix string, a, b *jsonValue) {
	both := map[string][2]*jsonValue{}
	for side, v := range []*jsonValue{a, b} {
		if v == nil {
			continue
		}
		for _, f := range v.fields {
			pair := both[f.key]
			pair[side] = f.value
			both[f.key] = pair
		}
	}
	for key, pair := range both {
		x, y := pair[0], pair[1]
		branch := func(v *jsonValue) bool { return v == nil || v.kind == jsonObject }
		filled := func(v *jsonValue) bool { return v != nil && len(v.fields) > 0 }
		switch {
		case branch(x) && branch(y) && (filled(x) || filled(y)):
			compareFields(changes, prefix+key+".", x, y)
		case !x.equal(y):
			*changes = append(*changes, bundle.Change{Change: bundle.ManifestChange, Path: prefix + key, Old: x.raw(), New: y.raw()})
		}
	}
}

// raw is the value as JSON, null if it is absent.
func (v *jsonValue) raw() json.RawMessage {
	if v == nil {
		return json.RawMessage("null")
	}
	return v.append(nil, false)
}

// Renames pairs removed files with added ones of the same content, each path
// at most once: from, to.
func Renames(changes []bundle.Change) [][2]string {
	gone := map[bundle.Digest][]string{}
	for _, c := range changes {
		if c.Change == "removed" && c.A.Type == bundle.File && c.A.Size > 0 {
			gone[c.A.SHA256] = append(gone[c.A.SHA256], c.Path)
		}
	}
	var pairs [][2]string
	for _, c := range changes {
		if c.Change != "added" || c.B.Type != bundle.File {
			continue
		}
		if from := gone[c.B.SHA256]; len(from) > 0 {
			pairs = append(pairs, [2]string{from[0], c.Path})
			gone[c.B.SHA256] = from[1:]
		}
	}
	return pairs
}
