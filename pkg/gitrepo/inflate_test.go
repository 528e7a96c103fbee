package gitrepo

import (
	"bytes"
	"compress/zlib"
	"math/rand/v2"
	"strings"
	"testing"
)

func zlibOf(t testing.TB, level int, data []byte) []byte {
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

func TestInflate(t *testing.T) {
	var d inflater
	for i, data := range samples() {
		for level := -2; level <= 9; level++ {
			src := zlibOf(t, level, data)
			dst := make([]byte, len(data))
			n, used, ok := d.zlib(dst, append(src, "more"...))
			if !ok || n != len(data) || used != len(src) || !bytes.Equal(dst, data) {
				t.Fatalf("sample %d, level %d: %d of %d bytes, %d of %d used, %t", i, level, n, len(data), used, len(src), ok)
			}
			if len(data) == 0 {
				continue
			}
			if n, _, ok := d.zlib(dst[:len(data)-1], src); ok || n != len(data)-1 || !bytes.Equal(dst[:n], data[:n]) {
				t.Fatalf("sample %d, level %d: the beginning: %d bytes, %t", i, level, n, ok)
			}
			if _, _, ok := d.zlib(append(dst, 0), src); ok {
				t.Fatalf("sample %d, level %d: it is taken for longer than it is", i, level)
			}
			for range 40 {
				cut := rand.IntN(len(src))
				if _, _, ok := d.zlib(dst, src[:cut]); ok {
					t.Fatalf("sample %d, level %d: %d of %d bytes are taken for the stream", i, level, cut, len(src))
				}
			}
		}
	}
}
