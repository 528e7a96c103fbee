package doctest

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/rigward/rigward/internal/test/programs"
)

// cited finds the names of documents in a text.
var cited = regexp.MustCompile(`(?:[A-Za-z0-9_.\-]+/)*[A-Za-z0-9_.\-]*[A-Za-z0-9_\-]\.md(?:#[A-Za-z0-9_\-]+)?`)

// linked finds a Markdown link and its target.
var linked = regexp.MustCompile(`\[[^\[\]]*\]\(([^()\s]+)\)`)

// numbered finds a section that is cited by its number, which no document of
// ours has; of others the name stands before it.
var (
	numbered = regexp.MustCompile(`\bsections? [0-9]`)
	foreign  = regexp.MustCompile(`(RFC [0-9]+|semver\.org|CommonMark|SARIF)[ (]*$`)
)

// A citation is the name of a document where it stands.
type citation struct {
	file string // that cites, below the root, with slashes
	line int
	what string // path below the root, with the anchor if there is one
}

// lines returns what of a file may cite: of Go its comments, of anything else
// each line.
func lines(file, text string) []string {
	all := strings.Split(text, "\n")
	if path.Ext(file) != ".go" {
		return all
	}
	comments := make([]string, len(all))
	set := token.NewFileSet()
	var s scanner.Scanner
	f := set.AddFile(file, -1, len(text))
	s.Init(f, []byte(text), nil, scanner.ScanComments)
	for {
		pos, kind, comment := s.Scan()
		if kind == token.EOF {
			return comments
		}
		if kind == token.COMMENT {
			for i, line := range strings.Split(comment, "\n") {
				comments[f.Line(pos)-1+i] += " " + line
			}
		}
	}
}

// citations returns what a file cites: in a document its links, in any file
// what has docs/ or spec/ at the begin of its path, and numbers of sections.
func citations(file, text string) []citation {
	var all []citation
	code := false
	for i, line := range lines(file, text) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if strings.HasSuffix(file, ".md") && !code {
			for _, m := range linked.FindAllStringSubmatch(line, -1) {
				if to := m[1]; !strings.Contains(to, ":") {
					if !strings.HasPrefix(to, "#") {
						to = path.Join(path.Dir(file), to)
					} else {
						to = file + to
					}
					all = append(all, citation{file, i + 1, to})
				}
			}
			line = linked.ReplaceAllString(line, "")
		}
		for _, at := range cited.FindAllStringIndex(line, -1) {
			what := line[at[0]:at[1]]
			for rest := what; strings.HasPrefix(rest, "../"); {
				if rest = rest[3:]; strings.HasPrefix(rest, "docs/") {
					what = rest
				}
			}
			dir, _, _ := strings.Cut(what, "/")
			// A pattern (docs/formats*.md) or a name within a larger one is none.
			if dir != "docs" && dir != "spec" || at[0] > 0 && strings.ContainsRune("*/.-", rune(line[at[0]-1])) {
				continue
			}
			all = append(all, citation{file, i + 1, what})
		}
		for _, at := range numbered.FindAllStringIndex(line, -1) {
			if !foreign.MatchString(line[:at[0]]) {
				all = append(all, citation{file, i + 1, line[at[0]:]})
			}
		}
	}
	return all
}

// anchors returns the anchors of a document as GitHub makes them: of each
// heading, in lower case, its letters, digits, hyphens and underscores, blanks
// as hyphens, with a number from the second of a name on.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		title := strings.TrimLeft(line, "#")
		if code || title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		for n, base := 1, name; all[name]; n++ {
			name = base + "-" + string(rune('0'+n))
		}
		all[name] = true
	}
	return all
}

// nowhere returns what is wrong with a citation of a document in a tree, "" if
// nothing is.
func nowhere(tree fs.FS, c citation) string {
	file, anchor, cut := strings.Cut(c.what, "#")
	info, err := fs.Stat(tree, file)
	switch {
	case numbered.MatchString(c.what):
		return "a section by number"
	case err != nil:
		return "no such file"
	case !cut:
		return ""
	case info.IsDir() || !strings.HasSuffix(file, ".md"):
		return "no document with anchors"
	}
	text, err := fs.ReadFile(tree, file)
	if err != nil {
		return err.Error()
	}
	if !anchors(string(text))[anchor] {
		return "no such heading"
	}
	return ""
}

// sourcesOf calls fn for the files of the project that people write.
func sourcesOf(t *testing.T, tree fs.FS, fn func(file, text string)) {
	t.Helper()
	err := fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name := d.Name(); name == ".git" || name == "testdata" || name == "node_modules" || name == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		switch path.Ext(file) {
		case ".go", ".md", ".yml", ".yaml", ".json", ".sh", "":
		default:
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := fs.ReadFile(tree, file)
		if err == nil {
			fn(file, string(data))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCitationsLeadSomewhere looks up every document that code or another
// document names, and the heading in it.
func TestCitationsLeadSomewhere(t *testing.T) {
	tree := os.DirFS(programs.Root(t))
	specs := 0
	sourcesOf(t, tree, func(file, text string) {
		for _, c := range citations(file, text) {
			if why := nowhere(tree, c); why != "" {
				t.Errorf("%s:%d: %s: %s", c.file, c.line, c.what, why)
			}
			if strings.HasPrefix(c.what, "docs/spec/") {
				specs++
			}
		}
	})
	if specs < 100 {
		t.Errorf("only %d citations of docs/spec were found", specs)
	}
}

// TestCitationsCanFail holds that the test above sees what leads nowhere.
func TestCitationsCanFail(t *testing.T) {
	root := t.TempDir()
	tree := os.DirFS(root)
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("docs/spec/a.md", "# A\n\n## The first one\n\n## `x`, y\n\n## x y\n\n```\n## code\n```\n")
	for text, want := range map[string]string{
		"// see docs/spec/a.md.":                         "",
		"// see docs/spec/a.md#the-first-one, which":     "",
		"// docs/spec/a.md#x-y and docs/spec/a.md#x-y-1": "",
		"// ../../docs/spec/a.md":                        "",
		"// docs/spec*.md, the file x.md, a/docs/b.md":   "",
		"// docs/spec/a.md#second":                       "no such heading",
		"// docs/spec/a.md#code":                         "no such heading",
		"// docs/spec/b.md":                              "no such file",
		"// (spec/a.md)":                                 "no such file",
		"// docs/spec/a.md, section 3":                   "a section by number",
		"// RFC 4251 section 5, (semver.org section 11)": "",
		"x := \"docs/b.md\"":                             "",
		"// docs/b.md#x":                                 "no such file",
	} {
		why := ""
		for _, c := range citations("pkg/x.go", text) {
			if w := nowhere(tree, c); w != "" {
				why = w
			}
		}
		if why != want {
			t.Errorf("%q: %q, expected %q", text, why, want)
		}
	}
	for text, want := range map[string]string{
		"[a](spec/a.md#the-first-one) and [b](https://example.com/x.md)": "",
		"[a](spec/a.md#third)": "no such heading",
		"[a](#here)":           "no such heading",
		"[a](../LICENSE)":      "no such file",
		"# Here\n\n[a](#here)": "",
	} {
		write("docs/b.md", text)
		why := ""
		for _, c := range citations("docs/b.md", text) {
			if w := nowhere(tree, c); w != "" {
				why = w
			}
		}
		if why != want {
			t.Errorf("%q: %q, expected %q", text, why, want)
		}
	}
}
