// Package pgtest runs a PostgreSQL server of its own for the tests of a
// package: a new cluster in a scratch directory, reached by a Unix socket.
//
// PostgreSQL does not run as root; there, the server runs as the user postgres
// that its package brings. It ends with the process that started it, however that
// one ends, and inherits no file from it. Keep has it work on a cluster that stays.
package pgtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	once   sync.Once
	dir    string    // of the socket, "" if there is no server
	life   io.Closer // the server ends when it is closed
	guard  *exec.Cmd // waits for that
	why    string    // there is none
	bin    string
	count  atomic.Int64
	failed error
	kept   string // where a cluster that stays is; "": nowhere

	talking sync.Mutex
	talk    *pgconn.PgConn // to the database postgres; nil: none yet
)

// asAdministrator are the settings of a cluster that is kept: those that docs/controlplane.md
// recommends. One that is thrown away does not wait for the disk.
const (
	asAdministrator = "-c shared_buffers=4GB -c effective_cache_size=12GB -c max_wal_size=8GB -c checkpoint_timeout=15min -c wal_compression=on -c maintenance_work_mem=512MB -c random_page_cost=1.1 -c jit=off"
	thrownAway      = "-c fsync=off -c full_page_writes=off"
)

// Main is Run, and ends the process.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run runs the tests of a package, then stops the server, if one was started, and removes its cluster.
// It returns what the process is to exit with.
func Run(m *testing.M) int {
	code := m.Run()
	if dir != "" {
		life.Close()
		_ = guard.Wait()
		if kept == "" {
			os.RemoveAll(dir)
		}
	}
	return code
}

// Need starts the server if it does not run, and skips the test where
// PostgreSQL is not installed.
func Need(t testing.TB) {
	t.Helper()
	once.Do(start)
	if failed != nil {
		t.Fatal(failed)
	}
	if dir == "" {
		t.Skip("no PostgreSQL server: " + why)
	}
}

// Keep has the server run on a cluster in a directory that stays when the tests are done, with the
// settings of an administrator; it is made if it is not there. No server may run yet.
func Keep(t testing.TB, place string) {
	t.Helper()
	if dir != "" && dir != place {
		t.Fatal("another server runs already")
	}
	kept = place
	Need(t)
}

// Kept returns the address of a database of a cluster that is kept, which is made anew unless it is there
// and whole.
func Kept(t testing.TB, name string, whole bool) string {
	t.Helper()
	if !whole {
		Query(t, "postgres", "DROP DATABASE IF EXISTS "+name)
		Query(t, "postgres", "CREATE DATABASE "+name)
	}
	return address(name)
}

func address(name string) string { return "postgres:///" + name + "?host=" + dir + "&user=postgres" }

// Database makes an empty database and returns its address.
func Database(t testing.TB) string {
	t.Helper()
	return database(t, "template1")
}

var (
	building sync.Mutex
	built    = map[string]string{} // names of databases, by kind
)

// Like makes a database that is as build leaves an empty one, whose address it is given and
// which it may keep no connection to, and returns its address. What is built first for a kind
// is copied for all.
func Like(t testing.TB, kind string, build func(address string)) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	if built[kind] == "" {
		made := Database(t)
		build(made)
		name, _, _ := strings.Cut(strings.TrimPrefix(made, "postgres:///"), "?")
		built[kind] = name
	}
	return database(t, built[kind])
}

func database(t testing.TB, template string) string {
	t.Helper()
	Need(t)
	name := fmt.Sprintf("rigward_%d", count.Add(1))
	if kept != "" {
		Query(t, "postgres", "DROP DATABASE IF EXISTS "+name) // of an earlier run
	}
	Query(t, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+template+strategy())
	return address(name)
}

// strategy has files copied for a database, which costs a third of writing all of it to the log.
func strategy() string {
	version, _ := os.ReadFile(filepath.Join(dir, "data", "PG_VERSION"))
	if n, err := strconv.Atoi(strings.TrimSpace(string(version))); err != nil || n < 15 {
		return "" // there is no other way
	}
	return " STRATEGY file_copy"
}

