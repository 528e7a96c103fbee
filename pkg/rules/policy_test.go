package rules

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// playsFound has what is found in each play, by its name: a []finding.Finding.
var playsFound sync.Map

// eachPlay calls fn with a fresh world of every play that is decided, and what
// is found in it.
func eachPlay(t *testing.T, fn func(t *testing.T, name string, p play, found []finding.Finding)) {
	for _, rule := range sortedKeys(plays) {
		for _, p := range plays[rule] {
			if p.err != "" {
				continue
			}
			name := rule + "/" + p.name
			found, ok := playsFound.Load(name)
			if !ok {
				w := newWorld(t)
				p.make(w)
				j, err := w.judgeWith(w.gate, nil) // run has judged it where threads are looked up, too
				if err != nil {
					t.Fatal(err)
				}
				found, _ = playsFound.LoadOrStore(name, j.Findings)
			}
			fn(t, name, p, slices.Clone(found.([]finding.Finding)))
		}
	}
}

// again judges a play once more, by a policy that is changed.
func again(t *testing.T, p play, change func(p *policy.Policy, j *Judge)) (*Judge, error) {
	w := newWorld(t)
	p.make(w)
	before := w.judge
	w.judge = func(j *Judge, r *Range) {
		if before != nil {
			before(j, r)
		}
		change(r.Policy, j)
	}
	return w.judgeAt(w.gate)
}

// TestLevels: of whatever is found, a policy can make a warning or nothing, and
// an error of what is one by itself or a rule that warns; nothing else moves.
func TestLevels(t *testing.T) {
	// What stands besides a finding of these depends on whether it is one.
	entangled := map[string]bool{"envelope-schema": true, "envelope-parse": true, "append-only": true}
	for _, level := range []finding.Severity{finding.Off, finding.Warning, finding.Error} {
		eachPlay(t, func(t *testing.T, name string, p play, found []finding.Finding) {
			var ids []string
			for _, f := range found {
				if !slices.Contains(ids, f.Rule) && !entangled[f.Rule] {
					ids = append(ids, f.Rule)
				}
			}
			for _, id := range ids {
				var want []finding.Finding
				for _, f := range found {
					if malformed := strings.HasPrefix(f.Message, "malformed commit"); f.Rule == id && !malformed {
						rule, _ := ByID(id)
						switch {
						case level == finding.Off:
							continue
						case level == finding.Error && rule.Default == finding.Error && mild(f):
							// stays a warning
						default:
							f.Severity = level
						}
					}
					want = append(want, f)
				}
				j, err := again(t, p, func(p *policy.Policy, _ *Judge) {
					if p.Levels == nil {
						p.Levels = map[string]finding.Severity{}
					}
					p.Levels[id] = level
				})
				if err != nil {
					t.Fatalf("%s with %s %s: %v", name, id, level, err)
				}
				finding.Sort(want)
				if !slices.Equal(j.Findings, want) {
					t.Errorf("%s with %s %s:\n%s\nwant\n%s", name, id, level, lines(j.Findings), lines(want))
				}
			}
		})
	}
}

// mild reports whether a finding is a milder case of its rule.
func mild(f finding.Finding) bool {
	return f.Rule == "relay-key" && strings.HasPrefix(f.Message, "attested_by is a path") && f.Severity == finding.Warning
}

func lines(fs []finding.Finding) string {
	var all []string
	for _, f := range fs {
		all = append(all, fmt.Sprint(f))
	}
	return strings.Join(all, "\n")
}

// TestFoundAlike: what is found of a play depends neither on how much is judged
// at a time, nor on whether somebody is told of each envelope.
func TestFoundAlike(t *testing.T) {
	ways := map[string]func(p *policy.Policy, j *Judge){
		"commit by commit": func(_ *policy.Policy, j *Judge) { j.portion = 1 },
		"telling verdicts": func(_ *policy.Policy, j *Judge) { j.Told = func(Verdict) {} },
	}
	eachPlay(t, func(t *testing.T, name string, p play, found []finding.Finding) {
		for way, change := range ways {
			j, err := again(t, p, change)
			if err != nil || !slices.Equal(j.Findings, found) {
				t.Errorf("%s, %s: %v\n%s\nwant\n%s", name, way, err, lines(j.Findings), lines(found))
			}
		}
	})
}

// TestSaysWhatAndWhere: every finding has a rule of the registry, a message of
// one printable line without a final period, and a place that belongs together.
func TestSaysWhatAndWhere(t *testing.T) {
	hinted := map[string]bool{}
	eachPlay(t, func(t *testing.T, name string, p play, found []finding.Finding) {
		for _, f := range found {
			if _, known := ByID(f.Rule); !known {
				t.Errorf("%s: no rule is called %s", name, f.Rule)
			}
			for what, text := range map[string]string{"message": f.Message, "hint": f.Hint} {
				if strings.HasSuffix(text, ".") || finding.Clean(text) != text || what == "message" && text == "" {
					t.Errorf("%s: the %s %q", name, what, text)
				}
			}
			if (f.Line > 0) != (f.Col > 0) || f.Line > 0 && f.Path == "" {
				t.Errorf("%s: the place %s:%d:%d", name, f.Path, f.Line, f.Col)
			}
			hinted[f.Rule] = hinted[f.Rule] || f.Hint != ""
		}
	})
	for id, has := range hinted {
		rule, _ := ByID(id)
		here := rule.judge.commit != nil || rule.judge.entry != nil || rule.judge.whole != nil
		if here && !has && id != "references" { // which name what is not there
			t.Errorf("nothing that %s finds has a hint", id)
		}
	}
}
