package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"golang.org/x/net/html"

	"github.com/rigward/rigward/pkg/finding"
)

func render(t testing.TB, r *Report, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestParseTarget(t *testing.T) {
	for _, s := range []string{"html=out.html", "text=a=b", "sarif=dir/x"} {
		name, file, _ := strings.Cut(s, "=")
		if got, err := ParseTarget(s); err != nil || got != (Target{name, file}) {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for s, says := range map[string]string{"html": "expected FORMAT=FILE", "html=": "expected FORMAT=FILE", "": "expected FORMAT=FILE", "pdf=x": "expected one of text, json"} {
		if _, err := ParseTarget(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestAnnotations(t *testing.T) {
	t.Run("G01 two hundred findings", func(t *testing.T) {
		r := &Report{Gate: "check", Findings: many(100)}
		for _, f := range many(100) {
			f.Severity, f.Path = finding.Warning, "a/STATE.md"
			r.Findings = append(r.Findings, f)
		}
		finding.Sort(r.Findings)
		lines := strings.Split(strings.TrimSuffix(render(t, r, "github"), "\n"), "\n")
		if len(lines) != 20 || !strings.HasSuffix(lines[9], "::91 more errors in the summary") || !strings.HasSuffix(lines[19], "::91 more warnings in the summary") {
			t.Fatalf("%d lines: %q", len(lines), lines)
		}
		for i, l := range lines {
			if want := []string{"::error ", "::warning "}[i/10]; !strings.HasPrefix(l, want) {
				t.Errorf("line %d: %s", i, l)
			}
		}
		if got := strings.Count(render(t, &Report{Findings: many(10)}, "github"), "title=envelope-schema"); got != 10 {
			t.Errorf("of ten findings %d are shown", got)
		}
		got := render(t, &Report{Gate: "check", Problem: errors.New("x"), Findings: many(10)}, "github")
		if strings.Count(got, "\n") != 10 || !strings.HasSuffix(got, "::2 more errors in the summary\n") {
			t.Error(got)
		}
	})
	t.Run("G02 commands in names and texts", func(t *testing.T) {
		for path, want := range map[string]string{
			"x\n::add-mask::a.md": `::error file=x\n%3A%3Aadd-mask%3A%3Aa.md,line=1,col=1,title=envelope-path::`,
			"a,line=1.md":         `::error file=a%2Cline=1.md,line=1,col=1,title=envelope-path::`,
			"100%.md":             `::error file=100%25.md,line=1,col=1,title=envelope-path::`,
			"a:b%0A.md":           `::error file=a%3Ab%250A.md,line=1,col=1,title=envelope-path::`,
		} {
			r := &Report{Gate: "check", Findings: []finding.Finding{{Rule: "envelope-path", Severity: finding.Error, Path: path, Line: 1, Col: 1, Message: "found " + finding.Quote("::stop-commands::x\n%0A::error::y")}}}
			if got := render(t, r, "github"); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 || !strings.Contains(got, "%250A") {
				t.Errorf("%q: %s", path, got)
			}
			for _, format := range Formats() {
				if format != "github" {
					noCommands(t, format, render(t, r, format))
				}
			}
		}
	})
}

// noCommands fails where a workflow runner would find a command in an output:
// "::name" after nothing but blanks, or "##[name" anywhere (the runner's
// ActionCommand).
func noCommands(t testing.TB, format, out string) {
	t.Helper()
	for _, line := range regexp.MustCompile(`[\r\n]+`).Split(out, -1) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
			t.Fatalf("%s: %q", format, line)
		}
	}
}

func sarifValid(t testing.TB, out string) {
	t.Helper()
	schemaText, err := os.ReadFile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(sarifSchema, bytes.NewReader(schemaText)); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(sarifSchema)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Fatalf("%#v", err)
	}
}

func TestSARIF(t *testing.T) {
	for name, r := range reports {
		t.Run(name, func(t *testing.T) {
			out := render(t, r, "sarif")
			sarifValid(t, out)
			if want := fmt.Sprintf(`"exitCode":%d,`, r.ExitCode()); !strings.Contains(out, want) {
				t.Error("G06: no " + want)
			}
		})
	}
	t.Run("the schema refuses", func(t *testing.T) {
		schemaText, _ := os.ReadFile("testdata/sarif-schema-2.1.0.json")
		s, err := jsonschema.CompileString(sarifSchema, string(schemaText))
		if err != nil {
			t.Fatal(err)
		}
		var v any
		_ = json.Unmarshal([]byte(strings.Replace(render(t, reports["pull"], "sarif"), `"level":"error"`, `"level":"fatal"`, 1)), &v)
		if s.Validate(v) == nil {
			t.Error("a level that SARIF does not know is valid")
		}
	})
	t.Run("G05 thirty thousand findings", func(t *testing.T) {
		r := &Report{Gate: "check", Findings: many(30000)}
		for i := range r.Findings[:29999] {
			r.Findings[i].Severity = finding.Warning
		}
		var log sarifLog
		if err := json.Unmarshal([]byte(render(t, r, "sarif")), &log); err != nil {
			t.Fatal(err)
		}
		run := log.Runs[0]
		if len(log.Runs) != 1 || len(run.Results) != 5000 || run.Results[0].Level != "error" || run.Results[1].Level != "warning" {
			t.Errorf("%d runs, %d results", len(log.Runs), len(run.Results))
		}
		if n := run.Invocations[0].Notifications; len(n) != 1 || n[0].Message.Text != "25000 of 30000 findings are left out, the least severe" {
			t.Errorf("%+v", n)
		}
		seen := map[string]bool{}
		for _, res := range run.Results {
			if seen[res.Fingerprints["rigward/v1"]] {
				t.Fatal("two results have one fingerprint")
			}
			seen[res.Fingerprints["rigward/v1"]] = true
		}
	})
	t.Run("fingerprints do not depend on lines and commits", func(t *testing.T) {
		f := sample()[0]
		g := f
		g.Line, g.Col, g.Commit = 99, 1, strings.Repeat("cd", 20)
		if fingerprint(f) != fingerprint(g) {
			t.Error("another line is another finding")
		}
		g.Path = "other.md"
		if fingerprint(f) == fingerprint(g) {
			t.Error("another file is the same finding")
		}
	})
	for path, want := range map[string]string{"a b/ü%.md": "a%20b/%C3%BC%25.md", "http://x": "http%3A/%2Fx", "/etc/passwd": "%2Fetc/passwd", "a\xff": "a%FF", "a/b-c_d.~": "a/b-c_d.~"} {
		if got := relativeURI(path); got != want {
			t.Errorf("%q: %s, expected %s", path, got, want)
		}
	}
}

// TestCodeQuality holds the report to what GitLab reads: keys, words, and
// fingerprints that are unique in a report and the same from run to run.
func TestCodeQuality(t *testing.T) {
	issues := func(t *testing.T, r *Report) (all []qualityIssue) {
		t.Helper()
		d := json.NewDecoder(strings.NewReader(render(t, r, "codequality")))
		if d.DisallowUnknownFields(); d.Decode(&all) != nil {
			t.Fatal("not a list of issues")
		}
		seen := map[string]bool{}
		for _, i := range all {
			if i.Description == "" || i.Check == "" || i.Location.Path == "" || i.Location.Lines.Begin < 1 || seen[i.Fingerprint] {
				t.Errorf("GitLab leaves out %+v", i)
			}
			seen[i.Fingerprint] = true
			if strings.HasPrefix(i.Location.Path, "./") || !slices.Contains([]string{"minor", "critical", "blocker"}, i.Severity) {
				t.Errorf("%+v", i)
			}
		}
		return all
	}
	for name, r := range reports {
		t.Run(name, func(t *testing.T) {
			all := issues(t, r)
			if bad := len(all) > 0; bad != (r.ExitCode() != 0 || len(r.Findings) > 0) {
				t.Errorf("%d issues with exit code %d", len(all), r.ExitCode())
			}
			if r.Problem != nil && all[0].Severity != "blocker" {
				t.Error("no decision, and no blocker")
			}
		})
	}
	t.Run("fingerprints stay when lines and commits change", func(t *testing.T) {
		f := sample()[0]
		g := f
		g.Line, g.Commit = 99, strings.Repeat("cd", 20)
		a, b := issues(t, &Report{Findings: []finding.Finding{f, f}}), issues(t, &Report{Findings: []finding.Finding{g, g}})
		if a[0].Fingerprint != b[0].Fingerprint || a[1].Fingerprint != b[1].Fingerprint {
			t.Error("another line is another issue")
		}
	})
	t.Run("thirty thousand findings", func(t *testing.T) {
		all := issues(t, &Report{Findings: many(30000), More: finding.Counts{Warnings: 2}})
		if len(all) != maxResults+1 || !strings.HasPrefix(all[maxResults].Description, "25000 errors and 2 warnings more") || all[maxResults].Severity != "critical" {
			t.Errorf("%d issues, the last is %+v", len(all), all[len(all)-1])
		}
	})
}

func TestSummaryIsCutBetweenRows(t *testing.T) {
	for _, n := range []int{20000} {
		r := &Report{Gate: "check", Findings: many(n), Threads: threads(), Bundles: bundles(), Notes: []string{"note"}}
		out := render(t, r, "markdown")
		if len(out) > 900<<10 || len(out) < 890<<10 {
			t.Errorf("%d bytes", len(out))
		}
		rows := 0
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "| error ") {
				if rows++; !strings.HasSuffix(line, "</code> |\n") {
					t.Fatalf("a row is cut: %q", line)
				}
			}
		}
		if !strings.Contains(out, fmt.Sprintf("*%d more findings left out: the summary is full; the log lists all.*", n-rows)) || !strings.Contains(out, "*2 bundles left out") && !strings.Contains(out, "### Bundle") {
			t.Errorf("%d rows, and not said what is left out: %q", rows, out[len(out)-900:])
		}
	}
}

// TestGraphFitsMermaid: a thread of long hostile names stays below what
// Mermaid takes.
func TestGraphFitsMermaid(t *testing.T) {
	th := Thread{ID: "long"}
	for i := range 200 {
		u := Turn{Path: fmt.Sprintf("long/%d%s.md", i, strings.Repeat("\U0001F600", 80)), From: markup, Type: markup, New: true}
		for k := range i {
			u.Names = append(u.Names, th.Turns[k].Path)
		}
		th.Turns = append(th.Turns, u)
	}
	graph, left := fitting(th)
	if len(graph) > 50000 || strings.Count(graph, "|refers|") > 500 || left == 0 || left >= 200 {
		t.Errorf("%d bytes, %d edges, %d left out", len(graph), strings.Count(graph, "|refers|"), left)
	}
}

// graphLine is every form that a line of a graph may have.
var graphLine = regexp.MustCompile(`^(flowchart TD|  m\d+(\["|\(\[")[-a-zA-Z0-9.# ();]*<br/>[-a-zA-Z0-9.# ();]* from [-a-zA-Z0-9.# ();]*("\]|"\]\))|  m\d+ (-->\|answers\||-\.->\|refers\||x--x\|diverges\|) m\d+|  classDef before stroke-dasharray:4 3|  class m\d+(,m\d+)* before)$`)

// A label is never the list that Mermaid refuses to draw.
func TestLabelsAreNoLists(t *testing.T) {
	for text, want := range map[string]string{
		"1. x.md": "1#46; x.md", "1) x": "1#41; x", "- x": "#45; x", "2.": "2#46;", "-": "#45;",
		"STATE-1.md": "STATE-1.md", "a (b).md": "a (b).md", "1.5-x": "1.5-x",
	} {
		if got := mermaidText(text); got != want {
			t.Errorf("%q gives %q, expected %q", text, got, want)
		}
	}
}

// hostile is a report with one text everywhere.
func hostile(text string) *Report {
	f := finding.Finding{Rule: "envelope-path", Severity: finding.Error, Path: text, Line: 3, Commit: text, Ref: text, Message: text, Hint: text}
	g := f
	g.Path, g.Severity = "", finding.Warning
	u := Turn{Path: text + "/A.md", Commit: text, Type: text, From: text, To: []string{text}, Date: text, TLDR: text, New: true}
	v := u
	v.Path, v.Relay, v.New, v.Answers, v.Names, v.Diverges = text+"/B.md", true, false, []string{u.Path}, []string{u.Path}, []string{u.Path}
	c := MemberChange{Path: text, Kind: text, Old: text, New: text, Diff: text + "\n " + text + "\n+" + text + "\n"}
	return &Report{Gate: "check", Problem: errors.New(text), Hint: text, Notes: []string{text}, Findings: []finding.Finding{f, g},
		Threads: []Thread{{ID: text, Turns: []Turn{u, v}}},
		Bundles: []Bundle{{Name: text, Format: text, Source: text, Output: text, Touched: true, Deterministic: true, Drift: true, Committed: text, Rebuilt: text, Base: text, FromBase: []MemberChange{c}, FromCommitted: []MemberChange{c}}}}
}

// FuzzFormats: whatever is in a report, no format lets it out of its place.
func FuzzFormats(f *testing.F) {
	for _, s := range []string{"", "plain", evil, markup, "##[add-mask]x", "\n  ::error::x", "\u00a0\u3000::error::x", "```\n</details>", "]]>&#0;\ufffe\uffff", `"])|x`, "a\u2028::error::b\t::x::", "</style><script>", "{{.}}${{ github.token }}", "##\u200b[", "x|y\\|z", "\xff\xfe::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 400 {
			return
		}
		r := hostile(text)
		for _, format := range Formats() {
			out := render(t, r, format)
			if !utf8.ValidString(out) || strings.ContainsAny(out, "\x1b\r\x00\u202e\u2028\u009b") {
				t.Fatalf("%s: %q", format, out)
			}
			if format != "github" {
				noCommands(t, format, out)
			}
			switch format {
			case "json":
				var o jsonReport
				if err := json.Unmarshal([]byte(out), &o); err != nil {
					t.Fatal(err)
				}
				if want := strings.ToValidUTF8(text, ""); o.Hint() != want && utf8.ValidString(text) {
					t.Fatalf("hint %q", o.Hint())
				}
			case "sarif":
				var o sarifLog
				if err := json.Unmarshal([]byte(out), &o); err != nil || len(o.Runs[0].Results) != 2 {
					t.Fatal(err)
				}
			case "codequality":
				var o []qualityIssue
				if err := json.Unmarshal([]byte(out), &o); err != nil || len(o) != 3 {
					t.Fatalf("%v: %s", err, out)
				}
				for _, i := range o {
					if !strings.HasSuffix(i.Description, finding.Clean(text)) || i.Location.Path == "" || i.Location.Lines.Begin < 1 {
						t.Fatalf("%+v", i)
					}
				}
			case "junit":
				junitKeeps(t, out, text)
			case "github":
				for line := range strings.Lines(out) {
					if !regexp.MustCompile(`^::(error|warning) ((file|line|col|title)=[^:,]*,?)+::`).MatchString(line) {
						t.Fatalf("%q", line)
					}
				}
				if strings.Count(out, "\n") != 3 {
					t.Fatalf("%q", out)
				}
			case "markdown":
				markdownKeeps(t, out)
			case "html":
				htmlKeeps(t, out, text)
			case "text":
				if strings.Contains(strings.Trim(out, "\n"), "\n\n") || !strings.Contains(out, finding.Clean(text)) {
					t.Fatalf("%q", out)
				}
			case "jsonl":
				for line := range strings.Lines(out) {
					if !json.Valid([]byte(line)) {
						t.Fatalf("%q", line)
					}
				}
			default:
				t.Fatalf("the format %s has no check here", format)
			}
		}
	})
}

