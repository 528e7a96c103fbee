package attack

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// A verdict is what the model says of a push: the rules that it breaks, and
// why it cannot be decided, if it cannot.
type verdict struct {
	rules     map[string]bool
	where     []string        // each rule with the commit and the path that break it
	may       map[string]bool // rules that may be told besides, of files that are refused anyway
	undecided string
	// odd: an object is malformed. What else is told then depends on how far
	// the reader came.
	odd bool
}

func (v *verdict) add(rule string) { v.rules[rule] = true }

func (v *verdict) pass() bool { return len(v.rules) == 0 && v.undecided == "" }

func (v *verdict) cannot(why string) {
	if v.undecided == "" {
		v.undecided = why
	}
}

// A model knows every object that was ever made, and reads what the server
// itself has of policy, signers and revocations.
type model struct {
	dir  string
	objs map[string]mobj
	head string // the branch that HEAD names
	size int    // of an object id in bytes
	// The files that the server's configuration names, "" for none.
	serverPolicy, serverSigners, serverRevoked string

	trees   map[string]mtree
	commits map[string]*mcommit
	envs    map[envKey]*menv
}

type mobj struct {
	typ  string
	data []byte
}

func zero(id string) bool { return strings.Trim(id, "0") == "" }

// text reads a file of the server.
func (m *model) text(name string) (string, bool) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(m.dir, name)
	}
	data, err := os.ReadFile(name)
	return string(data), err == nil
}

func (m *model) get(id string) mobj { return m.objs[id] }

// A tree, flat: every path that is no directory.
type mtree map[string]mentry

type mentry struct{ mode, id string }

func (m *model) tree(id string) (mtree, bool) {
	if t, ok := m.trees[id]; ok {
		return t, t != nil
	}
	t := mtree{}
	if !m.readTree(t, "", id) {
		t = nil
	}
	m.trees[id] = t
	return t, t != nil
}

func (m *model) readTree(t mtree, prefix, id string) bool {
	o := m.get(id)
	if o.typ != "tree" {
		return false
	}
	seen, last := map[string]bool{}, ""
	for rest := o.data; len(rest) > 0; {
		head, tail, ok := bytes.Cut(rest, []byte{0})
		mode, name, ok2 := strings.Cut(string(head), " ")
		if !ok || !ok2 || len(tail) < m.size || name == "" || strings.Contains(name, "/") || seen[name] {
			return false
		}
		child := hex.EncodeToString(tail[:m.size])
		rest = tail[m.size:]
		seen[name] = true
		key := name
		if mode == "40000" {
			key += "/"
		}
		if key <= last {
			return false
		}
		last = key
		switch mode {
		case "40000":
			if !m.readTree(t, prefix+name+"/", child) {
				return false
			}
		case "100644", "100755", "120000", "160000":
			t[prefix+name] = mentry{mode, child}
		default:
			return false
		}
	}
	return true
}

type mperson struct {
	name, email string
	when        int64
}

type mcommit struct {
	id                string
	raw               []byte
	parents           []string
	tree              mtree
	author, committer mperson
}

var (
	hexID   = regexp.MustCompile(`^[0-9a-f]+$`)
	identRe = regexp.MustCompile(`^(|[^<>\n]* )<([^<>\n]*)> (0|[1-9][0-9]{0,18}) [-+][0-9]{4}$`)
)

// commit reads a commit; nil if its bytes are not the form of a commit.
func (m *model) commit(id string) *mcommit {
	if c, ok := m.commits[id]; ok {
		return c
	}
	c := m.parseCommit(id)
	m.commits[id] = c
	return c
}

// files returns the tree of a commit; none if its form is none of a commit, as
// it may be where nothing was protected.
func (m *model) files(id string) mtree {
	if c := m.commit(id); c != nil {
		return c.tree
	}
	return nil
}

