package hooks_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/gittest"
)

// TestPostReceiveHandsOver starts rig-control where git's configuration names a
// database, in whichever of its files, and nothing where it names none.
func TestPostReceiveHandsOver(t *testing.T) {
	const key = "rigward.controlPlane"
	for name, c := range map[string]struct {
		prepare func(r *gittest.Repo)
		want    bool
	}{
		"the repository's file": {func(r *gittest.Repo) { r.Run("config", key, "sqlite:control.db") }, true},
		"other letters":         {func(r *gittest.Repo) { r.Run("config", "Rigward.CONTROLPLANE", "sqlite:control.db") }, true},
		"an included file": {func(r *gittest.Repo) {
			r.Run("config", "--file", r.Home+"/more", key, "sqlite:control.db")
			r.Run("config", "include.path", r.Home+"/more")
		}, true},
		"control: no database":            {func(*gittest.Repo) {}, false},
		"control: a key of a like name":   {func(r *gittest.Repo) { r.Run("config", "rigward.repository", "plane") }, false},
		"control: a file that is removed": {func(r *gittest.Repo) { r.Run("config", key, "x"); r.Run("config", "--unset", key) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := gittest.New(t, gittest.Options{Bare: true})
			c.prepare(r)
			for _, dir := range []string{"", "."} { // by hand, and as git calls it
				var errOut strings.Builder
				var got []string
				env := &hooks.Env{Stdin: strings.NewReader(""), Stdout: &errOut, Stderr: &errOut, Environ: slices.Clone(r.Env), Dir: r.Dir, Now: time.Now,
					HandOver: func(args []string) (int, error) { got = args; return 0, nil }}
				if dir != "" {
					env.Environ = append(env.Environ, "GIT_DIR="+dir)
				}
				if code := hooks.Run(context.Background(), "post-receive", env); code != 0 || errOut.Len() > 0 {
					t.Errorf("GIT_DIR=%s: exit %d: %s", dir, code, errOut.String())
				}
				if handed := slices.Equal(got, []string{"post-receive"}); handed != c.want {
					t.Errorf("GIT_DIR=%s: handed over %v, expected %t", dir, got, c.want)
				}
				// A program that cannot be started is told, and stops nobody.
				env.HandOver = func([]string) (int, error) { return 0, errors.New("it is away") }
				if code := hooks.Run(context.Background(), "post-receive", env); code != 0 || strings.Contains(errOut.String(), "it is away") != c.want {
					t.Errorf("GIT_DIR=%s: exit %d: %s", dir, code, errOut.String())
				}
			}
		})
	}
}
