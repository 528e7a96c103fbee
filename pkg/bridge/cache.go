package bridge

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A statusCache is what an earlier status found out, so that the next one need
// not open every file again: of each message in the plainest form its day and
// whether it is a RESOLUTION, and where the last walk through history met the
// messages that tie.
//
// It is derived and can be removed at any time: with it and without it status
// says the same. A message is known by a digest of its path and of what the
// file system says about the file (device, inode, size, times of the last
// change of content and of inode), as git's own index knows it; a file that
// changed in the last seconds is not kept, because it could change again
// without a trace. A walk is known by a digest of its tip and of the paths
// that it looked for. A file that is torn, foreign, of another version or too
// large is ignored and replaced. Whoever can write to the git directory can
// make it lie, and could make git lie as well.
type statusCache struct {
	file  string
	since time.Time // what changed after it is not kept
	facts []byte    // sorted records of factSize bytes
	walk  cacheKey  // the question, and
	steps []byte    // its answer: four bytes for each path

	mu    sync.Mutex
	kept  []fact // of this run
	fresh int    // how many of them were not known before
	moved bool   // there is a new walk
}

type cacheKey [16]byte

// A fact is what is known of a message without opening its file.
type fact struct {
	key        cacheKey
	day        int32
	resolution bool
}

const (
	// cacheMagic names the form of the file and the rules behind it: it
	// changes with what quick takes and with what a walk answers.
	cacheMagic = "rigward status 2\n"
	factSize   = 24
	maxFacts   = 1 << 18
	maxCache   = maxFacts*(factSize+4) + 1<<10 // bytes
	// worthCaching is from how many messages on the cache is written.
	worthCaching = 256
	settled      = 3 * time.Second
)

// statusCache reads the cache of this work tree.
func (r *run) statusCache(w *work) *statusCache {
	c := &statusCache{file: filepath.Join(w.repo.GitDir(), "rigward", "status"), since: r.env.Now().Add(-settled)}
	f, err := os.OpenFile(c.file, os.O_RDONLY|openNoFollow, 0)
	if err != nil {
		return c
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxCache {
		return c
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCache))
	if err != nil {
		return c
	}
	c.parse(data)
	return c
}

// parse reads magic, number of facts, facts, question, answer and a SHA-256 of
// all of it; numbers are big-endian. What is not exactly that is not used.
func (c *statusCache) parse(data []byte) {
	body := len(data) - sha256.Size
	if body < len(cacheMagic)+4+len(cacheKey{}) || string(data[:len(cacheMagic)]) != cacheMagic {
		return
	}
	if sum := sha256.Sum256(data[:body]); !bytes.Equal(sum[:], data[body:]) {
		return
	}
	rest := data[len(cacheMagic):body]
	n := int64(binary.BigEndian.Uint32(rest))
	rest = rest[4:]
	if n > maxFacts || n*factSize+int64(len(cacheKey{})) > int64(len(rest)) {
		return
	}
	facts, rest := rest[:n*factSize], rest[n*factSize:]
	steps := rest[len(cacheKey{}):]
	if len(steps)%4 != 0 {
		return
	}
	c.facts, c.steps = facts, steps
	copy(c.walk[:], rest)
}

// find looks a message up.
func (c *statusCache) find(key cacheKey) (fact, bool) {
	low, high := 0, len(c.facts)/factSize
	for low < high {
		mid := int(uint(low+high) >> 1)
		record := c.facts[mid*factSize:][:factSize]
		switch bytes.Compare(record[:len(key)], key[:]) {
		case 0:
			return fact{key, int32(binary.BigEndian.Uint32(record[len(key):])), record[len(key)+4] == 1}, true
		case -1:
			low = mid + 1
		default:
			high = mid
		}
	}
	return fact{}, false
}

// keep takes over the facts of a thread, so many of which are new.
func (c *statusCache) keep(facts []fact, fresh int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, facts...)
	c.fresh += fresh
}

// walkKey is the digest of a walk: of its tip and the paths that it looks for.
func walkKey(head string, sorted []string) cacheKey {
	h := sha256.New()
	io.WriteString(h, cacheMagic+head+"\x00")
	for _, p := range sorted {
		io.WriteString(h, p+"\x00")
	}
	return cacheKey(h.Sum(nil)[:len(cacheKey{})])
}

// notMet stands for a message that is in no commit of the walk.
const notMet = 1<<32 - 1

// recall gives the messages the positions that a walk with this key found.
func (c *statusCache) recall(key cacheKey, sorted []*message) bool {
	if key != c.walk || len(c.steps) != 4*len(sorted) {
		return false
	}
	for i, m := range sorted {
		switch n := binary.BigEndian.Uint32(c.steps[4*i:]); n {
		case 0:
			m.position = unknownPosition
		case notMet:
			m.position = uncommittedPosition
		default:
			m.position = uncommittedPosition - int(n)
		}
	}
	return true
}

// learn is the opposite of recall.
func (c *statusCache) learn(key cacheKey, sorted []*message) {
	steps := make([]byte, 0, 4*len(sorted))
	for _, m := range sorted {
		n := uint32(notMet)
		switch {
		case m.position == unknownPosition:
			n = 0
		case m.position != uncommittedPosition:
			if uncommittedPosition-m.position >= notMet {
				return
			}
			n = uint32(uncommittedPosition - m.position)
		}
		steps = binary.BigEndian.AppendUint32(steps, n)
	}
	c.walk, c.steps, c.moved = key, steps, true
}

// save writes the cache if that spares the next run much. Where it cannot be
// written the next run is slower and says the same. Two writers at once can
// spoil the file, which its digest shows.
func (c *statusCache) save() {
	if len(c.kept) < worthCaching || len(c.kept) > maxFacts || c.fresh < worthCaching && !c.moved {
		return
	}
	slices.SortFunc(c.kept, func(a, b fact) int { return bytes.Compare(a.key[:], b.key[:]) })
	data := make([]byte, 0, len(cacheMagic)+4+len(c.kept)*factSize+len(c.steps)+64)
	data = append(data, cacheMagic...)
	data = binary.BigEndian.AppendUint32(data, uint32(len(c.kept)))
	for _, f := range c.kept {
		data = append(data, f.key[:]...)
		data = binary.BigEndian.AppendUint32(data, uint32(f.day))
		resolution := byte(0)
		if f.resolution {
			resolution = 1
		}
		data = append(data, resolution, 0, 0, 0)
	}
	data = append(append(data, c.walk[:]...), c.steps...)
	sum := sha256.Sum256(data)
	data = append(data, sum[:]...)
	if len(data) > maxCache {
		return
	}
	if err := os.Mkdir(filepath.Dir(c.file), 0o755); err != nil && !os.IsExist(err) {
		return
	}
	tmp := c.file + ".new"
	err := os.WriteFile(tmp, data, 0o644)
	if err == nil {
		err = os.Rename(tmp, c.file)
	}
	if err != nil {
		os.Remove(tmp)
	}
}
