package hooks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// judgedFile makes a record of a text.
func judgedFile(t testing.TB, text string) *Judged {
	t.Helper()
	j := &Judged{file: filepath.Join(t.TempDir(), "rigward", "judged"), valid: func(id string) bool {
		return len(id) == 40 && strings.Trim(id, "0123456789abcdef") == ""
	}}
	if text != "" {
		if err := os.MkdirAll(filepath.Dir(j.file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(j.file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	j.read()
	return j
}

func judgedID(n int) string { return fmt.Sprintf("%040x", n) }

// TestJudged: what the record does not say as a whole line counts as not
// judged, and it does not grow without end.
func TestJudged(t *testing.T) {
	const ref = "refs/heads/release/1"
	a, b := judgedID(1), judgedID(2)
	j := judgedFile(t, a+" "+ref+"\nnonsense\n"+b+" not a ref\n"+b+" "+ref) // the last line is cut
	if !j.has(ref, a) || j.has(ref, b) || j.has("refs/heads/x", a) || !j.isDefault("refs/heads/main") {
		t.Errorf("%+v", j)
	}
	if j = judgedFile(t, "default refs/heads/main\n"); !j.isDefault("refs/heads/main") || j.isDefault("refs/heads/next") {
		t.Errorf("%+v", j)
	}
	if j = judgedFile(t, "default refs/heads/main\ndefault\n"); j.isDefault("refs/heads/main") {
		t.Errorf("%+v", j)
	}
	j = judgedFile(t, "")
	if !j.isDefault("refs/heads/main") {
		t.Errorf("%+v", j)
	}
	// A record that is there and cannot be read says nothing for the default branch either.
	if err := os.MkdirAll(j.file, 0o755); err != nil {
		t.Fatal(err)
	}
	if j.read(); j.isDefault("refs/heads/main") {
		t.Errorf("a directory: %+v", j)
	}
	j = judgedFile(t, "default refs/heads/main\n")
	for n := range 3000 {
		j.mark(judgedID(n), ref)
		if err := j.flush(); err != nil {
			t.Fatal(err)
		}
		again := &Judged{file: j.file, valid: j.valid}
		if n%500 != 0 && n < 2999 {
			j.lines++
			continue
		}
		if again.read(); !again.has(ref, judgedID(n)) || again.head != "refs/heads/main" {
			t.Fatalf("after %d commits: %+v", n, again)
		}
		j = again
	}
	if info, err := os.Stat(j.file); err != nil || info.Size() > 200<<10 {
		t.Errorf("%v, %v", info, err)
	}
}

// FuzzJudged: whatever the file holds, only whole lines of an id and a ref say
// that something was judged, and what is written anew reads the same.
func FuzzJudged(f *testing.F) {
	f.Add("default refs/heads/main\n"+judgedID(1)+" refs/heads/x\nhad "+judgedID(2)+"\n", "refs/heads/x")
	f.Add("default\ndefault \n x\n\n"+judgedID(1)+" refs/heads/x", "refs/heads/x")
	f.Fuzz(func(t *testing.T, text, ref string) {
		j := judgedFile(t, text)
		if j.has(ref, judgedID(1)) && !strings.Contains("\n"+text, "\n"+judgedID(1)+" "+ref+"\n") {
			t.Errorf("%q says that %s was judged for %q", text, judgedID(1), ref)
		}
		if text == "" {
			return
		}
		if err := j.rewrite(); err != nil {
			t.Fatal(err)
		}
		again := &Judged{file: j.file, valid: j.valid}
		if again.read(); again.named != j.named || again.head != j.head || len(again.at) != len(j.at) || len(again.had) != len(j.had) {
			t.Errorf("%q: %+v, written anew %+v", text, j, again)
		}
	})
}
