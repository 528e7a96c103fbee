// Package policy says what a repository demands: the policy file over its
// defaults, how bad a violation of each rule is, which refs are protected, which
// paths are envelopes, and who may sign. Package rules judges by it.
package policy

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/rigward/rigward/pkg/finding"
)

// A Policy is the content of one policy file over the defaults of
// docs/policy.md.
type Policy struct {
	Protect       []string // patterns of protected refs, besides the branch HEAD points to
	ProtectToo    []string // patterns that a client's own policy adds
	OtherRefsDeny bool
	AllowRefs     []string

	Root        string   // directory that holds the thread directories, "" for the top
	Ignore      []string // doublestar globs of paths that are never envelopes
	OutsideDeny bool

	MaxFrontmatter int64 // bytes
	MaxFile        int64 // bytes
	MaxCommits     int
	MaxChanges     int
	Timeout        time.Duration // 0: the gate's own default

	Levels    map[string]finding.Severity // only what the file names
	Allow     []string                    // keys of findings that are excepted
	FailLevel finding.Severity

	RequireSigned RequireSigned
	Signers       string // path in the tree
	Revoked       string // path in the tree, "" for none
	RevokedFile   string // absolute path of a server's own list, "" for none
	MinRSABits    int
	Forge         Forge
	PushCert      bool
	ClockSkew     time.Duration

	RelayTypes    []string
	RelayClock    time.Duration
	NonceRefs     bool // nonces are unique over all protected refs
	FreezeMinutes int
	DeniedAuthors []string
	PathKey       finding.Severity // of an attested_by that is a path

	ExpungeSigners []string // principals that may take bodies of messages out
	ExpungeQuorum  int      // how many of them it takes

	QuorumOf       []string      // principals of whom several must stand for something
	QuorumHardware string        // "presence" or "verification" of a security key, "" for any key
	QuorumTrust    int           // how many for a change of policy, signers or revocations
	QuorumRecovery []string      // principals of whom one is enough for that
	QuorumRelays   []QuorumRelay // for which relays how many must

	// Baseline names commits whose history counts as accepted, whatever it
	// holds. Only a server's own policy has any.
	Baseline []string

	Bundles  []Bundle
	MaxLines int // of a server report

	Digest string // SHA-256 of the file in hexadecimal digits, "" where there is none
	Server bool   // a server's own: what a tree has in its place does not count
}

// RequireSigned says which commits need a signature besides relays.
type RequireSigned int

// The words of require-signed.
const (
	RequireRelay RequireSigned = iota // commits that add a relay
	RequireAll
	RequireNone // the word "none": relays need one all the same
)

// Forge says what is done with commits that a forge makes by itself.
type Forge struct {
	EmptyMerge bool     // unsigned merges that change nothing themselves pass
	Keys       []string // SHA256 fingerprints of keys whose commits pass
}

// A Bundle is one entry of the policy's bundles section.
type Bundle struct {
	Format, Source, Output string
	Name, Version          string
	Root, Signer           string
	Base                   string // image on which it is composed, "" for none (docs/spec/policy.md#bases)
	Options                map[string]string
}

// BasePath is the path in the repository of the image that Base names, or ""
// if that is in a registry.
func (b Bundle) BasePath() string {
	scheme, rest, _ := strings.Cut(b.Base, ":")
	if scheme != "oci" && scheme != "docker-archive" {
		return ""
	}
	name, _, _ := strings.Cut(rest, ":")
	return name
}

// A QuorumRelay says how many people must stand for relays.
type QuorumRelay struct {
	Threads []string // doublestar globs; none: of any thread
	Types   []string // none: of any type
	Count   int
}

// RelayQuorum returns how many people must stand for a relay of a type in a
// thread, the most that any row of quorum.relays wants; 1 where none does.
func (p *Policy) RelayQuorum(thread, typ string) int {
	want := 1
	for _, q := range p.QuorumRelays {
		fits := len(q.Threads) == 0 || slices.ContainsFunc(q.Threads, func(glob string) bool {
			ok, _ := doublestar.Match(glob, thread)
			return ok
		})
		if fits && (len(q.Types) == 0 || slices.Contains(q.Types, typ)) {
			want = max(want, q.Count)
		}
	}
	return want
}

