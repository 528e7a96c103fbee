package hooks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
)

// An attack is one row of docs/spec/relay.md#attacks. What is made of the base alone
// is judged with all others of its kind at once; the rest in scenes of their own.
type attack struct {
	row     string
	rules   string // that every gate names
	also    string // that may be named besides
	do      func(s *scene) string
	passes  func(s *scene) string // the lawful neighbour, "" where the table has none
	control func(s *scene)        // in its place, where it takes more than one push
	server  bool                  // only a server can tell, and its clock
	pushes  bool                  // the attack itself takes a push before
}

func set(change func(f *envelope.Fields)) func(s *scene) string {
	return func(s *scene) string { return s.relayed(opts{}, change) }
}

func good(s *scene) string { return s.relayed(opts{}, nil) }

func goodIf(o func(s *scene) opts, change func(f *envelope.Fields)) func(s *scene) string {
	return func(s *scene) string { return s.relayed(o(s), change) }
}

func withKey(k *testkeys.Key) func(s *scene) opts { return func(*scene) opts { return opts{key: k} } }

// mangled signs with key A, then changes the object.
func mangled(change func(string) string) func(s *scene) string {
	return func(s *scene) string {
		return s.relayed(opts{raw: func(p []byte) []byte { return []byte(change(string(testkeys.SignCommit(p, keyA)))) }}, nil)
	}
}

func dropField(key string) func(s *scene) string {
	return func(s *scene) string {
		f := s.decision(s.now)
		var out []string
		for line := range strings.Lines(s.render(f)) {
			if !strings.HasPrefix(line, key+":") {
				out = append(out, line)
			}
		}
		return s.commit(opts{key: keyA, files: map[string]string{"t-one/RELAY-x.md": strings.Join(out, "")}})
	}
}

