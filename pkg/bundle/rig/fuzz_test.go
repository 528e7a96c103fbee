package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/rigvectors"
	"github.com/rigward/rigward/pkg/bundle"
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

// FuzzConfigurations: what is read of a configurations.yaml is built or refused
// with a finding, whatever the rig is.
func FuzzConfigurations(f *testing.F) {
	f.Add([]byte("schema: openrig.bundle-configurations/v1\nrecommended: r\nseats: {a.b: {runtimes: {pi: p}}}\npresets: {r: {a.b: pi}}\n"), "r", "a.b=pi")
	f.Add([]byte("schema: 1\nseats: []\npresets: {r: 1}\n"), "", "")
	f.Fuzz(func(t *testing.T, data []byte, preset, choice string) {
		if len(data) > 1<<16 {
			return
		}
		c := &checker{kind: "configurations", file: configurationsName}
		d := checkConfigurations(c, data)
		if d == nil || len(c.faults) > 0 {
			return
		}
		authored := []pair{{"a.b", "pi"}, {"a.c", "codex"}}
		d.against(c, authored)
		mapping, fault := d.choose(authored, preset, []string{choice})
		if fault == nil && (len(mapping) != 2 || d.fault(mapping, authored) != "") {
			t.Fatalf("%v is built, it is not offered", mapping)
		}
	})
}

// FuzzLegacy: rig.yaml and package.yaml of version 1 give findings, never more,
// and no export leaves its package.
func FuzzLegacy(f *testing.F) {
	f.Add([]byte(legacyRigText), []byte(legacyPkgText))
	f.Fuzz(func(t *testing.T, rig, pkg []byte) {
		if len(rig)+len(pkg) > 1<<16 {
			return
		}
		checkLegacyRig(&checker{kind: "rig", file: "rig.yaml"}, rig)
		c := &checker{kind: "package", file: "package.yaml"}
		if p := checkPackage(c, pkg); p != nil && len(c.faults) == 0 {
			for _, e := range p.exports {
				if strings.HasPrefix(filepath.ToSlash(filepath.Clean(e.source)), "..") || filepath.IsAbs(e.source) {
					t.Fatalf("%q leaves the package", e.source)
				}
			}
		}
	})
}

// FuzzContextPack: the files of an accepted context pack lie below it.
func FuzzContextPack(f *testing.F) {
	f.Add([]byte("name: w\nversion: 1\nfiles: [{path: a/b.md, role: r}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		c := &checker{kind: "context-pack", file: "manifest.yaml"}
		p := checkPack(c, data)
		if p == nil || len(c.faults) > 0 {
			return
		}
		if !safeComponent(p.name) {
			t.Fatalf("%q is not a name of a directory", p.name)
		}
		for _, file := range p.files {
			if !bundle.CleanPath(file.path) {
				t.Fatalf("%q is taken", file.path)
			}
		}
	})
}

// FuzzDeclared: settings files and policies of any text are told in bounded,
// printable facts.
func FuzzDeclared(f *testing.F) {
	f.Add("hooks.json", []byte(`{"hooks":{"Stop":[{"command":"x"}]},"permissions":{"allow":["Bash(*)"]},"mcpServers":{"a":{"url":"https://x.y"}}}`))
	f.Add("hooks.yaml", []byte("a: &b {command: x}\nc: *b\n"))
	f.Add("config.toml", []byte("approval_policy = \"never\"\n[mcp_servers.a]\ncommand = 'x'\n"))
	f.Add("p.policy.md", []byte("---\nsurface: config\nallow: [a, b]\n---\nhttps://[::1]:80/ wss://é.example\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		d := &describer{j: &judge{man: &manifest{}, rig: &rigSpec{}}, seen: map[Fact]bool{}, text: map[string][]byte{name: data}, hosts: map[string]string{}}
		d.declared(name, "a.b")
		d.addresses(name, data)
		d.network()
		d.policyFile(name, func(format string, args ...any) { d.fact(FactPermission, "a.b", "", "", format, args...) }, func() {}, func() {})
		if len(d.out.Facts) > maxFacts {
			t.Fatalf("%d facts", len(d.out.Facts))
		}
		for _, fact := range d.out.Facts {
			if !bundle.Printable(fact.Text) {
				t.Fatalf("%q is told", fact.Text)
			}
		}
	})
}
