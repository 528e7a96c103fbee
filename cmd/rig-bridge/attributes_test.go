package main

import (
	"os"
	"strings"
	"testing"
)

// What git would store otherwise is refused before the commit, wherever git
// keeps its attributes; what is harmless is sent, and stored as it is.
func TestAttributes(t *testing.T) {
	const refused = "would change the bytes of"
	upper := func(w *world) { w.config("a", "filter.upper.clean", "tr a-z A-Z") }
	for _, c := range []struct {
		name string
		set  func(w *world)
		code int
	}{
		{"filter in the root", func(w *world) { upper(w); w.write("a/.gitattributes", "*.md filter=upper\n") }, 1},
		{"filter in the thread", func(w *world) { upper(w); w.write("a/t-one/.gitattributes", "*.md filter=upper\n") }, 1},
		{"filter by a macro", func(w *world) {
			upper(w)
			w.write("a/.gitattributes", "[attr]loud filter=upper\n*.md loud\n")
		}, 1},
		{"filter in info/attributes", func(w *world) { upper(w); w.write("a/.git/info/attributes", "*.md filter=upper\n") }, 1},
		{"filter in the home directory", func(w *world) { upper(w); w.write("home/.config/git/attributes", "*.md filter=upper\n") }, 1},
		{"filter in core.attributesFile", func(w *world) {
			upper(w)
			w.write("mine", "*.md filter=upper\n")
			w.config("a", "core.attributesFile", w.path("mine"))
		}, 1},
		{"filter in XDG_CONFIG_HOME", func(w *world) {
			upper(w)
			w.write("xdg/git/attributes", "*.md filter=upper\n")
			w.vars = append(w.vars, "XDG_CONFIG_HOME="+w.path("xdg"))
		}, 1},
		{"encoding", func(w *world) { w.write("a/.gitattributes", "*.md working-tree-encoding=latin-1\n") }, 1},
		{"ident", func(w *world) { w.write("a/.gitattributes", "*.md ident\n") }, 1},
		{"a link", func(w *world) {
			upper(w)
			w.write("mine", "*.md filter=upper\n")
			os.Symlink(w.path("mine"), w.path("a/.git/info/attributes"))
		}, 1},
		// git add takes these from the index; the commit is taken back.
		{"filter in the index alone", func(w *world) {
			upper(w)
			w.write("a/.gitattributes", "*.md filter=upper\n")
			w.git("a", "add", ".gitattributes")
			os.Remove(w.path("a/.gitattributes"))
		}, 1},
		{"line ends", func(w *world) { w.write("a/.gitattributes", "* text=auto eol=crlf\n*.md text\n*.png binary\n") }, 0},
		{"autocrlf", func(w *world) { w.config("a", "core.autocrlf", "true") }, 0},
		{"filter of other files", func(w *world) { upper(w); w.write("a/.gitattributes", "*.bin filter=upper\n") }, 0},
		{"none", func(w *world) {}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := faultWorld(t)
			w.write("body.md", "# a heading\n\n$Id: 1234$ and more\n")
			c.set(w)
			before := w.state("a")
			o := w.run("a", append(handoff, "--no-push", "--body-file", "../body.md")...)
			if o.code != c.code {
				t.Fatalf("exit %d, want %d: %s", o.code, c.code, o.stderr)
			}
			if c.code != 0 {
				if !strings.Contains(o.stderr, refused) && c.name != "filter in the index alone" {
					t.Errorf("the message lacks %q: %s", refused, o.stderr)
				}
				if after := w.state("a"); after != before {
					t.Errorf("before:\n%safter:\n%s", before, after)
				}
				return
			}
			file, err := os.ReadFile(w.path("a/t-one/HANDOFF.md"))
			if stored := w.git("a", "cat-file", "blob", "HEAD:t-one/HANDOFF.md"); err != nil || stored != string(file) {
				t.Errorf("stored %q, the file is %q, %v", stored, file, err)
			}
		})
	}
}

// A name is taken if only the index has it, however it is written there.
func TestNameInIndex(t *testing.T) {
	for _, version := range []string{"2", "3", "4"} {
		w := faultWorld(t)
		w.config("a", "index.version", version)
		w.write("a/t-one/handoff.md", "staged, and gone from the work tree\n")
		w.git("a", "add", "t-one/handoff.md")
		os.Remove(w.path("a/t-one/handoff.md"))
		os.Mkdir(w.path("a/t-one"), 0o755)
		if o := w.run("a", append(handoff, "--no-push")...); o.code != 0 || !strings.Contains(o.stdout, "file=t-one/HANDOFF-2.md") {
			t.Errorf("index version %s: exit %d %s%s", version, o.code, o.stdout, o.stderr)
		}
		if names := w.git("a", "ls-files", "t-one"); names != "t-one/HANDOFF-2.md\nt-one/handoff.md\n" {
			t.Errorf("index version %s holds %q", version, names)
		}
	}
}
