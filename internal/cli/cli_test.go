package cli

import (
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/finding"
)

func table() *Program {
	return &Program{
		Name: "rig-test", About: "Tests: what's \\told [here].", Common: []Flag{{Name: "--json", Help: "print JSON"}},
		Exit: []Exit{{"0", "done"}},
		Commands: []*Command{
			{Name: "send", Short: "send it's message", Words: []Word{{Name: "type", Required: true, Values: []string{"A", "HANDOFF"}}}, Flags: []Flag{
				{Name: "--to", Value: "IDS", Many: true, Help: "who: [all]"}, {Name: "--tldr", Value: "TEXT", Help: "summary"},
				{Name: "--status", Value: "S", Help: "line"}, {Name: "--thread", Value: "THREAD", Help: "thread"},
			}},
			{Name: "make", Short: "make one", Words: []Word{{Name: "file", Many: true}}, Flags: []Flag{
				{Name: "--output", Alias: "-o", Value: "FILE", Required: true, Help: "to"}, {Name: "--strict", Value: "NAME", Optional: true, Help: "be strict"},
			}},
		},
	}
}

func TestParse(t *testing.T) {
	p := table()
	send, mk := p.Find("send"), p.Find("make")
	l, help, err := p.Parse(send, []string{"HANDOFF", "--to", "a,b", "--to=c", "--tldr", "-x", "--json", "--status=--odd", "--", "--word"})
	if err == nil || err.Error() != `unexpected argument "--word"` {
		t.Error("a second word passed", err)
	}
	if help || l.Word(0) != "HANDOFF" || !reflect.DeepEqual(l.All("--to"), []string{"a,b", "c"}) || !l.Has("--json") || l.Get("--tldr") != "-x" || l.Get("--status") != "--odd" {
		t.Errorf("%+v", l)
	}
	for _, args := range [][]string{{"A", "--thread", ""}, {"A", "--thread="}, {"A", "--status="}} { // a variable that is not set
		if _, _, err := p.Parse(send, args); err == nil || !strings.HasSuffix(err.Error(), " is empty") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if l, _, err := p.Parse(send, []string{"A", "--tldr", ""}); err != nil || !l.Has("--tldr") {
		t.Error("a text may be empty", err)
	}
	if l, _, err := p.Parse(send, []string{"A", "--tldr", "one", "--tldr", "two"}); err != nil || l.Get("--tldr") != "two" {
		t.Error("the last value does not count", err)
	}
	if l, _, err := p.Parse(mk, []string{"-o", "x", "--strict", "a", "--", "-b"}); err != nil || l.Get("--output") != "x" || !l.Has("--strict") || !reflect.DeepEqual(l.Words, []string{"a", "-b"}) {
		t.Error(l, err)
	}
	once := table()
	once.Once = true
	for _, c := range []struct {
		p     *Program
		name  string
		args  string
		names string
	}{
		{p, "send", "A --frob", `unknown flag "--frob"`},
		{p, "send", "A --output", `unknown flag "--output"`}, // of another command
		{p, "send", "A --json=1", "--json takes no value"},
		{p, "send", "A --to", "--to needs a value (IDS)"},
		{p, "send", "A --to --json", "--to needs a value"},
		{p, "send", "A B", `unexpected argument "B"`},
		{p, "send", "A --frob\x1b[2J", `\x1b`},
		{p, "send", "", "<type> is missing"},
		{p, "make", "x", "--output is missing"},
		{p, "make", "-x", `unknown flag "-x"`},
		{once, "send", "A --tldr a --tldr b", "--tldr is given twice"},
	} {
		_, help, err := c.p.Parse(c.p.Find(c.name), strings.Fields(c.args))
		if help || err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%q: %v, expected it to name %s", c.args, err, c.names)
		}
	}
	for _, args := range [][]string{{"-h"}, {"A", "--help"}, {"--frob", "--help"}} {
		if _, help, _ := p.Parse(send, args); !help {
			t.Errorf("%q does not ask for help", args)
		}
	}
	if _, help, _ := p.Parse(send, []string{"--tldr", "-h"}); help {
		t.Error("-h as a value asks for help")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("send", "HANDOFF --to a --json=1 -- --x")
	f.Add("make", "-o x --strict=a -- -b")
	f.Fuzz(func(t *testing.T, name, line string) {
		p := table()
		c := p.Find(name)
		if c == nil {
			c = p.Commands[0]
		}
		args := strings.Split(line, " ")
		l, _, err := p.Parse(c, args)
		if err != nil {
			for _, r := range err.Error() {
				if !finding.Printable(r) {
					t.Fatalf("the message of %q holds %U", args, r)
				}
			}
			return
		}
		for name := range l.values {
			known := false
			for _, f := range p.flagsOf(c) {
				known = known || f.Name == name
			}
			if !known {
				t.Fatalf("unknown flag %q passed", name)
			}
		}
	})
}

// TestOwn: what every program answers alike; the scripts are read by the shells
// that are here.
func TestOwn(t *testing.T) {
	ask := func(args ...string) (string, bool, error) {
		var b strings.Builder
		done, err := table().Own(&b, "1.2.3", args)
		return b.String(), done, err
	}
	for _, c := range []struct{ args, want string }{
		{"--help", "usage: rig-test COMMAND"}, {"help send", "usage: rig-test send <type>"}, {"version", "rig-test 1.2.3\n"}, {"-v", "rig-test 1.2.3\n"},
		{"man", ".TH RIG\\-TEST 1"}, {"completion --help", "usage: rig-test completion <shell>"},
	} {
		if text, done, err := ask(strings.Fields(c.args)...); err != nil || !done || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v %v %s", c.args, done, err, text)
		}
	}
	for _, args := range []string{"help nothing", "completion", "completion tcsh", "man x", "version --deep"} {
		if _, done, err := ask(strings.Fields(args)...); err == nil || !done {
			t.Errorf("%s passed", args)
		}
	}
	if _, done, err := ask("send"); done || err != nil {
		t.Error("a command of the table was answered", err)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, done, err := ask("completion", shell)
		if err != nil || !done || !strings.Contains(script, "rig-test") {
			t.Fatalf("%s: %v %s", shell, err, script)
		}
		if _, err := exec.LookPath(shell); err != nil || runtime.GOOS == "windows" { // whose bash may be that of another system
			t.Logf("%s is not here: its script was not read", shell)
			continue
		}
		cmd := exec.Command(shell, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s\n%s", shell, err, out, script)
		}
	}
}
