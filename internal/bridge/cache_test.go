package bridge

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
)

// cachedClone is a clone with many messages, of which some are odd, in a
// history with a merge.
type cachedClone struct {
	t   *testing.T
	dir string
	env []string
}

func newCachedClone(t *testing.T, random *mathrand.Rand) *cachedClone {
	t.Helper()
	dir := gittest.TempDir(t)
	c := &cachedClone{t: t, dir: filepath.Join(dir, "clone"), env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}}
	var in bytes.Buffer
	names := map[string]int{}
	for i := range 400 {
		if i%8 == 0 {
			mark := i/8 + 1
			fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter A <a@example.com> %d +0000\ndata 1\nm\n", mark, 1735700000+i)
			switch {
			case mark == 30: // a merge, so that git has to order what lies before
				fmt.Fprintf(&in, "from :29\nmerge :20\n")
			case mark > 1:
				fmt.Fprintf(&in, "from :%d\n", mark-1)
			}
		}
		thread := fmt.Sprintf("thread-%02d", random.IntN(20))
		names[thread]++
		typ := envelope.Types()[random.IntN(len(envelope.Types()))]
		path := fmt.Sprintf("%s/%s-%d.md", thread, typ, names[thread])
		text := c.message(random, thread, typ, i)
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text)
	}
	if out, err := exec.Command("git", "init", "-q", "-b", "main", c.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command("git", "-C", c.dir, "fast-import", "--quiet")
	cmd.Stdin, cmd.Env = &in, c.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git fast-import: %v\n%s", err, out)
	}
	c.git("reset", "-q", "--hard", "main")
	return c
}

