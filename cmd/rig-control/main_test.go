package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/test/corpus"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/pgtest"
	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/pkg/envelope"
)

// asProgram makes the test binary the program, killAfter ends it after a time.
const (
	asProgram = "RIGWARD_TEST_RIG_CONTROL"
	killAfter = "RIGWARD_TEST_KILL_AFTER"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		if d, err := time.ParseDuration(os.Getenv(killAfter)); err == nil {
			time.AfterFunc(d, func() {
				self, _ := os.FindProcess(os.Getpid())
				_ = self.Kill()
			})
		}
		dir, _ := os.Getwd()
		env := &hooks.Env{Args: append([]string{"rig-hook"}, os.Args[1:]...), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir, Now: time.Now}
		if len(os.Args) > 1 && slices.Contains(hooks.Names(), os.Args[1]) {
			env.Args = os.Args[2:]
			env.Ship = func(environ []string, lock *os.File) error { // as rig-hook does, but waited for
				cmd := exec.Command(os.Args[0], "ship", "--once")
				cmd.Env, cmd.Stdin = environ, lock
				var exit *exec.ExitError
				if err := cmd.Run(); !errors.As(err, &exit) {
					return err
				}
				return nil
			}
			os.Exit(hooks.Run(context.Background(), os.Args[1], env))
		}
		os.Exit(Main(context.Background(), env))
	}
	code := pgtest.Run(m)
	if linked.dir != "" {
		os.RemoveAll(linked.dir)
	}
	os.Exit(code)
}

// linked is a directory with the programs, as they are shipped, which all tests share. This
// binary could be them, too, but takes twice as long to start.
var linked struct {
	once sync.Once
	dir  string
	err  error
}

func shipped(t testing.TB) string {
	t.Helper()
	linked.once.Do(func() {
		if linked.dir, linked.err = os.MkdirTemp("", "rigward-bin-"); linked.err == nil {
			linked.err = programs.Build(linked.dir, "rig-bridge", "rig-control")
		}
	})
	if linked.err != nil {
		t.Fatal(linked.err)
	}
	return linked.dir
}

func full() bool { return os.Getenv("RIGWARD_CONTROL_FULL") != "" }

type result struct {
	out, err string
	code     int
}

// command is a call of rig-control in a repository, under the name by which rig-hook calls it,
// that has not been started.
func command(r *gittest.Repo, args ...string) *exec.Cmd {
	name := "rig-control"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	cmd := exec.Command(filepath.Join(shipped(r.T), name), args...)
	cmd.Args[0], cmd.Dir, cmd.Env = "rig-hook", r.Dir, slices.Clone(r.Env)
	return cmd
}

// asSelf is a call of this binary as rig-control or a hook, whose end can be timed.
func asSelf(r *gittest.Repo, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		r.T.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env = r.Dir, append([]string{asProgram + "=1"}, r.Env...)
	return cmd
}

