package hooks_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// full makes the tests of bounds play their cases in full size, alone, and
// print figures: RIGWARD_TEST_BOUNDS=full go test -v -run Bounds ./hooks
var full = os.Getenv("RIGWARD_TEST_BOUNDS") == "full"

// size is n in full, less in an ordinary run.
func size(n int) int {
	if full {
		return n
	}
	return n / 20
}

const mostMemory = 256 << 10 // KiB

// A cost is what a run of rig-hook took.
type cost struct {
	code int
	out  string
	peak int // KiB of its own memory, as seen last
	took time.Duration
}

// measured runs rig-hook in a repository.
func measured(t testing.TB, r *gittest.Repo, stdin string, args ...string) (c cost) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	if strings.HasSuffix(r.Dir, ".git") {
		cmd.Env = served(r)
	}
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	for running := true; running; {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if _, after, ok := strings.Cut(string(status), "VmHWM:"); ok {
			_, _ = fmt.Sscan(after, &c.peak)
		}
		select {
		case <-done:
			running = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	c.took, c.code, c.out = time.Since(begin), cmd.ProcessState.ExitCode(), out.String()
	return c
}

// bounded runs check without a deadline and pre-receive with its own, and
// expects that both refuse within their bounds.
func bounded(t *testing.T, r *gittest.Repo, base, tip string, says ...string) {
	t.Helper()
	c := measured(t, r, "", "check", base+".."+tip)
	t.Logf("check: exit %d, %v, %d MiB, %d bytes of output, the last: %s", c.code, c.took.Round(time.Millisecond), c.peak>>10, len(c.out), lastLine(c.out))
	if c.code != 1 || c.peak > mostMemory {
		t.Errorf("check: exit %d with %d KiB:\n%.3000s", c.code, c.peak, c.out)
	}
	for _, s := range says {
		if !strings.Contains(c.out, s) {
			t.Errorf("check does not say %q:\n%.2000s", s, c.out)
		}
	}
	line := base + " " + tip + " refs/heads/main\n"
	c = measured(t, r, line, "pre-receive")
	t.Logf("pre-receive: exit %d, %v, %d MiB: %s", c.code, c.took.Round(time.Millisecond), c.peak>>10, firstLines(c.out))
	if c.code == 0 || c.peak > mostMemory {
		t.Errorf("pre-receive: exit %d with %d KiB:\n%s", c.code, c.peak, c.out)
	}
	if full && c.took > 4500*time.Millisecond {
		t.Errorf("pre-receive took %v", c.took)
	}
	serverForm(t, "remote: "+strings.ReplaceAll(strings.TrimSuffix(c.out, "\n"), "\n", "\nremote: "))
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func firstLines(s string) string {
	lines := strings.SplitN(s, "\n", 3)
	return strings.Join(lines[:min(2, len(lines))], " | ")
}

// bare is a repository with a commit on main and signers of its own.
func bare(t *testing.T) (r *gittest.Repo, base string) {
	t.Helper()
	r = gittest.New(t, gittest.Options{Bare: true})
	base = r.CommitTree(r.EmptyTreeID(), "Base")
	r.SetRef("refs/heads/main", base)
	write(t, r.Dir+"/signers", keyA.Line("op@example.com,op-relay", ""))
	r.Config("rigward.allowedSigners", r.Dir+"/signers")
	return r, base
}

// shared makes a tree that names one blob in dirs × files places.
func shared(r *gittest.Repo, text string, dirs, files int) string {
	blob := r.Blob(text)
	var inner, outer []gittest.TreeEntry
	for i := range files {
		inner = append(inner, gittest.TreeEntry{Mode: "100644", Name: fmt.Sprintf("M-%06d.md", i), ID: blob})
	}
	dir := r.Tree(inner...)
	for i := range dirs {
		outer = append(outer, gittest.TreeEntry{Mode: "40000", Name: fmt.Sprintf("t-%04d", i), ID: dir})
	}
	return r.Tree(outer...)
}

// alone runs the cases of a test beside others unless they are measured.
func alone(t *testing.T) {
	if !full {
		t.Parallel()
	}
}

// TestBoundsOfManyNames: a small tree that names very many bad envelopes (J12).
func TestBoundsOfManyNames(t *testing.T) {
	alone(t)
	forged := strings.Replace(turnBy("op-relay", "t-one", "DECISIONS", "x\n", hashOf("x\n")), "from:", "attested_by: SHA256:x\nattested_at: 2026-01-05T00:00:00Z\nnonce: 01JH8N4QZJ00000000000000AA\nfrom:", 1)
	for _, c := range []struct {
		name, text  string
		dirs, files int
	}{
		{"without a closing fence", "---\nfrom: x\n", 400, size(1000)},
		{"of another thread", turn("t-one", "STATE", "x\n"), 400, size(1000)},
		{"forged relays", forged, 400, size(1000)},
		{"in one directory", turn("t-one", "STATE", "x\n"), 1, size(400_000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t)
			r, base := bare(t)
			tip := r.CommitTree(shared(r, c.text, c.dirs, c.files), "Many", base)
			says := []string{"more were found than are listed"}
			if c.text != forged {
				says = append(says, fmt.Sprintf("%d errors", c.dirs*c.files))
			}
			bounded(t, r, base, tip, says...)
		})
	}
	t.Run("that only a later commit makes envelopes", func(t *testing.T) {
		alone(t)
		r, base := bare(t)
		files := size(1000)
		first := r.CommitTree(shared(r, "no fence\n", 400, files), "Many", base)
		tip := r.CommitTree(shared(r, turn("t-one", "STATE", "x\n"), 400, files), "Others", first)
		bounded(t, r, base, tip, fmt.Sprintf("%d errors", 2*400*files))
	})
	t.Run("control: as many that are nobody's business", func(t *testing.T) {
		alone(t)
		r, base := bare(t)
		tip := r.CommitTree(shared(r, "no fence\n", 400, size(1000)), "Many", base)
		c := measured(t, r, "", "check", base+".."+tip)
		if c.code != 0 || c.peak > mostMemory {
			t.Errorf("exit %d, %d KiB:\n%s", c.code, c.peak, c.out)
		}
	})
}

// TestBoundsOfOneCommit: very many bad envelopes of their own content in one
// commit.
func TestBoundsOfOneCommit(t *testing.T) {
	alone(t)
	r, base := bare(t)
	n := size(100_000)
	text := strings.Replace(turn("t-one", "STATE", "%d\n"), hashOf("%d\n"), hashOf("other\n"), 1)
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/tip\ncommitter A <a@example.com> %d +0000\ndata 0\nfrom %s\n", r.Now, base)
	for i := range n {
		data := strings.Replace(text, "%d", fmt.Sprint(i), 1)
		fmt.Fprintf(&in, "M 100644 inline t-one/M-%d.md\ndata %d\n%s\n", i, len(data), data)
	}
	r.RunIn(in.Bytes(), "fast-import", "--quiet")
	bounded(t, r, base, r.Ref("refs/heads/tip"), fmt.Sprintf("%d errors", n))
}

// TestBoundsOfManyParents: a commit with very many parents.
func TestBoundsOfManyParents(t *testing.T) {
	alone(t)
	r, base := bare(t)
	n := size(20_000)
	for name, c := range map[string]struct {
		tree func(i int) string // of parent i
		says string             // "": nothing is wrong
	}{
		"of the same tree": {func(int) string { return r.EmptyTreeID() }, ""},
		"each with an envelope of its own": {func(i int) string {
			blob := r.Blob(turn("t-one", "STATE", fmt.Sprint(i, "\n")))
			return r.Tree(gittest.TreeEntry{Mode: "40000", Name: "t-one", ID: r.Tree(gittest.TreeEntry{Mode: "100644", Name: fmt.Sprintf("M-%d.md", i), ID: blob})})
		}, "append-only"},
	} {
		t.Run(name, func(t *testing.T) {
			var in bytes.Buffer
			parents := []string{base}
			for i := range n {
				fmt.Fprintf(&in, "commit refs/heads/p%d\ncommitter A <a@example.com> %d +0000\ndata 1\n%c\nfrom %s\n", i, r.Now+int64(i), 'a'+i%26, base)
				if c.says != "" {
					text := turn("t-one", "STATE", fmt.Sprint(i, "\n"))
					fmt.Fprintf(&in, "M 100644 inline t-one/M-%d.md\ndata %d\n%s\n", i, len(text), text)
				}
			}
			r.RunIn(in.Bytes(), "fast-import", "--quiet", "--force")
			for _, line := range strings.Split(r.Run("for-each-ref", "--format=%(objectname)", "refs/heads/p*"), "\n") {
				parents = append(parents, strings.TrimSpace(line))
			}
			text := turn("t-one", "STATE", "0\n")
			tree := r.Tree(gittest.TreeEntry{Mode: "40000", Name: "t-one", ID: r.Tree(gittest.TreeEntry{Mode: "100644", Name: "M-0.md", ID: r.Blob(text)})})
			if c.says == "" {
				tree = r.EmptyTreeID()
			}
			r.Now += int64(n)
			tip := r.CommitTree(tree, "Octopus", parents...)
			if c.says != "" {
				bounded(t, r, base, tip, c.says)
				return
			}
			res := measured(t, r, "", "check", base+".."+tip)
			t.Logf("check: exit %d, %v, %d MiB", res.code, res.took, res.peak>>10)
			if res.code != 0 || res.peak > mostMemory {
				t.Errorf("exit %d, %d KiB:\n%s", res.code, res.peak, res.out)
			}
		})
	}
}

// TestBoundsOfManyRefs: a push of very many refs.
func TestBoundsOfManyRefs(t *testing.T) {
	alone(t)
	r, base := bare(t)
	n := size(20_000)
	for name, policy := range map[string]string{
		"that are free":      "version: 1\n",
		"that are forbidden": "version: 1\nother-refs: deny\n",
		"that are protected": "version: 1\nprotect: [refs/heads/**]\n",
	} {
		t.Run(name, func(t *testing.T) {
			write(t, r.Dir+"/policy", policy)
			r.Config("rigward.policy", r.Dir+"/policy")
			var in strings.Builder
			for i := range n {
				fmt.Fprintf(&in, "%s %s refs/heads/b%d\n", strings.Repeat("0", 40), base, i)
			}
			c := measured(t, r, in.String(), "pre-receive")
			t.Logf("pre-receive: exit %d, %v, %d MiB: %s", c.code, c.took.Round(time.Millisecond), c.peak>>10, firstLines(c.out))
			if c.peak > mostMemory || c.took > 4500*time.Millisecond && full {
				t.Errorf("%v, %d KiB", c.took, c.peak)
			}
			switch {
			case name == "that are free" && c.code != 0, name == "that are forbidden" && (c.code != 1 || !strings.Contains(c.out, fmt.Sprintf("%d errors", n))):
				t.Errorf("exit %d:\n%s", c.code, c.out)
			}
		})
	}
}
