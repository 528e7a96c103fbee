package attack

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
)

// Of the pushes of all sequences, one of realSequence is a git push to a server
// with real hooks, and of what passes one of updateEvery is also judged ref by
// ref, as the update hook does. The history that one of auditEvery brings is audited
// with marks and without, and read; RIGWARD_SEQUENCES_AUDITED=1 audits all.
const (
	realSequence = 150
	updateEvery  = 4
	auditEvery   = 40
)

// storeSequences is how many sequences share one store: git is slow where
// loose objects are many.
const storeSequences = 50

// program is rig-hook, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rig-hook")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "rig-hook"), programs.Build(dir, "rig-hook")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if testing.Short() {
		os.Exit(code) // nothing was built
	}
	if file, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// TestSequences plays sequences of pushes on one server each, and compares
// every verdict with the book's.
func TestSequences(t *testing.T) {
	gittest.NotShort(t)
	total, first := number(t, "RIGWARD_SEQUENCES", 100), uint64(number(t, "RIGWARD_SEQUENCES_SEED", 1))
	bad, workers := number(t, "RIGWARD_SEQUENCES_BAD", 10), number(t, "RIGWARD_SEQUENCES_WORKERS", runtime.GOMAXPROCS(0))
	all := newTally()
	started, begun, ended := time.Now(), 0, 0
	var lock sync.Mutex // of what the workers share
	begin := func() (seed uint64, ok bool) {
		lock.Lock()
		defer lock.Unlock()
		if begun == total || all.disagreements >= bad {
			return 0, false
		}
		begun++
		return first + uint64(begun) - 1, true
	}
	end := func(c *tally) {
		lock.Lock()
		defer lock.Unlock()
		all.merge(c)
		if ended++; ended%1000 == 0 {
			t.Logf("%d sequences, %d pushes, %d disagreements after %.0f s", ended, all.pushes, all.disagreements, time.Since(started).Seconds())
		}
	}
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for k, more := 0, true; more; k++ {
				t.Run(fmt.Sprintf("worker %d, store %d", worker, k), func(t *testing.T) {
					st := newStore(t)
					for range storeSequences {
						seed, ok := begin()
						if more = ok; !more {
							return
						}
						c := newTally()
						t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { playSequence(t, seed, st, c) })
						end(c)
					}
				})
			}
		})
	}
	wg.Wait()
	c := all
	c.tell(t)
	t.Logf("seeds %d to %d: %d sequences", first, first+uint64(begun)-1, ended)
	if total >= 2000 {
		for _, l := range both {
			if n := c.labels[l]; n == nil || n[0] < 10 || n[1] < 10 {
				t.Errorf("of %q, some must pass and some be refused: %v", l, n)
			}
		}
		for _, l := range refused {
			if n := c.labels[l]; n == nil || n[0] < 10 {
				t.Errorf("of %q, some must be refused: %v", l, n)
			}
		}
	}
}

// both are what must have passed, and must have been refused, ten times in a
// long run.
var both = []string{"relay: as it should be", "relay: nonce", "relay: another's key", "relay: turn", "relay: signature", "relay: unknown key", "relay: author",
	"relay: one path", "relay: clock", "relay: forged name of a key",
	"change: edit", "change: deletion", "change: move", "change: mode", "change: link", "change: restore", "change: an octopus merge", "change: a merge",
	"name: of a thread", "name: of an envelope", "name: of what .bridge guards", "name: of a clone's configuration",
	"size: below the limit", "size: the limit", "size: above the limit", "size: far above the limit",
	"file: without a fence", "file: as an envelope", "file: as a relay", "policy: another", "signers: others",
	"plan: a relay in place of a file without a fence", "plan: it goes again", "plan: an envelope of just that size", "plan: the nonce of what is too large now",
	"plan: another policy", "plan: a relay on it", "plan: a new ref at its tip", "plan: it is merged", "plan: a word on the release", "plan: after the revocation",
	"plan: a relay on another ref", "plan: a relay on the first ref again",
	"tombstone: signer", "tombstone: unsigned", "tombstone: hash", "tombstone: content", "tombstone: merge", "tombstone: repository", "tombstone: ref", "tombstone: path",
	"tombstone: sender", "tombstone: type", "tombstone: new", "tombstone: beside", "tombstone: late", "tombstone: mode", "tombstone: text behind", "tombstone: quorum", "tombstone: relay",
	"plan: an answer to what was taken out"}

// refused are what must have been refused, where hardly anything lets it pass.
var refused = []string{"plan: a tombstone is edited", "plan: the body comes back", "plan: a tombstone is deleted", "plan: twice", "plan: a forced push", "plan: what is too large now is edited", "plan: what is too large now is deleted", "plan: what is too large now is moved"}

func newStore(t testing.TB) *store {
	deflate, err := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	return &store{dir: gittest.TempDir(t), written: map[string]bool{}, deflate: deflate}
}

