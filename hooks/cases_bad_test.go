package hooks_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestOddTrees pushes trees that git takes and a reader might overlook: none
// of them may hide an envelope from the gate.
func TestOddTrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gittest.Options{})
	c := w.clone
	good, broken := c.Blob(turn("release-check", "STATE", "x\n")), c.Blob(bad("release-check"))
	old := strings.Fields(c.Run("ls-tree", w.base, request))[2]
	thread := c.Tree(gittest.TreeEntry{Mode: "100644", Name: "REQUEST.md", ID: old}, gittest.TreeEntry{Mode: "100644", Name: "STATE.md", ID: broken})
	inner := c.Tree(gittest.TreeEntry{Mode: "100644", Name: "REQUEST.md", ID: old})
	readme := gittest.TreeEntry{Mode: "100644", Name: "README.md", ID: strings.Fields(c.Run("ls-tree", w.base, "README.md"))[2]}
	file := func(name, id string) gittest.TreeEntry { return gittest.TreeEntry{Mode: "100644", Name: name, ID: id} }
	dir := func(name, id string) gittest.TreeEntry { return gittest.TreeEntry{Mode: "40000", Name: name, ID: id} }
	for name, tree := range map[string]string{
		"a subtree with mode 40000100644":  c.Tree(readme, gittest.TreeEntry{Mode: "40000100644", Name: "release-check", ID: thread}),
		"a subtree with mode 040000":       c.Tree(readme, gittest.TreeEntry{Mode: "040000", Name: "release-check", ID: thread}),
		"a subtree with mode 40755":        c.Tree(readme, gittest.TreeEntry{Mode: "40755", Name: "release-check", ID: thread}),
		"a file with mode 0":               c.Tree(readme, dir("release-check", inner), gittest.TreeEntry{Mode: "0", Name: "z", ID: good}),
		"a file with mode 100666":          c.Tree(readme, dir("release-check", c.Tree(file("REQUEST.md", old), gittest.TreeEntry{Mode: "100666", Name: "S.md", ID: good}))),
		"the entry .":                      c.Tree(dir(".", inner), readme, dir("release-check", inner)),
		"the entry ..":                     c.Tree(dir("..", inner), readme, dir("release-check", inner)),
		"the entry .git":                   c.Tree(dir(".git", inner), readme, dir("release-check", inner)),
		"the entry .GIT":                   c.Tree(dir(".GIT", inner), readme, dir("release-check", inner)),
		"an empty name":                    c.Tree(file("", good), readme, dir("release-check", inner)),
		"a name with a slash":              c.Tree(readme, file("release-check/STATE.md", broken), dir("release-check", inner)),
		"a path twice":                     c.Tree(readme, dir("release-check", inner), dir("release-check", thread)),
		"a path twice, the bad one first":  c.Tree(readme, dir("release-check", thread), dir("release-check", inner)),
		"wrong order":                      c.Tree(dir("release-check", inner), readme),
		"a file and a directory":           c.Tree(readme, file("release-check", good), dir("release-check", inner)),
		"a file and a directory, far":      c.Tree(readme, file("release-check", good), file("release-check-", good), dir("release-check", inner)),
		"an envelope twice in its thread":  c.Tree(readme, dir("release-check", c.Tree(file("REQUEST.md", old), file("REQUEST.md", broken)))),
		"wrong order inside a thread":      c.Tree(readme, dir("release-check", c.Tree(file("STATE.md", good), file("REQUEST.md", old)))),
		"a thread without its last bytes":  c.Tree(readme, dir("release-check", c.WriteObject("tree", gittest.RawTree(file("REQUEST.md", old))[:20]))),
		"a thread that is a blob":          c.Tree(readme, dir("release-check", good)),
		"an envelope that is a tree":       c.Tree(readme, dir("release-check", c.Tree(file("REQUEST.md", inner)))),
		"a commit without its tree's type": good,
	} {
		tip := c.CommitTree(tree, "odd", w.base)
		// The hook itself, whatever git would have said before.
		w.copyObjects()
		if res := rig(w.server, w.server.Dir, w.base+" "+tip+" refs/heads/main\n", "pre-receive"); res.Code == 0 || !strings.Contains(res.Stderr, "push refused") ||
			strings.Contains(res.Stderr, "panic") || strings.Contains(res.Stderr, "goroutine") {
			t.Errorf("%s: exit %d\n%s%s", name, res.Code, res.Stdout, res.Stderr)
		}
		// Of modes, of names and of what a name leads to, one each is pushed.
		if !slices.Contains([]string{"a subtree with mode 040000", "a path twice", "an envelope that is a tree"}, name) {
			continue
		}
		for _, fsck := range []string{"false", "true"} {
			w.server.Config("receive.fsckObjects", fsck)
			res := w.push(tip + ":refs/heads/main")
			if res.Code == 0 {
				t.Errorf("%s was accepted (fsckObjects %s)", name, fsck)
				w.server.SetRef("refs/heads/main", w.base)
				continue
			}
			if strings.Contains(res.Stderr, "panic") || strings.Contains(res.Stderr, "goroutine") {
				t.Errorf("%s: %s", name, res.Stderr)
			}
			// If our hook was asked, it said why in one sentence.
			if strings.Contains(res.Stderr, "hook declined") && !strings.Contains(res.Stderr, "push refused") {
				t.Errorf("%s: %s", name, res.Stderr)
			}
			w.unmoved()
		}
	}
	w.server.Config("receive.fsckObjects", "false")
	// The control: the same ways with a tree as git writes it.
	w.accepted(w.push(c.CommitTree(c.Tree(readme, dir("release-check", c.Tree(file("REQUEST.md", old), file("STATE.md", good)))), "well", w.base) + ":refs/heads/main"))
}

