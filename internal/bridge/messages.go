package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/relay"
	"github.com/rigward/rigward/pkg/rules"
)

// A message is one file of a thread directory of the work tree whose name
// ends in .md.
type message struct {
	thread, file string
	env          *envelope.Envelope // nil: the file is not readable as an envelope
	findings     []finding.Finding
	when         time.Time // instant of its date; zero if there is no valid one
	day          int       // UTC day of when, counted from 1970; noDay without one
	commit       string    // that introduced it, where that was asked for

	claims   bool            // it is not a good envelope, and means to be one
	data     []byte          // of the file, where readThread read it
	blob     string          // id that git gives to data, where that was asked for
	verdict  verdict.Verdict // where that was asked for
	restored bool            // it is what was accepted, not what the work tree holds
	gone     bool            // a commit deleted the file
	made     string          // when commit was made, where that was asked for
	came     order.Moment    // where that was asked for, the zero Moment: not known
	unread   bool            // it is to this clone's rig, and not marked as read
	again    bool            // its text was shown before
	why      []string        // it waits for this clone's rig

	acknowledged bool // by this rig, where that was asked for
}

const noDay = order.NoDay

func (m *message) path() string { return m.thread + "/" + m.file }

func (m *message) valid() bool { return m.env != nil && finding.Worst(m.findings) < finding.Error }

// content judges bytes by the rules of form and attestation. path is the envelope
// path where known, else "".
func content(data []byte, path string, mode uint32) (*envelope.Envelope, []finding.Finding) {
	return judged(data, envelope.Options{Path: path, Mode: mode})
}

// screened judges bytes by all rules that need no history (docs/spec/client.md#validate).
func screened(data []byte, path string, mode uint32) (*envelope.Envelope, []finding.Finding) {
	e, fs := judged(data, envelope.Options{Path: path, Mode: mode, Screen: true})
	if e != nil && e.Tombstone != nil {
		fs = append(fs, rules.NewTombstone(e, path))
	}
	return e, fs
}

func judged(data []byte, o envelope.Options) (*envelope.Envelope, []finding.Finding) {
	e, fs := envelope.Parse(data, o)
	if e != nil {
		fs = envelope.Hide(append(fs, relay.CheckContent(e)...), e.Secrets)
	}
	finding.Sort(fs)
	return e, fs
}

// newMessage judges the bytes of a file.
func newMessage(thread, file string, data []byte) *message {
	m := &message{thread: thread, file: file, day: noDay}
	m.env, m.findings = content(data, thread+"/"+file, 0)
	for i := range m.findings {
		m.findings[i].Path = m.path()
	}
	if m.env != nil {
		m.dated(m.env.Date)
	}
	m.claims = !m.valid() && meansToBe(data)
	return m
}

// claimBytes is how much of a broken envelope is looked at.
const claimBytes = 4 << 10

// meansToBe reports whether a file begins as an envelope does and has one of the
// keys by which others would know it for one, so that another document's front
// matter makes no thread.
func meansToBe(data []byte) bool {
	data = bytes.TrimPrefix(data[:min(len(data), claimBytes)], []byte("\ufeff"))
	if !bytes.HasPrefix(data, []byte("---")) {
		return false
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if i > 0 && bytes.HasPrefix(line, []byte("---")) {
			return false
		}
		for _, key := range []string{"from:", "to:", "thread:", "body_hash:"} {
			if bytes.HasPrefix(line, []byte(key)) {
				return true
			}
		}
	}
	return false
}

func (m *message) dated(date string) {
	var o order.Message
	o.Dated(date)
	m.day, m.when = o.Day, o.When
}

// unreadable is a file that could not be looked into.
func unreadable(thread, file, why string) *message {
	m := &message{thread: thread, file: file, day: noDay}
	m.findings = []finding.Finding{{Rule: "envelope-path", Severity: finding.Error, Path: m.path(), Line: 1, Col: 1, Message: why}}
	return m
}

