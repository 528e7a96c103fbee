package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestInBrowser opens every page in Chromium, 1200 px wide and light, 360 px wide and
// dark, with JavaScript and without: nothing runs that others wrote, nothing is
// loaded from elsewhere, nothing is wider than its window, the keyboard leads to the
// content, axe-core finds nothing, and an open page shows what comes. RIGWARD_SHOTS
// names a directory that gets pictures.
func TestInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	node, err := exec.LookPath("node")
	modules := os.Getenv("RIGWARD_NPM_AXE")
	if err != nil || modules == "" {
		t.Skip("there is no node, or RIGWARD_NPM_AXE does not name a node_modules directory with puppeteer-core and axe-core")
	}
	w := newWorld(t)
	s := w.serve(Access{})
	addresses := map[string]string{}
	for name, path := range pages(w) {
		if !slices.Contains([]string{"missing", "one", "idle", "threads", "closed", "rules", "search-hostile", "trouble", "repositories"}, name) { // of a status the browser would tell, the others are like one that is there
			addresses[name] = s.URL + path
		}
	}
	list, err := json.Marshal(addresses)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	script, err := filepath.Abs("testdata/look.mjs")
	if err != nil {
		t.Fatal(err)
	}
	// The first page of the list, closed, shows nothing new; the last step looks at this one.
	first := strings.Replace(string(list), "{", `{"0":`+string(must(json.Marshal(s.URL+"/threads")))+",", 1)
	cmd := exec.CommandContext(ctx, node, script, modules, browser, first, os.Getenv("RIGWARD_SHOTS"))
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir())
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that the browser ends, too
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() // by which the script knows that it is not waited for any more
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	seen, renewed := 0, false
	for lines.Scan() {
		var p struct {
			Name, Title, First, At, Text, Plain string
			Console, Elsewhere, Axe, Wide       []string
		}
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		switch p.Name {
		case "ready":
			w.repo.Commit("late", map[string]string{"late-thread/STATE.md": say("STATE", "late-thread", "rig-beta", "rig-alpha", "▶ Working", "Came late.", nil)})
			w.index()
			continue
		case "renewed":
			renewed = true
			continue
		}
		seen++
		for what, all := range map[string][]string{"the console says": p.Console, "is loaded from elsewhere": p.Elsewhere, "axe-core finds": serious(p.Axe), "is too wide": p.Wide} {
			if len(all) > 0 {
				t.Errorf("%s: %s:\n%s", p.Name, what, strings.Join(all, "\n"))
			}
		}
		if p.Title == "owned" || p.First != "Skip to the content" || p.At != "main" {
			t.Errorf("%s: title %q, the first stop of the keyboard is %q and leads to %q", p.Name, p.Title, p.First, p.At)
		}
		if strings.TrimSpace(p.Plain) == "" || p.Plain != p.Text {
			t.Errorf("%s without JavaScript says\n%s\nand with it\n%s", p.Name, p.Plain, p.Text)
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil || seen != len(addresses)+1 || !renewed {
		t.Errorf("%v, %d pages of %d, an open page was renewed: %t\n%s", err, seen, len(addresses)+1, renewed, told.String())
	}
}

// serious are the findings of axe-core that keep somebody from using a page. How the
// headings of a body follow each other is its author's affair.
func serious(all []string) (out []string) {
	for _, f := range all {
		if !strings.HasPrefix(f, "moderate heading-order") && !strings.HasPrefix(f, "minor") {
			out = append(out, f)
		}
	}
	return out
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}
