//go:build unix

package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestJ10Bait (J10) plays what a target can hold for whoever installs,
// upgrades or uninstalls there. Each bait is laid in a target in which version
// 1.0.0 is installed, or nothing; outside is a directory that nobody may touch.
// The neighbours without a bait are the same commands in a plain target.
func TestJ10Bait(t *testing.T) {
	one := packRig(t, "1.0.0", map[string]string{"agents/impl/a/x.md": "one"})
	two := packRig(t, "2.0.0", map[string]string{"agents/impl/a/x.md": "two"})
	link := func(to string) func(t *testing.T, p string) {
		return func(t *testing.T, p string) {
			if err := os.RemoveAll(p); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	hard := func(t *testing.T, p, outside string) {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		put(t, outside, string(b), 0o644)
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(outside, p); err != nil {
			t.Skip(err)
		}
	}
	lock := func(text string) func(t *testing.T, target, outside string) {
		return func(t *testing.T, target, outside string) {
			put(t, filepath.Join(target, ".rigbundle-lock.json"), strings.ReplaceAll(text, "OUTSIDE", outside), 0o644)
		}
	}
	const files = `{"schema_version":"1.0","bundles":[{"name":"demo","version":"1.0.0","file_digest":"","tar_digest":"","directories":[".git",".git/hooks"],"files":[
		{"path":"PATH","sha256":"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae","mode":"0644"}]}]}`
	upgrade, uninstall := []string{"install", two, "--backup"}, []string{"uninstall", "demo"}
	for name, c := range map[string]struct {
		from string // installed before
		lay  func(t *testing.T, target, outside string)
		args []string
		want int
		text string
	}{
		"a directory of the bundle is a link": {"", func(t *testing.T, target, outside string) { link(outside)(t, filepath.Join(target, "agents")) },
			[]string{"install", one, "--backup"}, 1, "install-symlink"},
		"a directory far down is a link to .git": {"", func(t *testing.T, target, _ string) {
			link("../../../.git/hooks")(t, filepath.Join(target, "agents/impl/a"))
		},
			[]string{"install", one, "--backup"}, 1, "install-symlink"},
		"a file of the bundle is a link": {"", func(t *testing.T, target, outside string) {
			link(filepath.Join(outside, "kept"))(t, filepath.Join(target, "agents/impl/a/x.md"))
		}, []string{"install", one, "--backup"}, 1, "install-symlink"},
		"a dangling link that would make a hook": {"", func(t *testing.T, target, _ string) {
			link("../../../.git/hooks/pre-commit")(t, filepath.Join(target, "agents/impl/a/x.md"))
		}, []string{"install", one, "--backup"}, 1, "install-symlink"},
		"the name of a backup is a link": {"", func(t *testing.T, target, outside string) {
			put(t, filepath.Join(target, "agents/impl/a/x.md"), "theirs", 0o644)
			link(filepath.Join(outside, "kept"))(t, filepath.Join(target, "agents/impl/a/x.md.rigbundle-backup"))
		}, []string{"install", one, "--backup"}, 1, "is taken"},
		"an installed file is a hard link, upgrade": {one, func(t *testing.T, target, outside string) {
			hard(t, filepath.Join(target, "agents/impl/a/x.md"), filepath.Join(outside, "kept"))
		}, upgrade, 0, "installed"},
		"an installed file is a hard link, uninstall": {one, func(t *testing.T, target, outside string) {
			hard(t, filepath.Join(target, "agents/impl/a/x.md"), filepath.Join(outside, "kept"))
		}, uninstall, 0, "removed"},
		"a changed file is a hard link": {one, func(t *testing.T, target, outside string) {
			put(t, filepath.Join(target, "agents/impl/a/x.md"), "mine", 0o644)
			hard(t, filepath.Join(target, "agents/impl/a/x.md"), filepath.Join(outside, "kept"))
		}, upgrade, 0, "installed"},
		"the lock is a hard link": {one, func(t *testing.T, target, outside string) {
			hard(t, filepath.Join(target, ".rigbundle-lock.json"), filepath.Join(outside, "lock"))
		}, upgrade, 0, "installed"},
		"the lock is a link": {one, func(t *testing.T, target, outside string) {
			b, _ := os.ReadFile(filepath.Join(target, ".rigbundle-lock.json"))
			put(t, filepath.Join(outside, "lock"), string(b), 0o644)
			link(filepath.Join(outside, "lock"))(t, filepath.Join(target, ".rigbundle-lock.json"))
		}, uninstall, 2, "is a symlink"},
		"the lock is a pipe": {one, func(t *testing.T, target, _ string) {
			p := filepath.Join(target, ".rigbundle-lock.json")
			if os.Remove(p) != nil || syscall.Mkfifo(p, 0o644) != nil {
				t.Skip("no pipes here")
			}
		}, uninstall, 2, "not a regular file"},
		"the lock lists a hook":         {one, lock(strings.ReplaceAll(files, "PATH", ".git/hooks/kept")), uninstall, 1, "not installed it like that"},
		"the lock climbs into .git":     {one, lock(strings.ReplaceAll(files, "PATH", "agents/../.git/hooks/kept")), uninstall, 2, "not a file below"},
		"the lock lists a file outside": {one, lock(strings.ReplaceAll(files, "PATH", "OUTSIDE/kept")), uninstall, 2, "not a file below"},
		"the lock has its keys twice": {one, func(t *testing.T, target, outside string) {
			p := filepath.Join(target, ".rigbundle-lock.json")
			own, _ := os.ReadFile(p)
			evil := strings.ReplaceAll(files, "PATH", ".git/hooks/kept")
			put(t, p, strings.TrimSuffix(strings.TrimSpace(string(own)), "}")+`,"Bundles":`+evil[strings.Index(evil, "["):], 0o644)
		}, uninstall, 1, "not installed it like that"},
		"the lock is too deep": {one, lock(strings.Repeat(`{"bundles":`, 20000)), uninstall, 2, "unreadable"},
		"a directory of the bundle is swapped before uninstall": {one, func(t *testing.T, target, outside string) {
			if err := os.CopyFS(filepath.Join(outside, "impl"), os.DirFS(filepath.Join(target, "agents/impl"))); err != nil {
				t.Fatal(err)
			}
			link(filepath.Join(outside, "impl"))(t, filepath.Join(target, "agents/impl"))
		}, uninstall, 1, "install-modified"},
		"the target is a bare repository": {"", func(t *testing.T, target, _ string) {
			if out, err := exec.Command("git", "init", "-q", "--bare", target).CombinedOutput(); err != nil {
				t.Skip(err, string(out))
			}
		}, []string{"install", one}, 2, "git directory"},
		"the target is a work tree whose .git is a file": {"", func(t *testing.T, target, _ string) {
			if err := os.RemoveAll(filepath.Join(target, ".git")); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(target, ".git"), "gitdir: ../elsewhere\n", 0o644)
		}, []string{"install", one}, 0, "installed"},
		"nothing":            {"", func(*testing.T, string, string) {}, []string{"install", one, "--backup"}, 0, "installed"},
		"nothing, upgrade":   {one, func(*testing.T, string, string) {}, upgrade, 0, "installed"},
		"nothing, uninstall": {one, func(*testing.T, string, string) {}, uninstall, 0, "removed"},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			target, outside := filepath.Join(work, "T"), filepath.Join(work, "outside")
			put(t, filepath.Join(outside, "kept"), "foo", 0o644)
			put(t, filepath.Join(target, ".git/hooks/kept"), "foo", 0o644)
			put(t, filepath.Join(target, ".git/config"), "[core]\n", 0o644)
			if c.from != "" {
				if status, _, errs := command(work, nil, "install", c.from, "--target", target); status != 0 {
					t.Fatal(errs)
				}
			}
			c.lay(t, target, outside)
			out, in := tree(t, outside), tree(t, target)
			done := make(chan bool)
			go func() {
				defer close(done)
				status, stdout, errs := command(work, nil, append(slices.Clone(c.args), "--target", target)...)
				if status != c.want || !strings.Contains(stdout+errs, c.text) {
					t.Errorf("exit %d, expected %d and %q\n%s%s", status, c.want, c.text, stdout, errs)
				}
			}()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("it hangs")
			}
			if got := tree(t, outside); !maps.Equal(got, out) {
				t.Errorf("outside: %v", diffStates(got, out, out))
			}
			for p, is := range in {
				if got := tree(t, target)[p]; got != is && (c.want != 0 && c.text != "install-modified" || strings.HasPrefix(p, ".git")) {
					t.Errorf("%s was changed: %s", p, got)
				}
			}
			if _, err := os.Lstat(filepath.Join(target, ".git/hooks/pre-commit")); err == nil {
				t.Error("a hook was made")
			}
		})
	}
}

