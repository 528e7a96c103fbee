package envelope_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/relay"
)

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"ok-with-body-hash.md", "ok-relay.md", "to-array-two.md", "doc-seed-sample-comments.md"} {
		data, err := os.ReadFile(vectorDir + "/" + name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e, _ := envelope.Parse(data, envelope.Options{Path: "t-one/x.md", Mode: 0o100644})
				relay.CheckContent(e)
			}
		})
	}
}

// Linear: the work for 400,000 blanks is not much more than ten times that for
// 40,000.
func BenchmarkNormalizeBody(b *testing.B) {
	for _, n := range []int{40_000, 400_000} {
		blanks := bytes.Repeat([]byte(" "), n)
		for name, body := range map[string][]byte{
			"inside":   append(append([]byte("a"), blanks...), "b\n"...),
			"trailing": append(append([]byte("a"), blanks...), "\nb\n"...),
			"lines":    bytes.Repeat([]byte(" \n"), n/2),
			"cr":       bytes.Repeat([]byte(" \r"), n/2),
		} {
			b.Run(fmt.Sprint(n)+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					envelope.NormalizeBody(body)
				}
			})
		}
	}
}
