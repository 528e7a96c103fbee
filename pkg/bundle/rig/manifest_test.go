package rig

import "testing"

// TestIsRFC3339: what time.Parse forgives is no RFC 3339 time.
func TestIsRFC3339(t *testing.T) {
	for s, want := range map[string]bool{
		"2026-01-02T03:04:05Z": true, "2026-01-02T03:04:05.25Z": true, "2026-01-02T03:04:05+23:59": true,
		"2026-01-02T3:04:05Z": false, "2026-01-02T03:04:05,25Z": false, "2026-01-02T03:04:05+24:00": false,
		"2026-01-02T03:04:05+00:60": false, "2026-02-30T03:04:05Z": false, "2026-01-02": false, "": false,
	} {
		if got := IsRFC3339(s); got != want {
			t.Errorf("%q: %t, want %t", s, got, want)
		}
	}
}
