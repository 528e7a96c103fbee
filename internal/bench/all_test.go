package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheDocumentsHaveEveryBlock(t *testing.T) {
	dir, figures := t.TempDir(), map[string]string{"floor": "figures of floor\n"}
	for _, p := range parts("DIR", "NODE_MODULES", false) {
		figures[p.name] = "figures of " + p.name + "\n"
	}
	read := func(dir string) (all string) {
		for _, name := range documents {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all += string(text)
		}
		return all
	}
	if err := os.CopyFS(filepath.Join(dir, "docs"), os.DirFS(filepath.Join("..", "..", "docs"))); err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join(dir, "docs")
	if err := write(docs, figures); err != nil {
		t.Fatal(err)
	}
	text := read(docs)
	for name, figure := range figures {
		if strings.Count(text, "<!-- measured: "+name+" -->\n\n"+figure) != 1 {
			t.Errorf("the figures of %q do not stand once in the documents", name)
		}
	}
	if n := strings.Count(text, "<!-- measured: "); n != len(figures) {
		t.Errorf("%d blocks in the documents, %d benchmarks", n, len(figures))
	}
	if err := write(docs, map[string]string{"nobody": "x"}); err == nil {
		t.Error("figures without a block are lost in silence")
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
