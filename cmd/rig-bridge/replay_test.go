package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplay runs the recorded cases of the contract (testdata/cli) against
// this program: a sample of them, since each case builds its own repositories;
// all with RIGWARD_REPLAY=full, and with RIGWARD_REPLAY=2/4 the second quarter.
func TestReplay(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	args := []string{"replay.py", "-j", "2"}
	part, parts := 0, 0
	if n, _ := fmt.Sscanf(os.Getenv("RIGWARD_REPLAY"), "%d/%d", &part, &parts); n == 2 && part > 0 && part <= parts {
		cases, err := filepath.Glob("../../testdata/cli/cases/*.json")
		if err != nil || len(cases) < parts {
			t.Fatal(len(cases), " cases ", err)
		}
		for _, c := range cases[len(cases)*(part-1)/parts : len(cases)*part/parts] {
			args = append(args, strings.TrimSuffix(filepath.Base(c), ".json"))
		}
	} else if os.Getenv("RIGWARD_REPLAY") != "full" {
		args = append(args, "cli-flag", "send-tldr-multiline", "send-ordinal-3", "close-push-rejected", "sync-diverged-json",
			"sync-modify-then-restore", "status-color", "thread-text", "thread-pager", "signal-int-process", "relay-in-reply-to-unknown", "relay-ok", "new-ok")
	}
	cmd := exec.Command(python, args...)
	cmd.Dir = "../../testdata/cli"
	cmd.Env = append(os.Environ(), "RIG_BRIDGE_BIN="+program(t), "RBWORK="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
