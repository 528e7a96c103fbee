package sshsign

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

const (
	krlMagic = "SSHKRL\n\x00"

	// maxKRL limits a key revocation list, in bytes.
	maxKRL = 16 << 20
	// maxBitmap limits one bitmap of serial numbers, in bytes (sshbuf.h,
	// SSHBUF_MAX_BIGNUM).
	maxBitmap = 16384 / 8
)

// Section types of OpenSSH PROTOCOL.krl.
const (
	krlCertificates = 1
	krlExplicitKey  = 2
	krlSHA1         = 3
	krlSignature    = 4
	krlSHA256       = 5

	krlSerialList   = 0x20
	krlSerialRange  = 0x21
	krlSerialBitmap = 0x22
	krlKeyID        = 0x23
)

// parseKRL reads a key revocation list (OpenSSH PROTOCOL.krl). A section of an
// unknown type, or bytes too many or too few anywhere, is an error: a list
// that is understood in part would let keys pass that it revokes.
func (r *Revocations) parseKRL(data []byte) error {
	if len(data) > maxKRL {
		return &ParseError{Message: fmt.Sprintf("the key revocation list is larger than %d MiB", maxKRL>>20)}
	}
	b, ok := bytes.CutPrefix(data, []byte(krlMagic))
	in := reader{rest: b, bad: !ok}
	version := in.uint32()
	if !in.bad && version != 1 {
		return krlError("has format version %d; there is only 1", version)
	}
	in.uint64() // version of the list
	in.uint64() // when it was made
	in.uint64() // flags, none are defined
	in.bytes()  // reserved
	if comment := in.bytes(); bytes.IndexByte(comment, 0) >= 0 {
		in.bad = true
	}
	for !in.bad && len(in.rest) > 0 {
		kind := in.uint8()
		section := in.section()
		switch kind {
		case krlCertificates:
			if err := r.parseCerts(&section); err != nil {
				return err
			}
		case krlExplicitKey:
			for section.more() {
				if blob := section.bytes(); !section.bad {
					r.keys[string(blob)] = true
				}
			}
		case krlSHA1:
			for section.more() {
				if blob := section.bytes(); len(blob) == sha1.Size {
					r.sha1[[sha1.Size]byte(blob)] = true
				} else {
					section.bad = true
				}
			}
		case krlSHA256:
			for section.more() {
				if blob := section.bytes(); len(blob) == sha256.Size {
					r.sha256[[sha256.Size]byte(blob)] = true
				} else {
					section.bad = true
				}
			}
		case krlSignature:
			return krlError("is signed, which is not supported; write it without a signature")
		default:
			if !section.bad {
				return krlError("has a section of the unknown type %d", kind)
			}
		}
		in.bad = in.bad || section.bad
	}
	if in.bad {
		return krlError("is damaged or cut off")
	}
	for _, c := range r.certs {
		c.serials = merge(c.serials)
	}
	return nil
}

// parseCerts reads a certificate section.
func (r *Revocations) parseCerts(in *reader) error {
	authority := string(in.bytes())
	in.bytes() // reserved
	if authority != "" && !in.bad {
		if _, ok := revocableBlob([]byte(authority)); !ok {
			return krlError("names an authority whose key cannot be read")
		}
	}
	c := r.certs[authority]
	if c == nil {
		c = &revokedCerts{ids: map[string]bool{}}
		r.certs[authority] = c
	}
	for in.more() {
		kind := in.uint8()
		section := in.section()
		switch kind {
		case krlSerialList:
			for section.more() {
				serial := section.uint64()
				section.revoke(c, serial, serial)
			}
		case krlSerialRange:
			low := section.uint64()
			section.revoke(c, low, section.uint64())
		case krlSerialBitmap:
			if b := section.bitmap(); !section.bad && len(b.bits) > 0 {
				c.bitmaps = append(c.bitmaps, b)
			}
		case krlKeyID:
			for section.more() {
				if id := section.bytes(); bytes.IndexByte(id, 0) >= 0 {
					section.bad = true
				} else if !section.bad {
					c.ids[string(id)] = true
				}
			}
		default:
			if !section.bad {
				return krlError("has a certificate section of the unknown type %d", kind)
			}
		}
		in.bad = in.bad || section.bad || len(section.rest) > 0
	}
	return nil
}

// bitmap reads an offset and an mpint whose bit n revokes offset + n. There is
// no serial number 0, so no bit may stand for it or reach round to it.
func (r *reader) bitmap() serialBitmap {
	b := serialBitmap{offset: r.uint64(), bits: r.bytes()}
	negative := len(b.bits) > 0 && b.bits[0]&0x80 != 0
	b.bits = bytes.Clone(bytes.TrimLeft(b.bits, "\x00"))
	n := len(b.bits)
	if n == 0 {
		return b
	}
	top := uint64(8*(n-1) + bits.Len8(b.bits[0]) - 1)
	zero := b.offset == 0 && b.bits[n-1]&1 != 0
	if negative || n > maxBitmap || zero || b.offset+top < b.offset {
		r.bad = true
	}
	return b
}

// revoke adds a range of serial numbers, which cannot begin with 0.
func (r *reader) revoke(c *revokedCerts, low, high uint64) {
	if low == 0 || low > high {
		r.bad = true
	}
	if !r.bad {
		c.serials = append(c.serials, serialRange{low, high})
	}
}

// merge sorts ranges and joins those that overlap or touch.
func merge(ranges []serialRange) []serialRange {
	slices.SortFunc(ranges, func(a, b serialRange) int { return cmp.Compare(a.low, b.low) })
	var merged []serialRange
	for _, r := range ranges {
		if n := len(merged); n > 0 && r.low-1 <= merged[n-1].high {
			merged[n-1].high = max(merged[n-1].high, r.high)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

func krlError(format string, args ...any) error {
	return &ParseError{
		Message: "the key revocation list " + fmt.Sprintf(format, args...),
		Hint:    "ssh-keygen -Q -l -f <file> shows what ssh-keygen reads in it",
	}
}

// A reader takes the data types of RFC 4251 section 5 from bytes. After bad
// is set it yields zero values.
type reader struct {
	rest []byte
	bad  bool
}

// section reads a string whose content has a structure of its own.
func (r *reader) section() reader {
	b := r.bytes()
	return reader{rest: b, bad: r.bad}
}

func (r *reader) more() bool { return !r.bad && len(r.rest) > 0 }

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uint8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// bytes reads a string: its length, then so many bytes.
func (r *reader) bytes() []byte { return r.take(uint64(r.uint32())) }