// control runs the program in a repository.
func control(r *gittest.Repo, args ...string) result {
	cmd := command(r, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return result{"", err.Error(), -1}
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

func must(t testing.TB, r *gittest.Repo, args ...string) string {
	t.Helper()
	got := control(r, args...)
	if got.code != 0 {
		t.Fatalf("%v: exit %d: %s%s", args, got.code, got.out, got.err)
	}
	return got.out
}

func say(typ, thread, from, to, body string) string {
	f := envelope.Fields{From: from, To: []string{to}, Date: "2026-01-05", Status: "▶ Working", Type: typ, Thread: thread, Body: []byte(body)}
	f.BodyHash = envelope.BodyHash(envelope.NormalizeBody(f.Body))
	data, err := envelope.Render(f)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// server makes a bare repository with a clone's work tree beside it: commits
// made in the clone are pushed. database "" is an SQLite file.
func server(t *testing.T, name, database string) (bare, clone *gittest.Repo) {
	t.Helper()
	bare = gittest.New(t, gittest.Options{Bare: true})
	if database == "" {
		database = "sqlite:control.db"
	}
	bare.Config("rigward.controlPlane", database)
	bare.Config("rigward.pushLogWait", "1m") // a busy machine lacks no record
	bare.Config("rigward.repository", name)
	clone = bare.Clone()
	clone.Commit("0", map[string]string{"build/REQUEST.md": say("REQUEST", "build", "rig-a", "rig-b", "Please build")})
	if p := clone.Push("-q", "origin", "main"); p.Code != 0 {
		t.Fatal(p.Stderr)
	}
	return bare, clone
}

// databases runs a test with an SQLite file and with PostgreSQL.
func databases(t *testing.T, fn func(t *testing.T, database func() string)) {
	t.Run("sqlite", func(t *testing.T) { fn(t, func() string { return "" }) })
	t.Run("postgres", func(t *testing.T) {
		pgtest.Need(t)
		fn(t, func() string { return pgtest.Database(t) })
	})
}

func agrees(t *testing.T, r *gittest.Repo) {
	t.Helper()
	if got := control(r, "index", "--check"); got.code != 0 || got.out != "rig-hook: index check differences=0\n" {
		t.Errorf("check: exit %d: %s%s", got.code, got.out, got.err)
	}
}

// hook installs the program as pre-receive and post-receive.
func hook(t *testing.T, r *gittest.Repo) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pre-receive", "post-receive"} {
		r.Hook(name, "#!/bin/sh\n"+asProgram+"=1 exec '"+self+"' "+name+"\n")
	}
}

func TestTwentyPushesAtOnce(t *testing.T) {
	databases(t, func(t *testing.T, database func() string) {
		bare, clone := server(t, "team", database())
		must(t, bare, "index")
		var wg sync.WaitGroup
		results, tips := make([]result, 20), make([]string, 20)
		for i := range tips {
			tips[i] = clone.Commit("x", map[string]string{fmt.Sprintf("build/STATE-%d.md", i): say("STATE", "build", "rig-b", "rig-a", fmt.Sprint(i))})
		}
		clone.Run("push", "-q", "origin", "main:refs/heads/all")
		for i, tip := range tips {
			bare.Run("update-ref", "refs/heads/main", tip)
			wg.Go(func() { results[i] = control(bare, "ship", "--once") })
		}
		wg.Wait()
		for i, got := range results {
			if got.code != 0 && !strings.Contains(got.err, "locked") {
				t.Errorf("%d: exit %d: %s", i, got.code, got.err)
			}
		}
		must(t, bare, "ship", "--once")
		agrees(t, bare)
	})
}

func TestTwoServersOnOneDatabase(t *testing.T) {
	pgtest.Need(t)
	database := pgtest.Database(t)
	one, oneClone := server(t, "one", database)
	two, twoClone := server(t, "two", database)
	var wg sync.WaitGroup
	for i := range 6 {
		for _, s := range [][2]*gittest.Repo{{one, oneClone}, {two, twoClone}} {
			s[1].Commit("x", map[string]string{fmt.Sprintf("build/ACK-%d.md", i): say("ACK", "build", "rig-b", "rig-a", fmt.Sprint(i))})
			if p := s[1].Push("-q", "origin", "main"); p.Code != 0 {
				t.Fatal(p.Stderr)
			}
			wg.Go(func() {
				if got := control(s[0], "ship", "--once"); got.code != 0 && !strings.Contains(got.err, "locked") {
					t.Errorf("exit %d: %s", got.code, got.err)
				}
			})
		}
	}
	wg.Wait()
	for _, r := range []*gittest.Repo{one, two} {
		must(t, r, "ship", "--once")
		agrees(t, r)
	}
	if n := pgtest.Query(t, regexp.MustCompile(`rigward_\d+`).FindString(database), "SELECT string_agg(DISTINCT r.repo, ' ') FROM bridge_messages m JOIN rigward_repositories r ON r.repo_id = m.repo_id"); n != "one two" {
		t.Errorf("repositories are %q", n)
	}
}

// TestKilled ends the program at random moments, and wants nothing lost.
func TestKilled(t *testing.T) {
	rounds, size := 6, 1000
	if full() {
		rounds, size = 100, 5000
	}
	databases(t, func(t *testing.T, database func() string) {
		bare := gittest.New(t, gittest.Options{Bare: true})
		if err := corpus.Generate(bare.Dir, corpus.Options{Envelopes: size, Relays: true}); err != nil {
			t.Fatal(err)
		}
		d := database()
		if d == "" {
			d = "control.db"
		}
		bare.Run("config", "rigward.controlPlane", d)
		bare.Run("config", "rigward.repository", "team")
		rnd := rand.New(rand.NewPCG(1, 2))
		cut := 0
		for i := range rounds {
			args := []string{"index"}
			if i > 1 {
				args = append(args, "--all")
			}
			cmd := command(bare, args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
			if cmd.Process.Kill() == nil {
				cut++
			}
			_ = cmd.Wait() // killed
		}
		must(t, bare, "index")
		agrees(t, bare)
		t.Logf("%d runs of %d were cut off", cut, rounds)
	})
}

// TestFaults takes the database away in every way. The push stands, one line
// says what is wrong, and the next push brings all rows.
func TestFaults(t *testing.T) {
	bare, clone := server(t, "team", "")
	hook(t, bare)
	file := filepath.Join(bare.Dir, "control.db")
	n, told := 0, "" // what the next push tells
	push := func(t *testing.T, want string) {
		t.Helper()
		n++
		id := clone.Commit("x", map[string]string{fmt.Sprintf("build/STATE-%d.md", n): say("STATE", "build", "rig-b", "rig-a", fmt.Sprint(n))})
		start := time.Now()
		p := clone.Push("-q", "origin", "main")
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("the push took %s", took)
		}
		if p.Code != 0 || bare.Ref("refs/heads/main") != id {
			t.Fatalf("git is affected: %s", p.Stderr)
		}
		if lines := strings.Count(p.Stderr, "lags behind"); told == "" && lines != 0 || told != "" && (lines != 1 || !strings.Contains(strings.ReplaceAll(p.Stderr, "\nremote: ", ""), told)) {
			t.Errorf("%d lines, expected %q: %s", lines, told, p.Stderr)
		}
		if told = outbox.Trouble(outbox.Dir(bare.Dir)); (told == "") != (want == "") || !strings.Contains(told, want) {
			t.Errorf("what ships says %q, expected %q", told, want)
		}
	}
	open := func(t *testing.T) *sql.DB {
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		return db
	}
	push(t, "")
	agrees(t, bare)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	t.Run("deleted", func(t *testing.T) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		// A log that a killed program left must not come back to life.
		if err := os.WriteFile(file+"-wal", []byte("stale"), 0o600); err != nil {
			t.Fatal(err)
		}
		push(t, "")
		agrees(t, bare)
	})
	t.Run("locked", func(t *testing.T) {
		db := open(t)
		defer db.Close()
		if _, err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
			t.Fatal(err)
		}
		push(t, "locked")
		if _, err := db.Exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		push(t, "")
		agrees(t, bare)
	})
	t.Run("newer schema", func(t *testing.T) {
		db := open(t)
		defer db.Close()
		var was int
		if err := db.QueryRow("SELECT version FROM rigward_schema").Scan(&was); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("UPDATE rigward_schema SET version = 99"); err != nil {
			t.Fatal(err)
		}
		push(t, "schema version 99")
		if got := control(bare, "index"); got.code != 2 || !strings.Contains(got.err, "hint: go install") {
			t.Errorf("exit %d: %s", got.code, got.err)
		}
		if got := control(bare, "query", "open"); got.code != 2 {
			t.Errorf("query: exit %d: %s", got.code, got.err)
		}
		if _, err := db.Exec("UPDATE rigward_schema SET version = $1", was); err != nil {
			t.Fatal(err)
		}
		push(t, "")
		agrees(t, bare)
	})
	t.Run("no database at all", func(t *testing.T) {
		bare.Run("config", "rigward.controlPlane", "sqlite:HEAD")
		push(t, "is not an SQLite database")
		bare.Run("config", "rigward.controlPlane", "sqlite:missing/control.db")
		push(t, "directory does not exist")
		bare.Run("config", "rigward.controlPlane", "mysql://x")
		push(t, "expected a file path")
		bare.Run("config", "rigward.controlPlane", "sqlite:control.db")
		push(t, "")
		agrees(t, bare)
	})
	t.Run("unreachable, and no credential told", func(t *testing.T) {
		bare.Run("config", "rigward.controlPlane", "postgres://operator:hunter2@127.0.0.1:1/team?application_name=x")
		push(t, "cannot be reached")
		for _, args := range [][]string{{"index"}, {"index", "--check"}, {"query", "open", "--json"}} {
			got := control(bare, args...)
			if got.code != 2 || strings.Contains(got.out+got.err, "hunter2") || strings.Contains(got.out+got.err, "operator") {
				t.Errorf("%v: exit %d: %s%s", args, got.code, got.out, got.err)
			}
		}
		bare.Run("config", "rigward.controlPlane", "postgres://operator:hunter2@[::1/%zz")
		if got := control(bare, "index"); got.code != 2 || strings.Contains(got.err, "hunter2") {
			t.Errorf("exit %d: %s", got.code, got.err)
		}
		bare.Run("config", "rigward.controlPlane", "sqlite:control.db")
		push(t, "")
		agrees(t, bare)
	})
}

