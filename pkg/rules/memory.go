package rules

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// said is what an envelope says, as far as later commits need to know it.
type said struct {
	hash, reply oid // of the body, and in_reply_to; zero if there is none
	from        string
	refs        []string
	attested    time.Time // attested_at of a relay that freezes

	parsed  bool
	valid   bool // satisfies the schema
	relay   bool
	freezes bool // is a relay that freezes its thread
	closes  bool // is valid, and a RESOLUTION

	large history.Kind // that it is larger than the policy allows
}

// sayingOf returns what an envelope says; env is nil if it cannot be parsed.
func sayingOf(env *envelope.Envelope) (s said) {
	if env == nil {
		return s
	}
	s = said{hash: hashOf(env.Hash), reply: hashOf(env.InReplyTo), from: env.From, refs: env.References, parsed: true, valid: env.Valid()}
	// What claims to be a relay and is not one neither freezes nor thaws.
	s.relay = strings.HasSuffix(env.From, envelope.RelaySuffix) && slices.ContainsFunc(envelope.AttestationFields(), env.Has)
	if s.valid && s.relay && env.Type == "ACK" && envelope.StatusClass(env.Status) == "pending" && env.AttestedAt != "" {
		at, _, err := envelope.ParseTime(env.AttestedAt)
		s.freezes, s.attested = err == nil, at
	}
	s.closes = s.valid && env.Type == "RESOLUTION"
	return s
}

// texts is how many bytes the texts have.
func (s said) texts() int {
	n := len(s.from)
	for _, ref := range s.refs {
		n += len(ref) + 16
	}
	return n
}

// A Memory keeps what the envelopes of threads say from one Range to the next, of this
// Judge or another one, so that a process that judges often reads a message once. What
// it keeps follows from the content alone, which is found by its id. The zero value
// is empty; several goroutines may use one.
type Memory struct {
	mu    sync.Mutex
	known map[content]said
}

// A content is a blob, read within the limits of a policy.
type content struct {
	blob              oid
	file, frontmatter int64
}

// Limits of a Memory: how many envelopes it holds, some 300 bytes each, and how many
// bytes the texts of one have. What is larger is read each time.
const (
	maxMemory = 8192
	maxSaid   = 1 << 10
)

func contentOf(p *policy.Policy, id string) content {
	return content{oidOf(id), p.MaxFile, p.MaxFrontmatter}
}

// recall splits blobs into those whose sayings are kept and the others.
func (m *Memory) recall(p *policy.Policy, ids []string) (kept map[string]said, others []string) {
	if m == nil {
		return nil, ids
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kept = map[string]said{}
	for _, id := range ids {
		if s, ok := m.known[contentOf(p, id)]; ok {
			kept[id] = s
		} else {
			others = append(others, id)
		}
	}
	return kept, others
}

// keep adds what blobs say. Where there is no room for them all that was kept before goes.
func (m *Memory) keep(p *policy.Policy, blobs []gitrepo.Object, says []said) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known)+len(blobs) > maxMemory {
		m.known = make(map[content]said, len(blobs))
	}
	for i, o := range blobs {
		s := says[i]
		if s.texts() > maxSaid {
			continue
		}
		s.from, s.refs = strings.Clone(s.from), slices.Clone(s.refs) // what they were read from is let go of
		for i, ref := range s.refs {
			s.refs[i] = strings.Clone(ref)
		}
		m.known[contentOf(p, o.ID)] = s
	}
}