var attacks = []attack{
	{row: "1 nonce of an earlier relay, same thread", rules: "relay-nonce", passes: good,
		do: func(s *scene) string {
			n := s.nonce0
			return s.relayedAs("t-one/RELAY-again.md", func(f *envelope.Fields) { f.Nonce = n })
		}},
	{row: "2 same nonce in another thread", rules: "relay-nonce", passes: goodIf(withKey(nil), func(f *envelope.Fields) { f.Thread, f.InReplyTo = "other", hashOf(foreign) }),
		do: func(s *scene) string {
			n := s.nonce0
			return s.relayed(opts{}, func(f *envelope.Fields) { f.Nonce, f.Thread, f.InReplyTo = n, "other", hashOf(foreign) })
		}},
	{row: "3 same nonce on a side branch, then merged", pushes: true, rules: "relay-nonce", also: "divergence",
		do: func(s *scene) string {
			first := s.parent(s.base)
			n := s.nonce0
			side := s.relayedFrom(first, "t-one/RELAY-side.md", func(f *envelope.Fields) { f.Nonce = n })
			if res := s.push(side, "refs/heads/side"); res.Code != 0 {
				s.Fatalf("the side branch was refused:\n%s", res.Stderr)
			}
			return s.merge(side)
		},
		control: func(s *scene) {
			side := s.relayedFrom(s.parent(s.base), "t-one/RELAY-side.md", nil)
			s.accepted(s.merge(side), "divergence")
		}},
	{row: "4 relay file copied to a second name", rules: "relay-nonce", also: "relay-author relay-key sender-key signer-identity relay-clock commit-signed",
		do: func(s *scene) string {
			return s.commit(opts{key: keyB, author: "Bob <bob@example.com>", files: map[string]string{"t-one/COPY.md": s.relay0Text}})
		}},
	{row: "5 relay file copied into another thread", rules: "envelope-path", also: "relay-nonce relay-reply relay-clock", passes: goodIf(withKey(nil), func(f *envelope.Fields) { f.Thread, f.InReplyTo = "other", hashOf(foreign) }),
		do: func(s *scene) string {
			return s.commit(opts{key: keyA, files: map[string]string{"other/COPY.md": s.relay0Text}})
		}},
	{row: "6 nonce in lower case", rules: "relay-nonce", do: set(func(f *envelope.Fields) { f.Nonce = strings.ToLower(f.Nonce) }), passes: good},
	{row: "6 nonce with I L O U", rules: "relay-nonce", do: set(func(f *envelope.Fields) { f.Nonce = f.Nonce[:22] + "ILOU" })},
	{row: "6 nonce of 27 characters", rules: "relay-nonce", do: set(func(f *envelope.Fields) { f.Nonce += "0" })},
	{row: "6 nonce beginning with 8", rules: "relay-nonce", do: set(func(f *envelope.Fields) { f.Nonce = "8" + f.Nonce[1:] }),
		passes: goodIf(withKey(nil), func(f *envelope.Fields) { f.Nonce = f.Nonce[:10] + "-" + f.Nonce[10:20] })},
	{row: "7 in_reply_to of no envelope", rules: "relay-reply", do: set(func(f *envelope.Fields) { f.InReplyTo = hashOf("nobody said this\n") }), passes: good},
	{row: "8 in_reply_to of another thread only", rules: "relay-reply", do: set(func(f *envelope.Fields) { f.InReplyTo = hashOf(foreign) }),
		control: func(s *scene) {
			s.accepted(s.commit(opts{at: s.now.Add(-time.Second), files: map[string]string{"t-one/STATE.md": s.plain("t-one", "rig-b", "STATE", foreign)}}))
			s.accepted(s.relayed(opts{}, func(f *envelope.Fields) { f.InReplyTo = hashOf(foreign) }))
		}},
	{row: "9 in_reply_to of its own body", rules: "relay-reply", do: set(func(f *envelope.Fields) { f.Body = []byte("Mine.\n"); f.InReplyTo = hashOf("Mine.\n") }),
		passes: goodIf(withKey(nil), func(f *envelope.Fields) { f.Body = []byte(asked) })},
	{row: "10 of an envelope in the same commit", rules: "relay-reply relay-commit sender-key",
		do: func(s *scene) string {
			return s.relayed(opts{files: map[string]string{"t-one/STATE.md": s.plain("t-one", "rig-b", "STATE", "New.\n")}}, func(f *envelope.Fields) { f.InReplyTo = hashOf("New.\n") })
		},
		passes: func(s *scene) string {
			c := s.commit(opts{at: s.now.Add(-time.Second), files: map[string]string{"t-one/STATE.md": s.plain("t-one", "rig-b", "STATE", "New.\n")}})
			return s.relayed(opts{parents: []string{c}}, func(f *envelope.Fields) { f.InReplyTo = hashOf("New.\n") })
		}},
	{row: "11 of an envelope in a later commit", rules: "relay-reply",
		do: func(s *scene) string {
			r := s.relayed(opts{}, func(f *envelope.Fields) { f.InReplyTo = hashOf("Later.\n") })
			return s.commit(opts{parents: []string{r}, files: map[string]string{"t-one/STATE.md": s.plain("t-one", "rig-b", "STATE", "Later.\n")}})
		}},
	{row: "12 of an envelope on an unmerged side branch", rules: "relay-reply", also: "divergence",
		do: func(s *scene) string {
			side := s.commit(opts{at: s.now.Add(-time.Second), files: map[string]string{"t-one/STATE.md": s.plain("t-one", "rig-b", "STATE", "Aside.\n")}})
			r := s.relayed(opts{}, func(f *envelope.Fields) { f.InReplyTo = hashOf("Aside.\n") })
			return s.mergeOf(r, side)
		},
		passes: func(s *scene) string {
			side := s.commit(opts{at: s.now.Add(-time.Second), files: map[string]string{"t-one/STATE.md": s.plain("t-one", "rig-b", "STATE", "Aside.\n")}})
			m := s.merge(side)
			return s.relayed(opts{parents: []string{m}}, func(f *envelope.Fields) { f.InReplyTo = hashOf("Aside.\n") })
		}},
	{row: "13 author someone else", rules: "relay-author", passes: good,
		do: func(s *scene) string {
			return s.relayed(opts{author: "Chief <chief@example.com>", committer: operator}, nil)
		}},
	{row: "14 committer no principal of the key", rules: "signer-identity", also: "relay-author",
		do:     func(s *scene) string { return s.relayed(opts{author: "Chief <chief@example.com>"}, nil) },
		passes: goodIf(func(*scene) opts { return opts{key: keyW, author: "W <anyone@wild.example>"} }, nil)},
	{row: "15 negated principal", rules: "signer-identity", also: "relay-author",
		do:     func(s *scene) string { return s.relayed(opts{key: keyN, author: "N <op@neg.example>"}, nil) },
		passes: goodIf(func(*scene) opts { return opts{key: keyN, author: "N <other@neg.example>"} }, nil)},
	{row: "16 unsigned", rules: "commit-signed", passes: good,
		do: func(s *scene) string { return s.relayed(opts{raw: func(p []byte) []byte { return p }}, nil) }},
	{row: "17 key in no line", rules: "commit-signed", passes: good, do: func(s *scene) string { return s.relayed(opts{key: nobody}, nil) }},
	{row: "18 listed key for a rig that it may not speak for", rules: "sender-key",
		do:     func(s *scene) string { return s.relayed(opts{key: keyB, author: "Bob <bob@example.com>"}, nil) },
		passes: goodIf(func(*scene) opts { return opts{key: keyB, author: "Bob <bob@example.com>"} }, func(f *envelope.Fields) { f.From = "bob-relay" })},
	{row: "19 key expired, honest date", rules: "commit-signed", passes: good, do: func(s *scene) string { return s.relayed(opts{key: keyOld}, nil) }},
	{row: "20 key expired, date set back", rules: "commit-signed commit-clock", server: true, passes: good,
		do: func(s *scene) string { return s.relayed(opts{key: keyOld, at: s.now.Add(-2 * time.Hour)}, nil) }},
	{row: "22 revoked key", rules: "commit-signed", passes: good, do: func(s *scene) string { return s.relayed(opts{key: keyR, at: s.now.Add(-2 * time.Minute)}, nil) }},
	{row: "23 namespace file", rules: "commit-signed",
		do: func(s *scene) string {
			return s.relayed(opts{raw: func(p []byte) []byte {
				return testkeys.SignCommitHeader(p, "gpgsig", testkeys.Armor(testkeys.Sign(p, keyA, "file", "sha512", "").Marshal()))
			}}, nil)
		},
		passes: goodIf(withKey(keyBoth), nil)},
	{row: "23 line for the namespace file", rules: "commit-signed", do: func(s *scene) string { return s.relayed(opts{key: keyFile}, nil) }},
	{row: "24 second gpgsig", rules: "commit-signed", do: mangled(func(c string) string {
		i, j := strings.Index(c, "gpgsig "), strings.Index(c, "\n\n")
		return c[:j+1] + c[i:j+1] + c[j+1:]
	})},
	{row: "24 gpgsigx", rules: "commit-signed", do: mangled(func(c string) string { return strings.Replace(c, "gpgsig ", "gpgsigx junk\ngpgsig ", 1) })},
	{row: "24 gpgsig-sha256 junk", rules: "commit-signed", do: mangled(func(c string) string { return strings.Replace(c, "gpgsig ", "gpgsig-sha256 junk\ngpgsig ", 1) })},
	{row: "24 gpgsig not the last header", rules: "commit-signed",
		do: func(s *scene) string {
			return s.relayed(opts{headers: "change-id abc\n", raw: func(p []byte) []byte {
				c := string(testkeys.SignCommit(p, keyA))
				c = strings.Replace(c, "change-id abc\n", "", 1)
				return []byte(strings.Replace(c, "\n\n", "\nchange-id abc\n\n", 1))
			}}, nil)
		},
		passes: func(s *scene) string {
			return s.relayed(opts{headers: "encoding ISO-8859-1\nchange-id abc\n"}, nil)
		}},
	{row: "25 text before the armor", rules: "commit-signed", do: mangled(func(c string) string { return strings.Replace(c, "gpgsig -----", "gpgsig text\n -----", 1) })},
	{row: "25 text after the armor", rules: "commit-signed", do: mangled(func(c string) string {
		return strings.Replace(c, "-----END SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\n text\n", 1)
	})},
	{row: "25 text in the armor", rules: "commit-signed", do: mangled(func(c string) string {
		return strings.Replace(c, "BEGIN SSH SIGNATURE-----\n", "BEGIN SSH SIGNATURE-----\n Comment: x\n", 1)
	})},
	{row: "25 CRLF in the armor", rules: "commit-signed", do: mangled(func(c string) string {
		return strings.Replace(c, "BEGIN SSH SIGNATURE-----\n", "BEGIN SSH SIGNATURE-----\r\n", 1)
	})},
	{row: "25 two armors", rules: "commit-signed", do: mangled(func(c string) string {
		i, j := strings.Index(c, "gpgsig ")+7, strings.Index(c, "\n\n")
		return c[:j+1] + " " + c[i:j+1] + c[j+1:]
	})},
	{row: "25 longer lines", rules: "commit-signed", do: mangled(func(c string) string {
		i := strings.Index(c, "BEGIN SSH SIGNATURE-----\n ") + len("BEGIN SSH SIGNATURE-----\n ")
		return c[:i+70] + c[i+72:]
	})},
	{row: "26 two trees", rules: "commit-signed", do: mangled(func(c string) string { return c[:46] + c })},
	{row: "26 two authors", rules: "commit-signed", do: mangled(func(c string) string {
		i, j := strings.Index(c, "author "), strings.Index(c, "committer ")
		return c[:j] + c[i:j] + c[j:]
	})},
	{row: "26 two committers", rules: "commit-signed", do: mangled(func(c string) string {
		i, j := strings.Index(c, "committer "), strings.Index(c, "gpgsig ")
		return c[:j] + c[i:j] + c[j:]
	})},
	{row: "27 signature of another commit", rules: "commit-signed",
		do: func(s *scene) string {
			return s.relayed(opts{raw: func(p []byte) []byte {
				return testkeys.SignCommitHeader(p, "gpgsig", testkeys.Armor(testkeys.Sign([]byte("another"), keyA, "git", "sha512", "").Marshal()))
			}}, nil)
		},
		passes: func(s *scene) string { return s.relayed(opts{message: "Signed\r\nas it is\r\n"}, nil) }},
	{row: "27 message amended after signing", rules: "commit-signed", do: mangled(func(c string) string { return c + "More.\n" })},
	{row: "28 OpenPGP", rules: "commit-signed", do: func(s *scene) string {
		return s.relayed(opts{raw: func(p []byte) []byte {
			return testkeys.SignCommitHeader(p, "gpgsig", []byte("-----BEGIN PGP SIGNATURE-----\n\niHUEABYK\n-----END PGP SIGNATURE-----\n"))
		}}, nil)
	}},
	{row: "28 X.509", rules: "commit-signed", do: func(s *scene) string {
		return s.relayed(opts{raw: func(p []byte) []byte {
			return testkeys.SignCommitHeader(p, "gpgsig", []byte("-----BEGIN SIGNED MESSAGE-----\nMIIB\n-----END SIGNED MESSAGE-----\n"))
		}}, nil)
	}},
	{row: "28 certificate of no listed authority", rules: "commit-signed",
		do: func(s *scene) string {
			return s.relayed(opts{key: nobody.Certify(nobody, testkeys.Cert{Principals: []string{"op@example.com", "op-relay"}})}, nil)
		},
		passes: func(s *scene) string {
			tip := s.base
			for _, k := range []*testkeys.Key{keyEC, keyRSA, keySK, nobody.Certify(keyCA, testkeys.Cert{Principals: []string{"op@example.com", "op-relay"}})} {
				tip = s.relayed(opts{parents: []string{tip}, key: k}, nil)
			}
			return tip
		}},
	{row: "28 certificate that names an authority which did not make it", rules: "commit-signed", do: func(s *scene) string {
		return s.relayed(opts{key: nobody.Certify(nobody, testkeys.Cert{Principals: []string{"op@example.com", "op-relay"}, Claims: keyCA})}, nil)
	}},
	{row: "29 attested_by of another key", rules: "relay-key", do: set(func(f *envelope.Fields) { f.AttestedBy = keyB.Fingerprint() }),
		passes: goodIf(withKey(nil), func(f *envelope.Fields) { f.AttestedBy += "=" })},
	{row: "30 key literal of another key", rules: "relay-key", do: set(func(f *envelope.Fields) { f.AttestedBy = "key::" + keyB.Authorized() }),
		passes: goodIf(withKey(nil), func(f *envelope.Fields) {
			f.AttestedBy = "key::" + strings.TrimSpace(keyA.Authorized()) + " other comment"
		})},
	{row: "30 OpenPGP id", rules: "relay-key", do: set(func(f *envelope.Fields) { f.AttestedBy = "0xDEADBEEFDEADBEEF" })},
	{row: "32 attested 601 s after", rules: "relay-clock", do: func(s *scene) string {
		return s.relayed(opts{}, func(f *envelope.Fields) { f.AttestedAt = s.now.Add(601 * time.Second).UTC().Format(time.RFC3339) })
	}, passes: func(s *scene) string {
		return s.relayed(opts{}, func(f *envelope.Fields) { f.AttestedAt = s.now.Add(600 * time.Second).UTC().Format(time.RFC3339) })
	}},
	{row: "32 attested 601 s before", rules: "relay-clock", do: func(s *scene) string {
		return s.relayed(opts{}, func(f *envelope.Fields) { f.AttestedAt = s.now.Add(-601 * time.Second).UTC().Format(time.RFC3339) })
	}, passes: func(s *scene) string {
		return s.relayed(opts{}, func(f *envelope.Fields) { f.AttestedAt = s.now.Add(-600 * time.Second).UTC().Format(time.RFC3339) })
	}},
	{row: "32 another offset for a UTC time", rules: "relay-clock", do: func(s *scene) string {
		return s.relayed(opts{}, func(f *envelope.Fields) { f.AttestedAt = s.now.UTC().Format("2006-01-02T15:04:05") + "+02:00" })
	}, passes: func(s *scene) string {
		return s.relayed(opts{}, func(f *envelope.Fields) { f.AttestedAt = s.now.In(time.FixedZone("", 7200)).Format(time.RFC3339) })
	}},
	{row: "33 committer date ahead of the server", rules: "commit-clock", also: "relay-clock", server: true,
		do:     func(s *scene) string { return s.relayed(opts{at: time.Now().Add(330 * time.Second)}, nil) },
		passes: func(s *scene) string { return s.relayed(opts{at: time.Now().Add(270 * time.Second)}, nil) }},
	{row: "33 committer date before its parent", rules: "commit-clock", server: true,
		do: func(s *scene) string {
			return s.relayed(opts{at: s.now.Add(-3*time.Minute + time.Second - 301*time.Second)}, nil)
		},
		passes: func(s *scene) string {
			return s.relayed(opts{at: s.now.Add(-3*time.Minute + time.Second - 300*time.Second)}, nil)
		}},
	{row: "34 attestation by a rig that is not a relay", rules: "relay-suffix", also: "sender-key", passes: good, do: set(func(f *envelope.Fields) { f.From = "op" })},
	{row: "35 relay without attestation", rules: "relay-suffix", passes: good,
		do: func(s *scene) string {
			return s.commit(opts{key: keyA, files: map[string]string{"t-one/STATE.md": s.plain("t-one", "op-relay", "STATE", "Plain.\n")}})
		}},
	{row: "36 without attested_by", rules: "relay-fields", do: dropField("attested_by"), passes: good},
	{row: "36 without attested_at", rules: "relay-fields", do: dropField("attested_at")},
	{row: "36 without nonce", rules: "relay-fields", do: dropField("nonce")},
	{row: "36 without in_reply_to", rules: "relay-fields", do: dropField("in_reply_to")},
	{row: "36 without body_hash", rules: "relay-fields", do: dropField("body_hash")},
	{row: "38 body edited, hash kept", rules: "body-hash",
		do: func(s *scene) string {
			return s.relayed(opts{}, func(f *envelope.Fields) { f.BodyHash = hashOf("What was said.\n") })
		},
		passes: func(s *scene) string {
			f := s.decision(s.now)
			return s.commit(opts{key: keyA, files: map[string]string{"t-one/RELAY-x.md": s.render(f) + "  \n\t\n"}})
		}},
	{row: "39 push adds its own key and uses it", rules: "commit-signed signers-change",
		do: func(s *scene) string {
			c := s.commit(opts{key: nobody, at: s.now.Add(-time.Second), files: map[string]string{".bridge/allowed_signers": sceneSigners(s.now) + nobody.Line("op@example.com,op-relay", "")}})
			return s.relayed(opts{parents: []string{c}, key: nobody}, nil)
		}},
	{row: "40 edit signed by key A, used in the same push", rules: "commit-signed",
		do: func(s *scene) string {
			c := s.commit(opts{key: keyA, at: s.now.Add(-time.Second), files: map[string]string{".bridge/allowed_signers": sceneSigners(s.now) + nobody.Line("op@example.com,op-relay", "")}})
			return s.relayed(opts{parents: []string{c}, key: nobody}, nil)
		},
		control: func(s *scene) {
			s.accepted(s.commit(opts{key: keyA, at: s.now.Add(-time.Second), files: map[string]string{".bridge/allowed_signers": sceneSigners(s.now) + nobody.Line("op@example.com,op-relay", "")}}))
			s.accepted(s.relayed(opts{key: nobody}, nil))
		}},
	{row: "41 foreign file in the relay's commit", rules: "relay-commit", do: func(s *scene) string { return s.relayed(opts{files: map[string]string{"notes.txt": "x"}}, nil) }, passes: good},
	{row: "41 two relays in one commit", rules: "relay-commit", do: func(s *scene) string {
		f := s.decision(s.now)
		return s.relayed(opts{files: map[string]string{"t-one/RELAY-two.md": s.render(f)}}, nil)
	}},
	{row: "41 relay added by a merge", rules: "relay-commit", do: func(s *scene) string {
		side := s.commit(opts{at: s.now.Add(-time.Second), files: map[string]string{"notes.txt": "x"}})
		return s.relayed(opts{parents: []string{s.base, side}, files: map[string]string{"notes.txt": "x"}}, nil)
	}, passes: func(s *scene) string {
		side := s.commit(opts{at: s.now.Add(-time.Second), files: map[string]string{"notes.txt": "x"}})
		return s.relayed(opts{parents: []string{s.merge(side)}}, nil)
	}},
	{row: "42 forge squash of the relay's commit", rules: "commit-signed", do: func(s *scene) string {
		return s.relayed(opts{author: "Operator <op@example.com>", committer: "Forge <noreply@forge.example>", raw: func(p []byte) []byte { return p }}, nil)
	}, passes: func(s *scene) string { return s.mergeBy("Forge <noreply@forge.example>", s.relayed(opts{}, nil)) }},
	{row: "43 accepted relay edited", rules: "append-only", also: "body-hash relay-clock relay-nonce", do: func(s *scene) string {
		return s.commit(opts{key: keyA, files: map[string]string{s.relay0: s.relay0Text + "More.\n"}})
	}},
	{row: "43 answered turn edited", rules: "append-only", do: func(s *scene) string {
		return s.commit(opts{files: map[string]string{"t-one/REQUEST.md": s.plain("t-one", "rig-a", "REQUEST", "Is it late?\n")}})
	}},
	{row: "43 accepted relay moved", rules: "append-only", also: "relay-commit relay-nonce relay-clock", do: func(s *scene) string {
		return s.commit(opts{key: keyA, remove: []string{s.relay0}, files: map[string]string{"t-one/MOVED.md": s.relay0Text}})
	}},
	{row: "43 accepted relay deleted", rules: "append-only", do: func(s *scene) string { return s.commit(opts{key: keyA, remove: []string{s.relay0}}) }},
	{row: "43 accepted relay executable", rules: "append-only envelope-path", do: func(s *scene) string {
		return s.commit(opts{key: keyA, files: map[string]string{s.relay0: s.relay0Text}, modes: map[string]string{s.relay0: "100755"}})
	}},
	{row: "43 accepted relay made a link", rules: "append-only envelope-path", do: func(s *scene) string {
		return s.commit(opts{key: keyA, files: map[string]string{s.relay0: "/etc/passwd"}, modes: map[string]string{s.relay0: "120000"}})
	}},
}

