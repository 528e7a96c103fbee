package verdict

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func some(n, seed int) []record {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	out := make([]record, n)
	for i := range out {
		out[i] = record{key: fmt.Sprintf("thread-%02d", random.IntN(20)), name: fmt.Sprintf("ACK-%d-%d.md", seed, i), blob: strings.Repeat(fmt.Sprintf("%02x", i%256), 20),
			commit: strings.Repeat(fmt.Sprintf("%02x", seed%256), 20), flags: byte(i % 16), rules: uint64(i % 5), signer: i % 3, why: i % 2, second: int64(i - 5), step: int64(i % 7)}
	}
	return out
}

// TestStore: what is kept in several steps is found again, in its order.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	key := storeKey([]byte("mine"), "here")
	want := map[string][]record{}
	s := load(dir, key)
	for step := range 30 {
		records := some(1+step*step%97, step)
		for _, r := range records {
			want[r.key] = append(want[r.key], r)
		}
		if err := s.keep(records); err != nil {
			t.Fatal(err)
		}
		if err := s.save(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		s = load(dir, key)
	}
	for name, records := range want {
		var got []record
		for _, seg := range s.Segments {
			if err := s.find(seg, name, func(r record) { got = append(got, r) }); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(got, records) {
			t.Errorf("%s: %d records, expected %d", name, len(got), len(records))
		}
	}
	if len(s.Segments) > 12 {
		t.Errorf("%d segments", len(s.Segments))
	}
	files, _ := os.ReadDir(dir)
	if len(files) != len(s.Segments)+1 {
		t.Errorf("%d files for %d segments", len(files), len(s.Segments))
	}
}

// TestStoreOfForms: what was kept in another form, or by other rules, is not believed.
func TestStoreOfForms(t *testing.T) {
	for _, other := range []string{"rigward verdicts 7", "rigward verdicts 9", ""} {
		dir := t.TempDir()
		s := load(dir, formKey(other, []byte("mine"), "here"))
		s.Tip = strings.Repeat("a", 40)
		if err := s.keep(some(40, 1)); err != nil {
			t.Fatal(err)
		}
		if err := s.save(time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := load(dir, formKey(other, []byte("mine"), "here")); got.Tip != s.Tip {
			t.Errorf("%q does not read itself", other)
		}
		if got := load(dir, storeKey([]byte("mine"), "here")); got.Tip != "" || len(got.Segments) > 0 {
			t.Errorf("%q is believed: %+v", other, got.manifest)
		}
	}
}

// TestStoreOfOthers: what another user wrote, what was written for another
// directory, and what was changed is as good as none.
func TestStoreOfOthers(t *testing.T) {
	dir := t.TempDir()
	key := storeKey([]byte("mine"), "here")
	s := load(dir, key)
	s.Tip = strings.Repeat("a", 40)
	if err := s.keep(some(400, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.save(time.Now()); err != nil {
		t.Fatal(err)
	}
	if s = load(dir, key); s.Tip == "" || len(s.Segments) != 1 {
		t.Fatalf("%+v", s.manifest)
	}
	for what, other := range map[string][]byte{
		"another user": storeKey([]byte("theirs"), "here"), "another directory": storeKey([]byte("mine"), "there"), "no secret": storeKey(nil, "here"),
	} {
		if got := load(dir, other); got.Tip != "" {
			t.Errorf("%s is believed: %+v", what, got.manifest)
		}
	}
	file := filepath.Join(dir, s.Segments[0].Name)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := func() (err error) {
		for i := range 20 {
			if e := s.find(s.Segments[0], fmt.Sprintf("thread-%02d", i), func(record) {}); e != nil {
				err = e
			}
		}
		return err
	}
	if err := all(); err != nil {
		t.Fatal(err)
	}
	swapped := slices.Concat(good[blockSize:2*blockSize], good[:blockSize], good[2*blockSize:])
	flipped := bytes.Clone(good)
	flipped[blockSize/2] ^= 1
	for what, data := range map[string][]byte{"one bit": flipped, "two blocks in the other's place": swapped, "a short file": good[:blockSize], "nothing": nil} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if all() == nil {
			t.Errorf("%s is read", what)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest"), bytes.Replace(manifest, []byte("aaaa"), []byte("bbbb"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := load(dir, key); got.Tip != "" {
		t.Error("a forged manifest is believed")
	}
}

func FuzzRecord(f *testing.F) {
	for _, r := range some(5, 3) {
		f.Add(r.append(nil))
	}
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again record
		rest, err := r.parse(data)
		if err != nil {
			return
		}
		if len(rest) > len(data) {
			t.Fatal("more is left than there was")
		}
		if _, err := again.parse(r.append(nil)); err != nil || again != r {
			t.Errorf("%+v is read as %+v: %v", r, again, err)
		}
	})
}
