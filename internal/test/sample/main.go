// Command sample makes a small bridge with a proposal to it: the repository on
// which this project's own workflow runs the action.
//
//	go run ./internal/sample DIR
//
// DIR must not exist. It prints root=DIR, base=COMMIT and head=COMMIT, a line
// each.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/pkg/envelope"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sample DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Operator", "-c", "user.email=op@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	commit := func(name, text string) (string, error) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
		if _, err := git("add", "--", name); err != nil {
			return "", err
		}
		if _, err := git("commit", "-q", "-m", "Add "+name); err != nil {
			return "", err
		}
		return git("rev-parse", "HEAD")
	}
	if _, err := git("init", "-q", "-b", "main"); err != nil {
		return err
	}
	if _, err := commit(".bridge/policy.yaml", "version: 1\n"); err != nil {
		return err
	}
	base, err := commit("release-check/REQUEST.md", turn("rig-a", "rig-b", "REQUEST", "Please check the release."))
	if err != nil {
		return err
	}
	head, err := commit("release-check/RESPONSE.md", turn("rig-b", "rig-a", "RESPONSE", "All tests pass."))
	if err != nil {
		return err
	}
	fmt.Printf("root=%s\nbase=%s\nhead=%s\n", dir, base, head)
	return nil
}

func turn(from, to, kind, text string) string {
	body := envelope.NormalizeBody([]byte(text + "\n"))
	out, err := envelope.Render(envelope.Fields{
		From: from, To: []string{to}, Date: "2026-01-05", Status: "▶ Open", Type: kind, Thread: "release-check",
		TLDR: text, Body: body, BodyHash: envelope.BodyHash(body),
	})
	if err != nil {
		panic(err)
	}
	return string(out)
}
