package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
)

// TestNonceAtOnce: of two pushes at once to two protected refs, with one nonce
// where it must be new on all of them, one is accepted (J13).
func TestNonceAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.serverPolicy("version: 1\nprotect: [\"refs/heads/*\"]\nrelay: {nonce-scope: refs}\n")
	refs := []string{"refs/heads/main", "refs/heads/release"}
	if res := s.push(s.base, refs[1]); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	tips := []string{s.base, s.base}
	both := func(nonces ...string) (accepted int) {
		var ids [2]string
		for i := range refs {
			ids[i] = s.relayed(opts{parents: []string{tips[i]}, files: map[string]string{}}, func(f *envelope.Fields) {
				f.Nonce = nonces[i%len(nonces)]
				f.Body = fmt.Appendf(nil, "Of %s.\n", refs[i])
				if i == 1 {
					f.Thread, f.InReplyTo = "other", hashOf(foreign)
				}
			})
		}
		var res [2]gittest.Result
		var wg sync.WaitGroup
		for i := range refs {
			wg.Go(func() { res[i] = s.push(ids[i], refs[i]) })
		}
		wg.Wait()
		for i, r := range res {
			if r.Code == 0 {
				accepted++
				tips[i] = ids[i]
			} else if rules := told(r.Stderr); len(rules) != 1 || rules[0] != "relay-nonce" {
				t.Errorf("%s was refused for %v:\n%s", refs[i], rules, r.Stderr)
			}
		}
		return accepted
	}
	for range 12 {
		if n := both(s.decision(s.now).Nonce); n != 1 {
			t.Errorf("%d of two pushes with one nonce were accepted", n)
		}
	}
	if n := both(s.decision(s.now).Nonce, s.decision(s.now).Nonce); n != 2 {
		t.Errorf("control: %d of two pushes with a nonce each were accepted", n)
	}
	// One envelope that both refs get is one.
	same := s.relayed(opts{parents: []string{tips[0]}}, nil)
	for _, ref := range []string{refs[0], "refs/heads/third"} {
		if res := s.push(same, ref); res.Code != 0 {
			t.Errorf("%s: %s", ref, res.Stderr)
		}
	}
	// Claims that cannot be written are no pass.
	dir := filepath.Join(s.server.Dir, "rigward", "claims")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if res := s.push(s.relayed(opts{parents: []string{same}}, nil), refs[0]); res.Code == 0 {
		t.Error("accepted though no claim could be written")
	}
}
