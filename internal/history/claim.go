package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Claim is a nonce that an envelope is about to use.
type Claim struct {
	Nonce string
	Path  string
	Blob  string // the same path with the same blob is one envelope
}

// ClaimTime is for how long a claim holds. It need only last from the check of
// a push until its refs have moved.
const ClaimTime = 5 * time.Minute

// Take claims nonces for a push that was found good, before any of its refs
// moves, so that no other push takes them at the same instant for another
// envelope: what neither history shows yet, the claims do. It returns what is
// claimed already, of which then nothing is taken. Claims are files in a
// directory below dir, written under a lock that is held for no longer than
// this call; they end by themselves, and whoever pushes next removes them. now
// is the server's clock. An error means that it is not known whether somebody
// else takes the nonces.
func Take(dir string, now time.Time, claims []Claim) (taken []Claim, err error) {
	for _, d := range []string{dir, filepath.Join(dir, "claims")} {
		if err := os.Mkdir(d, 0o777); err != nil && !os.IsExist(err) {
			return nil, err
		}
		Share(d)
	}
	dir = filepath.Join(dir, "claims")
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	held, err := readClaims(dir, now)
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		if by, ok := held[c.file()]; ok && by != c.text() {
			taken = append(taken, c)
		}
	}
	if len(taken) > 0 {
		return taken, nil
	}
	for _, c := range claims {
		data := fmt.Sprintf("%d %s\n", now.Unix(), c.text())
		if err := replace(dir, c.file(), []byte(data)); err != nil {
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

// text says which envelope claims.
func (c Claim) text() string {
	sum := sha256.Sum256([]byte(c.Path + "\x00" + c.Blob))
	return hex.EncodeToString(sum[:])
}

// readClaims returns the claims that hold, by file, and removes the others.
func readClaims(dir string, now time.Time) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	held := map[string]string{}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var at int64
		var text string
		n, _ := fmt.Sscanf(string(data), "%d %64s\n", &at, &text)
		age := now.Sub(time.Unix(at, 0))
		if n != 2 || strings.HasPrefix(e.Name(), ".") || age > ClaimTime || age < -ClaimTime {
			_ = os.Remove(name) // of a process that ended before it was done, or of long ago
			continue
		}
		held[e.Name()] = text
	}
	return held, nil
}
