package hooks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// postReceive lets the control plane know of a push, where the repository's
// configuration names a database (docs/spec/controlplane.md). Refs have moved
// already, so nothing here refuses or fails: what goes wrong is told in one
// line, and the next push catches up. Without a database nothing is started.
func postReceive(ctx context.Context, env *Env) int {
	if env.HandOver == nil {
		return report.ExitClean
	}
	var err error
	if !mentioned(env) {
		var database string
		if database, err = controlPlane(ctx, env); err == nil && database == "" {
			return report.ExitClean
		}
	}
	if err == nil {
		var code int
		if code, err = env.HandOver([]string{"post-receive"}); err == nil {
			return code
		}
	}
	fmt.Fprintf(env.Stderr, "rigward: the control plane is not brought up: %s\n", finding.Clean(err.Error()))
	return report.ExitClean
}

// maxConfig is how much of a configuration file is searched.
const maxConfig = 1 << 20

// mentioned reports whether the file config of the git directory that git names
// to its hooks speaks of a control plane. Then rig-control, which reads the
// configuration itself, is started at once: git need not be asked twice.
func mentioned(env *Env) bool {
	dir := env.Getenv("GIT_DIR")
	if dir == "" {
		return false
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(env.Dir, dir)
	}
	f, err := os.Open(filepath.Join(dir, "config"))
	if err != nil {
		return false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return err == nil && bytes.Contains(bytes.ToLower(data), []byte("controlplane"))
}

// controlPlane returns what the repository's own configuration says of the
// control plane, "" if it names none.
func controlPlane(ctx context.Context, env *Env) (string, error) {
	repo, err := gitrepo.OpenIdle(ctx, gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
	if err != nil {
		return "", err
	}
	defer repo.Close()
	database, _, err := repo.ConfigLast("rigward.controlPlane")
	return database, err
}
