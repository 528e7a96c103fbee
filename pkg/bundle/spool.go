package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// A Spool keeps the stream that comes out of an archive while it is judged, so
// that it is not decompressed again to unpack it. It is a file of this user's
// state directory without a name: nobody else can change it, and it goes away
// with its handle.
type Spool struct {
	f      *handle
	failed bool
}

// spoolPrefix begins the name that a spool has for an instant.
const spoolPrefix = "spool-"

// sweepSpools removes names of spools whose runs were killed in that instant.
func sweepSpools(state *Dirs) error {
	names, err := state.root.names()
	for _, n := range names {
		if strings.HasPrefix(n, spoolPrefix) {
			if rerr := state.Remove(n); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
				err = cmpErr(err, rerr)
			}
		}
	}
	return err
}

// NewSpool makes a spool in a state directory, see [OpenState]. It returns nil
// where that is not possible: then an archive is decompressed twice.
func NewSpool(state string) *Spool {
	if runtime.GOOS == "windows" { // a file that is open keeps its name there
		return nil
	}
	d, err := OpenState(state)
	if err != nil {
		return nil // who needs the directory itself will say so
	}
	defer d.Close()
	name := spoolPrefix + randomName()
	f, err := d.create(name, 0o600)
	if err != nil {
		return nil
	}
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // swept by another run
		f.Close()
		return nil
	}
	return &Spool{f: f}
}

// write appends what was read; a full disk only makes the spool useless.
func (s *Spool) write(b []byte) {
	if s != nil && !s.failed {
		_, err := s.f.Write(b)
		s.failed = err != nil
	}
}

// Close gives the file back. A nil spool has none.
func (s *Spool) Close() error {
	if s == nil {
		return nil
	}
	return s.f.Close()
}

// Spooled reports whether the contents can be read at once and in any order.
func (a *Archive) Spooled() bool {
	s := a.profile.Spool
	return s != nil && !s.failed && a.Fault == nil
}

// Section gives the content of a file of a spooled archive. It may be used
// beside others.
func (a *Archive) Section(m *Member) (*io.SectionReader, error) {
	if !a.Spooled() || m.Type != File {
		return nil, fmt.Errorf("%s is not at hand", finding.QuoteMax(m.Name, 200))
	}
	return io.NewSectionReader(a.profile.Spool.f, m.data, m.Size), nil
}
