package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// doctor reports whether git would really run the hooks, and proves by a canary
// that a known bad commit is refused and a good one taken.
func doctor(ctx context.Context, env *hooks.Env, f cli.Line) int {
	if env.Getenv(canaryVar) != "" {
		return fail(env, "doctor", errors.New("doctor was started by a hook that doctor itself is trying out"))
	}
	r, names, err := openAt(ctx, env, "doctor", f)
	if err != nil {
		return fail(env, "doctor", err)
	}
	defer r.Close()
	dir, err := hooksPath(ctx, r, f)
	if err != nil {
		return fail(env, "doctor", err)
	}
	d := &diagnosis{env: env, owner: r.Env().As}
	d.say(true, "repository %s (%s)", filepath.ToSlash(r.GitDir()), r.ObjectFormat())
	if custom, set, err := r.ConfigLast("core.hooksPath"); err != nil {
		return fail(env, "doctor", err)
	} else if set {
		d.say(true, "core.hooksPath is %s", finding.Quote(custom))
	}
	if err := hooksPlace(ctx, r, f, dir); err != nil {
		return fail(env, "doctor", err)
	}
	d.say(true, "git looks for hooks in %s", filepath.ToSlash(dir))
	for _, name := range names {
		d.hook(ctx, r, f, dir, name)
	}
	if f.Has("--server") {
		if err := d.feeds(ctx, r, f, dir); err != nil {
			return fail(env, "doctor", err)
		}
		d.locks(r)
	}
	d.kept(r)
	judged, err := judgedBy(env, r, f.Has("--server"))
	if err != nil {
		return fail(env, "doctor", err)
	}
	d.say(true, "%s", judged)
	warn := func(line string) { fmt.Fprintf(env.Stdout, "warn  %s\n", line) }
	if consent, _, err := r.ConfigBool("rigward.bootstrap"); err == nil && consent && f.Has("--server") && judged == trustRead {
		warn("rigward.bootstrap is still true, which the first push alone needed: git -C " + finding.Word(f.Get("--server")) + " config --unset-all rigward.bootstrap")
	}
	err = tellGuarded(ctx, r, func(ok bool, line string) {
		if ok {
			d.say(true, "%s", line)
		} else {
			warn(line)
		}
	})
	if err != nil {
		return fail(env, "doctor", err)
	}
	switch {
	case d.bad > 0:
	case !d.owner.Current() && !d.owner.Lent():
		d.say(false, "canary: the repository belongs to %s, and what is tried out by another user says nothing of a push", finding.Path(d.owner.Name))
		d.hint = "sudo -u " + finding.Word(d.owner.Name) + " " + atServer(f, "rig-hook doctor")
	default:
		if err := d.canary(ctx, dir, r.WorkTree(), f.Has("--server")); err != nil {
			return fail(env, "doctor", err)
		}
	}
	if d.bad > 0 {
		hint := "rig-hook install"
		if ownHooks(r, f, dir, "install") != nil {
			hint += " --into-hooks-path"
		}
		hint = atServer(f, hint)
		if d.hint != "" {
			hint = d.hint
		}
		fmt.Fprintf(env.Stdout, "hint: %s\n", hint)
		return report.ExitFindings
	}
	return report.ExitClean
}

// feeds judges whether a configured control plane learns of pushes, and whether
// what it learnt of came to the database.
func (d *diagnosis) feeds(ctx context.Context, r *gitrepo.Repo, f cli.Line, dir string) error {
	box, err := hooks.Outbox(r)
	if err != nil || box == "" {
		return err
	}
	d.hook(ctx, r, f, dir, "post-receive")
	var state outbox.State
	state.Read(box)
	waiting, err := outbox.Waiting(box, outbox.Shipped(box))
	switch {
	case err != nil:
		d.say(false, "control plane: the outbox %s cannot be read", finding.Path(filepath.ToSlash(box)))
	case state.Problem != "":
		d.say(false, "control plane: %s", finding.Clean(state.Problem))
		d.hint = "rig-control ship --once"
	default:
		d.say(true, "control plane: %d bytes of the outbox wait", waiting)
		if err := outbox.Room(box); err != nil {
			d.say(false, "control plane: the outbox %s has no room; pushes are judged all the same, and what is told of them is lost: %s",
				finding.Path(filepath.ToSlash(box)), finding.Clean(files.Cause(err).Error()))
			d.hint = files.HintAt(err, box)
		}
	}
	return nil
}

// longLocked is how old a lock of a ref is that no push holds any more.
const longLocked = time.Minute

// locks names the locks of refs that a git has left which was killed: nobody can move
// the ref until they are gone.
func (d *diagnosis) locks(r *gitrepo.Repo) {
	for _, name := range []string{"refs", "packed-refs.lock", "HEAD.lock"} {
		_ = filepath.WalkDir(filepath.Join(r.CommonDir(), name), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".lock") {
				return nil
			}
			info, err := e.Info()
			if err != nil || d.env.Now().Sub(info.ModTime()) < longLocked {
				return nil
			}
			d.say(false, "%s is there since %s: git refuses every push to what it locks", finding.Path(filepath.ToSlash(path)), info.ModTime().UTC().Format(time.RFC3339))
			d.hint = "rm " + finding.Word(path) + ", if no git runs in the repository"
			return nil
		})
	}
}

