package gitrepo

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Env is where git is started from. It is given by the caller; this package
// reads neither the process's environment nor its working directory.
type Env struct {
	Environ []string // "KEY=value" as in os.Environ, with git's variables as the gate got them
	Dir     string   // working directory of git; "" is the process's own
	Git     string   // the git program; "" looks it up in PATH of Environ
	As      *Account // whose rights git runs by, where this process may lend them; nil: its own
}

// Get returns the value of a variable in Environ, "" if it is not set.
func (e Env) Get(key string) string {
	v, _ := e.Lookup(key)
	return v
}

// Lookup returns the value of a variable in Environ and whether it is set.
// Of several settings the last one counts, as in os/exec.
func (e Env) Lookup(key string) (value string, ok bool) {
	for _, kv := range slices.Backward(e.Environ) {
		if k, v, found := strings.Cut(kv, "="); found && sameKey(k, key) {
			return v, true
		}
	}
	return "", false
}

func sameKey(a, b string) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// localVars are the variables that tie git to one repository: what
// `git rev-parse --local-env-vars` lists in any version, and those that only
// a hook gets.
var localVars = []string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS",
	"GIT_CONFIG_COUNT", "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE",
	"GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_INDEX_FILE",
	"GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_PREFIX",
	"GIT_INTERNAL_SUPER_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR",
	"GIT_QUARANTINE_PATH", "GIT_NAMESPACE", "GIT_REF_STORAGE_FORMAT",
	"GIT_REFERENCE_BACKEND",
}

// Foreign returns e for another repository at dir: without every variable
// that ties git to the repository that e was made for, so that a child can
// neither read nor write that one's index by mistake.
func (e Env) Foreign(dir string) Env {
	e.Environ = slices.DeleteFunc(slices.Clone(e.Environ), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(k, "GIT_CONFIG_KEY_") || strings.HasPrefix(k, "GIT_CONFIG_VALUE_") {
			return true
		}
		return slices.ContainsFunc(localVars, func(v string) bool { return sameKey(k, v) })
	})
	e.Dir = dir
	return e
}

// dropped are variables that could change what plumbing prints, or make it
// write or ask; GIT_TRACE* goes by prefix.
var dropped = []string{
	"GIT_ICASE_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS",
	"GIT_CONFIG", "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_FLUSH", "GIT_REDIRECT_STDIN",
	"GIT_REDIRECT_STDOUT", "GIT_REDIRECT_STDERR", "GIT_CURL_VERBOSE",
	"GIT_CONFIG", // the file that `git config` reads instead of all others
	"LANGUAGE",
}

// imposed is what every reading child runs under.
var imposed = []string{
	"LC_ALL=C",
	"GIT_OPTIONAL_LOCKS=0",
	"GIT_NO_LAZY_FETCH=1",
	"GIT_ALLOW_PROTOCOL=none", // git before 2.45 doesn't know the line above
	"GIT_NO_REPLACE_OBJECTS=1",
	"GIT_GRAFT_FILE=" + os.DevNull,
	"GIT_SHALLOW_FILE=", // no shallow file: whatever is missing is missed
	"GIT_LITERAL_PATHSPECS=1",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_ADVICE=0",
}

// reading returns the environment of a child that reads this repository.
func (e Env) reading() []string {
	env := make([]string, 0, len(e.Environ)+len(imposed))
	for _, kv := range e.Environ {
		k, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(k, "GIT_TRACE") || slices.ContainsFunc(dropped, func(v string) bool { return sameKey(k, v) }) {
			continue
		}
		if slices.ContainsFunc(imposed, func(v string) bool { i, _, _ := strings.Cut(v, "="); return sameKey(k, i) }) {
			continue
		}
		env = append(env, kv)
	}
	return append(env, imposed...)
}

// obeyingShallow returns environ, the environment of a reading child, with the
// shallow file that e was made with: the one that a hook was given, or else the
// repository's own.
func (e Env) obeyingShallow(environ []string) []string {
	const name = "GIT_SHALLOW_FILE"
	out := slices.DeleteFunc(environ, func(kv string) bool { k, _, _ := strings.Cut(kv, "="); return sameKey(k, name) })
	if v, ok := e.Lookup(name); ok {
		out = append(out, name+"="+v)
	}
	return out
}

// program finds git in PATH of Environ. Relative entries of PATH are not
// searched: a repository must not bring its own git.
func (e Env) program() (string, error) {
	if e.Git != "" {
		return e.Git, nil
	}
	name := "git"
	if runtime.GOOS == "windows" {
		name = "git.exe"
	}
	for _, dir := range filepath.SplitList(e.Get("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() &&
			(runtime.GOOS == "windows" || st.Mode()&0o111 != 0) {
			return file, nil
		}
	}
	return "", &Error{Kind: ErrNoGit, Message: "git is not in PATH", Hint: "install git 2.36 or newer"}
}

// path makes a path absolute that a child would take relative to Dir.
func (e Env) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	abs, err := filepath.Abs(filepath.Join(e.Dir, p))
	if err != nil {
		return filepath.Join(e.Dir, p)
	}
	return abs
}
