package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// at is the same clone in another directory.
func (c *cachedClone) at(dir string) *cachedClone {
	return &cachedClone{t: c.t, dir: filepath.Join(filepath.Dir(c.dir), dir), env: c.env}
}

// TestStatusOfClones: status says the same in every kind of clone of one
// history.
func TestStatusOfClones(t *testing.T) {
	c := newCachedClone(t, mathrand.New(mathrand.NewPCG(1, 2)))
	later := time.Now().Add(time.Hour)
	expected := c.status(later)
	linked := c.at("linked")
	c.git("worktree", "add", "-q", "--detach", linked.dir)
	super := c.at("super")
	c.git("init", "-q", super.dir)
	super.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "file://"+c.dir, "sub")
	sub := c.at("super/sub")
	separate := c.at("separate")
	c.git("clone", "-q", "--separate-git-dir", filepath.Join(filepath.Dir(c.dir), "separate.git"), c.dir, separate.dir)
	for name, clone := range map[string]*cachedClone{"a linked worktree": linked, "a submodule": sub, "a separate git directory": separate} {
		for _, round := range []string{"first", "second"} {
			if got := clone.status(later); got != expected {
				t.Errorf("%s, %s status:\n%s\nexpected:\n%s", name, round, got, expected)
			}
		}
		if files, _ := filepath.Glob(filepath.Join(clone.dir, "*rigward*")); len(files) > 0 {
			t.Errorf("%s: %q in the work tree", name, files)
		}
	}
	for _, file := range []string{c.cache(), filepath.Join(filepath.Dir(c.dir), "separate.git", "rigward", "status")} {
		if _, err := os.Lstat(file); err != nil {
			t.Error(err)
		}
	}
}

// TestStatusOfSHA256: ids of 64 digits, read through git.
func TestStatusOfSHA256(t *testing.T) {
	dir := gittest.TempDir(t)
	c := &cachedClone{t: t, dir: filepath.Join(dir, "clone"), env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}}
	if out, err := exec.Command("git", "init", "-q", "--object-format=sha256", "-b", "main", c.dir).CombinedOutput(); err != nil {
		t.Skipf("this git knows no SHA-256: %v %s", err, out)
	}
	random := mathrand.New(mathrand.NewPCG(3, 4))
	for i, name := range []string{"one-thread/ACK.md", "one-thread/STATE.md", "two-threads/ACK.md"} {
		thread, _ := splitPath(name)
		os.Mkdir(filepath.Join(c.dir, thread), 0o755)
		text := strings.Replace(c.message(random, thread, "ACK", i), "date: 2026-01-", "date: 2026-02-0", 1)
		text = text[:strings.Index(text, "date: ")] + "date: 2026-02-01\n" + text[strings.Index(text, "status: "):]
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c.git("add", "-A")
		c.git("commit", "-q", "-m", name)
	}
	var o statusObject
	if err := json.Unmarshal([]byte(c.status(time.Now())), &o); err != nil {
		t.Fatal(err)
	}
	if len(o.Threads) != 2 || o.Threads[1].ThreadID != "two-threads" || o.Threads[0].Latest.Filename != "STATE.md" {
		t.Errorf("%+v", o.Threads)
	}
}

