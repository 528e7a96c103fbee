package attest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// Dir is where the hooks of a repository, whose common git directory is given,
// tell what they accept, and where what is known of the chain is kept.
func Dir(common string) string { return filepath.Join(common, "rigward", "attest") }

// A Signer makes the statements of a repository.
type Signer struct {
	Repo    *gitrepo.Repo
	Key     *Key
	UUID    string
	URI     string // of the repository
	Version string // of this program
	Now     func() time.Time
	Turn    *os.File // the place of the one that waits (outbox.Turn), given back before anything is read; nil for none
}

// state is what is known besides the chain. It is kept in a file, and comes out
// the same when the chain is read again.
type state struct {
	Chain   Chain         `json:"chain"`
	Cursor  outbox.Cursor `json:"cursor"`
	Pending []*pending    `json:"pending"`
	Counter int64         `json:"counter"`
}

const (
	maxMoves = 500 // of one statement
	rounds   = 5   // of reading refs that move meanwhile
)

// Sign makes a statement of all that happened since the last one, and returns how
// many it made. Whoever else signs is waited for. keys say after whose
// statements this one may sign: not after those of a foreign key.
func (s *Signer) Sign(ctx context.Context, keys Keys, beat time.Duration) (made int, err error) {
	dir := Dir(s.Repo.CommonDir())
	lock, err := outbox.Lock(dir)
	for wait := 5 * time.Millisecond; errors.Is(err, files.ErrLocked) && ctx.Err() == nil; wait = min(2*wait, time.Second) {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		lock, err = outbox.Lock(dir)
	}
	if err != nil {
		return 0, &policy.Undecided{Message: "the lock of the attestations cannot be taken", Cause: err}
	}
	defer lock.Close()
	if s.Turn != nil {
		files.Unlock(s.Turn)
	}
	w := &work{Signer: s, dir: dir, keys: keys, used: map[string]bool{}}
	if err := w.open(ctx); err != nil {
		return 0, err
	}
	for round := 0; ; round++ {
		n, moving, err := w.once(ctx)
		if made += n; err != nil || !moving || round >= rounds {
			if err == nil && beat > 0 {
				n, err = w.beat(ctx, beat)
				made += n
			}
			return made, err
		}
	}
}

// work is one run of a Signer.
type work struct {
	*Signer
	dir  string
	keys Keys
	state
	used map[string]bool
}

func (w *work) file() string { return filepath.Join(w.dir, "state.json") }

// open reads what was known, and what of the chain came after that.
func (w *work) open(ctx context.Context) error {
	data, err := files.Kept(w.file())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return &policy.Undecided{Message: "what is known of the attestations cannot be read", Cause: err}
	case json.Unmarshal(data, &w.state) != nil:
		w.state = state{} // it is derived
	}
	tip, _, err := w.Repo.Ref(Ref)
	if err != nil || tip == w.Chain.Tip {
		return err
	}
	if w.Chain.Tip != "" {
		if types, err := w.Repo.Has([]string{w.Chain.Tip}); err != nil {
			return err
		} else if ok := types[0] == "commit"; !ok || tip == "" {
			return &policy.Undecided{Message: "the attestations were taken back: " + Ref + " is at " + short(tip) + ", and a statement was made at " + short(w.Chain.Tip),
				Hint: "put the ref back; or begin anew, which whoever has seen the chain takes for a lie: rm " + filepath.ToSlash(w.file())}
		}
		if ok, err := w.Repo.IsAncestor(ctx, w.Chain.Tip, tip); err != nil {
			return err
		} else if !ok {
			return &policy.Undecided{Message: "the attestations were replaced: " + Ref + " at " + short(tip) + " does not follow " + short(w.Chain.Tip), Hint: "put the ref back"}
		}
	}
	found, err := w.Chain.Verify(ctx, Git(w.Repo), tip, w.keys, func(s *Signed) {
		for _, m := range s.Predicate.Update.Moves {
			w.used[(&pending{Push: s.Predicate.Update.Push, Move: m}).key()] = true
		}
	})
	if err != nil {
		return err
	}
	for _, p := range found {
		if p.Ref == "" {
			return &policy.Undecided{Message: "the attestations that are there are not this server's: " + p.String(),
				Hint: "rig-hook attest verify --server " + finding.Word(filepath.ToSlash(w.Repo.GitDir()))}
		}
	}
	return nil
}

// Names reports whether a chain tells of a ref.
func Names(ref string) bool { return !policy.Reserved(ref) && utf8.ValidString(ref) }

