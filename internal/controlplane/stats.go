package controlplane

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A tally is what is counted of a rig's messages of one day, in UTC: of those to it how many
// there are and after how many seconds it answered them, whenever that was, and of its own
// how many there are and how many the gates refuse.
type tally struct {
	received, sent, refused int64
	took                    seconds
}

// seconds are times that it took, in order.
type seconds []int64

// String returns them as parseSeconds reads them.
func (s seconds) String() string {
	b := []byte{'['}
	for i, v := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, v, 10)
	}
	return string(append(b, ']'))
}

func parseSeconds(text string) (all seconds) {
	for part := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
		if n, err := strconv.ParseInt(part, 10, 64); err == nil { // nobody of ours wrote others
			all = append(all, n)
		}
	}
	return all
}

// without takes some times away, each once.
func (s seconds) without(some seconds) seconds {
	gone := map[int64]int{}
	for _, v := range some {
		gone[v]++
	}
	return slices.DeleteFunc(slices.Clone(s), func(v int64) bool {
		gone[v]--
		return gone[v] >= 0
	})
}

// A dayRig is whose tally it is.
type dayRig struct{ day, rig string }

// tallies are those of one thread, or of all.
type tallies map[dayRig]*tally

func (t tallies) of(at, rig string) *tally {
	key := dayRig{at[:min(len(at), len("2006-01-02"))], rig}
	if t[key] == nil {
		t[key] = &tally{}
	}
	return t[key]
}

// String returns tallies as parseTallies reads them: JSON, in the order of days and rigs.
func (t tallies) String() string {
	var all [][]any
	for _, key := range slices.SortedFunc(maps.Keys(t), func(a, b dayRig) int { return cmp.Or(strings.Compare(a.day, b.day), strings.Compare(a.rig, b.rig)) }) {
		v := t[key]
		all = append(all, []any{key.day, key.rig, v.received, v.sent, v.refused, append(seconds{}, v.took...)})
	}
	data, err := json.Marshal(all)
	if err != nil {
		return "" // texts and numbers never fail
	}
	return string(data)
}

func parseTallies(text string) tallies {
	t := tallies{}
	var all []json.RawMessage
	if json.Unmarshal([]byte(text), &all) != nil {
		return t // nobody of ours wrote this
	}
	for _, data := range all {
		var key dayRig
		v := &tally{}
		if json.Unmarshal(data, &[]any{&key.day, &key.rig, &v.received, &v.sent, &v.refused, &v.took}) == nil {
			t[key] = v
		}
	}
	return t
}

// tallied counts the messages of a thread. A message to a rig, no ACK and no RESOLUTION, is
// answered by the rig's next one that is no ACK and that the gates do not refuse; of those
// of one second all are said before any is answered, since nothing tells which came first.
func tallied(words []*word) tallies {
	t := tallies{}
	sorted := slices.SortedFunc(slices.Values(words), func(a, b *word) int { return strings.Compare(a.time, b.time) })
	waiting := map[string][]string{} // by rig, when it was asked what has no answer yet
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].time == sorted[0].time {
			n++
		}
		for _, w := range sorted[:n] {
			own := t.of(w.time, w.from)
			own.sent++
			if w.bad {
				own.refused++
			}
			if w.bad || w.order.Type == "ACK" || w.order.Type == "RESOLUTION" {
				continue
			}
			for _, r := range w.to {
				if r.rig != w.from {
					t.of(w.time, r.rig).received++
					waiting[r.rig] = append(waiting[r.rig], w.time)
				}
			}
		}
		for _, w := range sorted[:n] {
			if w.bad || w.order.Type == "ACK" {
				continue
			}
			for _, asked := range waiting[w.from] {
				then, _ := time.Parse(time.RFC3339, asked) // a time of ours
				when, _ := time.Parse(time.RFC3339, w.time)
				of := t.of(asked, w.from)
				of.took = append(of.took, int64(when.Sub(then)/time.Second))
			}
			delete(waiting, w.from)
		}
		sorted = sorted[n:]
	}
	for _, v := range t {
		slices.Sort(v.took)
	}
	return t
}

