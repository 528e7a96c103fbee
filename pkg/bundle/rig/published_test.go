package rig

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rogpeppe/go-internal/txtar"
	"gopkg.in/yaml.v3"
)

// published is what OpenRig's packer makes of one rig.
type published struct {
	Spec  string
	Old   packed `json:"openrig_046"`
	Later packed `json:"with_later_rules"`
}

type packed struct {
	Refused  string
	Files    map[string]string // without bundle.yaml and rig.yaml, to SHA-256
	Rig      string
	Manifest string // without created_at, integrity, provenance
}

// publishedRigs reads testdata/rigbundle/published: rigs of the shapes in
// which people publish them, and what OpenRig made of each.
func publishedRigs(t testing.TB) map[string]published {
	t.Helper()
	var out map[string]published
	b, err := os.ReadFile("../../../testdata/rigbundle/published/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func unpackPublished(t testing.TB, name string) string {
	t.Helper()
	a, err := txtar.ParseFile("../../../testdata/rigbundle/published/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	return writeTree(t, files)
}

// What OpenRig drops of a rig.yaml, by the last part of the field.
var droppedByOpenRig = []string{"managed_blocks", "permission_policy", "non_interruptive", "services", "compaction_strategy", "mechanic",
	"effort", "orientation", "version", "configuration", "compatibility"}

// within tells where want is not in got: every value of want is there, and got
// has no more than OpenRig is known to drop.
func within(want, got *node, at string) (wrong []string) {
	if want.kind != got.kind || want.kind != kindMap && want.kind != kindList && want.text != got.text {
		return []string{at + ": " + compact(want) + " became " + compact(got)}
	}
	if len(want.items) != len(got.items) {
		return []string{at + ": lists of different lengths"}
	}
	for i := range want.items {
		wrong = append(wrong, within(want.items[i], got.items[i], index(at, i))...)
	}
	for _, f := range want.fields {
		if g := got.get(f.key); g != nil {
			wrong = append(wrong, within(f.value, g, dot(at, f.key))...)
		} else if f.value.kind != kindNull {
			wrong = append(wrong, dot(at, f.key)+" is gone")
		}
	}
	for _, f := range got.fields {
		if want.get(f.key) == nil && !slices.Contains(droppedByOpenRig, f.key) {
			wrong = append(wrong, dot(at, f.key)+" is new")
		}
	}
	return wrong
}

// Rigs as people publish them hold the same files when this packer packs them
// as when OpenRig does, byte for byte, and their documents say the same (I03,
// I04, I05).
func TestPublishedRigs(t *testing.T) {
	all := publishedRigs(t)
	if len(all) < 12 {
		t.Fatalf("%d rigs, want 12", len(all))
	}
	for _, name := range sortedKeys(all) {
		p := all[name]
		t.Run(name, func(t *testing.T) {
			dir := unpackPublished(t, name)
			o := Options{Name: "fixture", Version: "1.0.0", CreatedAt: "2026-01-02T03:04:05Z"}
			out := filepath.Join(t.TempDir(), "a.rigbundle")
			r := createIn(t, dir, p.Spec, "", o, out, bundle.Options{})
			if !r.OK() {
				t.Fatalf("%s: %s", r.Code, r.Message)
			}
			if n := noteOf(r, NoteUnknownValue); n != nil {
				t.Errorf("a word of today is not known: %s", n.Detail)
			}
			compareFiles(t, p.Later, filesOf(t, out))
			if r := verifyFile(t, out, bundle.Options{}); !r.OK() {
				t.Errorf("verify: %s %s", r.Code, r.Message)
			}
			if p.Old.Refused != "" {
				return
			}
			o.Form, o.DropServices = FormOpenRig, true
			old := filepath.Join(t.TempDir(), "old.rigbundle")
			if r := createIn(t, dir, p.Spec, "", o, old, bundle.Options{}); !r.OK() {
				t.Fatalf("%s: %s", r.Code, r.Message)
			}
			compareFiles(t, p.Old, filesOf(t, old))
		})
	}
}

type content struct {
	sum  string
	text string
}

func filesOf(t testing.TB, name string) map[string]content {
	t.Helper()
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := bundle.Scan(t.Context(), f, size, profileOf(bundle.DefaultLimits()))
	if err != nil || a.Fault != nil {
		t.Fatalf("%v %v", err, a.Fault)
	}
	out := map[string]content{}
	for i := range a.Members {
		m := &a.Members[i]
		out[m.Name] = content{m.SHA256.Hex(), string(a.Kept[m.Name])}
	}
	return out
}

func compareFiles(t *testing.T, want packed, got map[string]content) {
	t.Helper()
	for name, sum := range want.Files {
		if got[name].sum != sum {
			t.Errorf("%s has another content than OpenRig's, or is not packed", name)
		}
	}
	for name := range got {
		if _, ok := want.Files[name]; !ok && name != "rig.yaml" && name != manifestName {
			t.Errorf("%s is packed, OpenRig does not", name)
		}
	}
	for _, doc := range []struct{ name, text string }{{"rig.yaml", want.Rig}, {manifestName, want.Manifest}} {
		w, fault := parseYAML([]byte(doc.text))
		if fault != nil {
			t.Fatal(fault.msg)
		}
		g, fault := parseYAML([]byte(got[doc.name].text))
		if fault != nil {
			t.Fatal(fault.msg)
		}
		if doc.name == manifestName {
			g.fields = slices.DeleteFunc(g.fields, func(f field) bool { return f.key == "created_at" || f.key == "integrity" })
		} else if ws := w.get("workspace"); ws != nil { // OpenRig makes paths absolute
			for _, repo := range ws.get("repos").items {
				repo.get("path").text = path.Base(repo.get("path").text)
			}
		}
		for _, why := range within(w, g, "") {
			t.Errorf("%s: %s", doc.name, why)
		}
	}
}

// The configurations of a rig are named as OpenRig names them, and are built.
func TestConfigurationsI05(t *testing.T) {
	const want = "dev.build=codex,orch.lead=codex"
	dir := unpackPublished(t, "workshop")
	tree, err := bundle.OpenDirs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	offer, err := Configurations(t.Context(), Format{Source: Source{RigRoot: "."}}, bundle.Input{Name: "rig.yaml", Tree: tree})
	if err != nil || !offer.OK() || !offer.Declared || len(offer.Configurations) != 2 {
		t.Fatalf("%+v %v", offer, err)
	}
	list := offer.Configurations
	if list[0] != (Configuration{"recommended", "dev.build=claude-code,orch.lead=codex", true, true}) || list[1] != (Configuration{"all-codex", want, false, false}) {
		t.Errorf("%+v", list)
	}
	build := func(o Options) (*Result, map[string]content) {
		out := filepath.Join(t.TempDir(), "a.rigbundle")
		o.CreatedAt = "2026-01-02T03:04:05Z"
		r := createIn(t, dir, "rig.yaml", ".", o, out, bundle.Options{})
		if !r.OK() {
			return r, nil
		}
		return r, filesOf(t, out)
	}
	_, files := build(Options{Preset: "all-codex"})
	if man := files[manifestName].text; !strings.Contains(man, "configuration:\n  id: "+want+"\n  preset: all-codex\n") {
		t.Errorf("the manifest says:\n%s", man)
	}
	if strings.Contains(files["rig.yaml"].text, "claude-code") {
		t.Errorf("the preset is not applied:\n%s", files["rig.yaml"].text)
	}
	_, files = build(Options{Seats: []string{"orch.lead=pi"}})
	if text := files["rig.yaml"].text; !strings.Contains(text, "profile: lead-pi\n        runtime: pi\n") {
		t.Errorf("runtime and profile are not set:\n%s", text)
	}
	for name, o := range map[string]Options{
		"no preset of that name": {Preset: "none"},
		"a runtime not offered":  {Seats: []string{"dev.build=pi"}},
		"no such member":         {Seats: []string{"dev.nobody=codex"}},
	} {
		if r, _ := build(o); r.Code != ConfigurationUndeclared {
			t.Errorf("%s: %s %s", name, r.Code, r.Message)
		}
	}
	// a document that contradicts the rig
	text, err := os.ReadFile(filepath.Join(dir, configurationsName))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, code string }{
		"another schema":             {"configurations/v1", "configurations/v2", "configurations-field-value"},
		"recommended is not the rig": {"recommended: recommended", "recommended: all-codex", "configurations-field-value"},
		"recommended is not there":   {"recommended: recommended", "recommended: best", "configurations-field-value"},
		"a preset beyond the seats":  {"dev.build: codex }", "dev.build: pi }", "configurations-field-value"},
		"a seat that nobody has":     {"  dev.build: {", "  dev.other: {", "configurations-field-value"},
		"a preset leaves a seat out": {"{ orch.lead: codex, dev.build: codex }", "{ orch.lead: codex }", "configurations-field-value"},
		"seats are a list":           {"  orch.lead: { runtimes: { claude-code: lead, codex: lead, pi: lead-pi } }\n  dev.build: {", "  - {", "configurations-field-type"},
		"presets are missing":        {"presets:", "presents:", "configurations-field-missing"},
		"not YAML":                   {"schema:", "schema: [", ConfigurationsYAML},
	} {
		changed := strings.Replace(string(text), c.from, c.to, 1)
		if changed == string(text) {
			t.Fatalf("%s: nothing to replace", name)
		}
		if err := os.WriteFile(filepath.Join(dir, configurationsName), []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, _ := build(Options{}); r.Code != c.code {
			t.Errorf("%s: %s %s, want %s", name, r.Code, r.Message, c.code)
		}
	}
}

// A bundle that says another configuration than its rig has is noted, and is
// rebuilt in the configuration that it was built in.
func TestConfigurationRebuild(t *testing.T) {
	dir := unpackPublished(t, "workshop")
	out := filepath.Join(t.TempDir(), "a.rigbundle")
	o := Options{Preset: "all-codex", CreatedAt: "2026-01-02T03:04:05Z"}
	if r := createIn(t, dir, "rig.yaml", ".", o, out, bundle.Options{}); !r.OK() {
		t.Fatalf("%s %s", r.Code, r.Message)
	}
	tree, err := bundle.OpenDirs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	f, size, err := bundle.OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := Rebuild(t.Context(), bundle.Input{Name: "a.rigbundle", File: f, Size: size}, &Source{Tree: tree, Spec: "rig.yaml", RigRoot: "."}, Options{}, bundle.Options{})
	if err != nil || r.Code != bundle.OK {
		t.Errorf("%v %+v", err, r)
	}
	c := &checker{kind: "manifest", file: manifestName}
	root, _ := parseYAML([]byte("configuration: {id: \"dev.build=pi\"}\n"))
	j := &judge{rig: &rigSpec{pods: []pod{{id: "dev", members: []member{{id: "build", runtime: "codex"}}}}}, man: &manifest{root: root}, notes: newNotes()}
	j.startupNotes(".")
	if len(j.told) != 1 || j.told[0].Code != NoteConfigurationDiffers {
		t.Errorf("%v %v", j.notes, c.notes)
	}
}

// The digest of the files is that of openrig.package-digest/v1, as its text says: paths are quoted. (The vector that
// lies beside that text, 951fb725…, comes from a build that did not quote them; all else is equal.)
func TestPackageDigest(t *testing.T) {
	var files []fileHash
	for i, name := range []string{"rig.yaml", "agents/openrig-dev/agent.yaml", "README.md", "agents/openrig-dev/guidance/lead.md"} {
		h, _ := bundle.ParseHex(strings.Repeat(string(rune('1'+i)), 64))
		files = append(files, fileHash{name, h})
	}
	if got, want := packageDigest(files), "sha256:cda24a7d4904e89e29c9513fc1e4916bee782a57b2b6ee43b859a84f4b94fb6a"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := scriptQuote("a\"\\\b\t\n\f\r\x01é\u2028"), `"a\"\\\b\t\n\f\r\u0001é`+"\u2028"+`"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A key that a newer OpenRig brings is taken at every level of every document
// of a published rig, and stays in the packed rig.yaml (I03, I05).
func TestNewKeysEverywhere(t *testing.T) {
	const key = "brought_later"
	values := []string{"later", "{deep: [1, later]}"}
	named := []string{"seats", "presets", "runtimes", "managed_blocks", "profiles"} // maps whose keys are names
	for _, name := range sortedKeys(publishedRigs(t)) {
		p := publishedRigs(t)[name]
		for i, value := range values {
			t.Run(name+"/"+value[:1], func(t *testing.T) {
				dir, inRig := unpackPublished(t, name), 0
				var insert func(n *yaml.Node, at string) int
				insert = func(n *yaml.Node, at string) (added int) {
					for k, c := range n.Content {
						if n.Kind != yaml.MappingNode || k%2 == 1 {
							under := at
							if n.Kind == yaml.MappingNode {
								under = n.Content[k-1].Value
								if at == "presets" { // a map of seats to runtimes
									under = "runtimes"
								}
							}
							added += insert(c, under)
						}
					}
					if n.Kind != yaml.MappingNode || slices.Contains(named, at) && (i == 0 || at != "profiles") {
						return added
					}
					var v yaml.Node
					if err := yaml.Unmarshal([]byte(value), &v); err != nil {
						t.Fatal(err)
					}
					n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, v.Content[0])
					return added + 1
				}
				err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
					base := path.Base(filepath.ToSlash(file))
					if err != nil || d.IsDir() || !slices.Contains([]string{path.Base(p.Spec), "agent.yaml", configurationsName, manifestName}, base) {
						return err
					}
					data, err := os.ReadFile(file)
					var doc yaml.Node
					if err == nil {
						err = yaml.Unmarshal(data, &doc)
					}
					if err != nil || len(doc.Content) == 0 {
						return err
					}
					added := insert(doc.Content[0], "")
					if rel, _ := filepath.Rel(dir, file); filepath.ToSlash(rel) == p.Spec {
						inRig = added
					}
					if data, err = yaml.Marshal(&doc); err == nil {
						err = os.WriteFile(file, data, 0o644)
					}
					return err
				})
				if err != nil || inRig == 0 {
					t.Fatal(inRig, err)
				}
				out := filepath.Join(t.TempDir(), "a.rigbundle")
				r := createIn(t, dir, p.Spec, "", Options{Name: "fixture", Version: "1.0.0", CreatedAt: "2026-01-02T03:04:05Z"}, out, bundle.Options{})
				if !r.OK() {
					t.Fatalf("%s: %s (%s)", r.Code, r.Message, r.Findings[0].Path)
				}
				if noteOf(r, NoteUnknownField) == nil {
					t.Error("nothing is noted")
				}
				if got := strings.Count(filesOf(t, out)["rig.yaml"].text, key+":"); got != inRig {
					t.Errorf("%d of %d new keys are in the packed rig.yaml", got, inRig)
				}
				if r := verifyFile(t, out, bundle.Options{}); !r.OK() {
					t.Errorf("verify: %s %s", r.Code, r.Message)
				}
			})
		}
	}
}
