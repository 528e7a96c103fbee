// Package inflate reads what zlib has compressed (RFC 1950 and 1951), where all of it
// lies in memory and the size of the result is known: so objects of git are stored.
// Knowing both, it takes a third of the time of a reader of streams.
//
// What it takes is what zlib takes, with the same result; a fuzz target holds it to
// compress/zlib.
package inflate

import (
	"encoding/binary"
	"hash/adler32"
	"math/bits"
)

// A Decoder is room for the codes of one stream at a time. The zero value is ready.
type Decoder struct {
	literals  [1024 + 1334]uint32 // the first ones by the next ten bits
	distances [256 + 402]uint32   // by the next eight
	lengths   [288 + 32]uint8
	fixedMade bool // the tables are of the codes that need not be told
}

// Entries of a table: how many bits the code has are in the lowest eight, how many
// bits follow it in the next four, and then what it means.
const (
	literalBits  = 10
	distanceBits = 8

	isLiteral = 1 << 12
	isEnd     = 1 << 13
	isTable   = 1 << 14 // what it means is where the table of longer codes begins, extra bits its size
)

// Zlib decompresses a stream at the beginning of src into dst. It returns how many
// bytes of dst are written, how many of src are the stream, and whether that is whole:
// it fills dst exactly and its checksum holds. Where it is not, used says nothing, and
// what is written is what the stream begins with.
func (d *Decoder) Zlib(dst, src []byte) (written, used int, ok bool) {
	// The method, a window of at most 32 KiB, no dictionary, a multiple of 31.
	if len(src) < 2 || src[0]&15 != 8 || src[0]>>4 > 7 || src[1]&32 != 0 || binary.BigEndian.Uint16(src)%31 != 0 {
		return 0, 0, false
	}
	s := state{dst: dst, src: src, pos: 2}
	for last := false; !last; {
		s.fill()
		last = s.bits&1 == 1
		kind := s.bits >> 1 & 3
		if !s.drop(3) {
			return s.out, 0, false
		}
		done := false
		switch kind {
		case 0:
			done = s.stored()
		case 1:
			done = d.fixed() && s.block(d)
		case 2:
			done = s.codes(d) && s.block(d)
		}
		if !done {
			return s.out, 0, false
		}
	}
	s.align()
	if s.out != len(dst) || len(src)-s.pos < 4 || binary.BigEndian.Uint32(src[s.pos:]) != adler32.Checksum(dst) {
		return s.out, 0, false
	}
	return s.out, s.pos + 4, true
}

// A state is how far a stream has been read. The next bits of it are the lowest ones
// of bits, of which so many are valid; what is above them is 0 or what follows.
type state struct {
	dst, src []byte
	out, pos int
	bits     uint64
	valid    uint
}

// fill makes at least 56 bits valid, or all that are left.
func (s *state) fill() {
	if len(s.src)-s.pos >= 8 {
		s.bits |= binary.LittleEndian.Uint64(s.src[s.pos:]) << (s.valid & 63)
		s.pos += int(63-s.valid) >> 3
		s.valid |= 56
		return
	}
	for s.valid < 56 && s.pos < len(s.src) {
		s.bits |= uint64(s.src[s.pos]) << (s.valid & 63)
		s.pos++
		s.valid += 8
	}
}

// drop passes over n bits; it is false if there are not so many.
func (s *state) drop(n uint) bool {
	if n > s.valid {
		return false
	}
	s.bits >>= n & 63
	s.valid -= n
	return true
}

// align goes on at the next whole byte.
func (s *state) align() {
	s.pos -= int(s.valid >> 3)
	s.bits, s.valid = 0, 0
}

// stored reads a block that is not compressed.
func (s *state) stored() bool {
	s.align()
	if len(s.src)-s.pos < 4 {
		return false
	}
	n := binary.LittleEndian.Uint16(s.src[s.pos:])
	if n != ^binary.LittleEndian.Uint16(s.src[s.pos+2:]) {
		return false
	}
	s.pos += 4
	part := s.src[s.pos:min(len(s.src), s.pos+int(n))]
	copied := copy(s.dst[s.out:], part)
	s.out, s.pos = s.out+copied, s.pos+copied
	return copied == int(n)
}

