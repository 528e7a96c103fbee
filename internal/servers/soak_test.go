//go:build linux

package servers

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
)

var (
	soakOp       = testkeys.Ed25519("soak op")
	soakStranger = testkeys.Ed25519("soak stranger")
)

// A soak is many pushes of many clients to one server, some to one branch and
// some to a branch of their own.
type soak struct {
	*site
	mu       sync.Mutex
	accepted map[string]string // commit to the branch that it was pushed to
	forged   map[string]string // commit to how it was forged
	nonces   int
	lost     int // races for a branch that git decided, and that were run again
}

// kinds are what a client pushes; a forged one is refused by the rule.
var kinds = []struct{ name, rule string }{
	{"envelope", ""},
	{"relay", ""},
	{"relay", ""},
	{"unsigned relay", "commit-signed"},
	{"relay by a stranger", "commit-signed"},
	{"relay with the signature of another commit", "commit-signed"},
	{"relay with a nonce that was used", "relay-nonce"},
	{"relay that answers nothing", "relay-reply"},
	{"edit", "append-only"},
	{"deletion", "append-only"},
	{"signers", "signers-change"},
}

const question = "Is it ready?\n"

// files are what a kind of push adds to a tree; nil content deletes.
func (s *soak) files(kind, name string) (files map[string]string, relay bool) {
	ask := "release-check/REQUEST.md"
	switch kind {
	case "envelope":
		return map[string]string{"release-check/" + name + ".md": turn("release-check", "STATE", name+"\n")}, false
	case "edit":
		return map[string]string{ask: turn("release-check", "STATE", "Edited.\n")}, false
	case "deletion":
		return map[string]string{ask: ""}, false
	case "signers":
		return map[string]string{".bridge/allowed_signers": soakStranger.Line("*@example.com,op-relay", "")}, false
	}
	s.mu.Lock()
	s.nonces++
	nonce := fmt.Sprintf("01KE%022d", s.nonces)
	s.mu.Unlock()
	reply := envelope.BodyHash([]byte(question))
	switch kind {
	case "relay with a nonce that was used":
		nonce = "01KE" + strings.Repeat("0", 22)
	case "relay that answers nothing":
		reply = envelope.BodyHash([]byte("nothing\n"))
	}
	body := []byte("Decided: " + name + "\n")
	text, err := envelope.Render(envelope.Fields{
		From: "op-relay", To: []string{"rig-z"}, Date: "2026-01-05", Status: "▶ Decided", Type: "DECISIONS", Thread: "release-check",
		InReplyTo: reply, AttestedBy: soakOp.Fingerprint(), AttestedAt: time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), Nonce: nonce,
		Body: body, BodyHash: envelope.BodyHash(envelope.NormalizeBody(body)),
	})
	if err != nil {
		panic(err)
	}
	return map[string]string{"release-check/" + name + ".md": string(text)}, true
}

// commit makes a commit of a kind on top of another one.
func (s *soak) commit(c *gittest.Repo, parent, kind, name string) string {
	files, relay := s.files(kind, name)
	tree := c.FilesOf(parent)
	for path, text := range files {
		if text == "" {
			delete(tree, path)
		} else {
			gittest.Put(tree, path, gittest.File{Mode: "100644", ID: c.Blob(text)})
		}
	}
	who := fmt.Sprintf("Op <op@example.com> %d +0000", time.Now().Unix())
	raw := testkeys.Commit{Tree: c.Files(tree), Parents: []string{parent}, Author: who, Committer: who, Message: name + "\n"}.Bytes()
	switch {
	case kind == "relay by a stranger":
		raw = testkeys.SignCommit(raw, soakStranger)
	case kind == "relay with the signature of another commit":
		armor := testkeys.Armor(testkeys.Sign([]byte("another commit"), soakOp, "git", "sha512", "").Marshal())
		raw = testkeys.SignCommitHeader(raw, "gpgsig", armor)
	case relay && kind != "unsigned relay":
		raw = testkeys.SignCommit(raw, soakOp)
	}
	return c.WriteObject("commit", raw)
}

