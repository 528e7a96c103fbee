package envelope

import (
	"bytes"
	"strings"
	"testing"
)

// buried is a message and what Bury makes of it.
func buried(t testing.TB, change func(*Tombstone)) (old, text []byte, stone *Tombstone) {
	old, err := Render(Fields{From: "rig-a", To: []string{"rig-b", "rig-c"}, Date: "2026-01-05", Status: "⏸ Waiting for a token",
		Type: "REQUEST", Thread: "t-one", TLDR: "A token", DisplayName: "A", References: []string{"0123456"}, Body: []byte("A token.\n")})
	if err != nil {
		t.Fatal(err)
	}
	stone = &Tombstone{Path: "t-one/REQUEST.md", Repository: strings.Repeat("a", 40), Ref: "refs/heads/main", By: "op@example.com",
		At: "2026-01-05T09:00:00Z", Why: "an access token"}
	if change != nil {
		change(stone)
	}
	text, err = Bury(old, stone, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return old, text, stone
}

// TestBury: what stays of a message, and what goes.
func TestBury(t *testing.T) {
	old, text, stone := buried(t, nil)
	e, fs := Parse(text, Options{Path: stone.Path, Mode: 0o100644})
	if e == nil || len(fs) > 0 {
		t.Fatalf("%q: %v", text, fs)
	}
	was, _ := Parse(old, Options{})
	if e.Hash != was.Hash || e.BodyHash != was.Hash || e.From != was.From || len(e.To) != 2 || e.Type != was.Type || len(e.References) != 1 {
		t.Errorf("%+v", e)
	}
	if StatusClass(e.Status) != "pending" || strings.Contains(string(text), "A token") || e.TLDR+e.DisplayName != "" {
		t.Errorf("%s", text)
	}
	again, err := Buries(old, text, DefaultLimits())
	if err != nil || again.Why != stone.Why || again.Replaces != stone.Replaces || !bytes.Equal(again.Signed, text) {
		t.Errorf("%v %+v", err, again)
	}
	approved := Approve(text, []byte("one\n"), []byte("two\n"))
	if again, err = Buries(old, approved, DefaultLimits()); err != nil || string(again.Approvals) != "one\ntwo\n" || !bytes.Equal(again.Signed, text) {
		t.Errorf("%v %+v", err, again)
	}
	for what, change := range map[string]func(*Tombstone){
		"why is empty":                                    func(s *Tombstone) { s.Why = "" },
		"why is not text on one line":                     func(s *Tombstone) { s.Why = "a\nb" },
		"why has 301 characters, at most 300 are allowed": func(s *Tombstone) { s.Why = strings.Repeat("x", 301) },
		"at is not a time such as 2026-01-05T09:00:00Z":   func(s *Tombstone) { s.At = "2026-01-05" },
		"by is not text on one line":                      func(s *Tombstone) { s.By = " op" },
	} {
		s := *stone
		change(&s)
		if _, err := Bury(old, &s, DefaultLimits()); err == nil || err.Error() != what {
			t.Errorf("got %v, want %s", err, what)
		}
	}
}

// FuzzBuries: of one message nothing is a tombstone but what Bury writes, with
// approvals behind it.
func FuzzBuries(f *testing.F) {
	old, text, _ := buried(f, nil)
	f.Add(text)
	f.Add(Approve(text, []byte("-----BEGIN SSH SIGNATURE-----\n")))
	f.Add(old)
	f.Add([]byte("---\nfrom: rig-a\n---\nrigward tombstone 1\n\npath: x\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		stone, err := Buries(old, file, DefaultLimits())
		if err != nil {
			return
		}
		again := *stone
		made, err := Bury(old, &again, DefaultLimits())
		if err != nil || !bytes.Equal(made, stone.Signed) || len(stone.Approvals) == 0 && !bytes.Equal(made, file) || !bytes.HasPrefix(file, made) {
			t.Fatalf("%q is taken for a tombstone: %v", file, err)
		}
		e, _ := Parse(file, Options{})
		was, _ := Parse(old, Options{})
		if e.From != was.From || e.Type != was.Type || e.Thread != was.Thread || e.Hash != was.Hash {
			t.Fatalf("%q is another message", file)
		}
	})
}
