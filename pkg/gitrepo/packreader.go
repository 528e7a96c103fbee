package gitrepo

import (
	"container/list"
	"crypto/sha256"
	"strings"
	"sync"
)

// A packReader reads what a long history consists of from packs, without git. The
// root of a repository of many threads is large, and each commit has another one, of
// which a pack holds the few bytes that differ: git would put all of each
// together and send it through a pipe. Commits and files are small, and sending them
// takes longer than reading them.
//
// Of trees it takes for true what a pack's index says, as git does, and does not hash
// them; of commits and files it does. What it does not know, git is asked for.
type packReader struct {
	mu    sync.Mutex
	files *store                   // whose packs are read
	kept  map[packAt]*list.Element // of order
	order list.List                // of keptTree, the last used first
	held  weighed
	most  int // bytes of trees that are kept

	objects packObjects
}

// A packAt is the place of an entry.
type packAt struct {
	pack *packFile
	at   int64
}

type keptTree struct {
	packAt
	t *Tree
}

// Limits of what a packReader reads of trees. The chains of a pack are mostly read from one
// end to the other: what is kept are the next ones.
const (
	packTreeBytes = 16 << 20 // of trees that are kept
	packTreeChain = 4096     // differences that lead to one tree
	packTreeSteps = 16 << 20 // bytes of these
	packTreeCount = 1024     // trees that are kept
)

// newPackReader reads from the directories of s; nil: only git can.
func newPackReader(s *store) *packReader {
	if s == nil {
		return nil
	}
	own := func() *store { return &store{dirs: s.dirs, hash: s.hash, most: MaxTree, windows: manyWindows} }
	p := &packReader{files: own(), kept: map[packAt]*list.Element{}, most: packTreeBytes}
	p.objects.files = own()
	p.objects.files.without, p.objects.files.bases.most = "tree", packObjectsBases
	return p
}

// packs returns the packs, which are opened once.
func (p *packReader) packs() []*packFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files.list()
	return p.files.packs
}

// Packed is about how many objects the repository holds in packs of the usual form: one
// in two packs counts twice. It is 0 where only git can tell.
func (r *Repo) Packed() (n int64) {
	p := r.packReader()
	if p == nil {
		return 0
	}
	for _, pack := range p.packs() {
		n += pack.count
	}
	return n
}

func (p *packReader) close() {
	if p == nil {
		return
	}
	p.objects.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files.closePacks()
	p.files.listed, p.held = true, weighed{}
	clear(p.kept)
	p.order.Init()
}

// tree returns a tree; nil where git is to be asked.
func (p *packReader) tree(id ID) *Tree {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files.list()
	at, ok := p.find(id)
	if !ok {
		return nil
	}
	t := p.entry(at)
	if t == nil {
		return nil
	}
	named := *t
	named.ID = id
	return &named
}

// find returns where an object lies.
func (p *packReader) find(id ID) (at packAt, ok bool) {
	var room [sha256.Size]byte
	raw, ok := p.files.raw(id, &room)
	if !ok {
		return packAt{}, false
	}
	for _, pack := range p.files.packs {
		if at, ok := pack.find(raw, p.files.room()); ok {
			return packAt{pack, at}, true
		}
	}
	return packAt{}, false
}

// entry reads the tree at a place, and keeps it with those on the way to it.
func (p *packReader) entry(at packAt) (t *Tree) {
	var steps []packStep
	weight := int64(0)
	for {
		if t = p.get(at); t != nil {
			break
		}
		kind, size, base, from, ok := p.files.open(at.pack, at.at)
		if !ok || kind <= packTag && packTypes[kind] != "tree" {
			return nil
		}
		data, ok := p.files.inflate(at.pack.data, from, at.pack.size, size)
		if !ok {
			return nil
		}
		if kind <= packTag {
			if t = p.parse(data); t == nil {
				return nil
			}
			p.put(at, t)
			break
		}
		weight += size
		if steps = append(steps, packStep{at.at, data}); len(steps) > packTreeChain || weight > packTreeSteps {
			return nil
		}
		at.at = base
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if t = p.patch(t, steps[i].delta); t == nil {
			return nil
		}
		p.put(packAt{at.pack, steps[i].at}, t)
	}
	return t
}

// patch makes a tree of another one and a difference; nil if it is not well-formed.
func (p *packReader) patch(t *Tree, delta []byte) *Tree {
	if t.stored() >= minOverlay {
		if u := t.patch(delta); u != nil {
			return u
		}
	}
	data, ok := applyDelta(nil, t.whole().raw, delta, MaxTree)
	if !ok {
		return nil
	}
	return p.parse(data)
}

// parse parses a tree whose id is not known; nil if it is not well-formed.
func (p *packReader) parse(data []byte) *Tree {
	t, err := parseTree(strings.Repeat("0", 2*p.files.hash), data, nil)
	if err != nil {
		return nil
	}
	return t
}

func (p *packReader) get(at packAt) *Tree {
	e := p.kept[at]
	if e == nil {
		return nil
	}
	p.order.MoveToFront(e)
	return e.Value.(keptTree).t
}

func (p *packReader) put(at packAt, t *Tree) {
	p.kept[at] = p.order.PushFront(keptTree{at, t})
	p.held.add(t)
	for (p.held.bytes > p.most || p.order.Len() > packTreeCount) && p.order.Len() > 1 {
		old := p.order.Remove(p.order.Back()).(keptTree)
		delete(p.kept, old.packAt)
		p.held.drop(old.t)
	}
}
