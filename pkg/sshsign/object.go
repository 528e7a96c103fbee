package sshsign

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/finding"
)

// An ObjectFormat is a repository's hash function by git's name for it, the
// output of git rev-parse --show-object-format.
type ObjectFormat string

// Object formats.
const (
	SHA1   ObjectFormat = "sha1"
	SHA256 ObjectFormat = "sha256"
)

// hexLen is the length of an object id in hexadecimal digits.
func (f ObjectFormat) hexLen() int {
	if f == SHA256 {
		return 64
	}
	return 40
}

// header is the name of the header that holds a commit's signature.
func (f ObjectFormat) header() string {
	if f == SHA256 {
		return "gpgsig-sha256"
	}
	return "gpgsig"
}

// An Ident is who did something and when: the value of an author, committer or
// tagger header, byte for byte.
type Ident struct {
	Name, Email string
	Seconds     int64  // since 1970-01-01 00:00:00 UTC
	Zone        string // "+hhmm" or "-hhmm", how the time is to be displayed
}

// Time returns the instant in UTC.
func (i Ident) Time() time.Time { return time.Unix(i.Seconds, 0).UTC() }

// CommitParts is a commit object taken apart without any change to its bytes.
type CommitParts struct {
	Tree              string   // object id in hexadecimal digits
	Parents           []string // likewise, in order
	Author, Committer Ident
	Message           []byte // all that follows the first empty line
	// Payload is what the signature covers: the object without the signature
	// header. Signature is the value of that header, its lines unfolded, nil
	// if there is none. Both share memory with the object or are copies; they
	// are not to be changed.
	Payload, Signature []byte

	fault string // why the signature has not the canonical place
}

// SplitCommit takes a commit object apart. raw is its content without the
// "commit <size>\0" that is hashed before it.
//
// The headers tree, parent (any number), author and committer must come first
// and in this order, as git fsck demands; a second tree, author, committer or
// encoding, a NUL, or a header without line end is an error, because two
// readers could take such a commit for two different ones. Other headers may
// follow in any number. Whether a signature header is canonical is not an
// error here: Verify tells.
func SplitCommit(raw []byte, f ObjectFormat) (CommitParts, error) {
	var c CommitParts
	s := scanner{rest: raw, format: f, commit: true}
	h, err := s.next()
	if err == nil && h.key != "tree" {
		err = errors.New("the first header is not tree")
	}
	if err != nil {
		return c, err
	}
	if c.Tree, err = objectID(h, f); err != nil {
		return c, err
	}
	for h, err = s.next(); err == nil && h.key == "parent"; h, err = s.next() {
		id, err := objectID(h, f)
		if err != nil {
			return c, err
		}
		c.Parents = append(c.Parents, id)
	}
	for i, key := range []string{"author", "committer"} {
		if err != nil {
			return c, err
		}
		if h.key != key {
			return c, fmt.Errorf("no %s header where it must stand", key)
		}
		ident, err := parseIdent(h)
		if err != nil {
			return c, err
		}
		if i == 0 {
			c.Author = ident
			h, err = s.next()
			if err != nil {
				return c, err
			}
			continue
		}
		c.Committer = ident
	}
	encoding := false
	for {
		if h, err = s.next(); err != nil {
			return c, err
		}
		switch h.key {
		case "":
			c.Message = s.rest
			c.Payload, c.Signature, c.fault = s.signature(raw)
			return c, nil
		case "tree", "author", "committer":
			return c, fmt.Errorf("a second %s header", h.key)
		case "parent":
			return c, errors.New("a parent header after the author")
		case "encoding":
			if encoding {
				return c, errors.New("a second encoding header")
			}
			encoding = true
		}
	}
}

// TagParts is a tag object taken apart without any change to its bytes.
type TagParts struct {
	Object    string // id of what is tagged, in hexadecimal digits
	Type      string // "commit", "tree", "blob" or "tag"
	Tag       string // its name
	HasTagger bool   // very old tags have none
	Tagger    Ident
	Message   []byte // without the signature
	// Payload is what the signature covers: all that precedes it. Signature
	// is nil if there is none.
	Payload, Signature []byte

	fault string
}

