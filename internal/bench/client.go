package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// bars of one size: milliseconds of thread above the start, times of send, and
// peak in MiB.
type bars struct {
	thread time.Duration
	send   float64
	peak   int64
}

func barsOf(n int) bars {
	switch {
	case n <= 1000:
		return bars{10 * time.Millisecond, 1.5, 32}
	case n <= 10000:
		return bars{10 * time.Millisecond, 1.3, 32}
	case n <= 100000:
		return bars{30 * time.Millisecond, 1.3, 128}
	}
	return bars{30 * time.Millisecond, 1.3, 512}
}

const (
	statusBar = 3.0
	firstBar  = 15.0
	// mostOfReference is how many messages the reference client is given.
	mostOfReference = 100000
)

// client measures rig-bridge beside git and the reference client on two kinds
// of repositories: one whose messages are spread over 400 days, twenty a
// thread, and one whose messages all have one date, in threads of every length.
//
// Calls of all alternate, and the figure is the median of each: what loads the
// machine loads all. The bars are in columns of their own: status within three
// times `git status --porcelain`, and the first one of a clone within fifteen
// times; thread, which reads one thread, so many milliseconds above the start
// of the program; send so many times what git takes to add and commit one file;
// and the peak of the memory. The reference client runs up to 100,000 messages.
func client(flags *flag.FlagSet, args []string) error {
	reference := flags.String("reference", "", "node_modules directory with @mcptoolshop/rig-bridge")
	sizes := flags.String("sizes", "10,1000,10000", "numbers of messages")
	corpora := flags.String("corpora", "spread,ties", "kinds of repositories")
	rounds := flags.Int("rounds", 7, "calls of each command")
	dir := flags.String("dir", "", "where repositories are kept, so that a second run need not make them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return clientOf(*reference, *sizes, *corpora, *rounds, *dir)
}

func clientOf(reference, sizes, corpora string, rounds int, keep string) error {
	dir, err := os.MkdirTemp("", "rig-bridge-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	built, err := build(dir, "rig-bridge")
	if err != nil {
		return err
	}
	b := &clients{dir: dir, ours: built[0], rounds: rounds}
	if reference != "" {
		b.theirs = filepath.Join(reference, "@mcptoolshop", "rig-bridge", "dist", "cli.js")
	}
	fmt.Println("| messages | dates | command | ours | peak | git | ours / git | bar | reference | reference / ours |\n|---|---|---|---|---|---|---|---|---|---|")
	all, err := numbers(sizes)
	if err != nil {
		return err
	}
	for _, n := range all {
		word := strconv.Itoa(n)
		for _, kind := range strings.Split(corpora, ",") {
			at := filepath.Join(dir, kind+word)
			if keep != "" {
				at = filepath.Join(keep, kind+word)
			}
			if _, err := os.Stat(filepath.Join(at, ".bridge", "config.yaml")); err != nil {
				if err := makeClone(at, n, kind == "ties"); err != nil {
					return err
				}
			}
			if err := b.measure(at, n, kind); err != nil {
				return err
			}
			if keep == "" {
				if err := os.RemoveAll(at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

type clients struct {
	dir, ours, theirs string
	rounds            int
}

// measure prints the rows of one repository.
func (b *clients) measure(repo string, n int, kind string) error {
	bar := barsOf(n)
	thread := "thread-0000"
	if kind == "ties" {
		thread = "thread-0020" // of twenty messages, or as many as there are
		if n < 210 {
			thread = "thread-0001"
		}
	}
	row := func(name string, s sample, bar string) {
		git, ratio, ref, faster := "", "", "", ""
		if s.git > 0 {
			git, ratio = show(s.git), fmt.Sprintf("%.1f", float64(s.ours)/float64(s.git))
		}
		if s.reference > 0 {
			ref, faster = show(s.reference), fmt.Sprintf("%.1f", float64(s.reference)/float64(s.ours))
		}
		fmt.Printf("| %d | %s | %s | %s | %.0f MiB | %s | %s | %s | %s | %s |\n", n, kind, name, show(s.ours), float64(s.peak)/(1<<20), git, ratio, bar, ref, faster)
	}
	verdict := func(ok bool, text string, s sample) string {
		if s.peak > bar.peak<<20 {
			return text + ", peak OVER"
		}
		if !ok {
			return text + " OVER"
		}
		return text + " ok"
	}
	start, err := b.compare(repo, n, []string{"--version"}, nil)
	if err != nil {
		return err
	}
	row("--version", start, "")
	status := []string{"git", "status", "--porcelain"}
	first, err := b.first(repo, status)
	if err != nil {
		return err
	}
	row("status, the first of a clone", first, verdict(n < 100000 || float64(first.ours) <= firstBar*float64(first.git), fmt.Sprintf("%.0f x", firstBar), first))
	for _, args := range [][]string{{"status"}, {"status", "--json"}} {
		s, err := b.compare(repo, n, args, status)
		if err != nil {
			return err
		}
		row(strings.Join(args, " "), s, verdict(float64(s.ours) <= statusBar*float64(s.git), fmt.Sprintf("%.0f x", statusBar), s))
	}
	// What is new is judged once.
	if _, _, err := measured(in(repo, b.ours, "validate", thread)); err != nil {
		return err
	}
	for _, args := range [][]string{{"thread", thread}, {"thread", thread, "--json"}} {
		s, err := b.compare(repo, n, args, nil)
		if err != nil {
			return err
		}
		row(strings.Join(args, " "), s, verdict(s.ours-start.ours <= bar.thread, fmt.Sprintf("start + %s (is + %s)", bar.thread, show(s.ours-start.ours)), s))
	}
	// The inbox of the rig to which all messages are, none of them read.
	config := filepath.Join(repo, ".bridge", "config.yaml")
	own, err := os.ReadFile(config)
	if err == nil {
		err = os.WriteFile(config, []byte("rig_id: windows-5080\n"), 0o644)
	}
	if err != nil {
		return err
	}
	inbox, err := b.compare(repo, n, []string{"inbox"}, nil)
	if err == nil {
		err = os.WriteFile(config, own, 0o644)
	}
	if err != nil {
		return err
	}
	row("inbox, all unread", inbox, "")
	script := "f=" + thread + "/z$$.md && cp " + thread + "/REQUEST.md $f && git add $f && git commit -q -m m"
	s, err := b.compare(repo, n, []string{"send", "ACK", "--thread", thread, "--to", "peer", "--no-push", "--body-file", filepath.Join(b.dir, "body")}, []string{"sh", "-c", script})
	if err != nil {
		return err
	}
	row("send ACK --no-push", s, verdict(float64(s.ours) <= bar.send*float64(s.git), fmt.Sprintf("%.1f x", bar.send), s))
	return nil
}

// A sample is the median of each peer.
type sample struct {
	ours, git, reference time.Duration
	peak                 int64 // of ours, bytes
}

// first is the status of a clone in which none has run before.
func (b *clients) first(repo string, git []string) (sample, error) {
	var ours, theirs []time.Duration
	var s sample
	for range max(1, b.rounds/3) {
		if err := os.RemoveAll(filepath.Join(repo, ".git", "rigward")); err != nil {
			return s, err
		}
		d, peak, err := measured(in(repo, b.ours, "status"))
		if err != nil {
			return s, err
		}
		ours, s.peak = append(ours, d), max(s.peak, peak)
		if d, _, err = measured(in(repo, git[0], git[1:]...)); err != nil {
			return s, err
		}
		theirs = append(theirs, d)
	}
	s.ours, s.git = median(ours), median(theirs)
	return s, nil
}

func (b *clients) compare(repo string, n int, args, git []string) (sample, error) {
	if err := os.WriteFile(filepath.Join(b.dir, "body"), []byte("Seen, and on it.\n"), 0o644); err != nil {
		return sample{}, err
	}
	var s sample
	times := map[string][]time.Duration{}
	for range b.rounds {
		if b.theirs != "" && n <= mostOfReference && args[0] != "inbox" && !strings.Contains(strings.Join(args, " "), "thread --json") {
			d, _, err := measured(in(repo, "node", append([]string{b.theirs}, args...)...))
			if err != nil {
				return s, err
			}
			times["reference"] = append(times["reference"], d)
		}
		d, peak, err := measured(in(repo, b.ours, args...))
		if err != nil {
			return s, err
		}
		times["ours"], s.peak = append(times["ours"], d), max(s.peak, peak)
		if git != nil {
			if d, _, err = measured(in(repo, git[0], git[1:]...)); err != nil {
				return s, err
			}
			times["git"] = append(times["git"], d)
		}
	}
	s.ours, s.git, s.reference = median(times["ours"]), median(times["git"]), median(times["reference"])
	return s, nil
}

func show(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

// makeClone makes a clone with n messages, ten a commit: twenty a thread over 400
// days, or, with ties, all of one day in threads of 1, 2, 3, … messages.
func makeClone(dir string, n int, ties bool) error {
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
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriterSize(w, 1<<20)
		history(out, n, ties)
		w.CloseWithError(out.Flush())
	}()
	fast := exec.Command("git", "-C", dir, "fast-import", "--quiet")
	fast.Stdin = r
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

// history writes what git fast-import reads.
func history(out io.Writer, n int, ties bool) {
	blob := func(path, text string) { fmt.Fprintf(out, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text) }
	fmt.Fprint(out, "commit refs/heads/main\nmark :1\ncommitter A <a@example.com> 1735700000 +0000\ndata 4\nseed\n")
	blob(".gitignore", ".bridge/config.yaml\n")
	types := []string{"REQUEST", "HANDOFF", "RESPONSE", "ACK", "STATE", "RESULT", "VERIFY", "DECISIONS"}
	threads := max(1, n/20)
	if ties {
		for threads = 1; (threads+1)*(threads+2)/2 <= n; threads++ {
		}
	}
	used := make([]int, threads) // messages of each thread
	at, turn := 0, 0
	first := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		if i%10 == 0 {
			fmt.Fprintf(out, "commit refs/heads/main\nmark :%d\ncommitter A <a@example.com> %d +0000\ndata 1\nm\nfrom :%d\n", i/10+2, 1735700001+i, i/10+1)
		}
		t, day := i%threads, first.AddDate(0, 0, i*400/n)
		if ties {
			// In turn, and in each turn without the first of the turn before: thread t
			// gets t+1 messages, the last one what is left over.
			t, day = at, first
			if at++; at == threads {
				turn = min(turn+1, threads-1)
				at = turn
			}
		}
		k := used[t]
		used[t]++
		thread, typ := fmt.Sprintf("thread-%04d", t+1), types[k%len(types)]
		if !ties {
			thread = fmt.Sprintf("thread-%04d", t)
		}
		name := typ + ".md"
		if k >= len(types) {
			name = fmt.Sprintf("%s-%d.md", typ, k/len(types)+1)
		}
		body := fmt.Sprintf("# %s\n\nMessage %d, a few words about nothing in particular.\n\n- one\n- two\n- three\n\nStanding by for the next turn.\n", typ, i)
		sum := sha256.Sum256([]byte(body))
		blob(thread+"/"+name, fmt.Sprintf("---\nfrom: mac-m5max\nto: windows-5080\ndate: %s\nstatus: ▶ %s sent\ntype: %s\nthread: %s\ntldr: message %d\nbody_hash: %s\n---\n%s",
			day.Format("2006-01-02"), typ, typ, thread, i, hex.EncodeToString(sum[:]), body))
	}
}