// fixed makes the codes that need not be told.
func (d *Decoder) fixed() bool {
	if d.fixedMade { // as of most small objects, one after the other
		return true
	}
	l := d.lengths[:]
	for i := range 288 {
		switch {
		case i < 144, i >= 280:
			l[i] = 8
		case i < 256:
			l[i] = 9
		default:
			l[i] = 7
		}
	}
	for i := range 32 {
		l[288+i] = 5
	}
	d.fixedMade = build(d.literals[:], literalBits, l[:288], literal) && build(d.distances[:], distanceBits, l[288:], distance)
	return d.fixedMade
}

// order is in which the lengths of the code of lengths come.
var order = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// codes reads the codes of a block.
func (s *state) codes(d *Decoder) bool {
	d.fixedMade = false
	s.fill()
	literals, distances, count := int(s.bits&31)+257, int(s.bits>>5&31)+1, int(s.bits>>10&15)+4
	if !s.drop(14) || literals > 286 || distances > 30 {
		return false
	}
	var l [19]uint8
	for _, at := range order[:count] {
		s.fill()
		l[at] = uint8(s.bits & 7)
		if !s.drop(3) {
			return false
		}
	}
	table := d.distances[:] // which are made later
	if !build(table, 7, l[:], func(symbol int) uint32 { return uint32(symbol)<<16 | isLiteral }) || table[0] == 0 || table[1] == 0 {
		return false // this code has to be whole
	}
	for i := 0; i < literals+distances; {
		s.fill()
		e := table[s.bits&127]
		if e == 0 || !s.drop(uint(e&255)) {
			return false
		}
		symbol := uint8(e >> 16)
		if symbol < 16 {
			d.lengths[i] = symbol
			i++
			continue
		}
		before, extra, n := uint8(0), uint(2), 3
		switch symbol {
		case 16:
			if i == 0 {
				return false
			}
			before = d.lengths[i-1]
		case 17:
			extra = 3
		default:
			extra, n = 7, 11
		}
		n += int(s.bits & (1<<extra - 1))
		if !s.drop(extra) || i+n > literals+distances {
			return false
		}
		for range n {
			d.lengths[i] = before
			i++
		}
	}
	return d.lengths[256] != 0 && // that a block ends can be told
		build(d.literals[:], literalBits, d.lengths[:literals], literal) &&
		build(d.distances[:], distanceBits, d.lengths[literals:literals+distances], distance)
}

// literal is what a code of literals and lengths means, 0 for nothing.
func literal(symbol int) uint32 {
	switch {
	case symbol < 256:
		return uint32(symbol)<<16 | isLiteral
	case symbol == 256:
		return isEnd
	case symbol < 265:
		return uint32(symbol-254) << 16
	case symbol < 285:
		extra := uint32(symbol-261) >> 2
		return (uint32(symbol-261)&3+4)<<extra<<16 + 3<<16 | extra<<8
	case symbol == 285:
		return 258 << 16
	}
	return 0
}

// distance is what a code of distances means.
func distance(symbol int) uint32 {
	if symbol < 4 {
		return uint32(symbol+1) << 16
	}
	if symbol < 30 {
		extra := uint32(symbol-2) >> 1
		return (uint32(symbol)&1+2)<<extra<<16 + 1<<16 | extra<<8
	}
	return 0
}

// build makes a table of the lengths of codes, by so many bits; longer codes have
// tables of their own behind it. It is false for lengths that make no code: that are
// too many, or too few, but for a single one of one bit, or none.
func build(table []uint32, root uint, lengths []uint8, meaning func(symbol int) uint32) bool {
	var count, next [16]int
	for _, n := range lengths {
		count[n]++
	}
	longest, left := 0, 1
	count[0] = 0
	for n := 1; n < 16; n++ {
		next[n] = (next[n-1] + count[n-1]) << 1
		if left = left<<1 - count[n]; left < 0 {
			return false
		}
		if count[n] > 0 {
			longest = n
		}
	}
	if left > 0 {
		if longest > 1 {
			return false
		}
		clear(table[:1<<root])
	}
	if longest > int(root) {
		clear(table[:1<<root])
		if subtables(table, root, lengths, next) > len(table) {
			return false
		}
	}
	for symbol, n := range lengths {
		if n == 0 {
			continue
		}
		code := int(bits.Reverse16(uint16(next[n])) >> (16 - n))
		next[n]++
		e := meaning(symbol)
		if e != 0 {
			e |= uint32(n)
		}
		from, end := 0, 1<<root
		if uint(n) > root {
			sub := table[code&(1<<root-1)]
			from = int(sub >> 16)
			end, code, n = from+1<<(sub>>8&15), code>>root, n-uint8(root)
		}
		for at := from + code; at < end; at += 1 << n {
			table[at] = e
		}
	}
	return true
}

