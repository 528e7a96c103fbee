package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestSmall measures a small tree, to see that every command of the table runs.
func TestSmall(t *testing.T) {
	for _, tool := range []string{"tar", "gzip", "zstd", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	var out strings.Builder
	b := agents{out: &out, files: 50, size: 1, stick: 2, runs: 1}
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 9 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

// TestSmallRye measures a small Rye bundle, to see that it is verified.
func TestSmallRye(t *testing.T) {
	if _, err := ryeRatio(t.TempDir(), 200, 1); err != nil {
		t.Fatal(err)
	}
}
