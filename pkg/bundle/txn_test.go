package bundle

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
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
func prepare(t *testing.T, dir, state string) *Txn {
	t.Helper()
	txn, err := Begin(Place{Target: dir, State: state, Kind: ".area"})
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
	txn.SetRecord([]byte("record"))
	return txn
}

// kept returns what a state directory holds about the one target it knows.
func recordIn(t *testing.T, state string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(state, "*", "*", "*"))
	if len(found) == 0 {
		return ""
	}
	if len(found) > 1 || filepath.Base(found[0]) != recordName {
		t.Fatalf("the state directory holds %q", found)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTxnUndo carries out the plan up to every step, crashes, and recovers.
func TestTxnUndo(t *testing.T) {
	start := map[string]string{"replaced": "before", "foreign": "theirs", "gone/file": "old", "other": "other"}
	done := false
	for stop := 0; !done; stop++ {
		dir := t.TempDir()
		write(t, dir, start)
		before := describe(t, dir)
		state := filepath.Join(t.TempDir(), "state")
		txn := prepare(t, dir, state)
		ops, err := txn.order()
		if err != nil {
			t.Fatal(err)
		}
		if err := writeState(txn.state, txn.own+"/"+recordNew, txn.record, false); err != nil {
			t.Fatal(err)
		}
		if err := txn.writeJournal(journal{Area: txn.area, AreaID: txn.areaID, Record: true, Ops: ops}, true); err != nil {
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
		if done = stop > len(ops); done {
			if err := txn.doRecord(); err != nil {
				t.Fatal(err)
			}
		}
		txn.unlock() // the process is gone
		p := Place{Target: dir, State: state, Kind: ".area"}
		look, err := Look(p)
		if err != nil || !look.left || look.Notes()[0].Code != NoteInterrupted {
			t.Fatalf("after step %d a look has %v and tells %v", stop, err, look.Notes())
		}
		look.Close()
		again, err := Begin(p)
		if err != nil || !again.left {
			t.Fatalf("after step %d: %v, recovered %t", stop, err, again.left)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if got := describe(t, dir); got != before {
			t.Fatalf("after step %d the target is\n%swant\n%s", stop, got, before)
		}
		if r := recordIn(t, state); r != "" {
			t.Fatalf("after step %d there is a record %q", stop, r)
		}
	}
}

func TestTxnCommit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"replaced": "before", "foreign": "theirs", "gone/file": "old"})
	state := filepath.Join(t.TempDir(), "state")
	txn := prepare(t, dir, state)
	if _, err := Begin(Place{Target: dir, State: state, Kind: ".area"}); !errors.Is(err, ErrBusy) {
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
	if r := recordIn(t, state); r != "record" {
		t.Errorf("the record is %q", r)
	}
}

// TestTxnCancelled: the end of the context undoes everything.
func TestTxnCancelled(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"replaced": "before", "foreign": "theirs", "gone/file": "old"})
	before := describe(t, dir)
	txn := prepare(t, dir, filepath.Join(t.TempDir(), "state"))
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

// TestPlantedJournal (J10): what older versions left in the target, or what
// somebody put there, is named, and neither obeyed nor removed. The journal of
// this user's own run is.
func TestPlantedJournal(t *testing.T) {
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	write(t, dir, map[string]string{
		".git/hooks/keep": "", ".area/old/1": "evil",
		".area/journal.json": `{"schema":1,"ops":[{"kind":"remove","path":".git/hooks/pre-commit","n":1},{"kind":"put","path":"x","n":2}]}`,
	})
	before := describe(t, dir)
	txn, err := Begin(Place{Target: dir, State: state, Kind: ".area"})
	if err != nil || txn.left {
		t.Fatalf("Begin: %v", err)
	}
	if n := txn.Notes(); len(n) != 1 || n[0].Code != NoteForeignRun {
		t.Errorf("told is %v", n)
	}
	if err := txn.Close(); err != nil {
		t.Fatal(err)
	}
	if got := describe(t, dir); got != before {
		t.Errorf("the target is\n%swant\n%s", got, before)
	}
}

