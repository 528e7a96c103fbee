package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
)

// A Txn changes files below a directory so that after any crash the directory
// can be brought back to the old state or is in the new one.
//
// New contents are staged in a private directory below the target, on the
// same file system, read back and compared. [Txn.Commit] then writes a
// journal, puts everything in place by rename, keeping what it replaces, and
// empties the journal: that is the moment from which on the new state holds. [Begin] finds a journal that a crash left and undoes what it shows.
// A lock, which the system drops with the process, keeps two transactions of
// one target apart. Nothing is opened, made or removed through a symlink.
//
// Nothing that lies in the target is believed. The journal and the record of
// what was installed lie in the user's state directory, under the identity of
// the target (device and inode), where no checkout, archive or other user can
// put anything. The private directory has a name that nobody can foresee, and
// the journal knows its identity. What is removed or replaced must be what the
// plan saw ([Txn.State]): it is moved aside first and then looked at again.
//
// A crash of the machine, not only of the process, can lose file contents
// that the system had not yet written; only the journal is synced.
type Txn struct {
	place  Place
	real   string // the target without links
	dirs   *Dirs
	state  *Dirs  // the state directory; nil in a look at a target of which nothing is known
	own    string // what is kept about this target: a directory below state
	unlock func() // nil in a look
	left   bool   // an earlier run of this user was interrupted: Begin has undone it, after Look it still is to be undone
	notes  []Note

	area   string // name of the private directory in the target, "" before it is made
	areaID string
	priv   *Dirs // the private directory
	ops    []op
	staged int               // numbers given out
	seen   map[string]string // what State saw, by path: the hash of a regular file, absent or other
	record []byte
	set    bool            // record is to be written, or to be removed if it is nil
	had    bool            // there was a record before
	one    *stager         // of Stage
	absent map[string]bool // directories that were looked for, and whether they are missing in the target
	tree   map[string]bool // missing directories that are staged
}

// A Place is where a transaction works.
type Place struct {
	Target string // directory, which may be reached through links
	Below  string // directory in Target, which is reached through none; "" is Target itself
	State  string // the user's state directory, see [OpenState]
	Kind   string // kind of bundle: the beginning of the private directory's name
}

// op is one step of the journal. The numbered files new/N and old/N and the
// directory tree lie in the private directory.
type op struct {
	Kind   string `json:"kind"` // put, remove, move, mkdir, place or rmdir
	Path   string `json:"path"`
	N      int    `json:"n,omitempty"`      // put, remove: number of the staged and kept file
	SHA256 string `json:"sha256,omitempty"` // put: of the new content
	To     string `json:"to,omitempty"`     // move
	Tree   bool   `json:"tree,omitempty"`   // put, mkdir: it is part of a tree that a place puts there

	was string // put, remove: what the plan saw, as in Txn.seen
}

// lawful reports whether a step stays below the target and out of what some
// file system takes for .git.
func (o *op) lawful() bool {
	for _, p := range []string{o.Path, o.To} {
		if p == "" && o.Kind != "move" {
			continue
		}
		if !cleanRel(p) || inGit(p) {
			return false
		}
	}
	return o.Path != ""
}

// inGit reports whether a path leads to or below what some file system takes
// for .git.
func inGit(p string) bool {
	for c := range strings.SplitSeq(filepath.ToSlash(p), "/") {
		if portable.TakenForGit(c) {
			return true
		}
	}
	return false
}

// journal is the file of that name. One without steps was written before its
// private directory was made; one with steps before the first of them.
type journal struct {
	Schema int    `json:"schema"`
	Target string `json:"target"` // for people
	Area   string `json:"area"`
	AreaID string `json:"area_id,omitempty"`
	Record bool   `json:"record,omitempty"` // the record changes with the steps
	Had    bool   `json:"had,omitempty"`    // there was one before
	Ops    []op   `json:"ops,omitempty"`
}

// What State saw where no regular file was.
const (
	sawNothing = "-"
	sawOther   = "?"
)

// Files about a target in its directory below the state directory.
const (
	journalName = "journal.json"
	recordName  = "installed.json"
	recordNew   = "installed.new"
	recordOld   = "installed.old"
)

// maxJournal bounds what Begin reads back of a journal and of a record.
const maxJournal = 256 << 20

// Codes of the notes that a transaction has about its target.
const (
	NoteInterrupted = "interrupted-run"     // a look: an interrupted run will be undone by the next one
	NoteForeignRun  = "interrupted-foreign" // the target holds what is not a run of this user, or one of an old version
	NoteLostRun     = "interrupted-lost"    // an interrupted run can't be undone
)

