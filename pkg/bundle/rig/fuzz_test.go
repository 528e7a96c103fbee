package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/rigvectors"
)

// seedDocs adds documents of the vectors as seeds.
func seedDocs(f *testing.F, base string) {
	f.Helper()
	dir := rigvectors.Dir(f)
	n := 0
	filepath.WalkDir(filepath.Join(dir, "fixtures"), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == base && n < 60 {
			if b, err := os.ReadFile(p); err == nil && len(b) < 8192 {
				f.Add(b)
				n++
			}
		}
		return nil
	})
	f.Add([]byte("a: &x {b: [1, .5, 0x1F, ~, yes]}\nc: *x\n<<: {d: 1}\n"))
	f.Add([]byte("? |\n  k\n  l\n: >-\n  a\n  b\n\n  c\n"))
}

// equal compares two values by meaning.
func equal(a, b *node) bool {
	if a.kind != b.kind || a.kind != kindNull && a.text != b.text || len(a.items) != len(b.items) || len(a.fields) != len(b.fields) {
		return false
	}
	for i := range a.items {
		if !equal(a.items[i], b.items[i]) {
			return false
		}
	}
	for i := range a.fields {
		if a.fields[i].key != b.fields[i].key || !equal(a.fields[i].value, b.fields[i].value) {
			return false
		}
	}
	return true
}

// FuzzYAML: what is read and written again reads the same, and written a
// second time is the same text.
func FuzzYAML(f *testing.F) {
	seedDocs(f, "rig.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		root, fault := parseYAML(data)
		if fault != nil || root.kind != kindMap || len(root.fields) == 0 {
			return
		}
		text := writeYAML(root)
		again, fault := parseYAML(text)
		if fault != nil {
			t.Fatalf("own text does not read: %s\n%q\n%q", fault.msg, text, data)
		}
		if !equal(root, again) {
			t.Fatalf("own text reads differently\n%q\n%q", text, data)
		}
		if twice := writeYAML(again); string(twice) != string(text) {
			t.Fatalf("the text is not stable\n%q\n%q", text, twice)
		}
	})
}

// FuzzRigSpec: a rig.yaml that is accepted is accepted as it is written, too.
func FuzzRigSpec(f *testing.F) {
	seedDocs(f, "rig.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		c := &checker{kind: "rig", file: "rig.yaml"}
		r := checkRig(c, data, true)
		if r == nil || len(c.faults) > 0 {
			return
		}
		text := writeRig(r, nil)
		c2 := &checker{kind: "rig", file: "rig.yaml"}
		r2 := checkRig(c2, text, false)
		if r2 == nil || len(c2.faults) > 0 {
			t.Fatalf("the canonical text is refused: %v\n%s", c2.faults, text)
		}
		if again := writeRig(r2, nil); string(again) != string(text) {
			t.Fatalf("the canonical text is not stable\n%s\n%s", text, again)
		}
	})
}

// FuzzAgentSpec: rewriting the imports of an accepted agent.yaml changes the
// refs and nothing else.
func FuzzAgentSpec(f *testing.F) {
	seedDocs(f, "agent.yaml")
	f.Add([]byte("name: a\nversion: '1'\nimports: [{ref: 'local:../b'}, {ref: &r \"local:../c\\x2f\"}, {ref: !!str local:../d}]\nx: *r\n"))
	f.Add([]byte("x: &r local:../b\nname: a\nversion: '1'\nimports:\n- ref: *r # why\n- ref: |-\n    local:../c\n  version: '1'\n- ref: local:../a\n    b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		c := &checker{kind: "agent", file: "agent.yaml"}
		a := checkAgent(c, data)
		if a == nil || len(c.faults) > 0 || len(a.imports) == 0 {
			return
		}
		to := make([]string, len(a.imports))
		for i := range to {
			to[i] = "local:../it's {a} #" + strings.Repeat("b", i%3)
		}
		out, fault := rewriteImports(data, a, to)
		if fault != nil {
			t.Fatalf("%s\n%q", fault.Message, data)
		}
		c2 := &checker{kind: "agent", file: "agent.yaml"}
		b := checkAgent(c2, out)
		if b == nil || len(b.imports) != len(a.imports) {
			t.Fatalf("the rewritten text is refused: %v\n%q\n%q", c2.faults, out, data)
		}
		for i, imp := range b.imports {
			if imp.ref != to[i] || imp.version != a.imports[i].version {
				t.Fatalf("import %d is %q, want %q\n%q\n%q", i, imp.ref, to[i], out, data)
			}
		}
	})
}

// FuzzManifest: no manifest may panic the rules, and what is accepted is
// written and accepted again.
func FuzzManifest(f *testing.F) {
	seedDocs(f, "bundle.yaml")
	h := strings.Repeat("0", 63) + "a"
	f.Add([]byte("schema_version: 2\nname: x\nversion: 1.0.0\ncreated_at: 2026-01-01T00:00:00Z\nrig_spec: rig.yaml\nagents:\n  - name: a\n    path: agents/a\n    hash: " + h + "\nintegrity:\n  algorithm: sha256\n  files:\n    rig.yaml: " + h + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		c := &checker{kind: "manifest", file: manifestName}
		m := checkManifest(c, data)
		if m == nil || len(c.faults) > 0 {
			return
		}
		c2 := &checker{kind: "manifest", file: manifestName}
		if checkManifest(c2, writeYAML(m.root)); len(c2.faults) > 0 {
			t.Fatalf("refused when written: %v\n%q", c2.faults, data)
		}
		if d := diffManifests(m.root, m.root, false); len(d) > 0 {
			t.Fatalf("differs from itself: %v", d)
		}
	})
}
