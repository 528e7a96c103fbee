package gitrepo

import (
	"bytes"
	"compress/zlib"
	"io"
)

// An inflater reads what zlib has compressed (RFC 1950) and lies in memory, one after the
// other. The zero value is ready.
type inflater struct {
	in bytes.Reader // of which no more is read than needed
	z  io.ReadCloser
}

// zlib decompresses a stream at the beginning of src into dst. It returns how many bytes of
// dst are written, how many of src are the stream, and whether that is whole: it fills dst
// exactly and its checksum holds. Where it is not, used says nothing, and what is written
// is what the stream begins with.
func (i *inflater) zlib(dst, src []byte) (written, used int, ok bool) {
	i.in.Reset(src)
	var err error
	if i.z == nil {
		var z io.ReadCloser
		if z, err = zlib.NewReader(&i.in); err == nil {
			i.z = z
		}
	} else {
		err = i.z.(zlib.Resetter).Reset(&i.in, nil)
	}
	if err != nil {
		return 0, 0, false
	}
	if written, err = io.ReadFull(i.z, dst); err != nil {
		return written, 0, false
	}
	var more [1]byte
	n, err := i.z.Read(more[:])
	return written, len(src) - i.in.Len(), n == 0 && err == io.EOF
}