// Hint is the problem's.
func (o jsonReport) Hint() string { return o.Problem.Hint }

// junitKeeps: a reader of XML gets the clean message back.
func junitKeeps(t *testing.T, out, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(out))
	var messages []string
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if s, ok := tok.(xml.StartElement); ok && s.Name.Local == "failure" {
			messages = append(messages, s.Attr[0].Value)
		}
	}
	if len(messages) != 1 || messages[0] != finding.Clean(text) {
		t.Fatalf("%q, expected %q", messages, finding.Clean(text))
	}
}

// loose is a sign that GitHub would join with the text around it, after it has
// read the Markdown.
var loose = regexp.MustCompile(`(^|[^>])&#(64|36|35|58);|&#(64|36|35|58);([^<]|$)`)

// A character reference keeps GitHub's Markdown from no e-mail address: it
// looks for them in what the references stand for.
func TestMarkdownLinksNothing(t *testing.T) {
	program, err := exec.LookPath("cmark-gfm")
	if err != nil {
		t.Skip("cmark-gfm, GitHub's own reader of Markdown, is not installed")
	}
	text := "ask a@evil.example, mailto:a@evil.example, xmpp:a@evil.example/x, www.evil.example, http://evil.example, ftp://evil.example, <https://evil.example>, [x](//evil.example), ![x](//evil.example), [x]: //evil.example"
	for name, made := range map[string]string{"text": markdownText(text), "code": markdownCode(text)} {
		links := func(markdown string) (n int, plain string) {
			cmd := exec.Command(program, "--unsafe", "-e", "autolink", "-e", "table", "-e", "strikethrough", "-e", "tasklist")
			cmd.Stdin = strings.NewReader("| a | " + markdown + " |\n|---|---|\n| " + markdown + " | b |\n\n" + markdown + "\n")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			doc, err := html.Parse(bytes.NewReader(out))
			if err != nil {
				t.Fatal(err)
			}
			for e := range doc.Descendants() {
				switch {
				case e.Type == html.ElementNode && (e.Data == "a" || e.Data == "img"):
					n++
				case e.Type == html.TextNode:
					plain += e.Data
				}
			}
			return n, plain
		}
		if n, plain := links(made); n != 0 || strings.Count(plain, text) != 3 {
			t.Errorf("%s: %d links, and the text reads %q", name, n, plain)
		}
		if n, _ := links(text); n == 0 {
			t.Error("no link is made of the text as it is")
		}
	}
}

