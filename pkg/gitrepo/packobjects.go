package gitrepo

import (
	"crypto/sha256"
	"sync"
)

// packObjects reads commits and files for a packReader, beside its trees: each has a
// store of its own, over the same packs.
type packObjects struct {
	mu    sync.Mutex // to be had before that of the packReader
	files *store
	proof *prover
	asked map[ID]looseBytes // read by info, until contents hands them out
	held  int64             // bytes of these
}

// Limits of what a packReader reads besides trees.
const (
	packObjectsHeld  = 8 << 20 // bytes of objects that info has read
	packObjectsBases = 4 << 20 // bytes of those that others differ from and that are used before older ones go
)

// info fills in the headers of those objects that packs have: of no trees, and of as many
// as may be held until contents is asked for them.
func (p *packReader) info(ids []ID, heads []header) (all bool) {
	all = true
	if p == nil {
		return false
	}
	o := &p.objects
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked == nil {
		o.asked, o.proof = make(map[ID]looseBytes), newProver(o.files.hash)
		o.files.packs, o.files.listed = p.packs(), true
	}
	read := int64(0)
	for i, id := range ids {
		if heads[i].id != "" {
			continue
		}
		found, ok := o.asked[id]
		if !ok && read < packObjectsHeld {
			if found, ok = o.object(id); ok {
				if read += int64(len(found.data)); o.held > packObjectsHeld {
					clear(o.asked) // nobody came for them
					o.held = 0
				}
				o.asked[id] = found
				o.held += int64(len(found.data))
			}
		}
		if !ok {
			all = false
			continue
		}
		heads[i] = header{id: id, typ: found.typ, size: int64(len(found.data))}
	}
	return all
}

// contents calls fn for those objects that info has read, and lets go of them. It returns
// the numbers of the others.
func (p *packReader) contents(heads []header, fn func(i int, data []byte)) (others []int) {
	var data [][]byte
	if p != nil {
		data = p.take(heads)
	}
	for i := range heads {
		if data == nil || data[i] == nil {
			others = append(others, i)
		} else {
			fn(i, data[i])
		}
	}
	return others
}

func (p *packReader) take(heads []header) [][]byte {
	o := &p.objects
	o.mu.Lock()
	defer o.mu.Unlock()
	data := make([][]byte, len(heads))
	for i, h := range heads {
		if found, ok := o.asked[h.id]; ok && found.typ == h.typ && int64(len(found.data)) == h.size {
			data[i] = found.data
		}
	}
	for _, h := range heads {
		o.held -= int64(len(o.asked[h.id].data))
		delete(o.asked, h.id)
	}
	return data
}

// object reads a commit, a file or a tag. What it returns has the id that was asked for, by
// its hash; ok is false where git is to be asked.
func (o *packObjects) object(id ID) (found looseBytes, ok bool) {
	var room [sha256.Size]byte
	raw, ok := o.files.raw(id, &room)
	if !ok {
		return looseBytes{}, false
	}
	o.files.bytes = 0 // however many are read
	for _, pack := range o.files.packs {
		if at, likely := pack.likely(raw, o.files.room()); likely {
			found.typ, found.data, ok = o.files.entry(pack, at)
			if ok && o.proof.proves(raw, found.typ, found.data) {
				return found, true
			}
		}
	}
	return looseBytes{}, false
}

// close lets go of everything, before the packs are closed.
func (o *packObjects) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files.packs, o.files.bases, o.asked, o.held = nil, packBases{}, nil, 0
}
