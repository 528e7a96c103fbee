package gitrepo

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	for _, name := range []string{"commondir", "reftable", "config.worktree", "gitdir"} {
		if _, err := os.Lstat(filepath.Join(p.gitDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return place{}, false
		}
	}
	p.bare, ok = plainConfig(filepath.Join(p.gitDir, "config"))
	if !ok || !given && p.bare {
		return place{}, false
	}
	if !p.bare {
		p.workTree = env.path("")
	}
	p.format, p.plain = "sha1", true
	return p, true
}

// maxConfig is the largest configuration file read here, in bytes.
const maxConfig = 1 << 20

// plainConfig reads core.bare from a configuration without anything that could
// make it mean something else to git.
func plainConfig(file string) (bare, ok bool) {
	f, err := os.Open(file)
	if err != nil {
		return false, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil || len(text) > maxConfig {
		return false, false
	}
	return plainCore(string(text))
}

// plainCore returns core.bare of a configuration in which every line is blank,
// a section in its usual form or `key = value` without quotes, escapes and
// comments (git-config, SYNTAX), and which neither redirects git nor names an
// extension; ok is false for every other one.
func plainCore(text string) (bare, ok bool) {
	section, bares, versions := "", 0, 0
	for line := range strings.Lines(text) {
		s := strings.Trim(line, " \t\r\n")
		if strings.ContainsAny(s, "\\#;\x00\r") {
			return false, false
		}
		if s == "" {
			continue
		}
		if s[0] == '[' {
			if s[len(s)-1] != ']' || strings.Count(s, "]") != 1 {
				return false, false
			}
			name, sub, named := strings.Cut(s[1:len(s)-1], " ")
			if !plainName(name) || named && (len(sub) < 3 || sub[0] != '"' || sub[len(sub)-1] != '"' || strings.Count(sub, `"`) != 2) {
				return false, false
			}
			section = strings.ToLower(name)
			switch section {
			case "include", "includeif", "extensions":
				return false, false
			}
			section += sub
			continue
		}
		key, value, found := strings.Cut(s, "=")
		key, value = strings.TrimRight(key, " \t"), strings.TrimLeft(value, " \t")
		if !found || section == "" || !plainName(key) || strings.Contains(value, `"`) {
			return false, false
		}
		if section != "core" {
			continue
		}
		switch strings.ToLower(key) {
		case "worktree":
			return false, false
		case "repositoryformatversion":
			if versions++; versions > 1 || value != "0" {
				return false, false
			}
		case "bare":
			if bares++; bares > 1 || value != "true" && value != "false" {
				return false, false
			}
			bare = value == "true"
		}
	}
	return bare, bares == 1
}

// plainName accepts the name of a section or key: letters, digits and hyphens,
// of which git wants a letter first in a key.
func plainName(s string) bool {
	return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z') && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
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