// ErrBusy says that another process is changing the same target.
var ErrBusy = errors.New("another process is installing into this directory")

// A ChangedError says that a path is no longer what the plan saw.
type ChangedError struct{ Path string }

func (e *ChangedError) Error() string {
	return finding.QuoteMax(e.Path, 200) + " was changed by somebody else meanwhile"
}

// Begin opens a target directory, which must exist, takes its lock and undoes
// what an interrupted transaction of this user left. Close ends the
// transaction.
func Begin(p Place) (*Txn, error) {
	t, err := open(p)
	if err != nil {
		return nil, err
	}
	if err := t.begin(); err != nil {
		if t.unlock != nil {
			t.unlock()
		}
		t.closeDirs()
		return nil, err
	}
	return t, nil
}

// Within runs fn in a transaction of a target and ends it. The result takes what
// is worth knowing about the target.
func Within(p Place, r *Result, fn func(t *Txn) error) error {
	t, err := Begin(p)
	if err != nil {
		return err
	}
	r.Recovered = t.left
	r.Tell(t.notes...)
	return cmpErr(fn(t), t.Close())
}

// Look opens a target as Begin does, but changes nothing and takes no lock:
// what an interrupted run left is only told. Nothing can be staged or planned.
func Look(p Place) (*Txn, error) {
	t, err := open(p)
	if err != nil {
		return nil, err
	}
	if err := t.look(); err != nil {
		t.closeDirs()
		return nil, err
	}
	return t, nil
}

func open(p Place) (*Txn, error) {
	real, err := filepath.EvalSymlinks(p.Target)
	if err != nil {
		return nil, err
	}
	if inGit(real) || within(real, isGitDir) {
		return nil, fmt.Errorf("%s is or lies in a git directory, which is not a place for a bundle", finding.QuoteMax(p.Target, 200))
	}
	dirs, err := OpenDirs(p.Target)
	if err != nil {
		return nil, err
	}
	if p.Below != "" {
		top := dirs
		dirs, err = top.Sub(p.Below)
		if err == nil {
			dirs.root.detach()
		}
		if cerr := top.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, err
		}
	}
	return &Txn{place: p, real: real, dirs: dirs, seen: map[string]string{}, absent: map[string]bool{}, tree: map[string]bool{}}, nil
}

// know finds what is kept about the target.
func (t *Txn) know(state *Dirs) error {
	id, err := t.dirs.root.id()
	if err != nil {
		return err
	}
	t.state, t.own = state, id+"/"+strings.TrimPrefix(t.place.Kind, ".")
	barred, err := state.root.id()
	t.dirs.barred = barred // no bundle writes there, also if it lies in the target
	if err == nil && barred == id {
		err = &StateError{Dir: t.place.State, Why: "is the target itself"}
	}
	if own, serr := os.Stat(t.place.State); err == nil && serr == nil && within(t.real, func(dir string) bool {
		info, err := os.Stat(dir)
		return err == nil && os.SameFile(own, info)
	}) {
		err = &StateError{Dir: t.place.State, Why: "holds the target"}
	}
	return err
}

