package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/files"
)

// A Claim is a nonce that an envelope is about to use.
type Claim struct {
	Nonce string
	Path  string
	Blob  string // the same path with the same blob is one envelope
	Ref   string // that is about to get it
	Old   string // the ref's commit before, "" if it is new
}

// claimTime is for how long a claim holds. It need only last from the check of
// a push until its refs have moved.
const claimTime = 5 * time.Minute

// Take claims nonces for a push that was found good, before any of its refs
// moves, so that no other push takes them at the same instant for another
// envelope: what neither history shows yet, the claims do. It returns what is
// claimed already, of which then nothing is taken.
//
// pending reports whether a ref was at a commit ("" for none) when the push was
// judged, and its nonces count. A claim for a ref that has moved since says
// nothing that the history did not say, so it does not hold; nor does one for
// the ref that the push itself moves, since git lets one of the two through.
//
// Claims are files in a directory below dir, written under a lock that is held
// for no longer than this call; they end by themselves, and whoever pushes next
// removes them. now is the server's clock. An error means that it is not known
// whether somebody else takes the nonces.
func Take(dir string, now time.Time, claims []Claim, pending func(ref, old string) bool) (taken []Claim, err error) {
	if err := os.Mkdir(dir, 0o777); err != nil && !os.IsExist(err) {
		return nil, err
	}
	files.Share(dir)
	if err := files.KeepDir(filepath.Join(dir, "claims")); err != nil {
		return nil, err
	}
	files.Share(filepath.Join(dir, "claims"))
	lock, err := os.OpenFile(filepath.Join(dir, "claims.lock"), os.O_RDONLY|os.O_CREATE|files.NoFollow, 0o666)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := files.Lock(lock); err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "claims")
	held, err := readClaims(dir, now)
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		for _, h := range held[c.file()] {
			if h.envelope != c.envelope() && h.ref != c.Ref && pending(h.ref, h.old) {
				taken = append(taken, c)
				break
			}
		}
	}
	if len(taken) > 0 {
		return taken, nil
	}
	for _, c := range claims {
		file := c.file()
		held[file] = append(slices.DeleteFunc(held[file], func(h heldClaim) bool {
			return h.envelope == c.envelope() && h.ref == c.Ref && h.old == c.Old
		}), heldClaim{now.Unix(), c.envelope(), c.Ref, c.Old})
		var text strings.Builder
		for _, h := range held[file] {
			fmt.Fprintf(&text, "%d %s %s %s\n", h.at, h.envelope, cmp.Or(h.old, "-"), h.ref)
		}
		if err := files.Swap(filepath.Join(dir, file), []byte(text.String()), 0o644); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// file is where the claims of a nonce are kept: nobody chooses it freely.
func (c Claim) file() string {
	sum := sha256.Sum256([]byte(c.Nonce))
	return hex.EncodeToString(sum[:])
}

// envelope says which envelope claims.
func (c Claim) envelope() string {
	sum := sha256.Sum256([]byte(c.Path + "\x00" + c.Blob))
	return hex.EncodeToString(sum[:])
}

// A heldClaim is a line of a file of claims.
type heldClaim struct {
	at                 int64
	envelope, ref, old string
}

// readClaims returns the claims that are young enough, by file, and removes the
// files that have none.
func readClaims(dir string, now time.Time) (map[string][]heldClaim, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	held := map[string][]heldClaim{}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if !e.Type().IsRegular() {
			continue // nobody has claimed by that
		}
		data, err := files.Read(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// One that begins with a dot is of a process that ended before it was done.
		if list := parseClaims(data, now); len(list) > 0 && !strings.HasPrefix(e.Name(), ".") {
			held[e.Name()] = list
		}
		if held[e.Name()] == nil {
			_ = os.Remove(name)
		}
	}
	return held, nil
}

// parseClaims reads the claims of a file that hold at a time; lines that are not
// claims are passed over.
func parseClaims(data []byte, now time.Time) (list []heldClaim) {
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(f) != 4 {
			continue
		}
		at, err := strconv.ParseInt(f[0], 10, 64)
		age := now.Sub(time.Unix(at, 0))
		if err != nil || age > claimTime || age < -claimTime {
			continue
		}
		h := heldClaim{at: at, envelope: f[1], ref: f[3]}
		if f[2] != "-" {
			h.old = f[2]
		}
		list = append(list, h)
	}
	return list
}
