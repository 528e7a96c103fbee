package shebang_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/shebang"
)

// TestMain prints its arguments where this program runs a script.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "hook=") {
		for _, w := range shebang.Words(os.Args[1:]) {
			os.Stdout.WriteString(w + "\n")
		}
		return
	}
	os.Exit(m.Run())
}

func TestLine(t *testing.T) {
	for _, c := range []struct {
		program string
		words   []string
		want    string
	}{
		{"/usr/bin/rig-hook", []string{"pre-commit"}, "#!/usr/bin/rig-hook hook=pre-commit\n"},
		{"/usr/bin/rig-hook-client", []string{"--socket=/run/j.sock", "--required", "update"}, "#!/usr/bin/rig-hook-client hook=--socket=/run/j.sock,--required,update\n"},
		{"/opt/my programs/rig-hook", []string{"update"}, ""},
		{"rig-hook", []string{"update"}, ""},
		{"/usr/bin/rig-hook\n", []string{"update"}, ""},
		{"/usr/bin/rig-hook", []string{"--socket=/a,b", "update"}, ""},
		{"/usr/bin/rig-hook", []string{"--socket=/" + strings.Repeat("a", 80), "update"}, ""},
	} {
		if line, ok := shebang.Line(c.program, c.words); ok != (c.want != "") || ok && line != c.want {
			t.Errorf("%q %q: %q, %t", c.program, c.words, line, ok)
		}
	}
}

// The kernel gives what Words takes, and the same words come out as by hand.
func TestWords(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("hooks name the program in their first line on Linux only")
	}
	// The path of a test's program may be too long for a first line.
	dir, err := os.MkdirTemp("/tmp", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, script := filepath.Join(dir, "p"), filepath.Join(dir, "hook")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	line, ok := shebang.Line(program, []string{"--required", "update"})
	if !ok {
		t.Fatal("no line for " + program)
	}
	if err := os.WriteFile(script, []byte(line), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(script, "refs/heads/a b", "").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Split(string(out), "\n"), []string{"--required", "update", "refs/heads/a b", "", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	if got := shebang.Words([]string{"check", "hook=x"}); !slices.Equal(got, []string{"check", "hook=x"}) {
		t.Errorf("%q", got)
	}
}