// push makes one push, and makes it again as long as another client is first.
func (s *soak) push(c *gittest.Repo, branch, kind, rule, name string) {
	for range 50 {
		c.Run("fetch", "-q", s.repo.Dir, branch)
		parent := c.Run("rev-parse", "FETCH_HEAD")
		id := s.commit(c, parent, kind, name)
		if rule != "" {
			s.mu.Lock()
			s.forged[id] = kind
			s.mu.Unlock()
		}
		res := c.Push("origin", id+":refs/heads/"+branch)
		switch {
		case res.Code == 0 && rule == "":
			s.mu.Lock()
			s.accepted[id] = branch
			s.mu.Unlock()
			return
		case res.Code == 0:
			s.Errorf("%s, %s: accepted", name, kind)
			return
		case rule != "" && strings.Contains(res.Stderr, "["+rule+"]"):
			return
		case strings.Contains(res.Stderr, "fetch first"), strings.Contains(res.Stderr, "non-fast-forward"),
			strings.Contains(res.Stderr, "cannot lock ref"), strings.Contains(res.Stderr, "failed to update ref"):
			s.mu.Lock()
			s.lost++
			s.mu.Unlock()
		default:
			s.Errorf("%s, %s: exit %d, expected %q\n%s", name, kind, res.Code, rule, res.Stderr)
			return
		}
	}
	s.Errorf("%s, %s: 50 times another client was first", name, kind)
}

