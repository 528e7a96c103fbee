package hooks_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/test/gittest"
)

const controlKey = "rigward.controlPlane"

// patient is a server whose push log lacks no record because a machine is busy.
func patient(t *testing.T) *gittest.Repo {
	r := gittest.New(t, gittest.Options{Bare: true})
	r.Config("rigward.pushLogWait", "1m")
	return r
}

// logged returns what the hooks of a repository have told of pushes.
func logged(t *testing.T, r *gittest.Repo) []outbox.Record {
	t.Helper()
	b, err := outbox.Read(outbox.Dir(r.Dir), outbox.Cursor{}, 1000)
	if err != nil || b.Torn > 0 {
		t.Fatal(err, b.Torn)
	}
	return b.Records
}

// TestPostReceiveTells tells the outbox of a push where git's configuration
// names a database, in whichever of its files, and nothing where it names none.
func TestPostReceiveTells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(r *gittest.Repo)
		want    bool
	}{
		"the repository's file": {func(r *gittest.Repo) { r.Config(controlKey, "sqlite:control.db") }, true},
		"other letters":         {func(r *gittest.Repo) { r.Config("Rigward.CONTROLPLANE", "sqlite:control.db") }, true},
		"an included file": {func(r *gittest.Repo) {
			r.Run("config", "--file", r.Home+"/more", controlKey, "sqlite:control.db")
			r.Config("include.path", r.Home+"/more")
		}, true},
		"control: no database":            {func(*gittest.Repo) {}, false},
		"control: a key of a like name":   {func(r *gittest.Repo) { r.Config("rigward.repository", "plane") }, false},
		"control: a file that is removed": {func(r *gittest.Repo) { r.Config(controlKey, "x"); r.Run("config", "--unset", controlKey) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := patient(t)
			c.prepare(r)
			line := strings.Repeat("0", 40) + " " + strings.Repeat("1", 40) + " refs/heads/main\n"
			started := 0
			for i, dir := range []string{"", "."} { // by hand, and as git calls it
				var errOut strings.Builder
				env := &hooks.Env{Stdin: strings.NewReader(line), Stdout: &errOut, Stderr: &errOut, Environ: slices.Clone(r.Env), Dir: r.Dir, Now: time.Now,
					Ship: func([]string, *os.File) error { started++; return nil }}
				if dir != "" {
					env.Environ = append(env.Environ, "GIT_DIR="+dir)
				}
				if code := hooks.Run(context.Background(), "post-receive", env); code != 0 || errOut.Len() > 0 {
					t.Errorf("GIT_DIR=%s: exit %d: %s", dir, code, errOut.String())
				}
				records := logged(t, r)
				if (len(records) == i+1) != c.want || (started == i+1) != c.want {
					t.Errorf("GIT_DIR=%s: %d records, started %d times, expected %t", dir, len(records), started, c.want)
				}
				if c.want && (records[i].Stage != outbox.Landed || records[i].Refs[0].Name != "refs/heads/main") {
					t.Errorf("%+v", records[i])
				}
				// A program that cannot be started is told, and stops nobody.
				env.Stdin, env.Ship = strings.NewReader(""), func([]string, *os.File) error { return errors.New("it is away") }
				if code := hooks.Run(context.Background(), "post-receive", env); code != 0 || strings.Contains(errOut.String(), "it is away") != c.want {
					t.Errorf("GIT_DIR=%s: exit %d: %s", dir, code, errOut.String())
				}
				// Where somebody ships already, nobody is started.
				if c.want {
					lock, err := outbox.Lock(outbox.Dir(r.Dir))
					if err != nil {
						t.Fatal(err)
					}
					errOut.Reset()
					if code := hooks.Run(context.Background(), "post-receive", env); code != 0 || errOut.Len() > 0 {
						t.Errorf("exit %d: %s", code, errOut.String())
					}
					lock.Close()
				}
			}
		})
	}
}

