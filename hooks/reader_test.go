package hooks_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// A reader is the clone of somebody who pulled what no gate had judged.
type reader struct {
	*testing.T
	repo *gittest.Repo
}

// read clones a history whose main is tip, and which no gate has seen; with args,
// which git clone gets, the other branches of the scene's repository come along.
func (s *scene) read(tip string, args ...string) *reader {
	s.Helper()
	c := &gittest.Repo{T: s.T, Dir: filepath.Join(gittest.TempDir(s.T), "reader"), Home: gittest.TempDir(s.T), Now: s.now.Unix()}
	c.Env = gittest.Environ(c.Home)
	if len(args) == 0 {
		s.readCopy(c, tip)
		return &reader{s.T, c}
	}
	s.repo.SetRef("refs/heads/main", tip)
	s.repo.Run(append(append([]string{"clone", "-q"}, args...), "file://"+filepath.ToSlash(s.repo.Dir), c.Dir)...)
	s.repo.Run("update-ref", "-d", "refs/heads/main")
	return &reader{s.T, c}
}

// readModel is a clone of what every scene begins with, made once.
var readModel struct{ dir, from, base string }

// readCopy makes a clone out of a copy of the one of what every scene begins with: it
// has the objects besides, and tip where that one has its commit.
func (s *scene) readCopy(c *gittest.Repo, tip string) {
	s.Helper()
	m := func() struct{ dir, from, base string } {
		models.Lock()
		defer models.Unlock()
		if m := sceneModel; readModel.dir == "" {
			m.repo.SetRef("refs/heads/main", m.base)
			readModel.dir, readModel.from, readModel.base = filepath.Join(filepath.Dir(m.repo.Dir), "reader"), m.repo.Dir, m.base
			s.repo.Run("clone", "-q", "file://"+filepath.ToSlash(m.repo.Dir), readModel.dir)
			if err := os.Remove(filepath.Join(m.repo.Dir, ".git", "refs", "heads", "main")); err != nil {
				s.Fatal(err)
			}
		}
		return readModel
	}()
	if err := os.CopyFS(c.Dir, os.DirFS(m.dir)); err != nil {
		s.Fatal(err)
	}
	at := filepath.Join(c.Dir, ".git")
	s.copyObjects(filepath.Join(at, "objects"))
	for _, name := range []string{"config", "packed-refs", "refs/heads/main", "logs/HEAD", "logs/refs/heads/main", "logs/refs/remotes/origin/HEAD"} {
		file := filepath.Join(at, filepath.FromSlash(name))
		text, err := os.ReadFile(file)
		if err != nil {
			s.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte(m.base), []byte(tip))
		text = bytes.ReplaceAll(text, []byte(filepath.ToSlash(m.from)), []byte(filepath.ToSlash(s.repo.Dir)))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			s.Fatal(err)
		}
	}
	c.Run("read-tree", "--reset", "-u", "HEAD")
}

// differ are the paths at which two commits of the scene differ, sorted.
func (s *scene) differ(a, b string) []string {
	return gittest.Differ(s.files(a), s.files(b))
}

type readVerdict struct {
	State  string
	Signer *struct {
		Principal, Fingerprint string
		Revoked                bool
	}
	Rules    []string
	Reason   string
	Pushed   bool
	Expunged bool
}

type readEnvelope struct {
	File     string
	Body     string
	Restored bool
	BodyHash string  `json:"body_hash"`
	Commit   *string `json:"commit_sha"`
	Verdict  readVerdict
}

type readThread struct {
	Envelopes, Refused []readEnvelope
	Judged             struct {
		Complete bool
		Reason   string
	}
}

func (r *reader) run(args ...string) (stdout, stderr string, code int) {
	r.Helper()
	var out, errs bytes.Buffer
	code = bridge.Main(context.Background(), bridge.Env{Args: args, Stdout: &out, Stderr: &errs, Environ: r.repo.Env, Dir: r.repo.Dir, Now: time.Now, Rand: rand.Reader})
	return out.String(), errs.String(), code
}

