package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/gittree"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// open opens the bundle that an argument names, as the verb's format has it,
// until release. What is wrong with a reference comes as a finding.
func (c *call) open(f bundle.Format, arg string) (in bundle.Input, err error) {
	c.subject = arg
	a, ok := f.(agent.Format)
	switch {
	case c.verb.format == "rye":
		return c.openTree(arg)
	case !ok:
		return c.openFile(arg)
	}
	if c.isReference(arg) {
		o, err := c.options()
		if err == nil {
			_, in, err = c.openReference(c.ctx, arg, o)
		}
		return in, err
	}
	ref, fault := agent.ParseRef(arg)
	if fault != nil {
		return in, fault
	}
	name, fault, err := ref.Resolve(c.path(c.Get("--mirror")), a.Target)
	switch {
	case err != nil:
		return in, err
	case fault != nil && fault.Code == agent.RefNotFound && ref.Asset != "" && ref.SHA256 != "": // pinned, so that it does not matter who sends it
		if name, err = c.fetchAsset(ref); err != nil {
			return in, err
		}
	case fault != nil:
		return in, fault
	}
	if _, err := os.Stat(c.path(name)); errors.Is(err, fs.ErrNotExist) {
		return in, bundle.Faultf(agent.RefNotFound, "", "there is no file %s", finding.QuoteMax(arg, 200))
	}
	in, err = c.openFile(name)
	in.SHA256 = ref.SHA256
	return in, err
}

// judged lets fn, a verb of a format, judge the first argument, and returns the
// value that its result belongs to.
func judged[T any](c *call, f bundle.Format, fn func(in bundle.Input, o bundle.Options) (*bundle.Result, error)) (r T, err error) {
	o, err := c.options()
	if err != nil {
		return r, err
	}
	in, err := c.open(f, c.Words[0])
	if err != nil {
		return r, err
	}
	return whole[T](fn(in, o))
}

// openFile opens an archive with the files beside it.
func (c *call) openFile(name string) (in bundle.Input, err error) {
	f, size, err := bundle.OpenFile(c.path(name))
	if err != nil {
		return in, err
	}
	c.after(func() { f.Close() })
	in = bundle.Input{Name: name, File: c.watchFile(f, size), Size: size}
	if in.Checksum, err = c.beside("--sha256-file", c.path(name)+".sha256"); err == nil {
		in.Signature, err = c.beside("--signature", c.path(name)+".sig")
	}
	return in, err
}

// beside reads the file that a flag names, or the one beside the bundle; nil
// if that is not there.
func (c *call) beside(flag, name string) ([]byte, error) {
	if !c.Has(flag) {
		return bundle.ReadBeside(name)
	}
	name = c.path(c.Get(flag))
	data, err := bundle.ReadBeside(name)
	if err == nil && data == nil {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return data, err
}

// openTree opens a directory.
func (c *call) openTree(name string) (in bundle.Input, err error) {
	src, err := bundle.OpenDirs(c.path(name))
	if err != nil {
		return in, err
	}
	c.after(func() { src.Close() })
	return bundle.Input{Name: name, Tree: c.watchTree(src)}, nil
}

// readItem reads a file that may be one byte over the limit of an item, so
// that the format can say so.
func readItem(name string) ([]byte, error) {
	f, _, err := bundle.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, rye.MaxFile+1))
}

