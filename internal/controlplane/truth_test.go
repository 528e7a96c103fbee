package controlplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// signer lets a repository sign with a key, as its committer.
func signer(t testing.TB, r *gittest.Repo, key *testkeys.Key, email string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, key.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Setenv("GIT_AUTHOR_EMAIL", email)
	r.Setenv("GIT_COMMITTER_EMAIL", email)
	r.Run("config", "gpg.format", "ssh")
	r.Run("config", "user.signingkey", file)
}

// refusals asks which paths the gates refuse, with the rules.
func refusals(t testing.TB, db *DB, commit string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, q := range Queries() {
		if q.Name != "refused" {
			continue
		}
		all, err := db.Ask(context.Background(), q, Parameters{Repos: []string{"team"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range all.Rows {
			if row[6] == commit {
				out[row[2].(string)] = row[4].(string)
			}
		}
	}
	return out
}

// TestFaultsPastTheGate is J14: what came past the gate is found, whichever rule
// it breaks, and its lawful neighbour is not. A relay counts as verified where the
// gates say so and nowhere else.
func TestFaultsPastTheGate(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	op, mallory := testkeys.Ed25519("op"), testkeys.Ed25519("mallory")
	signer(t, r, op, "op@example.com")
	const request = "build/REQUEST.md"
	r.Commit("begin", map[string]string{
		".bridge/allowed_signers": op.Line("op@example.com,op-relay", ""),
		request:                   say("REQUEST", "build", "rig-a", "rig-b", "Please build", nil),
		"build/STATE.md":          say("STATE", "build", "rig-b", "rig-a", "Going on", nil),
	}, "-S")
	n := 0
	relay := func(key *testkeys.Key, nonce, reply string) (path, text string) {
		n++
		if nonce == "" {
			nonce = fmt.Sprintf("01ARZ3NDEKTSV4RR%010d", n)
		}
		return fmt.Sprintf("build/RELAY-%s-%d.md", nonce, n), say("DECISIONS", "build", "op-relay", "rig-a", fmt.Sprint("Decided ", n), func(f *envelope.Fields) {
			f.Nonce, f.InReplyTo, f.AttestedBy = nonce, hash(reply), key.Fingerprint()
			f.AttestedAt = r.Run("log", "-1", "--format=%cd", "--date=format:%Y-%m-%dT%H:%M:%S.000Z")
		})
	}
	good, text := relay(op, "", "Please build")
	lawful := r.Commit("a lawful relay", map[string]string{good: text}, "-S")
	want := map[string][2]string{} // by commit: path and a rule
	add := func(id, path, rule string) { want[id] = [2]string{path, rule} }
	path, text := relay(op, "01ARZ3NDEKTSV4RR0000000001", "Please build")
	add(r.Commit("a replayed nonce", map[string]string{path: text}, "-S"), path, "relay-nonce")
	path, text = relay(op, "", "Nobody said this")
	add(r.Commit("a relay to no turn", map[string]string{path: text}, "-S"), path, "relay-reply")
	path, text = relay(op, "", "Please build")
	add(r.Commit("an unsigned relay", map[string]string{path: text}), path, "commit-signed")
	add(r.Commit("an edit", map[string]string{request: say("REQUEST", "build", "rig-a", "rig-b", "Something else", nil)}), request, "append-only")
	r.Run("rm", "-q", "build/STATE.md")
	add(r.Commit("a deletion", nil), "build/STATE.md", "append-only")
	add(r.Commit("a malformed one", map[string]string{"build/BAD.md": strings.Replace(say("STATE", "build", "rig-b", "rig-a", "Bad", nil), "type: STATE", "type: GOSSIP", 1)}), "build/BAD.md", "envelope-schema")
	signer(t, r, mallory, "mallory@example.com")
	path, text = relay(mallory, "", "Please build")
	add(r.Commit("a relay by another's key", map[string]string{path: text}, "-S"), path, "commit-signed")
	add(r.Commit("a swap of the signers", map[string]string{".bridge/allowed_signers": mallory.Line("mallory@example.com,op-relay", "")}, "-S"), "", "signers-change")
	path, text = relay(mallory, "", "Please build")
	add(r.Commit("a relay by who was swapped in", map[string]string{path: text}, "-S"), path, "commit-signed")
	signer(t, r, op, "op@example.com")
	last, text := relay(op, "", "Please build")
	after := r.Commit("a lawful relay after all that", map[string]string{last: text}, "-S")
	both(t, func(t *testing.T, target func() Target) {
		portions, whole := open(t, target()), open(t, target())
		x := indexer(t, r, portions)
		x.piece = 3
		update(t, x)
		update(t, indexer(t, r, whole))
		same(t, portions, whole)
		clean(t, x)
		for id, w := range want {
			if got := refusals(t, portions, id); !strings.Contains(got[w[0]], w[1]) {
				t.Errorf("%s: got %v, expected %s at %s", r.Run("log", "-1", "--format=%s", id), got, w[1], w[0])
			}
		}
		for _, id := range []string{lawful, after} {
			if got := refusals(t, portions, id); len(got) != 0 {
				t.Errorf("%s: %v", r.Run("log", "-1", "--format=%s", id), got)
			}
		}
		var verified []string
		err := each(t.Context(), portions.conn, "SELECT path FROM bridge_messages WHERE attested_by IS NOT NULL AND verdict = 'verified' ORDER BY path", nil, func(r rows) error {
			var path string
			err := r.Scan(&path)
			verified = append(verified, path)
			return err
		})
		if want := []string{good, last}; err != nil || !slices.Equal(verified, want) {
			t.Errorf("verified are %v, expected %v, %v", verified, want, err)
		}
	})
}

// TestAnyHistory reads random histories with merges of two and more, several
// refs, rewrites and both object formats in portions, beside each other and at
// once, and wants all tables to be the same.
func TestAnyHistory(t *testing.T) {
	seeds := 4 // one of each kind: both formats, and what the seed's remainder sets
	if full() {
		seeds = 200
	}
	kinds := map[string]int{}
	var mu sync.Mutex
	did := func(kind string) {
		mu.Lock()
		defer mu.Unlock()
		kinds[kind]++
	}
	more := []int{49, 91} // a relay answers what its own commit brings, and is judged twice; two messages of one second
	t.Run("seed", func(t *testing.T) {
		for seed := range max(seeds, slices.Max(more)+1) {
			if seed < seeds || slices.Contains(more, seed) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					t.Parallel()
					anyHistory(t, seed, did)
				})
			}
		}
	})
	t.Logf("%d histories and %d more, %v", seeds, len(more), kinds)
}

