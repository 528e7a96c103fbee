package controlplane

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/outbox"
)

// TestPushDays tells of pushes in any order, some records twice, by several programs at
// once: what became of each and what is counted of a day depend on what was told alone.
func TestPushDays(t *testing.T) {
	rnd := rand.New(rand.NewSource(7))
	day := func(i int) time.Time { return time.Date(2026, 1, 1+i%3, 8, i%60, 0, 0, time.UTC) }
	var told []outbox.Record
	type counted struct {
		pushes, refused, undecided int64
		took                       []int64
	}
	want := map[dayRig]*counted{}
	outcomes := map[string]string{}
	for i := range 90 {
		push, at, who := fmt.Sprintf("p%d", i), day(i).Format(outbox.Time), fmt.Sprintf("user-%d", i%4)
		told = append(told, outbox.Record{ID: push + "-1", Push: push, Stage: outbox.Received, Hook: "pre-receive", At: at, Who: map[string]string{"USER": who}})
		key := dayRig{at[:10], who}
		if want[key] == nil {
			want[key] = &counted{}
		}
		of := want[key]
		of.pushes++
		judged := outbox.Record{ID: push + "-2", Push: push, Stage: outbox.Judged, Hook: "pre-receive", At: at, Exit: i % 5 % 3, Millis: float64(1 + i*7)}
		switch {
		case i%9 == 0:
			outcomes[push] = "unfinished"
			of.undecided++
			continue
		case judged.Exit == 1:
			outcomes[push] = "refused"
			of.refused++
		case judged.Exit == 2:
			outcomes[push] = "undecided"
			of.undecided++
		case i%2 == 0:
			outcomes[push] = "landed"
			told = append(told, outbox.Record{ID: push + "-3", Push: push, Stage: outbox.Landed, Hook: "post-receive", At: at})
		default:
			outcomes[push] = "accepted"
		}
		told = append(told, judged)
		of.took = append(of.took, millis(judged.Millis))
	}
	both(t, func(t *testing.T, target func() Target) {
		where := target()
		open(t, where)
		done := make(chan error)
		for range 3 {
			db := open(t, where)
			all := append(slices.Clone(told), told[:40]...)
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			go func() {
				var err error
				for part := range slices.Chunk(all, 17) {
					if err == nil {
						err = db.AddPushes(t.Context(), "team", part)
					}
				}
				done <- err
			}()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		db := open(t, where)
		p := Parameters{Repos: []string{"team"}, Since: day(0), Now: day(0)}
		for _, row := range ask(t, db, "pushes", Parameters{Repos: p.Repos}).Rows {
			push, _ := row[1].(string)
			if row[3] != outcomes[push] {
				t.Errorf("%s is %v, expected %s", push, row[3], outcomes[push])
			}
			delete(outcomes, push)
		}
		if len(outcomes) > 0 {
			t.Errorf("not told: %v", outcomes)
		}
		outcomes = map[string]string{}
		for _, row := range ask(t, db, "pushes", Parameters{Repos: p.Repos}).Rows {
			outcomes[row[1].(string)] = row[3].(string)
		}
		var lines, each []string
		for _, key := range slices.SortedFunc(maps.Keys(want), func(a, b dayRig) int {
			return slices.Compare([]string{b.day, a.rig}, []string{a.day, b.rig})
		}) {
			w := want[key]
			slices.Sort(w.took)
			var median any
			if ms, ok := percentile(w.took, 50); ok {
				median = float64(ms)
			}
			lines = append(lines, fmt.Sprint(key.day, key.rig, w.pushes, w.refused, w.undecided, share(w.refused, w.pushes), median))
		}
		for _, row := range ask(t, db, "push-days", p).Rows {
			each = append(each, fmt.Sprint(row[0], row[1], row[2], row[3], row[4], row[5], row[6]))
		}
		if !slices.Equal(lines, each) {
			t.Errorf("push-days:\n%q\nexpected\n%q", each, lines)
		}
		for _, row := range ask(t, db, "pushers", p).Rows {
			var all, refused int64
			for key, w := range want {
				if key.rig == row[0] {
					all, refused = all+w.pushes, refused+w.refused
				}
			}
			if row[1] != all || row[2] != refused {
				t.Errorf("pushers: %v, expected %d and %d refused", row, all, refused)
			}
		}
		// One of them, and days that are over.
		p.From = "user-1"
		if rows := ask(t, db, "push-days", p).Rows; len(rows) != 3 {
			t.Errorf("of one: %v", rows)
		}
		half := day(2).Add(20 * time.Minute)
		if err := db.ForgetPushes(t.Context(), "team", half); err != nil {
			t.Fatal(err)
		}
		if rows := ask(t, db, "push-days", p).Rows; len(rows) != 1 || rows[0][0] != "2026-01-03" || rows[0][2] == want[dayRig{"2026-01-03", "user-1"}].pushes {
			t.Errorf("after two days and a half were forgotten: %v", rows)
		}
		left := int64(len(ask(t, db, "pushes", Parameters{Repos: p.Repos}).Rows))
		counts, err := db.Pushes(t.Context(), p.Repos)
		for _, c := range counts {
			left -= c.N
		}
		if err != nil || left != 0 || len(counts) != 3 {
			t.Errorf("%v: %v are counted, %d more are left", err, counts, left)
		}
	})
}

// TestForgetting: pushes that began before the moment up to which is forgotten and ended after it,
// told by several programs while others forget, and told again afterwards, whole and in part: what
// is kept and counted is what would be if nothing of the rest had ever been told.
func TestForgetting(t *testing.T) {
	cut := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	rnd := rand.New(rand.NewSource(9))
	var told, kept, ends []outbox.Record
	for i := range 120 {
		at := cut.Add(time.Duration(i-60) * time.Second)
		push, last := fmt.Sprintf("p%03d", i), at
		var all []outbox.Record
		for k, stage := range []string{outbox.Received, outbox.Judged, outbox.Landed} {
			r := outbox.Record{ID: push + stage, Push: push, Stage: stage, Hook: "pre-receive"}
			switch {
			case stage == outbox.Received:
				r.Who, r.Refs = map[string]string{"USER": fmt.Sprint("user-", i%3)}, []outbox.Ref{{Name: "refs/heads/main", Old: push, New: push}}
			case stage == outbox.Judged && i%7 == 0, stage == outbox.Landed && i%2 == 0: // killed, refused
				continue
			case stage == outbox.Judged:
				r.Exit, r.Millis = (i+1)%2, float64(i)
			}
			last = at.Add(time.Duration(k*(i%9)) * time.Second)
			r.At = last.Format(outbox.Time)
			all = append(all, r)
		}
		if told = append(told, all...); !last.Before(cut) {
			kept, ends = append(kept, all...), append(ends, all[len(all)-1])
		}
	}
	both(t, func(t *testing.T, target func() Target) {
		all := func(db *DB) (lines []string) {
			for _, name := range []string{"pushes", "push-days"} {
				for _, row := range ask(t, db, name, Parameters{Since: cut.AddDate(0, 0, -9)}).Rows {
					lines = append(lines, fmt.Sprint(row...))
				}
			}
			return lines
		}
		other := open(t, target())
		if err := other.AddPushes(t.Context(), "team", kept); err != nil {
			t.Fatal(err)
		}
		want := all(other)
		where := target()
		db := open(t, where)
		done := make(chan error)
		for i := range 4 {
			db, mixed := open(t, where), append(slices.Clone(told), told[:100]...)
			rnd.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			go func() {
				var err error
				for part := range slices.Chunk(mixed, 29) {
					if err == nil {
						err = db.AddPushes(t.Context(), "team", part)
					}
					if i%2 == 0 && err == nil {
						err = db.ForgetPushes(t.Context(), "team", cut)
					}
				}
				done <- err
			}()
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		for _, again := range [][]outbox.Record{nil, told, ends, told[:len(told)/2]} {
			for part := range slices.Chunk(again, 31) {
				if err := db.AddPushes(t.Context(), "team", part); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.ForgetPushes(t.Context(), "team", cut); err != nil {
				t.Fatal(err)
			}
			if got := all(db); !slices.Equal(got, want) || len(want) < 60 {
				here := func(all []string) func(string) bool {
					return func(line string) bool { return slices.Contains(all, line) }
				}
				t.Errorf("after %d records were told again:\n%q\nin place of\n%q", len(again), slices.DeleteFunc(slices.Clone(got), here(want)), slices.DeleteFunc(slices.Clone(want), here(got)))
			}
		}
	})
}
