package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestUSTAR holds the layout to recorded bytes, on names around every border
// of the ustar fields: another release of Go must write the same.
func TestUSTAR(t *testing.T) {
	headers := sha256.New()
	rng := rand.New(rand.NewPCG(1, 2))
	name := func() string {
		alphabet := []string{"a", "b", "-", ".x", "é", "日", " "}
		if rng.IntN(2) == 0 {
			alphabet = alphabet[:3]
		}
		var parts []string
		for total := rng.IntN(290); total >= 0; {
			n := 1 + rng.IntN(110)
			var c strings.Builder
			for c.Len() < n {
				c.WriteString(alphabet[rng.IntN(len(alphabet))])
			}
			parts = append(parts, c.String())
			total -= c.Len() + 1
		}
		return strings.Join(parts, "/")
	}
	for i := range 4000 {
		m := Member{Name: name(), Type: File, Mode: 0o644, Size: int64(rng.IntN(3))}
		switch rng.IntN(5) {
		case 0:
			m.Type, m.Size, m.Mode = Dir, 0, 0o755
		case 1:
			m.Type, m.Size, m.Link = Symlink, 0, name()
		case 2:
			m.Size = 1<<33 - 2 + int64(rng.IntN(4))
		}
		got, err := USTAR{ModTime: int64(i)}.AppendHeader(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		headers.Write(got)
	}
	if got, want := hex.EncodeToString(headers.Sum(nil)), "e3edbfda0fa0effda480c165b3987f88f2e00d412192503be0d7b8c8460dbd01"; got != want {
		t.Errorf("the headers have the digest %s, want %s", got, want)
	}
}

func TestWriteThenScan(t *testing.T) {
	ctx := context.Background()
	entries := []Entry{
		BytesEntry("b.txt", 0o644, []byte("b\n")),
		BytesEntry("a/"+strings.Repeat("é", 80)+".txt", 0o755, bytes.Repeat([]byte("x"), 700_000)),
		{Member: Member{Name: "a", Type: Dir, Mode: 0o755}},
		{Member: Member{Name: "l", Type: Symlink, Link: "b.txt"}},
	}
	for _, c := range []Compression{Gzip, Zstd} {
		var out bytes.Buffer
		done, err := WriteArchive(ctx, &out, c, USTAR{}, entries)
		if err != nil {
			t.Fatal(err)
		}
		p := &Profile{Limits: DefaultLimits(), Compressions: []Compression{Gzip, Zstd}, Links: true, Layout: USTAR{},
			Keep: func(m *Member) int64 { return 10 }, KeepBudget: 100}
		a, err := Scan(ctx, bytes.NewReader(out.Bytes()), int64(out.Len()), p)
		if err != nil || a.Fault != nil {
			t.Fatalf("%v: %v %v", c, err, a.Fault)
		}
		if a.TarDigest != done.TarDigest || a.TarSize != done.TarSize || a.NotCanonical != "" {
			t.Errorf("%v: digest %v want %v, size %d want %d, %q", c, a.TarDigest, done.TarDigest, a.TarSize, done.TarSize, a.NotCanonical)
		}
		if len(a.Members) != 4 || a.Member("b.txt").SHA256 != Sum([]byte("b\n")) || string(a.Kept["b.txt"]) != "b\n" {
			t.Errorf("%v: members %+v", c, a.Members)
		}
		got, err := a.Contents(ctx, "b.txt", entries[1].Name)
		if err != nil || len(got[entries[1].Name]) != 700_000 {
			t.Errorf("%v: contents %v %v", c, got, err)
		}
		for cut := 0; cut < out.Len(); cut += 1 + out.Len()/97 {
			a, err := Scan(ctx, bytes.NewReader(out.Bytes()[:cut]), int64(cut), p)
			if err != nil || a.Fault == nil {
				t.Fatalf("%v cut at %d: accepted (%v)", c, cut, err)
			}
		}
		more := append(bytes.Clone(out.Bytes()), 0)
		a, err = Scan(ctx, bytes.NewReader(more), int64(len(more)), p)
		if err != nil || a.Fault == nil || a.Fault.Code != ContainerTrailingData {
			t.Errorf("F14 %v with a byte after the end: %v %v", c, a.Fault, err)
		}
	}
}
