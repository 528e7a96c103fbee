package hooks_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/rules"
)

var byMark = regexp.MustCompile(`,?"notes":\["(\d+) of (\d+) commits were judged before by the same rules[^"]*"\]|"(\d+) of (\d+) commits were judged before by the same rules[^"]*",?`)

// audit audits the server's history by the mark of earlier ones and without, which
// find the same, and returns "1 of 3" for the commits that were not read again.
func (s *scene) audit() string {
	s.Helper()
	server := *s.server // as a program that git has told the repository
	server.Env = served(s.server)
	marked := rig(&server, server.Dir, "", "check", "--all", "--format", "json")
	all := s.auditOfAll(&server)
	found := byMark.FindStringSubmatch(marked.Stdout)
	rest := byMark.ReplaceAllString(marked.Stdout, "")
	if marked.Code != all.Code || rest != all.Stdout || marked.Stderr != all.Stderr {
		s.Fatalf("by a mark: exit %d\n%s%s\nwithout: exit %d\n%s%s", marked.Code, marked.Stdout, marked.Stderr, all.Code, all.Stdout, all.Stderr)
	}
	if found == nil {
		return ""
	}
	return found[1] + found[3] + " of " + found[2] + found[4]
}

// auditOfAll audits without a mark, once for what the server has and by what it is told
// to judge that.
func (s *scene) auditOfAll(server *gittest.Repo) gittest.Result {
	s.Helper()
	state := s.server.Ref("refs/heads/main") + s.server.Dir
	for _, name := range []string{"config", "own", "list", "shallow"} {
		text, _ := os.ReadFile(filepath.Join(s.server.Dir, name))
		state += "\n" + string(text)
	}
	res, ok := s.audits[state]
	if !ok {
		res = rig(server, server.Dir, "", "check", "--all", "--format", "json", "--no-cache")
		s.audits[state] = res
	}
	return res
}

func (s *scene) audited(want string) {
	s.Helper()
	if got := s.audit(); got != want {
		s.Fatalf("judged before: %q, want %q", got, want)
	}
}

// usedBefore makes a relay of another thread that has the nonce of the first one.
func (s *scene) usedBefore(f *envelope.Fields) {
	f.Thread, f.InReplyTo, f.Nonce = "other", hashOf(foreign), s.nonce0
}

// An audit by the mark of an earlier one finds what an audit of all finds.
func TestAuditMark(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.audited("")
	s.audited("2 of 2")
	good := func(parent, thread string) string {
		return s.commit(opts{parents: []string{parent}, files: map[string]string{thread + "/REQUEST.md": s.plain(thread, "rig-a", "REQUEST", "Go.\n")}})
	}
	next := good(s.base, "t-two")
	s.forced(next)
	s.audited("2 of 3")
	s.audited("3 of 3")
	side := good(s.base, "t-three")
	s.forced(s.commit(opts{parents: []string{next, side}, files: map[string]string{"t-three/REQUEST.md": s.plain("t-three", "rig-a", "REQUEST", "Go.\n")}}))
	s.audited("3 of 5")
	s.audited("5 of 5")
	s.forced(next) // an older one again
	s.audited("")
	s.audited("3 of 3")
	for name, tip := range map[string]string{
		"a message is changed":   s.commit(opts{parents: []string{next}, files: map[string]string{"t-one/REQUEST.md": s.plain("t-one", "rig-a", "REQUEST", "Another.\n")}}),
		"a message is deleted":   s.commit(opts{parents: []string{next}, remove: []string{"other/REQUEST.md"}}),
		"a nonce is used before": s.relayed(opts{parents: []string{next}, key: keyA}, s.usedBefore),
		"a reply to nothing":     s.relayed(opts{parents: []string{next}, key: keyA}, func(f *envelope.Fields) { f.InReplyTo = hashOf("never said\n") }),
		"a relay of a stranger":  s.relayed(opts{parents: []string{next}, key: keyW}, nil),
		"signers are changed":    s.commit(opts{parents: []string{next}, files: map[string]string{".bridge/allowed_signers": keyW.Line("*", "")}}),
		"another root":           s.commit(opts{parents: []string{next, s.commit(opts{parents: []string{}, files: map[string]string{"x/REQUEST.md": "x"}})}}),
	} {
		t.Run(name, func(t *testing.T) {
			s := *s
			s.T = t
			s.forced(tip)
			s.audited("")
			s.audited("")
			s.forced(next)
			s.audited("3 of 3") // that mark still holds
		})
	}
	// What a message says by itself is found again without being read again.
	s.forced(s.commit(opts{parents: []string{next}, files: map[string]string{"t-two/NOTE.md": "---\nfrom: [\n"}}))
	s.audited("3 of 4")
	s.audited("4 of 4")
	must(t, rig(s.server, s.server.Dir, "", "check", "--all"), 1, "[envelope-parse]", "4 of 4 commits were judged before")
	must(t, rig(s.server, s.server.Dir, "", "check", "--no-cache"), 2, "--no-cache goes with --all")
}