func (r *reader) thread(name string) (t readThread) {
	r.Helper()
	out, errs, code := r.run("thread", name, "--json")
	if err := json.Unmarshal([]byte(out), &t); err != nil || code != 0 {
		r.Fatalf("exit %d %v\n%s%s", code, err, out, errs)
	}
	return t
}

func named(list []readEnvelope, file string) *readEnvelope {
	i := slices.IndexFunc(list, func(e readEnvelope) bool { return e.File == file })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// TestReaderSeesAttacks pulls every attack of docs/spec/relay.md#attacks, as if
// there were no gate: what the gates refuse is refused to the reader by the
// same rules, and is not among what was said (J14).
func TestReaderSeesAttacks(t *testing.T) {
	t.Parallel()
	for _, a := range attacks {
		if a.server {
			continue // only a clock that is not the pusher's can tell
		}
		t.Run(a.row, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			tip := a.do(s)
			base, r := s.base, s.read(tip)
			rules := map[string]bool{}
			threads := map[string]readThread{}
			for _, path := range s.differ(base, tip) {
				dir, file, ok := strings.Cut(path, "/")
				if !ok || !envelope.IsEnvelopePath(path) {
					continue
				}
				th, ok := threads[dir]
				if !ok {
					th = r.thread(dir)
					threads[dir] = th
				}
				for _, e := range th.Refused {
					for _, rule := range e.Verdict.Rules {
						rules[rule] = true
					}
				}
				if e := named(th.Envelopes, file); e != nil && !e.Restored && strings.HasPrefix(file, "RELAY-") && e.Verdict.State != "unknown" {
					t.Logf("%s is shown as said: %+v", path, e.Verdict)
				}
			}
			for _, rule := range strings.Fields(a.rules) {
				switch {
				case rules[rule], rule == "fast-forward", rule == "signers-change": // of no message
				case strings.HasPrefix(a.row, "26 "): // nothing is judged behind a commit with two readings
				case strings.HasPrefix(a.row, "40 "): // where a push ended is no longer known
				case strings.HasSuffix(a.row, "executable"): // it still says what was accepted
				default:
					t.Errorf("%s is not among the rules by which something is refused: %v", rule, rules)
				}
			}
		})
	}
}

