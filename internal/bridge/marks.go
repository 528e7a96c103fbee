package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// A read mark says which messages of a thread a rig has read: all of a tree
// that the thread's directory had, and single messages besides, by name and
// content. So a message that comes late with an early date is unread, and one
// that others put in another's place is, too. What a mark holds is never
// guessed: it grows by `read` alone.
//
// The marks of a rig are lines of one file, in the order of the threads:
//
//	THREAD TREE [KEY]...
//
// TREE is the id of a tree, or - for none; a KEY is markKey of one message; the
// keys of a line are in order, and none is there twice.
type marks struct {
	file  string
	hash  int // digits of an object id
	lines []markLine
}

type markLine struct {
	thread, tree string // tree is "" for none
	keys         string // each with a blank before it
}

const (
	marksHead = "rigward read marks 1\n"
	maxMarks  = 128 << 20 // bytes of the file
	keyDigits = 32
	stride    = keyDigits + 1
)

// markKey names one message in a mark.
func markKey(file, blob string) string {
	sum := sha256.Sum256([]byte(file + "\x00" + blob))
	return hex.EncodeToString(sum[:keyDigits/2])
}

// stateDir is where a clone keeps what rig-bridge remembers of it. make makes
// it. One that is a link is refused: what it leads to is nobody's to write.
func (w *work) stateDir(make bool) (string, error) {
	dir := filepath.Join(w.repo.CommonDir(), "rigward")
	if make {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", cannotWrite(dir, err)
		}
	}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir, nil
	case err != nil:
		return "", cannotRead(dir, err)
	case !make && info.Mode().IsRegular():
		return dir, nil // nothing is kept in it
	case !info.IsDir():
		return "", fail(codeRuntime, "%s is not a directory, and is not followed", quote(dir)).withHint("rm %s", finding.Word(dir))
	}
	return dir, nil
}

// readMarks reads the marks of a rig. A file that cannot be understood is an
// error: what was read would be a guess.
func (w *work) readMarks(rig string) (*marks, error) {
	dir, err := w.stateDir(false)
	if err != nil {
		return nil, err
	}
	m := &marks{file: filepath.Join(dir, "read-"+rig), hash: w.repo.HashLen()}
	data, err := readFile(m.file, maxMarks)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return m, nil
	}
	if err == nil {
		err = m.parse(data)
	}
	if err != nil {
		return nil, fail(codeRuntime, "the read marks in %s cannot be read: %s", quote(m.file), reason(err)).
			withHint("rm %s, then rig-bridge read THREAD marks anew what was read", finding.Word(m.file))
	}
	return m, nil
}

var errMarks = errors.New("it is not a file of read marks")

// parse reads what render wrote, and nothing else.
func (m *marks) parse(data []byte) error {
	text, ok := strings.CutPrefix(string(data), marksHead)
	if len(data) > maxMarks || !ok || text != "" && !strings.HasSuffix(text, "\n") {
		return errMarks
	}
	before := ""
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		thread, rest, ok := strings.Cut(line, " ")
		tree, _, _ := strings.Cut(rest, " ")
		keys := rest[len(tree):]
		if !ok || thread <= before || !isThreadName(thread) || tree != "-" && !m.isTree(tree) || len(keys)%stride != 0 || !sortedKeys(keys) {
			m.lines = nil
			return errMarks
		}
		if before = thread; tree == "-" {
			tree = ""
		}
		m.lines = append(m.lines, markLine{thread, tree, keys})
	}
	return nil
}

// isTree reports whether a text has the form of an object id.
func (m *marks) isTree(id string) bool {
	return len(id) == m.hash && strings.Trim(id, "0123456789abcdef") == ""
}

func sortedKeys(keys string) bool {
	before := ""
	for ; keys != ""; keys = keys[stride:] {
		key := keys[1:stride]
		if keys[0] != ' ' || key <= before || strings.Trim(key, "0123456789abcdef") != "" {
			return false
		}
		before = key
	}
	return true
}

func (m *marks) render() []byte {
	var b bytes.Buffer
	b.WriteString(marksHead)
	for _, l := range m.lines {
		tree := l.tree
		if tree == "" {
			tree = "-"
		}
		b.WriteString(l.thread + " " + tree + l.keys + "\n")
	}
	return b.Bytes()
}

