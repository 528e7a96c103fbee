package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
)

// at is what a commit has at a path.
func (s *scene) at(commit, path string) string {
	s.Helper()
	return s.repo.Run("cat-file", "blob", commit+":"+path) + "\n" // Run trims it
}

// buries commits a tombstone of a file of the base, by the operator.
func (s *scene) buries(path string, o opts) string {
	s.Helper()
	old := s.at(s.base, path)
	text, err := envelope.Bury([]byte(old), &envelope.Tombstone{Path: path, Repository: strings.TrimSpace(s.repo.Run("rev-list", "--max-parents=0", s.base)),
		Ref: "refs/heads/main", By: "op@example.com", At: envelope.TombstoneTime(s.now), Why: "an access token"}, envelope.DefaultLimits())
	if err != nil {
		s.Fatal(err)
	}
	if o.files == nil {
		o.files = map[string]string{}
	}
	o.files[path] = string(text)
	return s.commit(o)
}

const hush = "hush-hush-4711"

// expunging is a scene in which the operator may take bodies out, and a message with
// a secret was accepted.
func expunging(t *testing.T) *scene {
	s := newScene(t)
	for _, o := range []opts{
		{key: keyA, files: map[string]string{".bridge/policy.yaml": "version: 1\nrevoked: .bridge/revoked\nexpunge: {signers: [op@example.com]}\n"}},
		{files: map[string]string{"t-one/STATE.md": s.render(envelope.Fields{Thread: "t-one", From: "rig-a", To: []string{"rig-b"}, Date: s.now.UTC().Format(time.DateOnly),
			Status: "▶ Has " + hush, TLDR: "It is " + hush, Type: "STATE", Body: []byte("It is " + hush + ".\n")})}},
	} {
		id := s.commit(o)
		if res := s.push(id, "refs/heads/main"); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
		s.base = id
	}
	return s
}

// TestExpunged: the server takes a lawful tombstone and refuses every other one;
// from then on no reader shows the body, whatever a clone still has of it.
func TestExpunged(t *testing.T) {
	t.Parallel()
	const path = "t-one/STATE.md"
	s := expunging(t)
	before := s.base
	s.refused(s.buries(path, opts{key: keyB, author: "Bob <bob@example.com>"}), true, []string{"append-only"})
	s.refused(s.buries(path, opts{}), true, []string{"append-only", "commit-signed"})
	old := s.read(before)
	tip := s.buries(path, opts{key: keyA})
	s.accepted(tip)
	s.base = tip
	s.refused(s.commit(opts{key: keyA, files: map[string]string{path: s.at(before, path)}}), true, []string{"append-only"})
	answer := s.commit(opts{files: map[string]string{"t-one/RESPONSE.md": s.render(envelope.Fields{Thread: "t-one", From: "rig-b", To: []string{"rig-a"},
		Date: s.now.UTC().Format(time.DateOnly), Status: "✅ Replaced", Type: "RESPONSE", InReplyTo: hashOf("It is " + hush + ".\n"), Body: []byte("It was replaced.\n")})}})
	s.accepted(answer)
	// Past the gate, somebody brings the body back, and says something else.
	s.base = answer
	back := s.commit(opts{files: map[string]string{path: s.at(before, path)}})
	for name, r := range map[string]*reader{"of the history": s.read(answer), "of a history with the body back": s.read(back)} {
		t.Run(name, func(t *testing.T) {
			r.T = t
			quiet := func(args ...string) string {
				out, errs, _ := r.run(args...)
				if strings.Contains(out+errs, hush) {
					t.Errorf("%v shows the body:\n%s%s", args, out, errs)
				}
				return out
			}
			th := r.thread("t-one")
			e := named(th.Envelopes, "STATE.md")
			if e == nil || !strings.HasPrefix(e.Body, "rigward tombstone 1\n") || e.Verdict.State != "verified" || !e.Verdict.Expunged || e.BodyHash != hashOf("It is "+hush+".\n") {
				t.Fatalf("%+v", th)
			}
			if e := named(th.Envelopes, "RESPONSE.md"); e == nil || e.Verdict.State != "unsigned" {
				t.Errorf("the answer: %+v", th)
			}
			if text := quiet("thread", "t-one"); !strings.Contains(text, "its body was taken out, signed by op@example.com") || !strings.Contains(text, "why: an access token") {
				t.Errorf("%s", text)
			}
			quiet("thread", "t-one", "--json")
			quiet("thread", "t-one", "--allow-refused", "--json")
			quiet("status", "--wide")
			quiet("status", "--json")
			quiet("thread", "t-one", "--format", "mermaid")
			quiet("validate", ".")
			quiet("init", "--rig-id", "rig-b")
			quiet("inbox")
			quiet("inbox", "--json")
		})
	}
	// A clone of before learns of it by sync, and shows nothing even before that.
	old.T = t
	if e := named(old.thread("t-one").Envelopes, "STATE.md"); e == nil || !strings.Contains(e.Body, hush) {
		t.Fatal("the control has no body")
	}
	s.repo.SetRef("refs/heads/main", answer)
	old.repo.Run("fetch", "-q")
	for _, stage := range []string{"fetched", "synced"} {
		if stage == "synced" {
			if out, errs, code := old.run("sync", "--auto"); code != 0 {
				t.Fatalf("sync: %d %s%s", code, out, errs)
			}
			if data, err := os.ReadFile(filepath.Join(old.repo.Dir, filepath.FromSlash(path))); err != nil || strings.Contains(string(data), hush) {
				t.Errorf("the work tree has %s, %v", data, err)
			}
		}
		out, errs, _ := old.run("thread", "t-one", "--json")
		if strings.Contains(out+errs, hush) || stage == "synced" && !strings.Contains(out, "rigward tombstone 1") {
			t.Errorf("%s: %s%s", stage, out, errs)
		}
	}
}
