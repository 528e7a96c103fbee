// Package outbox keeps what a server's hooks have to tell until somebody takes
// it further: records, one a line, in files of the git directory that are only
// ever appended to (docs/spec/controlplane.md#outbox).
//
// A record that was appended survives the end of the process that wrote it,
// however it ends. Room is set aside before it is needed, so that a disk that
// others have filled takes records for a while. Whoever appends waits for the
// disk no longer than it says, and goes on without the record then.
//
// Any number of processes append and read at once. A reader names the place up
// to which it has read; what it has told twice is told apart by the records' ids.
package outbox

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/files"
)

// Bounds of an outbox.
const (
	// Wait is how long a hook waits for the disk where nothing else is configured.
	Wait = 5 * time.Millisecond
	// maxRecord is how many bytes a record has at the most.
	maxRecord = 48 << 10
	// segment is from how many bytes on a file is followed by another one.
	segment = 1 << 20
	// maxSegments is how many files there are at the most; then nothing more is
	// taken, since nobody seems to take it further.
	maxSegments = 256
	// rest is how long a file that was read to its end stays, for a process
	// that was about to write to it.
	rest = 10 * time.Minute
)

// Errors of Append.
var (
	errFull = fmt.Errorf("the outbox has %d files of %d bytes, and nobody takes them further", maxSegments, segment)
	errSlow = errors.New("the disk took longer than")
)

