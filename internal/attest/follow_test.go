package attest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// shelf is a Source of chains that are known by their names.
type shelf map[string][][]byte

func (s shelf) Follows(_ context.Context, old, tip string) (bool, error) {
	return strings.Split(old, ".")[0] == strings.Split(tip, ".")[0] && continues(s[tip], s[old]), nil
}

func (s shelf) Lines(_ context.Context, tip, since string, each func(string, int, [][]byte) error) error {
	lines := s[tip][len(s[since]):]
	for i, line := range lines {
		if err := each(fmt.Sprint(tip, " ", i), min(1, i+len(s[since])), [][]byte{line}); err != nil {
			return err
		}
	}
	return nil
}

// continues reports whether a chain begins with all of another one.
func continues(long, short [][]byte) bool {
	return len(long) >= len(short) && slices.EqualFunc(long[:len(short)], short, bytes.Equal)
}

// A person is a rig or a witness of the simulation.
type person struct {
	Memory
	saw    [][]byte // the same, as the test knows it
	note   []byte   // of a witness: what it has published
	noted  [][]byte
	name   string
	listen []*person // witnesses whose notes this one reads
	view   int       // which of the server's histories it is shown
}

// simulation is one random schedule.
type simulation struct {
	t       *testing.T
	rng     *rand.Rand
	key     *Key
	ring    *KeyRing
	shelf   shelf
	views   [][][]byte // histories of the server; an honest one has one
	chains  []Chain
	gossip  []map[int]*said // by view and statement: what its sender had seen
	place   int             // of the server: it may move
	serial  int
	now     time.Time
	people  []*person
	watcher []*person
	lies    int // that touched somebody
	syncs   int
}

// said is the head that a message carries.
type said struct {
	head Head
	saw  [][]byte
}

// push adds a statement to a history, of a message or of a free ref that goes
// anywhere, and what its sender had seen.
func (s *simulation) push(view int, by *person) {
	c := &s.chains[view]
	ref, to := main, fmt.Sprintf("%040x", s.serial+1)
	if s.serial++; s.rng.IntN(4) == 0 { // forced, back and forth
		ref, to = "refs/heads/free", fmt.Sprintf("%040x", 1+s.rng.IntN(3))
	}
	move := Move{ref, zeros(40), to}
	if at := c.At[ref]; at != "" {
		move.Old = at
	}
	if move.Old == move.New {
		return
	}
	w := &work{Signer: &Signer{Key: s.key, URI: "x", Now: func() time.Time { return s.now }}}
	repository := Repository{UUID: "one"}
	st := Statement{Type: statementType, PredicateType: predicateType, Subject: []Subject{{ref, Digests{"gitCommit": to}, Annotations{[]string{ref}}}}}
	st.Predicate = Predicate{VerificationResult: "PASSED", VerifiedLevels: []string{"SLSA_SOURCE_LEVEL_1"}, Update: Update{Sequence: c.Size, Previous: c.Last, Repository: repository, Kind: kindPush, Moves: []Move{move}, Verified: &Verified{}}}
	payload, err := encode(&st)
	must(s.t, err)
	line, err := w.Key.Sign(payload)
	must(s.t, err)
	if _, found := c.Add(line, s.ring); len(found) > 0 {
		s.t.Fatal(found)
	}
	s.views[view] = append(slices.Clone(s.views[view]), line)
	if by != nil && by.Size > 0 {
		s.gossip[view][int(c.Size)-1] = &said{Head{by.Size, by.Root()}, by.saw}
	}
}

// split lets the server begin a second history, which shares a beginning with the
// first one.
func (s *simulation) split() {
	n := len(s.views[0])
	keep := s.rng.IntN(n + 1)
	var c Chain
	told := map[int]*said{}
	for i, line := range s.views[0][:keep] {
		if _, found := c.Add(line, s.ring); len(found) > 0 {
			s.t.Fatal(found)
		}
		if g := s.gossip[0][i]; g != nil {
			told[i] = g
		}
	}
	s.views, s.chains, s.gossip = append(s.views, s.views[0][:keep]), append(s.chains, c), append(s.gossip, told)
}