// within reports whether a directory or one above it is of the kind that is
// meant.
func within(dir string, meant func(dir string) bool) bool {
	for !meant(dir) {
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
	return true
}

// isGitDir reports whether git takes a directory for a repository by what it
// holds, whatever its name is (gitrepository-layout).
func isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func (t *Txn) begin() error {
	state, err := OpenState(t.place.State)
	if err != nil {
		return err
	}
	if err := t.know(state); err != nil {
		return err
	}
	name := t.own[:strings.IndexByte(t.own, '/')] + ".lock"
	if t.unlock, err = lockTarget(t.dirs.root, filepath.Join(t.place.State, name)); err != nil {
		return err
	}
	if err := t.recover(); err != nil {
		return err
	}
	if err := sweepSpools(state); err != nil {
		return err
	}
	return t.foreign()
}

func (t *Txn) look() error {
	state, err := peekState(t.place.State)
	if err != nil {
		return err
	}
	if state != nil {
		if err := t.know(state); err != nil {
			return err
		}
		j, err := t.readJournal()
		if err != nil {
			return err
		}
		if j != nil && len(j.Ops) > 0 {
			t.left = true
			t.note(NoteInterrupted, "", "an earlier run was interrupted, the next one undoes it first; what is told here is of what lies there now")
		}
	}
	return t.foreign()
}

// foreign names a private directory of the form that older versions left, or
// that somebody has put there. It is not obeyed, and it stays.
func (t *Txn) foreign() error {
	there, err := t.exists(t.place.Kind)
	if err != nil || !there {
		return err
	}
	where := path.Join(t.place.Below, t.place.Kind)
	t.note(NoteForeignRun, where, "the target holds the work of an interrupted run of an older version, or of somebody else; "+
		"nothing in it is obeyed or removed; if no file is missing: rm -r "+finding.Path(filepath.Join(t.place.Target, filepath.FromSlash(where))))
	return nil
}

func (t *Txn) note(code, path, detail string) {
	t.notes = append(t.notes, Note{Code: code, Path: path, Detail: detail})
}

// Notes tells what is worth knowing about the target.
func (t *Txn) Notes() []Note { return t.notes }

// Record returns what the last transaction of this kind of this user recorded
// about the target, nil if there is nothing.
func (t *Txn) Record() ([]byte, error) {
	if t.state == nil {
		return nil, nil
	}
	b, err := readState(t.state, t.own+"/"+recordName, maxJournal)
	t.had = b != nil
	return b, err
}

// RecordFile is where the record lies, to be named in messages.
func (t *Txn) RecordFile() string {
	return filepath.Join(t.place.State, filepath.FromSlash(t.own), recordName)
}

// SetRecord plans that this is recorded about the target, nil for nothing. It
// becomes so together with the other steps.
func (t *Txn) SetRecord(b []byte) { t.record, t.set = b, true }

// Dirs gives safe access to the target.
func (t *Txn) Dirs() *Dirs { return t.dirs }

// State of a path in the target.
type State struct {
	Exists  bool
	Regular bool
	Mode    uint32 // of a regular file, normalised
	Size    int64
	SHA256  Digest // of a regular file
}

// State looks at a path. A symlink on the way or at the end is a *LinkError.
// A parent that is a file gives Exists without Regular.
// The transaction holds the path to it: Commit fails if the file that it is to
// replace or remove is another one by then.
func (t *Txn) State(name string) (State, error) {
	if gone, err := t.missing(path.Dir(name)); err == nil && gone {
		t.seen[name] = sawNothing
		return State{}, nil
	}
	st, err := StateOf(t.dirs, name)
	if err == nil {
		t.seen[name] = st.saw()
	}
	return st, err
}

func (st *State) saw() string {
	switch {
	case !st.Exists:
		return sawNothing
	case !st.Regular:
		return sawOther
	}
	return st.SHA256.Hex()
}

// StateOf is [Txn.State] without a transaction.
func StateOf(d *Dirs, name string) (State, error) {
	it, err := d.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return State{}, nil
	case errors.Is(err, ErrNotDir):
		return State{Exists: true}, nil
	case err != nil:
		return State{}, err
	case it.Kind == KindSymlink:
		return State{}, &LinkError{name}
	case it.Kind != KindFile:
		return State{Exists: true}, nil
	}
	f, err := d.openFile(name)
	if err != nil {
		return State{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	st := State{Exists: true, Regular: true, Mode: NormalMode(it.Mode), Size: n}
	h.Sum(st.SHA256[:0])
	return st, err
}

// MissingDirs returns the parents of the paths that do not exist, outermost
// first: those that Commit will make.
func (t *Txn) MissingDirs(paths []string) ([]string, error) {
	known := map[string]bool{".": true}
	var missing []string
	var need func(dir string) error
	need = func(dir string) error {
		if known[dir] {
			return nil
		}
		known[dir] = true
		if err := need(path.Dir(dir)); err != nil {
			return err
		}
		_, err := t.dirs.dir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, dir)
			return nil
		}
		return err
	}
	for _, p := range paths {
		if err := need(path.Dir(p)); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// Stage writes the new content of a path into the private directory. Nothing
// else changes before Commit.
func (t *Txn) Stage(name string, mode uint32, content io.Reader) error {
	o, err := t.put(name)
	if err != nil {
		return err
	}
	if t.one == nil {
		t.one = &stager{priv: t.priv}
	}
	if o.SHA256, err = t.one.stage(o, mode, content); err != nil {
		return err
	}
	t.ops = append(t.ops, o)
	return nil
}

// A Put is a file to be staged by [Txn.StageAll].
type Put struct {
	Path   string
	Mode   uint32
	SHA256 Digest                    // of its content
	Open   func() (io.Reader, error) // gives it, whatever other content is read beside it
}

// stageBatch is how many files of one directory a goroutine stages at a time.
// Two of them in one directory would wait for each other.
const stageBatch = 512

// batches returns where in puts each batch begins, and the end.
func batches(puts []Put) (starts []int) {
	for i := range puts {
		if i == 0 || i-starts[len(starts)-1] == stageBatch || path.Dir(puts[i].Path) != path.Dir(puts[i-1].Path) {
			starts = append(starts, i)
		}
	}
	return append(starts, len(puts))
}

// StageAll is Stage of many files, some at a time.
func (t *Txn) StageAll(ctx context.Context, puts []Put) error {
	ops := make([]op, len(puts))
	for i := range puts {
		o, err := t.put(puts[i].Path)
		if err != nil {
			return err
		}
		o.SHA256 = puts[i].SHA256.Hex()
		ops[i] = o
	}
	starts := batches(puts)
	var next atomic.Int64
	work := func() error {
		priv, err := t.priv.again()
		if err != nil {
			return err
		}
		defer priv.Close()
		s := &stager{priv: priv}
		for ctx.Err() == nil {
			at := int(next.Add(1))
			if at >= len(starts) {
				return nil
			}
			for i := starts[at-1]; i < starts[at]; i++ {
				content, err := puts[i].Open()
				if err != nil {
					return err
				}
				sum, err := s.stage(ops[i], puts[i].Mode, content)
				if err == nil && sum != ops[i].SHA256 {
					err = fmt.Errorf("%s changed while it was read", finding.QuoteMax(puts[i].Path, 200))
				}
				if err != nil {
					next.Store(int64(len(starts))) // the others stop, too
					return err
				}
			}
		}
		return ctx.Err()
	}
	n := min(runtime.GOMAXPROCS(0), 4, len(starts)-1)
	errs := make(chan error, n)
	for range n {
		go func() { errs <- work() }()
	}
	var err error
	for range n {
		err = cmpErr(err, <-errs)
	}
	if err == nil {
		t.ops = append(t.ops, ops...)
	}
	return err
}

// put is the step for a file that is staged next. A file whose directory is
// missing in the target is staged in a tree that is put in place as a whole.
func (t *Txn) put(name string) (op, error) {
	o := op{Kind: "put", Path: name}
	if !cleanRel(name) || inGit(name) {
		return o, fmt.Errorf("%s is not a path below the target for a bundle's file", finding.QuoteMax(name, 200))
	}
	if err := t.makeArea(); err != nil {
		return o, err
	}
	dir := path.Dir(name)
	var err error
	if o.Tree, err = t.missing(dir); err != nil {
		return o, err
	}
	if o.Tree {
		return o, t.growTree(dir)
	}
	t.staged++
	o.N = t.staged
	return o, nil
}

// missing reports whether a directory does not exist in the target, as far as
// that was asked first.
func (t *Txn) missing(dir string) (bool, error) {
	if dir == "." {
		return false, nil
	}
	if is, known := t.absent[dir]; known {
		return is, nil
	}
	is, err := t.missing(path.Dir(dir))
	if err == nil && !is {
		_, err = t.dirs.dir(dir)
		if is = errors.Is(err, fs.ErrNotExist); is {
			err = nil
		}
	}
	if err == nil {
		t.absent[dir] = is
	}
	return is, err
}

// growTree makes a directory of the staged tree.
func (t *Txn) growTree(dir string) error {
	if t.tree[dir] {
		return nil
	}
	if up := path.Dir(dir); t.absent[up] {
		if err := t.growTree(up); err != nil {
			return err
		}
	} else if _, err := t.priv.MkdirAll(path.Dir(inTree(dir))); err != nil { // of those that exist in the target
		return err
	}
	if err := t.priv.mkdir(inTree(dir), 0o755); err != nil {
		return err
	}
	t.tree[dir] = true
	return nil
}

var errReadBack = errors.New("the file reads back differently")

// A stager writes files into the private directory. It is for one goroutine.
type stager struct {
	priv *Dirs
	back []byte // what was written, read again
	buf  []byte
	hash hash.Hash
}

// stage writes the file of a step and returns the hash of its content.
func (s *stager) stage(o op, mode uint32, content io.Reader) (sum string, err error) {
	f, err := s.priv.create(o.staged(), mode)
	if err != nil {
		return "", err
	}
	sum, err = s.fill(f, content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == errReadBack {
		err = fmt.Errorf("the staged copy of %s reads back differently", finding.QuoteMax(o.Path, 200))
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return "", &fs.PathError{Op: "stage", Path: o.Path, Err: pe.Err} // the number of the staged file tells nobody anything
	}
	return sum, err
}

// fill writes a new file, reads it back, and returns the hash of its content.
func (s *stager) fill(f *handle, content io.Reader) (sum string, err error) {
	if s.back == nil {
		s.back, s.buf, s.hash = make([]byte, 64<<10), make([]byte, 64<<10), sha256.New()
	}
	w := &staging{f: f, back: s.back}
	if m, ok := content.(*memberReader); ok && m.h != nil { // compares with the hash at its end
		_, err := m.WriteTo(w)
		return m.m.SHA256.Hex(), err
	}
	s.hash.Reset()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(s.hash, w)}, struct{ io.Reader }{content}, s.buf)
	return hex.EncodeToString(s.hash.Sum(nil)), err
}

// staging writes a file and compares it with what reads back.
type staging struct {
	f    *handle
	at   int64
	back []byte
}

// Write implements io.Writer.
func (w *staging) Write(p []byte) (int, error) {
	if n, err := w.f.Write(p); err != nil {
		return n, err
	}
	for rest := p; len(rest) > 0; {
		part := rest[:min(len(rest), len(w.back))]
		got, err := w.f.ReadAt(w.back[:len(part)], w.at)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if !bytes.Equal(part, w.back[:got]) {
			return 0, errReadBack
		}
		w.at += int64(len(part))
		rest = rest[len(part):]
	}
	return len(p), nil
}

// StageBytes is Stage of a content in memory.
func (t *Txn) StageBytes(name string, mode uint32, content []byte) error {
	return t.Stage(name, mode, bytes.NewReader(content))
}

// Remove plans the removal of a file.
func (t *Txn) Remove(name string) { t.plan(op{Kind: "remove", Path: name}) }

// Move plans the rename of a file to a path that does not exist.
func (t *Txn) Move(name, to string) { t.plan(op{Kind: "move", Path: name, To: to}) }

// RemoveDir plans the removal of a directory, if it is empty by then.
func (t *Txn) RemoveDir(name string) { t.plan(op{Kind: "rmdir", Path: name}) }

func (t *Txn) plan(o op) {
	if o.Kind == "remove" {
		t.staged++ // a number for the kept file
		o.N = t.staged
	}
	t.ops = append(t.ops, o)
}

// kept is where a file that is replaced or removed is put aside, and inTree
// where one of a missing directory is staged, in the private directory.
func kept(n int) string      { return "old/" + strconv.Itoa(n) }
func inTree(p string) string { return "tree/" + p }

// staged is where the new content of a put lies in the private directory.
func (o *op) staged() string {
	if o.Tree {
		return inTree(o.Path)
	}
	return "new/" + strconv.Itoa(o.N)
}

// makeArea makes the private directory, after a journal that names it.
func (t *Txn) makeArea() error {
	if t.priv != nil {
		return nil
	}
	t.area = t.place.Kind + "-" + randomName()
	if err := t.writeJournal(journal{Area: t.area}, false); err != nil {
		return err
	}
	if err := t.dirs.mkdir(t.area, 0o700); err != nil {
		return err
	}
	var err error
	if t.priv, err = t.dirs.Sub(t.area); err != nil {
		return err
	}
	for _, dir := range []string{"new", "old", "tree"} {
		if err := t.priv.mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if ours, err := t.priv.root.sameOwner("new"); err != nil || !ours {
		return cmpErr(err, fmt.Errorf("the private directory %s was replaced by somebody else", finding.QuoteMax(t.area, 200)))
	}
	t.areaID, err = t.priv.root.id()
	return err
}

// Commit carries out the plan: moves, then files
// to be put in place, then removals, then directories, in the order planned
// within each, except that the last staged file is put last of all. An error
// or the end of ctx undoes everything.
func (t *Txn) Commit(ctx context.Context) error {
	if len(t.ops) == 0 && !t.set {
		return nil
	}
	for _, o := range t.ops {
		if !o.lawful() {
			return fmt.Errorf("%s is not a path below the target for a bundle's file", finding.QuoteMax(o.Path, 200))
		}
	}
	if err := t.makeArea(); err != nil {
		return err
	}
	ops, err := t.order()
	if err != nil {
		return err
	}
	if t.set {
		if t.record != nil {
			if err := writeState(t.state, t.own+"/"+recordNew, t.record, false); err != nil {
				return inState(t.place.State, err)
			}
		}
		if _, err := t.Record(); err != nil {
			return err
		}
	}
	j := journal{Area: t.area, AreaID: t.areaID, Record: t.set, Had: t.had, Ops: ops}
	if err := t.writeJournal(j, true); err != nil {
		return err
	}
	for _, o := range ops {
		err := ctx.Err()
		if err == nil {
			err = t.do(o)
		}
		if err != nil {
			return t.failed(&j, err)
		}
	}
	if err := t.doRecord(); err != nil {
		return t.failed(&j, err)
	}
	if err := t.settle(); err != nil {
		return t.failed(&j, err)
	}
	return nil
}

// settle makes the journal one that has nothing to undo: only the private
// directory is to be removed.
func (t *Txn) settle() error {
	return t.writeJournal(journal{Area: t.area, AreaID: t.areaID}, false)
}

// failed undoes the steps of a commit that failed.
func (t *Txn) failed(j *journal, err error) error {
	if uerr := t.undo(j); uerr != nil {
		return fmt.Errorf("%w; undoing it failed too: %w; the next run will try again", err, uerr)
	}
	return err
}

// doRecord puts the new record in the place of the old one, which is kept.
func (t *Txn) doRecord() error {
	if !t.set {
		return nil
	}
	if t.had {
		if err := t.state.rename(t.own+"/"+recordName, t.own+"/"+recordOld); err != nil {
			return err
		}
	}
	if t.record == nil {
		return nil
	}
	return t.state.rename(t.own+"/"+recordNew, t.own+"/"+recordName)
}

func (t *Txn) undoRecord(j *journal) error {
	if !j.Record {
		return nil
	}
	waiting, err := t.there(recordNew)
	if err != nil {
		return err
	}
	if j.Had {
		if old, err := t.there(recordOld); err != nil || !old {
			return err // not moved yet
		}
		return t.state.rename(t.own+"/"+recordOld, t.own+"/"+recordName)
	}
	if now, err := t.there(recordName); err != nil || !now || waiting {
		return err
	}
	return t.state.Remove(t.own + "/" + recordName)
}

// there reports whether something is kept about the target under a name.
func (t *Txn) there(name string) (bool, error) {
	return exists(t.state, t.own+"/"+name)
}

// order sorts the plan and adds the directories to be made.
func (t *Txn) order() ([]op, error) {
	rank := map[string]int{"move": 1, "put": 2, "remove": 3, "rmdir": 4}
	ops := slices.Clone(t.ops)
	last := -1
	for i, o := range ops {
		if o.Kind == "put" {
			last = i
		}
	}
	var final []op
	if last >= 0 {
		final = []op{ops[last]}
		ops = slices.Delete(ops, last, last+1)
	}
	slices.SortStableFunc(ops, func(a, b op) int { return rank[a.Kind] - rank[b.Kind] })
	kept := ops[:0]
	for _, o := range ops { // a directory that is gone already is not brought back
		if o.Kind == "rmdir" {
			if _, err := t.dirs.dir(o.Path); err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return nil, err
			}
		}
		kept = append(kept, o)
	}
	ops = kept
	var paths []string
	for _, o := range append(slices.Clone(ops), final...) {
		switch o.Kind {
		case "put":
			paths = append(paths, o.Path)
		case "move":
			paths = append(paths, o.To)
		}
	}
	missing, err := t.MissingDirs(paths)
	if err != nil {
		return nil, err
	}
	for _, o := range ops {
		if o.Kind == "move" {
			t.seen[o.Path] = sawNothing // from then on
		}
	}
	for _, list := range [][]op{ops, final} {
		for i := range list {
			if err := t.expect(&list[i]); err != nil {
				return nil, err
			}
		}
	}
	all := make([]op, 0, len(missing)+len(ops)+len(final))
	var tops []op
	for _, dir := range missing {
		all = append(all, op{Kind: "mkdir", Path: dir, Tree: t.tree[dir]})
	}
	for dir := range t.tree {
		if !t.tree[path.Dir(dir)] {
			tops = append(tops, op{Kind: "place", Path: dir})
		}
	}
	slices.SortFunc(tops, func(a, b op) int { return strings.Compare(a.Path, b.Path) })
	return slices.Concat(all, tops, ops, final), nil
}

// expect says what a step is to find: what the plan saw, or what is there now
// if it did not look.
func (t *Txn) expect(o *op) error {
	if o.Kind != "put" && o.Kind != "remove" {
		return nil
	}
	if _, ok := t.seen[o.Path]; !ok {
		if _, err := t.State(o.Path); err != nil {
			return err
		}
	}
	o.was = t.seen[o.Path]
	return nil
}

func (t *Txn) journalPath() string { return t.own + "/" + journalName }

func (t *Txn) writeJournal(j journal, sync bool) error {
	j.Schema, j.Target = 2, filepath.Join(t.place.Target, filepath.FromSlash(t.place.Below))
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return inState(t.place.State, writeState(t.state, t.journalPath(), b, sync))
}

// readJournal returns the journal of an interrupted run, nil if there is none.
func (t *Txn) readJournal() (*journal, error) {
	b, err := readState(t.state, t.journalPath(), maxJournal)
	if err != nil || len(b) == 0 { // one that was not synced is of a run that had changed nothing
		return nil, err
	}
	j := &journal{}
	bad := json.Unmarshal(b, j) != nil || j.Schema != 2 || path.Base(j.Area) != j.Area || !strings.HasPrefix(j.Area, t.place.Kind+"-")
	for _, o := range j.Ops {
		bad = bad || !o.lawful()
	}
	if bad {
		name := filepath.Join(t.place.State, filepath.FromSlash(t.journalPath()))
		return nil, &StateError{Dir: t.place.State, Why: "holds a journal that cannot be read, of an interrupted run in the target", Hint: "rm " + finding.Path(name)}
	}
	return j, nil
}

func (t *Txn) exists(name string) (bool, error) { return exists(t.dirs, name) }

func exists(d *Dirs, name string) (bool, error) {
	_, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (t *Txn) do(o op) error {
	switch o.Kind {
	case "mkdir":
		if o.Tree {
			return nil
		}
		_, err := t.dirs.MkdirAll(o.Path)
		return err
	case "place":
		if there, err := t.exists(o.Path); err != nil || there {
			return cmpErr(err, &ChangedError{o.Path})
		}
		t.priv.forget() // some systems move no directory in which one is open
		return pair("rename", t.priv, inTree(o.Path), t.dirs, o.Path, (*dir).rename)
	case "rmdir":
		if err := t.dirs.Remove(o.Path); err != nil && !errors.Is(err, fs.ErrNotExist) && !notEmpty(t.dirs, o.Path) {
			return err
		}
		return nil
	case "move":
		if there, err := t.exists(o.To); err != nil || there {
			return cmpErr(err, fmt.Errorf("%s exists", finding.QuoteMax(o.To, 200)))
		}
		return t.dirs.rename(o.Path, o.To)
	case "remove":
		if err := pair("rename", t.dirs, o.Path, t.priv, kept(o.N), (*dir).rename); err != nil {
			return err
		}
		return t.still(o)
	}
	if o.Tree { // put with its directory
		return nil
	}
	// put: the old file is linked aside first, so that the path never lacks
	// a file; where links can't be made it is moved aside.
	there, err := t.exists(o.Path)
	if err != nil {
		return err
	}
	if there {
		if err := pair("link", t.dirs, o.Path, t.priv, kept(o.N), (*dir).link); err != nil {
			if err := pair("rename", t.dirs, o.Path, t.priv, kept(o.N), (*dir).rename); err != nil {
				return err
			}
		}
		if err := t.still(o); err != nil {
			return err
		}
	}
	return pair("rename", t.priv, o.staged(), t.dirs, o.Path, (*dir).rename)
}

// still reports a *ChangedError if the file that was put aside is not the one
// that the plan saw.
func (t *Txn) still(o op) error {
	st, err := StateOf(t.priv, kept(o.N))
	if link := (*LinkError)(nil); errors.As(err, &link) || err == nil && st.saw() != o.was {
		return &ChangedError{o.Path}
	}
	return err
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func notEmpty(d *Dirs, dir string) bool {
	r, err := d.dir(dir)
	if err != nil {
		return false
	}
	names, err := r.names()
	return err == nil && len(names) > 0
}

// undo brings the old state back, whatever part of the plan was carried out,
// and settles the journal. It can be repeated.
func (t *Txn) undo(j *journal) error {
	t.dirs.forget()
	t.priv.forget()
	if err := t.undoRecord(j); err != nil {
		return err
	}
	for i := len(j.Ops) - 1; i >= 0; i-- {
		if err := t.undoOne(j.Ops[i]); err != nil {
			return err
		}
	}
	return t.settle()
}

func (t *Txn) undoOne(o op) error {
	switch o.Kind {
	case "place":
		return nil // what it put there is taken back one by one
	case "mkdir":
		if o.Tree {
			if waiting, err := exists(t.priv, inTree(o.Path)); err != nil || waiting {
				return err // not in place: what is there is somebody else's
			}
		}
		if err := t.dirs.Remove(o.Path); err != nil && !errors.Is(err, fs.ErrNotExist) && !notEmpty(t.dirs, o.Path) {
			return err
		}
		return nil
	case "rmdir":
		_, err := t.dirs.MkdirAll(o.Path)
		return err
	case "move":
		from, err := t.exists(o.Path)
		if err != nil || from {
			return err // not moved yet
		}
		if to, err := t.exists(o.To); err != nil || !to {
			return err
		}
		if _, err := t.dirs.MkdirAll(path.Dir(o.Path)); err != nil {
			return err
		}
		return t.dirs.rename(o.To, o.Path)
	}
	aside := false
	if o.N > 0 {
		var err error
		if aside, err = exists(t.priv, kept(o.N)); err != nil {
			return err
		}
	}
	if o.Kind == "put" {
		waiting, err := exists(t.priv, o.staged())
		if err != nil {
			return err
		}
		if !waiting && !aside { // put where nothing was
			st, err := StateOf(t.dirs, o.Path)
			if err != nil || !st.Regular || st.SHA256.Hex() != o.SHA256 {
				return err // gone, or changed by somebody since: theirs
			}
			return t.dirs.Remove(o.Path)
		}
		if waiting && aside { // linked aside but not replaced, or moved aside
			if inPlace, err := t.exists(o.Path); err != nil || inPlace {
				return err
			}
		}
	}
	if !aside {
		return nil
	}
	if _, err := t.dirs.MkdirAll(path.Dir(o.Path)); err != nil {
		return err
	}
	return pair("rename", t.priv, kept(o.N), t.dirs, o.Path, (*dir).rename)
}

// recover undoes what the journal of an interrupted transaction shows and
// removes its private directory.
func (t *Txn) recover() error {
	j, err := t.readJournal()
	if err != nil {
		return err
	}
	if j == nil {
		return t.forgetRest()
	}
	t.area, t.areaID = j.Area, j.AreaID
	t.priv, err = t.dirs.Sub(j.Area)
	var id string
	if err == nil {
		id, err = t.priv.root.id()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && j.AreaID != "" && j.AreaID != id, isNotDir(err):
		// Another directory has the target's identity now, or somebody has
		// removed what the run had put aside.
		if len(j.Ops) > 0 {
			t.note(NoteLostRun, "", "an interrupted run cannot be undone, for the directory "+j.Area+", in which it had put files aside, is gone")
		}
		t.closePrivate()
		t.area, t.areaID = "", ""
		return cmpErr(t.state.Remove(t.journalPath()), t.forgetRest())
	case err != nil:
		return err
	}
	if t.left = len(j.Ops) > 0; t.left {
		if err := t.undo(j); err != nil {
			return err
		}
	}
	return t.end()
}

// end removes the private directory, the journal of a run that changed nothing
// and whatever else is kept about the target but its record.
func (t *Txn) end() error {
	if t.priv == nil && t.area != "" {
		var err error
		if t.priv, err = t.dirs.Sub(t.area); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if t.priv != nil {
		for _, dir := range []string{"new", "old", "tree"} {
			if err := t.priv.removeAll(dir); err != nil {
				return err
			}
		}
		t.closePrivate()
		if err := t.dirs.Remove(t.area); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	t.area, t.areaID = "", ""
	return t.forgetRest()
}

func (t *Txn) closePrivate() {
	if t.priv != nil {
		t.priv.Close()
		t.priv = nil
	}
}

// forgetRest removes what no later run needs.
func (t *Txn) forgetRest() error {
	for _, name := range []string{journalName, journalName + ".tmp", recordNew, recordNew + ".tmp", recordOld} {
		if err := t.state.Remove(t.own + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for dir := t.own; dir != "."; dir = path.Dir(dir) { // as far as they are empty
		if t.state.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// Close removes the private directory, unless a journal still has to be undone
// by the next run, and gives the lock back.
func (t *Txn) Close() error {
	var err error
	if t.unlock != nil {
		if j, jerr := t.readJournal(); jerr != nil || j == nil || len(j.Ops) == 0 {
			err = cmpErr(jerr, t.end())
		}
		t.unlock()
	}
	return cmpErr(err, t.closeDirs())
}

func (t *Txn) closeDirs() error {
	t.closePrivate()
	var err error
	if t.state != nil {
		err = t.state.Close()
	}
	return cmpErr(err, t.dirs.Close())
}

// TargetDir makes a target directory and its parents if they are missing and
// returns the outermost one that was made, "" if none. RemoveMade takes it
// back after a failure.
func TargetDir(dir string) (made string, err error) {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = d
		if filepath.Dir(d) == d {
			break
		}
	}
	return made, os.MkdirAll(dir, 0o755)
}

// RemoveMade removes dir and its parents up to made, as far as they are empty.
func RemoveMade(made, dir string) {
	if made == "" {
		return
	}
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if os.Remove(d) != nil || d == made {
			return
		}
	}
}
