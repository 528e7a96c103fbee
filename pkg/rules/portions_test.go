package rules

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/relay"
)

// tangled writes a history of two lines of commits that merge now and then, with
// all that one commit may have to know of another far before it: replies,
// replays on the same and the other line, edits in place, deletions, closed
// threads, twins of a path, files that only a later envelope makes envelopes.
func tangled(t *testing.T, r *gittest.Repo, seed uint64, commits int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	var stream bytes.Buffer
	lines := [2]map[string]string{{}, {}}
	tips := [2]int{}
	at := time.Unix(gittest.Epoch, 0).UTC()
	var bodies, nonces, names []string
	render := func(f envelope.Fields) string {
		f.BodyHash = bodyHash(string(f.Body))
		bodies = append(bodies, f.BodyHash)
		text, err := envelope.Render(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for n := 1; n <= commits; n++ {
		line := random.IntN(2)
		if n == 1 {
			line = 0
		}
		if tips[1] == 0 && line == 1 {
			tips[1], lines[1] = tips[0], maps.Clone(lines[0])
		}
		files := map[string]string{}
		at = at.Add(time.Minute)
		thread := pick([]string{"t-one", "t-one", "t-two", "t-three"})
		f := envelope.Fields{Thread: thread, From: pick([]string{"rig-a", "rig-b", "op-relay"}), To: []string{"rig-z"},
			Date:   at.Format(time.DateOnly),
			Status: "▶ Going on", Type: "STATE", Body: fmt.Appendf(nil, "Turn %d.\n", n)}
		if len(bodies) > 0 && random.IntN(2) == 0 {
			f.InReplyTo = pick(bodies)
		}
		name := fmt.Sprintf("%s/STATE-%d.md", thread, n)
		deleted := ""
		switch kind := random.IntN(12); {
		case kind < 3 && f.InReplyTo != "": // a relay; some are replays
			f.From, f.Type, f.AttestedBy, f.AttestedAt = "op-relay", "DECISIONS", keyOp.Fingerprint(), at.Format("2006-01-02T15:04:05.000Z")
			if random.IntN(4) == 0 { // a freeze
				f.Type, f.Status = "ACK", "⏸ Wait"
			}
			if len(nonces) > 0 && random.IntN(3) == 0 {
				f.Nonce = pick(nonces)
			} else {
				nonce, err := relay.NewNonce(at, strings.NewReader(fmt.Sprintf("%010d", n)))
				if err != nil {
					t.Fatal(err)
				}
				f.Nonce = nonce
				nonces = append(nonces, nonce)
			}
			name = fmt.Sprintf("%s/RELAY-%d.md", thread, n)
		case kind == 3:
			f.Type = "RESOLUTION"
		case kind == 4 && len(names) > 0: // in place
			name = pick(names)
			f.Thread, _, _ = strings.Cut(name, "/")
		case kind == 5 && len(names) > 0:
			deleted = pick(names)
		case kind == 6 && len(names) > 0: // a twin of a path
			dir, base, _ := strings.Cut(pick(names), "/")
			f.Thread, name = dir, dir+"/"+strings.ToLower(base)
		case kind == 7: // an envelope where one comes later
			f.Thread, name = "later", fmt.Sprintf("later/NOTE-%d.md", n)
		}
		text := render(f)
		if strings.HasPrefix(name, "later/") && n < commits*3/4 {
			text = "no fence\n"
		}
		if deleted == "" {
			files[name] = text
			names = append(names, name)
		}
		fmt.Fprintf(&stream, "commit refs/heads/line%d\nmark :%d\ncommitter %s <%s> %d +0000\ndata 5\nSend\n\n", line, n,
			gittest.Name, gittest.Email, at.Unix())
		if tips[line] > 0 {
			fmt.Fprintf(&stream, "from :%d\n", tips[line])
		}
		if other := 1 - line; tips[other] > 0 && tips[other] != tips[line] && (random.IntN(5) == 0 || n == commits) {
			fmt.Fprintf(&stream, "merge :%d\n", tips[other])
			for path, theirs := range lines[other] {
				if _, ok := lines[line][path]; !ok && path != name && path != deleted {
					files[path] = theirs
				}
			}
		}
		if deleted != "" {
			fmt.Fprintf(&stream, "D %s\n", deleted)
			delete(lines[line], deleted)
		}
		for _, path := range slices.Sorted(maps.Keys(files)) {
			fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", path, len(files[path]), files[path])
			lines[line][path] = files[path]
		}
		tips[line] = n
		if n == commits {
			fmt.Fprintf(&stream, "reset refs/heads/main\nfrom :%d\n", n)
		}
		if n == commits/3 {
			fmt.Fprintf(&stream, "reset refs/heads/third\nfrom :%d\n", n)
		}
	}
	r.RunIn(stream.Bytes(), "fast-import", "--quiet")
}

// TestPortions: what is found in a history does not depend on how much of it is
// held at a time, nor on what an earlier judge remembers of it.
func TestPortions(t *testing.T) {
	told := map[string]bool{}
	for seed := range uint64(2) {
		r := gittest.New(t, gittest.Options{})
		tangled(t, r, seed, 120)
		repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		main, third := r.Ref("refs/heads/main"), r.Run("rev-parse", "third")
		w := &world{TB: t, policy: "rules: {relay-frozen: error}\n", signers: keyOp.Line("op@example.com,op-relay", "")}
		for _, all := range []bool{true, false} {
			var want *Judge
			var memory *Memory
			for _, portion := range []int{1 << 30, 7, 1} {
				j := &Judge{Repo: repo, Gate: Check, Now: time.Unix(gittest.Epoch, 0).AddDate(0, 1, 0), portion: portion, Memory: memory}
				g := Range{New: main, History: true, First: true, Policy: w.demands(), Trust: w.trust()}
				if !all {
					g.First, g.Exclude = false, []string{third}
					j.Nonces = &history.Index{Repo: repo}
				}
				if err := j.Range(t.Context(), g); err != nil {
					t.Fatal(err)
				}
				finding.Sort(j.Findings)
				if want == nil {
					want, memory = j, &Memory{}
				} else if !all && len(memory.known) == 0 {
					t.Fatal("nothing was remembered")
				}
				if !slices.Equal(j.Findings, want.Findings) || j.Envelopes != want.Envelopes {
					t.Fatalf("seed %d, all %v: portions of %d give\n%s\nexpected\n%s", seed, all, portion, lines(j.Findings),
						lines(want.Findings))
				}
				if j.Commits == 0 || j.Envelopes == 0 {
					t.Fatalf("%d commits, %d envelopes", j.Commits, j.Envelopes)
				}
				for _, f := range j.Findings {
					told[f.Rule] = true
				}
			}
		}
	}
	// The histories hold what depends on earlier commits.
	for _, rule := range []string{"append-only", "relay-nonce", "relay-reply", "references", "thread-closed", "divergence",
		"envelope-path", "envelope-parse", "relay-frozen"} {
		if !told[rule] {
			t.Errorf("nothing is found by %s", rule)
		}
	}
}
