package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user without rights.
const nobody = 65534

// A clone whose git directory its user may not write to: a clear message, exit
// code 2, nothing lost, and the same command succeeds once it may.
func TestUnwritable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	for _, c := range []struct{ name, dir, word string }{
		{"git directory", "a/.git", "rig-bridge.lock"},
		{"objects", "a/.git/objects", "git add"},
		{"branch", "a/.git/refs/heads", "git commit"},
		{"thread", "a/t-one", "HANDOFF.md"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := faultWorld(t)
			data, err := os.ReadFile(program(t))
			if err != nil {
				t.Fatal(err)
			}
			// What the other user needs: the program and all of this world.
			if err := os.WriteFile(w.path("program"), data, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{w.dir, filepath.Dir(w.dir)} {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			err = filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, err error) error {
				return errors.Join(err, os.Lchown(path, nobody, nobody))
			})
			if err != nil {
				t.Fatal(err)
			}
			send := func() outcome {
				cmd := w.command("a", append(handoff, "--no-push")...)
				cmd.Path = w.path("program")
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
				return finish(t, cmd)
			}
			state := func() string {
				w.vars = append(w.vars, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_OPTIONAL_LOCKS=0")
				defer func() { w.vars = w.vars[:len(w.vars)-4] }()
				return w.state("a")
			}
			before := state()
			protect := func(mode os.FileMode) {
				filepath.WalkDir(w.path(c.dir), func(path string, d fs.DirEntry, err error) error {
					if err == nil && d.IsDir() {
						os.Chmod(path, mode)
					}
					return nil
				})
			}
			protect(0o555)
			o := send()
			protect(0o755)
			o.keeps(t, 2, c.word)
			if !strings.Contains(strings.ToLower(o.stderr), "permission") {
				t.Errorf("the reason is missing:\n%s", o.stderr)
			}
			if after := state(); after != before {
				t.Errorf("before:\n%safter:\n%s", before, after)
			}
			if o := send(); o.code != 0 || !strings.Contains(o.stdout, "file=t-one/HANDOFF.md") {
				t.Errorf("then: exit %d\n%s%s", o.code, o.stdout, o.stderr)
			}
		})
	}
}
