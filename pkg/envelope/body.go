package envelope

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

const bom = "\uFEFF"

// NormalizeBody returns the normal form of a body over which body_hash is
// taken (docs/spec/envelope.md#body-hash): CRLF and CR become LF, trailing blanks
// and TABs of each line go, exactly one LF ends it, and every U+FEFF at its
// start goes. The result may share memory with body. Normalising it again
// changes nothing.
func NormalizeBody(body []byte) []byte {
	if isNormal(body) {
		return body
	}
	out := make([]byte, 0, len(body)+1)
	kept := 0 // length of out without the blanks and line ends at its end
	line := 0 // length of out without the blanks at its end
	for i := 0; i < len(body); i++ {
		switch c := body[i]; c {
		case '\r', '\n':
			if c == '\r' && i+1 < len(body) && body[i+1] == '\n' {
				i++
			}
			out = append(out[:line], '\n')
			line++
		case ' ', '\t':
			out = append(out, c)
		default:
			out = append(out, c)
			line, kept = len(out), len(out)
		}
	}
	out = append(out[:kept], '\n')
	for bytes.HasPrefix(out, []byte(bom)) {
		out = out[len(bom):]
	}
	return out
}

// isNormal reports whether NormalizeBody would change nothing.
func isNormal(body []byte) bool {
	n := len(body)
	if n == 0 || body[n-1] != '\n' || n > 1 && body[n-2] == '\n' || bytes.HasPrefix(body, []byte(bom)) {
		return false
	}
	if bytes.IndexByte(body, '\r') >= 0 {
		return false
	}
	for rest := body; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return true
		}
		if i > 0 && (rest[i-1] == ' ' || rest[i-1] == '\t') {
			return false
		}
		rest = rest[i+1:]
	}
}

// BodyHash returns the SHA-256 of a normalised body as 64 lower-case
// hexadecimal digits. The argument must be what NormalizeBody returned.
func BodyHash(normalised []byte) string {
	sum := sha256.Sum256(normalised)
	return hex.EncodeToString(sum[:])
}
