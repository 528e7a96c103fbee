package rules

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// A model says what six rules find by their definitions: of each commit it looks
// at all that is in its history, and remembers nothing.
type model struct {
	*world
	found []string
}

// modelled are the rules that a model knows; the others are off.
var modelled = []string{"append-only", "thread-closed", "references", "relay-nonce", "divergence", "relay-reply"}

func (m *model) tell(rule, commit, path, more string) {
	m.found = append(m.found, fmt.Sprintf("%s %s %s%s", rule, m.names[commit], path, more))
}

// history returns all commits that a commit descends from, without itself.
func (m *model) history(commit string) map[string]bool {
	all, err := m.reach([]string{commit})
	if err != nil {
		m.Fatal(err)
	}
	before := map[string]bool{}
	for _, r := range all {
		before[r.ID] = r.ID != commit
	}
	delete(before, commit)
	return before
}

// envelopes returns what a commit has at envelopes' paths, by path.
func (m *model) envelopes(commit string) map[string]*envelope.Envelope {
	all := map[string]*envelope.Envelope{}
	for path, f := range m.files(commit) {
		if !envelope.IsEnvelopePath(path) || !envelope.HasFence(m.objects[f.id].Data) {
			continue
		}
		e, _ := envelope.Parse(m.objects[f.id].Data, envelope.Options{})
		if e == nil {
			m.Fatalf("%s cannot be parsed", path)
		}
		all[path] = e
	}
	return all
}

func threadOf(path string) string { return path[:strings.IndexByte(path, '/')] }

// said reports whether some commit of a history has an envelope of a thread that
// is such a one.
func (m *model) said(history map[string]bool, thread string, is func(path string, e *envelope.Envelope) bool) bool {
	for commit := range history {
		for path, e := range m.envelopes(commit) {
			if threadOf(path) == thread && is(path, e) {
				return true
			}
		}
	}
	return false
}

