package sshsign

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
)

// maxSigners limits a signers file and a list of revoked keys, in bytes.
const maxSigners = 4 << 20

// A ParseError says why a signers or revocation file cannot be used: nothing
// can be decided with it.
type ParseError struct {
	Line, Col int    // of the text at fault, counted from 1, Col in code points; 0: no place
	Message   string // one clause, untrusted text quoted
	Hint      string // what repairs it, "" if the message says it
}

// Error returns the place and the message.
func (e *ParseError) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Col, e.Message)
}

// A Signer is one line of an allowed_signers file (ssh-keygen(1), ALLOWED
// SIGNERS): a key and for whom it may speak.
type Signer struct {
	Line          int    // counted from 1
	Principals    string // the pattern list, without quotes around it
	Key           ssh.PublicKey
	CertAuthority bool // Key signs certificates, not messages
	// Namespaces is the pattern list of the namespaces option; it limits the
	// line only if HasNamespaces.
	Namespaces    string
	HasNamespaces bool
	ValidAfter    time.Time // first second in which the line holds, zero: no limit
	ValidBefore   time.Time // last second in which it does, zero: no limit
	Comment       string    // what follows the key, raw
}

// Fingerprint of the key: "SHA256:" and 43 characters of base64.
func (s *Signer) Fingerprint() string { return ssh.FingerprintSHA256(s.Key) }

// Matches reports whether the line lists name.
func (s *Signer) Matches(name string) bool { return MatchPrincipals(s.Principals, name) }

func (s *Signer) covers(namespace string) bool {
	return !s.HasNamespaces || MatchPrincipals(s.Namespaces, namespace)
}

// Signers is an allowed_signers file.
type Signers struct {
	list   []Signer
	keys   map[string]*listed // by public key blob
	rigIDs bool               // a principal is a rig id
}

// listed is a key that lines list.
type listed struct {
	key         ssh.PublicKey // of a supported type, in the one encoding that OpenSSH writes
	fingerprint string
	lines       []int // places in list
}

