package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// keptIn are the directories of what rigward keeps of a repository, and the beginnings of
// their names; all else there is files.
var keptIn = []string{"attest", "attest-seen", "audit-", "claims", "keys", "outbox", "threads", "verdicts-"}

// mostKept is how many files of one directory are looked at.
const mostKept = 1000

// kept names what lies in the place of a file or directory that rigward keeps and is none,
// or cannot be read. No gate takes a wrong answer from it: it costs time, or, where the
// answer is not derived, each push.
func (d *diagnosis) kept(r *gitrepo.Repo) {
	for _, dir := range slices.Compact([]string{r.CommonDir(), r.GitDir()}) {
		own := filepath.Join(dir, "rigward")
		if !d.is(own, true) {
			continue
		}
		for _, e := range listed(own) {
			name := filepath.Join(own, e.Name())
			in := slices.ContainsFunc(keptIn, func(begin string) bool {
				return e.Name() == begin || strings.HasSuffix(begin, "-") && strings.HasPrefix(e.Name(), begin)
			})
			if !d.is(name, in) || !in {
				continue
			}
			for _, e := range listed(name) {
				d.is(filepath.Join(name, e.Name()), false)
			}
		}
	}
}

func listed(dir string) []fs.DirEntry {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(mostKept)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// is tells what is wrong with a file or directory that is kept, and reports whether it is
// there and nothing is.
func (d *diagnosis) is(name string, dir bool) bool {
	shown, word := finding.Path(filepath.ToSlash(name)), finding.Word(filepath.ToSlash(name))
	info, err := os.Lstat(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			d.say(false, "%s: cannot be looked at: %s", shown, finding.Clean(files.Cause(err).Error()))
			d.hint = "chmod u+rwx " + finding.Word(filepath.ToSlash(filepath.Dir(name))) + ", as the user of the hooks"
		}
		return false
	}
	what := "file"
	if dir {
		what = "directory"
	}
	if info.IsDir() != dir || !dir && !info.Mode().IsRegular() {
		d.say(false, "%s: %s, where rigward keeps a %s", shown, kindOf(info.Mode()), what)
		d.hint = "rm -r " + word
		return false
	}
	f, err := os.OpenFile(name, os.O_RDONLY|files.NoFollow, 0)
	if err != nil {
		d.say(false, "%s: the %s cannot be read: %s", shown, what, finding.Clean(files.Cause(err).Error()))
		d.hint = "let the user of the hooks read and write it, or: rm -r " + word
		return false
	}
	f.Close()
	return true
}

// kindOf says what a file is, with its article.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a file"
}
