package portable_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/internal/test/gittest"
)

// gitNames makes names that git could take for .git, and their neighbours:
// parts of such names, put together at random.
func gitNames(rnd *rand.Rand, n int) []string {
	heads := []string{".git", "git~1", ".git", ".git", ".git", "git~1", ".git", ".gi", "git", ".gitx", "x.git", "git~2", "git~10", ".g", "gi7eba~1", ".gitmodules", "git~", "..git", " .git", "a"}
	tails := []string{"", ".", " ", ":", "\\", "::$INDEX_ALLOCATION", ":$I30:$INDEX_ALLOCATION", "::$DATA", "\t", "x", "~1", "\xff", "\xc3", "\xed\xa0\x80",
		"\u00a0", "\uff0e", "\ufffe", "\uffff", "\ufffd", "\u3000"}
	marks := []string{"\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u202a", "\u202e", "\u2029", "\u202f", "\u2060", "\u2069", "\u206a", "\u206f", "\u2070",
		"\ufeff", "\u00ad", "\ufe0f", "\u034f", "\u0307", "\u061c"}
	seen := map[string]bool{}
	var names []string
	for len(names) < n {
		name := heads[rnd.IntN(len(heads))]
		for rnd.IntN(3) == 0 {
			name += tails[rnd.IntN(len(tails))]
		}
		for rnd.IntN(3) == 0 {
			i := rnd.IntN(len(name) + 1)
			name = name[:i] + marks[rnd.IntN(len(marks))] + name[i:]
		}
		if rnd.IntN(3) == 0 {
			b := []byte(name)
			i := rnd.IntN(len(b))
			if b[i] >= 'a' && b[i] <= 'z' {
				b[i] -= 'a' - 'A'
			}
			name = string(b)
		}
		switch rnd.IntN(8) {
		case 0:
			name = "dir\\" + name
		case 1:
			name += "\\" + heads[rnd.IntN(len(heads))]
		}
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// J11, J06: of every name git's own check and DotGit say the same, and what
// they take for .git is refused by TakenForGit.
func TestDotGitIsWhatGitRefuses(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	blob := r.Blob("x")
	names := gitNames(rand.New(rand.NewPCG(17, 3)), 1500)
	tree := map[string]string{}
	for _, name := range names {
		tree[r.WriteObject("tree", gittest.RawTree(gittest.TreeEntry{Mode: "100644", Name: name, ID: blob}))] = name
	}
	out := r.Try(nil, "fsck", "--no-dangling", "--no-progress")
	refused := map[string]bool{}
	for line := range strings.SplitSeq(string(out.Stdout)+string(out.Stderr), "\n") {
		if _, rest, ok := strings.Cut(line, " in tree "); ok && strings.Contains(rest, ": hasDotgit:") {
			refused[tree[rest[:strings.IndexByte(rest, ':')]]] = true
		}
	}
	if n := len(refused); n < len(names)/10 || n > len(names)*9/10 {
		t.Fatalf("git refuses %d of %d names: %.300s", n, len(names), out.Stderr)
	}
	for _, name := range names {
		if got := portable.DotGit(name); got != refused[name] {
			t.Errorf("%q: git says %v, we say %v", name, refused[name], got)
		}
		if refused[name] && !portable.TakenForGit(name) {
			t.Errorf("%q is not taken for .git, and git does", name)
		}
	}
	// The index says the same as fsck.
	for _, name := range names[:60] {
		if strings.HasPrefix(name, "../") || name == ".." {
			continue
		}
		res := r.Try(nil, "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true",
			"update-index", "--add", "--cacheinfo", fmt.Sprintf("100644,%s,%s", blob, name))
		if (res.Code != 0) != portable.DotGit(name) {
			t.Errorf("%q: git update-index exits %d, we say %v: %s", name, res.Code, portable.DotGit(name), res.Stderr)
		}
	}
}

func TestTakenForGit(t *testing.T) {
	for _, name := range []string{
		".git", ".GIT", ".Git. ", "git~1", "GIT~1.", ".git::$INDEX_ALLOCATION", ".g\u200cit", `x\.git`,
		"git~2", "GIT~4", ".g\u200bit", ".git\u00ad", ".git\ufe0f", "\uff0egit", // beyond what git refuses
	} {
		if !portable.TakenForGit(name) {
			t.Errorf("%q passes", name)
		}
	}
	for _, name := range []string{".gitignore", ".github", ".gitkeep", ".gitmodules", ".gitattributes", "git", "x.git", ".git-x", ".gi", "git~", "git~x", "gitx~1", "..git", ".g\u0456t"} {
		if portable.TakenForGit(name) {
			t.Errorf("%q is refused", name)
		}
	}
}
