package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A part is a block of the document and the arguments that fill it.
type part struct {
	name string
	args []string
}

func parts(dir, reference string, quick bool) []part {
	gates, control := []string{"gates", "-dir", dir}, []string{"control", "-dir", dir}
	action, bundles, agents, rye := []string{"action"}, []string{"bundles"}, []string{"agentbundle"}, []string{"ryebundle"}
	thread := []string{"thread", "-dir", dir}
	image, commit, hosts, attest := []string{"image"}, []string{"commit", "-dir", dir}, []string{"hosts"}, []string{"attest"}
	client := []string{"client", "-dir", dir, "-reference", reference, "-sizes", "1000,10000,100000"}
	if quick {
		commit = append(commit, "-n", "100", "-rounds", "3")
		hosts = append(hosts, "-repositories", "10", "-n", "10", "-at-once", "4", "-for", "2s")
		attest = append(attest, "-rounds", "2")
		gates = append(gates, "-n", "1000", "-rounds", "5")
		thread = append(thread, "-n", "200", "-rounds", "2")
		control = append(control, "-n", "1000", "-rounds", "5")
		client = []string{"client", "-reference", reference, "-sizes", "10", "-rounds", "3"}
		action = append(action, "-n", "1000", "-rounds", "3")
		bundles = append(bundles, "-only", "0")
		agents = append(agents, "-files", "50", "-size", "1", "-yardstick", "2", "-runs", "1")
		image = append(image, "-files", "50", "-size", "1", "-base", "2", "-runs", "1")
		rye = append(rye, "-items", "200", "-rounds", "2")
	}
	return []part{
		{"commit", commit},
		{"gates", gates},
		{"thread", thread},
		{"hosts", hosts},
		{"attest", attest},
		{"million", []string{"gates", "-dir", dir, "-n", "1000000", "-per", "1000", "-rounds", "5"}},
		{"action", action},
		{"bundles", bundles},
		{"agentbundle", agents},
		{"image", image},
		{"ryebundle", rye},
		{"client", client},
		{"control", control},
	}
}

// all measures everything of docs/performance.md and of its appendix in one run and
// writes the figures into them: the text between a pair of lines
//
//	<!-- measured: NAME -->
//	<!-- /measured -->
//
// is what the benchmark NAME printed. The rest of the documents stays. The part
// "million" runs only where -only names it. A benchmark that fails leaves its
// old figures.
func all(flags *flag.FlagSet, args []string) error {
	dir := flags.String("dir", "", "where generated repositories are kept (required)")
	reference := flags.String("reference", "", "node_modules directory with @mcptoolshop/rig-bridge (required)")
	only := flags.String("only", "", "names of the benchmarks to run, comma-separated; default all")
	quick := flags.Bool("quick", false, "small sizes, to see that everything runs; writes nothing")
	docs := flags.String("docs", "docs", "the directory of the documents")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *reference == "" || flags.NArg() > 0 {
		return errors.New("-dir and -reference are needed, and nothing else")
	}
	return fill(*docs, *only, *quick, parts(*dir, *reference, *quick))
}

func fill(docs, only string, quick bool, all []part) error {
	chosen := func(name string) bool {
		return only == "" && name != "million" || slices.Contains(strings.Split(only, ","), name)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	figures := map[string]string{}
	var faults []error
	if chosen("floor") {
		text, err := floor()
		if err != nil {
			return err
		}
		figures["floor"] = text
		fmt.Print(text)
	}
	for _, p := range all {
		if !chosen(p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "== %s (load %s)\n", p.name, load())
		start := time.Now()
		cmd := exec.Command(program, p.args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		err := cmd.Run()
		fmt.Fprintf(os.Stderr, "   %s\n", time.Since(start).Round(time.Second))
		fmt.Print(out.String())
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		figures[p.name] = block(out.String())
	}
	if !quick {
		faults = append(faults, write(docs, figures))
	}
	return errors.Join(faults...)
}

// documents have the blocks: what a user feels, and the rest.
var documents = []string{"performance.md", "performance-appendix.md"}

// write puts figures into the blocks of the documents.
func write(docs string, figures map[string]string) error {
	left := maps.Clone(figures)
	for _, name := range documents {
		file := filepath.Join(docs, name)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for part := range figures {
			if with, err := replace(text, part, figures[part]); err == nil {
				text = with
				delete(left, part)
			}
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("no document has a block for %v", slices.Sorted(maps.Keys(left)))
	}
	return nil
}

// block makes Markdown of what a benchmark printed: tables as they are, all
// else preformatted.
func block(out string) string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(out, "\r", "")) {
		line = strings.TrimRight(line, " \t\n")
		lines = append(lines, line)
	}
	text := strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
	if !strings.Contains("\n"+text, "\n|") {
		text = "```\n" + text + "```\n"
	}
	return text
}

// replace puts figures into the block name of a document.
func replace(text []byte, name, figures string) ([]byte, error) {
	head, tail := fmt.Appendf(nil, "<!-- measured: %s -->\n", name), []byte("<!-- /measured -->")
	before, rest, found := bytes.Cut(text, head)
	_, after, closed := bytes.Cut(rest, tail)
	if !found || !closed {
		return text, fmt.Errorf("the document has no block %q", name)
	}
	return slices.Concat(before, head, []byte("\n"+figures+"\n"), tail, after), nil
}

// load is the machine's load of the last minute where it can be read, so that
// a run on a busy machine is known as one.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}
