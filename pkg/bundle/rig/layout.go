package rig

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// mtime of every member: 2026-01-01T00:00:00Z.
const mtime = 1767225600

// Layout is the tar stream of docs/spec/rigbundle.md#tar-stream. It has files only.
type Layout struct{}

// Compare orders whole paths as sequences of UTF-16 code units: U+10000 and up
// come before U+E000.
func (Layout) Compare(a, b string) int {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			return cmp.Compare(unitOrder(ra), unitOrder(rb))
		}
		if ra == utf8.RuneError && a[:na] != b[:nb] { // invalid UTF-8, which no name may be
			return strings.Compare(a, b)
		}
		a, b = a[na:], b[nb:]
	}
	return cmp.Compare(len(a), len(b))
}

// unitOrder maps runes so that their order is that of their UTF-16 units.
func unitOrder(r rune) rune {
	switch {
	case r >= 0x10000:
		return r - 0x10000 + 0xD800
	case r >= 0xD800:
		return r + 0x100000
	}
	return r
}

// AppendHeader implements bundle.Layout.
func (Layout) AppendHeader(dst []byte, m *bundle.Member) ([]byte, error) {
	if m.Type != bundle.File {
		return dst, fmt.Errorf("a RigBundle holds no %v", m.Type)
	}
	name, prefix, cut := split(m.Name)
	if cut || !ascii(name) || !ascii(prefix) {
		ext := firstUnits("PaxHeader/"+path.Base(m.Name), 99)
		n, p, _ := split(ext)
		body := bundle.PaxRecord("path", m.Name) +
			bundle.PaxRecord("mtime", strconv.Itoa(mtime)) +
			bundle.PaxRecord("size", strconv.FormatInt(m.Size, 10))
		var err error
		if dst, err = appendBlock(dst, n, p, 0o644, int64(len(body)), 'x'); err != nil {
			return dst, err
		}
		dst = append(dst, body...)
		dst = append(dst, make([]byte, -len(body)&511)...)
	}
	return appendBlock(dst, name, prefix, m.Mode, m.Size, '0')
}

// split divides a path between the name and the prefix of a header. cut tells
// that the two do not hold all of it.
func split(p string) (name, prefix string, cut bool) {
	if len(p) < 100 {
		return p, "", false
	}
	prefix, name = path.Dir(p), path.Base(p)
	for {
		if len(prefix) <= 155 {
			if len(name) <= 100 {
				return name, prefix, false
			}
			return firstUnits(name, 99), prefix, true
		}
		if prefix == "." || !strings.Contains(prefix, "/") {
			return firstUnits(p, 99), "", true
		}
		name = path.Base(prefix) + "/" + name
		prefix = path.Dir(prefix)
	}
}

// firstUnits returns the first n UTF-16 units of s.
func firstUnits(s string, n int) string {
	width := 0
	for i, r := range s {
		if width += unitsOf(r); width > n {
			return s[:i]
		}
	}
	return s
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func appendBlock(dst []byte, name, prefix string, mode uint32, size int64, flag byte) ([]byte, error) {
	at := len(dst)
	dst = append(dst, make([]byte, 512)...)
	b := dst[at:]
	copy(b[0:100], wholeRunes(name, 100))
	if err := num(b[124:136], size); err != nil {
		return dst, fmt.Errorf("%s is too large for this format", finding.QuoteMax(name, 200))
	}
	for _, f := range []struct {
		field []byte
		v     int64
	}{{b[100:108], int64(mode)}, {b[136:148], mtime}, {b[329:337], 0}, {b[337:345], 0}} {
		if err := num(f.field, f.v); err != nil {
			return dst, err
		}
	}
	b[156] = flag
	copy(b[257:265], "ustar\x0000")
	copy(b[345:500], wholeRunes(prefix, 155))
	return dst, num(b[148:156], bundle.BlockSum(b))
}

// wholeRunes returns as many whole characters as fit into n bytes.
func wholeRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// num writes octal digits: width-1 of them and NUL, or padded with zeros to
// width-2, then blank and NUL.
func num(b []byte, v int64) error {
	end := len(b) - 2 // of the digits
	if v>>(3*end) != 0 {
		if end++; v>>(3*end) != 0 {
			return fmt.Errorf("%d has no room in %d octal digits", v, end)
		}
	} else {
		b[end] = ' '
	}
	b[len(b)-1] = 0
	for i := end - 1; i >= 0; i-- {
		b[i] = '0' + byte(v&7)
		v >>= 3
	}
	return nil
}
