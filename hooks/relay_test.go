package hooks_test

import (
	"cmp"
	"crypto/elliptic"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/relay"
)

// A scene is a server with both server hooks and a history that holds
// requests in two threads and one accepted relay, and a repository in which
// attacks on it are made object by object.
type scene struct {
	*testing.T
	server, repo *gittest.Repo
	base         string    // commit of main at the server
	now          time.Time // when the scene was made
	serial       int       // of what was made
	nonce0       string    // of the accepted relay
	relay0       string    // its path
	relay0Text   string
	held         map[string]map[string]gittest.File // of commits, by their ids
	parents      map[string][]string                // likewise
	audits       map[string]gittest.Result          // of the whole history, by what they were of
}

var (
	keyA    = testkeys.Ed25519("relay op")
	keyB    = testkeys.Ed25519("relay bob")
	keyW    = testkeys.Ed25519("relay wild")
	keyN    = testkeys.Ed25519("relay negated")
	keyOld  = testkeys.Ed25519("relay expired")
	keyR    = testkeys.Ed25519("relay revoked")
	keyFile = testkeys.Ed25519("relay file")
	keyBoth = testkeys.Ed25519("relay git and file")
	keyEC   = testkeys.ECDSA("relay", elliptic.P256())
	keyRSA  = testkeys.RSA(3072)
	keySK   = testkeys.SKEd25519("relay")
	keyCA   = testkeys.Ed25519("relay authority")
	nobody  = testkeys.Ed25519("relay nobody")
)

const (
	asked   = "Is the release ready?\n"
	foreign = "Who is on call?\n"
)

func sceneSigners(now time.Time) string {
	day := func(d time.Duration) string { return now.Add(d).UTC().Format("20060102150405") + "Z" }
	return keyA.Line("op@example.com,op-relay", "") +
		keyB.Line("bob@example.com,bob-relay", "") +
		keyW.Line("*@wild.example,op-relay", "") +
		keyN.Line("!op@neg.example,*@neg.example,op-relay", "") +
		keyOld.Line("op@example.com,op-relay", `valid-before="`+day(-time.Hour)+`"`) +
		keyR.Line("op@example.com,op-relay", "") +
		keyFile.Line("op@example.com,op-relay", `namespaces="file"`) +
		keyBoth.Line("op@example.com,op-relay", `namespaces="git,file"`) +
		keyEC.Line("op@example.com,op-relay", "") +
		keyRSA.Line("op@example.com,op-relay", "") +
		keySK.Line("op@example.com,op-relay", "") +
		keyCA.Line("op@example.com,op-relay", "cert-authority")
}

// sceneModel is made once; every scene is a copy of it.
var sceneModel *scene

func newScene(t *testing.T) *scene {
	t.Helper()
	models.Lock()
	defer models.Unlock()
	if sceneModel == nil {
		dir, err := os.MkdirTemp(filepath.Dir(program), "scene-")
		if err != nil {
			t.Fatal(err)
		}
		home := filepath.Join(dir, "home")
		m := &scene{T: t, now: time.Now().Truncate(time.Second), held: map[string]map[string]gittest.File{}, parents: map[string][]string{}}
		for _, r := range []struct {
			to   **gittest.Repo
			name string
			bare []string
		}{{&m.server, "server.git", []string{"--bare"}}, {&m.repo, "repo", nil}} {
			*r.to = &gittest.Repo{T: t, Dir: filepath.Join(dir, r.name), Home: home, Env: gittest.Environ(home), Now: m.now.Unix()}
			os.MkdirAll((*r.to).Dir, 0o755)
			(*r.to).Run(append([]string{"init", "-q", "-b", "main", "--template="}, r.bare...)...)
		}
		if _, err := hooks.Install(filepath.Join(m.server.Dir, "hooks"), program, hooks.ServerHooks); err != nil {
			t.Fatal(err)
		}
		m.server.Config("rigward.bootstrap", "true")
		m.server.Config("rigward.timeout", "5m") // a busy machine is not a finding
		at := m.now.Add(-3 * time.Minute)
		first := m.commit(opts{at: at, files: map[string]string{
			".bridge/allowed_signers": sceneSigners(m.now),
			".bridge/revoked":         keyR.Authorized() + "\n",
			".bridge/policy.yaml":     "version: 1\nrevoked: .bridge/revoked\n",
			"t-one/REQUEST.md":        m.plain("t-one", "rig-a", "REQUEST", asked),
			"other/REQUEST.md":        m.plain("other", "rig-a", "REQUEST", foreign),
		}})
		f := m.decision(at.Add(time.Second))
		m.nonce0, m.relay0 = f.Nonce, "t-one/RELAY-"+f.Nonce+".md"
		m.relay0Text = m.render(f)
		m.base = m.commit(opts{parents: []string{first}, at: at.Add(time.Second), key: keyA, files: map[string]string{m.relay0: m.relay0Text}})
		// Signers first: they count from the next push on.
		for _, tip := range []string{first, m.base} {
			if res := m.repo.Push(m.server.Dir, tip+":refs/heads/main"); res.Code != 0 {
				t.Fatalf("the scene's own history was refused:\n%s", res.Stderr)
			}
		}
		m.server.Run("config", "--unset", "rigward.bootstrap")
		sceneModel = m
	}
	m := *sceneModel
	m.T, m.held, m.parents = t, maps.Clone(sceneModel.held), maps.Clone(sceneModel.parents)
	m.audits = map[string]gittest.Result{}
	dir, home := gittest.TempDir(t), gittest.TempDir(t)
	for _, r := range []struct {
		to *(*gittest.Repo)
	}{{&m.server}, {&m.repo}} {
		c := &gittest.Repo{T: t, Dir: filepath.Join(dir, filepath.Base((*r.to).Dir)), Home: home, Env: gittest.Environ(home), Now: m.now.Unix()}
		if err := os.CopyFS(c.Dir, os.DirFS((*r.to).Dir)); err != nil {
			t.Fatal(err)
		}
		*r.to = c
	}
	return &m
}

