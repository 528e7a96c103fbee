package verdict

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/pkg/rules"
)

// A store keeps records in files that are sorted by thread, so that those of
// one thread are found with a few reads. A manifest names the files and says
// up to which commit they go.
//
// Nothing in it is believed that this user has not written for this very
// directory: the manifest and each block carry a MAC with a key that lies
// outside of the repository. Files that came with a copied repository, or that
// another member of a shared one wrote, are as good as none.
type store struct {
	dir string
	key []byte
	manifest
}

type manifest struct {
	Tip      string // whose history is judged
	Eras     []rules.Era
	Now      int // the era after Tip
	Segments []segment
	Signers  []signer
	Reasons  []string
	Ahead    ahead
	Many     many
	Audited  *audited `json:",omitempty"` // of an Audit
}

// many is a range that has more than so many commits, and is not judged yet.
type many struct {
	Range   string
	Commits int
}

// A segment is a file of blocks.
type segment struct {
	Name    string
	Blocks  int
	Records int
}

// ahead is what a view has beyond Tip.
type ahead struct {
	View     View
	Unpushed []string
	Segment  segment
}

type signer struct{ Principal, Fingerprint string }

const (
	blockSize = 8192
	macSize   = 16
	// maxManifest is the most that a manifest has, in bytes.
	maxManifest = 32 << 20
)

// form names the form of the files and the rules behind them: what an older
// program wrote is not read.
const form = "rigward verdicts 8"

var errStore = errors.New("the kept verdicts cannot be read")