// Default returns the policy of a repository without a policy file.
func Default() *Policy {
	return &Policy{
		Ignore:         []string{".github/**", Dir + "/**"},
		MaxFrontmatter: 64 << 10,
		MaxFile:        8 << 20,
		MaxCommits:     100_000,
		MaxChanges:     1_000_000,
		FailLevel:      finding.Error,
		Signers:        Signers,
		MinRSABits:     3072,
		ClockSkew:      300 * time.Second,
		RelayTypes:     []string{"DECISIONS", "RESPONSE", "ACK"},
		RelayClock:     600 * time.Second,
		FreezeMinutes:  30,
		PathKey:        finding.Warning,
		ExpungeQuorum:  1,
		MaxLines:       20,
	}
}

// loosest returns what a client's own policy is read over: nothing in it makes
// another policy stricter.
func loosest() *Policy {
	p := Default()
	p.MaxFrontmatter, p.MaxFile = math.MaxInt64, math.MaxInt64
	p.MaxCommits, p.MaxChanges = math.MaxInt, math.MaxInt
	p.MinRSABits = 0
	p.ClockSkew, p.RelayClock = math.MaxInt64, math.MaxInt64
	return p
}

// Level returns the severity of a rule under this policy.
func (p *Policy) Level(rule string) finding.Severity {
	if l, ok := p.Levels[rule]; ok {
		return l
	}
	if r, ok := RuleByID(rule); ok {
		return r.Default
	}
	return finding.Error
}

// Refuses reports whether a violation of the rule refuses a push.
func (p *Policy) Refuses(rule string) bool { return p.Level(rule) >= p.FailLevel }

// Apply maps a finding's severity by the policy; ok is false if the rule is
// off. A finding without a severity gets its rule's default, or Error where the
// rule is off by default. A rule may produce a finding below its default (a missing body_hash is
// a warning): raising the rule raises it, and lowering never raises.
func (p *Policy) Apply(f finding.Finding) (mapped finding.Finding, ok bool) {
	rule, known := RuleByID(f.Rule)
	if f.Severity == finding.Off {
		f.Severity = cmp.Or(rule.Default, finding.Error)
	}
	level, named := p.Levels[f.Rule]
	switch {
	case f.Key != "" && slices.Contains(p.Allow, f.Key):
		return f, false
	case !named:
		return f, !known || rule.Default != finding.Off
	case level == finding.Off:
		return f, false
	case level == finding.Warning:
		f.Severity = finding.Warning
	case f.Severity == finding.Warning && rule.Default == finding.Error:
		// a milder case of an error rule stays mild
	default:
		f.Severity = finding.Error
	}
	return f, true
}

// Protected reports whether history rules hold on a ref. head is the full name
// of the default branch, "" if there is none or it is not known.
func (p *Policy) Protected(ref, head string) bool {
	protected, _ := p.Guard(ref, head)
	return protected
}

// ProtectedTips returns the ids that protected refs of a repository hold, in the
// order of their names. refs has all of them by full name, head is as for
// Protected.
func (p *Policy) ProtectedTips(refs map[string]string, head string) (ids []string) {
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if p.Protected(ref, head) {
			ids = append(ids, refs[ref])
		}
	}
	return ids
}

// LeavesOut reports whether the default branch is not protected, which only a
// server's own policy can say, by a list of protected refs without it.
func (p *Policy) LeavesOut(head string) bool {
	return p.Server && len(p.Protect) > 0 && !p.Lists(head)
}

// Lists reports whether a pattern of protect names a ref.
func (p *Policy) Lists(ref string) bool {
	return matchAny(p.Protect, ref) || matchAny(p.ProtectToo, ref)
}

