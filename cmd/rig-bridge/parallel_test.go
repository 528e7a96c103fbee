package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// stress returns how large a stress test is: n, or full with
// RIGWARD_STRESS=full.
func stress(n, full int) int {
	if os.Getenv("RIGWARD_STRESS") == "full" {
		return full
	}
	return n
}

type sentLine struct {
	Path    string `json:"file"`
	Commit  string `json:"commit"`
	Hash    string `json:"body_hash"`
	Pushed  bool   `json:"pushed"`
	Retries int    `json:"retries"`
}

// history reads every blob at an envelope path that the server's main has
// ever had: how often a commit added it, by body text.
func (w *world) history() (added map[string]int, changed []string) {
	w.t.Helper()
	added = map[string]int{}
	log := w.git("origin.git", "log", "--no-renames", "-m", "--raw", "--no-abbrev", "--format=", "main", "--", "*.md")
	var blobs []string
	for _, line := range strings.Split(strings.TrimSpace(log), "\n") {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		if f[4] != "A" {
			changed = append(changed, line)
			continue
		}
		blobs = append(blobs, f[3])
	}
	for _, text := range w.blobs("origin.git", blobs) {
		added[text]++
	}
	return added, changed
}

// blobs returns the contents of blobs of a repository, by what names them.
func (w *world) blobs(repo string, names []string) []string {
	w.t.Helper()
	if len(names) == 0 {
		return nil
	}
	cmd := exec.Command("git", "cat-file", "--batch")
	cmd.Dir, cmd.Env, cmd.Stdin = w.path(repo), w.vars, strings.NewReader(strings.Join(names, "\n")+"\n")
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("git cat-file: %v", err)
	}
	var texts []string
	for _, name := range names {
		header, rest, _ := strings.Cut(string(out), "\n")
		size := 0
		if f := strings.Fields(header); len(f) == 3 && f[1] == "blob" {
			size, _ = strconv.Atoi(f[2])
		}
		if size == 0 || len(rest) <= size {
			w.t.Fatalf("git cat-file says of %s: %s", name, header)
		}
		texts, out = append(texts, rest[:size]), []byte(rest[size+1:])
	}
	return texts
}

// sendAll sends messages whose bodies are unique from one clone, and returns
// the bodies of those that reported success, and of all.
func (w *world) sendAll(clone, rig string, n int, label string) (told, all []string) {
	for i := range n {
		body := fmt.Sprintf("%s message %d\n", label, i)
		all = append(all, body)
		cmd := w.command(clone, "send", "HANDOFF", "--thread", "t-one", "--to", "peer", "--body-file", "-", "--json")
		cmd.Stdin = strings.NewReader(body)
		o := finish(w.t, cmd)
		if o.code == 0 {
			var s sentLine
			if err := json.Unmarshal([]byte(o.stdout), &s); err != nil || !s.Pushed {
				w.t.Errorf("%s: success without a push: %v %s", label, err, o.stdout)
			}
			told = append(told, body)
		} else {
			w.t.Logf("%s message %d: exit %d: %s", label, i, o.code, o.stderr)
		}
	}
	return told, all
}

// checkHistory holds what was told against what the server has.
func (w *world) checkHistory(told, all []string) {
	w.t.Helper()
	added, changed := w.history()
	if len(changed) > 0 {
		w.t.Errorf("the server's history changes messages: %q", changed)
	}
	times := func(body string) (n int) {
		for text, k := range added {
			if strings.HasSuffix(text, "---\n"+body) {
				n += k
			}
		}
		return n
	}
	for _, body := range told {
		if n := times(body); n != 1 {
			w.t.Errorf("%q was reported as sent and is in the server's history %d times", body, n)
		}
	}
	for _, body := range all {
		if n := times(body); n > 1 {
			w.t.Errorf("%q is in the server's history %d times", body, n)
		}
	}
	w.git("origin.git", "fsck", "--strict")
	w.t.Logf("%d of %d messages reported success, each is there once", len(told), len(all))
}

func TestParallelSendsInOneClone(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	os.Mkdir(w.path("a/t-one"), 0o755)
	procs, each := stress(3, 10), stress(2, 20)
	var mu sync.Mutex
	var told, all []string
	var wg sync.WaitGroup
	for p := range procs {
		wg.Go(func() {
			ok, every := w.sendAll("a", "rig-a", each, "process "+strconv.Itoa(p))
			mu.Lock()
			told, all = append(told, ok...), append(all, every...)
			mu.Unlock()
		})
	}
	wg.Wait()
	w.checkHistory(told, all)
	if len(told) == 0 {
		t.Error("nothing was sent")
	}
	if s := w.git("a", "status", "--porcelain"); s != "" {
		t.Errorf("the clone is left dirty:\n%s", s)
	}
}

func TestParallelClones(t *testing.T) {
	w := newWorld(t)
	w.server()
	clones, each := stress(2, 5), stress(3, 40)
	for c := range clones {
		w.clone(fmt.Sprintf("c%d", c), fmt.Sprintf("rig-%d", c))
		os.Mkdir(w.path(fmt.Sprintf("c%d/t-one", c)), 0o755)
	}
	var mu sync.Mutex
	var told, all []string
	var wg sync.WaitGroup
	for c := range clones {
		wg.Go(func() {
			name := fmt.Sprintf("c%d", c)
			ok, every := w.sendAll(name, fmt.Sprintf("rig-%d", c), each, "clone "+strconv.Itoa(c))
			mu.Lock()
			told, all = append(told, ok...), append(all, every...)
			mu.Unlock()
		})
	}
	wg.Wait()
	w.checkHistory(told, all)
	if len(told) == 0 {
		t.Error("nothing was sent")
	}
	for c := range clones {
		name := fmt.Sprintf("c%d", c)
		if s := w.git(name, "status", "--porcelain"); s != "" {
			t.Errorf("%s is left dirty:\n%s", name, s)
		}
		w.git(name, "fsck", "--strict")
	}
}
