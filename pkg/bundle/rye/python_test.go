package rye

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// siteFiles are an installed package that announces a bundle.
func siteFiles() map[string]string {
	return map[string]string{
		"acme_notes-1.2.0.dist-info/entry_points.txt": "[console_scripts]\nnotes = acme_notes.cli:main\n\n[rye.bundles]\nacme-notes = acme_notes.bundle:get_bundle\n",
		"acme_notes-1.2.0.dist-info/METADATA":         "Metadata-Version: 2.1\nName: acme-notes\nVersion: 1.2.0\n\nVersion: 9\n",
		"acme_notes/__init__.py":                      "raise SystemExit('was run')\n",
		"acme_notes/bundle.py": `"""The bundle."""
from importlib.metadata import version
from pathlib import Path


def get_bundle() -> dict:
    """Say where the bundle is."""
    return {
        "bundle_id": "acme/notes",
        "version": version("acme-notes"),  # of the package
        "root_path": Path(__file__).parent / "data",
        "categories": ["notes", 'text'],
        "manifest_path": ".ai/bundles/acme/notes/manifest.yaml",
    }
`,
	}
}

func TestEntryPoints(t *testing.T) {
	const info, module = "acme_notes-1.2.0.dist-info/entry_points.txt", "acme_notes/bundle.py"
	good := Root{Path: "acme_notes/data", ID: "acme/notes", Version: "1.2.0", Categories: []string{"notes", "text"}, Manifest: ".ai/bundles/acme/notes/manifest.yaml"}
	returns := func(body string) func(map[string]string) {
		return func(m map[string]string) { m[module] = "def get_bundle():\n    return " + body + "\n" }
	}
	edit := func(file, old, with string) func(map[string]string) {
		return func(m map[string]string) {
			if !strings.Contains(m[file], old) {
				panic(old)
			}
			m[file] = strings.Replace(m[file], old, with, 1)
		}
	}
	other := func(r Root) *Root { return &r }
	for _, tc := range []struct {
		name string
		edit func(map[string]string)
		want *Root
		why  string
	}{
		{"as published", nil, &good, ""},
		{"a package of its own", func(m map[string]string) {
			m["acme_notes/bundle/__init__.py"] = m[module]
			delete(m, module)
		}, other(Root{Path: "acme_notes/bundle/data", ID: good.ID, Version: good.Version, Categories: good.Categories, Manifest: good.Manifest}), ""},
		{"texts only", returns(`{'bundle_id': 'a', "root_path": Path(__file__).resolve().parent}`), &Root{Path: "acme_notes", ID: "a"}, ""},
		{"the folder above", returns(`{"bundle_id": "a", "root_path": Path(__file__).parent.parent}`), &Root{Path: ".", ID: "a"}, ""},
		{"above the site", returns(`{"bundle_id": "a", "root_path": Path(__file__).parent.parent.parent}`), nil, "computes"},
		{"out by ..", returns(`{"bundle_id": "a", "root_path": Path(__file__).parent / ".." / "x"}`), nil, "computes"},
		{"an absolute path", returns(`{"bundle_id": "a", "root_path": Path("/etc")}`), nil, "computes"},
		{"a call", returns(`{"bundle_id": "a", "root_path": find()}`), nil, "computes"},
		{"a sum", returns(`{"bundle_id": "a" + x, "root_path": Path(__file__).parent}`), nil, "computes"},
		{"a format", returns(`{"bundle_id": f"a{x}", "root_path": Path(__file__).parent}`), nil, "computes"},
		{"merged in", returns(`{"bundle_id": "a", "root_path": Path(__file__).parent, **more}`), nil, "not text"},
		{"a key twice", returns(`{"bundle_id": "a", "bundle_id": "b"}`), nil, "twice"},
		{"no map", returns(`dict(bundle_id="a")`), nil, "more than to return a map"},
		{"something first", edit(module, "    return {", "    import os\n    return {"), nil, "more than to return a map"},
		{"defined twice", edit(module, "def get_bundle() -> dict:", "def get_bundle():\n    return {}\n\n\ndef get_bundle() -> dict:"), nil, "twice"},
		{"no such function", edit(info, "bundle:get_bundle", "bundle:other"), nil, "does not define"},
		{"no such module", edit(info, "acme_notes.bundle", "acme_notes.none"), nil, "not there"},
		{"no function", edit(info, ":get_bundle", ""), nil, "expected MODULE:FUNCTION"},
		{"a path as module", edit(info, "acme_notes.bundle", "../acme_notes"), nil, "expected MODULE:FUNCTION"},
		{"version of another package", edit(module, `version("acme-notes")`, `version("pip")`), nil, "takes its version"},
		{"no id", returns(`{"root_path": Path(__file__).parent}`), nil, "bundle id"},
		{"an id with ..", returns(`{"bundle_id": "../a", "root_path": Path(__file__).parent}`), nil, "bundle id"},
		{"no root", returns(`{"bundle_id": "a"}`), nil, "no root_path"},
		{"no end", edit(module, "    }\n", ""), nil, "has no end"},
		{"a root as text", returns(`{"bundle_id": "a", "root_path": "../../etc"}`), nil, "root_path"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := siteFiles()
			if tc.edit != nil {
				tc.edit(files)
			}
			found, faults, err := EntryPoints(openDir(t, writeFiles(t, files)))
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == nil {
				if len(found) > 0 || len(faults) != 1 || faults[0].Code != EntryPointUnread || !strings.Contains(faults[0].Message, tc.why) || faults[0].Hint == "" {
					t.Errorf("%+v %v, want %q", found, messages(faults), tc.why)
				}
				return
			}
			if len(faults) > 0 || len(found) != 1 || !reflect.DeepEqual(found[0].Root, *tc.want) || found[0].Name != "acme-notes" {
				t.Errorf("%+v %v, want %+v", found, messages(faults), *tc.want)
			}
		})
	}
}