// asPeer makes the clone the rig that the messages are to, so that unread ones
// are counted.
func (c *cachedClone) asPeer() *cachedClone {
	c.t.Helper()
	if err := os.Mkdir(filepath.Join(c.dir, ".bridge"), 0o755); err != nil {
		c.t.Fatal(err)
	}
	for file, text := range map[string]string{".bridge/config.yaml": "rig_id: peer\n", ".git/info/exclude": "/.bridge/config.yaml\n"} {
		if err := os.WriteFile(filepath.Join(c.dir, file), []byte(text), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	return c
}

// message is valid and plain mostly.
func (c *cachedClone) message(random *mathrand.Rand, thread, typ string, i int) string {
	body := fmt.Sprintf("# %s\n\nMessage %d.\n", typ, i)
	hash := bodyHash([]byte(body))
	from, extra := "rig-a", ""
	switch random.IntN(40) {
	case 0:
		hash = strings.Repeat("a", 64)
	case 1:
		return "no front matter\n"
	case 2:
		from = "op-relay"
	case 3:
		thread = "another-one"
	case 4:
		extra = "display_name: \"Ä\"\n"
	}
	day := time.Date(2026, 1, 1+random.IntN(30), 0, 0, 0, 0, time.UTC).Format("2006-01-02")
	return fmt.Sprintf("---\nfrom: %s\nto: peer\ndate: %s\nstatus: ▶ %s sent\ntype: %s\nthread: %s\n%sbody_hash: %s\n---\n%s", from, day, typ, typ, thread, extra, hash, body)
}

func (c *cachedClone) git(args ...string) {
	c.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", c.dir, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Env = c.env
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (c *cachedClone) cache() string { return filepath.Join(c.dir, ".git", "rigward", "status") }

// status is what status prints at that time.
func (c *cachedClone) status(now time.Time) string {
	c.t.Helper()
	return c.run(now, "status", "--json")
}

// run is what a command prints that must succeed.
func (c *cachedClone) run(now time.Time, args ...string) string {
	c.t.Helper()
	var out, errs bytes.Buffer
	code := Main(context.Background(), Env{Args: args, Stdout: &out, Stderr: &errs, Environ: c.env, Dir: c.dir,
		Now: func() time.Time { return now }, Rand: rand.Reader})
	if code != 0 {
		c.t.Fatalf("%s: exit %d\n%s", strings.Join(args, " "), code, errs.String())
	}
	return out.String() + errs.String()
}

// TestStatusCache holds status with what it keeps, whatever is in that, against
// status without it.
func TestStatusCache(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	c := newCachedClone(t, random).asPeer()
	without := func() string {
		t.Helper()
		os.Remove(c.cache())
		homeless := *c
		homeless.env = []string{c.env[0], "GIT_CONFIG_NOSYSTEM=1"}
		out := homeless.status(time.Now())
		if _, err := os.Lstat(c.cache()); err == nil {
			t.Fatal("something was kept without a secret")
		}
		return out
	}
	same := func(what string) {
		t.Helper()
		written, _ := os.ReadFile(c.cache())
		expected := without()
		if written != nil {
			if err := os.WriteFile(c.cache(), written, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, round := range []string{"first", "second"} {
			if got := c.status(time.Now()); got != expected {
				t.Fatalf("%s, %s status with what is kept:\n%s\nwithout it:\n%s", what, round, got, expected)
			}
		}
	}
	same("nothing kept")
	files, err := filepath.Glob(filepath.Join(c.dir, "thread-*", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for i := range 18 {
		file := files[random.IntN(len(files))]
		thread := filepath.Base(filepath.Dir(file))
		switch i % 6 {
		case 0:
			os.Remove(file)
		case 1:
			os.WriteFile(file, []byte(c.message(random, thread, "RESULT", 1000+i)), 0o644)
		case 2: // same size, same times: git tells by the time of the inode
			info, err := os.Lstat(file)
			data, rerr := os.ReadFile(file)
			if err != nil || rerr != nil {
				break // it was removed
			}
			os.WriteFile(file, bytes.ToUpper(data), 0o644)
			os.Chtimes(file, info.ModTime(), info.ModTime())
		case 3:
			os.WriteFile(filepath.Join(c.dir, thread, fmt.Sprintf("RESOLUTION-%d.md", 900+i)), []byte(c.message(random, thread, "RESOLUTION", 2000+i)), 0o644)
		case 4:
			c.git("add", "-A")
			c.git("commit", "-q", "-m", "more")
		case 5:
			os.Remove(file)
			os.Symlink("nowhere", file)
		}
		same(fmt.Sprintf("change %d of %s", i, file))
	}
	written, err := os.ReadFile(c.cache())
	if err != nil {
		t.Fatal("nothing was kept: ", err)
	}
	// What another user kept, or what was kept for another directory, is as good as
	// nothing: a bridge that came with its .git directory cannot speak.
	expected := without()
	lies := bytes.ReplaceAll(written, []byte("rig-a"), []byte("rig-b"))
	spoiled := map[string][]byte{
		"empty": {}, "magic alone": []byte(summaryMagic), "torn": written[:len(written)/2], "with more at its end": append(bytes.Clone(written), 0),
		"forged": lies, "sealed by another": c.sealedBy(lies, "another"), "too large": make([]byte, 1<<20),
	}
	for range 20 {
		flipped := bytes.Clone(written)
		i := random.IntN(len(flipped))
		flipped[i] ^= 1 << random.IntN(8)
		spoiled[fmt.Sprintf("bit of byte %d", i)] = flipped
	}
	for what, data := range spoiled {
		if err := os.WriteFile(c.cache(), data, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := c.status(time.Now()); got != expected {
			t.Errorf("%s:\n%s\nwithout:\n%s", what, got, expected)
		}
	}
	// The control: with this user's secret the lie is believed.
	secret, err := os.ReadFile(filepath.Join(filepath.Dir(c.dir), ".local", "state", "rigward", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.cache(), c.sealedBy(lies, string(secret)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := c.status(time.Now()); got == expected {
		t.Error("what is kept is not read at all")
	}
	// What cannot be written stays away, and the answer does not.
	for what, block := range map[string]func(path string) error{
		"a directory in its place": func(path string) error { return os.Mkdir(path, 0o755) },
		"a link to itself":         func(path string) error { return os.Symlink("status", path) },
		"a file for its directory": func(path string) error {
			if err := os.Remove(filepath.Dir(path)); err != nil {
				return err
			}
			return os.WriteFile(filepath.Dir(path), nil, 0o644)
		},
	} {
		os.RemoveAll(filepath.Dir(c.cache()))
		if err := os.Mkdir(filepath.Dir(c.cache()), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := block(c.cache()); err != nil {
			t.Fatal(err)
		}
		if got := c.status(time.Now()); got != expected {
			t.Errorf("%s:\n%s\nwithout:\n%s", what, got, expected)
		}
	}
}

// sealedBy puts a MAC with a secret under what is kept.
func (c *cachedClone) sealedBy(data []byte, secret string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(summaryMagic + filepath.Join(c.dir, ".git")))
	s := &summaries{key: h.Sum(nil)}
	body := data[:len(data)-sha256.Size]
	return append(bytes.Clone(body), s.mac(body)...)
}

func FuzzStatusCache(f *testing.F) {
	g := &glance{day: 20000, count: 2, isThread: true}
	g.add(newMessage("some-talk", "ACK.md", []byte("---\nfrom: op\n---\n")))
	f.Add(append(append(make([]byte, 20), 0, 0, 0, byte(len(g.pack()))), g.pack()...))
	f.Add([]byte{})
	f.Add(append(make([]byte, 20), 255, 255, 255, 255))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The MAC is put right, so that what lies behind it is reached.
		s := &summaries{key: []byte("k"), known: map[string][]byte{}}
		body := append([]byte(summaryMagic), data...)
		s.parse(append(body, s.mac(body)...), 20)
		for id := range s.known {
			if g, ok := s.find(fmt.Sprintf("%x", id), "some-talk"); ok && !bytes.Equal(g.pack(), s.known[id]) && len(g.latest) < 2 {
				again := &glance{}
				if !again.unpack(g.pack(), "some-talk") {
					t.Errorf("%x is read as %x, which is not read", s.known[id], g.pack())
				}
			}
		}
	})
}