// relayedAs is relayed at a path of its own.
func (s *scene) relayedAs(path string, change func(*envelope.Fields)) string {
	return s.relayedFrom(s.base, path, change)
}

func (s *scene) relayedFrom(parent, path string, change func(*envelope.Fields)) string {
	f := s.decision(s.now)
	if change != nil {
		change(&f)
	}
	return s.commit(opts{parents: []string{parent}, key: keyA, files: map[string]string{path: s.render(f)}})
}

// parent is the first parent of a commit of the scene.
func (s *scene) parent(id string) string { return s.parents[id][0] }

// merge merges a side branch into the base, bringing nothing of its own.
func (s *scene) merge(side string) string { return s.mergeOf(s.base, side) }

func (s *scene) mergeOf(a, b string) string { return s.mergeAs(operator, a, b) }

func (s *scene) mergeBy(who, side string) string { return s.mergeAs(who, s.base, side) }

// mergeAs takes over what b has that the commit where both parted does not.
func (s *scene) mergeAs(who, a, b string) string {
	ofA, parted := s.ancestors(a), ""
	for id := range s.ancestors(b) {
		if ofA[id] && (parted == "" || s.ancestors(id)[parted]) {
			parted = id
		}
	}
	taken := map[string]gittest.File{}
	for path, f := range s.files(b) {
		if s.files(parted)[path] != f {
			taken[path] = f
		}
	}
	return s.commit(opts{parents: []string{a, b}, taken: taken, author: who, message: "Merge\n"})
}