// opts say how a commit is made.
type opts struct {
	parents   []string // default: the base
	files     map[string]string
	remove    []string
	modes     map[string]string       // other than 100644
	taken     map[string]gittest.File // files as another commit has them
	at        time.Time               // default: now
	key       *testkeys.Key           // nil: not signed
	author    string                  // "Name <email>", default the operator
	committer string
	headers   string
	raw       func(payload []byte) []byte // instead of signing with key
	message   string
}

const operator = "Operator <op@example.com>"

// commit writes a commit object and returns its id.
func (s *scene) commit(o opts) string {
	s.Helper()
	s.serial++
	if o.parents == nil && s.base != "" {
		o.parents = []string{s.base}
	}
	files := map[string]gittest.File{}
	if len(o.parents) > 0 {
		files = maps.Clone(s.files(o.parents[0]))
	}
	for _, path := range o.remove {
		delete(files, path)
	}
	for path, text := range o.files {
		gittest.Put(files, path, gittest.File{Mode: cmp.Or(o.modes[path], "100644"), ID: s.repo.Blob(text)})
	}
	for path, f := range o.taken {
		gittest.Put(files, path, f)
	}
	tree := s.repo.Files(files)
	if o.at.IsZero() {
		o.at = s.now
	}
	if o.author == "" {
		o.author = operator
	}
	if o.committer == "" {
		o.committer = o.author
	}
	if o.message == "" {
		o.message = "Send\n"
	}
	stamp := fmt.Sprintf(" %d +0000", o.at.Unix())
	payload := testkeys.Commit{Tree: tree, Parents: o.parents, Author: o.author + stamp, Committer: o.committer + stamp, Headers: o.headers, Message: o.message}.Bytes()
	switch {
	case o.raw != nil:
		payload = o.raw(payload)
	case o.key != nil:
		payload = testkeys.SignCommit(payload, o.key)
	}
	id := s.repo.WriteObject("commit", payload)
	s.held[id], s.parents[id] = files, o.parents
	return id
}

// files are the files of a commit.
func (s *scene) files(commit string) map[string]gittest.File {
	if s.held[commit] == nil {
		s.held[commit] = s.repo.FilesOf(commit)
	}
	return s.held[commit]
}

func (s *scene) plain(thread, from, kind, body string) string {
	return s.render(envelope.Fields{Thread: thread, From: from, To: []string{"rig-b"}, Date: s.now.UTC().Format(time.DateOnly), Status: "▶ Going on", Type: kind, Body: []byte(body)})
}

