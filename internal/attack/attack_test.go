package attack

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
)

// An answer is what the real hook said.
type answer struct {
	code  int
	rules map[string]bool
	text  string
}

// receive runs the pre-receive hook as git receive-pack does, with the objects
// of the push in their quarantine.
func (w *world) receive(updates []mupdate, now int64) answer {
	var in strings.Builder
	for _, u := range updates {
		fmt.Fprintf(&in, "%s %s %s\n", u.old, u.new, u.ref)
	}
	return w.hook("pre-receive", nil, in.String(), now)
}

// disagreement compares verdicts; "" if they agree. Which rules an
// undecidable push breaks besides is not compared, nor what is said of
// commits that stand beside a malformed one.
func disagreement(v *verdict, a answer) string {
	if v.pass() != (a.code == 0) {
		return fmt.Sprintf("the model says pass %v, the hook exits with %d", v.pass(), a.code)
	}
	if v.undecided != "" || v.odd || a.code != 1 {
		return ""
	}
	for rule := range v.rules {
		if !a.rules[rule] {
			return "the hook does not tell " + rule
		}
	}
	for rule := range a.rules {
		if !v.rules[rule] && !v.may[rule] {
			return "the model does not know of " + rule
		}
	}
	return ""
}

func number(t *testing.T, name string, otherwise int) int {
	if text := os.Getenv(name); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	return otherwise
}

// perWorld is how many pushes one server has to stand; every realEvery-th push
// is a real git push to a server with real hooks.
const (
	perWorld  = 40
	realEvery = 50
)

// A tally counts pushes by how they ended, the rules that they broke, and what
// was done to make them.
type tally struct {
	pushes, passed, refused, undecided, real, byGit, disagreements int
	audits, marked, beyond                                         int
	rules                                                          map[string]int
	labels                                                         map[string]*[2]int // refused, passed
}

func newTally() *tally { return &tally{rules: map[string]int{}, labels: map[string]*[2]int{}} }

// merge adds what another tally counted.
func (c *tally) merge(o *tally) {
	c.pushes += o.pushes
	c.passed += o.passed
	c.refused += o.refused
	c.undecided += o.undecided
	c.real += o.real
	c.byGit += o.byGit
	c.disagreements += o.disagreements
	c.audits += o.audits
	c.marked += o.marked
	c.beyond += o.beyond
	for rule, n := range o.rules {
		c.rules[rule] += n
	}
	for l, n := range o.labels {
		if c.labels[l] == nil {
			c.labels[l] = &[2]int{}
		}
		c.labels[l][0] += n[0]
		c.labels[l][1] += n[1]
	}
}

func (c *tally) add(w *world, passed bool) {
	n := 0
	if passed {
		n = 1
	}
	seen := map[string]bool{}
	for _, l := range slices.Concat(w.always, w.labels) {
		if c.labels[l] == nil {
			c.labels[l] = &[2]int{}
		}
		if !seen[l] {
			c.labels[l][n]++
		}
		seen[l] = true
	}
}

// wanted are things that must have passed, and must have been refused, in a
// long run: else the generator proves nothing of them.
var wanted = []string{"server: sha1", "server: sha256", "server: a policy of its own", "server: signers of its own", "server: relay-frozen is on", "server: a shallow file", "server: a replacement ref",
	"change: a relay by ssh-ed25519", "change: a relay by ecdsa-sha2-nistp256", "change: a relay by ecdsa-sha2-nistp384", "change: a relay by ecdsa-sha2-nistp521", "change: a relay by ssh-rsa",
	"change: a relay by sk-ssh-ed25519@openssh.com", "change: a relay of another person", "change: a freeze", "change: a merge", "change: a large or deep tree", "change: policy or signers",
	"commit: by the forge", "push: several refs", "push: a deletion", "push: a ref below a deleted one", "push: an annotated tag", "push: refs/tags", "push: refs/notes"}

func TestHostilePusher(t *testing.T) {
	gittest.NotShort(t)
	total, seed := number(t, "RIGWARD_ATTACK", 120), uint64(number(t, "RIGWARD_ATTACK_SEED", 1))
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := newTally()
	for ; c.pushes < total && c.disagreements < 10; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { attackWorld(t, seed, total, program, c) })
	}
	c.tell(t)
	if total >= 5000 {
		for _, l := range wanted {
			if n := c.labels[l]; n == nil || n[0] == 0 || n[1] == 0 {
				t.Errorf("of %q, some must pass and some be refused: %v", l, n)
			}
		}
	}
}