// ancestors are a commit of the scene and all that it comes after.
func (s *scene) ancestors(id string) map[string]bool {
	all := map[string]bool{id: true}
	for _, p := range s.parents[id] {
		maps.Copy(all, s.ancestors(p))
	}
	return all
}

// Pushes that are judged in one call of a hook: each to a branch of its own,
// which stands at the base.
type pushes struct {
	*scene
	lines strings.Builder
	tips  []string
	of    map[string]int // the commits that each brings, by their ids
}

// add adds a push of what do makes.
func (p *pushes) add(do func(s *scene) string) {
	p.Helper()
	before := maps.Clone(p.held)
	tip := do(p.scene)
	for id := range p.held {
		if before[id] == nil {
			p.of[id] = len(p.tips)
		}
	}
	ref := p.ref(len(p.tips))
	p.server.SetRef(ref, p.base)
	p.lines.WriteString(p.base + " " + tip + " " + ref + "\n")
	p.tips = append(p.tips, tip)
}

func (p *pushes) ref(i int) string { return fmt.Sprintf("refs/heads/push-%03d", i) }

// judged gives all of them to a gate at once, which is to end with that exit code, and
// returns the rules that it names for each.
func (p *pushes) judged(code int, gate ...string) []string {
	p.Helper()
	p.sent()
	res := rig(p.server, p.server.Dir, p.lines.String(), append(gate, "--format", "json")...)
	var said struct {
		Findings []struct{ Rule, Commit string }
	}
	if err := json.Unmarshal([]byte(res.Stdout), &said); err != nil || res.Code != code {
		p.Fatalf("%s: exit %d, expected %d, %v\n%s%s", gate, res.Code, code, err, res.Stdout, res.Stderr)
	}
	rules := make([]string, len(p.tips))
	for _, f := range said.Findings {
		i, ok := p.of[f.Commit]
		if !ok {
			p.Errorf("%s: %s is named for %q, which none of them brings", gate, f.Rule, f.Commit)
			continue
		}
		rules[i] += "[" + f.Rule + "]"
	}
	return rules
}

