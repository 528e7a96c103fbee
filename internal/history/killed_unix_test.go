//go:build unix

package history

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/files"
)

// asWriter makes the test binary a process that writes a thread over and over in the
// directory that it names.
const asWriter = "RIGWARD_TEST_TURNS"

func writeTurns(dir string, seed uint64, rounds int) error {
	random := rand.New(rand.NewPCG(seed, seed))
	for range rounds {
		x := &Turns{Dir: dir, Format: "sha1", Scope: "scope", Recent: 20}
		th := x.Thread("t-one")
		for range 40 {
			th.Add([]Turn{turnOf(random, random.IntN(1<<20), 20)})
		}
		if err := x.Save(); err != nil {
			return err
		}
		x.Close()
	}
	return nil
}

// TestKilledWriter: what writers leave that are killed, the next one takes away: bases
// that nobody names, also of a thread that has no head. It leaves what a writer has that
// is about to name it, and that one is not waited for.
func TestKilledWriter(t *testing.T) {
	if dir := os.Getenv(asWriter); dir != "" {
		fmt.Println("begun")
		if err := writeTurns(dir, uint64(os.Getpid()), 1<<30); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	dir := filepath.Join(t.TempDir(), "rigward")
	threads := filepath.Join(dir, "threads")
	if err := writeTurns(dir, 1, 1); err != nil {
		t.Fatal(err)
	}
	orphans := 0
	count := func() (n int) {
		entries, err := os.ReadDir(threads)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for i := range 20 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), asWriter+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "begun\n" {
			t.Fatal(line, err)
		}
		time.Sleep(time.Duration(3*i) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		orphans += count() - 2
	}
	t.Logf("%d files were left by 20 killed writers, some counted again", orphans)
	// Left for certain: a base of the thread, one of a thread without a head, and files
	// that were being written, an hour ago and now.
	head := ""
	entries, err := os.ReadDir(threads)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if len(e.Name()) == 32 {
			head = e.Name()
		}
	}
	left := []string{head + "-0123456789abcdef", strings.Repeat("0", 32) + "-0123456789abcdef", files.TempPrefix + "123", files.TempPrefix + "124"}
	for _, name := range left {
		if err := os.WriteFile(filepath.Join(threads, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	entries, err = os.ReadDir(threads)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files.Temporary(e.Name()) && e.Name() != left[3] {
			old := time.Now().Add(-2 * time.Hour)
			if err := os.Chtimes(filepath.Join(threads, e.Name()), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	// While another writer is about to name what it wrote, nothing goes, and nobody waits.
	lock, err := os.Open(threads)
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Lock(lock); err != nil {
		t.Fatal(err)
	}
	before := count()
	if err := writeTurns(dir, 2, 2); err != nil || count() != before {
		t.Errorf("%d files were %d, %v", count(), before, err)
	}
	lock.Close()
	if err := writeTurns(dir, 3, 1); err != nil {
		t.Fatal(err)
	}
	entries, err = os.ReadDir(threads)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || len(names) != 3 || !slices.Contains(names, head) || !slices.Contains(names, left[3]) {
		t.Errorf("%q, %v: expected the thread, its base, and what is being written", names, err)
	}
	x := &Turns{Dir: dir, Format: "sha1", Scope: "scope"}
	if _, _, _, ok := turnAnswers(x.Thread("t-one")); !ok || x.Thread("t-one").Len() < 40 {
		t.Error("the thread is damaged")
	}
	x.Close()
}
