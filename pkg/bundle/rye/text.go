package rye

import (
	"bytes"
	"regexp"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
)

// hashedText returns the part of a text that the line's hash covers
// (docs/spec/ryebundle.md#hashed-text). It is a piece of text, never a copy. For the
// HEAD generation it is everything after the line.
func hashedText(text []byte, l *Line, t Type) ([]byte, *bundle.Finding) {
	rest := text[l.end:]
	if l.Head {
		return rest, nil
	}
	switch t {
	case Directive:
		return directiveSpan(text)
	case Knowledge:
		if !bytes.HasPrefix(rest, []byte("---")) {
			return rest, nil
		}
		i := bytes.Index(rest[3:], []byte("---"))
		if i < 0 {
			return rest, nil
		}
		return strip(rest[3+i+3:]), nil
	}
	if l.start == 0 && bytes.HasPrefix(rest, []byte("#!/")) {
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			return rest[i+1:], nil
		}
	}
	return rest, nil
}

var directiveOpen = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<directive[^>]*>`) })

const directiveClose = "</directive>"

// directiveSpan returns the text from the first opening tag in the whole file
// to the end of the last closing tag.
func directiveSpan(text []byte) ([]byte, *bundle.Finding) {
	open := directiveOpen().FindIndex(text)
	end := bytes.LastIndex(text, []byte(directiveClose))
	if open == nil || end < open[0] {
		return nil, bundle.Faultf(DirectiveTagMissing, "", "there is no <directive> … </directive> span, the only text that a directive's signature covers")
	}
	return strip(text[open[0] : end+len(directiveClose)]), nil
}

// strip cuts white space from both ends as the old programs did: their set has
// the separators U+001C–001F, which unicode.IsSpace lacks.
func strip(b []byte) []byte {
	return bytes.TrimFunc(b, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f })
}

// translateNewlines turns CRLF and lone CR into LF. It returns data itself if
// there is no CR.
func translateNewlines(data []byte) []byte {
	if bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// A signedText is a file with its signature line and the text that it covers.
type signedText struct {
	line    *Line
	hashed  []byte
	partial bool // bytes besides the line are not covered
}

// readSigned decodes a file, reads its signature line and compares the hash. It
// does everything that needs no key.
func readSigned(data []byte, f lineFormat, hashed func([]byte, *Line) ([]byte, *bundle.Finding)) (*signedText, *bundle.Finding) {
	text := data
	if !f.head {
		if !utf8.Valid(data) {
			return nil, bundle.Faultf(NotUTF8, "", "the text is not valid UTF-8")
		}
		text = translateNewlines(data)
	}
	l, fault := parseLine(text, f)
	if fault != nil {
		return nil, fault
	}
	s := &signedText{line: l}
	if s.hashed, fault = hashed(text, l); fault != nil {
		return s, fault
	}
	s.partial = len(s.hashed)+l.end-l.start != len(text)
	if hexSum(s.hashed) != l.Hash {
		return s, bundle.Faultf(ContentModified, "", "the text is not the one that was signed: its hash is %s, the signature line says %s", hexSum(s.hashed), l.Hash)
	}
	if l.cr {
		return nil, bundle.Faultf(SignatureMalformed, "", "signature line: a carriage return stands behind the fingerprint")
	}
	if !f.head && bytes.IndexByte(data, '\r') >= 0 {
		return s, bundle.Faultf(NewlineChanged, "", "carriage returns were put in after signing: the text matches only with LF line ends")
	}
	return s, nil
}