// markdownKeeps: outside of fences every line is one of ours, with no sign in
// its cells that begins markup; inside, a graph or a diff.
func markdownKeeps(t *testing.T, out string) {
	t.Helper()
	fence, kind := "", ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case fence != "" && line == fence:
			fence = ""
		case fence != "":
			if kind == "mermaid" && !graphLine.MatchString(line) {
				t.Fatalf("graph: %q", line)
			}
			if strings.HasPrefix(strings.TrimLeft(line, " "), fence) {
				t.Fatalf("the fence is closed by %q", line)
			}
		case strings.HasPrefix(line, "```"):
			kind = strings.TrimLeft(line, "`")
			fence = line[:len(line)-len(kind)]
			if kind != "mermaid" && kind != "diff" {
				t.Fatalf("%q", line)
			}
		default:
			rest := regexp.MustCompile(`\(commit [^()]*\)`).ReplaceAllString(line, "")
			for _, ours := range []string{"<code>", "</code>", "<span>&#36;</span>", "<span>&#64;</span>", "<span>&#58;</span>", "<span>&#35;</span>", "<br>", "<details>", "<summary>", "</summary>", "</details>", "**Cannot decide:**", "### ", "## ", "&#"} {
				rest = strings.ReplaceAll(rest, ours, "")
			}
			if cells := strings.Count(rest, "|"); cells != 0 && cells != 3 && cells != 5 && cells != 7 || strings.ContainsAny(strings.Trim(rest, "*"), "<>`*_[]()\\@$!&") || loose.MatchString(line) {
				t.Fatalf("%q", line)
			}
		}
	}
	if fence != "" {
		t.Fatal("a fence is open")
	}
}