func (m *model) parseCommit(id string) *mcommit {
	o := m.get(id)
	if o.typ != "commit" {
		return nil
	}
	c := &mcommit{id: id, raw: o.data}
	head, _, ok := strings.Cut(string(o.data), "\n\n")
	if !ok {
		if head, ok = strings.CutSuffix(string(o.data), "\n"); !ok {
			return nil
		}
	}
	if strings.Contains(head, "\x00") {
		return nil
	}
	lines := strings.Split(head, "\n")
	take := func(key string) (string, bool) {
		if len(lines) == 0 {
			return "", false
		}
		v, ok := strings.CutPrefix(lines[0], key+" ")
		if ok {
			lines = lines[1:]
		}
		return v, ok
	}
	tree, ok := take("tree")
	isID := func(s string) bool { return len(s) == 2*m.size && hexID.MatchString(s) }
	if !ok || !isID(tree) {
		return nil
	}
	for {
		p, ok := take("parent")
		if !ok {
			break
		}
		if !isID(p) {
			return nil
		}
		c.parents = append(c.parents, p)
	}
	for _, who := range []struct {
		key string
		p   *mperson
	}{{"author", &c.author}, {"committer", &c.committer}} {
		line, ok := take(who.key)
		f := identRe.FindStringSubmatch(line)
		if !ok || f == nil {
			return nil
		}
		when, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return nil
		}
		*who.p = mperson{strings.Trim(f[1], " "), f[2], when}
	}
	for i, line := range lines {
		if strings.HasPrefix(line, " ") {
			if i == 0 {
				return nil
			}
			continue
		}
		key, _, _ := strings.Cut(line, " ")
		if slices.Contains([]string{"", "tree", "parent", "author", "committer"}, key) {
			return nil
		}
	}
	if c.tree, ok = m.tree(tree); !ok {
		return nil
	}
	return c
}

// history returns the ids of all commits that can be reached from some.
func (m *model) history(from ...string) map[string]bool {
	seen := map[string]bool{}
	for todo := slices.Clone(from); len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[id] || id == "" {
			continue
		}
		seen[id] = true
		if c := m.commit(id); c != nil {
			todo = append(todo, c.parents...)
		}
	}
	return seen
}

// A policy as far as the model knows it. policies maps the texts that the
// generator writes to what they mean; any other text is no policy.
type mpolicy struct {
	protect     []string // nil: the branch HEAD points to
	otherDeny   bool
	allow       []string
	outsideDeny bool
	requireAll  bool
	emptyMerge  bool
	revoked     string
	// serverRevoked is the list that a server's own policy names by its path.
	serverRevoked string
	nonceRefs     bool
	maxFile       int
	maxFront      int
	maxCommits    int
	minRSA        int
	forgeKeys     []string // fingerprints
	signers       string
	root          string
	ignore        []string // directories
	types         []string // of relays
	pathKey       bool     // a path in attested_by is an error
	frozen        bool
	freeze        int64    // seconds
	lowered       []string // rules that are warnings, or off
	skew, clock   int64
	expungers     []string // who may take bodies out
	quorum        int
}

// A signers line.
type msigner struct {
	principals    []string
	git           bool
	any           bool // for every namespace
	after, before int64
	blob          string
}

// keyBlob reads the two words of a key.
func keyBlob(f []string) (string, bool) {
	if len(f) != 2 {
		return "", false
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(f[1])
	kind := binary.BigEndian.AppendUint32(nil, uint32(len(f[0])))
	return string(blob), err == nil && bytes.HasPrefix(blob, append(kind, f[0]...))
}

var optionRe = regexp.MustCompile(`^(?:(?:namespaces|valid-after|valid-before)="[^"]*",?)+$`)

func parseSigners(text string) ([]msigner, bool) {
	var out []msigner
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, " ")
		s := msigner{principals: strings.Split(f[0], ","), git: true, any: true, after: math.MinInt64, before: math.MaxInt64}
		f = f[1:]
		if len(f) > 0 && optionRe.MatchString(f[0]) {
			for _, o := range regexp.MustCompile(`[a-z-]+="[^"]*"`).FindAllString(f[0], -1) {
				key, val, _ := strings.Cut(strings.TrimSuffix(o, `"`), `="`)
				switch key {
				case "namespaces":
					s.any = false
					s.git = slices.Contains(strings.Split(val, ","), "git")
				default:
					at, err := time.Parse("20060102150405Z", val)
					if err != nil {
						return nil, false
					}
					if key == "valid-after" {
						s.after = at.Unix()
					} else {
						s.before = at.Unix()
					}
				}
			}
			f = f[1:]
		}
		blob, ok := keyBlob(f)
		if !ok {
			return nil, false
		}
		s.blob = blob
		out = append(out, s)
	}
	return out, len(out) > 0
}