// anyHistory is one history of TestAnyHistory; did is told of what happens in it.
func anyHistory(t *testing.T, seed int, did func(string)) {
	rnd := rand.New(rand.NewPCG(uint64(seed), 77))
	o := gittest.Options{Bare: true}
	if seed%2 == 1 {
		o.ObjectFormat = "sha256"
	}
	r := gittest.New(t, o)
	line := tangled(t, r, 20+rnd.IntN(60), uint64(1000+seed))
	sides := strings.Fields(r.Run("for-each-ref", "--format=%(refname)", "refs/gen/"))
	main := r.Ref("refs/heads/main")
	if len(sides) > 1 { // an octopus, with the files of main alone
		args := []string{"-p", main}
		for _, side := range sides[:min(3, len(sides))] {
			args = append(args, "-p", side)
		}
		main = r.Run(append([]string{"commit-tree", "-m", "octopus", main + "^{tree}"}, args...)...)
		did("octopus")
	}
	line = append(line, main)
	target := func() Target { return parse(t, filepath.Join(t.TempDir(), "control.db")) }
	portions := open(t, target())
	x := indexer(t, r, portions)
	x.piece, x.Chunk, x.caused = 1+rnd.IntN(12), 1+rnd.IntN(12), seed%4
	for at := 0; at < len(line); {
		r.SetRef("refs/heads/main", line[at])
		for i, side := range sides {
			ref := fmt.Sprintf("refs/heads/side-%d", i)
			switch rnd.IntN(6) {
			case 0:
				r.SetRef(ref, side)
			case 1:
				r.Run("update-ref", "-d", ref)
				did("deleted ref")
			case 2:
				r.SetRef(ref, line[rnd.IntN(at+1)])
			}
		}
		update(t, x)
		if at > 2 && rnd.IntN(5) == 0 { // a rewrite past the gate
			at -= 2
			did("rewrite")
			continue
		}
		at += 1 + rnd.IntN(1+len(line)/4)
		if at >= len(line) && r.Ref("refs/heads/main") != main {
			at = len(line) - 1
		}
	}
	clean(t, x)
	rebuilt := open(t, target())
	y := indexer(t, r, rebuilt)
	y.caused = x.caused
	update(t, y)
	hasRows(t, portions, rebuilt)
	if _, err := x.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, portions, rebuilt)
}