// SplitTag takes a tag object apart. A tag's signature is the end of its
// body, from the last line that begins one of the armors that git knows
// (gpg-interface.c); such a line further up is text. Headers are object, type,
// tag and tagger in this order, and no others.
func SplitTag(raw []byte, f ObjectFormat) (TagParts, error) {
	var t TagParts
	s := scanner{rest: raw, format: f}
	for _, key := range []string{"object", "type", "tag"} {
		h, err := s.next()
		if err != nil {
			return t, err
		}
		if h.key != key || h.value == nil {
			return t, fmt.Errorf("no %s header where it must stand", key)
		}
		switch key {
		case "object":
			if t.Object, err = objectID(h, f); err != nil {
				return t, err
			}
		case "type":
			t.Type = string(h.value)
			switch t.Type {
			case "commit", "tree", "blob", "tag":
			default:
				return t, fmt.Errorf("the type is %s", finding.QuoteMax(t.Type, 40))
			}
		case "tag":
			t.Tag = string(h.value)
		}
	}
	h, err := s.next()
	if err == nil && h.key == "tagger" {
		t.HasTagger = true
		if t.Tagger, err = parseIdent(h); err == nil {
			h, err = s.next()
		}
	}
	if err == nil && h.key != "" {
		err = fmt.Errorf("a header %s after the tagger's place", finding.QuoteMax(h.key, 40))
	}
	if err != nil {
		return t, err
	}
	t.fault = s.fault
	t.Message, t.Payload = s.rest, raw
	if at := lastArmor(s.rest); at >= 0 {
		t.Message = s.rest[:at]
		end := len(raw) - len(s.rest) + at
		t.Payload, t.Signature = raw[:end:end], raw[end:]
	}
	return t, nil
}

// lastArmor returns where the last line that begins an armor starts, or -1.
func lastArmor(body []byte) int {
	for end := len(body); end > 0; {
		start := bytes.LastIndexByte(body[:end-1], '\n') + 1
		if beginsArmor(body[start:]) {
			return start
		}
		end = start
	}
	return -1
}

// A header is one header of an object. key is "" at the end of the headers;
// value is nil if there is no space after the key.
type header struct {
	key   string
	value []byte
}

// A scanner reads headers and sets those aside whose name begins with gpgsig:
// git leaves all of them out of what is signed (commit.c,
// parse_buffer_signed_by_header).
type scanner struct {
	rest   []byte
	format ObjectFormat
	commit bool // signatures are allowed
	parsed int  // bytes before rest

	start, end int    // of the signature header
	value      []byte // its value, unfolded
	last       bool   // nothing followed it so far
	fault      string
}

// next returns the next header that is not a signature.
func (s *scanner) next() (header, error) {
	for {
		h, start, err := s.read()
		if err != nil || h.key == "" {
			return header{}, err
		}
		if !strings.HasPrefix(h.key, "gpgsig") {
			s.last = false
			folded := false
			for len(s.rest) > 0 && s.rest[0] == ' ' {
				folded = true
				if _, err := s.line(); err != nil {
					return header{}, err
				}
			}
			if folded && oneLine(h.key) {
				return header{}, fmt.Errorf("the %s header has a second line", h.key)
			}
			return h, nil
		}
		value := append(append(make([]byte, 0, len(h.value)+1+s.folded()), h.value...), '\n')
		for len(s.rest) > 0 && s.rest[0] == ' ' {
			line, err := s.line()
			if err != nil {
				return header{}, err
			}
			value = append(append(value, line[1:]...), '\n')
		}
		switch {
		case !s.commit:
			s.fail("a " + finding.QuoteMax(h.key, 40) + " header in a tag, whose signature stands in its body")
		case h.key != s.format.header() || h.value == nil:
			s.fail("a header " + finding.QuoteMax(h.key, 40) + ", which git leaves out of what is signed")
		case s.value != nil:
			s.fail("a second " + h.key + " header")
		default:
			s.start, s.end, s.value, s.last = start, s.parsed, value, true
		}
	}
}

