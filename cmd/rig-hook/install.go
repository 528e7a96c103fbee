package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/attest"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/resident"
	"github.com/rigward/rigward/internal/shebang"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// errNoDirectory is the cause where --server names what is not there.
var errNoDirectory = errors.New("no such directory")

// openAt opens the repository of this directory, or the bare one that
// --server names, for the command of that name.
func openAt(ctx context.Context, env *hooks.Env, command string, f cli.Line) (*gitrepo.Repo, []string, error) {
	if err := modernGit(ctx, env); err != nil {
		return nil, nil, err
	}
	if !f.Has("--server") {
		r, err := gitrepo.OpenHere(ctx, gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
		if err == nil && r.Bare() {
			r.Close()
			return nil, nil, &policy.Undecided{Message: "this repository is bare, and client hooks guard nothing there", Hint: "rig-hook " + command + " --server ."}
		}
		return r, hooks.ClientHooks, err
	}
	dir := f.Get("--server")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(env.Dir, dir)
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, nil, &policy.Undecided{Message: "there is no directory " + finding.Quote(f.Get("--server")), Cause: errNoDirectory}
	}
	owner, err := gitrepo.Owner(dir)
	if err != nil {
		return nil, nil, err
	}
	// What root does to a repository of another user's it does as that user: git
	// would refuse it, and what root can is not what a push can.
	r, err := gitrepo.Open(ctx, gitrepo.Env{Environ: env.Environ, As: owner}.Foreign(dir))
	if errors.Is(err, gitrepo.ErrUnsafe) && owner != nil {
		err = &policy.Undecided{
			Message: "the repository belongs to " + finding.Path(owner.Name) + ", and git refuses it to others; what another user tries out says nothing of a push",
			Hint:    "sudo -u " + finding.Word(owner.Name) + " rig-hook doctor --server " + finding.Word(f.Get("--server")), Cause: err}
	}
	if err == nil && !r.Bare() {
		r.Close()
		err = &policy.Undecided{Message: finding.Quote(f.Get("--server")) + " is not a bare repository", Hint: "rig-hook install, in it, for the hooks of a clone; git init --bare DIR makes a server"}
	}
	return r, hooks.ServerHooks, err
}

func install(ctx context.Context, env *hooks.Env, f cli.Line) int {
	r, names, err := openAt(ctx, env, "install", f)
	if errors.Is(err, errNoDirectory) {
		err = &policy.Undecided{Message: err.Error(), Hint: "git init --bare " + finding.Word(f.Get("--server")), Cause: err}
	}
	if err != nil {
		return fail(env, "install", err)
	}
	defer r.Close()
	if f.Has("--bootstrap") && !f.Has("--server") {
		return fail(env, "install", &policy.Undecided{Message: "--bootstrap is for a server", Hint: "rig-hook install --server DIR --bootstrap"})
	}
	program, err := installable(env, r, f)
	if err != nil {
		return fail(env, "install", err)
	}
	dir, err := hooksPath(ctx, r, f)
	if err != nil {
		return fail(env, "install", err)
	}
	if err := hooksPlace(ctx, r, f, dir); err != nil {
		return fail(env, "install", err)
	}
	if err := ownHooks(r, f, dir, "install"); err != nil {
		return fail(env, "install", err)
	}
	if ownedByHusky(dir) {
		return fail(env, "install", &policy.Undecided{
			Message: finding.Quote(dir) + " belongs to husky, which writes its hooks anew and would not run the old one under another name",
			Hint:    huskyHint("pre-commit") + ", and so for commit-msg and pre-push",
		})
	}
	if f.Has("--server") {
		if err := notGitolites(dir, program); err != nil {
			return fail(env, "install", err)
		}
	}
	if database, _, err := r.ConfigLast("rigward.controlPlane"); err != nil {
		return fail(env, "install", err)
	} else if attests, err := hooks.Attests(r); err != nil {
		return fail(env, "install", err)
	} else if (database != "" || attests != "") && f.Has("--server") {
		names = append(slices.Clone(names), "post-receive")
	}
	if committed(r, dir) {
		program = hooks.OnPath
	}
	var words []string
	if f.Has("--require-resident") {
		words = []string{resident.Required}
	}
	if at := f.Get("--socket"); at != "" {
		words = append(words, resident.At+at)
	}
	if words != nil || f.Has("--resident") {
		if program, err = client(r, f, program); err != nil {
			return fail(env, "install", err)
		}
	}
	done, err := hooks.Install(dir, program, names, words...)
	if err != nil {
		return fail(env, "install", unwritable(dir, err))
	}
	if f.Has("--bootstrap") {
		if err := hooks.Configure(ctx, r, "rigward.bootstrap", "true"); err != nil {
			return fail(env, "install", err)
		}
	}
	for _, d := range done {
		note := ""
		if d.Did == "chained" {
			note = ", after the hook that was there"
		}
		fmt.Fprintf(env.Stdout, "%s: %s%s\n", filepath.ToSlash(filepath.Join(dir, d.Hook)), d.Did, note)
	}
	if f.Has("--server") {
		if slices.ContainsFunc(done, func(d hooks.Installed) bool {
			return d.Hook == "pre-receive" && (d.Did == "installed" || d.Did == "chained")
		}) {
			d, err := hooks.NewDoor(ctx, r)
			if err == nil {
				err = d.AcceptAll(ctx)
			}
			if err != nil {
				fmt.Fprintf(env.Stderr, "what is there cannot be taken as judged: %s\n", finding.Clean(err.Error()))
			}
		}
		return afterServer(ctx, env, f, r)
	}
	return report.ExitClean
}