// TestOrderOfClients: clones that read a history at once, or bit by bit, know messages to have
// come in the order in which the database has them, whatever the clocks of the committers
// say.
func TestOrderOfClients(t *testing.T) {
	compared := 0
	for seed := range 4 {
		r := gittest.New(t, gittest.Options{Bare: true})
		line := tangled(t, r, 60, uint64(1000+seed))
		db := open(t, parse(t, filepath.Join(t.TempDir(), "control.db")))
		x := indexer(t, r, db)
		repo := x.Repo.(*gitrepo.Repo)
		book := func(dir, head string) *verdict.Book {
			l := &policy.Loader{Repo: repo, ReadFile: func(string) ([]byte, error) { return nil, os.ErrNotExist }}
			b, err := verdict.Open(t.Context(), verdict.Options{Repo: repo, Loader: l, Dir: dir, Secret: []byte("mine"), Now: x.Now()}, verdict.View{Accepted: head, Head: head})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		kept := t.TempDir()
		for at := 0; at < len(line); at += 1 + at/3 {
			r.SetRef("refs/heads/main", line[at])
			update(t, x)
			book(kept, line[at])
		}
		main := line[len(line)-1]
		r.SetRef("refs/heads/main", main)
		update(t, x)
		for what, b := range map[string]*verdict.Book{"bit by bit": book(kept, main), "at once": book(t.TempDir(), main)} {
			for _, thread := range strings.Fields(r.Run("ls-tree", "--name-only", main)) {
				l, err := db.Look(t.Context(), "team", thread, Part{})
				if err != nil {
					t.Fatal(err)
				}
				said := slices.DeleteFunc(l.Said, func(s *Said) bool { return s.Apart })
				again := slices.Clone(said)
				rand.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
				verdicts := b.Thread(thread)
				order.Sort(again, func(s *Said) order.Message {
					m := order.Message{Came: verdicts.Came(s.File, s.Blob), Type: s.Type, File: s.File, Hash: s.Hash, ReplyTo: s.ReplyTo}
					m.Dated(s.Date)
					if m.Came.Commit != s.Commit {
						t.Errorf("%s/%s was brought by %q, in the database by %q", thread, s.File, m.Came.Commit, s.Commit)
					}
					return m
				})
				if compared += len(said); !slices.Equal(said, again) {
					t.Errorf("seed %d, %s: the order of thread %s differs", seed, what, thread)
				}
			}
		}
	}
	if compared < 200 {
		t.Errorf("only %d messages were compared", compared)
	}
}

// TestMergedAndDeleted reads in pieces that a branch was merged and deleted: what it brought
// is not taken for new in a piece that ends before the merge.
func TestMergedAndDeleted(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	at := gittest.Epoch
	commit := func(name, text string) {
		at += 10
		r.Setenv("GIT_COMMITTER_DATE", fmt.Sprintf("%d +0000", at))
		r.Commit("x", map[string]string{name: text})
	}
	main := strings.TrimPrefix(r.Run("symbolic-ref", "HEAD"), "refs/heads/")
	commit("aa/REQUEST.md", say("REQUEST", "aa", "rig-a", "rig-b", "1", nil))
	r.Run("checkout", "-q", "-b", "side")
	commit("aa/RESOLUTION.md", say("RESOLUTION", "aa", "rig-b", "rig-a", "2", nil))
	commit("aa/STATE.md", say("STATE", "aa", "rig-a", "rig-b", "follows the resolution", nil))
	r.Run("checkout", "-q", main)
	db := open(t, parse(t, filepath.Join(t.TempDir(), "control.db")))
	x := indexer(t, r, db)
	x.piece, x.Chunk = 3, 2
	update(t, x)
	for i := range 9 {
		commit(fmt.Sprintf("bb/STATE-%d.md", i), say("STATE", "bb", "rig-a", "rig-b", fmt.Sprint(i), nil))
	}
	at += 10
	r.Setenv("GIT_COMMITTER_DATE", fmt.Sprintf("%d +0000", at))
	r.Run("merge", "-q", "--no-ff", "-m", "x", "side")
	r.Run("branch", "-q", "-D", "side")
	update(t, x)
	clean(t, x)
	if n := count(t, db.conn, "SELECT count(*) FROM bridge_message_events e JOIN bridge_messages m ON m.id = e.message_id WHERE m.filename = 'STATE.md' AND e.event_type = 'resolved'"); n != 0 {
		t.Errorf("%d events say that a message after the RESOLUTION was resolved by it", n)
	}
}