// allPushes is a scene in which pushes are put together.
func allPushes(t *testing.T) *pushes {
	t.Helper()
	p := &pushes{scene: newScene(t), of: map[string]int{}}
	p.serverPolicy("version: 1\nrevoked: .bridge/revoked\nprotect: [\"refs/heads/*\"]\n")
	return p
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	pushed := map[string]bool{}
	bad, lawful := allPushes(t), allPushes(t)
	var at []attack
	for _, a := range attacks {
		// The first of each kind is pushed, and so is what needs a server as it is.
		if !pushed[a.rules] || a.server || a.pushes {
			pushed[a.rules] = true
			t.Run(a.row+", pushed", func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				s.refusedPush(a.do(s), !a.server, strings.Fields(a.rules), strings.Fields(a.also)...)
			})
		}
		if !a.server && !a.pushes {
			bad.add(a.do)
			at = append(at, a)
		}
		if a.control == nil && a.server {
			a.control = func(s *scene) { s.accepted(a.passes(s)) }
		}
		if a.control != nil {
			t.Run(a.row+", control", func(t *testing.T) {
				t.Parallel()
				a.control(newScene(t))
			})
		} else if a.passes != nil {
			lawful.add(a.passes)
		}
	}
	for _, kind := range []string{"REQUEST", "HANDOFF", "RESOLUTION", "STATE", "RESULT", "RECOVERY", "VERIFY"} {
		a := attack{row: "37 type " + kind, rules: "relay-fields", do: set(func(f *envelope.Fields) { f.Type = kind })}
		bad.add(a.do)
		at = append(at, a)
	}
	for _, kind := range []string{"DECISIONS", "RESPONSE", "ACK"} {
		lawful.add(func(s *scene) string { return s.relayed(opts{}, func(f *envelope.Fields) { f.Type = kind }) })
	}
	received, checked := bad.judged(1, "pre-receive"), bad.judged(1, "check", "--stdin")
	for i, a := range at {
		t.Run(a.row, func(t *testing.T) {
			s := *bad.scene
			s.T = t
			want, also := strings.Fields(a.rules), strings.Fields(a.also)
			s.names("pre-receive", received[i], want, also)
			s.names("check", checked[i], want, also)
			res := rig(s.server, s.server.Dir, "", "update", bad.ref(i), s.base, bad.tips[i])
			if res.Code != 1 {
				t.Errorf("update: exit %d", res.Code)
			}
			s.names("update", res.Stderr, want, also)
		})
	}
	for _, rules := range lawful.judged(0, "pre-receive") {
		if rules != "" {
			t.Errorf("a control gave %v", rules)
		}
	}
	for i, tip := range lawful.tips {
		must(t, rig(lawful.server, lawful.server.Dir, "", "update", lawful.ref(i), lawful.base, tip), 0)
	}
	t.Run("controls, pushed", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.accepted(good(s))
	})
	t.Run("31 attested_by is a path", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.accepted(s.relayed(opts{}, func(f *envelope.Fields) { f.AttestedBy = "/home/op/.ssh/id_ed25519.pub" }), "relay-key")
	})
}

