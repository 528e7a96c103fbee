package hooks

import (
	"cmp"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// A knownRoot is what the commit whose policy counts has at the paths that were asked
// for. The commit is the same until something is fetched, and the tree of its top may
// be large, so that a clone keeps this between commits. Ids stand for what they name,
// so it is true as long as it is whole; whoever forges it can leave out the hook as well.
//
// The file rigward/root of a worktree's git directory has a line for the commit and its
// tree, one for each path, and one that ends it.
type knownRoot struct {
	*gitrepo.Repo
	file         string
	commit, tree string
	entries      map[string]gitrepo.TreeEntry // by path; without an ID: nothing is there
	more         bool                         // it has what the file lacks
}

const (
	rootForm = "1 " // then the commit, a blank, and its tree
	rootEnd  = "end\n"
	rootNone = "-"
)

// newRoot returns what is known of a commit.
func newRoot(repo *gitrepo.Repo, commit string) (*knownRoot, error) {
	k := &knownRoot{Repo: repo, file: filepath.Join(repo.GitDir(), "rigward", "root"), commit: commit, entries: map[string]gitrepo.TreeEntry{}}
	if data, err := files.Kept(k.file); err == nil && k.parse(string(data)) {
		return k, nil
	}
	c, err := repo.Commit(commit)
	if err != nil {
		return nil, err
	}
	k.tree, k.more = c.Tree, true
	clear(k.entries)
	return k, nil
}

func (k *knownRoot) parse(text string) bool {
	text, ok := strings.CutPrefix(text, rootForm+k.commit+" ")
	if k.tree, text, _ = strings.Cut(text, "\n"); !ok || !k.ValidID(k.tree) {
		return false
	}
	for text != rootEnd {
		line, rest, more := strings.Cut(text, "\n")
		mode, line, _ := strings.Cut(line, " ")
		id, quoted, _ := strings.Cut(line, " ")
		bits, err := strconv.ParseUint(mode, 8, 32)
		path, err2 := strconv.Unquote(quoted)
		if !more || err != nil || err2 != nil || id != rootNone && !k.ValidID(id) {
			return false
		}
		if id == rootNone {
			id = ""
		}
		k.entries[path], text = gitrepo.TreeEntry{Mode: gitrepo.Mode(bits), ID: id}, rest
	}
	return true
}

// EntryAt answers from what is known, and else remembers the answer.
func (k *knownRoot) EntryAt(root, path string) (gitrepo.TreeEntry, bool, error) {
	if root != k.tree {
		return k.Repo.EntryAt(root, path)
	}
	e, known := k.entries[path]
	if !known {
		var ok bool
		var err error
		if e, ok, err = k.Repo.EntryAt(root, path); err != nil {
			return e, ok, err
		}
		k.entries[path], k.more = gitrepo.TreeEntry{Mode: e.Mode, ID: e.ID}, true
	}
	return e, e.ID != "", nil
}

// keep writes down what is known, where there is a directory for it.
func (k *knownRoot) keep() {
	if k == nil || !k.more {
		return
	}
	var b strings.Builder
	b.WriteString(rootForm + k.commit + " " + k.tree + "\n")
	for path, e := range k.entries {
		b.WriteString(strconv.FormatUint(uint64(e.Mode), 8) + " " + cmp.Or(e.ID, rootNone) + " " + strconv.Quote(path) + "\n")
	}
	b.WriteString(rootEnd)
	_ = files.Keep(k.file, []byte(b.String()), 0o644)
}
