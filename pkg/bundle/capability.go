package bundle

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/rigward/rigward/pkg/screen"
)

// A Capability is one thing that a bundle may do, apart from its bytes: what it
// runs, loads, asks for or may be allowed (docs/spec/rigbundle.md#capabilities).
type Capability struct {
	Kind  string // hook, startup, plugin, permission, program … as the format has it
	Where string // seat, field or file that says so; "" for the whole bundle
	Text  string // in words of the format; text of the bundle is quoted in it
}

// A CapabilityChange is what became of one: Old is "" where it is new, New where it
// is gone. What is new or another one is a gain.
type CapabilityChange struct {
	Kind  string `json:"kind"`
	Where string `json:"where"`
	Old   string `json:"old"`
	New   string `json:"new"`
	Gain  bool   `json:"gain"`
}

// capabilityOrder is in which order kinds are told, the most telling first; others
// follow.
var capabilityOrder = []string{"entry", "hook", "startup", "permission", "plugin", "service", "network", "environment", "needs", "program", "binary", "settings", "seat"}

// CompareCapabilities pairs what two bundles may do by kind and place, in order:
// gains first. What both have is left out.
func CompareCapabilities(a, b []Capability) []CapabilityChange {
	type place struct{ kind, where string }
	left := map[place][]string{}
	had := map[Capability]int{}
	for _, c := range a {
		had[c]++
	}
	out := []CapabilityChange{}
	var news []Capability
	for _, c := range b {
		if had[c] > 0 {
			had[c]--
		} else {
			news = append(news, c)
		}
	}
	for _, c := range a {
		if had[c] > 0 {
			had[c]--
			at := place{c.Kind, c.Where}
			left[at] = append(left[at], c.Text)
		}
	}
	for _, c := range news {
		change := CapabilityChange{Kind: c.Kind, Where: shown(c.Where), New: shown(c.Text), Gain: true}
		if at := (place{c.Kind, c.Where}); len(left[at]) > 0 {
			change.Old = shown(left[at][0])
			left[at] = left[at][1:]
		}
		out = append(out, change)
	}
	for at, texts := range left {
		for _, text := range texts {
			out = append(out, CapabilityChange{Kind: at.kind, Where: shown(at.where), Old: shown(text)})
		}
	}
	rank := func(kind string) int {
		if i := slices.Index(capabilityOrder, kind); i >= 0 {
			return i
		}
		return len(capabilityOrder)
	}
	slices.SortStableFunc(out, func(x, y CapabilityChange) int {
		switch {
		case x.Gain && !y.Gain:
			return -1
		case y.Gain && !x.Gain:
			return 1
		}
		return cmp.Or(cmp.Compare(rank(x.Kind), rank(y.Kind)), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Where, y.Where), cmp.Compare(x.New, y.New), cmp.Compare(x.Old, y.Old))
	})
	return out
}

// shown is text as it may be shown: without control characters and secrets.
func shown(s string) string { return screen.HideIn(EscapeLine(s)) }

// binaryMagic are the beginnings of programs that no person reads: ELF, Mach-O in
// both orders and of several architectures, PE, WebAssembly.
var binaryMagic = [][]byte{[]byte("\x7fELF"), []byte("\xfe\xed\xfa\xce"), []byte("\xfe\xed\xfa\xcf"), []byte("\xce\xfa\xed\xfe"), []byte("\xcf\xfa\xed\xfe"),
	[]byte("\xca\xfe\xba\xbe"), []byte("MZ"), []byte("\x00asm")}

// IsBinary reports whether content begins as a compiled program does.
func IsBinary(head []byte) bool {
	return slices.ContainsFunc(binaryMagic, func(m []byte) bool { return bytes.HasPrefix(head, m) })
}

// Programs are the capabilities that any archive has by its files: those that may be
// run, and compiled ones, whatever their mode.
func (a *Archive) Programs(ctx context.Context) (list []Capability, err error) {
	err = a.Walk(ctx, func(m *Member, content io.Reader) error {
		if m.Type != File {
			return nil
		}
		if m.Mode&0o111 != 0 {
			list = append(list, Capability{"program", m.Name, "may be run as a program"})
		}
		var head [4]byte
		n, err := io.ReadFull(content, head[:])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		if IsBinary(head[:n]) {
			list = append(list, Capability{"binary", m.Name, "is a compiled program"})
		}
		return nil
	})
	return list, err
}