// htmlKeeps: a browser's parser finds our elements only, no attribute that
// runs or loads anything, and the clean texts back.
func htmlKeeps(t *testing.T, out, text string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	elements := map[string]bool{}
	for e := range strings.FieldsSeq("html head meta title style body a header p h1 nav ul li main section h2 span code table caption thead tbody tr th td svg circle polygon path text desc article h3 div ol strong dl dt dd details summary pre del ins") {
		elements[e] = true
	}
	var found []string
	for n := range doc.Descendants() {
		switch n.Type {
		case html.ElementNode:
			if !elements[n.Data] {
				t.Fatalf("an element %s", n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "style" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, homepage) {
					t.Fatalf("an attribute %s=%q", a.Key, a.Val)
				}
			}
		case html.TextNode:
			found = append(found, n.Data)
		case html.CommentNode:
			t.Fatalf("a comment %q", n.Data)
		}
	}
	if all := strings.Join(found, "\x00"); strings.Count(all, finding.Clean(text)) < 20 {
		t.Fatalf("%q is not found back in %q", finding.Clean(text), all)
	}
}

// Two branches that add many turns to one thread diverge in every pair: what is
// told of that does not grow with the square of the turns.
func TestManyDivergences(t *testing.T) {
	const half = 100
	thread := Thread{ID: "talk"}
	for i := range 2 * half {
		u := Turn{Path: fmt.Sprintf("talk/STATE-%d.md", i), Type: "STATE", From: "rig-a", New: true, TLDR: strings.Repeat("w", 100_000)}
		for k := range half {
			u.Diverges = append(u.Diverges, fmt.Sprintf("talk/STATE-%d.md", (i/half+1)%2*half+k))
		}
		if i%half > 0 {
			u.Answers = []string{fmt.Sprintf("talk/STATE-%d.md", i-1)}
		}
		thread.Turns = append(thread.Turns, u)
	}
	out := render(t, &Report{Gate: "check", Threads: []Thread{thread}}, "html")
	if n := strings.Count(out, `<path class="answers" d="M`) - 1; n != 2*(half-1) {
		t.Errorf("%d answers drawn, expected %d", n, 2*(half-1))
	}
	if n := strings.Count(out, `<path class="diverges" d="M`) - 1; n != maxGraphEdges-2*(half-1) {
		t.Errorf("%d divergences drawn", n)
	}
	for _, say := range []string{"9718 ties not drawn", "200 turns, 200 of them new, and 10198 ties", "; and 94 more", "answers 99 (STATE-98.md)"} {
		if !strings.Contains(out, say) {
			t.Errorf("the page does not say %q", say)
		}
	}
	if len(out) > 600_000 {
		t.Errorf("the page has %d bytes", len(out))
	}
}

// TestPageAllowsItsOwnStyleOnly: the page's policy is strict, and its hash is
// that of the style that is in it.
func TestPageAllowsItsOwnStyleOnly(t *testing.T) {
	out := render(t, reports["hostile"], "html")
	_, rest, _ := strings.Cut(out, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	if style != pageStyle {
		t.Error("the style is not what its hash was made of")
	}
	if !strings.Contains(out, `content="default-src &#39;none&#39;; style-src &#39;sha256-`) || strings.Contains(out, "unsafe-inline") {
		t.Error("no strict Content-Security-Policy")
	}
	for _, never := range []string{"<script", " style=", " onload", "url(", "@import", "<img", "<link"} {
		if strings.Contains(out, never) {
			t.Errorf("the page has %s", never)
		}
	}
}
