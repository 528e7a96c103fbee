package rig

import (
	"fmt"
	"strings"
	"testing"
)

// long is a manifest with n files, whose lines edit may change.
func long(n int, edit func(lines []string) []string) []byte {
	lines := []string{"schema_version: 2", "name: x", "integrity:", "  algorithm: sha256", "  files:"}
	for i := range n {
		lines = append(lines, fmt.Sprintf("    agents/a/f%04d.md: %064x", i, i+0xabcdef))
	}
	lines = append(lines, "project: {name: p}")
	if edit != nil {
		lines = edit(lines)
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// same compares two values with their places.
func same(a, b *node) bool {
	if a.kind != b.kind || a.text != b.text || a.line != b.line || a.col != b.col || a.size != b.size || len(a.items) != len(b.items) || len(a.fields) != len(b.fields) {
		return false
	}
	for i := range a.items {
		if !same(a.items[i], b.items[i]) {
			return false
		}
	}
	for i, f := range a.fields {
		if g := b.fields[i]; f.key != g.key || f.line != g.line || f.col != g.col || !same(f.value, g.value) {
			return false
		}
	}
	return true
}

// checkLong compares parseLong with parseYAML.
func checkLong(t *testing.T, data []byte) {
	t.Helper()
	want, wantFault := parseYAML(data)
	got, fault := parseLong(data)
	switch {
	case (fault == nil) != (wantFault == nil), fault != nil && *fault != *wantFault:
		t.Fatalf("fault %v, without runs %v\n%q", fault, wantFault, data)
	case fault == nil && !same(got, want):
		t.Fatalf("read differently with runs\n%q", data)
	}
}

// taken reports whether the runs of a document were read as such.
func taken(data []byte) bool {
	cut, runs := cutRuns(data)
	if len(runs) == 0 {
		return false
	}
	r := newReader()
	r.runs = runs
	_, fault := r.document(cut)
	return fault == nil && len(r.runs) == 0
}

// TestRuns: a document reads the same whether its runs are read as lines or
// not, also where such lines are no entries of a map.
func TestRuns(t *testing.T) {
	set := func(i int, line string) func([]string) []string {
		return func(l []string) []string { l[i] = line; return l }
	}
	insert := func(i int, more ...string) func([]string) []string {
		return func(l []string) []string { return append(append(append([]string{}, l[:i]...), more...), l[i:]...) }
	}
	hash := strings.Repeat("ab", 32)
	for _, c := range []struct {
		name  string
		data  []byte
		taken bool
	}{
		{"a run", long(40, nil), true},
		{"the shortest run", long(minRun, nil), true},
		{"one line less", long(minRun-1, nil), false},
		{"two runs with another line between", long(80, set(40, "    \"a b\": "+hash)), true},
		{"a key that is not a string between", long(80, set(40, "    12: "+hash)), false},
		{"a hash of digits between", long(80, set(40, "    a: "+strings.Repeat("1", 64))), true},
		{"a short value between", long(80, set(40, "    a: abc")), true},
		{"a comment between", long(80, insert(40, "    # text")), true},
		{"an empty line between", long(80, insert(40, "")), true},
		{"the last value goes on", long(40, insert(45, "      more")), false},
		{"the first value goes on in its line", long(40, set(5, "    a/b.md: "+hash+" more")), true},
		{"a key twice", long(40, set(20, "    agents/a/f0003.md: "+hash)), false},
		{"a key twice, in two runs", long(80, func(l []string) []string { l[40] = "    \"a b\": x"; l[60] = l[10]; return l }), false},
		{"keys in no order", long(40, func(l []string) []string { l[20], l[30] = l[30], l[20]; return l }), true},
		{"another indentation", long(40, set(20, "     a: "+hash)), false},
		{"less indentation", long(40, set(20, "  a: "+hash)), false},
		{"in a block of text", long(40, set(4, "  files: |")), false},
		{"in a folded block", long(40, set(4, "  files: >-")), false},
		{"in a quoted text", long(40, func(l []string) []string { l[4] = "  files: \"x"; l[45] = "    \""; return l }), false},
		{"in a flow map", long(40, func(l []string) []string { l[4] = "  files: {"; l[45] = "  }"; return l }), false},
		{"in plain text", long(40, set(4, "  files: a")), false},
		{"in a comment", long(40, func(l []string) []string {
			for i := 5; i < 45; i++ {
				l[i] = "#" + l[i]
			}
			return l
		}), false},
		{"anchored, with an alias", long(40, func(l []string) []string { l[4] = "  files: &f"; l[45] = "project: *f"; return l }), true},
		{"a map in a list", long(40, set(5, "  - a: "+hash)), true},
		{"a second document", long(40, set(45, "---")), false},
		{"a carriage return before", long(40, set(1, "name: x\r")), true},
		{"a line separator before", long(40, set(1, "name: \"x\u2028 y\"")), false},
		{"carriage returns", []byte(strings.ReplaceAll(string(long(40, nil)), "\n", "\r\n")), false},
		{"no line feed at the end", []byte(strings.TrimSuffix(string(long(40, func(l []string) []string { return l[:45] })), "\n")), true},
		{"not UTF-8", long(40, set(45, "a: \xff")), false},
		{"a fault below", long(40, set(45, "a: [")), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkLong(t, c.data)
			if got := taken(c.data); got != c.taken {
				t.Errorf("read by runs: %t\n%s", got, c.data)
			}
		})
	}
}

// FuzzRuns: what parseLong returns does not depend on runs.
func FuzzRuns(f *testing.F) {
	f.Add("  files:\n", "", "project: *x\n", 4, 20)
	f.Add("  files: |\n", "    a: b\n", "", 4, 40)
	f.Add("  files: \"\n", "\n", "  \"\n", 4, 40)
	f.Add("- - &x\n", "    ? b\n", "---\n", 5, 17)
	f.Fuzz(func(t *testing.T, before, between, after string, indent, n int) {
		if len(before)+len(between)+len(after) > 4096 || indent < 0 || indent > 20 || n < 0 || n > 60 {
			return
		}
		var b strings.Builder
		b.WriteString(before)
		for range 2 {
			for i := range n {
				fmt.Fprintf(&b, "%*sf%d: %064x\n", indent, "", i, i+0xabcdef)
			}
			b.WriteString(between)
		}
		b.WriteString(after)
		checkLong(t, []byte(b.String()))
	})
}
