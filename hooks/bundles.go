package hooks

import (
	"context"

	"github.com/rigward/rigward/internal/drift"
	"github.com/rigward/rigward/pkg/rules"
)

// bundles judges the bundles that a range touches (rule bundle-drift).
func (g *gate) bundles(ctx context.Context, r rules.Range) error {
	j := drift.Judge{Repo: g.repo, Now: g.judge.Now}
	err := j.Range(ctx, r)
	g.report.Bundles = append(g.report.Bundles, j.Bundles...)
	g.judge.Findings = append(g.judge.Findings, j.Findings...)
	return err
}