// glob matches OpenSSH's patterns: * and ? alone.
func glob(pattern, s string) bool {
	re := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`(?s)^` + re + `$`).MatchString(s)
}

func (s msigner) speaks(who string) bool {
	yes := false
	for _, p := range s.principals {
		if neg, ok := strings.CutPrefix(p, "!"); ok {
			if glob(neg, who) {
				return false
			}
		} else if glob(p, who) {
			yes = true
		}
	}
	return yes
}

// A rules value is what a trusted commit says: its policy, its signers.
type mrules struct {
	p           mpolicy
	exists      bool // there is a signers file
	ok          bool // signers and revocation file can be read
	signers     []msigner
	revoked     map[string]bool
	policyBad   bool
	hasRigIDs   bool
	trustedPath []string
}

const (
	policyFile  = ".bridge/policy.yaml"
	otherFile   = "keys/signers"
	signersFile = ".bridge/allowed_signers"
	revokedFile = ".bridge/revoked"
)

func parseRevoked(text string) (map[string]bool, bool) {
	out := map[string]bool{}
	any := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		any = true
		if line == "" || line[0] == '#' {
			continue
		}
		blob, ok := keyBlob(strings.Split(line, " "))
		if !ok {
			return nil, false
		}
		out[blob] = true
	}
	return out, any
}

func regular(e mentry) bool { return e.mode == "100644" || e.mode == "100755" }

func (m *model) rulesOf(t mtree) mrules {
	r := mrules{p: policies[""]}
	if m.serverPolicy != "" {
		text, ok := m.text(m.serverPolicy)
		p, known := meaning(text)
		if !known {
			p, known = serverPolicies[text]
		}
		if !ok || !known {
			r.policyBad = true
			return r
		}
		r.p = p
	} else if e, ok := t[policyFile]; ok {
		p, known := meaning(string(m.get(e.id).data))
		if !known || !regular(e) {
			r.policyBad = true
			return r
		}
		r.p = p
	}
	// Lists of the server come besides that of the repository.
	own := []string{m.serverRevoked, r.p.serverRevoked}
	if e, ok := t[policyFile]; ok && regular(e) && r.p.revoked == "" && m.serverPolicy != "" && own[0]+own[1] != "" {
		if p, ok := meaning(string(m.get(e.id).data)); ok {
			r.p.revoked = p.revoked
		}
	}
	r.trustedPath = []string{policyFile, r.p.signers}
	if r.p.revoked != "" {
		r.trustedPath = append(r.trustedPath, r.p.revoked)
		if e, ok := t[r.p.revoked]; ok && !regular(e) {
			r.policyBad = true
			return r
		}
	}
	text := ""
	if m.serverSigners != "" {
		r.exists = true
		if text, r.ok = m.text(m.serverSigners); !r.ok {
			return r
		}
	} else {
		e, ok := t[r.p.signers]
		if !ok {
			return r
		}
		r.exists = true
		if !regular(e) {
			return r
		}
		text = string(m.get(e.id).data)
	}
	if r.signers, r.ok = parseSigners(text); !r.ok {
		return r
	}
	texts := map[string]bool{}
	if r.p.revoked != "" {
		e, ok := t[r.p.revoked]
		if r.ok = ok && regular(e); !r.ok {
			return r
		}
		texts[string(m.get(e.id).data)] = true
	}
	for _, file := range own {
		if file != "" {
			text, ok := m.text(file)
			if r.ok = ok; !ok {
				return r
			}
			texts[text] = true
		}
	}
	r.revoked = map[string]bool{}
	for text := range texts {
		more, known := parseRevoked(text)
		if r.ok = known; !known {
			return r
		}
		maps.Copy(r.revoked, more)
	}
	for _, s := range r.signers {
		for _, p := range s.principals {
			if rigID.MatchString(strings.TrimPrefix(p, "!")) && !strings.Contains(p, "!") {
				r.hasRigIDs = true
			}
		}
	}
	return r
}

