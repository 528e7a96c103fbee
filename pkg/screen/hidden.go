package screen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
)

// A kind is what a character is that readers may not see.
type kind uint8

const (
	visible   kind = iota
	tag            // U+E0000 to U+E007F
	bidi           // embeddings, overrides and isolates, and what ends them
	mark           // directional marks
	joiner         // U+200C, U+200D
	space          // U+200B
	selector       // variation selectors
	private        // private use and noncharacters
	control        // C0, C1, DEL
	hyphen         // U+00AD
	grapheme       // U+034F
	bom            // U+FEFF
	filler         // fillers of Hangul
	blank          // U+2800
	mongolian      // U+180B to U+180F
	ignorable      // others that are not shown
)

// kindOf returns what a character is.
func kindOf(r rune) kind {
	switch {
	case r < 0x20:
		if r == '\t' || r >= '\n' && r <= '\r' {
			return visible
		}
		return control
	case r < 0x7f:
		return visible
	case r < 0xa0:
		if r == 0x85 {
			return visible
		}
		return control
	case r == 0xad:
		return hyphen
	case r < 0x34f:
		return visible
	case r < 0x2000:
		switch {
		case r == 0x34f:
			return grapheme
		case r == 0x61c:
			return mark
		case r == 0x115f, r == 0x1160:
			return filler
		case r == 0x17b4, r == 0x17b5:
			return ignorable
		case r >= 0x180b && r <= 0x180f:
			return mongolian
		}
		return visible
	case r < 0x3000:
		switch {
		case r == 0x200b:
			return space
		case r == 0x200c, r == 0x200d:
			return joiner
		case r == 0x200e, r == 0x200f:
			return mark
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return bidi
		case r >= 0x2060 && r <= 0x206f:
			return ignorable
		case r == 0x2800:
			return blank
		}
		return visible
	case r < 0xe000:
		if r == 0x3164 {
			return filler
		}
		return visible
	case r < 0x10000:
		switch {
		case r < 0xf900, r >= 0xfdd0 && r <= 0xfdef, r >= 0xfffe:
			return private
		case r >= 0xfe00 && r <= 0xfe0f:
			return selector
		case r == 0xfeff:
			return bom
		case r == 0xffa0:
			return filler
		case r >= 0xfff0 && r <= 0xfffb:
			return ignorable
		}
		return visible
	case r < 0xe0000:
		if r >= 0x1bca0 && r <= 0x1bca3 || r >= 0x1d173 && r <= 0x1d17a {
			return ignorable
		}
		if r&0xfffe == 0xfffe {
			return private
		}
		return visible
	case r < 0xe0080:
		return tag
	case r >= 0xe0100 && r <= 0xe01ef:
		return selector
	case r < 0xe1000:
		return ignorable
	case r >= 0xf0000 || r&0xfffe == 0xfffe:
		return private
	}
	return visible
}

// firstOdd returns the offset of the first byte that is neither printable ASCII
// nor white space of it, len(data) if there is none.
func firstOdd(data []byte) int {
	i := 0
	for ; i+8 <= len(data); i += 8 {
		const ones = 0x0101010101010101
		w := binary.LittleEndian.Uint64(data[i:])
		// A byte of 0x80 and more, one below 0x20, or 0x7f.
		if (w|(w-ones*0x20)&^w|((w^ones*0x7f)-ones)&^(w^ones*0x7f))&(ones*0x80) == 0 {
			continue
		}
		for j := i; j < i+8; j++ {
			if b := data[j]; b >= 0x7f || b < ' ' && kindOf(rune(b)) != visible {
				return j
			}
		}
	}
	for ; i < len(data); i++ {
		if b := data[i]; b >= 0x80 || kindOf(rune(b)) != visible {
			return i
		}
	}
	return i
}

// A seer goes over a text and finds what its readers do not see.
type seer struct {
	told
	w Where

	i     int  // offset of the character at hand
	prev  rune // the one before it, 0 at the begin
	base  rune // the last one that is neither selector, joiner nor skin tone
	line  int  // offset of the line's begin
	known int  // the line of which rtl and dots are known, -1 for none
	rtl   bool // it has letters that are written from right to left
	dots  bool // it has patterns of Braille
	soft  int  // characters since the last soft hyphen
	opens int  // bidi controls that open, one right after the other
	each  bool // no run of plain characters is passed over at once: for a test

	keyed, keyedEnd int    // the line of which lineKey is
	lineKey         string // "" for none

	open []opener // bidi controls of the line that are not closed

	run      []rune // what is hidden, up to the character at hand
	runAt    int
	runLong  int // how many, of which run holds the begin
	distinct []rune
}

