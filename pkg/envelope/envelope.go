package envelope

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/screen"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// Rules that Parse judges. Their severities are the defaults; the policy maps
// them.
const (
	RuleParse    = "envelope-parse"
	RuleSchema   = "envelope-schema"
	RuleDate     = "envelope-date"
	RulePath     = "envelope-path"
	RuleBodyHash = "body-hash"
	RuleTLDR     = "tldr-length"
)

// Limits of a file in bytes and of its front matter in bytes and nesting
// levels (docs/spec/envelope.md#limits). A zero field stands for its default.
type Limits struct {
	File        int64
	Frontmatter int64
	Depth       int
	// LoneCR lets a CR without LF end a line of the front matter, as YAML has it.
	// It is for envelopes of a time when that was not refused.
	LoneCR bool
}

// DefaultLimits returns 8 MiB, 64 KiB and 16 levels.
func DefaultLimits() Limits {
	return Limits{File: 8 << 20, Frontmatter: yamlprofile.DefaultMaxBytes, Depth: yamlprofile.DefaultMaxDepth}
}

// maxTLDR is the length in code points over which tldr-length warns.
const maxTLDR = 280

// Options of Parse: what is known of a file besides its bytes.
type Options struct {
	Limits Limits
	// Path of the file, "" if unknown or if its path doesn't matter. Its last
	// but one component is the thread directory, to which the front matter's
	// thread must be equal; its last one must be a portable name.
	Path string
	// Mode is git's mode of the entry (0o100644), 0 if unknown.
	Mode uint32
	// Screen asks for what package screen finds in the text as well.
	Screen bool
}

// An Envelope is a file whose front matter is one mapping of the YAML profile.
// It may violate the schema: see Valid and Conforms. Fields of the front matter
// that are absent or not of their type are empty here.
type Envelope struct {
	From        string
	To          []string
	ToList      bool // to is written as a list
	Date        string
	Status      string
	Type        string
	Thread      string
	DisplayName string
	TLDR        string
	References  []string
	BodyHash    string // as stated; see Hash
	InReplyTo   string
	AttestedBy  string
	AttestedAt  string
	Nonce       string

	Body        []byte            // normalised; may share memory with the file's bytes
	Hash        string            // the hash of Body, or of the one that a tombstone stands for; 64 hexadecimal digits
	Tombstone   *Tombstone        // what Body says if it begins as a tombstone's, also one of nothing; else nil
	Frontmatter *yamlprofile.Node // the typed front matter, in its order
	Closing     int               // line of the closing fence
	Path        string            // as given in Options
	Secrets     screen.Secrets    // in the text, with Options.Screen

	conforming uint32 // bit i: properties[i] is there and satisfies the schema
	valid      bool
}

// Valid reports whether the front matter satisfies the schema.
func (e *Envelope) Valid() bool { return e.valid }

// Has reports whether the front matter has a key, whatever its value.
func (e *Envelope) Has(key string) bool { return e.Frontmatter.Field(key) != nil }

// Conforms reports whether the front matter has a key of the schema, with a
// value that satisfies it.
func (e *Envelope) Conforms(key string) bool {
	i := propertyIndex(key)
	return i >= 0 && e.conforming&(1<<i) != 0
}

// Place returns where the value of a key stands; the closing fence, column 1,
// if the key is absent.
func (e *Envelope) Place(key string) (line, col int) {
	if v := e.Frontmatter.Get(key); v != nil {
		return v.Line, v.Col
	}
	return e.Closing, 1
}

// ItemPlace returns where item i (from 0) of a list stands; the value if it is
// no list or shorter.
func (e *Envelope) ItemPlace(key string, i int) (line, col int) {
	if v := e.Frontmatter.Get(key); v != nil && i >= 0 && i < len(v.Items) {
		return v.Items[i].Line, v.Items[i].Col
	}
	return e.Place(key)
}

// AttestationFields are the keys that make an envelope a relay.
func AttestationFields() []string { return []string{"attested_by", "attested_at", "nonce"} }

// IsRelay reports whether the sender ends in -relay or the front matter has an
// attestation field (docs/spec/relay.md#words).
func (e *Envelope) IsRelay() bool {
	return strings.HasSuffix(e.From, RelaySuffix) || e.Has("attested_by") || e.Has("attested_at") || e.Has("nonce")
}