// load reads the manifest of a directory; one that is not there, torn, or not
// of this key is an empty one.
func load(dir string, key []byte) *store {
	s := &store{dir: dir, key: key}
	if dir == "" || key == nil {
		return s
	}
	data, err := readLimited(filepath.Join(dir, "manifest"), maxManifest)
	if err != nil || len(data) < sha256.Size {
		return s
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if !hmac.Equal(s.mac("manifest", 0, body), sum) {
		return s
	}
	var m manifest
	if json.Unmarshal(body, &m) == nil {
		s.manifest = m
	}
	return s
}

func readLimited(name string, limit int64) ([]byte, error) {
	f, err := files.OpenKept(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > limit) {
		err = errStore
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

func (s *store) mac(name string, block uint64, data []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	io.WriteString(h, name)
	h.Write(binary.BigEndian.AppendUint64([]byte{0}, block))
	h.Write(data)
	return h.Sum(nil)
}

// A record is what is kept of one Verdict, of one nonce, or of a commit whose moment its
// own date does not tell.
type record struct {
	key    string // thread, or "\x00" and a nonce, or lateKey
	name   string // file in the thread, or path of the nonce's envelope; "" of a late commit
	blob   string // hex, "" if there is none
	commit string
	flags  byte
	rules  uint64 // bits, by place in the registry
	signer int    // place in Signers and one; 0: none
	why    int    // place in Reasons and one; 0: decided
	second int64  // with step and commit, when that came
	step   int64
}

func (r *record) came() order.Moment {
	return order.Moment{Second: r.second, Step: r.step, Commit: r.commit}
}

// lateKey is the key of a record of a late commit.
func lateKey(commit string) string { return "\x00\x00" + commit }

const (
	flagAdded = 1 << iota
	flagRelay
	flagSpeaks
	flagSigned // with a signature that is not good
	flagTombstone
	flagCertificate
)

func (r *record) append(b []byte) []byte {
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	id := func(s string) {
		raw, _ := hex.DecodeString(s)
		b = append(append(b, byte(len(raw))), raw...)
	}
	text(r.key)
	text(r.name)
	id(r.blob)
	id(r.commit)
	b = append(b, r.flags)
	b = binary.AppendUvarint(b, r.rules)
	b = binary.AppendUvarint(b, uint64(r.signer))
	b = binary.AppendUvarint(b, uint64(r.why))
	b = binary.AppendVarint(b, r.second)
	return binary.AppendUvarint(b, uint64(r.step))
}

// varint takes a number off b; where there is none, nothing is left of b, and err says so.
func varint[N int64 | uint64](b *[]byte, err *error, read func([]byte) (N, int)) N {
	n, size := read(*b)
	if size <= 0 {
		*err, *b = errStore, nil
		return 0
	}
	*b = (*b)[size:]
	return n
}

// parse reads what append wrote, and returns the rest.
func (r *record) parse(b []byte) (rest []byte, err error) {
	number := func() uint64 { return varint(&b, &err, binary.Uvarint) }
	signed := func() int64 { return varint(&b, &err, binary.Varint) }
	take := func(n uint64) []byte {
		if n > uint64(len(b)) {
			err, b = errStore, nil
			return nil
		}
		part := b[:n]
		b = b[n:]
		return part
	}
	one := func() byte {
		if part := take(1); part != nil {
			return part[0]
		}
		return 0
	}
	r.key = string(take(number()))
	r.name = string(take(number()))
	r.blob = hex.EncodeToString(take(uint64(one())))
	r.commit = hex.EncodeToString(take(uint64(one())))
	r.flags = one()
	r.rules = number()
	r.signer, r.why = int(number()), int(number())
	r.second = signed()
	r.step = int64(number())
	return b, err
}

// write sorts records by key, keeps the order of those of one key, and writes
// them as a new file.
func (s *store) write(records []record) (segment, error) {
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.key, b.key) })
	var name [8]byte
	rand.Read(name[:])
	seg := segment{Name: hex.EncodeToString(name[:]), Records: len(records)}
	f, err := os.OpenFile(filepath.Join(s.dir, seg.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return seg, err
	}
	block := make([]byte, 2, blockSize)
	var one []byte
	flush := func() {
		if len(block) == 2 || err != nil {
			return
		}
		binary.BigEndian.PutUint16(block, uint16(len(block)-2))
		block = append(block, make([]byte, blockSize-macSize-len(block))...)
		block = append(block, s.mac(seg.Name, uint64(seg.Blocks), block)[:macSize]...)
		_, err = f.Write(block)
		seg.Blocks++
		block = block[:2]
	}
	for i := range records {
		if one = records[i].append(one[:0]); len(one) > blockSize-macSize-2 {
			continue // no name that a work tree takes is so long
		}
		if len(block)+len(one) > blockSize-macSize {
			flush()
		}
		block = append(block, one...)
	}
	flush()
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return seg, err
}

// block reads and verifies one block of a file.
func (s *store) block(f io.ReaderAt, seg segment, n int) ([]byte, error) {
	b := make([]byte, blockSize)
	if _, err := f.ReadAt(b, int64(n)*blockSize); err != nil {
		return nil, errStore
	}
	body := b[:blockSize-macSize]
	if !hmac.Equal(s.mac(seg.Name, uint64(n), body)[:macSize], b[blockSize-macSize:]) {
		return nil, errStore
	}
	size := int(binary.BigEndian.Uint16(body))
	if size > len(body)-2 {
		return nil, errStore
	}
	return body[2 : 2+size], nil
}

// find calls fn for each record of a key in a segment.
func (s *store) find(seg segment, key string, fn func(record)) error {
	if seg.Blocks == 0 {
		return nil
	}
	f, err := files.OpenKept(filepath.Join(s.dir, seg.Name))
	if err != nil {
		return errStore
	}
	defer f.Close()
	// The last block that begins before the key, or the first.
	low, high := 0, seg.Blocks-1
	for low < high {
		mid := (low + high + 1) / 2
		b, err := s.block(f, seg, mid)
		if err != nil {
			return err
		}
		var first record
		if _, err := first.parse(b); err != nil {
			return err
		}
		if first.key < key {
			low = mid
		} else {
			high = mid - 1
		}
	}
	for n := low; n < seg.Blocks; n++ {
		b, err := s.block(f, seg, n)
		for err == nil && len(b) > 0 {
			var r record
			if b, err = r.parse(b); err != nil {
				break
			}
			if r.key > key {
				return nil
			}
			if r.key == key {
				fn(r)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findAll calls fn for each record of some nonces, which are sorted, in a segment.
func (s *store) findAll(seg segment, nonces []string, fn func(nonce string, r record)) error {
	if len(nonces) <= seg.Blocks/8 { // of each a few blocks are read
		for _, n := range nonces {
			if err := s.find(seg, "\x00"+n, func(r record) { fn(n, r) }); err != nil {
				return err
			}
		}
		return nil
	}
	return s.each(seg, func(r record) {
		n, isNonce := strings.CutPrefix(r.key, "\x00")
		if isNonce && asked(nonces, n) {
			fn(n, r)
		}
	})
}

// all returns all records of a segment.
func (s *store) all(seg segment) ([]record, error) {
	out := make([]record, 0, seg.Records)
	err := s.each(seg, func(r record) { out = append(out, r) })
	return out, err
}

// each calls fn for all records of a segment.
func (s *store) each(seg segment, fn func(record)) error {
	f, err := files.OpenKept(filepath.Join(s.dir, seg.Name))
	if err != nil {
		return errStore
	}
	defer f.Close()
	for n := range seg.Blocks {
		b, err := s.block(f, seg, n)
		for err == nil && len(b) > 0 {
			var r record
			if b, err = r.parse(b); err == nil {
				fn(r)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compare orders records by key, then by what they are of.
func (r record) compare(o record) int {
	return cmp.Or(cmp.Compare(r.key, o.key), cmp.Compare(r.name, o.name), cmp.Compare(r.blob, o.blob), cmp.Compare(r.commit, o.commit))
}

// keep adds records as a segment. Segments of about one size become one, so
// that there are few, and each record is written few times.
func (s *store) keep(records []record) error {
	if len(records) == 0 {
		return nil
	}
	for n := len(s.Segments) - 1; n >= 0 && s.Segments[n].Records <= 2*len(records); n-- {
		older, err := s.all(s.Segments[n])
		if err != nil {
			return err
		}
		records = append(older, records...)
		s.Segments = s.Segments[:n]
	}
	seg, err := s.write(records)
	if err == nil {
		s.Segments = append(s.Segments, seg)
	}
	return err
}

// young is how old a file is that may be of a run at the same time, which has
// not written its manifest yet.
const young = 10 * time.Minute

// save writes the manifest, and removes what it no longer names.
func (s *store) save(now time.Time) error {
	body, err := json.Marshal(s.manifest)
	if err != nil {
		return err
	}
	if err := files.Swap(filepath.Join(s.dir, "manifest"), append(body, s.mac("manifest", 0, body)...), 0o600); err != nil {
		return err
	}
	used := map[string]bool{"manifest": true, s.Ahead.Segment.Name: true}
	for _, seg := range s.Segments {
		used[seg.Name] = true
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		if used[name] || len(name) != 16 || strings.Trim(name, "0123456789abcdef") != "" {
			continue
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > young {
			os.Remove(filepath.Join(s.dir, name))
		}
	}
	return nil
}

// place returns where a value stands in a list, and one; it is added if it is
// not there.
func place[T comparable](list *[]T, v T) int {
	var none T
	if v == none {
		return 0
	}
	i := slices.Index(*list, v)
	if i < 0 {
		i = len(*list)
		*list = append(*list, v)
	}
	return i + 1
}

func at[T any](list []T, place int) (v T) {
	if place > 0 && place <= len(list) {
		v = list[place-1]
	}
	return v
}

// storeKey derives the key of one repository's store from the user's secret:
// what is kept for one directory, under one set of rules and one setting of
// the clone, says nothing for another. It is nil without a secret.
func storeKey(secret []byte, parts ...string) []byte { return formKey(form, secret, parts...) }

// formKey is storeKey for a form.
func formKey(form string, secret []byte, parts ...string) []byte {
	if len(secret) == 0 {
		return nil
	}
	h := hmac.New(sha256.New, secret)
	for _, p := range append([]string{form}, parts...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		io.WriteString(h, p)
	}
	return h.Sum(nil)
}
