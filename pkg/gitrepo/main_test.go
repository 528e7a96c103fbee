package gitrepo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// The test binary is also the hook of the tests: with GITREPO_HOOK set it
// looks at the repository as the gate would and writes what it saw to
// GITREPO_OUT, one JSON value per call.
func TestMain(m *testing.M) {
	if mode := os.Getenv("GITREPO_HOOK"); mode != "" {
		hook(mode)
		return
	}
	os.Exit(m.Run())
}

// A sight is what a hook saw.
type sight struct {
	Error   string
	Commits []string
	Files   map[string]string // path to content, "" of a deleted one
	Index   []string
	GitDir  string
	Top     string
	Ref     string
	Quarant bool
}

func hook(mode string) {
	saw := sight{Files: make(map[string]string)}
	if err := look(mode, &saw); err != nil {
		saw.Error = err.Error() + " | " + gitrepo.Hint(err)
	}
	line, err := json.Marshal(saw)
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(os.Getenv("GITREPO_OUT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(f, "%s\n", line)
	f.Close()
}

func look(mode string, saw *sight) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	env := gitrepo.Env{Environ: os.Environ()}
	if other := os.Getenv("GITREPO_OTHER"); other != "" {
		env = env.Foreign(other)
	}
	// Wait for as many hooks as there should be at a time.
	if dir := os.Getenv("GITREPO_TOGETHER"); dir != "" {
		os.WriteFile(fmt.Sprintf("%s/%d", dir, os.Getpid()), nil, 0o644)
		for n := 0; n < 2 && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			list, _ := os.ReadDir(dir)
			n = len(list)
		}
	}
	repo, err := gitrepo.Open(ctx, env)
	if err != nil {
		return err
	}
	defer repo.Close()
	saw.GitDir, saw.Top, saw.Quarant = repo.GitDir(), repo.WorkTree(), repo.Env().Get("GIT_QUARANTINE_PATH") != ""
	read := func(changes []gitrepo.Change) error {
		for _, c := range changes {
			if c.Deleted() {
				saw.Files[c.Path] = ""
				continue
			}
			data, err := repo.Blob(c.NewID, 1<<20)
			if err != nil {
				return err
			}
			saw.Files[c.Path] = string(data)
		}
		return nil
	}
	switch mode {
	case "staged":
		if saw.Ref, _, err = repo.HEAD(); err != nil {
			return err
		}
		changes, _, err := repo.Staged(ctx)
		if err != nil {
			return err
		}
		entries, err := repo.Index(ctx)
		if err != nil {
			return err
		}
		for i := range entries.Len() {
			saw.Index = append(saw.Index, entries.Entry(i).Path)
		}
		return read(changes)
	case "receive":
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			f := strings.Fields(lines.Text())
			var include, exclude []string
			if !repo.IsZero(f[1]) {
				include = append(include, f[1])
			}
			if !repo.IsZero(f[0]) {
				exclude = append(exclude, f[0])
			}
			err := repo.ScanCommits(ctx, repo.RevList(ctx, include, exclude, gitrepo.RevListOptions{}), gitrepo.ScanOptions{}, func(s *gitrepo.Scanned) error {
				saw.Commits = append(saw.Commits, s.ID)
				for _, d := range s.Diffs {
					if err := read(d.Changes); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return lines.Err()
	}
	return fmt.Errorf("no mode %q", mode)
}

// install makes the test binary a hook of r and returns a function for what it
// has seen since the last call of that function.
func install(t *testing.T, r *gittest.Repo, name, mode string, prelude ...string) func() []sight {
	t.Helper()
	out := gittest.TempDir(t) + "/out"
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.Hook(name, fmt.Sprintf("#!/bin/sh\n%s\nGITREPO_HOOK=%s GITREPO_OUT='%s' exec '%s'\n", strings.Join(prelude, "\n"), mode, out, exe))
	seen := 0
	return func() []sight {
		t.Helper()
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatalf("the hook has not run: %v", err)
		}
		var all []sight
		for line := range strings.Lines(string(text)) {
			var s sight
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		recent := all[seen:]
		seen = len(all)
		return recent
	}
}

func one(t *testing.T, sights []sight) sight {
	t.Helper()
	if len(sights) != 1 {
		t.Fatalf("the hook ran %d times, want once: %+v", len(sights), sights)
	}
	return sights[0]
}
