package history

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/files"
)

// A record says that a blob is an envelope with a nonce, and which commit
// brought it if that is known.
type record struct {
	key    [16]byte
	blob   string
	commit string // "" if unknown
}

func (a record) compare(b record) int {
	return cmp.Or(bytes.Compare(a.key[:], b.key[:]), cmp.Compare(a.blob, b.blob), cmp.Compare(a.commit, b.commit))
}

// A state is the index in memory: base, sorted and as long as the history, and
// recent, a few records since.
type state struct {
	format string   // of object ids, "sha1" or "sha256"
	tips   []string // commits whose whole history is covered
	recent []record
	base   []byte // sorted records in their stored form
	sum    [32]byte
}

const (
	maxTips   = 64   // the latest ones are kept
	maxRecent = 1024 // then they are merged into base
)

func (s *state) idLen() int {
	if s.format == "sha256" {
		return 32
	}
	return 20
}

func (s *state) size() int { return 16 + 2*s.idLen() }

func (s *state) covers(tip string) bool { return slices.Contains(s.tips, tip) }

func (s *state) addTips(tips []string) {
	for _, t := range tips {
		if !s.covers(t) {
			s.tips = append(s.tips, t)
		}
	}
	if over := len(s.tips) - maxTips; over > 0 {
		s.tips = slices.Clone(s.tips[over:])
	}
}

func (s *state) add(r record) { s.recent = append(s.recent, r) }

// find returns the records of a key.
func (s *state) find(k [16]byte) []record {
	var out []record
	for _, r := range s.recent {
		if r.key == k {
			out = append(out, r)
		}
	}
	n := s.size()
	i, j := 0, len(s.base)/n
	for i < j {
		h := (i + j) / 2
		if bytes.Compare(s.base[h*n:h*n+16], k[:]) < 0 {
			i = h + 1
		} else {
			j = h
		}
	}
	for ; i < len(s.base)/n && bytes.Equal(s.base[i*n:i*n+16], k[:]); i++ {
		out = append(out, s.decode(s.base[i*n:]))
	}
	return out
}

func (s *state) decode(b []byte) (r record) {
	n := s.idLen()
	copy(r.key[:], b)
	r.blob = hex.EncodeToString(b[16 : 16+n])
	if c := hex.EncodeToString(b[16+n : 16+2*n]); strings.Trim(c, "0") != "" {
		r.commit = c
	}
	return r
}

func (s *state) encode(b []byte, r record) []byte {
	b = append(b, r.key[:]...)
	b = append(b, unhex(r.blob, s.idLen())...)
	return append(b, unhex(r.commit, s.idLen())...)
}

func unhex(id string, n int) []byte {
	b := make([]byte, n)
	_, _ = hex.Decode(b, []byte(id))
	return b
}

// merge moves recent into base.
func (s *state) merge() {
	slices.SortFunc(s.recent, record.compare)
	s.recent = slices.Compact(s.recent)
	n := s.size()
	out := make([]byte, 0, len(s.base)+n*len(s.recent))
	rest := s.base
	for _, r := range s.recent {
		for len(rest) > 0 && s.decode(rest).compare(r) < 0 {
			out, rest = append(out, rest[:n]...), rest[n:]
		}
		if len(rest) == 0 || s.decode(rest) != r {
			out = s.encode(out, r)
		}
	}
	s.base, s.recent = append(out, rest...), nil
	s.sum = sha256.Sum256(s.base)
}

// The files: "head" has all but base and names base by its digest; "base-…"
// is base. Both are replaced as a whole, head last. head ends with the digest
// of what precedes it.
const magic = "rigward nonces 4\n"