// installable returns the program that a hook is to name: this one, unless it
// will be gone soon or whoever the hook runs as cannot start it.
func installable(env *hooks.Env, r *gitrepo.Repo, f cli.Line) (string, error) {
	if cache := hooks.CachedIn(env.Executable); cache != "" {
		return "", &policy.Undecided{
			Message: "this program lies in the cache of " + cache + " and will be gone some day, so a hook must not name it: " + finding.Quote(env.Executable),
			Hint:    "go install ./cmd/... or copy it to a directory of its own, then rig-hook install",
		}
	}
	if !f.Has("--server") {
		return env.Executable, nil
	}
	owner := r.Env().As
	if why := owner.Executes(env.Executable); why != "" {
		again := "/usr/local/bin/rig-hook install --server " + finding.Word(f.Get("--server"))
		if f.Has("--bootstrap") {
			again += " --bootstrap"
		}
		return "", &policy.Undecided{
			Message: fmt.Sprintf("the repository belongs to %s, who cannot run %s: %s, so every push would be refused", finding.Path(owner.Name), finding.Quote(env.Executable), why),
			Hint:    "install -m 755 " + finding.Word(env.Executable) + " /usr/local/bin/ && " + again,
		}
	}
	return env.Executable, nil
}

// client returns the program that asks a resident judge first, which is beside
// the one that judges.
func client(r *gitrepo.Repo, f cli.Line, program string) (string, error) {
	switch {
	case runtime.GOOS != "linux":
		return "", &policy.Undecided{Message: "a resident judge runs on Linux only", Hint: "rig-hook install, without --resident"}
	case program == hooks.OnPath:
		return "", &policy.Undecided{Message: "hooks in the work tree are others' too, who may have no resident judge", Hint: "rig-hook install, without --resident"}
	}
	if s := f.Get("--socket"); s != "" && !shebang.Plain(s) {
		return "", &policy.Undecided{Message: "--socket is " + finding.QuoteMax(s, 120) + ", expected an absolute path of at most 100 letters, digits, and . _ - /"}
	}
	at := filepath.Join(filepath.Dir(program), "rig-hook-client")
	if !hooks.Executable(at) {
		return "", &policy.Undecided{Message: "rig-hook-client is not beside this program: " + finding.Quote(at), Hint: "install rig-hook and rig-hook-client into one directory"}
	}
	if owner := r.Env().As; f.Has("--server") && owner.Executes(at) != "" {
		return "", &policy.Undecided{
			Message: fmt.Sprintf("the repository belongs to %s, who cannot run %s: %s", finding.Path(owner.Name), finding.Quote(at), owner.Executes(at)),
			Hint:    "chmod 755 " + finding.Word(at)}
	}
	return at, nil
}