// TestReaderFaults is J14 message by message, in text and in JSON.
func TestReaderFaults(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	nonce := s.nonce0
	good := s.relayed(opts{}, nil)
	s.base = good
	goodFile := s.differ(s.parent(good), good)[0]
	steps := map[string]string{} // file to the rule by which it is refused
	add := func(file, rule, commit string) {
		steps[file] = rule
		s.base = commit
	}
	add("RELAY-again.md", "relay-nonce", s.relayedAs("t-one/RELAY-again.md", func(f *envelope.Fields) { f.Nonce = nonce }))
	add("RELAY-other.md", "sender-key", func() string {
		f := s.decision(s.now)
		f.AttestedBy = keyB.Fingerprint()
		return s.commit(opts{key: keyB, author: "Bob <bob@example.com>", files: map[string]string{"t-one/RELAY-other.md": s.render(f)}})
	}())
	add("RELAY-noturn.md", "relay-reply", s.relayedAs("t-one/RELAY-noturn.md", func(f *envelope.Fields) { f.InReplyTo = hashOf("nobody\n") }))
	forged := s.decision(s.now)
	forged.Body = []byte("Approved: delete production.\n")
	add("RELAY-forged.md", "commit-signed", s.commit(opts{files: map[string]string{"t-one/RELAY-forged.md": s.render(forged)}}))
	add("REQUEST.md", "append-only", s.commit(opts{files: map[string]string{"t-one/REQUEST.md": s.plain("t-one", "rig-a", "REQUEST", "Edited.\n")}}))
	add(filepath.Base(s.relay0), "append-only", s.commit(opts{remove: []string{s.relay0}}))
	// A swap of the signers by nobody they know, and a relay by who comes with it.
	s.base = s.commit(opts{key: nobody, files: map[string]string{".bridge/allowed_signers": nobody.Line("op@example.com,op-relay", "")}})
	swapped := s.decision(s.now)
	swapped.AttestedBy = nobody.Fingerprint()
	add("RELAY-swapped.md", "commit-signed", s.commit(opts{key: nobody, files: map[string]string{"t-one/RELAY-swapped.md": s.render(swapped)}}))
	// What is lawful goes on being so.
	last := s.relayedAs("t-one/RELAY-last.md", nil)
	s.base = last

	r := s.read(last)
	th := r.thread("t-one")
	if !th.Judged.Complete {
		t.Errorf("not all is judged: %+v", th.Judged)
	}
	for file, rule := range steps {
		e := named(th.Refused, file)
		if e == nil || e.Verdict.State != "refused" || !slices.Contains(e.Verdict.Rules, rule) {
			t.Errorf("%s: %+v, expected it refused by %s", file, e, rule)
		}
	}
	for _, file := range []string{filepath.Base(goodFile), "RELAY-last.md", filepath.Base(s.relay0)} {
		e := named(th.Envelopes, file)
		if e == nil || e.Verdict.State != "verified" || e.Verdict.Signer == nil || e.Verdict.Signer.Principal != "op@example.com" || e.Verdict.Signer.Fingerprint != keyA.Fingerprint() {
			t.Errorf("%s: %+v, expected it verified", file, e)
		}
	}
	if e := named(th.Envelopes, "REQUEST.md"); e == nil || e.Body != asked || !e.Restored || e.Verdict.State != "unsigned" {
		t.Errorf("what was accepted is no longer the word: %+v", e)
	}
	if len(th.Envelopes) != 4 || len(th.Refused) != len(steps) {
		t.Errorf("%d are said and %d refused", len(th.Envelopes), len(th.Refused))
	}
	text, _, _ := r.run("thread", "t-one")
	apart := "what follows was not said in this thread: the gates refuse it\n---\n"
	before, after, _ := strings.Cut(text, "refused=1 of ")
	if strings.Contains(before, "delete production") || !strings.Contains(after, apart) || strings.Count(after, apart) != len(steps)-1 {
		t.Errorf("what is refused does not stand apart:\n%s", text)
	}
	if !strings.Contains(text, "signed by op@example.com "+keyA.Fingerprint()[:19]+"… as op-relay, verified, committed ") ||
		!strings.Contains(before, "\nin_reply_to: "+hashOf(asked)+"\nattested_by: "+keyA.Fingerprint()+"\nattested_at: ") || !strings.Contains(before, "\nnonce: ") {
		t.Errorf("the text lacks who signed, or the attestation:\n%s", text)
	}
	if plain, _, _ := r.run("thread", "t-one", "--allow-refused"); !strings.Contains(plain, "envelope=1 of 10") || !strings.Contains(plain, "refused by the rules ") {
		t.Errorf("--allow-refused:\n%s", plain)
	}
	if wide, errs, code := r.run("status", "--wide"); code != 0 || !strings.Contains(wide, " verdict=") {
		t.Errorf("status --wide: exit %d\n%s%s", code, wide, errs)
	}
	judged, _, code := r.run("validate", "t-one")
	for file, rule := range steps {
		if !strings.Contains(judged, "t-one/"+file+":1:1: error: ") || !strings.Contains(judged, "["+rule+"]") {
			t.Errorf("validate does not refuse %s by %s:\n%s", file, rule, judged)
		}
	}
	if _, _, clean := r.run("validate", "other"); code != 1 || clean != 0 {
		t.Errorf("validate: exit %d and %d", code, clean)
	}
	// The same verdicts from what was kept, and again without it.
	again := r.thread("t-one")
	os.RemoveAll(filepath.Join(r.repo.Dir, ".git", "rigward"))
	if fresh := r.thread("t-one"); fmt.Sprintf("%+v", jsonText(again)) != jsonText(th) || jsonText(fresh) != jsonText(th) {
		t.Error("what is kept changes what is said")
	}
}

