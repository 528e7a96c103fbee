package controlplane

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// stats tell of each rig how soon it answers. A message to a rig is answered by its
// next one in the thread that is no ACK.
type stats struct {
	rigs  map[string]*rigStats
	last  [4]string                         // the message of the row before
	asked map[string]map[string][]time.Time // by thread and rig: what has no answer yet
}

type rigStats struct {
	received, backlog, sent, refused int64
	answers                          []time.Duration
}

func newStats() folder {
	return &stats{rigs: map[string]*rigStats{}, asked: map[string]map[string][]time.Time{}}
}

func (s *stats) rig(name string) *rigStats {
	if s.rigs[name] == nil {
		s.rigs[name] = &rigStats{}
	}
	return s.rigs[name]
}

// add takes a row of a message and a recipient; rows come in the order of time, those
// of a message together.
func (s *stats) add(row []any) {
	at, thread, file, commit, typ, from, to, state := row[0].(string), row[1].(string), row[2].(string), row[3].(string), row[4].(string), row[5].(string), row[6].(string), row[7].(string)
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return // no time of ours
	}
	if key := [4]string{at, thread, file, commit}; key != s.last {
		s.last = key
		sender := s.rig(from)
		sender.sent++
		if state == "refused" {
			sender.refused++
		} else if typ != "ACK" {
			for _, asked := range s.asked[thread][from] {
				sender.answers = append(sender.answers, when.Sub(asked))
			}
			delete(s.asked[thread], from)
		}
	}
	if state == "refused" || typ == "ACK" || typ == "RESOLUTION" || to == from {
		return
	}
	s.rig(to).received++
	if s.asked[thread] == nil {
		s.asked[thread] = map[string][]time.Time{}
	}
	s.asked[thread][to] = append(s.asked[thread][to], when)
}

// waits counts a thread whose turn is on a rig.
func (s *stats) waits(rig any) {
	if name, ok := rig.(string); ok {
		s.rig(name).backlog++
	}
}

func (s *stats) rows() (out [][]any) {
	for _, name := range slices.Sorted(maps.Keys(s.rigs)) {
		r := s.rigs[name]
		out = append(out, []any{name, r.received, int64(len(r.answers)), seconds(r.answers, 50), seconds(r.answers, 90), r.backlog, r.sent, r.refused, share(r.refused, r.sent)})
	}
	return out
}

// pushers tell of each who pushed how often a gate refused it.
type pushers map[string]*pusher

type pusher struct {
	pushes, refused, undecided int64
	took                       []float64
}

func newPushers() folder { return pushers{} }

func (p pushers) add(row []any) {
	name, _ := row[2].(string)
	if p[name] == nil {
		p[name] = &pusher{}
	}
	one := p[name]
	one.pushes++
	switch row[3] {
	case "refused":
		one.refused++
	case "undecided", "unfinished":
		one.undecided++
	}
	if took, ok := row[6].(float64); ok {
		one.took = append(one.took, took)
	}
}

func (p pushers) rows() (out [][]any) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		one := p[name]
		var who, took any
		if name != "" {
			who = name
		}
		if v, ok := percentile(one.took, 50); ok {
			took = v
		}
		out = append(out, []any{who, one.pushes, one.refused, one.undecided, share(one.refused, one.pushes), took})
	}
	return out
}

// percentile is the nearest rank; ok is false for no values.
func percentile[T cmp.Ordered](all []T, p int) (v T, ok bool) {
	if len(all) == 0 {
		return v, false
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)*p+99)/100-1], true
}

// seconds is a percentile of durations, nil of none.
func seconds(all []time.Duration, p int) any {
	if d, ok := percentile(all, p); ok {
		return int64(d / time.Second)
	}
	return nil
}

// share is the part of a whole in thousandths, as a fraction; nil of nothing.
func share(part, whole int64) any {
	if whole == 0 {
		return nil
	}
	return float64((part*1000+whole/2)/whole) / 1000
}
