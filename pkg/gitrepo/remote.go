package gitrepo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// A Remote is a remote as far as it is known here by the refs that follow it.
type Remote struct {
	Refs map[string]string // by full name there, the ids that they had when they were fetched
	Head string            // full name of its default branch, "" if it is not known
}

// Remote returns what is known here of a remote.
func (r *Repo) Remote(ctx context.Context, name string) (at Remote, err error) {
	specs, err := r.followed(name)
	if err != nil {
		return at, err
	}
	at.Refs = map[string]string{}
	for ref, err := range r.Refs(ctx) {
		if err != nil {
			return at, err
		}
		if ref.Target != "" {
			continue
		}
		if there := specs.Source(ref.Name); there != "" {
			at.Refs[there] = ref.ID
		}
	}
	at.Head, _, err = r.remoteHead(name, specs)
	return at, err
}

// RemoteHead returns the full name that the default branch of a remote has
// there, "" if it is not known, and its commit as it was fetched, "" if it was
// not. It is the branch that refs/remotes/<name>/HEAD stands for (git-remote(1),
// set-head), else main or master.
func (r *Repo) RemoteHead(name string) (ref, id string, err error) {
	specs, err := r.followed(name)
	if err != nil {
		return "", "", err
	}
	return r.remoteHead(name, specs)
}

func (r *Repo) remoteHead(name string, specs Refspecs) (ref, id string, err error) {
	if head := "refs/remotes/" + name + "/HEAD"; CheckRefName(head) == nil {
		tracking, ok, err := r.SymbolicTarget(head)
		if err != nil {
			return "", "", err
		}
		if ok {
			if ref = specs.Source(tracking); ref != "" {
				id, _, err = r.Ref(tracking)
				return ref, id, err
			}
		}
	}
	for _, usual := range []string{"refs/heads/main", "refs/heads/master"} {
		if tracking := specs.Tracking(usual); tracking != "" {
			if id, ok, err := r.Ref(tracking); ok || err != nil {
				return usual, id, err
			}
		}
	}
	return "", "", nil
}

// followed returns the refspecs of a remote. Where the configuration has none,
// the refs lie where git clone puts them.
func (r *Repo) followed(name string) (Refspecs, error) {
	specs, err := r.Refspecs(name)
	if len(specs) == 0 {
		specs = ParseRefspecs([]string{"+refs/heads/*:refs/remotes/" + name + "/*"})
	}
	return specs, err
}

// RemoteFiles returns the files of which one changes when a remote in this machine's
// file system moves a branch, the branch's own one first. It is nil for every
// other remote, and where only git knows where its repository is
// (gitrepository-layout(5); git-clone(1), GIT URLS). They need not exist.
func (r *Repo) RemoteFiles(name, branch string) []string {
	dir := r.remoteDir(name)
	if dir == "" || CheckRefName(branch) != nil {
		return nil
	}
	return []string{filepath.Join(dir, filepath.FromSlash(branch)), filepath.Join(dir, "packed-refs"), filepath.Join(dir, "reftable", "tables.list")}
}

// remoteDir is the git directory of a remote in this machine's file system, "" if it is
// not known.
func (r *Repo) remoteDir(name string) string {
	urls, err := r.Config("remote." + name + ".url")
	rewritten, err2 := r.ConfigSection("url")
	if err != nil || err2 != nil || len(urls) != 1 || len(rewritten) > 0 {
		return ""
	}
	path, isURL := strings.CutPrefix(urls[0], "file://")
	switch {
	case isURL && (strings.Contains(path, "%") || !filepath.IsAbs(path)):
		return ""
	case !filepath.IsAbs(path):
		if path == "" || strings.Contains(path, ":") || r.workTree == "" {
			return ""
		}
		path = filepath.Join(r.workTree, path)
	}
	for _, dir := range []string{filepath.Join(path, ".git"), path, filepath.Join(path+".git", ".git"), path + ".git"} {
		objects, err := os.Stat(filepath.Join(dir, "objects"))
		if _, err2 := os.Lstat(filepath.Join(dir, "HEAD")); err != nil || err2 != nil || !objects.IsDir() {
			continue
		}
		return dir
	}
	return ""
}
