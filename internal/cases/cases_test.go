package cases

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/cases.md anew")

const (
	root  = "../../"
	table = root + "docs/cases.md"
	head  = `# Every case and its test

What went wrong in similar tools, as their users reported it (A to I), and attacks that were tried on this one (J). Each
has an id, one line that says what goes wrong, and a test that plays it, the lawful neighbour included, and names the
id. A test fails if an id has no line, no row, or a row's test does not name it. The lines are in
` + "`internal/cases/testdata/ids.txt`; to write the table anew: `go test ./internal/cases -update`" + `.

| case | what goes wrong | test |
|---|---|---|
`
)

// A place is a test function, or a whole script.
type place struct{ file, name string }

func (p place) String() string {
	if p.name == "" {
		return p.file
	}
	return p.file + ":" + p.name
}

// names finds case ids in a text; TestD07Other names one, too.
var names = regexp.MustCompile(`(?:^|[^A-Za-z0-9]|Test)([A-J][0-9]{2})(?:[^A-Za-z0-9]|[A-Z][a-z]|$)`)

func idsIn(text string) map[string]bool {
	found := map[string]bool{}
	for text != "" {
		m := names.FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		found[text[m[2]:m[3]]] = true
		text = text[m[3]:]
	}
	return found
}

// places reads what every test of the repository names, by id and in order.
func places(t *testing.T) map[string][]place {
	t.Helper()
	out := map[string][]place{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(file, filepath.FromSlash(root)))
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".git") && d.Name() != ".." || rel == "internal/cases" {
				return fs.SkipDir
			}
			return nil
		}
		var data []byte
		switch {
		case strings.HasSuffix(rel, ".txtar"):
			if data, err = os.ReadFile(file); err != nil {
				return err
			}
			for id := range idsIn(string(data)) {
				out[id] = append(out[id], place{rel, ""})
			}
		case strings.HasSuffix(rel, "_test.go"):
			if data, err = os.ReadFile(file); err != nil {
				return err
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, data, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
					continue
				}
				from := fn.Pos()
				if fn.Doc != nil {
					from = fn.Doc.Pos()
				}
				for id := range idsIn(string(data[set.Position(from).Offset:set.Position(fn.End()).Offset])) {
					out[id] = append(out[id], place{rel, fn.Name.Name})
				}
			}
			// A table of cases beside the tests that run it.
			for id := range idsIn(string(data)) {
				if !slices.ContainsFunc(out[id], func(p place) bool { return p.file == rel }) {
					out[id] = append(out[id], place{rel, ""})
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b place) int {
			if (a.name == "") != (b.name == "") { // a function says more than a file
				if a.name == "" {
					return 1
				}
				return -1
			}
			return strings.Compare(a.String(), b.String())
		})
	}
	return out
}

// ids returns the ids of the list in their order, and what each of them is.
func ids(t *testing.T) (all []string, says map[string]string) {
	t.Helper()
	data, err := os.ReadFile("testdata/ids.txt")
	if err != nil {
		t.Fatal(err)
	}
	says = map[string]string{}
	for line := range strings.Lines(string(data)) {
		id, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, id)
		says[id] = text
	}
	return all, says
}

// TestEveryCaseIsDescribed demands one line for each id, in words of its own.
func TestEveryCaseIsDescribed(t *testing.T) {
	all, says := ids(t)
	of := map[string]string{}
	for _, id := range all {
		switch text := says[id]; {
		case len(text) < 20 || len(text) > 120 || strings.HasSuffix(text, ".") || strings.Contains(text, "|"):
			t.Errorf("%s: %q is not a line of 20 to 120 bytes without a final period", id, text)
		case of[text] != "":
			t.Errorf("%s and %s have one description", of[text], id)
		default:
			of[text] = id
		}
	}
}

// TestIdsAreThoseOfTheList compares the ids kept here with the list itself
// where it lies beside the repository.
func TestIdsAreThoseOfTheList(t *testing.T) {
	var list []string
	for _, name := range []string{"cases.md", "cases2.md"} {
		data, err := os.ReadFile(root + "../shared/cases/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("the lists of cases are not here; the ids kept in testdata count")
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\| ([A-J][0-9]{2})\b`).FindAllStringSubmatch(string(data), -1) {
			list = append(list, m[1])
		}
	}
	if all, _ := ids(t); !slices.Equal(list, all) {
		t.Errorf("testdata/ids.txt and the list differ:\n%v\n%v", all, list)
	}
}

func TestEveryCaseHasATest(t *testing.T) {
	found := places(t)
	all, says := ids(t)
	if *update {
		var b strings.Builder
		b.WriteString(head)
		for _, id := range all {
			var links []string
			for i, p := range found[id] {
				if i == 3 {
					break
				}
				links = append(links, "`"+p.String()+"`")
			}
			if len(links) == 0 {
				t.Errorf("no test names %s", id)
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", id, says[id], strings.Join(links, ", "))
		}
		if err := os.WriteFile(table, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| ([A-J][0-9]{2}) \\| ([^|]*) \\| (`[^|]*`) \\|$").FindAllStringSubmatch(string(data), -1) {
		if rows[m[1]] != nil {
			t.Errorf("two rows of %s", m[1])
		}
		if m[2] != says[m[1]] {
			t.Errorf("docs/cases.md says of %s %q, testdata/ids.txt %q; write it with: go test ./internal/cases -update", m[1], m[2], says[m[1]])
		}
		rows[m[1]] = strings.Split(strings.Trim(m[3], "`"), "`, `")
	}
	for _, id := range all {
		if len(rows[id]) == 0 {
			t.Errorf("%s has no row in docs/cases.md; a test that names it, then: go test ./internal/cases -update", id)
		}
		for _, test := range rows[id] {
			if !slices.ContainsFunc(found[id], func(p place) bool { return p.String() == test || p.file == test }) {
				t.Errorf("%s: %s does not name it", id, test)
			}
		}
		delete(rows, id)
	}
	for id := range rows {
		t.Errorf("%s is not a case", id)
	}
}
