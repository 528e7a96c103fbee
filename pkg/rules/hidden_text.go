package rules

import (
	"context"
	"fmt"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/screen"
)

// screenNames judges the names that a commit brings as texts (rules hidden-text
// and secret): whoever lists a directory reads them.
func (ps *pass) screenNames(_ context.Context, c *commit) error {
	for _, ch := range c.brought {
		if ch.Deleted() {
			continue
		}
		fs, _ := screen.Text([]byte(ch.Path), screen.Where{})
		for _, f := range fs {
			f.Path, f.Line, f.Col = ch.Path, 1, 1
			f.Message = told("the path", "", f.Message)
			f.Hint = "give it another name: git mv -- " + finding.Word(ch.Path) + " NAME"
			ps.tell(c, f)
		}
	}
	return nil
}

// screenMessage judges what a commit that brings an envelope says of itself: its
// message, and the names of author and committer. (The envelope's own text is
// judged where it is parsed.)
func (ps *pass) screenMessage(_ context.Context, c *commit) error {
	if c.obj == nil || !c.tells {
		return nil
	}
	for _, f := range screenedMessage(c.obj.Message, c.id, c.obj.Signed()) {
		ps.tell(c, f)
	}
	for _, who := range [...]struct{ what, name string }{{"author", c.obj.Author.Name + " <" + c.obj.Author.Email + ">"},
		{"committer", c.obj.Committer.Name + " <" + c.obj.Committer.Email + ">"}} {
		fs, _ := screen.Text([]byte(who.name), screen.Where{Commit: finding.Short(c.id), Signed: c.obj.Signed()})
		for _, f := range fs {
			f.Line, f.Col = 0, 0
			f.Message = told("the "+who.what, "", f.Message)
			ps.tell(c, f)
		}
	}
	return nil
}

// told says what package screen has found in a text and, if that is not "", at which
// place of it: something that is there, or what one of its characters does.
func told(what, place, message string) string {
	does := strings.HasPrefix(message, "U+")
	switch {
	case does && place != "":
		return "in " + place + " of " + what + " " + message
	case does:
		return "in " + what + " " + message
	case place != "":
		place = "in " + place + " "
	}
	return what + " has " + place + message
}

// screenedMessage returns what package screen finds in a commit message; id is ""
// if the commit does not exist yet, signed says whether it is.
func screenedMessage(text []byte, id string, signed bool) []finding.Finding {
	fs, _ := screen.Text(text, screen.Where{Commit: finding.Short(id), Signed: signed})
	for i := range fs {
		f := &fs[i]
		f.Message = told("the commit message", fmt.Sprintf("line %d, column %d", f.Line, f.Col), f.Message)
		if id == "" && f.Rule == screen.RuleHidden {
			f.Hint = "write another message"
		}
		f.Line, f.Col = 0, 0
	}
	return fs
}