func jsonText(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// TestReaderOwn: what nobody has judged is never called verified: a message in
// the work tree, a commit that was not pushed, a history that is cut.
func TestReaderOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := s.read(s.base)
	r.repo.Write("t-one/STATE.md", s.plain("t-one", "rig-b", "STATE", "On it.\n"))
	r.repo.Write("t-one/REQUEST.md", s.plain("t-one", "rig-a", "REQUEST", "Edited here.\n"))
	th := r.thread("t-one")
	if e := named(th.Envelopes, "STATE.md"); e == nil || e.Verdict.State != "not-committed" {
		t.Errorf("%+v", e)
	}
	if e, edited := named(th.Envelopes, "REQUEST.md"), named(th.Refused, "REQUEST.md"); e == nil || e.Body != asked || edited == nil || !slices.Contains(edited.Verdict.Rules, "append-only") {
		t.Errorf("%+v, and %+v", e, edited)
	}
	r.repo.Run("checkout", "-q", "t-one/REQUEST.md")
	r.repo.Run("add", "t-one/STATE.md")
	r.repo.Run("commit", "-q", "-m", "State")
	if e := named(r.thread("t-one").Envelopes, "STATE.md"); e == nil || e.Verdict.State != "not-pushed" || e.Verdict.Pushed {
		t.Errorf("%+v", e)
	}
	// An own commit that the gates would refuse says so before it is pushed.
	f := s.decision(s.now)
	r.repo.Write("t-one/RELAY-x.md", s.render(f))
	r.repo.Run("add", "t-one/RELAY-x.md")
	r.repo.Run("commit", "-q", "-m", "Relay")
	if e := named(r.thread("t-one").Refused, "RELAY-x.md"); e == nil || !slices.Contains(e.Verdict.Rules, "commit-signed") || e.Verdict.Pushed {
		t.Errorf("%+v", e)
	}
	// Another line end in the work tree is no other content.
	data, err := os.ReadFile(filepath.Join(r.repo.Dir, filepath.FromSlash(s.relay0)))
	if err != nil {
		t.Fatal(err)
	}
	r.repo.Write(s.relay0, strings.ReplaceAll(string(data), "\n", "\r\n"))
	if e := named(r.thread("t-one").Envelopes, filepath.Base(s.relay0)); e == nil || e.Verdict.State != "verified" {
		t.Errorf("%+v", e)
	}
	cut := s.read(s.base, "--depth=1")
	th = cut.thread("t-one")
	if len(th.Envelopes) != 2 || th.Judged.Complete || th.Judged.Reason == "" {
		t.Errorf("%+v", th)
	}
	for _, e := range th.Envelopes {
		if e.Verdict.State != "unknown" || e.Verdict.Reason == "" {
			t.Errorf("a cut history: %+v", e)
		}
	}
	if text, errs, _ := cut.run("thread", "t-one"); !strings.Contains(text, "\ncannot be judged: ") || !strings.Contains(errs, "git fetch --unshallow") {
		t.Errorf("%s%s", text, errs)
	}
}

