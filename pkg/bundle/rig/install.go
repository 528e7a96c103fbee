package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Files that install keeps in a target directory.
const (
	lockName    = ".rigbundle-lock.json"
	areaName    = ".rigbundle-install" // and a random tail, only while something changes
	backupTail  = ".rigbundle-backup"
	maxLockFile = 64 << 20
)

// Lock is the file `.rigbundle-lock.json` of a target: what is installed there
// (docs/spec/rigbundle.md#install). Anybody can have put that file there, so it
// is only a claim. What this user installed is in the record of the same form
// in the state directory: it alone lets files be replaced or removed.
type Lock struct {
	Schema  string      `json:"schema_version"`
	Bundles []Installed `json:"bundles"` // by name
}

// Installed is one bundle of a Lock.
type Installed struct {
	Name        string       `json:"name"`
	Version     string       `json:"version"`
	FileDigest  string       `json:"file_digest"`
	TarDigest   string       `json:"tar_digest"`
	Files       []LockedFile `json:"files"`       // by path
	Directories []string     `json:"directories"` // that were made, by path
}

// LockedFile is a file that install put in place.
type LockedFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Mode   string `json:"mode"`
}

func (l *Lock) find(name string) *Installed {
	return first(l.Bundles, func(b Installed) bool { return b.Name == name })
}

// owners maps paths to the name of the bundle that put them there.
func (l *Lock) owners() map[string]string {
	out := map[string]string{}
	for _, b := range l.Bundles {
		for _, f := range b.Files {
			out[f.Path] = b.Name
		}
	}
	return out
}

// readLock reads what a target claims.
func readLock(d *bundle.Dirs) (*Lock, error) {
	f, err := d.Open(lockName)
	if errors.Is(err, fs.ErrNotExist) {
		return &Lock{Schema: "1.0"}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLockFile))
	if err != nil {
		return nil, err
	}
	return parseLock(b, lockName)
}

// readInstalled reads what this user has installed in a target, and what the
// target claims. The record counts as long as the lock says the same: whoever
// removes or changes the lock forgets what is installed, and nothing is known of
// a new directory that has got the identity of an old one.
func readInstalled(t *bundle.Txn) (record, lock *Lock, err error) {
	if lock, err = readLock(t.Dirs()); err != nil {
		return nil, nil, err
	}
	record = &Lock{Schema: "1.0"}
	b, err := t.Record()
	if err != nil || b == nil {
		return record, lock, err
	}
	if record, err = parseLock(b, "the record "+finding.QuoteMax(t.RecordFile(), 300)); err != nil {
		return nil, nil, err
	}
	record.Bundles = slices.DeleteFunc(record.Bundles, func(in Installed) bool {
		claim := lock.find(in.Name)
		return claim == nil || !reflect.DeepEqual(*claim, in)
	})
	return record, lock, nil
}

func parseLock(b []byte, what string) (*Lock, error) {
	l := &Lock{}
	if err := json.Unmarshal(b, l); err != nil || l.Schema != "1.0" {
		return nil, fmt.Errorf("%s is unreadable: remove it to forget what is installed", what)
	}
	for _, in := range l.Bundles {
		for _, f := range in.Files {
			if _, ok := bundle.ParseHex(f.SHA256); !ok || !bundle.CleanPath(f.Path) {
				return nil, fmt.Errorf("%s names %s, which is not a file below the directory", what, finding.QuoteMax(f.Path, 200))
			}
		}
		for _, d := range in.Directories {
			if !bundle.CleanPath(d) {
				return nil, fmt.Errorf("%s names %s, which is not a directory below the directory", what, finding.QuoteMax(d, 200))
			}
		}
	}
	return l, nil
}