// A window edge counts in UTC wherever the server stands (rows 21 and D05).
func TestWindowEdgeInEveryZone(t *testing.T) {
	t.Parallel()
	edge := time.Now().Truncate(time.Second).Add(-time.Minute)
	key := testkeys.Ed25519("relay edge")
	for _, tz := range []string{"UTC", "Asia/Tokyo", "America/New_York"} {
		t.Run(tz, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.forced(s.commit(opts{key: keyA, at: s.now.Add(-2 * time.Minute), files: map[string]string{
				".bridge/allowed_signers": sceneSigners(s.now) + key.Line("op@example.com,op-relay", `valid-after="`+edge.UTC().Format("20060102150405")+`"`)}}))
			s.repo.Setenv("TZ", tz)
			early := s.relayed(opts{key: key, at: edge.Add(-time.Second)}, nil)
			s.repo.Setenv("TZ", tz)
			if res := s.push(early, "refs/heads/main"); res.Code == 0 || !strings.Contains(res.Stderr, "not yet valid") {
				t.Errorf("one second early: exit %d\n%s", res.Code, res.Stderr)
			}
			s.accepted(s.relayed(opts{key: key, at: edge.Add(time.Second)}, nil))
		})
	}
}

// What is needed to decide must be there (row 44, case D09).
func TestMissingTrustIsNoPass(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(s *scene) opts{
		"signers missing": func(*scene) opts { return opts{remove: []string{".bridge/allowed_signers"}} },
		"signers empty":   func(*scene) opts { return opts{files: map[string]string{".bridge/allowed_signers": ""}} },
		"signers malformed": func(*scene) opts {
			return opts{files: map[string]string{".bridge/allowed_signers": "op@example.com not-a-key\n"}}
		},
		"signers a directory": func(*scene) opts {
			return opts{remove: []string{".bridge/allowed_signers"}, files: map[string]string{".bridge/allowed_signers/x": ""}}
		},
		"signers a link": func(*scene) opts {
			return opts{files: map[string]string{".bridge/allowed_signers": "/etc/passwd"}, modes: map[string]string{".bridge/allowed_signers": "120000"}}
		},
		"revocation file missing": func(*scene) opts { return opts{remove: []string{".bridge/revoked"}} },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			o := spoil(s)
			o.key, o.at = keyA, s.now.Add(-time.Second)
			s.forced(s.commit(o)) // it was there before the hooks were
			tip := s.relayed(opts{}, nil)
			res := s.push(tip, "refs/heads/main")
			if res.Code == 0 || !strings.Contains(res.Stderr, "cannot decide") {
				t.Errorf("pre-receive: exit %d\n%s", res.Code, res.Stderr)
			}
			cmd := exec.Command(program, "check", s.base+".."+tip)
			cmd.Dir, cmd.Env = s.repo.Dir, s.repo.Env
			if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 {
				t.Errorf("check: exit %d\n%s", cmd.ProcessState.ExitCode(), out)
			}
			// What needs no signature is decided all the same.
			s.accepted(s.commit(opts{files: map[string]string{"t-one/STATE.md": s.plain("t-one", "rig-b", "STATE", "Fine.\n")}}))
		})
	}
}