// TestRevokedSince: what a key signed before it was revoked stays said, and whoever reads
// it is told that the key no longer counts; one that was only taken out signs nothing new.
func TestRevokedSince(t *testing.T) {
	t.Parallel()
	certified := func(serial uint64) *testkeys.Key {
		return nobody.Certify(keyCA, testkeys.Cert{Principals: []string{"op@example.com", "op-relay"}, Serial: serial})
	}
	// The serial number 7 of an authority, as ssh-keygen -k writes it (OpenSSH, PROTOCOL.krl).
	text := func(b []byte, s []byte) []byte { return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) }
	serials := text(append(text(text(nil, keyCA.PublicKey().Marshal()), nil), 0x20), binary.BigEndian.AppendUint64(nil, 7))
	krl := append(append([]byte("SSHKRL\n\x00\x00\x00\x00\x01"), make([]byte, 3*8+2*4)...), 1)
	krl = text(krl, serials)
	for _, row := range []struct {
		what    string
		key     *testkeys.Key // of the first relay
		revoked string        // the file after it
		signers func(string) string
		since   bool
	}{
		{what: "nothing", key: keyEC},
		{what: "the key", key: keyEC, revoked: keyEC.Authorized() + "\n", since: true},
		{what: "the key, which is no longer listed either", key: keyEC, revoked: keyEC.Authorized() + "\n", since: true,
			signers: func(s string) string { return strings.Replace(s, keyEC.Line("op@example.com,op-relay", ""), "", 1) }},
		{what: "another key", key: keyEC, revoked: keyB.Authorized() + "\n"},
		{what: "nothing, but the key is no longer listed", key: keyEC,
			signers: func(s string) string { return strings.Replace(s, keyEC.Line("op@example.com,op-relay", ""), "", 1) }},
		{what: "the key of a certificate", key: certified(7), revoked: nobody.Authorized() + "\n", since: true},
		{what: "the authority", key: certified(7), revoked: keyCA.Authorized() + "\n", since: true},
		{what: "the certificate", key: certified(7), revoked: string(krl), since: true},
		{what: "another certificate of the key", key: certified(8), revoked: string(krl)},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			relay := func(key *testkeys.Key, parent string) (file, tip string) {
				f := s.decision(s.now)
				file = "RELAY-" + f.Nonce + ".md"
				f.AttestedBy = key.Fingerprint()
				return file, s.commit(opts{parents: []string{parent}, key: key, files: map[string]string{"t-one/" + file: s.render(f)}})
			}
			one, tip := relay(row.key, s.base)
			// A certificate of the same key that no list names.
			other, tip := relay(certified(9), tip)
			files := map[string]string{}
			if row.revoked != "" {
				files[".bridge/revoked"] = row.revoked
			}
			if row.signers != nil {
				files[".bridge/allowed_signers"] = row.signers(sceneSigners(s.now))
			}
			r := s.read(s.commit(opts{parents: []string{tip}, key: keyA, files: files}))
			th := r.thread("t-one")
			e, o := named(th.Envelopes, one), named(th.Envelopes, other)
			if e == nil || e.Verdict.State != "verified" || e.Verdict.Signer == nil || e.Verdict.Signer.Revoked != row.since {
				t.Fatalf("%+v, expected revoked: %t", e, row.since)
			}
			with := row.since && row.key != keyEC && row.revoked != string(krl)
			if o == nil || o.Verdict.State != "verified" || o.Verdict.Signer.Revoked != with {
				t.Errorf("%+v, expected revoked: %t", o, with)
			}
			if text, _, _ := r.run("thread", "t-one"); strings.Contains(text, ", verified, its key is revoked since, ") != row.since {
				t.Error(text)
			}
			r.run("init", "--rig-id", "rig-a")
			if text, errs, _ := r.run("inbox"); strings.Count(text, " signer=op@example.com revoked=true") != strings.Count(fmt.Sprint(row.since, with), "true") {
				t.Error(text, errs)
			}
			if text, errs, _ := r.run("status", "--wide"); strings.Contains(text, " signer=op@example.com revoked=true") != with {
				t.Error(text, errs)
			}
		})
	}
	t.Run("two sides that trust different people", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		f := s.decision(s.now)
		file := "RELAY-" + f.Nonce + ".md"
		f.AttestedBy = keyEC.Fingerprint()
		said := s.commit(opts{parents: []string{s.base}, key: keyEC, files: map[string]string{"t-one/" + file: s.render(f)}})
		one := s.commit(opts{parents: []string{said}, key: keyA, files: map[string]string{".bridge/revoked": keyEC.Authorized() + "\n"}})
		two := s.commit(opts{parents: []string{said}, key: keyA, files: map[string]string{".bridge/allowed_signers": sceneSigners(s.now) + nobody.Line("n@example.com,n-relay", "")}})
		merged := s.commit(opts{parents: []string{two, one}, files: map[string]string{".bridge/revoked": keyEC.Authorized() + "\n"}})
		if e := named(s.read(merged).thread("t-one").Envelopes, file); e == nil || e.Verdict.Signer == nil || !e.Verdict.Signer.Revoked {
			t.Errorf("%+v", e)
		}
	})
}

