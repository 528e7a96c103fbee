package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
)

// postReceive tells which refs have moved to those who go on from there: what
// attests, and the control plane. It tells the outbox which refs have moved, where the repository's
// configuration names a control plane (docs/spec/controlplane.md#outbox), and starts
// what takes the outbox further where nothing else does. Nothing here refuses,
// fails or waits for a database: what goes wrong is told in one line.
func postReceive(ctx context.Context, env *Env) int {
	data, err := ReadLines(env.Stdin) // git wants its lines taken
	var updates []change.RefUpdate
	if err == nil {
		updates, err = change.ParseReceive(data)
	}
	if err == nil {
		if err := attested(ctx, env, updates); err != nil {
			fmt.Fprintf(env.Stderr, "rigward: this push is not attested yet: %s; the push stands\n", finding.Clean(err.Error()))
		}
	}
	var l *pushLog
	if err == nil {
		l, err = openLog(ctx, env, "post-receive")
	}
	if l == nil && err == nil {
		return report.ExitClean // there is no control plane
	}
	if err == nil && len(updates) > 0 {
		err = l.landed(updates)
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "rigward: the push log lacks this push: %s; the push stands\n", finding.Clean(err.Error()))
	}
	if l == nil {
		return report.ExitClean
	}
	if l.bad != nil {
		fmt.Fprintf(env.Stderr, "rigward: %s; the push stands\n", finding.Clean(l.bad.Error()))
	}
	if last := outbox.Trouble(l.dir); last != "" {
		fmt.Fprintf(env.Stderr, "rigward: the control plane lags behind: %s; the push stands\n", finding.Clean(last))
	}
	if err := ship(env, l.dir); err != nil {
		fmt.Fprintf(env.Stderr, "rigward: the control plane is not brought up: %s; the push stands\n", finding.Clean(err.Error()))
	}
	return report.ExitClean
}

// ship starts what takes the outbox further, unless something else does: it goes on with the
// lock that was taken here, so of hooks that end at once no two start one. It goes on, too, when
// the objects of this push, which git holds apart until they are accepted, are gone.
func ship(env *Env, dir string) error {
	if env.Ship == nil {
		return nil
	}
	lock, err := outbox.Lock(dir)
	if errors.Is(err, files.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return env.Ship(outlives(env.Environ), lock)
}

// outlives returns an environment without what names the objects that git holds
// apart for a hook.
func outlives(environ []string) []string {
	apart := func(v string) bool { return strings.HasPrefix(v, "GIT_QUARANTINE_PATH=") }
	if !slices.ContainsFunc(environ, apart) {
		return environ
	}
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return apart(v) || strings.HasPrefix(v, "GIT_OBJECT_DIRECTORY=") || strings.HasPrefix(v, "GIT_ALTERNATE_OBJECT_DIRECTORIES=")
	})
}
