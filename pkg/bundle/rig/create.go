package rig

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/rigward/rigward/pkg/bundle"
)

// manifestNode builds the manifest of an assembly in writing order.
func (a *assembly) manifestNode() *node {
	o := a.opt
	m := &node{kind: kindMap}
	put := func(key string, v *node) { m.fields = append(m.fields, field{key: key, value: v}) }
	text := func(key, v string) { put(key, textNode(v)) }
	created := a.createdAt()
	name, version := o.Name, o.Version
	if name == "" {
		name = a.rig.name
	}
	if version == "" {
		version = "0.1.0"
	}
	if o.Stamps != nil {
		name, version = cmp.Or(o.Name, o.Stamps.man.name), cmp.Or(o.Version, o.Stamps.man.version)
	}
	put("schema_version", &node{kind: kindNumber, text: "2"})
	text("name", name)
	text("version", version)
	text("created_at", created)
	text("rig_spec", "rig.yaml")
	agents := listNode()
	for _, v := range a.order {
		agents.items = append(agents.items, v.entry())
	}
	put("agents", agents)
	if a.rig.culture != "" && (a.cul || o.Form == FormOpenRig) {
		text("culture_file", a.rig.culture)
	}
	put("integrity", a.integrityNode())
	kept := func(keys ...string) {
		for _, k := range keys {
			if o.Stamps != nil {
				if v := o.Stamps.man.root.get(k); v != nil {
					put(k, v)
				}
			}
		}
	}
	kept("assembler")
	if o.Stamps != nil {
		kept("provenance", "compatibility")
	} else {
		if p := provenanceNode(o.Provenance, created); p != nil {
			put("provenance", p)
		}
		if c := compatibilityNode(a.compat, o.Compatibility); c != nil {
			put("compatibility", c)
		}
	}
	if a.pre != nil {
		put("preconditions", writePreconditions(a.pre))
	} else if a.old() {
		kept("preconditions")
	}
	m.fields = append(m.fields, a.lists.canonical()...)
	kept("project")
	if o.Stamps != nil {
		kept("configuration")
	} else if a.conf != nil {
		put("configuration", mapNode(a.configuration(), "id", "preset"))
	}
	if o.Stamps != nil {
		for _, f := range o.Stamps.man.root.fields {
			if !slices.Contains(manifestFields, f.key) {
				m.fields = append(m.fields, f)
			}
		}
	}
	return m
}

// configuration is the manifest's field of that name.
func (a *assembly) configuration() map[string]string {
	out := map[string]string{"id": configurationID(a.chose)}
	if name := a.conf.presetOf(a.chose); name != "" {
		out["preset"] = name
	}
	return out
}

// compatibilityNode is what the author declares, with what the caller asks for
// instead; nil if nobody says anything.
func compatibilityNode(author *node, asked map[string]string) *node {
	keys := []string{"min_daemon_version", "min_cli_version"}
	if author == nil {
		return mapNode(asked, keys...)
	}
	w := &mapWriter{in: author}
	for _, k := range keys {
		if v, ok := asked[k]; ok {
			w.set(k, textNode(v))
		} else {
			w.copy(k)
		}
	}
	w.copy("schema_version")
	return w.done()
}

// canonical are the content lists with their maps in writing order.
func (l *contentLists) canonical() []field {
	out := slices.Clone(l.nodes)
	for i, f := range out {
		if f.key != "plugins" {
			continue
		}
		list := listNode()
		for _, p := range f.value.items {
			w := &mapWriter{in: p}
			w.copy("id")
			w.set("source", inOrder(p.get("source"), "kind", "path"))
			list.items = append(list.items, w.done())
		}
		out[i].value = list
	}
	return out
}

// mapNode is a map of strings with its keys in the given order; nil if empty.
func mapNode(values map[string]string, keys ...string) *node {
	m := &node{kind: kindMap}
	for _, k := range keys {
		if v, ok := values[k]; ok {
			m.fields = append(m.fields, field{key: k, value: textNode(v)})
		}
	}
	if len(m.fields) == 0 {
		return nil
	}
	return m
}

func provenanceNode(values map[string]string, created string) *node {
	m := mapNode(values, provenanceFields[1:]...)
	if m != nil {
		m.fields = append([]field{{key: "created_at", value: textNode(created)}}, m.fields...)
	}
	return m
}

// entry is the agents entry of a member's agent.
func (v *vendored) entry() *node {
	e := v.fields(v.ref)
	imports := listNode()
	seen := map[*vendored]bool{}
	for i, to := range v.to {
		if to != nil && !seen[to] {
			seen[to] = true
			imports.items = append(imports.items, to.fields(v.spec.imports[i].ref))
		}
	}
	e.fields = append(e.fields, field{key: "import_entries", value: imports})
	return e
}