// TestReaderBranches: a branch's own signers speak for nobody, and a branch from
// before a key was taken out does not bring it back (J05 and its kind).
func TestReaderBranches(t *testing.T) {
	t.Parallel()
	relayBy := func(s *scene, key *testkeys.Key, who, rig, file string, o opts) string {
		f := s.decision(s.now)
		f.From, f.AttestedBy = rig, key.Fingerprint()
		o.key, o.author, o.files = key, who, map[string]string{"t-one/" + file: s.render(f)}
		return s.commit(o)
	}
	state := func(t *testing.T, r *reader, file, want string) {
		t.Helper()
		th := r.thread("t-one")
		e := named(append(th.Envelopes, th.Refused...), file)
		if e == nil || e.Verdict.State != want {
			t.Errorf("%s: %+v, expected %s", file, e, want)
		}
	}
	bob := "Bob <bob@example.com>"
	fewer := func(s *scene) map[string]string {
		return map[string]string{".bridge/allowed_signers": strings.Replace(sceneSigners(s.now), keyB.Line("bob@example.com,bob-relay", ""), "", 1)}
	}
	both := func(s *scene, a, b string) string {
		files := map[string]string{}
		for _, path := range strings.Fields(s.repo.Run("ls-tree", "-r", "--name-only", b)) {
			files[path] = s.repo.Run("cat-file", "blob", b+":"+path) + "\n"
		}
		delete(files, ".bridge/revoked")
		delete(files, ".bridge/policy.yaml")
		return s.commit(opts{parents: []string{a, b}, files: files})
	}
	for _, order := range []string{"first", "second"} {
		t.Run("a branch from before a key was taken out, as the "+order+" parent", func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			early := relayBy(s, keyB, bob, "bob-relay", "RELAY-early.md", opts{})
			out := s.commit(opts{parents: []string{early}, key: keyA, files: fewer(s)})
			side := relayBy(s, keyB, bob, "bob-relay", "RELAY-side.md", opts{parents: []string{early}})
			tip := s.commit(opts{parents: []string{out, side}, files: map[string]string{"t-one/RELAY-side.md": s.repo.Run("cat-file", "blob", side+":t-one/RELAY-side.md") + "\n"}})
			if order == "first" {
				tip = both(s, side, out)
			}
			r := s.read(tip)
			state(t, r, "RELAY-early.md", "verified")
			state(t, r, "RELAY-side.md", "refused")
		})
		t.Run("a history of its own with its own signers, as the "+order+" parent", func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			own := s.decision(s.now)
			own.AttestedBy = nobody.Fingerprint()
			root := s.commit(opts{parents: []string{}, files: map[string]string{".bridge/allowed_signers": nobody.Line("op@example.com,op-relay", ""), "t-one/REQUEST.md": s.plain("t-one", "rig-a", "REQUEST", asked)}})
			evil := s.commit(opts{parents: []string{root}, key: nobody, files: map[string]string{"t-one/RELAY-evil.md": s.render(own)}})
			tip := both(s, s.base, evil)
			if order == "first" {
				tip = both(s, evil, s.base)
			}
			r := s.read(tip)
			th := r.thread("t-one")
			if e := named(append(th.Envelopes, th.Refused...), "RELAY-evil.md"); e == nil || e.Verdict.State == "verified" {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("a merge that both trust", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		more := func(k *testkeys.Key, who string) map[string]string {
			return map[string]string{".bridge/allowed_signers": sceneSigners(s.now) + k.Line(who, "")}
		}
		one := s.commit(opts{key: keyA, files: more(nobody, "n@example.com,n-relay")})
		two := s.commit(opts{key: keyA, files: more(keySK2, "m@example.com,m-relay")})
		files := map[string]string{".bridge/allowed_signers": sceneSigners(s.now) + nobody.Line("n@example.com,n-relay", "") + keySK2.Line("m@example.com,m-relay", "")}
		merged := s.commit(opts{parents: []string{one, two}, key: keyA, files: files})
		s.base = relayBy(s, nobody, "N <n@example.com>", "n-relay", "RELAY-n.md", opts{parents: []string{merged}})
		state(t, s.read(s.base), "RELAY-n.md", "verified")
		unsigned := s.commit(opts{parents: []string{one, two}, files: files})
		s.base = relayBy(s, nobody, "N <n@example.com>", "n-relay", "RELAY-n.md", opts{parents: []string{unsigned}})
		state(t, s.read(s.base), "RELAY-n.md", "unknown")
	})
	t.Run("a branch's own signers", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		swap := s.commit(opts{key: nobody, files: map[string]string{".bridge/allowed_signers": nobody.Line("op@example.com,op-relay", "")}})
		branch := relayBy(s, nobody, operator, "op-relay", "RELAY-evil.md", opts{parents: []string{swap}})
		s.repo.SetRef("refs/heads/release/1", branch)
		r := s.read(s.base, "--no-tags") // with its other branches
		r.repo.Run("checkout", "-q", "release/1")
		state(t, r, "RELAY-evil.md", "refused")
		// The control: who counts on the default branch counts on a branch.
		r.repo.Run("checkout", "-q", "main")
		s.repo.SetRef("refs/heads/release/2", s.relayedAs("t-one/RELAY-good.md", nil))
		r.repo.Run("fetch", "-q")
		r.repo.Run("checkout", "-q", "release/2")
		state(t, r, "RELAY-good.md", "verified")
	})
}

