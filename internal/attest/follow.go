package attest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// A Memory is what somebody has seen of a server's chain, and verified: a clone, or
// a witness. Whatever does not continue it is refused
// (docs/spec/attestation.md#memory).
type Memory struct {
	Chain
	Roots []Head `json:"roots"` // of the last statements that were seen, oldest first
}

// A Head is the size of a chain and the root of its Merkle tree.
type Head struct {
	Size int64     `json:"size"`
	Root tlog.Hash `json:"root"`
}

// maxRoots is of how many statements roots are kept: of older ones they are
// computed anew.
const maxRoots = 1024

// SeenDir is where a repository, whose common git directory is given, keeps what
// it has seen. It is not derived.
func SeenDir(common string) string { return filepath.Join(common, "rigward", "attest-seen") }

// ReadMemory reads a memory from a file; one that is not there is empty. One that
// cannot be read is an error: who forgot can be shown anything.
func ReadMemory(file string) (*Memory, error) {
	m := &Memory{}
	data, err := files.Kept(file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	if err != nil {
		return nil, &policy.Undecided{Message: "what was seen of the attestations cannot be read from " + finding.Quote(file),
			Hint: "rm " + finding.Word(filepath.ToSlash(file)) + ", after which all that was seen is forgotten", Cause: err}
	}
	return m, nil
}

// Write keeps a memory.
func (m *Memory) Write(file string) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o777)
	}
	if err == nil {
		err = files.Replace(file, data, 0o600)
	}
	return err
}

// Follow reads a chain up to its commit tip, "" for none, from where it was last
// seen. found is why it is not what it should be; gaps are what it says itself that
// went around the gates. If anything was found, nothing of it is remembered.
func (m *Memory) Follow(ctx context.Context, src Source, tip string, keys Keys) (found, gaps []Problem, err error) {
	bad := func(text string) ([]Problem, []Problem, error) {
		return []Problem{{Sequence: -1, Message: text}}, nil, nil
	}
	if tip == m.Tip {
		return nil, nil, nil
	}
	if tip == "" {
		return bad(fmt.Sprintf("there are no attestations any more, and statement %d was seen", m.Size-1))
	}
	next := &Memory{}
	follows := false
	if m.Tip != "" {
		if follows, err = src.Follows(ctx, m.Tip, tip); err != nil {
			return nil, nil, err
		}
	}
	if follows {
		if next, err = m.clone(); err != nil {
			return nil, nil, err
		}
	}
	same := follows || m.Size == 0
	all, err := next.Verify(ctx, src, tip, keys, func(s *Signed) {
		if next.Roots = append(next.Roots, Head{next.Size, next.Root()}); len(next.Roots) > maxRoots {
			next.Roots = next.Roots[1:]
		}
		same = same || next.Size == m.Size && next.Last == m.Last
	})
	if err != nil {
		return nil, nil, err
	}
	switch {
	case same:
	case next.Size < m.Size:
		return bad(fmt.Sprintf("it ends at statement %d, and statement %d was seen: it was rolled back, or is withheld", next.Size-1, m.Size-1))
	default:
		return bad(fmt.Sprintf("it does not continue what was seen, statement %d with the digest %s: there are two histories", m.Size-1, m.Last))
	}
	for _, p := range append(all, next.Ends()...) {
		if p.Gap {
			gaps = append(gaps, p)
		} else {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		*m = *next
	}
	return found, gaps, nil
}

func (m *Memory) clone() (*Memory, error) {
	n := &Memory{}
	data, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(data, n)
	}
	return n, err
}

// Check compares what was seen with the head that somebody else has seen, before
// this one was looked at, and says how they contradict each other, "" if they do not.
func (m *Memory) Check(ctx context.Context, src Source, h Head) (string, error) {
	if h.Size > m.Size {
		return fmt.Sprintf("it saw statement %d, and here the chain ends at %d: it was rolled back, or is withheld", h.Size-1, m.Size-1), nil
	}
	root, err := m.rootAt(ctx, src, h.Size)
	if err != nil || root == h.Root {
		return "", err
	}
	return fmt.Sprintf("it saw another statement %d, or another one before it: there are two histories", h.Size-1), nil
}

// errEnough ends a reading.
var errEnough = errors.New("that is enough")

// rootAt returns the root of the tree when the chain had that size.
func (m *Memory) rootAt(ctx context.Context, src Source, size int64) (tlog.Hash, error) {
	for _, r := range m.Roots {
		if r.Size == size {
			return r.Root, nil
		}
	}
	var c Chain
	err := src.Lines(ctx, m.Tip, "", func(_ string, _ int, lines [][]byte) error {
		for _, line := range lines {
			if c.Size == size {
				return errEnough
			}
			s, err := parse(line)
			if err != nil {
				return err
			}
			c.grow(s.Payload)
			c.Size++
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return c.Root(), err
}
