package report

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// chromium runs a headless browser on a file and returns the document that it
// came to and what it logged.
func chromium(t *testing.T, file string, args ...string) (dom, log string) {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars",
		"--enable-logging=stderr", "--user-data-dir=" + t.TempDir(), "--virtual-time-budget=20000"}, append(args, "file://"+file)...)...)
	cmd.WaitDelay = 5 * time.Second
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errOut.String())
	}
	return out.String(), errOut.String()
}

// TestPageInBrowser opens the pages in Chromium, each in a frame as wide as a
// phone and in one as wide as a desk: the console stays silent, where it would
// tell of what the Content-Security-Policy stopped, the style is in force, and
// nothing is wider than its window. RIGWARD_SHOTS names a directory that gets
// pictures of the pages.
func TestPageInBrowser(t *testing.T) {
	dir := t.TempDir()
	var outer strings.Builder
	outer.WriteString("<!doctype html><pre id=out></pre>\n")
	names := []string{"pull", "hostile"}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name+".html"), []byte(render(t, reports[name], "html")), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{390, 1200} {
			fmt.Fprintf(&outer, "<iframe src=%s.html width=%d height=800></iframe>\n", name, width)
		}
	}
	outer.WriteString(`<script>addEventListener("load",()=>{out.textContent=[...document.querySelectorAll("iframe")].map(f=>{const d=f.contentDocument,r=d.documentElement;
return r.scrollWidth+"/"+r.clientWidth+"/"+getComputedStyle(d.querySelector("h1")).marginTop}).join(" ")})</script>`)
	file := filepath.Join(dir, "frames.html")
	if err := os.WriteFile(file, []byte(outer.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	dom, log := chromium(t, file, "--dump-dom", "--allow-file-access-from-files", "--disable-web-security")
	if said := regexp.MustCompile("(?m)^.*CONSOLE.*$").FindAllString(log, -1); len(said) > 0 {
		t.Errorf("the console says:\n%s", strings.Join(said, "\n"))
	}
	const want = "390/390/4px 1200/1200/4px 390/390/4px 1200/1200/4px"
	if got := regexp.MustCompile(`<pre id="out">(.*?)</pre>`).FindStringSubmatch(dom); got == nil || got[1] != want {
		t.Errorf("width of the content, of the window, and a margin: %q, expected %q", got, want)
	}
	if shots := os.Getenv("RIGWARD_SHOTS"); shots != "" {
		for _, name := range names {
			for _, width := range []int{390, 1200} {
				chromium(t, filepath.Join(dir, name+".html"), fmt.Sprintf("--window-size=%d,3000", width), "--screenshot="+filepath.Join(shots, fmt.Sprintf("%s-%d.png", name, width)))
			}
		}
	}
}

// TestSummaryInMermaid renders every graph of the golden summaries with
// Mermaid itself, and reads the labels back.
func TestSummaryInMermaid(t *testing.T) {
	modules := os.Getenv("RIGWARD_NPM_MERMAID")
	if modules == "" {
		t.Skip("RIGWARD_NPM_MERMAID does not name a node_modules directory with mermaid")
	}
	script, err := filepath.Abs(filepath.Join(modules, "mermaid", "dist", "mermaid.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(script); err != nil {
		t.Fatal(err)
	}
	var graphs []string
	for _, name := range []string{"pull", "hostile"} {
		for _, m := range regexp.MustCompile("(?s)```mermaid\n(.*?)```\n").FindAllStringSubmatch(render(t, reports[name], "markdown"), -1) {
			graphs = append(graphs, m[1])
		}
	}
	if len(graphs) != 3 {
		t.Fatalf("%d graphs", len(graphs))
	}
	var page strings.Builder
	page.WriteString("<!doctype html><meta charset=utf-8><script src=\"file://" + html.EscapeString(script) + "\"></script><body>\n")
	for _, g := range graphs {
		page.WriteString("<pre class=graph>" + html.EscapeString(g) + "</pre>\n")
	}
	// securityLevel strict is GitHub's.
	page.WriteString(`<script>(async()=>{mermaid.initialize({startOnLoad:false,securityLevel:"strict"});
let n=0;for(const p of document.querySelectorAll(".graph")){const o=document.createElement("div");document.body.append(o);
try{const r=await mermaid.render("g"+n++,p.textContent);o.className="done";o.innerHTML=r.svg}catch(e){o.className="failed";o.textContent=String(e)}}})()</script>`)
	file := filepath.Join(t.TempDir(), "graphs.html")
	if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	dom, log := chromium(t, file, "--dump-dom", "--allow-file-access-from-files")
	if n := strings.Count(dom, `<div class="done">`); n != len(graphs) || strings.Contains(dom, `<div class="failed">`) {
		t.Errorf("%d of %d graphs are drawn: %s\n%s", n, len(graphs), regexp.MustCompile(`(?s)<div class="failed">.*?</div>`).FindString(dom), log)
	}
	for _, want := range []string{"RESPONSE-windows.md", "rig-alpha-relay", "diverges", "&lt;script&gt;"} {
		if !strings.Contains(dom[strings.LastIndex(dom, "</pre>"):], want) {
			t.Errorf("no graph shows %s", want)
		}
	}
	if shots := os.Getenv("RIGWARD_SHOTS"); shots != "" {
		chromium(t, file, "--window-size=1200,2400", "--allow-file-access-from-files", "--screenshot="+filepath.Join(shots, "mermaid.png"))
	}
}
