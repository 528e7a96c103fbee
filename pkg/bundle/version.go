package bundle

import (
	"fmt"
	"strconv"

	"github.com/rigward/rigward/pkg/finding"
	"golang.org/x/mod/semver"
)

// maxEpoch is the latest time that a ustar header holds, in seconds since 1970.
const maxEpoch = 8589934591

// ParseEpoch reads SOURCE_DATE_EPOCH: seconds since 1970 as a decimal integer,
// 0 to 8589934591; an empty text is 0 (docs/spec/agentbundle.md#create).
func ParseEpoch(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > maxEpoch {
		return 0, fmt.Errorf("SOURCE_DATE_EPOCH is %s, a whole number from 0 to %d is expected", finding.QuoteMax(s, 60), maxEpoch)
	}
	return int64(n), nil
}

// IsVersion reports whether s is a version by SemVer 2.0.0, as 1.0.0 is.
func IsVersion(s string) bool {
	v := "v" + s
	return semver.IsValid(v) && semver.Canonical(v)+semver.Build(v) == v // not the short forms
}

// CompareVersions compares two versions by precedence (semver.org section 11).
func CompareVersions(a, b string) int { return semver.Compare("v"+a, "v"+b) }
