package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
)

// hook runs a hook of rig-hook as git calls it.
func hook(name string) int {
	dir, err := os.Getwd()
	if err != nil {
		return 2
	}
	return hooks.Run(context.Background(), name, &hooks.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ(), Dir: dir, Now: time.Now, Rand: rand.Reader,
	})
}

// prePush gives a clone the pre-push hook of rig-hook.
func (w *world) prePush(clone string) {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	w.program(clone+"/.git/hooks/pre-push", fmt.Sprintf("#!/bin/sh\n%s=pre-push exec '%s' \"$@\"\n", beHook, self))
}

// git asks pre-push before it tells that somebody else was faster, and the hook
// refuses what is no fast-forward. The message is put on top all the same. A
// hook that says no to what is on top is heard.
func TestPrePushWhenOthersWereFaster(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	w.prePush("a")
	os.Mkdir(w.path("a/t-one"), 0o755)
	os.Mkdir(w.path("b/t-one"), 0o755)
	var bodies []string
	send := func(clone string) outcome {
		bodies = append(bodies, fmt.Sprintf("message %d\n", len(bodies)))
		cmd := w.command(clone, "send", "HANDOFF", "--thread", "t-one", "--to", "peer", "--body-file", "-")
		cmd.Stdin = strings.NewReader(bodies[len(bodies)-1])
		return finish(t, cmd)
	}
	for _, fetched := range []bool{false, true} {
		if o := send("b"); o.code != 0 {
			t.Fatal(o.stderr)
		}
		if fetched {
			w.git("a", "fetch", "-q") // git gives such a hook no line
		}
		if o := send("a"); o.code != 0 || !strings.Contains(o.stderr, "crossed by") {
			t.Fatalf("fetched %t: exit %d: %s", fetched, o.code, o.stderr)
		}
		w.pull("b")
	}
	w.checkHistory(bodies, bodies)

	if o := send("b"); o.code != 0 {
		t.Fatal(o.stderr)
	}
	w.write("a/.git/hooks/pre-push", "#!/bin/sh\necho not today >&2\nexit 1\n")
	if o := send("a"); o.code != 1 || !strings.Contains(o.stderr, "not today") || !strings.Contains(o.stderr, "is kept") {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
}
