package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
)

// padded makes a text as long as that many bytes, or leaves it.
func padded(text string, size int) string {
	return text + strings.Repeat("x", max(0, size-len(text)-1)) + "\n"
}

// forged is a relay that nobody signed.
func (s *scene) forged(thread, body string) string {
	f := s.decision(s.now)
	f.Thread, f.Body = thread, []byte(body)
	return s.render(f)
}

// serverPolicy gives the server a policy file of its own.
func (s *scene) serverPolicy(text string) {
	s.Helper()
	file := filepath.Join(s.server.Dir, "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
	s.server.Config("rigward.policy", file)
}

const limit = 8 << 20 // of a file, by default

// TestAccepted: what an accepted envelope is follows from history and path
// alone, at every gate. Attacks J01, J02, J03, their kin and their neighbours.
func TestAccepted(t *testing.T) {
	junk := func(size int) string { return padded("no fence\n", size) }
	files := func(list ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(list); i += 2 {
			m[list[i]] = list[i+1]
		}
		return m
	}
	for name, play := range map[string]func(s *scene){
		"J01 a forged relay in the place of a large file": func(s *scene) {
			s.forced(s.commit(opts{files: files("big/DECISIONS.md", junk(9<<20))}))
			s.refused(s.commit(opts{files: files("big/DECISIONS.md", s.forged("big", "x\n"))}), true, []string{"commit-signed", "relay-reply"}, "relay-commit")
		},
		"J01 control: a plain envelope in its place": func(s *scene) {
			s.accepted(s.commit(opts{files: files("big/STATE.md", junk(9<<20))}))
			s.accepted(s.commit(opts{files: files("big/STATE.md", s.plain("big", "rig-a", "STATE", "x\n"))}))
		},
		"J01 control: edited and deleted, as long as it is not an envelope": func(s *scene) {
			s.accepted(s.commit(opts{files: files("big/STATE.md", junk(9<<20))}))
			s.accepted(s.commit(opts{files: files("big/STATE.md", junk(10<<20))}))
			s.accepted(s.commit(opts{remove: []string{"big/STATE.md"}}))
		},
		"J01 a file of 40 MiB, of which git sends only the beginning": func(s *scene) {
			s.forced(s.commit(opts{files: files("big/DECISIONS.md", junk(40<<20))}))
			s.refused(s.commit(opts{files: files("big/DECISIONS.md", s.forged("big", "x\n"))}), true, []string{"commit-signed", "relay-reply"}, "relay-commit")
		},
		"J01 at the limit and one byte over": func(s *scene) {
			s.forced(s.commit(opts{files: files("one/DECISIONS.md", junk(limit), "two/DECISIONS.md", junk(limit+1))}))
			s.refused(s.commit(opts{files: files("one/DECISIONS.md", s.forged("one", "x\n"))}), true, []string{"commit-signed", "relay-reply"}, "relay-commit")
		},
		"J01 in a thread": func(s *scene) {
			s.forced(s.commit(opts{files: files("big/DECISIONS.md", junk(9<<20))}))
			s.accepted(s.commit(opts{files: files("big/REQUEST.md", s.plain("big", "rig-a", "REQUEST", asked))}))
			s.refused(s.commit(opts{files: files("big/DECISIONS.md", s.forged("big", "x\n"))}), true, []string{"commit-signed"}, "relay-commit")
		},
		"J01 a symbolic link to no fence becomes a relay": func(s *scene) {
			s.accepted(s.commit(opts{files: files("big/DECISIONS.md", "elsewhere"), modes: files("big/DECISIONS.md", "120000")}))
			s.refused(s.commit(opts{files: files("big/DECISIONS.md", s.forged("big", "x\n"))}), true, []string{"commit-signed", "relay-reply"}, "relay-commit")
		},
		"a symbolic link whose target begins with a fence is refused": func(s *scene) {
			s.refused(s.commit(opts{files: files("big/DECISIONS.md", "---\nx"), modes: files("big/DECISIONS.md", "120000")}), true, []string{"envelope-path"})
		},
		"J02 a forged relay behind much else in one commit": func(s *scene) {
			s.refused(s.commit(opts{files: files("a1/X.md", junk(7<<20), "a2/X.md", junk(7<<20), "a3/X.md", junk(7<<20),
				"big/DECISIONS.md", padded(s.forged("big", "x\n"), 9<<20))}), true, []string{"envelope-parse"})
		},
		"J02 within the limit": func(s *scene) {
			s.refused(s.commit(opts{files: files("a1/X.md", junk(7<<20), "a2/X.md", junk(7<<20), "a3/X.md", junk(7<<20),
				"big/DECISIONS.md", s.forged("big", padded("", 7<<20)))}), true, []string{"commit-signed", "relay-commit", "relay-reply"})
		},
		"J02 a fence one byte over the limit, among others": func(s *scene) {
			s.refused(s.commit(opts{files: files("a1/X.md", junk(7<<20), "a2/X.md", junk(7<<20), "a3/X.md", junk(limit+1),
				"big/STATE.md", padded(s.plain("big", "rig-a", "STATE", "x\n"), limit+1))}), true, []string{"envelope-parse"})
		},
		"J02 control: much without a fence": func(s *scene) {
			s.accepted(s.commit(opts{files: files("a1/X.md", junk(7<<20), "a2/X.md", junk(7<<20), "a3/X.md", junk(7<<20), "a4/X.md", junk(9<<20))}))
		},
		"J02 a pull in pieces: the file over the limit in a later commit": func(s *scene) {
			one := s.commit(opts{files: files("a1/X.md", junk(7<<20), "a2/X.md", junk(7<<20), "a3/X.md", junk(7<<20))})
			s.refused(s.commit(opts{parents: []string{one}, files: files("big/DECISIONS.md", padded(s.forged("big", "x\n"), 9<<20))}), true, []string{"envelope-parse"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(newScene(t))
		})
	}
}

// TestAcceptedUnderOtherLimits: an envelope that came under other limits than
// those of now stays what it is (J03).
func TestAcceptedUnderOtherLimits(t *testing.T) {
	// The repository's own policy, changed by who may.
	lower := func(s *scene, text string) {
		s.Helper()
		s.forced(s.commit(opts{key: keyA, files: map[string]string{".bridge/policy.yaml": "version: 1\nrevoked: .bridge/revoked\n" + text}}))
	}
	one := func(path, text string) map[string]string { return map[string]string{path: text} }
	for name, play := range map[string]func(s *scene){
		"J03 an edit": func(s *scene) {
			s.forced(s.commit(opts{files: one("long/STATE.md", s.plain("long", "rig-a", "STATE", padded("", 5000)))}))
			lower(s, "limits: {file: 2000}\n")
			s.refused(s.commit(opts{files: one("long/STATE.md", s.plain("long", "rig-a", "STATE", "Other.\n"))}), true, []string{"append-only"})
		},
		"J03 a deletion": func(s *scene) {
			s.forced(s.commit(opts{files: one("long/STATE.md", s.plain("long", "rig-a", "STATE", padded("", 5000)))}))
			lower(s, "limits: {file: 2000}\n")
			s.refused(s.commit(opts{remove: []string{"long/STATE.md"}}), true, []string{"append-only"})
		},
		"J03 its front matter is over the limit": func(s *scene) {
			s.forced(s.commit(opts{files: one("long/STATE.md", s.plain("long", "rig-a", "STATE", "x\n"))}))
			lower(s, "limits: {frontmatter: 100}\n")
			s.refused(s.commit(opts{remove: []string{"long/STATE.md"}}), true, []string{"append-only"})
		},
		"J03 a link, a rename, another mode": func(s *scene) {
			text := s.plain("long", "rig-a", "STATE", padded("", 5000))
			s.forced(s.commit(opts{files: one("long/STATE.md", text)}))
			lower(s, "limits: {file: 2000}\n")
			for _, o := range []opts{
				{files: one("long/STATE.md", "elsewhere"), modes: one("long/STATE.md", "120000")},
				{files: one("long/OTHER.md", text), remove: []string{"long/STATE.md"}},
				{files: one("long/STATE.md", text), modes: one("long/STATE.md", "100755")},
			} {
				tip := s.commit(o)
				if res := s.push(tip, "refs/heads/main"); res.Code == 0 || !strings.Contains(res.Stderr, "[append-only]") {
					s.Errorf("exit %d:\n%s", res.Code, res.Stderr)
				}
			}
		},
		"J03 a merge that takes the side without it": func(s *scene) {
			s.forced(s.commit(opts{files: one("long/STATE.md", s.plain("long", "rig-a", "STATE", padded("", 5000)))}))
			lower(s, "limits: {file: 2000}\n")
			first := strings.TrimSpace(s.repo.Run("rev-parse", s.base+"~2"))
			side := s.commit(opts{parents: []string{first}, files: one("t-one/STATE.md", s.plain("t-one", "rig-a", "STATE", "x\n"))})
			s.refused(s.commit(opts{parents: []string{side, s.base}}), true, []string{"append-only", "commit-signed", "signers-change"}, "divergence")
		},
		"J03 control: a new one beside it, in answer to it": func(s *scene) {
			s.forced(s.commit(opts{files: one("t-one/STATE.md", s.plain("t-one", "rig-a", "STATE", padded("", 5000)))}))
			lower(s, "limits: {file: 2000}\n")
			hash := hashOf(padded("", 5000))
			s.accepted(s.relayed(opts{}, func(f *envelope.Fields) { f.InReplyTo = hash }))
		},
		"J03 control: raised again": func(s *scene) {
			s.forced(s.commit(opts{files: one("long/STATE.md", s.plain("long", "rig-a", "STATE", padded("", 5000)))}))
			lower(s, "limits: {file: 2000}\n")
			s.refusedOnly(s.commit(opts{files: one("long/MORE.md", s.plain("long", "rig-a", "STATE", padded("", 5000)))}), "envelope-parse")
			lower(s, "limits: {file: 10000}\n")
			s.accepted(s.commit(opts{files: one("long/MORE.md", s.plain("long", "rig-a", "STATE", padded("", 5000)))}))
			s.refused(s.commit(opts{remove: []string{"long/STATE.md"}}), true, []string{"append-only"})
		},
		"J03 the nonce of a relay over the limit stays used": func(s *scene) {
			var nonce string
			s.accepted(s.relayed(opts{}, func(f *envelope.Fields) { f.Body = []byte(padded("", 5000)); nonce = f.Nonce }))
			lower(s, "limits: {file: 2000}\n")
			s.refused(s.relayed(opts{}, func(f *envelope.Fields) { f.Nonce = nonce; f.Thread, f.InReplyTo = "other", hashOf(foreign) }), true, []string{"relay-nonce"})
		},
		"J07 the nonce of a relay with a CR of its own, from a time when that was taken, stays used": func(s *scene) {
			var nonce, path string
			id := s.relayed(opts{}, func(f *envelope.Fields) {
				nonce = f.Nonce
				path = f.Thread + "/RELAY-" + strings.ToUpper(nonce) + ".md"
			})
			text := strings.Replace(s.repo.Run("cat-file", "blob", id+":"+path)+"\n", "\nto: ", " # a remark\rto: ", 1)
			s.forced(s.commit(opts{files: one(path, text), key: keyA}))
			s.refused(s.relayed(opts{}, func(f *envelope.Fields) { f.Nonce = nonce; f.Thread, f.InReplyTo = "other", hashOf(foreign) }), true, []string{"relay-nonce"})
			s.refused(s.commit(opts{files: one(path, strings.Replace(text, "\r", "\n", 1))}), true, []string{"append-only"}, "relay-commit", "commit-signed")
			s.accepted(s.relayed(opts{}, nil))
		},
		"J03 a thread closed by an envelope over the limit is closed": func(s *scene) {
			s.accepted(s.commit(opts{files: one("t-one/RESOLUTION.md", s.plain("t-one", "rig-a", "RESOLUTION", padded("", 5000)))}))
			lower(s, "limits: {file: 2000}\n")
			s.accepted(s.commit(opts{files: one("t-one/STATE.md", s.plain("t-one", "rig-a", "STATE", "x\n"))}), "thread-closed")
		},
		"a limit that is only a warning lets no relay pass unread": func(s *scene) {
			s.serverPolicy("version: 1\nlimits: {file: 2000}\nrules: {envelope-parse: warning}\n")
			s.refusedOnly(s.commit(opts{files: one("t-one/RELAY.md", s.forged("t-one", padded("", 5000)))}), "commit-signed")
			s.accepted(s.commit(opts{files: one("t-one/STATE.md", s.plain("t-one", "rig-a", "STATE", padded("", 5000)))}), "envelope-parse")
			s.accepted(s.relayed(opts{}, func(f *envelope.Fields) { f.Body = []byte(padded("", 5000)) }), "envelope-parse")
		},
		"front matter over a limit that is only a warning": func(s *scene) {
			s.serverPolicy("version: 1\nlimits: {frontmatter: 100}\nrules: {envelope-parse: warning}\n")
			s.refusedOnly(s.commit(opts{files: one("t-one/RELAY.md", s.forged("t-one", "x\n"))}), "commit-signed")
			s.accepted(s.relayed(opts{}, nil), "envelope-parse")
		},
		"where changes are allowed, what replaces an envelope is new": func(s *scene) {
			s.serverPolicy("version: 1\nrules: {append-only: warning}\n")
			s.forced(s.commit(opts{files: one("t-one/STATE.md", s.plain("t-one", "rig-a", "STATE", "x\n"))}))
			s.refusedOnly(s.commit(opts{files: one("t-one/STATE.md", s.forged("t-one", "x\n"))}), "commit-signed")
			s.accepted(s.commit(opts{files: one("t-one/STATE.md", s.plain("t-one", "rig-a", "STATE", "y\n"))}), "append-only")
		},
		"root moves: what lies at the new place is accepted as it is": func(s *scene) {
			s.forced(s.commit(opts{files: one("below/t-one/STATE.md", s.plain("t-one", "rig-a", "STATE", "x\n"))}))
			s.accepted(s.commit(opts{files: one("below/t-one/STATE.md", s.plain("t-one", "rig-a", "STATE", "y\n"))})) // nobody's business yet
			lower(s, "envelopes: {root: below}\n")
			s.refused(s.commit(opts{files: one("below/t-one/STATE.md", s.plain("t-one", "rig-a", "STATE", "z\n"))}), true, []string{"append-only"})
		},
		"an ignored thread is free, and what lies there when it is not any more is accepted": func(s *scene) {
			s.serverPolicy("version: 1\nenvelopes: {ignore: [\"free/**\"]}\n")
			s.accepted(s.commit(opts{files: one("free/STATE.md", s.forged("free", "x\n"))}))
			s.accepted(s.commit(opts{files: one("free/STATE.md", s.plain("free", "rig-a", "STATE", "y\n"))}))
			s.serverPolicy("version: 1\n")
			s.refusedOnly(s.commit(opts{remove: []string{"free/STATE.md"}}), "append-only")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(newScene(t))
		})
	}
}

// refusedOnly expects that the server refuses tip and names a rule; others
// may be named, too.
func (s *scene) refusedOnly(tip, rule string) {
	s.Helper()
	if res := s.push(tip, "refs/heads/main"); res.Code == 0 || !strings.Contains(unwrapped(res.Stderr), "["+rule+"]") {
		s.Errorf("exit %d, expected a refusal by %s:\n%s", res.Code, rule, res.Stderr)
	}
}

// TestFileWithoutFenceInAThread: what never was an envelope is not kept like
// one, though it lies beside some.
func TestFileWithoutFenceInAThread(t *testing.T) {
	t.Parallel()
	for i, o := range []opts{
		{remove: []string{"later/NOTES.md"}},
		{files: map[string]string{"later/NOTES.md": "---\n"}},
	} {
		s := newScene(t)
		s.forced(s.commit(opts{files: map[string]string{"later/NOTES.md": "Notes\n"}}))
		beside := s.commit(opts{files: map[string]string{"later/REQUEST.md": s.plain("later", "rig-a", "REQUEST", "x\n")}})
		if i == 0 {
			s.accepted(beside)
		} else {
			s.forced(beside)
		}
		tip := s.commit(o)
		if i == 0 {
			s.accepted(tip)
			continue
		}
		s.refused(tip, true, []string{"envelope-parse"})
	}
}
