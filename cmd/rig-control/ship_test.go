package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/pgtest"
)

// ask returns the rows of a question.
func ask(t *testing.T, r *gittest.Repo, question string) []map[string]any {
	t.Helper()
	var o struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(must(t, r, "query", question, "--json", "--limit", "0")), &o); err != nil {
		t.Fatal(err)
	}
	return o.Rows
}

// TestPushes: the log tells of pushes that landed, that were refused and that
// were cut off, once, however often it is shipped and by however many.
func TestPushes(t *testing.T) {
	databases(t, func(t *testing.T, database func() string) {
		bare, clone := server(t, "team", database())
		hook(t, bare)
		for i := range 3 {
			clone.Commit("x", map[string]string{fmt.Sprintf("build/STATE-%d.md", i): say("STATE", "build", "rig-b", "rig-a", fmt.Sprint(i))})
			if p := clone.Push("-q", "origin", "main"); p.Code != 0 {
				t.Fatal(p.Stderr)
			}
		}
		clone.Commit("x", map[string]string{"build/REQUEST.md": say("REQUEST", "build", "rig-a", "rig-b", "Something else")})
		if p := clone.Push("-q", "origin", "main"); p.Code == 0 {
			t.Fatal("an accepted envelope was changed")
		}
		check := func() { // nobody but the hook has shipped it
			t.Helper()
			rows := ask(t, bare, "pushes")
			if len(rows) != 4 || rows[0]["outcome"] != "refused" || rows[0]["rules"] != "append-only" || rows[0]["exit_code"] != 1.0 || rows[3]["outcome"] != "landed" {
				t.Errorf("%v", rows)
			}
			if refs, _ := rows[0]["refs"].(string); !strings.Contains(refs, clone.Run("rev-parse", "HEAD")) || !strings.Contains(refs, "refs/heads/main") {
				t.Errorf("refs %q", refs)
			}
			if places, _ := rows[0]["places"].(string); !strings.Contains(places, `"path":"build/REQUEST.md"`) {
				t.Errorf("places %q", places)
			}
			if rows := ask(t, bare, "refused-pushes"); len(rows) != 1 || rows[0]["outcome"] != "refused" {
				t.Errorf("%v", rows)
			}
			text := must(t, bare, "query", "refused-pushes")
			if want := ` refs=refs/heads/main:` + clone.Run("rev-parse", "--short=12", "HEAD~1") + `..` + clone.Run("rev-parse", "--short=12", "HEAD") + ` places="append-only build/REQUEST.md`; !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", text, want)
			}
		}
		check()
		// All is told again, by three at once.
		if err := os.Remove(filepath.Join(outbox.Dir(bare.Dir), "shipped")); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { control(bare, "ship", "--once") })
		}
		wg.Wait()
		must(t, bare, "ship", "--once")
		check()
		// One that was killed while it was judged.
		id := strings.Repeat("0", 24)
		if err := outbox.Append(outbox.Dir(bare.Dir), outbox.Record{ID: id, Push: id, Stage: outbox.Received, Hook: "pre-receive", At: "2020-01-01T00:00:00.000000Z"}, time.Minute); err != nil {
			t.Fatal(err)
		}
		bare.Run("config", "rigward.pushLogKeep", "forever")
		must(t, bare, "ship", "--once")
		if rows := ask(t, bare, "refused-pushes"); len(rows) != 2 || rows[1]["outcome"] != "unfinished" {
			t.Errorf("%v", rows)
		}
		// What is older than it is to be kept goes.
		bare.Run("config", "rigward.pushLogKeep", "90d")
		must(t, bare, "ship", "--once")
		if rows := ask(t, bare, "pushes"); len(rows) != 4 {
			t.Errorf("%v", rows)
		}
		bare.Run("config", "rigward.pushLogKeep", "soon")
		if got := control(bare, "ship", "--once"); got.code != 2 || !strings.Contains(got.err, "rigward.pushLogKeep is") {
			t.Errorf("exit %d: %s", got.code, got.err)
		}
	})
}

