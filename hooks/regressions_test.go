package hooks_test

import (
	"context"
	"fmt"
	"iter"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// TestEachRefByItsOwnPolicy: what one ref's policy leaves out is told for
// another ref that brings the same commit.
func TestEachRefByItsOwnPolicy(t *testing.T) {
	t.Parallel()
	r := gittest.New(t, gittest.Options{})
	base := r.Commit("Begin", map[string]string{"README.md": "Nothing\n"})
	bad := strings.Replace(turn("t-one", "STATE", "Hello.\n"), "date: ", "date: x", 1)
	tip := r.Commit("Send", map[string]string{"t-one/STATE-1.md": bad})
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	j := &rules.Judge{Repo: repo, Gate: rules.PreReceive, Now: time.Unix(r.Now, 0)}
	lax, err := policy.Decode([]byte("version: 1\nrules: {envelope-schema: off, envelope-date: off, envelope-parse: off}\n"), policy.FromServer)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, ref := range []struct {
		name string
		p    *policy.Policy
	}{{"refs/heads/lax", lax}, {"refs/heads/strict", policy.Default()}} {
		err := j.Range(t.Context(), rules.Range{Ref: ref.name, Old: base, New: tip, Exclude: []string{base}, History: true, Policy: ref.p, Trust: policy.Untrusting("none")})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range j.Findings {
		if f.Path == "t-one/STATE-1.md" {
			told[f.Ref]++
		}
	}
	if told["refs/heads/lax"] != 0 || told["refs/heads/strict"] == 0 {
		t.Errorf("findings of the file by ref: %v", told)
	}
}

// TestNoDefaultBranch: where HEAD names no branch, or one that does not exist,
// every branch is protected.
func TestNoDefaultBranch(t *testing.T) {
	for name, head := range map[string]string{"detached": "", "unborn": "ref: refs/heads/none\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, gittest.Options{})
			w.server.Config("receive.denyDeletes", "false")
			w.server.Config("receive.denyDeleteCurrent", "ignore")
			if head == "" {
				head = w.base + "\n"
			}
			write(w, w.server.Dir+"/HEAD", head)
			w.clone.Commit("Answer", map[string]string{"release-check/STATE-1.md": turn("release-check", "STATE", "Yes.\n")})
			w.accepted(w.push("main"))
			w.settle()
			w.clone.Run("checkout", "-q", "-B", "main", "HEAD~1")
			w.clone.Commit("Other", map[string]string{"release-check/STATE-2.md": turn("release-check", "STATE", "No.\n")})
			w.refused(w.push("--force", "main"), "fast-forward")
			w.refused(w.push(":main"), "fast-forward")
		})
	}
}

// TestNonceUnderAnotherRoot: a nonce index that was made for one root of the
// threads says nothing of another.
func TestNonceUnderAnotherRoot(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.accepted(s.relayed(opts{}, nil)) // the index covers the history
	used := s.decision(s.now)
	request := s.plain("t-one", "rig-a", "REQUEST", asked)
	s.accepted(s.commit(opts{files: map[string]string{"a/t-one/REQUEST.md": request, "a/t-one/RELAY-" + used.Nonce + ".md": s.render(used)}}))
	s.judgedBy("envelopes: {root: a}\n")
	again, fresh := s.decision(s.now), s.decision(s.now)
	relay := func(f envelope.Fields, nonce string) string {
		f.Nonce = nonce
		return s.commit(opts{key: keyA, files: map[string]string{"a/t-one/RELAY-" + nonce + "-2.md": s.render(f)}})
	}
	res := s.push(relay(again, used.Nonce), "refs/heads/main")
	if res.Code == 0 || strings.Join(told(res.Stderr), " ") != "relay-nonce" {
		t.Errorf("exit %d, expected a refusal by relay-nonce alone:\n%s", res.Code, res.Stderr)
	}
	s.accepted(relay(fresh, fresh.Nonce))
}

