package envelope_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
)

var update = flag.Bool("update", false, "write the golden files")

// TestMessages keeps the exact text of every finding on the vectors.
func TestMessages(t *testing.T) {
	var vectors []vector
	readJSON(t, "verdicts.json", &vectors)
	var b bytes.Buffer
	for _, v := range vectors {
		data, err := os.ReadFile(filepath.Join(vectorDir, v.File))
		if err != nil {
			t.Fatal(err)
		}
		_, fs := judge(data, envelope.Options{})
		for _, f := range fs {
			fmt.Fprintf(&b, "%s:%d:%d: %s: %s: %s\n", v.File, f.Line, f.Col, f.Severity, f.Rule, f.Message)
			if f.Hint != "" {
				fmt.Fprintf(&b, "\thint: %s\n", f.Hint)
			}
		}
	}
	golden := filepath.Join("testdata", "messages.golden")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		got, want := bytes.Split(b.Bytes(), []byte("\n")), bytes.Split(want, []byte("\n"))
		for i := range min(len(got), len(want)) {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("line %d of %s: %s\nexpected %s\nrun with -update if that is right", i+1, golden, got[i], want[i])
			}
		}
		t.Fatalf("%s has %d lines, expected %d", golden, len(want), len(got))
	}
}
