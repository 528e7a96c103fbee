package envelope_test

import (
	"bytes"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
)

// FuzzHead: the head of a file reads as the file does, and of a beginning of
// the file it is the same or none.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{"---\n---", "\ufeff---\r\nfrom: a\r\n---\r\nx", "---\rfrom: a\r---", "---\nx\n---x\n---\n", "--- \n", "---", ""} {
		f.Add([]byte(seed), 9)
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		head, ok := envelope.Head(data, int64(len(data)))
		if ok && !bytes.HasPrefix(data, head) || ok && !envelope.HasFence(data) {
			t.Fatalf("the head of %q is %q", data, head)
		}
		whole, _ := envelope.Parse(data, envelope.Options{})
		if whole != nil {
			short, _ := envelope.Parse(head, envelope.Options{})
			if short == nil || short.Nonce != whole.Nonce || short.From != whole.From || short.Valid() != whole.Valid() {
				t.Fatalf("the head of %q reads otherwise", data)
			}
		}
		if cut >= 0 && cut < len(data) {
			if part, found := envelope.Head(data[:cut], int64(len(data))); found && !bytes.Equal(part, head) {
				t.Fatalf("of %d bytes of %q the head is %q", cut, data, part)
			}
			if n := min(len(data), envelope.FenceBytes); envelope.HasFence(data[:n]) != envelope.HasFence(data) {
				t.Fatalf("%d bytes of %q do not tell whether it has a fence", n, data)
			}
		}
	})
}