// ownRevoked is the revocation file that the policy of a tree, or the server's,
// names.
func (m *model) ownRevoked(r mrules, t mtree) (string, bool) {
	p := r.p
	if m.serverPolicy == "" {
		e, ok := t[policyFile]
		if !ok || !regular(e) {
			return "", false
		}
		if p, ok = meaning(string(m.get(e.id).data)); !ok {
			return "", false
		}
	}
	return p.revoked, p.revoked != ""
}

// signature judges a commit's own signature. blob is the key of a signature
// that is sound whoever made it, else ""; good lists the signers lines that it
// satisfies.
func (m *model) signature(r mrules, c *mcommit, now int64) (blob string, good []msigner) {
	head, message, _ := strings.Cut(string(c.raw), "\n\n")
	lines := strings.Split(head, "\n")
	header := "gpgsig "
	if m.size == 32 {
		header = "gpgsig-sha256 "
	}
	at, count := -1, 0
	for i, line := range lines {
		if strings.HasPrefix(line, "gpgsig") {
			count++
			if strings.HasPrefix(line, header) {
				at = i
			}
		}
	}
	if count != 1 || at < 0 {
		return "", nil
	}
	sig := slices.Clone(lines[at:])
	sig[0] = " " + strings.TrimPrefix(sig[0], header)
	for i, line := range sig {
		if !strings.HasPrefix(line, " ") {
			return "", nil // something follows the signature
		}
		sig[i] = line[1:]
	}
	if len(sig) < 3 || sig[0] != "-----BEGIN SSH SIGNATURE-----" || sig[len(sig)-1] != "-----END SSH SIGNATURE-----" {
		return "", nil
	}
	body := sig[1 : len(sig)-1]
	for i, line := range body {
		if len(line) > 70 || i < len(body)-1 && len(line) != 70 || line == "" {
			return "", nil
		}
	}
	return r.sealed(strings.Join(body, ""), "git", strings.Join(lines[:at], "\n")+"\n\n"+message, c.committer.when, now,
		func(s msigner) bool { return s.git })
}

// sealed judges a signature over a payload in a namespace; fits tells of a signers
// line whether it is for that.
func (r mrules) sealed(text, namespace, payload string, when, now int64, fits func(msigner) bool) (blob string, good []msigner) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(b) != text || !bytes.HasPrefix(b, []byte("SSHSIG\x00\x00\x00\x01")) {
		return "", nil
	}
	f, rest := wire(b[10:], 5)
	if f == nil || len(rest) > 0 || f[1] != namespace || f[2] != "" {
		return "", nil
	}
	sum := hashed(f[3], payload)
	if sum == "" {
		return "", nil
	}
	signed := "SSHSIG" + words(namespace, "", f[3], sum)
	if r.revoked[f[0]] || !sound(f[0], f[4], signed, r.p.minRSA) {
		return "", nil
	}
	for _, s := range r.signers {
		if s.blob == f[0] && fits(s) && s.after <= when && when <= s.before && s.after <= now && now <= s.before {
			good = append(good, s)
		}
	}
	return f[0], good
}

// byForge reports whether a key that the policy names as a forge's made the
// commit: one that no signers line has, or that a line lets sign now.
func (r mrules) byForge(blob string, good []msigner) bool {
	if blob == "" || !slices.Contains(r.p.forgeKeys, fingerprint(blob)) {
		return false
	}
	return len(good) > 0 || !slices.ContainsFunc(r.signers, func(s msigner) bool { return s.blob == blob && s.git })
}

