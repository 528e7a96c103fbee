package resident

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

var calls = []Call{
	{Dir: "/srv/git/team.git", Dev: 1 << 40, Ino: 7, Umask: 0o22, Args: []string{"pre-receive"}, Environ: []string{"GIT_DIR=.", "PATH=/bin"}},
	{Dir: "/", Umask: 0o777, Args: []string{"update", "refs/heads/main", "", "a\nb"}, Environ: []string{}},
}

// TestCall reads back what was written, and nothing else.
func TestCall(t *testing.T) {
	for _, c := range calls {
		data, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := Size([HeaderSize]byte(data)); !ok || n != len(data)-HeaderSize {
			t.Errorf("%d, %t", n, ok)
		}
		if got, err := Parse(data[HeaderSize:]); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v, %v", got, err)
		}
		for i := range data[HeaderSize:] {
			if _, err := Parse(data[HeaderSize : HeaderSize+i]); err == nil && i < 30 {
				t.Errorf("the first %d bytes are read", i)
			}
		}
	}
	for _, c := range []Call{{Args: []string{"a\x00b"}}, {Environ: []string{"A=\x00"}}, {Environ: []string{strings.Repeat("x", maxCall)}}} {
		if _, err := c.Marshal(); err == nil {
			t.Errorf("%.40q is written", c.Args)
		}
	}
	if _, ok := Size([HeaderSize]byte{0xff, 0xff, 0xff, 0xff}); ok {
		t.Error("4 GiB are allowed")
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range calls {
		data, _ := c.Marshal()
		f.Add(data[HeaderSize:])
	}
	f.Add([]byte("1\x00/\x001\x001\x0018\x00-1\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			return
		}
		again, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		// Numbers have more than one spelling; what was read is one of them.
		if got, err := Parse(again[HeaderSize:]); err != nil || !reflect.DeepEqual(got, c) || len(c.Args) == 0 || bytes.IndexByte(again[HeaderSize:], 0) < 0 {
			t.Errorf("%+v, then %+v, %v", c, got, err)
		}
	})
}
