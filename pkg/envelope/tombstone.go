package envelope

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A Tombstone is what stands in the place of a body that was taken out
// (docs/spec/tombstone.md#form): Bury makes one, Buries reports whether a file is
// the tombstone of another.
type Tombstone struct {
	Path       string // of the message, in the repository
	Replaces   string // SHA-256 of the whole file that it replaces, 64 hexadecimal digits
	Repository string // id of the first commit of the history
	Ref        string // that the message is taken out of
	By         string // address of the operator whose commit brings it
	At         string // when it was made, in UTC: 2026-01-05T09:00:00Z
	Why        string // on one line, at most 300 code points

	// Signed is the text that approvals sign: the file without them. Buries
	// fills it in.
	Signed []byte
	// Approvals are armored signatures, one after the other; nil for none.
	Approvals []byte
}

const (
	tombstoneHead   = "rigward tombstone 1\n"
	tombstoneNotice = "\nThe body of this message was taken out. The history, and clones of before, still have it:\n" +
		"a key or a token in it has to be replaced.\n"
	tombstoneTime = "2006-01-02T15:04:05Z"
	maxWhy        = 300
)

// fields are the lines of a tombstone, in their order.
func (t *Tombstone) fields() []struct {
	key   string
	value *string
} {
	return []struct {
		key   string
		value *string
	}{{"path", &t.Path}, {"replaces", &t.Replaces}, {"repository", &t.Repository}, {"ref", &t.Ref}, {"by", &t.By}, {"at", &t.At}, {"why", &t.Why}}
}

// Time is when the tombstone was made; the zero time if At is not of its form.
func (t *Tombstone) Time() time.Time {
	at, err := time.Parse(tombstoneTime, t.At)
	if err != nil {
		return time.Time{}
	}
	return at
}

// TombstoneTime writes a time as At has it.
func TombstoneTime(at time.Time) string { return at.UTC().Format(tombstoneTime) }

func (t *Tombstone) body() []byte {
	b := []byte(tombstoneHead + "\n")
	for _, f := range t.fields() {
		b = append(b, f.key+": "+*f.value+"\n"...)
	}
	return append(b, tombstoneNotice...)
}

// parseTombstone reads a normalised body that begins as a tombstone does, nil if
// it does not.
func parseTombstone(body []byte) *Tombstone {
	rest, ok := bytes.CutPrefix(body, []byte(tombstoneHead))
	if !ok {
		return nil
	}
	t := &Tombstone{}
	rest, ok = bytes.CutPrefix(rest, []byte("\n"))
	for _, f := range t.fields() {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		value, found := bytes.CutPrefix(line, []byte(f.key+": "))
		*f.value, rest, ok = string(value), after, ok && found
	}
	if rest, found := bytes.CutPrefix(rest, []byte(tombstoneNotice)); ok && found && len(rest) > 0 {
		if t.Approvals, found = bytes.CutPrefix(rest, []byte("\n")); !found {
			return &Tombstone{}
		}
	} else if !ok || !found {
		return &Tombstone{}
	}
	return t
}

// stands reports whether a body says of itself all that a tombstone does.
func (t *Tombstone) stands() bool { return t != nil && t.Path != "" }

// Bury returns the file in which t takes the place of the body of data. It keeps
// sender, recipients, day, type, thread and what the message answers and refers
// to; body_hash is the hash of the body that goes. t.Replaces is filled in. An
// error says why there can be no tombstone of data.
func Bury(data []byte, t *Tombstone, l Limits) ([]byte, error) {
	e, _ := Parse(data, Options{Limits: l})
	switch {
	case e == nil:
		return nil, errors.New("it cannot be read as a message")
	case !e.Valid():
		return nil, errors.New("it is a message that violates the schema")
	case e.IsRelay():
		return nil, errors.New("it is a relay: what a person decided and signed stays as it is")
	case e.Tombstone != nil:
		return nil, errors.New("its body was taken out before")
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	t.Replaces = hex.EncodeToString(sum[:])
	_, size := utf8.DecodeRuneInString(e.Status)
	return Render(Fields{
		From: e.From, To: e.To, Date: e.Date, Status: e.Status[:size] + " Expunged", Type: e.Type, Thread: e.Thread,
		InReplyTo: e.InReplyTo, References: e.References, BodyHash: e.Hash, Body: t.body(),
	})
}

// check judges the values that Bury is given.
func (t *Tombstone) check() error {
	for _, f := range t.fields() {
		v := *f.value
		switch {
		case f.value == &t.Replaces:
		case v == "":
			return fmt.Errorf("%s is empty", f.key)
		case strings.TrimSpace(v) != v || !utf8.ValidString(v) || strings.ContainsFunc(v, isEscaped):
			return fmt.Errorf("%s is not text on one line", f.key)
		}
	}
	if n := utf8.RuneCountInString(t.Why); n > maxWhy {
		return fmt.Errorf("why has %d characters, at most %d are allowed", n, maxWhy)
	}
	if t.Time().IsZero() {
		return errors.New("at is not a time such as 2026-01-05T09:00:00Z")
	}
	return nil
}

// Buries reports whether file is a tombstone of old as Bury makes it, with or
// without approvals, and returns it; the error says what it changes besides.
func Buries(old, file []byte, l Limits) (*Tombstone, error) {
	e, _ := Parse(file, Options{})
	if e == nil || !e.Tombstone.stands() {
		return nil, errors.New("it is not of the form of a tombstone")
	}
	t := e.Tombstone
	replaces := t.Replaces
	text, err := Bury(old, t, l)
	if err != nil {
		return nil, err
	}
	was, _ := Parse(old, Options{Limits: l})
	for _, kept := range []struct {
		key  string
		same bool
	}{
		{"from", e.From == was.From}, {"to", slices.Equal(e.To, was.To)}, {"date", e.Date == was.Date}, {"type", e.Type == was.Type},
		{"thread", e.Thread == was.Thread}, {"in_reply_to", e.InReplyTo == was.InReplyTo},
		{"references", slices.Equal(e.References, was.References)},
	} {
		if !kept.same {
			return nil, fmt.Errorf("it changes %s", kept.key)
		}
	}
	if e.BodyHash != was.Hash {
		return nil, errors.New("its body_hash is not that of the body that goes")
	}
	if t.Replaces != replaces {
		return nil, errors.New("it is about another content than the file has")
	}
	if rest, ok := bytes.CutPrefix(file, text); !ok || len(rest) > 0 && !bytes.Equal(rest, append([]byte("\n"), t.Approvals...)) {
		return nil, errors.New("it is not what rig-hook expunge makes of the message")
	}
	t.Signed = text
	return t, nil
}

// Approve returns a tombstone's file with approvals, armored signatures over
// t.Signed.
func Approve(text []byte, approvals ...[]byte) []byte {
	if len(approvals) == 0 {
		return text
	}
	return append(append(bytes.Clone(text), '\n'), bytes.Join(approvals, nil)...)
}