// TestEntryPointLinks follows no link to a module or to a list of entry points.
func TestEntryPointLinks(t *testing.T) {
	for _, p := range []string{"acme_notes-1.2.0.dist-info/entry_points.txt", "acme_notes/bundle.py", "acme_notes-1.2.0.dist-info/METADATA"} {
		dir := writeFiles(t, siteFiles())
		aside := filepath.Join(t.TempDir(), "x")
		if err := os.Rename(filepath.Join(dir, p), aside); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(aside, filepath.Join(dir, p)); err != nil {
			t.Skip(err)
		}
		if found, faults, err := EntryPoints(openDir(t, dir)); err != nil || len(found) > 0 || len(faults) == 0 {
			t.Errorf("%s: %+v %v %v", p, found, messages(faults), err)
		}
	}
	big := siteFiles()
	big["acme_notes-1.2.0.dist-info/entry_points.txt"] += strings.Repeat("# x\n", maxEntry)
	if found, faults, err := EntryPoints(openDir(t, writeFiles(t, big))); err != nil || len(found) > 0 || !slices.Contains(codes(faults), LimitExceeded) {
		t.Errorf("%+v %v %v", found, messages(faults), err)
	}
}

func TestToolDependencies(t *testing.T) {
	for _, tc := range []struct{ source, want string }{
		{`DEPENDENCIES = ["httpx>=0.27", 'rich']`, "httpx>=0.27, rich"},
		{"DEPENDENCIES: list[str] = [\n    \"b\",  # why\n    \"a\",\n]\nx = 1", "a, b"},
		{`DEPENDENCIES = ("a",)`, "a"},
		{`DEPENDENCIES = []`, ""},
		{`DEPENDENCIES = load()`, "computed, see the source"},
		{`DEPENDENCIES = ["a"] + more`, "computed, see the source"},
		{`DEPENDENCIES = ["a", *more]`, "computed, see the source"},
		{`DEPENDENCIES = [f"a{x}"]`, "computed, see the source"},
		{`DEPENDENCIES = ["a" "b"]`, "computed, see the source"},
		{"DEPENDENCIES = ['a']\nDEPENDENCIES = ['b']", "computed, see the source"},
		{"DEPENDENCIES = ['a']\nDEPENDENCIES += ['b']", "computed, see the source"},
		{"DEPENDENCIES = ['a']\nDEPENDENCIES.append('b')", "computed, see the source"},
		{"if x:\n    DEPENDENCIES = ['a']", "computed, see the source"},
		{"x = DEPENDENCIES = ['a']", "computed, see the source"},
		{"# DEPENDENCIES = ['a']", "none"},
		{"'''\nDEPENDENCIES = ['a']\n'''", "none"},
		{"print('DEPENDENCIES')", "none"},
	} {
		d := toolDependencies(".ai/tools/a/x.py", []byte(tc.source))
		got := "none"
		if d != nil {
			got = d.text()
		}
		if got != tc.want {
			t.Errorf("%q asks for %q, want %q", tc.source, got, tc.want)
		}
	}
	for _, p := range []string{".ai/knowledge/a/x.py", ".ai/tools/a/x.md"} {
		if d := toolDependencies(p, []byte(`DEPENDENCIES = ["a"]`)); d != nil {
			t.Errorf("%s is no Python tool, but has %v", p, d)
		}
	}
}