// isThreadName reports whether a directory of that name can be a thread
// (docs/spec/envelope.md#where).
func isThreadName(name string) bool {
	return name != "dist" && name != "node_modules" && envelope.ValidThreadID(name) && portable.Check(name) == ""
}

// readThread reads every file of one thread directory whose name ends in .md,
// sorted by name. Links are named, not followed.
func readThread(root, thread string) ([]*message, error) {
	var out []*message
	err := eachMessage(root, thread, make([]byte, readBuffer), func(m *message) { out = append(out, m) })
	slices.SortFunc(out, func(a, b *message) int { return strings.Compare(a.file, b.file) })
	return out, err
}

// readBuffer is the size in bytes up to which a file is read at once.
const readBuffer = 32 << 10

// eachMessage reads a thread, in no order. A directory that is gone, as a pull
// beside us can make it, has no messages.
func eachMessage(root, thread string, buf []byte, fn func(*message)) error {
	path := filepath.Join(root, thread)
	dir, err := openDir(path, buf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cannotRead(path, err)
	}
	defer dir.close()
	entries, err := dir.entries()
	if err != nil {
		return cannotRead(path, err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".md") {
			continue
		}
		if m := dir.message(thread, e); m != nil {
			fn(m)
		}
	}
	return nil
}

// message reads and judges one file; nil if it is gone by now.
func (d *dirReader) message(thread string, e os.DirEntry) *message {
	data, bad := d.data(thread, e)
	if data == nil {
		return bad
	}
	data = bytes.Clone(data)
	m := newMessage(thread, e.Name(), data)
	m.data = data
	return m
}

// data reads a file. Where data is nil, bad says why it cannot be read, and is
// nil too if the file is gone by now. The bytes hold until the next read.
func (d *dirReader) data(thread string, e os.DirEntry) (data []byte, bad *message) {
	if why := notRegular(e.Type()); why != "" {
		return nil, unreadable(thread, e.Name(), why)
	}
	data, err := d.read(e.Name(), envelope.DefaultLimits().File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, unreadable(thread, e.Name(), "the file cannot be read: "+reason(err))
	case data == nil:
		data = []byte{}
	}
	return data, nil
}

func notRegular(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "the file is a symbolic link; links are not followed"
	case mode.IsDir():
		return "the file is a directory"
	case !mode.IsRegular():
		return "the file is not a regular file"
	}
	return ""
}

// notRegularEntry is notRegular of an entry of a tree or of the index, by its mode.
func notRegularEntry(mode string) string {
	switch mode {
	case "100644", "100755", "100664":
		return ""
	case "120000":
		return notRegular(fs.ModeSymlink)
	}
	return notRegular(fs.ModeDir)
}

// A glance is what status needs to know of one thread. Messages that cannot be
// the latest are only counted, so that memory follows the threads, not the
// messages.
type glance struct {
	count    int  // readable messages
	invalid  int  // files with a finding at error
	isThread bool // a message names this directory as its thread, or is a broken one
	closed   bool // there is a valid RESOLUTION
	day      int
	latest   []*message // of the latest day
	words    []*message // those that are no ACK, of the latest day that has one
	bad      []*message // with a finding at error
	relays   []*message
	to       []received
}

// A received is how many messages of a thread are to a rig.
type received struct {
	rig string
	n   int
}

// toRig returns how many messages of the thread are to a rig.
func (g *glance) toRig(rig string) int {
	i, found := g.place(rig)
	if !found {
		return 0
	}
	return g.to[i].n
}

func (g *glance) place(rig string) (i int, found bool) {
	return slices.BinarySearchFunc(g.to, rig, func(r received, rig string) int { return strings.Compare(r.rig, rig) })
}

