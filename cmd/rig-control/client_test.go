package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
)

// A rig is a clone with a client of its own.
type rig struct {
	*gittest.Repo
	bin string
}

func (r *rig) bridge(args ...string) result {
	name := "rig-bridge"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	cmd := exec.Command(filepath.Join(r.bin, name), args...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.T.Fatal(err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

func (r *rig) ok(t *testing.T, args ...string) string {
	t.Helper()
	got := r.bridge(args...)
	if got.code != 0 {
		t.Fatalf("rig-bridge %v: exit %d: %s%s", args, got.code, got.out, got.err)
	}
	return got.out
}

// rows asks a clone's database.
func (r *rig) rows(t *testing.T, want int, words string, args ...string) {
	t.Helper()
	out := r.ok(t, append([]string{"query"}, args...)...)
	n := 0
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "rig-bridge: ") && containsAll(line, words) {
			n++
		}
	}
	if n != want {
		t.Errorf("query %v: %d rows with %q, expected %d:\n%s", args, n, words, want, out)
	}
}

func containsAll(line, words string) bool {
	for w := range strings.FieldsSeq(words) {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

// TestWriteThrough lets clients send, relay, close and sync where
// .bridge/config.yaml names a database: each command brings it up when it is
// done, and each clone sees its own messages as sent and others' as received.
func TestWriteThrough(t *testing.T) {
	bin := shipped(t)
	databases(t, func(t *testing.T, database func() string) {
		bare := gittest.New(t, gittest.Options{Bare: true})
		seed := bare.Clone()
		key := testkeys.Ed25519("write-through")
		seed.Commit("seed", map[string]string{".bridge/allowed_signers": key.Line(gittest.Email+",op-relay", "")})
		if p := seed.Push("-q", "origin", "main"); p.Code != 0 {
			t.Fatal(p.Stderr)
		}
		clone := func(id string) *rig {
			r := &rig{bare.Clone(), bin}
			r.ok(t, "init", "--rig-id", id, "--no-hooks")
			r.Run("config", "rigward.repository", "team")
			d := database()
			if d == "" {
				d = "control.db"
			}
			config, err := os.ReadFile(filepath.Join(r.Dir, ".bridge", "config.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			r.Write(".bridge/config.yaml", strings.TrimRight(string(config), "\n")+"\ncontrol_plane: "+d+"\n")
			return r
		}
		a, b, op := clone("rig-a"), clone("rig-b"), clone("op-relay")
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, key.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		op.Run("config", "user.name", gittest.Name)
		op.Run("config", "user.email", gittest.Email)
		op.Run("config", "gpg.format", "ssh")
		op.Run("config", "user.signingkey", file)
		send := func(r *rig, typ string, more ...string) {
			t.Helper()
			r.ok(t, append([]string{"send", typ, "--thread", "build"}, more...)...)
		}
		for _, r := range []*rig{a, b, op} {
			if err := os.MkdirAll(filepath.Join(r.Dir, "build"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		send(a, "REQUEST", "--to", "rig-b")
		a.rows(t, 1, "thread=build turn=rig-b from_rig=rig-a", "turn")
		if got := a.bridge("sync", "--check"); got.code != 0 || !strings.Contains(got.err, "last-seen row matches HEAD") {
			t.Errorf("sync --check: exit %d: %s%s", got.code, got.out, got.err)
		}
		hash := ""
		for line := range strings.FieldsSeq(a.ok(t, "thread", "build", "--json")) {
			if _, rest, ok := strings.Cut(line, `"body_hash":"`); ok {
				hash, _, _ = strings.Cut(rest, `"`)
			}
		}
		if len(hash) != 64 {
			t.Fatalf("no body hash in %s", a.ok(t, "thread", "build", "--json"))
		}
		a.rows(t, 1, "event_type=sent rig=rig-a", "events", hash)

		// The other side learns of it by sync, and answers.
		b.ok(t, "sync", "--auto")
		b.rows(t, 1, "event_type=received rig=rig-b", "events", hash)
		b.rows(t, 1, "turn=rig-b", "turn", "--to", "me")
		send(b, "ACK", "--to", "rig-a")
		b.rows(t, 1, "event_type=acked rig=rig-b", "events", hash)

		// The operator relays.
		op.ok(t, "sync", "--auto")
		op.ok(t, "relay", "DECISIONS", "--thread", "build", "--to", "rig-b", "--in-reply-to", hash)
		op.rows(t, 1, "from_rig=op-relay answers=REQUEST.md attested_by="+key.Fingerprint()+" verdict=verified rules= signature_good=true", "relays")

		// And the first one closes.
		a.ok(t, "sync", "--auto")
		a.rows(t, 1, "event_type=acked rig=rig-b", "events", hash)
		a.rows(t, 1, "from_rig=op-relay", "relays")
		a.rows(t, 1, "thread=build", "open")
		a.ok(t, "close", "build", "--status", "completed", "--to", "rig-b")
		a.rows(t, 0, "thread=build", "open")
		a.rows(t, 1, "event_type=resolved rig=rig-a", "events", hash)
		for _, r := range []*rig{b, op} {
			r.ok(t, "sync", "--auto")
			r.rows(t, 0, "thread=build", "open")
		}
		for _, r := range []*rig{a, b, op} {
			agrees(t, r.Repo)
		}

		// A database that is away changes nothing but one line.
		a.Write(".bridge/config.yaml", strings.ReplaceAll("rig_id: rig-a\ncontrol_plane: missing/control.db\n", "missing", filepath.ToSlash(filepath.Join(t.TempDir(), "missing"))))
		got := a.bridge("send", "REQUEST", "--thread", "build", "--to", "rig-b")
		if got.code != 0 || strings.Count(got.err, "control plane") != 1 || !strings.Contains(got.err, "directory does not exist") {
			t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
		}
		if n := bare.Run("rev-list", "--count", "main"); n != "6" {
			t.Errorf("the server has %s commits", n)
		}
	})
}

// TestTurnOfInbox: whose turn it is, the inbox says as the database does, also where branches
// are merged whose commits are of one second or of clocks that go back, and whether the
// clone has read the history at once or bit by bit.
func TestTurnOfInbox(t *testing.T) {
	_, clone := server(t, "team", "")
	r := &rig{Repo: clone, bin: shipped(t)}
	random := rand.New(rand.NewPCG(7, 9))
	rigs := []string{"rig-a", "rig-b", "rig-c"}
	types := []string{"REQUEST", "HANDOFF", "RESPONSE", "ACK", "ACK", "STATE", "RESULT", "RESOLUTION"}
	at := int64(gittest.Epoch)
	for round := range 24 {
		if round == 2 {
			clone.Run("branch", "side")
		}
		if round%8 == 7 { // and what was merged is known before the rest comes
			clone.Run("checkout", "-q", "main")
			clone.Run("merge", "-q", "--no-ff", "-m", "merged", "side")
			clone.Write(".bridge/config.yaml", "rig_id: rig-a\n")
			r.ok(t, "inbox")
		} else if round >= 2 {
			clone.Run("checkout", "-q", []string{"main", "side"}[random.IntN(2)])
		}
		at += random.Int64N(4) - 1
		clone.Setenv("GIT_COMMITTER_DATE", fmt.Sprintf("%d +0000", at))
		files := map[string]string{}
		for range 3 {
			thread, typ := fmt.Sprintf("t-%d", random.IntN(14)), types[random.IntN(len(types))]
			from := random.IntN(3)
			files[fmt.Sprintf("%s/%s-%d.md", thread, typ, round+2)] = say(typ, thread, rigs[from], rigs[(from+1+random.IntN(2))%3], fmt.Sprint(round))
		}
		clone.Commit(fmt.Sprint(round), files)
	}
	clone.Run("checkout", "-q", "main")
	clone.Run("push", "-q", "origin", "main")
	turns := 0
	for i, id := range rigs {
		if kept, err := filepath.Glob(filepath.Join(clone.Dir, ".git", "rigward", "verdicts-*")); i == 2 {
			if err != nil || len(kept) == 0 {
				t.Fatalf("no verdicts are kept: %v", err)
			}
			for _, dir := range kept {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
		}
		clone.Write(".bridge/config.yaml", "rig_id: "+id+"\ncontrol_plane: control.db\n")
		must(t, clone, "record")
		var asked struct {
			Rows []struct{ Thread, Filename string }
		}
		var box struct {
			Items []struct {
				ThreadID string `json:"thread_id"`
				File     string
				Why      []string
			}
		}
		for into, text := range map[any]string{&asked: must(t, clone, "query", "turn", "--to", "me", "--json"), &box: r.ok(t, "inbox", "--json", "--limit", "1000")} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
		var want, got []string
		for _, row := range asked.Rows {
			want = append(want, row.Thread+"/"+row.Filename)
		}
		for _, i := range box.Items {
			if slices.Contains(i.Why, "turn") {
				got = append(got, i.ThreadID+"/"+i.File)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if turns += len(got); !slices.Equal(got, want) {
			t.Errorf("%s: the inbox says %s, the database %s", id, got, want)
		}
	}
	if turns < 5 {
		t.Errorf("only %d turns were compared", turns)
	}
}
