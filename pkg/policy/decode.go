package policy

import (
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// MaxPolicyBytes is the most that a policy file may have.
const MaxPolicyBytes = 256 << 10

// Origin says whose policy a file is; it decides what the file may relax.
type Origin int

// Origins of a policy file.
const (
	FromRepository Origin = iota // .bridge/policy.yaml of a trusted commit
	FromServer                   // a path named by git config rigward.policy
	FromClient                   // .git/rigward.yaml, which can only tighten
)

// Decode reads a policy file over the defaults. Decoding is strict: an unknown
// key, a wrong type or a value out of range is a *yamlprofile.Error with line,
// column and a sentence (docs/spec/policy.md#file).
func Decode(data []byte, from Origin) (*Policy, error) {
	root, err := yamlprofile.Parse(data, yamlprofile.Limits{MaxBytes: MaxPolicyBytes})
	if err != nil {
		return nil, err
	}
	d := &decoder{p: Default(), from: from}
	if from == FromClient {
		d.p = loosest()
	}
	d.object(root, "", map[string]func(*yamlprofile.Node){
		"version":        func(n *yamlprofile.Node) { d.number(n, 1, 1); d.version = true },
		"protect":        func(n *yamlprofile.Node) { d.p.Protect = d.patterns(n) },
		"other-refs":     func(n *yamlprofile.Node) { d.p.OtherRefsDeny = d.word(n, "allow", "deny") == "deny" },
		"allow-refs":     func(n *yamlprofile.Node) { d.p.AllowRefs = d.patterns(n) },
		"envelopes":      d.envelopes,
		"limits":         d.limits,
		"timeout":        func(n *yamlprofile.Node) { d.p.Timeout = d.duration(n, time.Millisecond, time.Hour) },
		"rules":          d.rules,
		"fail-level":     func(n *yamlprofile.Node) { d.p.FailLevel = d.severity(n, false) },
		"require-signed": d.requireSigned,
		"signers":        func(n *yamlprofile.Node) { d.p.Signers = d.path(n, false) },
		"revoked":        d.revoked,
		"min-rsa-bits":   func(n *yamlprofile.Node) { d.p.MinRSABits = int(d.number(n, 1024, 16384)) },
		"forge-commits":  d.forge,
		"push-cert":      func(n *yamlprofile.Node) { d.p.PushCert = d.word(n, "off", "require") == "require" },
		"clock": func(n *yamlprofile.Node) {
			d.object(n, "clock.", map[string]func(*yamlprofile.Node){
				"skew": func(n *yamlprofile.Node) { d.p.ClockSkew = d.duration(n, 0, 24*time.Hour) },
			})
		},
		"allow":    d.allow,
		"expunge":  d.expunge,
		"quorum":   d.quorum,
		"baseline": d.baseline,
		"relay":    d.relay,
		"bundles":  d.bundles,
		"report": func(n *yamlprofile.Node) {
			d.object(n, "report.", map[string]func(*yamlprofile.Node){
				"max-lines": func(n *yamlprofile.Node) { d.p.MaxLines = int(d.number(n, 3, 1000)) },
			})
		},
	})
	if d.err == nil && !d.version {
		d.fail(root, "the policy has no version", "version: 1")
	}
	if d.err != nil {
		return nil, d.err
	}
	d.p.Server = from == FromServer
	return d.p, nil
}

// A decoder keeps the first error; everything after it is skipped.
type decoder struct {
	p       *Policy
	from    Origin
	err     error
	version bool
}

func (d *decoder) fail(n *yamlprofile.Node, msg, hint string) {
	if d.err == nil {
		d.err = &yamlprofile.Error{Line: n.Line, Col: n.Col, Message: msg, Hint: hint}
	}
}

func (d *decoder) want(n *yamlprofile.Node, what string) {
	got := n.Kind.String()
	if n.Kind != yamlprofile.List && n.Kind != yamlprofile.Map {
		got = finding.QuoteMax(n.Value, 40)
	}
	d.fail(n, fmt.Sprintf("found %s, expected %s", got, what), "")
}

func (d *decoder) object(n *yamlprofile.Node, prefix string, keys map[string]func(*yamlprofile.Node)) {
	if n.Kind != yamlprofile.Map {
		d.want(n, "a mapping")
		return
	}
	for _, f := range n.Fields {
		read, known := keys[f.Key.Value]
		if !known {
			hint := ""
			if near := nearest(f.Key.Value, keys); near != "" {
				hint = "did you mean " + near + "?"
			}
			d.fail(f.Key, "unknown key "+finding.QuoteMax(prefix+f.Key.Value, 60), hint)
			return
		}
		if d.err == nil {
			read(f.Value)
		}
	}
}

// nearest returns the one key at an edit distance of at most two, if any.
func nearest[V any](key string, keys map[string]V) string {
	if len(key) > 40 {
		return ""
	}
	best, at := 3, ""
	for k := range keys {
		if n := distance(key, k); n < best || n == best && n < 3 && k < at {
			best, at = n, k
		}
	}
	return at
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func (d *decoder) list(n *yamlprofile.Node, item func(*yamlprofile.Node)) {
	if n.Kind != yamlprofile.List {
		d.want(n, "a list")
		return
	}
	for _, it := range n.Items {
		if d.err == nil {
			item(it)
		}
	}
}

func (d *decoder) text(n *yamlprofile.Node) string {
	if n.Kind != yamlprofile.String || n.Value == "" {
		d.want(n, "a string")
		return ""
	}
	return n.Value
}

func (d *decoder) word(n *yamlprofile.Node, words ...string) string {
	// off is a string in YAML 1.2, so no word here needs quotes.
	for _, w := range words {
		if n.Kind == yamlprofile.String && n.Value == w {
			return w
		}
	}
	d.want(n, "one of "+strings.Join(words, ", "))
	return ""
}

func (d *decoder) number(n *yamlprofile.Node, lo, hi int64) int64 {
	i, ok := n.Int()
	if !ok || i < lo || i > hi {
		if lo == hi {
			d.want(n, fmt.Sprint(lo))
		} else {
			d.want(n, fmt.Sprintf("an integer from %d to %d", lo, hi))
		}
		return lo
	}
	return i
}

// Compiled where a policy asks for them: hooks start without.
var (
	sizeForm     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]{1,15}) ?(KiB|MiB|GiB)$`) })
	durationForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]{1,12}) ?(ms|s|m|h)$`) })
	fingerprint  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}=?$`) })
)

// size is a number of bytes, or text like "64 KiB".
func (d *decoder) size(n *yamlprofile.Node, lo, hi int64) int64 {
	if n.Kind == yamlprofile.String {
		if m := sizeForm().FindStringSubmatch(n.Value); m != nil {
			v, _ := strconv.ParseInt(m[1], 10, 64)
			unit := map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]
			if v <= math.MaxInt64/unit && v*unit >= lo && v*unit <= hi {
				return v * unit
			}
		}
	} else if i, ok := n.Int(); ok && i >= lo && i <= hi {
		return i
	}
	d.want(n, fmt.Sprintf("a size from %d to %d bytes, such as 64 KiB", lo, hi))
	return lo
}

// duration is text like "300 s", or a number of seconds.
func (d *decoder) duration(n *yamlprofile.Node, lo, hi time.Duration) time.Duration {
	v := time.Duration(-1)
	if n.Kind == yamlprofile.String {
		if m := durationForm().FindStringSubmatch(n.Value); m != nil {
			i, _ := strconv.ParseInt(m[1], 10, 64)
			unit := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour}[m[2]]
			if i <= int64(math.MaxInt64/unit) {
				v = time.Duration(i) * unit
			}
		}
	} else if i, ok := n.Int(); ok && i >= 0 && i <= math.MaxInt64/int64(time.Second) {
		v = time.Duration(i) * time.Second
	}
	if v < lo || v > hi {
		d.want(n, fmt.Sprintf("a duration from %v to %v, such as 300 s", lo, hi))
		return lo
	}
	return v
}

func (d *decoder) severity(n *yamlprofile.Node, off bool) finding.Severity {
	words := []string{"warning", "error"}
	if off {
		words = append([]string{"off"}, words...)
	}
	s, _ := finding.ParseSeverity(d.word(n, words...))
	return s
}

func (d *decoder) patterns(n *yamlprofile.Node) (out []string) {
	d.list(n, func(it *yamlprofile.Node) { out = append(out, d.text(it)) })
	return out
}

// path is a clean relative path with slashes; "" and "." stand for the top
// where top is allowed.
func (d *decoder) path(n *yamlprofile.Node, top bool) string {
	if n.Kind == yamlprofile.String || n.Kind == yamlprofile.Null && top {
		p := n.Value
		if n.Kind == yamlprofile.Null || p == "" || p == "." {
			if top {
				return ""
			}
		} else if p = strings.TrimSuffix(p, "/"); inTree(p) {
			return p
		}
	}
	d.want(n, "a relative path below the top of the repository")
	return ""
}

func (d *decoder) envelopes(n *yamlprofile.Node) {
	d.object(n, "envelopes.", map[string]func(*yamlprofile.Node){
		"root":    func(n *yamlprofile.Node) { d.p.Root = d.path(n, true) },
		"ignore":  func(n *yamlprofile.Node) { d.p.Ignore = d.globs(n) },
		"outside": func(n *yamlprofile.Node) { d.p.OutsideDeny = d.word(n, "allow", "deny") == "deny" },
	})
}

func (d *decoder) limits(n *yamlprofile.Node) {
	file := func(n *yamlprofile.Node) { d.p.MaxFile = d.size(n, 1, 1<<30) }
	if a, b := n.Field("file"), n.Field("envelope"); a != nil && b != nil {
		d.fail(b.Key, "limits.file and limits.envelope are two names of one limit", "")
	}
	d.object(n, "limits.", map[string]func(*yamlprofile.Node){
		"frontmatter": func(n *yamlprofile.Node) { d.p.MaxFrontmatter = d.size(n, 1, 1<<30) },
		"file":        file,
		"envelope":    file,
		"commits":     func(n *yamlprofile.Node) { d.p.MaxCommits = int(d.number(n, 1, math.MaxInt32)) },
		"changes":     func(n *yamlprofile.Node) { d.p.MaxChanges = int(d.number(n, 1, math.MaxInt32)) },
	})
}

func (d *decoder) rules(n *yamlprofile.Node) {
	known := map[string]func(*yamlprofile.Node){}
	d.p.Levels = map[string]finding.Severity{}
	for _, r := range rules {
		known[r.ID] = func(n *yamlprofile.Node) {
			at := n
			level := r.Default
			if n.Kind == yamlprofile.Map {
				d.object(n, "rules."+r.ID+".", map[string]func(*yamlprofile.Node){
					"level": func(n *yamlprofile.Node) { at = n; level = d.severity(n, true) },
				})
			} else {
				level = d.severity(n, true)
			}
			if d.err == nil && level == finding.Off && r.Off == FromServer && d.from == FromRepository {
				d.fail(at, "rule "+r.ID+" cannot be switched off by the repository itself", "a server can, in the file named by: git config rigward.policy")
			}
			d.p.Levels[r.ID] = level
		}
	}
	d.object(n, "rules.", known)
}

func (d *decoder) requireSigned(n *yamlprofile.Node) {
	switch d.word(n, "none", "relay", "all") {
	case "none":
		d.p.RequireSigned = RequireNone
	case "relay":
		d.p.RequireSigned = RequireRelay
	case "all":
		d.p.RequireSigned = RequireAll
	}
}

func (d *decoder) revoked(n *yamlprofile.Node) {
	switch {
	case n.Kind == yamlprofile.Null:
	case d.from == FromServer && n.Kind == yamlprofile.String && filepath.IsAbs(n.Value) && !strings.Contains(n.Value, "\x00"):
		d.p.RevokedFile = n.Value
	default:
		d.p.Revoked = d.path(n, false)
	}
}

// allow reads the keys of findings that are no violations: a client's own policy
// only tightens.
func (d *decoder) allow(n *yamlprofile.Node) {
	if d.from == FromClient {
		d.fail(n, "a client's own policy only tightens and has no allow", "")
		return
	}
	d.list(n, func(it *yamlprofile.Node) {
		if key := d.text(it); d.err == nil {
			if !finding.IsKey(key) {
				d.want(it, "the 32 digits that a finding of hidden-text or secret names")
				return
			}
			d.p.Allow = append(d.p.Allow, key)
		}
	})
}

// expunge reads who may take the bodies of messages out.
func (d *decoder) expunge(n *yamlprofile.Node) {
	if d.from == FromClient {
		d.fail(n, "a client's own policy only tightens and has no expunge", "")
		return
	}
	d.object(n, "expunge.", map[string]func(*yamlprofile.Node){
		"signers": func(n *yamlprofile.Node) { d.p.ExpungeSigners = d.principals(n) },
		"quorum":  func(n *yamlprofile.Node) { d.p.ExpungeQuorum = int(d.number(n, 1, MaxQuorum)) },
	})
	if d.err == nil && d.p.ExpungeQuorum > len(d.p.ExpungeSigners) {
		d.fail(n, fmt.Sprintf("expunge.quorum is %d, and expunge.signers names %d", d.p.ExpungeQuorum, len(d.p.ExpungeSigners)), "")
	}
}

// principals reads names of the signers file.
func (d *decoder) principals(n *yamlprofile.Node) (names []string) {
	d.list(n, func(it *yamlprofile.Node) {
		name := d.text(it)
		if d.err == nil && strings.ContainsAny(name, "*?!, \t") {
			d.want(it, "one principal of the signers file, without patterns")
		}
		names = append(names, name)
	})
	return names
}

// quorum reads how many people must stand for what.
func (d *decoder) quorum(n *yamlprofile.Node) {
	if d.from == FromClient {
		d.fail(n, "a client's own policy only tightens and has no quorum", "")
		return
	}
	most := 1
	count := func(n *yamlprofile.Node) int {
		c := int(d.number(n, 1, MaxQuorum))
		most = max(most, c)
		return c
	}
	d.object(n, "quorum.", map[string]func(*yamlprofile.Node){
		"of":    func(n *yamlprofile.Node) { d.p.QuorumOf = d.principals(n) },
		"trust": func(n *yamlprofile.Node) { d.p.QuorumTrust = count(n) },
		"hardware": func(n *yamlprofile.Node) {
			if d.p.QuorumHardware = d.word(n, "any", Presence, Verification); d.p.QuorumHardware == "any" {
				d.p.QuorumHardware = ""
			}
		},
		"recovery": func(n *yamlprofile.Node) { d.p.QuorumRecovery = d.principals(n) },
		"relays": func(n *yamlprofile.Node) {
			d.list(n, func(it *yamlprofile.Node) {
				var q QuorumRelay
				d.object(it, "quorum.relays.", map[string]func(*yamlprofile.Node){
					"threads": func(n *yamlprofile.Node) { q.Threads = d.globs(n) },
					"types": func(n *yamlprofile.Node) {
						d.list(n, func(it *yamlprofile.Node) { q.Types = append(q.Types, d.word(it, "DECISIONS", "RESPONSE", "ACK")) })
					},
					"quorum": func(n *yamlprofile.Node) { q.Count = count(n) },
				})
				if d.err == nil && q.Count == 0 {
					d.fail(it, "a row of quorum.relays has no quorum", "quorum: 2")
				}
				d.p.QuorumRelays = append(d.p.QuorumRelays, q)
			})
		},
	})
	if d.err == nil && most > len(d.p.QuorumOf) {
		d.fail(n, fmt.Sprintf("quorum wants %d people, and quorum.of names %d", most, len(d.p.QuorumOf)), "")
	}
}

// globs reads glob patterns.
func (d *decoder) globs(n *yamlprofile.Node) (globs []string) {
	d.list(n, func(it *yamlprofile.Node) {
		glob := d.text(it)
		if d.err == nil && !doublestar.ValidatePattern(glob) {
			d.want(it, "a glob pattern")
		}
		globs = append(globs, glob)
	})
	return globs
}

// What quorum.hardware asks for.
const (
	Presence     = "presence"
	Verification = "verification"
)

// MaxQuorum is how many people may be asked for at most.
const MaxQuorum = 16

// baseline reads whose history is taken as it is. A repository's own file could
// name a commit that its writer has just pushed.
func (d *decoder) baseline(n *yamlprofile.Node) {
	if d.from != FromServer {
		d.fail(n, "only a server's own policy has a baseline", "on the server: git config rigward.policy FILE")
		return
	}
	d.list(n, func(it *yamlprofile.Node) {
		if id := d.text(it); d.err == nil {
			if l := len(id); l != 40 && l != 64 || strings.Trim(id, "0123456789abcdef") != "" {
				d.want(it, "a full commit id")
				return
			}
			d.p.Baseline = append(d.p.Baseline, id)
		}
	})
}

func (d *decoder) forge(n *yamlprofile.Node) {
	if n.Kind == yamlprofile.List {
		d.list(n, func(it *yamlprofile.Node) {
			if it.Kind != yamlprofile.String || !fingerprint().MatchString(it.Value) {
				d.want(it, "a key fingerprint, SHA256:…")
				return
			}
			d.p.Forge.Keys = append(d.p.Forge.Keys, strings.TrimSuffix(it.Value, "="))
		})
		return
	}
	d.p.Forge.EmptyMerge = d.word(n, "deny", "allow-empty-merge") == "allow-empty-merge"
}

func (d *decoder) relay(n *yamlprofile.Node) {
	d.object(n, "relay.", map[string]func(*yamlprofile.Node){
		"types": func(n *yamlprofile.Node) {
			d.p.RelayTypes = nil
			d.list(n, func(it *yamlprofile.Node) {
				d.p.RelayTypes = append(d.p.RelayTypes, d.word(it, "DECISIONS", "RESPONSE", "ACK"))
			})
		},
		"clock":          func(n *yamlprofile.Node) { d.p.RelayClock = d.duration(n, 0, 24*time.Hour) },
		"nonce-scope":    func(n *yamlprofile.Node) { d.p.NonceRefs = d.word(n, "ref", "refs") == "refs" },
		"freeze-minutes": func(n *yamlprofile.Node) { d.p.FreezeMinutes = int(d.number(n, 1, 1440)) },
		"denied-authors": func(n *yamlprofile.Node) { d.p.DeniedAuthors = d.patterns(n) },
		"path-key": func(n *yamlprofile.Node) {
			d.p.PathKey = d.severity(n, false)
		},
	})
}

func (d *decoder) bundles(n *yamlprofile.Node) {
	d.list(n, func(it *yamlprofile.Node) {
		var b Bundle
		d.object(it, "bundles.", map[string]func(*yamlprofile.Node){
			"format":  func(n *yamlprofile.Node) { b.Format = d.word(n, "rig", "agent", "rye") },
			"source":  func(n *yamlprofile.Node) { b.Source = d.path(n, true) },
			"output":  func(n *yamlprofile.Node) { b.Output = d.path(n, false) },
			"name":    func(n *yamlprofile.Node) { b.Name = d.text(n) },
			"version": func(n *yamlprofile.Node) { b.Version = d.text(n) },
			"root": func(n *yamlprofile.Node) {
				if b.Root = d.path(n, true); b.Root == "" {
					b.Root = "." // the top, not the directory of the RigSpec
				}
			},
			"signer": func(n *yamlprofile.Node) { b.Signer = d.text(n) },
			"base":   func(n *yamlprofile.Node) { b.Base = d.base(n) },
			"options": func(n *yamlprofile.Node) {
				if n.Kind != yamlprofile.Map {
					d.want(n, "a mapping")
					return
				}
				b.Options = map[string]string{}
				for _, f := range n.Fields {
					switch f.Value.Kind {
					case yamlprofile.String, yamlprofile.Bool, yamlprofile.Number:
						b.Options[f.Key.Value] = f.Value.Value
					default:
						d.want(f.Value, "a string, a number or a boolean")
					}
				}
			},
		})
		for _, key := range []string{"format", "source", "output"} {
			if d.err == nil && it.Get(key) == nil {
				d.fail(it, "the bundle has no "+key, "")
			}
		}
		if d.err == nil {
			d.bundle(it, b)
		}
		d.p.Bundles = append(d.p.Bundles, b)
	})
}

// basePattern has the forms of an image that stays what it is: the path of one
// in the tree, or a digest.
var basePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\A(?:(?:oci|docker-archive):([^:]+)(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?|[^\s:@][^\s@]*@sha256:[0-9a-f]{64})\z`)
})

