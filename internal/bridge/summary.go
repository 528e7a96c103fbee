package bridge

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/rules"
)

// What status says of a thread follows from the thread's directory alone, and
// a directory that git finds unchanged is the tree that HEAD has of it. So a
// glance at a tree is kept under the tree's id: it stays true for good, and
// only threads whose trees are new are read.
//
// The file is derived and can be removed at any time. It carries a MAC with
// the user's secret, so that a file that came with a copied repository is as
// good as none. See internal/verdict for the same of the verdicts.
type summaries struct {
	file  string
	key   []byte
	known map[string][]byte // by tree id, packed glances
	fresh int               // how many of known are not in the file
}

const (
	summaryMagic = "rigward status 5\n"
	maxSummaries = 256 << 20 // bytes
	// maxGlance is how large a packed glance is that is kept, in bytes.
	maxGlance = 64 << 10
	// worthKeeping is for how many threads, new or gone, the file is written.
	worthKeeping = 16
)

// summaries reads what an earlier status has kept.
func (r *run) summaries(w *work) *summaries {
	s := &summaries{file: filepath.Join(w.repo.CommonDir(), "rigward", "status"), known: map[string][]byte{}}
	secret := verdict.Secret(r.env.Getenv, r.env.Rand)
	if secret == nil {
		return s
	}
	h := hmac.New(sha256.New, secret)
	io.WriteString(h, summaryMagic+w.repo.CommonDir())
	s.key = h.Sum(nil)
	data, err := readFile(s.file, maxSummaries)
	if err != nil || len(data) > maxSummaries {
		return s
	}
	s.parse(data, w.repo.HashLen()/2)
	return s
}

// parse reads magic, tree ids each with the length and the bytes of its packed
// glance, and the MAC of it all. What is not exactly that is not used.
func (s *summaries) parse(data []byte, idLen int) {
	body := len(data) - sha256.Size
	if body < len(summaryMagic) || string(data[:len(summaryMagic)]) != summaryMagic || !hmac.Equal(s.mac(data[:body]), data[body:]) {
		return
	}
	for rest := data[len(summaryMagic):body]; len(rest) > 0; {
		if len(rest) < idLen+4 {
			return
		}
		n := int(binary.BigEndian.Uint32(rest[idLen:]))
		if n > len(rest)-idLen-4 {
			return
		}
		s.known[string(rest[:idLen])] = rest[idLen+4 : idLen+4+n]
		rest = rest[idLen+4+n:]
	}
}

func (s *summaries) mac(data []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write(data)
	return h.Sum(nil)
}

// save writes the glances at the trees that HEAD has, if that spares the next
// status much. Where they cannot be written the next one is slower and says
// the same.
func (s *summaries) save(trees []string) {
	gone := len(s.known) - len(trees)
	if s.key == nil || s.fresh+max(0, gone) < worthKeeping && s.fresh < len(trees)/4 {
		return
	}
	data := []byte(summaryMagic)
	for _, id := range trees {
		raw, _ := hex.DecodeString(id)
		packed := s.known[string(raw)]
		if packed == nil || len(packed) > maxGlance {
			continue
		}
		data = append(data, raw...)
		data = binary.BigEndian.AppendUint32(data, uint32(len(packed)))
		data = append(data, packed...)
	}
	if data = append(data, s.mac(data)...); len(data) > maxSummaries {
		return
	}
	if err := files.KeepDir(filepath.Dir(s.file)); err != nil {
		return
	}
	_ = files.Swap(s.file, data, 0o600) // a cache: without it the next run does more
}

// find returns the glance at a tree.
func (s *summaries) find(tree, thread string) (*glance, bool) {
	raw, err := hex.DecodeString(tree)
	if err != nil {
		return nil, false
	}
	packed, ok := s.known[string(raw)]
	if !ok {
		return nil, false
	}
	g := &glance{}
	return g, g.unpack(packed, thread)
}

func (s *summaries) put(tree string, packed []byte) {
	if raw, err := hex.DecodeString(tree); err == nil {
		s.known[string(raw)] = packed
		s.fresh++
	}
}

// A packer writes the parts of a glance one after another.
type packer []byte

func (p *packer) number(n int) { *p = binary.AppendVarint(*p, int64(n)) }

func (p *packer) flag(b bool) {
	if b {
		p.number(1)
	} else {
		p.number(0)
	}
}

func (p *packer) text(s string) {
	p.number(len(s))
	*p = append(*p, s...)
}

func (p *packer) message(m *message) {
	p.text(m.file)
	p.text(m.blob)
	p.number(len(m.findings))
	for _, f := range m.findings {
		p.text(f.Rule)
		p.number(int(f.Severity))
		p.number(f.Line)
		p.number(f.Col)
		p.text(f.Message)
		p.text(f.Hint)
	}
	if p.flag(m.env != nil); m.env == nil {
		return
	}
	e := m.env
	for _, s := range []string{e.From, e.Date, e.Status, e.Type, e.Thread, e.Hash, e.AttestedAt} {
		p.text(s)
	}
	p.flag(e.ToList)
	p.number(len(e.To))
	for _, to := range e.To {
		p.text(to)
	}
}