func (s *state) head(scope [32]byte) []byte {
	b := append([]byte(magic), scope[:]...)
	b = append(b, byte(s.idLen()))
	b = append(b, s.sum[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.tips)))
	for _, t := range s.tips {
		b = append(b, unhex(t, s.idLen())...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.recent)))
	for _, r := range s.recent {
		b = s.encode(b, r)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// parseHead reads what head wrote; ok is false for anything else.
func parseHead(b []byte, format string, scope [32]byte) (s state, ok bool) {
	s.format = format
	n := s.idLen()
	if len(b) < len(magic)+32+1+32+4+4+32 || string(b[:len(magic)]) != magic || !bytes.Equal(b[len(magic):len(magic)+32], scope[:]) {
		return state{}, false
	}
	body := b[:len(b)-32]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return state{}, false
	}
	body = body[len(magic)+32:]
	if int(body[0]) != n {
		return state{}, false
	}
	copy(s.sum[:], body[1:])
	body = body[33:]
	take := func(size int) (items [][]byte, ok bool) {
		if len(body) < 4 {
			return nil, false
		}
		count := int64(binary.BigEndian.Uint32(body))
		body = body[4:]
		if count*int64(size) > int64(len(body)) {
			return nil, false
		}
		for range count {
			items, body = append(items, body[:size]), body[size:]
		}
		return items, true
	}
	tips, ok := take(n)
	if !ok {
		return state{}, false
	}
	for _, t := range tips {
		s.tips = append(s.tips, hex.EncodeToString(t))
	}
	recent, ok := take(s.size())
	if !ok || len(body) != 0 {
		return state{}, false
	}
	for _, r := range recent {
		s.recent = append(s.recent, s.decode(r))
	}
	return s, true
}

func baseName(sum [32]byte) string { return "nonces-base-" + hex.EncodeToString(sum[:16]) }

const headName = "nonces"

// load reads the head of the index once. What can't be read, or was not
// written whole, is as good as not there.
func (x *Index) load() {
	if x.loaded {
		return
	}
	x.loaded = true
	x.state = state{format: x.Repo.ObjectFormat()}
	if x.Dir == "" {
		return
	}
	if head, err := files.Kept(filepath.Join(x.Dir, headName)); err == nil {
		if s, ok := parseHead(head, x.state.format, x.scope); ok {
			x.state = s
		}
	}
}

// loadBase reads the long part of the index; without it nothing is covered.
func (x *Index) loadBase() {
	if x.state.base != nil || len(x.state.tips) == 0 {
		return
	}
	base, err := files.Kept(filepath.Join(x.Dir, baseName(x.state.sum)))
	if err != nil || sha256.Sum256(base) != x.state.sum || len(base)%x.state.size() != 0 {
		x.state = state{format: x.state.format}
		return
	}
	x.state.base = base
}

// Save writes the index if it has come to know more. It is called when the push
// was judged; whether the push will be accepted does not matter, since what the
// index says of a commit is true wherever that commit is.
func (x *Index) Save() error {
	if x.Dir == "" {
		return nil
	}
	if x.dirty {
		if err := os.MkdirAll(x.Dir, 0o777); err != nil {
			return err
		}
	}
	files.Share(x.Dir)
	if !x.dirty {
		return nil
	}
	x.dirty = false
	old := ""
	if len(x.state.recent) > maxRecent || x.built {
		if !x.built {
			old = baseName(x.state.sum)
			if x.loadBase(); len(x.state.tips) == 0 {
				return os.Remove(filepath.Join(x.Dir, headName))
			}
		}
		x.state.merge()
		x.built = false
		if err := files.Swap(filepath.Join(x.Dir, baseName(x.state.sum)), x.state.base, 0o644); err != nil {
			return err
		}
	}
	if err := files.Swap(filepath.Join(x.Dir, headName), x.state.head(x.scope), 0o644); err != nil {
		return err
	}
	if old != "" && old != baseName(x.state.sum) {
		os.Remove(filepath.Join(x.Dir, old))
	}
	return nil
}

// Advance notes that the history of tip is what Find covered together with the
// relays that a push brings, so that the next push need not read them again.
// It does nothing if the index does not cover all of parents, the commits just
// outside the push.
func (x *Index) Advance(tip string, parents []string, brought []Hit, nonces []string) {
	x.load()
	for _, p := range parents {
		if !x.state.covers(p) {
			return
		}
	}
	if x.state.covers(tip) || len(x.state.tips) == 0 {
		return
	}
	for i, h := range brought {
		x.state.add(record{key: key(nonces[i]), blob: h.Blob, commit: h.Commit})
	}
	x.state.addTips([]string{tip})
	x.dirty = true
}
