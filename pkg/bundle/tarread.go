package bundle

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
)

const blockSize = 512

// maxPrepared bounds, in bytes, what is made ready at a header's word for
// contents that have not come yet.
const maxPrepared = 4 << 20

// maxPadding is how many zero bytes may follow the two end blocks.
const maxPadding = 10240

// header is one tar header block, parsed by its fields.
type header struct {
	name, link string // up to the first NUL, prefix joined
	nameNUL    bool   // bytes follow the NUL of name or prefix
	mode       uint32
	size       int64
	flag       byte
}

// parseHeader reads one block. All its faults are container-corrupt.
func parseHeader(b *[blockSize]byte) (h header, fault *Finding) {
	sum, ok := parseNumber(b[148:156])
	if !ok || sum != BlockSum(b[:]) {
		return h, Faultf(ContainerCorrupt, "", "tar header checksum does not match")
	}
	name, nameNUL := text(b[0:100])
	link, linkNUL := text(b[157:257])
	posix := string(b[257:263]) == "ustar\x00"
	magic := posix || string(b[257:265]) == "ustar  \x00"
	h.name, h.link, h.nameNUL, h.flag = name, link, nameNUL, b[156]
	if h.flag == 0 {
		h.flag = '0'
	}
	if posix {
		prefix, nul := text(b[345:500])
		if prefix != "" {
			h.name = prefix + "/" + h.name
		}
		h.nameNUL = h.nameNUL || nul
	}
	fields := []struct {
		what string
		b    []byte
	}{{"size", b[124:136]}, {"mode", b[100:108]}, {"uid", b[108:116]}, {"gid", b[116:124]}, {"mtime", b[136:148]}, {"device number", b[329:337]}, {"device number", b[337:345]}}
	if !magic {
		fields = fields[:5]
	}
	values := [7]int64{}
	for i, f := range fields {
		if values[i], ok = parseNumber(f.b); !ok {
			return h, Faultf(ContainerCorrupt, h.name, "tar header of %s has a malformed %s", finding.QuoteMax(h.name, 200), f.what)
		}
	}
	h.size, h.mode = values[0], uint32(values[1]&0o7777)
	if magic {
		_, unameNUL := text(b[265:297])
		_, gnameNUL := text(b[297:329])
		linkNUL = linkNUL || unameNUL || gnameNUL
	}
	if linkNUL {
		return h, Faultf(ContainerCorrupt, h.name, "tar header of %s has bytes after the NUL of a text field", finding.QuoteMax(h.name, 200))
	}
	return h, nil
}

// text returns a field up to its first NUL, and whether other bytes follow.
func text(b []byte) (s string, rest bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return string(b), false
	}
	var zero [blockSize]byte
	return string(b[:i]), !bytes.Equal(b[i:], zero[:len(b)-i])
}

// parseNumber reads octal digits with blanks or NULs around, nothing at all
// as 0, or a base-256 number, saturated. Negative numbers are not ok.
func parseNumber(b []byte) (n int64, ok bool) {
	if b[0]&0x80 != 0 {
		if b[0]&0x40 != 0 {
			return 0, false
		}
		n = int64(b[0] & 0x3f)
		for _, c := range b[1:] {
			if n > math.MaxInt64>>8 {
				return math.MaxInt64, true
			}
			n = n<<8 | int64(c)
		}
		return n, true
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == 0) {
		b = b[:len(b)-1]
	}
	for len(b) > 0 && (b[0] == ' ' || b[0] == 0) {
		b = b[1:]
	}
	for _, c := range b {
		if c < '0' || c > '7' {
			return 0, false
		}
		if n > math.MaxInt64>>3 {
			return math.MaxInt64, true
		}
		n = n<<3 | int64(c-'0')
	}
	return n, true
}

// pax is what the extension headers before a member say.
type pax struct {
	path, link       *string
	size             *int64
	gnuName, gnuLink *string
	sparse, xattr    bool
	ignored          []string // keys without meaning here
	kinds            string   // flags of the extension headers seen
}

