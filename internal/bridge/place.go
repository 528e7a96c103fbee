package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// splitPath takes an envelope path apart.
func splitPath(path string) (thread, file string) {
	thread, file, _ = strings.Cut(path, "/")
	return thread, file
}

// A lookup is a hint that leads to what was meant: a command, and what an agent
// calls instead.
type lookup struct{ cli, tool string }

// threadDir refuses a thread whose id is not valid or that is not a real
// directory in the root, and a repository that keeps its threads elsewhere. One
// that a sparse checkout leaves out is there for those who only read.
// where tells who names a thread that is not there how to go on.
func (w *work) threadDir(ctx context.Context, thread string, where lookup, writes bool) error {
	if err := checkThread(thread); err != nil {
		return err
	}
	if err := w.threadsOnTop(); err != nil {
		return err
	}
	info, err := os.Lstat(filepath.Join(w.root, thread))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		left, lerr := w.leftOut(ctx, thread)
		switch {
		case lerr != nil:
			return lerr
		case len(left) == 0:
			return fail(codeThread, "the thread %s does not exist", quote(thread)).withHint("%s", where.cli).orTool("%s", where.tool).because(errNoThread)
		case writes:
			return fail(codeThread, "the thread %s lies outside of the sparse checkout", quote(thread)).withHint("git sparse-checkout add %s", thread)
		}
		return nil
	case err != nil:
		return cannotRead(filepath.Join(w.root, thread), err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fail(codeThread, "the thread %s is a symbolic link; links are not followed", quote(thread)).withHint("rm %s && mkdir %s", thread, thread)
	case !info.IsDir():
		return fail(codeThread, "the thread %s is not a directory", quote(thread))
	}
	return nil
}

// checkThread judges a thread id as typed.
func checkThread(thread string) error {
	if !envelope.ValidThreadID(thread) {
		return fail(codeThread, "the thread id %s is not valid: at least two of a-z, 0-9 and hyphens, no hyphen at an end", quote(thread))
	}
	if why := portable.Check(thread); why != "" {
		f := fail(codeThread, "the thread id %s is not portable: %s", quote(thread), why)
		if other := thread + "-thread"; envelope.ValidThreadID(other) && portable.Check(other) == "" {
			f.withHint("rig-bridge new %s", other).orTool("%s", other)
		}
		return f
	}
	if !isThreadName(thread) {
		return fail(codeThread, "the thread id %s is never a thread", quote(thread))
	}
	return nil
}

// threadTree returns the tree of one directory in the root of a commit's tree, an empty
// one if it has none.
func (w *work) threadTree(commit, dir string) (*gitrepo.Tree, error) {
	none, _ := gitrepo.ParseTree("", nil)
	if commit == "" {
		return none, nil
	}
	c, err := w.repo.Commit(commit)
	if err != nil {
		return nil, gitProblem(err)
	}
	e, ok, err := w.repo.EntryAt(c.Tree, dir)
	if err != nil {
		return nil, gitProblem(err)
	}
	if !ok {
		return none, nil
	}
	if e.Mode != gitrepo.ModeTree {
		return nil, fail(codeThread, "the thread %s is not a directory in commit %s", quote(dir), short(commit))
	}
	t, err := w.repo.Tree(e.ID)
	return t, gitProblemOrNil(err)
}

// treeFiles lists the names and blob ids of the entries of such a tree.
func (w *work) treeFiles(commit, dir string) (map[string]string, error) {
	t, err := w.threadTree(commit, dir)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, t.Len())
	for e := range t.Entries() {
		out[e.Name] = e.ID
	}
	return out, nil
}

// taken collects the names that exist in a thread, folded: in the work tree,
// the index, HEAD and the upstream. index is the tree that the index says it is,
// "" if it does not.
func (w *work) taken(ctx context.Context, t target, head, thread string) (taken map[string]bool, index string, err error) {
	taken = map[string]bool{}
	entries, err := os.ReadDir(filepath.Join(w.root, thread))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is opened
		return nil, "", cannotRead(filepath.Join(w.root, thread), err)
	}
	for _, e := range entries {
		taken[portable.Fold(e.Name())] = true
	}
	upstream, err := w.ref(t.tracking)
	if err != nil {
		return nil, "", err
	}
	for _, commit := range []string{head, upstream} {
		names, err := w.treeFiles(commit, thread)
		if err != nil {
			return nil, "", err
		}
		for name := range names {
			taken[portable.Fold(name)] = true
		}
		if head == upstream {
			break
		}
	}
	dir := []byte(thread + "/")
	paths, index, err := w.repo.IndexPaths(ctx, func(path []byte) bool { return bytes.HasPrefix(path, dir) })
	if err != nil {
		return nil, "", gitProblem(err)
	}
	for _, path := range paths {
		name, _, _ := strings.Cut(path[len(dir):], "/")
		taken[portable.Fold(name)] = true
	}
	return taken, index, nil
}

// indexIsHead tells, from the tree that the index says it is, that it holds what
// HEAD does, and that no merge or the like waits to be committed. No is not
// certain.
func (w *work) indexIsHead(index, head string) (bool, error) {
	if index == "" || head == "" || w.waits() {
		return false, nil
	}
	tree, err := w.tree(head)
	return tree == index, err
}

// firstFree returns TYPE.md, TYPE-2.md, TYPE-3.md …, the first that is free.
func firstFree(taken map[string]bool, typ string) string {
	name := typ + ".md"
	for n := 2; taken[portable.Fold(name)]; n++ {
		name = fmt.Sprintf("%s-%d.md", typ, n)
	}
	return name
}

// storesAsIs asks git, and refuses a path for which its attributes would store other
// bytes than ours.
func (w *work) storesAsIs(ctx context.Context, path string, data []byte) error {
	res, err := w.gitWith(ctx, gitrepo.Command{Args: []string{"hash-object", "--stdin", "--path=" + path}, Stdin: data, Timeout: localTime})
	if err != nil {
		return err
	}
	if res.Code != 0 {
		return gitFailed("git hash-object", res)
	}
	// hash-object takes what cannot be encoded as it is, and says so; git commit
	// fails then.
	if strings.TrimSpace(string(res.Stdout)) != w.blobID(data) || bytes.Contains(res.Stderr, []byte("error: ")) {
		return fail(codeRefused, "a git filter or attribute would change the bytes of %s", quote(path)).
			withHint("echo '%s/*.md -text -filter -ident -working-tree-encoding' >> .gitattributes", firstOf(path))
	}
	return nil
}

func firstOf(path string) string { thread, _ := splitPath(path); return thread }

// createFile makes a new file that is complete as soon as it is visible, and
// never replaces one.
func (w *work) createFile(file string, data []byte) error {
	tmp := filepath.Join(w.repo.CommonDir(), "rig-bridge.new")
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		os.Remove(tmp)
		return cannotWrite(tmp, err)
	}
	defer os.Remove(tmp)
	if err := os.Chmod(tmp, 0o644); err != nil {
		return cannotWrite(tmp, err)
	}
	err := os.Link(tmp, file)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return fail(codeExists, "%s exists already", quote(file))
	}
	// No hard links here, or another file system.
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fail(codeExists, "%s exists already", quote(file))
	}
	if err == nil {
		_, err = f.Write(data)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(file)
		}
	}
	if err != nil {
		return cannotWrite(file, err)
	}
	return nil
}