// subtables finds out how many bits follow the first ones of longer codes, and puts
// where their tables are in the place of these.
func subtables(table []uint32, root uint, lengths []uint8, next [16]int) (size int) {
	for _, n := range lengths {
		if uint(n) > root {
			at := int(bits.Reverse16(uint16(next[n]))>>(16-n)) & (1<<root - 1)
			table[at] = max(table[at], uint32(n)-uint32(root))
		}
		next[n]++
	}
	size = 1 << root
	for at, more := range table[:1<<root] {
		if more > 0 {
			table[at] = uint32(size)<<16 | isTable | more<<8 | uint32(root)
			size += 1 << more
		}
	}
	return size
}

// block reads a block that is compressed.
func (s *state) block(d *Decoder) bool {
	dst, src, out := s.dst, s.src, s.out
	for {
		// Four literals have at most 40 bits.
		for len(src)-s.pos >= 8 && len(dst)-out >= 4 {
			s.bits |= binary.LittleEndian.Uint64(src[s.pos:]) << (s.valid & 63)
			s.pos += int(63-s.valid) >> 3
			s.valid |= 56
			e := d.literals[s.bits&(1<<literalBits-1)]
			if e&isLiteral == 0 {
				break
			}
			dst[out] = byte(e >> 16)
			out++
			s.bits >>= e & 63
			s.valid -= uint(e & 255)
			if e = d.literals[s.bits&(1<<literalBits-1)]; e&isLiteral == 0 {
				break
			}
			dst[out] = byte(e >> 16)
			out++
			s.bits >>= e & 63
			s.valid -= uint(e & 255)
			if e = d.literals[s.bits&(1<<literalBits-1)]; e&isLiteral == 0 {
				break
			}
			dst[out] = byte(e >> 16)
			out++
			s.bits >>= e & 63
			s.valid -= uint(e & 255)
			if e = d.literals[s.bits&(1<<literalBits-1)]; e&isLiteral == 0 {
				break
			}
			dst[out] = byte(e >> 16)
			out++
			s.bits >>= e & 63
			s.valid -= uint(e & 255)
		}
		s.fill()
		s.out = out
		e := d.literals[s.bits&(1<<literalBits-1)]
		if e&isTable != 0 {
			e = d.literals[e>>16+uint32(s.bits>>literalBits)&(1<<(e>>8&15)-1)]
		}
		if e == 0 || !s.drop(uint(e&255)) {
			return false
		}
		if e&isEnd != 0 {
			return true
		}
		if out == len(dst) {
			return false
		}
		if e&isLiteral != 0 {
			dst[out] = byte(e >> 16)
			out++
			continue
		}
		extra := uint(e >> 8 & 15)
		length := int(e>>16) + int(s.bits&(1<<extra-1))
		if !s.drop(extra) {
			return false
		}
		e = d.distances[s.bits&(1<<distanceBits-1)]
		if e&isTable != 0 {
			e = d.distances[e>>16+uint32(s.bits>>distanceBits)&(1<<(e>>8&15)-1)]
		}
		if e == 0 || !s.drop(uint(e&255)) {
			return false
		}
		extra = uint(e >> 8 & 15)
		back := int(e>>16) + int(s.bits&(1<<extra-1))
		if !s.drop(extra) || back > out {
			return false
		}
		end := min(out+length, len(dst))
		whole := end == out+length
		for from := out - back; out < end; { // what is copied may be what was just written
			out += copy(dst[out:end], dst[from:out])
		}
		if s.out = out; !whole {
			return false
		}
	}
}