// TestSoak: clients push for a while at once, what may pass and what may not.
// RIGWARD_SOAK=5m makes 20 clients push 200 times in about that time.
func TestSoak(t *testing.T) {
	clients, each, during := 4, 5, time.Duration(0)
	if text := os.Getenv("RIGWARD_SOAK"); text != "" {
		var err error
		if during, err = time.ParseDuration(text); err != nil {
			t.Fatalf("RIGWARD_SOAK: %v", err)
		}
		clients, each = 20, 10
	}
	dir := gittest.TempDir(t)
	documented(t, "A bare repository over SSH", 0).with("/srv/git", dir).run(dir, shell(dir))
	key := keyPair(t, filepath.Join(dir, "key"))
	address, ssh := sshd(t, dir, key+".pub", key, "KexAlgorithms curve25519-sha256\n")
	s := &soak{site: &site{T: t, repo: bare(t, filepath.Join(dir, "bridge.git")), url: address + dir + "/bridge.git", env: []string{ssh}},
		accepted: map[string]string{}, forged: map[string]string{}}
	s.repo.Run("config", "rigward.timeout", "60s")

	first := s.client()
	base := first.Commit("Ask", map[string]string{
		"release-check/REQUEST.md": turn("release-check", "STATE", question),
		".bridge/policy.yaml":      "version: 1\nprotect: ['**']\nrelay:\n  nonce-scope: refs\n",
		".bridge/allowed_signers":  soakOp.Line("op@example.com,op-relay", ""),
	})
	s.site.accepted(first.Push("origin", "main"), "main", base)
	s.repo.Run("config", "--unset-all", "rigward.bootstrap")
	used := s.commit(first, base, "relay with a nonce that was used", "used") // for the first time
	s.site.accepted(first.Push("origin", used+":refs/heads/main"), "main", used)
	s.accepted[used] = "main"
	for n := range clients {
		s.site.accepted(first.Push("origin", used+":refs/heads/"+branchOf(n)), branchOf(n), used)
	}

	memory := watch(t)
	begin := time.Now()
	var wg sync.WaitGroup
	for n := range clients {
		c, rng := s.client(), rand.New(rand.NewPCG(uint64(n), 1))
		wg.Go(func() {
			for i := range each {
				// Each push has its time, so that slow ones do not add up.
				time.Sleep(time.Until(begin.Add(during * time.Duration(i*100+rng.IntN(100)) / time.Duration(each*100))))
				k := kinds[(n+i*3+rng.IntN(3))%len(kinds)]
				s.push(c, branchOf(n), k.name, k.rule, fmt.Sprintf("C%d-%d", n, i))
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	memory.report(t)

	have := strings.Fields(s.repo.Run("rev-list", "--all"))
	for id, branch := range s.accepted {
		if res := s.repo.Try(nil, "merge-base", "--is-ancestor", id, "refs/heads/"+branch); res.Code != 0 {
			t.Errorf("commit %s was accepted and is not in %s", id, branch)
		}
	}
	for id, kind := range s.forged {
		if slices.Contains(have, id) {
			t.Errorf("commit %s, %s, is in the history", id, kind)
		}
	}
	if n := len(s.accepted) + 1; len(have) != n { // and the first
		t.Errorf("the server has %d commits, %d were accepted", len(have), n)
	}
	s.repo.Run("fsck", "--strict", "--no-dangling")
	t.Logf("%d pushes by %d clients in %s: %d accepted, %d forged and refused, %d races run again", clients*each, clients, took.Round(time.Second), len(s.accepted)-1, clients*each-len(s.accepted)+1, s.lost)
}

// branchOf is the branch that a client pushes to: the first three, which race
// each other, to main.
func branchOf(n int) string {
	if n < 3 {
		return "main"
	}
	return fmt.Sprintf("c-%d", n)
}

// A memory watches what sshd and the hooks hold.
type memory struct {
	stop, stopped chan struct{}
	sshd          []int      // resident KiB of the server itself, over time
	hooks         []hookPeak // one for each hook process that was seen
}

type hookPeak struct{ pid, peak int }

// watch looks at /proc until report is called.
func watch(t *testing.T) *memory {
	m := &memory{stop: make(chan struct{}), stopped: make(chan struct{})}
	server := 0
	for _, pid := range descendants(os.Getpid()) {
		if server == 0 && status(pid, "Name") == "sshd" {
			server = pid
		}
	}
	if server == 0 {
		t.Fatal("sshd is not a child of this process")
	}
	hook := filepath.Join(bin, "rig-hook")
	go func() {
		defer close(m.stopped)
		at := map[int]int{}
		for n := 0; ; n++ {
			select {
			case <-m.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			for _, pid := range descendants(server) {
				i, known := at[pid]
				if !known {
					if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || exe != hook {
						continue
					}
					i = len(m.hooks)
					at[pid] = i
					m.hooks = append(m.hooks, hookPeak{pid: pid})
				}
				m.hooks[i].peak = max(m.hooks[i].peak, kib(pid, "VmHWM"))
			}
			if n%10 == 0 {
				m.sshd = append(m.sshd, kib(server, "VmRSS"))
			}
		}
	}()
	return m
}

// report tells what was seen, and that it did not grow.
func (m *memory) report(t *testing.T) {
	t.Helper()
	close(m.stop)
	<-m.stopped
	var peaks []int
	for _, h := range m.hooks {
		if h.peak > 0 {
			peaks = append(peaks, h.peak)
		}
	}
	for _, s := range []struct {
		name  string
		kib   []int
		slack int
	}{{"hook processes, peak", peaks, 8 << 10}, {"sshd, resident", m.sshd, 2 << 10}} {
		if len(s.kib) < 6 {
			t.Errorf("%s: %d samples only", s.name, len(s.kib))
			continue
		}
		third := len(s.kib) / 3
		early, late := median(s.kib[:third]), median(s.kib[len(s.kib)-third:])
		t.Logf("%s: %d samples, median of the first third %d KiB, of the last %d KiB, most %d KiB", s.name, len(s.kib), early, late, slices.Max(s.kib))
		if late > early+early/4+s.slack {
			t.Errorf("%s: grew from %d to %d KiB", s.name, early, late)
		}
	}
}

func median(values []int) int {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// descendants returns the children of a process, their children, and so on.
func descendants(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for _, f := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

// status returns a field of /proc/PID/status, "" if the process has ended.
func status(pid int, field string) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func kib(pid int, field string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(status(pid, field), " kB"))
	return n
}