// TestShipService: a service brings pushes in by itself, while hooks start
// nobody, and goes on after the database was away.
func TestShipService(t *testing.T) {
	bare, clone := server(t, "team", "")
	hook(t, bare)
	other, _ := server(t, "other", "")
	cmd := command(bare, "ship", "--every", "20ms", ".", other.Dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait() // killed
	}()
	wait := func(what string, ok func() bool) {
		t.Helper()
		for range 600 {
			if ok() {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal(what)
	}
	wait("neither is brought up", func() bool {
		return control(bare, "index", "--check").code == 0 && control(other, "index", "--check").code == 0
	})
	clone.Commit("x", map[string]string{"build/ACK.md": say("ACK", "build", "rig-b", "rig-a", "Seen")})
	if p := clone.Push("-q", "origin", "main"); p.Code != 0 || p.Stderr != "" {
		t.Fatal(p.Stderr)
	}
	wait("a push does not come in", func() bool {
		return control(bare, "index", "--check").code == 0 && len(ask(t, bare, "pushes")) == 1
	})
	if err := os.Rename(filepath.Join(bare.Dir, "control.db"), filepath.Join(bare.Dir, "away.db")); err != nil {
		t.Fatal(err)
	}
	bare.Run("config", "rigward.controlPlane", "sqlite:missing/control.db")
	clone.Commit("x", map[string]string{"build/STATE.md": say("STATE", "build", "rig-b", "rig-a", "On")})
	if p := clone.Push("-q", "origin", "main"); p.Code != 0 {
		t.Fatal(p.Stderr)
	}
	wait("nobody tells that the database is away", func() bool { return strings.Contains(outbox.Trouble(outbox.Dir(bare.Dir)), "directory does not exist") })
	bare.Run("config", "rigward.controlPlane", "sqlite:control.db")
	wait("it does not go on", func() bool { return control(bare, "index", "--check").code == 0 && len(ask(t, bare, "pushes")) == 1 })
}

// TestKilledHooksAndShippers pushes while hooks and shippers are killed at random
// moments: what the outbox tells is in the database once, and the index is that
// of the history.
func TestKilledHooksAndShippers(t *testing.T) {
	rounds := 15
	if full() {
		rounds = 300
	}
	databases(t, func(t *testing.T, database func() string) {
		bare, clone := server(t, "team", database())
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		// A hook kills itself, and what it starts, after the time that a file says.
		for _, name := range []string{"pre-receive", "post-receive"} {
			bare.Hook(name, fmt.Sprintf("#!/bin/sh\n%s=1 %s=$(cat %s.after) exec '%s' %s\n", asProgram, killAfter, name, self, name))
		}
		after := func(name string) {
			text := fmt.Sprintf("%dms", 1+rand.IntN(60))
			if rand.IntN(3) > 0 {
				text = ""
			}
			if err := os.WriteFile(filepath.Join(bare.Dir, name+".after"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		landed := 0
		for i := range rounds {
			after("pre-receive")
			after("post-receive")
			files := map[string]string{fmt.Sprintf("build/STATE-%d.md", i): say("STATE", "build", "rig-b", "rig-a", fmt.Sprint(i))}
			if i%4 == 3 {
				files = map[string]string{"build/REQUEST.md": say("REQUEST", "build", "rig-a", "rig-b", fmt.Sprint(i))}
			}
			base := clone.Run("rev-parse", "HEAD")
			clone.Commit("x", files)
			shipper := command(bare, "ship", "--once")
			if err := shipper.Start(); err != nil {
				t.Fatal(err)
			}
			killed := make(chan struct{})
			go func() {
				defer close(killed)
				time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
				_ = shipper.Process.Kill()
				_ = shipper.Wait() // killed
			}()
			if p := clone.Push("-q", "origin", "main"); p.Code == 0 {
				landed++
			} else {
				clone.Run("reset", "-q", "--hard", base)
			}
			<-killed
		}
		records, pushes := shippedOnce(t, bare)
		t.Logf("%d of %d pushes landed, %d records of %d pushes", landed, rounds, records, pushes)
	})
}

// shippedOnce ships what is left, and holds that what the outbox tells is in the database
// once, and that the index is that of the history.
func shippedOnce(t *testing.T, bare *gittest.Repo) (records, pushes int) {
	t.Helper()
	must(t, bare, "ship", "--once")
	b, err := outbox.Read(outbox.Dir(bare.Dir), outbox.Cursor{}, 1<<20)
	if err != nil || b.Torn > 0 {
		t.Fatal(err, b.Torn)
	}
	told, seen := map[string]bool{}, map[string]bool{}
	for _, r := range b.Records {
		told[r.Push], seen[r.ID] = true, true
	}
	if len(seen) != len(b.Records) {
		t.Errorf("%d records, %d ids", len(b.Records), len(seen))
	}
	if rows := ask(t, bare, "pushes"); len(rows) != len(told) {
		t.Errorf("%d pushes are told of, %d are in the database", len(told), len(rows))
	}
	agrees(t, bare)
	return len(b.Records), len(told)
}

// TestKilledServer ends PostgreSQL while pushes are shipped, in each way in which it can
// end, and starts it again: nothing is lost and nothing is there twice.
func TestKilledServer(t *testing.T) {
	pgtest.Need(t)
	rounds := 3
	if full() {
		rounds = 30
	}
	bare, clone := server(t, "team", pgtest.Database(t))
	hook(t, bare)
	cut := 0
	for i := range rounds {
		for j := range 3 {
			file := fmt.Sprintf("build/STATE-%d-%d.md", i, j)
			if j == 2 { // refused
				file = "build/REQUEST.md"
			}
			clone.Commit("x", map[string]string{file: say("STATE", "build", "rig-b", "rig-a", fmt.Sprint(i, j))})
			p := clone.Push("-q", "origin", "main")
			if landed := p.Code == 0; landed != (j < 2) {
				t.Fatalf("%s: %s", file, p.Stderr)
			}
		}
		clone.Run("reset", "-q", "--hard", "HEAD~1")
		if err := os.RemoveAll(filepath.Join(outbox.Dir(bare.Dir), "shipped")); err != nil { // all is told again
			t.Fatal(err)
		}
		shipper := command(bare, "ship", "--once")
		if err := shipper.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		pgtest.Crash(t, []string{pgtest.Immediate, pgtest.Postmaster, pgtest.Backend}[i%3])
		if err := shipper.Wait(); err != nil {
			cut++
		}
	}
	records, pushes := shippedOnce(t, bare)
	t.Logf("%d rounds, %d shippers lost the database, %d records of %d pushes", rounds, cut, records, pushes)
}

// TestOneShipsAtATime: of hooks that refuse at once one starts what ships, and no other waits for
// that, though the database takes connections and says nothing. What they told is there when a
// database answers, though nobody pushes again.
func TestOneShipsAtATime(t *testing.T) {
	bare, _ := server(t, "team", "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reached := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached <- c
		}
	}()
	const hooks = 12
	refuse := func() chan error {
		done := make(chan error, hooks)
		for range hooks {
			go func() {
				cmd := asSelf(bare, "pre-receive")
				cmd.Stdin = strings.NewReader("no update\n")
				done <- cmd.Run()
			}()
		}
		return done
	}
	bare.Run("config", "rigward.controlPlane", "postgres://u@"+l.Addr().String()+"/x?sslmode=disable&connect_timeout=600")
	done := refuse()
	for range hooks - 1 { // the last one waits for what it has started, as only these tests do
		if err := <-done; err == nil {
			t.Error("what is no update was let through")
		}
	}
	hung := <-reached
	if n := len(reached); n > 0 {
		t.Errorf("%d more have reached for the database", n)
	}
	hung.Close()
	<-done
	if got := outbox.Trouble(outbox.Dir(bare.Dir)); !strings.Contains(got, "the control plane") {
		t.Errorf("what ships says %q", got)
	}
	bare.Run("config", "rigward.controlPlane", "sqlite:control.db")
	done = refuse()
	for range hooks {
		<-done
	}
	if n := len(ask(t, bare, "pushes")); n != 2*hooks {
		t.Errorf("%d pushes are in the database, expected %d", n, 2*hooks)
	}
	// A line that a full disk has cut off is no reason to go on for ever.
	f, err := os.OpenFile(filepath.Join(outbox.Dir(bare.Dir), "00000001.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("\n{\"id\":\"cut")
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	must(t, bare, "ship", "--once")
}

// TestStatus: how far the index is, what waits, what was found, as text, JSON and
// metrics.
func TestStatus(t *testing.T) {
	bare, clone := server(t, "team", "")
	hook(t, bare)
	if got := control(bare, "status", "--json"); got.code != 1 || !strings.Contains(got.out, `"problem":"the control plane `) {
		t.Errorf("without a database: exit %d: %s%s", got.code, got.out, got.err)
	}
	clone.Commit("x", map[string]string{"build/ACK.md": say("ACK", "build", "rig-b", "rig-a", "Seen")})
	if p := clone.Push("-q", "origin", "main"); p.Code != 0 {
		t.Fatal(p.Stderr)
	}
	agrees(t, bare)
	read := func(code int) (s status) {
		t.Helper()
		got := control(bare, "status", "--json")
		if err := json.Unmarshal([]byte(got.out), &s); err != nil || got.code != code {
			t.Errorf("exit %d, %v: %s%s", got.code, err, got.out, got.err)
		}
		return s
	}
	if s := read(0); s.Behind != 0 || s.Waiting != 0 || s.Shipped != 3 || s.AsOf.Commit != s.Head || s.Head != bare.Ref("refs/heads/main") || s.Problem != "" || s.Checked == "" || s.Done == "" {
		t.Errorf("%+v", s)
	}
	clone.Commit("x", map[string]string{"build/STATE.md": say("STATE", "build", "rig-b", "rig-a", "On")})
	bare.Run("fetch", "-q", clone.Dir, "main:main") // past the hooks
	if s := read(1); s.Behind != 1 || s.AsOf.Commit == s.Head {
		t.Errorf("%+v", s)
	}
	control(bare, "status", "--metrics", "rigward.prom")
	data, err := os.ReadFile(filepath.Join(bare.Dir, "rigward.prom"))
	for _, want := range []string{"# TYPE rigward_commits_behind gauge\nrigward_commits_behind{repo=\"team\"} 1\n", "rigward_records_total{repo=\"team\"} 3\n", "rigward_problem{repo=\"team\"} 0\n"} {
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%v: no %q in\n%s", err, want, data)
		}
	}
	if got := control(bare, "status"); !strings.HasPrefix(got.out, "rig-hook: status repo=team database=") {
		t.Error(got.out)
	}
}
