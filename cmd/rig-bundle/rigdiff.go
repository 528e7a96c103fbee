package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/report"
)

// Caps of diff's text forms; JSON has everything.
const (
	shownChanges   = 200
	shownDiffLines = 200
)

func rigDiff(ctx context.Context, c *call) int {
	o, err := c.rigOptions()
	if err == nil {
		err = c.words(2, 2)
	}
	form := c.get("--format")
	if err == nil && form != "" && form != "text" && form != "markdown" {
		err = usagef("--format is text or markdown")
	}
	if err != nil {
		return c.fail(err)
	}
	a, doneA, err := c.openRig(ctx, c.args[0])
	if err != nil {
		return c.fail(err)
	}
	defer doneA()
	b, doneB, err := c.openRig(ctx, c.args[1])
	if err != nil {
		return c.fail(err)
	}
	defer doneB()
	d, err := rig.Diff(ctx, a, b, rig.DiffOptions{Limits: o.Limits, IgnoreStamp: c.has("--ignore-stamp"), Texts: !c.has("--json")})
	if err != nil {
		return c.fail(err)
	}
	switch {
	case c.has("--json"):
		c.json(d)
	case d.Code != rig.OK && d.Code != rig.ContentDiffers:
		c.print("%s %s %s: %s", d.Code, finding.Path(c.args[0]), finding.Path(c.args[1]), d.Message)
	case form == "markdown":
		c.markdownDiff(d)
	default:
		c.textDiff(d)
	}
	for i, f := range d.Findings {
		if i == shownNotes {
			c.say("and %d more findings", len(d.Findings)-i)
			break
		}
		c.say("%s: %s%s", f.Code, place(f), f.Message)
	}
	if d.Code != rig.OK {
		return exitFindings
	}
	return exitOK
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
	return fmt.Sprintf("%s: %s -> %s", bundle.EscapeLine(oneLine(m.Field)), bundle.EscapeLine(string(m.A)), bundle.EscapeLine(string(m.B)))
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
	for _, ch := range d.Files {
		if t := d.Texts[ch.Path]; t != nil {
			c.print("")
			fmt.Fprint(c.Stdout, capLines(string(t), shownDiffLines))
		}
	}
}

// markdownDiff prints the same for a pull request.
func (c *call) markdownDiff(d *rig.Comparison) {
	if d.Code == rig.OK {
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
	for _, ch := range d.Files {
		t := d.Texts[ch.Path]
		if t == nil {
			continue
		}
		text := capLines(string(t), shownDiffLines)
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
