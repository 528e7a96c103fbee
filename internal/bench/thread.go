package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/test/corpus"
	"github.com/rigward/rigward/pkg/envelope"
)

// longThread measures what one more message costs the hooks, of a processor, where all
// that there are lie in one thread.
func longThread(flags *flag.FlagSet, args []string) error {
	list := flags.String("n", "1000,8000,100000", "messages of the thread of each repository")
	rounds := flags.Int("rounds", 5, "messages of each kind; the median counts")
	kept := flags.String("dir", "", "where generated repositories are kept; default a scratch directory")
	per := flags.Int("per", 0, "messages of a thread; 0: all")
	program := flags.String("hook", "", "a rig-hook to be measured; default this one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "rigward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if *program == "" {
		built, err := build(scratch, "rig-hook")
		if err != nil {
			return err
		}
		*program = built[0]
	}
	fmt.Printf("%d cores, git %s, load %s; processor time, user and system, git's with it where a hook starts it.\n\n", runtime.NumCPU(), version(), load())
	fmt.Println("| messages in one thread | one more | pre-receive | update | pre-push | pre-commit |")
	fmt.Println("|---|---|---|---|---|---|")
	all, err := numbers(*list)
	if err != nil {
		return err
	}
	for _, n := range all {
		word := strconv.Itoa(n)
		b := &long{program: *program, dir: filepath.Join(scratch, word), n: n, at: n,
			o: corpus.Options{Envelopes: n, PerThread: max(*per, 0), PerCommit: max(1, n/200), Relays: true, Signed: true}}
		name := fmt.Sprintf("signed-%d-by-%d.git", n, *per)
		if *per == 0 {
			b.o.PerThread, name = n, fmt.Sprintf("thread-%d.git", n)
		}
		if err := b.open(filepath.Join(*kept, name), *kept == ""); err != nil {
			return err
		}
		for _, kind := range []string{"plain", "RESOLUTION", "relay"} {
			if err := b.measure(kind, *rounds); err != nil {
				return err
			}
		}
	}
	return nil
}

// A long is a server with one long thread, and a clone that pushes.
type long struct {
	program, dir string
	n            int // messages at first
	at           int // and the next one
	o            corpus.Options
	server       string
	client       string
}

func (b *long) open(source string, inside bool) error {
	if inside {
		source = filepath.Join(b.dir, "source.git")
	}
	if _, err := os.Stat(source); err != nil {
		if err := corpus.Generate(source, b.o); err != nil {
			return err
		}
		if _, err := corpus.Git(source, "repack", "-q", "-a", "-d", "-f", "--window=5"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	b.server = filepath.Join(b.dir, "server.git")
	if _, err := corpus.Git("", "clone", "-q", "--bare", "--local", source, b.server); err != nil {
		return err
	}
	if _, err := timed(exec.Command(b.program, "install", "--server", b.server)); err != nil {
		return err
	}
	if _, err := corpus.Git(b.server, "config", "rigward.timeout", "60s"); err != nil {
		return err
	}
	b.client = filepath.Join(b.dir, "client")
	if _, err := corpus.Git("", "clone", "-q", "--shared", "--no-checkout", source, b.client); err != nil {
		return err
	}
	_, err := corpus.Git(b.client, "remote", "set-url", "origin", b.server)
	return err
}

// measure sends messages of one kind, and prints the medians.
func (b *long) measure(kind string, rounds int) error {
	var cpu [4][]time.Duration
	for i := range rounds + 1 { // the first one is not counted
		old := strings.TrimSpace(must("rev-parse", b.client, "HEAD"))
		path, data, err := b.message(kind)
		if err != nil {
			return err
		}
		blob := filepath.Join(b.dir, "blob")
		if err := os.WriteFile(blob, data, 0o644); err != nil {
			return err
		}
		id := strings.TrimSpace(must("hash-object", b.client, "-w", blob))
		must("read-tree", b.client, "HEAD")
		must("update-index", b.client, "--add", "--cacheinfo", "100644,"+id+","+path)
		committing, err := b.cpu(b.client, nil, "", "pre-commit")
		if err != nil {
			return err
		}
		must("-c", b.client, "user.name="+corpus.OperatorName, "-c", "user.email="+corpus.OperatorEmail, "-c", "gc.auto=0", "commit", "-q", "--no-verify", "-m", "Send")
		tip, err := corpus.SignTip(b.client, strings.TrimSpace(must("rev-parse", b.client, "HEAD")))
		if err != nil {
			return err
		}
		env := []string{"GIT_DIR=.", "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(b.client, ".git", "objects")}
		receiving, err := b.cpu(b.server, env, old+" "+tip+" refs/heads/main\n", "pre-receive", "--timeout", "60s")
		if err != nil {
			return err
		}
		updating, err := b.cpu(b.server, env, "", "update", "--timeout", "60s", "refs/heads/main", old, tip)
		if err != nil {
			return err
		}
		pushing, err := b.cpu(b.client, nil, "refs/heads/main "+tip+" refs/heads/main "+old+"\n", "pre-push", "origin", b.server)
		if err != nil {
			return err
		}
		if _, err := timed(in(b.client, "git", "push", "-q", "--no-verify", b.server, tip+":refs/heads/main")); err != nil {
			return err
		}
		must("update-ref", b.client, "refs/remotes/origin/main", tip)
		if i == 0 {
			continue
		}
		for k, d := range []time.Duration{receiving, updating, pushing, committing} {
			cpu[k] = append(cpu[k], d)
		}
	}
	cells := []string{strconv.Itoa(b.n), kind}
	for _, all := range cpu {
		cells = append(cells, ms(median(all)))
	}
	fmt.Printf("| %s |\n", strings.Join(cells, " | "))
	return nil
}

// message returns one more message of the thread.
func (b *long) message(kind string) (path string, data []byte, err error) {
	b.at++
	if kind == "relay" {
		path, data = corpus.Relay(0, b.at, time.Now(), b.o)
		return path, data, nil
	}
	o := b.o
	o.PerThread, o.Relays = 1<<30, false
	path, data = corpus.Envelope(b.at, o)
	if kind == "RESOLUTION" {
		path = strings.Replace(path, "STATE", kind, 1)
		data = bytes.Replace(data, []byte("type: STATE"), []byte("type: "+kind), 1)
		if _, found := envelope.Parse(data, envelope.Options{Path: path}); len(found) > 0 {
			return "", nil, errors.New(found[0].Message)
		}
	}
	return path, data, nil
}

// cpu runs a hook and returns what it took of a processor, its children's time with it.
func (b *long) cpu(dir string, env []string, stdin string, args ...string) (time.Duration, error) {
	cmd := in(dir, b.program, args...)
	cmd.Env, cmd.Stdin = append(os.Environ(), env...), strings.NewReader(stdin)
	if _, err := timed(cmd); err != nil {
		return 0, err
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