// An opener is a bidi control that waits for its end.
type opener struct {
	r         rune
	at        int
	ltr, rtl  bool // strong characters in it
	something bool
}

// maxOpen is how deep bidi controls nest (UAX #9, max_depth).
const maxOpen = 125

// hidden finds characters that readers do not see (docs/spec/envelope.md#hidden-text).
func hidden(data []byte, w Where) []finding.Finding {
	s := &seer{told: told{data: data}, w: w, known: -1}
	if odd := firstOdd(data); odd < len(data) {
		s.i = bytes.LastIndexByte(data[:odd], '\n') + 1
		s.line = s.i
		s.see()
	}
	s.references()
	fs := s.all(w)
	finding.Sort(fs)
	return fs
}

func (s *seer) see() {
	for s.i < len(s.data) {
		if s.runLong == 0 && len(s.open) == 0 && s.pass() {
			continue
		}
		r, size := rune(s.data[s.i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(s.data[s.i:])
		}
		k := kindOf(r)
		if r == utf8.RuneError && size == 1 {
			k = visible
		}
		switch {
		case k == visible:
			if s.runLong > 0 {
				s.flush()
			}
			if len(s.open) > 0 {
				s.strong(r)
			}
			s.soft++
			s.opens = 0
			if ends(r) {
				s.endLine()
				s.line = s.i + size
			}
		case k == tag:
			if n := s.flag(); n > 0 {
				s.flush()
				s.i += n
				s.prev = 0xe007f
				continue
			}
			s.hide(r)
		case k == bidi:
			s.direct(r)
		case s.lawful(k, r, size):
			s.flush()
		default:
			s.hide(r)
		}
		s.prev = r
		if k != selector && k != joiner && !isModifier(r) {
			s.base = r
		}
		s.i += size
	}
	s.flush()
	s.endLine()
}

// pass goes over plain characters, as see would one by one where nothing is hidden or
// open; false where there are none.
func (s *seer) pass() bool {
	n := firstOdd(s.data[s.i:])
	if n == 0 || s.each {
		return false
	}
	run := s.data[s.i:][:n]
	if end := max(bytes.LastIndexByte(run, '\n'), bytes.LastIndexByte(run, '\r')); end >= 0 {
		s.line = s.i + end + 1
	}
	s.prev, s.opens = rune(run[n-1]), 0
	s.base = s.prev
	s.soft, s.i = s.soft+n, s.i+n
	return true
}

// isModifier reports whether a character is a skin tone (Emoji_Modifier).
func isModifier(r rune) bool { return r >= 0x1f3fb && r <= 0x1f3ff }

// ends reports whether a character ends a paragraph of text, and with it what
// bidi controls do (UAX #9, class B), or a line.
func ends(r rune) bool {
	return r == '\n' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}

func (s *seer) next(size int) rune {
	if s.i+size >= len(s.data) {
		return 0
	}
	r, _ := utf8.DecodeRune(s.data[s.i+size:])
	return r
}

// seen reports whether a character beside one that is not seen is seen, so that
// the two are no code. The begin and the end of a text are.
func seen(r rune) bool {
	switch kindOf(r) {
	case visible, bidi:
		return true
	case control:
		return r == 0
	}
	return false
}

// lawful reports whether a character that is not seen does at its place what it
// is for.
func (s *seer) lawful(k kind, r rune, size int) bool {
	next := s.next(size)
	switch k {
	case control:
		return s.w.Loose || r == 0x1b && s.colour()
	case joiner:
		if r == 0x200d && unicode.Is(pictographic, s.base) && unicode.Is(pictographic, next) {
			// An emoji, its picture and its skin tone may stand between.
			return s.prev == s.base || s.prev == 0xfe0f || s.prev == 0xe007f || isModifier(s.prev)
		}
		return seen(s.prev) && seen(next) && (unicode.Is(joining, s.prev) || unicode.Is(joining, next))
	case mark:
		return seen(s.prev) && seen(next) && s.look().rtl
	case space:
		return seen(s.prev) && seen(next) && (unicode.Is(unspaced, s.prev) || unicode.Is(unspaced, next))
	case hyphen:
		ok := s.soft >= 2 && unicode.In(s.prev, unicode.L, unicode.M) && unicode.IsLetter(next)
		s.soft = 0
		return ok
	case grapheme:
		return unicode.In(s.prev, unicode.L, unicode.M) && unicode.Is(unicode.Mn, next) && kindOf(next) == visible
	case bom:
		return s.i == 0
	case filler:
		switch r {
		case 0x115f: // before a vowel
			return next >= 0x1161 && next <= 0x11a7 || next >= 0xd7b0 && next <= 0xd7c6
		case 0x1160: // between consonants
			return (s.prev >= 0x1100 && s.prev <= 0x115e || s.prev >= 0xa960 && s.prev <= 0xa97c) &&
				(next >= 0x11a8 && next <= 0x11ff || next >= 0xd7cb && next <= 0xd7fb)
		}
	case blank:
		return s.look().dots
	case mongolian:
		if r == 0x180e {
			return unicode.Is(unicode.Mongolian, s.prev) && unicode.Is(unicode.Mongolian, next) && kindOf(next) == visible
		}
		return unicode.Is(unicode.Mongolian, s.prev) && unicode.IsLetter(s.prev)
	case selector:
		switch {
		case r == 0xfe0e || r == 0xfe0f:
			return unicode.Is(emoji, s.prev) || listed(s.prev, r)
		case r >= 0xe0100:
			// The Ideographic Variation Database registers at most 32 forms of one
			// ideograph.
			return r <= 0xe011f && unicode.Is(unicode.Unified_Ideograph, s.prev)
		}
		return listed(s.prev, r)
	}
	return false
}

// variantKey is how variants holds a character with a selector.
func variantKey(base, sel rune) uint32 {
	key := uint32(base)<<9 | uint32(sel)&0xff
	if sel < 0xfe00 {
		key |= 0x100
	}
	return key
}

// listed reports whether Unicode lists a variation sequence.
func listed(base, sel rune) bool {
	_, ok := slices.BinarySearch(variants[:], variantKey(base, sel))
	return ok
}

// flag returns the length of the tags at hand if they spell a flag that Unicode
// lists.
func (s *seer) flag() int {
	if s.prev != 0x1f3f4 {
		return 0
	}
	for _, seq := range tagSequences {
		if bytes.HasPrefix(s.data[s.i:], []byte(seq)) {
			return len(seq)
		}
	}
	return 0
}

// colour reports whether an escape sequence begins here that colours text and
// does not conceal it (ECMA-48, SGR).
func (s *seer) colour() bool {
	rest := s.data[s.i+1:]
	if len(rest) == 0 || rest[0] != '[' {
		return false
	}
	end := 1
	for end < len(rest) && end < 40 && (rest[end] >= '0' && rest[end] <= '9' || rest[end] == ';') {
		end++
	}
	if end == len(rest) || rest[end] != 'm' {
		return false
	}
	return !slices.ContainsFunc(strings.Split(string(rest[1:end]), ";"), func(p string) bool { return strings.TrimLeft(p, "0") == "8" })
}

// look makes known what the line at hand has.
func (s *seer) look() *seer {
	if s.known == s.line {
		return s
	}
	s.known, s.rtl, s.dots = s.line, false, false
	line, _, _ := bytes.Cut(s.data[s.line:], []byte("\n"))
	for len(line) > 0 && !(s.rtl && s.dots) {
		r, size := utf8.DecodeRune(line)
		s.rtl = s.rtl || unicode.Is(rightToLeft, r) && kindOf(r) == visible
		s.dots = s.dots || r > 0x2800 && r <= 0x28ff
		line = line[size:]
	}
	return s
}

// strong notes a character for the bidi controls around it.
func (s *seer) strong(r rune) {
	rtl := unicode.Is(rightToLeft, r)
	ltr := !rtl && unicode.IsLetter(r)
	for i := len(s.open) - 1; i >= 0; i-- {
		o := &s.open[i]
		if o.something && (o.ltr || !ltr) && (o.rtl || !rtl) {
			break // so do those around it
		}
		o.something = true
		o.ltr, o.rtl = o.ltr || ltr, o.rtl || rtl
	}
}

// direct judges a bidi control: what opens is closed on its line, holds
// something, and does not show letters against the direction in which they are
// read.
func (s *seer) direct(r rune) {
	switch r {
	case 0x202c, 0x2069:
		n := len(s.open) - 1
		isolate := n >= 0 && s.open[n].r >= 0x2066
		if n < 0 || isolate != (r == 0x2069) {
			s.hide(r)
			return
		}
		s.flush()
		o := s.open[n]
		s.open = s.open[:n]
		s.opens = 0
		switch {
		case !o.something:
			s.tell(o, r, "encloses nothing")
		case o.r == 0x202e && o.ltr, o.r == 0x202d && o.rtl:
			s.tell(o, 0, "shows letters in another order than they are read in")
		case (o.r == 0x202b || o.r == 0x2067) && !o.rtl:
			s.tell(o, 0, "encloses no letter that is written from right to left")
		}
	default:
		if s.opens++; s.opens > 2 || len(s.open) == maxOpen {
			s.hide(r)
			return
		}
		s.flush()
		s.open = append(s.open, opener{r: r, at: s.i})
	}
}

// endLine tells what is open at the end of a line.
func (s *seer) endLine() {
	for _, o := range s.open {
		s.tell(o, 0, "is not closed on its line")
	}
	s.open, s.opens = s.open[:0], 0
}

// hide adds a character to what is hidden here.
func (s *seer) hide(r rune) {
	if s.runLong == 0 {
		s.runAt = s.i
	}
	s.runLong++
	if len(s.run) < maxSpelled {
		s.run = append(s.run, r)
	}
	if len(s.distinct) < 9 && !slices.Contains(s.distinct, r) {
		s.distinct = append(s.distinct, r)
	}
}

// maxSpelled is how many hidden characters of one place are spelled.
const maxSpelled = 4096

// flush tells what was hidden up to here.
func (s *seer) flush() {
	if s.runLong == 0 {
		return
	}
	key := s.key(s.runAt)
	if s.full(key) {
		s.run, s.distinct, s.runLong = s.run[:0], s.distinct[:0], 0
		return
	}
	var b strings.Builder
	for i, r := range s.distinct[:min(3, len(s.distinct))] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(about(r))
	}
	if len(s.distinct) > 3 {
		b.WriteString(" …")
	}
	message := "a character that readers do not see: " + b.String()
	if s.runLong > 1 {
		message = fmt.Sprintf("%d characters that readers do not see: %s", s.runLong, b.String())
	}
	if text := spell(s.run); text != "" {
		message += "; it spells " + finding.QuoteMax(text, 200)
	}
	s.add(RuleHidden, s.runAt, key, message, s.hint(s.runAt, s.run, s.runLong))
	s.run, s.distinct, s.runLong = s.run[:0], s.distinct[:0], 0
}

