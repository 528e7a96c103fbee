// Command rig-hook-client is a hook that lets the resident judge of this user
// (rig-hook serve) do the work: it hands over what it was started with and ends
// with the judge's exit code. Where no judge answers it becomes rig-hook, which
// judges by itself; with --required before the hook's name it refuses then.
//
// It is small: it is linked with nothing that judges.
package main

import (
	"os"
	"strings"

	"github.com/rigward/rigward/internal/resident"
	"github.com/rigward/rigward/internal/shebang"
)

func main() {
	args, socket, required := shebang.Words(os.Args[1:]), os.Getenv(resident.Variable), false
	for ; len(args) > 0; args = args[1:] {
		if path, ok := strings.CutPrefix(args[0], resident.At); ok {
			socket = path
		} else if args[0] == resident.Required {
			required = true
		} else {
			break
		}
	}
	switch code, what := ask(socket, args); {
	case what == judged:
		os.Exit(code)
	case what == lost:
		refuse("the resident judge ended before its verdict", "push or commit again; the log of rig-hook serve says why")
	case required:
		refuse("no resident judge takes this, and this hook requires one", "start rig-hook serve, as the user of this hook")
	}
	err := become(args)
	refuse("rig-hook cannot be started beside this program: "+err.Error(), "install rig-hook and rig-hook-client into one directory")
}

// What became of a call.
const (
	away   = iota // no judge took it
	judged        // there is an exit code
	lost          // a judge took it and is gone
)

func refuse(what, hint string) {
	os.Stderr.WriteString("rigward: " + what + "\nhint: " + hint + "\n")
	os.Exit(2)
}
