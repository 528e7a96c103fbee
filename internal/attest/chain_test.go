package attest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/sshsign"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A site is a server's repository whose gates attest, without the gates.
type site struct {
	*gittest.Repo
	signer Signer
	ring   *KeyRing
	serial int
}

func keyOf(t testing.TB, name string) *Key {
	k, err := ParseKey(testkeys.Ed25519(name).PEM())
	must(t, err)
	return k
}

func newSite(t testing.TB, uuid, key string) *site {
	s := &site{Repo: gittest.New(t, gittest.Options{Bare: true}), ring: &KeyRing{}}
	s.Setenv("GIT_DIR", s.Dir)
	s.opens(t)
	s.signer.Key, s.signer.UUID, s.signer.URI, s.signer.Version = keyOf(t, key), uuid, "git+https://example.com/bridge", "v0"
	s.signer.Now = func() time.Time { return time.Unix(s.Now, 0) }
	s.ring.AddKey(s.signer.Key.Public, nil)
	return s
}

func (s *site) opens(t testing.TB) {
	repo, err := gitrepo.Open(context.Background(), gitrepo.Env{Environ: s.Env, Dir: s.Dir})
	must(t, err)
	t.Cleanup(func() { repo.Close() })
	s.signer.Repo = repo
}

// commit makes a commit that follows a ref, and moves nothing.
func (s *site) commit(ref string) string {
	s.serial++
	if old := s.at(ref); !zero(old) {
		return s.CommitTree(s.EmptyTreeID(), fmt.Sprint(s.serial), old)
	}
	return s.CommitTree(s.EmptyTreeID(), fmt.Sprint(s.serial))
}

func (s *site) at(ref string) string {
	if r := s.Try(nil, "rev-parse", "-q", "--verify", ref); r.Code == 0 {
		return strings.TrimSpace(r.Stdout)
	}
	return zeros(40)
}

func (s *site) tell(t testing.TB, stage, push string, moves ...outbox.Ref) {
	r := outbox.Record{ID: outbox.NewID(), Push: push, Stage: stage, At: s.signer.Now().UTC().Format(outbox.Time), Refs: moves}
	if stage == outbox.Judged {
		r.Verified, _ = json.Marshal(Verified{Hook: "pre-receive", Policy: strings.Repeat("ab", 32), Rules: strings.Repeat("cd", 32), Commits: 1})
	}
	must(t, outbox.Append(Dir(s.Dir), r, time.Minute))
}

// push moves refs as a push does that the gates accept.
func (s *site) push(t testing.TB, refs ...string) {
	var moves []outbox.Ref
	for _, ref := range refs {
		moves = append(moves, outbox.Ref{Name: ref, Old: s.at(ref), New: s.commit(ref)})
	}
	s.moves(t, moves...)
}

func (s *site) moves(t testing.TB, moves ...outbox.Ref) {
	push := outbox.NewID()
	s.tell(t, outbox.Judged, push, moves...)
	for _, m := range moves {
		if zero(m.New) {
			s.Run("update-ref", "-d", m.Name, m.Old)
		} else {
			s.Run("update-ref", m.Name, m.New)
		}
	}
	s.tell(t, outbox.Landed, push, moves...)
}

func (s *site) sign(t testing.TB) int {
	t.Helper()
	s.opens(t)
	n, err := s.signer.Sign(context.Background(), s.ring, 0)
	must(t, err)
	return n
}

func (s *site) lines(t testing.TB) (lines [][]byte) {
	t.Helper()
	s.opens(t)
	must(t, read(context.Background(), s.signer.Repo, s.at(Ref), "", func(_ string, _ int, l [][]byte) error { lines = append(lines, l...); return nil }))
	return lines
}

func verified(lines [][]byte, keys Keys) (c Chain, found []Problem) {
	for _, line := range lines {
		_, bad := c.Add(line, keys)
		found = append(found, bad...)
	}
	return c, append(found, c.Ends()...)
}

const main = "refs/heads/main"