// TestWarnedOnce: what is accepted with a warning is warned of once, by whichever
// hooks are there.
func TestWarnedOnce(t *testing.T) {
	t.Parallel()
	shim := func(name string) string { return string(hooks.Shim(name, program, false)) }
	const forge = "#!/bin/sh\nexec \"$(dirname \"$0\")/pre-receive.d/rigward\"\n"
	for name, hooked := range map[string]map[string]string{
		"both":                  {"pre-receive": shim("pre-receive"), "update": shim("update")},
		"a forge's own":         {"pre-receive": forge, "pre-receive.d/rigward": shim("pre-receive"), "update": shim("update")},
		"update alone":          {"update": shim("update")},
		"pre-receive of others": {"pre-receive": "#!/bin/sh\ncat >/dev/null\n", "update": shim("update")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare := patient(t)
			bare.Config("rigward.bootstrap", "true")
			bare.Hook("x", "") // makes the directory
			if err := os.MkdirAll(filepath.Join(bare.Dir, "hooks", "pre-receive.d"), 0o755); err != nil {
				t.Fatal(err)
			}
			for hook, script := range hooked {
				bare.Hook(hook, script)
			}
			work := bare.Clone()
			work.Commit("0", map[string]string{"build/REQUEST.md": turn("build", "REQUEST", "Please")})
			work.Commit("1", map[string]string{"build/RESOLUTION.md": turn("build", "RESOLUTION", "Done")})
			work.Commit("2", map[string]string{"build/STATE.md": turn("build", "STATE", "More")})
			p := work.Push("-q", "origin", "main")
			if p.Code != 0 || strings.Count(p.Stderr, "push accepted: 0 errors, 1 warning") != 1 || strings.Count(p.Stderr, "[thread-closed]") != 1 {
				t.Errorf("exit %d: %s", p.Code, p.Stderr)
			}
			work.Commit("3", map[string]string{"build/STATE.md": turn("build", "STATE", "Changed")})
			if p := work.Push("-q", "origin", "main"); p.Code == 0 || !strings.Contains(p.Stderr, "[append-only]") {
				t.Errorf("exit %d: %s", p.Code, p.Stderr)
			}
		})
	}
}

// TestPushLog tells of pushes that are refused, accepted and landed, with who
// pushed, and of which rules were broken where.
func TestPushLog(t *testing.T) {
	t.Parallel()
	bare := patient(t)
	bare.Config("rigward.bootstrap", "true")
	hooked := []string{"pre-receive", "update", "post-receive"}
	for _, h := range hooked {
		bare.Hook(h, string(hooks.Shim(h, program, false)))
	}
	work := bare.Clone()
	good := turn("build", "REQUEST", "Please")
	work.Commit("0", map[string]string{"build/REQUEST.md": good})
	push := func(want int, args ...string) []outbox.Record {
		t.Helper()
		before := len(logged(t, bare))
		p := work.Push(append([]string{"-q", "origin"}, args...)...)
		if p.Code != want {
			t.Fatalf("exit %d: %s", p.Code, p.Stderr)
		}
		return logged(t, bare)[before:]
	}
	if got := push(0, "main"); len(got) != 0 {
		t.Errorf("without a control plane: %+v", got)
	}
	bare.Config(controlKey, "sqlite:control.db")
	stages := func(got []outbox.Record, want ...string) {
		t.Helper()
		var is []string
		for _, r := range got {
			is = append(is, r.Hook+" "+r.Stage)
			if r.Push != got[0].Push || r.ID == "" || len(r.At) != len(outbox.Time) {
				t.Errorf("%+v", r)
			}
		}
		if !slices.Equal(is, want) {
			t.Errorf("%q, expected %q", is, want)
		}
	}
	old := work.Run("rev-parse", "HEAD")
	id := work.Commit("1", map[string]string{"build/STATE.md": turn("build", "STATE", "Going on")})
	got := push(0, "main")
	stages(got, "pre-receive received", "pre-receive judged", "post-receive landed")
	if len(got) == 3 {
		if u := (outbox.Ref{Name: "refs/heads/main", Old: old, New: id}); got[0].Refs[0] != u || got[2].Refs[0] != u {
			t.Errorf("%+v", got)
		}
		if got[1].Exit != 0 || got[1].Millis <= 0 || got[1].Commits != 1 || len(got[1].Places) != 0 {
			t.Errorf("%+v", got[1])
		}
	}
	work.Commit("2", map[string]string{"build/STATE.md": turn("build", "STATE", "Changed")})
	got = push(1, "main")
	stages(got, "pre-receive received", "pre-receive judged")
	if len(got) == 2 && (got[1].Exit != 1 || len(got[1].Places) == 0 || got[1].Places[0].Rule != "append-only" || got[1].Places[0].Path != "build/STATE.md") {
		t.Errorf("%+v", got[1])
	}
	// update alone tells all that there is; beside pre-receive only what it refuses.
	work.Run("reset", "-q", "--hard", id)
	os.Remove(filepath.Join(bare.Dir, "hooks", "pre-receive"))
	work.Commit("3", map[string]string{"build/STATE-2.md": turn("build", "STATE", "More")})
	got = push(0, "main")
	if len(got) != 3 || got[0].Hook != "update" || got[1].Hook != "update" || got[1].Stage != outbox.Judged || got[2].Stage != outbox.Landed {
		t.Errorf("%+v", got)
	}
	if got[0].Who["USER"]+got[0].Who["LOGNAME"] == "" && (os.Getenv("USER") != "" || os.Getenv("LOGNAME") != "") {
		t.Logf("nobody is named: %v", got[0].Who) // the tests' environment is bare
	}
	bare.Config("rigward.pushLogWait", "soon") // is told, and the usual wait holds
	work.Commit("told", map[string]string{"build/STATE-9.md": turn("build", "STATE", "More")})
	if p := work.Push("-q", "origin", "main"); p.Code != 0 || !strings.Contains(p.Stderr, `rigward.pushLogWait is "soon", expected a duration such as 5ms; the push stands`) {
		t.Errorf("exit %d: %s", p.Code, p.Stderr)
	}
	bare.Config("rigward.pushLogWait", "1m")
	bare.Config("rigward.pushLogPersonal", "false")
	work.Commit("4", map[string]string{"build/STATE-3.md": turn("build", "STATE", "Still more")})
	for _, r := range push(0, "main") {
		if len(r.Who) != 0 {
			t.Errorf("who pushed is told: %v", r.Who)
		}
	}
}

