package rig

import (
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
)

// precondition is what the author of a bundle asks to be done before it is
// installed. Nothing runs or checks it.
type precondition struct {
	name     string
	commands []string
}

// maxPreconditions bounds what a manifest may declare.
const maxPreconditions = 1000

// readPreconditions reads the preconditions of a manifest or of an author's
// bundle.yaml. why tells what is wrong with the block, "" if nothing is.
func readPreconditions(n *node) (list []precondition, why string) {
	if n == nil {
		return nil, ""
	}
	if n.kind != kindList {
		return nil, "is " + n.kind.String() + ", expected a list"
	}
	if len(n.items) > maxPreconditions {
		return nil, "holds too many entries"
	}
	for i, item := range n.items {
		var p precondition
		name := item.get("name")
		if item.kind != kindMap || name == nil || name.kind != kindString || strings.TrimSpace(name.text) == "" {
			return nil, index("", i) + " has no name"
		}
		p.name = name.text
		if c := item.get("commands"); c != nil {
			if c.kind != kindList {
				return nil, index("", i) + ".commands is " + c.kind.String() + ", expected a list"
			}
			for _, cmd := range c.items {
				if cmd.kind != kindString || strings.TrimSpace(cmd.text) == "" || strings.ContainsAny(cmd.text, "\r\n") {
					return nil, index("", i) + ".commands holds something else than commands of one line"
				}
				p.commands = append(p.commands, cmd.text)
			}
		}
		list = append(list, p)
	}
	return list, ""
}

// shell reports whether a command holds an operator of a shell.
func shell(command string) bool {
	return strings.ContainsAny(command, ";|`<>") || strings.Contains(command, "&&") || strings.Contains(command, "$(")
}

// preconditions judges the block of a document and tells its notes. A
// malformed block is nil: create leaves it out, as OpenRig does.
func (c *checker) preconditions(root *node) []precondition {
	n := root.get("preconditions")
	list, why := readPreconditions(n)
	if why != "" {
		c.noteAt(NotePreconditions, "preconditions", n, "%s", bundle.EscapeLine(why))
		return nil
	}
	for i, p := range list {
		for _, cmd := range p.commands {
			if shell(cmd) {
				c.noteAt(NotePreconditionShell, index("preconditions", i)+".commands", n.items[i], "hold operators of a shell")
				break
			}
		}
	}
	return list
}

// writePreconditions is the block in canonical order.
func writePreconditions(n *node) *node { return eachInOrder(n, "name", "commands") }
