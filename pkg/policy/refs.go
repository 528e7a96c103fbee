package policy

import "strings"

// matchRef reports whether a full ref name matches a pattern. In a pattern `*`
// stands for any run of bytes without "/", `**` for any run at all; every
// other byte stands for itself. A pattern without "refs/" at its start means
// a branch: `main` is `refs/heads/main`. Work is bounded by
// len(pattern) × len(ref).
func matchRef(pattern, ref string) bool {
	if !strings.HasPrefix(pattern, "refs/") {
		pattern = "refs/heads/" + pattern
	}
	// cur[j]: the pattern read so far matches ref[:j].
	cur := make([]bool, len(ref)+1)
	cur[0] = true
	for i := 0; i < len(pattern); i++ {
		next := make([]bool, len(ref)+1)
		if pattern[i] == '*' {
			cross := i+1 < len(pattern) && pattern[i+1] == '*'
			if cross {
				i++
			}
			for j := range next {
				next[j] = cur[j] || j > 0 && next[j-1] && (cross || ref[j-1] != '/')
			}
		} else {
			for j := 1; j < len(next); j++ {
				next[j] = cur[j-1] && ref[j-1] == pattern[i]
			}
		}
		cur = next
	}
	return cur[len(ref)]
}

func matchAny(patterns []string, ref string) bool {
	for _, p := range patterns {
		if matchRef(p, ref) {
			return true
		}
	}
	return false
}