// Guard reports whether history rules hold on a ref, as Protected does, and why
// they do or do not, in words for people.
func (p *Policy) Guard(ref, head string) (protected bool, why string) {
	for _, pattern := range p.Protect {
		if matchRef(pattern, ref) {
			return true, "protect names " + finding.Quote(pattern)
		}
	}
	for _, pattern := range p.ProtectToo {
		if matchRef(pattern, ref) {
			return true, "protect of the clone's own policy names " + finding.Quote(pattern)
		}
	}
	switch listed := p.Server && len(p.Protect) > 0; {
	case ref == head && listed:
		return false, "the server's own policy leaves the default branch out"
	case ref == head:
		return true, "it is the default branch"
	case head == "" && !listed && strings.HasPrefix(ref, "refs/heads/"):
		// Better too much than nothing.
		return true, "no default branch is known, so every branch may be it"
	}
	switch p.OtherRef(ref) {
	case RefAllowed:
		return false, "allow-refs names it"
	case RefNeverFree:
		return false, "no push may touch it: allow-refs does not name it"
	case RefDenied:
		return false, "no push may touch it: other-refs is deny"
	}
	return false, "protect does not name it"
}

// An OtherRef is what a policy says of a ref that is not protected.
type OtherRef int

// What a policy may say of another ref.
const (
	RefFree      OtherRef = iota // nothing, so that pushes may touch it
	RefAllowed                   // allow-refs names it
	RefNeverFree                 // it would change what others see of commits, and allow-refs does not name it
	RefDenied                    // other-refs is deny, and allow-refs does not name it
)

// OtherRef returns what the policy says of a ref that is not protected.
func (p *Policy) OtherRef(ref string) OtherRef {
	switch {
	case matchAny(p.AllowRefs, ref):
		return RefAllowed
	case matchAny(neverFree, ref):
		return RefNeverFree
	case p.OtherRefsDeny:
		return RefDenied
	}
	return RefFree
}

// Reserved reports whether a ref is the server's own: no push may touch it,
// whatever a policy says (docs/spec/attestation.md#where).
func Reserved(ref string) bool { return strings.HasPrefix(ref, "refs/rigward/") }

// neverFree are refs that change what others see of commits.
var neverFree = []string{"refs/replace/**", "refs/notes/**"}

// tightened returns p made stricter by a client's own policy, as Decode reads it
// FromClient: severities only rise, limits only fall, patterns are only added.
// What own leaves out stays as it is.
func (p *Policy) tightened(own *Policy) *Policy {
	q := *p
	q.Levels = maps.Clone(p.Levels)
	for id, level := range own.Levels {
		if level > p.Level(id) {
			if q.Levels == nil {
				q.Levels = map[string]finding.Severity{}
			}
			q.Levels[id] = level
		}
	}
	q.ProtectToo = slices.Concat(p.ProtectToo, own.Protect)
	q.OtherRefsDeny = p.OtherRefsDeny || own.OtherRefsDeny
	q.OutsideDeny = p.OutsideDeny || own.OutsideDeny
	q.MaxFrontmatter = min(p.MaxFrontmatter, own.MaxFrontmatter)
	q.MaxFile = min(p.MaxFile, own.MaxFile)
	q.MaxCommits = min(p.MaxCommits, own.MaxCommits)
	q.MaxChanges = min(p.MaxChanges, own.MaxChanges)
	q.FailLevel = min(p.FailLevel, own.FailLevel)
	if own.Timeout > 0 && (p.Timeout == 0 || own.Timeout < p.Timeout) {
		q.Timeout = own.Timeout
	}
	if own.RequireSigned == RequireAll {
		q.RequireSigned = RequireAll
	}
	q.MinRSABits = max(p.MinRSABits, own.MinRSABits)
	q.ClockSkew = min(p.ClockSkew, own.ClockSkew)
	q.RelayClock = min(p.RelayClock, own.RelayClock)
	q.NonceRefs = p.NonceRefs || own.NonceRefs
	q.PathKey = max(p.PathKey, own.PathKey)
	q.DeniedAuthors = slices.Concat(p.DeniedAuthors, own.DeniedAuthors)
	return &q
}