func (g *glance) add(m *message) {
	if !m.valid() {
		g.invalid++
		g.bad = append(g.bad, m)
	}
	g.isThread = g.isThread || m.claims || m.env != nil && m.env.Thread == m.thread
	if m.env == nil {
		return
	}
	g.count++
	for _, rig := range addressees(m.env) {
		i, found := g.place(rig)
		if !found {
			g.to = slices.Insert(g.to, i, received{rig: rig})
		}
		g.to[i].n++
	}
	g.closed = g.closed || m.valid() && m.env.Type == "RESOLUTION"
	if m.env.AttestedAt != "" {
		g.relays = append(g.relays, m)
	}
	if m.day > g.day {
		g.day, g.latest = m.day, g.latest[:0]
	}
	if m.day == g.day {
		g.latest = append(g.latest, m)
	}
	if m.env.Type != "ACK" && (len(g.words) == 0 || m.day >= g.words[0].day) {
		if len(g.words) > 0 && m.day > g.words[0].day {
			g.words = g.words[:0]
		}
		g.words = append(g.words, m)
	}
}

// glanceAt reads a thread as the work tree holds it.
func (w *work) glanceAt(thread string) (*glance, error) {
	g := &glance{day: noDay}
	err := eachMessage(w.root, thread, make([]byte, readBuffer), func(m *message) {
		if m.data != nil {
			m.blob = w.blobID(m.data)
		}
		if m.data = nil; m.env != nil {
			m.env.Body, m.env.Frontmatter = nil, nil
		}
		g.add(m)
	})
	slices.SortFunc(g.bad, func(a, b *message) int { return strings.Compare(a.file, b.file) })
	return g, err
}

// readFile reads a regular file without following a link at its last
// component. Of a file over limit it returns limit+1 bytes, which the parser
// refuses with the file's limit.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|files.NoFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if why := notRegular(info.Mode()); why != "" {
		return nil, errors.New(why)
	}
	if info.Size() > limit {
		return io.ReadAll(io.LimitReader(f, limit+1))
	}
	data := make([]byte, info.Size()+1)
	n, err := io.ReadFull(f, data)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return data[:n], nil
	}
	if err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(io.LimitReader(f, limit+1-int64(n)))
	return append(data, rest...), err
}

// readOwn is readFile for a file of the user's, who may have linked it.
func readOwn(path string, limit int64) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return readFile(real, limit)
}

// reason is the text of a file system error without the path in it.
func reason(err error) string { return finding.Quote(files.Cause(err).Error()) }

func cannotRead(path string, err error) *failure {
	return fail(codeRuntime, "cannot read %s: %s", quote(path), reason(err))
}

func cannotWrite(path string, err error) *failure {
	return fail(codeRuntime, "cannot write %s: %s", quote(path), reason(err)).withHint("%s", files.HintAt(err, filepath.Dir(path)))
}

// peers counts the rig ids among from and to of the messages, our own
// excluded, in the order in which they are first seen. Ids are normalised as
// typed ones are; those that are not valid then are left out.
func peers(ms []*message, own string) (ids []string, count map[string]int) {
	count = map[string]int{}
	for _, m := range ms {
		if m.env == nil {
			continue
		}
		for _, raw := range append([]string{m.env.From}, m.env.To...) {
			id, err := envelope.NormalizeRigID(raw)
			if err != nil || id == own {
				continue
			}
			if count[id] == 0 {
				ids = append(ids, id)
			}
			count[id]++
		}
	}
	return ids, count
}

// mostFrequent returns the id with the highest count, the first of ids on a
// tie, own if there is none.
func mostFrequent(ids []string, count map[string]int, own string) string {
	best := own
	n := 0
	for _, id := range ids {
		if count[id] > n {
			best, n = id, count[id]
		}
	}
	return best
}

// nameProblems lists one line for every message with a finding at error.
func nameProblems(r *run, ms []*message) {
	for _, m := range ms {
		i := slices.IndexFunc(m.findings, func(f finding.Finding) bool { return f.Severity == finding.Error })
		if i < 0 {
			continue
		}
		f := m.findings[i]
		r.note("%s", fmt.Sprintf("%s:%d:%d: %s [%s]", finding.Path(f.Path), f.Line, f.Col, f.Message, f.Rule))
	}
}