// tell logs what was tried, and how it ended.
func (c *tally) tell(t *testing.T) {
	for _, l := range sorted(c.labels) {
		t.Logf("%6d passed %6d refused  %s", c.labels[l][1], c.labels[l][0], l)
	}
	var told []string
	for _, k := range sorted(c.rules) {
		told = append(told, fmt.Sprintf("%s %d", k, c.rules[k]))
	}
	t.Logf("refused by rule: %s", strings.Join(told, ", "))
	t.Logf("%d pushes: %d passed, %d refused, %d undecided, %d disagreements; %d of them by git push, %d of which git itself refused",
		c.pushes, c.passed, c.refused, c.undecided, c.disagreements, c.real, c.byGit)
	t.Logf("%d audits: %d by a mark, %d of them with commits beyond it", c.audits, c.marked, c.beyond)
	if c.audits > 100 && c.marked == 0 {
		t.Error("no audit went by a mark")
	}
	if c.passed == 0 || c.refused == 0 {
		t.Error("the generator makes pushes of one kind only")
	}
}

func attackWorld(t *testing.T, seed uint64, total int, program string, count *tally) {
	w := newWorld(t, seed, kindOf(seed))
	if _, err := hooks.Install(filepath.Join(w.server, "hooks"), program, hooks.ServerHooks); err != nil {
		t.Fatal(err)
	}
	git := &gittest.Repo{T: t, Dir: w.server, Home: w.home, Env: w.env, Now: w.now}
	git.Config("rigward.timeout", "5m")
	git.Config("receive.denyDeleteCurrent", "ignore")
	if w.alias = w.one(5); w.alias {
		git.Run("symbolic-ref", "refs/heads/alias", "refs/heads/main")
	}
	b := w.newBook()
	for k := 0; k < perWorld && count.pushes < total; {
		w.labels = nil
		updates := w.push(b.model)
		if len(updates) == 0 {
			continue
		}
		k++
		count.pushes++
		// again says that a push is to be tried once more, as it would be when
		// the server has been repaired.
		again, undo := false, func() {}
		real := count.pushes%realEvery == 0
		if !real {
			again, undo = w.trick(b)
		}
		v, a, why := w.try(git, b, updates, real, count)
		undo()
		if why == "" && again {
			count.add(w, a.code == 0)
			w.labels = w.labels[:len(w.labels)-1]
			v, a, why = w.try(git, b, updates, real, count)
		}
		if why != "" {
			count.disagreements++
			t.Errorf("push %d of seed %d, policy %q: %s\nmodel: %q %s\nupdates: %v\nhook: exit %d %s\n%s", k, seed, w.policy, why, v.where, v.undecided, updates, a.code, a.text, w.quote(b, v)+w.show(git, updates))
			return
		}
		count.add(w, a.code == 0)
		for rule := range v.rules {
			count.rules[rule]++
		}
		switch a.code {
		case 0:
			count.passed++
			w.accept()
			if wrong := b.accept(w.apply(git, b.model, updates, !real)); wrong != "" {
				count.disagreements++
				t.Errorf("push %d of seed %d: both let it pass, but %s", k, seed, wrong)
				return
			}
			if w.tips["refs/heads/main"] == "" {
				return // HEAD was not protected, and is gone
			}
		case 1:
			count.refused++
		default:
			count.undecided++
		}
		if k%8 == 0 {
			if why := w.audit(git, program, updates, count); why != "" {
				t.Errorf("after push %d of seed %d, policy %q: %s", k, seed, w.policy, why)
				return
			}
		}
	}
}

