package order

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestClock: of random graphs with any dates, no commit comes before one of its history, the
// moments are the same wherever reading began, and Late tells those that a date does not.
func TestClock(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 2 + rnd.IntN(30)
		dates, parents := make([]int64, n), make([][]string, n)
		for i := range n {
			dates[i] = 100 + rnd.Int64N(5)
			if rnd.IntN(20) == 0 {
				dates[i] = []int64{math.MinInt64, math.MaxInt64, -5}[rnd.IntN(3)]
			}
			for range min(i, rnd.IntN(3)) {
				parents[i] = append(parents[i], fmt.Sprint(rnd.IntN(i)))
			}
		}
		whole := &Clock{Older: func(id string) (Moment, error) { return Moment{}, fmt.Errorf("asked for %s", id) }}
		late := map[string]Moment{}
		whole.Late = func(m Moment) { late[m.Commit] = m }
		all := make([]Moment, n)
		for i := range n {
			var err error
			if all[i], err = whole.Tick(fmt.Sprint(i), dates[i], parents[i]); err != nil {
				t.Fatal(err)
			}
			for _, p := range parents[i] {
				if m := all[slices.IndexFunc(all, func(m Moment) bool { return m.Commit == p })]; m.Compare(all[i]) >= 0 {
					t.Errorf("%+v comes before its parent %+v", all[i], m)
				}
			}
			if m, told := late[fmt.Sprint(i)]; told && m != all[i] || !told && Alone(fmt.Sprint(i), dates[i]) != all[i] {
				t.Errorf("%+v, told as %+v", all[i], m)
			}
		}
		// From a place in the middle, with what was told of those before.
		from := rnd.IntN(n)
		part := &Clock{Older: func(id string) (Moment, error) {
			if m, told := late[id]; told {
				return m, nil
			}
			var i int
			_, err := fmt.Sscan(id, &i)
			return Alone(id, dates[i]), err
		}}
		for i := from; i < n; i++ {
			if m, err := part.Tick(fmt.Sprint(i), dates[i], parents[i]); err != nil || m != all[i] {
				t.Errorf("%+v, %v, expected %+v", m, err, all[i])
			}
		}
	}
	some := []Moment{{}, {5, 1, "b"}, {5, 0, "c"}, {5, 1, "a"}, {4, 9, "z"}}
	slices.SortFunc(some, Moment.Compare)
	if want := []Moment{{4, 9, "z"}, {5, 0, "c"}, {5, 1, "a"}, {5, 1, "b"}, {}}; !slices.Equal(some, want) {
		t.Errorf("%v", some)
	}
}
