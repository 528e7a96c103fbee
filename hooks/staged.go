package hooks

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/internal/files"
)

// What pre-commit has found of an index is kept for commit-msg, which git starts on
// the same index right after it: whether something staged must be signed. It is in the
// clone of the one who commits, who can leave out both hooks as well. The message
// itself is always read.
//
// The file rigward/staged of a worktree's git directory has one line: a form, a hash of
// all that the answer depends on, and the answer.
const stagedForm = "1 "

// stagedFile is where it is kept.
func (g *gate) stagedFile() string { return filepath.Join(g.repo.GitDir(), "rigward", "staged") }

// stagedKey returns what the answer depends on: the program, the index, HEAD, the
// commit whose policy counts, and the client's own policy. ok is false where it
// depends on more: on files that the configuration names.
func (g *gate) stagedKey(mark, head, root string) (key string, ok bool) {
	if others, err := g.loader.ServerPaths(); others || err != nil {
		return "", false
	}
	own, none := files.Read(filepath.Join(g.repo.CommonDir(), "rigward.yaml"))
	if none != nil && !errors.Is(none, fs.ErrNotExist) {
		return "", false
	}
	program, err := g.env.Program()
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %q %q %q %t %q", program, mark, head, root, none == nil, own))), true
}

// keepStaged keeps what was found of an index that had this mark before it was read.
func (g *gate) keepStaged(mark, head string) {
	if again, ok := g.repo.IndexMark(); !ok || again != mark {
		return // another process has staged something meanwhile
	}
	key, ok := g.stagedKey(mark, head, g.rootID)
	if !ok {
		return
	}
	file := g.stagedFile()
	text := []byte(stagedForm + key + " " + g.judge.Signs + "\n")
	if files.Keep(file, text, 0o644) != nil && os.Mkdir(filepath.Dir(file), 0o777) == nil {
		_ = files.Keep(file, text, 0o644) // else commit-msg reads the index itself
	}
}

// keptStaged returns what must be signed as pre-commit has found it of this index; ok
// is false where it has not.
func (g *gate) keptStaged() (signs string, ok bool) {
	data, err := files.Kept(g.stagedFile())
	if err != nil {
		return "", false
	}
	mark, ok := g.repo.IndexMark()
	if !ok {
		return "", false
	}
	branch, head, err := g.repo.HEAD()
	if err != nil {
		return "", false
	}
	root, err := g.rootOf(branch, head)
	if err != nil {
		return "", false
	}
	key, ok := g.stagedKey(mark, head, root)
	if !ok {
		return "", false
	}
	rest, ok := strings.CutPrefix(string(data), stagedForm+key+" ")
	signs, whole := strings.CutSuffix(rest, "\n")
	return signs, ok && whole
}
