//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostileText has what ends a fence, a cell or a line, and what a terminal or
// a browser would obey.
const hostileText = "```\n````diff\n</details><script>alert(1)</script>\n| a | b |\n\x1b[31mred\x1b[0m\n::error::no command\n@team #1 :tada: $x$\n"

// TestDiffForms pins both forms of diff on changes of every kind, with names,
// fields and contents that try to be more than text.
func TestDiffForms(t *testing.T) {
	dir := newRig(t)
	write := func(files map[string]string) {
		t.Helper()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, "agents/impl", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	create := func(out, name string) {
		t.Helper()
		status, _, errs := command(dir, nil, "create", "rig.yaml", "-o", out, "--source-root", ".", "--created-at", "2026-01-01T00:00:00Z", "--name", name)
		if status != exitOK {
			t.Fatal(errs)
		}
	}
	const odd = "a`|<b>*_[x](y) @me.md"
	write(map[string]string{odd: "one\n", "gone.md": "bye\n", "data.bin": "\x00\x01"})
	create("a.rigbundle", "demo")
	write(map[string]string{odd: "one\n" + hostileText, "data.bin": "\x00\x02\x03", "new.md": hostileText})
	if err := os.Remove(filepath.Join(dir, "agents/impl/gone.md")); err != nil {
		t.Fatal(err)
	}
	chmod(t, dir, map[string]string{"agents/impl/run.sh": "0644"})
	create("b.rigbundle", "`x` \\| <img src=x onerror=alert(1)> | [l](javascript:x) @team")
	for _, form := range []string{"text", "markdown"} {
		t.Run(form, func(t *testing.T) {
			status, out, errs := command(dir, nil, "diff", "a.rigbundle", "b.rigbundle", "--format", form)
			if status != exitFindings {
				t.Fatalf("status %d: %s", status, errs)
			}
			if i := strings.IndexFunc(out, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x202e }); i >= 0 {
				t.Errorf("a control character in %q", out[i:])
			}
			if form == "markdown" {
				inertMarkdown(t, out)
			}
			name := filepath.Join("testdata", "diff."+form+".golden")
			if *update {
				if err := os.WriteFile(name, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal([]byte(out), want) {
				t.Errorf("%s\nis not %s:\n%s", out, name, want)
			}
		})
	}
}

// inertMarkdown holds a page to this: fences are closed by their like only,
// and outside of them every table row has its three cells and no character
// that begins markup.
func inertMarkdown(t *testing.T, page string) {
	t.Helper()
	fence := ""
	for line := range strings.SplitSeq(page, "\n") {
		if fence != "" {
			if strings.TrimRight(line, " ") == fence {
				fence = ""
			} else if strings.HasPrefix(strings.TrimLeft(line, " "), fence) {
				t.Errorf("a line of the diff ends its fence: %q", line)
			}
			continue
		}
		if ticks := len(line) - len(strings.TrimLeft(line, "`")); ticks >= 3 {
			if line[ticks:] != "diff" {
				t.Errorf("a fence of no diff: %q", line)
			}
			fence = line[:ticks]
			continue
		}
		plain := line
		for _, own := range []string{"<code>", "</code>", "<span>", "</span>", " -> "} {
			plain = strings.ReplaceAll(plain, own, "")
		}
		if strings.ContainsAny(plain, "<>`*_[]\\@$") {
			t.Errorf("markup in %q", line)
		}
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != 4 {
			t.Errorf("a row with other cells: %q", line)
		}
	}
	if fence != "" {
		t.Error("a fence stays open")
	}
}