// parsePax reads the records of a pax header, each `LENGTH KEY=VALUE` LF with
// LENGTH counting the whole record. Global headers may hold only comment.
// Lenient is Profile.LenientPax.
func (p *pax) parse(body []byte, global, lenient bool) *Finding {
	seen := map[string]bool{}
	corrupt := func(what string) *Finding {
		return Faultf(ContainerCorrupt, "", "pax header %s", what)
	}
	for len(body) > 0 {
		sp := bytes.IndexByte(body, ' ')
		if sp < 1 || sp > 10 {
			return corrupt("has a record without a length")
		}
		n, err := strconv.ParseUint(string(body[:sp]), 10, 32)
		if err != nil || body[0] == '0' || n > uint64(len(body)) || n < uint64(sp)+3 {
			return corrupt("has a record with a wrong length")
		}
		record := body[sp+1 : n]
		body = body[n:]
		if record[len(record)-1] != '\n' {
			return corrupt("has a record that does not end in a line feed")
		}
		key, value, ok := strings.Cut(string(record[:len(record)-1]), "=")
		if !ok || key == "" {
			return corrupt("has a record without a key")
		}
		if seen[key] {
			return corrupt("has the key " + finding.QuoteMax(key, 60) + " twice")
		}
		seen[key] = true
		if strings.IndexByte(value, 0) >= 0 && key != "path" && !isXattr(key) && !lenient {
			return corrupt("has a NUL in the value of " + finding.QuoteMax(key, 60))
		}
		if global {
			if key != "comment" {
				return Faultf(ContainerPaxGlobal, "", "global pax header sets %s, only comment is allowed", finding.QuoteMax(key, 60))
			}
			continue
		}
		switch {
		case key == "path":
			p.path = &value
		case key == "linkpath":
			p.link = &value
		case key == "size":
			v, err := strconv.ParseUint(value, 10, 63)
			if err != nil && !(err.(*strconv.NumError).Err == strconv.ErrRange && allDigits(value)) {
				return corrupt("has a malformed size")
			}
			size := int64(min(v, math.MaxInt64))
			p.size = &size
		case key == "hdrcharset" && !lenient:
			return corrupt("sets hdrcharset")
		case strings.HasPrefix(key, "GNU.sparse."):
			p.sparse = true
		case isXattr(key):
			p.xattr = true
		case key == "mtime", key == "atime", key == "ctime", key == "uid", key == "gid", key == "uname", key == "gname", key == "comment":
		default:
			p.ignored = append(p.ignored, key)
		}
	}
	return nil
}

