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
	"slices"
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// A Txn changes files below a directory so that after any crash the directory
// can be brought back to the old state or is in the new one.
//
// New contents are staged in a private directory below the target, on the
// same file system, read back and compared. [Txn.Commit] then writes a
// journal, puts everything in place by rename, keeping what it replaces, and
// removes the journal: that removal is the moment from which on the new state
// holds. [Begin] finds a journal that a crash left and undoes what it shows.
// A lock, which the system drops with the process, keeps two transactions of
// one target apart. Nothing is opened, made or removed through a symlink.
//
// A crash of the machine, not only of the process, can lose file contents
// that the system had not yet written; only the journal is synced.
type Txn struct {
	dirs   *Dirs
	area   string // name of the private directory below the root
	unlock func()
	ops    []op
	staged int    // numbers given out
	made   bool   // the private directory is there
	back   []byte // what was written, read again
	hash   hash.Hash
}

// op is one step of the journal. The numbered files new/N and old/N lie in
// the private directory.
type op struct {
	Kind   string `json:"kind"` // put, remove, move, mkdir or rmdir
	Path   string `json:"path"`
	N      int    `json:"n,omitempty"`      // put, remove: number of the staged and kept file
	SHA256 string `json:"sha256,omitempty"` // put: of the new content
	To     string `json:"to,omitempty"`     // move
}

type journal struct {
	Schema int  `json:"schema"`
	Ops    []op `json:"ops"`
}

// maxJournal bounds the journal that Begin reads back.
const maxJournal = 256 << 20

// ErrBusy says that another process is changing the same target.
var ErrBusy = errors.New("another process is installing into this directory")

// Begin opens a target directory, which must exist, takes its lock and undoes
// what an interrupted transaction left. area is the name of the private
// directory, different for each kind of bundle. recovered tells whether there
// was something to undo. Close ends the transaction.
func Begin(target, area string) (t *Txn, recovered bool, err error) {
	dirs, err := OpenDirs(target)
	if err != nil {
		return nil, false, err
	}
	unlock, err := lockDir(target, area)
	if err != nil {
		dirs.Close()
		return nil, false, err
	}
	t = &Txn{dirs: dirs, area: area, unlock: unlock}
	if recovered, err = t.recover(); err != nil {
		unlock()
		dirs.Close()
		return nil, false, err
	}
	return t, recovered, nil
}

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
func (t *Txn) State(name string) (State, error) { return StateOf(t.dirs, name) }

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
	if !cleanRel(name) {
		return fmt.Errorf("%s is no path below the target", finding.QuoteMax(name, 200))
	}
	if err := t.makeArea(); err != nil {
		return err
	}
	t.staged++
	f, err := t.dirs.create(t.new(t.staged), mode)
	if err != nil {
		return err
	}
	sum, err := t.fill(f, content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == errReadBack {
		err = fmt.Errorf("the staged copy of %s reads back differently", finding.QuoteMax(name, 200))
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return &fs.PathError{Op: "stage", Path: name, Err: pe.Err} // the number of the staged file tells nobody anything
	}
	if err != nil {
		return err
	}
	t.ops = append(t.ops, op{Kind: "put", Path: name, N: t.staged, SHA256: sum})
	return nil
}

var errReadBack = errors.New("the file reads back differently")

