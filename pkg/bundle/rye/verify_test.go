package rye

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const savePy = ".ai/tools/team/notes/save.py"

// TestVerifyKinds damages one good bundle in every way that a code stands for.
// The first case is the control: the same bundle, untouched, is verified.
func TestVerifyKinds(t *testing.T) {
	manifest := ManifestPath(notesID)
	type env struct {
		t   *testing.T
		dir string
		o   *Options
	}
	edit := func(p string, change func(string) string) func(e env) {
		return func(e env) { put(e.t, e.dir, p, change(get(e.t, e.dir, p))) }
	}
	sub := func(old, with string) func(string) string {
		return func(s string) string {
			if !strings.Contains(s, old) {
				t.Fatalf("%q is not in the text", old)
			}
			return strings.Replace(s, old, with, 1)
		}
	}
	signed := func(change func(string) string) func(e env) {
		return func(e env) {
			resign(e.t, e.dir, ownKey, func(b string) string { return change(withoutDigest(b)) })
		}
	}
	line1 := func(change func(string) string) func(string) string {
		return func(s string) string {
			line, rest, _ := strings.Cut(s, "\n")
			return change(line) + "\n" + rest
		}
	}
	link := func(at, target string) func(e env) {
		return func(e env) {
			p := filepath.Join(e.dir, at)
			if err := os.RemoveAll(p); err != nil {
				e.t.Fatal(err)
			}
			if err := os.Symlink(target, p); err != nil {
				e.t.Skip("no symlinks here")
			}
		}
	}
	fp := Fingerprint(public(ownKey))
	for _, c := range []struct {
		name    string
		do      func(e env)
		codes   string // blank-separated
		valid   bool   // manifest_valid
		checked int
		ok      int
	}{
		{"untouched", func(env) {}, "", true, 9, 9},
		{"one byte of a file", edit(savePy, sub("saved", "sawed")), HashMismatch, true, 9, 8},
		{"text outside of the directive tag", edit(".ai/directives/team/notes/write.md", sub("Then", "Now")), HashMismatch, true, 9, 8},
		{"file with CRLF", edit(savePy, func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }), HashMismatch, true, 9, 8},
		{"one byte of an asset", edit(".ai/tools/team/notes/paper.png", sub("PNG", "GNP")), HashMismatch, true, 9, 8},
		{"one byte of the manifest", edit(manifest, sub("version: 1.0.0", "version: 1.0.1")), ContentModified, false, 0, 0},
		{"hash field of the line", edit(manifest, line1(func(l string) string {
			return l[:35] + map[bool]string{true: "0", false: "1"}[l[35] != '0'] + l[36:]
		})), ContentModified, false, 0, 0},
		{"first character of the signature", edit(manifest, line1(func(l string) string {
			i := strings.LastIndex(l[:len(l)-20], ":") + 1
			return l[:i] + map[bool]string{true: "A", false: "B"}[l[i] != 'A'] + l[i+1:]
		})), SignatureInvalid, false, 0, 0},
		{"unused bits of the signature", edit(manifest, line1(func(l string) string {
			i := strings.Index(l, "==")
			return l[:i-1] + string(l[i-1]+1) + l[i:]
		})), SignatureEncoding, false, 0, 0},
		{"no padding", edit(manifest, sub("==:", ":")), "", true, 9, 9},
		{"one =", edit(manifest, sub("==:", "=:")), SignatureEncoding, false, 0, 0},
		{"standard base64", edit(manifest, line1(func(l string) string {
			i := strings.Index(l, "==")
			return l[:i-86] + "+" + l[i-85:]
		})), SignatureEncoding, false, 0, 0},
		{"another time in the line", edit(manifest, sub("signed:2026", "signed:2036")), "", true, 9, 9},
		{"an impossible time", edit(manifest, sub("signed:2026-03-17", "signed:2026-02-30")), SignatureMalformed, false, 0, 0},
		{"a fraction of a second", edit(manifest, sub("01Z:", "01.5Z:")), SignatureMalformed, false, 0, 0},
		{"provenance on the manifest", edit(manifest, line1(func(l string) string { return l + "|reg@mallory" })), UnsignedProvenance, false, 0, 0},
		{"text after the fingerprint", edit(manifest, line1(func(l string) string { return l + " ok" })), SignatureMalformed, false, 0, 0},
		{"long fingerprint", edit(manifest, sub(fp+"\n", LongFingerprint(public(ownKey))+"\n")), FormatUnsupported, false, 0, 0},
		{"upper-case fingerprint", edit(manifest, sub(fp+"\n", strings.ToUpper(fp)+"\n")), SignatureMalformed, false, 0, 0},
		{"two blanks", edit(manifest, sub("# rye", "#  rye")), SignatureMalformed, false, 0, 0},
		{"no blank", edit(manifest, sub("# rye", "#rye")), SignatureMalformed, false, 0, 0},
		{"legacy marker", edit(manifest, sub("rye:signed", "rye:validated")), FormatUnsupported, false, 0, 0},
		{"newer marker", edit(manifest, sub("rye:signed", "ryeos:signed")), FormatUnsupported, false, 0, 0},
		{"no line", edit(manifest, func(s string) string { _, s, _ = strings.Cut(s, "\n"); return s }), ManifestUnsigned, false, 0, 0},
		{"line without line feed and body", edit(manifest, func(s string) string { s, _, _ = strings.Cut(s, "\n"); return s }), SignatureMalformed, false, 0, 0},
		{"manifest with CRLF", edit(manifest, func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }), NewlineChanged, false, 0, 0},
		{"one lone CR", edit(manifest, sub("team/notes\n", "team/notes\r")), NewlineChanged, false, 0, 0},
		{"byte order mark", edit(manifest, func(s string) string { return "\ufeff" + s }), SignatureMisplaced, false, 0, 0},
		{"blank line first", edit(manifest, func(s string) string { return " \n\n" + s }), SignatureMisplaced, false, 0, 0},
		{"shebang first", edit(manifest, func(s string) string { return "#!/bin/sh\n" + s }), SignatureMisplaced, false, 0, 0},
		{"shebang after the line", edit(manifest, sub("\nbundle:", "\n#!/bin/sh\nbundle:")), ContentModified, false, 0, 0},
		{"five lines first", edit(manifest, func(s string) string { return "\n\n\n\n\n" + s }), ManifestUnsigned, false, 0, 0},
		{"not UTF-8", edit(manifest, func(s string) string { return s + "\xff" }), NotUTF8, false, 0, 0},
		{"no manifest", func(e env) { os.Remove(filepath.Join(e.dir, manifest)) }, ManifestMissing, false, 0, 0},
		{"manifest is a folder", func(e env) {
			os.Remove(filepath.Join(e.dir, manifest))
			os.Mkdir(filepath.Join(e.dir, manifest), 0o755)
		}, NotRegularFile, false, 0, 0},
		{"manifest is a link", func(e env) {
			put(e.t, e.dir, "m.yaml", get(e.t, e.dir, manifest))
			link(manifest, "../../../../m.yaml")(e)
		}, SymlinkFound, false, 0, 0},
		{".ai is a link", func(e env) {
			os.Rename(filepath.Join(e.dir, ".ai"), filepath.Join(e.dir, "ai"))
			link(".ai", "ai")(e)
		}, SymlinkFound, false, 0, 0},
		{"manifest over 4 MiB", edit(manifest, func(s string) string { return s + strings.Repeat("#\n", 2<<20) }), LimitExceeded, false, 0, 0},
		{"signed by another key in the own name", func(e env) {
			resign(e.t, e.dir, otherKey, nil)
			edit(manifest, sub(Fingerprint(public(otherKey)), fp))(e)
		}, SignatureInvalid, false, 0, 0},
		{"signed by another key", func(e env) { resign(e.t, e.dir, otherKey, nil) }, UntrustedKey, false, 0, 0},
		{"everything signed by another key, its document in the bundle", func(e env) {
			_, doc, _ := OwnDocument(otherKey, "mallory", when)
			put(e.t, e.dir, ".ai/config/keys/trusted/"+Fingerprint(public(otherKey))+".toml", string(doc))
			resign(e.t, e.dir, otherKey, nil)
		}, UntrustedKey, false, 0, 0},
		{"file lost", func(e env) { os.Remove(filepath.Join(e.dir, savePy)) }, FileMissing, true, 9, 8},
		{"file added", func(e env) { put(e.t, e.dir, ".ai/tools/team/notes/evil.py", "x\n") }, ExtraFile, true, 9, 9},
		{"file added, allowed", func(e env) {
			put(e.t, e.dir, ".ai/tools/team/notes/evil.py", "x\n")
			e.o.AllowExtra = true
		}, ExtraFile, true, 9, 9},
		{"file beside the manifest", func(e env) { put(e.t, e.dir, ".ai/bundles/team/notes/readme.md", "x\n") }, ExtraFile, true, 9, 9},
		{"old key folder", func(e env) { put(e.t, e.dir, ".ai/trusted_keys/a.toml", "x\n") }, ExtraFile, true, 9, 9},
		{"files elsewhere and empty folders", func(e env) {
			put(e.t, e.dir, ".ai/objects/x", "x\n")
			put(e.t, e.dir, "README.md", "x\n")
			os.MkdirAll(filepath.Join(e.dir, ".ai/tools/empty/er"), 0o755)
		}, "", true, 9, 9},
		{"link added", link(".ai/tools/team/notes/evil.py", "save.py"), ExtraFile + " " + SymlinkFound, true, 9, 9},
		{"link added, extra files allowed", func(e env) {
			link(".ai/tools/team/notes/evil.py", "save.py")(e)
			e.o.AllowExtra = true
		}, ExtraFile + " " + SymlinkFound, true, 9, 9},
		{"file replaced by a link to the same bytes", func(e env) {
			put(e.t, e.dir, "out.py", get(e.t, e.dir, savePy))
			link(savePy, "../../../../out.py")(e)
		}, SymlinkFound, true, 9, 8},
		{"folder replaced by a link", func(e env) {
			os.Rename(filepath.Join(e.dir, ".ai/tools/team/notes-extra"), filepath.Join(e.dir, "moved"))
			link(".ai/tools/team/notes-extra", "../../../moved")(e)
		}, ExtraFile + " " + SymlinkFound, true, 9, 8},
		{"file replaced by an empty folder", func(e env) {
			os.Remove(filepath.Join(e.dir, savePy))
			os.Mkdir(filepath.Join(e.dir, savePy), 0o755)
		}, NotRegularFile, true, 9, 8},
		{"folder replaced by a file", func(e env) {
			os.RemoveAll(filepath.Join(e.dir, ".ai/tools/team/notes-extra"))
			put(e.t, e.dir, ".ai/tools/team/notes-extra", "x")
		}, ExtraFile + " " + FileMissing, true, 9, 8},
		{"executable bit", func(e env) { os.Chmod(filepath.Join(e.dir, savePy), 0o755) }, "", true, 9, 9},
		{"folder of the manifest renamed", func(e env) {
			os.Rename(filepath.Join(e.dir, ".ai/bundles/team"), filepath.Join(e.dir, ".ai/bundles/other"))
			e.o.ID = "other/notes"
		}, BundleIDMismatch, false, 9, 9},
		{"id argument climbs", func(e env) { e.o.ID = "../x" }, BundleIDInvalid, false, 0, 0},

		{"signed item, line stripped", func(e env) {
			plain := notesFiles()[savePy]
			put(e.t, e.dir, savePy, plain)
			resign(e.t, e.dir, ownKey, func(b string) string { return relist(e.t, withoutDigest(b), savePy, plain) })
		}, ItemUnsigned, true, 9, 8},
		{"item edited after signing, listed anew", func(e env) {
			text := sub("saved", "sawed")(get(e.t, e.dir, savePy))
			put(e.t, e.dir, savePy, text)
			resign(e.t, e.dir, ownKey, func(b string) string { return relist(e.t, withoutDigest(b), savePy, text) })
		}, ContentModified, true, 9, 8},
		{"item signed by another key", func(e env) {
			text, _ := Sign(savePy, []byte(notesFiles()[savePy]), Tool, otherKey, when)
			put(e.t, e.dir, savePy, string(text))
			resign(e.t, e.dir, ownKey, func(b string) string { return relist(e.t, withoutDigest(b), savePy, string(text)) })
		}, UntrustedKey, true, 9, 8},
		{"unsigned item, said so", func(e env) {
			plain := notesFiles()[savePy]
			put(e.t, e.dir, savePy, plain)
			resign(e.t, e.dir, ownKey, func(b string) string {
				b = relist(e.t, withoutDigest(b), savePy, plain)
				i := strings.Index(b, savePy)
				return b[:i] + strings.Replace(b[i:], "inline_signed: true", "inline_signed: false", 1)
			})
		}, InlineUnsigned, true, 9, 9},
		{"asset that claims a signature", signed(func(b string) string {
			i := strings.Index(b, "paper.png")
			return b[:i] + strings.Replace(b[i:], "inline_signed: false", "inline_signed: true", 1)
		}), NoSignatureFormat, true, 9, 8},
		{"hash in upper case", signed(func(b string) string {
			i := strings.Index(b, "object_hash: ") + 13
			return b[:i] + strings.ToUpper(b[i:i+64]) + b[i+64:]
		}), EntryMalformed, true, 9, 8},
		{"inline_signed: yes", signed(sub("inline_signed: true", "inline_signed: yes")), EntryMalformed, true, 9, 8},
		{"entry is a text", signed(sub(savePy+":\n", savePy+": x\n  .ai/tools/y:\n")), EntryMalformed + " " + FileMissing, true, 10, 8},
		{"no hash", signed(func(b string) string {
			i := strings.Index(b, "    object_hash: ")
			return b[:i] + b[i+len("    object_hash: ")+65:]
		}), EntryHashMissing, true, 9, 8},
		{"both hashes, one wrong", signed(sub("    inline_signed", "    sha256: '"+strings.Repeat("0", 64)+"'\n    inline_signed")), HashMismatch, true, 9, 8},
		{"wrong item_type", signed(sub("item_type: tool", "item_type: asset")), ItemTypeMismatch, true, 9, 8},
		{"no item_type, no digest", signed(func(b string) string {
			return strings.ReplaceAll(strings.ReplaceAll(b, "    item_type: tool\n", ""), "    item_type: config\n", "")
		}), "", true, 9, 9},
		{"unknown keys", signed(sub("  version:", "  future: [a, {b: c}]\n  version:")), "", true, 9, 9},
		{"wrong digest", func(e env) {
			resign(e.t, e.dir, ownKey, sub("version: 1.0.0", "version: 1.0.1"))
		}, ManifestDigestMismatch, false, 9, 9},
		{"version of two parts", signed(sub("version: 1.0.0", "version: '1.0'")), VersionInvalid, false, 9, 9},
		{"version with a leading zero", signed(sub("version: 1.0.0", "version: 01.0.0")), VersionInvalid, false, 9, 9},
		{"entrypoint of no item", signed(sub("entrypoint: ''", "entrypoint: team/notes/none")), EntrypointMissing, false, 9, 9},
		{"entrypoint of an item", signed(sub("entrypoint: ''", "entrypoint: team/notes/save")), "", true, 9, 9},

		{"no YAML", signed(func(string) string { return "a: [\n" }), YAMLInvalid, false, 0, 0},
		{"empty body", signed(func(string) string { return "" }), YAMLInvalid, false, 0, 0},
		{"tag", signed(sub("version: 1.0.0", "version: !!str 1.0.0")), YAMLInvalid, false, 0, 0},
		{"non-specific tag", signed(sub("version: 1.0.0", "version: ! 1.0.0")), YAMLInvalid, false, 0, 0},
		{"directive", signed(func(b string) string { return "%YAML 1.1\n---\n" + b }), YAMLInvalid, false, 0, 0},
		{"tag directive", signed(func(b string) string { return "# x\n%TAG ! tag:x,2000:\n---\n" + b }), YAMLInvalid, false, 0, 0},
		{"one document with its marker", signed(func(b string) string { return "---\n" + b }), "", true, 9, 9},
		{"two documents", signed(func(b string) string { return b + "---\nx: y\n" }), YAMLInvalid, false, 0, 0},
		{"empty second document", signed(func(b string) string { return b + "---\n" }), YAMLInvalid, false, 0, 0},
		{"merge key", signed(func(b string) string { return b + "<<: {x: y}\n" }), YAMLInvalid, false, 0, 0},
		{"mapping as a key", signed(func(b string) string { return b + "? {x: y}\n: z\n" }), YAMLInvalid, false, 0, 0},
		{"anchor", signed(sub("type: package", "type: &a package")), YAMLAlias, false, 0, 0},
		{"alias", signed(func(b string) string { return sub("type: package", "type: &a package")(b) + "x: *a\n" }), YAMLAlias, false, 0, 0},
		{"key twice", signed(sub("  type:", "  version: 2.0.0\n  type:")), YAMLDuplicateKey, false, 0, 0},
		{"key twice, once quoted", signed(sub("  type:", "  'version': 2.0.0\n  type:")), YAMLDuplicateKey, false, 0, 0},
		{"path twice", signed(func(b string) string { return b + "  " + savePy + ": {}\n" }), YAMLDuplicateKey, false, 0, 0},
		{"no bundle section", signed(sub("bundle:", "bumble:")), ManifestMalformed, false, 0, 0},
		{"version is a list", signed(sub("version: 1.0.0", "version: [1]")), ManifestMalformed, false, 0, 0},
		{"no id", signed(sub("  id: team/notes\n", "")), ManifestMalformed, false, 0, 0},
		{"files is a list", signed(func(b string) string { i := strings.Index(b, "files:"); return b[:i] + "files: [a]\n" }), ManifestMalformed, false, 0, 0},
		{"files is empty", signed(func(b string) string { i := strings.Index(b, "files:"); return b[:i] + "files: {}\n" }), FilesEmpty, false, 0, 0},
		{"nesting of 9", signed(func(b string) string { return b + "x: [[[[[[[[a]]]]]]]]\n" }), LimitExceeded, false, 0, 0},
		{"nesting of 8", signed(func(b string) string { return b + "x: [[[[[[[a]]]]]]]\n" }), "", true, 9, 9},
		{"path of 513 bytes", signed(func(b string) string { return b + "  .ai/tools/" + strings.Repeat("a", 503) + ": {}\n" }), LimitExceeded, false, 0, 0},
		{"path of 512 bytes", signed(func(b string) string { return b + "  .ai/tools/" + strings.Repeat("a", 502) + ": {}\n" }), EntryHashMissing + " " + FileMissing, true, 10, 9},
		{"50 001 entries", signed(func(b string) string {
			var s strings.Builder
			for i := range 50_001 - 9 {
				fmt.Fprintf(&s, "  .ai/tools/%d: {}\n", i)
			}
			return b + s.String()
		}), LimitExceeded, false, 0, 0},
		{"id climbs", signed(sub("id: team/notes", "id: '../notes'")), BundleIDInvalid, false, 0, 0},
		{"id ends in a dot", signed(sub("id: team/notes", "id: team/notes.")), BundleIDInvalid, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := writeBundle(t, "1.0.0", notesFiles())
			o := Options{ID: notesID, Keys: pin(t, ownKey)}
			c.do(env{t, dir, &o})
			before := treeOf(t, dir)
			tree := openDir(t, dir)
			o.Keys.Bundle = tree
			r, err := Verify(t.Context(), tree, o)
			if err != nil {
				t.Fatal(err)
			}
			wantCodes(t, r, strings.Fields(c.codes)...)
			if r.ManifestValid != c.valid || r.FilesChecked != c.checked || r.FilesOK != c.ok {
				t.Errorf("valid %v, checked %d, ok %d, want %v %d %d", r.ManifestValid, r.FilesChecked, r.FilesOK, c.valid, c.checked, c.ok)
			}
			if r.Verified() != (len(r.Findings) == 0) || r.FilesChecked != r.FilesOK+len(r.FilesMissing)+r.More.Missing+len(r.FilesTampered)+r.More.Tampered {
				t.Errorf("report does not add up: %+v", r)
			}
			for _, f := range r.Findings {
				if strings.HasSuffix(f.Message, ".") || strings.Contains(f.Message, "\n") || f.Message == "" {
					t.Errorf("message %q", f.Message)
				}
			}
			if !reflect.DeepEqual(treeOf(t, dir), before) {
				t.Error("verifying changed the tree")
			}
		})
	}
}