func (d *decoder) base(n *yamlprofile.Node) string {
	local := strings.HasPrefix(n.Value, "oci:") || strings.HasPrefix(n.Value, "docker-archive:")
	if m := basePattern().FindStringSubmatch(n.Value); n.Kind == yamlprofile.String && m != nil && (local && inTree(m[1]) || !local && m[1] == "") {
		return n.Value
	}
	d.want(n, "oci:PATH[:TAG] or docker-archive:PATH[:TAG], the path of an image in the repository, or NAME@sha256:DIGEST")
	return ""
}

// inTree reports whether a path leads to something below the top of the
// repository, and is written in the one way.
func inTree(p string) bool {
	return p != "" && path.Clean(p) == p && !path.IsAbs(p) && p != "." && p != ".." && !strings.HasPrefix(p, "../") && !strings.ContainsAny(p, "\\\x00")
}

// bundleOptions are the options of each format, with the values that they
// take; none for any text.
var bundleOptions = map[string]map[string][]string{
	"rig":   {"form": {"rigward", "openrig-0.4"}, "drop-services": {"true", "false"}},
	"agent": {"compression": {"gzip", "zstd"}, "source-date-epoch": nil},
	"rye":   {},
}

// bundle checks what one entry says as a whole.
func (d *decoder) bundle(n *yamlprofile.Node, b Bundle) {
	known := bundleOptions[b.Format]
	if o := n.Get("options"); o != nil {
		for _, f := range o.Fields {
			words, ok := known[f.Key.Value]
			switch {
			case !ok:
				d.fail(f.Key, "the format "+b.Format+" has no option "+finding.QuoteMax(f.Key.Value, 60), "")
			case words != nil && !slices.Contains(words, f.Value.Value):
				d.want(f.Value, "one of "+strings.Join(words, ", "))
			}
		}
	}
	inside := b.Source == "" || b.Output == b.Source || strings.HasPrefix(b.Output, b.Source+"/")
	switch {
	case b.Format == "rig" && b.Source == "":
		d.fail(n.Get("source"), "the source of a rig is its RigSpec, a file", "")
	case b.Format == "rig" && (!strings.HasSuffix(b.Output, ".rigbundle") || b.Output == b.Source):
		d.fail(n.Get("output"), "the output of a rig is a file whose name ends in .rigbundle", "")
	case b.Format == "agent" && inside:
		d.fail(n.Get("output"), "the output lies in the source and would be packed with it", "")
	case b.Format == "rye" && !inside:
		d.fail(n.Get("output"), "the output of a Rye bundle is its source, or the manifest below it", "")
	case b.Base != "" && b.Format != "agent":
		d.fail(n.Get("base"), "the format "+b.Format+" makes no image", "")
	case b.Root != "" && b.Format != "rig":
		d.fail(n.Get("root"), "the format "+b.Format+" has no root", "")
	}
	for _, other := range d.p.Bundles {
		if other.Output == b.Output && (b.Format != "rye" || other.Name == b.Name) {
			d.fail(n.Get("output"), "two bundles have the output "+finding.QuoteMax(b.Output, 100), "")
		}
	}
}

// DecodeError returns the place and hint of a decoding error, if err is one.
func DecodeError(err error) (e *yamlprofile.Error, ok bool) {
	return e, errors.As(err, &e)
}
