package policy

import (
	"fmt"

	"github.com/rigward/rigward/pkg/finding"
)

// Loosened says in words, each once, in what a policy asks less than a repository without
// one does: rules at error that refuse nothing, and limits. What rules are about that are
// stricter than the default is not told.
func (p *Policy) Loosened() (what []string) {
	for _, r := range rules {
		if r.Default != finding.Error || p.Refuses(r.ID) {
			continue
		}
		level := "off"
		if p.Level(r.ID) == finding.Warning {
			level = "a warning only"
		}
		what = append(what, r.ID+" is "+level)
	}
	usual := Default()
	if p.MinRSABits < usual.MinRSABits {
		what = append(what, fmt.Sprintf("RSA keys of %d bits count, below %d", p.MinRSABits, usual.MinRSABits))
	}
	if p.ClockSkew > usual.ClockSkew {
		what = append(what, fmt.Sprintf("a commit may be %s ahead of the clock, more than %s", p.ClockSkew, usual.ClockSkew))
	}
	if p.RelayClock > usual.RelayClock {
		what = append(what, fmt.Sprintf("a relay may be attested %s from its commit, more than %s", p.RelayClock, usual.RelayClock))
	}
	return what
}