// A Ref is one ref update of a push.
type Ref struct {
	Name string `json:"ref"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// A Place is a rule that was broken, and where.
type Place struct {
	Rule    string `json:"rule"`
	Commit  string `json:"commit,omitempty"`
	Path    string `json:"path,omitempty"`
	Line    int    `json:"line,omitempty"`
	Col     int    `json:"col,omitempty"`
	Message string `json:"message,omitempty"`
}

// Stages of a push.
const (
	Received = "received" // a gate has read what it is to judge
	Judged   = "judged"   // it has come to an end
	Landed   = "landed"   // the refs have moved
)

// A Record is what a hook tells of a push. A push has one of each stage that it
// came to: what was received and neither judged nor landed was killed.
type Record struct {
	ID       string            `json:"id"`   // of the record
	Push     string            `json:"push"` // of the push, the same in all its records
	Stage    string            `json:"stage"`
	Hook     string            `json:"hook"`
	At       string            `json:"at"` // UTC, in microseconds
	Who      map[string]string `json:"who,omitempty"`
	Refs     []Ref             `json:"refs,omitempty"`
	MoreRefs int               `json:"more_refs,omitempty"` // left out
	Exit     int               `json:"exit"`                // of Judged
	Millis   float64           `json:"ms,omitempty"`        // of Judged: since the hook began
	Places   []Place           `json:"places,omitempty"`
	More     int               `json:"more,omitempty"`    // places left out
	Problem  string            `json:"problem,omitempty"` // why nothing could be decided
	Commits  int               `json:"commits,omitempty"`
	Verified json.RawMessage   `json:"verified,omitempty"` // of Judged, where gates attest: by what
}

// WhoKeys are the variables by which servers tell hooks who pushes. The first
// ones name a person, the best one first.
var WhoKeys = []string{
	"GL_USER", "GL_USERNAME", "GL_ID", "GITEA_PUSHER_NAME", "GITEA_PUSHER_ID", "REMOTE_USER", "GIT_PUSH_CERT_SIGNER", "USER", "LOGNAME",
	"REMOTE_ADDR", "SSH_CONNECTION", "GIT_PUSH_CERT_KEY", "GIT_PUSH_CERT_STATUS", "GIT_PUSH_CERT", "GL_PROTOCOL",
}

// persons are how many of WhoKeys name one.
const persons = 9

// Pusher returns who pushed, as the server named them, "" if it did not.
func (r *Record) Pusher() string {
	for _, key := range WhoKeys[:persons] {
		if v := r.Who[key]; v != "" {
			return v
		}
	}
	return ""
}

// Time is how a moment is written in records.
const Time = "2006-01-02T15:04:05.000000Z"

// NewID returns an id that nobody else has made.
func NewID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // which never fails
	return hex.EncodeToString(b[:])
}

// Dir is the outbox of a repository, whose common git directory is given.
func Dir(common string) string { return filepath.Join(common, "rigward", "outbox") }

// segments lists the files of an outbox, oldest first.
func segments(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []int
	for _, e := range entries {
		if digits, ok := strings.CutSuffix(e.Name(), ".log"); ok {
			if n, err := strconv.Atoi(digits); err == nil && n > 0 && e.Type().IsRegular() {
				all = append(all, n)
			}
		}
	}
	slices.Sort(all)
	return all, err
}

// open opens a file of an outbox. Several users may write to its directory: a link that one of them
// put there leads nobody to another file, and what is no file keeps nobody waiting.
func open(path string, how int) (*os.File, error) {
	return os.OpenFile(path, how|files.NoFollow, 0o600)
}

func name(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("%08d.log", n)) }

// line returns a record as it is written. It begins and ends with a newline, so
// that a line which was cut off by a full disk spoils none but itself.
func (r *Record) line() ([]byte, error) {
	for {
		data, err := json.Marshal(r)
		if err != nil || len(data)+2 <= maxRecord {
			return slices.Concat([]byte("\n"), data, []byte("\n")), err
		}
		switch { // what is longest is left out, and counted
		case len(r.Places) > 1:
			n := len(r.Places) / 2
			r.Places, r.More = r.Places[:n], r.More+len(r.Places)-n
		case len(r.Refs) > 1:
			n := len(r.Refs) / 2
			r.Refs, r.MoreRefs = r.Refs[:n], r.MoreRefs+len(r.Refs)-n
		default:
			return nil, errors.New("a record is too long")
		}
	}
}

// valid reports whether a record is one that a hook may have written, so that it fits into
// whatever takes it: a line may be damaged, or of a version to come.
func (r *Record) valid() bool {
	_, err := time.Parse(Time, r.At)
	key := func(s string) bool { return s != "" && len(s) <= 64 }
	return err == nil && key(r.ID) && key(r.Push) && len(r.Hook) <= 64 && (r.Stage == Received || r.Stage == Judged || r.Stage == Landed) &&
		r.Exit >= 0 && r.Exit <= math.MaxUint8 && r.Commits >= 0 && r.Commits <= math.MaxInt32
}

// Append adds a record to an outbox, which is made if it is not there. Where the
// disk does not answer within wait it returns an error, and the record may or may
// not be there.
func Append(dir string, r Record, wait time.Duration) error {
	data, err := r.line()
	if err != nil {
		return err
	}
	began, done := make(chan struct{}), make(chan error, 1)
	go func() {
		close(began)
		done <- write(dir, data)
	}()
	<-began // what this process itself waits for is not the disk
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%w %s", errSlow, wait)
	}
}

func write(dir string, data []byte) error {
	for {
		all, err := segments(dir)
		if err != nil {
			return err
		}
		n := 1
		if len(all) > 0 {
			n = all[len(all)-1]
		} else if err := makeDir(dir); err != nil {
			return err
		}
		f, err := take(dir, n, len(all))
		if err != nil || f == nil {
			if err != nil {
				return err
			}
			continue // somebody else made the next file
		}
		err = errors.Join(put(f, data), f.Close())
		if err != nil {
			return err
		}
		// A reader that was done with the file may have removed it meanwhile.
		if _, err := os.Lstat(f.Name()); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
}

// put writes a line at once: others append to the file, too.
func put(f *os.File, data []byte) error {
	n, err := f.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	return err
}

func makeDir(dir string) error {
	for _, d := range []string{filepath.Dir(dir), dir} {
		switch err := os.Mkdir(d, 0o700); {
		case err == nil:
			files.Share(d)
		case !errors.Is(err, fs.ErrExist):
			return err
		}
	}
	return nil
}

// take opens the newest file, or makes the next one if that is full.
func take(dir string, n, many int) (*os.File, error) {
	f, err := open(name(dir, n), os.O_WRONLY|os.O_APPEND)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		info, err := f.Stat()
		if err != nil || info.Size() < segment {
			return f, err
		}
		f.Close()
		if many >= maxSegments {
			return nil, errFull
		}
		n++
	}
	f, err = os.OpenFile(name(dir, n), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil
	}
	if err == nil {
		files.Share(f.Name())
		setAside(f, segment+maxRecord)
	}
	return f, err
}

// A Cursor is a place in an outbox: so many bytes of a file were read.
type Cursor struct {
	Segment int   `json:"segment"`
	Offset  int64 `json:"offset"`
}

// A Batch is what Read gives: records, and the place behind them.
type Batch struct {
	Records []Record
	Torn    int // lines that hold no record: a full disk or a kill has cut them off
	Next    Cursor
}

// Read returns up to most records from a place on, which need not exist any
// more: then it goes on with what is there. A line without its end is left for
// the next time, unless others follow it.
func Read(dir string, from Cursor, most int) (b Batch, err error) {
	all, err := segments(dir)
	b.Next = from
	if err != nil {
		return b, err
	}
	from = from.begin(dir, all)
	b.Next = from
	for i, n := range all {
		if n < from.Segment || len(b.Records) >= most {
			continue
		}
		if n > from.Segment {
			b.Next = Cursor{n, 0}
		}
		if err := b.file(name(dir, n), most, i < len(all)-1); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	return b, nil
}

// begin is where reading goes on from a place: there, or where no line ends at it from the
// beginning of what is there. Files may have been removed by hand, and a machine whose power
// failed may have lost their ends.
func (c Cursor) begin(dir string, all []int) Cursor {
	if len(all) > 0 && all[len(all)-1] < c.Segment {
		return Cursor{}
	}
	if c.Offset == 0 {
		return c
	}
	f, err := open(name(dir, c.Segment), os.O_RDONLY)
	if err != nil {
		return c
	}
	defer f.Close()
	last := []byte{'\n'}
	if info, err := f.Stat(); err == nil && info.Size() != c.Offset {
		_, err = f.ReadAt(last, c.Offset-1)
		if errors.Is(err, io.EOF) || err == nil && last[0] != '\n' {
			c.Offset = 0
		}
	}
	return c
}

func (b *Batch) file(path string, most int, followed bool) error {
	f, err := open(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(io.NewSectionReader(f, b.Next.Offset, segment+1<<22), segment+1<<22))
	if err != nil {
		return err
	}
	for len(data) > 0 && len(b.Records) < most {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole && !followed {
			return nil
		}
		b.Next.Offset += int64(len(data) - len(rest))
		data = rest
		if len(line) == 0 {
			continue
		}
		var r Record
		if json.Unmarshal(line, &r) != nil || !r.valid() {
			b.Torn++
			continue
		}
		b.Records = append(b.Records, r)
	}
	return nil
}

// Latest returns the records at the end of an outbox, of the last bytes of its
// newest files.
func Latest(dir string) []Record {
	all, err := segments(dir)
	if err != nil {
		return nil
	}
	const tail = 128 << 10
	first, left := len(all), int64(tail)
	for first > 0 && left > 0 {
		first--
		if info, err := os.Lstat(name(dir, all[first])); err == nil {
			left -= info.Size()
		}
	}
	var b Batch
	b.Next.Offset = max(0, -left)
	for _, n := range all[first:] {
		_ = b.file(name(dir, n), 1<<20, true) // what cannot be read is not known
		b.Next.Offset = 0
	}
	return b.Records
}

// Shipped returns up to where an outbox was taken further, as Keep has written it;
// what cannot be read is the beginning, so that all is told again.
func Shipped(dir string) (c Cursor) {
	data, err := files.Kept(filepath.Join(dir, "shipped"))
	if err != nil || json.Unmarshal(data, &c) != nil || c.Segment < 0 || c.Offset < 0 {
		return Cursor{}
	}
	return c
}

// Keep writes down up to where an outbox was taken further, and removes the
// files before that which nobody writes to any more.
func Keep(dir string, c Cursor, now time.Time) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := files.Swap(filepath.Join(dir, "shipped"), data, 0o600); err != nil {
		return err
	}
	files.Share(filepath.Join(dir, "shipped"))
	all, err := segments(dir)
	for i, n := range all {
		if n >= c.Segment || i == len(all)-1 {
			break
		}
		info, statErr := os.Stat(name(dir, n))
		if statErr == nil && now.Sub(info.ModTime()) > rest {
			err = errors.Join(err, os.Remove(name(dir, n)))
		}
	}
	return err
}

// Waiting returns how many bytes of an outbox lie behind a place.
func Waiting(dir string, c Cursor) (bytes int64, err error) {
	all, err := segments(dir)
	c = c.begin(dir, all)
	for _, n := range all {
		info, statErr := os.Lstat(name(dir, n))
		switch {
		case statErr != nil || n < c.Segment:
		case n == c.Segment:
			bytes += max(0, info.Size()-c.Offset)
		default:
			bytes += info.Size()
		}
	}
	return bytes, err
}

// Lock takes the lock of who takes an outbox further, so that hooks need start
// nobody; files.ErrLocked says that another process has it. It is given back by
// closing the file, or by the end of the process.
func Lock(dir string) (*os.File, error) { return lockFile(dir, "lock") }

// Turn takes the place of the one process that waits for Lock, where who takes an outbox
// further reads what is there after it has the lock and has given its turn back: so whoever
// wrote something and finds the turn taken may leave it to that process. files.ErrLocked says
// that another one has it.
func Turn(dir string) (*os.File, error) { return lockFile(dir, "turn") }

// Room says why nothing more can be written into an outbox that is there, such as a full
// disk. That this user may not write there is none of that: the hooks may run as another.
func Room(dir string) error {
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	d, err := files.NewDraft(filepath.Join(dir, "room"), 0o600, func(f *os.File) error {
		_, err := f.Write(make([]byte, 4096))
		return err
	})
	if err != nil {
		if errors.Is(err, fs.ErrPermission) || files.Hint(err) == "" {
			return nil
		}
		return err
	}
	d.Drop()
	return nil
}

func lockFile(dir, name string) (*os.File, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	f, err := open(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	files.Share(f.Name())
	if err := files.TryLock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// IsLock reports whether an open file is the one that Lock locks: a hook gives it, with the
// lock where the system lets it, to the process that it starts.
func IsLock(dir string, f *os.File) bool { return isFile(dir, "lock", f) }

// IsTurn is IsLock for the file that Turn locks.
func IsTurn(dir string, f *os.File) bool { return isFile(dir, "turn", f) }

func isFile(dir, name string, f *os.File) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	lock, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && os.SameFile(is, lock)
}

// A State is what whoever takes an outbox further last came to.
type State struct {
	Tried   string `json:"tried"`             // when it was tried last
	Done    string `json:"done,omitempty"`    // when nothing was left to do
	Checked string `json:"checked,omitempty"` // when the index was last compared with the history
	Wrong   int    `json:"wrong,omitempty"`   // differences that were found then
	Problem string `json:"problem,omitempty"` // of the last try, "" if there was none
	Torn    int    `json:"torn,omitempty"`    // lines that held no record
	Shipped int    `json:"shipped,omitempty"` // records taken further
	// Ahead is the place that was kept, and up to where the database has the records all the
	// same: it does not wait for a stream.
	Ahead [2]Cursor `json:"ahead,omitzero"`
}

// Read reads the state of an outbox; what cannot be read is that of one that
// nobody ever took further.
func (s *State) Read(dir string) {
	if data, err := files.Kept(filepath.Join(dir, "state")); err != nil || json.Unmarshal(data, s) != nil {
		*s = State{}
	}
}

// Write keeps it.
func (s *State) Write(dir string) error {
	data, err := json.Marshal(s)
	if err == nil {
		err = makeDir(dir)
	}
	if err == nil {
		err = files.Swap(filepath.Join(dir, "state"), data, 0o600)
	}
	if err == nil {
		files.Share(filepath.Join(dir, "state"))
	}
	return err
}

// Trouble says why an outbox was not taken further the last time, "" if it was.
func Trouble(dir string) string {
	var s State
	s.Read(dir)
	return s.Problem
}