// TestAttacks alters chains in every way that somebody without the key can, and in
// some that one with it can. Each attack has its lawful neighbour.
func TestAttacks(t *testing.T) {
	t.Parallel()
	one, other := newSite(t, "one", "gate"), newSite(t, "other", "gate")
	for _, s := range []*site{one, other} {
		for range 3 {
			s.push(t, main)
			s.push(t, main, "refs/heads/free")
			s.sign(t)
		}
	}
	lines, foreign := one.lines(t), other.lines(t)
	if len(lines) != 6 {
		t.Fatalf("%d statements", len(lines))
	}
	second := keyOf(t, "second gate")
	resigned := func(line []byte, k *Key) []byte {
		s, err := parse(line)
		must(t, err)
		again, err := k.Sign(s.Payload)
		must(t, err)
		return again
	}
	// forged makes the statement another one and signs that with the gate's key.
	forged := func(line []byte, change func(*Statement)) []byte {
		s, err := parse(line)
		must(t, err)
		change(&s.Statement)
		payload, err := encode(&s.Statement)
		must(t, err)
		again, err := one.signer.Key.Sign(payload)
		must(t, err)
		return again
	}
	revoked, err := sshsign.ParseRevocations([]byte(testkeys.Ed25519("gate").Authorized() + "\n"))
	must(t, err)
	ring := func(revoked *sshsign.Revocations, names ...string) *KeyRing {
		r := &KeyRing{}
		for _, n := range names {
			must(t, r.AddFile([]byte(testkeys.Ed25519(n).Authorized()), revoked))
		}
		return r
	}
	for name, c := range map[string]struct {
		lines func(l [][]byte) [][]byte
		keys  Keys
		want  string // of the first problem, "" for none
	}{
		"control: as it is":                 {func(l [][]byte) [][]byte { return l }, one.ring, ""},
		"a byte of a payload":               {func(l [][]byte) [][]byte { l[2] = bytes.Clone(l[2]); l[2][200] ^= 1; return l }, one.ring, "statement 2: it"},
		"another statement, same signature": {func(l [][]byte) [][]byte { return alter(t, l, 2) }, one.ring, "statement 2: its signature by"},
		"a space after a payload":           {func(l [][]byte) [][]byte { l[1] = append(l[1], ' '); return l }, one.ring, "statement 1: it was altered"},
		"the middle one is dropped":         {func(l [][]byte) [][]byte { return slices.Delete(l, 2, 3) }, one.ring, "statement 2: it says that it is number 3"},
		"the first one is dropped":          {func(l [][]byte) [][]byte { return l[1:] }, one.ring, "statement 0: it says that it is number 1"},
		"two in another order":              {func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }, one.ring, "statement 2: it says that it is number 3"},
		"one twice":                         {func(l [][]byte) [][]byte { return append(l, l[5]) }, one.ring, "statement 6: it says that it is number 5"},
		"another repository's, same place":  {func(l [][]byte) [][]byte { l[3] = foreign[3]; return l }, one.ring, "statement 3: it follows another"},
		"all of another repository's after": {func(l [][]byte) [][]byte { return append(l, foreign...) }, one.ring, "statement 6: it says that it is number 0"},
		"by an unknown key":                 {func(l [][]byte) [][]byte { l[4] = resigned(l[4], second); return l }, one.ring, "statement 4: it is signed by the key"},
		"control: by a second key":          {func(l [][]byte) [][]byte { l[4] = resigned(l[4], second); return l }, ring(nil, "gate", "second gate"), ""},
		"by a revoked key at the end":       {func(l [][]byte) [][]byte { return l }, ring(revoked, "gate", "second gate"), "statement 0: it is signed by a revoked key"},
		"control: a good one follows":       {func(l [][]byte) [][]byte { l[5] = resigned(l[5], second); return l }, ring(revoked, "gate", "second gate"), ""},
		"revoked after the good one":        {func(l [][]byte) [][]byte { l[3] = resigned(l[3], second); return l }, ring(revoked, "gate", "second gate"), "statement 4: it is signed by a revoked key"},
		"the name of another key": {func(l [][]byte) [][]byte {
			l[5] = bytes.Replace(resigned(l[5], second), []byte(second.ID), []byte(one.signer.Key.ID), 1)
			return l
		}, one.ring, "statement 5: its signature by"},
		"the server's own: a move left out": {func(l [][]byte) [][]byte {
			l[5] = forged(l[5], func(s *Statement) { s.Predicate.Update.Moves[1].Old = strings.Repeat("1", 40) })
			return l
		}, one.ring, "statement 5: refs/heads/main: it was at"},
		"the server's own: back to the old": {func(l [][]byte) [][]byte { return append(l, replay(t, one, l)) }, one.ring, "statement 6: refs/heads/free: it was at"},
		"the server's own: other repository": {func(l [][]byte) [][]byte {
			l[5] = forged(l[5], func(s *Statement) { s.Predicate.Update.Repository.UUID = "other" })
			return l
		}, one.ring, "statement 5: it is of another repository"},
		"the server's own: begins anew": {func(l [][]byte) [][]byte {
			l[5] = forged(l[5], func(s *Statement) { s.Predicate.Update.Kind, s.Predicate.Update.Verified = kindBegin, nil })
			return l
		}, one.ring, "statement 5: the chain begins anew"},
		// What only a witness sees (docs/spec/attestation.md#good).
		"not seen: the last one is dropped": {func(l [][]byte) [][]byte { return l[:5] }, one.ring, ""},
		"not seen: a fork by the server": {func(l [][]byte) [][]byte {
			l[5] = forged(l[5], func(s *Statement) { s.Predicate.TimeVerified = "2026-01-05T09:00:00.000000Z" })
			return l
		}, one.ring, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := verified(c.lines(slices.Clone(lines)), c.keys)
			text := ""
			if len(found) > 0 {
				text = found[0].String()
			}
			if c.want == "" && text != "" || !strings.HasPrefix(text, c.want) {
				t.Errorf("found %q, expected %q", text, c.want)
			}
		})
	}
}

