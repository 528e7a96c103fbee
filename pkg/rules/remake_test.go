package rules

import (
	"bytes"
	"strings"
	"testing"
)

// TestResign: what a hint says of the tip is no reason to find less, whatever the tip is.
func TestResign(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		tip, want string
		fails     bool
	}{
		{w.commit("plain", put("README.md", "x\n")), "", false},
		{w.commit("signed", signed(keyOp), put("README.md", "y\n")), " --gpg-sign", false},
		{w.commit("malformed", raw(func(b []byte) []byte { return bytes.Replace(b, []byte("author"), []byte("writer"), 1) })), "", false},
		{strings.Repeat("1", 40), "", true},
	} {
		flag, err := (&Judge{Repo: w.fake}).Resign(c.tip)
		if flag != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", w.names[c.tip], flag, err)
		}
	}
}
