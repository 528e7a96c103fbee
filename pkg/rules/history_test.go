package rules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// inGit writes a world's objects into a repository of git.
func (w *world) inGit() *gitrepo.Repo {
	w.Helper()
	r := gittest.New(w.TB, gittest.Options{Bare: true})
	for _, o := range w.objects {
		writeLoose(w.TB, r.Dir, o)
	}
	repo, err := gitrepo.Open(w.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { repo.Close() })
	return repo
}

// TestNoncesOfTheHistory: a nonce that the history before the range used is
// found by the index, also at other tips, and from one push to the next.
func TestNoncesOfTheHistory(t *testing.T) {
	w := newWorld(t)
	w.relays("b")
	release := w.commit("release", on(w.base), signed(keyOp), put("t-one/release.md", decision(nonce2, w.next())))
	w.tip = w.named("b")
	w.accept()
	w.commit("again", signed(keyOp), put("t-one/again.md", decision(nonce1, w.next())))
	again := w.tip
	w.commit("other", on(w.base), signed(keyOp), put("t-one/other.md", decision(nonce2, w.next())))
	other := w.tip
	repo := w.inGit()
	index := &history.Index{Repo: repo}
	for _, p := range []struct {
		name, tip string
		tips      []string
		want      []string
	}{
		{"used in the history of the ref", again, nil, []string{
			`error relay-nonce t-one/again.md:11:8 @again: the nonce was used before, by "` + relayAt + `"`}},
		{"used at another ref, which does not count", other, nil, nil},
		{"used at another ref, which counts", other, []string{release}, []string{
			`error relay-nonce t-one/other.md:11:8 @other: the nonce was used before, by "t-one/release.md" of commit <release>`}},
	} {
		t.Run(p.name, func(t *testing.T) {
			w.TB, w.tip = t, p.tip
			w.judge = func(j *Judge, r *Range) { j.Repo, j.Nonces, r.NonceTips = repo, index, p.tips }
			j, err := w.judgeAt(PreReceive)
			if err != nil {
				t.Fatal(err)
			}
			w.expect(j, p.want...)
		})
	}
}

// TestClaimCannotBeMade: where it is not known whether another push takes the
// nonce, nothing is decided.
func TestClaimCannotBeMade(t *testing.T) {
	w := newWorld(t)
	w.policy = "relay: {nonce-scope: refs}\n"
	w.relays("c")
	j, err := w.judgeAt(PreReceive)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err = j.Claim(filepath.Join(file, "claims"), func(string, string) bool { return true })
	var u *policy.Undecided
	if !errors.As(err, &u) || !strings.Contains(u.Message, "the claims of nonces cannot be written") ||
		!strings.HasPrefix(u.Hint, "let the user of the hooks write to ") {
		t.Errorf("got %v", err)
	}
}

// TestSHA256: ids of 64 digits, and signatures in the header that git then uses.
func TestSHA256(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true, ObjectFormat: "sha256"})
	commit := func(key *testkeys.Key, at int, path, text, parent string) string {
		var parents []string
		blob := r.Blob(text)
		entries := []gittest.TreeEntry{{Mode: "100644", Name: path, ID: blob}}
		if parent != "" {
			parents = []string{parent}
			entries = append(entries, gittest.TreeEntry{Mode: "100644", Name: "REQUEST.md",
				ID: strings.Fields(r.Run("ls-tree", parent, request))[2]})
		}
		dir := r.Tree(entries...)
		stamp := fmt.Sprintf("%s %d +0000", op, began.Unix()+int64(at))
		payload := testkeys.Commit{Tree: r.Tree(gittest.TreeEntry{Mode: "40000", Name: "t-one", ID: dir}),
			Parents: parents, Author: stamp, Committer: stamp, Message: "c\n"}.Bytes()
		if key != nil {
			payload = testkeys.SignCommitHeader(payload, "gpgsig-sha256", armor(t, payload, key))
		}
		return r.WriteObject("commit", payload)
	}
	base := commit(nil, 0, "REQUEST.md", turn("rig-a", "REQUEST", asked), "")
	good := commit(keyOp, 60, "RELAY.md", decision(nonce1, 60_000_000_000), base)
	bad := commit(nil, 60, "RELAY.md", decision(nonce1, 60_000_000_000), base)
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	for tip, want := range map[string][]string{
		good: nil,
		bad:  {"error commit-signed - @bad: unsigned: the commit has no signature, expected that of an allowed signer"},
	} {
		w := &world{TB: t, fake: &fake{}, names: map[string]string{base: "base", bad: "bad"}, signers: signers,
			base: base, tip: tip}
		w.judge = func(j *Judge, _ *Range) { j.Repo = repo }
		j, err := w.judgeAt(PreReceive)
		if err != nil {
			t.Fatal(err)
		}
		w.expect(j, want...)
	}
}

// armor signs a payload as git does.
func armor(t *testing.T, payload []byte, key *testkeys.Key) []byte {
	t.Helper()
	text := string(testkeys.SignCommit(payload, key))
	_, rest, _ := strings.Cut(text, "\ngpgsig ")
	lines, _, ok := strings.Cut(rest, "-----END SSH SIGNATURE-----\n")
	if !ok {
		t.Fatal("no signature")
	}
	return []byte(strings.ReplaceAll(lines, "\n ", "\n") + "-----END SSH SIGNATURE-----\n")
}

// BenchmarkJudge judges a history of a thousand envelopes, ten of a thread,
// without any process: what it costs is the rules' and the fake's.
func BenchmarkJudge(b *testing.B) {
	w := newWorld(b)
	const n = 1000
	for i := range n {
		thread := fmt.Sprintf("thread-%d", i/10)
		w.commit(fmt.Sprint(i), put(fmt.Sprintf("%s/%d.md", thread, i), turn("rig-a", "STATE",
			fmt.Sprintf("Turn %d.\n", i), to(thread))))
	}
	for b.Loop() {
		j, err := w.judgeAt(Check)
		if err != nil || len(j.Findings) > 0 || j.Envelopes != n {
			b.Fatalf("%v: %d findings, %d envelopes", err, len(j.Findings), j.Envelopes)
		}
	}
}