// TestDoctorNamesLocks: doctor names a lock that a git which died has left on a branch,
// and not one that a push may hold.
func TestDoctorNamesLocks(t *testing.T) {
	bare := gittest.New(t, gittest.Options{Bare: true})
	must(t, rig(bare, bare.Dir, "", "install", "--server", "."), 0)
	lock := filepath.Join(bare.Dir, "refs", "heads", "main.lock")
	write(t, lock, "")
	must(t, rig(bare, bare.Dir, "", "doctor", "--server", "."), 0)
	if old := time.Now().Add(-time.Hour); os.Chtimes(lock, old, old) != nil {
		t.Fatal("the time cannot be set")
	}
	must(t, rig(bare, bare.Dir, "", "doctor", "--server", "."), 1, "refs/heads/main.lock is there since 2", "hint: rm ", "main.lock, if no git runs in the repository")
}

// TestDoctorAsksForFeeder: where a database is configured, doctor wants the hook
// that tells of pushes, and what it told to have come there.
func TestDoctorAsksForFeeder(t *testing.T) {
	t.Parallel()
	bare := patient(t)
	must(t, rig(bare, bare.Dir, "", "install", "--server", ".", "--bootstrap"), 0)
	must(t, rig(bare, bare.Dir, "", "doctor", "--server", "."), 0) // control: no database
	bare.Config(controlKey, "sqlite:control.db")
	must(t, rig(bare, bare.Dir, "", "doctor", "--server", "."), 1, "post-receive: there is no hook", "hint: rig-hook install --server")
	must(t, rig(bare, bare.Dir, "", "install", "--server", "."), 0)
	must(t, rig(bare, bare.Dir, "", "doctor", "--server", "."), 0, "post-receive: there, executable, ours", "control plane: 0 bytes of the outbox wait")
	state := outbox.State{Problem: "the control plane x is damaged"}
	if err := state.Write(outbox.Dir(bare.Dir)); err != nil {
		t.Fatal(err)
	}
	must(t, rig(bare, bare.Dir, "", "doctor", "--server", "."), 1, "control plane: the control plane x is damaged", "hint: rig-control ship --once")
}
