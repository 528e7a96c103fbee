package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/test/corpus"
)

// attested measures what attestations add to a push: the three hooks of a server with
// a key beside those of one without, run by turns, and whole pushes to both. The
// least time of each counts as well as the median, since who signs runs beside it.
func attested(flags *flag.FlagSet, args []string) error {
	rounds := flags.Int("rounds", 40, "runs of each kind")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "rigward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if _, err := build(scratch, "rig-hook"); err != nil {
		return err
	}
	hook, client := filepath.Join(scratch, "rig-hook"), filepath.Join(scratch, "client")
	git := func(dir string, args ...string) (string, error) {
		out, err := corpus.Git(dir, append([]string{"-c", "user.name=Op", "-c", "user.email=op@example.com"}, args...)...)
		return strings.TrimSpace(out), err
	}
	if _, err := git("", "init", "-q", "-b", "main", client); err != nil {
		return err
	}
	servers := []string{"off", "on"}
	for _, s := range servers {
		dir := filepath.Join(scratch, s)
		if _, err := git("", "init", "-q", "--bare", "-b", "main", dir); err != nil {
			return err
		}
		if s == "on" {
			if _, err := timed(in(dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "attest_key")); err != nil {
				return err
			}
			if _, err := git(dir, "config", "rigward.attestKey", "attest_key"); err != nil {
				return err
			}
		}
		if _, err := timed(in(dir, hook, "install", "--server", ".", "--bootstrap")); err != nil {
			return err
		}
	}
	times := map[string][]time.Duration{}
	for i := range *rounds + 1 {
		if _, err := git(client, "commit", "-q", "--allow-empty", "-m", fmt.Sprint(i)); err != nil {
			return err
		}
		for _, s := range servers {
			dir := filepath.Join(scratch, s)
			push, err := timed(in(client, "git", "push", "-q", dir, "main"))
			if err != nil {
				return err
			}
			if i == 0 {
				continue
			}
			times["push "+s] = append(times["push "+s], push)
			old, err := git(dir, "rev-parse", "main~1")
			if err != nil {
				return err
			}
			tip, err := git(dir, "rev-parse", "main")
			if err != nil {
				return err
			}
			for _, h := range [][]string{{"pre-receive"}, {"update", "refs/heads/main", old, tip}, {"post-receive"}} {
				cmd := in(dir, hook, h...)
				cmd.Env, cmd.Stdin = append(os.Environ(), "GIT_DIR=."), strings.NewReader(old+" "+tip+" refs/heads/main\n")
				d, err := timed(cmd)
				if err != nil {
					return err
				}
				times[h[0]+" "+s] = append(times[h[0]+" "+s], d)
			}
		}
	}
	fmt.Println("| what | without a key, least and median | with one | added |")
	fmt.Println("|---|---|---|---|")
	for _, what := range []string{"pre-receive", "update", "post-receive", "push"} {
		off, on := times[what+" off"], times[what+" on"]
		fmt.Printf("| %s | %s, %s | %s, %s | %s, %s |\n", what, ms(slices.Min(off)), ms(median(off)), ms(slices.Min(on)), ms(median(on)),
			ms(slices.Min(on)-slices.Min(off)), ms(median(on)-median(off)))
	}
	return nil
}
