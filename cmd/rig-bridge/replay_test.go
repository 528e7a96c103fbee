package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestReplay runs the recorded cases of the contract (testdata/cli) against
// this program. Without RIGWARD_REPLAY=full it runs a sample of them, since
// each case builds its own repositories.
func TestReplay(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	args := []string{"replay.py", "-j", "2"}
	if os.Getenv("RIGWARD_REPLAY") != "full" {
		args = append(args, "cli-flag", "send-tldr-multiline", "send-ordinal-3", "close-push-rejected", "sync-diverged-json",
			"sync-modify-then-restore", "status-color", "thread-text", "thread-pager", "signal-int-process", "relay-in-reply-to-unknown", "relay-ok", "new-ok")
	}
	cmd := exec.Command(python, args...)
	cmd.Dir = "../../testdata/cli"
	cmd.Env = append(os.Environ(), "RIG_BRIDGE_BIN="+wrapper(t), "RBWORK="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