// alter changes the time in a payload and leaves the signature.
func alter(t *testing.T, lines [][]byte, i int) [][]byte {
	var e envelope
	must(t, json.Unmarshal(lines[i], &e))
	payload, err := unbase64(e.Payload)
	must(t, err)
	again, err := encode(envelope{base64of(bytes.Replace(payload, []byte(`"commits":1`), []byte(`"commits":7`), 1)), e.PayloadType, e.Signatures})
	must(t, err)
	lines[i] = again
	return lines
}

// replay signs once more that main moved as in the first statement, in the place
// after the last: what a server would have to say after it rolled main back.
func replay(t *testing.T, s *site, lines [][]byte) []byte {
	c, _ := verified(lines, s.ring)
	first, err := parse(lines[1])
	must(t, err)
	first.Predicate.Update.Sequence, first.Predicate.Update.Previous = c.Size, c.Last
	payload, err := encode(&first.Statement)
	must(t, err)
	line, err := s.signer.Key.Sign(payload)
	must(t, err)
	return line
}

// TestTurn: of processes that are to sign while another one does, one waits. Whoever finds
// that it does has told before what it wanted signed, and leaves it to the one that waits.
func TestTurn(t *testing.T) {
	t.Parallel()
	s := newSite(t, "one", "gate")
	dir := Dir(s.Dir)
	s.push(t, main)
	if n := s.sign(t); n == 0 {
		t.Fatal("nothing was signed")
	}
	busy, err := outbox.Lock(dir)
	must(t, err)
	var waits sync.WaitGroup
	var made int
	started := 0
	for range 20 {
		s.push(t, main)
		turn, err := outbox.Turn(dir)
		if errors.Is(err, files.ErrLocked) {
			continue
		}
		must(t, err)
		if started++; started > 1 {
			t.Fatal("a second one waits")
		}
		if other, _ := os.Open(filepath.Join(dir, "lock")); !outbox.IsTurn(dir, turn) || outbox.IsTurn(dir, other) {
			t.Error("the turn and the lock are not told apart")
		}
		s.opens(t)
		signer := s.signer
		signer.Turn = turn
		waits.Go(func() {
			defer turn.Close()
			var err error
			if made, err = signer.Sign(context.Background(), s.ring, 0); err != nil {
				t.Error(err)
			}
		})
	}
	must(t, busy.Close())
	waits.Wait()
	if started != 1 || made != 20 {
		t.Errorf("%d waited, %d statements, expected one and 20", started, made)
	}
	turn, err := outbox.Turn(dir)
	must(t, err) // it was given back
	must(t, turn.Close())
	if _, found := verified(s.lines(t), s.ring); len(found) > 0 {
		t.Error(found)
	}
}