// about is the code point of a character with its name.
func about(r rune) string {
	text := fmt.Sprintf("U+%04X", r)
	if name := nameOf(r); name != "" {
		text += " " + name
	}
	return text
}

// nameOf is the name of a character that is not seen, "" if it has none.
func nameOf(r rune) string {
	if i := sort.Search(len(names), func(i int) bool { return names[i].r >= r }); i < len(names) && names[i].r == r {
		return names[i].name
	}
	switch {
	case r >= 0xfe00 && r <= 0xfe0f:
		return fmt.Sprintf("VARIATION SELECTOR-%d", r-0xfe00+1)
	case r >= 0xe0100 && r <= 0xe01ef:
		return fmt.Sprintf("VARIATION SELECTOR-%d", r-0xe0100+17)
	case r >= 0xe0020 && r <= 0xe007e:
		return "TAG " + asciiName(r-0xe0000)
	case r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef:
		return "noncharacter"
	case kindOf(r) == private:
		return "private use"
	}
	return ""
}

// asciiName is the name of a printable ASCII character.
func asciiName(r rune) string {
	switch {
	case r >= 'a' && r <= 'z':
		return "LATIN SMALL LETTER " + string(unicode.ToUpper(r))
	case r >= 'A' && r <= 'Z':
		return "LATIN CAPITAL LETTER " + string(r)
	case r >= '0' && r <= '9':
		return "DIGIT " + strings.Fields("ZERO ONE TWO THREE FOUR FIVE SIX SEVEN EIGHT NINE")[r-'0']
	case r == ' ':
		return "SPACE"
	}
	return string(r)
}

