package gitrepo

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/finding"
)

// findPlain finds the repository without a process in the two places where a
// hook usually finds itself: in a worktree's top with a .git directory, or in
// a git directory with GIT_DIR naming it. It says no (ok false) wherever git
// might see something else: linked worktrees, extensions, SHA-256, reftable,
// includes, a configured worktree, variables that redirect git, or a
// configuration that plainCore does not read.
func findPlain(env Env) (p place, ok bool) {
	for _, key := range []string{"GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_NAMESPACE"} {
		if _, set := env.Lookup(key); set {
			return place{}, false
		}
	}
	dir, given := env.Lookup("GIT_DIR")
	if !given {
		dir = ".git"
	}
	p.gitDir = env.path(dir)
	if resolved, err := filepath.EvalSymlinks(p.gitDir); err != nil || resolved != p.gitDir {
		return place{}, false
	}
	p.commonDir = p.gitDir
	for name, wantDir := range map[string]bool{"HEAD": false, "config": false, "objects": true, "refs": true} {
		st, err := os.Lstat(filepath.Join(p.gitDir, name))
		if err != nil || wantDir != st.IsDir() || !wantDir && !st.Mode().IsRegular() {
			return place{}, false
		}
	}
	if dir, set := env.Lookup("GIT_OBJECT_DIRECTORY"); set { // without it git sees no repository
		if st, err := os.Stat(env.path(dir)); err != nil || !st.IsDir() {
			return place{}, false
		}
	}
	for _, name := range []string{"commondir", "reftable", "config.worktree", "gitdir"} {
		if _, err := os.Lstat(filepath.Join(p.gitDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return place{}, false
		}
	}
	k, ok := plainKind(filepath.Join(p.gitDir, "config"))
	if !ok || !given && (k.bare || !env.own(env.path("")) || !env.own(p.gitDir)) {
		return place{}, false
	}
	p.bare = k.bare
	if !p.bare {
		p.workTree = env.path("")
	}
	p.format, p.plain = k.format, true
	head, state := looseRef(filepath.Join(p.gitDir, "HEAD"), (&Repo{place: p}).HashLen())
	if target, symbolic := strings.CutPrefix(head, "ref: "); state != refFound || symbolic && !strings.HasPrefix(target, "refs/") {
		return place{}, false
	}
	return p, true
}

// plainKind reads from a repository's configuration what says of which kind it
// is, where nothing in it makes it one that only git can read.
func plainKind(file string) (k kind, ok bool) {
	f, err := files.Open(file)
	if err != nil {
		return kind{}, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil || len(text) > maxConfig {
		return kind{}, false
	}
	return plainCore(string(text))
}

// A kind is what a repository's own configuration says of how it is stored.
type kind struct {
	bare   bool
	format string // "sha1" or "sha256"
}

// plainCore returns the kind that a configuration names once and in the words that
// git writes; ok is false where it does not, where it redirects git, and where it
// has an extension other than the object format and a promisor remote
// (gitrepository-layout, git-config: extensions.*).
func plainCore(text string) (k kind, ok bool) {
	items, ok := parseConfigFile(text)
	if !ok {
		return kind{}, false
	}
	once := map[string]string{}
	for _, item := range items {
		if !strings.HasPrefix(item.key, "extensions.") {
			switch item.key {
			case "core.worktree":
				return kind{}, false
			case "core.bare", "core.repositoryformatversion":
			default:
				continue
			}
		}
		if _, twice := once[item.key]; twice || item.bare {
			return kind{}, false
		}
		once[item.key] = item.text
	}
	k = kind{bare: once["core.bare"] == "true", format: "sha1"}
	version := once["core.repositoryformatversion"]
	for key, value := range once {
		switch {
		case key == "core.bare" && (value == "true" || value == "false"):
		case key == "core.repositoryformatversion" && (value == "0" || value == "1"):
		case key == "extensions.objectformat" && version == "1" && (value == "sha1" || value == "sha256"):
			k.format = value
		case key == "extensions.partialclone" && value != "":
		default:
			return kind{}, false
		}
	}
	_, said := once["core.bare"]
	return k, said && version != "" // without a version git does not heed core.bare
}

// askPlace asks git, in one process.
func askPlace(ctx context.Context, env Env, git string) (place, error) {
	// The last question fails where there is no worktree, after the others
	// have been answered.
	stdout, stderr, code, err := env.output(ctx, git, "rev-parse", "--path-format=absolute",
		"--show-object-format", "--is-bare-repository", "--is-inside-work-tree",
		"--git-dir", "--git-common-dir", "--show-toplevel")
	if err != nil {
		return place{}, err
	}
	lines := strings.Split(strings.TrimSuffix(string(stdout), "\n"), "\n")
	if code == 129 || lines[0] == "--path-format=absolute" { // an old git repeats what it doesn't know
		return place{}, (&session{ctx: ctx, env: env, git: git}).tooOld()
	}
	if code != 0 && (code != 128 || len(lines) != 5 || lines[2] != "false") {
		return place{}, failure(ctx, "git rev-parse", stderr, nil)
	}
	if len(lines) != 5 && len(lines) != 6 {
		return place{}, &Error{Kind: ErrNotRepository, Message: "the path of the repository holds a line feed, which is not supported"}
	}
	if lines[0] != "sha1" && lines[0] != "sha256" {
		return place{}, &Error{Kind: ErrNotRepository, Message: "object format " + finding.QuoteMax(lines[0], 40) + " is not supported, expected sha1 or sha256"}
	}
	p := place{format: lines[0], bare: lines[1] == "true", gitDir: filepath.FromSlash(lines[3]), commonDir: filepath.FromSlash(lines[4])}
	if len(lines) == 6 {
		p.workTree = filepath.FromSlash(lines[5])
	}
	return p, nil
}

// HooksPath is the absolute path of the directory where git looks for hooks,
// core.hooksPath and worktrees considered.
func (r *Repo) HooksPath(ctx context.Context) (string, error) {
	stdout, stderr, code, err := r.env.output(ctx, r.git, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
	if err != nil {
		return "", err
	}
	path, ok := strings.CutSuffix(string(stdout), "\n")
	if code != 0 || !ok || path == "" {
		return "", failure(ctx, "git rev-parse", stderr, nil)
	}
	return filepath.FromSlash(path), nil
}

// SharedHooks says why the hooks that git runs here may be those of other repositories,
// too: core.hooksPath names their directory, or it is a symbolic link; "" where they are
// this repository's alone. Errors are those of ConfigLast.
func (r *Repo) SharedHooks() (why string, err error) {
	custom, set, err := r.ConfigLast("core.hooksPath")
	if err != nil {
		return "", err
	}
	if set {
		return "core.hooksPath is " + finding.Quote(custom), nil
	}
	own := filepath.Join(r.CommonDir(), "hooks")
	if info, err := os.Lstat(own); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return finding.Quote(filepath.ToSlash(own)) + " is a symbolic link", nil
	}
	return "", nil
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// osReason is the operating system's reason without the path, which the
// message has already named.
func osReason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file or directory"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return finding.QuoteMax(err.Error(), 100)
}