func fingerprint(blob string) string {
	sum := sha256.Sum256([]byte(blob))
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// wire reads n strings of the SSH wire format (RFC 4251 section 5), nil if
// there are fewer.
func wire(b []byte, n int) (f []string, rest []byte) {
	for range n {
		if len(b) < 4 || uint64(len(b)-4) < uint64(binary.BigEndian.Uint32(b)) {
			return nil, nil
		}
		end := 4 + binary.BigEndian.Uint32(b)
		f, b = append(f, string(b[4:end])), b[end:]
	}
	return f, b
}

// words writes strings of the SSH wire format.
func words(f ...string) string {
	var b []byte
	for _, s := range f {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return string(b)
}

func hashed(name, s string) string {
	switch name {
	case "sha256":
		sum := sha256.Sum256([]byte(s))
		return string(sum[:])
	case "sha512":
		sum := sha512.Sum512([]byte(s))
		return string(sum[:])
	}
	return ""
}

// sound reports whether a signature blob fits a key blob and what is signed.
func sound(key, sig, signed string, minRSA int) bool {
	k, krest := wire([]byte(key), 2)
	s, srest := wire([]byte(sig), 2)
	if k == nil || s == nil {
		return false
	}
	switch k[0] {
	case "ssh-ed25519":
		return s[0] == k[0] && len(krest)+len(srest) == 0 && len(k[1]) == 32 && len(s[1]) == 64 && ed25519.Verify([]byte(k[1]), []byte(signed), []byte(s[1]))
	case "sk-ssh-ed25519@openssh.com":
		app, rest := wire(krest, 1)
		if s[0] != k[0] || app == nil || len(rest) > 0 || len(k[1]) != 32 || len(s[1]) != 64 || len(srest) != 5 || srest[0]&1 == 0 {
			return false
		}
		return ed25519.Verify([]byte(k[1]), []byte(hashed("sha256", app[0])+string(srest)+hashed("sha256", signed)), []byte(s[1]))
	case "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521":
		point, rest := wire(krest, 1)
		rs, rest2 := wire([]byte(s[1]), 2)
		if s[0] != k[0] || point == nil || rs == nil || len(rest)+len(rest2)+len(srest) > 0 {
			return false
		}
		var sum []byte
		curve := elliptic.P256()
		switch k[1] {
		case "nistp256":
			sum = []byte(hashed("sha256", signed))
		case "nistp384":
			curve = elliptic.P384()
			x := sha512.Sum384([]byte(signed))
			sum = x[:]
		case "nistp521":
			curve = elliptic.P521()
			sum = []byte(hashed("sha512", signed))
		}
		pub, err := ecdsa.ParseUncompressedPublicKey(curve, []byte(point[0]))
		if err != nil {
			return false
		}
		number := func(s string) *big.Int { return new(big.Int).SetBytes([]byte(s)) }
		return ecdsa.Verify(pub, sum, number(rs[0]), number(rs[1]))
	case "ssh-rsa":
		n, rest := wire(krest, 1)
		if n == nil || len(rest)+len(srest) > 0 {
			return false
		}
		pub := &rsa.PublicKey{E: int(new(big.Int).SetBytes([]byte(k[1])).Int64()), N: new(big.Int).SetBytes([]byte(n[0]))}
		if pub.N.BitLen() < minRSA {
			return false
		}
		switch s[0] {
		case "rsa-sha2-256":
			return rsa.VerifyPKCS1v15(pub, crypto.SHA256, []byte(hashed("sha256", signed)), []byte(s[1])) == nil
		case "rsa-sha2-512":
			return rsa.VerifyPKCS1v15(pub, crypto.SHA512, []byte(hashed("sha512", signed)), []byte(s[1])) == nil
		}
	}
	return false
}

type envKey struct {
	id          string
	file, front int
	types       string
}

// An envelope as far as the model reads one: lines of "key: value".
type menv struct {
	fenced, parses bool
	rules          []string // broken by the content alone
	schema         bool     // satisfies the schema
	v              map[string]string
	fits           map[string]bool // keys whose values satisfy the schema
	hash           string
	hidden         bool    // holds what is not seen
	stone          *mstone // what its body says if it begins as a tombstone's
}

var (
	rigID    = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	threadID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*[a-z0-9]$`)
	numberRe = regexp.MustCompile(`^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)$`)
	dateRe   = regexp.MustCompile(`^(\d{4})-(\d{2})-(\d{2})(T(\d{2}):(\d{2}):(\d{2})(\.\d+)?(Z|[+-]\d{2}:?\d{2})?)?$`)
	hash64   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	nonceRe  = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{9}(-[0-9A-HJKMNP-TV-Z]{10}|[0-9A-HJKMNP-TV-Z]{16})$`)
	statusRe = regexp.MustCompile("^(▶|⏸|🎯|✅|❌)[ \u00a0].+$")
	keyRe    = regexp.MustCompile(`^([A-Za-z_]+):(?: (.*))?$`)
	types    = []string{"REQUEST", "HANDOFF", "RESPONSE", "ACK", "RESOLUTION", "STATE", "RESULT", "RECOVERY", "VERIFY", "DECISIONS"}
	fields   = []string{"from", "to", "date", "status", "type", "thread", "display_name", "tldr", "references", "body_hash", "in_reply_to", "attested_by", "attested_at", "nonce"}
	required = fields[:6]
)