// refs are those that a chain tells of.
func (w *work) refs(ctx context.Context) (map[string]string, error) {
	refs := map[string]string{}
	for ref, err := range w.Repo.Refs(ctx) {
		if err != nil {
			return nil, err
		}
		if ref.Target == "" && Names(ref.Name) {
			refs[ref.Name] = ref.ID
		}
	}
	return refs, nil
}

// once makes statements of what can be told by now. moving says that refs moved
// meanwhile, of which there may be more to tell.
func (w *work) once(ctx context.Context) (made int, moving bool, err error) {
	size := w.Chain.Size
	before, err := w.refs(ctx)
	if err != nil {
		return 0, false, err
	}
	for {
		b, err := outbox.Read(w.dir, w.Cursor, 1000)
		if err != nil {
			return 0, false, &policy.Undecided{Message: "what the hooks told cannot be read", Cause: err}
		}
		if b.Next == w.Cursor {
			break
		}
		w.Cursor = b.Next
		for i := range b.Records {
			var v *Verified
			if r := &b.Records[i]; r.Stage != outbox.Judged || json.Unmarshal(r.Verified, &v) == nil {
				w.learn(r, v, w.used)
			}
		}
	}
	after, err := w.refs(ctx)
	if err != nil {
		return 0, false, err
	}
	unsure := map[string]bool{}
	for _, refs := range []map[string]string{before, after} {
		for name := range refs {
			if before[name] != after[name] {
				unsure[name] = true
			}
		}
	}
	if w.Chain.Size == 0 && len(unsure) > 0 {
		return 0, true, nil
	}
	var drafts []draft
	if w.Chain.Size == 0 {
		drafts = w.beginning(after)
	}
	steps := w.plan(after, unsure, len(w.Repo.ZeroID()))
	if err := w.add(ctx, append(drafts, group(steps)...)); err != nil {
		return 0, false, err
	}
	w.settle(steps, w.Now())
	if err = w.keep(); err == nil {
		err = outbox.Keep(w.dir, w.Cursor, w.Now())
	}
	return int(w.Chain.Size - size), len(unsure) > 0, err
}

// keep writes down what is known.
func (w *work) keep() error {
	data, err := json.Marshal(&w.state)
	if err == nil {
		err = files.Swap(w.file(), data, 0o600)
	}
	if err == nil {
		files.Share(w.file())
	}
	return err
}

// beginning is what refs had when the chain begins: what they have, or had before
// the pushes that were told of already.
func (w *work) beginning(refs map[string]string) []draft {
	w.Chain.At = map[string]string{}
	told := map[string]bool{}
	for _, p := range w.Pending {
		if name := p.Move.Ref; !told[name] && (p.Landed > 0 || p.Move.New == refs[name]) {
			told[name], w.Chain.At[name] = true, p.Move.Old
		}
	}
	for name, id := range refs {
		if !told[name] {
			w.Chain.At[name] = id
		}
	}
	var drafts []draft
	for _, name := range sorted(w.Chain.At) {
		if zero(w.Chain.At[name]) {
			delete(w.Chain.At, name)
			continue
		}
		if n := len(drafts); n == 0 || len(drafts[n-1].moves) == maxMoves {
			drafts = append(drafts, draft{kind: kindBegin})
		}
		d := &drafts[len(drafts)-1]
		d.moves = append(d.moves, Move{name, w.Repo.ZeroID(), w.Chain.At[name]})
	}
	return drafts
}

// A draft is a statement that has no place yet.
type draft struct {
	kind, push, at string
	moves          []Move
	verified       *Verified
}

// group makes drafts of steps: one for what came in one push.
func group(steps []step) (drafts []draft) {
	for _, s := range steps {
		d := draft{kind: kindGap}
		if s.pending != nil {
			d = draft{kind: kindPush, push: s.Push, at: s.At, verified: s.Verified}
		}
		n := len(drafts) - 1
		if n < 0 || drafts[n].kind != d.kind || drafts[n].push != d.push || len(drafts[n].moves) == maxMoves ||
			slices.ContainsFunc(drafts[n].moves, func(m Move) bool { return m.Ref == s.Move.Ref }) {
			drafts, n = append(drafts, d), n+1
		}
		drafts[n].moves = append(drafts[n].moves, s.Move)
	}
	for _, d := range drafts {
		slices.SortFunc(d.moves, func(a, b Move) int { return strings.Compare(a.Ref, b.Ref) })
	}
	return drafts
}