// folded is how many bytes the lines have that go on with a header.
func (s *scanner) folded() (n int) {
	for n < len(s.rest) && s.rest[n] == ' ' {
		end := bytes.IndexByte(s.rest[n:], '\n')
		if end < 0 {
			break
		}
		n += end + 1
	}
	return n
}

// read returns the first line of the next header and where it starts.
func (s *scanner) read() (header, int, error) {
	start := s.parsed
	if len(s.rest) == 0 {
		return header{}, start, nil // headers only, which git fsck allows
	}
	line, err := s.line()
	if err != nil || len(line) == 0 {
		return header{}, start, err
	}
	if line[0] == ' ' {
		return header{}, start, errors.New("a header begins with a space")
	}
	key, value, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		value = nil
	}
	for _, known := range headers {
		if string(key) == known {
			return header{known, value}, start, nil
		}
	}
	return header{string(key), value}, start, nil
}

// headers are those of nearly all commits.
var headers = [...]string{"tree", "parent", "author", "committer", "gpgsig", "gpgsig-sha256"}

// line takes one line, without its end.
func (s *scanner) line() ([]byte, error) {
	line, rest, ok := bytes.Cut(s.rest, []byte("\n"))
	if !ok {
		return nil, errors.New("the headers end within a line")
	}
	if bytes.IndexByte(line, 0) >= 0 {
		return nil, errors.New("a NUL byte in a header")
	}
	s.parsed += len(line) + 1
	s.rest = rest
	return line, nil
}

func (s *scanner) fail(why string) {
	if s.fault == "" {
		s.fault = why
	}
}

// signature returns payload and signature of the commit raw, and what is wrong
// with its form.
func (s *scanner) signature(raw []byte) (payload, signature []byte, fault string) {
	if s.value == nil {
		return raw, nil, s.fault
	}
	if !s.last {
		s.fail("the signature is not the last header")
	}
	payload = make([]byte, 0, len(raw)-(s.end-s.start))
	payload = append(append(payload, raw[:s.start]...), raw[s.end:]...)
	return payload, s.value, s.fault
}

func oneLine(key string) bool {
	switch key {
	case "tree", "parent", "author", "committer", "encoding", "object", "type", "tag", "tagger":
		return true
	}
	return false
}

func objectID(h header, f ObjectFormat) (string, error) {
	if len(h.value) != f.hexLen() {
		return "", fmt.Errorf("the %s is not an object id of %d digits", h.key, f.hexLen())
	}
	for _, b := range h.value {
		if (b < '0' || b > '9') && (b < 'a' || b > 'f') {
			return "", fmt.Errorf("the %s is not an object id of %d digits", h.key, f.hexLen())
		}
	}
	return string(h.value), nil
}

// parseIdent reads "Name <email> seconds zone" as git fsck demands it
// (fsck.c, fsck_ident); the name may be empty.
func parseIdent(h header) (Ident, error) {
	bad := func(what string) (Ident, error) {
		return Ident{}, fmt.Errorf("the %s header %s: %s", h.key, what, finding.QuoteMax(string(h.value), 120))
	}
	name, rest, ok := strings.Cut(string(h.value), "<")
	if !ok || len(name) == 0 || name[len(name)-1] != ' ' || strings.IndexByte(name, '>') >= 0 {
		return bad("has no name and space before the e-mail address")
	}
	email, rest, ok := strings.Cut(rest, ">")
	if !ok || strings.IndexByte(email, '<') >= 0 {
		return bad("has no e-mail address between < and >")
	}
	date, ok := strings.CutPrefix(rest, " ")
	if !ok {
		return bad("has no space before the date")
	}
	digits, zone, ok := strings.Cut(date, " ")
	seconds, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || seconds > math.MaxInt64 || len(digits) > 1 && digits[0] == '0' {
		return bad("has no date in seconds")
	}
	if len(zone) != 5 || zone[0] != '+' && zone[0] != '-' {
		return bad("has no time zone of four digits")
	}
	for _, r := range zone[1:] {
		if r < '0' || r > '9' {
			return bad("has no time zone of four digits")
		}
	}
	return Ident{name[:len(name)-1], email, int64(seconds), zone}, nil
}