// instant reads a date; ok is false if it is not real.
func instant(s string) (at int64, form, ok bool) {
	f := dateRe.FindStringSubmatch(s)
	if f == nil {
		return 0, false, false
	}
	n := func(i int) int { v, _ := strconv.Atoi(f[i]); return v }
	t := time.Date(n(1), time.Month(n(2)), n(3), n(5), n(6), n(7), 0, time.UTC)
	if n(1) < 1 || t.Year() != n(1) || int(t.Month()) != n(2) || t.Day() != n(3) || n(5) > 23 || n(6) > 59 || n(7) > 59 {
		return 0, true, false
	}
	at = t.Unix()
	if z := strings.ReplaceAll(f[9], ":", ""); z != "" && z != "Z" {
		h, _ := strconv.Atoi(z[1:3])
		min, _ := strconv.Atoi(z[3:])
		if h > 23 || min > 59 {
			return 0, true, false
		}
		off := int64(h*3600 + min*60)
		if z[0] == '+' {
			off = -off
		}
		at += off
	}
	return at, true, true
}

func bodyHash(body string) string {
	body = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(body)
	lines := strings.Split(body, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	body = strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
	body = strings.TrimLeft(body, "\ufeff")
	return fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
}

// envelope reads a blob; its own content alone is judged.
func (m *model) envelope(id string, p mpolicy) *menv {
	key := envKey{id, p.maxFile, p.maxFront, strings.Join(p.types, " ")}
	if e := m.envs[key]; e != nil {
		return e
	}
	data := string(m.get(id).data)
	e := &menv{v: map[string]string{}}
	m.envs[key] = e
	first, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(data, "\ufeff"), "\r", "\n"), "\n")
	e.fenced = first == "---"
	parse := func() bool {
		if len(data) > p.maxFile || !utf8.ValidString(data) || !e.fenced {
			return false
		}
		text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(data, "\ufeff"))
		head, body, ok := strings.Cut(text[4:], "\n---\n")
		if !ok {
			if head, ok = strings.CutSuffix(text[4:], "\n---"); !ok {
				return false
			}
		}
		front := len(head) // of the front matter text, which ends in LF
		if !strings.HasSuffix(head, "\n") {
			front++
		}
		if front > p.maxFront || strings.ContainsFunc(head, control) {
			return false
		}
		// Up to the closing fence's line end each CR has its LF.
		upTo := strings.Count(text[:4]+head+"\n---\n", "\n")
		for at, lines := 0, 0; lines < upTo && at < len(data); at++ {
			switch {
			case data[at] == '\n':
				lines++
			case data[at] == '\r' && (at+1 == len(data) || data[at+1] != '\n'):
				return false
			}
		}
		e.hash = bodyHash(body)
		kind := map[string]string{}
		list, twofold := "", false
		for _, line := range strings.Split(head, "\n") {
			if strings.HasPrefix(line, "#") {
				continue
			}
			scalar := func(v string) (text, kind string, ok bool) {
				v = strings.TrimRight(v, " \t")
				switch {
				case v == "":
					return "", "null", true
				case strings.HasPrefix(v, `"`):
					in, ok := strings.CutSuffix(v[1:], `"`)
					return in, "string", ok && len(v) > 1 && !strings.ContainsAny(in, `"\`)
				case v == "|":
					return "", "string", true // a block of no lines
				case strings.ContainsAny(v[:1], "&*!{}[],#|>@%'`\t") || strings.HasPrefix(v, "- ") || strings.Contains(v, ": ") || strings.HasSuffix(v, ":"):
					return "", "", false
				case numberRe.MatchString(v):
					return v, "number", true
				case v == "true" || v == "false":
					return v, "bool", true
				case v == "null" || v == "~":
					return "", "null", true
				}
				return v, "string", true
			}
			if item, ok := strings.CutPrefix(line, "  - "); ok && list != "" {
				v, k, ok := scalar(item)
				if !ok {
					return false
				}
				if k != "string" {
					k = "badlist"
				} else if kind[list] != "badlist" {
					k = "list"
				} else {
					k = "badlist"
				}
				kind[list] = k
				e.v[list] += v + "\n"
				continue
			}
			f := keyRe.FindStringSubmatch(line)
			if f == nil {
				return false
			}
			if _, twice := kind[f[1]]; twice {
				return false
			}
			v, k, ok := scalar(f[2])
			if !ok {
				return false
			}
			// As a date it is of another century for some readers.
			if f[2] != "" && k == "string" && v < "0100" && dateRe.MatchString(v) && !strings.HasPrefix(strings.TrimLeft(f[2], " "), `"`) {
				twofold = true
			}
			e.v[f[1]], kind[f[1]], list = v, k, ""
			if k == "null" {
				list = f[1]
			}
		}
		bad := func(k string) { e.rules = append(e.rules, "envelope-schema"); kind[k] = "bad" }
		for k := range kind {
			switch {
			case !slices.Contains(fields, k), kind[k] != "string" && kind[k] != "list", kind[k] == "list" && k != "to" && k != "references":
				bad(k)
			}
		}
		for _, k := range required {
			if _, ok := kind[k]; !ok {
				bad(k)
			}
		}
		str := func(k string, ok func(string) bool) {
			if kind[k] == "string" && !ok(e.v[k]) {
				bad(k)
			}
		}
		sender := kind["from"] == "string" && e.v["from"] != "" // an id or not
		str("from", rigID.MatchString)
		str("to", rigID.MatchString)
		if kind["to"] == "list" {
			for v := range strings.Lines(e.v["to"]) {
				if !rigID.MatchString(strings.TrimSuffix(v, "\n")) {
					bad("to")
				}
			}
		}
		str("references", func(string) bool { return false })
		str("status", statusRe.MatchString)
		str("type", func(s string) bool { return slices.Contains(types, s) })
		str("thread", threadID.MatchString)
		str("display_name", func(s string) bool { n := utf8.RuneCountInString(s); return n >= 1 && n <= 80 })
		str("tldr", func(s string) bool { return s != "" })
		str("body_hash", hash64.MatchString)
		str("in_reply_to", hash64.MatchString)
		str("attested_by", func(s string) bool { n := utf8.RuneCountInString(s); return n >= 1 && n <= 256 })
		str("nonce", func(s string) bool { n := utf8.RuneCountInString(s); return n >= 1 && n <= 64 })
		str("date", dateRe.MatchString)
		str("attested_at", func(s string) bool { return dateRe.MatchString(s) && strings.Contains(s, "T") })
		if e.schema = !slices.Contains(e.rules, "envelope-schema"); twofold {
			e.rules = append(e.rules, "envelope-schema") // although the schema is satisfied
		}
		e.fits = map[string]bool{}
		for k := range kind {
			e.fits[k] = kind[k] != "bad"
		}
		for _, k := range []string{"date", "attested_at"} {
			if kind[k] == "string" {
				if _, form, ok := instant(e.v[k]); form && !ok {
					e.rules = append(e.rules, "envelope-date")
				}
			}
		}
		if e.stone = readStone(body); e.stone != nil && e.stone.whole && e.fits["body_hash"] {
			e.hash = e.v["body_hash"]
		}
		if kind["body_hash"] == "string" && e.v["body_hash"] != e.hash {
			e.rules = append(e.rules, "body-hash")
		}
		if e.relay() {
			if e.suffix() != e.attested() {
				if sender {
					e.rules = append(e.rules, "relay-suffix")
				}
			}
			if e.attested() {
				for _, k := range []string{"attested_by", "attested_at", "nonce", "in_reply_to", "body_hash"} {
					if _, ok := kind[k]; !ok {
						e.rules = append(e.rules, "relay-fields")
					}
				}
				if kind["type"] == "string" && !slices.Contains(p.types, e.v["type"]) {
					e.rules = append(e.rules, "relay-fields")
				}
				if kind["nonce"] == "string" && !nonceRe.MatchString(e.v["nonce"]) {
					e.rules = append(e.rules, "relay-nonce")
				}
			}
		}
		return true
	}
	e.hidden = len(data) <= p.maxFile && hides(strings.TrimPrefix(data, "\ufeff"))
	if e.parses = parse(); !e.parses {
		e.rules, e.hash = []string{"envelope-parse"}, ""
	}
	return e
}

