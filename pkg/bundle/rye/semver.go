package rye

import (
	"cmp"
	"strings"
)

// compareVersions compares two SemVer 2.0.0 versions by precedence (semver.org
// section 11). Build metadata does not count.
func compareVersions(a, b string) int {
	x, y := semver().FindStringSubmatch(a), semver().FindStringSubmatch(b)
	for i := 1; i <= 3; i++ {
		if c := compareNumbers(x[i], y[i]); c != 0 {
			return c
		}
	}
	switch {
	case x[4] == y[4]:
		return 0
	case x[4] == "":
		return 1
	case y[4] == "":
		return -1
	}
	p, q := strings.Split(x[4], "."), strings.Split(y[4], ".")
	for i := range min(len(p), len(q)) {
		n, m := isNumber(p[i]), isNumber(q[i])
		c := 0
		switch {
		case n && m:
			c = compareNumbers(p[i], q[i])
		case n:
			c = -1
		case m:
			c = 1
		default:
			c = strings.Compare(p[i], q[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(p), len(q))
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789") == "" }

// compareNumbers compares decimal numbers without leading zeros of any length.
func compareNumbers(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
