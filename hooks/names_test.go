package hooks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// J06: what another file system takes for a thread, an envelope, or for
// anything that is guarded below .bridge is refused, be it a file, a directory,
// a symlink or a gitlink; its neighbours are not.
func TestJ06NamesTakenForGuardedOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gittest.Options{})
	w.clone.Commit("A long name", map[string]string{
		"release-check/RESOLUTION-draft.md": turn("release-check", "STATE", "Draft.\n"),
		"Notes/a.md":                        "no thread\n", "notes-of~1/x.txt": "none\n",
	})
	w.accepted(w.push("main"))
	w.settle()
	w.policy("version: 1\nprotect: [\"refs/heads/*\"]\n")
	held := w.clone.FilesOf(w.base)
	now := w.clone.Now
	make := func(r *gittest.Repo, name, mode string) string {
		id := r.Blob("hello\n")
		if mode == "160000" {
			id = w.base
		}
		files := maps.Clone(held)
		gittest.Put(files, name, gittest.File{Mode: mode, ID: id})
		r.Now = now
		return r.CommitTree(r.Files(files), "Alias "+mode+" "+name, w.base)
	}
	const path, signers = "envelope-path", "signers-change"
	type kind struct{ mode, rule string }
	pushed := map[kind]bool{}
	named := map[string]string{} // by what the commit brings: its rule
	tips := map[string]string{}
	var lines strings.Builder
	for _, test := range []struct{ name, mode, rule string }{
		{"Release-Check", "100644", path}, {"Release-Check", "120000", path}, {"Release-Check", "160000", path}, {"RELEASE-CHECK/x.txt", "100644", path},
		{"Release-Check/deep/er/x", "100755", path}, {"release-check./x.md", "100644", path}, {"release-check /x", "100644", path},
		{"release-check .", "120000", path}, {"release-check::$INDEX_ALLOCATION/x.md", "100644", path}, {"release-check:s", "100644", path},
		{"RELEAS~1/x.md", "100644", path}, {"RELEAS~1", "160000", path}, {"RELEASEC~1", "100644", ""}, {"RE12AB~1", "120000", path},
		{"release\u200c-check/x", "100644", path}, {"release-check\u200b", "120000", path}, {"\ufefff", "100644", ""},
		{"release-check\u202e/x", "100644", path}, {`release-check\x.md`, "100644", path}, {`a\..\release-check\x`, "100644", path},
		{"\uff52elease-check/x", "100644", path}, {"relea\u017fe-check", "120000", path},
		{"release-check/request.md", "100644", path}, {"release-check/REQUEST.MD", "120000", path}, {"release-check/REQUEST.md.", "160000", path},
		{"release-check/REQUEST.md ", "100644", path}, {"release-check/REQUEST.md::$DATA", "100644", path}, {"release-check/REQUEST.md:x", "120000", path},
		{"release-check/Request.md/x/y", "100644", path}, {"release-check/REQUEST.md./x", "100644", path}, {"release-check/RE\u200dQUEST.md", "160000", path},
		{"release-check/RESOLU~1.MD", "100644", path}, {"release-check/RESOLU~2.MD", "120000", path}, {"release-check/RESOLU~1.MD/x", "100644", path},
		{`release-check/x\..\REQUEST.md`, "100644", path}, {`release-check/..\release-check\x`, "100644", path},
		{".BRIDGE", "120000", signers}, {".Bridge", "160000", signers}, {".bridge", "120000", signers}, {".bridge", "160000", signers}, {".bridge", "100644", signers},
		{".Bridge/policy.yaml", "100644", signers}, {".bridge/Allowed_Signers", "100644", signers}, {".bridge/POLICY.YAML", "120000", signers},
		{".bridge /x", "100644", signers}, {".bridge./x", "100644", signers}, {".bridge::$INDEX_ALLOCATION/x", "100644", signers},
		{"BRIDGE~1/x", "100644", signers}, {"bridge~1", "120000", signers}, {".bri\u200ddge/x", "100644", signers}, {"\uff0ebridge", "100644", signers},
		{`.bridge\policy.yaml`, "100644", signers}, {`release-check/..\..\.bridge\policy.yaml`, "100644", signers},
		{".bridge/policy.yaml::$DATA", "100644", signers}, {".bridge/POLICY~1.YAM", "100644", signers}, {".bridge/ALLOWE~1", "160000", signers},
		{".bridge/Policy.yaml/x", "100644", signers}, {".bridge/Config.yaml", "100644", signers}, {".bridge/CONFIG~1.YAM", "120000", signers},
		// Lawful neighbours.
		{"Release-Checks/x.md", "100644", ""}, {"Release", "120000", ""}, {"RELOAD~1/x", "100644", ""}, {"Notes/b.md", "100644", ""}, {"README.txt", "100644", ""},
		{"release-check/REQUEST.txt", "100644", ""}, {"release-check/sub/request.md", "100644", ""}, {"release-check/draft~1", "100644", ""},
		{"release-check/REQUES~1.MD", "100644", ""}, // a name of 8.3 form has no second one
		{".bridge/notes.md", "100644", ""}, {".bridge/README", "100644", ""}, {"bridge/policy.yaml", "100644", ""}, {".bridges/x", "100644", ""},
		{"relea\u0455e-check/x", "100644", ""}, {"caf\u00e9/\u00dcber.txt", "100644", ""}, {"x~1", "100644", ""},
	} {
		name := test.mode + " " + test.name
		tip := make(w.server, test.name, test.mode)
		ref := fmt.Sprint("refs/heads/alias-", len(tips))
		w.server.SetRef(ref, w.base)
		lines.WriteString(w.base + " " + tip + " " + ref + "\n")
		tips[tip], named[tip] = name, test.rule
		// The first of each kind is pushed.
		if k := (kind{test.mode, test.rule}); !pushed[k] {
			pushed[k] = true
			res := w.push(make(w.clone, test.name, test.mode) + ":refs/heads/main")
			if test.rule == "" && res.Code != 0 {
				t.Errorf("%q was refused:\n%s", name, res.Stderr)
			} else if text := unwrapped(res.Stderr); test.rule != "" && (res.Code == 0 || !strings.Contains(text, "["+test.rule+"]")) {
				t.Errorf("%q: exit %d, expected %s:\n%s", name, res.Code, test.rule, res.Stderr)
			}
			w.server.SetRef("refs/heads/main", w.base)
		}
	}
	// All of them go through the same hook at once.
	res := rig(w.server, w.server.Dir, lines.String(), "pre-receive", "--format", "json")
	var said struct {
		Findings []struct{ Rule, Severity, Commit string }
	}
	if err := json.Unmarshal([]byte(res.Stdout), &said); err != nil || res.Code != 1 {
		t.Fatalf("exit %d, %v\n%s%s", res.Code, err, res.Stdout, res.Stderr)
	}
	found := map[string][]string{}
	for _, f := range said.Findings {
		if f.Severity == "error" {
			found[f.Commit] = append(found[f.Commit], f.Rule)
		}
	}
	for tip, name := range tips {
		if rule := named[tip]; rule == "" && found[tip] != nil || rule != "" && !slices.Contains(found[tip], rule) {
			t.Errorf("%q: %v, expected %q", name, found[tip], rule)
		}
	}
}