// lawfulJoiner stands in texts of the generator where it belongs.
const lawfulJoiner = "می\u200cخواهم"

// hides reports whether a text has one of the characters that the generator writes
// and nobody sees.
func hides(text string) bool {
	return strings.ContainsAny(strings.ReplaceAll(text, lawfulJoiner, ""), "\x00\u200b\u200c\u200d\u202e\ufeff\U000e0041")
}

// control reports whether a character may not stand in front matter.
func control(r rune) bool {
	return r < 0x20 && r != '\t' && r != '\n' || r >= 0x7f && r < 0xa0 || strings.ContainsRune("\u2028\u2029\ufeff\ufffe\uffff", r)
}

func (e *menv) suffix() bool { return strings.HasSuffix(e.v["from"], "-relay") }

func (e *menv) attested() bool {
	for _, k := range []string{"attested_by", "attested_at", "nonce"} {
		if _, ok := e.v[k]; ok {
			return true
		}
	}
	return false
}

func (e *menv) relay() bool { return e.suffix() || e.attested() }

// thread returns the directory of an envelope path, "" for any other path.
func (p mpolicy) thread(q string) string {
	if p.root != "" {
		rest, ok := strings.CutPrefix(q, p.root+"/")
		if !ok || p.ignored(q) {
			return ""
		}
		return threadOf(rest)
	}
	if p.ignored(q) {
		return ""
	}
	return threadOf(q)
}