// relist puts the object_hash of a text into the entry of a path.
func relist(t *testing.T, body, p, text string) string {
	i := strings.Index(body, p+":\n")
	j := strings.Index(body[i:], "object_hash: ")
	if i < 0 || j < 0 {
		t.Fatal("no entry")
	}
	i += j + len("object_hash: ")
	return body[:i] + scalar(ObjectHash(p, []byte(text))) + body[i+64:]
}

// TestPathRules gives each unsafe path to a manifest that the key has signed.
func TestPathRules(t *testing.T) {
	for p, want := range map[string]string{
		".ai/tools/a":                     "",
		".ai/plans/a":                     "",
		".ai/lockfiles/a b":               "",
		".ai/tools/ß/…":                   "",
		".ai/tools/../../x":               PathUnsafe,
		"/etc/passwd":                     PathUnsafe,
		"../x":                            PathUnsafe,
		".ai/tools/./x":                   PathUnsafe,
		".ai/tools//x":                    PathUnsafe,
		".ai/tools/x/":                    PathUnsafe,
		"":                                PathUnsafe,
		`.ai/tools/a\b`:                   PathUnsafe,
		"C:/x":                            PathUnsafe,
		".ai/tools/a:b":                   PathUnsafe,
		".ai/tools/.GIT/config":           PathUnsafe,
		".ai/tools/git~1/config":          PathUnsafe,
		".ai/tools/GIT~1":                 PathUnsafe,
		".ai/tools/a.":                    PathUnsafe,
		".ai/tools/a /b":                  PathUnsafe,
		".ai/tools/a\tb":                  PathUnsafe,
		".ai/tools/a\u0085b":              PathUnsafe,
		".ai/tools/u\u0308":               PathUnsafe,
		"README.md":                       PathNotCovered,
		".ai/x":                           PathNotCovered,
		".ai/tools":                       PathNotCovered,
		".ai/Tools/x":                     PathNotCovered,
		".ai/bundles/other/manifest.yaml": PathNotCovered,
		".ai/objects/x":                   PathNotCovered,
	} {
		got := ""
		if f := checkPath(p); f != nil {
			got = f.Code
		}
		if got != want {
			t.Errorf("%q: %s, want %s", p, got, want)
		}
	}
	for _, c := range []struct {
		paths []string
		want  []string
	}{
		{[]string{".ai/tools/a", ".ai/tools/b"}, nil},
		{[]string{".ai/tools/hello.py", ".ai/tools/Hello.py"}, []string{PathCollision}},
		{[]string{".ai/tools/straße", ".ai/tools/STRASSE"}, []string{PathCollision}}, // full folding, not simple
		{[]string{".ai/tools/a", ".ai/tools/a/b"}, []string{PathCollision}},
		{[]string{".ai/tools/A", ".ai/tools/a/b"}, []string{PathCollision}},
		{[]string{".ai/tools/../a", "README"}, []string{PathNotCovered, PathUnsafe}},
	} {
		if got := codes(checkPaths(c.paths)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, want %v", c.paths, got, c.want)
		}
	}
}

