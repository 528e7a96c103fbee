package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/action"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/relay"
)

// A field is a server with refs of all kinds, a clone that knows what it can of
// them, and objects that updates of refs can name.
type field struct {
	name          string
	server, clone *gittest.Repo
	refs          map[string]string // of the server
	objects       []string
	broken        string   // what only the ref has that the server has not judged
	tags          []string // of the objects
	releases      []string // of the objects, those that come after release/1
	nonceRefs     bool
	files         map[string]bool // commits that change policy or signers
	now           time.Time
}

var (
	speaker  = testkeys.Ed25519("door operator")
	stranger = testkeys.Ed25519("door stranger")
)

// fields are the policies under which updates are played.
var fields = []struct {
	name, policy string
	signers      bool
}{
	{"defaults", "version: 1\n", true},
	{"several refs", "version: 1\nprotect: [main, 'release/*', 'refs/tags/kept/*']\nrelay: {nonce-scope: refs}\n", true},
	{"others denied", "version: 1\nprotect: [main, 'release/*']\nother-refs: deny\nallow-refs: ['refs/notes/*', 'refs/tags/**']\n", true},
	{"default not named", "version: 1\nprotect: ['refs/heads/release/*', alias]\n", true},
	{"nobody trusted", "version: 1\nprotect: ['**']\n", false},
}

const zeros = "0000000000000000000000000000000000000000"

