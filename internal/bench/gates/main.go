// Command gates measures what the gates cost, beside git doing the same work
// without them in the same run, and prints a Markdown table.
//
//	go run ./internal/bench/gates [-n 1000,100000] [-rounds 15] [-dir DIR] [-audit]
//
// Repositories are made once in DIR and used again.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/bench/corpus"
)

func main() {
	sizes := flag.String("n", "1000,100000", "envelopes of each repository")
	rounds := flag.Int("rounds", 15, "pushes of each kind; the median counts")
	dir := flag.String("dir", "", "where repositories are kept; default a scratch directory")
	per := flag.Int("per", 10, "envelopes of a thread")
	audit := flag.Bool("audit", true, "measure check --all, too")
	flag.Parse()
	if err := run(*sizes, *rounds, *per, *dir, *audit); err != nil {
		fmt.Fprintln(os.Stderr, "gates:", err)
		os.Exit(1)
	}
}

func run(sizes string, rounds, per int, dir string, audit bool) error {
	scratch, err := os.MkdirTemp("", "rigward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if dir == "" {
		dir = scratch
	}
	program := filepath.Join(scratch, "rig-hook")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "github.com/rigward/rigward/cmd/rig-hook")
	build.Stderr, build.Env = os.Stderr, append(os.Environ(), "CGO_ENABLED=0") // as it is released
	if err := build.Run(); err != nil {
		return err
	}
	fmt.Printf("git %s, floor: `git --version` %s, `rig-hook --version` %s\n\n", version(), once(20, "git", "--version"), once(20, program, "--version"))
	fmt.Println("| envelopes | what | git alone | with the hook | ratio | hook alone | peak memory of the hook |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, word := range strings.Split(sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		b := &bench{n: n, rounds: rounds, program: program, scratch: filepath.Join(scratch, word), o: corpus.Options{Envelopes: n, PerThread: per, Relays: true, Signed: true}}
		name := fmt.Sprintf("signed-%d.git", n)
		if per != 10 {
			name = fmt.Sprintf("signed-%d-by-%d.git", n, per)
		}
		if err := b.open(filepath.Join(dir, name)); err != nil {
			return err
		}
		for _, kind := range []string{"plain", "relay"} {
			if err := b.pushes(kind); err != nil {
				return err
			}
		}
		if audit {
			if err := b.audit(); err != nil {
				return err
			}
		}
	}
	return nil
}

type bench struct {
	n, rounds        int
	o                corpus.Options
	program, scratch string
	source           string // the repository as generated
	guarded, bare    string // copies of it, with and without the hook
	client           string
	made             int
}

func (b *bench) open(source string) error {
	b.source = source
	if _, err := os.Stat(source); err != nil {
		if err := corpus.Generate(source, b.o); err != nil {
			return err
		}
	}
	b.guarded, b.bare, b.client = filepath.Join(b.scratch, "guarded.git"), filepath.Join(b.scratch, "bare.git"), filepath.Join(b.scratch, "client.git")
	for _, c := range []string{b.guarded, b.bare} {
		if err := os.MkdirAll(filepath.Dir(c), 0o755); err != nil {
			return err
		}
		if _, err := corpus.Git("", "clone", "-q", "--bare", "--local", source, c); err != nil {
			return err
		}
	}
	if _, err := corpus.Git("", "clone", "-q", "--bare", "--shared", source, b.client); err != nil {
		return err
	}
	start := time.Now()
	if out, err := exec.Command(b.program, "install", "--server", b.guarded).CombinedOutput(); err != nil {
		return fmt.Errorf("install: %w: %s", err, out)
	}
	fmt.Printf("| %d | `rig-hook install --server`, which reads the history for its nonces once | | %s | | | |\n", b.n, time.Since(start).Round(time.Millisecond))
	return os.Remove(filepath.Join(b.guarded, "hooks", "update"))
}

// next makes a commit with one new envelope on top of the client's branch.
func (b *bench) next(kind string) (string, error) {
	per := b.o.Per()
	i := b.n + b.made*per
	b.made++
	o := b.o
	old := strings.TrimSpace(must("rev-parse", b.client, "main"))
	var in bytes.Buffer
	now := time.Now().Unix()
	add := func(path string, data []byte, from string) {
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter %s <%s> %d +0000\ndata 5\nSend\n\nfrom %s\nM 100644 inline %s\ndata %d\n%s\n",
			corpus.OperatorName, corpus.OperatorEmail, now, from, path, len(data), data)
	}
	path, data := corpus.Envelope(i, o)
	if kind == "relay" {
		path, data = corpus.Relay(b.n-per, i, time.Unix(now, 0), o)
	}
	add(path, data, old)
	cmd := exec.Command("git", "-C", b.client, "fast-import", "--quiet", "--force")
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fast-import: %w: %s", err, out)
	}
	tip := strings.TrimSpace(must("rev-parse", b.client, "main"))
	return corpus.SignTip(b.client, tip)
}