// rigSource finds source root, rig root and SPEC. That SPEC lies outside is a
// finding.
func (c *call) rigSource(ctx context.Context, spec, output string) (f rig.Format, in bundle.Input, err error) {
	c.subject = spec
	s, o := &f.Source, &f.Options
	o.DropServices, o.Form, o.Now = c.Has("--drop-services"), c.Get("--form"), c.Now
	if o.Form != "" && o.Form != rig.FormRigward && o.Form != rig.FormOpenRig {
		return f, in, usagef("--form is %s or %s", rig.FormRigward, rig.FormOpenRig)
	}
	specPath := c.path(spec)
	rigRoot := filepath.Dir(specPath)
	if c.Has("--rig-root") {
		rigRoot = filepath.Clean(c.path(c.Get("--rig-root")))
	}
	// locate sets the places relative to the source root.
	locate := func(root string) error {
		var ok bool
		if s.RigRoot, ok = below(root, rigRoot); !ok {
			return bundle.Faultf(rig.RefOutside, "", "the rig root lies outside the source root %s", finding.QuoteMax(root, 200))
		}
		if in.Name, ok = below(root, specPath); !ok {
			return bundle.Faultf(rig.RefOutside, "", "SPEC lies outside the source root %s", finding.QuoteMax(root, 200))
		}
		if rel, ok := below(root, output); ok && output != "" {
			s.Output = rel
		}
		for _, dir := range c.All("--context-pack") {
			rel, ok := below(root, filepath.Clean(c.path(dir)))
			if !ok {
				return bundle.Faultf(rig.RefOutside, "", "the context pack %s lies outside the source root %s", finding.Path(dir), finding.QuoteMax(root, 200))
			}
			o.ContextPacks = append(o.ContextPacks, rel)
		}
		return nil
	}
	repo, ok, err := c.openRepo(ctx, rigRoot)
	if ok {
		c.after(func() { repo.Close() })
	}
	if c.Has("--from") {
		if c.Has("--source-root") {
			return f, in, usagef("with --from the source root is the top of the repository")
		}
		if err == nil && !ok {
			err = gitError(fmt.Errorf("--from needs a git repository"))
		}
		if err != nil {
			return f, in, err
		}
		id, err := repo.Resolve(ctx, c.Get("--from"))
		if err != nil {
			return f, in, gitError(err)
		}
		commit, err := repo.Commit(id)
		if err != nil {
			return f, in, gitError(err)
		}
		when := time.Unix(commit.Committer.When, 0)
		o.CommitTime = &when
		in.Tree = c.watchTree(gitTree{gittree.Source(repo, commit.Tree)})
		top := repo.WorkTree()
		if top == "" { // a bare repository: paths are those of the tree
			top = c.Dir
		}
		return f, in, locate(top)
	}
	if err != nil {
		if !c.Has("--source-root") {
			return f, in, err
		}
		c.say("note: git can't be asked: %s", errorText(err))
		ok = false
	}
	s.Abs = rigRoot
	switch {
	case c.Has("--source-root"):
		s.Abs = filepath.Clean(c.path(c.Get("--source-root")))
	case ok && repo.WorkTree() != "":
		s.Abs = repo.WorkTree()
	}
	tree, err := c.openTree(s.Abs)
	if err == nil {
		err = locate(s.Abs)
	}
	if err != nil || !ok {
		in.Tree = tree.Tree
		return f, in, err
	}
	in.Tree = tree.Tree
	if prefix, inside := below(repo.WorkTree(), s.Abs); inside && repo.WorkTree() != "" {
		h, err := openHead(repo, prefix)
		if err != nil {
			return f, in, gitError(err)
		}
		if h != nil {
			s.Head = h
		}
	}
	return f, in, nil
}

// gitTree marks what goes wrong in a commit's tree as a matter of git.
type gitTree struct{ *gittree.Tree }

func (t gitTree) Lstat(name string) (bundle.Item, error) {
	it, err := t.Tree.Lstat(name)
	return it, gitCause(err)
}

func (t gitTree) ReadDir(name string) ([]bundle.Item, error) {
	items, err := t.Tree.ReadDir(name)
	return items, gitCause(err)
}

func gitCause(err error) error {
	var e *gitrepo.Error
	var tree *gitrepo.MalformedTreeError
	if errors.As(err, &e) || errors.As(err, &tree) {
		return gitError(err)
	}
	return err
}

// below returns a path relative to a root, with slashes, if it lies below it:
// by its components, else where links of the system lead.
func below(root, name string) (string, bool) {
	rel := func(root, name string) (string, bool) {
		r, err := filepath.Rel(root, name)
		r = filepath.ToSlash(r)
		return r, err == nil && r != ".." && !strings.HasPrefix(r, "../")
	}
	if r, ok := rel(root, name); ok {
		return r, true
	}
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", false
	}
	realName, err := filepath.EvalSymlinks(name)
	if err != nil {
		dir, derr := filepath.EvalSymlinks(filepath.Dir(name))
		if derr != nil {
			return "", false
		}
		realName = filepath.Join(dir, filepath.Base(name))
	}
	return rel(realRoot, realName)
}

// inside reports whether a directory is root or lies below it, links followed.
func inside(dir, root string) bool {
	top, err := os.Stat(root)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for {
		if info, err := os.Stat(dir); err == nil && os.SameFile(top, info) {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
}