func TestReadOnly(t *testing.T) {
	pgtest.Need(t)
	database := pgtest.Database(t)
	name := regexp.MustCompile(`rigward_\d+`).FindString(database)
	bare, clone := server(t, "team", database)
	must(t, bare, "index")
	pgtest.Query(t, "postgres", "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	clone.Commit("x", map[string]string{"build/ACK.md": say("ACK", "build", "rig-b", "rig-a", "Seen")})
	clone.Run("push", "-q", "origin", "main")
	if got := control(bare, "ship", "--once"); got.code != 2 || !strings.Contains(got.err, "is read-only") || strings.Count(got.err, "\n") != 1 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if got := control(bare, "query", "open"); got.code != 0 {
		t.Errorf("query: exit %d: %s", got.code, got.err)
	}
	pgtest.Query(t, "postgres", "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	must(t, bare, "ship", "--once")
	agrees(t, bare)
}

// TestConnectionLost ends the server's side in the middle of a transaction.
func TestConnectionLost(t *testing.T) {
	pgtest.Need(t)
	database := pgtest.Database(t)
	name := regexp.MustCompile(`rigward_\d+`).FindString(database)
	bare := gittest.New(t, gittest.Options{Bare: true})
	if err := corpus.Generate(bare.Dir, corpus.Options{Envelopes: 2000}); err != nil {
		t.Fatal(err)
	}
	bare.Run("config", "rigward.controlPlane", database)
	bare.Run("config", "rigward.repository", "team")
	done := make(chan result, 1)
	go func() { done <- control(bare, "index") }()
	lost := false
	for !lost {
		select {
		case got := <-done:
			t.Fatalf("it was over before it could be disturbed: exit %d %s", got.code, got.err)
		default:
		}
		lost = pgtest.Query(t, "postgres", "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rig-control' AND datname = '"+name+"' AND xact_start IS NOT NULL AND (query LIKE 'INSERT INTO bridge%' OR query ILIKE 'copy %')) x") != "0"
	}
	if got := <-done; got.code != 2 || !strings.Contains(got.err, "the connection") && !strings.Contains(got.err, "cannot be reached") || strings.Count(got.err, "\n") > 2 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	must(t, bare, "index")
	agrees(t, bare)
}

func TestQuery(t *testing.T) {
	bare, clone := server(t, "team", "")
	must(t, bare, "index")
	if got := must(t, bare, "query", "turn"); !strings.HasPrefix(got, "rig-hook: query turn rows=1 more=false as_of="+bare.Ref("refs/heads/main")[:12]+" at=20") || !strings.Contains(got, "\nthread=build turn=rig-b from_rig=rig-a message_type=REQUEST ") {
		t.Error(got)
	}
	clone.Commit("x", map[string]string{"build/ACK.md": say("ACK", "build", "rig-b", "rig-a", "Seen"), "build/RESULT.md": say("RESULT", "build", "rig-b", "rig-a", "Done")})
	clone.Run("push", "-q", "origin", "main")
	must(t, bare, "ship", "--once")
	if got := must(t, bare, "query", "turn", "--to", "rig-a", "--json"); !strings.HasPrefix(got, `{"schema_version":"1.0","op":"query","query":"turn","repo":"team","rows":[{`) || !strings.Contains(got, `"turn":"rig-a"`) || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
	if got := must(t, bare, "query", "open", "--since=1m"); !strings.HasPrefix(got, "rig-hook: query open rows=0") {
		t.Error(got)
	}
	if got := must(t, bare, "query", "idle"); !strings.HasPrefix(got, "rig-hook: query idle rows=1") {
		t.Error(got)
	}
	hash := envelope.BodyHash(envelope.NormalizeBody([]byte("Please build")))
	if got := must(t, bare, "query", "events", hash); !strings.Contains(got, "event_type=acked rig=rig-b") {
		t.Error(got)
	}
	if got := must(t, bare, "query", "unverified", "--limit", "1"); !strings.HasPrefix(got, "rig-hook: query unverified rows=1 more=true") {
		t.Error(got)
	}
	if got := must(t, bare, "query", "turn", "--sql"); !strings.HasPrefix(got, "SELECT ") || !strings.Contains(got, "\n-- $1 repo $2 to $3 since $4 until $5 from $6 type $7 limit\n") {
		t.Error(got)
	}
	for want, args := range map[string][]string{
		"<question> is missing": nil, `unknown flag "--nope"`: {"turn", "--nope"}, `unexpected argument "x"`: {"turn", "x"}, "<hash> is missing": {"message"},
		"no question is called": {"drop table"}, "expected a body_hash": {"message", "' OR 1=1"}, "--since is": {"open", "--since", "yesterday"},
		"--limit is": {"open", "--limit", "-1"}, "--to needs a value": {"open", "--to"}, "nobody's clone": {"turn", "--to", "me"},
		"there is no word": {"search", "...", "!"}, "--type is": {"open", "--type", "NOTE"}, "--type says nothing to": {"pushes", "--type", "ACK"}, "--limit says nothing to": {"stats", "--limit", "1"}, "--until is": {"open", "--until", "x"},
		"--after is not the cursor": {"open", "--after", "x"}, "has no repository": {"open", "--repo", "nobody"}, "exclude each other": {"open", "--all", "--repo", "x"},
		"--follow is for the question events": {"open", "--follow"}, "--once is for --follow": {"events", "--once"}, "--after is not the cursor of an answer to events": {"events", "--follow", "--once", "--after", "e"},
	} {
		got := control(bare, append([]string{"query"}, args...)...)
		if got.code != 1 || !strings.Contains(got.err, want) || got.out != "" {
			t.Errorf("%v: exit %d, %q: %s", args, got.code, got.out, got.err)
		}
	}
	// A hint names the program that was asked, and what it can do here.
	for hint, args := range map[string][]string{
		"rig-hook query --help": {"nobody"}, "rig-hook query turn --to rig-b": {"turn", "rig-b"}, "rig-hook query messages lists": {"message", "abc"},
		"": {"open", "--since", "2026-02-01", "--until", "2026-01-01"},
	} {
		if got := control(bare, append([]string{"query"}, args...)...); got.code != 1 || hint != "" && !strings.Contains(got.err, "\nhint: "+hint) {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
	must(t, bare, "query", "stats", "--until", "2026-01-01") // control: --since was not said
}

// TestRoles: a role that may not do what is asked is told as such.
func TestRoles(t *testing.T) {
	database := pgtest.Database(t)
	bare, _ := server(t, "team", database)
	must(t, bare, "index")
	role := "reader_" + filepath.Base(strings.Split(database, "?")[0])
	pgtest.Query(t, database, "CREATE ROLE "+role+" LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+role)
	t.Cleanup(func() { pgtest.Query(t, database, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	q := u.Query()
	q.Set("user", role)
	u.RawQuery = q.Encode()
	bare.Run("config", "rigward.controlPlane", u.String())
	must(t, bare, "query", "turn") // control: it may read
	if got := control(bare, "index", "--all"); got.code != 2 || !strings.Contains(got.err, "refused the role this: \"permission denied for table") || !strings.Contains(got.err, "\nhint: as the owner of the tables: GRANT ") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

// TestNoTLS: why a server takes no connection is told without the user.
func TestNoTLS(t *testing.T) {
	bare, _ := server(t, "team", "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var ask [8]byte
			if _, err := io.ReadFull(c, ask[:]); err == nil {
				_, _ = c.Write([]byte("N"))
			}
			c.Close()
		}
	}()
	bare.Run("config", "rigward.controlPlane", "postgres://somebody:secret@"+l.Addr().String()+"/x?sslmode=require")
	if got := control(bare, "query", "turn"); got.code != 2 || !strings.Contains(got.err, "cannot be reached: ") || !strings.Contains(got.err, "refused TLS") || strings.Contains(got.err, "somebody") || strings.Contains(got.err, "secret") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

// TestClient brings a clone's own database up, and never takes its address
// from what others can push.
func TestClient(t *testing.T) {
	_, clone := server(t, "team", "")
	if got := control(clone, "record"); got.code != 0 || got.err != "" {
		t.Errorf("without a configuration: exit %d: %s", got.code, got.err)
	}
	clone.Write(".bridge/config.yaml", "rig_id: rig-a\ncontrol_plane: control.db\n")
	must(t, clone, "record")
	if got := must(t, clone, "last-seen"); !strings.HasPrefix(got, "last-seen row matches HEAD ") {
		t.Error(got)
	}
	if got := must(t, clone, "query", "turn", "--to", "me"); !strings.HasPrefix(got, "rig-hook: query turn rows=0") {
		t.Error(got)
	}
	clone.Commit("x", map[string]string{"build/HANDOFF.md": say("HANDOFF", "build", "rig-b", "rig-a", "Yours")})
	if got := control(clone, "last-seen"); got.code != 1 || !strings.Contains(got.out, "does not match HEAD") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	must(t, clone, "record")
	if got := must(t, clone, "query", "turn", "--to", "me"); !strings.HasPrefix(got, "rig-hook: query turn rows=1") {
		t.Error(got)
	}
	hash := envelope.BodyHash(envelope.NormalizeBody([]byte("Please build")))
	if got := must(t, clone, "query", "events", hash); !strings.Contains(got, "event_type=sent rig=rig-a") {
		t.Error(got)
	}
	agrees(t, clone)
	clone.Commit("mine", map[string]string{".bridge/config.yaml": "rig_id: rig-a\ncontrol_plane: evil.db\n"})
	if got := control(clone, "record"); got.code != 0 || !strings.Contains(got.err, "is committed") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if _, err := os.Stat(filepath.Join(clone.Dir, ".git", "evil.db")); err == nil {
		t.Error("what was pushed chose the database")
	}
}
