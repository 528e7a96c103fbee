package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/gittest"
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
	var out, errOut bytes.Buffer
	code := hooks.Run(context.Background(), "pre-receive", &hooks.Env{
		Args: []string{"--format", "json", "--timeout", "5m"}, Stdin: strings.NewReader(in.String()), Stdout: &out, Stderr: &errOut,
		Environ: append([]string{"GIT_DIR=.", "GIT_QUARANTINE_PATH=" + w.extra, "GIT_OBJECT_DIRECTORY=" + w.extra,
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(w.server, "objects")}, w.env...),
		Dir: w.server, Now: func() time.Time { return time.Unix(now, 0) },
	})
	a := answer{code: code, rules: map[string]bool{}, text: out.String() + errOut.String()}
	var report struct {
		Findings []struct{ Rule, Severity string }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		w.t.Fatalf("the report is no JSON: %v\n%s", err, a.text)
	}
	for _, f := range report.Findings {
		if f.Severity == "error" {
			a.rules[f.Rule] = true
		}
	}
	return a
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
		if !v.rules[rule] {
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

func TestHostilePusher(t *testing.T) {
	total, seed := number(t, "RIGWARD_ATTACK", 200), uint64(number(t, "RIGWARD_ATTACK_SEED", 1))
	program := filepath.Join(gittest.TempDir(t), "rig-hook")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/rigward/rigward/cmd/rig-hook").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	count := map[string]int{}
	for n := 0; n < total; seed++ {
		if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { attackWorld(t, seed, &n, total, program, count) }) && len(count) > 0 {
			if count["disagreements"] >= 10 {
				break
			}
		}
	}
	var told []string
	for _, k := range sorted(count) {
		told = append(told, fmt.Sprintf("%s %d", k, count[k]))
	}
	t.Logf("%s", strings.Join(told, ", "))
	if count["passed"] == 0 || count["refused"] == 0 {
		t.Error("the generator makes pushes of one kind only")
	}
}

func attackWorld(t *testing.T, seed uint64, n *int, total int, program string, count map[string]int) {
	texts := sorted(policies)
	w := newWorld(t, seed, time.Now().Unix(), texts[seed%uint64(len(texts))])
	if _, err := hooks.Install(filepath.Join(w.server, "hooks"), program, hooks.ServerHooks); err != nil {
		t.Fatal(err)
	}
	git := &gittest.Repo{T: t, Dir: w.server, Home: w.home, Env: w.env, Now: w.now}
	git.Run("config", "rigward.timeout", "5m")
	git.Run("config", "receive.denyDeleteCurrent", "ignore")
	if seed%5 == 0 {
		git.Run("symbolic-ref", "refs/heads/alias", "refs/heads/main")
	}
	w.pool = sorted(w.trees)
	m, err := newModel(w.server, append([]string{"GIT_OBJECT_DIRECTORY=" + w.extra, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(w.server, "objects")}, w.env...))
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	for k := 0; k < perWorld && *n < total; {
		updates := w.push(m)
		if len(updates) == 0 {
			continue
		}
		k++
		*n++
		now := w.now
		v := m.judge(updates, now)
		why := ""
		var a answer
		if *n%realEvery == 0 {
			if later := m.judge(updates, time.Now().Unix()+30); later.pass() != v.pass() {
				continue // it hangs on a second
			}
			a = w.realPush(git, updates)
			count["real pushes"]++
			if a.code == notOurs {
				count["refused by git itself"]++
				a.code = 1
			} else if v.pass() != (a.code == 0) {
				why = fmt.Sprintf("the model says pass %v, git push exits with %d", v.pass(), a.code)
			}
		} else {
			a = w.receive(updates, now)
			why = disagreement(v, a)
		}
		if why != "" {
			count["disagreements"]++
			t.Errorf("push %d of seed %d, policy %q: %s\nmodel: %v %s\nupdates: %v\nhook: exit %d %s\n%s", k, seed, w.policy, why, sorted(v.rules), v.undecided, updates, a.code, a.text, w.show(git, updates))
			return
		}
		for rule := range v.rules {
			count["["+rule+"]"]++
		}
		switch {
		case a.code == 0:
			count["passed"]++
			w.accept()
			for _, u := range updates {
				ref := u.ref
				if strings.HasPrefix(ref, "refs/heads/") && u.new != zero && m.get(u.new).typ != "commit" {
					continue // git lets no branch be anything else
				}
				if ref == "refs/heads/alias" && seed%5 == 0 {
					ref = "refs/heads/main"
				}
				if u.new == zero {
					delete(w.tips, ref)
				} else {
					w.tips[ref] = u.new
				}
				if *n%realEvery != 0 {
					w.move(git, ref, u.new)
				}
			}
			if w.tips["refs/heads/main"] == "" {
				return // HEAD was not protected, and is gone
			}
		case a.code == 1:
			count["refused"]++
		default:
			count["undecided"]++
		}
	}
}

// move puts a ref where the push wanted it.
func (w *world) move(git *gittest.Repo, ref, id string) {
	if id == zero {
		git.Run("update-ref", "-d", ref)
		return
	}
	file := filepath.Join(w.server, ref)
	if os.MkdirAll(filepath.Dir(file), 0o755) != nil || os.WriteFile(file, []byte(id+"\n"), 0o644) != nil {
		w.t.Fatalf("cannot write %s", ref)
	}
}

// notOurs stands for a push that git refused by itself.
const notOurs = -1

// realPush pushes by git push, through real hooks.
func (w *world) realPush(server *gittest.Repo, updates []mupdate) answer {
	c := &gittest.Repo{T: w.t, Dir: w.client, Home: w.home, Env: w.env, Now: w.now}
	args := []string{"--no-thin", "--atomic", "--force", "file://" + w.server}
	for _, u := range updates {
		if u.new == zero {
			args = append(args, ":"+u.ref)
		} else {
			args = append(args, u.new+":"+u.ref)
		}
	}
	res := c.Push(args...)
	a := answer{code: res.Code, text: res.Stderr}
	if res.Code != 0 && !strings.Contains(res.Stderr, "rigward") && !strings.Contains(res.Stderr, "hook declined") {
		a.code = notOurs
	}
	return a
}

// show prints the commits of updates, for a person.
func (w *world) show(git *gittest.Repo, updates []mupdate) string {
	g := *git
	g.Env = append(slices.Clone(w.env), "GIT_ALTERNATE_OBJECT_DIRECTORIES="+w.extra)
	var b strings.Builder
	for _, u := range updates {
		if u.new != zero {
			args := []string{"log", "-m", "--raw", "--no-abbrev", "--format=raw", u.new}
			if u.old != zero {
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
