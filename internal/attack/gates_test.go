package attack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/action"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/drift"
	"github.com/rigward/rigward/internal/image"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/rules"
)

// TestGates lets every gate judge what random sequences of pushes bring, and compares
// what they say: pre-commit and commit-msg of each commit as it is made in a clone, and
// pre-push, update, check, and the action on a pull request and on a push, with what
// pre-receive says. The same rules, lines, severities and exit codes are to come of it, as
// far as a gate can know (docs/security.md#what-each-gate-can-know): gates says what each
// is excused of. RIGWARD_GATES=N plays N sequences and RIGWARD_GATES_SEED starts elsewhere.
func TestGates(t *testing.T) {
	gittest.NotShort(t)
	total, first := number(t, "RIGWARD_GATES", 5), uint64(number(t, "RIGWARD_GATES_SEED", 1))
	st := newStore(t)
	all := gateTally{}
	for n := range total {
		seed := first + uint64(n)
		if n%storeSequences == storeSequences-1 {
			st = newStore(t)
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { playGates(t, seed, st, all) })
	}
	for _, what := range sorted(all) {
		t.Logf("%6d %s", all[what], what)
	}
}

// A gateTally counts what was compared.
type gateTally map[string]int

// A told is what a gate says of a change.
type told struct {
	code    int
	hits    []hit
	problem string
	notes   []string
	text    string
}

// A hit is a finding without its hint, which each gate has in its own words.
type hit struct {
	Rule, Severity, Path, Commit, Message string
	Line, Col                             int
}

func (h hit) String() string {
	return fmt.Sprintf("%s %s %q:%d:%d of %.8s: %s", h.Severity, h.Rule, h.Path, h.Line, h.Col, h.Commit, h.Message)
}

func compareHits(a, b hit) int {
	return cmp.Or(cmp.Compare(a.Commit, b.Commit), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
		cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message))
}

// readTold reads the JSON of a report.
func readTold(t testing.TB, code int, text []byte, more string) told {
	a := told{code: code, text: string(text) + more}
	var report struct {
		Findings []hit
		Problem  struct{ Message string }
		Notes    []string
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatalf("the report is not JSON: %v\n%s", err, a.text)
	}
	a.hits, a.problem, a.notes = report.Findings, report.Problem.Message, report.Notes
	for i, h := range a.hits {
		if h.Rule == "relay-nonce" { // an index knows the commit only of what came since it was made
			a.hits[i].Message, _, _ = strings.Cut(h.Message, " of commit ")
		}
	}
	slices.SortFunc(a.hits, compareHits)
	return a
}

// held are the findings of rules that a gate holds, too.
func (a told) held(at rules.Gate) []hit {
	return slices.DeleteFunc(slices.Clone(a.hits), func(h hit) bool {
		r, ok := rules.ByID(h.Rule)
		return ok && r.Gates.String() != "all" && !slices.Contains(strings.Split(r.Gates.String(), ", "), strings.Replace(at.String(), "-request", " request", 1))
	})
}

// later reports whether a finding is about what a commit that is still to be made does not
// tell: its signature, which a tombstone needs, too (docs/spec/tombstone.md#lawful), and
// whether the history has its nonce, which is looked up at a push (docs/spec/relay.md#nonce).
// published says that its parent is published: else an envelope may be rewritten
// (docs/spec/policy.md#gates).
func (h hit) later(published bool) bool {
	switch h.Rule {
	case "signers-change":
		return h.Path == ""
	case "append-only":
		return !published || slices.ContainsFunc([]string{"the signature of its commit does not count", "who did not sign its commit", "is not one of expunge.signers", "it was made after its commit",
			"it is for the ref", "it is for a repository", "approvals", "expunge.signers stand for it"}, func(why string) bool {
			return strings.Contains(h.Message, "a tombstone that does not count") && strings.Contains(h.Message, why)
		})
	case "relay-nonce":
		return strings.HasPrefix(h.Message, "the nonce was used before")
	}
	return strings.HasSuffix(h.Message, ", by what comes with it of policy or signers")
}

// exit is the exit code that findings come to.
func exit(hits []hit) int {
	if slices.ContainsFunc(hits, func(h hit) bool { return h.Severity == "error" }) {
		return 1
	}
	return 0
}

// differ says what two lists of findings have that the other has not.
func differ(one, other string, a, b []hit) string {
	text := ""
	for _, h := range a {
		if !slices.Contains(b, h) {
			text += fmt.Sprintf("%s alone: %s\n", one, h)
		}
	}
	for _, h := range b {
		if !slices.Contains(a, h) {
			text += fmt.Sprintf("%s alone: %s\n", other, h)
		}
	}
	return text
}

