package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

// Caps of diff's text forms; JSON has everything.
const (
	shownChanges   = 200
	shownDiffLines = 200
)

func diffVerbs() []*verb {
	const short = "compare two bundles"
	return []*verb{
		{name: "diff", format: "rig", args: "A B", short: short, run: diff, flags: join(common, []cli.Flag{
			{Name: "--ignore-stamp", Help: "leave out created_at, provenance and assembler"},
			{Name: "--format", Value: "NAME", Values: []string{"text", "markdown"}, Help: "text (default) or markdown"}})},
		{name: "diff", format: "agent", args: "REF REF", short: short, run: diff, flags: join(common, refFlags)},
		{name: "diff", format: "rye", args: "ROOT ROOT", short: short, run: diff, flags: []cli.Flag{jsonFlag, idFlag}},
	}
}

func diff(ctx context.Context, c *call) (int, error) {
	o, err := c.options()
	if err != nil {
		return 0, err
	}
	form := c.Get("--format")
	if form != "" && form != "text" && form != "markdown" {
		return 0, usagef("--format is text or markdown")
	}
	f, err := c.format()
	if err != nil {
		return 0, err
	}
	var in [2]bundle.Input
	for i, arg := range c.Words {
		if in[i], err = c.open(f, arg); err != nil {
			return 0, err
		}
	}
	o.Texts = c.verb.format == "rig" && !c.Has("--json")
	r, err := f.Diff(ctx, in[0], in[1], o)
	if err != nil {
		return 0, err
	}
	if !c.Has("--json") {
		c.printGains(r.Capabilities, form == "markdown")
	}
	switch d := r.Whole.(type) {
	case *agent.Difference:
		d.A.File, d.B.File = c.Words[0], c.Words[1]
		return c.tellChanges(r)
	case *rye.Difference:
		return c.tell(r, func() { c.printRyeDiff(d) })
	}
	d := r.Whole.(*rig.Comparison)
	return c.tell(r, func() {
		switch {
		case !d.OK() && d.Code != bundle.ContentDiffers:
			c.print("%s %s %s: %s", d.Code, finding.Path(c.Words[0]), finding.Path(c.Words[1]), d.Message)
		case form == "markdown":
			c.markdownDiff(d)
		default:
			c.textDiff(d)
		}
	})
}

// printGains tells first, before any bytes, what the second bundle may do and the first
// may not, and what is gone.
func (c *call) printGains(list []bundle.CapabilityChange, markdown bool) {
	if len(list) == 0 {
		return
	}
	if markdown {
		c.print("| may now | before | after |\n|---|---|---|")
	} else {
		c.print("What it may do, apart from its bytes:")
	}
	for i, g := range list {
		if i == shownChanges {
			c.print("and %s", count(len(list)-i, "more change"))
			break
		}
		mark := "+"
		switch {
		case g.New == "":
			mark = "-"
		case g.Old != "":
			mark = "~"
		}
		if markdown {
			c.print("| %s %s %s | %s | %s |", mark, g.Kind, report.MarkdownCode(g.Where), report.MarkdownCode(g.Old), report.MarkdownCode(g.New))
			continue
		}
		text := g.New
		switch {
		case g.New == "":
			text = g.Old
		case g.Old != "":
			text = g.Old + " -> " + g.New
		}
		if g.Where != "" {
			text = g.Where + ": " + text
		}
		c.print("  %s %-11s %s", mark, g.Kind, text)
	}
	c.print("")
}

// tellChanges tells the changes between two agent bundles.
func (c *call) tellChanges(r *bundle.Result) (int, error) {
	status, err := c.tell(r, func() {
		for _, ch := range r.Changes {
			text := ch.Change + " " + finding.Path(ch.Path)
			if ch.Old != nil {
				text += " " + string(ch.Old) + " -> " + string(ch.New)
			}
			c.print("%s", text)
		}
		c.print("%s %s", r.Code, r.Message)
		if b, ok := r.Whole.(*agent.Rebuilt); ok {
			c.print("  tar digest         %s", r.TarDigest)
			c.print("  rebuilt tar digest %s", b.RebuiltTarDigest)
		}
	})
	for _, p := range agent.Renames(r.Changes) {
		c.say("note: %s has the content of %s", finding.Path(p[1]), finding.Path(p[0]))
	}
	return status, err
}

