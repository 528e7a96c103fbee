// Package helptest holds what the help of a program's commands lists equal to what they
// take.
package helptest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/cli"
)

var (
	literal = regexp.MustCompile(`"(--[a-z][a-z0-9-]*)[="]`)
	named   = regexp.MustCompile(`Name: +"--[a-z0-9-]+"`)
	listed  = regexp.MustCompile(`(?m)^  (?:-[a-z], )?(--[a-z][a-z0-9-]*)`)
	quoted  = regexp.MustCompile("`[^`]*`|ssh-keygen [^.]*")
	told    = regexp.MustCompile(`--[a-z][a-z0-9-]+`)
)

// none is a flag that no command has.
const none = "--no-such-flag"

// Check tries every flag that any command of the program has, or that its source in dirs
// spells out, on every command: those that it takes are those that its help lists. run
// runs the program, which has to refuse the line, and returns what it said; values are
// values that a flag may have, where that matters. What help says in words names no
// other flags, and each flag is read somewhere in dirs.
func Check(t *testing.T, p *cli.Program, run func(c *cli.Command, args ...string) string, dirs, values []string) {
	t.Helper()
	source, all := "", []string{none}
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") {
				source += string(data)
			}
		}
	}
	for _, m := range literal.FindAllStringSubmatch(source, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	all = slices.Compact(all)
	all = slices.DeleteFunc(all, func(f string) bool { return f == "--help" || f == "--version" })
	source = named.ReplaceAllString(source, "")
	for _, c := range p.Commands {
		help := p.Help(c)
		var shown []string
		for _, m := range listed.FindAllStringSubmatch(help, -1) {
			shown = append(shown, m[1])
		}
		if first := slices.Clone(shown); len(slices.Compact(sorted(first))) != len(shown) {
			t.Errorf("%s %s lists a flag twice: %q", p.Name, c.Name, shown)
		}
		for _, f := range all {
			takes, said := false, ""
			for _, value := range append([]string{"x", ""}, values...) {
				arg := f + "=" + value
				if value == "" {
					arg = f
				}
				said = run(c, arg, none)
				takes = takes || !strings.Contains(said, `unknown flag "`+f+`"`)
			}
			if lists := slices.Contains(shown, f); takes != lists {
				t.Errorf("%s %s (%s): takes %s: %t, lists it: %t\n%s", p.Name, c.Name, c.Short, f, takes, lists, said)
			}
		}
		for _, f := range c.Flags {
			if bare := strings.TrimPrefix(f.Name, "--"); !strings.Contains(source, `"`+f.Name+`"`) && !strings.Contains(source, `"`+bare+`"`) {
				t.Errorf("%s %s lists %s, which nothing reads", p.Name, c.Name, f.Name)
			}
			if strings.Contains(f.Help, "(required)") {
				t.Errorf("%s %s: %s says (required) itself, which help says of what is", p.Name, c.Name, f.Name)
			}
		}
		for _, f := range told.FindAllString(quoted.ReplaceAllString(help, ""), -1) {
			if !slices.Contains(shown, f) {
				t.Errorf("%s %s tells of %s and does not list it", p.Name, c.Name, f)
			}
		}
		for _, line := range quoted.FindAllString(help, -1) { // another command of ours
			words := strings.Fields(strings.Trim(line, "`"))
			if len(words) < 2 || words[0] != p.Name {
				continue
			}
			other := p.Find(words[1])
			for _, f := range told.FindAllString(line, -1) {
				if other == nil || !listed.MatchString("  "+f) || !strings.Contains(p.Help(other), "\n  "+f) {
					t.Errorf("%s %s names %s, which is not there", p.Name, c.Name, line)
				}
			}
		}
	}
}

func sorted(s []string) []string { slices.Sort(s); return s }

// A full is a standard output that takes nothing.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

// NobodyWasTold runs lines of which nobody gets the result, those of help and version
// among them: they have to end with exit code 2 and to say why, once. run runs the program.
func NobodyWasTold(t *testing.T, p *cli.Program, run func(stdout io.Writer, args ...string) (code int, stderr string), lines ...[]string) {
	t.Helper()
	lines = append(lines, []string{"--help"}, []string{"version"})
	for _, c := range p.Commands {
		lines = append(lines, []string{c.Name, "--help"})
	}
	for _, args := range lines {
		if code, errs := run(io.Discard, args...); code != 0 {
			t.Errorf("%v: exit code %d\n%s", args, code, errs)
		}
		if code, errs := run(full{}, args...); code != 2 || strings.Count(errs, errFull.Error()) != 1 || strings.Contains(errs, ": :") {
			t.Errorf("%v, when standard output takes nothing: exit code %d, expected 2\n%s", args, code, errs)
		}
	}
}
