package bundle

import "testing"

// J11: other names of .git are no names of members; names near them are.
func TestJ11OtherNamesOfGit(t *testing.T) {
	for _, name := range []string{
		"git~1/hooks/x", "GIT~1/config", "git~2/x", ".git./hooks/x", ".git /hooks/x", ".git::$INDEX_ALLOCATION/x", ".git:x", "a/.g\u200cit/x",
		".git\ufeff", "\u202e.GIT/x", ".g\u200bit/config", "\uff0egit/x", "deep/er/.git.",
	} {
		if f := CheckName(name); f == nil || f.Code != MemberName {
			t.Errorf("%q: %v", name, f)
		}
	}
	for _, name := range []string{".github/workflows/x", ".gitignore", ".gitattributes", ".gitkeep", "git/x", "x.git/y", "digit~1", ".gitx/y", "git~x"} {
		if f := CheckName(name); f != nil {
			t.Errorf("%q: %v", name, f)
		}
	}
}