// writeTallies takes from the tallies of all threads of a repository what some had, and adds
// what they have.
func (x *Indexer) writeTallies(ctx context.Context, had, have []tallies) error {
	c := x.DB.conn
	change, gone := tallies{}, tallies{}
	for sign, side := range map[int64][]tallies{-1: had, 1: have} {
		for _, t := range side {
			for key, v := range t {
				of := change.of(key.day, key.rig)
				of.received, of.sent, of.refused = of.received+sign*v.received, of.sent+sign*v.sent, of.refused+sign*v.refused
				if sign > 0 {
					of.took = append(of.took, v.took...)
				} else {
					lost := gone.of(key.day, key.rig)
					lost.took = append(lost.took, v.took...)
				}
			}
		}
	}
	var days []string
	for key := range change {
		days = append(days, key.day)
	}
	slices.Sort(days)
	keys, err := listed(slices.Compact(days))
	if err != nil || len(days) == 0 {
		return err
	}
	err = each(ctx, c, "SELECT day, rig, received, sent, refused, took FROM rigward_days WHERE repo_id = $1 AND day "+among(c, 2, "text"), []any{x.id, keys}, func(r rows) error {
		var key dayRig
		var v tally
		var took string
		err := r.Scan(&key.day, &key.rig, &v.received, &v.sent, &v.refused, &took)
		if of := change[key]; of != nil {
			of.received, of.sent, of.refused = of.received+v.received, of.sent+v.sent, of.refused+v.refused
			of.took = append(of.took, parseSeconds(took)...)
		}
		return err
	})
	if err != nil {
		return err
	}
	var args []any
	for _, key := range slices.SortedFunc(maps.Keys(change), func(a, b dayRig) int { return cmp.Or(strings.Compare(a.day, b.day), strings.Compare(a.rig, b.rig)) }) {
		v := change[key]
		if lost := gone[key]; lost != nil {
			v.took = v.took.without(lost.took)
		}
		slices.Sort(v.took)
		args = append(args, x.id, key.day, key.rig, v.received, v.sent, v.refused, v.took.String())
	}
	err = insert(ctx, c, "rigward_days", strings.Fields("repo_id day rig received sent refused took"), args,
		"ON CONFLICT (repo_id, day, rig) DO UPDATE SET received = excluded.received, sent = excluded.sent, refused = excluded.refused, took = excluded.took", nil)
	if err != nil {
		return err
	}
	return c.exec(ctx, "DELETE FROM rigward_days WHERE repo_id = $1 AND received = 0 AND sent = 0 AND day "+among(c, 2, "text"), x.id, keys)
}

// stats tell of each rig how soon it answers.
type stats map[string]*rigStats

type rigStats struct {
	tally
	backlog int64
}

func newStats() folder { return stats{} }

func (s stats) rig(name string) *rigStats {
	if s[name] == nil {
		s[name] = &rigStats{}
	}
	return s[name]
}

// add takes the tally of a day and a rig.
func (s stats) add(row []any) {
	name, _ := row[0].(string)
	received, _ := row[1].(int64)
	sent, _ := row[2].(int64)
	refused, _ := row[3].(int64)
	took, _ := row[4].(string)
	r := s.rig(name)
	r.received, r.sent, r.refused = r.received+received, r.sent+sent, r.refused+refused
	r.took = append(r.took, parseSeconds(took)...)
}

// waits says how many threads wait for a rig.
func (s stats) waits(rig, threads any) {
	name, _ := rig.(string)
	n, _ := threads.(int64)
	s.rig(name).backlog = n
}

func (s stats) rows() (out [][]any) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		r := s[name]
		var half, most any
		if slices.Sort(r.took); len(r.took) > 0 {
			half, _ = percentile(r.took, 50)
			most, _ = percentile(r.took, 90)
		}
		out = append(out, []any{name, r.received, int64(len(r.took)), half, most, r.backlog, r.sent, r.refused, share(r.refused, r.sent)})
	}
	return out
}

// A histogram is how often something took how many milliseconds, to two digits.
type histogram map[int64]int64

// millis rounds a duration to two digits.
func millis(took float64) int64 {
	unit := int64(1)
	for took/float64(unit) >= 100 {
		unit *= 10
	}
	return int64(took/float64(unit)+0.5) * unit
}

func (h histogram) add(other histogram, sign int64) {
	for ms, n := range other {
		if h[ms] += sign * n; h[ms] == 0 {
			delete(h, ms)
		}
	}
}

