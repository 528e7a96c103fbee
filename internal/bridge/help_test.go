package bridge

import (
	"bytes"
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/test/helptest"
)

// TestHelpListsFlags: the flags of a command are those that its help lists. What another
// program does has its flags, and no others.
func TestHelpListsFlags(t *testing.T) {
	run := func(c *cli.Command, args ...string) string {
		var said bytes.Buffer
		Main(context.Background(), Env{Args: append([]string{c.Name}, args...), Stdout: &said, Stderr: &said, Now: time.Now, Dir: t.TempDir()})
		return said.String()
	}
	helptest.Check(t, program(), run, []string{".", "../../cmd/rig-control", "../../cmd/rig-mcp"}, nil)
	for name, flags := range map[string][]cli.Flag{"ui": UIFlags(), "mcp": MCPFlags()} {
		if c := program().Find(name); !c.Alone || !reflect.DeepEqual(c.Flags, flags) {
			t.Errorf("%s is handed over with flags that the other program does not take", name)
		}
	}
}
