package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/test/gittest"
)

// natsServer runs a NATS server with JetStream in this process, and returns its address.
func natsServer(t *testing.T) (address string, js jetstream.JetStream) {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return s.ClientURL(), js
}

// told adds records to the outbox of a repository, and returns their ids.
func told(t *testing.T, r *gittest.Repo, n int) []string {
	t.Helper()
	var ids []string
	for range n {
		id := outbox.NewID()
		ids = append(ids, id)
		record := outbox.Record{ID: id, Push: id, Stage: outbox.Judged, Hook: "pre-receive", At: time.Now().UTC().Format(outbox.Time), Exit: 1}
		if err := outbox.Append(outbox.Dir(r.Dir), record, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// messages reads all that a stream holds, by the ids of records.
func messages(t *testing.T, js jetstream.JetStream, subject string) map[string]int {
	t.Helper()
	s, err := js.Stream(t.Context(), "RIGWARD")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		var o struct{ Repo, ID string }
		if err := json.Unmarshal(m.Data, &o); err != nil || m.Subject != subject || m.Header.Get("Nats-Msg-Id") != o.Repo+" "+o.ID {
			t.Errorf("%v: %s %s of %s", err, m.Subject, m.Data, m.Header)
		}
		all[o.ID]++
	}
	return all
}

// TestStream: shippers that are killed at random moments, and told the same again, take
// every record to the stream once; the database does not wait for a stream that is away.
func TestStream(t *testing.T) {
	rounds := 12
	if full() {
		rounds = 300
	}
	address, js := natsServer(t)
	bare, clone := server(t, "team.git", "")
	bare.Run("config", "rigward.nats", address)
	ids := told(t, bare, 400)
	must(t, bare, "ship", "--once")
	for i := range rounds {
		if i%3 == 0 { // all that is still there is told again
			if err := outbox.Keep(outbox.Dir(bare.Dir), outbox.Cursor{}, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		ids = append(ids, told(t, bare, 20)...)
		cmd := asSelf(bare, "ship", "--once")
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%dms", killAfter, 5+rand.IntN(150)))
		_ = cmd.Run() // killed, mostly
	}
	must(t, bare, "ship", "--once")
	got := messages(t, js, "rigward.pushes.team=2Egit")
	for _, id := range ids {
		if got[id] != 1 {
			t.Errorf("record %s is there %d times", id, got[id])
		}
	}
	if len(got) != len(ids) || len(ask(t, bare, "pushes")) != len(ids) {
		t.Errorf("%d records, %d in the stream, %d in the database", len(ids), len(got), len(ask(t, bare, "pushes")))
	}

	// Away, with a password that nobody is told.
	bare.Run("config", "rigward.nats", "nats://user:secret@127.0.0.1:1")
	more := told(t, bare, 2*shipRecords+1)
	clone.Commit("x", map[string]string{"build/ACK.md": say("ACK", "build", "rig-b", "rig-a", "Seen")})
	clone.Run("push", "-q", "origin", "main")
	res := control(bare, "ship", "--once")
	if res.code != 2 || !strings.Contains(res.err, "the NATS server nats://127.0.0.1:1 cannot be reached") || strings.Contains(res.err, "secret") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
	if control(bare, "index", "--check").code != 0 || len(ask(t, bare, "pushes")) != len(ids)+len(more) {
		t.Error("the database waits for the stream")
	}
	bare.Run("config", "rigward.nats", address)
	must(t, bare, "ship", "--once")
	got = messages(t, js, "rigward.pushes.team=2Egit")
	for _, id := range more {
		if got[id] != 1 {
			t.Fatal("what was told while the stream was away is not in it")
		}
	}
	bare.Run("config", "rigward.nats", "http://127.0.0.1")
	told(t, bare, 1)
	if res := control(bare, "ship", "--once"); res.code != 2 || !strings.Contains(res.err, "is malformed") || !strings.Contains(res.err, "hint: nats://HOST:4222") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
}
