package envelope_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/envelope"
)

// render writes the fields and returns what stands between the fences.
func render(t testing.TB, f envelope.Fields) (file []byte, front string) {
	t.Helper()
	file, err := envelope.Render(f)
	if err != nil {
		t.Fatal(err)
	}
	front, _, ok := strings.Cut(strings.TrimPrefix(string(file), "---\n"), "\n---\n")
	if !ok {
		t.Fatalf("no fences in %q", file)
	}
	return file, front + "\n"
}

func TestRenderVectors(t *testing.T) {
	var vectors []struct {
		Value           string
		Reference       string
		ReferenceInList string `json:"reference_in_list"`
		Ours            string
		OursInList      string `json:"ours_in_list"`
		Reads           bool   `json:"ours_reads_reference"`
	}
	readJSON(t, "render.json", &vectors)
	if len(vectors) != 118 {
		t.Fatalf("%d vectors, expected 118", len(vectors))
	}
	for _, v := range vectors {
		if v.Value != "" { // an empty field is left out
			if _, front := render(t, envelope.Fields{TLDR: v.Value}); front != v.Ours+"\n" {
				t.Errorf("%q: %q, expected %q", v.Value, front, v.Ours)
			}
		}
		if _, front := render(t, envelope.Fields{To: []string{v.Value, "x"}}); front != v.OursInList+"\n" {
			t.Errorf("%q in a list: %q, expected %q", v.Value, front, v.OursInList)
		}
		for _, line := range []string{v.Ours, v.Reference, v.OursInList, v.ReferenceInList} {
			e, fs := envelope.Parse([]byte("---\n"+line+"\n---\n"), envelope.Options{})
			read := e != nil && (e.TLDR == v.Value || len(e.To) == 2 && e.To[0] == v.Value || v.Value == "" && len(e.To) == 1)
			ours := line == v.Ours || line == v.OursInList
			if read != (ours || v.Reads) {
				t.Errorf("%q: read back %v from %q: %v", v.Value, read, line, fs)
			}
		}
	}
}

func TestRenderWholeVectors(t *testing.T) {
	var vectors []struct {
		Frontmatter json.RawMessage
		Body        string
		Reference   string
		Back        struct {
			Equal bool `json:"frontmatter_equal"`
			Body  string
		} `json:"reference_reads_back"`
	}
	readJSON(t, "render_whole.json", &vectors)
	for _, v := range vectors {
		e, fs := envelope.Parse([]byte(v.Reference), envelope.Options{})
		if e == nil {
			t.Errorf("%q: %+v", v.Reference, fs)
			continue
		}
		if string(e.Body) != v.Back.Body {
			t.Errorf("%q: body %q, expected %q", v.Reference, e.Body, v.Back.Body)
		}
		var want map[string]any
		if err := json.Unmarshal(v.Frontmatter, &want); err != nil {
			t.Fatal(err)
		}
		var f envelope.Fields
		known := true
		for key, value := range want {
			s, _ := value.(string)
			switch key {
			case "from":
				f.From = s
			case "to":
				f.To = []string{s}
				if s == "" {
					known = false
				}
			case "date":
				f.Date = s
			case "status":
				f.Status = s
			case "type":
				f.Type = s
			case "thread":
				f.Thread = s
			case "body_hash":
				f.BodyHash = s
			default:
				known = false
			}
		}
		if !known {
			continue // keys that no envelope of ours has
		}
		f.Body = []byte(v.Body)
		if file, _ := render(t, f); string(file) != v.Reference {
			t.Errorf("%q, the reference writes %q", file, v.Reference)
		}
	}
}

