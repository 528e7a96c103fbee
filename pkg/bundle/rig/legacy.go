package rig

import (
	"io"
	"path"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// legacyRig is the rig.yaml of a bundle of version 1: a flat list of nodes.
type legacyRig struct {
	nodes []legacyNode
}

type legacyNode struct {
	id, runtime string
	refs        []string // package_refs
	field       string
}

// legacyPackage is the package.yaml of such a bundle.
type legacyPackage struct {
	name    string
	exports []legacyExport
	checks  []string // commands of verification.checks
	tools   []string // requirements
}

type legacyExport struct{ kind, source, field string }

// exportKinds are what a package may export.
var exportKinds = []string{"skills", "guidance", "agents", "hooks", "mcp"}

// checkLegacyRig judges a rig.yaml of version 1; nil if it can't be used at
// all.
func checkLegacyRig(c *checker, data []byte) *legacyRig {
	root := c.document(data)
	if root == nil {
		return nil
	}
	r := &legacyRig{}
	c.schemaOne(root)
	c.str(root, "", "name", true, notEmpty)
	c.str(root, "", "version", true, notEmpty)
	seen := map[string]bool{}
	c.maps(root, "", "nodes", true, func(n *node, at string) {
		out := legacyNode{field: at}
		var idn *node
		if out.id, idn = c.str(n, at, "id", true, notEmpty); out.id != "" && seen[out.id] {
			c.wrongValue(dot(at, "id"), idn, "%s occurs twice", finding.QuoteMax(out.id, 60))
		}
		seen[out.id] = out.id != ""
		if out.runtime, _ = c.str(n, at, "runtime", true, notEmpty); out.runtime != "" {
			c.word(n, at, "runtime", true, runtimes)
		}
		c.word(n, at, "restore_policy", false, restorePolicy)
		c.strings(n, at, "package_refs", func(i *node, _ string) { out.refs = append(out.refs, i.text) })
		r.nodes = append(r.nodes, out)
	})
	c.maps(root, "", "edges", false, func(e *node, at string) {
		c.word(e, at, "kind", true, edgeKinds)
		from, _ := c.str(e, at, "from", true, notEmpty)
		to, tn := c.str(e, at, "to", true, notEmpty)
		for key, end := range map[string]string{"from": from, "to": to} {
			if end != "" && !seen[end] {
				c.wrongValue(dot(at, key), e.get(key), "%s names no node", finding.QuoteMax(end, 60))
			}
		}
		if from != "" && from == to {
			c.wrongValue(at, tn, "joins a node with itself")
		}
	})
	return r
}

// schemaOne judges a schema_version that may be left out.
func (c *checker) schemaOne(root *node) {
	if sv := root.get("schema_version"); sv != nil && !sv.isInt(1) {
		c.wrongValue("schema_version", sv, "is not 1")
	}
}

// checkPackage judges a package.yaml; nil if it can't be used at all.
func checkPackage(c *checker, data []byte) *legacyPackage {
	root := c.document(data)
	if root == nil {
		return nil
	}
	p := &legacyPackage{}
	c.schemaOne(root)
	p.name, _ = c.str(root, "", "name", true, beginning(isToken))
	c.str(root, "", "version", true, notEmpty)
	exports, at := c.mapping(root, "", "exports", true)
	if exports == nil {
		return p
	}
	for _, kind := range exportKinds {
		c.maps(exports, at, kind, false, func(e *node, at string) {
			out := legacyExport{kind: kind, field: at}
			src, n := c.str(e, at, "source", true, cleanRefRule)
			out.source, _ = cleanRef(src)
			c.str(e, at, "name", false, nil)
			if n != nil && out.source != "" {
				p.exports = append(p.exports, out)
			}
		})
	}
	if v := root.get("verification"); v != nil && v.kind == kindMap {
		for _, k := range itemsOf(v.get("checks")) {
			if cmd := k.get("command"); cmd != nil && cmd.kind == kindString {
				p.checks = append(p.checks, cmd.text)
			}
		}
	}
	for _, list := range []string{"cli_tools", "system_packages"} {
		for _, k := range itemsOf(root.get("requirements").get(list)) {
			if n := k.get("name"); n != nil && n.kind == kindString {
				p.tools = append(p.tools, n.text)
			}
		}
	}
	return p
}

// legacyContents judges the rig and the packages of a bundle of version 1,
// which verify does not, and returns their faults.
func (j *judge) legacyContents() ([]*bundle.Finding, error) {
	j.cur = &layer{name: "content"}
	j.packages = map[string]*legacyPackage{}
	want := map[string]string{} // package.yaml to the package's directory
	for _, p := range j.man.packages {
		f := path.Join(p.path, "package.yaml")
		if !j.file(f) {
			j.faultf(ContentMissing, f, "the package %s holds no package.yaml", finding.QuoteMax(p.name, 60))
			continue
		}
		want[f] = p.path
	}
	err := j.archive.Walk(j.ctx, func(m *bundle.Member, r io.Reader) error {
		dir, isPackage := want[m.Name]
		if !isPackage && m.Name != j.man.rigSpec {
			return nil
		}
		c := &checker{kind: "rig", file: m.Name}
		if isPackage {
			c.kind = "package"
		}
		if m.Size > maxSpec {
			j.faultf(c.kind+"-yaml", m.Name, "%s is over %d bytes", finding.QuoteMax(m.Name, 200), maxSpec)
			return nil
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if isPackage {
			j.packages[dir] = checkPackage(c, data)
		} else {
			j.legacy = checkLegacyRig(c, data)
		}
		j.take(c)
		return nil
	})
	for _, dir := range sortedKeys(j.packages) {
		if p := j.packages[dir]; p != nil {
			for _, e := range p.exports {
				if to := path.Join(dir, e.source); !j.there(to) {
					j.note(NoteResourceMissing, to, "what a package exports is not there", false)
				}
			}
		}
	}
	return j.cur.faults, err
}

// legacyTeam tells of a rig of version 1.
func (d *describer) legacyTeam() {
	if d.j.legacy == nil {
		return
	}
	for _, n := range d.j.legacy.nodes {
		d.fact(FactSeat, n.id, d.j.man.rigSpec, n.field, "starts %s with the packages %s; it can run commands as the user who starts the rig",
			q(n.runtime), q(strings.Join(n.refs, ", ")))
		d.fact(FactPermission, n.id, d.j.man.rigSpec, n.field, "asks as its runtime does by default")
	}
	for _, dir := range sortedKeys(d.j.packages) {
		p := d.j.packages[dir]
		if p == nil {
			continue
		}
		file := path.Join(dir, "package.yaml")
		for _, e := range p.exports {
			switch e.kind {
			case "hooks":
				d.fact(FactHook, "", file, e.field, "installs the hooks of %s", q(e.source))
			case "mcp":
				d.fact(FactPlugin, "", file, e.field, "installs the tool servers of %s", q(e.source))
			default:
				d.fact(FactPlugin, "", file, e.field, "installs %s from %s", strings.TrimSuffix(e.kind, "s"), q(e.source))
			}
		}
		for _, cmd := range p.checks {
			d.fact(FactHook, "", file, "verification.checks", "the command %s is run to check the installation", q(cmd))
		}
		for _, t := range p.tools {
			d.fact(FactNeeds, "", file, "requirements", "the program or package %s", q(t))
		}
	}
}