// of returns the mark of a thread.
func (m *marks) of(thread string) markLine {
	i, found := slices.BinarySearchFunc(m.lines, thread, func(l markLine, t string) int { return strings.Compare(l.thread, t) })
	if !found {
		return markLine{thread: thread}
	}
	return m.lines[i]
}

// set replaces the mark of a thread.
func (m *marks) set(l markLine) {
	i, found := slices.BinarySearchFunc(m.lines, l.thread, func(l markLine, t string) int { return strings.Compare(l.thread, t) })
	if found {
		m.lines[i] = l
	} else {
		m.lines = slices.Insert(m.lines, i, l)
	}
}

// holds reports whether a message is marked by itself.
func (l markLine) holds(file, blob string) bool {
	if l.keys == "" {
		return false
	}
	key := markKey(file, blob)
	n := len(l.keys) / stride
	i := sort.Search(n, func(i int) bool { return l.keys[i*stride+1:(i+1)*stride] >= key })
	return i < n && l.keys[i*stride+1:(i+1)*stride] == key
}

// save replaces the file, complete as soon as it is visible. It is called under
// the lock of the marks.
func (m *marks) save() error {
	data := m.render()
	if len(data) > maxMarks {
		return fail(codeRuntime, "the read marks would have %d bytes, at most %d are kept", len(data), maxMarks)
	}
	if err := files.Replace(m.file, data, 0o644); err != nil {
		return cannotWrite(m.file, err)
	}
	return nil
}