// TestStatusOfUnlisted: status and thread show what the work tree holds, whatever
// git status lists: an ignored message, one that the configuration hides, one
// that only the index has lost, one where HEAD has a file in the thread's place.
func TestStatusOfUnlisted(t *testing.T) {
	dir := gittest.TempDir(t)
	c := &cachedClone{t: t, dir: filepath.Join(dir, "clone"), env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}}
	if out, err := exec.Command("git", "init", "-q", "-b", "main", c.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	write := func(path string) {
		t.Helper()
		thread, _ := splitPath(path)
		file := filepath.Join(c.dir, filepath.FromSlash(path))
		text := "---\nfrom: rig-a\nto: peer\ndate: 2026-01-01\nstatus: ▶ x\ntype: ACK\nthread: " + thread + "\n---\nx\n"
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(path string) {
		t.Helper()
		write(path)
		c.git("add", "-f", path)
		c.git("commit", "-q", "-m", path)
	}
	latest := func(thread, expected string) {
		t.Helper()
		for _, round := range []string{"first", "second"} {
			var o statusObject
			if err := json.Unmarshal([]byte(c.status(time.Now())), &o); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(o.Threads, func(row threadRow) bool { return row.ThreadID == thread })
			if i < 0 || o.Threads[i].Latest.Filename != expected {
				t.Errorf("%s status: %+v, expected %s last in %s", round, o.Threads, expected, thread)
			}
		}
		var out, errs bytes.Buffer
		code := Main(context.Background(), Env{Args: []string{"thread", thread}, Stdout: &out, Stderr: &errs, Environ: c.env, Dir: c.dir, Now: time.Now, Rand: rand.Reader})
		if i := strings.LastIndex(out.String(), " file="); code != 0 || i < 0 || !strings.HasPrefix(out.String()[i:], " file="+expected+"\n") {
			t.Errorf("thread %s: exit %d\n%s%s", thread, code, out.String(), errs.String())
		}
	}
	commit("t-one/A.md")
	commit("t-one/B.md")
	latest("t-one", "B.md")
	c.git("rm", "-q", "--cached", "t-one/B.md")
	latest("t-one", "B.md")
	c.git("add", "t-one/B.md")
	write("t-two/Z.md")
	commit("t-two/B.md")
	c.git("config", "status.showUntrackedFiles", "no")
	latest("t-two", "Z.md")
	c.git("config", "--unset", "status.showUntrackedFiles")
	if err := os.WriteFile(filepath.Join(c.dir, ".git", "info", "exclude"), []byte("t-two/Z.md\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	latest("t-two", "Z.md")
	place := filepath.Join(c.dir, "t-three")
	if err := os.WriteFile(place, []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.git("add", "t-three")
	c.git("commit", "-q", "-m", "a file")
	if err := os.Remove(place); err != nil {
		t.Fatal(err)
	}
	write("t-three/B.md")
	write("t-three/A.md")
	latest("t-three", "B.md")
}

// A dyingPipe takes so many writes.
type dyingPipe struct {
	bytes.Buffer
	left int
}

func (p *dyingPipe) Write(data []byte) (int, error) {
	if p.left--; p.left < 0 {
		return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
	}
	return p.Buffer.Write(data)
}

// TestWatchUntilNobodyReads: the end of the reader is the end of the watch, and
// a result that nobody could take is none.
func TestWatchUntilNobodyReads(t *testing.T) {
	c := newCachedClone(t, mathrand.New(mathrand.NewPCG(5, 6)))
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("the watch did not end"))
	defer cancel()
	var errs bytes.Buffer
	out := &dyingPipe{left: 1}
	changes := make(chan struct{})
	go func() { // something to tell at every look
		defer close(changes)
		for i := 0; ctx.Err() == nil; i++ {
			os.WriteFile(filepath.Join(c.dir, "thread-00", "NOTE.md"), []byte(strings.Repeat("x", i%7)), 0o644)
			os.WriteFile(filepath.Join(c.dir, "file-"+string(rune('a'+i%26))), nil, 0o644)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	code := Main(ctx, Env{Args: []string{"status", "--watch", "--interval", "0.1"}, Stdout: out, Stderr: &errs, Environ: c.env, Dir: c.dir, Now: time.Now, Rand: rand.Reader})
	cancel()
	<-changes
	if code != 0 || errs.Len() != 0 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("exit %d, %d lines, standard error %q", code, strings.Count(out.String(), "\n"), errs.String())
	}
	code = Main(context.Background(), Env{Args: []string{"status"}, Stdout: &dyingPipe{}, Stderr: &errs, Environ: c.env, Dir: c.dir, Now: time.Now, Rand: rand.Reader})
	if code != 2 || !strings.Contains(errs.String(), "cannot write to standard output") {
		t.Errorf("exit %d, standard error %q", code, errs.String())
	}
}

// TestGone: what a pull beside us takes away is not there, which is no fault of
// it; what stays is.
func TestGone(t *testing.T) {
	root := gittest.TempDir(t)
	if err := os.Mkdir(filepath.Join(root, "one-thread"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ACK.md", "EMPTY.md", "STATE.md"} {
		text := "nothing\n"
		if name == "EMPTY.md" {
			text = ""
		}
		if err := os.WriteFile(filepath.Join(root, "one-thread", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	dir, err := openDir(filepath.Join(root, "one-thread"), make([]byte, readBuffer))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.close()
	entries, err := dir.entries()
	for _, e := range entries {
		if e.Name() == "STATE.md" {
			os.Remove(filepath.Join(root, "one-thread", e.Name()))
		}
		if m := dir.message("one-thread", e); m != nil {
			seen = append(seen, m.file)
		}
	}
	if slices.Sort(seen); err != nil || !slices.Equal(seen, []string{"ACK.md", "EMPTY.md"}) {
		t.Errorf("%q %v", seen, err)
	}
	if ms, err := readThread(root, "no-thread"); len(ms) != 0 || err != nil {
		t.Errorf("%v %v", ms, err)
	}
	os.WriteFile(filepath.Join(root, "no-directory"), nil, 0o644)
	if _, err := readThread(root, "no-directory"); err == nil {
		t.Error("a file was read as a thread")
	}
}
