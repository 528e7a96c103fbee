package main

import (
	"os"
	"strings"
	"testing"
)

// TestSparseCheckout plays I06: threads that a sparse checkout leaves out are
// listed and shown; what would write into one says how it gets in.
func TestSparseCheckout(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	for _, thread := range []string{"one", "two"} {
		os.Mkdir(w.path("a/"+thread), 0o755)
		for _, typ := range []string{"REQUEST", "STATE"} {
			w.ok("a", "send", typ, "--thread", thread, "--to", "rig-b", "--tldr", typ+" of "+thread)
		}
	}
	w.ok("b", "sync", "--auto")
	for name, c := range map[string]struct{ set, reset []string }{
		"a thread":           {[]string{"sparse-checkout", "set", "--cone", "one"}, []string{"sparse-checkout", "disable"}},
		"a part of a thread": {[]string{"sparse-checkout", "set", "--no-cone", "/*", "!/two/STATE.md"}, []string{"sparse-checkout", "disable"}},
		"sparse index":       {[]string{"sparse-checkout", "set", "--cone", "--sparse-index", "one"}, []string{"sparse-checkout", "disable"}},
		"nothing":            {[]string{"sparse-checkout", "set", "--cone", "none"}, []string{"sparse-checkout", "disable"}},
	} {
		w.git("b", c.set...)
		if _, err := os.Stat(w.path("b/two/STATE.md")); err == nil {
			t.Fatalf("%s: the file is there", name)
		}
		if o := w.ok("b", "status"); !strings.Contains(o.stdout, "open=2 closed=0 dirty=0") || !strings.Contains(o.stdout, "thread=two") {
			t.Errorf("%s: %s", name, o.stdout)
		}
		if o := w.ok("b", "thread", "two"); !strings.Contains(o.stdout, "file=REQUEST.md") || !strings.Contains(o.stdout, "file=STATE.md") {
			t.Errorf("%s: %s", name, o.stdout)
		}
		if o := w.ok("b", "thread", "two", "--json"); strings.Contains(o.stdout, `"commit_sha":null`) ||
			!strings.Contains(o.stdout, `"path":"two/REQUEST.md"`) || !strings.Contains(o.stdout, `"path":"two/STATE.md"`) {
			t.Errorf("%s: %s", name, o.stdout)
		}
		if !strings.Contains(name, "part") {
			ack := []string{"send", "ACK", "--thread", "two", "--to", "rig-a", "--tldr", "seen under " + name}
			o := w.run("b", ack...)
			o.keeps(t, 1, `the thread "two" lies outside of the sparse checkout`, "hint: git sparse-checkout add two")
			w.run("b", "close", "two", "--status", "completed").keeps(t, 1, "hint: git sparse-checkout add two")
			w.run("b", "new", "two").keeps(t, 1, "is committed already")
			w.git("b", "sparse-checkout", "add", "two")
			w.ok("b", ack...)
		}
		w.git("b", c.reset...)
	}
	// What cannot be read is told so, be it in the work tree or not.
	w.git("b", "sparse-checkout", "disable")
	os.Mkdir(w.path("b/odd-link"), 0o755)
	os.Mkdir(w.path("b/odd-mode"), 0o755)
	os.Symlink("../one/REQUEST.md", w.path("b/odd-link/L.md"))
	os.WriteFile(w.path("b/odd-mode/X.md"), []byte("no fence\n"), 0o755)
	w.git("b", "add", "odd-link", "odd-mode")
	w.git("b", "commit", "-q", "--no-verify", "-m", "odd")
	for _, sparse := range []bool{false, true} {
		if sparse {
			w.git("b", "sparse-checkout", "set", "--cone", "one")
		}
		for _, thread := range []string{"odd-link", "odd-mode"} {
			w.run("b", "thread", thread).keeps(t, 0, `the thread "`+thread+`" holds no readable message`)
		}
	}
	w.git("b", "sparse-checkout", "disable")
	// A deleted thread is none, whatever is sparse.
	w.git("b", "sparse-checkout", "set", "--cone", "one")
	w.run("b", "thread", "three").keeps(t, 1, `the thread "three" does not exist`)
}