// TestNonceOfALargeFrontMatter: a nonce counts as used in every envelope that
// the policy's limits allow.
func TestNonceOfALargeFrontMatter(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.judgedBy("limits: {frontmatter: 1 MiB}\n")
	used := s.decision(s.now)
	text := strings.Replace(s.render(used), "---\n", "---\n# "+strings.Repeat("x", 70_000)+"\n", 1)
	first := s.commit(opts{key: keyA, files: map[string]string{"t-one/RELAY-1.md": text}})
	s.accepted(first)
	again := s.decision(s.now)
	again.Nonce = used.Nonce
	replay := s.commit(opts{key: keyA, parents: []string{first}, files: map[string]string{"t-one/RELAY-2.md": s.render(again)}})
	res := s.push(replay, "refs/heads/main")
	if res.Code == 0 || strings.Join(told(res.Stderr), " ") != "relay-nonce" {
		t.Errorf("exit %d, expected a refusal by relay-nonce alone:\n%s", res.Code, res.Stderr)
	}
}

// TestRelayRulesWithoutSchema: the rules of relays hold where the policy lowers
// the schema.
func TestRelayRulesWithoutSchema(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.judgedBy("rules: {envelope-schema: warning}\n")
	odd := func(nonce string) string {
		f := s.decision(s.now)
		name := "t-one/RELAY-" + f.Nonce + ".md"
		f.Type = "ODD"
		if nonce != "" {
			f.Nonce = nonce
		}
		return s.commit(opts{key: keyA, files: map[string]string{name: s.render(f)}})
	}
	res := s.push(odd(s.nonce0), "refs/heads/main")
	if rules := told(res.Stderr); res.Code == 0 || !strings.Contains(strings.Join(rules, " "), "relay-nonce") {
		t.Errorf("exit %d, expected a refusal by relay-nonce:\n%s", res.Code, res.Stderr)
	}
	res = s.push(odd(""), "refs/heads/main")
	if rules := strings.Join(told(res.Stderr), " "); strings.Contains(rules, "relay-nonce") || strings.Contains(rules, "relay-reply") {
		t.Errorf("a fresh nonce: %s\n%s", rules, res.Stderr)
	}
}

// TestDatesAfterTheCalendar: a committer date after the year 9999 is refused,
// and does not wrap into the past.
func TestDatesAfterTheCalendar(t *testing.T) {
	t.Parallel()
	for _, when := range []int64{253402300800, 1 << 40, 1<<63 - 1} {
		s := newScene(t)
		tip := s.commit(opts{files: map[string]string{"t-one/STATE-1.md": s.plain("t-one", "rig-a", "STATE", "Later.\n")}, at: time.Unix(when, 0)})
		res := s.push(tip, "refs/heads/main")
		if res.Code == 0 || !strings.Contains(unwrapped(res.Stderr), "[commit-clock] the committer date lies after the year 9999") {
			t.Errorf("%d: exit %d, expected a refusal because of the year:\n%s", when, res.Code, res.Stderr)
		}
	}
}

// TestWrongPlaceAndWords: client hooks are not put into a bare repository, and a
// word too many is not a command.
func TestWrongPlaceAndWords(t *testing.T) {
	t.Parallel()
	bare := gittest.New(t, gittest.Options{Bare: true})
	must(t, rig(bare, bare.Dir, "", "install"), 2, "bare", "rig-hook install --server .")
	must(t, rig(bare, bare.Dir, "", "install", "--server", "."), 0)
	clone := gittest.New(t, gittest.Options{})
	clone.Commit("Begin", map[string]string{"README.md": "Nothing\n"})
	for _, words := range [][]string{{"install", "here"}, {"uninstall", "all"}, {"doctor", "x"}, {"explain", "a", "b"}, {"version", "x"}, {"check", "HEAD..HEAD", "HEAD"}} {
		must(t, rig(clone, clone.Dir, "", words...), 2, "unexpected argument")
	}
	must(t, rig(clone, clone.Dir, "", "install"), 0)
}