var keySK2 = testkeys.Ed25519("another operator")

// TestReaderIsTheGate makes histories at random, asks pre-receive about every
// push, lets all of them in, and holds the reader's verdict of each envelope
// against what the gate said of its commit; read piece by piece and at once.
func TestReaderIsTheGate(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	seeds := 1
	if os.Getenv("RIGWARD_STRESS") == "full" {
		seeds = 10
	}
	for i := range seeds {
		t.Run(fmt.Sprint("seed ", seed+uint64(i)), func(t *testing.T) {
			t.Parallel()
			readerIsTheGate(t, mathrand.New(mathrand.NewPCG(seed+uint64(i), 1)))
		})
	}
}

func readerIsTheGate(t *testing.T, random *mathrand.Rand) {
	s := newScene(t)
	at := s.now.Add(-time.Minute)
	tick := func() time.Time { at = at.Add(time.Second); return at }
	expected := map[string][]string{} // rules by commit
	gate := func(tip string) {
		t.Helper()
		var out bytes.Buffer
		s.sent()
		hooks.Run(context.Background(), "pre-receive", &hooks.Env{Args: []string{"--format", "json"}, Dir: s.server.Dir, Environ: served(s.server), Stdin: strings.NewReader(s.base + " " + tip + " refs/heads/main\n"),
			Stdout: &out, Stderr: &out, Now: func() time.Time { return s.now }})
		var o struct {
			Verdict  string
			Findings []struct{ Rule, Severity, Commit string }
		}
		if err := json.Unmarshal(out.Bytes(), &o); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		for _, f := range o.Findings {
			if f.Severity == "error" && f.Commit != "" && f.Rule != "commit-clock" && !slices.Contains(expected[f.Commit], f.Rule) {
				expected[f.Commit] = append(expected[f.Commit], f.Rule)
			}
		}
	}
	named := 0
	file := func(kind string) string {
		named++
		return fmt.Sprintf("%s/%s-%d.md", []string{"t-one", "other"}[random.IntN(2)], kind, named)
	}
	var states []string // that nothing answers
	plain := func(parent string, o opts) string {
		path := file("STATE")
		states = append(states, path)
		thread, _, _ := strings.Cut(path, "/")
		o.files, o.parents, o.at = map[string]string{path: s.plain(thread, "rig-b", "STATE", fmt.Sprint("Word ", named, ".\n"))}, []string{parent}, tick()
		return s.commit(o)
	}
	relay := func(parent string, o opts, change func(*envelope.Fields)) string {
		o.parents, o.at = []string{parent}, tick()
		return s.relayed(o, func(f *envelope.Fields) {
			if change != nil {
				change(f)
			}
		})
	}
	views := s.read(s.base)
	open := func(secret string) *verdict.Book {
		t.Helper()
		repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: views.repo.Env, Dir: views.repo.Dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { repo.Close() })
		_, head, _ := repo.HEAD()
		b, err := verdict.Open(t.Context(), verdict.Options{Repo: repo, Loader: hooks.NewLoader(repo), Dir: filepath.Join(repo.CommonDir(), "rigward"), Secret: []byte(secret), Now: time.Now()},
			verdict.View{Accepted: head, Upstream: head, Head: head, Remotes: true})
		if err != nil {
			t.Fatal(err)
		}
		if why, _ := b.Behind(); why != "" {
			t.Fatal(why)
		}
		return b
	}
	first := s.base
	signers := sceneSigners(s.now)
	for range 14 {
		tip, parent := "", s.base
		switch random.IntN(12) {
		case 0, 1:
			tip = plain(parent, opts{})
		case 2:
			tip = plain(parent, opts{key: keyA})
		case 3:
			tip = relay(parent, opts{}, nil)
		case 4:
			tip = relay(parent, opts{key: nobody}, nil)
		case 5:
			n := s.nonce0
			tip = relay(parent, opts{files: map[string]string{}}, func(f *envelope.Fields) { f.Nonce, f.Thread, f.InReplyTo = n, "other", hashOf(foreign) })
		case 6:
			tip = relay(parent, opts{}, func(f *envelope.Fields) { f.InReplyTo = hashOf("none\n") })
		case 7:
			if len(states) == 0 {
				continue
			}
			named++
			path := states[random.IntN(len(states))]
			thread, _, _ := strings.Cut(path, "/")
			tip = s.commit(opts{parents: []string{parent}, at: tick(), files: map[string]string{path: s.plain(thread, "rig-b", "STATE", fmt.Sprint("Edited ", named, ".\n"))}})
		case 8: // lawful: another key, which counts from the next push on
			signers += testkeys.Ed25519(fmt.Sprint("key ", named)).Line("x@example.com", "")
			named++
			tip = s.commit(opts{parents: []string{parent}, at: tick(), key: keyA, files: map[string]string{".bridge/allowed_signers": signers}})
		case 9: // two at once
			tip = relay(plain(parent, opts{}), opts{key: keyEC}, nil)
		case 10, 11: // a branch
			side := relay(plain(parent, opts{}), opts{}, func(f *envelope.Fields) {
				if random.IntN(2) == 0 {
					f.InReplyTo = hashOf("none\n")
				}
			})
			main := plain(parent, opts{})
			files := map[string]gittest.File{}
			for _, path := range s.differ(parent, side) {
				files[path] = s.files(side)[path]
			}
			tip = s.commit(opts{parents: []string{main, side}, at: tick(), taken: files})
		}
		gate(tip)
		s.server.SetRef("refs/heads/main", tip)
		s.base = tip
		s.copyObjects(filepath.Join(views.repo.Dir, ".git", "objects"))
		for _, ref := range []string{"refs/heads/main", "refs/remotes/origin/main"} { // as a pull leaves them
			views.repo.SetRef(ref, tip)
		}
		open("one step at a time")
	}
	step, whole := open("one step at a time"), open("at once")
	checked := 0
	before := s.ancestors(first)
	for commit := range s.ancestors(s.base) {
		if before[commit] || len(s.parents[commit]) > 1 {
			continue // a merge
		}
		for _, path := range s.differ(s.parent(commit), commit) {
			if !envelope.IsEnvelopePath(path) {
				continue
			}
			thread, name, _ := strings.Cut(path, "/")
			for what, b := range map[string]*verdict.Book{"step by step": step, "at once": whole} {
				v := b.Thread(thread).Of(name, s.files(commit)[path].ID)
				want := slices.Clone(expected[commit])
				slices.Sort(want)
				slices.Sort(v.Rules)
				if !slices.Equal(v.Rules, want) || (v.State == verdict.Refused) != (len(want) > 0) {
					t.Errorf("%s, %s of %s: %s %v, the gate says %v", what, path, commit, v.State, v.Rules, want)
				}
				checked++
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d envelopes were compared", checked)
	}
}