// An audit by a mark reads nothing of what was judged: it is done where those objects
// are gone, which an audit of all cannot.
func TestAuditReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.audited("")
	judged := s.base
	s.forced(s.commit(opts{files: map[string]string{"t-new/REQUEST.md": s.plain("t-new", "rig-a", "REQUEST", "Go.\n")}}))
	args := []string{"rev-parse"}
	for _, path := range []string{"other", "other/REQUEST.md", "t-one", "t-one/REQUEST.md", s.relay0} {
		args = append(args, judged+":"+path)
	}
	for _, id := range strings.Fields(s.server.Run(args...)) {
		if err := os.Remove(filepath.Join(s.server.Dir, "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
	}
	must(t, rig(s.server, s.server.Dir, "", "check", "--all", "--no-cache"), 2)
	must(t, rig(s.server, s.server.Dir, "", "check", "--all"), 0, "2 of 3 commits were judged before", "3 commits, ")
}

// A mark that somebody else has written, that was made under another setting or of
// something else, or that was damaged, is as good as none.
func TestAuditMarkForged(t *testing.T) {
	t.Parallel()
	files := func(s *scene) (manifest, segment string) {
		s.Helper()
		names, err := filepath.Glob(filepath.Join(s.server.Dir, "rigward", "audit-*", "*"))
		if err != nil || len(names) != 2 {
			s.Fatalf("%q %v", names, err)
		}
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(filepath.Base(b), filepath.Base(a)) })
		return names[0], names[1]
	}
	garble := func(name string, change func(data []byte) []byte) {
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, change(bytes.Clone(data)), 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	own := func(s *scene, key, text string) {
		file := filepath.Join(s.server.Dir, "own")
		write(s, file, text)
		s.server.Config(key, file)
	}
	for name, attack := range map[string]func(s *scene){
		"signers of the server's own": func(s *scene) { own(s, "rigward.allowedSigners", sceneSigners(s.now)) },
		"policy of the server's own":  func(s *scene) { own(s, "rigward.policy", "version: 1\nrevoked: .bridge/revoked\n") },
		"a key is revoked":            func(s *scene) { own(s, "rigward.revoked", keyA.Authorized()+"\n") },
		"the content of the server's list": func(s *scene) {
			own(s, "rigward.revoked", keyOld.Authorized()+"\n")
			s.audited("")
			s.audited("2 of 2")
			own(s, "rigward.revoked", keyOld.Authorized()+"\n"+keyW.Authorized()+"\n")
		},
		"the content of a list that the server's policy names": func(s *scene) {
			list := filepath.Join(s.server.Dir, "list")
			write(s, list, keyOld.Authorized()+"\n")
			own(s, "rigward.policy", "version: 1\nrevoked: "+filepath.ToSlash(list)+"\n")
			s.audited("")
			s.audited("2 of 2")
			write(s, list, keyOld.Authorized()+"\n"+keyW.Authorized()+"\n")
		},
		"another user": func(s *scene) {
			s.server.Setenv("HOME", gittest.TempDir(t))
			s.server.Setenv("XDG_STATE_HOME", gittest.TempDir(t))
		},
		"another repository": func(s *scene) {
			other := s.server.Dir + "-moved"
			if err := os.Rename(s.server.Dir, other); err != nil {
				s.Fatal(err)
			}
			s.server.Dir = other
		},
		"rewritten": func(s *scene) {
			s.forced(s.commit(opts{parents: strings.Fields(s.server.Run("rev-parse", "main~1")), files: map[string]string{"t-two/REQUEST.md": s.plain("t-two", "rig-a", "REQUEST", "Go.\n")}}))
		},
		"rewound": func(s *scene) { s.server.SetRef("refs/heads/main", s.base+"~1") },
		"cut":     func(s *scene) { write(s, filepath.Join(s.server.Dir, "shallow"), s.base+"\n") },
		"the manifest without its proof": func(s *scene) {
			m, _ := files(s)
			garble(m, func(b []byte) []byte { return b[:len(b)-32] })
		},
		"the manifest with another proof": func(s *scene) {
			m, _ := files(s)
			garble(m, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		},
		"another number of commits": func(s *scene) {
			m, _ := files(s)
			garble(m, func(b []byte) []byte { return bytes.Replace(b, []byte(`"Commits":2`), []byte(`"Commits":1`), 1) })
		},
		"half of the manifest": func(s *scene) {
			m, _ := files(s)
			garble(m, func(b []byte) []byte { return b[:len(b)/2] })
		},
		"no manifest": func(s *scene) {
			m, _ := files(s)
			garble(m, func(b []byte) []byte { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.audited("")
			s.audited("2 of 2")
			attack(s)
			s.audited("")
		})
	}
	// Without its nonces a mark does not hide that one is used again.
	for name, damage := range map[string]func(b []byte) []byte{
		"other nonces": func(b []byte) []byte { b[40] ^= 1; return b },
		"no nonces":    func(b []byte) []byte { return nil },
		"nonces of another place": func(b []byte) []byte {
			return append(bytes.Clone(b[len(b)/2:]), b[:len(b)/2]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.audited("")
			_, segment := files(s)
			garble(segment, damage)
			s.forced(s.relayed(opts{key: keyA}, s.usedBefore))
			s.audited("")
			must(t, rig(s.server, s.server.Dir, "", "check", "--all"), 1, "[relay-nonce]", "used before")
		})
	}
	t.Run("another program", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.audited("")
		// The program itself, also where hooks start the client of a resident judge.
		name := "rig-hook" + filepath.Ext(program)
		other := filepath.Join(gittest.TempDir(t), name)
		if err := os.Link(filepath.Join(filepath.Dir(program), name), other); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(other, "check", "--all")
		cmd.Dir, cmd.Env = s.server.Dir, s.server.Env
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "judged before") {
			t.Errorf("%v %s", err, out)
		}
	})
	t.Run("a link in its place", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("symbolic links need rights there")
		}
		t.Parallel()
		s := newScene(t)
		s.audited("")
		m, _ := files(s)
		away := gittest.TempDir(t)
		if err := os.RemoveAll(filepath.Dir(m)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(away, filepath.Dir(m)); err != nil {
			t.Fatal(err)
		}
		s.audited("")
		if list, err := os.ReadDir(away); err != nil || len(list) > 0 {
			t.Errorf("written elsewhere: %v %v", list, err)
		}
	})
	t.Run("in a tree", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.audited("")
		m, _ := files(s)
		data, err := os.ReadFile(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(s.server.Dir, "rigward")); err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(s.server.Dir, m)
		if err != nil {
			t.Fatal(err)
		}
		s.forced(s.commit(opts{files: map[string]string{filepath.ToSlash(rel): string(data)}}))
		s.audited("")
	})
}

