package outbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/files"
)

const asWriter = "RIGWARD_TEST_OUTBOX"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asWriter); dir != "" {
		for i := 0; ; i++ { // until it is killed; what was appended is told
			r := record(fmt.Sprintf("%d-%d", os.Getpid(), i))
			if Append(dir, r, Wait) == nil {
				fmt.Println(r.ID)
			}
		}
	}
	os.Exit(m.Run())
}

func record(id string) Record {
	return Record{ID: id, Push: id, Stage: Received, Hook: "pre-receive", At: "2026-01-05T09:00:00.000000Z", Refs: []Ref{{"refs/heads/main", strings.Repeat("0", 40), strings.Repeat("1", 40)}}}
}

// all reads an outbox from its beginning, in portions.
func all(t testing.TB, dir string, most int) (ids map[string]int, torn int) {
	t.Helper()
	ids = map[string]int{}
	var at Cursor
	for {
		b, err := Read(dir, at, most)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Records {
			ids[r.ID]++
		}
		torn += b.Torn
		if b.Next == at {
			return ids, torn
		}
		at = b.Next
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAppend writes from many sides, over the end of files, and reads the same
// in portions of any size.
func TestAppend(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rigward", "outbox")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 600 {
				r := record(fmt.Sprintf("%d-%d", w, i))
				r.Problem = strings.Repeat("x", 1000)
				for errors.Is(Append(dir, r, Wait), errSlow) { // on a busy machine; the record may be there twice
				}
			}
		})
	}
	wg.Wait()
	for _, most := range []int{1, 7, 1 << 20} {
		if ids, torn := all(t, dir, most); len(ids) != 2400 || torn != 0 {
			t.Errorf("%d records, %d torn", len(ids), torn)
		}
	}
	names, err := segments(dir)
	must(t, err)
	if len(names) < 3 {
		t.Errorf("files %v", names)
	}
	b, err := Read(dir, Cursor{}, 1<<20)
	must(t, err)
	if n, err := Waiting(dir, b.Next); n != 0 || err != nil {
		t.Errorf("%d bytes wait, %v", n, err)
	}
	if n, err := Waiting(dir, Shipped(dir)); n < 2400*1000 || err != nil {
		t.Errorf("%d bytes wait, %v", n, err)
	}
	must(t, Keep(dir, b.Next, time.Now()))
	if left, _ := segments(dir); len(left) != len(names) {
		t.Errorf("files that somebody may be writing to are gone: %v", left)
	}
	must(t, Keep(dir, b.Next, time.Now().Add(2*rest)))
	if left, _ := segments(dir); len(left) != 1 || Shipped(dir) != b.Next {
		t.Errorf("%v are left, at %v", left, Shipped(dir))
	}
	must(t, Append(dir, record("later"), time.Minute))
	if b, err = Read(dir, Shipped(dir), 10); err != nil || len(b.Records) != 1 || b.Records[0].ID != "later" {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestTorn reads around lines that a full disk or the end of the machine cut off.
func TestTorn(t *testing.T) {
	dir := t.TempDir()
	must(t, Append(dir, record("one"), time.Minute))
	f, err := os.OpenFile(name(dir, 1), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	line, err := (&Record{ID: "torn", Push: "torn"}).line()
	must(t, err)
	f.Write(line[:len(line)/2])
	if ids, torn := all(t, dir, 10); len(ids) != 1 || torn != 0 {
		t.Errorf("a line that may yet be written to its end: %v, %d", ids, torn)
	}
	must(t, Append(dir, record("two"), time.Minute))
	if ids, torn := all(t, dir, 10); len(ids) != 2 || ids["two"] != 1 || torn != 1 {
		t.Errorf("%v, %d torn", ids, torn)
	}
	f.Write([]byte("\nnull\n\x00\x00\n{\"id\":1}\n[]\n"))
	must(t, f.Close())
	must(t, Append(dir, record("three"), time.Minute))
	if ids, torn := all(t, dir, 10); len(ids) != 3 || torn != 5 {
		t.Errorf("%v, %d torn", ids, torn)
	}
	if got := Latest(dir); len(got) != 3 || got[2].ID != "three" {
		t.Errorf("latest: %v", got)
	}
	// A place that is not there any more, or never was: behind all files, in the midst of a line,
	// behind the end. All is told again.
	for _, at := range []Cursor{{9, 5}, {1, 20}, {1, 1 << 20}} {
		if b, err := Read(dir, at, 10); err != nil || len(b.Records) != 3 {
			t.Errorf("%v: %v, %v", at, b, err)
		}
		if n, err := Waiting(dir, at); err != nil || n < 500 {
			t.Errorf("%v: %d bytes wait, %v", at, n, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "shipped"), []byte("{\"segment\":-1}"), 0o600))
	if got := Shipped(dir); got != (Cursor{}) {
		t.Errorf("%v", got)
	}
}

// TestEmptied: files that somebody has removed by hand, or that the machine has lost, keep nobody
// from reading what is appended later.
func TestEmptied(t *testing.T) {
	dir := t.TempDir()
	must(t, Append(dir, record("one"), time.Minute))
	must(t, os.Rename(name(dir, 1), name(dir, 7)))
	b, err := Read(dir, Cursor{}, 10)
	must(t, err)
	must(t, Keep(dir, b.Next, time.Now()))
	must(t, os.Remove(name(dir, 7)))
	must(t, Append(dir, record("two"), time.Minute))
	if n, err := Waiting(dir, Shipped(dir)); n == 0 || err != nil {
		t.Errorf("%d bytes wait, %v", n, err)
	}
	if b, err = Read(dir, Shipped(dir), 10); err != nil || len(b.Records) != 1 || b.Records[0].ID != "two" {
		t.Errorf("%v, %v", b, err)
	}
}

// TestDamaged: a line that is JSON and no record that a hook writes is counted, and keeps none
// of the others from whoever takes them.
func TestDamaged(t *testing.T) {
	whole := record("whole")
	for name, spoil := range map[string]func(r *Record){
		"no id":                      func(r *Record) { r.ID = "" },
		"a long id":                  func(r *Record) { r.ID = strings.Repeat("x", 3000) },
		"a long push":                func(r *Record) { r.Push = strings.Repeat("x", 3000) },
		"no stage":                   func(r *Record) { r.Stage = "" },
		"a stage to come":            func(r *Record) { r.Stage = "queued" },
		"a hook without end":         func(r *Record) { r.Hook = strings.Repeat("x", 3000) },
		"no time":                    func(r *Record) { r.At = "" },
		"a time of another form":     func(r *Record) { r.At = "yesterday" },
		"an exit that no column has": func(r *Record) { r.Exit = 1 << 40 },
		"commits below none":         func(r *Record) { r.Commits = -1 },
	} {
		dir, r := t.TempDir(), whole
		spoil(&r)
		must(t, Append(dir, r, time.Minute))
		must(t, Append(dir, whole, time.Minute))
		if ids, torn := all(t, dir, 10); len(ids) != 1 || ids["whole"] != 1 || torn != 1 {
			t.Errorf("%s: %v, %d torn", name, ids, torn)
		}
	}
}

// TestLatest finds what was told last on both sides of the end of a file.
func TestLatest(t *testing.T) {
	dir := t.TempDir()
	must(t, Append(dir, record("before"), time.Minute))
	f, err := os.OpenFile(name(dir, 1), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	line, err := (&Record{ID: "x"}).line()
	must(t, err)
	for range segment / len(line) {
		f.Write(line)
	}
	must(t, f.Close())
	for _, id := range []string{"last", "next"} {
		must(t, Append(dir, record(id), time.Minute))
		if id == "last" { // which another process was about to write there
			must(t, os.Truncate(name(dir, 1), segment+1))
			must(t, os.Rename(name(dir, 2), name(dir, 3)))
			data, err := os.ReadFile(name(dir, 3))
			must(t, err)
			must(t, os.Remove(name(dir, 3)))
			f, err := os.OpenFile(name(dir, 1), os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			f.Write(data)
			must(t, f.Close())
		}
	}
	if all, _ := segments(dir); len(all) != 2 {
		t.Fatalf("files %v", all)
	}
	if got := Latest(dir); len(got) != 2 || got[0].ID != "last" || got[1].ID != "next" {
		t.Errorf("%v", got)
	}
}

// TestLinks: what another user of the repository has put in the place of a file of the outbox
// leads to no other file, and keeps nobody waiting.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	const text = "{\"segment\":3,\"problem\":\"x\"}"
	must(t, os.WriteFile(victim, []byte(text), 0o600))
	for _, file := range []string{"00000001.log", "lock", "shipped", "state"} {
		if err := os.Symlink(victim, filepath.Join(dir, file)); err != nil {
			t.Skip("no links here")
		}
	}
	if f, err := Lock(dir); err == nil && files.NoFollow != 0 {
		f.Close()
		t.Error("the lock of another file was taken")
	}
	if Shipped(dir) != (Cursor{}) || Trouble(dir) != "" {
		t.Error("another file was read")
	}
	if f, err := open(name(dir, 1), os.O_WRONLY|os.O_APPEND); err == nil && files.NoFollow != 0 {
		f.Close()
		t.Error("another file was opened")
	}
	if err := Append(dir, record("one"), time.Minute); err == nil {
		t.Error("a record was written where a link lies")
	}
	must(t, os.Remove(name(dir, 1)))
	must(t, Append(dir, record("two"), time.Minute))
	must(t, Keep(dir, Cursor{1, 2}, time.Now()))
	if data, _ := os.ReadFile(victim); string(data) != text {
		t.Errorf("another file was written: %s", data)
	}
	if ids, _ := all(t, dir, 10); ids["two"] != 1 || Shipped(dir) != (Cursor{1, 2}) {
		t.Errorf("%v", ids)
	}
}

// TestRecordSize leaves out what is too much of a record, and counts it.
func TestRecordSize(t *testing.T) {
	dir := t.TempDir()
	r := record("large")
	for range 3000 {
		r.Refs = append(r.Refs, Ref{Name: "refs/heads/" + strings.Repeat("x", 200)})
		r.Places = append(r.Places, Place{Rule: "envelope-schema", Path: strings.Repeat("\x01", 200)})
	}
	must(t, Append(dir, r, time.Minute))
	b, err := Read(dir, Cursor{}, 10)
	must(t, err)
	if len(b.Records) != 1 || len(b.Records[0].Refs)+b.Records[0].MoreRefs != 3001 || len(b.Records[0].Places)+b.Records[0].More != 3000 {
		t.Errorf("%d records", len(b.Records))
	}
	r.Refs, r.Places, r.Problem = nil, nil, strings.Repeat("x", maxRecord)
	if err := Append(dir, r, time.Minute); err == nil {
		t.Error("a record that is too long is taken")
	}
}

// TestKilled ends writers at any moment: what they say they have appended is
// there once, and at most what each was writing then is torn.
func TestKilled(t *testing.T) {
	rounds := 12
	if os.Getenv("RIGWARD_CONTROL_FULL") != "" {
		rounds = 300
	}
	dir := filepath.Join(t.TempDir(), "rigward", "outbox")
	var told []string
	for range rounds {
		var out [2]strings.Builder
		var cmds [2]*exec.Cmd
		for i := range cmds {
			cmds[i] = exec.Command(os.Args[0])
			cmds[i].Env, cmds[i].Stdout = append(os.Environ(), asWriter+"="+dir), &out[i]
			must(t, cmds[i].Start())
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		for i, cmd := range cmds {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
			for line := range strings.Lines(out[i].String()) {
				if id, whole := strings.CutSuffix(line, "\n"); whole {
					told = append(told, id)
				}
			}
		}
	}
	ids, torn := all(t, dir, 1000)
	for _, id := range told {
		if ids[id] != 1 {
			t.Errorf("%s is there %d times", id, ids[id])
		}
	}
	t.Logf("%d records were told of, %d are there, %d torn", len(told), len(ids), torn)
	// Linux ends a write between two pages of a file for a process that is killed: what
	// is there of a record then was not told of, and no other one is lost with it.
	if torn > 2*rounds {
		t.Errorf("%d lines are torn, at most one for each of the %d writers was expected", torn, 2*rounds)
	}
}

// TestFullDisk: room was set aside, and when that is used up nothing waits.
func TestFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("room is set aside on Linux")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "rigward-outbox", dir).CombinedOutput(); err != nil {
		t.Skipf("no tmpfs can be mounted here: %s", out)
	}
	defer exec.Command("umount", dir).Run()
	box := filepath.Join(dir, "rigward", "outbox")
	must(t, Room(box))
	must(t, Append(box, record("before"), time.Minute))
	must(t, Room(box))
	f, err := os.Create(filepath.Join(dir, "fill"))
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	kept, lost := 0, 0
	for i := range 20_000 {
		if err := Append(box, record(fmt.Sprint(i)), Wait); err == nil {
			kept++
		} else if lost++; lost > 3 {
			break
		}
	}
	ids, _ := all(t, box, 1000)
	t.Logf("%d records were taken when the disk was full, then %d were not", kept, lost)
	if kept < 1000 || len(ids) < kept+1 {
		t.Errorf("%d were taken, %d are there", kept, len(ids))
	}
	if err := Room(box); !strings.HasPrefix(files.Hint(err), "make room, and run it again: df -h ") {
		t.Errorf("there is room: %v", err)
	}
	must(t, os.Remove(f.Name()))
	must(t, Room(box))
	must(t, Append(box, record("after"), time.Minute))
	if ids, _ := all(t, box, 1000); ids["after"] != 1 || ids["before"] != 1 {
		t.Error("what came when there was room again is not there")
	}
}

// TestLock: the second one does not get it, and the end of the first gives it back.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rigward", "outbox")
	f, err := Lock(dir)
	must(t, err)
	if g, err := Lock(dir); err == nil {
		g.Close()
		t.Error("two have it")
	}
	f.Close()
	g, err := Lock(dir)
	must(t, err)
	g.Close()
}

// FuzzRead reads files of any content: it comes to their end, and what it gives
// has ids.
func FuzzRead(f *testing.F) {
	line, _ := (&Record{ID: "a", Push: "b"}).line()
	f.Add(line, 1)
	f.Add([]byte("\n{\"id\":\"x\"\n\n\n{}"), 2)
	f.Fuzz(func(t *testing.T, data []byte, most int) {
		dir := t.TempDir()
		for _, at := range []Cursor{{1, int64(most & 0xff)}, {2, 1}, {3, 0}} { // wherever it is to go on
			for b, err := Read(dir, at, 3); b.Next != at; b, err = Read(dir, at, 3) {
				must(t, err)
				at = b.Next
			}
		}
		must(t, os.WriteFile(name(dir, 1), data, 0o600))
		must(t, os.WriteFile(name(dir, 2), data, 0o600))
		ids, _ := all(t, dir, 1+most&0xff)
		for id := range ids {
			if id == "" || len(id) > 64 {
				t.Errorf("a record with the id %q", id)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	r := record("x")
	for b.Loop() {
		if err := Append(dir, r, time.Minute); err != nil && !errors.Is(err, errFull) {
			b.Fatal(err)
		}
	}
}
