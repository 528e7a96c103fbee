package agent

import (
	"context"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
)

// A Difference is what Diff found between two bundles.
type Difference struct {
	Code        string // content-differs, "ok", or that of the side which cannot be compared
	A, B        *Result
	SameBytes   bool
	SameTar     bool
	SameContent bool
	Changes     []Change
}

// A Change is one difference (section 16).
type Change struct {
	Kind string // added, removed, modified, mode, type, link, manifest or manifest-format
	// Path of a member, or for manifest the field, as env.PATH.
	Path string
	// A and B are the values of mode, type, link and manifest: JSON.
	A, B json.RawMessage
	// Nodes of the two sides, nil where there is none.
	NodeA, NodeB *bundle.Node
}

// MarshalJSON writes the change as an array of kind, path and, where the kind
// has them, the two values.
func (c Change) MarshalJSON() ([]byte, error) {
	out := []any{c.Kind, c.Path}
	if c.A != nil || c.B != nil {
		out = append(out, c.A, c.B)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(out)
	return []byte(b.String()), err
}

// An Opened is a bundle file at hand.
type Opened struct {
	Name string
	File io.ReaderAt
	Size int64
}

// Diff compares two bundle files. Rules of the container and its members hold
// for both, else Code is that side's; what is wrong with manifest or entry is
// listed in the results and does not stop it.
func Diff(ctx context.Context, a, b Opened, limits bundle.Limits) (*Difference, error) {
	ra, err := readTree(ctx, a, limits)
	if err != nil {
		return nil, err
	}
	rb, err := readTree(ctx, b, limits)
	if err != nil {
		return nil, err
	}
	d := &Difference{A: ra, B: rb, SameBytes: ra.Archive.FileDigest == rb.Archive.FileDigest}
	for _, r := range []*Result{ra, rb} {
		if !r.Comparable() {
			d.Code = r.Code()
			return d, nil
		}
	}
	d.SameTar = ra.Archive.TarDigest == rb.Archive.TarDigest
	d.Changes = compare(ra.Archive, rb.Archive)
	d.SameContent = len(d.Changes) == 0
	d.Code = CodeContentDiffers
	if d.SameContent {
		d.Code = "ok"
	}
	return d, nil
}

// readTree reads a bundle for comparison: its file name and proof do not count.
func readTree(ctx context.Context, in Opened, limits bundle.Limits) (*Result, error) {
	r, err := scan(ctx, in.File, in.Size, in.Name, Options{Limits: limits})
	if err != nil {
		return nil, err
	}
	return r, r.judgeContent(ctx)
}

// compare lists the changes from a to b: those of the manifest by field, then
// those of other members by path.
func compare(a, b *bundle.Archive) []Change {
	var changes []Change
	for _, c := range bundle.Compare(comparable(a), comparable(b)) {
		change := Change{Kind: c.Change, Path: c.Path, NodeA: c.A, NodeB: c.B}
		switch c.Change {
		case "mode":
			change.A, change.B = jsonText(c.ModeA), jsonText(c.ModeB)
		case "type":
			change.A, change.B = jsonText(c.A.Type.String()), jsonText(c.B.Type.String())
		case "link":
			change.A, change.B = jsonText(c.A.Link), jsonText(c.B.Link)
		case "modified":
			if c.Path == ManifestName {
				if fields, ok := compareManifests(a.Kept[ManifestName], b.Kept[ManifestName]); ok {
					changes = append(fields, changes...)
					continue
				}
			}
		}
		changes = append(changes, change)
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
func compareManifests(a, b []byte) (changes []Change, ok bool) {
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
	slices.SortStableFunc(changes, func(x, y Change) int { return strings.Compare(x.Path, y.Path) })
	if len(changes) == 0 {
		changes = []Change{{Kind: "manifest-format", Path: ManifestName}}
	}
	return changes, true
}

// compareFields compares two objects; nil stands for one that is absent.
func compareFields(changes *[]Change, prefix string, a, b *jsonValue) {
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
			*changes = append(*changes, Change{Kind: "manifest", Path: prefix + key, A: x.raw(), B: y.raw()})
		}
	}
}

// raw is the value as JSON, null if it is absent.
func (v *jsonValue) raw() json.RawMessage {
	if v == nil {
		return json.RawMessage("null")
	}
	return v.append(nil)
}

func jsonText(s string) json.RawMessage { return appendJSONString(nil, s) }

// Renames pairs removed files with added ones of the same content, each path
// at most once: from, to.
func Renames(changes []Change) [][2]string {
	gone := map[bundle.Digest][]string{}
	for _, c := range changes {
		if c.Kind == "removed" && c.NodeA.Type == bundle.File && c.NodeA.Size > 0 {
			gone[c.NodeA.SHA256] = append(gone[c.NodeA.SHA256], c.Path)
		}
	}
	var pairs [][2]string
	for _, c := range changes {
		if c.Kind != "added" || c.NodeB.Type != bundle.File {
			continue
		}
		if from := gone[c.NodeB.SHA256]; len(from) > 0 {
			pairs = append(pairs, [2]string{from[0], c.Path})
			gone[c.NodeB.SHA256] = from[1:]
		}
	}
	return pairs
}
