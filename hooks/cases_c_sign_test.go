package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
)

// judgedBy makes a text the policy of a scene's server.
func (s *scene) judgedBy(text string) {
	s.Helper()
	write(s, filepath.Join(s.server.Dir, "policy.yaml"), "version: 1\nrevoked: .bridge/revoked\n"+text)
	s.server.Config("rigward.policy", "policy.yaml")
}

// TestCasesCSigned: those of the server side that need signatures.
func TestCasesCSigned(t *testing.T) {
	t.Parallel()
	// Two pushes of one nonce to two branches, both judged by pre-receive before
	// either has moved its branch.
	race := func(t *testing.T, update bool) (s *scene, tips [2]string, results [2]gittest.Result) {
		s = newScene(t)
		s.judgedBy("protect: ['**']\nrelay: {nonce-scope: refs}\n")
		if !update {
			if err := os.Remove(filepath.Join(s.server.Dir, "hooks", "update")); err != nil {
				t.Fatal(err)
			}
		}
		nonce := s.decision(s.now).Nonce
		for i := range tips {
			tips[i] = s.relayedAs(fmt.Sprintf("t-one/RELAY-%d.md", i), func(f *envelope.Fields) { f.Nonce = nonce })
		}
		s.server.Hook("pre-receive", `#!/bin/sh
lines=$(cat)
echo "$lines" | '`+program+`' pre-receive
code=$?
: > "$GIT_DIR/decided-${lines##*/}"
until test -e "$GIT_DIR/decided-0" && test -e "$GIT_DIR/decided-1"; do sleep 0.05; done
exit $code
`)
		done := make(chan struct{})
		go func() {
			defer close(done)
			results[1] = s.repo.Push("-q", s.server.Dir, tips[1]+":refs/heads/1")
		}()
		results[0] = s.repo.Push("-q", s.server.Dir, tips[0]+":refs/heads/0")
		<-done
		return s, tips, results
	}

	for name, update := range map[string]bool{"C05 one nonce, two branches at once": true, "C05 the same without the update hook": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, tips, results := race(t, update)
			taken := 0
			for i, res := range results {
				there := s.server.Try(nil, "rev-parse", "-q", "--verify", fmt.Sprintf("refs/heads/%d", i)).Code == 0
				switch {
				case res.Code == 0 && there:
					taken++
				case res.Code == 0 || there || !strings.Contains(res.Stderr, "[relay-nonce]"):
					t.Errorf("%s: exit %d, there %t\n%s", tips[i], res.Code, there, res.Stderr)
				}
			}
			if taken != 1 {
				t.Errorf("%d of two pushes with one nonce were accepted", taken)
			}
		})
	}

	t.Run("C13 three commits, the middle one unsigned", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.judgedBy("require-signed: all\n")
		three := func(middle opts) (ids []string) {
			parent := s.base
			for i, o := range []opts{{key: keyA}, middle, {key: keyA}} {
				o.parents = []string{parent}
				o.files = map[string]string{"README.md": fmt.Sprintln(i, len(ids), middle.key != nil)}
				parent = s.commit(o)
				ids = append(ids, parent)
			}
			return ids
		}
		ids := three(opts{})
		if text := unwrapped(s.push(ids[2], "refs/heads/main").Stderr); !strings.Contains(text, "unsigned: the commit has no signature, expected that of an allowed signer (commit "+ids[1][:12]+")") || strings.Count(text, "(commit ") != 1 {
			t.Errorf("not the middle one: %s", text)
		}
		s.refused(ids[2], false, []string{"commit-signed"})
		// The same with the middle one signed.
		s.accepted(three(opts{key: keyB, author: "Bob <bob@example.com>"})[2])
	})

	t.Run("C13 merges that a forge makes", func(t *testing.T) {
		t.Parallel()
		model := newScene(t)
		const web = "GitHub <noreply@github.com>"
		for _, tt := range []struct {
			what, policy string
			merge        opts
			refused      string
		}{
			{"by default", "", opts{}, "commit-signed"},
			{"by default, signed by the forge", "", opts{key: nobody}, "commit-signed"},
			{"empty merges allowed", "forge-commits: allow-empty-merge\n", opts{}, ""},
			{"empty merges allowed, but it brings something", "forge-commits: allow-empty-merge\n", opts{files: map[string]string{"README.md": "evil\n"}}, "commit-signed"},
			{"the forge's key listed", "forge-commits: ['" + nobody.Fingerprint() + "']\n", opts{key: nobody}, ""},
			{"the forge's key listed, signed by another", "forge-commits: ['" + keyB.Fingerprint() + "']\n", opts{key: nobody}, "commit-signed"},
			{"the forge's key listed, not signed", "forge-commits: ['" + nobody.Fingerprint() + "']\n", opts{}, "commit-signed"},
		} {
			s := newScene(t)
			s.judgedBy("require-signed: all\n" + tt.policy)
			ours := s.commit(opts{key: keyA, at: s.now.Add(-time.Second), files: map[string]string{"a.txt": "a\n"}})
			s.accepted(ours)
			theirs := s.commit(opts{parents: []string{model.base}, key: keyB, at: s.now.Add(-time.Second), author: "Bob <bob@example.com>", files: map[string]string{"b.txt": "b\n"}})
			o := tt.merge
			o.parents, o.author, o.committer = []string{ours, theirs}, "Bob <bob@example.com>", web
			files := map[string]string{"b.txt": "b\n"}
			for path, text := range tt.merge.files {
				files[path] = text
			}
			o.files = files
			tip := s.commit(o)
			res := s.push(tip, "refs/heads/main")
			switch {
			case tt.refused == "" && res.Code != 0:
				t.Errorf("%s: refused\n%s", tt.what, res.Stderr)
			case tt.refused != "" && (res.Code == 0 || !strings.Contains(res.Stderr, "["+tt.refused+"]")):
				t.Errorf("%s: exit %d\n%s", tt.what, res.Code, res.Stderr)
			}
		}
	})
}