// A freeze holds for whom it must, as long as it must (row 46).
func TestFreeze(t *testing.T) {
	t.Parallel()
	on := "version: 1\nrules: {relay-frozen: error}\n"
	start := func(t *testing.T, policy string, age time.Duration) *scene {
		s := newScene(t)
		file := filepath.Join(s.server.Dir, "policy.yaml")
		if err := os.WriteFile(file, []byte(policy), 0o644); err != nil {
			t.Fatal(err)
		}
		s.server.Config("rigward.policy", file)
		s.server.Config("rigward.allowedSigners", filepath.Join(s.server.Dir, "signers"))
		if err := os.WriteFile(filepath.Join(s.server.Dir, "signers"), []byte(sceneSigners(s.now)), 0o644); err != nil {
			t.Fatal(err)
		}
		f := func(f *envelope.Fields) { f.Type, f.Status = "ACK", "⏸ deciding" }
		s.forced(s.relayed(opts{at: s.now.Add(-age)}, f))
		return s
	}
	handoff := func(s *scene) string {
		return s.commit(opts{files: map[string]string{"t-one/HANDOFF.md": s.plain("t-one", "rig-b", "HANDOFF", "On it.\n")}})
	}
	t.Run("HANDOFF on top", func(t *testing.T) {
		t.Parallel()
		s := start(t, on, time.Minute)
		res := s.push(handoff(s), "refs/heads/main")
		if res.Code == 0 || !slices.Equal(told(res.Stderr), []string{"relay-frozen"}) {
			t.Errorf("exit %d\n%s", res.Code, res.Stderr)
		}
	})
	t.Run("ACK on top", func(t *testing.T) {
		t.Parallel()
		s := start(t, on, time.Minute)
		s.accepted(s.commit(opts{files: map[string]string{"t-one/ACK.md": s.plain("t-one", "rig-b", "ACK", "Seen.\n")}}))
	})
	t.Run("after the thaw", func(t *testing.T) {
		t.Parallel()
		s := start(t, on, time.Minute)
		s.accepted(s.relayed(opts{at: s.now.Add(-time.Second)}, nil))
		s.accepted(handoff(s))
	})
	t.Run("after a thaw without attestation", func(t *testing.T) {
		t.Parallel()
		s := start(t, on, time.Minute)
		thaw := s.commit(opts{key: keyA, at: s.now.Add(-time.Second), files: map[string]string{"t-one/ACK-1.md": s.plain("t-one", "op-relay", "ACK", "Go on.\n")}})
		res := s.push(s.commit(opts{parents: []string{thaw}, files: map[string]string{"t-one/HANDOFF.md": s.plain("t-one", "rig-b", "HANDOFF", "On it.\n")}}), "refs/heads/main")
		if got := told(res.Stderr); res.Code == 0 || !slices.Contains(got, "relay-frozen") || !slices.Contains(got, "relay-suffix") {
			t.Errorf("exit %d, %v\n%s", res.Code, got, res.Stderr)
		}
	})
	t.Run("rule off", func(t *testing.T) {
		t.Parallel()
		s := start(t, "version: 1\n", time.Minute)
		s.accepted(handoff(s))
	})
	t.Run("after its time", func(t *testing.T) {
		t.Parallel()
		s := start(t, on+"relay: {freeze-minutes: 1}\n", 2*time.Minute)
		s.accepted(handoff(s))
	})
}

// Fifty pushes of one nonce at once to one ref: one is taken.
func TestOneNonceManyPushes(t *testing.T) {
	s := newScene(t)
	n := 12
	if os.Getenv("RIGWARD_STRESS") == "full" {
		n = 50
	}
	nonce := s.decision(s.now).Nonce
	tips := make([]string, n)
	for i := range tips {
		tips[i] = s.relayedAs(fmt.Sprintf("t-one/RELAY-%d.md", i), func(f *envelope.Fields) { f.Nonce = nonce })
	}
	results := make(chan int, n)
	for _, tip := range tips {
		go func() {
			cmd := exec.Command("git", "push", "-q", s.server.Dir, tip+":refs/heads/main")
			cmd.Dir, cmd.Env = s.repo.Dir, s.repo.Env
			_ = cmd.Run()
			results <- cmd.ProcessState.ExitCode()
		}()
	}
	taken := 0
	for range tips {
		if <-results == 0 {
			taken++
		}
	}
	if taken != 1 {
		t.Errorf("%d of %d pushes were taken, expected one", taken, n)
	}
	if got := strings.TrimSpace(s.server.Run("rev-list", "--count", s.base+"..main")); got != "1" {
		t.Errorf("%s commits came, expected one", got)
	}
}

