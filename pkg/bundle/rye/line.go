package rye

import (
	"bytes"
	"encoding/base64"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// A Line is a signature line that follows the grammar of docs/spec/ryebundle.md#signature-line,
// or of docs/spec/ryebundle.md#head-generation if Head is set. Nothing but the hash is signed:
// Time, Provider and User are claims, never facts.
type Line struct {
	Time        string // YYYY-MM-DDThh:mm:ssZ, a real date; not signed
	Hash        string // 64 hex: SHA-256 of the hashed text
	Signature   []byte // 64 bytes: Ed25519 over the hex digits of Hash
	Fingerprint string // 16 hex, 64 hex if Head
	Provider    string // registry provenance, "" if none; not signed
	User        string
	Head        bool

	start, end int  // its bytes in the text, line feed included
	cr         bool // HEAD only: a carriage return stands before the line feed
}

const (
	marker     = "rye:signed:"
	markerHead = "ryeos:signed:"
)

// legacyMarkers were written without a key, or by a program before this one.
var legacyMarkers = []string{"rye:validated:", "kiwi-mcp:"}

// parseLine finds and reads the signature line of a text. A missing line has
// the code item-unsigned; the caller knows whether it is a manifest's.
func parseLine(text []byte, f lineFormat) (*Line, *bundle.Finding) {
	at := linePlace(text, f)
	line, whole := cutLine(text[at:])
	m := markerOf(line, f)
	if m == "" {
		if misplaced(text, at, f) {
			return nil, bundle.Faultf(SignatureMisplaced, "", "a signature line stands behind a byte order mark, a blank line or a shebang, where no reader may take it for one")
		}
		return nil, bundle.Faultf(ItemUnsigned, "", "there is no signature line at its place")
	}
	want := marker
	if f.head {
		want = markerHead
	}
	if m != want {
		return nil, bundle.Faultf(FormatUnsupported, "", "the signature line has the marker %s, which another generation of the format wrote", finding.Quote(m))
	}
	fault := func(format string, args ...any) (*Line, *bundle.Finding) {
		return nil, bundle.Faultf(SignatureMalformed, "", "signature line: "+format, args...)
	}
	if !whole {
		return fault("the line does not end in a line feed")
	}
	l := &Line{Head: f.head, start: at}
	text = line
	if f.head {
		// Newlines are not translated in this generation. The text is compared
		// before the line is refused, for what was changed is the whole file.
		text, l.cr = bytes.CutSuffix(line, []byte("\r"))
	}
	fields, ok := strings.CutPrefix(string(text), f.prefix+" "+want)
	if !ok {
		return fault("expected %s, one blank, then %s", finding.Quote(f.prefix), finding.Quote(want))
	}
	if fields, ok = strings.CutSuffix(fields, f.suffix); !ok {
		return fault("expected %s directly after the fingerprint", finding.Quote(f.suffix))
	}
	l.end = at + len(line) + 1
	if len(fields) < 22 || fields[20] != ':' || !realTime(fields[:20]) {
		return fault("expected a real time as 2026-03-17T01:02:01Z")
	}
	l.Time = fields[:20]
	hash, rest, ok := strings.Cut(fields[21:], ":")
	if !ok || !isHex(hash, 64) {
		return fault("expected a hash of 64 lower-case hex digits after the time")
	}
	l.Hash = hash
	sig, fp, ok := strings.Cut(rest, ":")
	if !ok {
		return fault("expected time, hash, signature and fingerprint with colons between them")
	}
	if !f.head {
		var origin string
		var given bool
		if fp, origin, given = strings.Cut(fp, "|"); given {
			if l.Provider, l.User, ok = strings.Cut(origin, "@"); !ok || !isProvenance(l.Provider) || !isProvenance(l.User) {
				return fault("expected PROVIDER@USER of letters, digits, _ and - after the bar")
			}
		}
		if isHex(fp, 64) {
			return nil, bundle.Faultf(FormatUnsupported, "", "the signature line has a fingerprint of 64 digits behind %s, as the programs of April and May 2026 wrote it", finding.Quote(marker))
		}
	}
	digits := 16
	if f.head {
		digits = 64
	}
	if !isHex(fp, digits) {
		return fault("expected a fingerprint of %d lower-case hex digits and nothing behind it", digits)
	}
	l.Fingerprint = fp
	if l.Signature, ok = decodeSignature(sig, f.head); !ok {
		alphabet := "base64url, with == or nothing behind it"
		if f.head {
			alphabet = "standard base64 with =="
		}
		return nil, bundle.Faultf(SignatureEncoding, "", "the signature %s is not the canonical %s of 64 bytes", finding.QuoteMax(sig, 100), alphabet)
	}
	return l, nil
}

// String writes the line as [parseLine] reads it, without prefix, suffix and
// line feed. Legacy lines had == behind the signature or nothing; this one has
// it, as docs/spec/ryebundle.md#generations has it for writers.
func (l *Line) String() string {
	mark, enc := marker, base64.URLEncoding
	if l.Head {
		mark, enc = markerHead, base64.StdEncoding
	}
	return mark + l.Time + ":" + l.Hash + ":" + enc.EncodeToString(l.Signature) + ":" + l.Fingerprint
}

// linePlace returns the offset at which the signature line must stand.
func linePlace(text []byte, f lineFormat) int {
	if f.afterShebang != "" && bytes.HasPrefix(text, []byte(f.afterShebang)) {
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			return i + 1
		}
	}
	return 0
}

