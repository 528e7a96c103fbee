package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRyeHeadCommands goes the way of a bundle of the newest generation on the
// command line: signed, created, looked at, compared, installed, removed.
func TestRyeHeadCommands(t *testing.T) {
	r := newRyeRun(t)
	r.key("own.pem")
	r.want(0, "added", "trust", "--format", "rye", "add", "--key", "own.pem")
	for _, b := range []string{"a", "b"} {
		r.put(b+"/.ai/manifest.source.yaml", "name: notes\nversion: 1."+map[string]string{"a": "0", "b": "1"}[b]+".0\n")
		r.put(b+"/.ai/tools/notes/save.py", "DEPENDENCIES = ['httpx"+b+"']\nprint('saved')\n")
		create := []string{"create", "--format", "rye", b, "--generation", "head", "--key", "own.pem"}
		r.want(1, "item-unsigned", create...)
		r.want(0, "signed", "sign", "--format", "rye", "--generation", "head", "--key", "own.pem", b+"/.ai/tools/notes/save.py")
		r.want(0, "created notes 1.", append(create, "--publisher", "Acme")...)
		if b == "a" {
			r.want(1, "untrusted-key", "verify", b)
			r.want(0, "calls itself \"Acme\"", "trust", "--format", "rye", "add", "a/PUBLISHER_TRUST.toml", "--key", "own.pem")
		}
		r.want(0, "verified", "verify", b)
		if text := r.get(b + "/PUBLISHER_TRUST.toml"); !strings.Contains(text, "owner = \"Acme\"") {
			t.Error(text)
		}
	}
	r.want(0, "asks for 1 package: \"httpxa\"", "inspect", "a")
	r.want(1, "dependencies-changed", "diff", "a", "b")
	if err := os.Mkdir(filepath.Join(r.dir, "s"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.want(0, "asks for 1 package: \"httpxa\"", "install", "a", "--space", "s", "--dry-run")
	if list, err := os.ReadDir(filepath.Join(r.dir, "s")); err != nil || len(list) > 0 {
		t.Error("a dry run wrote", list, err)
	}
	r.want(0, "installed notes", "install", "a", "--space", "s")
	r.want(0, "verified", "verify", "--space", "s", "--id", "notes")
	r.want(0, "notes", "install", "b", "--space", "s")
	r.want(0, "", "uninstall", "--format", "rye", "notes", "--space", "s")
	if _, err := os.Lstat(filepath.Join(r.dir, "s/.ai/bundles/notes")); err == nil {
		t.Error("still installed")
	}

	for want, args := range map[string][]string{
		"needs --generation head":   {"--id", "a", "--version", "1.0.0", "--publisher", "x"},
		"object_hash or head":       {"--generation", "new"},
		"has no entrypoint":         {"--generation", "head", "--entrypoint", "x"},
		"needs --id and --version":  {"--id", "a"},
		"needs --key FILE; a key i": {"--generation", "head"},
	} {
		r.want(2, want, append([]string{"create", "--format", "rye", "a"}, args...)...)
	}
}

// TestEntryPointList lists the bundles that installed packages announce.
func TestEntryPointList(t *testing.T) {
	r := newRyeRun(t)
	r.key("own.pem")
	r.want(0, "added", "trust", "--format", "rye", "add", "--key", "own.pem")
	r.put("site/acme/.ai/tools/acme/x.py", "print(1)\n")
	r.put("site/acme/bundle.py", "from pathlib import Path\n\ndef get():\n    return {'bundle_id': 'acme', 'root_path': Path(__file__).parent}\n")
	r.put("site/acme-1.dist-info/entry_points.txt", "[rye.bundles]\nacme = acme.bundle:get\n")
	create := []string{"create", "--format", "rye", "site/acme", "--id", "acme", "--version", "1.0.0", "--key", "own.pem", "--sign-items"}
	r.want(0, "created", create...)
	r.want(0, "verified acme 1.0.0", "list", "--format", "rye", "--site", "site")
	r.put("site/other-1.dist-info/entry_points.txt", "[rye.bundles]\nother = acme.bundle:run\n")
	r.want(1, "entry-point-unread", "list", "--format", "rye", "--site", "site")
	r.want(0, "", "list", "--format", "rye", "--site", "site/acme")
	r.want(2, "--site DIR", "list", "--format", "rye")
}

// TestMachineTrust warns of a store that somebody else could have written, and
// takes nothing from it.
func TestMachineTrust(t *testing.T) {
	r := newRyeRun(t)
	r.key("own.pem")
	r.machine = filepath.Join(r.dir, "etc")
	r.put("b/.ai/tools/notes/x.py", "print(1)\n")
	r.want(0, "created", "create", "--format", "rye", "b", "--id", "notes", "--version", "1.0.0", "--key", "own.pem", "--sign-items")
	r.want(1, "untrusted-key", "verify", "b")
	r.want(2, "contradict", "trust", "--format", "rye", "list", "--machine", "--project", ".")
	r.want(0, "to the machine store", "trust", "--format", "rye", "add", "--machine", "--key", "own.pem")
	if err := os.Chmod(r.machine, 0o777); err != nil {
		t.Fatal(err)
	}
	r.want(1, "the trust store of this machine does not count", "verify", "b")
	r.want(1, "chmod go-w", "verify", "b")
	r.machine = ""
	r.want(2, "no place for a store", "trust", "--format", "rye", "list", "--machine")
}
