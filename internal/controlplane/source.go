package controlplane

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/screen"
)

// Repo is what is needed of a repository. *gitrepo.Repo is one.
type Repo interface {
	rules.Repo
	FirstCommit(ctx context.Context, tip string) (string, error)
}

// A message is an envelope as a commit brought it.
type message struct {
	thread, file string // as the database has them
	env          *envelope.Envelope
	path, blob   string    // raw, below the repository's root
	froze        time.Time // when it was attested if it is a freeze, else zero
	freeze       string    // until when it freezes its thread, "" if it doesn't
	words        string    // of all that is said in it
}

// A landed is a commit with the messages that it brings.
type landed struct {
	id       string
	index    int // in the range
	time     string
	messages []message
	// missed has, of a merge, thread and file of the envelopes that are new
	// against each parent but not to the history.
	missed [][][2]string

	policy *policy.Policy
	found  []found
}

// A found is a path at which a commit may bring a message.
type found struct {
	change gitrepo.Change
	path   string           // below the policy's root
	olds   []gitrepo.Change // against each parent that has a file there
	data   []byte
	size   int64
	large  bool
	parsed bool     // by the judge
	said   *message // and what he found; nil: no message
}

// stamp writes a time in the form of all times here, which sort as texts: what
// a commit claims of years before 0 or after 9999 is brought to their bounds.
func stamp(t time.Time) string {
	switch t = t.UTC(); {
	case t.Year() < 0:
		return "0000-01-01T00:00:00Z"
	case t.Year() > 9999:
		return "9999-12-31T23:59:59Z"
	}
	return t.Format("2006-01-02T15:04:05Z")
}

// text makes a text one that every database takes.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// maxName is how many bytes a name has at the most. Four names and a commit are
// an entry of an index, which PostgreSQL limits to a third of a page: 2,704 bytes.
const maxName = 400