// TestSha256Generation verifies a manifest that lists plain hashes.
func TestSha256Generation(t *testing.T) {
	dir := writeBundle(t, "1.0.0", notesFiles())
	resign(t, dir, ownKey, func(b string) string {
		b = withoutDigest(b)
		for p := range notesFiles() {
			text := get(t, dir, p)
			b = strings.Replace(b, "object_hash: "+scalar(ObjectHash(p, []byte(text))), "sha256: "+scalar(hexSum([]byte(text))), 1)
		}
		return b
	})
	wantCodes(t, verify(t, dir, Options{ID: notesID, Keys: pin(t, ownKey)}))
	put(t, dir, savePy, get(t, dir, savePy)+"\n")
	wantCodes(t, verify(t, dir, Options{ID: notesID, Keys: pin(t, ownKey)}), HashMismatch)
}

func TestChoice(t *testing.T) {
	dir := writeBundle(t, "1.0.0", notesFiles())
	o := Options{Keys: pin(t, ownKey)}
	if r := verify(t, dir, o); !r.Verified() || r.Name != notesID {
		t.Errorf("the only bundle was not taken: %+v", r)
	}
	put(t, dir, ".ai/bundles/second/manifest.yaml", "x")
	if _, err := Verify(t.Context(), openDir(t, dir), o); err != ErrBundles {
		t.Errorf("two bundles: %v", err)
	}
	if _, err := Verify(t.Context(), openDir(t, t.TempDir()), o); err != ErrBundles {
		t.Errorf("no bundle: %v", err)
	}
}

