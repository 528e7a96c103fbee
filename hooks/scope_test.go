package hooks_test

import (
	"strings"
	"testing"
)

// TestPathsBecomeEnvelopes: what lies at a path that becomes an envelope's, since the
// policy names another root or ignores less, is accepted as it is. An audit of the whole
// history, which has seen it come, says of what follows what the server has said, which
// finds it in the tree before.
func TestPathsBecomeEnvelopes(t *testing.T) {
	const policy = "version: 1\nrevoked: .bridge/revoked\n"
	for name, c := range map[string]struct {
		first, then string // envelopes of the policy
		root        string
	}{
		"ignored, then not": {first: "envelopes: {ignore: [\"late/**\"]}\n"},
		"another root":      {then: "envelopes: {root: below}\n", root: "below/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			policies := func(text string) map[string]string { return map[string]string{".bridge/policy.yaml": policy + text} }
			if c.first != "" {
				s.accepted(s.commit(opts{key: keyA, files: policies(c.first)}))
			}
			old := s.decision(s.now)
			old.Thread = "late"
			s.accepted(s.commit(opts{files: map[string]string{
				c.root + "late/REQUEST.md": s.plain("late", "rig-a", "REQUEST", "Are we late?\n"), c.root + "late/OLD.md": s.render(old),
				c.root + "late/notes.md": "no envelope\n",
			}}))
			s.accepted(s.commit(opts{key: keyA, files: policies(c.then)}))

			answer := func(reply string, nonce string) string {
				f := s.decision(s.now)
				f.Thread, f.InReplyTo = "late", reply
				if nonce != "" {
					f.Nonce = nonce
				}
				var files = map[string]string{c.root + "late/RELAY-" + f.Nonce + ".md": s.render(f)}
				return s.commit(opts{key: keyA, files: files})
			}
			s.accepted(answer(hashOf("Are we late?\n"), ""))
			s.accepted(s.commit(opts{files: map[string]string{c.root + "late/STATE.md": s.plain("late", "rig-a", "STATE", "Yes.\n")}}))
			s.audit()
			must(t, rig(s.server, s.server.Dir, "", "check", "--all"), 0, "clean")

			// Attacks: what the server refuses, the audit of a server that took it tells.
			for rule, tip := range map[string]string{
				"relay-reply": answer(hashOf("Nobody said this\n"), ""),
				"relay-nonce": answer(hashOf("Are we late?\n"), old.Nonce),
				"append-only": s.commit(opts{files: map[string]string{c.root + "late/REQUEST.md": s.plain("late", "rig-a", "REQUEST", "Are we early?\n")}}),
			} {
				if res := s.push(tip, "refs/heads/main"); res.Code == 0 || strings.Join(told(res.Stderr), " ") != rule {
					t.Errorf("%s: exit %d\n%s", rule, res.Code, res.Stderr)
				}
				base := s.base
				s.forced(tip)
				s.audit()
				if res := rig(s.server, s.server.Dir, "", "check", "--all"); res.Code != 1 || strings.Join(told(res.Stdout), " ") != rule {
					t.Errorf("%s: an audit: exit %d\n%s", rule, res.Code, res.Stdout)
				}
				s.forced(base)
			}
		})
	}
}

// TestDocumentsBeforeThreads: a document that a server has taken stays one, whoever puts
// an envelope beside it later. So nobody can make what came with it be refused: neither
// an audit nor a reader takes a later commit for a part of the same push.
func TestDocumentsBeforeThreads(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.accepted(s.commit(opts{files: map[string]string{
		"notes/README.md": "no envelope\n", "late/REQUEST.md": s.plain("late", "rig-a", "REQUEST", "Are we late?\n"),
	}}))
	clean := func() {
		t.Helper()
		s.audit()
		must(t, rig(s.server, s.server.Dir, "", "check", "--all"), 0, "clean")
		if r := s.read(s.base).thread("late"); len(r.Refused) > 0 || len(r.Envelopes) != 1 || r.Envelopes[0].Verdict.State != "unsigned" {
			t.Fatalf("a reader is told %+v", r)
		}
	}
	clean()
	s.accepted(s.commit(opts{files: map[string]string{"notes/REQUEST.md": s.plain("notes", "rig-b", "REQUEST", "Is this a thread?\n")}}))
	clean()

	// Attacks: in one push the order does not matter, and from now on it is a thread.
	one := s.commit(opts{files: map[string]string{"more/README.md": "no envelope\n"}})
	s.refusedOnly(s.commit(opts{parents: []string{one}, files: map[string]string{"more/REQUEST.md": s.plain("more", "rig-b", "REQUEST", "Is it?\n")}}), "envelope-parse")
	edit := s.commit(opts{files: map[string]string{"notes/README.md": "still none\n"}})
	s.refusedOnly(edit, "envelope-parse")
	s.forced(edit)
	s.audit()
	must(t, rig(s.server, s.server.Dir, "", "check", "--all"), 1, "[envelope-parse]")
}