func playGates(t *testing.T, seed uint64, st *store, count gateTally) {
	p := newPlayer(t, seed, st)
	server := &gittest.Repo{T: t, Dir: p.server, Home: p.home, Env: p.env, Now: p.now}
	var lines []string
	for k, length := 0, 3+p.rng.IntN(10); k < length; k++ {
		updates := []mupdate(nil)
		if p.one(2) {
			updates = p.mixed()
		} else {
			updates = p.next()
		}
		if len(updates) == 0 {
			continue
		}
		count["pushes"]++
		a := p.serverSays("pre-receive", nil, p.lines(updates))
		lines = append(lines, fmt.Sprintf("push %d: exit %d %q %v", k, a.code, p.labels, updates))
		if why := p.gates(updates, a, count); why != "" {
			t.Errorf("push %d of seed %d: %s\npolicy %q\n%s\n%s", k, seed, why, p.policy, strings.Join(lines, "\n"), p.show(server, updates))
			return
		}
		if a.code == 0 {
			moved := p.apply(server, p.book.model, updates, true)
			p.accept()
			p.book.accept(moved)
		}
		if p.main() == "" {
			return
		}
	}
}

// lines are the ref updates as git tells them to pre-receive.
func (p *player) lines(updates []mupdate) string {
	text := ""
	for _, u := range updates {
		text += u.old + " " + u.new + " " + u.ref + "\n"
	}
	return text
}

// serverSays runs a hook of the server.
func (p *player) serverSays(name string, args []string, stdin string) told {
	return p.says(p.server, name, args, stdin, "GIT_DIR=.", "GIT_QUARANTINE_PATH="+p.extra, "GIT_OBJECT_DIRECTORY="+p.extra,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(p.server, "objects"))
}

// says runs a hook in this process.
func (p *player) says(dir, name string, args []string, stdin string, environ ...string) told {
	var out, errOut bytes.Buffer
	code := hooks.Run(context.Background(), name, &hooks.Env{
		Args: append([]string{"--format", "json", "--timeout", "5m"}, args...), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut,
		Environ: append(environ, p.env...), Dir: dir, Now: func() time.Time { return time.Unix(p.now, 0) }, Bundles: drift.Here(nil),
	})
	return readTold(p.t, code, out.Bytes(), errOut.String())
}

// clone makes the clone of a rig that has fetched what the server has now, with the
// server's own files in its configuration.
func (p *player) clone() string {
	dir := filepath.Join(p.home, "clone")
	if err := os.RemoveAll(dir); err != nil {
		p.t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(p.server, "config"))
	if err != nil {
		p.t.Fatal(err)
	}
	put := func(name, text string) { write(p.t, filepath.Join(dir, ".git", name), text) }
	put("config", strings.Replace(string(config), "bare = true", "bare = false", 1)+"[remote \"origin\"]\n\turl = "+p.server+"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"+
		"[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n")
	put("HEAD", "ref: refs/heads/main\n")
	put("objects/info/alternates", p.extra+"\n"+filepath.Join(p.server, "objects")+"\n")
	put("refs/heads/main", p.main()+"\n")
	put("refs/remotes/origin/HEAD", "ref: refs/remotes/origin/main\n")
	for ref, id := range p.tips {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			put("refs/remotes/origin/"+name, id+"\n")
		}
	}
	if p.alias {
		put("refs/remotes/origin/alias", p.main()+"\n")
	}
	return dir
}

