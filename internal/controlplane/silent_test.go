package controlplane

import (
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/pgtest"
)

// TestSilent: a server that takes all that is sent and says nothing any more, as one that hangs or
// whose network drops packets, keeps nobody waiting for ever, whatever it was asked.
func TestSilent(t *testing.T) {
	address := pgtest.Database(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var silent atomic.Bool
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("unix", u.Query().Get("host")+"/.s.PGSQL.5432")
			if err != nil {
				c.Close()
				return
			}
			for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
				go func() {
					defer way[1].Close()
					b := make([]byte, 1<<16)
					for {
						n, err := way[0].Read(b)
						if err != nil {
							return
						}
						if !silent.Load() {
							if _, err := way[1].Write(b[:n]); err != nil {
								return
							}
						}
					}
				}()
			}
		}
	}()
	target := parse(t, "postgres://postgres@"+l.Addr().String()+u.Path+"?sslmode=disable")
	for what, ask := range map[string]func(db *DB) error{
		"a question":  func(db *DB) error { _, err := db.Repositories(t.Context()); return err },
		"pushes":      func(db *DB) error { return db.AddPushes(t.Context(), "team", nil) },
		"a statement": func(db *DB) error { return told(t.Context(), target, db.conn.exec(t.Context(), "SELECT 1")) },
		"many rows": func(db *DB) error {
			return told(t.Context(), target, db.conn.load(t.Context(), "rigward_late", []string{"repo_id"}, []any{1}))
		},
		"a new connection": func(*DB) error {
			_, err := Open(t.Context(), Target{name: target.name, dsn: target.dsn + "&connect_timeout=1"}, false)
			return err
		},
	} {
		silent.Store(false)
		db := open(t, target)
		if _, err := db.Repositories(t.Context()); err != nil {
			t.Fatal(err)
		}
		silent.Store(true)
		db.conn.(*postgresConn).patience = 50 * time.Millisecond
		if err := ask(db); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