func newField(t *testing.T, name, policy string, signers bool) *field {
	server := gittest.New(t, gittest.Options{Bare: true})
	c := gittest.New(t, gittest.Options{})
	f := &field{name: name, server: server, clone: c, refs: map[string]string{}, nonceRefs: strings.Contains(policy, "nonce-scope: refs"), files: map[string]bool{}}
	f.now = time.Unix(c.Now, 0).Add(24 * time.Hour)
	at := f.now.Add(-time.Hour)
	serial := 0
	commit := func(key *testkeys.Key, when time.Time, files map[string]string, parents ...string) string {
		serial++
		r := *c
		r.Setenv("GIT_INDEX_FILE", filepath.Join(c.Home, fmt.Sprint("index", serial)))
		for _, p := range parents { // a merge has what either side has
			r.RunIn([]byte(r.Run("ls-tree", "-r", p)+"\n"), "update-index", "--index-info")
		}
		var info bytes.Buffer
		for path, text := range files {
			if text == "" {
				fmt.Fprintf(&info, "0 %s\t%s\n", zeros, path)
			} else {
				fmt.Fprintf(&info, "100644 %s\t%s\n", r.Blob(text), path)
			}
		}
		r.RunIn(info.Bytes(), "update-index", "--index-info")
		who := fmt.Sprintf("Op <op@example.com> %d +0000", when.Unix())
		raw := testkeys.Commit{Tree: strings.TrimSpace(r.Run("write-tree")), Parents: parents, Author: who, Committer: who, Message: fmt.Sprint("c", serial, "\n")}.Bytes()
		if key != nil {
			raw = testkeys.SignCommit(raw, key)
		}
		id := c.WriteObject("commit", raw)
		for path := range files {
			f.files[id] = f.files[id] || strings.HasPrefix(path, ".bridge/")
		}
		return id
	}
	say := func(path string, change func(*envelope.Fields)) map[string]string {
		body := []byte(path + "\n")
		fields := envelope.Fields{From: "rig-a", To: []string{"rig-b"}, Date: "2026-01-05", Status: "▶ x", Type: "STATE", Thread: "talk", Body: body, BodyHash: envelope.BodyHash(body)}
		if change != nil {
			change(&fields)
		}
		text, err := envelope.Render(fields)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{path: string(text)}
	}
	asked := envelope.BodyHash([]byte("talk/REQUEST.md\n"))
	nonce := func(n int) string {
		id, err := relay.NewNonce(at, strings.NewReader(fmt.Sprintf("%010d", n)))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	relayed := func(n int) func(*envelope.Fields) {
		return func(f *envelope.Fields) {
			f.From, f.Type, f.InReplyTo, f.Nonce = "op-relay", "DECISIONS", asked, nonce(n)
			f.AttestedBy, f.AttestedAt = speaker.Fingerprint(), at.UTC().Format(time.RFC3339)
		}
	}
	files := say("talk/REQUEST.md", func(f *envelope.Fields) { f.Type = "REQUEST" })
	files[".bridge/policy.yaml"] = policy
	if signers {
		files[".bridge/allowed_signers"] = speaker.Line("op@example.com,op-relay", "")
	}
	base := commit(nil, at, files)
	f.files = map[string]bool{}
	one := commit(nil, at, say("talk/STATE-1.md", nil), base)
	tip := commit(speaker, at, say("talk/RELAY-0.md", relayed(0)), one)
	side := commit(nil, at, say("talk/STATE-side.md", nil), one)
	bad := say("talk/STATE-bad.md", nil)
	bad["talk/STATE-bad.md"] = strings.Replace(bad["talk/STATE-bad.md"], "type: STATE", "type: ORDER", 1)
	broken := commit(nil, at, bad, tip)
	// A release with a policy and signers of its own, which count for nothing.
	own := commit(speaker, at, map[string]string{
		".bridge/policy.yaml": "version: 1\nrules: {envelope-schema: off}\n", ".bridge/allowed_signers": stranger.Line("op@example.com,op-relay", "")}, one)
	kept := map[string]string{
		"refs/heads/main": tip, "refs/heads/release/1": own, "refs/heads/release/late": broken, "refs/heads/topic": side,
		"refs/tags/kept/1": one, "refs/tags/v1": side, "refs/notes/commits": one, "refs/heads/alias": tip,
	}
	root := commit(nil, at, map[string]string{"x.txt": "x"})
	f.broken = broken
	f.objects = []string{
		base, one, tip, side, broken, root,
		commit(nil, at, say("talk/STATE-2.md", nil), tip),
		commit(speaker, at, say("talk/RELAY-1.md", relayed(1)), tip),
		commit(speaker, at, say("talk/RELAY-1-again.md", relayed(1)), side),
		commit(speaker, at, say("talk/RELAY-0-again.md", relayed(0)), side),
		commit(stranger, at, say("talk/RELAY-2.md", relayed(2)), tip),
		commit(nil, at, say("talk/RELAY-3.md", relayed(3)), side),
		commit(nil, at, map[string]string{".bridge/policy.yaml": "version: 1\n"}, tip),
		commit(speaker, at, map[string]string{".bridge/policy.yaml": "version: 1\nprotect: ['**']\n"}, tip),
		commit(nil, at, map[string]string{".bridge/allowed_signers": stranger.Line("op@example.com,op-relay", "")}, side),
		commit(nil, at, map[string]string{"talk/STATE-1.md": ""}, tip),
		commit(nil, at, map[string]string{"notes.txt": "x"}, tip, side),
		commit(nil, f.now.Add(time.Hour), map[string]string{"late.txt": "x"}, tip),
		commit(speaker, at, say("talk/STATE-9.md", nil), tip),
	}
	f.releases = []string{
		commit(nil, at, bad, own), commit(stranger, at, say("talk/RELAY-5.md", relayed(5)), own), commit(speaker, at, say("talk/RELAY-6.md", relayed(6)), own),
		commit(nil, at, map[string]string{"fix.txt": "x"}, own, tip),
	}
	f.objects = append(append(f.objects, f.releases...),
		commit(nil, at, say("talk/STATE-4.md", nil), f.objects[6]),
		commit(nil, at, map[string]string{"more.txt": "x"}, broken),
		commit(nil, at, map[string]string{"other.txt": "x"}, root, tip))
	for _, id := range []string{side, f.objects[6], broken} {
		f.tags = append(f.tags, c.WriteObject("tag", fmt.Appendf(nil, "object %s\ntype commit\ntag x\ntagger Op <op@example.com> %d +0000\n\nx\n", id, at.Unix())))
	}
	f.objects = append(append(f.objects, f.tags...), c.Blob("no commit"))
	// The server has every object, as it does while a push is judged.
	write := func(file, text string) {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(server.Dir, "objects", "info", "alternates"), filepath.Join(c.Dir, ".git", "objects")+"\n")
	for ref, id := range kept {
		f.refs[ref] = id
		if ref == "refs/heads/alias" {
			server.Run("symbolic-ref", ref, "refs/heads/main")
			continue
		}
		server.Run("update-ref", ref, id)
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			c.Run("update-ref", "refs/remotes/origin/"+name, id)
		} else {
			c.Run("update-ref", ref, id)
		}
	}
	c.Run("update-ref", "refs/heads/main", tip)
	c.Run("update-ref", "refs/remotes/origin/alias", tip)
	c.Run("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	c.Run("config", "remote.origin.url", server.Dir)
	c.Run("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
	// What it has is judged, but for one ref that became protected later.
	write(filepath.Join(server.Dir, "rigward", "judged"), "default refs/heads/main\n"+own+" refs/heads/release/1\n"+one+" refs/tags/kept/1\n"+side+" refs/heads/topic\n"+side+" refs/tags/v1\n"+one+" refs/notes/commits\n")
	return f
}

// unjudged is the ref that the server has not judged since it is protected.
const unjudged = "refs/heads/release/late"

type sent struct{ ref, before, after string }

func (u sent) line() string { return u.before + " " + u.after + " " + u.ref + "\n" }

// updates makes a random set of updates of different refs.
func (f *field) updates(random *rand.Rand) (set []sent) {
	names := append(slices.Sorted(maps.Keys(f.refs)), "refs/heads/release/2", "refs/heads/new", "refs/tags/kept/2", "refs/tags/v2", "refs/replace/"+f.objects[0], "refs/notes/more", "refs/odd/x")
	for _, i := range random.Perm(len(names))[:1+random.IntN(4)] {
		u := sent{ref: names[i], before: f.refs[names[i]], after: f.objects[random.IntN(len(f.objects))]}
		switch ref := u.ref; {
		case ref == "refs/heads/release/1" && random.IntN(2) == 0:
			u.after = f.releases[random.IntN(len(f.releases))]
		case random.IntN(3) == 0: // the lawful ones, too
			u.after = f.objects[6+random.IntN(2)]
		}
		if u.before == "" {
			u.before = zeros
		} else if random.IntN(6) == 0 {
			u.after = zeros
		}
		if u.before != u.after {
			set = append(set, u)
		}
	}
	return set
}

// An answer is what a gate says: its exit code, and of each ref the findings as
// "rule path:line commit".
type answer struct {
	code int
	refs map[string][]string
	text string
}

func (a answer) of(ref string, without ...string) []string {
	return slices.DeleteFunc(slices.Clone(a.refs[ref]), func(f string) bool {
		rule, _, _ := strings.Cut(f, " ")
		return slices.Contains(without, rule)
	})
}

func read(t *testing.T, code int, data []byte) answer {
	t.Helper()
	var r struct {
		Exit     int
		Findings []struct {
			Rule, Severity, Path, Commit, Ref string
			Line                              int
		}
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	if r.Exit != code {
		t.Fatalf("exit %d: %s", code, data)
	}
	a := answer{code: code, refs: map[string][]string{}, text: string(data)}
	for _, f := range r.Findings {
		a.refs[f.Ref] = append(a.refs[f.Ref], fmt.Sprintf("%s %s %s:%d %s", f.Rule, f.Severity, f.Path, f.Line, f.Commit))
	}
	for _, list := range a.refs {
		slices.Sort(list)
	}
	return a
}

func (f *field) env(r *gittest.Repo, stdin string, args ...string) (*hooks.Env, *bytes.Buffer) {
	var out bytes.Buffer
	environ := r.Env
	if r == f.server {
		environ = append(slices.Clone(environ), "GIT_DIR="+r.Dir)
	}
	return &hooks.Env{Args: args, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &bytes.Buffer{}, Environ: environ, Dir: r.Dir, Now: func() time.Time { return f.now }}, &out
}

func (f *field) hook(t *testing.T, r *gittest.Repo, name, stdin string, args ...string) answer {
	env, out := f.env(r, stdin, append([]string{"--format", "json", "--timeout", "5m"}, args...)...)
	return read(t, hooks.Run(t.Context(), name, env), out.Bytes())
}

func (f *field) check(t *testing.T, stdin string) answer {
	env, out := f.env(f.server, stdin, "rig-hook", "check", "--stdin", "--format", "json")
	return read(t, Main(t.Context(), env), out.Bytes())
}

func (f *field) action(t *testing.T, u sent) answer {
	dir := f.clone.Home
	payload := fmt.Appendf(nil, `{"ref":%q,"before":%q,"after":%q,"repository":{"default_branch":"main"}}`, u.ref, u.before, u.after)
	if err := os.WriteFile(filepath.Join(dir, "event.json"), payload, 0o644); err != nil {
		t.Fatal(err)
	}
	env, _ := f.env(f.clone, "")
	report := filepath.Join(dir, "report.json")
	env.Environ = append(slices.Clone(env.Environ), "GITHUB_EVENT_NAME=push", "GITHUB_EVENT_PATH="+filepath.Join(dir, "event.json"), "GITHUB_WORKSPACE="+f.clone.Dir,
		"GITHUB_SHA="+u.after, "GITHUB_REF="+u.ref, "INPUT_REPORTS=json="+report)
	code := action.Run(t.Context(), env, nil)
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, code, data)
}

// TestOneDoor plays random sets of ref updates to every gate that learns of
// them and compares verdicts, rules and places with those of pre-receive. What
// a gate cannot know is said where the comparison leaves it out.
//
// RIGWARD_DOOR_SETS says how many sets; 5,000 take some minutes.
func TestOneDoor(t *testing.T) {
	sets := 40
	if testing.Short() {
		sets = 20
	}
	if word := os.Getenv("RIGWARD_DOOR_SETS"); word != "" {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		sets = n
	}
	var all []*field
	for _, f := range fields {
		all = append(all, newField(t, f.name, f.policy, f.signers))
	}
	random := rand.New(rand.NewPCG(17, 5))
	seen := map[string]int{}
	for n := range sets {
		f := all[n%len(all)]
		set := f.updates(random)
		for len(set) == 0 {
			set = f.updates(random)
		}
		var stdin, pushed strings.Builder
		for _, u := range set {
			stdin.WriteString(u.line())
			fmt.Fprintf(&pushed, "x %s %s %s\n", u.after, u.ref, u.before)
		}
		seen["sets"]++
		differ := func(gate string, got, want any, ref string, text ...string) {
			t.Errorf("set %d (%s)\n%s%s of %s:\n%v\npre-receive:\n%v\n%s", n, f.name, stdin.String(), gate, ref, got, want, strings.Join(text, ""))
		}
		kept := f.keep(t)
		server := f.hook(t, f.server, "pre-receive", stdin.String())
		seen[fmt.Sprint("exit ", server.code)]++
		f.restore(t, kept)

		// check --stdin does not know when a push arrived, so it says nothing of
		// commit-clock.
		check := f.check(t, stdin.String())
		clock := slices.ContainsFunc(slices.Collect(maps.Keys(server.refs)), func(ref string) bool { return len(server.of(ref, "commit-clock")) < len(server.refs[ref]) })
		if check.code != server.code && !clock {
			differ("check", check.code, server.code, "all", check.text, server.text)
		}
		if server.code != 2 {
			for _, u := range set {
				ref := f.named(u.ref)
				if got, want := check.of(ref), server.of(ref, "commit-clock"); !slices.Equal(got, want) {
					differ("check", got, want, ref)
				}
			}
		}

		// update knows one ref, while no other has moved: where nonces are unique
		// over several refs, it cannot know those that come with it.
		undecided := false
		for _, u := range set {
			ref := f.named(u.ref)
			kept := f.keep(t)
			update := f.hook(t, f.server, "update", "", u.ref, u.before, u.after)
			f.restore(t, kept)
			undecided = undecided || update.code == 2
			var unknown []string
			if f.nonceRefs && len(set) > 1 {
				unknown = []string{"relay-nonce"}
			}
			if update.code == 2 || server.code == 2 {
				continue
			}
			if got, want := update.of(ref, unknown...), server.of(ref, unknown...); !slices.Equal(got, want) && len(f.also(set, ref)) == 1 {
				differ("update", got, want, ref)
			}
			seen["update"]++
		}
		if undecided != (server.code == 2) {
			differ("update", undecided, server.code, "all", server.text)
		}

		// A ref moves before the next one is looked at by update. Where the
		// default branch has moved, its new commit says who is trusted: that
		// makes a difference only if it changes the files. (No branch becomes a
		// tag: git refuses that.)
		for i, u := range set {
			if u.ref != "refs/heads/main" || u.after == zeros || server.code != 0 || i != 0 || f.files[u.after] || slices.Contains(f.tags, u.after) {
				continue
			}
			file := filepath.Join(f.server.Dir, "refs", "heads", "main")
			if err := os.WriteFile(file, []byte(u.after+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, v := range set[1:] {
				if f.named(v.ref) == u.ref {
					continue
				}
				kept := f.keep(t)
				if later := f.hook(t, f.server, "update", "", v.ref, v.before, v.after); later.code != 0 {
					differ("update after main moved", later.code, 0, v.ref, later.text)
				}
				f.restore(t, kept)
				seen["main moved"]++
			}
			if err := os.WriteFile(file, []byte(u.before+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}

		// pre-push does not know what stands for another ref over there, whether
		// the server has judged a ref since it is protected, so that it takes the
		// commits of that ref as judged, whether a server takes a first signers
		// file, and when the push will arrive.
		push := f.hook(t, f.clone, "pre-push", pushed.String(), "origin", f.server.Dir)
		if server.code != 2 && push.code != 2 {
			for _, u := range set {
				if u.ref == "refs/heads/alias" || u.ref == unjudged || f.named(u.ref) != u.ref || len(f.also(set, u.ref)) > 1 {
					continue
				}
				unknown := []string{"commit-clock"}
				if f.name == "nobody trusted" {
					unknown = append(unknown, "signers-change")
				}
				if f.nonceRefs { // of tags over there
					unknown = append(unknown, "relay-nonce")
				}
				if got, want := f.judged(push.of(u.ref, unknown...)), f.judged(server.of(u.ref, unknown...)); !slices.Equal(got, want) {
					differ("pre-push", got, want, u.ref)
				}
				seen["pre-push"]++
			}
		}

		// The action is told of branches and tags, one at a time, and judges free
		// ones, too; else it knows what pre-push does.
		for _, u := range set {
			if !strings.HasPrefix(u.ref, "refs/heads/") && !strings.HasPrefix(u.ref, "refs/tags/") || u.ref == "refs/heads/alias" || u.ref == unjudged || server.code == 2 || len(f.also(set, u.ref)) > 1 {
				continue
			}
			got := f.action(t, u)
			if u.after == f.objects[len(f.objects)-1] && !f.guards(u.ref) {
				continue // no commit, so that it cannot judge; git lets no branch become that
			}
			unknown := []string{"commit-clock"}
			if f.name == "nobody trusted" {
				unknown = append(unknown, "signers-change")
			}
			if f.nonceRefs {
				unknown = append(unknown, "relay-nonce")
			}
			mine, want := f.judged(got.of(u.ref, unknown...)), f.judged(server.of(u.ref, unknown...))
			if !f.guards(u.ref) {
				only := func(list []string) []string {
					return slices.DeleteFunc(list, func(s string) bool { return !strings.HasPrefix(s, "other-refs ") })
				}
				mine, want = only(mine), only(want)
			}
			if !slices.Equal(mine, want) {
				differ("action", mine, want, u.ref, got.text)
			}
			seen["action"]++
		}
		if t.Failed() && n > 10 {
			break
		}
	}
	t.Logf("%v", seen)
	for _, what := range []string{"exit 0", "exit 1", "update", "pre-push", "action"} {
		if seen[what] == 0 {
			t.Errorf("%s never came", what)
		}
	}
}

// named is the ref that an update moves.
func (f *field) named(ref string) string {
	if ref == "refs/heads/alias" {
		return "refs/heads/main"
	}
	return ref
}

// judged leaves out what is wrong with the commit that only an unjudged ref has.
func (f *field) judged(list []string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return strings.HasSuffix(s, f.broken) })
}

// also are the updates that move the same ref, through whatever name.
func (f *field) also(set []sent, ref string) (same []sent) {
	for _, u := range set {
		if f.named(u.ref) == f.named(ref) {
			same = append(same, u)
		}
	}
	return same
}

// guards reports whether the policy of the field guards a ref.
func (f *field) guards(ref string) bool {
	switch f.name {
	case "defaults":
		return ref == "refs/heads/main"
	case "several refs":
		return ref == "refs/heads/main" || strings.HasPrefix(ref, "refs/heads/release/") || strings.HasPrefix(ref, "refs/tags/kept/")
	case "others denied", "default not named":
		return ref == "refs/heads/main" || strings.HasPrefix(ref, "refs/heads/release/")
	}
	return strings.HasPrefix(ref, "refs/heads/")
}

// keep and restore put the server's record back: no ref moves here. So nobody
// waits for the nonces that a push has claimed, either.
func (f *field) keep(t *testing.T) []byte {
	data, err := os.ReadFile(filepath.Join(f.server.Dir, "rigward", "judged"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (f *field) restore(t *testing.T, data []byte) {
	if err := os.WriteFile(filepath.Join(f.server.Dir, "rigward", "judged"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.server.Dir, "rigward", "claims")); err != nil {
		t.Fatal(err)
	}
}