// J06: it does not matter which of the two comes first, on which side of a
// merge, or in which commit of a push.
func TestJ06NamesInEveryOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gittest.Options{})
	w.clone.Commit("Lawful so far", map[string]string{"New-Thread/x.txt": "x\n", "ANOTHE~1": "x\n", "release-check/LATEST~1.MD": "x\n"})
	w.accepted(w.push("main"))
	w.settle()
	envelope := func(thread string) string { return turn(thread, "STATE", "New.\n") }
	for name, play := range map[string]func(){
		"the thread comes after the directory":  func() { w.clone.Commit("T", map[string]string{"new-thread/A.md": envelope("new-thread")}) },
		"the thread comes after the short name": func() { w.clone.Commit("T", map[string]string{"another-thread/A.md": envelope("another-thread")}) },
		"the envelope comes after the short name": func() {
			w.clone.Commit("T", map[string]string{"release-check/LATEST-NEWS.md": envelope("release-check")})
		},
		"both in one commit": func() { w.clone.Commit("T", map[string]string{"t-one/A.md": envelope("t-one"), "T-One/x.txt": "x"}) },
		"the thread in an earlier commit of the push": func() {
			w.clone.Commit("T", map[string]string{"t-one/A.md": envelope("t-one")})
			w.clone.Commit("X", map[string]string{"T-ONE": "x"})
		},
		"the directory in an earlier commit of the push": func() {
			w.clone.Commit("X", map[string]string{"T-ONE": "x"})
			w.clone.Commit("T", map[string]string{"t-one/A.md": envelope("t-one")})
		},
		"each on a side of a merge": func() {
			w.clone.Run("checkout", "-q", "-B", "side", w.base)
			w.clone.Commit("Side", map[string]string{"T-One/x.txt": "x"})
			w.clone.Run("checkout", "-q", "-B", "main", w.base)
			w.clone.Commit("Main", map[string]string{"t-one/A.md": envelope("t-one")})
			w.clone.Run("merge", "-q", "-m", "Both", "side")
		},
		"the thread on the merged side": func() {
			w.clone.Run("checkout", "-q", "-B", "side", w.base)
			w.clone.Commit("Side", map[string]string{"long-thread/A.md": envelope("long-thread")})
			w.clone.Run("checkout", "-q", "-B", "main", w.base)
			w.clone.Commit("Main", map[string]string{"LONG-T~1": "x"})
			w.clone.Run("merge", "-q", "-m", "Both", "side")
		},
	} {
		w.clone.Run("checkout", "-q", "-B", "main", w.base)
		play()
		t.Log(name)
		w.refused(w.push("main"), "envelope-path")
	}
	// Deleting the one name is how both are told apart again.
	w.clone.Run("checkout", "-q", "-B", "main", w.base)
	w.clone.Run("rm", "-q", "-r", "New-Thread")
	w.clone.Commit("T", map[string]string{"new-thread/A.md": envelope("new-thread")})
	w.accepted(w.push("main"))
	w.settle()
	// Two directories of a thread that never was one.
	w.clone.Commit("Free", map[string]string{"free/x.txt": "x", "Free/y.txt": "y"})
	w.accepted(w.push("main"))
}
