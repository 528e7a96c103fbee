package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheDocumentHasEveryBlock(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"floor"}
	for _, p := range parts("DIR", "NODE_MODULES", false) {
		names = append(names, p.name)
	}
	for _, name := range names {
		if text, err = replace(text, name, "figures of "+name+"\n"); err != nil {
			t.Error(err)
		}
		if n := strings.Count(string(text), "<!-- measured: "+name+" -->"); n != 1 {
			t.Errorf("block %q stands %d times in the document", name, n)
		}
	}
	if n := strings.Count(string(text), "<!-- measured: "); n != len(names) {
		t.Errorf("%d blocks in the document, %d benchmarks", n, len(names))
	}
}

func TestBlock(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a table stays", "first\n\n| a | b |\n|---|---|\n", "first\n\n| a | b |\n|---|---|\n"},
		{"columns are preformatted", "  100/1 MiB create  \n", "```\n  100/1 MiB create\n```\n"},
	} {
		if got := block(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
