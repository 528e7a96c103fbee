package gitrepo

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

const (
	who    = "A U Thor <a@example.com> 1767603600 +0100"
	signed = "tree " + treeA + "\nparent " + blobA + "\nauthor " + who + "\ncommitter C <c@example.com> 0 -0000\n" +
		"encoding latin1\ngpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lH\n \n -----END SSH SIGNATURE-----\nflag\n\nsubject\n\nbody\n"
)

func TestParseCommit(t *testing.T) {
	c, err := ParseCommit(blobA, []byte(signed))
	if err != nil {
		t.Fatal(err)
	}
	if c.Tree != treeA || !slices.Equal(c.Parents, []ID{blobA}) || string(c.Message) != "subject\n\nbody\n" || string(c.Raw) != signed {
		t.Errorf("%+v", c)
	}
	if want := (Ident{"A U Thor", "a@example.com", 1767603600, "+0100"}); c.Author != want {
		t.Errorf("author %+v", c.Author)
	}
	if want := (Ident{"C", "c@example.com", 0, "-0000"}); c.Committer != want {
		t.Errorf("committer %+v", c.Committer)
	}
	for _, raw := range []string{
		"tree " + treeA + "\nauthor " + who + "\ncommitter " + who + "\n",              // no message at all
		"tree " + treeA + "\nauthor " + who + "\ncommitter " + who + "\n\n",            // an empty one
		"tree " + treeA + "\nauthor <> 0 +0000\ncommitter  <a> 0 +0000\n\nNUL\x00here", // odd, but whole
	} {
		if _, err := ParseCommit(blobA, []byte(raw)); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
	for raw, want := range map[string]string{
		"":   "do not end",
		"\n": "begin with the id of a tree",
		"tree " + treeA[1:] + "\nauthor " + who + "\ncommitter " + who + "\n\n":                                  "begin with the id of a tree",
		"tree " + strings.ToUpper(treeA) + "\nauthor " + who + "\ncommitter " + who + "\n\n":                     "begin with the id of a tree",
		"tree " + treeA + treeA[:24] + "\nauthor " + who + "\ncommitter " + who + "\n\n":                         "begin with the id of a tree",
		"tree " + treeA + "\nparent x\nauthor " + who + "\ncommitter " + who + "\n\n":                            "parent is not an object id",
		"tree " + treeA + "\nauthor " + who + "\nparent " + blobA + "\ncommitter " + who + "\n\n":                "no committer",
		"tree " + treeA + "\ncommitter " + who + "\n\n":                                                          "no author",
		"tree " + treeA + "\nauthor " + who + "\nauthor " + who + "\ncommitter " + who + "\n\n":                  "no committer",
		"tree " + treeA + "\nauthor " + who + "\ncommitter " + who + "\nauthor " + who + "\n\n":                  "repeated or out of order",
		"tree " + treeA + "\nauthor " + who + "\ncommitter " + who + "\nparent " + blobA + "\n\n":                "repeated or out of order",
		"tree " + treeA + "\nauthor " + who + "\ncommitter " + who + "\ntree " + treeA + "\n\n":                  "repeated or out of order",
		"tree " + treeA + "\nauthor " + who + "\ncommitter " + who + "\n x\n\n":                                  "continuation",
		"tree " + treeA + "\nauthor " + who + "\ncommitter " + who:                                               "do not end",
		"tree " + treeA + "\nauthor A\x00B <a> 0 +0000\ncommitter " + who + "\n\n":                               "NUL",
		"tree " + treeA + "\nauthor A 0 +0000\ncommitter " + who + "\n\n":                                        `no "<"`,
		"tree " + treeA + "\nauthor A> <a> 0 +0000\ncommitter " + who + "\n\n":                                   `">" in the name`,
		"tree " + treeA + "\nauthor A<a> 0 +0000\ncommitter " + who + "\n\n":                                     `no blank before`,
		"tree " + treeA + "\nauthor A <a 0 +0000\ncommitter " + who + "\n\n":                                     `no ">"`,
		"tree " + treeA + "\nauthor A <a<b> 0 +0000\ncommitter " + who + "\n\n":                                  `"<" in the address`,
		"tree " + treeA + "\nauthor A <a>b> 0 +0000\ncommitter " + who + "\n\n":                                  `no blank after`,
		"tree " + treeA + "\nauthor A <a>0 +0000\ncommitter " + who + "\n\n":                                     `no blank after`,
		"tree " + treeA + "\nauthor A <a> -1 +0000\ncommitter " + who + "\n\n":                                   "no date",
		"tree " + treeA + "\nauthor A <a> 01 +0000\ncommitter " + who + "\n\n":                                   "no date",
		"tree " + treeA + "\nauthor A <a> 9223372036854775808 +0000\ncommitter " + who + "\n\n":                  "out of range",
		"tree " + treeA + "\nauthor A <a> 0 0000\ncommitter " + who + "\n\n":                                     "time zone",
		"tree " + treeA + "\nauthor A <a> 0 +000\ncommitter " + who + "\n\n":                                     "time zone",
		"tree " + treeA + "\nauthor A <a> 0 +00000\ncommitter " + who + "\n\n":                                   "time zone",
		"tree " + treeA + "\nauthor A <a> 0 +0000 \ncommitter " + who + "\n\n":                                   "time zone",
		"tree " + treeA + "\nauthor A <a> 0\ncommitter " + who + "\n\n":                                          "no date",
		"tree " + treeA + "\r\nauthor " + who + "\r\ncommitter " + who + "\r\n\r\n":                              "begin with the id of a tree",
		"tree  " + treeA + "\nauthor " + who + "\ncommitter " + who + "\n\n":                                     "begin with the id of a tree",
		"tree " + treeA + "\nparent " + blobA + " " + blobA + "\nauthor " + who + "\ncommitter " + who + "\n\n":  "parent is not an object id",
		"tree " + treeA + "\nauthor A <a> 0 +0000 <x> 1 +0000\ncommitter " + who + "\n\n":                        "time zone",
		"tree " + treeA + "\nauthor " + who + "\ncommitter " + who + "\n\x00\n\n":                                "NUL",
		"\ntree " + treeA + "\nauthor " + who + "\ncommitter " + who + "\n\n":                                    "begin with the id of a tree",
		"object " + treeA + "\ntype commit\n\n":                                                                  "begin with the id of a tree",
		"tree " + treeA + "\n\nauthor " + who + "\ncommitter " + who + "\n\n":                                    "no author",
		"tree " + treeA + "\nparent " + blobA + "\n\nparent " + blobA + "\nauthor " + who + "\ncommitter " + who: "no author",
	} {
		_, err := ParseCommit(blobA, []byte(raw))
		var bad *MalformedCommitError
		if !errors.As(err, &bad) || bad.ID != blobA || !strings.Contains(bad.Reason, want) {
			t.Errorf("%q: %v, want %q", raw, err, want)
		}
	}
}

// TestCommitAgainstFsck: no commit is accepted that git fsck calls an error in
// its form, and none is refused that fsck finds in order.
func TestCommitAgainstFsck(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	r.EmptyTreeID()
	parent := r.CommitTree(treeA, "base")
	base := strings.Replace(signed, blobA, parent, 1)
	rng := rand.New(rand.NewPCG(5, 6))
	const bytesOf = "\n <>0+-a\x00e\t."
	commits := make(map[string][]byte)
	for range 1500 {
		raw := []byte(base)
		for range 1 + rng.IntN(2) {
			i := rng.IntN(strings.Index(base, "gpgsig"))
			switch j := i + rng.IntN(60); rng.IntN(4) {
			case 0:
				raw = slices.Delete(raw, i, min(j, len(raw)))
			case 1:
				raw = slices.Insert(raw, i, raw[i:min(j, len(raw))]...)
			case 2:
				raw[i] = bytesOf[rng.IntN(len(bytesOf))]
			default:
				raw = slices.Insert(raw, i, bytesOf[rng.IntN(len(bytesOf))])
			}
		}
		h := sha1.New()
		fmt.Fprintf(h, "commit %d\x00", len(raw))
		h.Write(raw)
		commits[hex.EncodeToString(h.Sum(nil))] = raw
	}
	var objects [][]byte
	for _, raw := range commits {
		objects = append(objects, raw)
	}
	r.RunIn(pack(1, objects), "index-pack", "--stdin")
	res := r.Try(nil, "fsck", "--no-dangling")
	fsck := make(map[string]string)
	for line := range strings.Lines(res.Stdout + res.Stderr) {
		for _, prefix := range []string{"error in commit ", "error: ", "warning in commit "} {
			if rest, ok := strings.CutPrefix(line, prefix); ok && len(rest) > 40 && isHex(rest[:40]) {
				fsck[rest[:40]] += line
			}
		}
	}
	// What only we refuse: fsck overlooks headers behind the committer, counts
	// a time zone's digits only and skips blanks before a date.
	ours := []string{"repeated or out of order", "continuation", "empty header", "do not end", "out of range", "time zone", "has no date"}
	both, clean, own := 0, 0, 0
	for id, raw := range commits {
		_, err := ParseCommit(id, raw)
		said := fsck[id]
		switch {
		case err == nil && strings.Contains(said, "error") && !strings.Contains(said, "broken links"):
			t.Errorf("accepted, but fsck says %s%q", said, raw)
		case err == nil:
			clean++
		case said != "":
			both++
		case slices.ContainsFunc(ours, func(s string) bool { return strings.Contains(err.Error(), s) }):
			own++
		default:
			t.Errorf("fsck says nothing, we say %v: %q", err, raw)
		}
	}
	if both < 300 || clean < 50 {
		t.Errorf("%d refused by both, %d by none: too few to mean anything", both, clean)
	}
	t.Logf("%d commits: %d refused by both, %d by us only, %d by none", len(commits), both, own, clean)
}

// FuzzParseCommit: what is accepted is what its parts encode to.
func FuzzParseCommit(f *testing.F) {
	f.Add([]byte(signed))
	f.Add([]byte("tree " + treeA + "\nauthor " + who + "\ncommitter " + who + "\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseCommit(blobA, raw)
		if err != nil {
			return
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "tree %s\n", c.Tree)
		for _, p := range c.Parents {
			fmt.Fprintf(&b, "parent %s\n", p)
		}
		if !bytes.HasPrefix(raw, b.Bytes()) || !bytes.HasSuffix(raw, c.Message) {
			t.Fatalf("%q is no %+v", raw, c)
		}
		rest := raw[b.Len() : len(raw)-len(c.Message)]
		for _, id := range []struct {
			key string
			Ident
		}{{"author ", c.Author}, {"committer ", c.Committer}} {
			line, after, _ := bytes.Cut(rest, []byte("\n"))
			if !bytes.HasPrefix(line, []byte(id.key)) || !bytes.HasSuffix(line, fmt.Appendf(nil, "<%s> %d %s", id.Email, id.When, id.Zone)) || !bytes.Contains(line, []byte(id.Name)) {
				t.Fatalf("%q is no %+v", line, id)
			}
			rest = after
		}
		for i := 0; len(rest) > 1; i++ { // a header, or a line that goes on
			var line []byte
			line, rest, _ = bytes.Cut(rest, []byte("\n"))
			if len(line) == 0 || i == 0 && line[0] == ' ' {
				t.Fatalf("a line %q in %q", line, raw)
			}
		}
		if len(rest) > 1 || len(rest) == 1 && rest[0] != '\n' {
			t.Fatalf("%q is left of %q", rest, raw)
		}
	})
}

// FuzzHeader: a header line is read as it was written, or refused.
func FuzzHeader(f *testing.F) {
	for _, s := range []string{treeA + " tree 0\n", treeA + " blob 12\n", treeA + " missing\n", "abcd ambiguous\n", treeA + " blob 01\n",
		treeA + " blob -1\n", treeA + " blob 9223372036854775808\n", treeA + " blob\n", "HEAD missing\n", treeA + " blob 1", " \n", "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		h, err := parseHeader(line)
		if err != nil {
			if h != (header{}) {
				t.Fatalf("%+v with an error", h)
			}
			return
		}
		again := fmt.Sprintf("%s %s %d\n", h.id, h.typ, h.size)
		if h.id == "" {
			name, _, _ := strings.Cut(string(line), " ")
			again = name + " " + h.typ + "\n"
		}
		if again != string(line) || h.size < 0 {
			t.Fatalf("%q is read as %+v", line, h)
		}
		if got, err := readHeader(bufio.NewReader(bytes.NewReader(line))); got != h || err != nil {
			t.Fatalf("%+v %v", got, err)
		}
	})
}

func TestParseConfigList(t *testing.T) {
	got := parseConfig("a.b\n1\x00a.b\x00a.c\nx\ny\x00")
	if len(got) != 2 || !slices.Equal(got["a.b"], []configValue{{"1", false}, {"", true}}) || !slices.Equal(got["a.c"], []configValue{{"x\ny", false}}) {
		t.Errorf("%v", got)
	}
	for in, want := range map[string]string{"Core.Bare": "core.bare", "URL.A.B.InsteadOf": "url.A.B.insteadof", "x": "x"} {
		if got := foldKey(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