// copyObjects copies the objects of the clone to the server, and moves no ref.
func (w *world) copyObjects() {
	w.Helper()
	(&scene{T: w.T, repo: w.clone}).copyObjects(filepath.Join(w.server.Dir, "objects"))
}

// lose removes an object that is stored alone.
func lose(t testing.TB, r *gittest.Repo, id string) {
	t.Helper()
	dir := filepath.Join(r.Dir, "objects")
	if _, err := os.Stat(dir); err != nil {
		dir = filepath.Join(r.Dir, ".git", "objects")
	}
	if err := os.Remove(filepath.Join(dir, id[:2], id[2:])); err != nil {
		t.Fatal(err)
	}
}

// TestCannotDecide: a check that cannot run is not a pass, and says why in one
// sentence.
func TestCannotDecide(t *testing.T) {
	t.Parallel()
	everyFormat(t, "missing objects", func(t *testing.T, o gittest.Options) {
		for _, what := range []string{"^{tree}", ":release-check", ":" + request} {
			w := newWorld(t, o)
			w.clone.Commit("Good", state(1))
			lose(t, w.server, w.server.Run("rev-parse", w.base+what))
			// git's own connectivity check comes first in a push; the hook is
			// asked alone, too.
			tip := w.clone.Ref("HEAD")
			w.push("main")
			w.unmoved()
			lose(t, w.clone, w.clone.Run("rev-parse", w.base+what))
			line := fmt.Sprintf("%s %s refs/heads/main\n", w.base, tip)
			must(t, rig(w.clone, w.clone.Dir, line, "pre-receive"), 2, "push refused: cannot decide", "is not present")
			must(t, rig(w.clone, w.clone.Dir, "", "check", w.base+"..HEAD"), 2, "cannot decide", "is not present")
			must(t, rig(w.clone, w.clone.Dir, "", "check", "--all"), 2, "cannot decide", "is not present")
		}
	})

	t.Run("policy, signers and configuration", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		tip := w.clone.Commit("Good", state(1))
		w.copyObjects()
		// The first is pushed; the others are asked of the hook as git calls it.
		pushed := false
		push := func() gittest.Result {
			if !pushed {
				pushed = true
				return w.push("main")
			}
			return rig(w.server, w.server.Dir, w.base+" "+tip+" refs/heads/main\n", "pre-receive")
		}
		for name, set := range map[string]struct{ key, value, says string }{
			"no such policy":        {"rigward.policy", "/nonexistent/policy.yaml", `the policy file "/nonexistent/policy.yaml" cannot be read`},
			"a policy that is none": {"rigward.policy", "HEAD", "policy HEAD:1:"},
			"a directory":           {"rigward.policy", w.server.Dir, "cannot be read"},
			"no boolean":            {"rigward.bootstrap", "perhaps", "rigward.bootstrap"},
		} {
			w.server.Config(set.key, set.value)
			res := push()
			w.undecided(res, "")
			if !strings.Contains(strings.ReplaceAll(unwrapped(res.Stderr), " ", ""), strings.ReplaceAll(set.says, " ", "")) {
				t.Errorf("%s: nothing says %q:\n%s", name, set.says, res.Stderr)
			}
			w.server.Run("config", "--unset", set.key)
		}
		for text, says := range map[string]string{
			"version: 2\n":                                    "policy.yaml:1:10: found \"2\", expected 1",
			"version: 1\nrule: {}\n":                          "unknown key \"rule\" hint: did you mean rules?",
			"version: 1\nrevoked: gone\n":                     "", // read only when a signature is needed
			"version: 1\nrequire-signed: all\n":               "there are no trusted signers: .bridge/allowed_signers is missing in what was there before hint: push the commit that adds it first",
			"version: 1\nsigners: who\nrequire-signed: all\n": "there are no trusted signers: who is missing",
			"version: 1\ntimeout: &a 3 s\n":                   "policy.yaml:2:10",
			"version: 1\nlimits: {commits: 0}\n":              "expected an integer from 1",
			"version: 1\nlimits: {changes: 1}\n":              "",
			"version: 1\nenvelopes: {root: ../up}\n":          "expected a relative path",
			"version: 1\nfail-level: \x1b[31mred\n":           "",
			"version: 1\nprotect: main\n":                     "expected a list",
			"version: 1\nsigners: /etc/passwd\n":              "expected a relative path",
			"\xff\n":                                          "",
			strings.Repeat("# long\n", 60_000) + "x":          "",
			"version: 1\nrules: {no-such-rule: off}\n":        "unknown key",
		} {
			w.policy(text)
			res := push()
			if says == "" && res.Code == 0 {
				continue
			}
			w.undecided(res, "")
			if !strings.Contains(strings.ReplaceAll(unwrapped(res.Stderr), " ", ""), strings.ReplaceAll(says, " ", "")) {
				t.Errorf("nothing says %q:\n%s", says, res.Stderr)
			}
		}
		w.policy("version: 1\nlimits: {commits: 1}\n")
		w.accepted(w.push("main"))
		w.settle()
		w.clone.Commit("Two", state(2))
		w.clone.Commit("Three", state(3))
		w.undecided(w.push("main"), "more than 1 commits are new (limits.commits)")
	})

	t.Run("words, flags and streams", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		dir := w.clone.Dir
		for _, tt := range []struct {
			stdin, says string
			args        []string
		}{
			{"", "unknown flag", []string{"pre-commit", "--fix"}},
			{"", "expected a duration", []string{"pre-receive", "--timeout", "soon"}},
			{"", "expected a duration", []string{"pre-receive", "--timeout"}},
			{"", "expected one of text, json, jsonl", []string{"pre-commit", "--format", "xml"}},
			{"", "expected one of text, json, jsonl", []string{"check", "--format=xml", "HEAD..HEAD"}},
			{"", "no ref lines", []string{"pre-receive"}},
			{"junk\n", "line 1 of standard input", []string{"pre-receive"}},
			{"junk\n\x1b[31m\n::error::x\n", "line 1 of standard input", []string{"pre-push", "origin", "x"}},
			{"", "expected <ref> <old id> <new id>", []string{"update", "refs/heads/main"}},
			{"", "unknown flag", []string{"check", "--deep"}},
			{"", "unknown command", []string{"audit"}},
			{"", "is not a range", []string{"check", "HEAD"}},
			{"", "usage", []string{}},
			{"", "no ref lines", []string{"check", "--stdin"}},
			{"", "expected one of BASE..HEAD", []string{"check", "--all", "a..b"}},
			{"", "no rule is called", []string{"explain", "no-such-rule"}},
			{"", "there is no directory", []string{"install", "--server", "gone"}},
			{"", "is not a bare repository", []string{"doctor", "--server", "."}},
		} {
			res := rig(w.clone, dir, tt.stdin, tt.args...)
			must(t, res, 2, tt.says)
			if strings.Contains(res.Stderr+res.Stdout, "\x1b") || strings.Contains(res.Stderr, "\n::error") {
				t.Errorf("%v: %q", tt.args, res.Stderr)
			}
		}
		none := gittest.TempDir(t)
		for _, args := range [][]string{{"pre-commit"}, {"check", "--all"}, {"doctor"}, {"install"}, {"keys", "list"}} {
			must(t, rig(w.clone, none, "", args...), 2, "no git repository")
		}
		// A stream is closed, or takes nothing: no hang, and no pass that nobody
		// could be told of. (Go opens the null device in place of a closed one, so
		// a clean check without standard output is still a clean check.)
		for line, want := range map[string]int{"check --all >&-": 0, "check --all --format json >/dev/full": 2, "check --all >/dev/full": 2, "pre-receive <&-": 2, "pre-receive 2>&- </dev/null": 2} {
			if strings.Contains(line, "/dev/full") && runtime.GOOS != "linux" {
				continue
			}
			cmd := exec.Command("sh", "-c", "'"+program+"' "+line)
			cmd.Dir, cmd.Env = dir, w.clone.Env
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Errorf("%s: exit %d, expected %d\n%s", line, code, want, out)
			}
		}
	})

	t.Run("an unreadable repository", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		write(t, filepath.Join(w.clone.Dir, ".git", "info", "grafts"), w.base+"\n")
		must(t, rig(w.clone, w.clone.Dir, "", "check", "--all"), 2, "graft")
		if err := os.Remove(filepath.Join(w.clone.Dir, ".git", "info", "grafts")); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(w.clone.Dir, ".git", "config"), "[core\n")
		must(t, rig(w.clone, w.clone.Dir, "", "check", "--all"), 2)
		must(t, rig(w.clone, w.clone.Dir, "", "pre-commit"), 2)
		write(t, filepath.Join(w.clone.Dir, ".git", "config"), "[core]\nrepositoryformatversion = 1\n[extensions]\nfuture = true\n")
		must(t, rig(w.clone, w.clone.Dir, "", "check", "--all"), 2)
	})
}

