// Package change says what a gate brings: the refs that move, and from where
// to where. It knows neither rules nor how git stores things.
package change

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// A RefUpdate is one ref that a push moves, creates or deletes.
type RefUpdate struct {
	Ref string // full name at the receiving side, raw bytes
	Old string // object id there now; all zeros if the ref is new
	New string // object id afterwards; all zeros if the ref is deleted
}

// Zero reports whether id stands for "no object": zeros only, however many.
func Zero(id string) bool { return id != "" && strings.Trim(id, "0") == "" }

// Create reports whether the update creates the ref. If it neither creates nor
// deletes it, it moves it.
func (u RefUpdate) Create() bool { return Zero(u.Old) }

// Delete reports whether the update deletes the ref.
func (u RefUpdate) Delete() bool { return Zero(u.New) }

// MaxInput is the most bytes of ref lines that a hook reads: about 100,000
// refs of 150 bytes.
const MaxInput = 16 << 20

// ParseReceive reads what git gives pre-receive and post-receive on standard
// input (githooks(5)): one "<old id> <new id> <ref>" a line.
//
// A last line without a line feed is an error: git ends every line with one, so
// the input was cut, and with it perhaps the name of a ref.
func ParseReceive(data []byte) ([]RefUpdate, error) {
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return nil, errors.New("the last line of standard input has no line feed, so it may be cut")
	}
	var out []RefUpdate
	err := eachLine(data, func(n int, line string) error {
		f := strings.SplitN(line, " ", 3)
		if len(f) != 3 || !isID(f[0]) || !isID(f[1]) || len(f[0]) != len(f[1]) || !isRef(f[2]) {
			return fmt.Errorf("line %d of standard input is %s, expected <old id> <new id> <ref>", n, finding.QuoteMax(line, 120))
		}
		out = append(out, RefUpdate{Ref: f[2], Old: f[0], New: f[1]})
		return nil
	})
	return out, err
}

// ParsePrePush reads what git gives pre-push on standard input (githooks(5)):
// one "<local ref> <local id> <remote ref> <remote id>" a line. The local ref
// is "(delete)" where a ref is deleted; it is not needed further.
func ParsePrePush(data []byte) ([]RefUpdate, error) {
	var out []RefUpdate
	err := eachLine(data, func(n int, line string) error {
		// The local ref is any revision the user typed, blanks included: the
		// three last words are fixed.
		f := strings.Split(line, " ")
		if len(f) >= 4 {
			f = f[len(f)-3:]
			if isID(f[0]) && isRef(f[1]) && isID(f[2]) && len(f[0]) == len(f[2]) {
				out = append(out, RefUpdate{Ref: f[1], Old: f[2], New: f[0]})
				return nil
			}
		}
		return fmt.Errorf("line %d of standard input is %s, expected <local ref> <local id> <remote ref> <remote id>", n, finding.QuoteMax(line, 120))
	})
	return out, err
}

// ParseUpdate reads the words that git gives the update hook: <ref> <old id>
// <new id>.
func ParseUpdate(args []string) (RefUpdate, error) {
	if len(args) != 3 || !isRef(args[0]) || !isID(args[1]) || !isID(args[2]) || len(args[1]) != len(args[2]) {
		return RefUpdate{}, fmt.Errorf("the words are %s, expected <ref> <old id> <new id>", finding.QuoteMax(strings.Join(args, " "), 120))
	}
	return RefUpdate{Ref: args[0], Old: args[1], New: args[2]}, nil
}

func eachLine(data []byte, fn func(n int, line string) error) error {
	for n := 1; len(data) > 0; n++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if err := fn(n, string(line)); err != nil {
			return err
		}
	}
	return nil
}

func isID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isRef reports whether s can be a full ref name: "HEAD" or below refs/, without
// blanks and control characters (git-check-ref-format(1)).
func isRef(s string) bool {
	if s != "HEAD" && !strings.HasPrefix(s, "refs/") {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
