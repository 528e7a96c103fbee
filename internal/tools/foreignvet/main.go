// Foreignvet vets this module as it is for other systems:
//
//	go -C internal/tools run ./foreignvet -C ../.. windows/amd64 darwin/arm64
//
// It says what `GOOS=… go vet ./...` says, and what does not compile there. Go vet
// reads the dependencies' export data, for which they are compiled, SQLite and
// the standard library among them, minutes for each system. Here they are read:
// the types of their declarations, without the bodies of their functions. What an
// analyzer learns from such bodies, that a function of another module wraps
// Printf or never returns, is not known here; go vet for the own system knows it.
//
// Exit code 0 is clean, 1 is findings, 2 says that it cannot be decided.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("C", ".", "the module's `directory`")
	flag.Parse()
	code := 0
	for _, system := range flag.Args() {
		code = max(code, vetFor(*dir, system))
	}
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "foreignvet: no system is named, as in windows/amd64")
		code = 2
	}
	os.Exit(code)
}

// vetFor vets the module in dir for a system, GOOS/GOARCH.
func vetFor(dir, system string) int {
	goos, arch, ok := strings.Cut(system, "/")
	if !ok {
		fmt.Fprintf(os.Stderr, "foreignvet: %q is not GOOS/GOARCH\n", system)
		return 2
	}
	l := &loader{fset: token.NewFileSet(), done: map[*packages.Package]*sync.Once{}, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule | packages.NeedTypesSizes,
		Dir:  dir, Env: append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0"), Tests: true,
	}, "./...")
	if err != nil {
		fmt.Fprintf(os.Stderr, "foreignvet: %s: %v\n", system, err)
		return 2
	}
	var own []*packages.Package
	packages.Visit(all, nil, func(p *packages.Package) {
		l.done[p] = new(sync.Once)
		for _, e := range p.Errors {
			l.failed = append(l.failed, e)
		}
	})
	for _, p := range all {
		if !strings.HasSuffix(p.ID, ".test") { // the main package of a test, which go test writes
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		fmt.Fprintf(os.Stderr, "foreignvet: %s: no packages\n", system)
		return 2
	}
	l.each(own)
	if len(l.failed) > 0 {
		for _, err := range l.failed {
			fmt.Fprintf(os.Stderr, "%s: %v\n", system, err)
		}
		return 1
	}
	graph, err := checker.Analyze(vet.Suite, own, nil)
	if err != nil {
		fmt.Fprintf(os.Stderr, "foreignvet: %s: %v\n", system, err)
		return 2
	}
	code := 0
	for _, a := range graph.Roots {
		if a.Err != nil {
			fmt.Fprintf(os.Stderr, "foreignvet: %s: %s: %v\n", system, a, a.Err)
			code = 2
		}
		for _, d := range a.Diagnostics {
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", system, l.fset.Position(d.Pos), d.Message)
			code = max(code, 1)
		}
	}
	return code
}

// A loader gives packages their types.
type loader struct {
	fset  *token.FileSet
	done  map[*packages.Package]*sync.Once
	slots chan struct{} // what is read at once

	mu     sync.Mutex
	failed []error
}

func (l *loader) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, err)
}

// each loads packages beside each other.
func (l *loader) each(all []*packages.Package) {
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() { l.done[p].Do(func() { l.load(p) }) })
	}
	wg.Wait()
}

func (l *loader) load(p *packages.Package) {
	p.Fset, p.TypesInfo = l.fset, &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Instances: map[*ast.Ident]types.Instance{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Implicits: map[ast.Node]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Scopes: map[ast.Node]*types.Scope{}, FileVersions: map[*ast.File]string{},
	}
	if p.PkgPath == "unsafe" {
		p.Types = types.Unsafe
		return
	}
	var imports []*packages.Package
	for _, i := range p.Imports {
		imports = append(imports, i)
	}
	l.each(imports)
	l.slots <- struct{}{}
	defer func() { <-l.slots }()

	own := p.Module != nil && p.Module.Main
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(l.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			l.fail(err)
			return
		}
		files = append(files, f)
	}
	config := types.Config{
		Importer: importer(p.Imports), Sizes: p.TypesSizes, IgnoreFuncBodies: !own,
		Error: func(err error) { l.fail(err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	info := p.TypesInfo
	if own {
		p.Syntax = files
	} else {
		info = nil // nobody asks, and it is large
	}
	p.Types, _ = config.Check(p.PkgPath, l.fset, files, info) // told to Error
}

// An importer finds what a package imports, by the path in its source.
type importer map[string]*packages.Package

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := i[path]; p != nil && p.Types != nil {
		return p.Types, nil
	}
	return nil, fmt.Errorf("%s is not loaded", path)
}