func TestReportKeys(t *testing.T) {
	dir := writeBundle(t, "1.0.0", notesFiles())
	data, err := json.Marshal(verify(t, dir, Options{ID: notesID, Keys: pin(t, ownKey)}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"schema_version":"1.0","command":"verify","code":"ok","message":"the bundle is verified","findings":[],"notes":[],"codes":[],` +
		`"name":"team/notes","version":"1.0.0",` +
		`"status":"verified","manifest_valid":true,"files_checked":9,"files_ok":9,"files_missing":[],"files_tampered":[],` +
		`"files_extra":[],"signer":"` + Fingerprint(public(ownKey)) + `","trust":"pinned"}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
}

// TestHead covers the HEAD generation with text and key of our own.
func TestHead(t *testing.T) {
	yaml, _ := headFormatOf("x.yaml")
	py, _ := headFormatOf("x.py")
	md, _ := headFormatOf("x.md")
	ts, _ := headFormatOf("x.ts")
	manifest := "name: team-notes\nversion: 0.1.0\n"
	files := func() map[string]string {
		return map[string]string{
			headManifest:                     headLine(yaml, manifest, ownKey) + manifest,
			headSource:                       manifest,
			".ai/tools/notes/a.yaml":         headLine(yaml, "a: 1\r\n", ownKey) + "a: 1\r\n",
			".ai/tools/notes/lib/b.py":       "#! /usr/bin/env python3\n" + headLine(py, "b = 1\n", ownKey) + "b = 1\n",
			".ai/knowledge/notes/c.md":       headLine(md, "---\nx: y\n---\n c \n", ownKey) + "---\nx: y\n---\n c \n",
			".ai/tools/notes/d.mjs":          headLine(ts, "", ownKey),
			".ai/config/keys/trusted/e.toml": headLine(yaml, "x = 1\n", ownKey) + "x = 1\n",
			"PUBLISHER_TRUST.toml": "public_key = \"" + keyText(public(ownKey)) + "\"\nfingerprint = \"" +
				LongFingerprint(public(ownKey)) + "\"\nowner = \"notes\"\n",
		}
	}
	const a = ".ai/tools/notes/a.yaml"
	for _, c := range []struct {
		name   string
		do     func(f map[string]string)
		id     string
		codes  string
		ok     int
		noPins bool
	}{
		{"untouched", func(map[string]string) {}, "team-notes", NoFileList, 5, false},
		{"no id given", func(map[string]string) {}, "", NoFileList, 5, false},
		{"publisher's document alone", func(map[string]string) {}, "team-notes", UntrustedKey, 0, true},
		{"byte of an item", func(f map[string]string) { f[a] = strings.Replace(f[a], "a: 1", "a: 2", 1) }, "team-notes", ContentModified + " " + NoFileList, 4, false},
		{"CRLF", func(f map[string]string) {
			f[a] = strings.ReplaceAll(strings.ReplaceAll(f[a], "\r\n", "\n"), "\n", "\r\n")
		}, "team-notes", NoFileList + " " + SignatureMalformed, 4, false},
		{"CRLF in an item that had LF", func(f map[string]string) {
			f[".ai/tools/notes/lib/b.py"] = strings.ReplaceAll(f[".ai/tools/notes/lib/b.py"], "\n", "\r\n")
		}, "team-notes", ContentModified + " " + NoFileList, 4, false},
		{"unsigned code in lib", func(f map[string]string) { f[".ai/tools/notes/lib/evil.py"] = "x\n" }, "team-notes", ItemUnsigned + " " + NoFileList, 5, false},
		{"file that cannot be signed", func(f map[string]string) { f[".ai/tools/notes/x.txt"] = "x\n" }, "team-notes", NoFileList + " " + NoSignatureFormat, 5, false},
		{"item with the older marker", func(f map[string]string) { f[a] = strings.Replace(f[a], "ryeos:", "rye:", 1) }, "team-notes", FormatUnsupported + " " + NoFileList, 4, false},
		{"base64url", func(f map[string]string) {
			i := strings.Index(f[a], "==:")
			f[a] = f[a][:i-86] + "_" + f[a][i-85:]
		}, "team-notes", NoFileList + " " + SignatureEncoding, 4, false},
		{"no padding", func(f map[string]string) { f[a] = strings.Replace(f[a], "==:", ":", 1) }, "team-notes", NoFileList + " " + SignatureEncoding, 4, false},
		{"provenance", func(f map[string]string) { f[a] = strings.Replace(f[a], "\n", "|a@b\n", 1) }, "team-notes", NoFileList + " " + SignatureMalformed, 4, false},
		{"another key", func(f map[string]string) { f[a] = headLine(yaml, "a", otherKey) + "a" }, "team-notes", NoFileList + " " + UntrustedKey, 4, false},
		{"item lost: cannot be seen", func(f map[string]string) { delete(f, a) }, "team-notes", NoFileList, 4, false},
		{"byte of the manifest", func(f map[string]string) { f[headManifest] += "\n" }, "team-notes", ContentModified, 0, false},
		{"manifest of another bundle", func(map[string]string) {}, "other", BundleIDMismatch + " " + NoFileList, 5, false},
		{"version", func(f map[string]string) {
			f[headManifest] = headLine(yaml, "name: team-notes\nversion: '1'\n", ownKey) + "name: team-notes\nversion: '1'\n"
		}, "team-notes", NoFileList + " " + VersionInvalid, 5, false},
		{"no name", func(f map[string]string) {
			f[headManifest] = headLine(yaml, "version: 1.0.0\n", ownKey) + "version: 1.0.0\n"
		}, "team-notes", ManifestMalformed, 0, false},
		{"older marker on the manifest", func(f map[string]string) { f[headManifest] = strings.Replace(f[headManifest], "ryeos:", "rye:", 1) }, "team-notes", FormatUnsupported, 0, false},
		{"two documents", func(f map[string]string) {
			two := manifest + "---\nx: y\n"
			f[headManifest] = headLine(yaml, two, ownKey) + two
		}, "team-notes", YAMLInvalid, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := files()
			c.do(f)
			tree := openDir(t, writeFiles(t, f))
			k := &Keyring{Bundle: tree}
			if !c.noPins {
				p, err := ParsePin(LongFingerprint(public(ownKey)))
				if err != nil {
					t.Fatal(err)
				}
				k.Pins = []Pin{p}
			}
			r, err := Verify(t.Context(), tree, Options{ID: c.id, Keys: k})
			if err != nil {
				t.Fatal(err)
			}
			wantCodes(t, r, strings.Fields(c.codes)...)
			if r.FilesOK != c.ok {
				t.Errorf("ok %d, want %d", r.FilesOK, c.ok)
			}
		})
	}
	t.Run("a shebang is not covered", func(t *testing.T) {
		r, err := VerifyItem("b.py", []byte(files()[".ai/tools/notes/lib/b.py"]), Tool, pin(t, ownKey))
		if err != nil || r.Status != "verified" || !reflect.DeepEqual(r.Codes, []string{PartialCoverage}) {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// TestSeedDocument verifies the document that carries its own signature line,
// with the key that continuous integration signed it with, and with every
// eleventh of its bytes changed.
func TestSeedDocument(t *testing.T) {
	shared := filepath.Dir(filepath.Dir(sharedVectors(t)))
	data, err := os.ReadFile(filepath.Join(shared, "seeds", "003_ba250b62f0542291.txt"))
	if err != nil {
		t.Skip(err)
	}
	store, err := OpenStore(TrustUser, filepath.Join(sharedVectors(t), "users", "author-and-ci"), "")
	if err != nil {
		t.Fatal(err)
	}
	k := &Keyring{Stores: []Store{store}}
	r, err := VerifyItem("bundle-format.md", data, Knowledge, k)
	if err != nil || r.Status != "verified" || *r.Signer != "6ea18199041a1ea8" || r.Trust != TrustUser {
		t.Fatalf("%+v %v %v", r, messages(r.Findings), err)
	}
	n := 0
	for i := 0; i < len(data); i += 11 {
		if i >= 15 && i < 35 {
			continue // the time, which no signature covers
		}
		changed := append([]byte(nil), data...)
		changed[i] ^= 1
		if r, err := VerifyItem("bundle-format.md", changed, Knowledge, k); err != nil || r.Status != "failed" {
			t.Errorf("byte %d: %+v %v", i, r, err)
		}
		n++
	}
	t.Logf("%d changed bytes refused", n)
}

// TestForeignStoreInsideBundle: a bundle cannot vouch for itself, by whatever
// way a store leads into it.
func TestForeignStoreInsideBundle(t *testing.T) {
	dir := writeBundle(t, "1.0.0", notesFiles())
	_, doc, _ := OwnDocument(ownKey, "me", when)
	put(t, dir, ".ai/config/keys/trusted/"+Fingerprint(public(ownKey))+".toml", string(doc))
	createBundle(t, dir, "1.0.0")
	tree := openDir(t, dir)
	for name, root := range map[string]string{"the bundle itself": dir, "a folder in it": filepath.Join(dir, ".ai", "..")} {
		s, err := OpenStore(TrustProject, root, dir)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Verify(t.Context(), tree, Options{ID: notesID, Keys: &Keyring{Stores: []Store{s}, Bundle: tree}})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		wantCodes(t, r, UntrustedKey)
	}
	project := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, ".ai"), filepath.Join(project, ".ai")); err != nil {
		t.Skip("no symlinks here")
	}
	s, err := OpenStore(TrustProject, project, dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Verify(t.Context(), tree, Options{ID: notesID, Keys: &Keyring{Stores: []Store{s}, Bundle: tree}})
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, UntrustedKey)
	if s, err = OpenStore(TrustProject, project, t.TempDir()); err != nil { // control: the same store for another bundle
		t.Fatal(err)
	}
	if r, err = Verify(t.Context(), tree, Options{ID: notesID, Keys: &Keyring{Stores: []Store{s}, Bundle: tree}}); err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r)
	if r.Trust != TrustProject {
		t.Error(r.Trust)
	}
}