// Query runs statements as the superuser in a database, by its name or address, and returns
// what psql -At prints: a line for each row, with | between the values.
func Query(t testing.TB, database, statement string) string {
	t.Helper()
	Need(t)
	out, err := query(context.Background(), database, statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return out
}

func query(ctx context.Context, database, statement string) (string, error) {
	var conn *pgconn.PgConn
	var err error
	if database == "postgres" { // over one connection: a server's process for each costs more than most statements
		talking.Lock()
		defer talking.Unlock()
		if talk == nil || talk.IsClosed() {
			if talk, err = pgconn.Connect(ctx, address(database)); err != nil {
				return "", err
			}
		}
		conn = talk
	} else {
		if !strings.Contains(database, "://") {
			database = address(database)
		}
		if conn, err = pgconn.Connect(ctx, database); err != nil {
			return "", err
		}
		defer conn.Close(ctx)
	}
	results, err := conn.Exec(ctx, statement).ReadAll()
	if err != nil {
		return "", err
	}
	var lines []string
	for _, r := range results {
		for _, row := range r.Rows {
			lines = append(lines, string(bytes.Join(row, []byte("|"))))
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), nil
}

// Pooled makes an empty database and returns its address behind a pgbouncer that
// pools transactions, and its name; it skips the test where there is none.
func Pooled(t testing.TB) (address, name string) {
	t.Helper()
	direct := Database(t)
	name, _, _ = strings.Cut(strings.TrimPrefix(direct, "postgres:///"), "?")
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("no pgbouncer is installed (apt-get install pgbouncer)")
	}
	place, err := os.MkdirTemp("/tmp", "pgbouncer-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(place) })
	text := "[databases]\n* = host=" + dir + " user=postgres\n[pgbouncer]\npool_mode = transaction\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = " + place +
		"\nauth_type = any\nmax_client_conn = 50\ndefault_pool_size = 2\n"
	if err := os.WriteFile(filepath.Join(place, "ini"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if out, err := exec.Command("chown", "-R", "postgres", place).CombinedOutput(); err != nil {
			t.Fatalf("chown: %v: %s", err, out)
		}
	}
	cmd := as(exec.Command(program, "-q", filepath.Join(place, "ini")))
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	for range 200 {
		if _, err := os.Stat(filepath.Join(place, ".s.PGSQL.6432")); err == nil {
			return "postgres:///" + name + "?host=" + place + "&port=6432&user=postgres", name
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("pgbouncer does not start")
	return "", ""
}

// place is where a cluster is made that is thrown away: in memory where there is room, since a
// database is hundreds of files. A socket's path must be short.
func place() string {
	const memory = "/dev/shm"
	if free(memory) < 4<<30 {
		return "/tmp"
	}
	return memory
}

func start() {
	if runtime.GOOS == "windows" {
		why = "only on Unix"
		return
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		slices.Sort(found)
		bin = filepath.Dir(found[len(found)-1])
	} else if path, err := exec.LookPath("initdb"); err == nil {
		bin = filepath.Dir(path)
	} else {
		why = "initdb is not installed (apt-get install postgresql)"
		return
	}
	scratch, settings, err := kept, asAdministrator, error(nil)
	if kept == "" {
		settings = thrownAway
		scratch, err = os.MkdirTemp(place(), "pgtest-")
	}
	if err != nil {
		failed = err
		return
	}
	if os.Getuid() == 0 {
		if _, err := user.Lookup("postgres"); err != nil {
			why = "tests run as root, and there is no user postgres"
			os.RemoveAll(scratch)
			return
		}
		if out, err := exec.Command("chown", "postgres", scratch).CombinedOutput(); err != nil {
			failed = fmt.Errorf("chown: %w: %s", err, out)
			return
		}
	}
	data := filepath.Join(scratch, "data")
	if _, err := os.Stat(data); err == nil {
		// of an earlier run
	} else if out, err := run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"); err != nil {
		failed = fmt.Errorf("initdb: %w: %s", err, out)
		return
	}
	guard = as(exec.Command("sh", "-c", starting+guardian, "sh", bin, scratch, settings, kept))
	guard.Dir, guard.Stderr = "/", os.Stderr
	answer, err := guard.StdoutPipe()
	if err == nil {
		if life, err = guard.StdinPipe(); err == nil {
			err = guard.Start()
		}
	}
	if err != nil {
		failed = fmt.Errorf("sh: %w", err)
		return
	}
	if line, _ := bufio.NewReader(answer).ReadString('\n'); line != "ready\n" {
		log, _ := os.ReadFile(filepath.Join(scratch, "log"))
		failed = fmt.Errorf("the server does not start: %s", log)
		return
	}
	dir = scratch
}

// starting starts the server. What the process may have inherited, the lock of a queue say,
// must not live on in it.
const starting = `
for fd in 3 4 5 6 7 8 9; do eval "exec $fd>&-"; done
start() {
  "$1/pg_ctl" start -w -D "$2/data" -l "$2/log" -o "-k $2 -c listen_addresses='' -c max_connections=60 $3" </dev/null >/dev/null
}
`

// guardian starts the server, and stops it when its input ends: when the tests
// are done, or their process is gone.
const guardian = `
start "$@" || exit 1
echo ready
cat >/dev/null
if [ "$4" ]; then
  "$1/pg_ctl" stop -t 600 -D "$2/data" -m fast </dev/null >/dev/null
else
  "$1/pg_ctl" stop -D "$2/data" -m immediate </dev/null >/dev/null
  rm -rf "$2"
fi
`

// Ways in which Crash ends the server.
const (
	Immediate  = "immediate"  // pg_ctl stop -m immediate
	Postmaster = "postmaster" // SIGKILL
	Backend    = "backend"    // SIGKILL of one that rig-control uses, if there is one, upon which the server ends all others
)

// crash ends the server and starts it again, which takes some tries where its processes
// are still ending.
const crash = `
case $4 in
immediate) "$1/pg_ctl" stop -w -D "$2/data" -m immediate </dev/null >/dev/null ;;
postmaster) kill -9 "$(head -n 1 "$2/data/postmaster.pid")" ;;
backend)
  pid=$("$1/psql" -h "$2" -U postgres -qAtXc "SELECT pid FROM pg_stat_activity WHERE application_name = 'rig-control' LIMIT 1" postgres)
  if [ -n "$pid" ]; then
    kill -9 "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done # until the server knows
  fi ;;
esac
i=0
until "$1/psql" -h "$2" -U postgres -qAtXc "SELECT 1" postgres >/dev/null 2>&1; do
  i=$((i + 1))
  if [ $i -gt 100 ]; then exit 1; fi
  if [ "$4" != backend ]; then start "$@" 2>/dev/null; fi
  sleep 0.1
done
`

// Crash ends the server as on a bad day, and starts it again.
func Crash(t testing.TB, how string) {
	t.Helper()
	Need(t)
	talking.Lock()
	talk = nil // it ends with the server
	talking.Unlock()
	cmd := as(exec.Command("sh", "-c", starting+crash, "sh", bin, dir, thrownAway, how))
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("the server does not start again after %s: %v: %s\n%s", how, err, out, log)
	}
}

// as makes a command one of the user postgres where this is root.
func as(cmd *exec.Cmd) *exec.Cmd {
	if os.Getuid() != 0 {
		return cmd
	}
	return exec.Command("setpriv", append([]string{"--reuid=postgres", "--regid=postgres", "--init-groups", cmd.Path}, cmd.Args[1:]...)...)
}

// run runs a program of PostgreSQL, as the user postgres where this is root.
func run(program string, args ...string) (string, error) {
	cmd := as(exec.Command(filepath.Join(bin, program), args...))
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	return string(out), err
}