// sync lets somebody look at the server: first at the notes of the witnesses that
// they know, then at the chain. It compares what they find with what is so.
func (s *simulation) sync(p *person) bool {
	s.syncs++
	type claim struct {
		head Head
		saw  [][]byte
	}
	var claims []claim
	for _, w := range p.listen {
		if w.note == nil {
			continue
		}
		seen, err := OpenNote(w.note, keyNamed(w.name).VKey(w.name))
		must(s.t, err)
		claims = append(claims, claim{seen.Head, w.noted})
	}
	for range s.rng.IntN(3) { // a race: others push, and witnesses look, meanwhile
		s.push(p.view, nil)
	}
	lines := s.views[p.view]
	tip := fmt.Sprintf("%d.%d.%d", s.place, p.view, len(lines))
	if len(lines) == 0 {
		tip = ""
	}
	s.shelf[tip] = lines
	for i := range lines {
		if g := s.gossip[p.view][i]; g != nil {
			claims = append(claims, claim{g.head, g.saw})
		}
	}
	lie := !continues(lines, p.saw)
	found, gaps, err := p.Follow(context.Background(), s.shelf, tip, s.ring)
	must(s.t, err)
	if len(gaps) > 0 {
		s.t.Fatal(gaps)
	}
	alarm := len(found) > 0
	if !alarm {
		for _, c := range claims {
			lie = lie || !continues(lines, c.saw)
			text, err := p.Check(context.Background(), s.shelf, c.head)
			must(s.t, err)
			alarm = alarm || text != ""
		}
	}
	if lie != alarm {
		s.t.Fatalf("%s: a lie %t, an alarm %t: %v", p.name, lie, alarm, found)
	}
	if alarm {
		s.lies++
		return false
	}
	p.saw = lines
	return true
}

func keyNamed(name string) *Key { return names[name] }

var names = map[string]*Key{}

// TestSplit plays schedules of rigs, witnesses and a server that may lie. A lie that
// touches somebody is found at their next look exactly if they had seen the other
// history themselves, or talk to a witness or have a message of a rig that had. It
// never is where there is none.
func TestSplit(t *testing.T) {
	n := 40
	if os.Getenv("RIGWARD_ATTEST_FULL") != "" {
		n = 1000
	}
	key := keyOf(t, "gate")
	ring := &KeyRing{}
	ring.AddKey(key.Public, nil)
	for _, name := range []string{"w0", "w1"} {
		names[name] = keyOf(t, name)
	}
	lies, syncs, lying := 0, 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		s := &simulation{t: t, rng: rng, key: key, ring: ring, shelf: shelf{}, views: make([][][]byte, 1), chains: make([]Chain, 1), gossip: []map[int]*said{{}}, now: time.Unix(1767603600, 0)}
		for i := range rng.IntN(3) {
			s.watcher = append(s.watcher, &person{name: fmt.Sprint("w", i)})
		}
		for i := range 2 + rng.IntN(7) {
			p := &person{name: fmt.Sprint("rig", i)}
			for _, w := range s.watcher {
				if rng.IntN(2) == 0 {
					p.listen = append(p.listen, w)
				}
			}
			s.people = append(s.people, p)
		}
		liar := rng.IntN(2) == 0
		gone := map[*person]bool{}
		everybody := slices.Concat(s.people, s.watcher)
		for step := range 40 {
			if liar && step == 15 {
				s.split()
				for _, p := range everybody {
					p.view = rng.IntN(2)
				}
				lying++
			}
			if rng.IntN(15) == 0 {
				s.place++ // the server moves: its commits are others, its statements the same
			}
			p := everybody[rng.IntN(len(everybody))]
			switch {
			case gone[p]: // has found the lie, and talks to the server no more
			case rng.IntN(2) == 0:
				s.push(p.view, p)
			case !s.sync(p):
				gone[p] = true
			case slices.Contains(s.watcher, p) && p.Size > 0:
				checkpoint, err := key.checkpoint(&p.Chain)
				must(t, err)
				p.note, err = keyNamed(p.name).cosign(p.name, checkpoint, s.now)
				must(t, err)
				p.noted = p.saw
			}
		}
		if !liar && s.lies > 0 {
			t.Fatalf("seed %d: %d false alarms", seed, s.lies)
		}
		lies, syncs = lies+s.lies, syncs+s.syncs
	}
	t.Logf("%d schedules, %d with a lying server, %d syncs, %d lies found", n, lying, syncs, lies)
	if lies == 0 {
		t.Error("nobody ever found a lie, so nothing was tested")
	}
}