// gates lets all gates judge a push, and says where they differ from pre-receive.
func (p *player) gates(updates []mupdate, a told, count gateTally) string {
	for _, u := range updates {
		if u.ref == "refs/heads/alias" {
			return "" // a clone does not know that it is another's name
		}
	}
	if slices.ContainsFunc(a.notes, func(n string) bool { return strings.Contains(n, "has not judged") }) {
		return "" // a clone does not know what the server has judged
	}
	r := p.book.trust()
	for ref := range p.tips {
		if p.book.guards(r, ref) && !p.book.settled(r, ref) && updates[0].ref != "refs/heads/main" {
			return "" // nor of what else is protected
		}
	}
	if slices.ContainsFunc(a.hits, func(h hit) bool { return strings.HasPrefix(h.Message, "nobody is trusted yet") }) {
		return "" // that is for the server to say (docs/spec/policy.md#trust)
	}
	dir := p.clone()
	var wrong []string
	var bundles []hit // what pre-push finds of bundles, which a server does not build
	compare := func(name string, gate rules.Gate, b told) {
		count[name]++
		count[fmt.Sprintf("%s: exit %d", name, b.code)]++
		want := a.held(gate)
		if gate == rules.PrePush {
			bundles = slices.DeleteFunc(slices.Clone(b.hits), func(h hit) bool { return !strings.HasPrefix(h.Rule, "bundle-") })
		}
		if gate != rules.Update {
			want = append(want, bundles...)
		}
		code := a.code
		if a.code < 2 {
			code = exit(want)
		}
		if code == 2 && b.code == 2 {
			if b.problem != a.problem {
				wrong = append(wrong, fmt.Sprintf("%s cannot decide: %s\npre-receive: %s", name, b.problem, a.problem))
			}
			return
		}
		if text := differ("pre-receive", name, want, b.hits); text != "" || b.code != code {
			wrong = append(wrong, fmt.Sprintf("%s: exit %d, expected %d\n%s%s", name, b.code, code, text, b.text))
		}
	}
	push := ""
	for _, u := range updates {
		local := "refs/heads/x " + u.new
		if zero(u.new) {
			local = "(delete) " + u.new
		}
		push += local + " " + u.ref + " " + u.old + "\n"
	}
	compare("pre-push", rules.PrePush, p.says(dir, "pre-push", []string{"origin", p.server}, push))
	if len(updates) == 1 {
		u := updates[0]
		if p.turn.IntN(2) == 0 {
			compare("update", rules.Update, p.serverSays("update", []string{u.ref, u.old, u.new}, ""))
		}
		if guarded := p.book.guards(r, u.ref); guarded {
			p.others(dir, u, a, compare)
		}
	}
	if len(wrong) == 0 && len(updates) == 1 && updates[0].ref == "refs/heads/main" && p.book.guards(r, p.book.head) && a.code != 2 {
		wrong = append(wrong, p.commits(dir, updates[0], count)...)
		if p.trees[updates[0].new] != nil && !zero(updates[0].old) && (a.code == 1 || p.turn.IntN(3) == 0) {
			wrong = append(wrong, p.shown(dir, updates[0], a, count)...)
		}
	}
	return strings.Join(wrong, "\n")
}

// others are the gates that do not stand in the way of the push itself.
func (p *player) others(dir string, u mupdate, a told, compare func(string, rules.Gate, told)) {
	if strings.Contains(a.problem, "(limits.") {
		return // they are for gates that have no time
	}
	if !strings.HasPrefix(u.ref, "refs/heads/") {
		return
	}
	lot := p.turn.IntN(4) // they are much alike: one of three, or all
	payload := fmt.Sprintf(`{"before": %q, "after": %q, "ref": %q, "repository": {"default_branch": "main"}}`, u.old, u.new, u.ref)
	if (lot == 0 || lot == 1) && (zero(u.new) || p.objs[u.new].typ == "commit") { // as a forge has it
		compare("action on a push", rules.Check, p.action(dir, "push", payload))
	}
	line := !zero(u.old) && !zero(u.new) && p.trees[u.new] != nil && p.book.history(u.new)[u.old]
	if !line {
		return
	}
	payload = fmt.Sprintf(`{"pull_request": {"base": {"sha": %q, "ref": %q}, "head": {"sha": %q}}, "repository": {"default_branch": "main"}}`,
		u.old, strings.TrimPrefix(u.ref, "refs/heads/"), u.new)
	if lot == 0 || lot == 2 {
		compare("action on a pull request", rules.PullRequest, p.action(dir, "pull_request", payload))
	}
	if lot%3 == 0 && u.ref == "refs/heads/main" {
		compare("check", rules.Check, p.check(dir, u.old, u.new))
	}
}

// action runs the action's step on an event, in a checkout.
func (p *player) action(dir, event, payload string) told {
	file := filepath.Join(p.home, "event.json")
	write(p.t, file, payload)
	report := filepath.Join(p.home, "report.json")
	var out bytes.Buffer
	code := action.Run(context.Background(), &hooks.Env{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &out, Dir: dir, Now: func() time.Time { return time.Unix(p.now, 0) },
		Environ: append(slices.Clone(p.env), "GITHUB_EVENT_NAME="+event, "GITHUB_EVENT_PATH="+file, "GITHUB_WORKSPACE="+dir, "INPUT_REPORTS=json="+report),
	}, &image.Network{UserAgent: "test"})
	data, err := os.ReadFile(report)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, out.String())
	}
	return readTold(p.t, code, data, out.String())
}

