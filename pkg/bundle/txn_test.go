package bundle

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// prepare plans every kind of step on a target.
func prepare(t *testing.T, dir string) *Txn {
	t.Helper()
	txn, _, err := Begin(dir, ".area")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"new/deep/file": "new", "replaced": "after"} {
		if err := txn.StageBytes(name, 0o755, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	txn.Move("foreign", "foreign.backup")
	txn.Remove("gone/file")
	txn.RemoveDir("gone")
	if err := txn.StageBytes("lock", 0o644, []byte("lock")); err != nil {
		t.Fatal(err)
	}
	return txn
}

// TestTxnUndo carries out the plan up to every step, crashes, and recovers.
func TestTxnUndo(t *testing.T) {
	start := map[string]string{"replaced": "before", "foreign": "theirs", "gone/file": "old", "other": "other"}
	done := false
	for stop := 0; !done; stop++ {
		dir := t.TempDir()
		write(t, dir, start)
		before := describe(t, dir)
		txn := prepare(t, dir)
		ops, err := txn.order()
		if err != nil {
			t.Fatal(err)
		}
		if err := txn.writeJournal(ops); err != nil {
			t.Fatal(err)
		}
		for i, o := range ops {
			if i == stop {
				break
			}
			if err := txn.do(o); err != nil {
				t.Fatal(err)
			}
		}
		done = stop == len(ops)
		txn.unlock() // the process is gone
		again, recovered, err := Begin(dir, ".area")
		if err != nil || !recovered {
			t.Fatalf("after step %d: %v, recovered %t", stop, err, recovered)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if got := describe(t, dir); got != before {
			t.Fatalf("after step %d the target is\n%swant\n%s", stop, got, before)
		}
	}
}

func TestTxnCommit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"replaced": "before", "foreign": "theirs", "gone/file": "old"})
	txn := prepare(t, dir)
	if _, _, err := Begin(dir, ".area"); !errors.Is(err, ErrBusy) {
		t.Errorf("a second transaction: %v, want ErrBusy", err)
	}
	if err := txn.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := txn.Close(); err != nil {
		t.Fatal(err)
	}
	want := t.TempDir()
	write(t, want, map[string]string{"replaced": "after", "foreign.backup": "theirs", "new/deep/file": "new", "lock": "lock"})
	if got, want := describe(t, dir), describe(t, want); got != want {
		t.Errorf("the target is\n%swant\n%s", got, want)
	}
}

// TestTxnCancelled: the end of the context undoes everything.
func TestTxnCancelled(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"replaced": "before", "foreign": "theirs", "gone/file": "old"})
	before := describe(t, dir)
	txn := prepare(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := txn.Commit(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	txn.Close()
	if got := describe(t, dir); got != before {
		t.Errorf("the target is\n%swant\n%s", got, before)
	}
}

// TestDirsNeverFollowLinks: links inside the root are refused too, which
// os.Root alone would follow (F13).
func TestDirsNeverFollowLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"real/file": "x"})
	for name, to := range map[string]string{"link": "real", "flink": "real/file", "out": "/etc"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip("no symlinks here")
		}
	}
	d, err := OpenDirs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"link/file", "flink", "out/passwd"} {
		var link *LinkError
		if _, err := d.Open(name); !errors.As(err, &link) {
			t.Errorf("Open(%s): %v, want a LinkError", name, err)
		}
	}
	if _, err := d.Create("link/new", 0o644); err == nil {
		t.Error("created a file through a link")
	}
	if _, err := d.MkdirAll("link/dir"); err == nil {
		t.Error("made a directory through a link")
	}
	f, err := d.Open("real/file")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestHostileJournal: a journal that names paths outside changes nothing.
func TestHostileJournal(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "T")
	write(t, dir, map[string]string{"victim": "v", "T/.area/journal.json": `{"schema":1,"ops":[{"kind":"put","path":"../victim","n":1,"sha256":"` + Sum([]byte("v")).Hex() + `"}]}`})
	if _, _, err := Begin(target, ".area"); err == nil || !strings.Contains(err.Error(), "outside") {
		t.Errorf("Begin: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "victim")); err != nil || string(b) != "v" {
		t.Errorf("the file outside is %q %v", b, err)
	}
}

func TestLimitsSet(t *testing.T) {
	l := DefaultLimits()
	for _, good := range []string{"total-size=2GiB", "entries=3", "ratio=1", "path=10KiB"} {
		if err := l.Set(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	if l.TotalSize != 2<<30 || l.Entries != 3 || l.Path != 10240 {
		t.Errorf("%+v", l)
	}
	for _, bad := range []string{"", "entries", "entries=", "entries=-1", "entries=1x", "nope=1", "total-size=99999999999GiB", "entries=+1"} {
		if err := l.Set(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestUnifiedDiffIsSafeToShow(t *testing.T) {
	d := UnifiedDiff("a/x", []byte("one\ntwo\n"), "b/x", []byte("one\nt\x1b[2Jwo\u202e\n"))
	if bytes.Contains(d, []byte("\x1b")) || bytes.Contains(d, []byte("\u202e")) || !bytes.Contains(d, []byte(`+t\x1b[2Jwo\u202e`)) {
		t.Errorf("%s", d)
	}
	if UnifiedDiff("a", []byte("a\x00"), "b", []byte("b")) != nil {
		t.Error("a binary file has a text diff")
	}
}
