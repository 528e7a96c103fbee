package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExportedNamesAreUsed holds names capital only where another package needs them: a function, type, variable or
// constant of a package that no other program may import has to be named by another package, or stand in the signature
// of what is.
func TestExportedNamesAreUsed(t *testing.T) {
	files := parseAll(t, "../..")
	for _, unused := range unusedNames(files, func(dir string) bool {
		return strings.HasPrefix(dir, "internal/") || strings.HasPrefix(dir, "cmd/internal/") || dir == "hooks" || dir == "action"
	}) {
		t.Error(unused)
	}
}

// sourceFile is one file of the module, dir and name being slash paths below its root.
type sourceFile struct {
	dir, name string
	ast       *ast.File
}

// own reports whether the file is a test of its directory's package.
func (f sourceFile) own() bool { return strings.HasSuffix(f.name, "_test.go") }

func parseAll(t *testing.T, root string) (files []sourceFile) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") {
			return err
		}
		f, err := parser.ParseFile(fset, p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		files = append(files, sourceFile{path.Dir(rel), path.Base(rel), f})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// unusedNames returns the exported top-level names of the packages that judged selects which no other package names,
// and no declaration that one names.
func unusedNames(files []sourceFile, judged func(dir string) bool) (unused []string) {
	used := map[string]bool{} // "dir.Name"
	for _, f := range files {
		imports := map[string]string{}
		for _, i := range f.ast.Imports {
			if p, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ours && p != f.dir {
				as := path.Base(p)
				if i.Name != nil {
					as = i.Name.Name
				}
				imports[as] = p
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok && imports[id.Name] != "" {
					used[imports[id.Name]+"."+sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	exported, needs := map[string]bool{}, map[string][]string{} // needs: what a declaration's signature names
	for _, f := range files {
		if f.own() || !judged(f.dir) {
			continue
		}
		for _, decl := range f.ast.Decls {
			for name, signature := range declared(decl) {
				key := f.dir + "." + name
				exported[key] = exported[key] || !strings.Contains(name, "(")
				ast.Inspect(signature, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok && id.IsExported() {
						needs[key] = append(needs[key], f.dir+"."+id.Name)
					}
					return true
				})
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for key, names := range needs {
			owner, _, _ := strings.Cut(key, "(")
			for _, n := range names {
				if used[owner] && !used[n] {
					used[n], changed = true, true
				}
			}
		}
	}
	for key, is := range exported {
		if is && !used[key] {
			unused = append(unused, key)
		}
	}
	slices.Sort(unused)
	return unused
}

// declared returns the exported names of a declaration, each with the part of it that a caller sees. A method has the
// name "Type(Method".
func declared(decl ast.Decl) map[string]ast.Node {
	names := map[string]ast.Node{}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() {
			break
		}
		if d.Recv == nil {
			names[d.Name.Name] = d.Type
			break
		}
		recv := d.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		if id, ok := recv.(*ast.Ident); ok {
			names[id.Name+"("+d.Name.Name] = d.Type
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					names[s.Name.Name] = s.Type
				}
			case *ast.ValueSpec:
				for _, id := range s.Names {
					if id.IsExported() {
						names[id.Name] = ast.Node(id)
						if s.Type != nil {
							names[id.Name] = s.Type
						}
					}
				}
			}
		}
	}
	return names
}

// TestUnusedNamesCanFail shows what counts as used.
func TestUnusedNamesCanFail(t *testing.T) {
	fset := token.NewFileSet()
	file := func(dir, name, src string) sourceFile {
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		return sourceFile{dir, name, f}
	}
	files := []sourceFile{
		file("internal/x", "x.go", "package x\nfunc Used() *Result { return nil }\ntype Result struct{}\nfunc (Result) Part() Part { return 0 }\ntype Part int\nfunc Unused() {}\nconst Limit = 1"),
		file("internal/x", "x_test.go", "package x_test\nimport \""+module+"internal/x\"\nvar _ = x.Limit"),
		file("internal/y", "y_test.go", "package y\nimport z \""+module+"internal/x\"\nvar _ = z.Used"),
	}
	if got := unusedNames(files, func(string) bool { return true }); !slices.Equal(got, []string{"internal/x.Limit", "internal/x.Unused"}) {
		t.Errorf("found %v", got)
	}
}