// render renders with the hash of the body.
func (s *scene) render(f envelope.Fields) string {
	s.Helper()
	if f.BodyHash == "" {
		f.BodyHash = hashOf(string(f.Body))
	}
	text, err := envelope.Render(f)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// decision is a good relay by key A in t-one, attested at a time.
func (s *scene) decision(at time.Time) envelope.Fields {
	s.serial++
	nonce, err := relay.NewNonce(at, strings.NewReader(fmt.Sprintf("%010d", s.serial)))
	if err != nil {
		s.Fatal(err)
	}
	return envelope.Fields{
		Thread: "t-one", From: "op-relay", To: []string{"rig-a"}, Date: at.UTC().Format(time.DateOnly), Status: "▶ Decided", Type: "DECISIONS",
		InReplyTo: hashOf(asked), AttestedBy: keyA.Fingerprint(), AttestedAt: at.UTC().Format("2006-01-02T15:04:05.000Z"), Nonce: nonce, Body: []byte(fmt.Sprintf("Ship it, says %d.\n", s.serial)),
	}
}

// relayed commits one relay, changed by change, signed by key A unless o says
// otherwise.
func (s *scene) relayed(o opts, change func(*envelope.Fields)) string {
	s.Helper()
	at := o.at
	if at.IsZero() {
		at = s.now
	}
	f := s.decision(at)
	if o.key != nil {
		f.AttestedBy = o.key.Fingerprint()
	}
	if change != nil {
		change(&f)
	}
	if o.key == nil && o.raw == nil {
		o.key = keyA
	}
	if o.files == nil {
		o.files = map[string]string{}
	}
	o.files[f.Thread+"/RELAY-"+strings.ToUpper(f.Nonce)+".md"] = s.render(f)
	return s.commit(o)
}

var namedRule = regexp.MustCompile(`\[([a-z-]+)\]`)

// told returns the rules that a hook's output names, sorted.
func told(text string) []string {
	var rules []string
	for _, m := range namedRule.FindAllStringSubmatch(text, -1) {
		rules = append(rules, m[1])
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// push pushes tip to main. fast-forward is git's to refuse only with force off.
func (s *scene) push(tip string, ref string) gittest.Result {
	return s.repo.Push("--force", s.server.Dir, tip+":"+ref)
}

// refused expects that every gate refuses tip and names want, and nothing but
// want and also: pre-receive in a push, and update as it is called where that has
// passed. checkable is false where only a server's clock can tell.
func (s *scene) refused(tip string, checkable bool, want []string, also ...string) {
	s.Helper()
	res := s.push(tip, "refs/heads/main")
	if res.Code == 0 {
		s.Errorf("pre-receive accepted it")
	}
	s.names("pre-receive", res.Stderr, want, also)
	if checkable {
		res = rig(s.repo, s.repo.Dir, "", "check", s.base+".."+tip)
		if res.Code == 0 {
			s.Errorf("check accepted it:\n%s", res.Stdout)
		}
		s.names("check", res.Stdout+res.Stderr, want, also)
	}
	s.sent()
	res = rig(s.server, s.server.Dir, "", "update", "refs/heads/main", s.base, tip)
	if got := s.server.Ref("refs/heads/main"); res.Code == 0 || got != s.base {
		s.Errorf("update accepted it, exit %d: main is %s", res.Code, got)
	}
	s.names("update", res.Stdout+res.Stderr, want, also)
}

// refusedPush is refused, and pushes tip where update is the only hook, too.
func (s *scene) refusedPush(tip string, checkable bool, want []string, also ...string) {
	s.Helper()
	s.refused(tip, checkable, want, also...)
	os.Remove(filepath.Join(s.server.Dir, "hooks", "pre-receive"))
	res := s.push(tip, "refs/heads/main")
	if got := s.server.Ref("refs/heads/main"); res.Code == 0 || got != s.base {
		s.Errorf("a push with update alone was accepted: main is %s", got)
	}
	s.names("update", res.Stderr, want, also)
}

// names expects that a gate names want, and nothing but want and also.
func (s *scene) names(gate, text string, want, also []string) {
	s.Helper()
	rules := told(text)
	for _, w := range want {
		if !slices.Contains(rules, w) {
			s.Errorf("%s does not name %s, only %v:\n%s", gate, w, rules, text)
		}
	}
	for _, r := range rules {
		if !slices.Contains(want, r) && !slices.Contains(also, r) {
			s.Errorf("%s names %s, expected %v alone:\n%s", gate, r, want, text)
		}
	}
}

// accepted expects that a push passes, with no finding but those in warned.
func (s *scene) accepted(tip string, warned ...string) {
	s.Helper()
	res := s.push(tip, "refs/heads/main")
	if res.Code != 0 {
		s.Errorf("a control was refused:\n%s", res.Stderr)
		return
	}
	rules := told(res.Stderr)
	if !slices.Equal(rules, warned) && len(rules)+len(warned) > 0 {
		s.Errorf("a control gave %v, expected %v:\n%s", rules, warned, res.Stderr)
	}
	s.base = tip
}

// forced puts tip on the server's main without its hooks: what a push without
// them leaves there.
func (s *scene) forced(tip string) {
	s.Helper()
	s.sent()
	s.server.SetRef("refs/heads/main", tip)
	s.base = tip
}

// sent copies all objects to the server, and moves no ref.
func (s *scene) sent() {
	s.Helper()
	s.copyObjects(filepath.Join(s.server.Dir, "objects"))
}

// copyObjects copies all objects to a directory of objects.
func (s *scene) copyObjects(to string) {
	s.Helper()
	from := filepath.Join(s.repo.Dir, ".git", "objects")
	loose, err := filepath.Glob(filepath.Join(from, "??", "*"))
	if packs, _ := filepath.Glob(filepath.Join(from, "pack", "*")); err != nil || len(packs) > 0 {
		s.Fatalf("not all objects are files of their own: %q, %v", packs, err)
	}
	for _, object := range loose {
		copied := filepath.Join(to, strings.TrimPrefix(object, from))
		if _, err := os.Stat(copied); err == nil {
			continue
		}
		data, err := os.ReadFile(object)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(copied), 0o755), os.WriteFile(copied, data, 0o444)); err != nil {
			s.Fatal(err)
		}
	}
}
