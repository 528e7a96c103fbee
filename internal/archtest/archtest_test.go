package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rigward/rigward/"

// below says, for each package or group, what it may import of this module.
// A group ends in "/…" and stands for all packages below it. What is not
// listed fails: a new package takes its place here.
var below = map[string][]string{
	"pkg/finding":           {},
	"pkg/yamlprofile":       {"pkg/finding"},
	"internal/portable":     {"pkg/finding"},
	"schemas":               {},
	"pkg/sshsign":           {"pkg/finding"},
	"pkg/screen":            {"pkg/finding"},
	"pkg/envelope":          {"pkg/finding", "internal/portable", "pkg/screen", "pkg/yamlprofile", "schemas"},
	"internal/userschema":   {"pkg/finding", "internal/portable", "pkg/yamlprofile", "pkg/envelope", "schemas"},
	"pkg/relay":             {"pkg/finding", "pkg/envelope"},
	"pkg/bundle":            {"internal/files", "pkg/finding", "internal/portable", "pkg/screen", "pkg/sshsign"},
	"pkg/bundle/…":          {"pkg/finding", "internal/portable", "pkg/sshsign", "pkg/yamlprofile", "pkg/bundle", "schemas"},
	"pkg/gitrepo":           {"internal/files", "pkg/finding", "internal/portable"},
	"internal/gittree":      {"pkg/bundle", "pkg/gitrepo"},
	"internal/image":        {"pkg/finding", "pkg/bundle", "pkg/bundle/agent", "pkg/sshsign"},
	"internal/cli":          {"pkg/finding"},
	"internal/files":        {"pkg/finding"},
	"internal/resident":     {},
	"internal/shebang":      {},
	"internal/change":       {"pkg/finding"},
	"internal/report":       {"pkg/finding"},
	"internal/order":        {"pkg/envelope"},
	"internal/outbox":       {"internal/files"},
	"internal/stream":       {"internal/outbox", "pkg/finding", "pkg/policy"},
	"internal/attest":       {"internal/files", "internal/outbox", "pkg/finding", "pkg/sshsign", "pkg/gitrepo", "pkg/policy"},
	"internal/history":      {"internal/files", "pkg/finding", "pkg/envelope", "pkg/gitrepo"},
	"pkg/policy":            {"pkg/finding", "pkg/yamlprofile", "pkg/envelope", "pkg/sshsign", "pkg/gitrepo", "schemas"},
	"pkg/rules":             {"pkg/finding", "internal/portable", "pkg/screen", "pkg/yamlprofile", "pkg/envelope", "pkg/relay", "pkg/sshsign", "pkg/policy", "internal/history", "internal/order", "pkg/gitrepo", "internal/change"},
	"internal/controlplane": {"internal/outbox", "internal/order", "internal/history", "internal/verdict", "pkg/finding", "pkg/screen", "pkg/envelope", "pkg/relay", "pkg/sshsign", "pkg/gitrepo", "pkg/policy", "pkg/rules"},
	"docs":                  {},
	"internal/console":      {"docs", "internal/controlplane", "internal/order", "internal/outbox", "internal/report", "pkg/envelope", "pkg/finding", "pkg/gitrepo"},
	"internal/drift/ask":    {"pkg/finding", "pkg/gitrepo", "pkg/policy", "pkg/rules", "internal/report"},
	"internal/drift":        {"internal/drift/ask", "pkg/finding", "internal/portable", "pkg/gitrepo", "internal/gittree", "pkg/policy", "pkg/rules", "internal/report", "pkg/bundle", "pkg/bundle/…", "pkg/screen"},
	"internal/verdict":      {"internal/files", "pkg/finding", "pkg/sshsign", "internal/history", "internal/order", "pkg/gitrepo", "pkg/policy", "pkg/rules"},
	"internal/bridge":       {"internal/attest", "internal/files", "internal/order", "pkg/finding", "pkg/screen", "internal/cli", "internal/verdict", "internal/portable", "pkg/yamlprofile", "pkg/envelope", "pkg/relay", "pkg/sshsign", "internal/history", "pkg/gitrepo", "internal/change", "pkg/policy", "pkg/rules", "internal/report", "schemas"},
	"hooks":                 {"pkg/…", "internal/…", "schemas"},
	"internal/ci":           {"pkg/finding", "pkg/gitrepo", "pkg/policy", "pkg/rules", "internal/change", "hooks"},
	"action":                {"pkg/…", "internal/…", "hooks", "schemas"},
	"cmd/…":                 {"pkg/…", "internal/…", "hooks", "action", "schemas", "cmd/internal/…"},
	"internal/test/…":       {"pkg/…", "internal/cli", "internal/files", "internal/resident", "internal/test/…", "schemas"},
	"internal/release":      {"pkg/bundle"},
	"internal/bench":        {"pkg/…", "hooks", "internal/…", "schemas"},
	"internal/attack":       {}, "internal/archtest": {}, "internal/cases": {}, "internal/doctest": {},
	"internal/faults": {}, "internal/managers": {}, "internal/servers": {},
}

