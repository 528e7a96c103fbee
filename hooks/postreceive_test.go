package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
)

// TestPostReceiveHandsOver starts rig-control where git's configuration names a
// database, in whichever of its files, and nothing where it names none.
func TestPostReceiveHandsOver(t *testing.T) {
	t.Parallel()
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

// TestPostReceiveShim starts rig-control where it lies beside rig-hook, and
// rig-hook, which looks further and says what is missing, where it does not.
func TestPostReceiveShim(t *testing.T) {
	t.Parallel()
	executable := func(file, text string) {
		write(t, file, text)
		if err := os.Chmod(file, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, chained := range []bool{false, true} {
		for name, c := range map[string]struct {
			control func(path string)
			want    string
		}{
			"beside":         {func(p string) { executable(p, "#!/bin/sh\necho control \"$@\"; cat\n") }, "control post-receive"},
			"not there":      {func(string) {}, "hook post-receive"},
			"not executable": {func(p string) { os.WriteFile(p, []byte("#!/bin/sh\necho control\n"), 0o644) }, "hook post-receive"},
			"a directory":    {func(p string) { os.Mkdir(p, 0o755) }, "hook post-receive"},
		} {
			t.Run(fmt.Sprintf("%s, chained %t", name, chained), func(t *testing.T) {
				r := gittest.New(t, gittest.Options{Bare: true})
				dir := filepath.Join(gittest.TempDir(t), "it's a place")
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				program := filepath.Join(dir, "rig-hook")
				executable(program, "#!/bin/sh\necho hook \"$@\"; cat\n")
				c.control(filepath.Join(dir, "rig-control"))
				shim := hooks.Shim("post-receive", program, chained)
				if got := hooks.Program(shim); got != program {
					t.Errorf("the shim runs %s", got)
				}
				want := []string{c.want, "old new ref"}
				if chained {
					r.Hook("post-receive"+hooks.ChainedSuffix, "#!/bin/sh\necho first; cat\n")
					want = append([]string{"first", "old new ref"}, want...)
				}
				r.Hook("post-receive", string(shim))
				cmd := exec.Command(filepath.Join(r.Dir, "hooks", "post-receive"))
				cmd.Stdin = strings.NewReader("old new ref\n")
				out, err := cmd.CombinedOutput()
				if got := strings.Split(strings.TrimSpace(string(out)), "\n"); err != nil || !slices.Equal(got, want) {
					t.Errorf("%v %q, expected %q\n%s", err, got, want, shim)
				}
			})
		}
	}
	if shim := string(hooks.Shim("post-receive", `C:\x\rig-hook.exe`, false)); runtime.GOOS == "windows" && !strings.Contains(shim, "'C:/x/rig-control.exe'") {
		t.Error(shim)
	}
}
