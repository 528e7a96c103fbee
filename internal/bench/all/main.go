// Command all measures everything of docs/performance.md in one run and writes
// the figures into it: the text between a pair of lines
//
//	<!-- measured: NAME -->
//	<!-- /measured -->
//
// is what the benchmark NAME printed. The rest of the document stays.
//
//	go run ./internal/bench/all -dir DIR -reference NODE_MODULES [-only NAMES] [-quick]
//
// DIR keeps the generated repositories, NODE_MODULES holds the reference
// client. The part "million" runs only where -only names it. A benchmark that
// fails leaves its old figures, and the run exits 1.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A part is a block of the document and the command that fills it.
type part struct {
	name string
	args []string // of `go`
	env  []string
}

func parts(dir, reference string, quick bool) []part {
	run := func(name string, args ...string) part {
		return part{name: name, args: append([]string{"run", "./internal/bench/" + name}, args...)}
	}
	gates, control := []string{"-dir", dir}, []string{"-dir", dir}
	client := []string{"-reference", reference, "-sizes", "1000,10000,100000"}
	if quick {
		gates = append(gates, "-n", "1000", "-rounds", "5")
		control = append(control, "-n", "1000", "-rounds", "5")
		client = []string{"-reference", reference, "-sizes", "10", "-rounds", "3"}
	}
	return []part{
		run("gates", gates...),
		{name: "million", args: []string{"run", "./internal/bench/gates", "-dir", dir, "-n", "1000000", "-per", "1000", "-audit=false", "-rounds", "5"}},
		run("action"),
		run("bundles"),
		run("agentbundle"),
		{name: "ryebundle", args: []string{"test", "-count=1", "-v", "-run", "Ratio", "./internal/bench/ryebundle"}, env: []string{"RIGWARD_BENCH=1"}},
		run("client", client...),
		run("control", control...),
	}
}

func main() {
	dir := flag.String("dir", "", "where generated repositories are kept (required)")
	reference := flag.String("reference", "", "node_modules directory with @mcptoolshop/rig-bridge (required)")
	only := flag.String("only", "", "names of the benchmarks to run, comma-separated; default all")
	quick := flag.Bool("quick", false, "small sizes, to see that everything runs; writes nothing")
	document := flag.String("document", filepath.Join("docs", "performance.md"), "the document")
	flag.Parse()
	if *dir == "" || *reference == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*document, *only, *quick, parts(*dir, *reference, *quick)); err != nil {
		fmt.Fprintln(os.Stderr, "all:", err)
		os.Exit(1)
	}
}

func run(document, only string, quick bool, all []part) error {
	chosen := func(name string) bool {
		return only == "" && name != "million" || slices.Contains(strings.Split(only, ","), name)
	}
	measured := map[string]string{}
	var faults []error
	if chosen("floor") {
		text, err := floor()
		if err != nil {
			return err
		}
		measured["floor"] = text
		fmt.Print(text)
	}
	for _, p := range all {
		if !chosen(p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "== %s (load %s)\n", p.name, load())
		start := time.Now()
		cmd := exec.Command("go", p.args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr, cmd.Env = &out, os.Stderr, append(os.Environ(), p.env...)
		err := cmd.Run()
		fmt.Fprintf(os.Stderr, "   %s\n", time.Since(start).Round(time.Second))
		fmt.Print(out.String())
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		measured[p.name] = block(out.String())
	}
	if !quick {
		text, err := os.ReadFile(document)
		if err != nil {
			return err
		}
		for name, figures := range measured {
			if text, err = replace(text, name, figures); err != nil {
				faults = append(faults, err)
			}
		}
		if err := os.WriteFile(document, text, 0o644); err != nil {
			return err
		}
	}
	return errors.Join(faults...)
}

// block makes Markdown of what a benchmark printed: tables as they are, all
// else preformatted.
func block(out string) string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(out, "\r", "")) {
		line = strings.TrimRight(line, " \t\n")
		if noise(line) {
			continue
		}
		lines = append(lines, line)
	}
	text := strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
	if !strings.Contains("\n"+text, "\n|") {
		text = "```\n" + text + "```\n"
	}
	return text
}

// noise says whether a line is the test runner's, not a figure.
func noise(line string) bool {
	for _, prefix := range []string{"=== ", "--- PASS", "PASS", "ok  \t"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
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