// ParseSigners reads an allowed_signers file as OpenSSH does (sshsig.c): a
// line is principals, options if any, and a key; blank lines and those that
// begin with # are comments; LF and CRLF end lines; times are UTC with and
// without Z. Unlike OpenSSH it takes every line or none: what OpenSSH skips
// with a warning or reads in two ways is an error, of type *ParseError. So is
// a file that lists no key.
func ParseSigners(data []byte) (*Signers, error) {
	s := &Signers{keys: map[string]*listed{}}
	err := eachLine(data, func(c *cursor) *ParseError {
		signer, err := parseSigner(c)
		if err != nil {
			return err
		}
		blob := string(signer.Key.Marshal())
		if s.keys[blob] == nil {
			s.keys[blob] = &listed{key: signer.Key, fingerprint: signer.Fingerprint()}
		}
		s.keys[blob].lines = append(s.keys[blob].lines, len(s.list))
		s.list = append(s.list, signer)
		for p := range strings.SplitSeq(signer.Principals, ",") {
			s.rigIDs = s.rigIDs || isRigID(p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(s.list) == 0 {
		return nil, &ParseError{Message: "it lists no key", Hint: "add a line: <e-mail address> <key type> <base64 key>"}
	}
	return s, nil
}

// List returns the lines in order. It is shared: it is not to be changed.
func (s *Signers) List() []Signer {
	if s == nil {
		return nil
	}
	return s.list
}

// HasRigIDs reports whether any line names a rig id (docs/spec/relay.md#commit,
// sender-key): a principal that is a valid rig id without wildcard.
func (s *Signers) HasRigIDs() bool { return s != nil && s.rigIDs }

// isRigID is the pattern ^[a-z][a-z0-9-]*$ of docs/spec/envelope.md#rig-ids.
func isRigID(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

// key returns the listed key of a public key blob, nil if none is.
func (s *Signers) key(blob []byte) *listed {
	if s == nil {
		return nil
	}
	return s.keys[string(blob)]
}

// lookup returns the lines that hold the key, in order.
func (s *Signers) lookup(key ssh.PublicKey) []*Signer {
	return s.linesOf(s.key(key.Marshal()))
}

func (s *Signers) linesOf(k *listed) (lines []*Signer) {
	if k != nil {
		for _, i := range k.lines {
			lines = append(lines, &s.list[i])
		}
	}
	return lines
}

// parseSigner reads one line that is not blank.
func parseSigner(c *cursor) (Signer, *ParseError) {
	s := Signer{Line: c.number}
	var err *ParseError
	if s.Principals, err = parsePrincipals(c); err != nil {
		return s, err
	}
	c.blanks()
	if c.end() {
		return s, c.errorf("no key after the principals").hint("write: <principals> <key type> <base64 key>")
	}
	if isKeyType(s.Principals) && strings.HasPrefix(c.word(), "AAAA") {
		return s, &ParseError{c.number, 1, "the line begins with a key, where principals are expected", "put the e-mail addresses that it may sign for before the key"}
	}
	if !isKeyType(c.word()) {
		if err := parseOptions(c, &s); err != nil {
			return s, err
		}
		c.blanks()
	}
	s.Key, err = parseKey(c)
	if err != nil {
		return s, err
	}
	c.blanks()
	s.Comment = strings.TrimRight(c.rest(), " \t")
	return s, nil
}

// parsePrincipals reads the first field: pattern[,pattern…], in double quotes
// if it holds a space. Quotes have no escapes (misc.c, strdelimw).
func parsePrincipals(c *cursor) (string, *ParseError) {
	start := c.at
	quoted := c.take('"')
	stop := " \t\""
	if quoted {
		stop = "\""
	}
	from := c.at
	for !c.end() && strings.IndexByte(stop, c.line[c.at]) < 0 {
		c.at++
	}
	list := c.line[from:c.at]
	if quoted {
		if !c.take('"') {
			return "", c.errorAt(start, "the quotation mark is never closed")
		}
		if !c.end() && !c.blank() {
			return "", c.errorf("text directly after the closing quotation mark").hint("put the whole list of principals into one pair of quotation marks, a space after it")
		}
	} else if !c.end() && c.line[c.at] == '"' {
		return "", c.errorf("a quotation mark within the principals").hint("put the whole list of principals into one pair of quotation marks")
	}
	positive := false
	for p := range strings.SplitSeq(list, ",") {
		name, negated := strings.CutPrefix(p, "!")
		switch {
		case name == "":
			return "", c.errorAt(from, "an empty principal in %s", finding.QuoteMax(list, 80)).hint("remove the comma too many")
		case len(name) >= maxPattern:
			return "", c.errorAt(from, "a principal of %d bytes; OpenSSH matches none of %d or more", len(name), maxPattern)
		case strings.IndexFunc(name, control) >= 0:
			return "", c.errorAt(from, "a control character in the principals %s", finding.QuoteMax(list, 80))
		}
		positive = positive || !negated
	}
	if !positive {
		return "", c.errorAt(from, "the principals %s exclude names but list none", finding.QuoteMax(list, 80)).hint("add a pattern that is not negated, such as *@example.com")
	}
	return list, nil
}

// parseOptions reads option[,option…] up to the next blank outside quotes.
// Names are compared without case (sshsig.c, sshsigopt_parse).
func parseOptions(c *cursor, s *Signer) *ParseError {
	from := c.at
	after, before := -1, -1
	for {
		start := c.at
		for !c.end() && !c.blank() && c.line[c.at] != ',' && c.line[c.at] != '=' {
			c.at++
		}
		name := strings.ToLower(c.line[start:c.at])
		var err *ParseError
		value := ""
		switch name {
		case "cert-authority":
			s.CertAuthority = true
		case "namespaces", "valid-after", "valid-before":
			if value, err = parseValue(c, name); err != nil {
				return err
			}
		default:
			if start == from && isKey(c) {
				return c.errorAt(from, "the key type %s is not supported", finding.QuoteMax(c.line[from:c.at], 60)).hint(supportedHint)
			}
			return c.errorAt(start, "unknown option %s", finding.QuoteMax(c.line[start:c.at], 60)).hint("the options are cert-authority, namespaces, valid-after and valid-before")
		}
		switch name {
		case "namespaces":
			if s.HasNamespaces {
				return c.errorAt(start, "a second namespaces option")
			}
			s.Namespaces, s.HasNamespaces = value, true
		case "valid-after":
			if after >= 0 {
				return c.errorAt(start, "a second valid-after option")
			}
			after = start
			if s.ValidAfter, err = parseTime(c, start, name, value); err != nil {
				return err
			}
		case "valid-before":
			if before >= 0 {
				return c.errorAt(start, "a second valid-before option")
			}
			before = start
			if s.ValidBefore, err = parseTime(c, start, name, value); err != nil {
				return err
			}
		}
		if c.end() || c.blank() {
			break
		}
		if !c.take(',') {
			return c.errorf("unexpected text after the option %s", name)
		}
	}
	if before >= 0 && after >= 0 && !s.ValidBefore.After(s.ValidAfter) {
		return c.errorAt(before, "valid-before is not later than valid-after")
	}
	return nil
}

// parseValue reads ="value" with \" for a quotation mark in it.
func parseValue(c *cursor, name string) (string, *ParseError) {
	if !c.take('=') || !c.take('"') {
		return "", c.errorf("the option %s needs a value in quotation marks", name).hint(name + "=\"…\"")
	}
	var b strings.Builder
	for !c.end() {
		switch b1 := c.line[c.at]; {
		case b1 == '"':
			c.at++
			return b.String(), nil
		case b1 == '\\' && strings.HasPrefix(c.line[c.at:], `\"`):
			c.at++
		case b1 < ' ' || b1 == 0x7f:
			return "", c.errorf("a control character in the value of %s", name)
		}
		b.WriteByte(c.line[c.at])
		c.at++
	}
	return "", c.errorf("the value of %s has no closing quotation mark", name)
}

// parseTime reads YYYYMMDD[HHMM[SS]] with Z or UTC after it or not. Either way
// it is UTC, where OpenSSH takes the local time zone if there is none.
func parseTime(c *cursor, at int, name, value string) (time.Time, *ParseError) {
	digits := value
	for _, zone := range []string{"Z", "UTC"} {
		if n := len(value) - len(zone); n > 0 && strings.EqualFold(value[n:], zone) {
			digits = value[:n]
			break
		}
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(digits) != len(layout) {
			continue
		}
		if t, err := time.Parse(layout, digits); err == nil && t.Unix() > 0 {
			return t, nil
		}
	}
	return time.Time{}, c.errorAt(at, "%s is not a time after 1970: %s", name, finding.QuoteMax(value, 40)).hint(name + `="YYYYMMDD" or "YYYYMMDDHHMMSS", in UTC`)
}

const supportedHint = "supported are ssh-ed25519, ecdsa-sha2-nistp256, -384 and -521, ssh-rsa, sk-ssh-ed25519@openssh.com and sk-ecdsa-sha2-nistp256@openssh.com"

// isKeyType reports whether word is a name that OpenSSH reads as the type of a
// key, so that no options precede it.
func isKeyType(word string) bool {
	return supportedKey(word) || supportedCertificate(word) || word == "ssh-dss" || word == "ssh-dss-cert-v01@openssh.com"
}

// isKey reports whether base64 that names its own type follows the word at c.
func isKey(c *cursor) bool {
	word := c.line[:c.at]
	word = word[strings.LastIndexAny(word, " \t")+1:]
	rest := strings.TrimLeft(c.rest(), " \t")
	if i := strings.IndexAny(rest, " \t"); i >= 0 {
		rest = rest[:i]
	}
	blob, _ := base64.StdEncoding.DecodeString(rest)
	var name struct {
		Type string
		Rest []byte `ssh:"rest"`
	}
	return ssh.Unmarshal(blob, &name) == nil && name.Type == word
}

// parseKey reads "type base64" of a plain key of a supported type.
func parseKey(c *cursor) (ssh.PublicKey, *ParseError) {
	start := c.at
	if c.end() {
		return nil, c.errorf("no key after the options").hint("write: <principals> <options> <key type> <base64 key>")
	}
	kind := c.word()
	if supportedCertificate(kind) {
		return nil, c.errorf("a certificate stands where a key is expected").hint("list the key of its authority with the option cert-authority")
	}
	if !supportedKey(kind) {
		return nil, c.errorf("the key type %s is not supported", finding.QuoteMax(kind, 60)).hint(supportedHint)
	}
	c.at += len(kind)
	c.blanks()
	if c.end() {
		return nil, c.errorf("no base64 after the key type").hint("copy the line from the *.pub file")
	}
	text := c.word()
	blob, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, c.errorf("the key is not base64").hint("copy the line from the *.pub file")
	}
	key, ok := parsePublicKey(blob)
	if !ok {
		return nil, c.errorf("the base64 does not hold a public key as OpenSSH writes it").hint("copy the line from the *.pub file")
	}
	if key.Type() != kind {
		return nil, c.errorAt(start, "the line says %s, the key in it is %s", kind, finding.QuoteMax(key.Type(), 60)).hint("copy the line from the *.pub file")
	}
	c.at += len(text)
	return key, nil
}

// eachLine calls f with every line that is neither blank nor a comment, at its
// first character, and returns the first error.
func eachLine(data []byte, f func(*cursor) *ParseError) error {
	switch {
	case len(data) > maxSigners:
		return &ParseError{Message: fmt.Sprintf("it is larger than %d MiB", maxSigners>>20)}
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return &ParseError{Line: 1, Col: 1, Message: "it begins with a byte order mark, which OpenSSH takes for a part of the first principal", Hint: "save the file as UTF-8 without BOM"}
	}
	for number := 1; len(data) > 0; number++ {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte("\n"))
		c := &cursor{line: string(bytes.TrimSuffix(line, []byte("\r"))), number: number}
		if i := strings.IndexAny(c.line, "\x00\r"); i >= 0 {
			what := "a NUL byte, at which OpenSSH stops reading the line"
			if c.line[i] == '\r' {
				what = "a carriage return within the line"
			}
			return c.errorAt(i, "%s", what).hint("end lines with LF or CRLF")
		}
		c.blanks()
		if c.end() || c.line[c.at] == '#' {
			continue
		}
		if err := f(c); err != nil {
			if conflict(c.line) {
				return (&ParseError{Line: number, Col: 1, Message: "a line with which git marks a conflict"}).
					hint("keep the lines of both sides that are meant, and take out those that begin with <<<<<<<, ======= and >>>>>>>")
			}
			return err
		}
	}
	return nil
}

// conflict reports whether a line that cannot be read is one of those between which git
// leaves the two sides of a conflict.
func conflict(line string) bool {
	mark, rest, _ := strings.Cut(line, " ")
	switch mark {
	case "<<<<<<<", "|||||||", ">>>>>>>":
		return rest != ""
	}
	return line == "======="
}

// A cursor is a place in a line.
type cursor struct {
	line   string
	number int
	at     int
}

func (c *cursor) end() bool    { return c.at >= len(c.line) }
func (c *cursor) rest() string { return c.line[c.at:] }
func (c *cursor) blank() bool  { return c.line[c.at] == ' ' || c.line[c.at] == '\t' }

func (c *cursor) blanks() {
	for !c.end() && c.blank() {
		c.at++
	}
}

// word returns what stands before the next blank, without moving.
func (c *cursor) word() string {
	if i := strings.IndexAny(c.rest(), " \t"); i >= 0 {
		return c.rest()[:i]
	}
	return c.rest()
}

func (c *cursor) take(b byte) bool {
	if c.end() || c.line[c.at] != b {
		return false
	}
	c.at++
	return true
}

func (c *cursor) errorf(format string, args ...any) *ParseError {
	return c.errorAt(c.at, format, args...)
}

func (c *cursor) errorAt(at int, format string, args ...any) *ParseError {
	return &ParseError{Line: c.number, Col: utf8.RuneCountInString(c.line[:at]) + 1, Message: fmt.Sprintf(format, args...)}
}

func (e *ParseError) hint(text string) *ParseError {
	e.Hint = text
	return e
}

func control(r rune) bool { return r < ' ' || r == 0x7f }
