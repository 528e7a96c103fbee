package policy

import "testing"

func TestMatchRef(t *testing.T) {
	for _, c := range []struct {
		pattern, ref string
		want         bool
	}{
		{"main", "refs/heads/main", true},
		{"main", "refs/heads/main2", false},
		{"main", "refs/tags/main", false},
		{"refs/heads/*", "refs/heads/a", true},
		{"refs/heads/*", "refs/heads/a/b", false},
		{"refs/heads/**", "refs/heads/a/b", true},
		{"refs/heads/*/b", "refs/heads/a/b", true},
		{"refs/**/b", "refs/heads/a/b", true},
		{"**", "refs/heads/x/y", true},
		{"release-*", "refs/heads/release-1.0", true},
		{"release-*", "refs/heads/release-1/0", false},
		{"[m]ain", "refs/heads/main", false},
		{"refs/notes/*", "refs/notes/commits", true},
		{"", "refs/heads/", true},
	} {
		if got := matchRef(c.pattern, c.ref); got != c.want {
			t.Errorf("matchRef(%q, %q) = %v, want %v", c.pattern, c.ref, got, c.want)
		}
	}
}
