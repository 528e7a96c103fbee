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
	rounds := 8
	if os.Getenv("RIGWARD_STRESS") == "full" {
		rounds = 40
	}
	for range rounds {
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
	// Claims that cannot be written are not a pass.
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

// TestClaimEnds: a claim holds only while the ref that it is for is protected
// and has not moved; what is refused then is a push that history lets pass
// (J13's lawful neighbours).
func TestClaimEnds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const release, policy = "refs/heads/release", "version: 1\nprotect: [main%s]\nrelay: {nonce-scope: refs}\n"
	s.serverPolicy(fmt.Sprintf(policy, ", release"))
	if res := s.push(s.base, release); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	relay := func(parent, nonce, body string) string {
		return s.relayed(opts{parents: []string{parent}, files: map[string]string{}}, func(f *envelope.Fields) {
			f.Nonce, f.Body = nonce, []byte(body)
		})
	}
	nonce := s.decision(s.now).Nonce
	// The server refuses after our hook: the claim stays, the ref does not move.
	update := filepath.Join(s.server.Dir, "hooks", "update")
	was, err := os.ReadFile(update)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.Remove(update); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(update, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if res := s.push(relay(s.base, nonce, "One\n"), release); res.Code == 0 {
		t.Fatal("the update hook refuses nothing")
	}
	if err := os.Remove(update); err != nil {
		t.Fatal(err)
	}
	if was != nil {
		if err := os.WriteFile(update, was, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if res := s.push(relay(s.base, nonce, "Two\n"), "refs/heads/main"); res.Code == 0 {
		t.Error("a nonce that is claimed for another ref is accepted")
	}
	if res := s.push(relay(s.base, nonce, "Three\n"), release); res.Code != 0 {
		t.Errorf("another envelope for the same ref: %s", res.Stderr)
	}
	// The ref has it now: it is history that refuses, as long as it is protected.
	if res := s.push(relay(s.base, nonce, "Four\n"), "refs/heads/main"); res.Code == 0 {
		t.Error("a nonce of another protected ref is accepted")
	}
	s.serverPolicy(fmt.Sprintf(policy, ""))
	if res := s.push(relay(s.base, nonce, "Five\n"), "refs/heads/main"); res.Code != 0 {
		t.Errorf("a nonce that only a free ref has: %s", res.Stderr)
	}
}
