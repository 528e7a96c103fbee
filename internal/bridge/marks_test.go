package bridge

import (
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
)

// out runs git and returns what it prints.
func (c *cachedClone) out(args ...string) string {
	c.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", c.dir}, args...)...)
	cmd.Env = c.env
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// filesAt lists the message files of a commit as "THREAD/FILE BLOB".
func (c *cachedClone) filesAt(commit string) (files []string) {
	c.t.Helper()
	for line := range strings.Lines(c.out("ls-tree", "-r", commit)) {
		entry, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if words := strings.Fields(entry); strings.HasSuffix(path, ".md") && words[1] == "blob" {
			files = append(files, path+" "+words[2])
		}
	}
	return files
}

// TestReadModel holds what status counts as unread against a plain set of what
// was read, over messages that come and go, histories that are left and come
// back, and every way to mark.
func TestReadModel(t *testing.T) {
	for range 3 {
		seed := mathrand.Uint64()
		t.Logf("seed %d", seed)
		random := mathrand.New(mathrand.NewPCG(seed, 1))
		c := newCachedClone(t, random).asPeer()
		read := map[string]bool{}
		toPeer := map[string]bool{} // by blob
		now := time.Now()
		marksOf := map[string][]string{} // what the mark of a look stands for
		check := func(what string) {
			t.Helper()
			want := map[string]int{}
			for _, f := range c.filesAt("HEAD") {
				path, blob, _ := strings.Cut(f, " ")
				to, known := toPeer[blob]
				if !known {
					e, _ := envelope.Parse([]byte(c.out("cat-file", "blob", blob)), envelope.Options{})
					to = e != nil && e.From != "peer" && slices.Contains(e.To, "peer")
					toPeer[blob] = to
				}
				if thread, _, _ := strings.Cut(path, "/"); to && !read[f] {
					want[thread]++
				}
			}
			var got statusObject
			text := c.status(now)
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			total := 0
			for _, row := range got.Threads {
				if row.Unread == nil || *row.Unread != want[row.ThreadID] {
					t.Fatalf("seed %d, after %s: %s: %v, expected %d", seed, what, row.ThreadID, row.Unread, want[row.ThreadID])
				}
				total += *row.Unread
			}
			if got.To != "peer" || *got.Unread != total {
				t.Fatalf("%+v", got)
			}
		}
		check("the start")
		heads := []string{strings.TrimSpace(c.out("rev-parse", "HEAD"))}
		for n := range 60 {
			files := c.filesAt("HEAD")
			pick := files[random.IntN(len(files))]
			path, _, _ := strings.Cut(pick, " ")
			thread, _, _ := strings.Cut(path, "/")
			inThread := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !strings.HasPrefix(f, thread+"/") })
			what := ""
			switch random.IntN(8) {
			case 0, 1:
				what = "read " + thread
				c.run(now, "read", thread)
				for _, f := range inThread {
					read[f] = true
				}
			case 2:
				what = "read " + path
				c.run(now, "read", thread, path)
				read[pick] = true
			case 3:
				what = "a look at " + thread
				var o threadObject
				if err := json.Unmarshal([]byte(c.run(now, "thread", thread, "--json")), &o); err != nil {
					t.Fatal(err)
				}
				marksOf[thread+" "+o.Mark] = inThread
			case 4:
				for of, seen := range marksOf {
					th, mark, _ := strings.Cut(of, " ")
					if !slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f, th+"/") }) {
						continue // the thread is not here now
					}
					what = "read " + th + " --at"
					c.run(now, "read", th, "--at", mark)
					for _, f := range seen {
						read[f] = true
					}
					break
				}
			case 5, 6:
				what = "new messages"
				for i := range 1 + random.IntN(4) {
					name := fmt.Sprintf("%s/NEW-%d-%d.md", thread, n, i)
					os.WriteFile(filepath.Join(c.dir, name), []byte(c.message(random, thread, "STATE", 1000+n*10+i)), 0o644)
				}
				if random.IntN(3) == 0 {
					os.Remove(filepath.Join(c.dir, path))
				}
				c.git("add", "-A")
				c.git("commit", "-q", "-m", "more")
				heads = append(heads, strings.TrimSpace(c.out("rev-parse", "HEAD")))
			case 7:
				what = "another history"
				c.git("reset", "-q", "--hard", heads[random.IntN(len(heads))])
			}
			check(what)
		}
	}
}

// TestMarksAtSize: a million messages that are marked one by one, and as many
// threads as a file has room for, are read and changed in a moment.
func TestMarksAtSize(t *testing.T) {
	var keys strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&keys, " %032x", i*7)
	}
	tree := strings.Repeat("ab", 20)
	var text strings.Builder
	text.WriteString(marksHead)
	for i := range 500_000 {
		fmt.Fprintf(&text, "a-%07d %s\n", i, tree)
	}
	text.WriteString("t-one -" + keys.String() + "\n")
	start := time.Now()
	m := &marks{hash: 40}
	if err := m.parse([]byte(text.String())); err != nil {
		t.Fatal(err)
	}
	if l := m.of("t-one"); l.tree != "" || !strings.HasSuffix(l.keys, fmt.Sprintf("%032x", 999_999*7)) || l.holds("A.md", tree) {
		t.Error("the marks are not found")
	}
	if m.of("a-0400000").tree != tree || m.of("zz").tree != "" {
		t.Error("a thread's mark is not found")
	}
	m.set(markLine{thread: "b-one", tree: tree})
	if len(m.render()) != text.Len()+len("b-one ")+41 {
		t.Error("one line was added, and the file has another length")
	}
	if took := time.Since(start); took > 30*time.Second { // not linear, it would be hours
		t.Errorf("it took %s", took)
	}
	if err := m.parse(make([]byte, maxMarks+1)); err == nil {
		t.Error("a file that is too large was read")
	}
}

func FuzzMarks(f *testing.F) {
	tree, key := strings.Repeat("ab", 20), strings.Repeat("0", keyDigits)
	f.Add(marksHead)
	f.Add(marksHead + "t-one " + tree + "\n")
	f.Add(marksHead + "t-one " + tree + " " + key + "\nt-two - " + key + "\n")
	f.Add(marksHead + "../x " + tree + "\n")
	f.Add(marksHead + "t-two -\nt-one -\n")
	f.Fuzz(func(t *testing.T, text string) {
		m := &marks{hash: 40}
		if m.parse([]byte(text)) != nil {
			if len(m.lines) != 0 {
				t.Fatal("marks of a file that was refused")
			}
			return
		}
		if string(m.render()) != text {
			t.Fatalf("%q is written as %q", text, m.render())
		}
		for _, l := range m.lines {
			if !isThreadName(l.thread) || m.of(l.thread) != l {
				t.Fatalf("%+v", l)
			}
		}
	})
}

// TestMeansToBe: a broken envelope makes a thread, another document's front
// matter does not.
func TestMeansToBe(t *testing.T) {
	for text, want := range map[string]bool{
		"---\nfrom: a\nto: [\n---\nx\n":       true,
		"\ufeff---\r\nbody_hash: x\r\n":       true,
		"---\ntitle: x\n---\nfrom: a\n":       false,
		"---\nlayout: post\n  from: a\n---\n": false,
		"from: a\n":                           false,
		"":                                    false,
	} {
		if meansToBe([]byte(text)) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
