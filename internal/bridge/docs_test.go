package bridge

import (
	stdflag "flag"
	"os"
	"testing"
)

var update = stdflag.Bool("update", false, "write what the table of commands says anew")

// TestDocs holds the help texts against a file, in which a change of the command
// line is seen.
func TestDocs(t *testing.T) {
	p := program()
	text := p.Overview()
	for _, c := range p.Commands {
		text += "\n$ rig-bridge " + c.Name + " --help\n" + p.Help(c)
	}
	const file = "testdata/help.txt"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old, err := os.ReadFile(file); err != nil || string(old) != text {
		t.Errorf("%s is not what the table of commands says (%v); run go test ./internal/bridge -run TestDocs -update", file, err)
	}
}