func (l *Lock) marshal() ([]byte, error) {
	slices.SortFunc(l.Bundles, func(a, b Installed) int { return strings.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(l, "", "  ")
	return append(b, '\n'), err
}

// Action is one step of an install plan.
type Action struct {
	Action string `json:"action"` // add, keep, replace, remove or conflict
	Path   string `json:"path"`

	backup bool // what is there is moved aside first
	gone   bool // remove: somebody has removed it already
}

// InstallResult is what install and uninstall tell.
type InstallResult struct {
	Result
	Target  string   `json:"target,omitempty"`
	Plan    []Action `json:"plan,omitempty"`
	Changed bool     `json:"changed"`
	Paths   []string `json:"paths,omitempty"` // of a conflict, of changed files that were kept

	Behaviour *Behaviour `json:"behaviour,omitempty"` // of a plan

	Runtimes []string `json:"-"`
	RigSpec  string   `json:"-"`
}

// Install verifies a bundle and puts its listed files below a directory; the
// manifest is not installed. The directory is in the old state or in the new
// one, also after a crash: the next run finishes what a journal shows. Without
// a target the plan lists the contents. With start the rig is to be started
// from there, which one of version 1 can't be.
func Install(ctx context.Context, in bundle.Input, target string, start bool, o bundle.Options) (*InstallResult, error) {
	var spool *bundle.Spool
	if target != "" && !o.Plan {
		spool = bundle.NewSpool(o.State)
		defer spool.Close()
	}
	j, err := runSpooled(ctx, in, o, false, spool)
	if err != nil {
		return nil, err
	}
	r := &InstallResult{Result: *j.result("install"), Target: target}
	r.File = in.Name
	j.verdict(&r.Result, o)
	if !r.OK() {
		return r, nil
	}
	if j.man.schema == 1 {
		if start {
			f := bundle.Faultf(InstallLegacy, "", "a rig of version 1 is not started from a directory: OpenRig looks for its packages in the bundle itself")
			f.Hint = "rig up " + finding.Path(in.Name) + " --target DIR starts it, install only puts its files in place"
			r.Fail(f)
			return r, nil
		}
		told := len(j.told)
		faults, err := j.legacyContents()
		if err != nil {
			return nil, err
		}
		j.into(&r.Result.Result, told)
		if r.Fail(faults...); !r.OK() {
			return r, nil
		}
	}
	if o.Windows {
		paths := make([]string, len(j.man.files))
		for i, f := range j.man.files {
			paths[i] = f.path
		}
		if r.Fail(bundle.WindowsNames(paths)...); !r.OK() {
			return r, nil
		}
	}
	r.RigSpec = j.man.rigSpec
	if r.Runtimes = j.runtimes(); o.Plan {
		if r.Behaviour, err = j.behaviour(); err != nil {
			return nil, err
		}
	}
	if target == "" {
		for _, f := range j.man.files {
			r.Plan = append(r.Plan, Action{Action: "add", Path: f.path})
		}
		return r, nil
	}
	if o.Plan {
		return r, planOnly(j, r, target, o)
	}
	j.man.root, j.archive.Kept = nil, nil // of no use below, and much memory
	made, err := bundle.TargetDir(target)
	if err != nil {
		return nil, err
	}
	err = bundle.Within(place(target, o.State), &r.Result.Result, func(t *bundle.Txn) error { return install(ctx, t, j, r, o) })
	if err != nil || !r.OK() {
		bundle.RemoveMade(made, target)
	}
	return r, err
}

// runtimes are the runtimes of all members, each once.
func (j *judge) runtimes() []string {
	set := map[string]bool{}
	if j.legacy != nil {
		for _, n := range j.legacy.nodes {
			set[n.runtime] = true
		}
	}
	if j.rig != nil {
		for _, p := range j.rig.pods {
			for _, m := range p.members {
				set[m.runtime] = true
			}
		}
	}
	return sortedKeys(set)
}

// place is where a transaction of this format works.
func place(target, state string) bundle.Place {
	return bundle.Place{Target: target, State: state, Kind: areaName}
}

func planOnly(j *judge, r *InstallResult, target string, o bundle.Options) error {
	t, err := bundle.Look(place(target, o.State))
	if errors.Is(err, fs.ErrNotExist) {
		for _, f := range j.man.files {
			r.Plan = append(r.Plan, Action{Action: "add", Path: f.path})
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer t.Close()
	r.Tell(t.Notes()...)
	record, lock, err := readInstalled(t)
	if err != nil {
		return err
	}
	_, err = plan(t, record, lock, j, r, o.Backup)
	return err
}

// plan decides one action per path. Conflicts and links are faults of r. What
// the lock of the target claims can only keep a file from being touched.
func plan(t *bundle.Txn, record, lock *Lock, j *judge, r *InstallResult, backup bool) (actions []Action, err error) {
	name := j.man.name
	owner := lock.owners()
	maps.Copy(owner, record.owners())
	ours := record.find(name).files()
	paths := map[string]bool{}
	for _, f := range j.man.files {
		paths[f.path] = true
	}
	var links, conflicts []string
	repair := map[string]string{} // conflict to its hint
	held := backupNames(paths)
	for _, p := range sortedKeys(union(paths, keysOf(ours))) {
		st, err := t.State(p)
		var link *bundle.LinkError
		switch {
		case errors.As(err, &link):
			if !slices.Contains(links, link.Path) {
				links = append(links, link.Path)
			}
			continue
		case err != nil:
			return nil, err
		}
		was, mine := ours[p]
		unchanged := mine && st.Regular && st.SHA256.Hex() == was.SHA256 && fmt.Sprintf("%04o", st.Mode) == was.Mode
		act := Action{Path: p}
		if !paths[p] {
			switch {
			case !st.Exists:
				act.Action, act.gone = "remove", true
			case unchanged:
				act.Action = "remove"
			default:
				act.Action = "conflict"
			}
		} else {
			m := j.archive.Member(p)
			switch {
			case ownName(p):
				act.Action = "conflict"
			case !st.Exists:
				act.Action = "add"
			case st.Regular && st.SHA256 == m.SHA256 && st.Mode == m.Mode:
				act.Action = "keep"
			case unchanged:
				act.Action = "replace"
			default:
				act.Action = "conflict"
			}
		}
		if act.Action == "conflict" && !ownName(p) && (owner[p] == "" || owner[p] == name) {
			_, err := t.Dirs().Lstat(p + backupTail)
			free := errors.Is(err, fs.ErrNotExist) && !held[p+backupTail]
			switch {
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				return nil, err
			case !st.Regular:
				repair[p] = "it is not a regular file, move it away yourself"
			case !free:
				repair[p] = "move it away yourself, " + finding.QuoteMax(p+backupTail, 200) + " is taken"
			case backup:
				act.backup = true
				if act.Action = "replace"; !paths[p] {
					act.Action = "remove"
				}
			default:
				repair[p] = "--backup moves it to " + finding.QuoteMax(p+backupTail, 200)
			}
		}
		if act.Action == "conflict" {
			conflicts = append(conflicts, p)
		}
		actions = append(actions, act)
	}
	r.Plan = actions
	switch {
	case len(links) > 0:
		r.Paths = links
		r.Plan = nil
		f := bundle.Faultf(InstallSymlink, links[0], "%s in the target is a symlink, nothing is written through it", finding.QuoteMax(links[0], 200))
		r.Fail(f)
	case len(conflicts) > 0:
		r.Paths = conflicts
		for _, p := range conflicts {
			what := "is in the way: a file of somebody else"
			switch {
			case ownName(p):
				what = "is a name that install keeps for itself"
			case ours[p].Path != "":
				what = "was changed since it was installed"
			case owner[p] == name:
				what = "is, as the lock there says, of this bundle, but not as this user has installed it"
			case owner[p] != "":
				what = "belongs to the installed bundle " + finding.QuoteMax(owner[p], 60)
			}
			f := bundle.Faultf(InstallConflict, p, "%s %s", finding.QuoteMax(p, 200), what)
			f.Hint = repair[p]
			r.Fail(f)
		}
	}
	return actions, nil
}

// ownName reports whether a path is the lock or lies in a private directory,
// also on a file system that does not tell cases apart.
func ownName(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return strings.EqualFold(p, lockName) || len(first) >= len(areaName) && strings.EqualFold(first[:len(areaName)], areaName)
}

// backupNames returns the names with backupTail that paths, or directories
// above them, hold for the bundle itself.
func backupNames(paths map[string]bool) map[string]bool {
	held := map[string]bool{}
	for p := range paths {
		for i := 0; ; {
			j := strings.Index(p[i:], backupTail)
			if j < 0 {
				break
			}
			if i += j + len(backupTail); i == len(p) || p[i] == '/' {
				held[p[:i]] = true
			}
		}
	}
	return held
}

func keysOf[V any](m map[string]V) map[string]bool {
	out := make(map[string]bool, len(m))
	for k := range m {
		out[k] = true
	}
	return out
}

func install(ctx context.Context, t *bundle.Txn, j *judge, r *InstallResult, o bundle.Options) error {
	record, lock, err := readInstalled(t)
	if err != nil {
		return err
	}
	actions, err := plan(t, record, lock, j, r, o.Backup)
	if err != nil || !r.OK() {
		return err
	}
	was := record.find(j.man.name)
	claimed := lock.find(j.man.name).files()
	now := Installed{Name: j.man.name, Version: j.man.version, FileDigest: j.archive.FileDigest.String(), TarDigest: j.archive.TarDigest.String(), Files: []LockedFile{}, Directories: []string{}}
	ours := map[string]bool{}
	var gone []string
	if was != nil {
		for _, f := range was.Files {
			ours[f.Path] = true
		}
		now.Directories = append(now.Directories, was.Directories...)
	}
	put := map[string]bool{}
	var needed []string
	for _, a := range actions {
		switch a.Action {
		case "add", "replace":
			put[a.Path] = true
			needed = append(needed, a.Path)
		case "remove":
			gone = append(gone, a.Path)
		}
		if a.Action == "remove" {
			continue
		}
		m := j.archive.Member(a.Path)
		f := LockedFile{a.Path, m.SHA256.Hex(), fmt.Sprintf("%04o", m.Mode)}
		if a.Action == "keep" && !ours[a.Path] && claimed[a.Path] != f {
			continue
		}
		now.Files = append(now.Files, f) // a claim is believed of a file that is the bundle's to the byte
	}
	missing, err := t.MissingDirs(needed)
	if err != nil {
		return err
	}
	now.Directories = append(now.Directories, missing...)
	if in := lock.find(j.man.name); in != nil { // of such files
		parents := dirsOf(slices.DeleteFunc(slices.Clone(now.Files), func(f LockedFile) bool { return claimed[f.Path] != f }))
		now.Directories = append(now.Directories, slices.DeleteFunc(slices.Clone(in.Directories), func(d string) bool { return !parents[d] })...)
	}
	slices.Sort(now.Directories)
	now.Directories = slices.Compact(now.Directories)
	emptied := emptyDirs(now.Directories, now.Files)
	now.Directories = slices.DeleteFunc(now.Directories, func(d string) bool { return slices.Contains(emptied, d) })
	recordBefore, err := record.marshal()
	if err != nil {
		return err
	}
	lockBefore, err := lock.marshal()
	if err != nil {
		return err
	}
	record.set(now)
	lock.set(now)
	recordAfter, err := record.marshal()
	if err != nil {
		return err
	}
	lockAfter, err := lock.marshal()
	if err != nil {
		return err
	}
	if len(put) == 0 && len(gone) == 0 && was != nil && bytes.Equal(recordBefore, recordAfter) && bytes.Equal(lockBefore, lockAfter) {
		return nil // the same bundle again
	}
	r.Changed = true
	t.SetRecord(recordAfter)
	if err := stage(ctx, t, j.archive, put); err != nil {
		return err
	}
	for _, a := range actions {
		switch {
		case a.backup:
			t.Move(a.Path, a.Path+backupTail)
		case a.Action == "remove" && !a.gone:
			t.Remove(a.Path)
		}
	}
	for i := len(emptied) - 1; i >= 0; i-- {
		t.RemoveDir(emptied[i])
	}
	if err := t.StageBytes(lockName, 0o644, lockAfter); err != nil {
		return err
	}
	return t.Commit(ctx)
}

// stage stages the files of a bundle that are to be put in place.
func stage(ctx context.Context, t *bundle.Txn, a *bundle.Archive, put map[string]bool) error {
	left := len(put)
	if left == 0 {
		return nil
	}
	if !a.Spooled() {
		return a.Walk(ctx, func(m *bundle.Member, content io.Reader) error {
			if !put[m.Name] {
				return nil
			}
			if err := t.Stage(m.Name, m.Mode, content); err != nil {
				return err
			}
			if left--; left == 0 {
				return bundle.ErrStop
			}
			return nil
		})
	}
	puts := make([]bundle.Put, 0, left)
	for i := range a.Members {
		if m := &a.Members[i]; put[m.Name] {
			puts = append(puts, bundle.Put{Path: m.Name, Mode: m.Mode, SHA256: m.SHA256, Open: func() (io.Reader, error) { return a.Section(m) }})
		}
	}
	return t.StageAll(ctx, puts)
}

// files are the files of a bundle by path; none of nil.
func (in *Installed) files() map[string]LockedFile {
	out := map[string]LockedFile{}
	if in != nil {
		for _, f := range in.Files {
			out[f.Path] = f
		}
	}
	return out
}

// dirsOf are the directories above files.
func dirsOf(files []LockedFile) map[string]bool {
	dirs := map[string]bool{}
	for _, f := range files {
		for d := path.Dir(f.Path); d != "." && !dirs[d]; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	return dirs
}

// emptyDirs are the directories that hold none of the files, by path.
func emptyDirs(dirs []string, files []LockedFile) (empty []string) {
	full := dirsOf(files)
	for _, d := range dirs {
		if !full[d] {
			empty = append(empty, d)
		}
	}
	return empty
}

func (l *Lock) set(in Installed) {
	if old := l.find(in.Name); old != nil {
		*old = in
		return
	}
	l.Bundles = append(l.Bundles, in)
}

func (l *Lock) drop(name string) {
	l.Bundles = slices.DeleteFunc(l.Bundles, func(b Installed) bool { return b.Name == name })
}

// Uninstall removes exactly the files of a bundle that this user has installed
// and that are as they were installed, then the directories that were made and
// are empty. Changed files stay, are named, and stay in record and lock. What
// only the lock of the target claims is not removed. state is the user's state
// directory.
func Uninstall(ctx context.Context, name, target, state string) (*InstallResult, error) {
	r := &InstallResult{Result: *newResult("uninstall"), Target: target}
	r.Name = name
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		r.Fail(bundle.Faultf(InstallNotFound, "", "nothing is installed in %s", finding.QuoteMax(target, 200)))
		return r, nil
	}
	return r, bundle.Within(place(target, state), &r.Result.Result, func(t *bundle.Txn) error { return r.uninstall(ctx, t) })
}

func (r *InstallResult) uninstall(ctx context.Context, t *bundle.Txn) error {
	name, target := r.Name, r.Target
	record, lock, err := readInstalled(t)
	if err != nil {
		return err
	}
	in := record.find(name)
	if in == nil {
		r.Fail(notInstalled(name, target, lock.find(name)))
		return nil
	}
	r.Version = in.Version
	var kept []LockedFile
	for _, f := range in.Files {
		st, err := t.State(f.Path)
		var link *bundle.LinkError
		if err != nil && !errors.As(err, &link) {
			return err
		}
		switch {
		case err == nil && !st.Exists:
		case err == nil && st.Regular && st.SHA256.Hex() == f.SHA256 && fmt.Sprintf("%04o", st.Mode) == f.Mode:
			t.Remove(f.Path)
			r.Plan = append(r.Plan, Action{Action: "remove", Path: f.Path})
		default:
			kept = append(kept, f)
		}
	}
	removed := len(r.Plan)
	r.Counts = &Counts{Files: removed}
	emptied := emptyDirs(in.Directories, kept)
	for i := len(emptied) - 1; i >= 0; i-- {
		t.RemoveDir(emptied[i])
	}
	if len(kept) > 0 {
		in.Files = kept
		in.Directories = slices.DeleteFunc(in.Directories, func(d string) bool { return slices.Contains(emptied, d) })
		lock.set(*in)
		for _, f := range kept {
			r.Paths = append(r.Paths, f.Path)
			r.Fail(bundle.Faultf(InstallModified, f.Path, "%s was changed since it was installed, it is kept", finding.QuoteMax(f.Path, 200)))
		}
	} else {
		record.drop(name)
		lock.drop(name)
	}
	r.Changed = removed > 0 || len(kept) == 0
	var b []byte
	if len(record.Bundles) > 0 {
		if b, err = record.marshal(); err != nil {
			return err
		}
	}
	t.SetRecord(b)
	if len(lock.Bundles) == 0 {
		if _, err := t.Dirs().Lstat(lockName); err == nil {
			t.Remove(lockName)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return t.Commit(ctx)
	}
	if b, err = lock.marshal(); err != nil {
		return err
	}
	if err := t.StageBytes(lockName, 0o644, b); err != nil {
		return err
	}
	return t.Commit(ctx)
}

// notInstalled is the fault of a bundle that this user has not installed;
// claimed is what the lock of the target says of it, nil if nothing.
func notInstalled(name, target string, claimed *Installed) *bundle.Finding {
	if claimed == nil {
		return bundle.Faultf(InstallNotFound, "", "no bundle %s is installed there", finding.QuoteMax(name, 100))
	}
	f := bundle.Faultf(InstallNotFound, lockName, "the lock there lists the bundle %s %s, but this user has not installed it like that, so nothing is removed by what the lock says",
		finding.QuoteMax(name, 100), finding.QuoteMax(claimed.Version, 60))
	f.Hint = "rig-bundle install FILE --target " + finding.Path(target) + " with that bundle's file takes its files over, and then they can be removed"
	return f
}
