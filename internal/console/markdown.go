package console

import (
	"bytes"
	"html"
	"html/template"
	"net/url"
	"regexp"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"github.com/rigward/rigward/pkg/finding"
)

// maxText is how many bytes of a body are shown.
const maxText = 256 << 10

// A markdown renders what others wrote. Nothing in its result loads anything, runs,
// or looks like a part of the page: HTML is shown as the text that it is, an image as
// its description and address, a link names where it leads, and headings are below
// those of the page. What the renderer makes is then held against a list of what
// may be there.
type markdown struct {
	engine goldmark.Markdown
	policy *bluemonday.Policy
}

func newMarkdown() *markdown {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "del", "hr", "br", "table", "thead", "tbody", "tr")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowAttrs("align").Matching(bluemonday.CellAlign).OnElements("th", "td")
	p.AllowElements("th", "td")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^address$`)).OnElements("span")
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(false)
	p.RequireNoReferrerOnLinks(true)
	p.RequireNoFollowOnLinks(true)
	engine := goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(inert{}, 1))),
	)
	return &markdown{engine, p}
}

// maxWork is how much work a text may be to the renderer, in about nanoseconds; beyond that, and of
// texts that people write none is, it is shown as it is.
const maxWork = 20_000_000

// intricate reports whether a text is more work than that, by what makes more than its length of it:
// every mark that may begin something looks at all that follows in its paragraph, containers in
// containers at each other, and each row of a table has as many cells as its widest.
func intricate(text string) bool {
	const cell = 250
	var work, length, marks, rows, columns, deep int
	end := func() {
		work += length*marks + cell*rows*columns
		length, marks, rows, columns = 0, 0, 0, 0
	}
	for line := range strings.Lines(text) {
		inner := strings.TrimLeft(line, " >-+*.)0123456789")
		prefix := len(line) - len(inner)
		deep = max(deep, prefix)
		work += prefix*prefix + deep
		item := strings.TrimLeft(line, " ")
		if len(line)-len(item) <= 3 && len(item) > 3 && strings.ContainsRune("-+*", rune(item[0])) && item[1] == ' ' && item[2] != ' ' || strings.TrimSpace(line) == "" {
			end() // a blank line ends a paragraph and a table, and so does an item of a list
		}
		length += len(line)
		rows++
		columns = max(columns, strings.Count(line, "|"))
		for _, c := range []byte(line) {
			switch c {
			case '[', '*', '_', '`', '<', '~', '!', '&':
				marks++
			}
		}
		if work > maxWork || length*marks+cell*rows*columns > maxWork {
			return true
		}
	}
	end()
	return work > maxWork
}

// render renders a text.
func (m *markdown) render(text string) template.HTML {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		b.WriteString(finding.Clean(strings.ReplaceAll(line, "\t", "    ")) + "\n")
	}
	var out bytes.Buffer
	if intricate(b.String()) || m.engine.Convert([]byte(b.String()), &out) != nil {
		return template.HTML("<pre>" + html.EscapeString(b.String()) + "</pre>")
	}
	return template.HTML(m.policy.Sanitize(out.String()))
}

// inert renders what would load, run or mislead.
type inert struct{}

// RegisterFuncs is for goldmark.
func (inert) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			segments := n.(*ast.RawHTML).Segments
			w.WriteString("<code>")
			for i := range segments.Len() {
				s := segments.At(i)
				w.WriteString(html.EscapeString(string(s.Value(source))))
			}
			w.WriteString("</code>")
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			block := n.(*ast.HTMLBlock)
			w.WriteString("<pre><code>")
			for i := range block.Lines().Len() {
				s := block.Lines().At(i)
				w.WriteString(html.EscapeString(string(s.Value(source))))
			}
			if block.HasClosure() {
				w.WriteString(html.EscapeString(string(block.ClosureLine.Value(source))))
			}
			w.WriteString("</code></pre>\n")
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindImage, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			w.WriteString("[image: ")
			return ast.WalkContinue, nil
		}
		w.WriteString("] ")
		address(w, n.(*ast.Image).Destination)
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		to := n.(*ast.Link).Destination
		switch leads := link(to); {
		case entering && leads != "":
			w.WriteString(`<a href="` + html.EscapeString(leads) + `">`)
		case !entering:
			if leads != "" {
				w.WriteString("</a>")
			}
			w.WriteByte(' ')
			address(w, to)
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindAutoLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			auto := n.(*ast.AutoLink)
			label, to := string(auto.Label(source)), string(auto.URL(source))
			if auto.AutoLinkType == ast.AutoLinkEmail {
				to = "mailto:" + strings.TrimPrefix(to, "mailto:")
			}
			if leads := link([]byte(to)); leads != "" {
				w.WriteString(`<a href="` + html.EscapeString(leads) + `">` + html.EscapeString(label) + "</a>")
			} else {
				w.WriteString("<code>" + html.EscapeString(label) + "</code>")
			}
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		level := string(rune('0' + min(6, n.(*ast.Heading).Level+2)))
		if entering {
			w.WriteString("<h" + level + ">")
		} else {
			w.WriteString("</h" + level + ">\n")
		}
		return ast.WalkContinue, nil
	})
}

// link is where a link may lead: to a page or an address of mail, and to no place on
// this server; "" for all else.
func link(to []byte) string {
	u, err := url.Parse(string(to))
	if err != nil || u.User != nil {
		return ""
	}
	switch scheme := strings.ToLower(u.Scheme); {
	case (scheme == "http" || scheme == "https") && u.Host != "", scheme == "mailto" && u.Opaque != "":
		return u.String()
	}
	return ""
}

// address shows where a link leads or an image lies.
func address(w util.BufWriter, to []byte) {
	text := []rune(string(to))
	if len(text) > 120 {
		text = append(text[:120], '…')
	}
	w.WriteString(`<span class="address">(` + html.EscapeString(finding.Clean(string(text))) + ")</span>")
}
