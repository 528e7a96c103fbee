package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestPathsOfBridge: pkg/policy says where policy, signers, revocations and a clone's
// configuration are, and no other file spells that out. Tests do, and what makes their
// repositories.
func TestPathsOfBridge(t *testing.T) {
	seen := false
	for _, top := range []string{"action", "cmd", "hooks", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(name string, e fs.DirEntry, err error) error {
			place, _ := filepath.Rel("../..", name)
			place = filepath.ToSlash(place)
			if err != nil || e.IsDir() || !strings.HasSuffix(place, ".go") || strings.HasSuffix(place, "_test.go") ||
				strings.HasPrefix(place, "internal/test/") || strings.HasPrefix(place, "internal/bench/") {
				return err
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING || !strings.Contains(lit.Value, ".bridge") {
					return true
				}
				if place == "pkg/policy/paths.go" {
					seen = true
				} else {
					t.Errorf("%s:%d: %s: pkg/policy/paths.go says where that is", place, fset.Position(lit.Pos()).Line, lit.Value)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !seen {
		t.Error("pkg/policy/paths.go says nothing")
	}
}