// TestSigning makes statements of all that can happen to refs.
func TestSigning(t *testing.T) {
	t.Parallel()
	s := newSite(t, "one", "gate")
	s.Run("update-ref", "refs/heads/old", s.commit("refs/heads/old"))
	kinds := func() (all []string) {
		for _, line := range s.lines(t) {
			st, err := parse(line)
			must(t, err)
			text := st.Predicate.Update.Kind
			for _, m := range st.Predicate.Update.Moves {
				text += " " + strings.TrimPrefix(m.Ref, "refs/heads/")
			}
			all = append(all, text)
		}
		return all
	}
	want := func(n int, more ...string) {
		t.Helper()
		if got := s.sign(t); got != n {
			t.Errorf("%d statements were made, expected %d", got, n)
		}
		all := kinds()
		if got := all[len(all)-n:]; !slices.Equal(got, more) {
			t.Errorf("made %q, expected %q", got, more)
		}
		if again := s.sign(t); again != 0 {
			t.Errorf("%d were made again", again)
		}
	}
	s.push(t, main) // before the chain begins
	want(2, "begin old", "push main")
	s.push(t, main)
	s.push(t, main, "refs/heads/a", "refs/heads/b")
	want(2, "push main", "push a b main")
	from := s.at(main)
	s.Run("update-ref", main, s.commit(main)) // by the administrator
	want(1, "gap main")
	s.push(t, main)
	want(1, "push main")
	s.Run("update-ref", main, from) // rolled back, and pushed anew before anybody signed
	s.push(t, main)
	want(2, "gap main", "push main")
	s.moves(t, outbox.Ref{Name: "refs/heads/a", Old: s.at("refs/heads/a"), New: zeros(40)})
	want(1, "push a")
	s.Run("update-ref", "-d", "refs/heads/b")
	want(1, "gap b")
	// post-receive was killed; and a push that git refused in the end.
	old, next := s.at(main), s.commit(main)
	s.tell(t, outbox.Judged, "refused", outbox.Ref{Name: main, Old: old, New: s.commit(main)})
	s.tell(t, outbox.Judged, "killed", outbox.Ref{Name: main, Old: old, New: next})
	s.Run("update-ref", main, next)
	s.push(t, main)
	want(2, "push main", "push main")
	// What is known is lost, and comes out the same.
	before := s.lines(t)
	must(t, removeState(s))
	want(0)
	s.push(t, main)
	want(1, "push main")
	if got := s.lines(t); len(got) != len(before)+1 {
		t.Errorf("%d statements after %d", len(got), len(before))
	}
	c, found := verified(s.lines(t), s.ring)
	gaps := 0
	for _, p := range found {
		if strings.Contains(p.Message, "no gate was asked") {
			gaps++
		} else {
			t.Error(p)
		}
	}
	if gaps != 3 || c.At[main] != s.at(main) {
		t.Errorf("%d gaps, main at %s", gaps, c.At[main])
	}
	// The chain is taken back, or replaced: the signer goes no further.
	tip := s.at(Ref)
	for name, to := range map[string]string{"taken back": tip + "~1", "replaced": s.CommitTree(s.EmptyTreeID(), "x")} {
		s.Run("update-ref", Ref, to)
		s.push(t, main)
		s.opens(t)
		if _, err := s.signer.Sign(context.Background(), s.ring, 0); err == nil || !strings.Contains(err.Error(), "replaced") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Run("update-ref", "-d", Ref)
	s.opens(t)
	if _, err := s.signer.Sign(context.Background(), s.ring, 0); err == nil || !strings.Contains(err.Error(), "taken back") {
		t.Error(err)
	}
	s.Run("update-ref", Ref, tip)
	want(2, "push main", "push main")
	// Another key goes on only where the one before counts.
	s.signer.Key = keyOf(t, "second gate")
	must(t, removeState(s))
	s.push(t, main)
	s.opens(t)
	alone := &KeyRing{}
	alone.AddKey(s.signer.Key.Public, nil)
	if _, err := s.signer.Sign(context.Background(), alone, 0); err == nil || !strings.Contains(err.Error(), "not trusted") {
		t.Error(err)
	}
	s.ring.AddKey(s.signer.Key.Public, nil)
	want(1, "push main")
	// Nothing happens, and that is said.
	s.Now += 7200
	for i, beat := range []time.Duration{3 * time.Hour, time.Hour, time.Hour} {
		s.opens(t)
		n, err := s.signer.Sign(context.Background(), s.ring, beat)
		if must(t, err); n != []int{0, 1, 0}[i] {
			t.Errorf("beat %d: %d statements", i, n)
		}
	}
	if _, found := verified(s.lines(t), s.ring); len(found) != gaps {
		t.Errorf("after beats: %v", found)
	}
}

// TestRoot compares the Merkle tree with that of the module it comes from, and a
// checkpoint with its reader.
func TestRoot(t *testing.T) {
	var c Chain
	for n := range 70 {
		if got, want := c.Root(), treeHash(t, n); n > 0 && got != want {
			t.Fatalf("%d statements: %s, expected %s", n, got, want)
		}
		c.grow([]byte(fmt.Sprint(n)))
	}
}