// news returns the paths at which a commit brings a new envelope.
func (m *model) news(commit string) (paths []string) {
	c, _ := m.Commit(commit)
	files := m.files(commit)
	for path := range m.envelopes(commit) {
		fresh, changed := true, true
		for _, p := range c.Parents {
			_, was := m.envelopes(p)[path]
			fresh = fresh && !was
			changed = changed && m.files(p)[path] != files[path]
		}
		if fresh && changed {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

type use struct{ commit, path, blob, nonce string }

// judge goes through the commits of a push.
func (m *model) judge(base, tip string) {
	without := m.history(base)
	without[base] = true
	var commits []string
	for id := range m.history(tip) {
		if !without[id] {
			commits = append(commits, id)
		}
	}
	var uses []use
	for _, id := range append(commits, tip) {
		c, _ := m.Commit(id)
		m.appendOnly(c)
		m.divergence(c)
		before := m.history(id)
		for _, path := range m.news(id) {
			e := m.envelopes(id)[path]
			m.newEnvelope(id, path, e, before)
			if e.IsRelay() {
				uses = append(uses, use{id, path, m.files(id)[path].id, e.Nonce})
			}
		}
	}
	for _, u := range uses {
		if slices.ContainsFunc(uses, func(x use) bool {
			return x.nonce == u.nonce && (x.path != u.path || x.blob != u.blob) && !m.history(x.commit)[u.commit]
		}) {
			m.tell("relay-nonce", u.commit, u.path, "")
		}
	}
}

func (m *model) newEnvelope(id, path string, e *envelope.Envelope, before map[string]bool) {
	thread := threadOf(path)
	if m.said(before, thread, func(p string,
		old *envelope.Envelope) bool {
		return p != path && old.Type == "RESOLUTION"
	}) {
		m.tell("thread-closed", id, path, "")
	}
	if e.InReplyTo != "" && !m.said(before, thread, func(_ string,
		old *envelope.Envelope) bool {
		return old.Hash == e.InReplyTo
	}) {
		rule := "references"
		if e.IsRelay() {
			rule = "relay-reply"
		}
		m.tell(rule, id, path, "")
	}
	for _, ref := range e.References {
		known := false
		for commit := range before {
			known = known || strings.HasPrefix(commit, ref)
		}
		if !known {
			m.tell("references", id, path, " "+ref)
		}
	}
}

func (m *model) appendOnly(c *gitrepo.Commit) {
	files := m.files(c.ID)
	told := map[string]bool{}
	for _, p := range c.Parents {
		for path := range m.envelopes(p) {
			if m.files(p)[path] != files[path] && !told[path] {
				told[path] = true
				m.tell("append-only", c.ID, path, "")
			}
		}
	}
}

// divergence: of two envelopes of a thread that a merge takes over, one parent
// has just the one, and another just the other, and neither shows that it knew.
func (m *model) divergence(c *gitrepo.Commit) {
	if len(c.Parents) < 2 {
		return
	}
	files, all := m.files(c.ID), m.envelopes(c.ID)
	brought := func(path string) bool {
		return !slices.ContainsFunc(c.Parents, func(p string) bool { return m.files(p)[path] == files[path] })
	}
	lacks := func(p, path string) bool { _, has := m.files(p)[path]; return !has }
	paths := slices.Sorted(maps.Keys(all))
	for i, a := range paths {
		for _, b := range paths[i+1:] {
			if threadOf(a) != threadOf(b) || brought(a) || brought(b) {
				continue
			}
			some := func(x, y string) bool {
				return slices.ContainsFunc(c.Parents, func(p string) bool { return lacks(p, x) && !lacks(p, y) })
			}
			if some(a, b) && some(b, a) && !m.knew(all, files, a, b) && !m.knew(all, files, b, a) {
				m.tell("divergence", c.ID, a, " "+b)
			}
		}
	}
}

// knew reports whether envelope a shows that it knew b.
func (m *model) knew(all map[string]*envelope.Envelope, files map[string]file, a, b string) bool {
	if all[a].InReplyTo == all[b].Hash {
		return true
	}
	for _, ref := range all[a].References {
		for id := range m.names {
			if strings.HasPrefix(id, ref) && m.files(id)[b] == files[b] {
				return true
			}
		}
	}
	return false
}

// randomHistory commits at random: turns, ends, relays, answers and references
// to what is and is not there, changes and deletions, on branches that merge.
func randomHistory(w *world, random *rand.Rand, n int) {
	tips := []string{w.base}
	bodies := []string{asked, "Never said.\n"}
	ids := []string{w.base, "abcdef0123456789"}
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	for i := range n {
		on1 := on(pick(tips))
		if random.IntN(3) == 0 {
			a, b := pick(tips), pick(tips)
			if a != b {
				on1 = on(a, b)
			}
		}
		edits := []edit{on1}
		for k := range 1 + random.IntN(2) {
			thread, body := pick([]string{"t-one", "t-two"}), fmt.Sprintf("Turn %d of %d.\n", k, i)
			path := fmt.Sprintf("%s/%d.md", thread, random.IntN(n))
			changes := []func(*envelope.Fields){to(thread)}
			if random.IntN(3) == 0 {
				changes = append(changes, answers(pick(bodies)))
			}
			if random.IntN(4) == 0 {
				changes = append(changes, refers(prefix(pick(ids))))
			}
			switch random.IntN(8) {
			case 0:
				edits = append(edits, put(path, turn("rig-a", "RESOLUTION", body, changes...)))
			case 1, 2:
				edits = append(edits, put(path, decision(pick([]string{nonce1, nonce2}), w.next(), changes...)))
			case 3:
				edits = append(edits, del(path))
			default:
				edits = append(edits, put(path, turn("rig-b", "STATE", body, changes...)))
			}
			bodies = append(bodies, body)
		}
		id := w.commit(fmt.Sprint("c", i), edits...)
		ids = append(ids, id)
		tips = append(tips, id)
		if len(tips) > 4 {
			tips = tips[1:]
		}
	}
	slices.Sort(tips)
	w.commit("end", on(slices.Compact(tips)...))
}

// TestModel compares the judge with the model over random histories, and says so
// with the seed.
func TestModel(t *testing.T) {
	histories := 60
	if testing.Short() {
		histories = 15
	}
	var off []string
	for _, r := range registry {
		if !slices.Contains(modelled, r.ID) && r.ID != "envelope-schema" {
			off = append(off, r.ID+": off")
		}
	}
	counts := map[string]int{}
	for seed := range uint64(histories) {
		random := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t)
		w.policy = "rules: {" + strings.Join(off, ", ") + "}\n"
		randomHistory(w, random, 4+random.IntN(10))
		m := &model{world: w}
		m.judge(w.base, w.tip)
		j, err := w.judgeAt(PreReceive)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range j.Findings {
			text := fmt.Sprintf("%s %s %s", f.Rule, w.names[f.Commit], f.Path)
			switch {
			case f.Rule == "divergence" && f.Path == "":
				t.Fatalf("seed %d: too many pairs: %s", seed, f.Message)
			case f.Rule == "divergence":
				_, other, _ := strings.Cut(f.Message, ` wrote "`)
				other, _, _ = strings.Cut(other, `"`)
				text = fmt.Sprintf("divergence %s %s %s", w.names[f.Commit], min(f.Path, other), max(f.Path, other))
			case f.Rule == "references" && strings.Contains(f.Message, "commit"):
				_, id, _ := strings.Cut(f.Message, `"`)
				text += " " + id[:12]
			}
			got = append(got, text)
			counts[f.Rule]++
		}
		slices.Sort(got)
		slices.Sort(m.found)
		if !slices.Equal(got, m.found) {
			t.Errorf("seed %d:\n%s\nby the model:\n%s", seed, strings.Join(got, "\n"), strings.Join(m.found, "\n"))
		}
	}
	for _, rule := range modelled {
		if counts[rule] < histories/4 {
			t.Errorf("%s was found %d times only", rule, counts[rule])
		}
	}
}
