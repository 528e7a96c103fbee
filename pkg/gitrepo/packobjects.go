package gitrepo

import "encoding/hex"

// packObjects are commits and files that a packReader has read.
type packObjects struct {
	asked map[ID]looseBytes // by info, until contents hands them out
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files.list()
	o := &p.objects
	if o.asked == nil {
		o.asked = make(map[ID]looseBytes)
	}
	read := int64(0)
	for i, id := range ids {
		if heads[i].id != "" {
			continue
		}
		found, ok := o.asked[id]
		if !ok && read < packObjectsHeld {
			if found, ok = p.object(id); ok {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	o := &p.objects
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

// object reads a commit, a file or a tag; ok is false where git is to be asked.
func (p *packReader) object(id ID) (found looseBytes, ok bool) {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != p.files.hash {
		return looseBytes{}, false
	}
	p.files.bytes = 0 // however many are read
	found.typ, found.data, ok = p.files.packed(raw)
	return found, ok
}