// spell returns the text that hidden characters stand for in the codes that are
// in use: tags for ASCII, variation selectors for bytes, two different
// characters for bits, private use for its last byte. It is "" if that is not
// text.
func spell(run []rune) string {
	var tags, bytes, low, bits []byte
	var two []rune
	for _, r := range run {
		switch k := kindOf(r); {
		case k == tag && r >= 0xe0020 && r <= 0xe007e:
			tags = append(tags, byte(r))
		case k == selector && r < 0xe0100:
			bytes = append(bytes, byte(r-0xfe00))
		case k == selector:
			bytes = append(bytes, byte(r-0xe0100+16))
		case k == private:
			low = append(low, byte(r))
		}
		i := slices.Index(two, r)
		if i < 0 && len(two) < 3 {
			i, two = len(two), append(two, r)
		}
		bits = append(bits, byte(max(0, i)))
	}
	for _, text := range [][]byte{tags, bytes, low} {
		if len(text) > 0 && readable(text) {
			return string(text)
		}
	}
	if len(two) != 2 || len(bits)%8 != 0 {
		return ""
	}
	if two[0] > two[1] { // the lower code point is the 0 nearly everywhere
		for i := range bits {
			bits[i] ^= 1
		}
	}
	for _, flip := range []byte{0, 1} {
		text := make([]byte, len(bits)/8)
		for i, bit := range bits {
			text[i/8] = text[i/8]<<1 | bit ^ flip
		}
		if readable(text) {
			return string(text)
		}
	}
	return ""
}