// TestJ10State (J10): the state directory is nobody else's, no link, and no
// place for a target; what it holds of one target undoes nothing in another.
func TestJ10State(t *testing.T) {
	one := packRig(t, "1.0.0", nil)
	work := t.TempDir()
	home := filepath.Join(work, "home")
	state := filepath.Join(home, "rig-bundle")
	env := []string{"XDG_STATE_HOME=" + home}
	install := func(want int, text, target string) {
		t.Helper()
		if status, out, errs := command(work, env, "install", one, "--target", target); status != want || !strings.Contains(out+errs, text) {
			t.Errorf("exit %d, expected %d and %q\n%s%s", status, want, text, out, errs)
		}
	}
	install(0, "installed", filepath.Join(work, "A"))
	kept := tree(t, state)
	install(2, "holds the target", filepath.Join(state, "B"))
	if got := tree(t, state); !maps.Equal(got, kept) {
		t.Errorf("in the state directory: %v", diffStates(got, kept, kept))
	}
	if err := os.RemoveAll(filepath.Join(state, "B")); err != nil {
		t.Fatal(err)
	}

	// A journal of another target, and in this one the directory that it names.
	own, err := filepath.Glob(filepath.Join(state, "*/rigbundle-install"))
	if err != nil || len(own) != 1 {
		t.Fatal(own, err)
	}
	target := filepath.Join(work, "C")
	put(t, filepath.Join(target, ".git/config"), "[core]\n", 0o644)
	const area = ".rigbundle-install-00112233445566778899aabbccddeeff"
	put(t, filepath.Join(target, area, "old/1"), "#!/bin/sh\nexec evil\n", 0o755)
	install(0, "installed", target)
	own, err = filepath.Glob(filepath.Join(state, "*/rigbundle-install"))
	if err != nil || len(own) != 2 {
		t.Fatal(own, err)
	}
	for _, dir := range own {
		put(t, filepath.Join(dir, "journal.json"), `{"schema":2,"target":"`+target+`","area":"`+area+`","area_id":"1-2","ops":[{"kind":"remove","path":"agents/impl/hook","n":1}]}`, 0o600)
	}
	before := tree(t, target)
	install(0, "interrupted-lost", target)
	if got := tree(t, target); !maps.Equal(got, before) {
		t.Errorf("undone: %v", diffStates(got, before, before))
	}

	if err := os.Rename(state, filepath.Join(work, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(work, "moved"), state); err != nil {
		t.Fatal(err)
	}
	install(2, "is a link", filepath.Join(work, "D"))
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Chown(state, 12345, 12345) == nil { // as the administrator only
		install(2, "belongs to another user", filepath.Join(work, "D"))
		if err := os.Chown(state, os.Getuid(), os.Getgid()); err != nil {
			t.Fatal(err)
		}
	}
	install(0, "installed", filepath.Join(work, "D"))
}

// TestJ10RyeBait (J10) is TestJ10Bait for spaces of Rye bundles.
func TestJ10RyeBait(t *testing.T) {
	r := newRyeRun(t)
	r.key("own.pem")
	r.env["XDG_STATE_HOME"] = filepath.Join(r.dir, "state")
	r.want(0, "added", "trust", "add", "--key", "own.pem")
	for i, root := range []string{"one", "two"} {
		r.put(root+"/.ai/knowledge/team/x.md", "text "+root+"\n")
		r.want(0, "created", "create", "--format", "rye", root, "--id", "team/notes", "--version", []string{"1.0.0", "2.0.0"}[i], "--key", "own.pem", "--sign-items")
	}
	const lockFile = ".ai/bundles/team/notes/.bundle-lock.json"
	link := func(p string) func(t *testing.T, space, outside string) {
		return func(t *testing.T, space, outside string) {
			p := filepath.Join(space, p)
			if _, err := os.Stat(p); err == nil {
				if err := os.CopyFS(filepath.Join(outside, "copy"), os.DirFS(p)); err != nil {
					t.Fatal(err)
				}
				if err := os.RemoveAll(p); err != nil {
					t.Fatal(err)
				}
			} else if err := os.MkdirAll(filepath.Join(outside, "copy"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(outside, "copy"), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	edit := func(old, new string) func(t *testing.T, space, outside string) {
		return func(t *testing.T, space, _ string) {
			p := filepath.Join(space, lockFile)
			b, err := os.ReadFile(p)
			if err != nil || !strings.Contains(string(b), old) {
				t.Fatal(err, string(b))
			}
			put(t, p, strings.Replace(string(b), old, new, 1), 0o644)
		}
	}
	install, upgrade, uninstall := []string{"install", "one"}, []string{"install", "two"}, []string{"uninstall", "--format", "rye", "team/notes"}
	for name, c := range map[string]struct {
		before bool // version 1.0.0 is installed
		lay    func(t *testing.T, space, outside string)
		args   []string
		want   int
		text   string
	}{
		".ai is a link":                              {false, link(".ai"), install, 1, "symlink"},
		".ai/bundles is a link":                      {false, link(".ai/bundles"), install, 1, "symlink"},
		"the bundle's folder is a link":              {false, link(".ai/bundles/team/notes"), install, 1, "symlink"},
		"a folder of items is a link":                {false, link(".ai/knowledge/team"), install, 1, "symlink"},
		"a folder is swapped before upgrade":         {true, link(".ai/knowledge"), upgrade, 1, "symlink"},
		"a folder is swapped before uninstall":       {true, link(".ai/knowledge/team"), uninstall, 1, "symlink"},
		"the lockfile has a key twice":               {true, edit(`{`, `{"files": [".ai/knowledge/mine.md"],`), uninstall, 1, "lock-invalid"},
		"the lockfile lists the space's own":         {true, edit(`.ai/knowledge/team/x.md`, `.ai/knowledge/mine.md`), uninstall, 1, "lock-invalid"},
		"the lockfile climbs":                        {true, edit(`"files": [`, `"files": [".ai/knowledge/../../.git/config",`), uninstall, 1, "lock-invalid"},
		"another run's lockfile, a trusted manifest": {true, edit(`"version": "1.0.0"`, `"version": "0.0.1"`), uninstall, 0, "uninstalled"},
		"nothing is laid, install":                   {false, func(*testing.T, string, string) {}, install, 0, "installed"},
		"nothing is laid, upgrade":                   {true, func(*testing.T, string, string) {}, upgrade, 0, "upgraded"},
		"nothing is laid, uninstall":                 {true, func(*testing.T, string, string) {}, uninstall, 0, "uninstalled"},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			space, outside := filepath.Join(work, "S"), filepath.Join(work, "outside")
			put(t, filepath.Join(space, ".git/config"), "[core]\n", 0o644)
			put(t, filepath.Join(outside, "kept"), "foo", 0o644)
			if c.before {
				r.want(0, "installed", "install", "one", "--space", space)
			}
			if strings.Contains(name, "own") {
				put(t, filepath.Join(space, ".ai/knowledge/mine.md"), "mine", 0o644)
			}
			c.lay(t, space, outside)
			out, in := tree(t, outside), tree(t, space)
			status, stdout, errs := r.run(append(slices.Clone(c.args), "--space", space)...)
			if status != c.want || !strings.Contains(stdout+errs, c.text) {
				t.Errorf("exit %d, expected %d and %q\n%s%s", status, c.want, c.text, stdout, errs)
			}
			if got := tree(t, outside); !maps.Equal(got, out) {
				t.Errorf("outside: %v", diffStates(got, out, out))
			}
			if got := tree(t, space); c.want != 0 && !maps.Equal(got, in) {
				t.Errorf("in the space: %v", diffStates(got, in, in))
			}
		})
	}
}

// TestStageThroughLink: a context is not made where a link leads.
func TestStageThroughLink(t *testing.T) {
	work := t.TempDir()
	agentTree(t, filepath.Join(work, "src"))
	if status, _, errs := command(work, nil, "create", "src", "-o", work, "--format", "agent"); status != 0 {
		t.Fatal(errs)
	}
	outside := filepath.Join(work, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(work, "context")); err != nil {
		t.Fatal(err)
	}
	args := []string{"stage", demoFile, "--target", "linux/amd64/musl", "--base", "alpine:3", "--unchecked-base", "--out"}
	if status, out, errs := command(work, nil, append(args, "context")...); status != 2 {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
	if got := tree(t, outside); len(got) > 0 {
		t.Errorf("made through a link: %v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(work, ".rigward-*")); len(left) > 0 {
		t.Errorf("left is %v", left)
	}
	if status, _, errs := command(work, nil, append(args, "plain")...); status != 0 {
		t.Error("positive control:", errs)
	}
}