func (c *call) printRyeDiff(d *rye.Difference) {
	c.print("%s", d.Status)
	for _, f := range d.Fields {
		c.print("  %s: %s -> %s", bundle.EscapeLine(f.Field), finding.QuoteMax(f.A, 200), finding.QuoteMax(f.B, 200))
	}
	for _, f := range d.Files {
		c.print("  %s %s", f.Change, finding.Path(f.Path))
	}
}

// changeText is what a change says behind its path.
func changeText(ch bundle.Change) string {
	switch ch.Change {
	case "added":
		return fmt.Sprintf("%d bytes, %s", *ch.SizeB, ch.ModeB)
	case "removed":
		return fmt.Sprintf("%d bytes, %s", *ch.SizeA, ch.ModeA)
	case "mode":
		return ch.ModeA + " -> " + ch.ModeB
	}
	s := fmt.Sprintf("%d -> %d bytes", *ch.SizeA, *ch.SizeB)
	if ch.ModeA != ch.ModeB {
		s += ", " + ch.ModeA + " -> " + ch.ModeB
	}
	return s
}

func fieldText(m rig.FieldChange) string {
	return fmt.Sprintf("%s: %s -> %s", line(m.Field), bundle.EscapeLine(string(m.A)), bundle.EscapeLine(string(m.B)))
}

var changeMark = map[string]string{"added": "+", "removed": "-", "modified": "~", "mode": "x"}

// textDiff prints a tree of changes, one line each, then the text diffs.
func (c *call) textDiff(d *rig.Comparison) {
	for _, m := range d.Manifest {
		c.print("manifest %s", fieldText(m))
	}
	dir := "."
	for i, ch := range d.Files {
		if i == shownChanges {
			c.print("and %s", count(len(d.Files)-i, "more file"))
			break
		}
		if at := path.Dir(ch.Path); at != dir {
			dir = at
			c.print("%s/", finding.Path(dir))
		}
		indent := ""
		if dir != "." {
			indent = "  "
		}
		c.print("%s%s %s (%s)", indent, changeMark[ch.Change], finding.Path(path.Base(ch.Path)), changeText(ch))
	}
	for _, ch := range d.Changes {
		if ch.Text != nil {
			c.print("")
			c.print("%s", strings.TrimSuffix(capLines(string(ch.Text), shownDiffLines), "\n"))
		}
	}
}

// markdownDiff prints the same for a pull request.
func (c *call) markdownDiff(d *rig.Comparison) {
	if d.OK() {
		c.print("The contents are the same.")
		return
	}
	c.print("%s and %s differ.", count(len(d.Files), "file"), count(len(d.Manifest), "manifest field"))
	if len(d.Manifest) > 0 {
		c.print("\n| manifest field | before | after |\n|---|---|---|")
		for _, m := range d.Manifest {
			c.print("| %s | %s | %s |", report.MarkdownCode(m.Field), report.MarkdownCode(string(m.A)), report.MarkdownCode(string(m.B)))
		}
	}
	if len(d.Files) > 0 {
		c.print("\n| change | file | |\n|---|---|---|")
		for i, ch := range d.Files {
			if i == shownChanges {
				c.print("\nand %s", count(len(d.Files)-i, "more file"))
				break
			}
			c.print("| %s | %s | %s |", ch.Change, report.MarkdownCode(ch.Path), changeText(ch))
		}
	}
	for _, ch := range d.Changes {
		if ch.Text == nil {
			continue
		}
		text := capLines(string(ch.Text), shownDiffLines)
		fence := "```"
		for strings.Contains(text, fence) {
			fence += "`"
		}
		c.print("\n%sdiff\n%s%s", fence, text, fence)
	}
}

func capLines(s string, most int) string {
	lines := strings.SplitAfter(s, "\n")
	if len(lines) <= most+1 {
		return s
	}
	return strings.Join(lines[:most], "") + fmt.Sprintf("(%d more lines)\n", len(lines)-most-1)
}
