package managers

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/programs"
)

// snapshot returns path, mode and content of everything below a directory.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var data []byte
		if info.Mode().IsRegular() {
			data, err = os.ReadFile(path)
		}
		rel, _ := filepath.Rel(dir, path)
		all[rel] = info.Mode().String() + "\n" + string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for path, was := range before {
		if now, ok := after[path]; !ok {
			t.Errorf("%s: %s is gone", what, path)
		} else if now != was {
			t.Errorf("%s: %s was\n%s\nand is\n%s", what, path, was, now)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s: %s is new", what, path)
		}
	}
}

// TestUninstall installs twice and uninstalls: every byte and mode is as it
// was, with foreign hooks and without a hooks directory.
func TestUninstall(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	foreign := "mkdir -p %[1]s/hooks && for h in pre-commit pre-push pre-receive update; do printf '#!/bin/sh\\ncat >/dev/null\\n' >%[1]s/hooks/$h; chmod 750 %[1]s/hooks/$h; done"
	for _, tt := range []struct{ name, make, dir, flags string }{
		{"a clone", "git init -q", ".git", ""},
		{"a clone with hooks", "git init -q && " + fmt.Sprintf(foreign, ".git"), ".git", ""},
		{"a clone without a hooks directory", "git init -q --template=", ".git", ""},
		{"a server", "git init -q --bare", ".", " --server ."},
		{"a server with hooks", "git init -q --bare && " + fmt.Sprintf(foreign, "."), ".", " --server ."},
		{"a server that takes the first push", "git init -q --bare --template=", ".", " --server . --bootstrap"},
	} {
		dir := filepath.Join(d.home, strings.ReplaceAll(tt.name, " ", "-"))
		d.must(d.home, "mkdir '"+dir+"'")
		d.must(dir, tt.make)
		before := snapshot(t, filepath.Join(dir, tt.dir))
		d.must(dir, "rig-hook install"+tt.flags)
		once := snapshot(t, filepath.Join(dir, tt.dir))
		d.want(dir, "rig-hook install"+tt.flags, 0, "already there")
		same(t, tt.name+", installed twice", once, snapshot(t, filepath.Join(dir, tt.dir)))
		if len(once) <= len(before) {
			t.Errorf("%s: install wrote nothing", tt.name)
		}
		d.must(dir, "rig-hook uninstall"+strings.TrimSuffix(tt.flags, " --bootstrap"))
		same(t, tt.name, before, snapshot(t, filepath.Join(dir, tt.dir)))
	}
	// What repositories share is not changed for one of them without being asked.
	d.must(d.home, "mkdir shared && for r in one two; do git init -q --bare --template= $r.git && ln -s ../shared $r.git/hooks; done")
	d.want(d.home, "rig-hook install --server one.git", 2, "is a symbolic link", "other repositories may share it", "rig-hook install --into-hooks-path --server one.git")
	d.want(d.home, "rig-hook install --into-hooks-path --server one.git", 0, "installed")
	d.want(d.home, "rig-hook uninstall --server two.git", 2, "is a symbolic link", "rig-hook uninstall --into-hooks-path --server two.git")
	d.must(d.home, "test -x one.git/hooks/pre-receive")
	d.want(d.home, "rig-hook uninstall --into-hooks-path --server one.git", 0, "removed")
	d.must(d.home, "test -d two.git/hooks && test ! -e two.git/hooks/pre-receive && rig-hook install --into-hooks-path --server two.git")
	// After it has taken pushes, too: only what git itself keeps is new.
	server := filepath.Join(d.home, "server.git")
	d.must(d.home, "rig-hook uninstall --server server.git && git init -q --bare fresh.git")
	was, now := snapshot(t, filepath.Join(d.home, "fresh.git")), snapshot(t, server)
	for path := range now {
		if strings.HasPrefix(path, "objects") || strings.HasPrefix(path, "refs") {
			delete(now, path)
			delete(was, path)
		}
	}
	for path := range was {
		if strings.HasPrefix(path, "objects") || strings.HasPrefix(path, "refs") {
			delete(was, path)
		}
	}
	same(t, "a server after pushes", was, now)
}

// TestNames calls the program by the names of hooks, as links in the hooks
// directories.
func TestNames(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	program := filepath.Join(programs.Dir(t), "rig-hook")
	d.must(d.clone, "for h in pre-commit commit-msg pre-push; do ln -s '"+program+"' .git/hooks/$h; done; cd ../server.git && rig-hook uninstall --server . && for h in pre-receive update; do ln -s '"+program+"' hooks/$h; done")
	d.want(d.clone, "rig-hook doctor", 0, "pre-commit: there, executable, ours")
	d.refused(d.clone, "sed s/REQUEST/ORDER/ release-check/REQUEST.md >release-check/STATE.md && git add . && git commit -q -m Bad", "envelope-schema")
	d.refused(d.clone, "git commit -q -m Bad --no-verify && git push -q", "envelope-schema")
	d.refused(d.clone, "git push -q --no-verify", "envelope-schema")
	d.must(d.clone, "git reset -q --hard HEAD~1 && sed s/REQUEST/STATE/ release-check/REQUEST.md >release-check/STATE.md && git add . && git commit -q -m Good && git push -q")
}

// TestModuleProxy installs the commands by go install PATH@latest, from a
// module proxy that holds this tree as a released version.
func TestModuleProxy(t *testing.T) {
	t.Parallel()
	const module, version = "github.com/rigward/rigward", "v0.99.0"
	root := programs.Root(t)
	out, err := exec.Command("go", "env", "-json", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	var env struct{ GOMODCACHE, GOCACHE string }
	if err := json.Unmarshal(out, &env); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	proxy := filepath.Join(d.home, "proxy", filepath.FromSlash(module), "@v")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	d.write(filepath.Join(proxy, "list"), version+"\n")
	d.write(filepath.Join(proxy, version+".info"), `{"Version":"`+version+`","Time":"2026-01-05T09:00:00Z"}`)
	d.write(filepath.Join(proxy, version+".mod"), string(mod))
	moduleZip(t, root, filepath.Join(proxy, version+".zip"), module+"@"+version+"/")
	d.env = append(d.env, "GOPROXY=file://"+filepath.Join(d.home, "proxy")+",file://"+filepath.Join(env.GOMODCACHE, "cache", "download")+",https://proxy.golang.org",
		"GONOSUMDB="+module, "GOFLAGS=-trimpath -modcacherw -buildvcs=false", "CGO_ENABLED=0", "GOCACHE="+env.GOCACHE, "GOMODCACHE="+filepath.Join(d.home, "mod"), "GOBIN="+filepath.Join(d.home, "bin"))
	d.must(d.home, "go install "+module+"/cmd/rig-hook@latest")
	d.want(d.home, "bin/rig-hook version", 0, "rig-hook "+version)
	d.must(d.clone, "../bin/rig-hook install && ../bin/rig-hook doctor")
}

// moduleZip writes the module zip (golang.org/ref/mod#zip-files) of what git
// knows below root, as it is in the work tree.
func moduleZip(t *testing.T, root, file, prefix string) {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached").Output()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	nested := []string{} // other modules are not part of this one
	for _, name := range names {
		if dir, ok := strings.CutSuffix(name, "/go.mod"); ok {
			nested = append(nested, dir+"/")
		}
	}
	z := zip.NewWriter(f)
next:
	for _, name := range names {
		for _, dir := range nested {
			if strings.HasPrefix(name, dir) {
				continue next
			}
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w, err := z.Create(prefix + name)
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}
