package gitrepo

// packObjects are commits and files that a packReader has read.
type packObjects struct {
	asked map[ID]looseBytes // by info, until contents hands them out
	held  int64             // bytes of these
	// Those that others are stored as differences to: what was used since new was
	// empty, and before that. Half of them goes when new is full.
	new, old map[packAt]looseBytes
	weight   int64 // bytes of new
	most     int64 // that it may have
}

// Limits of what a packReader reads besides trees.
const (
	packObjectsHeld  = 8 << 20 // bytes of objects that info has read
	packObjectsBases = 4 << 20 // bytes of new
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
		o.asked, o.new = make(map[ID]looseBytes), make(map[packAt]looseBytes)
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
	at, ok := p.files.find(id)
	if !ok {
		return looseBytes{}, false
	}
	var steps []packStep
	weight := int64(0)
	for {
		if found, ok = p.objects.base(at); ok {
			break
		}
		kind, size, base, from, ok := p.files.open(at.pack, at.at)
		if !ok || size > maxStored || kind <= packTag && packTypes[kind] == "tree" {
			return looseBytes{}, false
		}
		data, ok := p.files.inflate(at.pack.data, from, at.pack.size, size)
		if !ok {
			return looseBytes{}, false
		}
		if kind <= packTag {
			if found = (looseBytes{packTypes[kind], data}); found.typ == "blob" || len(steps) > 0 {
				p.objects.keep(at, found)
			}
			break
		}
		weight += size
		if steps = append(steps, packStep{at.at, data}); len(steps) > maxDeltaChain || weight > maxDeltas {
			return looseBytes{}, false
		}
		at.at = base
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if found.data, ok = applyDelta(nil, found.data, steps[i].delta, maxStored); !ok {
			return looseBytes{}, false
		}
		p.objects.keep(packAt{at.pack, steps[i].at}, found)
	}
	return found, true
}

// base returns an object that was kept.
func (o *packObjects) base(at packAt) (found looseBytes, ok bool) {
	if found, ok = o.new[at]; !ok {
		if found, ok = o.old[at]; ok {
			o.keep(at, found)
		}
	}
	return found, ok
}

// keep keeps an object that others may be stored as differences to, unless it is large.
func (o *packObjects) keep(at packAt, found looseBytes) {
	if len(found.data) > maxBase {
		return
	}
	if o.weight += int64(len(found.data)); o.weight > o.most {
		o.old, o.new, o.weight = o.new, make(map[packAt]looseBytes), int64(len(found.data))
	}
	o.new[at] = found
}
