package gitrepo

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
)

// What plainCore takes is what git reads: the oracle is `git config --file -`.
func FuzzPlainCore(f *testing.F) {
	for _, s := range []string{
		"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
		"[core]\n\tbare = true\n[remote \"origin\"]\n\turl = ssh://x/y\n[Core]\n\tRepositoryFormatVersion = 0\n",
		"[core]\nbare=true", "[core]\nbare = yes\n", "[core]\nbare\n", "[core \"a\"]\nbare = true\n", "[core]\nbare = tr\\\nue\n",
		"[core]\nbare = false ; x\n", "[core] bare = true\n", "[core]\nbare = true\n[extensions]\nobjectformat = sha256\n", "bare = true\n",
		"[core]\nbare = false\nbare = true\n", "[core]\nworktree = /x\nbare = false\n", "[include]\npath = x\n[core]\nbare = true\n", "\ufeff[core]\nbare = true\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bare, ok := plainCore(text)
		if !ok {
			return
		}
		cmd := exec.Command("git", "config", "--file", "-", "--list", "-z")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git refuses %q, which was taken: %v", text, err)
		}
		want := "false"
		if bare {
			want = "true"
		}
		if n := bytes.Count(out, []byte("core.bare\n")); n != 1 || !bytes.Contains(out, []byte("core.bare\n"+want+"\x00")) {
			t.Fatalf("%q: bare %t, git reads %q", text, bare, out)
		}
	})
}

func TestPackedLine(t *testing.T) {
	id := strings.Repeat("0a", 20)
	for _, c := range []struct {
		line  string
		first bool
		name  string
		ok    bool
	}{
		{"# pack-refs with: peeled fully-peeled sorted ", true, "", true},
		{"# pack-refs with: peeled", false, "", false},
		{id + " refs/heads/main", true, "refs/heads/main", true},
		{"^" + id, false, "", true},
		{"^" + id, true, "", false},
		{"^" + id[1:], false, "", false},
		{id + "  refs/heads/main", false, "", false},
		{id + " refs/heads/a..b", false, "", false},
		{strings.Repeat("0", 40) + " refs/heads/main", false, "", false},
		{strings.ToUpper(id) + " refs/heads/main", false, "", false},
		{id + " refs/heads/main\r", false, "", false},
		{"", false, "", false},
	} {
		_, name, ok := packedLine(c.line, c.first)
		if ok != c.ok || ok && name != c.name {
			t.Errorf("%q: name %q, ok %t", c.line, name, ok)
		}
	}
}

func FuzzPackedLine(f *testing.F) {
	f.Add("# pack-refs with: peeled", true)
	f.Add(strings.Repeat("ab", 20)+" refs/heads/main", false)
	f.Fuzz(func(t *testing.T, line string, first bool) {
		id, name, ok := packedLine(line, first)
		if ok && name != "" && (CheckRefName(name) != nil || id+" "+name != line) {
			t.Fatalf("%q: %q %q", line, id, name)
		}
	})
}

// A child's complaints are kept up to a limit, however they come.
func TestTail(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 3000) + "the end"
	for name, fill := range map[string]func(*tail){
		"written": func(to *tail) { _, _ = to.Write([]byte(text)) },
		"read": func(to *tail) {
			if n, err := to.ReadFrom(iotest.HalfReader(strings.NewReader(text))); err != nil || n != int64(len(text)) {
				t.Errorf("%d bytes, %v", n, err)
			}
		},
		"read to an error": func(to *tail) {
			if _, err := to.ReadFrom(io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrClosedPipe))); err != io.ErrClosedPipe {
				t.Error(err)
			}
		},
	} {
		var got tail
		fill(&got)
		if want := text[len(text)-tailMax:]; string(got.Bytes()) != want {
			t.Errorf("%s: %d bytes are kept, %d expected", name, len(got.Bytes()), len(want))
		}
	}
}