// TestHostileText: nothing that is pushed forges a line of the answer.
func TestHostileText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gittest.Options{})
	c := w.clone
	held := c.FilesOf(w.base)
	evil := "x\n::error::y\x1b[2J\r\u202eremote: push accepted"
	quoted := `"x\n::error::y\e[2J\r\u202Eremote: push accepted"`
	for field, text := range map[string]string{
		"from":   strings.Replace(bad("release-check"), "from: rig-a", "from: "+quoted, 1),
		"type":   strings.Replace(bad("release-check"), "type: ORDER", "type: "+quoted, 1),
		"key":    strings.Replace(bad("release-check"), "type: ORDER", "type: STATE\n"+quoted+": 1", 1),
		"thread": strings.Replace(bad("release-check"), "thread: release-check", "thread: "+quoted, 1),
		"parse":  "---\n" + evil,
	} {
		names := []string{"release-check/B.md"}
		if runtime.GOOS != "windows" {
			names = append(names, "release-check/"+evil+".md")
		}
		for _, name := range names {
			files := maps.Clone(held)
			gittest.Put(files, name, gittest.File{Mode: "100644", ID: c.Blob(text)})
			tip := c.CommitTree(c.Files(files), "x", w.base)
			res := w.push(tip + ":refs/heads/main")
			if res.Code == 0 {
				t.Errorf("%s: accepted", field)
			}
			w.unmoved()
			said := []string{res.Stderr}
			args := []string{"check", w.base + ".." + tip}
			for _, format := range []string{"json", "jsonl"} {
				args = append(args, "--report", format+"="+filepath.Join(c.Home, format))
			}
			said = append(said, rig(c, c.Dir, "", args...).Stdout)
			for _, format := range []string{"json", "jsonl"} {
				data, err := os.ReadFile(filepath.Join(c.Home, format))
				if err != nil || !strings.Contains(string(data), "envelope-") {
					t.Errorf("%s: %v, %q", format, err, data)
				}
				said = append(said, string(data))
			}
			for _, out := range said {
				for line := range strings.Lines(out) {
					body := strings.TrimPrefix(line, "remote: ")
					if strings.HasPrefix(strings.TrimSpace(body), "::") || strings.HasPrefix(body, "remote: ") || strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\r\u202e") {
						t.Errorf("%s: forged: %q", field, line)
					}
				}
			}
		}
	}
}