// TestDependenciesShown shows what tools ask for where bundles are looked at,
// and calls out a change of it.
func TestDependenciesShown(t *testing.T) {
	files := notesFiles()
	files[savePy] = "DEPENDENCIES = ['httpx']\n" + files[savePy]
	one := writeBundle(t, "1.0.0", files)
	files[savePy] = strings.Replace(files[savePy], "['httpx']", "load()", 1)
	two := writeBundle(t, "1.0.1", files)
	in, err := Inspect(t.Context(), openDir(t, one), "")
	if err != nil || len(in.Dependencies) != 1 || in.Dependencies[0].Path != savePy || in.Dependencies[0].Line != 2 {
		t.Errorf("%+v %v", in.Dependencies, err)
	}
	if r := install(t, one, t.TempDir(), nil); len(r.Dependencies) != 1 {
		t.Errorf("%+v", r.Dependencies)
	}
	for _, pair := range [][2]string{{one, two}, {two, one}, {one, writeBundle(t, "1.0.1", notesFiles())}} {
		d, err := Diff(t.Context(), openDir(t, pair[0]), "", openDir(t, pair[1]), "", false)
		if err != nil || len(d.Notes) != 1 || d.Notes[0].Code != DependenciesChanged || d.Notes[0].Path != savePy {
			t.Errorf("%+v %v", d, err)
		}
	}
	files[savePy] += "# other\n"
	d, err := Diff(t.Context(), openDir(t, two), "", openDir(t, writeBundle(t, "1.0.2", files)), "", false)
	if err != nil || slices.ContainsFunc(d.Notes, func(n bundle.Note) bool { return n.Code == DependenciesChanged }) {
		t.Errorf("%+v %v", d, err)
	}
}

func FuzzEntryPoints(f *testing.F) {
	site := siteFiles()
	f.Add(site["acme_notes/bundle.py"], site["acme_notes-1.2.0.dist-info/entry_points.txt"])
	f.Add("def get_bundle():\n return {'''", "[rye.bundles]\na=b:c")
	f.Add(strings.Repeat("(", 5000), "[rye.bundles]\n")
	f.Fuzz(func(t *testing.T, source, list string) {
		for _, tok := range pyTokens(source) {
			if tok.line < 1 || tok.line > strings.Count(source, "\n")+1 || tok.col < 0 {
				t.Fatalf("token %+v of %q", tok, source)
			}
		}
		for _, e := range parseEntryPoints(list) {
			if strings.ContainsAny(e[0]+e[1], "\n") {
				t.Errorf("%q", e)
			}
		}
		fields, why := pyReturns(pyTokens(source), "get_bundle", "acme_notes")
		if (fields == nil) == (why == "") {
			t.Errorf("%v %q", fields, why)
		}
		if d := toolDependencies(".ai/tools/a/x.py", []byte("DEPENDENCIES = "+source)); d == nil || d.Open && len(d.List) > 0 && d.text() != "computed, see the source" {
			t.Errorf("%+v of %q", d, source)
		}
		for key, v := range fields {
			if v.file && !bundle.CleanPath(v.text) && v.text != "." {
				t.Errorf("%s of %q leads out of the site: %q", key, source, v.text)
			}
		}
	})
}

// TestPythonIsLinear reads a long source in time that grows as it does.
func TestPythonIsLinear(t *testing.T) {
	for _, text := range []string{"'''", "\"\\", "DEPENDENCIES ", "f'x' ", "(\n"} {
		source := strings.Repeat(text, maxPython/len(text))
		if n := len(pyTokens(source)); n > maxPython {
			t.Error(text, n)
		}
		toolDependencies(".ai/tools/a/x.py", []byte(source))
	}
}