// threadOf is that for a path below the root.
func threadOf(p string) string {
	dir, name, ok := strings.Cut(p, "/")
	if !ok || strings.Contains(name, "/") || !strings.HasSuffix(name, ".md") || !threadID.MatchString(dir) || dir == "dist" || dir == "node_modules" {
		return ""
	}
	return dir
}

// fold is one text for the paths that some file system takes for one.
func fold(p string) string {
	var out []string
	for c := range strings.SplitSeq(strings.ReplaceAll(p, `\`, "/"), "/") {
		c, _, _ = strings.Cut(c, ":")
		c = unseen.ReplaceAllString(c, "")
		if c = strings.TrimRight(norm.NFKC.String(cases.Fold().String(norm.NFKC.String(c))), ". "); c != "" {
			out = append(out, c)
		}
	}
	return strings.Join(out, "/")
}

var (
	unseen  = regexp.MustCompile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
	shorted = regexp.MustCompile(`^([^~.]{1,6})~[0-9]+(\.[^.]{1,3})?$`)
)

// alias reports whether some file system takes one name for another: the names
// that the generator makes, and no more.
func alias(a, b string) bool {
	if fold(a) == fold(b) {
		return true
	}
	m := shorted.FindStringSubmatch(fold(a))
	if m == nil || len(b) < 9 && strings.IndexByte(b, '.') < 0 { // which needs no short name
		return false
	}
	long := strings.NewReplacer("-", "", ".", "").Replace(fold(b))
	return m[2] == "" && strings.HasPrefix(long, strings.ReplaceAll(m[1], "-", ""))
}

func (p mpolicy) under() string {
	if p.root == "" {
		return ""
	}
	return p.root + "/"
}

var deviceRe = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

func portable(name string) bool {
	if !utf8.ValidString(name) || !norm.NFC.IsNormalString(name) || strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || len(name) > 255 || deviceRe.MatchString(name) {
		return false
	}
	for _, r := range name {
		if strings.ContainsRune("<>:\"/\\|?*\u061c\u200e\u200f\u2028\u2029", r) || r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return false
		}
	}
	return true
}

type mupdate struct{ old, new, ref string }

func matchRef(pattern, ref string) bool {
	if !strings.HasPrefix(pattern, "refs/") {
		pattern = "refs/heads/" + pattern
	}
	re := strings.NewReplacer(`\*\*`, ".*", `\*`, "[^/]*").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`(?s)^` + re + `$`).MatchString(ref)
}

func anyRef(patterns []string, ref string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matchRef(p, ref) })
}

// ignored reports whether the policy says that nothing there is an envelope.
func (p mpolicy) ignored(q string) bool {
	return slices.ContainsFunc(p.ignore, func(dir string) bool { return strings.HasPrefix(q, dir+"/") })
}
