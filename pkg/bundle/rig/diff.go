package rig

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
)

// Comparison is what diff tells (docs/spec/rigbundle.md#diff). Unified diffs
// are those of at most maxTexts files.
type Comparison struct {
	bundle.Result
	SameFile    bool            `json:"same_file"`
	SameTar     bool            `json:"same_tar"`
	SameContent bool            `json:"same_content"`
	Files       []bundle.Change `json:"files"`
	Manifest    []FieldChange   `json:"manifest"`
}

// FieldChange is one difference between two manifests; A or B is null where
// the field is absent.
type FieldChange struct {
	Field string          `json:"field"`
	A     json.RawMessage `json:"a"`
	B     json.RawMessage `json:"b"`
}

// Diff compares two bundles: path, mode and bytes of every member but the
// manifest, and the manifests by meaning. Container and name rules hold for
// both sides; faults of a manifest are listed but do not stop it.
func Diff(ctx context.Context, a, b bundle.Input, ignoreStamp bool, o bundle.Options) (*Comparison, error) {
	c := &Comparison{Result: bundle.NewResult("diff"), Files: []bundle.Change{}, Manifest: []FieldChange{}}
	c.Message = "nothing differs"
	var sides [2]*judge
	for i, in := range []bundle.Input{a, b} {
		j, err := run(ctx, in, bundle.Options{Limits: o.Limits, Allow: o.Allow}, false)
		if err != nil {
			return nil, err
		}
		sides[i] = j
		for _, l := range j.layers {
			for _, f := range l.faults {
				f := *f
				f.Message = []string{"first", "second"}[i] + " bundle: " + f.Message
				c.Findings = append(c.Findings, &f)
				if (l.name == "container" || l.name == "names") && c.OK() {
					c.Code, c.Message = f.Code, f.Message
				}
			}
		}
	}
	if !c.OK() {
		return c, nil
	}
	aa, ba := sides[0].archive, sides[1].archive
	c.SameFile = aa.FileDigest == ba.FileDigest
	c.SameTar = aa.TarDigest == ba.TarDigest
	c.Files = fileChanges(nodesOf(aa), nodesOf(ba))
	c.Manifest = compareManifests(sides[0], sides[1], ignoreStamp)
	c.SameContent = len(c.Files) == 0 && len(c.Manifest) == 0
	if !c.SameContent {
		c.Differs(bundle.ContentDiffers, "the bundles differ (files: %d, manifest fields: %d)", len(c.Files), len(c.Manifest))
	}
	var may [2][]bundle.Capability
	for i, j := range sides {
		var err error
		if may[i], err = j.capabilities(); err != nil {
			return nil, err
		}
	}
	c.Capabilities = bundle.CompareCapabilities(may[0], may[1])
	c.Changes = append(fieldChanges(c.Manifest), c.Files...)
	if o.Texts {
		return c, bundle.DiffTexts(c.Changes, aa.Texts(ctx), ba.Texts(ctx))
	}
	return c, nil
}

// capabilities are what the bundle may do: the facts of its behaviour, but those that
// hold for every bundle, and its compiled programs.
func (j *judge) capabilities() (list []bundle.Capability, err error) {
	b, err := j.behaviour()
	if err != nil {
		return nil, err
	}
	if b == nil {
		b = &Behaviour{}
	}
	for _, f := range b.Facts {
		if f.Kind == FactUnknown || f.Kind == FactProgram {
			continue
		}
		where := f.Seat
		if at := cmp.Or(f.Field, f.Path); at != "" {
			where = strings.TrimSpace(where + " " + at)
		}
		list = append(list, bundle.Capability{Kind: f.Kind, Where: where, Text: f.Text})
	}
	programs, err := j.archive.Programs(j.ctx)
	return append(list, programs...), err
}

// fieldChanges are the changes of a manifest as all formats tell them.
func fieldChanges(fields []FieldChange) []bundle.Change {
	out := make([]bundle.Change, len(fields))
	for i, f := range fields {
		out[i] = bundle.Change{Change: bundle.ManifestChange, Path: f.Field, Old: f.A, New: f.B}
	}
	return out
}

// nodesOf are the members that diff compares as files.
func nodesOf(a *bundle.Archive) []bundle.Node {
	return slices.DeleteFunc(a.Nodes(), func(n bundle.Node) bool { return n.Type != bundle.File || n.Path == manifestName })
}

