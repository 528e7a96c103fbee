package bridge

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// A cursor says what of an inbox was shown: what the commit base has; of what
// the commit seen has besides, all up to a message, which is named by when it
// was committed and its path. So what comes meanwhile is not skipped, whatever
// date it bears, nothing is shown twice, and marks that move change nothing.
type cursor struct {
	base, seen string // "" for none
	made, path string
}

// maxCursor is how long the text of a cursor may be.
const maxCursor = 2 << 10

const madeForm = "2006-01-02T15:04:05Z"

// text writes a cursor: two ids, each behind its length, a time in seconds and
// a path.
func (c cursor) text() string {
	var b []byte
	for _, id := range []string{c.base, c.seen} {
		raw, _ := hex.DecodeString(id)
		b = append(append(b, byte(len(raw))), raw...)
	}
	var seconds int64
	if at, err := time.Parse(madeForm, c.made); err == nil {
		seconds = at.Unix()
	}
	return base64.RawURLEncoding.EncodeToString(append(binary.AppendVarint(b, seconds), c.path...))
}

// parseCursor reads what text wrote, and nothing else. ids have that many bytes.
func parseCursor(text string, ids int) (c cursor, err error) {
	if len(text) > maxCursor {
		return c, errCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return c, errCursor
	}
	for _, id := range []*string{&c.base, &c.seen} {
		if len(b) == 0 || int(b[0]) >= len(b) || b[0] != 0 && int(b[0]) != ids {
			return cursor{}, errCursor
		}
		*id = hex.EncodeToString(b[1 : 1+b[0]])
		b = b[1+b[0]:]
	}
	seconds, n := binary.Varint(b)
	if n <= 0 || seconds < 0 || seconds > 253402300799 || bytes.ContainsAny(b[n:], "\x00\n") {
		return cursor{}, errCursor
	}
	c.made, c.path = time.Unix(seconds, 0).UTC().Format(madeForm), string(b[n:])
	if c.seen == "" || c.text() != text {
		return cursor{}, errCursor
	}
	return c, nil
}

// cursorOf reads the value of --after, "" for the beginning.
func (r *run) cursorOf(w *work, text string) (cursor, error) {
	if !r.opts.Has("--after") && text == "" {
		return cursor{}, nil
	}
	c, err := parseCursor(text, w.repo.HashLen()/2)
	if err != nil {
		return c, usageError(r.cmd, "%s %s: %s", r.arg("--after"), quote(text), err.Error())
	}
	for _, id := range []string{c.base, c.seen} {
		if id == "" {
			continue
		}
		typ, err := w.repo.Has([]string{id})
		if err != nil {
			return c, gitProblem(err)
		}
		if typ[0] != "commit" {
			return c, fail(codeRefused, "%s names the commit %s, which this clone does not have", r.arg("--after"), short(id)).
				withHint("rig-bridge inbox, which shows all that waits").orTool("inbox without after shows all that waits")
		}
	}
	return c, nil
}

// next is the cursor after the first n of what waits.
func (b *box) next(n int) string {
	c := b.after
	switch {
	case !b.timed || b.head == "":
		return ""
	case c.seen == "":
		c.seen = b.head
	case n > b.late:
		c.base, c.seen = c.seen, b.head
	}
	if n > 0 {
		c.made, c.path = b.waiting[n-1].made, b.waiting[n-1].path()
	}
	return c.text()
}
