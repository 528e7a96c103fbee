package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/corpus"
)

// commits measures `git commit` of one envelope: without hooks, with two hooks that
// are /bin/true, and with pre-commit and commit-msg of rigward, by turns.
func commits(flags *flag.FlagSet, args []string) error {
	list := flags.String("n", "1000,10000,100000", "envelopes of each repository")
	rounds := flags.Int("rounds", 21, "commits of each kind; the median counts")
	kept := flags.String("dir", "", "where the generated repositories are kept; default a scratch directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "rigward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	built, err := build(scratch, "rig-hook")
	if err != nil {
		return err
	}
	fmt.Printf("%d cores, git %s, load %s: compare within one row only.\n\n", runtime.NumCPU(), version(), load())
	fmt.Println("| envelopes | `git commit` without hooks | with two hooks that are `/bin/true` | with ours | added | pre-commit alone | with nothing staged | commit-msg alone |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	all, err := numbers(*list)
	if err != nil {
		return err
	}
	for _, n := range all {
		word := strconv.Itoa(n)
		source := filepath.Join(cmp.Or(*kept, scratch), "plain-"+word+".git")
		if err := commitsOf(source, filepath.Join(scratch, word), built[0], n, *rounds); err != nil {
			return err
		}
	}
	return nil
}

func commitsOf(source, dir, program string, n, rounds int) error {
	o := corpus.Options{Envelopes: n}
	if _, err := os.Stat(source); err != nil {
		if err := corpus.Generate(source, o); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	kinds := []string{"", idleHook, program}
	clone := func(kind int) string { return filepath.Join(dir, strconv.Itoa(kind)) }
	for kind, hook := range kinds {
		if _, err := corpus.Git("", "clone", "-q", "--shared", source, clone(kind)); err != nil {
			return err
		}
		names, into := []string{"pre-commit", "commit-msg"}, filepath.Join(clone(kind), ".git", "hooks")
		switch hook {
		case "":
		case program:
			if _, err := hooks.Install(into, program, names); err != nil {
				return err
			}
		default:
			if err := idleHooks(into, names...); err != nil {
				return err
			}
		}
	}
	var took [3][]time.Duration
	var alone [2][]time.Duration
	var nothing []time.Duration
	for i := range rounds + 1 { // the first ones are not counted
		path, data := corpus.Envelope(n+i*o.Per(), o)
		for kind := range kinds {
			file := filepath.Join(clone(kind), filepath.FromSlash(path))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(file, data, 0o644); err != nil {
				return err
			}
			if _, err := corpus.Git(clone(kind), "add", path); err != nil {
				return err
			}
			if kind == 2 {
				for h, cmd := range []*exec.Cmd{in(clone(kind), program, "pre-commit"), in(clone(kind), program, "commit-msg")} {
					d, err := timed(cmd)
					if err != nil {
						return err
					}
					alone[h] = append(alone[h], d)
				}
			}
			d, err := timed(in(clone(kind), "git", "-c", "user.name="+corpus.OperatorName, "-c", "user.email="+corpus.OperatorEmail, "-c", "gc.auto=0", "commit", "-q", "-m", "Send"))
			if err != nil {
				return err
			}
			took[kind] = append(took[kind], d)
			if kind == 2 {
				d, err := timed(in(clone(kind), program, "pre-commit")) // of what is committed now
				if err != nil {
					return err
				}
				nothing = append(nothing, d)
			}
		}
	}
	none, idle, ours := median(took[0][1:]), median(took[1][1:]), median(took[2][1:])
	cells := []string{ms(none), ms(idle), ms(ours), ms(ours - none), ms(median(alone[0])), ms(median(nothing)), ms(median(alone[1]))}
	fmt.Printf("| %d | %s |\n", n, strings.Join(cells, " | "))
	return nil
}

// idleHook is a program that does nothing: what it costs as a hook is the floor.
const idleHook = "/bin/true"

// idleHooks puts hooks into a directory that do nothing.
func idleHooks(dir string, names ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!"+idleHook+"\n"), 0o755); err != nil {
			return err
		}
	}
	return nil
}
