package attack

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os/exec"
	"path"
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

// A model reads one repository through git cat-file and git for-each-ref.
type model struct {
	env  []string
	dir  string
	in   io.WriteCloser
	out  *bufio.Reader
	cmd  *exec.Cmd
	objs map[string]mobj
	head string // the branch that HEAD names

	trees   map[string]mtree
	commits map[string]*mcommit
	envs    map[string]*menv
}

type mobj struct {
	typ  string
	data []byte
}

func newModel(dir string, env []string) (*model, error) {
	m := &model{env: env, dir: dir, objs: map[string]mobj{}, trees: map[string]mtree{}, commits: map[string]*mcommit{}, envs: map[string]*menv{}}
	m.cmd = exec.Command("git", "cat-file", "--batch")
	m.cmd.Dir, m.cmd.Env = dir, append([]string{"GIT_DIR=.", "GIT_NO_REPLACE_OBJECTS=1"}, env...)
	var err error
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.out = bufio.NewReader(out)
	m.head = strings.TrimSpace(m.git("symbolic-ref", "HEAD"))
	return m, m.cmd.Start()
}

func (m *model) git(args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = m.dir, append([]string{"GIT_DIR=."}, m.env...)
	out, err := cmd.Output()
	if err != nil {
		panic(err)
	}
	return string(out)
}

func (m *model) close() {
	m.in.Close()
	_ = m.cmd.Wait()
}

func (m *model) get(id string) mobj {
	if o, ok := m.objs[id]; ok {
		return o
	}
	fmt.Fprintln(m.in, id)
	line, err := m.out.ReadString('\n')
	if err != nil {
		panic(err)
	}
	f := strings.Fields(line)
	if len(f) != 3 {
		return mobj{typ: "missing"}
	}
	n, _ := strconv.Atoi(f[2])
	data := make([]byte, n+1)
	if _, err := io.ReadFull(m.out, data); err != nil {
		panic(err)
	}
	o := mobj{f[1], data[:n]}
	m.objs[id] = o
	return o
}

type mref struct{ id, target string }

