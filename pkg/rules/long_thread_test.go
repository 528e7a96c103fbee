package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// TestTurns: over random histories that are pushed piece by piece, the same is found
// with what is kept of threads, without it, and where it is damaged before each push.
func TestTurns(t *testing.T) {
	told, looked := map[string]bool{}, 0
	for seed := range uint64(2) {
		formats := []string{"sha1", "sha256"}
		if os.Getenv("RIGWARD_STRESS") != "full" {
			formats = formats[seed : seed+1]
		}
		for _, format := range formats {
			r := gittest.New(t, gittest.Options{ObjectFormat: format})
			tangled(t, r, seed, 90)
			repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
			if err != nil {
				t.Fatal(err)
			}
			defer repo.Close()
			w := &world{TB: t, policy: "rules: {relay-frozen: error}\n", signers: keyOp.Line("op@example.com,op-relay", "")}
			p := w.demands()
			random := rand.New(rand.NewPCG(seed, 3))
			commits := strings.Fields(r.Run("rev-list", "--reverse", "--topo-order", "main"))
			kept, damaged := t.TempDir(), t.TempDir()
			for from := 0; from < len(commits)-1; {
				to := min(len(commits)-1, from+1+random.IntN(8))
				old, tip := commits[from], commits[to]
				from = to
				if random.IntN(4) == 0 {
					old = commits[random.IntN(to)] // another branch
				}
				if err := damage(damaged, random); err != nil {
					t.Fatal(err)
				}
				var want *Judge
				for n, dir := range []string{"", kept, damaged} {
					j := &Judge{Repo: repo, Gate: Check, Now: time.Unix(gittest.Epoch, 0).AddDate(0, 1, 0), long: 1}
					if n > 0 {
						j.Turns = &history.Turns{Dir: dir, Format: format, Recent: 5}
						TurnsBy(p, j.Turns)
					}
					g := Range{New: tip, Old: old, Exclude: []string{old}, History: true, Policy: p, Trust: w.trust()}
					if err := j.Range(t.Context(), g); err != nil {
						t.Fatal(err)
					}
					j.Keep()
					j.Turns.Close()
					finding.Sort(j.Findings)
					if n == 0 {
						want = j
					} else if !slices.Equal(j.Findings, want.Findings) || j.Envelopes != want.Envelopes {
						t.Fatalf("seed %d, %s, %s..%s, %d:\n%s\nexpected\n%s", seed, format, old, tip, n, lines(j.Findings), lines(want.Findings))
					}
					for _, f := range j.Findings {
						told[f.Rule] = true
					}
				}
			}
			files, err := os.ReadDir(filepath.Join(kept, "threads"))
			if err != nil {
				t.Fatal(err)
			}
			looked += len(files)
		}
	}
	for _, rule := range []string{"append-only", "relay-reply", "references", "thread-closed", "divergence", "envelope-path", "relay-frozen"} {
		if !told[rule] {
			t.Errorf("nothing is found by %s", rule)
		}
	}
	if looked == 0 {
		t.Error("nothing was kept")
	}
}

// damage changes, cuts, or removes one of the files below a directory.
func damage(dir string, random *rand.Rand) error {
	var names []string
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) == 0 {
		return err
	}
	name := names[random.IntN(len(names))]
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	switch random.IntN(5) {
	case 0:
		return os.Remove(name)
	case 1:
		data = data[:random.IntN(len(data)+1)]
	case 2:
		data = append(data, data...)
	default:
		if len(data) > 0 {
			data[random.IntN(len(data))] ^= 1 << random.IntN(8)
		}
	}
	return errors.Join(os.Remove(name), os.WriteFile(name, data, 0o644))
}

// TestTurnsOfAnotherProgram holds that what is kept does not outlive a change of what
// it is derived by: where the digest differs, raise the number in history's turnsMagic.
func TestTurnsOfAnotherProgram(t *testing.T) {
	texts := []string{"", "no fence\n", "---\nbroken: [\n---\n", turn("rig-a", "RESOLUTION", "Done.\n"), turn("rig-a", "STATE", ""),
		turn("rig-a", "STATE", "A\r\nB \n\n"), decision(nonce1, time.Minute), turn("rig-a", "RESOLUTION", "No date.\n", func(f *envelope.Fields) { f.Date = "soon" }),
		decision(nonce2, time.Minute, func(f *envelope.Fields) { f.Type, f.Status = "ACK", "⏸ Wait" })}
	var b bytes.Buffer
	for _, text := range texts {
		s := sayingOf(policy.Default().ParseAccepted([]byte(text)))
		fmt.Fprintf(&b, "%x %d\n", s.hash, s.kind())
	}
	sum := sha256.Sum256(b.Bytes())
	if got := hex.EncodeToString(sum[:8]); got != "65a1bac3a03588c6" {
		t.Errorf("what is kept of messages is another: %s\n%s", got, b.String())
	}
}

// TestPruned: what came and went is let go of, and nothing else.
func TestPruned(t *testing.T) {
	w := newWorld(t)
	for n := range 20 {
		w.commit(fmt.Sprint(n), put(fmt.Sprintf("t-one/%02d.md", n), turn("rig-a", "STATE", fmt.Sprintf("Turn %d.\n", n))))
	}
	w.accept()
	x := &history.Turns{Dir: t.TempDir(), Format: "sha1"}
	TurnsBy(w.demands(), x)
	th := x.Thread("t-one")
	for n := range 3 * learnt {
		th.Add([]history.Turn{{Blob: oidOf(fmt.Sprintf("%040x", n+1)), Kind: history.Fenced}})
	}
	w.commit("answer", put("t-one/ANSWER.md", turn("rig-b", "STATE", "Yes.\n", answers("Turn 7.\n"))))
	j, err := w.judgeWith(PreReceive, x)
	if err != nil || len(j.Findings) != 0 {
		t.Fatal(err, lines(j.Findings))
	}
	if n := th.Len(); n != 21 {
		t.Errorf("%d messages are known, expected 21", n)
	}
}

// TestReadsFew: a push into a long thread reads as many messages as it would into a
// short one.
func TestReadsFew(t *testing.T) {
	w := newWorld(t)
	const many = 500
	w.commit("many", func(w *world, d *draft) {
		for n := range many {
			kind := "STATE"
			if n > many/2 {
				kind = "RESOLUTION"
			}
			put(fmt.Sprintf("t-one/%03d.md", n), turn("rig-a", kind, fmt.Sprintf("Turn %d.\n", n)))(w, d)
		}
	})
	w.accept()
	x := &history.Turns{Dir: t.TempDir(), Format: "sha1"}
	TurnsBy(w.demands(), x)
	for n, name := range []string{"first", "second", "third"} {
		w.commit(name, put("t-one/"+name+".md", turn("rig-b", "STATE", name+"\n", answers("Turn 7.\n"))))
		w.reads = 0
		j, err := w.judgeWith(PreReceive, x)
		if err != nil || len(j.Findings) != 1 || j.Findings[0].Rule != "thread-closed" {
			t.Fatal(err, lines(j.Findings))
		}
		j.Keep()
		w.accept()
		if n == 0 && w.reads < many || n > 0 && w.reads > 16 {
			t.Errorf("the %s push reads %d objects", name, w.reads)
		}
	}
}
