package gitrepo

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rigward/rigward/internal/test/gittest"
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
		k, ok := plainCore(text)
		if !ok {
			return
		}
		cmd := exec.Command("git", "config", "--file", "-", "--no-includes", "--list", "-z")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git refuses %q, which was taken: %v", text, err)
		}
		want := "false"
		if k.bare {
			want = "true"
		}
		if n := bytes.Count(out, []byte("core.bare\n")); n != 1 || !bytes.Contains(out, []byte("core.bare\n"+want+"\x00")) {
			t.Fatalf("%q: bare %t, git reads %q", text, k.bare, out)
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
		_, name, ok := packedLine(c.line, c.first, 40)
		if ok != c.ok || ok && name != c.name {
			t.Errorf("%q: name %q, ok %t", c.line, name, ok)
		}
	}
}

func FuzzPackedLine(f *testing.F) {
	f.Add("# pack-refs with: peeled", true)
	f.Add(strings.Repeat("ab", 20)+" refs/heads/main", false)
	f.Fuzz(func(t *testing.T, line string, first bool) {
		id, name, ok := packedLine(line, first, 40)
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

// What is read of a configuration file is what git reads, value for value.
func FuzzConfigFile(f *testing.F) {
	for _, s := range settings {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		items, ok := parseConfigFile(text)
		if !ok {
			return
		}
		cmd := exec.Command("git", "config", "--file", "-", "--no-includes", "--list", "-z")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git refuses %q, which was taken: %v", text, err)
		}
		var want strings.Builder
		for _, i := range items {
			want.WriteString(i.key)
			if !i.bare {
				want.WriteString("\n" + i.text)
			}
			want.WriteByte(0)
		}
		if string(out) != want.String() {
			t.Fatalf("%q: read %q, git reads %q", text, want.String(), out)
		}
	})
}

// onlyPack returns the one pack of an object directory, and its index.
func onlyPack(tb testing.TB, objects string) (data, index []byte) {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(objects, "pack", "*.pack"))
	if err != nil || len(names) != 1 {
		tb.Fatal(names, err)
	}
	if data, err = os.ReadFile(names[0]); err != nil {
		tb.Fatal(err)
	}
	if index, err = os.ReadFile(strings.TrimSuffix(names[0], "pack") + "idx"); err != nil {
		tb.Fatal(err)
	}
	return data, index
}

// Of whatever lies in an object's file and in a pack, nothing is returned but what
// has the id that was asked for, and nothing that is larger than the limits.
func FuzzStore(f *testing.F) {
	r := gittest.New(f, gittest.Options{Bare: true})
	blob := r.Blob(strings.Repeat("some text\n", 200))
	r.Run("update-ref", "refs/tags/b", blob)
	r.Run("update-ref", "refs/tags/c", r.Blob(strings.Repeat("some text\n", 199)+"other"))
	looseFile, err := os.ReadFile(filepath.Join(r.Dir, "objects", blob[:2], blob[2:]))
	if err != nil {
		f.Fatal(err)
	}
	r.Run("repack", "-adq")
	data, index := onlyPack(f, filepath.Join(r.Dir, "objects"))
	f.Add(looseFile, data, index)
	f.Add([]byte{}, data, index)
	f.Add(looseFile[:20], data[:40], index)
	raw, err := hex.DecodeString(blob)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, looseFile, data, index []byte) {
		s := &store{hash: 20, listed: true}
		if typ, data, ok := s.looseFile(bytes.NewReader(looseFile), int64(len(looseFile))); ok && (len(data) > maxStored || typ == "") {
			t.Fatalf("%s of %d bytes", typ, len(data))
		}
		p := &packFile{hash: 20}
		if !p.known(bytes.NewReader(index), int64(len(index)), bytes.NewReader(data), int64(len(data))) {
			return
		}
		s.packs, s.bytes = append(s.packs, p), 0
		for _, id := range [][]byte{raw, bytes.Repeat([]byte{0xab}, 20)} {
			if typ, data, ok := s.packed(id); ok && (len(data) > maxStored || typ == "") {
				t.Fatalf("%s of %d bytes", typ, len(data))
			}
			if typ, data, ok := s.read(hex.EncodeToString(id)); ok && !s.proves(id, typ, data) {
				t.Fatalf("%s %q", typ, data)
			}
		}
		if s.bytes > 4*(2*maxStored+maxDeltas+maxDeltaChain*maxStored) {
			t.Fatalf("inflated %d bytes for two objects", s.bytes)
		}
	})
}

// A difference is applied within the limit, and never reads beside its base.
func FuzzApplyDelta(f *testing.F) {
	f.Add([]byte("abcdef"), []byte{6, 5, 0x90, 3, 2, 'x', 'y'})
	f.Add([]byte("abcdef"), []byte{6, 6, 0x91, 0, 6})
	f.Add([]byte("abcdef"), []byte{6, 0x80, 0x80, 4, 0x80})
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		kept := bytes.Clone(base)
		data, ok := applyDelta(nil, base, delta, 1<<16)
		if ok && len(data) > 1<<16 {
			t.Fatalf("%d bytes", len(data))
		}
		again, ok2 := applyDelta(make([]byte, 3, 1000), base, delta, 1<<16)
		if ok != ok2 || ok && !bytes.Equal(data, again) {
			t.Fatalf("%q, with room %q", data, again)
		}
		for i := range data {
			data[i]++
		}
		if !bytes.Equal(base, kept) {
			t.Fatal("the base has changed, which others may differ from, too")
		}
	})
}

func TestApplyDelta(t *testing.T) {
	for _, c := range []struct {
		delta []byte
		want  string
		ok    bool
	}{
		{[]byte{6, 5, 0x90, 3, 2, 'x', 'y'}, "abcxy", true},
		{[]byte{6, 3, 0x91, 3, 3}, "def", true},
		{[]byte{6, 4, 0x91, 3, 4}, "", false},       // beyond the base
		{[]byte{6, 2, 0x91, 3, 3}, "", false},       // more than it says
		{[]byte{6, 4, 0x91, 3, 3}, "", false},       // less
		{[]byte{5, 3, 0x91, 3, 3}, "", false},       // another base
		{[]byte{6, 1, 0, 'x'}, "", false},           // an operation that is none
		{[]byte{6, 2, 2, 'x'}, "", false},           // cut off
		{[]byte{6, 1, 0x91}, "", false},             // cut off
		{[]byte{6, 0x81, 0x80, 4, 0x80}, "", false}, // larger than the limit
	} {
		data, ok := applyDelta(nil, []byte("abcdef"), c.delta, 1<<15)
		if ok != c.ok || ok && string(data) != c.want {
			t.Errorf("%v: %q %t", c.delta, data, ok)
		}
	}
}
