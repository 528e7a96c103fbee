package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

func TestCasesD(t *testing.T) {
	t.Parallel()
	// policed is a scene whose policy has more lines.
	policed := func(t *testing.T, lines string) *scene {
		s := newScene(t)
		s.accepted(s.commit(opts{key: keyA, at: s.now.Add(-time.Second), files: map[string]string{".bridge/policy.yaml": "version: 1\nrevoked: .bridge/revoked\n" + lines}}))
		return s
	}
	refused := func(t *testing.T, res gittest.Result, rule string) {
		t.Helper()
		if res.Code == 0 || !strings.Contains(unwrapped(res.Stderr), "["+rule+"]") {
			t.Errorf("exit %d, expected a refusal by %s\n%s", res.Code, rule, res.Stderr)
		}
	}
	passes := func(t *testing.T, res gittest.Result) {
		t.Helper()
		if res.Code != 0 {
			t.Errorf("the push was refused:\n%s", res.Stderr)
		}
	}
	t.Run("D14 merges made by a forge", func(t *testing.T) {
		t.Parallel()
		s := policed(t, "require-signed: all\nforge-commits: allow-empty-merge\n")
		side := s.commit(opts{key: keyA, files: map[string]string{"side.txt": "x"}})
		merge := func(more string) string {
			files := map[string]string{"side.txt": "x"}
			if more != "" {
				files["more.txt"] = more
			}
			return s.commit(opts{parents: []string{s.base, side}, files: files})
		}
		refused(t, s.push(merge("evil"), "refs/heads/main"), "commit-signed")
		passes(t, s.push(merge(""), "refs/heads/main"))
	})
	t.Run("D20 a key that was taken off the list later", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.accepted(s.commit(opts{key: keyA, at: s.now, files: map[string]string{".bridge/allowed_signers": keyB.Line("bob@example.com,bob-relay", "")}}))
		// History is judged by what held when it was made, unless asked otherwise.
		must(t, rig(s.server, s.server.Dir, "", "check", "--all"), 0)
		must(t, rig(s.server, s.server.Dir, "", "check", "--all", "--policy", "now"), 1, "unknown key")
	})
	t.Run("D22 push certificates", func(t *testing.T) {
		t.Parallel()
		s := policed(t, "push-cert: require\n")
		key := filepath.Join(s.repo.Home, "key")
		if err := os.WriteFile(key, keyA.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		tip := s.commit(opts{files: map[string]string{"notes.txt": "x"}})
		refused(t, s.push(tip, "refs/heads/main"), "push-cert")
		s.server.Config("receive.certNonceSeed", "seed")
		s.repo.Config("gpg.format", "ssh")
		s.repo.Config("user.signingkey", key)
		passes(t, s.repo.Push("--signed", s.server.Dir, tip+":refs/heads/main"))
	})
}