// readable reports whether all of a text is printable.
func readable(text []byte) bool {
	return utf8.Valid(text) && !strings.ContainsFunc(string(text), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' })
}

// tell adds a finding about a bidi control, of which end is what closed it, 0 if
// nothing did or it may stay.
func (s *seer) tell(o opener, end rune, why string) {
	key := s.key(o.at)
	if s.full(key) {
		return
	}
	run := []rune{o.r}
	if end != 0 {
		run = append(run, end)
	}
	s.add(RuleHidden, o.at, key, about(o.r)+" "+why, s.hint(o.at, run, len(run)))
}

// key names the line of an offset in a policy's allow: the characters alone would
// name every such character, wherever it stands and whatever it spells there.
func (s *seer) key(at int) string {
	if s.lineKey == "" || at < s.keyed || at > s.keyedEnd {
		s.keyed = bytes.LastIndexByte(s.data[:at], '\n') + 1
		line, _, _ := bytes.Cut(s.data[s.keyed:], []byte("\n"))
		s.keyedEnd, s.lineKey = s.keyed+len(line), Key(RuleHidden+"\x00"+string(line))
	}
	return s.lineKey
}

// hint is the command that takes a run away.
func (s *seer) hint(at int, run []rune, long int) string {
	switch {
	case s.w.Commit != "":
		return "say it in other words: " + s.w.rebase()
	case s.w.Path == "":
		return "take it away"
	}
	var b strings.Builder
	if long <= 8 {
		for _, r := range run {
			fmt.Fprintf(&b, `\x{%X}`, r)
		}
	} else {
		b.WriteByte('[')
		done := []rune(nil)
		for _, r := range run {
			if slices.Contains(done, r) {
				continue
			}
			done = append(done, r)
			if kindOf(r) == tag || kindOf(r) == selector || kindOf(r) == private || len(done) > 16 {
				b.Reset()
				b.WriteString(`[\p{DI}\p{Co}\p{Cn}\p{Cc}`)
				break
			}
			fmt.Fprintf(&b, `\x{%X}`, r)
		}
		fmt.Fprintf(&b, "]{%d}", long)
	}
	line := bytes.Count(s.data[:at], []byte("\n")) + 1
	return "perl -CSD -i -pe " + finding.Word(fmt.Sprintf("s/%s// if $. == %d", b.String(), line)) + " -- " + finding.Word(s.w.Path)
}

// references finds numeric character references of HTML that spell what is not
// seen: a page shows none of them, and a model reads them. One alone is how one
// writes about such a character.
func (s *seer) references() {
	var run []rune
	at, end := 0, -1
	tell := func() {
		if len(run) > 1 {
			message := fmt.Sprintf("%d references to characters that readers do not see: %s …", len(run), about(run[0]))
			if text := spell(run); text != "" {
				message += "; it spells " + finding.QuoteMax(text, 200)
			}
			if key := s.key(at); !s.full(key) {
				s.add(RuleHidden, at, key, message, "take them away")
			}
		}
		run = run[:0]
	}
	for i := 0; ; {
		n := bytes.Index(s.data[i:], []byte("&#"))
		if n < 0 {
			break
		}
		i += n
		r, size := reference(s.data[i:])
		if k := kindOf(r); size > 0 && (k == tag || k == selector && r >= 0xe0100) {
			if i != end {
				tell()
			}
			if len(run) == 0 {
				at = i
			}
			if len(run) < maxSpelled {
				run = append(run, r)
			}
			end = i + size
		}
		i += max(size, 2)
	}
	tell()
}

// reference reads a numeric character reference; size is 0 if it is none.
func reference(data []byte) (r rune, size int) {
	text, base := data[2:], 10
	size = 2
	if len(text) > 0 && (text[0] == 'x' || text[0] == 'X') {
		text, base = text[1:], 16
		size++
	}
	n := 0
	for n < len(text) && n < 10 && (text[n] >= '0' && text[n] <= '9' || base == 16 && (text[n]|0x20 >= 'a' && text[n]|0x20 <= 'f')) {
		n++
	}
	v, err := strconv.ParseUint(string(text[:n]), base, 32)
	if err != nil || v > unicode.MaxRune {
		return 0, 0
	}
	if size += n; n < len(text) && text[n] == ';' {
		size++
	}
	return rune(v), size
}