// Parse reads a file. The Envelope is nil if the file has no front matter to
// judge: then there is a finding of envelope-parse, or of envelope-path if
// the mode is not that of a file at all. Otherwise the findings are all that
// content, path and mode allow, at their default severities, sorted by place;
// what CheckContent of package relay judges is not among them. The Envelope may
// keep a reference to data.
func Parse(data []byte, o Options) (*Envelope, []finding.Finding) {
	entry := CheckEntry(o.Path, o.Mode)
	if o.Mode != 0 && o.Mode&0o170000 != modeFile&0o170000 {
		return nil, entry[:1]
	}
	text, body, closing, problem := open(data, o.Limits)
	var front *yamlprofile.Node
	if problem == nil {
		l := yamlprofile.Limits{MaxBytes: o.Limits.Frontmatter, MaxDepth: o.Limits.Depth}
		n, err := yamlprofile.ParseText(text, 2, l)
		if err != nil {
			problem = err.(*yamlprofile.Error)
		}
		front = n
	}
	if problem != nil {
		fs, secrets := screened(data, nil, o)
		return nil, Hide(append(fs, finding.Finding{
			Rule: RuleParse, Severity: finding.Error, Path: o.Path,
			Line: problem.Line, Col: problem.Col, Message: problem.Message, Hint: problem.Hint,
		}), secrets)
	}
	e := &Envelope{Path: o.Path, Frontmatter: front, Closing: closing, Body: NormalizeBody(body)}
	e.Hash = BodyHash(e.Body)
	e.Tombstone = parseTombstone(e.Body)
	c := &checker{e: e, text: text, findings: entry}
	c.schema()
	c.thread()
	if e.Tombstone.stands() && e.Conforms("body_hash") {
		e.Hash = e.BodyHash
	}
	c.bodyHash()
	fs, secrets := screened(data, front, o)
	e.Secrets = secrets
	c.findings = Hide(append(c.findings, fs...), secrets)
	finding.Sort(c.findings)
	return e, c.findings
}

// Hide takes secrets of a text out of the messages of findings about it.
func Hide(fs []finding.Finding, secrets screen.Secrets) []finding.Finding {
	for i := range fs {
		if f := &fs[i]; len(secrets) > 0 && f.Rule != screen.RuleSecret {
			f.Message, f.Hint = secrets.Hide(f.Message), secrets.Hide(f.Hint)
		}
	}
	return fs
}

// HideSecrets takes the secrets of the text out of the fields, for those who show or
// keep them. Body and Frontmatter stay as they are.
func (e *Envelope) HideSecrets() {
	if len(e.Secrets) == 0 {
		return
	}
	for _, text := range []*string{&e.From, &e.Date, &e.Status, &e.Type, &e.Thread, &e.DisplayName, &e.TLDR, &e.BodyHash, &e.InReplyTo,
		&e.AttestedBy, &e.AttestedAt, &e.Nonce} {
		*text = e.Secrets.Hide(*text)
	}
	for _, list := range [][]string{e.To, e.References} {
		for i := range list {
			list[i] = e.Secrets.Hide(list[i])
		}
	}
}

// screened returns what package screen finds in a file, and in the values of its
// front matter that are written as escapes (docs/spec/envelope.md#hidden-text).
func screened(data []byte, front *yamlprofile.Node, o Options) ([]finding.Finding, screen.Secrets) {
	if !o.Screen {
		return nil, nil
	}
	w := screen.Where{Path: o.Path}
	fs, secrets := screen.Text(data, w)
	if front != nil && bytes.IndexByte(data, '\\') >= 0 {
		seen := len(fs)
		var walk func(n *yamlprofile.Node)
		walk = func(n *yamlprofile.Node) {
			if !n.Plain && n.Value != "" {
				more, found := screen.Value(n.Value, n.Line, n.Col, w, fs[:seen])
				fs, secrets = append(fs, more...), append(secrets, found...)
			}
			for _, item := range n.Items {
				walk(item)
			}
			for _, f := range n.Fields {
				walk(f.Key)
				walk(f.Value)
			}
		}
		walk(front)
	}
	for i := range fs {
		fs[i].Path = o.Path
	}
	return fs, secrets
}

