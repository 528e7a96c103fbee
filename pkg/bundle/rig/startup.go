package rig

import (
	"fmt"
	"slices"
)

// startup is a startup block, as RigSpec and AgentSpec have it.
type startup struct {
	files   []startupFile
	actions []startupAction
}

type startupFile struct {
	path     string // clean; "" for a context pack, a faulty entry, a path of the host
	host     string // a path that the host resolves; "" for none
	required bool
}

type startupAction struct{ kind, value, phase string }

// kindFile is the startup file that is meant without a kind.
const kindFile, kindContextPack = "file", "context_pack"

var appliesOn = []string{"fresh_start", "restore"}

// startup judges a startup block; nil if there is none. Paths may have a
// leading "./" (docs/spec/rigbundle.md#rigspec).
func (c *checker) startup(in *node, at string) *startup {
	n, field := c.mapping(in, at, "startup", false)
	if n == nil {
		return nil
	}
	s := &startup{}
	c.maps(n, field, "files", false, func(f *node, at string) {
		file := startupFile{}
		kind, kn := c.word(f, at, "kind", false, startupKinds)
		switch {
		case kn == nil || kind == kindFile:
			p, n := c.str(f, at, "path", true, bundlePathRule)
			if n != nil && hostPath(p) && bundlePathRule(p) == "" {
				file.host = p
				break
			}
			file.path, _ = cleanRef(p)
		case kind == kindContextPack:
			c.str(f, at, "name", true, notEmpty)
			c.strOrNumber(f, at, "version")
		}
		c.word(f, at, "orientation", false, orientations)
		c.word(f, at, "delivery_hint", false, deliveryHints)
		file.required = c.boolean(f, at, "required", false, true)
		c.applies(f, at)
		s.files = append(s.files, file)
	})
	c.maps(n, field, "actions", false, func(a *node, at string) {
		var act startupAction
		act.kind, _ = c.word(a, at, "type", true, actionTypes)
		if act.kind == "startup_proof" {
			act.value, _ = c.word(a, at, "value", true, proofs)
		} else {
			act.value, _ = c.str(a, at, "value", true, notEmpty)
		}
		act.phase, _ = c.word(a, at, "phase", false, actionPhases)
		idempotent := c.boolean(a, at, "idempotent", true, true)
		if act.kind == "startup_proof" && !idempotent {
			c.wrongValue(dot(at, "idempotent"), a.get("idempotent"), "is false, which the selection of a startup proof can't be")
		}
		on := c.applies(a, at)
		if !idempotent && slices.Contains(on, "restore") {
			c.wrongValue(dot(at, "applies_on"), a, "includes restore, which an action that is not idempotent can't")
		}
		s.actions = append(s.actions, act)
	})
	return s
}

// applies judges applies_on and returns it; absent means both.
func (c *checker) applies(in *node, at string) []string {
	var on []string
	n := c.strings(in, at, "applies_on", func(item *node, field string) {
		c.wordNode(item, field, appliesOnWords)
		on = append(on, item.text)
	})
	if n == nil {
		return appliesOn
	}
	return on
}

// writeStartup is the block in canonical order.
func writeStartup(n *node) *node {
	if n == nil {
		return nil
	}
	w := &mapWriter{in: n}
	files, actions := &node{kind: kindList}, &node{kind: kindList}
	for _, f := range itemsOf(n.get("files")) {
		fw := &mapWriter{in: f}
		usual := "auto"
		switch k := f.get("kind"); {
		case k != nil && k.text == kindContextPack:
			usual = "send_text"
			fw.copy("kind", "name", "version")
			fw.skip("path")
		case k != nil && k.text != kindFile: // of a newer release: as it stands
			usual = ""
			fw.copy("kind", "name", "version", "path")
		default:
			fw.skip("kind", "name", "version")
			fw.copy("path")
		}
		fw.copyUnless("delivery_hint", func(v *node) bool { return v.text == usual })
		fw.copyUnless("required", func(v *node) bool { return v.text == "true" })
		fw.copyUnless("applies_on", isBoth)
		files.items = append(files.items, fw.done())
	}
	for _, a := range itemsOf(n.get("actions")) {
		aw := &mapWriter{in: a}
		aw.copy("type", "value")
		if a.get("phase") == nil {
			aw.skip("phase")
			aw.put("phase", textNode("after_files"))
		} else {
			aw.copy("phase")
		}
		aw.copy("idempotent")
		aw.copyUnless("applies_on", isBoth)
		actions.items = append(actions.items, aw.done())
	}
	w.set("files", files)
	w.set("actions", actions)
	return w.done()
}

func isBoth(v *node) bool {
	var on []string
	for _, i := range v.items {
		on = append(on, i.text)
	}
	slices.Sort(on)
	return slices.Equal(slices.Compact(on), appliesOn)
}

func itemsOf(n *node) []*node {
	if n == nil {
		return nil
	}
	return n.items
}

func textNode(s string) *node { return &node{kind: kindString, text: s} }
func listNode(items ...*node) *node {
	return &node{kind: kindList, items: items}
}

// mapWriter builds a map in canonical order: what the table names, then the
// unknown keys of the map in their old order.
type mapWriter struct {
	in    *node
	out   []field
	known []string
}

func (w *mapWriter) put(key string, v *node) { w.out = append(w.out, field{key: key, value: v}) }

// set writes a known key with a new value, nothing if that is nil.
func (w *mapWriter) set(key string, v *node) {
	w.known = append(w.known, key)
	if v != nil {
		w.put(key, v)
	}
}

// skip makes keys known without writing them.
func (w *mapWriter) skip(keys ...string) { w.known = append(w.known, keys...) }

// copy writes known keys as they are, those that are there.
func (w *mapWriter) copy(keys ...string) {
	for _, k := range keys {
		w.set(k, w.in.get(k))
	}
}

// copyUnless writes a known key unless its value is the usual one.
func (w *mapWriter) copyUnless(key string, usual func(v *node) bool) {
	v := w.in.get(key)
	if v != nil && usual(v) {
		v = nil
	}
	w.set(key, v)
}

// copyFull writes known keys unless they are empty.
func (w *mapWriter) copyFull(keys ...string) {
	for _, k := range keys {
		w.copyUnless(k, isEmpty)
	}
}

func isEmpty(v *node) bool {
	switch v.kind {
	case kindString:
		return v.text == ""
	case kindList:
		return len(v.items) == 0
	case kindMap:
		return len(v.fields) == 0
	}
	return false
}

// done appends the unknown keys and returns the map.
func (w *mapWriter) done() *node {
	for _, f := range w.in.fields {
		if !slices.Contains(w.known, f.key) {
			w.put(f.key, f.value)
		}
	}
	return &node{kind: kindMap, fields: w.out}
}

// inOrder copies a map with the given keys first; a nil map stays nil.
func inOrder(n *node, keys ...string) *node {
	if n == nil || n.kind != kindMap {
		return n
	}
	w := &mapWriter{in: n}
	w.copy(keys...)
	return w.done()
}

// eachInOrder does that for the maps of a list.
func eachInOrder(n *node, keys ...string) *node {
	if n == nil {
		return nil
	}
	out := &node{kind: kindList}
	for _, i := range n.items {
		out.items = append(out.items, inOrder(i, keys...))
	}
	return out
}

func index(at string, i int) string { return fmt.Sprintf("%s[%d]", at, i) }