// TestStaleJournal: a journal whose private directory is not in the target
// belongs to a directory that had its identity before.
func TestStaleJournal(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
		write(t, dir, map[string]string{"replaced": "before", "foreign": "theirs", "gone/file": "old"})
		txn := prepare(t, dir, state)
		ops, err := txn.order()
		if err != nil {
			t.Fatal(err)
		}
		if err := txn.writeJournal(journal{Area: txn.area, AreaID: txn.areaID, Ops: ops}, true); err != nil {
			t.Fatal(err)
		}
		for _, o := range ops[:3] {
			if err := txn.do(o); err != nil {
				t.Fatal(err)
			}
		}
		txn.unlock()
		area := filepath.Join(dir, txn.area)
		if replaced { // by one that brings other contents
			if err := os.Rename(area, area+".away"); err != nil {
				t.Fatal(err)
			}
			write(t, area, map[string]string{"old/1": "evil", "old/2": "evil", "old/3": "evil"})
		} else if err := os.RemoveAll(area); err != nil {
			t.Fatal(err)
		}
		before := describe(t, dir)
		again, err := Begin(Place{Target: dir, State: state, Kind: ".area"})
		if err != nil || again.left || len(again.Notes()) != 1 || again.Notes()[0].Code != NoteLostRun {
			t.Fatalf("Begin: %v", err)
		}
		again.Close()
		if got := describe(t, dir); got != before {
			t.Errorf("the target is\n%swant\n%s", got, before)
		}
	}
}

// TestChangedMeanwhile: a file that somebody changes between plan and commit is
// neither removed nor replaced, and everything is as it was.
func TestChangedMeanwhile(t *testing.T) {
	for name, change := range map[string]map[string]string{
		"none": nil, "removed": {"gone": "theirs"}, "replaced": {"replaced": "theirs"}, "appeared": {"new": "theirs"},
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"replaced": "before", "gone": "old"})
		txn, err := Begin(Place{Target: dir, State: filepath.Join(t.TempDir(), "state"), Kind: ".area"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"replaced", "gone", "new"} {
			if _, err := txn.State(p); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []string{"replaced", "new"} {
			if err := txn.StageBytes(p, 0o644, []byte("ours")); err != nil {
				t.Fatal(err)
			}
		}
		txn.Remove("gone")
		write(t, dir, change)
		err = txn.Commit(t.Context())
		if cerr := txn.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		want := map[string]string{"replaced": "ours", "new": "ours"}
		var changed *ChangedError
		if change != nil {
			want = map[string]string{"replaced": "before", "gone": "old"}
			maps.Copy(want, change)
			if !errors.As(err, &changed) {
				t.Errorf("%s: %v", name, err)
			}
		} else if err != nil {
			t.Error(err)
		}
		expected := t.TempDir()
		write(t, expected, want)
		if got, want := describe(t, dir), describe(t, expected); got != want {
			t.Errorf("%s: the target is\n%swant\n%s", name, got, want)
		}
	}
}

// TestState: the state directory is the user's alone, and no part of a bundle
// gets into it.
func TestState(t *testing.T) {
	top := t.TempDir()
	open, closed, link := filepath.Join(top, "open"), filepath.Join(top, "closed"), filepath.Join(top, "link")
	for dir, mode := range map[string]os.FileMode{open: 0o755, closed: 0o700} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(closed, link); err != nil {
		t.Skip("no symlinks here")
	}
	for dir, good := range map[string]bool{open: runtime.GOOS == "windows", closed: true, link: false, filepath.Join(top, "a/b/c"): true, "": false} {
		d, err := OpenState(dir)
		var se *StateError
		if good != (err == nil) || err != nil && !errors.As(err, &se) {
			t.Errorf("%s: %v", dir, err)
		}
		if err == nil {
			d.Close()
		}
	}
	txn, err := Begin(Place{Target: top, State: closed, Kind: ".area"})
	if err != nil {
		t.Fatal(err)
	}
	defer txn.Close()
	if err := txn.StageBytes("closed/x/journal.json", 0o644, nil); !errors.Is(err, errBarred) {
		t.Errorf("a file in the state directory: %v", err)
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