// fill writes a new file, reads it back, and returns the hash of its content.
func (t *Txn) fill(f *handle, content io.Reader) (sum string, err error) {
	if t.back == nil {
		t.back, t.hash = make([]byte, 64<<10), sha256.New()
	}
	w := &staging{f: f, back: t.back}
	if m, ok := content.(*memberReader); ok && m.h != nil { // compares with the hash at its end
		_, err := m.WriteTo(w)
		return m.m.SHA256.Hex(), err
	}
	t.hash.Reset()
	_, err = io.Copy(io.MultiWriter(t.hash, w), content)
	return hex.EncodeToString(t.hash.Sum(nil)), err
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

func (t *Txn) new(n int) string { return t.area + "/new/" + strconv.Itoa(n) }
func (t *Txn) old(n int) string { return t.area + "/old/" + strconv.Itoa(n) }

func (t *Txn) journalPath() string { return t.area + "/journal.json" }

// makeArea makes the private directory; Begin has removed a leftover.
func (t *Txn) makeArea() error {
	if t.made {
		return nil
	}
	for _, dir := range []string{t.area, t.area + "/new", t.area + "/old"} {
		if err := t.dirs.mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	t.made = true
	return nil
}

// Commit carries out the plan: moves, then files
// to be put in place, then removals, then directories, in the order planned
// within each, except that the last staged file is put last of all. An error
// or the end of ctx undoes everything.
func (t *Txn) Commit(ctx context.Context) error {
	if len(t.ops) == 0 {
		return nil
	}
	for _, o := range t.ops {
		if !cleanRel(o.Path) || o.To != "" && !cleanRel(o.To) {
			return fmt.Errorf("%s is no path below the target", finding.QuoteMax(o.Path, 200))
		}
	}
	if err := t.makeArea(); err != nil {
		return err
	}
	ops, err := t.order()
	if err != nil {
		return err
	}
	if err := t.writeJournal(ops); err != nil {
		return err
	}
	for _, o := range ops {
		err := ctx.Err()
		if err == nil {
			err = t.do(o)
		}
		if err != nil {
			if uerr := t.undo(ops); uerr != nil {
				return fmt.Errorf("%w; undoing it failed too: %w; the next run will try again", err, uerr)
			}
			return err
		}
	}
	if err := t.dirs.Remove(t.journalPath()); err != nil {
		if uerr := t.undo(ops); uerr != nil {
			return fmt.Errorf("%w; undoing it failed too: %w; the next run will try again", err, uerr)
		}
		return err
	}
	return nil
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
	all := make([]op, 0, len(missing)+len(ops)+1)
	for _, dir := range missing {
		all = append(all, op{Kind: "mkdir", Path: dir})
	}
	return append(append(all, ops...), final...), nil
}

func (t *Txn) writeJournal(ops []op) error {
	b, err := json.Marshal(journal{1, ops})
	if err != nil {
		return err
	}
	tmp := t.area + "/journal.tmp"
	if err := t.dirs.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := t.dirs.create(tmp, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return t.dirs.rename(tmp, t.journalPath())
}

func (t *Txn) exists(name string) (bool, error) {
	_, err := t.dirs.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (t *Txn) do(o op) error {
	switch o.Kind {
	case "mkdir":
		_, err := t.dirs.MkdirAll(o.Path)
		return err
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
		return t.dirs.rename(o.Path, t.old(o.N))
	}
	// put: the old file is linked aside first, so that the path never lacks
	// a file; where links can't be made it is moved aside.
	there, err := t.exists(o.Path)
	if err != nil {
		return err
	}
	if there {
		if err := t.dirs.link(o.Path, t.old(o.N)); err != nil {
			if err := t.dirs.rename(o.Path, t.old(o.N)); err != nil {
				return err
			}
		}
	}
	return t.dirs.rename(t.new(o.N), o.Path)
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
// and removes the journal. It can be repeated.
func (t *Txn) undo(ops []op) error {
	t.dirs.forget()
	for i := len(ops) - 1; i >= 0; i-- {
		if err := t.undoOne(ops[i]); err != nil {
			return err
		}
	}
	return t.dirs.Remove(t.journalPath())
}

func (t *Txn) undoOne(o op) error {
	switch o.Kind {
	case "mkdir":
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
	kept, err := t.exists(t.old(o.N))
	if err != nil {
		return err
	}
	if o.Kind == "put" {
		waiting, err := t.exists(t.new(o.N))
		if err != nil {
			return err
		}
		if !waiting && !kept { // put where nothing was
			st, err := StateOf(t.dirs, o.Path)
			if err != nil || !st.Regular || st.SHA256.Hex() != o.SHA256 {
				return err // gone, or changed by somebody since: theirs
			}
			return t.dirs.Remove(o.Path)
		}
		if waiting && kept { // linked aside but not replaced, or moved aside
			if inPlace, err := t.exists(o.Path); err != nil || inPlace {
				return err
			}
		}
	}
	if !kept {
		return nil
	}
	if _, err := t.dirs.MkdirAll(path.Dir(o.Path)); err != nil {
		return err
	}
	return t.dirs.rename(t.old(o.N), o.Path)
}

// recover undoes what the journal of an interrupted transaction shows and
// removes its private directory.
func (t *Txn) recover() (bool, error) {
	if there, err := t.exists(t.area); err != nil || !there {
		return false, err
	}
	f, err := t.dirs.Open(t.journalPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, t.removeArea()
	}
	if err != nil {
		return false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxJournal))
	f.Close()
	if err != nil {
		return false, err
	}
	var j journal
	if err := json.Unmarshal(b, &j); err != nil || j.Schema != 1 {
		return false, fmt.Errorf("the journal %s is unreadable, remove it after looking at the files beside it", finding.Quote(t.journalPath()))
	}
	for _, o := range j.Ops {
		if !cleanRel(o.Path) || o.To != "" && !cleanRel(o.To) || strings.HasPrefix(o.Path+"/", t.area+"/") {
			return false, fmt.Errorf("the journal %s names a path outside the target", finding.Quote(t.journalPath()))
		}
	}
	if err := t.undo(j.Ops); err != nil {
		return false, err
	}
	return true, t.removeArea()
}

func (t *Txn) removeArea() error {
	return t.dirs.removeAll(t.area)
}

// Close removes the private directory, unless a journal in it still has to be
// undone by the next run, and gives the lock back.
func (t *Txn) Close() error {
	var err error
	if there, jerr := t.exists(t.journalPath()); jerr == nil && !there {
		err = t.removeArea()
	}
	t.unlock()
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