// audit audits the server's history, and what it would be with what the push wanted:
// what is found by the mark of earlier audits is what is found of all that is read.
func (w *world) audit(git *gittest.Repo, program string, updates []mupdate, count *tally) string {
	run := func(args ...string) string {
		cmd := exec.Command(program, append([]string{"check", "--all", "--format", "json"}, args...)...)
		cmd.Dir, cmd.Env = w.server, append(slices.Clone(w.env), "GIT_DIR=.") // as what git starts
		out, _ := cmd.Output()
		return fmt.Sprintf("exit %d %s", cmd.ProcessState.ExitCode(), out)
	}
	whole := map[string]string{} // what is found without a mark, by the tip
	tips := []string{w.tips["refs/heads/main"]}
	for _, u := range updates {
		if u.ref == "refs/heads/main" && !zero(u.new) && w.objs[u.new].typ == "commit" {
			tips = append(tips, u.new, tips[0])
		}
	}
	defer func() { w.move(git, "refs/heads/main", tips[0]) }()
	for _, tip := range tips {
		if tip == "" {
			continue
		}
		w.move(git, "refs/heads/main", tip)
		marked := run()
		if whole[tip] == "" {
			whole[tip] = run("--no-cache")
		}
		all := whole[tip]
		at := strings.Index(marked, `,"notes":[`)
		if at < 0 {
			at = len(marked)
		} else if n, m := 0, 0; strings.Contains(marked, "were judged before") {
			fmt.Sscanf(marked[at:], `,"notes":["%d of %d`, &n, &m)
			if count.marked++; n < m {
				count.beyond++
			}
		}
		if why := all; !strings.HasPrefix(why, marked[:at]) {
			return fmt.Sprintf("by the mark of main at %s\n%s\nwithout it\n%s", tip, marked, all)
		}
		count.audits++
	}
	return ""
}

// newBook begins the book about the world's server. What the default branch is
// when the hooks come needs no judgement.
func (w *world) newBook() *book {
	m := &model{dir: w.server, objs: w.objs, head: "refs/heads/main", size: 20, trees: map[string]mtree{}, commits: map[string]*mcommit{}, envs: map[envKey]*menv{},
		serverPolicy: w.serverPolicy, serverSigners: w.serverSigners, serverRevoked: w.serverRevoked}
	if w.sha256 {
		m.size = 32
	}
	b := &book{model: m, tips: maps.Clone(w.tips), links: map[string]string{}, held: map[string]mtree{}, judged: map[string]map[string]bool{}}
	if w.alias {
		b.links["refs/heads/alias"] = m.head
	}
	return b
}

// try lets the model and the hook judge one push; why is empty if they agree.
func (w *world) try(git *gittest.Repo, b *book, updates []mupdate, real bool, count *tally) (v *verdict, a answer, why string) {
	if !real {
		v, a = b.judge(updates, w.now), w.receive(updates, w.now)
		return v, a, disagreement(v, a)
	}
	now := time.Now().Unix()
	for i, u := range updates { // git sends what the server says of the ref
		if id, ok := b.tips[b.target(u.ref)]; ok {
			updates[i].old = id
		}
	}
	v = b.judge(updates, now)
	a = w.realPush(git, updates)
	count.real++
	switch {
	case a.code == notOurs:
		count.byGit++
		a.code = 1
	case v.pass() == (a.code == 0):
	case b.judge(updates, time.Now().Unix()+1).pass() != v.pass():
		a.code = 1 // it hangs on a second
	default:
		why = fmt.Sprintf("the model says pass %v, git push exits with %d", v.pass(), a.code)
	}
	return v, a, why
}

