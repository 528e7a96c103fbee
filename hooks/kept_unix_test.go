//go:build unix

package hooks_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKeptIsSomethingElse: whatever lies in the place of what a server keeps, a nonce that
// was used is refused and a fresh one taken, and nobody waits. What no history tells again
// stops pushes until it is taken away, as the message says.
func TestKeptIsSomethingElse(t *testing.T) {
	t.Parallel()
	shapes := map[string]func(path, other string) error{
		"a directory": func(path, _ string) error {
			return errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "x"), []byte("x\n"), 0o644))
		},
		"a link":         func(path, other string) error { return os.Symlink(other, path) },
		"a link to none": func(path, other string) error { return os.Symlink(other+"-none", path) },
		"a pipe":         func(path, _ string) error { return syscall.Mkfifo(path, 0o666) },
	}
	if os.Geteuid() != 0 {
		shapes["unreadable"] = func(path, _ string) error {
			return errors.Join(os.WriteFile(path, []byte("x\n"), 0o600), os.Chmod(path, 0))
		}
	}
	for shape, lay := range shapes {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.accepted(s.relayed(opts{}, nil)) // keeps what is kept
			other := filepath.Join(t.TempDir(), "other")
			write(t, other, "of somebody else\n")
			dir := filepath.Join(s.server.Dir, "rigward")
			in := func(name string) string { return filepath.Join(dir, name) }
			place := func(name string) {
				t.Helper()
				if err := errors.Join(os.RemoveAll(in(name)), lay(in(name), other)); err != nil {
					t.Fatal(err)
				}
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			names := []string{"threads", "git", "nonces"}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), "nonces-") {
					names = append(names, e.Name())
				}
			}
			if len(names) < 4 {
				t.Fatalf("the base of the nonces is not kept: %v", entries)
			}
			place(names[3])
			replay := func() {
				t.Helper()
				res := s.push(s.relayed(opts{}, s.usedBefore), "refs/heads/main")
				if got := s.server.Ref("refs/heads/main"); res.Code == 0 || got != s.base || strings.Join(told(res.Stderr), " ") != "relay-nonce" {
					t.Errorf("exit %d, expected a refusal by relay-nonce alone:\n%s", res.Code, res.Stderr)
				}
			}
			replay()
			for _, name := range names[:3] {
				place(name)
			}
			replay()
			s.accepted(s.relayed(opts{}, nil))
			if shape != "unreadable" {
				place("judged")
				tip := s.relayed(opts{}, nil)
				res := s.push(tip, "refs/heads/main")
				if text := unwrapped(res.Stderr); res.Code == 0 || s.server.Ref("refs/heads/main") != s.base || !strings.Contains(text, "cannot decide") || !strings.Contains(text, "hint: rm -r ") {
					t.Errorf("judged: exit %d, expected no decision:\n%s", res.Code, res.Stderr)
				}
				if err := os.RemoveAll(in("judged")); err != nil {
					t.Fatal(err)
				}
				s.accepted(tip)
			}
			if text, err := os.ReadFile(other); err != nil || string(text) != "of somebody else\n" {
				t.Errorf("where the link leads to: %q, %v", text, err)
			}
		})
	}
}
