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
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/test/corpus"
)

// gates measures what the gates cost, beside git doing the same work without
// them. Repositories are made once in -dir and used again.
func gates(flags *flag.FlagSet, args []string) error {
	list := flags.String("n", "1000,100000", "envelopes of each repository")
	rounds := flags.Int("rounds", 15, "pushes of each kind; the median counts")
	dir := flags.String("dir", "", "where repositories are kept; default a scratch directory")
	per := flags.Int("per", 10, "envelopes of a thread")
	audit := flags.Bool("audit", true, "measure check --all, too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return gatesOf(*list, *rounds, *per, *dir, *audit)
}

func gatesOf(sizes string, rounds, per int, dir string, audit bool) error {
	scratch, err := os.MkdirTemp("", "rigward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if dir == "" {
		dir = scratch
	}
	built, err := build(scratch, "rig-hook")
	if err != nil {
		return err
	}
	program := built[0]
	var floor [2]time.Duration
	for i, name := range []string{"git", program} {
		if floor[i], err = repeated(20, name, "--version"); err != nil {
			return err
		}
	}
	fmt.Printf("git %s, floor: `git --version` %s, `rig-hook --version` %s\n\n", version(), ms(floor[0]), ms(floor[1]))
	fmt.Println("| envelopes | what | git alone | with two hooks that are `/bin/true` | with the hook | ratio | hook alone | peak memory of the hook |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	all, err := numbers(sizes)
	if err != nil {
		return err
	}
	for _, n := range all {
		word := strconv.Itoa(n)
		b := &gate{n: n, rounds: rounds, program: program, scratch: filepath.Join(scratch, word), o: corpus.Options{Envelopes: n, PerThread: per, Relays: true, Signed: true}}
		name := fmt.Sprintf("signed-%d.git", n)
		if per != 10 {
			name = fmt.Sprintf("signed-%d-by-%d.git", n, per)
		}
		if err := b.open(filepath.Join(dir, name)); err != nil {
			return err
		}
		if audit {
			if err := b.read(); err != nil {
				return err
			}
		}
		if err := b.install(); err != nil {
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

type gate struct {
	n, rounds        int
	o                corpus.Options
	program, scratch string
	source           string // the repository as generated
	guarded, bare    string // copies of it, with and without the hook
	idle             string // another one, whose hooks do nothing
	client           string
	made             int
	peer             time.Duration // see read
}

func (b *gate) open(source string) error {
	b.source = source
	if _, err := os.Stat(source); err != nil {
		if err := corpus.Generate(source, b.o); err != nil {
			return err
		}
	}
	b.guarded, b.bare, b.client = filepath.Join(b.scratch, "guarded.git"), filepath.Join(b.scratch, "bare.git"), filepath.Join(b.scratch, "client.git")
	b.idle = filepath.Join(b.scratch, "idle.git")
	for _, c := range []string{b.guarded, b.bare, b.idle} {
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
	return idleHooks(filepath.Join(b.idle, "hooks"), "pre-receive", "update")
}

// install puts the hooks in place, which reads the history for its nonces once.
func (b *gate) install() error {
	took, memory, err := measured(exec.Command(b.program, "install", "--server", b.guarded))
	if err != nil {
		return err
	}
	peer, ratio := "", ""
	if b.peer > 0 {
		peer, ratio = ms(b.peer)+" (as below)", fmt.Sprintf("%.2f", float64(took)/float64(b.peer))
	}
	fmt.Printf("| %d | `rig-hook install --server`, which reads the history for its nonces once | %s | | %s | %s | | %.1f MiB |\n",
		b.n, peer, ms(took), ratio, float64(memory)/(1<<20))
	return nil
}

// next makes a commit with one new envelope on top of the client's branch.
func (b *gate) next(kind string) (string, error) {
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
func (b *gate) pushes(kind string) error {
	var with, without, idle, alone []time.Duration
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
		plain, err := timed(in(b.client, "git", "push", "-q", b.bare, tip+":refs/heads/main"))
		if err != nil {
			return err
		}
		nothing, err := timed(in(b.client, "git", "push", "-q", b.idle, tip+":refs/heads/main"))
		if err != nil {
			return err
		}
		guarded, err := timed(in(b.client, "git", "push", "-q", b.guarded, tip+":refs/heads/main"))
		if err != nil {
			return err
		}
		if i == 0 { // caches of the disk, and the nonce index, are cold
			cold = guarded
			continue
		}
		with, without, idle, alone = append(with, guarded), append(without, plain), append(idle, nothing), append(alone, took)
	}
	a, i, w, h := median(without), median(idle), median(with), median(alone)
	fmt.Printf("| %d | push of one %s envelope | %s | %s | %s | %.2f | %s | %.1f MiB |\n", b.n, kind, ms(a), ms(i), ms(w), float64(w)/float64(a), ms(h), float64(memory)/(1<<20))
	fmt.Printf("| %d | the same, first time (cold caches) | | | %s | | | |\n", b.n, ms(cold))
	return nil
}

// alone runs the hook by itself on what is about to be pushed, and leaves the
// nonce index as it was: a hook that sees a relay for the second time does more.
func (b *gate) alone(line string) (took time.Duration, memory int64, err error) {
	index, kept := filepath.Join(b.guarded, "rigward"), filepath.Join(b.scratch, "index")
	if err := os.CopyFS(kept, os.DirFS(index)); err != nil {
		return 0, 0, err
	}
	cmd := exec.Command(b.program, "pre-receive", "--timeout", "60s")
	cmd.Dir, cmd.Stdin = b.guarded, strings.NewReader(line)
	cmd.Env = append(os.Environ(), "GIT_DIR=.", "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(b.client, "objects"))
	if took, memory, err = measured(cmd); err != nil {
		return 0, 0, err
	}
	if err := os.RemoveAll(index); err != nil {
		return 0, 0, err
	}
	return took, memory, os.Rename(kept, index)
}

// read measures how long git takes to read all objects of a history, beside which
// stands what reads a whole history.
func (b *gate) read() error {
	start := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list := exec.CommandContext(ctx, "git", "-C", b.source, "rev-list", "--objects", "--no-object-names", "main")
	read := exec.Command("git", "-C", b.source, "cat-file", "--batch", "--buffer")
	var err error
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
	b.peer = time.Since(start)
	return nil
}

// audit measures a whole history, in a copy that no audit has marked, and then what
// the next audits take.
func (b *gate) audit() error {
	copied := filepath.Join(b.scratch, "audit.git")
	if _, err := corpus.Git("", "clone", "-q", "--bare", "--local", b.source, copied); err != nil {
		return err
	}
	check := func() (time.Duration, int64, error) {
		cmd := in(copied, b.program, "check", "--all", "--format", "json")
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(b.scratch, "state"))
		return measured(cmd)
	}
	took, memory, err := check()
	if err != nil {
		return err
	}
	again, _, err := check()
	if err != nil {
		return err
	}
	if _, err := corpus.Git(copied, "fetch", "-q", b.client, "main:main"); err != nil {
		return err
	}
	beyond, little, err := check()
	if err != nil {
		return err
	}

	signers := filepath.Join(b.scratch, "signers")
	if err := os.WriteFile(signers, []byte(corpus.Signers()), 0o644); err != nil {
		return err
	}
	count := min(300, b.n)
	gpg, err := timed(in(b.source, "git", "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+signers, "log", "--format=%G?", "-"+strconv.Itoa(count), "main"))
	if err != nil {
		return err
	}
	each := took / time.Duration(b.n)
	fmt.Printf("| %d | `check --all`, per envelope | %s (`rev-list --objects \\| cat-file --batch`) | | %s | %.2f | %s whole | %.1f MiB |\n",
		b.n, us(b.peer/time.Duration(b.n)), us(each), float64(took)/float64(b.peer), took.Round(time.Millisecond), float64(memory)/(1<<20))
	fmt.Printf("| %d | the same beside `git log --format=%%G?` on %d commits | %s per commit | | %s | %.0f times faster | | |\n",
		b.n, count, us(gpg/time.Duration(count)), us(each), float64(gpg/time.Duration(count))/float64(each))
	fmt.Printf("| %d | `check --all` once more, and with %d new commits | | | %s and %s | | | %.1f MiB |\n", b.n, b.made, ms(again), ms(beyond), float64(little)/(1<<20))
	return nil
}

func must(verb, dir string, args ...string) string {
	out, err := corpus.Git(dir, append([]string{verb}, args...)...)
	if err != nil {
		panic(err)
	}
	return out
}

func version() string {
	out, _ := corpus.Git("", "--version")
	return strings.TrimPrefix(strings.TrimSpace(out), "git version ")
}