// trick does something to the server itself, now and then. undo takes it back.
func (w *world) trick(b *book) (again bool, undo func()) {
	file := func(name, text, label string, again bool) (bool, func()) {
		w.did(label)
		write(w.t, filepath.Join(w.server, name), text)
		if strings.HasPrefix(name, "refs/") {
			b.tips[name] = strings.TrimSuffix(text, "\n")
		}
		return again, func() {
			delete(b.tips, name)
			if err := os.Remove(filepath.Join(w.server, name)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	rename := func(name, label string) (bool, func()) {
		if name == "" {
			return false, func() {}
		}
		w.did(label)
		move := func(from, to string) {
			if err := os.Rename(from, to); err != nil {
				w.t.Fatal(err)
			}
		}
		move(name, name+".away")
		return true, func() { move(name+".away", name) }
	}
	tip := w.tips["refs/heads/main"]
	switch w.rng.IntN(150) {
	case 0:
		return file("info/grafts", tip+"\n", "server: grafts", true)
	case 1, 2, 3, 4, 5, 6:
		return file("shallow", tip+"\n", "server: a shallow file", false)
	case 7, 8, 9, 10, 11, 12:
		for _, ref := range sorted(w.tips) {
			if id := w.tips[ref]; id != tip && w.trees[id] != nil && w.tips["refs/replace/"+tip] == "" {
				return file("refs/replace/"+tip, id+"\n", "server: a replacement ref", false)
			}
		}
	case 13:
		return rename(w.serverPolicy, "server: its policy is missing")
	case 14:
		return rename(w.serverSigners, "server: its signers are missing")
	}
	return false, func() {}
}

// apply moves the refs of a push that passed; files says that git has not. It returns what
// did move.
func (w *world) apply(git *gittest.Repo, m *model, updates []mupdate, files bool) (moved []mupdate) {
	for _, u := range updates {
		ref := u.ref
		if strings.HasPrefix(ref, "refs/heads/") && !zero(u.new) && m.get(u.new).typ != "commit" {
			continue // git lets no branch be anything else
		}
		if ref == "refs/heads/alias" && w.alias {
			ref = "refs/heads/main"
		}
		if now := cmp.Or(w.tips[ref], w.zero()); now != u.old {
			continue // the push was wrong about what is there, and git moves nothing
		}
		if !zero(u.new) && slices.ContainsFunc(sorted(w.tips), func(other string) bool {
			return strings.HasPrefix(other, ref+"/") || strings.HasPrefix(ref, other+"/")
		}) {
			continue // a ref in the way
		}
		if zero(u.new) {
			delete(w.tips, ref)
		} else {
			w.tips[ref] = u.new
		}
		moved = append(moved, mupdate{u.old, u.new, ref})
		if files {
			w.move(git, ref, u.new)
		}
	}
	return moved
}

// move puts a ref where the push wanted it.
func (w *world) move(git *gittest.Repo, ref, id string) {
	if zero(id) {
		git.Run("update-ref", "-d", ref)
		return
	}
	file := filepath.Join(w.server, ref)
	if os.MkdirAll(filepath.Dir(file), 0o755) != nil || os.WriteFile(file, []byte(id+"\n"), 0o644) != nil {
		git.SetRef(ref, id) // git clears empty directories away
	}
}

// notOurs stands for a push that git refused by itself.
const notOurs = -1

// realPush pushes by git push, through real hooks.
func (w *world) realPush(server *gittest.Repo, updates []mupdate) answer {
	c := &gittest.Repo{T: w.t, Dir: w.client, Home: w.home, Env: w.env, Now: w.now}
	args := []string{"--no-thin", "--atomic", "--force", "file://" + w.server}
	for _, u := range updates {
		if zero(u.new) {
			args = append(args, ":"+u.ref)
		} else {
			args = append(args, u.new+":"+u.ref)
		}
	}
	res := c.Push(args...)
	a := answer{code: res.Code, text: res.Stderr}
	if res.Code != 0 && !strings.Contains(res.Stderr, "hook declined") {
		a.code = notOurs // as refs/heads/main/x beside a refs/heads/main that goes
	}
	return a
}

// quote prints the files that a verdict is about, for a person.
func (w *world) quote(b *book, v *verdict) string {
	text := ""
	for _, where := range v.where {
		_, at, _ := strings.Cut(where, " ")
		id, path, _ := strings.Cut(at, ":")
		if e, ok := b.files(id)[path]; ok {
			data := b.get(e.id).data
			text += fmt.Sprintf("%s: %.700q\n", where, data)
		}
	}
	return text
}

// show prints the commits of updates, for a person.
func (w *world) show(git *gittest.Repo, updates []mupdate) string {
	g := *git
	g.Env = append(slices.Clone(w.env), "GIT_ALTERNATE_OBJECT_DIRECTORIES="+w.extra)
	var b strings.Builder
	for _, u := range updates {
		if !zero(u.new) {
			args := []string{"log", "-m", "--raw", "--no-abbrev", "--format=raw", u.new}
			if !zero(u.old) {
				args = append(args, "^"+u.old)
			} else {
				args = append(args, "-3")
			}
			res := g.Try(nil, args...)
			fmt.Fprintf(&b, "== %s\n%s%s", u.ref, res.Stdout, res.Stderr)
		}
	}
	text := b.String()
	if len(text) > 6000 {
		text = text[:6000] + "…"
	}
	return text
}
