// Client measures rig-bridge against the reference client, both in one run,
// on repositories of 10, 1,000 and 10,000 messages.
//
//	go run ./internal/bench/client -reference NODE_MODULES [-sizes 10,1000] [-rounds 5]
//
// Calls of the two alternate, and the figure is the median of each: what loads
// the machine loads both. It prints a Markdown table. The bars are those of
// the client's issue: eight times faster than the reference everywhere, and
// status at 10,000 messages within three times `git status --porcelain`. Beside
// send stands what git alone takes to commit one new file, which no client
// that commits through git can undercut.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	reference := flag.String("reference", "", "node_modules directory with @mcptoolshop/rig-bridge (required)")
	sizes := flag.String("sizes", "10,1000,10000", "numbers of messages")
	rounds := flag.Int("rounds", 7, "calls of each command")
	flag.Parse()
	if err := run(*reference, *sizes, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(reference, sizes string, rounds int) error {
	if reference == "" {
		return fmt.Errorf("-reference is missing")
	}
	dir, err := os.MkdirTemp("", "rig-bridge-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ours := filepath.Join(dir, "rig-bridge")
	compile := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", ours, "./cmd/rig-bridge")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	theirs := filepath.Join(reference, "@mcptoolshop", "rig-bridge", "dist", "cli.js")
	fmt.Println("| messages | command | ours | reference | ratio | git alone |\n|---|---|---|---|---|---|")
	for _, word := range strings.Split(sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		repo := filepath.Join(dir, word)
		if err := build(repo, n); err != nil {
			return err
		}
		for _, args := range [][]string{
			{"--version"}, {"status"}, {"status", "--json"}, {"thread", "thread-0000"},
			{"send", "ACK", "--thread", "thread-0000", "--to", "peer", "--no-push"},
		} {
			times := map[string][]time.Duration{}
			commands := map[string][]string{"ours": append([]string{ours}, args...), "reference": append([]string{"node", theirs}, args...)}
			switch args[0] {
			case "status":
				commands["git"] = []string{"git", "status", "--porcelain"}
			case "send":
				commands["git"] = []string{"sh", "-c", "f=thread-0000/z$$.md && cp thread-0000/REQUEST.md $f && git add -N $f && git commit -q --only -m m -- $f"}
			}
			for range rounds {
				for _, who := range []string{"reference", "ours", "git"} {
					if commands[who] == nil {
						continue
					}
					d, err := measure(repo, commands[who])
					if err != nil {
						return err
					}
					times[who] = append(times[who], d)
				}
			}
			a, b := median(times["ours"]), median(times["reference"])
			git := ""
			if g := median(times["git"]); g > 0 {
				git = fmt.Sprintf("%s (ours is %.1f times that)", show(g), float64(a)/float64(g))
			}
			fmt.Printf("| %d | %s | %s | %s | %.1f | %s |\n", n, strings.Join(args, " "), show(a), show(b), float64(b)/float64(a), git)
		}
	}
	return nil
}

func show(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}

func measure(dir string, argv []string) (time.Duration, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, errs.String())
	}
	return time.Since(start), nil
}

// build makes a clone with n messages: twenty a thread, over 400 days, ten a
// commit.
func build(dir string, n int) error {
	git := func(args ...string) error {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	if out, err := exec.Command("git", "init", "-q", "-b", "main", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("git init: %w\n%s", err, out)
	}
	var in bytes.Buffer
	blob := func(path, text string) { fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text) }
	fmt.Fprint(&in, "commit refs/heads/main\nmark :1\ncommitter A <a@example.com> 1735700000 +0000\ndata 4\nseed\n")
	blob(".gitignore", ".bridge/config.yaml\n")
	types := []string{"REQUEST", "HANDOFF", "RESPONSE", "ACK", "STATE", "RESULT", "VERIFY", "DECISIONS"}
	threads := max(1, n/20)
	used := map[string]int{}
	first := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		if i%10 == 0 {
			fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter A <a@example.com> %d +0000\ndata 1\nm\nfrom :%d\n", i/10+2, 1735700001+i, i/10+1)
		}
		thread, typ := fmt.Sprintf("thread-%04d", i%threads), types[i%len(types)]
		used[thread+typ]++
		name := typ + ".md"
		if k := used[thread+typ]; k > 1 {
			name = fmt.Sprintf("%s-%d.md", typ, k)
		}
		body := fmt.Sprintf("# %s\n\nMessage %d, a few words about nothing in particular.\n\n- one\n- two\n- three\n\nStanding by for the next turn.\n", typ, i)
		sum := sha256.Sum256([]byte(body))
		day := first.AddDate(0, 0, i*400/n).Format("2006-01-02")
		blob(thread+"/"+name, fmt.Sprintf("---\nfrom: mac-m5max\nto: windows-5080\ndate: %s\nstatus: ▶ %s sent\ntype: %s\nthread: %s\ntldr: message %d\nbody_hash: %s\n---\n%s",
			day, typ, typ, thread, i, hex.EncodeToString(sum[:]), body))
	}
	fast := exec.Command("git", "-C", dir, "fast-import", "--quiet")
	fast.Stdin = &in
	if out, err := fast.CombinedOutput(); err != nil {
		return fmt.Errorf("git fast-import: %w\n%s", err, out)
	}
	for _, args := range [][]string{
		{"config", "user.name", "A"}, {"config", "user.email", "a@example.com"}, {"config", "gc.auto", "0"}, {"config", "maintenance.auto", "false"},
		{"reset", "-q", "--hard", "main"}, {"status", "--porcelain"},
	} {
		if err := git(args...); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".bridge"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ".bridge", "config.yaml"), []byte("rig_id: mac-m5max\n"), 0o644)
}
