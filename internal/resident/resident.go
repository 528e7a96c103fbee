// Package resident is what a hook and the resident judge say to each other: a
// hook hands its call over, and gets an exit code (docs/spec/resident.md). It
// imports next to nothing, since a program that does little else must start at once.
package resident

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// What the judge says, a byte each.
const (
	Ready   = 'J' // it has taken the connection and waits for the call
	Refused = 'X' // it does not take the call: the hook judges by itself
	Verdict = 'R' // an exit code follows, one byte
)

// Worker is the name by which the program that judges is called.
const Worker = "rig-hook: judge"

// Words before the name of a hook.
const (
	Required = "--required" // it judges nothing by itself
	At       = "--socket="  // the path of the socket follows
)

// Variable names the socket where it is not the usual one.
const Variable = "RIGWARD_JUDGE"

// Socket returns where the judge of a user listens, by default.
func Socket(uid int) string { return "/run/rigward/judge-" + strconv.Itoa(uid) + ".sock" }

// maxCall is how many bytes a call has at the most; Linux lets a process have
// arguments and an environment of 6 MiB.
const maxCall = 8 << 20

// HeaderSize is how many bytes tell how long a call is.
const HeaderSize = 4

// A Call is what a hook was started with; its standard input, output and error
// go beside it as open files.
type Call struct {
	Dir      string // current directory
	Dev, Ino uint64 // of it, as the hook sees it
	Umask    int
	Args     []string // the hook's name, and the words after it
	Environ  []string // KEY=value
}

const form = "1"

var errCall = errors.New("this is not a call of a hook")

// Marshal returns a call behind its header. It fails if the call is too long, or
// has a NUL, which no argument and no environment has.
func (c Call) Marshal() ([]byte, error) {
	fields := append([]string{form, c.Dir, strconv.FormatUint(c.Dev, 10), strconv.FormatUint(c.Ino, 10), strconv.Itoa(c.Umask), strconv.Itoa(len(c.Args))}, c.Args...)
	fields = append(fields, c.Environ...)
	size := 0
	for _, f := range fields {
		if strings.IndexByte(f, 0) >= 0 {
			return nil, errCall
		}
		if size += len(f) + 1; size > maxCall {
			return nil, errCall
		}
	}
	data := make([]byte, HeaderSize, HeaderSize+size)
	binary.BigEndian.PutUint32(data, uint32(size))
	for _, f := range fields {
		data = append(append(data, f...), 0)
	}
	return data, nil
}

// Size returns how long the call behind a header is, and whether that is allowed.
func Size(header [HeaderSize]byte) (n int, ok bool) {
	size := binary.BigEndian.Uint32(header[:])
	return int(size), size <= maxCall
}

// Parse reads a call without its header.
func Parse(data []byte) (Call, error) {
	text, whole := strings.CutSuffix(string(data), "\x00")
	if !whole {
		return Call{}, errCall
	}
	f := strings.Split(text, "\x00")
	if len(f) < 6 || f[0] != form {
		return Call{}, errCall
	}
	c := Call{Dir: f[1]}
	var errs [4]error
	var args int
	c.Dev, errs[0] = strconv.ParseUint(f[2], 10, 64)
	c.Ino, errs[1] = strconv.ParseUint(f[3], 10, 64)
	c.Umask, errs[2] = strconv.Atoi(f[4])
	args, errs[3] = strconv.Atoi(f[5])
	if f = f[6:]; errors.Join(errs[:]...) != nil || c.Umask < 0 || c.Umask > 0o777 || args < 1 || args > len(f) {
		return Call{}, errCall
	}
	c.Args, c.Environ = f[:args:args], f[args:]
	return c, nil
}