func isXattr(key string) bool {
	for _, prefix := range []string{"SCHILY.xattr.", "LIBARCHIVE.xattr.", "SCHILY.acl.", "RHT.security."} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// tarReader judges the stream of one archive in order, member by member.
type tarReader struct {
	p       *Profile
	s       *stream
	a       *Archive
	raw     *hashReader
	head    [blockSize]byte // of the current member
	cur     Member          // its own place, because rules take its address
	bytes   int64           // sum of names and link targets
	counted int64           // headers and declared sizes so far
	seen    int64           // members seen, the root included
	kept    int64
	rooted  bool // the root has a member of its own
	canon   *canonChecker
	ext     []byte // raw extension headers of the current member
}

// run reads all members and the end of the archive.
func (t *tarReader) run() error {
	first := true
	for {
		var ext pax
		t.ext = t.ext[:0]
		h, end, err := t.header(&ext, first)
		if err != nil {
			return err
		}
		if end {
			break
		}
		first = false
		if err := t.member(h, &ext); err != nil {
			return err
		}
	}
	if err := t.drain(); err != nil {
		return err
	}
	for i := range t.a.Members {
		if t.a.Members[i].Type != Dir {
			return nil
		}
	}
	if t.p.Links && len(t.a.Members) > 0 {
		return nil
	}
	return Faultf(ContainerNoEntries, "", "the archive holds no file")
}

// header reads extension headers and the header of a member; end at the two
// zero blocks.
func (t *tarReader) header(ext *pax, first bool) (h header, end bool, err error) {
	b := &t.head
	for {
		if err := t.block(b, first); err != nil {
			return h, false, err
		}
		if *b == ([blockSize]byte{}) {
			if err := t.block(b, false); err != nil {
				return h, false, err
			}
			if *b != ([blockSize]byte{}) {
				return h, false, Faultf(ContainerCorrupt, "", "a lone zero block is followed by data")
			}
			if ext.kinds != "" && strings.Trim(ext.kinds, "g") != "" {
				return h, false, Faultf(ContainerCorrupt, "", "an extension header has no member")
			}
			return h, true, nil
		}
		h, fault := parseHeader(b)
		if fault != nil {
			return h, false, fault
		}
		first = false
		t.counted += blockSize
		t.ext = append(t.ext, b[:]...)
		switch h.flag {
		case 'x', 'g', 'L', 'K':
			if err := t.extension(h, ext); err != nil {
				return h, false, err
			}
		default:
			return h, false, nil
		}
	}
}

func (t *tarReader) extension(h header, ext *pax) error {
	if h.nameNUL {
		return Faultf(ContainerCorrupt, "", "the name of an extension header is followed by bytes after a NUL")
	}
	if len(ext.kinds) > 0 && ext.kinds[len(ext.kinds)-1] == h.flag || h.flag != 'g' && strings.IndexByte(ext.kinds, h.flag) >= 0 {
		return Faultf(ContainerCorrupt, "", "two extension headers of one kind belong to one member")
	}
	ext.kinds += string(h.flag)
	if len(ext.kinds) > 8 {
		return Faultf(ContainerCorrupt, "", "too many extension headers belong to one member")
	}
	limit := int64(maxPax)
	if h.flag == 'L' || h.flag == 'K' {
		limit = t.p.Limits.Path + 1
	}
	if h.size > limit {
		return Faultf(LimitPath, "", "an extension header is %d bytes long, the limit is %d", h.size, limit)
	}
	body := make([]byte, h.size)
	if err := t.content(h.size, nil, body); err != nil {
		return err
	}
	t.counted += h.size
	t.ext = append(t.ext, body...)
	t.ext = append(t.ext, make([]byte, padding(h.size))...)
	switch h.flag {
	case 'L', 'K':
		s := string(bytes.TrimSuffix(body, []byte{0}))
		if h.flag == 'L' {
			ext.gnuName = &s
		} else {
			ext.gnuLink = &s
		}
		return nil
	}
	if fault := ext.parse(body, h.flag == 'g', t.p.LenientPax); fault != nil {
		return fault
	}
	return nil
}

func padding(size int64) int64 { return -size & (blockSize - 1) }

// block reads one header block. The end of the data is container-truncated.
func (t *tarReader) block(b *[blockSize]byte, first bool) error {
	n, err := t.s.readFull(b[:])
	if err != nil {
		return err
	}
	switch {
	case n == blockSize:
		return nil
	case first && n > 0 && Sniff(b[:n]) != Tar:
		return Faultf(ContainerCorrupt, "", "the compressed data is not a tar archive")
	}
	return Faultf(ContainerTruncated, "", "the archive ends without its two zero blocks")
}

// content reads size bytes of content and their padding into buf, or hands
// them to fn if buf is nil.
func (t *tarReader) content(size int64, fn func([]byte), buf []byte) error {
	var n int64
	var err error
	if buf != nil || size == 0 {
		var got int
		got, err = t.s.readFull(buf)
		n = int64(got)
	} else {
		n, err = t.s.copyN(size, fn)
	}
	if err != nil {
		return err
	}
	if n < size {
		return Faultf(ContainerTruncated, "", "the archive ends within a member")
	}
	var pad [blockSize]byte
	want := int(padding(size))
	got, err := t.s.readFull(pad[:want])
	if err != nil {
		return err
	}
	if got < want {
		return Faultf(ContainerTruncated, "", "the archive ends within a member")
	}
	if t.canon != nil && pad != ([blockSize]byte{}) {
		t.canon.deviate("padding is not zero")
	}
	return nil
}

// member judges one member in the order of docs/spec/rigbundle.md#verify and
// docs/spec/agentbundle.md#verify, and reads its content.
func (t *tarReader) member(h header, ext *pax) error {
	l := &t.p.Limits
	quoted := func() string { return finding.QuoteMax(h.name, 200) }
	t.seen++
	if ext.gnuName != nil {
		h.name, h.nameNUL = *ext.gnuName, h.nameNUL || strings.IndexByte(*ext.gnuName, 0) >= 0
		if t.p.StrictPax && ext.path != nil {
			return Faultf(ContainerCorrupt, h.name, "member %s has a GNU and a pax name", quoted())
		}
	}
	if ext.path != nil {
		h.name, h.nameNUL = *ext.path, h.nameNUL || strings.IndexByte(*ext.path, 0) >= 0
	}
	if ext.gnuLink != nil {
		if t.p.StrictPax && ext.link != nil {
			return Faultf(ContainerCorrupt, h.name, "member %s has a GNU and a pax link target", quoted())
		}
		h.link = *ext.gnuLink
	}
	if ext.link != nil {
		h.link = *ext.link
	}
	if ext.size != nil && t.p.PaxSize {
		h.size = *ext.size
	}
	if t.seen > l.Entries {
		return Faultf(LimitEntries, h.name, "the archive has more than %d members", l.Entries)
	}

	raw := h.name
	if fault := t.checkType(&h, ext); fault != nil {
		return fault
	}
	name := strings.TrimPrefix(h.name, "./")
	m := &t.cur
	*m = Member{Type: Type(h.flag), RawMode: h.mode, Size: h.size, data: t.s.offset}
	if m.Type == Dir {
		if h.name == "." || h.name == "./" {
			return t.rootMember(&h, ext)
		}
		name = strings.TrimSuffix(name, "/")
	}
	m.Name = name
	if h.nameNUL {
		return Faultf(MemberName, name, "member name %s is followed by bytes after a NUL", finding.QuoteMax(name, 200))
	}
	if name == "" && raw != "" {
		return Faultf(MemberPath, raw, "member name %s has an empty component", quoted())
	}
	if fault := CheckName(name); fault != nil {
		return fault
	}
	if fault := l.CheckPath(name); fault != nil {
		return fault
	}
	t.bytes += int64(len(name) + len(h.link))
	if t.bytes > l.NameBytes {
		return Faultf(LimitPath, name, "all names together are over the limit of %d bytes", l.NameBytes)
	}
	if ext.xattr {
		return Faultf(MemberXattr, name, "member %s carries an extended attribute or ACL", quoted())
	}
	if fault := t.mode(m); fault != nil {
		return fault
	}
	if ext.size != nil && !t.p.PaxSize && *ext.size != h.size {
		return Faultf(ContainerCorrupt, name, "pax size of %s is %d, its header says %d", quoted(), *ext.size, h.size)
	}
	if m.Type == File {
		if name == t.p.Manifest && h.size > l.Manifest {
			return Faultf(LimitManifest, name, "%s is %d bytes long, the limit is %d", quoted(), h.size, l.Manifest)
		}
		if h.size > l.MemberSize {
			return Faultf(LimitMemberSize, name, "%s is %d bytes long, the limit is %d", quoted(), h.size, l.MemberSize)
		}
	}
	t.counted += h.size
	total := t.counted
	if t.p.CountPadding {
		total = t.s.offset + h.size
	}
	if total > l.TotalSize {
		return Faultf(LimitTotalSize, name, "with %s the archive is %d bytes long, the limit is %d", quoted(), total, l.TotalSize)
	}
	if _, twice := t.a.index[name]; twice {
		return Faultf(MemberDuplicate, name, "the name %s occurs twice", quoted())
	}
	t.a.index[name] = len(t.a.Members)
	m.Link = h.link
	if m.Type == File || m.Type == Dir {
		m.Link = ""
	}
	if t.p.Check != nil {
		if fault := t.p.Check(m); fault != nil {
			return fault
		}
	}
	if fault := t.s.ratio(h.size); fault != nil {
		fault.Path = name
		return fault
	}
	for _, key := range ext.ignored {
		t.a.note(NotePaxIgnored, name, "pax key "+finding.QuoteMax(key, 60)+" is ignored")
	}
	if portable.Windows(name) != "" {
		t.a.note(NoteWindowsName, name, "Windows cannot hold this name")
	}
	if portable.Mac(name) {
		t.a.note(NoteMacFile, name, MacFile)
	}
	if t.canon != nil {
		t.canon.member(m, t.ext)
	}
	return t.body(m)
}

// rootMember judges the directory that stands for the root itself, which is
// not kept: it has no name and no limits of its own.
func (t *tarReader) rootMember(h *header, ext *pax) error {
	t.deviate("the root has a member of its own")
	t.cur.Name = "."
	if h.nameNUL {
		return Faultf(MemberName, ".", "the name of the root is followed by bytes after a NUL")
	}
	if ext.xattr {
		return Faultf(MemberXattr, ".", "the root carries an extended attribute or ACL")
	}
	if t.p.StrictModes {
		if fault := t.mode(&t.cur); fault != nil {
			return fault
		}
	}
	if t.rooted && t.p.Links {
		return Faultf(MemberDuplicate, ".", "the root has two members")
	}
	t.rooted = true
	return nil
}

// checkType judges the type and what belongs to it: member-type.
func (t *tarReader) checkType(h *header, ext *pax) *Finding {
	bad := func(what string, args ...any) *Finding {
		return Faultf(MemberType, h.name, "member %s %s", finding.QuoteMax(h.name, 200), fmt.Sprintf(what, args...))
	}
	if ext.sparse {
		return bad("is a sparse file, only plain files are allowed")
	}
	switch h.flag {
	case '0', '5':
	case '1', '2':
		if !t.p.Links {
			return bad("is a link, only plain files are allowed")
		}
	case '3', '4':
		return bad("is a device")
	case '6':
		return bad("is a FIFO")
	case '7':
		return bad("is a contiguous file, only plain files are allowed")
	default:
		return bad("has the unknown type %s", finding.Quote(string([]byte{h.flag})))
	}
	if h.flag != '0' && h.size != 0 {
		return bad("is a %v with %d bytes of data", Type(h.flag), h.size)
	}
	if h.flag != '5' && strings.HasSuffix(h.name, "/") {
		return bad("is not a directory but its name ends in a slash")
	}
	if h.flag == '0' && h.link != "" && !t.p.Links {
		return bad("is a file with a link name")
	}
	return nil
}

// mode normalises the mode: 0644 or 0755 for files, 0755 for directories.
func (t *tarReader) mode(m *Member) *Finding {
	raw := m.RawMode
	if m.Type == Symlink {
		m.Mode = 0o777
		return nil
	}
	if t.p.StrictModes {
		bits := raw & 0o7000
		if m.Type != Hardlink {
			bits = raw & 0o7002
		}
		if bits != 0 {
			return Faultf(MemberMode, m.Name, "member %s has mode %04o, set-uid, set-gid, sticky and writable by others are refused", finding.QuoteMax(m.Name, 200), raw)
		}
	}
	m.Mode = NormalMode(raw)
	if m.Type == Dir {
		m.Mode = 0o755
	}
	if raw != m.Mode && m.Type != Hardlink {
		t.a.note(NoteModeNormalized, m.Name, fmt.Sprintf("mode %04o becomes %04o", raw, m.Mode))
	}
	return nil
}

// body reads a member's content, hashes it and keeps what the format wants.
func (t *tarReader) body(m *Member) error {
	if f := ScreenName(m.Name, t.p.Allow); f != nil {
		t.a.screened([]*Finding{f}, nil)
	}
	if m.Type == File {
		keep := int64(0)
		if m.Name == t.p.Manifest {
			keep = m.Size
		} else if t.p.Keep != nil {
			keep = min(t.p.Keep(m), m.Size)
			if t.kept+keep > t.p.KeepBudget {
				keep = 0
			}
			t.kept += keep
		}
		var kept []byte
		if keep > 0 || m.Name == t.p.Manifest {
			kept = make([]byte, 0, min(keep, maxPrepared)) // what the file does not fill is never touched
		}
		var err error
		if now := t.s.ready(); int64(len(now)) >= m.Size { // most files lie in the chunk in hand
			now = now[:m.Size]
			m.SHA256 = sha256.Sum256(now)
			kept = append(kept, now[:keep]...)
			t.a.screened(ScreenText(m.Name, now, t.p.Texts, t.p.Allow))
			err = t.content(m.Size, func([]byte) {}, nil)
		} else {
			h := t.a.hasher()
			text := newTextScreen(m.Name, t.p.Texts, t.p.Allow)
			err = t.content(m.Size, func(b []byte) {
				h.Write(b)
				if text != nil {
					text.write(b)
				}
				if room := keep - int64(len(kept)); room > 0 {
					kept = append(kept, b[:min(room, int64(len(b)))]...)
				}
			}, nil)
			h.Sum(m.SHA256[:0])
			if text != nil {
				t.a.screened(text.end())
			}
		}
		if err != nil {
			if f := AsFinding(err); f != nil && f.Path == "" {
				f.Path = m.Name
			}
			return err
		}
		if kept != nil {
			t.a.Kept[m.Name] = kept
		}
	}
	if n := len(t.a.Members); n == cap(t.a.Members) {
		t.a.Members = slices.Grow(t.a.Members, t.more(n))
	}
	t.a.Members = append(t.a.Members, *m)
	return nil
}

// more returns the number of members for which room is made after n of them,
// by the part of the file that they took. It saves copies, nothing depends on it.
func (t *tarReader) more(n int) int {
	if read := t.raw.n.Load(); n >= 1024 && read < t.a.FileSize && t.a.FileSize < math.MaxInt64 {
		whole := float64(n) * float64(t.a.FileSize) / float64(read)
		return max(n/4, int(min(whole*1.06, 5*float64(n)))-n)
	}
	return max(n, 64)
}

// drain reads on to the last byte of the file: zero padding and nothing else.
func (t *tarReader) drain() error {
	var b [blockSize]byte
	for n := 0; ; {
		got, err := t.s.readFull(b[:])
		if err != nil {
			return err
		}
		if len(bytes.Trim(b[:got], "\x00")) > 0 {
			return Faultf(ContainerTrailingData, "", "data follows the end of the archive")
		}
		if n += got; n > maxPadding {
			return Faultf(ContainerTrailingData, "", "more than %d zero bytes follow the end of the archive", maxPadding)
		}
		if got > 0 {
			t.deviate("padding follows the end of the archive")
		}
		if got < blockSize {
			return nil
		}
	}
}

func (t *tarReader) deviate(why string) {
	if t.canon != nil {
		t.canon.deviate(why)
	}
}
