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