// TestNonceScope: where nonces are unique over all protected refs, a push to one
// ref and a range that is checked are compared with what is known of the others,
// as the server does it.
func TestNonceScope(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	nonce := s.decision(s.now).Nonce
	one := s.relayedAs("t-one/RELAY-1.md", func(f *envelope.Fields) { f.Nonce = nonce })
	two := s.relayedAs("t-one/RELAY-2.md", func(f *envelope.Fields) { f.Nonce = nonce })
	s.repo.SetRef("refs/remotes/origin/main", s.base)
	s.repo.SetRef("refs/remotes/origin/rel", s.base)
	push := func(lines string) string {
		t.Helper()
		cmd := exec.Command(program, "pre-push", "origin", s.server.Dir)
		cmd.Dir, cmd.Env, cmd.Stdin = s.repo.Dir, s.repo.Env, strings.NewReader(lines)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	line := func(tip, ref string) string {
		return "HEAD " + tip + " refs/heads/" + ref + " " + s.base + "\n"
	}
	for scope, want := range map[string]bool{"ref": false, "refs": true} {
		own(t, s.repo, "version: 1\nprotect: [rel]\nrelay: {nonce-scope: "+scope+"}\n")
		if out := push(line(one, "rel") + line(two, "main")); strings.Contains(out, "[relay-nonce]") != want {
			t.Errorf("%s, two refs in one push: %s", scope, out)
		}
		s.repo.SetRef("refs/remotes/origin/rel", one)
		if out := push(line(two, "main")); strings.Contains(out, "[relay-nonce]") != want {
			t.Errorf("%s, one ref after the other: %s", scope, out)
		}
		s.repo.Config("rigward.policy", filepath.Join(s.repo.Dir, ".git", "rigward.yaml"))
		check := exec.Command(program, "check", s.base+".."+two)
		check.Dir, check.Env = s.repo.Dir, s.repo.Env
		if out, _ := check.CombinedOutput(); strings.Contains(string(out), "[relay-nonce]") != want {
			t.Errorf("%s, check: %s", scope, out)
		}
		s.repo.Run("config", "--unset", "rigward.policy")
		s.repo.SetRef("refs/remotes/origin/rel", s.base)
	}
}

// TestHintsBelowRoot: where the threads lie below a directory, a hint names the
// path that git knows.
func TestHintsBelowRoot(t *testing.T) {
	t.Parallel()
	r := gittest.New(t, gittest.Options{})
	base := r.Commit("Begin", map[string]string{"README.md": "Nothing\n"})
	tip := r.Commit("Send", map[string]string{"threads/t-one/con.md": turn("t-one", "STATE", "Hello.\n")})
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	p := policy.Default()
	p.Root = "threads"
	j := &rules.Judge{Repo: repo, Gate: rules.Check}
	if err := j.Range(t.Context(), rules.Range{Old: base, New: tip, Exclude: []string{base}, Policy: p, Trust: policy.Untrusting("none")}); err != nil {
		t.Fatal(err)
	}
	if len(j.Findings) != 1 || j.Findings[0].Hint != "git mv -- threads/t-one/con.md threads/t-one/NAME.md" {
		t.Errorf("%+v", j.Findings)
	}
}

// TestMergeOfAnOlderMain: a branch that merged the main branch before that moved
// on brings none of the policy's changes; one that undid them there does.
func TestMergeOfAnOlderMain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	fork := s.base
	const policyFile = ".bridge/policy.yaml"
	older := map[string]string{policyFile: "version: 1\nrevoked: .bridge/revoked\n"}
	newer := map[string]string{policyFile: "version: 1\nrevoked: .bridge/revoked\nmin-rsa-bits: 4096\n"}
	s.forced(s.commit(opts{key: keyA, at: s.now.Add(-2 * time.Second), files: newer}))
	changed := s.base
	s.forced(s.commit(opts{files: map[string]string{"main.txt": "x"}}))
	side := s.commit(opts{parents: []string{fork}, files: map[string]string{"side.txt": "x"}})
	for _, order := range [][]string{{side, changed}, {changed, side}} {
		// Its policy is main's, and it undoes what main changed.
		kept := s.commit(opts{parents: order, files: map[string]string{policyFile: newer[policyFile], "side.txt": "x"}})
		undone := s.commit(opts{parents: order, files: map[string]string{policyFile: older[policyFile], "side.txt": "x"}})
		s.refused(s.commit(opts{parents: []string{s.base, undone}, files: map[string]string{"side.txt": "x"}}), true, []string{"commit-signed", "signers-change"})
		tip := s.commit(opts{parents: []string{s.base, kept}, files: map[string]string{"side.txt": "x"}})
		before := s.base
		s.accepted(tip)
		s.server.SetRef("refs/heads/main", before)
		s.base = before
	}
}

