package main

import (
	"context"
	"io"

	"github.com/rigward/rigward/cmd/internal/handover"
	"github.com/rigward/rigward/internal/drift/ask"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// bundleJudge lets rig-bundle judge bundles, which is found beside self, the path of
// this program, or on the search path.
func bundleJudge(self string) ask.Judge {
	run := func(ctx context.Context, env gitrepo.Env, stdin io.Reader) (stdout, stderr []byte, code int, err error) {
		return handover.Run(ctx, handover.Bundle, self, ask.Worker, env.Dir, nil, env.Environ, stdin, ask.MaxAnswer)
	}
	return ask.Of(run, "go install github.com/rigward/rigward/cmd/rig-bundle@latest")
}
