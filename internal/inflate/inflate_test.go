package inflate

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/adler32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// streamed is what the standard library reads of a stream, of at most so many bytes,
// and how many bytes of src the stream has.
func streamed(src []byte, most int) (data []byte, used int, ok bool) {
	in := bytes.NewReader(src) // of which no more is read than needed
	z, err := zlib.NewReader(in)
	if err != nil {
		return nil, 0, false
	}
	data, err = io.ReadAll(io.LimitReader(z, int64(most)+1))
	if err != nil || len(data) > most {
		return data[:min(len(data), most)], 0, false
	}
	return data, len(src) - in.Len(), true
}

func compressed(t testing.TB, level int, data []byte) []byte {
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// samples are texts of the kinds that objects are of.
func samples() (list [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 70_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var tree, skewed bytes.Buffer
	for i := range 3000 {
		tree.WriteString("40000 thread-" + string(rune('a'+i%26)) + "\x00")
		tree.Write(noise[20*i : 20*i+20])
	}
	for i := range 20 { // codes of up to 15 bits
		skewed.WriteString(strings.Repeat(string(rune('a'+i)), 1<<(19-i)))
	}
	return [][]byte{nil, []byte("a"), []byte("The work goes on\n"), bytes.Repeat([]byte("x"), 100_000), noise, tree.Bytes(), skewed.Bytes()}
}

func TestZlib(t *testing.T) {
	var d Decoder
	for i, data := range samples() {
		for level := -2; level <= 9; level++ {
			src := compressed(t, level, data)
			dst := make([]byte, len(data))
			n, used, ok := d.Zlib(dst, append(src, "more"...))
			if !ok || n != len(data) || used != len(src) || !bytes.Equal(dst, data) {
				t.Fatalf("sample %d, level %d: %d of %d bytes, %d of %d used, %t", i, level, n, len(data), used, len(src), ok)
			}
			if len(data) == 0 {
				continue
			}
			if n, _, ok := d.Zlib(dst[:len(data)-1], src); ok || n != len(data)-1 || !bytes.Equal(dst[:n], data[:n]) {
				t.Fatalf("sample %d, level %d: the beginning: %d bytes, %t", i, level, n, ok)
			}
			if _, _, ok := d.Zlib(append(dst, 0), src); ok {
				t.Fatalf("sample %d, level %d: it is taken for longer than it is", i, level)
			}
			if _, _, ok := d.Zlib(make([]byte, 1), compressed(t, 9, []byte("a"))); !ok {
				t.Fatalf("sample %d, level %d: behind it, what needs no codes of its own is refused", i, level)
			}
			for range 40 {
				cut := rand.IntN(len(src))
				if _, _, ok := d.Zlib(dst, src[:cut]); ok {
					t.Fatalf("sample %d, level %d: %d of %d bytes are taken for the stream", i, level, cut, len(src))
				}
			}
		}
	}
}

// Whatever lies there, it is what compress/zlib reads of it: the same bytes, the same
// end, and nothing that is refused there. What zlib takes and compress/zlib does not
// need not be taken.
func FuzzZlib(f *testing.F) {
	for _, data := range samples() {
		for _, level := range []int{-2, 0, 1, 9} {
			if src := compressed(f, level, data[:min(len(data), 3000)]); len(src) < 5000 {
				f.Add(src)
			}
		}
	}
	f.Add([]byte("\x78\x9c\x4b\x04\x00\x00\x62\x00\x62"))
	f.Add([]byte("\x78\x01\x05\xe0\x81\x08\x00\x00\x00\x00\x20\x7f\xeb\x0b\x00\x00\x00\x01"))
	var d Decoder
	f.Fuzz(func(t *testing.T, src []byte) {
		const most = 1 << 16
		for _, s := range [][]byte{src, sealed(src, most)} {
			want, end, whole := streamed(s, most)
			dst := make([]byte, len(want))
			n, used, ok := d.Zlib(dst, s)
			if ok != whole || ok && (used != end || n != len(want)) {
				t.Fatalf("%t, %d bytes of %d; expected %t, %d bytes of %d", ok, n, used, whole, len(want), end)
			}
			if !bytes.Equal(dst[:n], want[:n]) {
				t.Fatal("other bytes")
			}
			more := make([]byte, most)
			if n, _, ok := d.Zlib(more, s); ok != (whole && len(want) == most) || n < len(want) && whole {
				t.Fatalf("with more room: %d bytes, %t", n, ok)
			}
		}
	})
}

// sealed gives what may be a stream a head and the checksum of what it says.
func sealed(src []byte, most int) []byte {
	src = append([]byte{0x78, 0x01}, src...)
	data, _, _ := streamed(src, most)
	return binary.BigEndian.AppendUint32(src, adler32.Checksum(data))
}

func BenchmarkZlib(b *testing.B) {
	data := samples()[5]
	src := compressed(b, 1, data)
	b.Run("here", func(b *testing.B) {
		var d Decoder
		dst := make([]byte, len(data))
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, _, ok := d.Zlib(dst, src); !ok {
				b.Fatal("not read")
			}
		}
	})
	b.Run("compress/zlib", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, _, ok := streamed(src, len(data)); !ok {
				b.Fatal("not read")
			}
		}
	})
}