func (g *glance) pack() []byte {
	var p packer
	p.number(g.count)
	p.number(g.invalid)
	p.flag(g.isThread)
	p.flag(g.closed)
	p.number(g.day)
	relays := g.relays
	if !slices.ContainsFunc(relays, (*message).isFreeze) {
		relays = nil // nothing is frozen
	}
	latest, words := []*message{}, []*message{}
	if m := g.last(); m != nil {
		latest = append(latest, m)
	}
	if m := g.lastWord(); m != nil {
		words = append(words, m)
	}
	for _, list := range [][]*message{latest, words, g.bad, relays} {
		p.number(len(list))
		for _, m := range list {
			p.message(m)
		}
	}
	p.number(len(g.to))
	for _, to := range g.to {
		p.text(to.rig)
		p.number(to.n)
	}
	return p
}

// An unpacker reads what a packer wrote; bad says that it was not written so.
type unpacker struct {
	data []byte
	bad  bool
}

func (u *unpacker) number() int {
	n, size := binary.Varint(u.data)
	if size <= 0 {
		u.bad, u.data = true, nil
		return 0
	}
	u.data = u.data[size:]
	return int(n)
}

func (u *unpacker) flag() bool { return u.number() == 1 }

func (u *unpacker) text() string {
	n := u.number()
	if n < 0 || n > len(u.data) {
		u.bad, u.data = true, nil
		return ""
	}
	s := string(u.data[:n])
	u.data = u.data[n:]
	return s
}

// length reads how many parts follow; each has a byte at least.
func (u *unpacker) length() int {
	n := u.number()
	if n < 0 || n > len(u.data) {
		u.bad = true
		return 0
	}
	return n
}

func (u *unpacker) message(thread string) *message {
	m := &message{thread: thread, day: noDay}
	m.file, m.blob = u.text(), u.text()
	for range u.length() {
		m.findings = append(m.findings, finding.Finding{Path: m.path(), Rule: u.text(), Severity: finding.Severity(u.number()),
			Line: u.number(), Col: u.number(), Message: u.text(), Hint: u.text()})
	}
	if !u.flag() {
		return m
	}
	e := &envelope.Envelope{}
	for _, s := range []*string{&e.From, &e.Date, &e.Status, &e.Type, &e.Thread, &e.Hash, &e.AttestedAt} {
		*s = u.text()
	}
	e.ToList = u.flag()
	for range u.length() {
		e.To = append(e.To, u.text())
	}
	m.env = e
	m.dated(e.Date)
	return m
}

func (g *glance) unpack(data []byte, thread string) bool {
	u := unpacker{data: data}
	g.count, g.invalid = u.number(), u.number()
	g.isThread, g.closed = u.flag(), u.flag()
	g.day = u.number()
	for _, list := range []*[]*message{&g.latest, &g.words, &g.bad, &g.relays} {
		for range u.length() {
			*list = append(*list, u.message(thread))
		}
	}
	if n := u.length(); n > 0 {
		g.to = make([]received, 0, min(n, len(u.data)))
		for range n {
			g.to = append(g.to, received{u.text(), u.number()})
		}
	}
	return !u.bad && len(u.data) == 0
}

// last returns the latest message of a thread, nil if it has none.
func (g *glance) last() *message {
	if len(g.latest) == 0 {
		return nil
	}
	sortMessages(g.latest)
	return g.latest[len(g.latest)-1]
}

// lastWord returns the latest message of a thread that is no ACK, nil if it has none.
func (g *glance) lastWord() *message {
	for _, list := range [][]*message{g.latest, g.words} {
		sortMessages(list)
		for _, m := range slices.Backward(list) {
			if m.env != nil && m.env.Type != "ACK" {
				return m
			}
		}
	}
	return nil
}

// A seen is a thread and what a glance at it shows.
type seen struct {
	name string
	tree string // that HEAD has of it, "" for none
	glance
}

