package report

import (
	"fmt"
	"io"
	"strings"
)

// A pageWriter writes HTML. Whatever is put into it comes as an argument, and is
// escaped; only what this file says itself is markup.
type pageWriter struct{ b strings.Builder }

// escapes are those of text and of attributes in double quotes.
var escapes = []string{"&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "+", "&#43;", "\x00", "\uFFFD"}

// put writes a format with its arguments: strings, which are escaped, and numbers.
func (m *pageWriter) put(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = strings.NewReplacer(escapes...).Replace(s)
		}
	}
	fmt.Fprintf(&m.b, format, args...)
}

// putIf writes it if the first argument is there.
func (m *pageWriter) putIf(format, arg string, more ...any) {
	if arg != "" {
		m.put(format, append([]any{arg}, more...)...)
	}
}

// write writes the page.
func (p *page) write(w io.Writer) error {
	m := &pageWriter{}
	m.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s – rigward %s</title>
<style>`, p.Policy, p.Verdict, p.Gate)
	m.b.WriteString(pageStyle) // our own, and no text of HTML
	m.put(`</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
<header class="%s">
<p class="gate">rigward %s</p>
<h1>%s</h1>
<p class="checked">%s · exit %d</p>
<nav aria-label="Sections"><ul>`, p.Result, p.Gate, p.Verdict, p.Checked, p.Exit)
	for _, s := range []struct {
		there       bool
		name, title string
	}{{len(p.Findings) > 0, "findings", "Findings"}, {len(p.Threads) > 0, "threads", "Threads"},
		{len(p.Bundles) > 0, "bundles", "Bundles"}, {len(p.Notes) > 0, "notes", "Notes"}} {
		if s.there {
			m.put(`<li><a href="#%s">%s</a></li>`, s.name, s.title)
		}
	}
	m.put(`
</ul></nav>
</header>
<main id="main" tabindex="-1">`)
	if p.Problem != "" {
		m.put(`
<section class="problem" aria-labelledby="problem">
<h2 id="problem">Why no decision was possible</h2>
<p>%s</p>`, p.Problem)
		m.putIf("\n"+hintLine, p.Hint)
		m.put("\n</section>")
	}
	m.findings(p)
	if len(p.Threads) > 0 {
		m.put("\n<section aria-labelledby=\"threads\">\n<h2 id=\"threads\">Threads</h2>\n" + legend)
		for _, t := range p.Threads {
			m.thread(t)
		}
		m.put("\n</section>")
	}
	if len(p.Bundles) > 0 {
		m.put("\n<section aria-labelledby=\"bundles\">\n<h2 id=\"bundles\">Bundles</h2>")
		for _, x := range p.Bundles {
			m.bundle(x)
		}
		m.put("\n</section>")
	}
	if len(p.Notes) > 0 {
		m.put("\n<section aria-labelledby=\"notes\">\n<h2 id=\"notes\">Notes</h2>\n<ul class=\"notes\">")
		for _, n := range p.Notes {
			m.put("<li>%s</li>", n)
		}
		m.put("</ul>\n</section>")
	}
	m.put("\n</main>\n</body>\n</html>\n")
	_, err := io.WriteString(w, m.b.String())
	return err
}

const hintLine = `<p class="hint"><span>Hint</span> <code>%s</code></p>`

func (m *pageWriter) findings(p *page) {
	if len(p.Findings) == 0 {
		return
	}
	m.put(`
<section aria-labelledby="findings">
<h2 id="findings">Findings</h2>
<table class="findings" role="table">
<caption>Worst first; the place is path, line and column</caption>
<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Severity</th>` +
		`<th scope="col" role="columnheader">What was found</th><th scope="col" role="columnheader">Rule</th></tr></thead>
<tbody role="rowgroup">`)
	for _, f := range p.Findings {
		m.put("\n"+`<tr role="row"><td role="cell"><span class="severity %s">%s</span></td><td role="cell"><code class="place">%s</code>`, f.Severity, f.Severity, f.Place)
		m.putIf(` <span class="commit">commit <code>%s</code></span>`, f.Commit)
		m.put("<p>%s</p>", f.Message)
		m.putIf(hintLine, f.Hint)
		m.put(`</td><td role="cell"><a href="%s" rel="noreferrer">%s</a></td></tr>`, f.RuleURI, f.Rule)
	}
	m.put("\n</tbody>\n</table>")
	if p.Omitted > 0 {
		m.put("\n"+`<p class="left">%d more findings are left out, the least severe.</p>`, p.Omitted)
	}
	m.put("\n</section>")
}

const legend = `<p class="legend">` +
	`<span class="key"><svg width="14" height="14" aria-hidden="true"><circle class="new" cx="7" cy="7" r="6"/></svg> new</span> ` +
	`<span class="key"><svg width="14" height="14" aria-hidden="true"><circle class="old" cx="7" cy="7" r="6"/></svg> before</span> ` +
	`<span class="key"><svg width="14" height="14" aria-hidden="true"><polygon class="new" points="7,0 14,7 7,14 0,7"/></svg> relay</span> ` +
	`<span class="key"><svg width="26" height="14" aria-hidden="true"><path class="answers" d="M0 7H26"/></svg> answers</span> ` +
	`<span class="key"><svg width="26" height="14" aria-hidden="true"><path class="refers" d="M0 7H26"/></svg> refers to</span> ` +
	`<span class="key"><svg width="26" height="14" aria-hidden="true"><path class="diverges" d="M0 7H26"/></svg> diverges from</span></p>`

// age is the class of what is new in the change, or was there before.
func age(isNew bool) string {
	if isNew {
		return "new"
	}
	return "old"
}

func (m *pageWriter) thread(t pageThread) {
	n := t.Number
	m.put(`
<article class="thread" aria-labelledby="thread-%d">
<h3 id="thread-%d"><code>%s</code></h3>
<div class="drawn">`, n, n, t.Name)
	m.graph(t)
	m.put("\n<ol class=\"turns\">")
	for _, u := range t.Turns {
		m.put("\n<li")
		if !u.New {
			m.put(` class="before"`)
		}
		m.put(`><p class="who"><strong>%s</strong> from %s`, u.Type, u.From)
		m.putIf(" to %s", u.To)
		if u.Relay {
			m.put(` <span class="tag">relay</span>`)
		}
		if !u.New {
			m.put(` <span class="tag">before this change</span>`)
		}
		m.put("</p>")
		m.putIf(`<p class="tldr">%s</p>`, u.TLDR)
		m.put("\n"+`<p class="meta"><code>%s</code>`, u.Path)
		m.putIf(" · %s", u.Date)
		m.putIf(" · commit <code>%s</code>", u.Commit)
		m.put("</p>")
		m.putIf(`<p class="meta">%s</p>`, u.Ties)
		m.put("</li>")
	}
	m.put("\n</ol>\n</div>")
	m.putIf("\n"+`<p class="left">%s</p>`, t.Cut)
	m.put("\n</article>")
}

// Graph draws who answers whom in a thread, as an SVG image for a page that has the
// style of its classes.
func Graph(t Thread) string {
	m := &pageWriter{}
	m.graph(threadOf(1, t))
	return m.b.String()
}

func (m *pageWriter) graph(t pageThread) {
	n, d := t.Number, t.Drawn
	m.put(`
<svg class="graph" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="graph-%d-title graph-%d-desc">
<title id="graph-%d-title">Graph of the thread %s</title>
<desc id="graph-%d-desc">%s</desc>`, d.Width, d.Height, d.Width, d.Height, n, n, n, t.Name, n, t.Said)
	for _, c := range d.Curves {
		m.put("\n"+`<path class="%s" d="%s"/>`, c.Kind, c.Path)
		if c.Head != "" {
			m.put(`<polygon class="head %s" points="%s"/>`, c.Kind, c.Head)
		}
	}
	for _, k := range d.Marks {
		if k.Relay {
			m.put("\n"+`<polygon class="%s" points="%s"/>`, age(k.New), k.Diamond)
		} else {
			m.put("\n"+`<circle class="%s" cx="%d" cy="%d" r="11"/>`, age(k.New), k.X, k.Y)
		}
		m.put(`<text class="number %s" x="%d" y="%d" dy="4">%d</text><text class="name" x="%d" y="%d">%s</text><text class="file" x="%d" y="%d">%s</text>`,
			age(k.New), k.X, k.Y, k.Number, d.TextX, k.NameY, k.Title, d.TextX, k.FileY, k.File)
	}
	m.put("\n</svg>")
}

func (m *pageWriter) bundle(x pageBundle) {
	bad := ""
	if x.Bad {
		bad = " bad"
	}
	m.put("\n<article class=\"bundle\">\n"+`<h3><code>%s</code> <span class="state%s">%s</span></h3>`+"\n<dl>", x.Name, bad, x.Verdict)
	for _, row := range x.Rows {
		m.put("<div><dt>%s</dt><dd><code>%s</code></dd></div>", row[0], row[1])
	}
	m.put("</dl>")
	for _, list := range x.Lists {
		m.put("\n<details open>\n<summary>%s</summary>\n<ul class=\"changes\">", list.Title)
		for _, c := range list.Changes {
			m.change(c)
		}
		m.put("\n</ul>\n</details>")
	}
	if x.Truncated > 0 {
		m.put("\n"+`<p class="left">%d more changes are left out.</p>`, x.Truncated)
	}
	m.put("\n</article>")
}

func (m *pageWriter) change(c pageChange) {
	m.put("\n"+`<li><p><span class="tag %s">%s</span> <code>%s</code></p>`, c.Kind, c.Kind, c.Path)
	if c.Old != "" || c.New != "" {
		m.put(`<p class="meta">`)
		m.putIf("<del><code>%s</code></del>", c.Old)
		if c.Old != "" && c.New != "" {
			m.put(" → ")
		}
		m.putIf("<ins><code>%s</code></ins>", c.New)
		m.put("</p>")
	}
	if len(c.Lines) > 0 {
		m.put(`<pre class="diff" tabindex="0" role="region" aria-label="Diff of %s"><code>`, c.Path)
		for _, line := range c.Lines {
			m.put(`<span class="%s">%s`+"\n</span>", line.Class, line.Text)
		}
		m.put("</code></pre>")
		if c.Omitted > 0 {
			m.put(`<p class="left">%d more lines are left out.</p>`, c.Omitted)
		}
	}
	m.put("</li>")
}