// committed reports whether a hooks directory lies in the work tree, where other
// people get what is written into it.
func committed(r *gitrepo.Repo, dir string) bool {
	top := r.WorkTree()
	if top == "" {
		return false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if real, err := filepath.EvalSymlinks(top); err == nil {
		top = real
	}
	rel, err := filepath.Rel(top, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return false
	}
	return rel != ".git" && !strings.HasPrefix(rel, ".git"+string(filepath.Separator))
}

// afterServer says what an empty repository needs before its first push.
func afterServer(ctx context.Context, env *hooks.Env, f cli.Line, r *gitrepo.Repo) int {
	if f.Has("--bootstrap") {
		fmt.Fprintln(env.Stdout, "rigward.bootstrap: true (the first push may bring policy and signers; unset it afterwards)")
		return report.ExitClean
	}
	var tips []string
	for ref, err := range r.Refs(ctx, "refs/heads/") {
		if err != nil {
			return fail(env, "install", err)
		}
		tips = append(tips, ref.ID)
	}
	if len(tips) > 0 {
		if err := indexNonces(ctx, r, tips); err != nil {
			fmt.Fprintf(env.Stderr, "the nonces of this history are not indexed yet: %s\n", finding.Clean(err.Error()))
		}
		return report.ExitClean
	}
	bootstrap, _, err := r.ConfigBool("rigward.bootstrap")
	if err != nil {
		return fail(env, "install", err)
	}
	if _, named, err := r.ConfigLast("rigward.policy"); err != nil {
		return fail(env, "install", err)
	} else if bootstrap || named {
		return report.ExitClean
	}
	fmt.Fprintln(env.Stderr, "the repository is empty: its first push is refused until the server says what to judge it by")
	fmt.Fprintf(env.Stderr, "hint: git -C %s config rigward.bootstrap true\n", finding.Word(f.Get("--server")))
	return report.ExitClean
}

// indexNonces reads the whole history once, and the long threads, so that no push has to.
func indexNonces(ctx context.Context, r *gitrepo.Repo, tips []string) error {
	_, head, err := r.HEAD()
	if err != nil {
		return err
	}
	l := hooks.NewLoader(r)
	p, _, err := l.AtCommit(head)
	if err != nil {
		return err
	}
	x := hooks.Nonces(r, p)
	if _, err := x.Find(ctx, nil, tips); err != nil {
		return err
	}
	if err := x.Save(); err != nil {
		return err
	}
	j := &rules.Judge{Repo: r, Gate: rules.Check, Turns: hooks.Turns(r, p)}
	return j.Learn(p, tips)
}

func uninstall(ctx context.Context, env *hooks.Env, f cli.Line) int {
	r, names, err := openAt(ctx, env, "uninstall", f)
	if err != nil {
		return fail(env, "uninstall", err)
	}
	defer r.Close()
	dir, err := hooksPath(ctx, r, f)
	if err != nil {
		return fail(env, "uninstall", err)
	}
	if err := ownHooks(r, f, dir, "uninstall"); err != nil {
		return fail(env, "uninstall", err)
	}
	if f.Has("--server") {
		names = append(slices.Clone(names), "post-receive")
	}
	done, err := hooks.Uninstall(dir, names, !f.Has("--into-hooks-path"))
	if err != nil {
		return fail(env, "uninstall", unwritable(dir, err))
	}
	for _, d := range done {
		if d.Did != "absent" {
			fmt.Fprintf(env.Stdout, "%s: %s\n", filepath.ToSlash(filepath.Join(dir, d.Hook)), d.Did)
		}
	}
	if _, set, err := r.ConfigBool("rigward.bootstrap"); err == nil && set && f.Has("--server") {
		if err := hooks.Configure(ctx, r, "--unset-all", "rigward.bootstrap"); err != nil {
			return fail(env, "uninstall", err)
		}
		fmt.Fprintln(env.Stdout, "rigward.bootstrap: unset")
	}
	// What is there is derived, and ours, but what was told of pushes and what was
	// seen of attestations.
	own, box := filepath.Join(r.CommonDir(), "rigward"), outbox.Dir(r.CommonDir())
	why := map[string]string{}
	if n, err := outbox.Waiting(box, outbox.Shipped(box)); err != nil || n > 0 {
		why[box] = "what it tells of pushes is in no database yet"
	}
	for path, text := range map[string]string{attest.Dir(r.CommonDir()): "it tells what was accepted", attest.SeenDir(r.CommonDir()): "who forgets it can be shown another history"} {
		if _, err := os.Lstat(path); err == nil {
			why[path] = text
		}
	}
	remove := []string{own}
	if len(why) > 0 {
		remove, _ = filepath.Glob(filepath.Join(own, "*"))
		remove = slices.DeleteFunc(remove, func(path string) bool { return why[path] != "" })
	}
	for _, path := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(env.Stdout, "%s: kept, since %s\n", filepath.ToSlash(path), why[path])
	}
	for _, path := range remove {
		if err := os.RemoveAll(path); err != nil {
			return fail(env, "uninstall", fmt.Errorf("cannot remove the nonce index: %w", err))
		}
	}
	return report.ExitClean
}