// lookPath finds a program as the shell of a hook does.
func lookPath(env *hooks.Env, name string) (string, error) {
	for _, dir := range filepath.SplitList(env.Getenv("PATH")) {
		if file := filepath.Join(dir, name); filepath.IsAbs(dir) && hooks.Executable(file) {
			return file, nil
		}
	}
	return "", os.ErrNotExist
}

// canaryVar is set where git runs hooks only to try them out, so that a hook
// which calls doctor does not start it again without end.
const canaryVar = "RIGWARD_CANARY"

type diagnosis struct {
	env   *hooks.Env
	owner *gitrepo.Account // of a server's repository, as whom its hooks run
	bad   int
	hint  string // that repairs what is wrong, if rig-hook install does not
}

func (d *diagnosis) say(ok bool, format string, args ...any) {
	mark := "ok  "
	if !ok {
		mark = "FAIL"
		d.bad++
	}
	fmt.Fprintf(d.env.Stdout, "%s  %s\n", mark, fmt.Sprintf(format, args...))
}

func (d *diagnosis) hook(ctx context.Context, r *gitrepo.Repo, f cli.Line, dir, name string) {
	file := filepath.Join(dir, name)
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.say(false, "%s: there is no hook, so nothing is checked", name)
		if g, ok := gitoliteOf(dir); ok && f.Has("--server") {
			d.hint = g.commonHook(d.env.Executable)
		}
		return
	case err != nil:
		d.say(false, "%s: cannot be read", name)
		return
	case d.managed(r.WorkTree(), file, name, data):
		return
	case f.Has("--server") && ofGitolite(file, data):
		d.gitolite(dir, name)
		return
	case !strings.Contains(string(data), "rig-hook") && !strings.Contains(string(data), filepath.Base(d.env.Executable)):
		d.say(false, "%s: a hook of someone else, which does not name rig-hook", name)
		return
	case !hooks.Executable(file):
		d.say(false, "%s: git ignores it because it is not executable (chmod +x %s)", name, finding.Word(filepath.ToSlash(file)))
		return
	}
	if hooks.IsShim(data) {
		program := hooks.Program(data)
		if program == hooks.OnPath {
			found, err := lookPath(d.env, program)
			if err != nil {
				d.say(false, "%s: runs %s, which is not on PATH", name, program)
				d.hint = "go install github.com/rigward/rigward/cmd/...@latest, or add its directory to PATH"
				return
			}
			program = found
		}
		if !hooks.Executable(program) {
			d.say(false, "%s: runs %s, which does not exist or is not a program", name, finding.Quote(program))
			return
		}
		if beside := filepath.Join(filepath.Dir(program), "rig-hook"); filepath.Base(program) == "rig-hook-client" && !hooks.Executable(beside) {
			d.say(false, "%s: runs %s, which needs rig-hook beside it", name, finding.Quote(program))
			return
		}
		if why := d.owner.Executes(program); why != "" {
			d.say(false, "%s: runs %s, and %s, to whom the repository belongs, cannot: %s", name, finding.Quote(program), finding.Path(d.owner.Name), why)
			d.hint = "install -m 755 " + finding.Word(filepath.ToSlash(program)) + " /usr/local/bin/ && " + atServer(f, "/usr/local/bin/rig-hook install")
			return
		}
	}
	if kept, err := os.ReadFile(file + hooks.ChainedSuffix); err == nil {
		if m, by := managed(r.WorkTree(), file, name, kept); m != nil && len(by) > 0 {
			d.say(false, "%s: registered twice, in the hooks directory and with %s (%s)", name, m.name, finding.Quote(by[0]))
			d.hint = atServer(f, "rig-hook uninstall")
			return
		}
	}
	if key, command, err := configured(r, name); err != nil {
		d.say(false, "%s: the configuration cannot be read", name)
		return
	} else if key != "" {
		d.say(false, "%s: registered twice, in the hooks directory and in the configuration (%s)", name, finding.QuoteMax(command, 60))
		d.hint = unset(ctx, r, f, key)
		return
	}
	d.say(true, "%s: there, executable, ours", name)
}

