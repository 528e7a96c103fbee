package attack

import (
	"cmp"
	"slices"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestFound plays what the generator once found: pushes on which the hook and
// the rules did not agree.
func TestFound(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy string
		push   func(w *world, tip string) string // the new tip of main
		rules  []string                          // that are broken
		later  int64                             // seconds that go by before the push
		ref    string                            // "" for main
	}{
		{"a plain file that became an envelope on one side is merged", "", func(w *world, tip string) string {
			return w.becomes(tip, "t-one/NEW.md")
		}, nil, 0, ""},
		{"the same where the other side is a thread already", "", func(w *world, tip string) string {
			return w.becomes(tip, "docs/NEW.md")
		}, nil, 0, ""},
		{"a plain file is edited while its directory becomes a thread on another branch", "", func(w *world, tip string) string {
			side := w.on(tip, 1, map[string]string{"docs/NEW.md": w.request("docs", "New\n").text()})
			edit := w.on(tip, 2, map[string]string{"README.md": "# Edited\n", "docs/guide.md": "edited\n"})
			return w.join(edit, side)
		}, []string{"envelope-parse"}, 0, ""},
		{"a twin below a directory that could be taken for the root", "version: 1\nenvelopes:\n  root: bridge\n", func(w *world, tip string) string {
			return w.on(tip, 1, map[string]string{"Bridge/t-one/REQUEST.md": w.request("t-one", "Not what was asked.\n").text()})
		}, []string{"envelope-path"}, 0, ""},
		{"a twin below such a directory that was there before", "version: 1\nenvelopes:\n  root: a/b\n", func(w *world, tip string) string {
			there := w.on(tip, 1, map[string]string{"A/b/new/X.md": "not an envelope\n"})
			return w.on(there, 2, map[string]string{"a/b/new/x.md": w.request("new", "Now one.\n").text()})
		}, []string{"envelope-path"}, 0, ""},
		{"the same path at the top is another file", "version: 1\nenvelopes:\n  root: bridge\n", func(w *world, tip string) string {
			return w.on(tip, 1, map[string]string{"t-one/REQUEST.md": "no envelope\n", "T-One/REQUEST.md": "nor this\n"})
		}, nil, 0, ""},
		{"a relay below the root", "version: 1\nenvelopes:\n  root: a/b\n  outside: deny\n", func(w *world, tip string) string {
			e := w.relay("t-one", bodyHash("Yes.\n"), w.dates[tip]+1, keyA)
			return w.on(tip, 1, map[string]string{"a/b/t-one/NEW.md": e.text()})
		}, nil, 0, ""},
		{"a block scalar without lines is an empty string", "", func(w *world, tip string) string {
			e := w.request("t-one", "New\n")
			e.set("tldr", " |")
			return w.on(tip, 1, map[string]string{"t-one/NEW.md": e.text()})
		}, []string{"envelope-schema"}, 0, ""},
		{"a question while a freeze holds", frozenPolicy, func(w *world, tip string) string {
			return w.on(w.freeze(tip), 2, map[string]string{"t-one/NEW.md": w.request("t-one", "New\n").text()})
		}, []string{"relay-frozen"}, 0, ""},
		{"an acknowledgement while a freeze holds", frozenPolicy, func(w *world, tip string) string {
			e := w.request("t-one", "Seen.\n")
			e.set("type", " ACK")
			return w.on(w.freeze(tip), 2, map[string]string{"t-one/NEW.md": e.text()})
		}, nil, 0, ""},
		{"a question in another thread", frozenPolicy, func(w *world, tip string) string {
			return w.on(w.freeze(tip), 2, map[string]string{"other/NEW.md": w.request("other", "New\n").text()})
		}, nil, 0, ""},
		{"a question when the freeze is over", frozenPolicy, func(w *world, tip string) string {
			return w.on(w.freeze(tip), 2, map[string]string{"t-one/NEW.md": w.request("t-one", "New\n").text()})
		}, nil, 1800, ""},
		{"a question after the thaw", frozenPolicy, func(w *world, tip string) string {
			frozen := w.freeze(tip)
			e := w.relay("t-one", bodyHash("Yes.\n"), w.dates[frozen]+1, keyA)
			thawed := w.on(frozen, 1, map[string]string{"t-one/THAW.md": e.text()})
			return w.on(thawed, 2, map[string]string{"t-one/NEW.md": w.request("t-one", "New\n").text()})
		}, nil, 0, ""},
		{"a question that did not know of the freeze", frozenPolicy, func(w *world, tip string) string {
			return w.join(w.freeze(tip), w.on(tip, 2, map[string]string{"t-one/NEW.md": w.request("t-one", "New\n").text()}))
		}, nil, 0, ""},
		{"a ref that was free moves to a commit that the default branch has", render(with(func(p *mpolicy) { p.protect = []string{"main", "release/*"} })), func(w *world, tip string) string {
			return tip
		}, nil, 0, "refs/heads/release/1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1, kind{policy: test.policy})
			git := &gittest.Repo{T: t, Dir: w.server, Home: w.home, Env: w.env}
			tip := w.tips["refs/heads/main"]
			w.now += test.later
			ref := cmp.Or(test.ref, "refs/heads/main")
			updates := []mupdate{{w.tips[ref], test.push(w, tip), ref}}
			v, a, why := w.try(git, w.newBook(), updates, false, &tally{})
			if why != "" || v.undecided != "" || !slices.Equal(sorted(v.rules), test.rules) {
				t.Errorf("%s: model %q %s, expected %q; hook exit %d %s", why, v.where, v.undecided, test.rules, a.code, a.text)
			}
		})
	}
}

const frozenPolicy = "version: 1\nrules:\n  relay-frozen: error\n"

// freeze adds a relay that freezes t-one.
func (w *world) freeze(parent string) string {
	e := w.relay("t-one", bodyHash("Yes.\n"), w.dates[parent]+1, keyA)
	e.set("type", " ACK")
	e.set("status", " ⏸ deciding")
	return w.on(parent, 1, map[string]string{"t-one/FREEZE.md": e.text()})
}

// on commits files on top of a commit, some seconds later, signed by the
// operator.
func (w *world) on(parent string, later int64, files map[string]string) string {
	t := w.copy(parent)
	for p, text := range files {
		w.put(t, p, text)
	}
	return w.commit(&draft{parents: []string{parent}, tree: t, when: w.dates[parent] + later, key: keyA})
}

// join merges two commits, so that what differs from the first is the second's.
func (w *world) join(a, b string) string {
	t := w.copy(a)
	for p, e := range w.trees[b] {
		if _, ok := t[p]; !ok || p == "docs/guide.md" {
			t[p] = e
		}
	}
	return w.commit(&draft{parents: []string{a, b}, tree: t, when: max(w.dates[a], w.dates[b]), key: keyA})
}

// becomes makes a guide an envelope on one side and adds an envelope on
// the other, and merges the two.
func (w *world) becomes(tip, other string) string {
	side := w.on(tip, 1, map[string]string{"docs/guide.md": w.request("docs", "Now one.\n").text()})
	main := w.on(tip, 2, map[string]string{other: w.request(threadOf(other), "New\n").text()})
	return w.join(main, side)
}