// TestDivergenceOfAnOctopus: a merge of three branches names each pair of
// envelopes once.
func TestDivergenceOfAnOctopus(t *testing.T) {
	t.Parallel()
	r := gittest.New(t, gittest.Options{})
	base := r.Commit("Begin", map[string]string{"t-one/REQUEST.md": turn("t-one", "REQUEST", "Hello?\n")})
	for _, side := range []string{"a", "b", "c"} {
		r.Run("checkout", "-q", "-b", side, base)
		r.Commit(side, map[string]string{"t-one/STATE-" + side + ".md": turn("t-one", "STATE", side+"\n")})
	}
	r.Run("merge", "-q", "-m", "Octopus", "a", "b")
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	j := &rules.Judge{Repo: repo, Gate: rules.Check}
	if err := j.Range(t.Context(), rules.Range{Old: base, New: strings.TrimSpace(r.Ref("HEAD")), Exclude: []string{base}, Policy: policy.Default(), Trust: policy.Untrusting("none")}); err != nil {
		t.Fatal(err)
	}
	pairs := 0
	for _, f := range j.Findings {
		if f.Rule == "divergence" {
			pairs++
		}
	}
	if pairs != 3 || len(j.Findings) != 3 {
		t.Errorf("%d pairs of three envelopes: %+v", pairs, j.Findings)
	}
}

// TestDivergenceOfManyEnvelopes: two sides that wrote more than can be compared
// pair by pair are told so.
func TestDivergenceOfManyEnvelopes(t *testing.T) {
	t.Parallel()
	r := gittest.New(t, gittest.Options{})
	base := r.Commit("Begin", map[string]string{"t-one/REQUEST.md": turn("t-one", "REQUEST", "Hello?\n")})
	for _, side := range []string{"a", "b"} {
		r.Run("checkout", "-q", "-b", side, base)
		files := map[string]string{}
		for i := range 400 {
			files[fmt.Sprintf("t-one/STATE-%s%d.md", side, i)] = turn("t-one", "STATE", side+"\n")
		}
		r.Commit(side, files)
	}
	r.Run("merge", "-q", "-m", "Both", "a")
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	j := &rules.Judge{Repo: repo, Gate: rules.Check}
	if err := j.Range(t.Context(), rules.Range{Old: base, New: strings.TrimSpace(r.Run("rev-parse", "HEAD")), Exclude: []string{base}, Policy: policy.Default(), Trust: policy.Untrusting("none")}); err != nil {
		t.Fatal(err)
	}
	if n := len(j.Findings); n != 21 || !strings.HasSuffix(j.Findings[20].Message, "too many to compare all") {
		t.Errorf("%d findings, the last %+v", n, j.Findings[n-1])
	}
}