// marking changes the marks of a rig: one at a time in a clone.
func (w *work) marking(ctx context.Context, rig string, change func(*marks) error) error {
	dir, err := w.stateDir(true)
	if err != nil {
		return err
	}
	_, unlock, err := lockFileAt(ctx, filepath.Join(dir, "read.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	m, err := w.readMarks(rig)
	if err != nil {
		return err
	}
	if err := change(m); err != nil {
		return err
	}
	return m.save()
}

// A filed is a message file of a thread's tree.
type filed struct{ name, blob string }

// filesOf lists the regular message files of trees of threads, by the tree's id.
// A tree that is not in the clone is not in the result.
func (w *work) filesOf(trees []string) (map[string][]filed, error) {
	trees = slices.DeleteFunc(slices.Clone(trees), func(id string) bool { return id == "" })
	slices.Sort(trees)
	trees = slices.Compact(trees)
	out := make(map[string][]filed, len(trees))
	err := w.repo.Objects(trees, gitrepo.MaxTree, func(o gitrepo.Object) error {
		if errors.Is(o.Err, gitrepo.ErrMissing) || o.Err == nil && o.Type != "tree" {
			return nil
		}
		if o.Err != nil {
			return o.Err
		}
		entries, err := splitTree(o.Data, w.repo.HashLen()/2)
		if err != nil {
			return err
		}
		files := []filed{}
		for _, e := range entries {
			if isMessageFile(e) {
				files = append(files, filed{e.name, e.id})
			}
		}
		out[o.ID] = files
		return nil
	})
	if err != nil {
		return nil, gitProblem(err)
	}
	return out, nil
}

func isMessageFile(e treeEntry) bool {
	return strings.HasSuffix(e.name, ".md") && notRegularEntry(e.mode) == ""
}

// A place is a thread and the tree that it has, "" for none.
type place struct{ thread, tree string }

// unread returns the messages to a rig in threads that its marks do not hold, by
// thread, in the order of the trees. Its own are none of them, and of an
// envelope that cannot be read it is not known whom it is to.
func (w *work) unread(rig string, m *marks, places []place) (map[string][]*message, error) {
	out := map[string][]*message{}
	for len(places) > 0 {
		n := min(len(places), portionOfThreads)
		if err := w.unreadOf(rig, m, places[:n], out); err != nil {
			return nil, err
		}
		places = places[n:]
	}
	return out, nil
}

func (w *work) unreadOf(rig string, m *marks, places []place, out map[string][]*message) error {
	left, err := w.unmarked(m, places)
	if err != nil {
		return err
	}
	var threads []string // of each blob
	var files []string
	var blobs []string
	for _, p := range places {
		for _, f := range left[p.thread] {
			threads, files, blobs = append(threads, p.thread), append(files, f.name), append(blobs, f.blob)
		}
	}
	i := 0
	err = w.repo.Objects(blobs, envelope.DefaultLimits().File, func(o gitrepo.Object) error {
		msg := blobMessage(threads[i], files[i], o)
		i++
		if msg.isTo(rig) {
			out[msg.thread] = append(out[msg.thread], msg)
		}
		return nil
	})
	return gitProblemOrNil(err)
}

// isTo reports whether a message is to a rig; that of an envelope that cannot be
// read is not known.
func (m *message) isTo(rig string) bool {
	return m.env != nil && rig != "" && slices.Contains(addressees(m.env), rig)
}

// unmarked lists the message files of threads that marks do not hold, by thread.
func (w *work) unmarked(m *marks, places []place) (map[string][]filed, error) {
	var trees []string
	for _, p := range places {
		if l := m.of(p.thread); l.tree != p.tree {
			trees = append(trees, p.tree, l.tree)
		}
	}
	files, err := w.filesOf(trees)
	if err != nil {
		return nil, err
	}
	out := map[string][]filed{}
	for _, p := range places {
		l := m.of(p.thread)
		if l.tree == p.tree {
			continue
		}
		read := make(map[filed]bool, len(files[l.tree]))
		for _, f := range files[l.tree] {
			read[f] = true
		}
		for _, f := range files[p.tree] {
			if !read[f] && !l.holds(f.name, f.blob) {
				out[p.thread] = append(out[p.thread], f)
			}
		}
	}
	return out, nil
}

func gitProblemOrNil(err error) error {
	if err != nil {
		return gitProblem(err)
	}
	return nil
}

// addressees are the rigs that a message is to, each once, without its sender.
func addressees(e *envelope.Envelope) []string {
	to := slices.Clone(e.To)
	slices.Sort(to)
	return slices.DeleteFunc(slices.Compact(to), func(id string) bool { return id == e.From })
}

// headPlace is the tree that HEAD has of a thread.
func (w *work) headPlace(thread string) (place, error) {
	p := place{thread: thread}
	_, head, err := w.repo.HEAD()
	if err != nil {
		return p, gitProblem(err)
	}
	root, err := w.tree(head)
	var bad *gitrepo.MalformedCommitError
	if errors.As(err, &bad) {
		return p, nil // whose tree is a guess: nothing of it is marked, or told to be unread
	}
	if err != nil || root == "" {
		return p, err
	}
	e, ok, err := w.repo.EntryAt(root, thread)
	if err != nil {
		return p, gitProblem(err)
	}
	if ok && e.Mode == gitrepo.ModeTree {
		p.tree = e.ID
	}
	return p, nil
}

// add marks messages of a thread as read: all of the tree whole, "" for none,
// and those of more. at is what HEAD has. What a mark held before it holds on;
// of the trees that it could be based on it takes the one that spares most keys.
func (w *work) add(m *marks, at place, whole string, more []filed) error {
	l := m.of(at.thread)
	files, err := w.filesOf([]string{l.tree, whole, at.tree})
	if err != nil {
		return err
	}
	read := map[filed]bool{}
	for _, tree := range []string{l.tree, whole} {
		for _, f := range files[tree] {
			read[f] = true
		}
	}
	for _, f := range more {
		read[f] = true
	}
	base := ""
	for _, tree := range []string{at.tree, whole, l.tree} {
		of, there := files[tree]
		better := base == "" || len(of) > len(files[base])
		if there && better && !slices.ContainsFunc(of, func(f filed) bool { return !read[f] && !l.holds(f.name, f.blob) }) {
			base = tree
		}
	}
	based, held := map[filed]bool{}, map[string]bool{}
	for _, f := range files[base] {
		based[f], held[markKey(f.name, f.blob)] = true, true
	}
	keys := slices.DeleteFunc(strings.Fields(l.keys), func(key string) bool { return held[key] })
	for f := range read {
		if !based[f] {
			keys = append(keys, markKey(f.name, f.blob))
		}
	}
	slices.Sort(keys)
	l = markLine{thread: at.thread, tree: base}
	if keys = slices.Compact(keys); len(keys) > 0 {
		l.keys = " " + strings.Join(keys, " ")
	}
	if l.tree != "" || l.keys != "" {
		m.set(l)
	}
	return nil
}

type readObject struct {
	head
	ThreadID string   `json:"thread_id"`
	Thread   string   `json:"thread"`
	Rig      string   `json:"rig"`
	Marked   int      `json:"marked"` // messages to this rig that were unread before
	Unread   int      `json:"unread"` // that are so still
	Messages []string `json:"messages"`
}

// runRead is `rig-bridge read`: it moves the read mark of this clone's rig.
func runRead(r *run) error {
	thread := strings.TrimSuffix(r.opts.Word(0), "/")
	if err := checkThread(thread); err != nil {
		return err
	}
	names := r.opts.Words[1:]
	shown, at := r.opts.Lookup("--at")
	if at && len(names) > 0 {
		return usageError(r.cmd, "--at marks what was shown, and %s one message; use one of them", quote(names[0]))
	}
	w, c, err := r.openAsRig()
	if err != nil {
		return err
	}
	defer w.close()
	if at && (!w.repo.ValidID(shown) || w.repo.IsZero(shown)) {
		return usageError(r.cmd, "--at %s is not a mark, which rig-bridge thread --json names", quote(shown))
	}
	if err := w.threadDir(r.ctx, thread, listing, false); err != nil {
		return err
	}
	here, err := w.headPlace(thread)
	if err != nil {
		return err
	}
	whole, more := here.tree, []filed(nil)
	switch {
	case at:
		if typ, err := w.repo.Has([]string{shown}); err != nil {
			return gitProblem(err)
		} else if typ[0] != "tree" {
			return fail(codeRefused, "--at %s is not a mark of this clone", shown).withHint("rig-bridge thread %s --json names the mark of what it shows", thread)
		}
		whole = shown
	case len(names) > 0:
		if whole = ""; here.tree != "" {
			if more, err = w.named(here, names); err != nil {
				return err
			}
		} else {
			return w.notThere(here, names[0])
		}
	}
	o := readObject{head: r.head(), ThreadID: thread, Thread: thread, Rig: c.rigID, Messages: []string{}}
	err = w.marking(r.ctx, c.rigID, func(m *marks) error {
		before, err := w.unread(c.rigID, m, []place{here})
		if err != nil {
			return err
		}
		if err := w.add(m, here, whole, more); err != nil {
			return err
		}
		after, err := w.unread(c.rigID, m, []place{here})
		if err != nil {
			return err
		}
		o.Unread = len(after[thread])
		o.Marked = len(before[thread]) - o.Unread
		left := map[string]bool{}
		for _, m := range after[thread] {
			left[m.file] = true
		}
		for _, m := range before[thread] {
			if !left[m.file] {
				o.Messages = append(o.Messages, m.path())
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.json {
		return r.object(o)
	}
	fmt.Fprintf(&r.out, "rig-bridge: read thread=%s rig=%s marked=%d unread=%d\n", thread, c.rigID, o.Marked, o.Unread)
	return nil
}

// named finds committed messages of a thread by file, path or body hash.
func (w *work) named(at place, names []string) ([]filed, error) {
	files, err := w.filesOf([]string{at.tree})
	if err != nil {
		return nil, err
	}
	hashes := map[string][]filed{}
	if slices.ContainsFunc(names, isHash) {
		ids := make([]string, len(files[at.tree]))
		for i, f := range files[at.tree] {
			ids[i] = f.blob
		}
		i := 0
		err := w.repo.Objects(ids, envelope.DefaultLimits().File, func(o gitrepo.Object) error {
			f := files[at.tree][i]
			i++
			if m := blobMessage(at.thread, f.name, o); m.env != nil {
				hashes[m.env.Hash] = append(hashes[m.env.Hash], f)
			}
			return nil
		})
		if err != nil {
			return nil, gitProblem(err)
		}
	}
	var out []filed
	for _, name := range names {
		found := hashes[name]
		for _, f := range files[at.tree] {
			if f.name == strings.TrimPrefix(name, at.thread+"/") {
				found = append(found, f)
			}
		}
		if len(found) == 0 {
			return nil, w.notThere(at, name)
		}
		out = append(out, found...)
	}
	return out, nil
}

func (w *work) notThere(at place, name string) error {
	return fail(codeRefused, "%s is not a committed message of %s", quote(name), quote(at.thread)).
		withHint("rig-bridge thread %s --json names files and hashes", at.thread).orTool("thread names files and hashes")
}