// pure packages work on bytes: no git and no gate may come near them.
var pure = []string{"pkg/finding", "pkg/envelope", "pkg/relay", "pkg/screen", "pkg/sshsign", "pkg/bundle", "pkg/yamlprofile", "internal/portable"}

type pkg struct {
	ImportPath, Dir string
	Imports, Deps   []string
	GoFiles         []string
	IgnoredGoFiles  []string
}

func load(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Imports,Deps,GoFiles,IgnoredGoFiles", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]pkg{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(p.ImportPath, module)] = p
	}
	if len(all) < 15 {
		t.Fatalf("go list names %d packages only", len(all))
	}
	return all
}

func matches(pattern, name string) bool {
	if group, ok := strings.CutSuffix(pattern, "…"); ok {
		return strings.HasPrefix(name, group)
	}
	return pattern == name
}

// allowed returns what a package may import, by its own entry or its group's.
func allowed(name string) ([]string, bool) {
	if list, ok := below[name]; ok {
		return list, true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if list, ok := below[dir+"/…"]; ok {
			return list, true
		}
	}
	return nil, false
}

// arrows returns what is wrong with the imports of a package.
func arrows(name string, imports []string) (wrong []string) {
	list, ok := allowed(name)
	if !ok {
		return []string{"has no place in the house yet"}
	}
	for _, i := range imports {
		if i, ours := strings.CutPrefix(i, module); ours && !slices.ContainsFunc(list, func(p string) bool { return matches(p, i) }) {
			wrong = append(wrong, "imports "+i)
		}
	}
	return wrong
}

func TestDependenciesPointOneWay(t *testing.T) {
	for name, p := range load(t) {
		for _, w := range arrows(name, p.Imports) {
			t.Errorf("%s %s", name, w)
		}
		if slices.ContainsFunc(pure, func(q string) bool { return name == q || strings.HasPrefix(name, q+"/") }) {
			for _, d := range p.Deps {
				if d, ours := strings.CutPrefix(d, module); ours && slices.Contains([]string{"pkg/gitrepo", "internal/history", "pkg/policy", "pkg/rules", "internal/change", "hooks"}, d) {
					t.Errorf("%s depends on %s, and is to be pure", name, d)
				}
			}
		}
	}
}

// TestArrowsCanFail shows that the rule refuses what it is there to refuse.
func TestArrowsCanFail(t *testing.T) {
	for name, i := range map[string]string{
		"pkg/envelope": "pkg/gitrepo", "pkg/finding": "internal/report", "pkg/gitrepo": "pkg/policy", "pkg/policy": "pkg/rules", "pkg/rules": "hooks",
		"pkg/bundle/rig": "pkg/gitrepo", "internal/report": "pkg/policy", "hooks": "cmd/rig-hook", "pkg/brand-new": "pkg/finding",
	} {
		if len(arrows(name, []string{module + i})) == 0 {
			t.Errorf("%s may import %s", name, i)
		}
	}
}

// TestDriversAreApart holds the databases' drivers, which cost every start of a
// process that links them, in rig-control, which links them.
func TestDriversAreApart(t *testing.T) {
	drivers := func(p pkg) (found []string) {
		for _, d := range p.Deps {
			if strings.HasPrefix(d, "modernc.org/") || strings.HasPrefix(d, "github.com/jackc/") || strings.HasPrefix(d, "github.com/nats-io/") {
				found = append(found, d)
			}
		}
		return found
	}
	all := load(t)
	for name, p := range all {
		if name == "cmd/rig-control" || name == "internal/controlplane" || name == "internal/console" || name == "internal/stream" || forTests(name) {
			continue
		}
		if d := drivers(p); len(d) > 0 {
			t.Errorf("%s depends on %s", name, d[0])
		}
	}
	if len(drivers(all["cmd/rig-control"])) < 2 {
		t.Error("rig-control links no driver, so nothing was tested")
	}
}