// name makes a text one that can be part of a key. A longer one is cut, and ends
// in the hash of the whole.
func name(s string) string {
	s = text(s)
	if len(s) <= maxName {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return strings.ToValidUTF8(s[:maxName-2*len(sum)-3], "") + "\u2026" + hex.EncodeToString(sum[:])
}

// land finds what a commit brings: paths that differ from every parent. A
// merge brings only what no side had.
func land(s *gitrepo.Scanned, index int, p *policy.Policy) *landed {
	l := &landed{id: s.ID, index: index, time: stamp(time.Unix(s.Committer.When, 0)), policy: p}
	for _, ch := range s.Diffs[0].Changes {
		if !ch.NewMode.IsFile() || !p.Candidate(ch.Path) {
			continue
		}
		f := found{change: ch, path: strings.TrimPrefix(ch.Path, rootOf(p))}
		everywhere := true
		for _, d := range s.Diffs {
			i, differs := slices.BinarySearchFunc(d.Changes, ch.Path, func(c gitrepo.Change, path string) int { return cmp.Compare(c.Path, path) })
			if everywhere = differs; !differs {
				break
			}
			if old := d.Changes[i]; old.OldMode.IsFile() {
				f.olds = append(f.olds, old)
			}
		}
		if !everywhere {
			continue
		}
		if o, ok := s.Blobs.Get(ch.NewID); ok {
			f.take(o)
		}
		l.found = append(l.found, f)
	}
	if len(s.Diffs) > 1 {
		brought := map[string]bool{}
		for _, f := range l.found {
			brought[f.change.Path] = true
		}
		l.missed = make([][][2]string, len(s.Diffs))
		for i, d := range s.Diffs {
			for _, ch := range d.Changes {
				if ch.Added() && !brought[ch.Path] && p.Candidate(ch.Path) {
					thread, file := split(strings.TrimPrefix(ch.Path, rootOf(p)))
					l.missed[i] = append(l.missed[i], [2]string{thread, file})
				}
			}
		}
	}
	return l
}

// split returns thread and file of a path below the root.
func split(path string) (thread, file string) {
	thread, file, _ = strings.Cut(path, "/")
	return name(thread), name(file)
}

func rootOf(p *policy.Policy) string {
	if p.Root == "" {
		return ""
	}
	return p.Root + "/"
}

// ahead reads together what the scan has left out.
func ahead(repo Repo, batch []*landed) error {
	users := map[string][]*found{}
	var ids []string
	for _, l := range batch {
		for i := range l.found {
			if f := &l.found[i]; f.data == nil && f.size == 0 && !f.parsed {
				if users[f.change.NewID] == nil {
					ids = append(ids, f.change.NewID)
				}
				users[f.change.NewID] = append(users[f.change.NewID], f)
			}
		}
	}
	return repo.Objects(ids, policy.Default().MaxFile, func(o gitrepo.Object) error {
		for _, f := range users[o.ID] {
			f.take(o)
		}
		if errors.Is(o.Err, gitrepo.ErrTooLarge) {
			return nil
		}
		return o.Err
	})
}

func (f *found) take(o gitrepo.Object) {
	f.data, f.size, f.large = o.Data, o.Size, errors.Is(o.Err, gitrepo.ErrTooLarge)
}

// settle reads what the scan has left out, and drops what takes the place of
// an envelope: a gate refuses such a change, and the message is the one that
// was there first.
func (l *landed) settle(repo Repo) error {
	var err error
	for i := range l.found {
		f := &l.found[i]
		if f.parsed || f.data != nil || f.size > l.policy.MaxFile {
			continue
		}
		if err = repo.Objects([]string{f.change.NewID}, l.policy.MaxFile, func(o gitrepo.Object) error {
			f.take(o)
			if f.large {
				return nil
			}
			return o.Err
		}); err != nil {
			return err
		}
	}
	l.found = slices.DeleteFunc(l.found, func(f found) bool {
		accepted := false
		if len(f.olds) > 0 && err == nil {
			ids := make([]string, len(f.olds))
			for i, old := range f.olds {
				ids[i] = old.OldID
			}
			i := 0
			err = repo.Heads(ids, envelope.FenceBytes, func(o gitrepo.Object) error {
				accepted = accepted || l.policy.Accepted(f.change.Path, f.olds[i].OldMode, o.Data)
				i++
				return o.Err
			})
		}
		return accepted
	})
	return err
}

// A reading keeps what the judge has parsed, so that it is parsed once.
type reading struct {
	mu   sync.Mutex
	said map[parsed]*message
}

// A parsed is what a text was parsed as.
type parsed struct {
	blob string
	o    envelope.Options
}

// keep makes a message of an envelope, which stays as it is; of one that is not valid none.
func (r *reading) keep(blob string, o envelope.Options, e *envelope.Envelope) {
	var m *message
	if e.Valid() {
		own := *e
		own.To, own.References = slices.Clone(e.To), slices.Clone(e.References)
		made := messageOf(o.Path, &own)
		m = &made
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said[parsed{blob, o}] = m
}

// options are those by which a file that a commit brings is parsed.
func (l *landed) options(f *found) envelope.Options {
	return envelope.Options{Limits: l.policy.EnvelopeLimits(), Path: f.path, Mode: uint32(f.change.NewMode), Screen: true}
}

// recall takes over what the judge has parsed: that need not be read again.
func (l *landed) recall(r *reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range l.found {
		f := &l.found[i]
		f.said, f.parsed = r.said[parsed{f.change.NewID, l.options(f)}]
	}
}

// messageOf makes a message of an envelope, of which it takes body and front matter, at a path
// below the policy's root.
func messageOf(path string, e *envelope.Envelope) message {
	m := message{env: e, froze: froze(e)}
	m.thread, m.file = split(path)
	m.file = screen.HideIn(m.file)
	body := e.Secrets.Hide(string(e.Body))
	e.Body, e.Frontmatter = nil, nil
	e.HideSecrets()
	m.words = wordsOf(append([]string{m.thread, m.file, e.Type, e.From, e.Status, e.TLDR, body}, e.To...)...)
	return m
}

// read parses the messages of a commit that were not parsed before. It is pure.
func (l *landed) read() {
	here := map[[2]string]bool{}
	for i := range l.found {
		x := &l.found[i]
		if x.parsed && x.said == nil || !x.parsed && (x.large || !envelope.HasFence(x.data)) {
			continue
		}
		thread, file := split(x.path)
		if here[[2]string{thread, file}] {
			continue // two names that differ only in bytes that are not text
		}
		var m message
		if x.parsed {
			m = *x.said
		} else if e, _ := envelope.Parse(x.data, l.options(x)); e != nil && e.Valid() {
			m = messageOf(x.path, e)
		} else {
			continue
		}
		m.path, m.blob = x.change.Path, x.change.NewID
		m.freeze = freezes(m.froze, l.policy)
		l.messages, here[[2]string{m.thread, m.file}] = append(l.messages, m), true
	}
	l.found = nil
}

// freezes returns until when a message, which is a freeze of that time, freezes its thread
// (docs/spec/relay.md#freeze), "" if it is none or the policy does not know freezes.
func freezes(at time.Time, p *policy.Policy) string {
	if p.Level("relay-frozen") == finding.Off || at.IsZero() {
		return ""
	}
	return stamp(at.Add(time.Duration(p.FreezeMinutes) * time.Minute))
}

// froze returns when a freeze was attested, the zero time of what is none.
func froze(e *envelope.Envelope) time.Time {
	if !isFreeze(e) || !strings.HasSuffix(e.From, envelope.RelaySuffix) {
		return time.Time{}
	}
	at, _, err := envelope.ParseTime(e.AttestedAt)
	if err != nil {
		return time.Time{}
	}
	return at
}

func isFreeze(e *envelope.Envelope) bool {
	return e.Type == "ACK" && e.AttestedAt != "" && envelope.StatusClass(e.Status) == "pending"
}

// references returns the JSON text of parent_refs, nil if there is none.
func references(refs []string) *string {
	if len(refs) == 0 {
		return nil
	}
	data, err := json.Marshal(refs)
	if err != nil {
		return nil
	}
	s := text(string(data))
	return &s
}
