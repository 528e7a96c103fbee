package managers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/programs"
)

// npm returns the directory of the programs that npm has installed, which
// RIGWARD_NPM_MANAGERS names (its node_modules).
func npm(t *testing.T, program string) string {
	t.Helper()
	modules := os.Getenv("RIGWARD_NPM_MANAGERS")
	if modules == "" {
		if file, err := exec.LookPath(program); err == nil {
			return filepath.Dir(file)
		}
		t.Skipf("no %s here: npm install --prefix DIR lefthook husky, and RIGWARD_NPM_MANAGERS=DIR/node_modules", program)
	}
	dir := filepath.Join(modules, ".bin")
	if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
		t.Fatalf("RIGWARD_NPM_MANAGERS has no %s", program)
	}
	return dir
}

// ways are the ways in which the hooks get into a clone.
var ways = []struct {
	name    string
	install func(t *testing.T) *desk
}{
	{"rig-hook install", func(t *testing.T) *desk {
		d := newDesk(t)
		d.must(d.clone, "rig-hook install")
		return d
	}},
	{"A12 core.hooksPath", func(t *testing.T) *desk {
		d := newDesk(t)
		d.must(d.clone, "git config core.hooksPath ../shared-hooks && rig-hook install --into-hooks-path")
		return d
	}},
	{"pre-commit", preCommit},
	{"lefthook", func(t *testing.T) *desk {
		d := newDesk(t, npm(t, "lefthook"))
		d.must(d.clone, "mkdir lefthook && cp '"+filepath.Join(programs.Root(t), "lefthook", "rigward.yml")+"' lefthook/ && printf 'extends:\\n  - lefthook/rigward.yml\\n' >lefthook.yml && lefthook install")
		return d
	}},
	{"husky", func(t *testing.T) *desk {
		d := newDesk(t, npm(t, "husky"))
		d.must(d.clone, "husky")
		d.want(d.clone, "rig-hook doctor", 1, `".husky/pre-commit" does not name rig-hook pre-commit`, `echo 'rig-hook pre-push "$@"' >>.husky/pre-push`)
		d.want(d.clone, "rig-hook install --into-hooks-path", 2, "belongs to husky", `echo 'rig-hook pre-commit "$@"' >>.husky/pre-commit`)
		for _, hook := range []string{"pre-commit", "commit-msg", "pre-push"} { // as the hint says
			d.must(d.clone, `echo 'rig-hook `+hook+` "$@"' >>.husky/`+hook)
		}
		return d
	}},
}

// preCommit installs the hooks by pre-commit, from a repository that holds
// this module's .pre-commit-hooks.yaml.
func preCommit(t *testing.T) *desk {
	if _, err := exec.LookPath("pre-commit"); err != nil {
		t.Skip("no pre-commit here: apt-get install pre-commit")
	}
	d := newDesk(t)
	d.must(d.home, "git init -q rigward && cp '"+filepath.Join(programs.Root(t), ".pre-commit-hooks.yaml")+"' rigward/ && cd rigward && git add . && git commit -q -m Hooks")
	rev := strings.TrimSpace(d.must(d.home, "git -C rigward rev-parse HEAD"))
	d.write(".pre-commit-config.yaml", "default_install_hook_types: [pre-commit, commit-msg, pre-push]\nrepos:\n  - repo: "+filepath.Join(d.home, "rigward")+
		"\n    rev: "+rev+"\n    hooks:\n      - id: rig-pre-commit-system\n      - id: rig-commit-msg-system\n      - id: rig-pre-push-system\n")
	d.must(d.clone, "pre-commit install")
	return d
}

// TestGates does what people do with git, with the hooks installed in each
// way. Work in progress stays as it was, and what is wrong is told once.
func TestGates(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			d := way.install(t)
			c := d.clone
			d.want(c, "rig-hook doctor", 0, "a bad envelope: as it must be", "a good envelope: as it must be")
			d.must(c, "git add . && git commit -q --allow-empty -m Hooks")

			d.write("release-check/STATE.md", envelope("ORDER"))
			d.refused(c, "git add . && git commit -q -m Bad", "envelope-schema")
			// What is staged counts, and what is not stays.
			d.must(c, "sed -i s/ORDER/STATE/ release-check/STATE.md && git add . && sed -i s/STATE/ORDER/ release-check/STATE.md && git commit -q -m Good")
			d.want(c, "git diff", 0, "+type: ORDER")
			d.refused(c, "git commit -q -a -m Bad", "envelope-schema")
			// --only: what is staged besides is not part of the commit.
			d.write("notes.txt", "one\n")
			d.must(c, "git add . && git commit -q --only notes.txt -m Notes")
			d.refused(c, "git commit -q -m Bad", "envelope-schema")
			d.refused(c, "git commit -q --amend --no-edit", "envelope-schema")
			d.must(c, "git checkout -q HEAD -- release-check && echo two >>notes.txt && echo y | git commit -q -p -m Part >/dev/null && git commit -q --amend -m Parts")
			d.want(c, "git status --porcelain", 0)

			// git does not ask pre-commit about what it picks or rebases, so
			// the push is where it shows.
			d.must(c, "git switch -q -c side && sed s/REQUEST/ORDER/ release-check/REQUEST.md >release-check/PICK.md && git add . && git commit -q --no-verify -m Bad && git switch -q main && git cherry-pick side >/dev/null")
			d.refused(c, "git push -q", "envelope-schema")
			d.must(c, "git reset -q --hard HEAD~1 && git rebase -q side")
			d.refused(c, "git push -q", "envelope-schema")
			d.must(c, "git reset -q --hard ORIG_HEAD && git push -q")

			// A published envelope, from a linked worktree.
			tree := filepath.Join(d.home, "tree")
			d.must(c, "git worktree add -q -b topic '"+tree+"'")
			if way.name == "husky" { // its directory is not in git: each worktree makes its own, as npm install does
				d.want(tree, "rig-hook doctor", 1, "there is no hook, so nothing is checked")
				d.must(tree, "husky")
			}
			d.refused(tree, "sed -i s/Asking/Demanding/ release-check/REQUEST.md && git commit -q -a -m Bad", "append-only")
			d.must(c, "git fsck --strict 2>&1 && git worktree remove --force '"+tree+"'")
		})
	}
}