func TestRenderOrder(t *testing.T) {
	f := envelope.Fields{From: "op-relay", To: []string{"win", "mac"}, Date: "2026-05-15", Status: "▶ Go", Type: "ACK", Thread: "t-one", InReplyTo: "a", AttestedBy: "SHA256:x", AttestedAt: "2026-05-15T00:00:00Z", Nonce: "n1",
		DisplayName: "Op", TLDR: strings.Repeat("long ", 100) + "line", References: []string{"a1b2c3d", "1234567", "1234e56"}, BodyHash: strings.Repeat("1", 64), Body: []byte("x  \r\n\r\n")}
	file, _ := render(t, f)
	want := "---\nfrom: op-relay\nto:\n  - win\n  - mac\ndate: 2026-05-15\nstatus: ▶ Go\ntype: ACK\nthread: t-one\nin_reply_to: a\nattested_by: SHA256:x\nattested_at: 2026-05-15T00:00:00Z\nnonce: n1\ndisplay_name: Op\ntldr: " + f.TLDR +
		"\nreferences:\n  - a1b2c3d\n  - \"1234567\"\n  - \"1234e56\"\nbody_hash: \"" + f.BodyHash + "\"\n---\nx\n"
	if string(file) != want {
		t.Errorf("%s\nexpected\n%s", file, want)
	}
	file, _ = render(t, envelope.Fields{From: "a", To: []string{"b"}, References: []string{}})
	if string(file) != "---\nfrom: a\nto: b\n---\n\n" {
		t.Errorf("%q", file)
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, f := range map[string]envelope.Fields{
		"bytes in a string":  {TLDR: "a\xff"},
		"bytes in a list":    {References: []string{"a\xed\xa0\x80"}},
		"bytes in the body":  {Body: []byte("a\xc3")},
		"large front matter": {TLDR: strings.Repeat("x", 65_530)},
		"large body":         {Body: bytes.Repeat([]byte("x"), 8<<20)},
	} {
		if _, err := envelope.Render(f); err == nil {
			t.Errorf("%s: rendered", name)
		}
	}
	if _, err := envelope.Render(envelope.Fields{TLDR: strings.Repeat("x", 65_529)}); err != nil {
		t.Error(err)
	}
}

// roundTrip is the law of docs/spec/envelope.md#rendering, on this side.
func roundTrip(t testing.TB, f envelope.Fields) []byte {
	t.Helper()
	file, err := envelope.Render(f)
	if err != nil {
		t.Fatal(err)
	}
	e, fs := envelope.Parse(file, envelope.Options{})
	if e == nil {
		if file[4] == '-' {
			return file // no key at all
		}
		t.Fatalf("%q: %+v", file, fs)
	}
	got := envelope.Fields{From: e.From, To: e.To, Date: e.Date, Status: e.Status, Type: e.Type, Thread: e.Thread, InReplyTo: e.InReplyTo, AttestedBy: e.AttestedBy, AttestedAt: e.AttestedAt, Nonce: e.Nonce,
		DisplayName: e.DisplayName, TLDR: e.TLDR, References: e.References, BodyHash: e.BodyHash, Body: e.Body}
	f.Body = envelope.NormalizeBody(f.Body)
	if !reflect.DeepEqual(got, f) {
		t.Fatalf("%q\n read back %+v\n expected  %+v", file, got, f)
	}
	if e.Hash != envelope.BodyHash(f.Body) {
		t.Fatal("hash")
	}
	again, err := envelope.Render(got)
	if err != nil || !bytes.Equal(again, file) {
		t.Fatalf("%q, again %q", file, again)
	}
	return file
}

// randomString is of pieces that YAML reads in its own way.
func randomString(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		switch r.IntN(4) {
		case 0:
			if p := pieces[r.IntN(len(pieces))]; utf8.ValidString(p) {
				b.WriteString(p)
			}
		case 1:
			b.WriteRune(rune(r.IntN(0x3100)))
		case 2:
			for {
				if c := rune(r.IntN(0x110000)); utf8.ValidRune(c) {
					b.WriteRune(c)
					break
				}
			}
		default:
			b.WriteByte("aZ09 -:#'\"\\?,[]{}&*!|>%@`~.e+_=<"[r.IntN(32)])
		}
	}
	if b.Len() == 0 {
		return "x"
	}
	return b.String()
}

func randomFields(r *rand.Rand) envelope.Fields {
	s := func() string {
		if r.IntN(3) == 0 {
			return ""
		}
		return randomString(r)
	}
	f := envelope.Fields{From: randomString(r), Date: s(), Status: s(), Type: s(), Thread: s(), InReplyTo: s(), AttestedBy: s(), AttestedAt: s(), Nonce: s(), DisplayName: s(), TLDR: s(), BodyHash: s(), Body: []byte(s())}
	for range r.IntN(4) {
		f.To = append(f.To, randomString(r))
		id := randomString(r)
		if !slices.Contains(f.References, id) {
			f.References = append(f.References, id)
		}
	}
	return f
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(number("RIGWARD_SEED", 1)), 1))
	for range number("RIGWARD_ROUNDTRIPS", 3000) {
		roundTrip(t, randomFields(r))
	}
}

// TestReferenceRoundTrip is the law of docs/spec/envelope.md#rendering on the other side.
func TestReferenceRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(number("RIGWARD_SEED", 1)), 2))
	files := make([][]byte, number("RIGWARD_ROUNDTRIPS", 3000))
	for i := range files {
		files[i] = roundTrip(t, randomFields(r))
	}
	for i, a := range reference(t, files) {
		e, _ := envelope.Parse(files[i], envelope.Options{})
		if !a.Parsed || a.Hash != e.Hash || !reflect.DeepEqual(generic(t, e), a.Frontmatter) {
			t.Errorf("%q: the reference reads %+v", files[i], a)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, p := range pieces {
		f.Add(p, "x", p)
	}
	f.Add("1234567", " a: b #", "a \t\r\n\ufeff")
	f.Add("", "0", "0")
	f.Fuzz(func(t *testing.T, a, b, body string) {
		fields := envelope.Fields{From: "mac", TLDR: a, Status: b, To: []string{a, b}, References: []string{b}, Body: []byte(body)}
		if !utf8.ValidString(a) || !utf8.ValidString(b) || !utf8.ValidString(body) {
			if _, err := envelope.Render(fields); err == nil {
				t.Error("rendered what is not UTF-8")
			}
			return
		}
		if len(a)+len(b) > 10_000 || len(body) > 1<<20 {
			return
		}
		if a == "" || b == "" {
			fields.To = nil // an empty recipient is read as a fault, not as a recipient
		}
		roundTrip(t, fields)
	})
}
