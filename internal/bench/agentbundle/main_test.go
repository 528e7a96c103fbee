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
	var out, errs strings.Builder
	if code := Main(t.Context(), []string{"-files", "50", "-size", "1", "-yardstick", "2", "-runs", "1"}, &out, &errs); code == 2 {
		t.Fatal(errs.String())
	}
	if n := strings.Count(out.String(), "\n"); n != 9 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}
