package main

import (
	"context"
	"crypto/rand"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
)

var update = flag.Bool("update", false, "write the golden output of the scripts")

// TestMain makes the test binary the program that the scripts, and the hooks
// which they install, run.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rig-hook": func() {
		dir, _ := os.Getwd()
		exe, _ := os.Executable()
		os.Exit(Main(context.Background(), &hooks.Env{Args: append([]string{"rig-hook"}, os.Args[1:]...), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			Environ: os.Environ(), Dir: dir, Executable: exe, Now: time.Now, Rand: rand.Reader,
			Bundles: bundleJudge(exe)}))
	}})
}

// TestScripts runs testdata/scripts; -update writes their golden output.
func TestScripts(t *testing.T) {
	gittest.NotShort(t)
	testscript.Run(t, scripts("../../testdata/scripts"))
}

// scripts are the parameters of a directory of scripts.
func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir: dir, UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			for _, kv := range [][2]string{{"AUTHOR", "NAME"}, {"COMMITTER", "NAME"}} {
				e.Setenv("GIT_"+kv[0]+"_NAME", "Op")
				e.Setenv("GIT_"+kv[0]+"_EMAIL", "op@example.com")
				e.Setenv("GIT_"+kv[0]+"_DATE", "1767603600 +0000")
			}
			return nil
		},
	}
}