// TestTwinsOfTwoSides: a merge that brings together two paths that a file
// system takes for one is refused, though neither side has both.
func TestTwinsOfTwoSides(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gittest.Options{})
	for i, test := range []struct {
		path, text string
		twin       bool
	}{
		{"release-check/new.md", turn("release-check", "STATE", "Other.\n"), true},
		{"Release-Check/NEW.md", "No envelope.\n", true},
		{"release-check/other.md", turn("release-check", "STATE", "Other.\n"), false},
	} {
		w.clone.Run("checkout", "-q", "-B", "side", w.base)
		w.clone.Commit(fmt.Sprint("Side ", i), map[string]string{test.path: test.text})
		w.clone.Run("checkout", "-q", "-B", "main", w.base)
		w.clone.Commit("Main", map[string]string{"release-check/NEW.md": turn("release-check", "STATE", "New.\n")})
		w.clone.Run("merge", "-q", "-m", "Both", "side")
		if res := w.push("main"); test.twin {
			w.refused(res, "envelope-path")
		} else {
			w.accepted(res)
		}
	}
}

// A walker counts how often the history is walked.
type walker struct {
	*gitrepo.Repo
	walks, bases int
}

func (w *walker) MergeBases(ctx context.Context, a, b string) ([]string, error) {
	w.bases++
	return w.Repo.MergeBases(ctx, a, b)
}

// TestDivergenceOfManyMerges: every merge's divergence is told, and of not too
// many it is looked up since when.
func TestDivergenceOfManyMerges(t *testing.T) {
	t.Parallel()
	r := gittest.New(t, gittest.Options{})
	base := r.Commit("Begin", map[string]string{"t-one/REQUEST.md": turn("t-one", "REQUEST", "Hello?\n")})
	var in strings.Builder
	tip, mark := base, 0
	for i := range 60 {
		var sides [2]string
		for k := range sides {
			text := turn("t-one", "STATE", fmt.Sprint(i, k, "\n"))
			mark += 2
			fmt.Fprintf(&in, "blob\nmark :%d\ndata %d\n%s\n", mark-1, len(text), text)
			fmt.Fprintf(&in, "commit refs/heads/side%d\nmark :%d\ncommitter A <a@example.com> %d +0000\ndata 0\nfrom %s\nM 100644 :%d t-one/STATE-%d-%d.md\n\n", k, mark, r.Now, tip, mark-1, i, k)
			sides[k] = fmt.Sprintf(":%d", mark)
		}
		mark++
		fmt.Fprintf(&in, "commit refs/heads/merged\nmark :%d\ncommitter A <a@example.com> %d +0000\ndata 0\nfrom %s\nmerge %s\nM 100644 :%d t-one/STATE-%d-1.md\n\n", mark, r.Now, sides[0], sides[1], mark-2, i)
		tip = fmt.Sprintf(":%d", mark)
	}
	r.RunIn([]byte(in.String()), "fast-import", "--quiet", "--force")
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	w := &walker{Repo: repo}
	j := &rules.Judge{Repo: w, Gate: rules.Check}
	if err := j.Range(t.Context(), rules.Range{Old: base, New: strings.TrimSpace(r.Run("rev-parse", "merged")), Exclude: []string{base}, Policy: policy.Default(), Trust: policy.Untrusting("none")}); err != nil {
		t.Fatal(err)
	}
	if len(j.Findings) != 60 || w.bases != 50 {
		t.Errorf("%d findings, expected 60; %d questions for a base, expected 50", len(j.Findings), w.bases)
	}
}

func (w *walker) RevList(ctx context.Context, include, exclude []string, o gitrepo.RevListOptions) iter.Seq2[gitrepo.Rev, error] {
	w.walks++
	return w.Repo.RevList(ctx, include, exclude, o)
}