// fileChanges is bundle.Compare with one change a path: a modified file shows
// its modes anyway.
func fileChanges(a, b []bundle.Node) []bundle.Change {
	out := []bundle.Change{}
	for _, c := range bundle.Compare(a, b) {
		if c.Change == "mode" && len(out) > 0 && out[len(out)-1].Path == c.Path {
			continue
		}
		out = append(out, c)
	}
	return out
}

// compareManifests compares the manifests of two sides by meaning. One that
// can't be read is compared by its bytes.
func compareManifests(a, b *judge, ignoreStamp bool) []FieldChange {
	ra, rb := a.manifestRoot(), b.manifestRoot()
	if ra == nil || rb == nil {
		ma, mb := a.archive.Member(manifestName), b.archive.Member(manifestName)
		var ha, hb *node
		if ma != nil {
			ha = textNode(ma.SHA256.Hex())
		}
		if mb != nil {
			hb = textNode(mb.SHA256.Hex())
		}
		if compact(ha) == compact(hb) {
			return []FieldChange{}
		}
		return []FieldChange{change(manifestName, ha, hb)}
	}
	return diffManifests(ra, rb, ignoreStamp)
}

func (j *judge) manifestRoot() *node {
	if j.man == nil {
		return nil
	}
	return j.man.root
}

func change(field string, a, b *node) FieldChange {
	raw := func(n *node) json.RawMessage { return json.RawMessage(compact(n)) }
	return FieldChange{field, raw(a), raw(b)}
}

var stampFields = []string{"created_at", "provenance", "assembler"}

func diffManifests(a, b *node, ignoreStamp bool) []FieldChange {
	out := []FieldChange{}
	add := func(field string, x, y *node) {
		if compact(x) != compact(y) {
			out = append(out, change(field, x, y))
		}
	}
	done := map[string]bool{"integrity": true}
	if ignoreStamp {
		for _, f := range stampFields {
			done[f] = true
		}
	}
	for _, f := range []string{"schema_version", "name", "version", "created_at", "rig_spec", "culture_file"} {
		if !done[f] {
			add(f, a.get(f), b.get(f))
		}
		done[f] = true
	}
	out = append(out, diffAgents(a.get("agents"), b.get("agents"))...)
	done["agents"] = true
	lists := []string{"skills", "workflow_specs", "context_packs", "agent_images"}
	for _, key := range lists {
		x, y := stringSet(a.get(key)), stringSet(b.get(key))
		for _, p := range sortedKeys(union(x, y)) {
			add(key+"["+p+"]", x[p], y[p])
		}
		done[key] = true
	}
	var rest []string
	for _, key := range manifestFields {
		if !done[key] {
			rest = append(rest, key)
			done[key] = true
		}
	}
	for _, n := range []*node{a, b} {
		for _, f := range n.fields {
			if !done[f.key] {
				rest = append(rest, f.key)
				done[f.key] = true
			}
		}
	}
	for _, key := range rest {
		add(key, a.get(key), b.get(key))
	}
	return out
}

func stringSet(n *node) map[string]*node {
	out := map[string]*node{}
	for _, i := range itemsOf(n) {
		out[i.text] = i
	}
	return out
}

func union[V any](a, b map[string]V) map[string]V {
	out := map[string]V{}
	for _, m := range []map[string]V{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func byName(n *node) map[string]*node {
	out := map[string]*node{}
	for _, i := range itemsOf(n) {
		if name := i.get("name"); name != nil {
			out[name.text] = i
		}
	}
	return out
}

// diffAgents lists agents that came or went, and what changed of the others,
// by name.
func diffAgents(a, b *node) (out []FieldChange) {
	add := func(field string, x, y *node) {
		if compact(x) != compact(y) {
			out = append(out, change(field, x, y))
		}
	}
	// A side that has the entry shows its version, "" if it names none.
	version := func(n *node) *node {
		if n == nil {
			return nil
		}
		if v := n.get("version"); v != nil {
			return v
		}
		return textNode("")
	}
	x, y := byName(a), byName(b)
	for _, name := range sortedKeys(union(x, y)) {
		at, ia, ib := "agents["+name+"]", x[name], y[name]
		if ia == nil || ib == nil {
			add(at, version(ia), version(ib))
			continue
		}
		for _, key := range []string{"version", "path", "original_ref"} {
			add(at+"."+key, ia.get(key), ib.get(key))
		}
		p, q := byName(ia.get("import_entries")), byName(ib.get("import_entries"))
		for _, imp := range sortedKeys(union(p, q)) {
			add(at+".import_entries["+imp+"]", version(p[imp]), version(q[imp]))
		}
	}
	return out
}
