package controlplane

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/corpus"
	"github.com/rigward/rigward/internal/test/gittest"
)

// TestParts reads threads in parts, as a long one is read, and wants each message of the whole thread
// in one of them, with all to whom it is and with what was done to it, the newest first.
func TestParts(t *testing.T) {
	both(t, func(t *testing.T, target func() Target) {
		edited := gittest.New(t, gittest.Options{})
		for i := range 3 {
			edited.Commit("x", map[string]string{"edited/REQUEST.md": say("REQUEST", "edited", "rig-a", "rig-b,rig-c", fmt.Sprint("Edit ", i), nil), fmt.Sprintf("edited/STATE-%d.md", i): say("STATE", "edited", "rig-b", "rig-a,rig-c", fmt.Sprint(i), nil)})
		}
		some, many := gittest.New(t, gittest.Options{}), gittest.New(t, gittest.Options{})
		tangled(t, some, 40, 7)
		tangled(t, many, 60, 1003) // many in one second
		db := open(t, target())
		messages, refusals, parts := 0, 0, 0
		for repo, r := range map[string]*gittest.Repo{"edited": edited, "some": some, "many": many} {
			x := indexer(t, r, db)
			x.Name = repo
			update(t, x)
			m, f, n := inParts(t, db, repo, strings.Fields(r.Run("ls-tree", "--name-only", "refs/heads/main")))
			messages, refusals, parts = messages+m, refusals+f, parts+n
		}
		if parts < 50 || messages < 50 || refusals == 0 {
			t.Errorf("%d parts, %d messages, %d changes", parts, messages, refusals)
		}
		for _, none := range []string{"x", "2026.x", ".", "2026.1", "\x00.1"} {
			if l, err := db.Look(t.Context(), "edited", "edited", Part{Before: none, Limit: 3, whole: 1}); err != nil || len(l.Said) > 0 {
				t.Errorf("before %q: %d messages, %v", none, len(l.Said), err)
			}
		}
	})
}

// inParts reads threads of a repository, and returns how much was compared.
func inParts(t *testing.T, db *DB, repo string, threads []string) (messages, refusals, parts int) {
	t.Helper()
	for _, thread := range threads {
		all, err := db.Look(t.Context(), repo, thread, Part{})
		if err != nil {
			t.Fatal(err)
		}
		if all.Part || all.Older != "" {
			t.Errorf("%s is read in parts", thread)
		}
		for _, limit := range []int{1, 2, 7} {
			seen, changes, frozen := map[string]string{}, map[string]bool{}, ""
			last := "9999"
			for part := (Part{Limit: limit, whole: 1}); ; {
				l, err := db.Look(t.Context(), repo, thread, part)
				if err != nil {
					t.Fatal(err)
				}
				parts++
				first := last
				for _, s := range l.Said {
					if s.At > last {
						t.Errorf("%s: %s is of %s, in a part before %s", thread, s.File, s.At, last)
					}
					first = min(first, s.At)
					seen[s.File+" "+s.Blob] = whatSaid(s)
				}
				for _, f := range l.Refusals {
					if changes[f.Path+f.Commit] {
						t.Errorf("%s: %+v is in two parts", thread, f)
					}
					changes[f.Path+f.Commit] = true
				}
				if last, frozen = first, l.Frozen; l.Closed != all.Closed || len(l.Said) > 4*limit {
					t.Errorf("%s: closed %t, expected %t; %d messages", thread, l.Closed, all.Closed, len(l.Said))
				}
				if part.Before = l.Older; l.Older == "" {
					break
				}
			}
			ends := ""
			for _, s := range all.Said {
				if got := seen[s.File+" "+s.Blob]; got != whatSaid(s) {
					t.Errorf("%s in parts of %d: got\n%s\nwant\n%s", thread, limit, got, whatSaid(s))
				}
				for _, e := range s.Events {
					if e.Kind == "frozen" {
						ends = max(ends, e.Notes)
					}
				}
			}
			if len(seen) != len(all.Said) || len(changes) != len(all.Refusals) || len(all.Said) > 1 && frozen != ends {
				t.Errorf("%s in parts of %d: %d messages and %d changes, expected %d and %d; frozen until %q, expected %q", thread, limit, len(seen), len(changes), len(all.Said), len(all.Refusals), frozen, ends)
			}
			messages, refusals = messages+len(seen), refusals+len(changes)
		}
		for _, s := range all.Said {
			if one, err := db.Look(t.Context(), repo, thread, Part{Commit: s.Commit, File: s.File}); err != nil || len(one.Said) != 1 || whatSaid(one.Said[0]) != whatSaid(s) {
				t.Errorf("%s/%s alone: %v, %v", thread, s.File, one.Said, err)
			}
		}
	}
	return messages, refusals, parts
}

// whatSaid is a message without what depends on which commit brought it first.
func whatSaid(s *Said) string {
	to := slices.Sorted(slices.Values(s.To))
	return fmt.Sprint(s.File, s.Commit, s.From, to, s.Hash, s.Apart, s.Events)
}

// TestLongThread looks at a thread of very many messages, and wants a part of it: RIGWARD_CONTROL_ROWS=100000
// go test -v -run TestLongThread says how long that takes.
func TestLongThread(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("RIGWARD_CONTROL_ROWS"))
	if n == 0 {
		n = maxWhole + 1000
	}
	both(t, func(t *testing.T, target func() Target) {
		db := open(t, target())
		fill(t, db, "team", n)
		execute(t, db.conn, "UPDATE bridge_messages SET thread = 'long'")
		execute(t, db.conn, fmt.Sprintf("UPDATE rigward_threads SET thread = 'long', counts = '[[\"2026-01-05\",\"rig-a\",0,%d,0,[]]]' WHERE thread = 'thread-000000'", n))
		if db.conn.postgres() {
			execute(t, db.conn, "ANALYZE")
		}
		got := 0
		var slowest time.Duration
		for part := (Part{Limit: 50}); got < 500; {
			began := time.Now()
			l, err := db.Look(t.Context(), "team", "long", part)
			slowest = max(slowest, time.Since(began))
			if err != nil || !l.Part || l.Total != n || len(l.Said) != 50 || l.Older == "" {
				t.Fatalf("%v: %d of %d messages, then %q", err, len(l.Said), l.Total, l.Older)
			}
			for i, s := range l.Said {
				if want := stamp(corpus.Start.Add(time.Duration(n-got-50+i) * 15 * time.Second)); s.At != want {
					t.Errorf("%d behind the newest: %s, expected %s", got, s.At, want)
				}
			}
			got += 50
			part.Before = l.Older
		}
		t.Logf("%d messages: the slowest of %d parts took %v", n, got/50, slowest.Round(10*time.Microsecond))
	})
}