// TestThawAmongOldRelays: whether a freeze was thawed does not take a walk for
// each relay that its sender ever made.
func TestThawAmongOldRelays(t *testing.T) {
	t.Parallel()
	for name, thawed := range map[string]bool{"thawed": true, "frozen": false} {
		s := newScene(t)
		tip := s.base
		for range 4 {
			tip = s.relayed(opts{parents: []string{tip}, at: s.now.Add(-time.Minute)}, nil)
		}
		tip = s.relayed(opts{parents: []string{tip}}, func(f *envelope.Fields) { f.Type, f.Status = "ACK", "⏸ deciding" })
		if thawed {
			tip = s.relayed(opts{parents: []string{tip}}, nil)
		}
		next := s.commit(opts{parents: []string{tip}, files: map[string]string{"t-one/HANDOFF.md": s.plain("t-one", "rig-b", "HANDOFF", "On it.\n")}})
		repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: s.repo.Env, Dir: s.repo.Dir})
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		p, err := policy.Decode([]byte("version: 1\nrules: {relay-frozen: error}\n"), policy.FromServer)
		if err != nil {
			t.Fatal(err)
		}
		w := &walker{Repo: repo}
		j := &rules.Judge{Repo: w, Gate: rules.Check}
		if err := j.Range(t.Context(), rules.Range{Old: tip, New: next, Exclude: []string{tip}, Policy: p, Trust: policy.Untrusting("none")}); err != nil {
			t.Fatal(err)
		}
		if (len(j.Findings) == 0) != thawed || len(j.Findings) == 1 && j.Findings[0].Rule != "relay-frozen" || w.walks > 2 {
			t.Errorf("%s: %d walks, %+v", name, w.walks, j.Findings)
		}
	}
}

// TestHintsBelowTheTip: only the last commit can be amended as it is; for one
// below, the hint is a rebase.
func TestHintsBelowTheTip(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.judgedBy("require-signed: all\n")
	by := func(o opts) (tip, below string) {
		o.key = keyA
		tip = s.commit(o)
		return tip, s.commit(opts{parents: []string{tip}, key: keyA, files: map[string]string{"above.txt": "x"}})
	}
	says := func(tip, hint string) {
		t.Helper()
		if res := s.push(tip, "refs/heads/main"); !strings.Contains(res.Stderr, hint) {
			t.Errorf("exit %d, expected the hint %q:\n%s", res.Code, hint, res.Stderr)
		}
	}
	on := " " + s.base[:12]
	files := map[string]string{"x.txt": "x"}
	tip, below := by(opts{files: files, author: "X <x@example.com>", committer: operator})
	says(tip, "git commit --amend --no-edit --reset-author -S")
	says(below, "git rebase --interactive --gpg-sign"+on+", with edit before this commit; then git commit --amend --no-edit --reset-author -S; then git rebase --continue")
	tip, below = by(opts{files: files, author: "X <x@example.com>"})
	says(tip, "git config user.email ")
	says(tip, " && git commit --amend --no-edit --reset-author -S")
	says(below, " && git rebase --interactive --gpg-sign"+on+", with edit before this commit; then git commit --amend --no-edit --reset-author -S; then git rebase --continue")
	tip, below = by(opts{files: files, at: s.now.Add(-time.Hour)})
	says(tip, "set the clock, then: git commit --amend --no-edit --gpg-sign")
	says(below, "set the clock, then: git rebase --no-ff --rebase-merges --gpg-sign"+on)
	// Nor are the signatures of what is put on top of the remote's commits left out.
	for _, key := range []*testkeys.Key{nil, keyA} {
		line := "refs/heads/main " + s.commit(opts{key: key, files: files}) + " refs/heads/main " + strings.Repeat("1", 40) + "\n"
		res := rig(s.repo, s.repo.Dir, line, "pre-push", "origin", "file://"+s.server.Dir)
		must(t, res, 1, "[fast-forward]", "this clone lacks", "git pull --rebase")
		if strings.Contains(res.Stderr, " --gpg-sign") != (key != nil) {
			t.Errorf("signed: %v\n%s", key != nil, res.Stderr)
		}
	}
}