// managed judges a hook that a hook manager wrote, and reports whether it is one.
func (d *diagnosis) managed(top, file, name string, data []byte) bool {
	m, by := managed(top, file, name, data)
	switch {
	case m == nil:
		return false
	case !hooks.Executable(file):
		d.say(false, "%s: git ignores it because it is not executable (chmod +x %s)", name, finding.Word(filepath.ToSlash(file)))
	case len(by) == 0:
		d.say(false, "%s: a hook of %s, and %s does not name rig-hook %s", name, m.name, finding.Quote(strings.ReplaceAll(m.files[0], "%s", name)), name)
		if m.name == "husky" {
			d.hint = huskyHint(name)
		}
	case len(by) > 1:
		d.say(false, "%s: registered twice with %s, in %s and in %s", name, m.name, finding.Quote(by[0]), finding.Quote(by[1]))
		d.hint = "pre-commit install --overwrite --hook-type " + name
	default:
		d.say(true, "%s: there, executable, run by %s (%s)", name, m.name, finding.Quote(by[0]))
	}
	return true
}

// configured returns the command of ours that the configuration registers for
// a hook, and its key, as git 2.54 and newer run it besides the hooks
// directory: hook.<name>.command with one or more hook.<name>.event.
func configured(r *gitrepo.Repo, hook string) (key, command string, err error) {
	section, err := r.ConfigSection("hook")
	if err != nil {
		return "", "", err
	}
	for key, command := range section {
		name, ok := strings.CutSuffix(key, ".command")
		if !ok || !strings.Contains(command, "rig-hook") {
			continue
		}
		events, err := r.Config(name + ".event")
		if err != nil {
			return "", "", err
		}
		if slices.Contains(events, hook) {
			return key, command, nil
		}
	}
	return "", "", nil
}

// canary lets git run the hooks of dir in a scratch repository, with what hook
// managers read in the work tree top.
func (d *diagnosis) canary(ctx context.Context, dir, top string, server bool) error {
	scratch, err := scratchDir("rigward-doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	demo := &demonstration{ctx: ctx, env: d.env, dir: scratch, as: d.owner}
	if !d.owner.Current() {
		if err := os.Chown(scratch, int(d.owner.UID), int(d.owner.GID)); err != nil {
			return err
		}
	}
	if server {
		if dir, err = withoutGitolite(dir, filepath.Join(scratch, "hooks")); err != nil {
			return err
		}
	}
	clone := filepath.Join(scratch, "clone")
	steps := [][]string{{scratch, "init", "-q", "--initial-branch=main", clone}, {clone, "config", "user.name", "Doctor"}, {clone, "config", "user.email", "doctor@example.com"}, {clone, "config", "commit.gpgsign", "false"}}
	if server {
		bare := filepath.Join(scratch, "server.git")
		steps = append(steps, []string{scratch, "init", "-q", "--bare", "--initial-branch=main", bare}, []string{bare, "config", "core.hooksPath", dir},
			[]string{bare, "config", "rigward.bootstrap", "true"}, []string{clone, "remote", "add", "origin", bare})
	} else {
		steps = append(steps, []string{clone, "config", "core.hooksPath", dir})
	}
	for _, s := range steps {
		if _, err := demo.must(s[0], s[1:]...); err != nil {
			return err
		}
	}
	extra := []string{}
	if !server {
		if err := carry(top, clone); err != nil {
			return err
		}
		cache := d.env.Getenv("PRE_COMMIT_HOME") // what pre-commit has built stays built
		if cache == "" {
			cache = filepath.Join(d.env.Getenv("HOME"), ".cache", "pre-commit")
		}
		extra = append(extra, "PRE_COMMIT_HOME="+cache)
	}
	good, err := demo.render("canary", envelope.Fields{From: "rig-a", To: []string{"rig-b"}, Type: "REQUEST", Status: "▶ Canary", Body: []byte("Good.\n")})
	if err != nil {
		return err
	}
	bad := strings.Replace(string(good), "type: REQUEST", "type: CANARY", 1)
	for _, c := range []struct{ what, text string }{{"bad", bad}, {"good", string(good)}} {
		if err := demo.write(clone, "canary/REQUEST.md", []byte(c.text)); err != nil {
			return err
		}
		if _, err := demo.must(clone, "add", "canary"); err != nil {
			return err
		}
		act := []string{"commit", "-q", "-m", "Canary"}
		if server {
			if _, err := demo.must(clone, append(act, "--no-verify", "--allow-empty")...); err != nil {
				return err
			}
			act = []string{"push", "-q", "--no-verify", "origin", "HEAD:main"}
		}
		res, err := demo.git(clone, nil, extra, act...)
		if err != nil {
			return err
		}
		refused := res.Code != 0 && strings.Contains(string(res.Stderr), "envelope-schema")
		switch {
		case c.what == "bad" && !refused:
			d.say(false, "canary: git %s took a bad envelope: %s", act[0], finding.QuoteMax(string(res.Stderr), 200))
		case c.what == "good" && res.Code != 0:
			d.say(false, "canary: git %s refused a good envelope: %s", act[0], finding.QuoteMax(string(res.Stderr), 200))
		default:
			d.say(true, "canary: git %s, a %s envelope: as it must be", act[0], c.what)
		}
		if server && c.what == "bad" {
			if _, err := demo.must(clone, "update-ref", "-d", "HEAD"); err != nil {
				return err
			}
		}
	}
	return nil
}