// pushes measures the push of one new envelope to a server with and to one
// without the hook, in turn, and the hook by itself.
func (b *bench) pushes(kind string) error {
	var with, without, alone []time.Duration
	var memory int64
	cold := time.Duration(0)
	for i := range b.rounds + 1 {
		old := strings.TrimSpace(must("rev-parse", b.client, "main"))
		tip, err := b.next(kind)
		if err != nil {
			return err
		}
		took, peak, err := b.alone(old + " " + tip + " refs/heads/main\n")
		if err != nil {
			return err
		}
		memory = max(memory, peak)
		plain, err := timed(b.client, nil, "git", "push", "-q", b.bare, tip+":refs/heads/main")
		if err != nil {
			return err
		}
		guarded, err := timed(b.client, nil, "git", "push", "-q", b.guarded, tip+":refs/heads/main")
		if err != nil {
			return err
		}
		if i == 0 { // caches of the disk, and the nonce index, are cold
			cold = guarded
			continue
		}
		with, without, alone = append(with, guarded), append(without, plain), append(alone, took)
	}
	a, w, h := median(without), median(with), median(alone)
	fmt.Printf("| %d | push of one %s envelope | %s | %s | %.2f | %s | %.1f MiB |\n", b.n, kind, ms(a), ms(w), float64(w)/float64(a), ms(h), float64(memory)/(1<<20))
	fmt.Printf("| %d | the same, first time (cold caches) | | %s | | | |\n", b.n, ms(cold))
	return nil
}

// alone runs the hook by itself on what is about to be pushed, and leaves the
// nonce index as it was: a hook that sees a relay for the second time does more.
func (b *bench) alone(line string) (took time.Duration, memory int64, err error) {
	index, kept := filepath.Join(b.guarded, "rigward"), filepath.Join(b.scratch, "index")
	if err := os.CopyFS(kept, os.DirFS(index)); err != nil {
		return 0, 0, err
	}
	cmd := exec.Command(b.program, "pre-receive", "--timeout", "60s")
	cmd.Dir, cmd.Stdin = b.guarded, strings.NewReader(line)
	cmd.Env = append(os.Environ(), "GIT_DIR=.", "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(b.client, "objects"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	memory, err = measured(cmd)
	took = time.Since(start)
	if err != nil {
		return 0, 0, fmt.Errorf("pre-receive: %w: %s", err, out.String())
	}
	if err := os.RemoveAll(index); err != nil {
		return 0, 0, err
	}
	return took, memory, os.Rename(kept, index)
}

// measured runs a process and returns the peak of its own resident memory in bytes,
// without its children's.
func measured(cmd *exec.Cmd) (memory int64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	peak := make(chan int64)
	go func() {
		most := int64(0)
		for {
			most = max(most, resident(cmd.Process.Pid))
			select {
			case <-done:
				peak <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	err = cmd.Wait()
	close(done)
	return <-peak, err
}

// audit measures a whole history.
func (b *bench) audit() error {
	start := time.Now()
	cmd := exec.Command(b.program, "check", "--all", "--format", "json")
	cmd.Dir = b.source
	var out bytes.Buffer
	cmd.Stdout = &out
	memory, err := measured(cmd)
	took := time.Since(start)
	if err != nil {
		return fmt.Errorf("check --all: %w: %.300s", err, out.String())
	}

	start = time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list := exec.CommandContext(ctx, "git", "-C", b.source, "rev-list", "--objects", "--no-object-names", "main")
	read := exec.Command("git", "-C", b.source, "cat-file", "--batch", "--buffer")
	read.Stdin, err = list.StdoutPipe()
	if err != nil {
		return err
	}
	read.Stdout = io.Discard
	if err := list.Start(); err != nil {
		return err
	}
	if err := read.Run(); err != nil {
		return err
	}
	if err := list.Wait(); err != nil {
		return err
	}
	peer := time.Since(start)

	signers := filepath.Join(b.scratch, "signers")
	if err := os.WriteFile(signers, []byte(corpus.Signers()), 0o644); err != nil {
		return err
	}
	count := min(300, b.n)
	gpg, err := timed(b.source, nil, "git", "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+signers, "log", "--format=%G?", "-"+strconv.Itoa(count), "main")
	if err != nil {
		return err
	}
	each := took / time.Duration(b.n)
	fmt.Printf("| %d | `check --all`, per envelope | %s (`rev-list --objects \\| cat-file --batch`) | %s | %.2f | %s whole | %.1f MiB |\n",
		b.n, us(peer/time.Duration(b.n)), us(each), float64(took)/float64(peer), took.Round(time.Millisecond), float64(memory)/(1<<20))
	fmt.Printf("| %d | the same beside `git log --format=%%G?` on %d commits | %s per commit | %s | %.0f times faster | | |\n",
		b.n, count, us(gpg/time.Duration(count)), us(each), float64(gpg/time.Duration(count))/float64(each))
	return nil
}

func timed(dir string, stdin io.Reader, name string, args ...string) (time.Duration, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %.400s", strings.Join(args[:2], " "), err, out)
	}
	return took, nil
}

func must(verb, dir string, args ...string) string {
	out, err := corpus.Git(dir, append([]string{verb}, args...)...)
	if err != nil {
		panic(err)
	}
	return out
}

func once(rounds int, name string, args ...string) string {
	var ds []time.Duration
	for range rounds {
		d, err := timed("", nil, name, append(args, []string{}...)...)
		if err == nil {
			ds = append(ds, d)
		}
	}
	if len(ds) == 0 {
		return "?"
	}
	return ms(median(ds))
}

func version() string {
	out, _ := corpus.Git("", "--version")
	return strings.TrimPrefix(strings.TrimSpace(out), "git version ")
}

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
func us(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1000) }
