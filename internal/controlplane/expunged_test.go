package controlplane

import (
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
)

// TestExpunged: of a message whose body was taken out no table and no search has the
// text, whether it was indexed before or comes with its tombstone; what somebody
// else put in its place changes nothing.
func TestExpunged(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	op := testkeys.Ed25519("op")
	signer(t, r, op, "op@example.com")
	const gone, kept = "build/REQUEST.md", "build/STATE.md"
	secret := func(f *envelope.Fields) { f.TLDR, f.Status = "Hush hush", "▶ Hushing" }
	root := r.Commit("begin", map[string]string{
		".bridge/allowed_signers": op.Line("op@example.com,op-relay", ""),
		".bridge/policy.yaml":     "version: 1\nexpunge: {signers: [op@example.com]}\n",
		gone:                      say("REQUEST", "build", "rig-a", "rig-b", "Please hush", secret),
		kept:                      say("STATE", "build", "rig-b", "rig-a", "Please hush", secret),
	}, "-S")
	bury := func(path string) string {
		text, err := envelope.Bury([]byte(say("REQUEST", "build", "rig-a", "rig-b", "Please hush", secret)), &envelope.Tombstone{Path: path, Repository: root,
			Ref: "refs/heads/main", By: "op@example.com", At: "2020-01-01T00:00:00Z", Why: "a token"}, envelope.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	both(t, func(t *testing.T, target func() Target) {
		r.Run("reset", "-q", "--hard", root)
		later, once := open(t, target()), open(t, target())
		x := indexer(t, r, later)
		update(t, x)
		r.Commit("a tombstone", map[string]string{gone: bury(gone)}, "-S")
		update(t, x)
		r.Commit("not one", map[string]string{kept: bury(kept)})
		update(t, x)
		update(t, indexer(t, r, once))
		same(t, later, once)
		clean(t, x)
		for path, want := range map[string]int64{gone: 0, kept: 1} {
			n, err := number(t.Context(), later.conn, "SELECT count(*) FROM bridge_messages WHERE path = $1 AND (words LIKE '%hush%' OR tldr IS NOT NULL OR status_text <> 'Expunged')", path)
			if err != nil || int64(n) != want {
				t.Errorf("%s: %d rows have the text, expected %d, %v", path, n, want, err)
			}
		}
		all, err := later.Ask(t.Context(), query(t, "search"), Parameters{Repos: []string{"team"}, Words: ParseWords([]string{"hush"})})
		if err != nil || len(all.Rows) != 1 {
			t.Errorf("search finds %v, %v", all.Rows, err)
		}
	})
}

func query(t *testing.T, name string) Query {
	t.Helper()
	for _, q := range Queries() {
		if q.Name == name {
			return q
		}
	}
	t.Fatal(name)
	return Query{}
}