// cutLine returns the first line of text without its line feed; whole is false
// if there is none.
func cutLine(text []byte) (line []byte, whole bool) {
	line, _, whole = bytes.Cut(text, []byte("\n"))
	return line, whole
}

// markerOf returns the marker of a line that has the format's prefix and one of
// the known markers, however much blank stands around the prefix; else "".
func markerOf(line []byte, f lineFormat) string {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(line, " \t"), []byte(f.prefix))
	if !ok {
		return ""
	}
	rest = bytes.TrimLeft(rest, " \t")
	for _, m := range []string{marker, markerHead, legacyMarkers[0], legacyMarkers[1]} {
		if bytes.HasPrefix(rest, []byte(m)) {
			return m
		}
	}
	return ""
}

// misplaced reports whether the first line that is neither blank nor begins
// with "#!", among the first five and a byte order mark aside, is a signature
// line although it does not stand at its place.
func misplaced(text []byte, place int, f lineFormat) bool {
	body := bytes.TrimPrefix(text, []byte("\ufeff"))
	for range 5 {
		line, whole := cutLine(body)
		if t := strip(line); len(t) > 0 && !bytes.HasPrefix(t, []byte("#!")) {
			return markerOf(line, f) != "" && len(text)-len(body) != place
		}
		if !whole {
			return false
		}
		body = body[len(line)+1:]
	}
	return false
}

// realTime reports whether s is YYYY-MM-DDThh:mm:ssZ and names a second that a
// calendar has.
func realTime(s string) bool {
	const layout = "2006-01-02T15:04:05Z"
	if len(s) != len(layout) {
		return false
	}
	t, err := time.Parse(layout, s)
	return err == nil && t.Year() > 0 && t.Format(layout) == s
}

// isHex reports whether s is n lower-case hex digits.
func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

func isProvenance(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

// decodeSignature reads SIG; ok is false unless it is the only way to write
// these 64 bytes in the generation's alphabet, padding aside where it is free.
func decodeSignature(s string, head bool) (sig []byte, ok bool) {
	enc := base64.RawURLEncoding
	if head {
		enc = base64.StdEncoding
	} else {
		s = strings.TrimSuffix(s, "==")
	}
	sig, err := enc.Strict().DecodeString(s)
	return sig, err == nil && len(sig) == 64 && enc.EncodeToString(sig) == s
}