// TestInterrupt: a signal at any moment leaves everything as it was.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGINT here")
	}
	t.Parallel()
	w := developer(t, gittest.Options{})
	files := map[string]string{"x.txt": "staged\n"}
	for i := range 200 {
		for k, v := range state(i) {
			files[k] = v
		}
	}
	w.clone.Add(files)
	w.clone.Write("x.txt", "unstaged\n")
	status := w.clone.Run("status", "--porcelain=v2")
	index := w.clone.Run("ls-files", "-s")
	for i := range 8 {
		cmd := exec.Command(program, "pre-commit")
		cmd.Dir, cmd.Env = w.clone.Dir, w.clone.Env
		var errOut strings.Builder
		cmd.Stderr = &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*i) * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		switch code := cmd.ProcessState.ExitCode(); code {
		case 0, 2, -1: // done before, told, or before the handler was there
			if code == 2 && !strings.Contains(errOut.String(), "cannot decide") {
				t.Errorf("exit 2: %q", errOut.String())
			}
			if strings.Contains(errOut.String(), "context canceled") {
				t.Errorf("a library speaks: %q", errOut.String())
			}
		default:
			t.Errorf("exit %d: %q", code, errOut.String())
		}
		if now := w.clone.Run("status", "--porcelain=v2"); now != status {
			t.Fatalf("status is %q", now)
		}
		if now := w.clone.Run("ls-files", "-s"); now != index {
			t.Fatal("the index changed")
		}
	}
	locks, _ := filepath.Glob(filepath.Join(w.clone.Dir, ".git", "*.lock"))
	if len(locks) > 0 {
		t.Errorf("left behind: %v", locks)
	}
}