// atHead glances at the threads of a commit whose directories the work tree
// holds as they are there. changed are the others, of which it returns the
// trees in own.
func (w *work) atHead(head string, changed map[string]bool, kept *summaries) (out []seen, trees []string, own map[string]string, err error) {
	own = map[string]string{}
	if head == "" {
		return nil, nil, own, nil
	}
	root, err := w.tree(head)
	if err != nil {
		return nil, nil, nil, err
	}
	top, err := w.repo.Tree(root)
	if err != nil {
		return nil, nil, nil, gitProblem(err)
	}
	var names, ids []string
	for e := range top.Entries() {
		if e.Mode != gitrepo.ModeTree || !isThreadName(e.Name) {
			continue
		}
		trees = append(trees, e.ID)
		if changed[e.Name] {
			own[e.Name] = e.ID
			continue
		}
		if g, ok := kept.find(e.ID, e.Name); ok {
			out = append(out, seen{e.Name, e.ID, *g})
			continue
		}
		names, ids = append(names, e.Name), append(ids, e.ID)
	}
	// git reads ahead while what it sent is parsed.
	type portion struct {
		names, ids []string
		glances    []*glance
		parsed     <-chan struct{}
		err        error
	}
	ahead := make(chan portion)
	go func() {
		defer close(ahead)
		for p := (portion{}); len(ids) > 0 && p.err == nil; names, ids = names[len(p.names):], ids[len(p.ids):] {
			n := min(len(ids), portionOfThreads)
			p.names, p.ids = names[:n], ids[:n]
			p.glances, p.parsed, p.err = w.glances(p.names, p.ids)
			ahead <- p
		}
	}()
	for p := range ahead {
		if p.err != nil {
			err = p.err
			continue
		}
		<-p.parsed
		for i, g := range p.glances {
			// What was read is let go of: only what is kept stays in memory.
			packed := g.pack()
			kept.put(p.ids[i], packed)
			small := glance{}
			small.unpack(packed, p.names[i])
			out = append(out, seen{p.names[i], p.ids[i], small})
		}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return out, trees, own, nil
}

// portionOfThreads is how many threads are read from git together, and
// portionOfBytes how much of them is parsed together.
const (
	portionOfThreads = 32
	portionOfBytes   = 1 << 20
)

// glances reads the threads of that many trees. They are whole once parsed is
// closed.
func (w *work) glances(names, ids []string) (out []*glance, parsed <-chan struct{}, err error) {
	out = make([]*glance, len(names))
	type file struct {
		thread int
		name   string
		m      *message
		o      gitrepo.Object
		blob   bool // it is read from git
		done   bool
	}
	var files []file
	var blobs []string
	i := 0
	err = w.repo.Objects(ids, gitrepo.MaxTree, func(o gitrepo.Object) error {
		thread := i
		i++
		out[thread] = &glance{day: noDay}
		if o.Err != nil {
			return o.Err
		}
		entries, err := splitTree(o.Data, w.repo.HashLen()/2)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.name, ".md") {
				continue
			}
			f := file{thread: thread, name: e.name}
			if why := notRegularEntry(e.mode); why != "" {
				f.m = unreadable(names[thread], e.name, why)
			} else if f.m = w.memory.message(names[thread], e.name, e.id); f.m == nil {
				blobs, f.blob = append(blobs, e.id), true
			}
			files = append(files, f)
		}
		return nil
	})
	if err != nil {
		return nil, nil, gitProblem(err)
	}
	var batch []*file
	bytes := 0
	before := make(chan struct{})
	close(before)
	// flush has what was read parsed, at most one batch beside the one that is
	// being read.
	flush := func(last func()) {
		<-before
		part, done := batch, make(chan struct{})
		batch, bytes, before = nil, 0, done
		go func() {
			defer close(done)
			rules.Parallel(len(part), func(i int) {
				f := part[i]
				if f.m = blobMessage(names[f.thread], f.name, f.o); f.o.Err == nil {
					w.memory.keep(f.m)
				}
				f.o = gitrepo.Object{}
			})
			for _, f := range part {
				out[f.thread].add(f.m)
				f.m, f.done = nil, true
			}
			last()
		}()
	}
	next := 0
	err = w.repo.Objects(blobs, envelope.DefaultLimits().File, func(o gitrepo.Object) error {
		for !files[next].blob {
			next++
		}
		files[next].o = o
		batch = append(batch, &files[next])
		next++
		if bytes += len(o.Data); bytes > portionOfBytes {
			flush(func() {})
		}
		return nil
	})
	if err != nil {
		<-before
		return nil, nil, gitProblem(err)
	}
	flush(func() {
		for _, f := range files {
			if !f.done {
				out[f.thread].add(f.m)
			}
		}
		for _, g := range out {
			slices.SortFunc(g.bad, func(a, b *message) int { return cmp.Compare(a.file, b.file) })
		}
	})
	return out, before, nil
}

// blobMessage judges a file as git stores it.
func blobMessage(thread, file string, o gitrepo.Object) *message {
	var m *message
	switch {
	case errors.Is(o.Err, gitrepo.ErrTooLarge):
		m = unreadable(thread, file, "the file is larger than any message may be")
	case o.Err != nil:
		m = unreadable(thread, file, "the file is not in this clone, and not in its work tree")
	default:
		if env, ok := quick(o.Data, thread); ok {
			m = &message{thread: thread, file: file, day: noDay, env: env}
			m.dated(env.Date)
		} else {
			m = newMessage(thread, file, o.Data)
		}
		if m.env != nil {
			m.env.Body, m.env.Frontmatter = nil, nil
		}
	}
	m.blob = o.ID
	return m
}