// add signs drafts and adds them to the chain, in one commit. Nothing is known of
// them before the ref has moved.
func (w *work) add(ctx context.Context, drafts []draft) error {
	if len(drafts) == 0 {
		return nil
	}
	next := w.Chain // whose maps and lists are not shared with what is kept
	next.At, next.Edge, next.Doubt = map[string]string{}, slices.Clone(w.Chain.Edge), nil
	if w.Chain.Size > 0 {
		next.At = maps.Clone(w.Chain.At)
	}
	if next.Repository.UUID == "" {
		next.Repository.UUID = w.UUID
	}
	if next.Repository.Root == "" {
		_, head, err := w.Repo.HEAD()
		if err == nil && head != "" {
			next.Repository.Root, err = w.Repo.FirstCommit(ctx, head)
		}
		if err != nil {
			return err
		}
	}
	own := only{w.Key}
	var lines [][]byte
	for _, d := range drafts {
		payload, err := w.statement(&next, d)
		if err != nil {
			return err
		}
		line, err := w.Key.Sign(payload)
		if err != nil {
			return err
		}
		if _, found := next.Add(line, own); len(found) > 0 && d.kind != kindGap {
			return errors.New("a statement would be wrong: " + found[0].String())
		}
		lines = append(lines, line)
	}
	checkpoint, err := w.Key.checkpoint(&next)
	if err != nil {
		return err
	}
	message := fmt.Sprintf("Statements %d to %d", w.Chain.Size, next.Size-1)
	if next.Tip, err = write(ctx, w.Repo, w.Chain.Tip, lines, checkpoint, message, w.Now()); err == nil {
		w.Chain = next
	}
	return err
}

// only trusts one key.
type only struct{ key *Key }

func (o only) Judge(id string) (ssh.PublicKey, Verdict) {
	if id == o.key.ID {
		return o.key.Public, Good
	}
	return nil, unknown
}

// objectNames are those of digests of git objects (in-toto's digest set).
var objectNames = map[string]string{"commit": "gitCommit", "tag": "gitTag", "tree": "gitTree", "blob": "gitBlob"}

// statement makes the payload of a draft that follows a chain.
func (w *work) statement(c *Chain, d draft) ([]byte, error) {
	at := d.at
	if at == "" {
		at = w.Now().UTC().Format(outbox.Time)
	}
	p := Predicate{
		Verifier: Verifier{verifierID, map[string]string{"rig-hook": w.Version}}, TimeVerified: at, ResourceURI: w.URI,
		Policy: Resource{URI: verifierID + "/blob/main/docs/spec/policy.md"}, VerificationResult: "PASSED",
		VerifiedLevels: []string{"SLSA_SOURCE_LEVEL_0"}, SLSAVersion: "1.2",
		Update: Update{Sequence: c.Size, Previous: c.Last, Repository: c.Repository, Kind: d.kind, Push: d.push, Moves: d.moves, Verified: d.verified},
	}
	switch d.kind {
	case kindGap:
		p.VerificationResult, p.VerifiedLevels = "FAILED", []string{"FAILED"}
	case kindPush:
		p.VerifiedLevels[0] = "SLSA_SOURCE_LEVEL_1"
		if d.verified.Policy != "" {
			p.Policy.Digest = Digests{"sha256": d.verified.Policy}
		}
	case kindBeat:
		p.Update.Moves = []Move{}
	}
	s := Statement{Type: statementType, PredicateType: predicateType, Predicate: p}
	ids := make([]string, len(d.moves))
	for i, m := range d.moves {
		ids[i] = subjectOf(m)
	}
	types, err := w.Repo.Has(ids)
	if err != nil {
		return nil, err
	}
	for i, m := range d.moves {
		name := objectNames[types[i]]
		if name == "" {
			name = "gitCommit" // it is gone already
		}
		s.Subject = append(s.Subject, Subject{m.Ref, Digests{name: ids[i]}, Annotations{[]string{m.Ref}}})
	}
	if len(s.Subject) == 0 {
		s.Subject = []Subject{{"the statement before", Digests{"sha256": c.Last}, Annotations{[]string{}}}}
	}
	return encode(s)
}

// beat adds a statement that nothing happened, where the last one is older.
func (w *work) beat(ctx context.Context, every time.Duration) (int, error) {
	last, err := time.Parse(outbox.Time, w.Chain.Time)
	if w.Chain.Size == 0 || err == nil && w.Now().Sub(last) < every {
		return 0, nil
	}
	if err := w.add(ctx, []draft{{kind: kindBeat}}); err != nil {
		return 0, err
	}
	return 1, w.keep()
}