func (v *vendored) fields(ref string) *node {
	return mapNode(map[string]string{
		"name": v.spec.name, "version": v.spec.version, "path": v.dest(), "original_ref": ref, "hash": bundle.Sum(v.data).Hex(),
	}, "name", "version", "path", "original_ref", "hash")
}

func (a *assembly) integrityNode() *node {
	listed := make([]*file, 0, len(a.files))
	for _, f := range a.files {
		if f.listed {
			listed = append(listed, f)
		}
	}
	slices.SortFunc(listed, func(x, y *file) int { return integrityOrder(x.dest, y.dest) })
	files := &node{kind: kindMap, fields: make([]field, len(listed))}
	values := make([]node, len(listed))
	for i, f := range listed {
		values[i] = node{kind: kindString, text: f.hash.Hex()}
		files.fields[i] = field{key: f.dest, value: &values[i]}
	}
	return &node{kind: kindMap, fields: []field{{key: "algorithm", value: textNode("sha256")}, {key: "files", value: files}}}
}

// entries are the members to be written. Each file of the source is read once,
// hashed while it is written; only what comes after the manifest is read
// before.
func (a *assembly) entries() []bundle.Entry {
	out := make([]bundle.Entry, 0, len(a.files))
	for _, f := range a.files {
		e := bundle.Entry{Member: bundle.Member{Name: f.dest, Type: bundle.File, Mode: f.mode, Size: f.size}}
		if f.have {
			e.Size = int64(len(f.content))
		}
		e.Open = func() (io.ReadCloser, error) { return a.open(f) }
		if f.dest == manifestName {
			e.Prepare = a.manifestEntry
		}
		out = append(out, e)
	}
	return out
}

// manifestEntry hashes what is not hashed yet and gives the manifest.
func (a *assembly) manifestEntry(e *bundle.Entry) error {
	if err := a.hashFiles(); err != nil {
		return err
	}
	*e = bundle.BytesEntry(manifestName, e.Mode, writeYAML(a.manifestNode()))
	return nil
}

// Create assembles a bundle from a source (docs/spec/rigbundle.md#create) and
// writes it to the file output and, beside it, its digest file. The file is
// written under a temporary name, verified with all rules, and renamed; a
// fault or an error leaves nothing behind, and changes nothing. With strict, notes of StrictNotes
// are faults too.
func Create(ctx context.Context, src *Source, o Options, output string, v bundle.Options) (*Result, error) {
	if o.Form == "" {
		o.Form = FormRigward
	}
	a, faults, err := assemble(ctx, src, &o)
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		r := newResult("create")
		r.Fail(faults...)
		a.into(&r.Result, 0)
		return r, nil
	}
	entries := a.entries()
	var r *Result
	err = bundle.WriteWatched(output, 0o644,
		func(w io.Writer) error {
			_, err := bundle.WriteArchive(ctx, w, bundle.Gzip, Layout{}, entries)
			return err
		},
		func(f io.ReaderAt) error {
			j, err := run(ctx, bundle.Input{Name: output, File: f, Size: -1, Made: true}, v, false)
			if err != nil {
				return err
			}
			r = j.result("create")
			j.absorb(&a.notes)
			j.verdict(r, v)
			if !r.OK() {
				return errRefused
			}
			return nil
		},
		func() (string, []byte) { return ".sha256", []byte(r.FileDigest.Hex()) })
	if err == errRefused {
		r.FileDigest, r.TarDigest, r.Identity, r.Counts = bundle.Digest{}, bundle.Digest{}, bundle.Digest{}, nil
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.File, r.Form = output, o.Form
	return r, nil
}

// errRefused takes a verdict of the written file through WriteFile.
var errRefused = bundle.Faultf("refused", "", "the written bundle does not verify")

// absorb adds the notes of the assembly to those of the written file. The same
// thing is told once.
func (j *judge) absorb(notes *notes) {
	told := map[string]bool{}
	for _, n := range j.told {
		told[n.Code+"\x00"+n.Path] = true
	}
	for _, n := range notes.told {
		if !told[n.Code+"\x00"+n.Path] {
			j.told = append(j.told, n)
		}
	}
	for kind, n := range notes.more {
		j.more[kind] += n
	}
}

// tarDigest writes the stream of an assembly to nowhere and returns its
// identity.
func (a *assembly) tarDigest(ctx context.Context) (bundle.Written, error) {
	return bundle.WriteTar(ctx, io.Discard, Layout{}, a.entries())
}

// ProvenanceKeys are the fields of provenance that a caller may set.
func ProvenanceKeys() []string { return slices.Clone(provenanceFields[1:]) }
