package gitrepo

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// A FileCommit is a commit that adds one file to the branch that is checked out.
type FileCommit struct {
	Path    string // of a new file in a directory of the top, as it lies in the work tree
	Data    []byte // of the file, which git stores as it is (gitattributes(5))
	Branch  string // full name
	Parent  ID     // where the branch is
	Message []byte // whole
	When    time.Time
}

// CommitFile does what `git add` and `git commit --cleanup=verbatim` do for a new file
// where nothing else is staged, without starting git, and returns the commit. The caller
// knows that git would start no maintenance, and takes back or completes what is cut
// off: the entry is in the index first, then the branch moves.
//
// It says no (done is false) wherever Stage would, and where git might run a hook, sign,
// take another identity or write more than index, objects, branch and reflogs. Nothing
// has changed then but for objects that nobody refers to, or the file is staged.
func (r *Repo) CommitFile(c FileCommit) (id ID, done bool) {
	blob, stat, ok := r.addable(c.Path, c.Data)
	who, ok2 := r.plainIdentity(c.When)
	if !ok || !ok2 || !r.commitsPlainly() || len(c.Message) == 0 || !utf8.Valid(c.Message) || bytes.IndexByte(c.Message, 0) >= 0 {
		return "", false
	}
	dir, name, _ := strings.Cut(c.Path, "/")
	parent, err := r.Commit(c.Parent)
	if err != nil {
		return "", false
	}
	top, err := r.Tree(parent.Tree)
	if err != nil {
		return "", false
	}
	below := &Tree{hash: r.HashLen() / 2, offs: []uint32{0}}
	if e, there := top.Lookup(dir); there {
		if below, err = r.Tree(e.ID); e.Mode != ModeTree || err != nil {
			return "", false
		}
	}
	if _, there := below.Lookup(name); there {
		return "", false
	}
	sub := below.With(TreeEntry{Name: name, Mode: ModeFile, ID: hex.EncodeToString(blob)})
	now := &treesNow{dir: r.objectSum("tree", sub)}
	root := top.With(TreeEntry{Name: dir, Mode: ModeTree, ID: hex.EncodeToString(now.dir)})
	now.top = r.objectSum("tree", root)
	if now.was, err = hex.DecodeString(parent.Tree); err != nil || len(root) > maxStaged || len(sub) > maxStaged {
		return "", false
	}
	text := fmt.Appendf(nil, "tree %x\nparent %s\nauthor %s\ncommitter %s\n\n%s", now.top, c.Parent, who, who, c.Message)
	commit := r.objectSum("commit", text)
	if len(text) > maxStaged || !r.storeLoose(blob, "blob", c.Data) || !r.storeLoose(now.dir, "tree", sub) || !r.storeLoose(now.top, "tree", root) ||
		!r.storeLoose(commit, "commit", text) {
		return "", false
	}
	index := r.indexWith(c.Path, blob, stat, now)
	if index == nil {
		return "", false
	}
	defer index.drop()
	first, _, _ := strings.Cut(string(c.Message), "\n")
	id = hex.EncodeToString(commit)
	return id, r.moveBranch(c.Branch, c.Parent, id, who, "commit: "+strings.Join(strings.Fields(first), " "), index.place)
}

// moveBranch moves the branch that is checked out from one commit to another, as git
// does where refs are files: under the locks of HEAD and of the branch, with a line in
// the reflog of each. between is called under the locks. False: nothing has moved.
func (r *Repo) moveBranch(branch, from, to, who, why string, between func() bool) bool {
	head, lock := newFileOf(filepath.Join(r.gitDir, "HEAD"))
	if head == nil {
		return false
	}
	defer head.drop()
	_ = lock.Close()
	if at, state := looseRef(head.path, r.HashLen()); state != refFound || at != "ref: "+branch {
		return false
	}
	return r.moveRef(branch, from, to, who, why, []string{"HEAD", branch}, between)
}

// moveRef moves a ref that is no symbolic one, under its lock, with a line in each of
// some reflogs that are there.
func (r *Repo) moveRef(name, from, to, who, why string, logs []string, between func() bool) bool {
	ref, lock := newFileOf(filepath.Join(r.gitDir, filepath.FromSlash(name)))
	if ref == nil {
		return false
	}
	defer ref.drop()
	_, err := lock.WriteString(to + "\n")
	if cerr := lock.Close(); err != nil || cerr != nil {
		return false
	}
	if at, state := r.plainRef(name); state != refFound || at.Target != "" || at.ID != from {
		return false
	}
	var open []*os.File
	for _, log := range logs {
		file := filepath.Join(r.gitDir, "logs", filepath.FromSlash(log))
		if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
			return false // git makes one, or not
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return false
		}
		defer f.Close()
		open = append(open, f)
	}
	if !between() {
		return false
	}
	for _, f := range open {
		if _, err := f.WriteString(from + " " + to + " " + who + "\t" + why + "\n"); err != nil {
			return false
		}
	}
	return ref.place()
}

// commitsPlainly reports whether nothing in environment, configuration and hooks makes
// git commit run, sign or write anything of its own.
func (r *Repo) commitsPlainly() bool {
	if _, set := r.env.Lookup("GIT_REFLOG_ACTION"); set {
		return false
	}
	for key, values := range r.known {
		switch section, _, _ := strings.Cut(key, "."); {
		case key == "commit.gpgsign" && values[len(values)-1].text == "false":
		case section == "commit", section == "i18n", section == "hook", section == "trace2":
			return false
		}
	}
	return r.noHook("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction", "post-rewrite")
}

// plainIdentity returns author and committer as a commit names them: the configured
// user, if there is one whose name and address git takes as they are (git-commit(1),
// COMMIT INFORMATION). Variables of the environment are not heeded.
func (r *Repo) plainIdentity(when time.Time) (who string, ok bool) {
	var parts []string
	for _, key := range []string{"name", "email"} {
		values := r.known["user."+key]
		if len(values) == 0 || len(r.known["author."+key]) > 0 || len(r.known["committer."+key]) > 0 {
			return "", false
		}
		v := values[len(values)-1].text
		bare := func(c rune) bool { return c <= ' ' || strings.ContainsRune(`.,:;<>"\'`, c) }
		if v == "" || v != strings.TrimFunc(v, bare) || strings.ContainsAny(v, "<>\n\x00") || !utf8.ValidString(v) {
			return "", false
		}
		parts = append(parts, v)
	}
	return fmt.Sprintf("%s <%s> %d %s", parts[0], parts[1], when.Unix(), when.Format("-0700")), when.Unix() > 0
}
