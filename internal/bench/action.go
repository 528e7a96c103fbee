package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/test/corpus"
)

// action measures the step of the GitHub Action: a pull request of five
// envelopes and one bundle of 1 MiB, in a repository of 10,000 envelopes, beside
// `git rev-list --objects | git cat-file --batch` over the same range and the
// start of a process.
func action(flags *flag.FlagSet, args []string) error {
	n := flags.Int("n", 10000, "envelopes of the repository")
	rounds := flags.Int("rounds", 15, "runs; the median counts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return actionOf(*n, *rounds)
}

func actionOf(n, rounds int) error {
	dir, err := os.MkdirTemp("", "rigward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	command := func(at string, env []string, name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = at, append(os.Environ(), env...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(args, " "), err, out.Bytes(), errs.Bytes())
		}
		return strings.TrimSpace(out.String()), nil
	}
	if _, err := build(dir, "rig-action", "rig-bundle"); err != nil {
		return err
	}
	o := corpus.Options{Envelopes: n, Relays: true, Signed: true}
	bare, tree := filepath.Join(dir, "bridge.git"), filepath.Join(dir, "bridge")
	if err := corpus.Generate(bare, o); err != nil {
		return err
	}
	if _, err := command(dir, nil, "git", "clone", "-q", bare, tree); err != nil {
		return err
	}
	git := func(args ...string) (string, error) {
		return command(tree, nil, "git", append([]string{"-c", "user.name=" + corpus.OperatorName, "-c", "user.email=" + corpus.OperatorEmail, "-c", "commit.gpgsign=false"}, args...)...)
	}
	write := func(name string, data []byte) error {
		name = filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return os.WriteFile(name, data, 0o644)
	}
	// Text that compresses to a bundle of about 1 MiB.
	noise := make([]byte, 1000<<10)
	rand.New(rand.NewSource(1)).Read(noise)
	role := func(head string) []byte { return fmt.Appendf(nil, "%s\n%x\n", head, noise) }
	for name, text := range map[string]string{
		".bridge/policy.yaml":              "version: 1\nbundles:\n  - format: rig\n    source: rigs/team/rig.yaml\n    output: dist/team.rigbundle\n",
		"rigs/team/rig.yaml":               "version: \"0.2\"\nname: team\npods:\n  - id: dev\n    label: Dev\n    members:\n      - id: impl\n        agent_ref: local:agents/impl\n        profile: default\n        runtime: codex\n        cwd: .\n",
		"rigs/team/agents/impl/agent.yaml": "name: impl\nversion: \"1.0\"\nprofiles:\n  default: {}\n",
		"rigs/team/agents/impl/role.md":    string(role("Build it.")),
	} {
		if err := write(name, []byte(text)); err != nil {
			return err
		}
	}
	commit := func(what string, paths ...string) (string, error) {
		if _, err := git(append([]string{"add", "--"}, paths...)...); err != nil {
			return "", err
		}
		if _, err := git("commit", "-q", "-m", what); err != nil {
			return "", err
		}
		return git("rev-parse", "HEAD")
	}
	pack := func() error {
		if err := os.MkdirAll(filepath.Join(tree, "dist"), 0o755); err != nil {
			return err
		}
		_, err := command(tree, nil, filepath.Join(dir, "rig-bundle"), "create", "rigs/team/rig.yaml", "--from", "HEAD", "-o", "dist/team.rigbundle")
		return err
	}
	if _, err := commit("A rig", ".bridge", "rigs"); err != nil {
		return err
	}
	if err := pack(); err != nil {
		return err
	}
	base, err := commit("Its bundle", "dist")
	if err != nil {
		return err
	}
	for i := range 5 {
		path, data := corpus.Envelope(n+i*10, o)
		if err := write(path, data); err != nil {
			return err
		}
		if _, err := commit("Send", path); err != nil {
			return err
		}
	}
	if err := write("rigs/team/agents/impl/role.md", role("Build it well.")); err != nil {
		return err
	}
	if _, err := commit("Say it better", "rigs"); err != nil {
		return err
	}
	if err := pack(); err != nil {
		return err
	}
	head, err := commit("Its bundle", "dist")
	if err != nil {
		return err
	}
	st, err := os.Stat(filepath.Join(tree, "dist/team.rigbundle"))
	if err != nil {
		return err
	}
	summary := filepath.Join(dir, "summary.md")
	step := func() (string, error) {
		return command(tree, []string{"GITHUB_WORKSPACE=" + tree, "GITHUB_STEP_SUMMARY=" + summary, "INPUT_BASE=" + base, "INPUT_HEAD=" + head}, filepath.Join(dir, "rig-action"))
	}
	said, err := step()
	if err != nil {
		return err
	}
	var ours, peer, floor []time.Duration
	for range rounds {
		for _, m := range []struct {
			to  *[]time.Duration
			run func() (string, error)
		}{
			{&ours, step},
			{&peer, func() (string, error) {
				return command(tree, nil, "sh", "-c", "git rev-list --objects "+base+".."+head+" | cut -d' ' -f1 | git cat-file --batch > /dev/null")
			}},
			{&floor, func() (string, error) { return command(tree, nil, "git", "--version") }},
		} {
			start := time.Now()
			if _, err := m.run(); err != nil {
				return err
			}
			*m.to = append(*m.to, time.Since(start))
		}
	}
	fmt.Printf("%s (bundle of %d bytes)\n\n", said, st.Size())
	fmt.Println("| envelopes | what | time | `rev-list --objects \\| cat-file --batch` of the range | `git --version` |")
	fmt.Println("|---|---|---|---|---|")
	fmt.Printf("| %d | `rig-action`: 5 envelopes, one bundle | %s | %s | %s |\n", n, show(median(ours)), show(median(peer)), show(median(floor)))
	return nil
}
