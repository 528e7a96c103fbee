package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
	"github.com/rigward/rigward/schemas"
)

// everyKey is a policy file that sets every key of docs/policy.md.
const everyKey = `# a comment
version: 1
protect: [main, 'refs/heads/release/*']
other-refs: deny
allow-refs: [refs/notes/*]
envelopes:
  root: talk
  ignore: ["docs/**"]
  outside: deny
limits:
  frontmatter: 32 KiB
  file: 1 MiB
  commits: 10
  changes: 20
timeout: 1500 ms
rules:
  divergence: error
  tldr-length: off
  references: {level: error}
fail-level: warning
require-signed: all
signers: keys/signers
revoked: keys/revoked
min-rsa-bits: 4096
forge-commits: [SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA]
push-cert: require
allow: [0123456789abcdef0123456789abcdef]
expunge: {signers: [op@example.com, bob@example.com], quorum: 2}
quorum:
  of: [op@example.com, bob@example.com, eve@example.com]
  trust: 3
  hardware: verification
  recovery: [rescue@example.com]
  relays: [{threads: [prod-*], types: [DECISIONS], quorum: 2}]
baseline: [a123456789012345678901234567890123456789]
clock: {skew: 60}
relay:
  types: [ACK]
  clock: 2 m
  nonce-scope: refs
  freeze-minutes: 5
  denied-authors: ["*@example.org"]
  path-key: error
bundles:
  - {format: rig, source: src, output: out.rigbundle, name: n, version: "1.0", root: r, signer: s, options: {form: openrig-0.4, drop-services: true}}
report: {max-lines: 10}
`

