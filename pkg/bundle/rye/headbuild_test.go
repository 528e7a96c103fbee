package rye

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// headSourceFiles are those of a bundle of the HEAD generation before it is
// signed.
func headSourceFiles() map[string]string {
	return map[string]string{
		headSource:                   "version: 1.0.0\nname: notes\nprovides_kinds: [tool]\nruntime_authority: none\n",
		".ai/tools/notes/save.py":    "#!/usr/bin/env python3\nDEPENDENCIES = [\"httpx>=0.27\"]\nprint('saved')\n",
		".ai/knowledge/notes/how.md": "Short sentences.\n",
		".ai/tools/notes/node.yaml":  "tool: notes\n",
	}
}

// createHead signs the bundle in a folder and writes it.
func createHead(t testing.TB, dir string, change func(o *CreateOptions)) *Creation {
	t.Helper()
	o := CreateOptions{Time: when, Key: ownKey, SignItems: true, Head: true}
	if change != nil {
		change(&o)
	}
	c, err := Create(t.Context(), openDir(t, dir), o)
	if err != nil {
		t.Fatal(err)
	}
	if c.OK() {
		if err := c.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func writeHead(t testing.TB, change func(files map[string]string)) string {
	t.Helper()
	files := headSourceFiles()
	if change != nil {
		change(files)
	}
	dir := writeFiles(t, files)
	if c := createHead(t, dir, nil); !c.OK() {
		t.Fatal(messages(c.Findings))
	}
	return dir
}

func headInstall(t testing.TB, dir, space string) *InstallResult {
	return install(t, dir, space, func(o *InstallOptions) { o.Verify.ID = "" })
}

func headInstalled(t testing.TB, space string) *Report {
	t.Helper()
	r, err := VerifyInstalled(t.Context(), openDir(t, space), Options{ID: "notes", Keys: pin(t, ownKey)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHeadLife is the life of a bundle of the newest generation: created,
// verified, installed, compared, upgraded and removed.
func TestHeadLife(t *testing.T) {
	one := writeHead(t, nil)
	text := get(t, one, headManifest)
	again := writeFiles(t, headSourceFiles())
	if c := createHead(t, again, func(o *CreateOptions) { o.Publisher = "Acme" }); !c.OK() || c.ID != "notes" || c.Version != "1.0.0" || c.Files != 3 {
		t.Fatalf("%+v", c)
	}
	if got := get(t, again, headManifest); got != text {
		t.Errorf("the same input gave\n%s\nthen\n%s", text, got)
	}
	doc, fault := ParseKeyDocument([]byte(get(t, again, publisherFile)))
	if fault != nil || !bytes.Equal(doc.Key, public(ownKey)) || doc.Owner != "Acme" {
		t.Error(doc, fault)
	}
	if !strings.HasPrefix(text, "# ryeos:signed:2026-03-17T01:02:01Z:") || !strings.Contains(text, "\nname: notes\nversion: 1.0.0\nprovides_kinds: [tool]\nrequires_kinds: []\nruntime_authority: none\n") {
		t.Errorf("the manifest is %s", text)
	}
	r := verify(t, one, Options{Keys: pin(t, ownKey)})
	if !r.Verified() || r.Name != "notes" || r.FilesChecked != 3 {
		t.Fatal(r, messages(r.Findings))
	}
	if r := verify(t, one, Options{Keys: pin(t, otherKey)}); r.Verified() {
		t.Error("verified by the word of somebody else")
	}

	space := t.TempDir()
	put(t, space, ".ai/tools/mine.py", "mine\n")
	in := headInstall(t, one, space)
	if in.Status != "installed" || in.FilesWritten == 0 || len(in.Dependencies) != 1 || in.Dependencies[0].List[0] != "httpx>=0.27" {
		t.Fatalf("%+v %v", in, messages(in.Findings))
	}
	place := ".ai/bundles/notes/"
	for p := range headSourceFiles() {
		if p != headSource && get(t, space, place+p) != get(t, one, p) {
			t.Errorf("%s differs from the bundle's", p)
		}
	}
	if r := headInstalled(t, space); !r.Verified() || r.FilesOK == 0 {
		t.Fatal(messages(r.Findings))
	}
	if in := headInstall(t, one, space); in.FilesWritten != 0 || !in.OK() {
		t.Errorf("the second install wrote %d files: %v", in.FilesWritten, messages(in.Findings))
	}
	put(t, space, place+".ai/tools/notes/save.py", "evil\n")
	if r := headInstalled(t, space); r.Verified() {
		t.Error("a changed file was verified")
	}
	put(t, space, place+".ai/tools/notes/save.py", get(t, one, ".ai/tools/notes/save.py"))

	two := writeHead(t, func(files map[string]string) {
		files[headSource] = strings.Replace(files[headSource], "1.0.0", "1.1.0", 1)
		files[".ai/tools/notes/save.py"] = strings.Replace(files[".ai/tools/notes/save.py"], "httpx>=0.27", "requests", 1)
		files[".ai/tools/notes/new.py"] = "print('new')\n"
		delete(files, ".ai/knowledge/notes/how.md")
	})
	d, err := Diff(t.Context(), openDir(t, one), "", openDir(t, two), "", false)
	if err != nil || d.Status != "different" || !slices.Contains(d.Fields, FieldChange{"version", "1.0.0", "1.1.0"}) ||
		!slices.Contains(d.Fields, FieldChange{"dependencies[.ai/tools/notes/save.py]", "httpx>=0.27", "requests"}) {
		t.Errorf("%+v %v", d, err)
	}
	if len(d.Files) != 3 || len(d.Notes) == 0 || d.Notes[0].Code != DependenciesChanged {
		t.Errorf("files %+v notes %+v", d.Files, d.Notes)
	}
	if d, err := Diff(t.Context(), openDir(t, one), "", openDir(t, again), "", false); err != nil || d.Status != "equal" {
		t.Errorf("%+v %v", d, err)
	}
	if in := headInstall(t, two, space); !in.OK() {
		t.Fatal(messages(in.Findings))
	}
	if _, err := os.Lstat(filepath.Join(space, place+".ai/knowledge/notes/how.md")); !os.IsNotExist(err) {
		t.Error("a dropped file is still there:", err)
	}
	if r := headInstalled(t, space); !r.Verified() || r.Version != "1.1.0" {
		t.Fatal(messages(r.Findings))
	}
	if in := headInstall(t, one, space); in.OK() {
		t.Error("an older version was installed over a newer one")
	}
	if b, err := Rebuild(t.Context(), openDir(t, two), ""); err != nil || !b.OK() {
		t.Errorf("%+v %v", b, err)
	}
	put(t, two, headSource, get(t, two, headSource)+"description: other\n")
	if b, err := Rebuild(t.Context(), openDir(t, two), ""); err != nil || b.Status != "differs" {
		t.Errorf("a manifest that its source does not give: %+v %v", b, err)
	}
	u, err := Uninstall(t.Context(), "notes", space, UninstallOptions{State: testState, Confirm: pin(t, ownKey)})
	if err != nil || !u.OK() {
		t.Fatal(err, u)
	}
	if tree := treeOf(t, space); len(tree) != 1 || get(t, space, ".ai/tools/mine.py") != "mine\n" {
		t.Errorf("left behind: %v", tree)
	}
}

// TestHeadRefusals attacks create and install of the newest generation.
func TestHeadRefusals(t *testing.T) {
	name := map[bool]string{true: "create", false: "install"}
	for _, tc := range []struct {
		name   string
		create bool // else the attack is on a finished bundle
		files  map[string]string
		link   string
		code   string
	}{
		{"a lock of another bundle", true, map[string]string{".ai/bundles/other/lock.yaml": "x: 1\n"}, "", PathNotCovered},
		{"in capitals", true, map[string]string{".ai/Bundles/other/x.yaml": "x: 1\n"}, "", PathNotCovered},
		{"an item that reads as a manifest", true, map[string]string{".ai/tools/notes/m.yaml": "name: notes\nversion: 9.0.0\nprovides_kinds: []\nrequires_kinds: []\n"}, "", ManifestMalformed},
		{"a file without a form of signature", true, map[string]string{".ai/tools/notes/x.png": "x"}, "", NoSignatureFormat},
		{"a name that only case tells apart", true, map[string]string{".ai/knowledge/notes/HOW.md": "x\n"}, "", ""},
		{"a link", true, nil, ".ai/tools/notes/l.py", SymlinkFound},
		{"an id with a slash", true, map[string]string{headSource: "version: 1.0.0\nname: a/b\n"}, "", BundleIDInvalid},
		{"a parent as the name", true, map[string]string{headSource: "version: 1.0.0\nname: ..\n"}, "", BundleIDInvalid},
		{"no version", true, map[string]string{headSource: "name: notes\n"}, "", VersionInvalid},
		{"an unknown key", true, map[string]string{headSource: "version: 1.0.0\nname: notes\nrun: rm\n"}, "", ManifestMalformed},
		{"a list of maps", true, map[string]string{headSource: "version: 1.0.0\nname: notes\nprovides_kinds: [{a: b}]\n"}, "", ManifestMalformed},
		{"deep nesting", true, map[string]string{headSource: "version: 1.0.0\nname: notes\nsmoke: " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "\n"}, "", ""},
		{"an alias", true, map[string]string{headSource: "version: &a 1.0.0\nname: notes\ndescription: *a\n"}, "", ""},
		{"an unsigned item", false, map[string]string{".ai/tools/notes/evil.py": "evil\n"}, "", ItemUnsigned},
		{"a link after signing", false, nil, ".ai/tools/notes/l.py", SymlinkFound},
		{"a file of another bundle", false, map[string]string{".ai/bundles/other/x.py": headText(".ai/bundles/other/x.py", "x\n", ownKey)}, "", PathNotCovered},
		{"an item of somebody else", false, map[string]string{".ai/tools/notes/x.py": headText("x.py", "x\n", otherKey)}, "", UntrustedKey},
		{"a manifest of somebody else", false, map[string]string{headManifest: headText("m.yaml", "name: notes\nversion: 1.0.0\nprovides_kinds: []\nrequires_kinds: []\n", otherKey)}, "", UntrustedKey},
		{"a name of two components", false, map[string]string{headManifest: headText("m.yaml", "name: a/b\nversion: 1.0.0\nprovides_kinds: []\nrequires_kinds: []\n", ownKey)}, "", BundleIDInvalid},
	} {
		t.Run(name[tc.create]+" "+tc.name, func(t *testing.T) {
			dir := writeFiles(t, headSourceFiles())
			if !tc.create {
				createHead(t, dir, nil)
			}
			for p, text := range tc.files {
				put(t, dir, p, text)
			}
			if tc.link != "" {
				if err := os.Symlink("save.py", filepath.Join(dir, tc.link)); err != nil {
					t.Skip(err)
				}
			}
			before := treeOf(t, dir)
			var got []string
			space := t.TempDir()
			if tc.create {
				got = codes(createHead(t, dir, nil).Findings)
			} else {
				got = codes(headInstall(t, dir, space).Findings)
			}
			if len(got) == 0 || tc.code != "" && !slices.Contains(got, tc.code) {
				t.Errorf("found %v, want %s", got, tc.code)
			}
			if after := treeOf(t, dir); len(after) != len(before) {
				t.Errorf("what is refused was changed: %v, before %v", after, before)
			}
			if left := treeOf(t, space); len(left) != 0 {
				t.Errorf("the space holds %v", left)
			}
		})
	}
	if c := createHead(t, writeFiles(t, headSourceFiles()), nil); !c.OK() {
		t.Error("positive control:", messages(c.Findings))
	}
}

// headText is a text signed in the form of the newest generation, whatever it
// says.
func headText(name, text string, key []byte) string {
	f, _ := headFormatOf(name)
	return signatureLine(f, []byte(text), key, when) + text
}

// TestSignHead signs single files anew, whatever line they carried.
func TestSignHead(t *testing.T) {
	for name, text := range map[string]string{"a.py": "x = 1\n", "b.md": "# B\n", "c.sh": "#!/bin/sh\necho\n", "d.yaml": "---\na: b\n", "e.py": "#!/usr/bin/env python3"} {
		first, fault := SignHead(name, []byte(text), otherKey, when)
		if fault != nil {
			t.Fatal(name, fault)
		}
		again, fault := SignHead(name, first, ownKey, when)
		if fault != nil || bytes.Count(again, []byte(markerHead)) != 1 {
			t.Errorf("%s: %v\n%s", name, fault, again)
		}
		f, _ := headFormatOf(name)
		if _, _, faults, err := verifyText(again, f, Tool, false, pin(t, ownKey)); err != nil || len(faults) > 0 {
			t.Errorf("%s: %v %v", name, err, messages(faults))
		}
	}
	old, fault := Sign(".ai/tools/a.py", []byte("x = 1\n"), Tool, otherKey, when)
	if fault != nil {
		t.Fatal(fault)
	}
	if got, fault := SignHead("a.py", old, ownKey, when); fault != nil || bytes.Contains(got, []byte(Fingerprint(public(otherKey)))) {
		t.Errorf("the line of the older generation stayed: %v\n%s", fault, got)
	}
	if _, fault := SignHead("a.png", []byte("x"), ownKey, when); fault == nil || fault.Code != NoSignatureFormat {
		t.Error(fault)
	}
}

func FuzzHeadBody(f *testing.F) {
	f.Add([]byte(headSourceFiles()[headSource]), "notes")
	f.Add([]byte("name: [a]\nversion: {}\n"), "")
	f.Add([]byte("a: &a [*a]\n"), "x")
	f.Add([]byte(nil), "notes")
	f.Fuzz(func(t *testing.T, source []byte, id string) {
		id, version, body, faults := headBody(source, CreateOptions{ID: id, Version: "1.0.0"})
		if len(faults) > 0 {
			return
		}
		if m, bad := parseHead(body, headManifest); len(bad) > 0 || m.ID != id || m.Version != version {
			t.Errorf("the body %q of %q is refused: %v", body, source, messages(bad))
		}
		if _, _, again, faults := headBody(body, CreateOptions{}); len(faults) > 0 || !bytes.Equal(again, body) {
			t.Errorf("%q becomes %q: %v", body, again, messages(faults))
		}
	})
}

func FuzzSignHead(f *testing.F) {
	f.Add("a.py", []byte("#!/bin/sh\nx\n"))
	f.Add("a.md", []byte("<!-- x -->\n"))
	f.Add("a.yaml", []byte("# ryeos:signed:x\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if bundle.CheckName(name) != nil {
			return
		}
		out, fault := SignHead(name, data, ownKey, when)
		if fault != nil {
			return
		}
		format, _ := headFormatOf(name)
		_, _, faults, err := verifyText(out, format, Tool, false, pin(t, ownKey))
		if err != nil || len(faults) > 0 {
			t.Errorf("%s: %q is signed as %q, which is refused: %v %v", name, data, out, messages(faults), err)
		}
	})
}

// TestHeadCancelled stops when it is told to.
func TestHeadCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := writeFiles(t, headSourceFiles())
	if _, err := Create(ctx, openDir(t, dir), CreateOptions{Head: true, Time: when, Key: ownKey, SignItems: true}); err == nil {
		t.Error("created nevertheless")
	}
}

// TestHeadOverOlder replaces a bundle of the older generation, and is replaced
// by it: nothing of the other one stays but what was changed.
func TestHeadOverOlder(t *testing.T) {
	dir := writeFiles(t, notesFiles())
	c, err := Create(t.Context(), openDir(t, dir), CreateOptions{ID: "notes", Version: "0.9.0", Time: when, Key: ownKey, SignItems: true})
	if err != nil || !c.OK() {
		t.Fatal(err, messages(c.Findings))
	}
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	older := func(o *InstallOptions) { o.Verify.ID, o.AllowDowngrade = "notes", true }
	for _, changed := range []bool{false, true} {
		space := t.TempDir()
		if in := install(t, dir, space, older); in.Status != "installed" {
			t.Fatal(messages(in.Findings))
		}
		want := 5
		if changed {
			put(t, space, ManifestPath("notes"), "mine\n")
			want++
		}
		if in := headInstall(t, writeHead(t, nil), space); in.Status != "upgraded" || len(in.FilesKept) != want-5 {
			t.Errorf("%+v %v", in, messages(in.Findings))
		}
		if tree := treeOf(t, space); len(tree) != want {
			t.Errorf("%d files, want %d: %v", len(tree), want, tree)
		}
		if changed {
			continue
		}
		if r := headInstalled(t, space); !r.Verified() {
			t.Error(messages(r.Findings))
		}
		if in := install(t, dir, space, older); in.Status != "upgraded" || in.FilesRemoved != 4 {
			t.Errorf("%+v %v", in, messages(in.Findings))
		}
	}
}

// What is hidden in the items of this generation is told, by create and by verify.
func TestHeadTexts(t *testing.T) {
	const p = ".ai/knowledge/notes/hidden.md"
	files := headSourceFiles()
	files[p] = "---\nname: hidden\n---\nIs it?\U000e004f\n"
	c := createHead(t, writeFiles(t, files), nil)
	if c.OK() || c.Code != bundle.HiddenText || c.Findings[0].Path != p {
		t.Fatalf("create: %s", messages(c.Findings))
	}
	allow := []string{c.Findings[0].Key}
	dir := writeFiles(t, files)
	if c := createHead(t, dir, func(o *CreateOptions) { o.Allow = allow }); !c.OK() {
		t.Fatalf("create, allowed: %s", messages(c.Findings))
	}
	for _, want := range []struct {
		allow []string
		ok    bool
	}{{nil, false}, {allow, true}, {[]string{strings.Repeat("0", 32)}, false}} {
		r, err := Verify(t.Context(), openDir(t, dir), Options{Keys: pin(t, ownKey), Allow: want.allow})
		if err != nil {
			t.Fatal(err)
		}
		if r.OK() != want.ok || !want.ok && r.Code != bundle.HiddenText {
			t.Errorf("verify with %v: %s %s", want.allow, r.Code, messages(r.Findings))
		}
	}
}
