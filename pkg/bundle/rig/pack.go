package rig

import (
	"path"
	"slices"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// packDir is where carried context packs lie in a bundle, each in a directory
// of its own name.
const packDir = "context-packs"

// contextPack is what a context pack's manifest.yaml declares.
type contextPack struct {
	name  string
	files []pathField
}

// checkPack judges the manifest.yaml of a context pack; nil if it can't be
// used at all.
func checkPack(c *checker, data []byte) *contextPack {
	root := c.document(data)
	if root == nil {
		return nil
	}
	p := &contextPack{}
	p.name, _ = c.str(root, "", "name", true, safeRule)
	if n, field := c.child(root, "", "version", true); n != nil && n.kind != kindString && n.kind != kindNumber {
		c.wrongType(field, n, "a string or a number")
	}
	c.maps(root, "", "files", true, func(f *node, at string) {
		name, n := c.str(f, at, "path", true, cleanRule)
		if n != nil && n.kind == kindString {
			p.files = append(p.files, pathField{name, dot(at, "path")})
		}
		c.str(f, at, "role", true, notEmpty)
	})
	return p
}

// carryPacks takes the context packs that the caller names: the manifest of
// each and the files that it declares, and nothing else of its directory.
func (a *assembly) carryPacks() error {
	carried := map[string]bool{}
	for _, dir := range a.opt.ContextPacks {
		name := path.Join(dir, "manifest.yaml")
		it, ok, err := a.look(name)
		if err != nil {
			return err
		}
		if !ok || it.Kind == bundle.KindDir {
			a.fault(6, bundle.Faultf(ContentMissing, name, "%s holds no manifest.yaml, so that it is not a context pack", finding.Path(dir)))
			continue
		}
		data, ok, err := a.document(7, 6, name, it, maxSpec, PackYAML)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		c := &checker{kind: "context-pack", file: name}
		p := checkPack(c, data)
		a.take(6, c)
		if p == nil || len(c.faults) > 0 {
			continue
		}
		to := path.Join(packDir, p.name)
		if carried[p.name] || slices.ContainsFunc(a.lists.contextPacks, func(f pathField) bool { return path.Dir(f.path) == to }) {
			a.fault(6, bundle.Faultf(PathCollision, name, "the bundle already holds a context pack named %s", finding.QuoteMax(p.name, 60)))
			continue
		}
		carried[p.name] = true
		a.addItem(name, to+"/manifest.yaml", it)
		for _, f := range p.files {
			got, err := a.take1(path.Join(dir, f.path), to+"/"+f.path)
			if err != nil {
				return err
			}
			if !got {
				f := bundle.Faultf(PackFileMissing, name, "%s names %s, which is not a file", f.field, finding.QuoteMax(f.path, 200))
				a.fault(6, f)
			}
		}
		a.lists.carry(to + "/manifest.yaml")
	}
	return nil
}

// carry adds an entry to context_packs, in the place of that list.
func (l *contentLists) carry(manifest string) {
	l.contextPacks = append(l.contextPacks, pathField{path: manifest})
	const key = "context_packs"
	for i := range l.nodes {
		if l.nodes[i].key == key {
			l.nodes[i].value = listNode(append(slices.Clone(l.nodes[i].value.items), textNode(manifest))...)
			return
		}
	}
	at := slices.IndexFunc(l.nodes, func(f field) bool {
		return slices.Index(contentFields, f.key) > slices.Index(contentFields, key)
	})
	if at < 0 {
		at = len(l.nodes)
	}
	l.nodes = slices.Insert(l.nodes, at, field{key: key, value: listNode(textNode(manifest))})
}