// What a hostile review found: each was accepted once.
func TestReviewed(t *testing.T) {
	t.Parallel()
	fewer := func(s *scene) string {
		return strings.Replace(sceneSigners(s.now), keyB.Line("bob@example.com,bob-relay", ""), "", 1)
	}
	drop := func(s *scene) (before string) {
		before = s.base
		s.forced(s.commit(opts{key: keyA, at: s.now.Add(-time.Second), files: map[string]string{".bridge/allowed_signers": fewer(s)}}))
		return before
	}
	t.Run("a merge takes removed signers back", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		old := drop(s)
		s.refused(s.commit(opts{parents: []string{s.base, old}, files: map[string]string{".bridge/allowed_signers": sceneSigners(s.now)}}), true, []string{"commit-signed", "signers-change"})
	})
	t.Run("a merge takes removed signers back, as first parent", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		old := drop(s)
		s.refused(s.commit(opts{parents: []string{old, s.base}, files: map[string]string{".bridge/allowed_signers": sceneSigners(s.now)}}), true, []string{"commit-signed", "signers-change"})
	})
	t.Run("a merge of a branch from before, control", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		old := drop(s)
		side := s.commit(opts{parents: []string{old}, files: map[string]string{"notes.txt": "x"}})
		s.accepted(s.commit(opts{parents: []string{s.base, side}, files: map[string]string{"notes.txt": "x"}}))
	})
	t.Run("a relay in the place of a file without a fence", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.forced(s.commit(opts{at: s.now.Add(-time.Second), files: map[string]string{"t-two/R.md": "junk\n"}}))
		f := s.decision(s.now)
		f.Thread = "t-two"
		s.refused(s.commit(opts{files: map[string]string{"t-two/R.md": s.render(f)}}), true, []string{"commit-signed", "relay-reply"})
	})
	t.Run("a malformed commit where commit-signed is a warning", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.forced(s.commit(opts{key: keyA, at: s.now.Add(-time.Second), files: map[string]string{".bridge/policy.yaml": "version: 1\nrevoked: .bridge/revoked\nrules: {commit-signed: warning}\n"}}))
		s.refused(s.commit(opts{remove: []string{"t-one/REQUEST.md"}, raw: func(p []byte) []byte {
			return []byte(strings.Replace(string(p), " +0000\n\n", " +00\n\n", 1))
		}}), true, []string{"commit-signed"})
	})
	t.Run("a policy that cannot be read", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.refused(s.commit(opts{key: keyA, files: map[string]string{".bridge/policy.yaml": "version: 1\noops: 1\n"}}), true, []string{"signers-change"})
	})
	t.Run("a link makes no thread", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		link := opts{files: map[string]string{"docs/guide.md": "no envelope\n", "docs/M.md": "---\nx"}, modes: map[string]string{"docs/M.md": "120000"}}
		first := s.commit(link)
		s.refused(first, true, []string{"envelope-path"})
		s.refused(s.commit(opts{parents: []string{first}, files: map[string]string{"docs/index.md": "nor this\n"}}), true, []string{"envelope-path"})
		s.accepted(s.commit(opts{files: map[string]string{"docs/guide.md": "no envelope\n"}}))
		s.refused(s.commit(opts{files: map[string]string{"docs/STATE.md": s.plain("docs", "rig-b", "STATE", "On.\n"), "docs/index.md": "nor this\n"}}), true, []string{"envelope-parse"})
	})
	t.Run("a policy that names no revocation file", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		named := func(file string) string { return "version: 1\nrevoked: " + file + "\n" }
		by := func(o opts) string {
			o.key, o.at = keyA, s.now.Add(-time.Second)
			return s.commit(o)
		}
		const policy = ".bridge/policy.yaml"
		refused := []string{"signers-change"}
		s.refused(by(opts{files: map[string]string{policy: named("gone")}}), true, refused)
		s.refused(by(opts{files: map[string]string{policy: named("README.md"), "README.md": "no keys\n"}}), true, refused)
		s.refused(by(opts{files: map[string]string{policy: named("t-one")}}), true, refused)
		s.refused(by(opts{files: map[string]string{".bridge/revoked": "keys"}, modes: map[string]string{".bridge/revoked": "120000"}}), true, refused)
		s.refused(by(opts{remove: []string{".bridge/revoked"}}), true, refused)
		// The file goes one commit after the policy that names it comes.
		first := by(opts{files: map[string]string{policy: named("keys/gone"), "keys/gone": keyR.Authorized() + "\n"}})
		s.refused(by(opts{parents: []string{first}, remove: []string{"keys/gone"}}), true, refused)
		// A merge takes the policy from one side and the file away as the other did.
		other := by(opts{remove: []string{".bridge/revoked"}, files: map[string]string{policy: "version: 1\n"}})
		s.refused(by(opts{parents: []string{other, s.base}, files: map[string]string{policy: named(".bridge/revoked")}}), true, refused)
		// A branch whose own policy does not name the file: that of the default
		// branch does, and counts.
		every := "protect: ['refs/heads/**']\n"
		own := newScene(t)
		own.forced(own.commit(opts{key: keyA, at: own.now.Add(-time.Second), files: map[string]string{policy: named(".bridge/revoked") + every}}))
		own.base = own.commit(opts{key: keyA, at: own.now.Add(-time.Second), files: map[string]string{policy: "version: 1\n" + every}})
		if res := own.push(own.base, "refs/heads/dev"); res.Code != 0 {
			t.Fatalf("the branch was refused:\n%s", res.Stderr)
		}
		odd := map[string]string{".bridge/revoked": "no keys\n"}
		res := own.push(own.commit(opts{key: keyA, files: odd}), "refs/heads/dev")
		if res.Code == 0 || !slices.Contains(told(res.Stderr), "signers-change") {
			t.Errorf("an unreadable revocation file: exit %d\n%s", res.Code, res.Stderr)
		}
		s.accepted(first)
		s.accepted(by(opts{files: map[string]string{policy: named("keys/other"), "keys/other": "# nobody\n"}, remove: []string{"keys/gone"}}))
		s.accepted(by(opts{files: map[string]string{policy: "version: 1\n"}, remove: []string{"keys/other"}}))
	})
	t.Run("a new ref whose merge changes the signers", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.forced(s.commit(opts{key: keyA, at: s.now.Add(-2 * time.Second), files: map[string]string{".bridge/policy.yaml": "version: 1\nrevoked: .bridge/revoked\nprotect: [main, a1, a2]\n"}}))
		fork := s.base
		if res := s.push(s.commit(opts{files: map[string]string{"a1.txt": "x"}}), "refs/heads/a1"); res.Code != 0 {
			t.Fatalf("%s", res.Stderr)
		}
		// a1 comes before main, and none of the merged sides contains it.
		sides := []string{s.commit(opts{parents: []string{fork}, files: map[string]string{"b.txt": "x"}}), s.commit(opts{parents: []string{fork}, files: map[string]string{"c.txt": "x"}})}
		merge := s.commit(opts{parents: sides, files: map[string]string{"c.txt": "x", ".bridge/allowed_signers": nobody.Line("*@example.com", "")}})
		res := s.push(merge, "refs/heads/a2")
		if got := told(res.Stderr); res.Code == 0 || !slices.Contains(got, "commit-signed") || !slices.Contains(got, "signers-change") {
			t.Errorf("exit %d\n%s", res.Code, res.Stderr)
		}
		// Control: the same merge without the change, and with it when signed.
		for i, o := range []opts{
			{parents: sides, files: map[string]string{"c.txt": "x"}},
			{parents: sides, key: keyA, files: map[string]string{"c.txt": "x", ".bridge/allowed_signers": sceneSigners(s.now) + nobody.Line("n@example.com", "")}},
		} {
			if res := s.push(s.commit(o), "refs/heads/a2"); res.Code != 0 {
				t.Errorf("control %d: %s", i, res.Stderr)
			}
			s.server.Run("update-ref", "-d", "refs/heads/a2")
		}
	})
	t.Run("one ref's old policy does not speak for another", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		file := filepath.Join(s.server.Dir, "policy.yaml")
		if err := os.WriteFile(file, []byte("version: 1\nprotect: [main, a1]\nrelay: {nonce-scope: refs}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s.server.Config("rigward.policy", file)
		// nonce-scope: refs within one push.
		s.accepted(s.base)
		if res := s.push(s.base, "refs/heads/a1"); res.Code != 0 {
			t.Fatalf("%s", res.Stderr)
		}
		nonce := s.decision(s.now).Nonce
		one := s.relayedAs("t-one/RELAY-1.md", func(f *envelope.Fields) { f.Nonce = nonce })
		two := s.relayedAs("t-one/RELAY-2.md", func(f *envelope.Fields) { f.Nonce = nonce })
		res := s.repo.Push(s.server.Dir, one+":refs/heads/a1", two+":refs/heads/main")
		if res.Code == 0 || !slices.Contains(told(res.Stderr), "relay-nonce") {
			t.Errorf("exit %d\n%s", res.Code, res.Stderr)
		}
	})
}
