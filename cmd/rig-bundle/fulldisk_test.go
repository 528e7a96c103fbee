//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/fulldisk"
)

// TestFullDisk runs each command that writes on a disk with no room, with a page more, and so on until it is done. As long
// as it is not, the exit status is 2, the message says which file could not be written and what shows the room, and every
// file is as it was. With room the same command is done.
func TestFullDisk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "0123456789abcdef"[random.IntN(16)]
		}
		return string(b)
	}
	rig := func(t *testing.T, dir string) {
		if err := os.CopyFS(filepath.Join(dir, "rig"), os.DirFS(newRig(t))); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "rig/agents/impl/big.md"), noise(12000), 0o644)
	}
	create := []string{"create", "rig/rig.yaml", "--source-root", "rig", "-o", "b.rigbundle", "--created-at", "2026-01-01T00:00:00Z"}
	install := []string{"install", "b.rigbundle", "--target", "T"}
	agent := []string{"create", "--format", "agent", "src", "-o", "."}
	rye := []string{"create", "--format", "rye", "R", "--id", "acme/x", "--version", "1.0.0", "--key", "own.pem", "--sign-items"}
	ryeTree := func(t *testing.T, dir string) {
		r := newRyeRun(t)
		r.dir = dir
		r.key("own.pem")
		for _, name := range []string{"tools/acme/a.py", "tools/acme/b.py", "knowledge/acme/n.md"} {
			put(t, filepath.Join(dir, "R/.ai", name), "# "+noise(5000)+"\n", 0o644)
		}
	}
	for _, c := range []struct {
		name   string
		before func(t *testing.T, dir string)
		first  [][]string // done with room
		change func(t *testing.T, dir string)
		args   []string
	}{
		{"create", rig, nil, nil, create},
		{"create over an older one", rig, [][]string{create}, func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "rig/agents/impl/role.md"), "Build more.\n", 0o644)
		}, create},
		{"install", rig, [][]string{create}, nil, install},
		{"upgrade", rig, [][]string{create, install, create}, func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "rig/agents/impl/new.md"), noise(9000), 0o644)
			put(t, filepath.Join(dir, "rig/agents/impl/role.md"), "Build more.\n", 0o644)
			if status, out, errs := command(dir, nil, create...); status != 0 {
				t.Fatal(status, out, errs)
			}
		}, install},
		{"uninstall", rig, [][]string{create, install}, nil, []string{"uninstall", "demo", "--target", "T"}},
		{"create of an agent", func(t *testing.T, dir string) {
			agentTree(t, filepath.Join(dir, "src"))
			put(t, filepath.Join(dir, "src/big.md"), noise(12000), 0o644)
		}, nil, nil, agent},
		{"stage", func(t *testing.T, dir string) {
			agentTree(t, filepath.Join(dir, "src"))
			put(t, filepath.Join(dir, "src/big.md"), noise(12000), 0o644)
		}, [][]string{agent}, nil, []string{"stage", demoFile, "--base", "x", "--unchecked-base", "--target", "linux/amd64/musl", "--out", "ctx"}},
		{"create of a Rye bundle", ryeTree, nil, nil, rye},
		{"signing an item", ryeTree, [][]string{rye}, nil, []string{"sign", "--format", "rye", "R/.ai/tools/acme/a.py", "--key", "own.pem"}},
		{"trust", ryeTree, nil, nil, []string{"trust", "add", "--key", "own.pem", "--owner", "me", "--project", "."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := fulldisk.New(t, "1m")
			for leave, tries := int64(0), 0; ; leave, tries = leave+4096, tries+1 {
				dir := filepath.Join(disk.Dir, "work")
				env := []string{"XDG_STATE_HOME=" + filepath.Join(disk.Dir, "state"), "SOURCE_DATE_EPOCH=0", "HOME=" + dir}
				for _, d := range []string{dir, filepath.Join(disk.Dir, "state")} {
					if err := os.MkdirAll(d, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				c.before(t, dir)
				for _, args := range c.first {
					if status, out, errs := command(dir, env, args...); status != 0 {
						t.Fatalf("%q: exit %d\n%s%s", args, status, out, errs)
					}
				}
				if c.change != nil {
					c.change(t, dir)
				}
				was := filesBelow(t, disk.Dir)
				disk.Fill(t, leave)
				status, out, errs := command(dir, env, c.args...)
				disk.Free(t)
				now := filesBelow(t, disk.Dir)
				if status == 0 {
					if tries == 0 && c.name != "uninstall" {
						t.Error("done without room")
					}
					break
				}
				if status != 2 || !strings.Contains(errs, "no space left on device") || !strings.Contains(errs, "hint: make room, and run it again: df -h") || strings.Contains(errs, ".rigward-") {
					t.Fatalf("with %d bytes of room: exit %d\n%s%s", leave, status, out, errs)
				}
				if !maps.Equal(was, now) {
					t.Fatalf("with %d bytes of room the files were\n%v\nand are\n%v\n%s", leave, was, now, errs)
				}
				if status, out, errs := command(dir, env, c.args...); status != 0 {
					t.Fatalf("after %d bytes of room, with room: exit %d\n%s%s", leave, status, out, errs)
				}
				if leave > 1<<19 {
					t.Fatal("it is never done")
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// filesBelow are the files below a directory, with what they hold.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		found[strings.TrimPrefix(name, dir)] = fmt.Sprintf("%d bytes, %.8s", len(data), digest(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestLeftoversAreNotPacked: a file that was being written when its writer was killed is no part of a bundle, which create
// says; one of a name near it is.
func TestLeftoversAreNotPacked(t *testing.T) {
	const left, near = ".rigward-0123456789", ".rigward-notes"
	for _, p := range packings(t) {
		for _, name := range []string{left, near} {
			put(t, filepath.Join(p.dir, p.below, name), "half", 0o644)
		}
		out := t.TempDir()
		status, text, errs := command(p.dir, []string{"SOURCE_DATE_EPOCH=0"}, p.create(p.dir, out)...)
		data, err := os.ReadFile(filepath.Join(out, p.file))
		if status != 0 || err != nil || !strings.Contains(text+errs, "ignored-file: "+p.below+"/"+left) {
			t.Fatalf("%s: exit %d, %v\n%s%s", p.name, status, err, text, errs)
		}
		if packed := string(inflate(t, data)); strings.Contains(packed, left) || !strings.Contains(packed, near) {
			t.Errorf("%s: the wrong files are packed", p.name)
		}
	}
	for _, generation := range []string{"object_hash", "head"} {
		r := newRyeRun(t)
		r.key("own.pem")
		put(t, filepath.Join(r.dir, "R/.ai/tools/acme/a.py"), "print(1)\n", 0o644)
		put(t, filepath.Join(r.dir, "R/.ai/tools/acme", left), "half", 0o644)
		r.want(0, ": 1 file, 1 item signed", "create", "--format", "rye", "R", "--id", "notes", "--version", "1.0.0", "--generation", generation, "--key", "own.pem", "--sign-items")
	}
}
