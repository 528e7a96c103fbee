package main

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"hash"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/rigward/rigward/internal/gittree"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// head is HEAD's commit, for files below a prefix of the repository's top.
type head struct {
	repo   *gitrepo.Repo
	tree   string
	prefix string
	when   time.Time
}

// openHead returns the commit that HEAD names, nil if there is none yet.
func openHead(repo *gitrepo.Repo, prefix string) (*head, error) {
	_, id, err := repo.HEAD()
	if err != nil || id == "" {
		return nil, err
	}
	c, err := repo.Commit(id)
	if err != nil {
		return nil, err
	}
	return &head{repo, c.Tree, prefix, time.Unix(c.Committer.When, 0)}, nil
}

// Lookup implements rig.Head.
func (h *head) Lookup(name string) (string, error) {
	e, ok, err := h.repo.EntryAt(h.tree, path.Join(h.prefix, name))
	if err != nil || !ok || !e.Mode.IsFile() {
		return "", err
	}
	return e.ID, nil
}

// Blob implements rig.Head.
func (h *head) Blob(id string) ([]byte, error) { return h.repo.Blob(id, gittree.MaxBlob) }

// Hash implements rig.Head.
func (h *head) Hash() hash.Hash {
	if h.repo.ObjectFormat() == "sha256" {
		return sha256.New()
	}
	return sha1.New()
}

// Time implements rig.Head.
func (h *head) Time() time.Time { return h.when }

// openRepo opens the repository that holds a directory, or its nearest parent
// that exists. ok is false if no repository does.
func (c *call) openRepo(ctx context.Context, dir string) (repo *gitrepo.Repo, ok bool, err error) {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	if c.noRepository(dir) {
		return nil, false, nil
	}
	repo, err = gitrepo.OpenHere(ctx, gitrepo.Env{Environ: c.Environ, Dir: dir})
	if errors.Is(err, gitrepo.ErrNotRepository) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, gitError(err)
	}
	return repo, true, nil
}

// noRepository reports whether git, which takes longer to ask, can find none
// for a directory: nothing names one, and from there upwards no directory has
// what makes it a work tree or a repository (gitrepository-layout).
func (c *call) noRepository(dir string) bool {
	env := gitrepo.Env{Environ: c.Environ}
	if _, set := env.Lookup("GIT_DIR"); set {
		return false
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	for err == nil {
		for _, name := range []string{".git", "HEAD"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
				return false
			}
		}
		if filepath.Dir(dir) == dir {
			return true
		}
		dir = filepath.Dir(dir)
	}
	return false
}

func gitError(err error) error {
	if err == nil {
		return nil
	}
	return &codedError{codeGit, err}
}
