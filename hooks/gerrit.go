package hooks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/rules"
)

// gerritHooks are the hooks of Gerrit's hooks plugin that can refuse. Gerrit
// runs neither pre-receive nor update of git.
var gerritHooks = []string{"ref-update", "commit-received"}

// gerritFlags are those that Gerrit gives its hooks (documentation of the
// hooks plugin); each takes a value.
var gerritFlags = []string{"--project", "--refname", "--uploader", "--uploader-username", "--oldrev", "--newrev", "--cmdref"}

// RunGerrit runs a hook of Gerrit, the first of env.Args, with the flags that
// follow. The repository is the one that GIT_DIR or the current directory
// names. The exit code is that of Run.
func RunGerrit(ctx context.Context, env *Env) int {
	g := &gate{env: env, name: "update", kind: rules.Update, started: env.Now(), report: report.Report{Gate: "gerrit"}, timeout: serverTimeout, format: "text"}
	u, err := gerritUpdate(env.Args)
	if err != nil {
		g.report.Problem = err
	} else {
		g.within(ctx, func(g *gate, ctx context.Context) error { return g.receive(ctx, []change.RefUpdate{u}) })
	}
	if g.tell(true) != nil {
		return report.ExitUndecided
	}
	return g.report.ExitCode()
}

func gerritUpdate(args []string) (u change.RefUpdate, err error) {
	if len(args) == 0 || !slices.Contains(gerritHooks, args[0]) {
		return u, fmt.Errorf("expected one of %s and the flags that Gerrit gives", strings.Join(gerritHooks, ", "))
	}
	value := map[string]string{}
	for args = args[1:]; len(args) > 0; args = args[2:] {
		switch {
		case !slices.Contains(gerritFlags, args[0]):
			return u, fmt.Errorf("unknown flag %s", finding.QuoteMax(args[0], 40))
		case len(args) == 1:
			return u, fmt.Errorf("flag %s needs a value", args[0])
		}
		value[args[0]] = args[1]
	}
	for _, flag := range []string{"--refname", "--oldrev", "--newrev"} {
		if value[flag] == "" {
			return u, fmt.Errorf("there is no flag %s", flag)
		}
	}
	ref := value["--refname"]
	if !strings.HasPrefix(ref, "refs/") {
		ref = "refs/heads/" + ref
	}
	return change.ParseUpdate([]string{ref, value["--oldrev"], value["--newrev"]})
}