// TestNotes: notes are what golang.org/x/mod's reader takes, by the key of a server
// and by witnesses; what is altered is not taken.
func TestNotes(t *testing.T) {
	key, w := keyOf(t, "gate"), keyOf(t, "w0")
	c := &Chain{Repository: Repository{UUID: "one"}}
	c.grow([]byte("x"))
	c.Size++
	checkpoint, err := key.checkpoint(c)
	must(t, err)
	at := time.Unix(1679315147, 0)
	cosigned, err := w.cosign("example.com/w0", checkpoint, at)
	must(t, err)
	if !bytes.HasPrefix(cosigned, checkpoint) || !strings.HasPrefix(string(checkpoint), "rigward/one\n1\n") {
		t.Errorf("%s", cosigned)
	}
	server := &noteKey{name: "rigward/one", kind: noteSignature, public: raw(key.Public)}
	theirs, err := note.NewVerifier(fmt.Sprintf("%s+%08x+%s", server.name, server.KeyHash(), base64of(append([]byte{1}, server.public...))))
	must(t, err)
	if n, err := note.Open(cosigned, note.VerifierList(theirs)); err != nil || len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 1 {
		t.Errorf("%v, %v", n, err)
	}
	vkey := w.VKey("example.com/w0")
	s, err := OpenNote(cosigned, vkey)
	if err != nil || s.Size != 1 || s.Root != c.Root() || !s.At.Equal(at) || s.Origin != "rigward/one" {
		t.Errorf("%+v, %v", s, err)
	}
	for name, c := range map[string]struct{ data, vkey string }{
		"another size":     {strings.Replace(string(cosigned), "\n1\n", "\n2\n", 1), vkey},
		"no cosignature":   {string(checkpoint), vkey},
		"another witness":  {string(cosigned), keyOf(t, "w1").VKey("example.com/w0")},
		"another name":     {string(cosigned), w.VKey("example.com/w1")},
		"a malformed vkey": {string(cosigned), vkey[:len(vkey)-4]},
		"an empty vkey":    {string(cosigned), ""},
		"nothing":          {"", vkey},
		"signed as a note": {strings.Replace(string(cosigned), "example.com/w0", "rigward/one", 1), vkey},
	} {
		if _, err := OpenNote([]byte(c.data), c.vkey); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// FuzzNote: whatever is taken has a good signature, which anything altered has not.
func FuzzNote(f *testing.F) {
	w := keyOf(f, "w0")
	note, err := w.cosign("w", []byte("rigward/one\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— rigward/one AAAAAAAA\n"), time.Unix(1, 0))
	must(f, err)
	vkey := w.VKey("w")
	f.Add(string(note), vkey)
	f.Fuzz(func(t *testing.T, data, key string) {
		if s, err := OpenNote([]byte(data), vkey); err == nil && !strings.HasPrefix(data, s.Origin+"\n") {
			t.Errorf("%q is read as %+v", data, s)
		}
		_, _ = OpenNote([]byte(data), key)
		var s Seen
		_ = s.read(data)
	})
}