// TestSubmodule guards a bridge that is another repository's submodule.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must(d.home, "git init -q outer && cd outer && git submodule --quiet add ../server.git talk && git commit -q -m Outer")
	sub := filepath.Join(d.home, "outer", "talk")
	d.want(sub, "rig-hook install", 0, "modules/talk/hooks/pre-commit: installed")
	d.want(sub, "rig-hook doctor", 0)
	d.refused(sub, "sed s/REQUEST/ORDER/ release-check/REQUEST.md >release-check/STATE.md && git add . && git commit -q -m Bad", "envelope-schema")
	d.must(sub, "sed -i s/ORDER/STATE/ release-check/STATE.md && git add . && git commit -q -m Good && git push -q origin HEAD:main")
	d.must(sub, "cd .. && git add talk && git commit -q -m 'A new turn'") // the outer repository has no hooks
}

// TestTogether puts one manager over the other. However often the hooks are
// named, doctor tells, and its hint is the way out (case A21).
func TestTogether(t *testing.T) {
	t.Run("A21 pre-commit over rig-hook install", func(t *testing.T) {
		t.Parallel()
		d := preCommit(t)
		d.must(d.clone, "pre-commit uninstall && rig-hook install && pre-commit install")
		d.want(d.clone, "rig-hook doctor", 1, `registered twice with pre-commit, in ".pre-commit-config.yaml" and in "pre-commit.legacy"`, "hint: pre-commit install --overwrite")
		d.must(d.clone, "pre-commit install --overwrite")
		d.want(d.clone, "rig-hook doctor", 0, `run by pre-commit (".pre-commit-config.yaml")`)
		// With a configuration that does not name them, the hooks that
		// pre-commit has moved aside are the ones that run.
		d.write(".pre-commit-config.yaml", "repos: []\n")
		d.want(d.clone, "rig-hook doctor", 1, `".pre-commit-config.yaml" does not name rig-hook pre-commit`)
		d.must(d.clone, "pre-commit uninstall && for h in pre-commit commit-msg pre-push; do pre-commit uninstall --hook-type $h; done; rig-hook install; for h in pre-commit commit-msg pre-push; do pre-commit install --hook-type $h; done")
		d.want(d.clone, "rig-hook doctor", 0, `run by pre-commit ("pre-commit.legacy")`)
	})
	t.Run("A21 rig-hook install over pre-commit", func(t *testing.T) {
		t.Parallel()
		d := preCommit(t)
		d.want(d.clone, "rig-hook install", 0, "chained, after the hook that was there")
		d.want(d.clone, "rig-hook doctor", 1, `registered twice, in the hooks directory and with pre-commit (".pre-commit-config.yaml")`, "hint: rig-hook uninstall")
		d.want(d.clone, "rig-hook uninstall", 0, "restored")
		d.want(d.clone, "rig-hook doctor", 0)
	})
	t.Run("A12 A21 lefthook, then husky", func(t *testing.T) {
		t.Parallel()
		lefthook, husky := npm(t, "lefthook"), npm(t, "husky")
		d := newDesk(t, lefthook, husky)
		d.must(d.clone, "rig-hook install && mkdir lefthook && cp '"+filepath.Join(programs.Root(t), "lefthook", "rigward.yml")+"' lefthook/ && printf 'extends:\\n  - lefthook/rigward.yml\\n' >lefthook.yml && lefthook install --force")
		d.want(d.clone, "rig-hook doctor", 0, `run by lefthook ("lefthook.yml")`) // ours are renamed to .old, which nobody runs
		d.must(d.clone, "rig-hook install")
		d.want(d.clone, "rig-hook doctor", 1, `registered twice, in the hooks directory and with lefthook ("lefthook.yml")`)
		// husky sets core.hooksPath: what lefthook and we have put into the
		// hooks directory is out of git's sight, and doctor says so.
		d.must(d.clone, "husky")
		d.want(d.clone, "rig-hook doctor", 1, `core.hooksPath is ".husky/_"`, "a hook of husky")
		if _, code := d.sh(d.clone, "git config --get core.hooksPath && rig-hook install"); code != 2 {
			t.Error("install goes into husky's directory")
		}
		d.must(d.clone, "git config --unset core.hooksPath && rig-hook uninstall")
		d.want(d.clone, "rig-hook doctor", 0, `run by lefthook ("lefthook.yml")`)
	})
}