// TestStartsAreLean holds out of the programs that run at each commit and push what
// costs every start of them: a template engine keeps all methods of all types in a
// program, and go-git, a schema engine, archives and the languages of the world set up
// tables.
func TestStartsAreLean(t *testing.T) {
	heavy := []string{"html/template", "text/template", "net/http", "encoding/gob", "github.com/go-git/", "github.com/santhosh-tekuri/",
		"archive/tar", "github.com/klauspost/compress/", "golang.org/x/text/cases", "golang.org/x/text/language"}
	all := load(t)
	for _, name := range []string{"cmd/rig-hook", "cmd/rig-bridge"} {
		if !slices.Contains(all[name].Deps, "regexp") {
			t.Errorf("%s depends on nothing that is known, so nothing was tested", name)
		}
		for _, d := range all[name].Deps {
			if slices.ContainsFunc(heavy, func(h string) bool { return d == h || strings.HasSuffix(h, "/") && strings.HasPrefix(d, h) }) {
				t.Errorf("%s depends on %s", name, d)
			}
		}
	}
}

// TestProtocolIsApart holds the SDK of MCP in rig-mcp, for the same reason.
func TestProtocolIsApart(t *testing.T) {
	linked := false
	for name, p := range load(t) {
		sdk := slices.ContainsFunc(p.Deps, func(d string) bool { return strings.HasPrefix(d, "github.com/modelcontextprotocol/") })
		if linked = linked || sdk && name == "cmd/rig-mcp"; sdk && name != "cmd/rig-mcp" {
			t.Errorf("%s depends on the SDK of MCP", name)
		}
	}
	if !linked {
		t.Error("rig-mcp does not link it, so nothing was tested")
	}
}

// TestRegistriesAreApart holds what speaks to registries, and HTTP with it, away from everything but rig-bundle and the
// action: no hook has a network.
func TestRegistriesAreApart(t *testing.T) {
	linked := false
	for name, p := range load(t) {
		speaks := slices.ContainsFunc(p.Deps, func(d string) bool { return strings.HasPrefix(d, "github.com/google/go-containerregistry/") })
		if linked = linked || speaks && name == "cmd/rig-bundle"; speaks && !slices.Contains([]string{"cmd/rig-bundle", "cmd/rig-action", "action", "internal/image"}, name) && !forTests(name) {
			t.Errorf("%s depends on the client of registries", name)
		}
	}
	if !linked {
		t.Error("rig-bundle does not link it, so nothing was tested")
	}
}

// forbidden names what only main may touch: the process, its environment and
// the clock.
var forbidden = map[string][]string{
	"os":   {"Exit", "Getenv", "LookupEnv", "Environ", "Setenv", "Getwd", "Args", "Stdin", "Stdout", "Stderr"},
	"time": {"Now", "Since", "Until"},
}

func TestProcessClockAndEnvironmentAreGiven(t *testing.T) {
	for name, p := range load(t) {
		if strings.HasPrefix(name, "cmd/") || forTests(name) {
			continue
		}
		for _, file := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range uses(f, name) {
				t.Errorf("%s/%s %s", name, file, w)
			}
		}
	}
}

// forTests reports whether a package is part of no program that is shipped.
func forTests(name string) bool {
	return slices.ContainsFunc([]string{"internal/test/", "internal/bench", "internal/archtest", "internal/attack", "internal/cases",
		"internal/doctest", "internal/faults", "internal/managers", "internal/release", "internal/servers"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// uses returns what a file uses that is not for it.
func uses(f *ast.File, name string) (wrong []string) {
	known := map[string]string{}
	for _, i := range f.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		if p == "os/exec" && name != "pkg/gitrepo" {
			wrong = append(wrong, "imports os/exec")
		}
		as := path.Base(p)
		if i.Name != nil {
			as = i.Name.Name
		}
		if _, is := forbidden[p]; is {
			if as == "." {
				wrong = append(wrong, "imports "+p+" into its own names")
			}
			known[as] = p
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && slices.Contains(forbidden[known[id.Name]], sel.Sel.Name) {
			wrong = append(wrong, "uses "+known[id.Name]+"."+sel.Sel.Name)
		}
		return true
	})
	return wrong
}

func TestUsesCanFail(t *testing.T) {
	src := "package x\nimport (\"os\"; \"os/exec\"; clock \"time\")\nvar _ = os.Getenv\nvar _ = clock.Now\nvar _ exec.Cmd\n"
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := uses(f, "pkg/x"); len(got) != 3 {
		t.Errorf("found %v", got)
	}
}
