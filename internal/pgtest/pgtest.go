// Package pgtest runs a PostgreSQL server of its own for the tests of a
// package: a new cluster in a scratch directory, reached by a Unix socket.
//
// PostgreSQL does not run as root; there, the server runs as the user postgres
// that its package brings.
package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	once   sync.Once
	dir    string // of the socket, "" if there is no server
	why    string // there is none
	bin    string
	count  atomic.Int64
	failed error
)

// Main runs the tests of a package, and stops the server after them.
func Main(m *testing.M) {
	code := m.Run()
	Stop()
	os.Exit(code)
}

// Stop stops the server, if one was started, and removes its cluster.
func Stop() {
	if dir != "" {
		run("pg_ctl", "stop", "-D", filepath.Join(dir, "data"), "-m", "immediate")
		os.RemoveAll(dir)
		dir = ""
	}
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

// Database makes an empty database and returns its address.
func Database(t testing.TB) string {
	t.Helper()
	Need(t)
	name := fmt.Sprintf("rigward_%d", count.Add(1))
	Query(t, "postgres", "CREATE DATABASE "+name)
	return Address(name)
}

// Address returns the address of a database of that name.
func Address(name string) string { return "postgres:///" + name + "?host=" + dir + "&user=postgres" }

// Query runs a statement as the superuser, and returns what psql prints.
func Query(t testing.TB, database, statement string) string {
	t.Helper()
	out, err := run("psql", "-h", dir, "-U", "postgres", "-d", database, "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", statement)
	if err != nil {
		t.Fatalf("%s: %v\n%s", statement, err, out)
	}
	return strings.TrimSpace(out)
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
	scratch, err := os.MkdirTemp("/tmp", "pgtest-") // a socket's path must be short
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
	if out, err := run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"); err != nil {
		failed = fmt.Errorf("initdb: %w: %s", err, out)
		return
	}
	options := "-k " + scratch + " -c listen_addresses='' -c fsync=off -c full_page_writes=off -c max_connections=60"
	if out, err := run("pg_ctl", "start", "-w", "-D", data, "-l", filepath.Join(scratch, "log"), "-o", options); err != nil {
		log, _ := os.ReadFile(filepath.Join(scratch, "log"))
		failed = fmt.Errorf("pg_ctl start: %w: %s\n%s", err, out, log)
		return
	}
	dir = scratch
}

// run runs a program of PostgreSQL, as the user postgres where this is root.
func run(program string, args ...string) (string, error) {
	path := filepath.Join(bin, program)
	cmd := exec.Command(path, args...)
	if os.Getuid() == 0 {
		cmd = exec.Command("setpriv", append([]string{"--reuid=postgres", "--regid=postgres", "--init-groups", path}, args...)...)
	}
	cmd.Dir = "/"
	// The server keeps what it inherits open, so it gets a file and no pipe.
	out, err := os.CreateTemp("", "pgtest-")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	text, _ := os.ReadFile(out.Name())
	return string(text), err
}