func TestDecodeEveryKey(t *testing.T) {
	got, err := Decode([]byte(everyKey), FromServer)
	if err != nil {
		t.Fatal(err)
	}
	want := &Policy{
		Protect: []string{"main", "refs/heads/release/*"}, OtherRefsDeny: true, AllowRefs: []string{"refs/notes/*"},
		Root: "talk", Ignore: []string{"docs/**"}, OutsideDeny: true,
		MaxFrontmatter: 32 << 10, MaxFile: 1 << 20, MaxCommits: 10, MaxChanges: 20, Timeout: 1500 * time.Millisecond,
		Levels:    map[string]finding.Severity{"divergence": finding.Error, "tldr-length": finding.Off, "references": finding.Error},
		FailLevel: finding.Warning, RequireSigned: RequireAll, Signers: "keys/signers", Revoked: "keys/revoked", MinRSABits: 4096,
		Forge: Forge{Keys: []string{"SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}, PushCert: true, ClockSkew: time.Minute,
		Allow:          []string{"0123456789abcdef0123456789abcdef"},
		ExpungeSigners: []string{"op@example.com", "bob@example.com"}, ExpungeQuorum: 2,
		QuorumOf: []string{"op@example.com", "bob@example.com", "eve@example.com"}, QuorumTrust: 3, QuorumHardware: Verification, QuorumRecovery: []string{"rescue@example.com"},
		QuorumRelays: []QuorumRelay{{Threads: []string{"prod-*"}, Types: []string{"DECISIONS"}, Count: 2}},
		Baseline:     []string{"a123456789012345678901234567890123456789"},
		RelayTypes:   []string{"ACK"}, RelayClock: 2 * time.Minute, NonceRefs: true, FreezeMinutes: 5,
		DeniedAuthors: []string{"*@example.org"}, PathKey: finding.Error,
		Bundles:  []Bundle{{Format: "rig", Source: "src", Output: "out.rigbundle", Name: "n", Version: "1.0", Root: "r", Signer: "s", Options: map[string]string{"form": "openrig-0.4", "drop-services": "true"}}},
		MaxLines: 10,
		Server:   true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// No field keeps its default, so none was forgotten; ProtectToo and Digest have no key,
	// and RevokedFile is what revoked means where it is an absolute path.
	got.ProtectToo, got.RevokedFile, got.Digest = []string{"x"}, "x", "x"
	g, d := reflect.ValueOf(*got), reflect.ValueOf(*Default())
	for i := range g.NumField() {
		if reflect.DeepEqual(g.Field(i).Interface(), d.Field(i).Interface()) {
			t.Errorf("%s is the default", g.Type().Field(i).Name)
		}
	}
	if p, err := Decode([]byte("version: 1\n"), FromRepository); err != nil || !reflect.DeepEqual(p, Default()) {
		t.Errorf("without keys: %+v, %v", p, err)
	}
}

// TestOwnRevocations: only a server's own policy names a file of the server.
func TestOwnRevocations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "revoked")
	text := []byte("version: 1\nrevoked: '" + file + "'\n")
	if p, err := Decode(text, FromServer); err != nil || p.RevokedFile != file || p.Revoked != "" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, from := range []Origin{FromRepository, FromClient} {
		if p, err := Decode(text, from); err == nil {
			t.Errorf("origin %d: %+v", from, p)
		}
	}
}

// TestGuard: the default branch is protected whatever protect names, but for a
// server's own list (case J04).
func TestGuard(t *testing.T) {
	const head, rel, other = "refs/heads/main", "refs/heads/release/1", "refs/heads/x"
	for _, c := range []struct {
		text string
		from Origin
		head string
		want [3]bool // of the default branch, a release, another branch
	}{
		{"", FromRepository, head, [3]bool{true, false, false}},
		{"protect: [release/*]\n", FromRepository, head, [3]bool{true, true, false}},
		{"protect: []\n", FromServer, head, [3]bool{true, false, false}},
		{"protect: [release/*]\n", FromServer, head, [3]bool{false, true, false}},
		{"protect: [main, release/*]\n", FromServer, head, [3]bool{true, true, false}},
		{"protect: [release/*]\n", FromRepository, "", [3]bool{true, true, true}},
		{"protect: [release/*]\n", FromServer, "", [3]bool{false, true, false}},
	} {
		p, err := Decode([]byte("version: 1\n"+c.text), c.from)
		if err != nil {
			t.Fatal(err)
		}
		for i, ref := range []string{head, rel, other} {
			if got, why := p.Guard(ref, c.head); got != c.want[i] || why == "" {
				t.Errorf("%q, origin %d, default %q: %s: %v, %s", c.text, c.from, c.head, ref, got, why)
			}
		}
		if p.LeavesOut(head) != (c.from == FromServer && !c.want[0]) {
			t.Errorf("%q, origin %d: LeavesOut", c.text, c.from)
		}
	}
}

// refusals are policy files that are refused, with place and words. schema
// reports whether the JSON Schema refuses them, too: it cannot know paths,
// globs, sizes in units and who may switch off what.
var refusals = []struct {
	text, says string
	line, col  int
	schema     bool
}{
	{"version: 2\n", `found "2", expected 1`, 1, 10, true},
	{"version: '1'\n", `expected 1`, 1, 10, true},
	{"protect: []\n", "no version", 1, 1, true},
	{"version: 1\nversion: 1\n", "", 2, 1, false},
	{"version: 1\nrule: {}\n", `unknown key "rule"`, 2, 1, true},
	{"version: 1\nbaseline: [a123456789012345678901234567890123456789]\n", "only a server's own policy has a baseline", 2, 11, false},
	{"version: 1\nprotect: main\n", `found "main", expected a list`, 2, 10, true},
	{"version: 1\nprotect: ['']\n", "expected a string", 2, 11, true},
	{"version: 1\nprotect: [1]\n", "expected a string", 2, 11, true},
	{"version: 1\nother-refs: maybe\n", "expected one of allow, deny", 2, 13, true},
	{"version: 1\nenvelopes: {dir: x}\n", `unknown key "envelopes.dir"`, 2, 13, true},
	{"version: 1\nenvelopes: {root: ../x}\n", "relative path", 2, 19, false},
	{"version: 1\nenvelopes: {root: /x}\n", "relative path", 2, 19, false},
	{"version: 1\nenvelopes: {ignore: ['[']}\n", "a glob pattern", 2, 22, false},
	{"version: 1\nenvelopes: {ignore: 'x'}\n", "a list", 2, 21, true},
	{"version: 1\nlimits: {commits: 0}\n", "an integer from 1", 2, 19, true},
	{"version: 1\nlimits: {commits: 1.5}\n", "an integer from 1", 2, 19, true},
	{"version: 1\nlimits: {commits: 1e3}\n", "an integer from 1", 2, 19, false},
	{"version: 1\nlimits: {file: 64 KB}\n", "a size", 2, 16, true},
	{"version: 1\nlimits: {file: 2 GiB}\n", "a size", 2, 16, false},
	{"version: 1\nlimits: {file: 1, envelope: 2}\n", "two names", 2, 19, false},
	{"version: 1\ntimeout: 4 sec\n", "a duration", 2, 10, true},
	{"version: 1\ntimeout: -1\n", "a duration", 2, 10, true},
	{"version: 1\ntimeout: 0\n", "a duration", 2, 10, false},
	{"version: 1\ntimeout: 999999999999 h\n", "a duration", 2, 10, false},
	{"version: 1\nrules: {append-only: off}\n", "cannot be switched off", 2, 22, false},
	{"version: 1\nrules: {append-only: {level: off}}\n", "cannot be switched off", 2, 30, false},
	{"version: 1\nrules: {tldr-length: fatal}\n", "expected one of off, warning, error", 2, 22, true},
	{"version: 1\nrules: {tldr-length: {levle: off}}\n", `unknown key "rules.tldr-length.levle"`, 2, 23, true},
	{"version: 1\nrules: {tldr: off}\n", `unknown key "rules.tldr"`, 2, 9, true},
	{"version: 1\nfail-level: off\n", "expected one of warning, error", 2, 13, true},
	{"version: 1\nrequire-signed: yes\n", "expected one of none, relay, all", 2, 17, true},
	{"version: 1\nsigners: ''\n", "relative path", 2, 10, true},
	{"version: 1\nsigners: a/../b\n", "relative path", 2, 10, false},
	{"version: 1\nrevoked: 1\n", "relative path", 2, 10, true},
	{"version: 1\nmin-rsa-bits: 512\n", "from 1024 to 16384", 2, 15, true},
	{"version: 1\nforge-commits: allow\n", "expected one of deny, allow-empty-merge", 2, 16, true},
	{"version: 1\nforge-commits: [MD5:x]\n", "a key fingerprint", 2, 17, true},
	{"version: 1\npush-cert: true\n", "expected one of off, require", 2, 12, true},
	{"version: 1\nclock: {skew: 25 h}\n", "a duration", 2, 15, false},
	{"version: 1\nrelay: {types: [REQUEST]}\n", "expected one of DECISIONS, RESPONSE, ACK", 2, 17, true},
	{"version: 1\nrelay: {freeze-minutes: 1441}\n", "from 1 to 1440", 2, 25, true},
	{"version: 1\nrelay: {path-key: off}\n", "expected one of warning, error", 2, 19, true},
	{"version: 1\nbundles: [{format: rig, source: x}]\n", "no output", 2, 11, true},
	{"version: 1\nbundles: [{format: zip, source: x, output: y}]\n", "expected one of rig, agent, rye", 2, 20, true},
	{"version: 1\nbundles: [{format: rig, source: x, output: y, options: {a: [1]}}]\n", "a string, a number or a boolean", 2, 60, true},
	{"version: 1\nbundles: [{format: rig, source: x, output: y.rigbundle, options: {level: 9}}]\n", "has no option", 2, 67, true},
	{"version: 1\nbundles: [{format: rye, source: x, output: x, options: {form: rigward}}]\n", "has no option", 2, 57, true},
	{"version: 1\nbundles: [{format: agent, source: x, output: y, options: {compression: xz}}]\n", "one of gzip, zstd", 2, 72, true},
	{"version: 1\nbundles: [{format: rig, source: x, output: y}]\n", "ends in .rigbundle", 2, 44, true},
	{"version: 1\nbundles: [{format: rig, source: ., output: y.rigbundle}]\n", "a file", 2, 33, false},
	{"version: 1\nbundles: [{format: agent, source: x, output: x/y.tar.gz}]\n", "would be packed with it", 2, 46, false},
	{"version: 1\nbundles: [{format: rye, source: x, output: y}]\n", "or the manifest below it", 2, 44, false},
	{"version: 1\nbundles: [{format: rye, source: x, output: x, root: y}]\n", "has no root", 2, 53, true},
	{"version: 1\nbundles: [{format: rig, source: x, output: y.rigbundle, base: 'oci:b'}]\n", "makes no image", 2, 63, false},
	{"version: 1\nbundles: [{format: agent, source: x, output: y, base: 'alpine:3.20'}]\n", "NAME@sha256:DIGEST", 2, 55, true},
	{"version: 1\nbundles: [{format: agent, source: x, output: y, base: 'oci:../b'}]\n", "path of an image in the repository", 2, 55, false},
	{"version: 1\nbundles: [{format: agent, source: x, output: y, base: 'oci:/b'}]\n", "path of an image in the repository", 2, 55, false},
	{"version: 1\nbundles: [{format: agent, source: x, output: y, base: 'oci:b:c:d'}]\n", "path of an image in the repository", 2, 55, true},
	{"version: 1\nbundles: [{format: agent, source: x, output: y, base: 7}]\n", "path of an image in the repository", 2, 55, true},
	{"version: 1\nbundles: [{format: agent, source: x, output: y}, {format: agent, source: z, output: y}]\n", "two bundles have the output", 2, 85, false},
	{"version: 1\nreport: {max-lines: 2}\n", "from 3 to 1000", 2, 21, true},
	{"version: 1\ntimeout: &a 4 s\n", "", 2, 10, false},
	{"version: 1\n--- x\n", "", 2, 1, false},
	{"[1]\n", "", 1, 1, false},
}

func TestDecodeRefuses(t *testing.T) {
	schema := compile(t)
	for _, tt := range refusals {
		_, err := Decode([]byte(tt.text), FromRepository)
		var e *yamlprofile.Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if e.Line != tt.line || e.Col != tt.col || !strings.Contains(e.Message, tt.says) || strings.HasSuffix(e.Message, ".") {
			t.Errorf("%q: %d:%d: %s, expected %d:%d: %s", tt.text, e.Line, e.Col, e.Message, tt.line, tt.col, tt.says)
		}
		root, err := yamlprofile.Parse([]byte(tt.text), yamlprofile.Limits{})
		if err != nil {
			continue
		}
		if refused := schema.Validate(value(root)) != nil; refused != tt.schema {
			t.Errorf("%q: the schema refuses it: %v, expected %v", tt.text, refused, tt.schema)
		}
	}
	root, err := yamlprofile.Parse([]byte(everyKey), yamlprofile.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value(root)); err != nil {
		t.Errorf("the schema refuses what the decoder takes: %v", err)
	}
	if _, err := Decode(bytes.Repeat([]byte("#\n"), MaxPolicyBytes), FromRepository); err == nil {
		t.Error("a file over the limit is read")
	}
}

func TestOnlyAServerSwitchesOff(t *testing.T) {
	for _, r := range Rules() {
		text := []byte("version: 1\nrules: {" + r.ID + ": off}\n")
		_, repo := Decode(text, FromRepository)
		if (repo != nil) != (r.Off == FromServer) {
			t.Errorf("%s in a repository: %v", r.ID, repo)
		}
		p, err := Decode(text, FromServer)
		if err != nil || p.Level(r.ID) != finding.Off {
			t.Errorf("%s at a server: %v", r.ID, err)
		}
		// A client can only tighten: off changes nothing there.
		own, err := Decode(text, FromClient)
		if err != nil {
			t.Errorf("%s in a client: %v", r.ID, err)
		} else if got := Default().tightened(own).Level(r.ID); got != r.Default {
			t.Errorf("%s in a client: %v, expected %v", r.ID, got, r.Default)
		}
	}
}

// TestTighten: a client's own policy takes nothing away, and changes nothing
// that it does not name.
func TestTighten(t *testing.T) {
	decode := func(text string, from Origin) *Policy {
		p, err := Decode([]byte("version: 1\n"+text), from)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return p
	}
	lax := decode("rules: {references: off, append-only: warning}\nlimits: {file: 16 MiB, frontmatter: 128 KiB, commits: 200000, changes: 2000000}\n"+
		"min-rsa-bits: 2048\nclock: {skew: 600 s}\nrelay: {clock: 1200 s}\n", FromRepository)
	got := *lax.tightened(decode("", FromClient))
	got.ProtectToo = lax.ProtectToo
	if !reflect.DeepEqual(&got, lax) {
		t.Errorf("a policy that names nothing makes\n%+v of\n%+v", got, *lax)
	}
	p := lax.tightened(decode("protect: [rel]\nrules: {references: warning, append-only: off}\nlimits: {file: 1 MiB}\nmin-rsa-bits: 1024\n", FromClient))
	if p.Level("references") != finding.Warning || p.Level("append-only") != finding.Warning || p.MaxFile != 1<<20 || p.MinRSABits != 2048 {
		t.Errorf("%+v", *p)
	}
	const head = "refs/heads/main"
	if !p.Protected(head, head) || !p.Protected("refs/heads/rel", head) || p.Protected("refs/heads/x", head) {
		t.Error("what a client protects besides takes the place of the default branch, or is not protected")
	}
}

func TestSchemaNamesEveryRule(t *testing.T) {
	var s struct {
		Properties struct {
			Rules struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(schemas.Policy(), &s); err != nil {
		t.Fatal(err)
	}
	for _, r := range Rules() {
		if s.Properties.Rules.Properties[r.ID] == nil {
			t.Errorf("the schema does not know %s", r.ID)
		}
		delete(s.Properties.Rules.Properties, r.ID)
	}
	for id := range s.Properties.Rules.Properties {
		t.Errorf("the schema knows %s, the registry does not", id)
	}
}

func compile(t testing.TB) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.LoadURL = func(s string) (io.ReadCloser, error) { return nil, fmt.Errorf("%s is not loaded", s) }
	if err := c.AddResource("policy.json", bytes.NewReader(schemas.Policy())); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// value is a node as encoding/json would decode it.
func value(n *yamlprofile.Node) any {
	v, _ := n.Interface()
	return v
}

// FuzzDecode: whatever the bytes, there is a policy or one error with a place;
// and the schema takes what the decoder takes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(everyKey))
	for _, tt := range refusals {
		f.Add([]byte(tt.text))
	}
	schema := compile(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data, FromServer)
		if err != nil {
			var e *yamlprofile.Error
			if !errors.As(err, &e) || e.Line < 1 || e.Col < 1 || e.Message == "" || strings.ContainsAny(e.Message, "\n\r\x1b") {
				t.Fatalf("%v", err)
			}
			return
		}
		if p.MaxFile < 1 || p.MaxCommits < 1 || p.MaxLines < 3 || p.MinRSABits < 1024 || p.FailLevel == finding.Off {
			t.Fatalf("%+v", p)
		}
		root, err := yamlprofile.Parse(data, yamlprofile.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value(root)); err != nil {
			t.Fatalf("the schema refuses what the decoder takes: %v\n%s", err, data)
		}
	})
}
