package rules

import (
	"testing"

	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

const (
	config      = ".bridge/config.yaml"
	otherRig    = "error clone-config .bridge/config.yaml @c: each clone has its own configuration; whoever clones or pulls this one is another rig"
	withoutHint = " | git rm -r -q --cached -- .bridge/config.yaml && git commit -m 'Each clone has its own configuration'"
)

// had makes the branch one of a repository that had the file before there was a rule.
func (w *world) had() {
	w.commit("b", put(config, "rig_id: rig-a\n"))
	w.accept()
}

var cloneConfigPlays = []play{
	{name: "a file", make: func(w *world) { w.commit("c", put(config, "rig_id: rig-a\n")) }, want: []string{otherRig + withoutHint}},
	{name: "a program", make: func(w *world) { w.commit("c", putAs(gitrepo.ModeExecutable, config, "x\n")) }, want: []string{otherRig}},
	{name: "a symbolic link", make: func(w *world) { w.commit("c", putAs(gitrepo.ModeSymlink, config, "/etc/passwd")) }, want: []string{otherRig}},
	{name: "a submodule", make: func(w *world) { w.commit("c", putAs(gitrepo.ModeGitlink, config, "")) }, want: []string{otherRig}},
	{name: "a file beside it", make: func(w *world) { w.commit("c", put(".bridge/config.yml", "x\n"), put("sub/.bridge/config.yaml", "x\n")) }},
	{name: "another content", make: func(w *world) { w.had(); w.commit("c", put(config, "rig_id: rig-b\n")) }, want: []string{otherRig}},
	{name: "another mode", make: func(w *world) {
		w.had()
		w.commit("c", putAs(gitrepo.ModeExecutable, config, "rig_id: rig-a\n"))
	}, want: []string{otherRig}},
	{name: "a commit of a repository that has it", make: func(w *world) { w.had(); w.commit("c", put("README.md", "x\n")) }},
	{name: "what takes it out", make: func(w *world) { w.had(); w.commit("c", del(config)) }},
	{name: "what moves it elsewhere", make: func(w *world) { w.had(); w.commit("c", del(config), put("config.sample", "rig_id: rig-a\n")) }},
	{name: "below the root of the threads", make: func(w *world) {
		w.policy = "envelopes: {root: below}\n"
		w.commit("c", put("below/.bridge/config.yaml", "x\n"))
	}, want: []string{"error clone-config below/.bridge/config.yaml @c: each clone has its own configuration; whoever clones or pulls this one is another rig"}},
	{name: "another name of it below the root of the threads", make: func(w *world) {
		w.policy = "envelopes: {root: below}\n"
		w.commit("c", put("below/.bridge/Config.yaml", "x\n"), put("below/.bridge/configs.yaml", "x\n"))
	}, want: []string{`error clone-config below/.bridge/Config.yaml:1:1 @c: some file systems take this path for "below/.bridge/config.yaml", ` +
		"which is each clone's own | give it another name: git mv -- below/.bridge/Config.yaml NAME"}},
	{name: "off", make: func(w *world) { w.policy = "rules: {clone-config: off}\n"; w.commit("c", put(config, "x\n")) }},
}

func TestCloneConfig(t *testing.T) { run(t, cloneConfigPlays) }

// TestCloneConfigOfRanges: what a ref has at the end counts, against what it had.
func TestCloneConfigOfRanges(t *testing.T) {
	run(t, []play{
		{name: "brought and taken out again", make: func(w *world) {
			w.commit("b", put(config, "x\n"))
			w.commit("c", del(config))
		}},
		{name: "taken out and brought again", make: func(w *world) {
			w.had()
			w.commit("b", del(config))
			w.commit("c", put(config, "rig_id: rig-b\n"))
		}, want: []string{otherRig}},
		{name: "a directory in its place", make: func(w *world) { w.commit("c", put(config+"/x", "x\n")) }, want: []string{otherRig}},
		{name: "a merge that takes it out", make: func(w *world) {
			w.had()
			side := w.commit("side", on(w.base), del(config))
			w.commit("c", on(w.commit("ours", on(w.base), put("x", "x\n")), side), del(config))
		}},
		{name: "a merge of a side from before it was taken out", make: func(w *world) {
			w.had()
			old := w.base
			w.commit("out", del(config))
			w.accept()
			w.commit("c", on(w.base, w.commit("side", on(old), put("x", "x\n"))), del(config))
		}},
		{name: "a merge that brings it back from such a side", make: func(w *world) {
			w.had()
			old := w.base
			w.commit("out", del(config))
			w.accept()
			w.commit("c", on(w.base, w.commit("side", on(old), put("x", "x\n"))))
		}, want: []string{otherRig}},
		{name: "a new branch at a commit that has it", make: func(w *world) {
			w.had()
			w.judge = func(_ *Judge, r *Range) { r.Old = "" }
			w.commit("c", put("x", "x\n"))
		}},
		{name: "a branch that lacks it takes it over from the default branch", make: func(w *world) {
			old := w.base
			w.had()
			main := w.base
			w.commit("c", on(old, main))
			w.judge = func(_ *Judge, r *Range) { r.Old, r.From, r.Exclude = old, main, []string{old, main} }
		}},
		{name: "a first push", make: func(w *world) {
			w.base, w.tip = "", ""
			w.commit("c", put(config, "x\n"))
		}, want: []string{otherRig}},
	})
}

// TestCloneConfigOfHistories: of a whole history its end counts, under the policy of then,
// and no message is worth less for what lies beside it.
func TestCloneConfigOfHistories(t *testing.T) {
	for name, p := range map[string]struct {
		make func(w *world)
		told int
	}{
		"it is there":  {func(w *world) { w.commit("c", put(config, "x\n"), put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n"))) }, 1},
		"it was there": {func(w *world) { w.commit("b", put(config, "x\n")); w.commit("c", del(config)) }, 0},
		"a policy says so": {func(w *world) {
			w.commit("b", put(config, "x\n"))
			w.commit("c", signed(keyOp), put(policy.Path, "version: 1\nrules: {clone-config: off}\n"))
		}, 0},
	} {
		for _, reader := range []bool{false, true} {
			w := newWorld(t)
			said := 0
			w.judge = func(j *Judge, r *Range) {
				*r = Range{Ref: r.Ref, New: r.New, History: true, First: true}
				l := &policy.Loader{Repo: w.fake}
				j.OfTheTime = l.Accepted
				if reader {
					j.Told = func(v Verdict) { said += len(v.Rules) }
				}
				var err error
				if r.Policy, r.Trust, err = l.At(""); err != nil {
					t.Fatal(err)
				}
			}
			p.make(w)
			j, err := w.judgeAt(Check)
			if err != nil || len(j.Findings) != p.told || said > 0 {
				t.Errorf("%s, reader %t: %v, %d are worth less, %v", name, reader, j.Findings, said, err)
			}
		}
	}
}