// String returns it as parseHistogram reads it.
func (h histogram) String() string {
	all := [][2]int64{}
	for _, ms := range slices.Sorted(maps.Keys(h)) {
		all = append(all, [2]int64{ms, h[ms]})
	}
	data, err := json.Marshal(all)
	if err != nil {
		return "" // numbers never fail
	}
	return string(data)
}

func parseHistogram(text string) histogram {
	h := histogram{}
	var all [][2]int64
	if json.Unmarshal([]byte(text), &all) != nil {
		return h // nobody of ours wrote this
	}
	for _, pair := range all {
		h[pair[0]] += pair[1]
	}
	return h
}

// median is the nearest rank; ok is false where nothing was counted.
func (h histogram) median() (ms int64, ok bool) {
	var all, seen int64
	for _, n := range h {
		all += n
	}
	for _, ms := range slices.Sorted(maps.Keys(h)) {
		if seen += h[ms]; 2*seen >= all {
			return ms, true
		}
	}
	return 0, false
}

// A pushTally counts what somebody pushed.
type pushTally struct {
	pushes, refused, undecided int64
	took                       histogram
}

// add counts another one, or takes it away.
func (t *pushTally) add(other *pushTally, sign int64) {
	t.pushes, t.refused, t.undecided = t.pushes+sign*other.pushes, t.refused+sign*other.refused, t.undecided+sign*other.undecided
	t.took.add(other.took, sign)
}

// pushTallies are those of who pushed, on which day where that counts.
type pushTallies map[dayRig]*pushTally

func (t pushTallies) of(day, pusher string) *pushTally {
	key := dayRig{day, pusher}
	if t[key] == nil {
		t[key] = &pushTally{took: histogram{}}
	}
	return t[key]
}

func (t pushTallies) keys() []dayRig {
	return slices.SortedFunc(maps.Keys(t), func(a, b dayRig) int { return cmp.Or(strings.Compare(a.day, b.day), strings.Compare(a.rig, b.rig)) })
}

// read takes a row: who, three numbers and the histogram.
func (t pushTallies) read(day string, row []any) {
	name, _ := row[0].(string)
	one := &pushTally{}
	one.pushes, _ = row[1].(int64)
	one.refused, _ = row[2].(int64)
	one.undecided, _ = row[3].(int64)
	took, _ := row[4].(string)
	one.took = parseHistogram(took)
	t.of(day, name).add(one, 1)
}

// row is what is told of one.
func (t *pushTally) row(name string) []any {
	var who, took any
	if name != "" {
		who = name
	}
	if ms, ok := t.took.median(); ok {
		took = float64(ms)
	}
	return []any{who, t.pushes, t.refused, t.undecided, share(t.refused, t.pushes), took}
}

// pushers tell of each who pushed how often a gate refused it.
type pushers struct{ pushTallies }

func newPushers() folder { return pushers{pushTallies{}} }

func (p pushers) add(row []any) { p.read("", row) }

func (p pushers) rows() (out [][]any) {
	for _, key := range p.keys() {
		out = append(out, p.pushTallies[key].row(key.rig))
	}
	return out
}

// pushDays tell the same of each day, the last one first.
type pushDays struct{ pushTallies }

func newPushDays() folder { return pushDays{pushTallies{}} }

func (p pushDays) add(row []any) {
	day, _ := row[0].(string)
	p.read(day, row[1:])
}

func (p pushDays) rows() (out [][]any) {
	for _, key := range p.keys() {
		out = append(out, append([]any{key.day}, p.pushTallies[key].row(key.rig)...))
	}
	slices.SortStableFunc(out, func(a, b []any) int { return strings.Compare(b[0].(string), a[0].(string)) })
	return out
}

// percentile is the nearest rank of sorted values; ok is false for no values.
func percentile[T cmp.Ordered](sorted []T, p int) (v T, ok bool) {
	if len(sorted) == 0 {
		return v, false
	}
	return sorted[(len(sorted)*p+99)/100-1], true
}

// share is the part of a whole in thousandths, as a fraction; nil of nothing.
func share(part, whole int64) any {
	if whole == 0 {
		return nil
	}
	return float64((part*1000+whole/2)/whole) / 1000
}