// Audits at once, and one that is killed, leave a mark that holds or none.
func TestAuditsAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if res := rig(s.server, s.server.Dir, "", "check", "--all"); res.Code != 0 {
				t.Errorf("exit %d\n%s%s", res.Code, res.Stdout, res.Stderr)
			}
		})
	}
	wg.Wait()
	s.audited("2 of 2")
	tip := s.base
	for i := range 6 {
		thread := fmt.Sprintf("t-%d", i)
		tip = s.commit(opts{parents: []string{tip}, files: map[string]string{thread + "/REQUEST.md": s.plain(thread, "rig-a", "REQUEST", "Go.\n")}})
		s.forced(tip)
		cmd := exec.Command(program, "check", "--all")
		cmd.Dir, cmd.Env = s.server.Dir, s.server.Env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(10*i)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		if got := s.audit(); got == "" {
			t.Errorf("after a kill the mark is gone")
		}
	}
}

// A long history is judged in parts, with what it gives as a whole.
func TestAuditInParts(t *testing.T) {
	t.Parallel()
	for name, merges := range map[string]bool{"merges": true, "a line": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			auditInParts(t, merges)
		})
	}
}

func auditInParts(t *testing.T, merges bool) {
	s := newScene(t)
	tip := s.base
	for i := range 9 {
		thread := fmt.Sprintf("t-%d", i)
		files := map[string]string{thread + "/REQUEST.md": s.plain(thread, "rig-a", "REQUEST", "Go.\n")}
		if merges && i%4 == 3 {
			side := s.commit(opts{parents: []string{tip}, files: files})
			tip = s.commit(opts{parents: []string{tip, side}, files: files})
			continue
		}
		tip = s.commit(opts{parents: []string{tip}, files: files})
	}
	s.forced(tip)
	again := s.relayed(opts{parents: []string{tip}, key: keyA}, s.usedBefore)
	for _, secret := range [][]byte{[]byte("mine"), nil} {
		for _, head := range []string{tip, again} {
			s.forced(head)
			if secret == nil { // of what is packed it is known beforehand that it is much
				s.server.Run("repack", "-adq")
			}
			var want report.Report // of the whole, whatever is judged at once
			for _, most := range []int{1, 2, 3, 5, 100} {
				check := func(a bool) report.Report {
					t.Helper()
					env := &hooks.Env{Environ: served(s.server), Dir: s.server.Dir, Now: time.Now, Executable: program}
					repo, err := gitrepo.Open(context.Background(), gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
					if err != nil {
						t.Fatal(err)
					}
					defer repo.Close()
					rep := report.Report{}
					c := hooks.NewChecker(env, repo, &rep)
					c.All, c.Head = true, head
					c.AtOnce(most)
					var kept *verdict.Audit
					if a {
						if n, line, same, err := c.LineOf(context.Background(), head); err != nil || line == merges || !same || n < 10/most {
							t.Errorf("%d at once: %d parts, a line: %v, as git walks it: %v, %v", most, n, line, same, err)
						}
						kept = verdict.OpenAudit(verdict.Options{Repo: repo, Loader: c.Loader, Dir: filepath.Join(gittest.TempDir(t), "rigward"), Secret: secret, Now: time.Now()}, "program")
					}
					if err := c.Whole(context.Background(), rules.Range{New: head, History: true, First: true}, kept); err != nil {
						t.Fatal(err)
					}
					c.Tell()
					return rep
				}
				got := check(true)
				if most == 1 {
					want = check(false)
				}
				if got.Commits != want.Commits || got.Envelopes != want.Envelopes || !slices.Equal(got.Findings, want.Findings) {
					t.Errorf("%d at once: %d commits, %d envelopes, %v; as a whole %d, %d, %v", most, got.Commits, got.Envelopes, got.Findings, want.Commits, want.Envelopes, want.Findings)
				}
				if (head == again) != (len(got.Findings) == 1) {
					t.Errorf("%v", got.Findings)
				}
			}
		}
	}
}
