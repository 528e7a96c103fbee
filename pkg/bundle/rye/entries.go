package rye

import (
	"runtime"
	"sync"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// A checked is what layer 7 found about one listed file.
type checked struct {
	faults   []*bundle.Finding
	missing  bool
	unsigned bool   // signable, but only the manifest vouches for it
	sum      string // SHA-256, "" if the file was not read
	line     *Line  // its signature is still to be verified
	screened []*bundle.Finding
	notes    []bundle.Note
}

// A reading is a listed file with its bytes.
type reading struct {
	entry *Entry
	data  []byte
	out   *checked
}

// largeFile is the size from which a file is judged before the next one is
// read, so that few bytes wait in memory.
const largeFile = 1 << 20

// entries runs layer 7. One goroutine reads, the others compute; the report is
// put together in the order of the manifest.
func (v *verifier) entries(m *Manifest) error {
	out := make([]checked, len(m.Entries))
	queue := make(chan reading, 8)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for r := range queue {
				v.compute(r)
			}
		})
	}
	err := v.readEntries(m, out, queue)
	close(queue)
	workers.Wait()
	if err == nil {
		err = v.verifyRest(m, out)
	}
	if err != nil {
		return err
	}
	for i := range out {
		v.report(&m.Entries[i], &out[i])
	}
	return nil
}

// report adds what was found about one file to the report.
func (v *verifier) report(e *Entry, c *checked) {
	r := v.r
	r.FilesChecked++
	if c.sum != "" {
		r.hashes[e.Path] = c.sum
	}
	switch {
	case c.missing:
		v.missing(e.Path)
	case len(c.faults) > 0:
		v.tampered(e.Path)
	case c.unsigned:
		v.r.Note(InlineUnsigned, e.Path, "only the manifest vouches for the item, it has no signature of its own")
	}
	v.add(c.faults...)
	if len(c.faults) == 0 {
		v.add(c.screened...)
		r.Tell(c.notes...)
	}
}

// screen judges a file as a text.
func (v *verifier) screen(p string, data []byte) {
	hidden, notes := bundle.ScreenText(p, data, bundle.TextsByContent, v.o.Allow)
	v.add(append(hidden, bundle.ScreenName(p, v.o.Allow))...)
	v.r.Tell(notes...)
}

// readEntries looks at every listed file and hands its bytes to the queue.
func (v *verifier) readEntries(m *Manifest, out []checked, queue chan<- reading) error {
	for i := range m.Entries {
		e, c := &m.Entries[i], &out[i]
		it, code, err := lookup(v.t, e.Path, v.folders)
		if err != nil {
			return err
		}
		if f := e.check(); f != nil {
			c.faults = append(c.faults, f)
		}
		switch {
		case code == FileMissing:
			c.missing = true
			c.faults = append(c.faults, e.at(code, "the file is listed, but not there"))
		case len(c.faults) > 0:
		case code == SymlinkFound:
			c.faults = append(c.faults, e.at(code, "the file is a link or is reached through one"))
		case code != "":
			c.faults = append(c.faults, e.at(code, "the path is listed, but is not a regular file"))
		default:
			data, err := readFile(v.t, e.Path, it.Size, MaxFile)
			if err != nil {
				return err
			}
			switch r := (reading{e, data, c}); {
			case data == nil:
				c.faults = append(c.faults, tooLarge(e.Path))
			case len(data) >= largeFile:
				v.compute(r)
			default:
				queue <- r
			}
		}
	}
	return nil
}

func (e *Entry) at(code, format string, args ...any) *bundle.Finding {
	return bundle.Faultf(code, e.Path, format, args...)
}

// check judges what the manifest says about the file, without looking at it.
func (e *Entry) check() *bundle.Finding {
	if e.fault != nil {
		return e.fault
	}
	if t := TypeOf(e.Path); e.hasItemType && e.ItemType != string(t) {
		return e.at(ItemTypeMismatch, "the manifest calls the item %s in line %d, its path says %s", finding.QuoteMax(e.ItemType, 40), e.Line, t)
	}
	return nil
}

// compute compares the file's hashes and checks its own signature, as far as
// the key was asked for already. It may run beside others.
func (v *verifier) compute(r reading) {
	c := r.out
	c.judge(r.entry, r.data, v.o.Allow)
	if c.line != nil && v.o.Keys.asked(c.line.Fingerprint) {
		c.verify(r.entry, v.o.Keys) // without an error: the keyring remembers the key
	}
}

// judge does what needs no key.
func (c *checked) judge(e *Entry, data []byte, allow []string) {
	c.screened, c.notes = bundle.ScreenText(e.Path, data, bundle.TextsByContent, allow)
	c.screened = append(c.screened, bundle.ScreenName(e.Path, allow))
	c.sum = hexSum(data)
	if e.ObjectHash != "" {
		if got := objectHash(e.Path, data, c.sum); got != e.ObjectHash {
			c.faults = append(c.faults, e.at(HashMismatch, "the file is not the listed one: its object_hash is %s, the manifest says %s", got, e.ObjectHash))
			return
		}
	}
	if e.SHA256 != "" && c.sum != e.SHA256 {
		c.faults = append(c.faults, e.at(HashMismatch, "the file is not the listed one: its sha256 is %s, the manifest says %s", c.sum, e.SHA256))
		return
	}
	f, ok := itemFormat(e.Path)
	switch {
	case !e.InlineSigned:
		c.unsigned = ok && signableName(e.Path) && !carriesLine(data, f)
	case !ok:
		c.faults = append(c.faults, e.at(NoSignatureFormat, "the manifest says that the item is signed, but a %s of this extension cannot be", TypeOf(e.Path)))
	default:
		s, fault := readText(data, f, TypeOf(e.Path), isKeyDocument(e.Path))
		if fault != nil {
			c.faults = append(c.faults, at(e.Path, fault)...)
			return
		}
		c.line = s.line
	}
}

// verify checks the signature that is left.
func (c *checked) verify(e *Entry, keys *Keyring) error {
	_, faults, err := verifyLine(c.line, keys)
	if err != nil {
		return err
	}
	c.faults = append(c.faults, at(e.Path, faults...)...)
	c.line = nil
	return nil
}

// verifyRest verifies the signatures by keys that nobody had asked for while
// files were read: first the keys are looked up, one after the other, then the
// signatures are checked side by side.
func (v *verifier) verifyRest(m *Manifest, out []checked) error {
	var rest []int
	for i := range out {
		if out[i].line == nil {
			continue
		}
		rest = append(rest, i)
		if _, _, _, err := v.o.Keys.Key(out[i].line.Fingerprint); err != nil {
			return err
		}
	}
	var workers sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for w := range n {
		workers.Go(func() {
			for k := w; k < len(rest); k += n {
				out[rest[k]].verify(&m.Entries[rest[k]], v.o.Keys) // the keyring remembers the key
			}
		})
	}
	workers.Wait()
	return nil
}