// check judges a range, as rig-hook check BASE..HEAD does.
func (p *player) check(dir, base, head string) told {
	ctx := context.Background()
	env := &hooks.Env{Environ: p.env, Dir: dir, Now: func() time.Time { return time.Unix(p.now, 0) }, Bundles: drift.Here(nil)}
	rep := report.Report{Gate: "check", Fail: finding.Error}
	repo, err := gitrepo.Open(ctx, gitrepo.Env{Environ: p.env, Dir: dir})
	if err != nil {
		p.t.Fatal(err)
	}
	defer repo.Close()
	c := hooks.NewChecker(env, repo, &rep)
	rep.Problem = c.Range(ctx, rules.Range{New: head, Exclude: []string{base}, History: true})
	c.Tell()
	var out bytes.Buffer
	if err := report.Write(&out, &rep, "json"); err != nil {
		p.t.Fatal(err)
	}
	return readTold(p.t, rep.ExitCode(), out.Bytes(), "")
}

// commits makes each commit of a push in the clone, as far as git would ask its hooks:
// what pre-commit and commit-msg say is what pre-receive says of it.
func (p *player) commits(dir string, u mupdate, count gateTally) (wrong []string) {
	before := p.book.history(u.old)
	for id := range p.book.history(u.new) {
		c := p.book.commit(id)
		if before[id] || c == nil || len(c.parents) == 0 {
			continue
		}
		parent := c.parents[0]
		write(p.t, filepath.Join(dir, ".git/refs/heads/main"), parent+"\n")
		git := &gittest.Repo{T: p.t, Dir: dir, Home: p.home, Env: p.env, Now: p.now}
		if res := git.Try(nil, "read-tree", id); res.Code != 0 {
			count["commits that git does not read"]++
			continue
		}
		os.Remove(filepath.Join(dir, ".git/MERGE_HEAD"))
		if len(c.parents) > 1 {
			write(p.t, filepath.Join(dir, ".git/MERGE_HEAD"), strings.Join(c.parents[1:], "\n")+"\n")
		}
		a := p.serverSays("pre-receive", nil, u.old+" "+id+" "+u.ref+"\n")
		b := p.says(dir, "pre-commit", nil, "")
		count["pre-commit"]++
		count[fmt.Sprintf("pre-commit: exit %d", b.code)]++
		_, message, _ := strings.Cut(string(p.objs[id].data), "\n\n")
		write(p.t, filepath.Join(dir, ".git/COMMIT_EDITMSG"), message)
		m := p.says(dir, "commit-msg", []string{".git/COMMIT_EDITMSG"}, "")
		if a.code == 2 {
			continue
		}
		var want []hit
		for _, h := range a.held(rules.PreCommit) {
			if h.Commit == id && !h.later(parent == u.old) {
				want = append(want, h)
			}
		}
		got := slices.Clone(b.hits)
		if parent != u.old {
			got = slices.DeleteFunc(got, func(h hit) bool { return h.Rule == "append-only" })
		}
		if slices.ContainsFunc(a.hits, func(h hit) bool { return h.Rule == "append-only" }) {
			// What was said and rewritten since is not in HEAD, which stands for the history
			// (docs/spec/relay.md#reply).
			rewritten := func(h hit) bool {
				return slices.Contains([]string{"thread-closed", "relay-reply", "relay-frozen"}, h.Rule)
			}
			got, want = slices.DeleteFunc(got, rewritten), slices.DeleteFunc(want, rewritten)
		}
		if same := len(changes(p.book.files(parent), p.book.files(id))) == 0; same {
			m.hits, m.code = nil, 0 // it is taken for an amended HEAD (docs/limits.md#envelopes)
		}
		got = append(got, m.hits...)
		for i := range got {
			got[i].Commit = id
		}
		slices.SortFunc(got, compareHits)
		if len(c.parents) > 1 { // what its sides bring is told of their commits
			if a.code == 0 && max(b.code, m.code) != 0 {
				wrong = append(wrong, fmt.Sprintf("merge %s: pre-commit and commit-msg exit with %d and %d, expected 0\n%s%s", id, b.code, m.code, b.text, m.text))
			}
			continue
		}
		if text := differ("pre-receive", "pre-commit", want, got); text != "" || exit(got) != exit(want) {
			wrong = append(wrong, fmt.Sprintf("commit %s: pre-commit and commit-msg exit with %d and %d, expected %d\n%s%s%s", id, b.code, m.code, exit(want), text, b.text, m.text))
		}
	}
	return wrong
}
