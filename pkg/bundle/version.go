package bundle

import "golang.org/x/mod/semver"

// IsVersion reports whether s is a version by SemVer 2.0.0, as 1.0.0 is.
func IsVersion(s string) bool {
	v := "v" + s
	return semver.IsValid(v) && semver.Canonical(v)+semver.Build(v) == v // not the short forms
}

// CompareVersions compares two versions by precedence (semver.org section 11).
func CompareVersions(a, b string) int { return semver.Compare("v"+a, "v"+b) }