// open judges bytes and fences (docs/spec/envelope.md#bytes, #fence) and cuts the file.
func open(data []byte, l Limits) (text string, body []byte, closing int, problem *yamlprofile.Error) {
	def := DefaultLimits()
	if l.File == 0 {
		l.File = def.File
	}
	if l.Frontmatter == 0 {
		l.Frontmatter = def.Frontmatter
	}
	if int64(len(data)) > l.File {
		return "", nil, 0, &yamlprofile.Error{Line: 1, Col: 1, Message: fmt.Sprintf("the file has %d bytes, at most %d are allowed", len(data), l.File)}
	}
	if at := yamlprofile.InvalidUTF8(data); at >= 0 {
		line, col := yamlprofile.Place(data, at)
		return "", nil, 0, &yamlprofile.Error{Line: line, Col: col, Message: fmt.Sprintf("byte 0x%02x at offset %d is not valid UTF-8", data[at], at), Hint: "save the file as UTF-8"}
	}
	first, rest, ended := cutLine(bytes.TrimPrefix(data, []byte(bom)))
	if string(first) != fence {
		return "", nil, 0, &yamlprofile.Error{Line: 1, Col: 1, Message: "line 1 is " + finding.QuoteMax(string(first), 40) + ", expected the opening fence ---", Hint: "begin the file with a line that is exactly ---"}
	}
	size := 0
	if ended {
		text, body, size, closing = split(rest)
	}
	if closing == 0 {
		return "", nil, 0, &yamlprofile.Error{Line: 1, Col: 1, Message: "the front matter has no closing fence, expected a line that is exactly ---", Hint: "put a line that is exactly --- between front matter and body"}
	}
	if err := yamlprofile.LoneCR(data, len(data)-len(body)); err != nil && !l.LoneCR {
		return "", nil, 0, err.(*yamlprofile.Error)
	}
	if int64(size) > l.Frontmatter {
		return "", nil, 0, &yamlprofile.Error{Line: 2, Col: 1, Message: fmt.Sprintf("the front matter has %d bytes, at most %d are allowed", size, l.Frontmatter)}
	}
	return text, body, closing, nil
}

// thread judges the value of thread as the name of a directory (docs/spec/envelope.md#where).
func (c *checker) thread() {
	thread := c.e.Thread
	n := c.e.Frontmatter.Get("thread")
	add := func(message, hint string) {
		c.add(RulePath, finding.Error, n.Line, n.Col, message, hint)
	}
	if neverThread(thread) { // also node_modules, which is not a thread id either
		add("a directory named "+thread+" is never a thread", "")
	}
	if !c.e.Conforms("thread") {
		return
	}
	if portable.Device(thread) {
		add("the thread "+thread+" is a device name on Windows, expected a name that every file system takes", "")
	}
	dirs := strings.Split(c.e.Path, "/")
	if len(dirs) < 2 {
		return
	}
	if dir := dirs[len(dirs)-2]; dir != thread {
		hint := ""
		if ValidThreadID(dir) {
			hint = c.lineWith(n, "thread", scalar(dir))
		}
		add(fmt.Sprintf("thread is %s, the file lies in the directory %s, expected the same name", finding.QuoteMax(thread, 60), finding.QuoteMax(dir, 60)), hint)
	}
}

// bodyHash compares the stated with the computed hash (docs/spec/envelope.md#body-hash).
func (c *checker) bodyHash() {
	n := c.e.Frontmatter.Get("body_hash")
	switch {
	case n == nil && !c.e.IsRelay():
		c.add(RuleBodyHash, finding.Warning, c.e.Closing, 1, "body_hash is absent, the body's hash is "+c.e.Hash, "body_hash: "+scalar(c.e.Hash))
	case n != nil && c.e.Conforms("body_hash") && c.e.BodyHash != c.e.Hash:
		c.add(RuleBodyHash, finding.Error, n.Line, n.Col, "body_hash differs from the body's hash "+c.e.Hash, "body_hash: "+scalar(c.e.Hash))
	}
}