func (m *model) refs() map[string]mref {
	refs := map[string]mref{}
	for line := range strings.Lines(m.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)")) {
		f := strings.Fields(line)
		r := mref{id: f[1]}
		if len(f) > 2 {
			r.target = f[2]
		}
		refs[f[0]] = r
	}
	return refs
}

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
		if !ok || !ok2 || len(tail) < 20 || name == "" || strings.Contains(name, "/") || seen[name] {
			return false
		}
		child := hex.EncodeToString(tail[:20])
		rest = tail[20:]
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
	hexID   = regexp.MustCompile(`^[0-9a-f]{40}$`)
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
	if !ok || !hexID.MatchString(tree) {
		return nil
	}
	for {
		p, ok := take("parent")
		if !ok {
			break
		}
		if !hexID.MatchString(p) {
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
	nonceRefs   bool
	maxFile     int
	lowered     []string // rules that are warnings, or off
	skew, clock int64
}

// A signers line.
type msigner struct {
	principals    []string
	git           bool
	after, before int64
	blob          string
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
		s := msigner{principals: strings.Split(f[0], ","), git: true, after: -1 << 60, before: 1 << 60}
		f = f[1:]
		if len(f) > 0 && optionRe.MatchString(f[0]) {
			for _, o := range regexp.MustCompile(`[a-z-]+="[^"]*"`).FindAllString(f[0], -1) {
				key, val, _ := strings.Cut(strings.TrimSuffix(o, `"`), `="`)
				switch key {
				case "namespaces":
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
		if len(f) != 2 || f[0] != "ssh-ed25519" {
			return nil, false
		}
		blob, err := base64.StdEncoding.Strict().DecodeString(f[1])
		if err != nil || len(blob) != 51 {
			return nil, false
		}
		s.blob = string(blob)
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
		f := strings.Split(line, " ")
		if len(f) != 2 || f[0] != "ssh-ed25519" {
			return nil, false
		}
		blob, err := base64.StdEncoding.Strict().DecodeString(f[1])
		if err != nil || len(blob) != 51 {
			return nil, false
		}
		out[string(blob)] = true
	}
	return out, any
}

func regular(e mentry) bool { return e.mode == "100644" || e.mode == "100755" }

func (m *model) rulesOf(t mtree) mrules {
	r := mrules{p: policies[""]}
	if e, ok := t[policyFile]; ok {
		p, known := policies[string(m.get(e.id).data)]
		if !known || !regular(e) {
			r.policyBad = true
			return r
		}
		r.p = p
	}
	r.trustedPath = []string{policyFile, signersFile}
	if r.p.revoked != "" {
		r.trustedPath = append(r.trustedPath, r.p.revoked)
	}
	e, ok := t[signersFile]
	if !ok {
		return r
	}
	r.exists = true
	if !regular(e) {
		return r
	}
	if r.signers, r.ok = parseSigners(string(m.get(e.id).data)); !r.ok {
		return r
	}
	if r.p.revoked != "" {
		e, ok := t[r.p.revoked]
		if !ok {
			r.ok = false
			return r
		}
		if !regular(e) {
			r.policyBad = true
			return r
		}
		r.revoked, r.ok = parseRevoked(string(m.get(e.id).data))
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

// signature judges a commit's own signature. good lists the signers lines that
// it satisfies.
func (r mrules) signature(c *mcommit, now int64) (blob string, good []msigner) {
	head, message, _ := strings.Cut(string(c.raw), "\n\n")
	lines := strings.Split(head, "\n")
	at, count := -1, 0
	for i, line := range lines {
		if strings.HasPrefix(line, "gpgsig") {
			count++
			if strings.HasPrefix(line, "gpgsig ") {
				at = i
			}
		}
	}
	if count != 1 || at < 0 {
		return "", nil
	}
	sig := slices.Clone(lines[at:])
	sig[0] = strings.TrimPrefix(sig[0], "gpgsig")
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
	text := strings.Join(body, "")
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(b) != text {
		return "", nil
	}
	field := func() string {
		if len(b) < 4 || int(binary.BigEndian.Uint32(b)) > len(b)-4 {
			b = nil
			return "\xff"
		}
		n := binary.BigEndian.Uint32(b)
		v := string(b[4 : 4+n])
		b = b[4+n:]
		return v
	}
	if !bytes.HasPrefix(b, []byte("SSHSIG\x00\x00\x00\x01")) {
		return "", nil
	}
	b = b[10:]
	blob = field()
	namespace, reserved, hash, inner := field(), field(), field(), field()
	prefix := "\x00\x00\x00\x0bssh-ed25519"
	if namespace != "git" || reserved != "" || len(b) != 0 || len(blob) != 51 || !strings.HasPrefix(blob, prefix+"\x00\x00\x00\x20") ||
		len(inner) != 83 || !strings.HasPrefix(inner, prefix+"\x00\x00\x00\x40") {
		return "", nil
	}
	payload := strings.Join(lines[:at], "\n") + "\n\n" + message
	var sum []byte
	switch hash {
	case "sha256":
		s := sha256.Sum256([]byte(payload))
		sum = s[:]
	case "sha512":
		s := sha512.Sum512([]byte(payload))
		sum = s[:]
	default:
		return "", nil
	}
	signed := []byte("SSHSIG")
	for _, s := range []string{"git", "", hash, string(sum)} {
		signed = binary.BigEndian.AppendUint32(signed, uint32(len(s)))
		signed = append(signed, s...)
	}
	if r.revoked[blob] || !ed25519.Verify([]byte(blob[19:]), signed, []byte(inner[19:])) {
		return blob, nil
	}
	for _, s := range r.signers {
		when := c.committer.when
		if s.blob == blob && s.git && s.after <= when && when <= s.before && s.after <= now && now <= s.before {
			good = append(good, s)
		}
	}
	return blob, good
}

// An envelope as far as the model reads one: lines of "key: value".
type menv struct {
	fenced, parses bool
	rules          []string // broken by the content alone
	schema         bool     // satisfies the schema
	v              map[string]string
	fits           map[string]bool // keys whose values satisfy the schema
	hash           string
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
	key := fmt.Sprint(id, p.maxFile)
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
		e.hash = bodyHash(body)
		kind := map[string]string{}
		list := ""
		for _, line := range strings.Split(head, "\n") {
			scalar := func(v string) (text, kind string, ok bool) {
				switch {
				case v == "":
					return "", "null", true
				case strings.HasPrefix(v, `"`):
					in, ok := strings.CutSuffix(v[1:], `"`)
					return in, "string", ok && len(v) > 1 && !strings.ContainsAny(in, `"\`)
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
		e.schema = !slices.Contains(e.rules, "envelope-schema")
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
				if kind["type"] == "string" && !slices.Contains([]string{"DECISIONS", "RESPONSE", "ACK"}, e.v["type"]) {
					e.rules = append(e.rules, "relay-fields")
				}
				if kind["nonce"] == "string" && !nonceRe.MatchString(e.v["nonce"]) {
					e.rules = append(e.rules, "relay-nonce")
				}
			}
		}
		return true
	}
	if e.parses = parse(); !e.parses {
		e.rules, e.hash = []string{"envelope-parse"}, ""
	}
	return e
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
func threadOf(p string) string {
	dir, name, ok := strings.Cut(p, "/")
	if !ok || strings.Contains(name, "/") || !strings.HasSuffix(name, ".md") || !threadID.MatchString(dir) || dir == "dist" || dir == "node_modules" {
		return ""
	}
	return dir
}

func fold(p string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(p))) }

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

// isThread tells whether a tree has an envelope in a thread directory.
func (m *model) isThread(t mtree, dir string, p mpolicy) bool {
	for q, e := range t {
		if threadOf(q) == dir && regular(e) && m.envelope(e.id, p).fenced {
			return true
		}
	}
	return false
}

type mupdate struct{ old, new, ref string }

const zero = "0000000000000000000000000000000000000000"

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

// judge says what a server must say of a push at a time.
func (m *model) judge(updates []mupdate, now int64) *verdict {
	v := &verdict{rules: map[string]bool{}}
	refs, head := m.refs(), m.head
	headID := refs[head].id
	var top mrules
	if headID == "" {
		top = m.rulesOf(nil)
	} else {
		c := m.commit(headID)
		top = m.rulesOf(c.tree)
	}
	if top.policyBad {
		v.cannot("the policy of HEAD is none")
		return v
	}
	protected := func(ref string) bool {
		switch {
		case top.p.protect != nil:
			return anyRef(top.p.protect, ref)
		case headID == "":
			return strings.HasPrefix(ref, "refs/heads/")
		}
		return ref == head
	}
	peel := func(id string) string {
		for range 20 {
			o := m.get(id)
			switch o.typ {
			case "commit":
				return id
			case "tag":
				id = strings.TrimPrefix(strings.SplitN(string(o.data), "\n", 2)[0], "object ")
			default:
				return ""
			}
		}
		return ""
	}
	var tips []string
	for name, r := range refs {
		if protected(name) && r.target == "" {
			if id := peel(r.id); id != "" {
				tips = append(tips, id)
			}
		}
	}
	var came []string
	for _, u := range updates {
		if t := refs[u.ref].target; t != "" {
			u.ref = t
		}
		if !protected(u.ref) {
			if !anyRef(top.p.allow, u.ref) && (top.p.otherDeny || anyRef([]string{"refs/replace/**", "refs/notes/**"}, u.ref)) {
				v.add("other-refs")
			}
			continue
		}
		if u.new == zero {
			v.add("fast-forward")
			continue
		}
		tip, rules, base := peel(u.new), top, headID
		if tip == "" {
			v.cannot("no commit")
			continue
		}
		var before map[string]bool
		first := false
		if u.old == zero {
			before = m.history(tips...)
			if first = len(tips) == 0; first {
				v.cannot("the first push")
			}
		} else {
			base = peel(u.old)
			before = m.history(base)
			rules = m.rulesOf(m.commit(base).tree)
			if rules.policyBad {
				v.cannot("the policy of the old tip is none")
				continue
			}
		}
		others := map[string]bool{}
		if rules.p.nonceRefs {
			others = m.history(append(slices.Clone(tips), came...)...)
		}
		m.judgeRange(v, tip, u.old != zero, base, before, others, rules, now, first)
		came = append(came, tip)
	}
	for _, r := range top.p.lowered {
		delete(v.rules, r)
	}
	return v
}

func (m *model) judgeRange(v *verdict, tip string, update bool, base string, before, others map[string]bool, r mrules, now int64, first bool) {
	all := m.history(tip)
	var news []string
	for id := range all {
		if !before[id] {
			news = append(news, id)
		}
	}
	for _, id := range news {
		if m.commit(id) == nil {
			v.add("commit-signed")
			v.odd = true
			return
		}
	}
	if update && !all[base] {
		v.add("fast-forward")
	}
	found := map[string]bool{}
	add := func(rule string) {
		if !slices.Contains(r.p.lowered, rule) {
			found[rule] = true
		}
	}
	roots := 0
	// The trees in which a directory may already be a thread: just outside the
	// range, and anywhere in it.
	var around []mtree
	for _, id := range news {
		c := m.commit(id)
		around = append(around, c.tree)
		if len(c.parents) == 0 {
			roots++
		}
		for _, p := range c.parents {
			around = append(around, m.commit(p).tree)
		}
	}
	if roots > 0 && !(first && roots == 1) {
		add("fast-forward")
	}
	isThread := func(dir string) bool {
		return slices.ContainsFunc(around, func(t mtree) bool { return m.isThread(t, dir, r.p) })
	}
	type use struct{ path, blob string }
	nonces := map[string]map[use]bool{} // of the whole history of the new tip
	fresh := map[string]map[use]bool{}  // relays of the range
	for _, ids := range []map[string]bool{all, others} {
		for id := range ids {
			for p, e := range m.commit(id).tree {
				if threadOf(p) == "" || !regular(e) {
					continue
				}
				if env := m.envelope(e.id, r.p); env.parses && env.v["nonce"] != "" {
					if nonces[env.v["nonce"]] == nil {
						nonces[env.v["nonce"]] = map[use]bool{}
					}
					nonces[env.v["nonce"]][use{p, e.id}] = true
				}
			}
		}
	}
	for _, id := range news {
		c := m.commit(id)
		var parents []*mcommit
		for _, p := range c.parents {
			parents = append(parents, m.commit(p))
		}
		changedFrom := func(t mtree) (paths []string) {
			for p, e := range c.tree {
				if t[p] != e {
					paths = append(paths, p)
				}
			}
			for p := range t {
				if _, ok := c.tree[p]; !ok {
					paths = append(paths, p)
				}
			}
			return paths
		}
		// What differs from every parent is the commit's own work.
		var own []string
		if len(parents) == 0 {
			own = changedFrom(nil)
		} else {
			for _, p := range changedFrom(parents[0].tree) {
				if !slices.ContainsFunc(parents, func(q *mcommit) bool { return q.tree[p] == c.tree[p] }) {
					own = append(own, p)
				}
			}
		}
		// Clock.
		if c.committer.when > now+r.p.skew || c.committer.when > 253402300799 {
			add("commit-clock")
		}
		for _, p := range parents {
			if c.committer.when < p.committer.when-r.p.skew {
				add("commit-clock")
			}
		}
		// Append-only, against each parent.
		for _, p := range parents {
			for q, e := range p.tree {
				if t := threadOf(q); t != "" && c.tree[q] != e && m.isThread(p.tree, t, r.p) {
					add("append-only")
				}
			}
		}
		// Content.
		type relay struct {
			path string
			env  *menv
		}
		var relays []relay // introduced here
		relayCount := 0
		var introduced []relay
		for _, q := range own {
			e, ok := c.tree[q]
			t := threadOf(q)
			if !ok {
				if r.p.outsideDeny && t == "" && !ignored(q) {
					add("outside-thread")
				}
				continue
			}
			env := &menv{v: map[string]string{}}
			if t != "" && e.mode != "160000" && e.mode != "120000" {
				env = m.envelope(e.id, r.p)
			}
			judged := t != "" && (env.fenced || isThread(t))
			if r.p.outsideDeny && !judged && !ignored(q) {
				add("outside-thread")
			}
			for other := range c.tree {
				if other != q && fold(other) == fold(q) && (judged || threadOf(other) != "") {
					add("envelope-path")
				}
			}
			if !judged {
				continue
			}
			if regular(e) && !env.parses {
				add("envelope-parse") // and nothing else is told of the file
				continue
			}
			if e.mode != "100644" || !portable(path.Base(q)) || len(t) > 255 {
				add("envelope-path")
			}
			if !regular(e) {
				continue
			}
			for _, rule := range env.rules {
				add(rule)
			}
			if th, ok := env.v["thread"]; ok && threadID.MatchString(th) && (th != t || !portable(th) || th == "dist" || th == "node_modules") {
				add("envelope-path")
			}
			was := false // a parent has an envelope there
			for _, p := range parents {
				if o, ok := p.tree[q]; ok && regular(o) && m.envelope(o.id, r.p).fenced {
					was = true
				}
			}
			if was {
				continue
			}
			introduced = append(introduced, relay{q, env})
			if env.relay() {
				relayCount++
				if env.schema || slices.Contains(r.p.lowered, "envelope-schema") {
					relays = append(relays, relay{q, env})
				}
			}
		}
		// Who is trusted may be changed by those who are.
		change := false
		counts := func(i int) bool { return true }
		if len(parents) > 1 {
			good := func(i int) bool { return base == "" || m.history(c.parents[i])[base] }
			any := false
			for i := range parents {
				any = any || good(i)
			}
			if any {
				counts = good
			}
		}
		if len(parents) == 0 {
			for _, q := range r.trustedPath {
				if _, ok := c.tree[q]; ok {
					change = true
				}
			}
		}
		for i, p := range parents {
			for _, q := range r.trustedPath {
				if counts(i) && p.tree[q] != c.tree[q] {
					change = true
				}
			}
		}
		for _, q := range r.trustedPath {
			e, ok := c.tree[q]
			if !ok || !slices.Contains(own, q) {
				continue
			}
			text := string(m.get(e.id).data)
			fine := regular(e)
			switch q {
			case policyFile:
				_, known := policies[text]
				fine = fine && known && text != ""
			case signersFile:
				_, known := parseSigners(text)
				fine = fine && known
			default:
				_, known := parseRevoked(text)
				fine = fine && known
			}
			if !fine {
				add("signers-change")
			}
		}
		if change && !r.exists {
			add("signers-change")
			change = false
		}
		var blob string
		var good []msigner
		must := change || r.p.requireAll || relayCount > 0
		if must && !r.ok {
			v.cannot("no signers")
			must = false
		}
		if must && r.p.emptyMerge && len(parents) > 1 && len(own) == 0 && relayCount == 0 && !change {
			must = false
		}
		speaks := func(who string) bool {
			return slices.ContainsFunc(good, func(s msigner) bool { return s.speaks(who) })
		}
		if must {
			blob, good = r.signature(c, now)
			if len(good) == 0 {
				add("commit-signed")
				if change {
					add("signers-change")
				}
			} else {
				if !speaks(c.committer.email) {
					add("signer-identity")
				}
				if relayCount == 0 && c.author.email != c.committer.email {
					add("signer-identity")
				}
				if r.hasRigIDs {
					for _, e := range introduced {
						if (r.p.requireAll || e.env.relay()) && e.env.schema && !speaks(e.env.v["from"]) {
							add("sender-key")
						}
					}
				}
			}
		}
		// Relays.
		n := 0
		if len(parents) > 0 {
			n = len(changedFrom(parents[0].tree))
		} else {
			n = len(own)
		}
		for _, e := range relays {
			if len(parents) > 1 || n > 1 {
				add("relay-commit")
			}
			if len(good) > 0 {
				host := strings.ToLower(c.author.email[strings.LastIndex(c.author.email, "@")+1:])
				name := strings.ToLower(c.author.name)
				if c.author.name != c.committer.name || c.author.email != c.committer.email || !speaks(c.author.email) ||
					!strings.Contains(c.author.email, "@") || host == "localhost" || strings.HasSuffix(host, ".local") || host == "(none)" ||
					name == "rig-bridge" || name == "rigward" || strings.HasSuffix(name, "[bot]") {
					add("relay-author")
				}
				if by := e.env.v["attested_by"]; e.env.fits["attested_by"] {
					print := sha256.Sum256([]byte(blob))
					names := "SHA256:" + base64.RawStdEncoding.EncodeToString(print[:])
					literal := "ssh-ed25519 " + base64.StdEncoding.EncodeToString([]byte(blob))
					by = strings.TrimPrefix(by, "key::")
					isPath := by[0] == '/' || by[0] == '~' || strings.HasSuffix(by, ".pub")
					if strings.TrimSuffix(by, "=") != names && by != literal && !strings.HasPrefix(by, literal+" ") && !isPath {
						add("relay-key")
					}
				}
			}
			if at, _, ok := instant(e.env.v["attested_at"]); ok && e.env.fits["attested_at"] {
				if d := at - c.committer.when; d > r.p.clock || d < -r.p.clock {
					add("relay-clock")
				}
			}
			if want := e.env.v["in_reply_to"]; e.env.fits["in_reply_to"] && !m.answered(c, threadOf(e.path), want, r.p) {
				add("relay-reply")
			}
			if n := e.env.v["nonce"]; e.env.fits["nonce"] && nonceRe.MatchString(n) {
				if fresh[n] == nil {
					fresh[n] = map[use]bool{}
				}
				fresh[n][use{e.path, c.tree[e.path].id}] = true
			}
		}
	}
	for n, uses := range fresh {
		for u := range uses {
			for o := range nonces[n] {
				if o != u {
					add("relay-nonce")
				}
			}
		}
	}
	for rule := range found {
		v.add(rule)
	}
}

// answered tells whether some commit in the history below c holds an envelope
// of the thread with that body hash.
func (m *model) answered(c *mcommit, thread, hash string, p mpolicy) bool {
	for id := range m.history(c.parents...) {
		for q, e := range m.commit(id).tree {
			if threadOf(q) == thread && regular(e) {
				if env := m.envelope(e.id, p); env.parses && env.hash == hash {
					return true
				}
			}
		}
	}
	return false
}

func ignored(p string) bool {
	return strings.HasPrefix(p, ".github/") || strings.HasPrefix(p, ".bridge/")
}