// newPlayer makes a server of a kind that the seed decides, and the book about
// it.
func newPlayer(t testing.TB, seed uint64, st *store) *player {
	rng := rand.New(rand.NewPCG(seed, 9))
	p := &player{turn: rand.New(rand.NewPCG(seed, 10))}
	k := kind{store: st, long: rng.IntN(6) == 0, ownSigners: rng.IntN(8) == 0, ownRevoked: rng.IntN(4) == 0}
	p.world = &world{rng: rng}
	if rng.IntN(4) > 0 {
		o := p.vary(plainPolicy)
		o.root = pick(p.world, "", "", "", "bridge", "a/b")
		k.policy = render(o)
	}
	if rng.IntN(10) == 0 {
		o := p.vary(plainPolicy)
		if rng.IntN(3) == 0 {
			o.revoked, o.serverRevoked = "", filepath.Join(st.dir, fmt.Sprintf("revoked-%d", seed))
			write(t, o.serverRevoked, "# of the server\n"+pick(p.world, "", keyP256.Authorized()+"\n"))
		}
		k.own = render(o)
	}
	p.world = newWorld(t, seed, k)
	if p.alias = p.one(10); p.alias {
		write(t, filepath.Join(p.server, "refs/heads/alias"), "ref: refs/heads/main\n")
	}
	p.book = p.newBook()
	return p
}

func playSequence(t *testing.T, seed uint64, st *store, count *tally) {
	p := newPlayer(t, seed, st)
	git := &gittest.Repo{T: t, Dir: p.server, Home: p.home, Env: p.env, Now: p.now}
	hooked := false
	length, audited := 3+p.rng.IntN(10), number(t, "RIGWARD_SEQUENCES_AUDITED", auditEvery)
	var told []string
	for k := 0; k < length; {
		if o := p.book.trust(); !o.policyBad && p.serverPolicy == "" {
			p.policy = ""
			if e, ok := p.trees[p.main()][policyFile]; ok {
				p.policy = string(p.objs[e.id].data)
			}
		}
		updates := p.next()
		if len(updates) == 0 {
			k++ // so that it ends
			continue
		}
		k++
		count.pushes++
		real := p.turn.IntN(realSequence) == 0
		var a answer
		var v *verdict
		why := ""
		if real {
			if !hooked {
				hooked = true
				file, err := program()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := hooks.Install(filepath.Join(p.server, "hooks"), file, hooks.ServerHooks); err != nil {
					t.Fatal(err)
				}
				git.Config("rigward.timeout", "5m")
				git.Config("receive.denyDeleteCurrent", "ignore")
			}
			now := time.Now().Unix()
			v, a = p.book.judge(updates, now), p.realPush(git, updates)
			count.real++
			switch {
			case a.code == notOurs:
				count.byGit++
				a.code = 1
			case v.pass() != (a.code == 0):
				why = fmt.Sprintf("the model says pass %v, git push exits with %d", v.pass(), a.code)
			}
		} else {
			v, a = p.book.judge(updates, p.now), p.receive(updates, p.now)
			merged := p.book.reads(v, updates, p.now)
			if why = p.asRead(updates, v, a, merged); why == "" {
				why = disagreement(v, a)
			}
			if why == "" && a.code == 0 && p.turn.IntN(updateEvery) == 0 {
				why = p.updates(updates)
			}
			if why == "" && (seed+uint64(k)*7)%uint64(audited) == 0 {
				if why = p.audits(updates); why == "" && a.code == 0 {
					why = p.readers(updates)
				} else if why == "" {
					why = p.missed(updates, a, merged)
				}
			}
		}
		told = append(told, fmt.Sprintf("push %d: exit %d %q %v", k, a.code, p.labels, updates))
		if why == "" && a.code == 0 {
			moved := p.apply(git, p.book.model, updates, !real)
			p.accept()
			if wrong := p.book.accept(moved); wrong != "" {
				why = "both let it pass, but " + wrong
			}
		}
		if why != "" {
			count.disagreements++
			t.Errorf("push %d of seed %d: %s\nmodel: %q %s\nhook: exit %d %s\npolicy %q, judged %q\n%s\n%s", k, seed, why, v.where, v.undecided, a.code, a.text,
				p.policy, sorted(p.book.judged), strings.Join(told, "\n"), p.quote(p.book, v)+p.show(git, updates))
			return
		}
		count.add(p.world, a.code == 0)
		for rule := range v.rules {
			count.rules[rule]++
		}
		switch a.code {
		case 0:
			count.passed++
			if p.main() == "" {
				return
			}
		case 1:
			count.refused++
		default:
			count.undecided++
		}
	}
}

// updates lets the update hook judge each ref alone; the text tells the first
// disagreement.
func (p *player) updates(updates []mupdate) string {
	for _, u := range updates {
		v := p.book.judge([]mupdate{u}, p.now)
		a := p.hook("update", []string{u.ref, u.old, u.new}, "", p.now)
		if why := disagreement(v, a); why != "" {
			return fmt.Sprintf("update of %s: %s\nmodel: %q %s, exit %d %s", u.ref, why, v.where, v.undecided, a.code, a.text)
		}
	}
	return ""
}

// hook runs a hook of the server in this process.
func (w *world) hook(name string, args []string, stdin string, now int64) answer {
	var out, errOut bytes.Buffer
	code := hooks.Run(context.Background(), name, &hooks.Env{
		Args: append([]string{"--format", "json", "--timeout", "5m"}, args...), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut,
		Environ: append([]string{"GIT_DIR=.", "GIT_QUARANTINE_PATH=" + w.extra, "GIT_OBJECT_DIRECTORY=" + w.extra,
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(w.server, "objects")}, w.env...),
		Dir: w.server, Now: func() time.Time { return time.Unix(now, 0) },
	})
	a := answer{code: code, rules: map[string]bool{}, text: out.String() + errOut.String()}
	var report struct {
		Findings []struct{ Rule, Severity string }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		w.t.Fatalf("the report is not JSON: %v\n%s", err, a.text)
	}
	for _, f := range report.Findings {
		if f.Severity == "error" {
			a.rules[f.Rule] = true
		}
	}
	return a
}
