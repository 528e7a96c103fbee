package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Files that install keeps in a target directory.
const (
	lockName    = ".rigbundle-lock.json"
	areaName    = ".rigbundle-install" // only while something changes
	backupTail  = ".rigbundle-backup"
	maxLockFile = 64 << 20
)

// Lock is the file `.rigbundle-lock.json` of a target: what is installed there
// (spec/rigbundle.md section 15).
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
	for i := range l.Bundles {
		if l.Bundles[i].Name == name {
			return &l.Bundles[i]
		}
	}
	return nil
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

func readLock(d *bundle.Dirs) (*Lock, error) {
	l := &Lock{Schema: "1.0"}
	f, err := d.Open(lockName)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLockFile))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, l); err != nil || l.Schema != "1.0" {
		return nil, fmt.Errorf("%s is unreadable: remove it to forget what is installed", lockName)
	}
	for _, in := range l.Bundles {
		for _, f := range in.Files {
			if _, ok := bundle.ParseHex(f.SHA256); !ok || !bundle.CleanPath(f.Path) {
				return nil, fmt.Errorf("%s names %s, which is no file below the directory", lockName, finding.QuoteMax(f.Path, 200))
			}
		}
		for _, d := range in.Directories {
			if !bundle.CleanPath(d) {
				return nil, fmt.Errorf("%s names %s, which is no directory below the directory", lockName, finding.QuoteMax(d, 200))
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

	Runtimes       []string `json:"-"`
	StartupActions []string `json:"-"`
	RigSpec        string   `json:"-"`
	Recovered      bool     `json:"-"` // an interrupted run was undone first
}

// Install verifies a bundle and puts its listed files below a directory; the
// manifest is not installed. The directory is in the old state or in the new
// one, also after a crash: the next run finishes what a journal shows. Without
// a target the plan lists the contents.
func Install(ctx context.Context, in bundle.Input, target string, o bundle.Options) (*InstallResult, error) {
	j, err := run(ctx, in, o, false)
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
		r.Fail(bundle.Faultf(InstallLegacy, "", "a legacy bundle of version 1 is not installed"))
		return r, nil
	}
	r.RigSpec = j.man.rigSpec
	r.Runtimes, r.StartupActions = j.runtimes(), j.actions()
	if target == "" {
		for _, f := range j.man.files {
			r.Plan = append(r.Plan, Action{Action: "add", Path: f.path})
		}
		return r, nil
	}
	if o.Plan {
		return r, planOnly(j, r, target, o.Backup)
	}
	j.man.root, j.archive.Kept = nil, nil // of no use below, and much memory
	made, err := bundle.TargetDir(target)
	if err != nil {
		return nil, err
	}
	err = install(ctx, j, r, target, o.Backup)
	if err != nil || !r.OK() {
		bundle.RemoveMade(made, target)
	}
	return r, err
}

// runtimes are the runtimes of all members, each once.
func (j *judge) runtimes() []string {
	set := map[string]bool{}
	for _, p := range j.rig.pods {
		for _, m := range p.members {
			set[m.runtime] = true
		}
	}
	return sortedKeys(set)
}

func planOnly(j *judge, r *InstallResult, target string, backup bool) error {
	d, err := bundle.OpenDirs(target)
	if errors.Is(err, fs.ErrNotExist) {
		for _, f := range j.man.files {
			r.Plan = append(r.Plan, Action{Action: "add", Path: f.path})
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	lock, err := readLock(d)
	if err != nil {
		return err
	}
	_, err = plan(d, lock, j, r, backup)
	return err
}

// plan decides one action per path. Conflicts and links are faults of r.
func plan(d *bundle.Dirs, lock *Lock, j *judge, r *InstallResult, backup bool) (actions []Action, err error) {
	name := j.man.name
	owner := lock.owners()
	ours := map[string]LockedFile{}
	if in := lock.find(name); in != nil {
		for _, f := range in.Files {
			ours[f.Path] = f
		}
	}
	paths := map[string]bool{}
	for _, f := range j.man.files {
		paths[f.path] = true
	}
	var links, conflicts []string
	repair := map[string]string{} // conflict to its hint
	held := backupNames(paths)
	for _, p := range sortedKeys(union(paths, keysOf(ours))) {
		st, err := bundle.StateOf(d, p)
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
			_, err := d.Lstat(p + backupTail)
			free := errors.Is(err, fs.ErrNotExist) && !held[p+backupTail]
			switch {
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				return nil, err
			case !st.Regular:
				repair[p] = "it is no regular file, move it away yourself"
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
			case owner[p] == name:
				what = "was changed since it was installed"
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

// ownName reports whether a path is the lock or lies in the private directory,
// also on a file system that does not tell cases apart.
func ownName(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return strings.EqualFold(p, lockName) || strings.EqualFold(first, areaName)
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

func install(ctx context.Context, j *judge, r *InstallResult, target string, backup bool) (err error) {
	t, recovered, err := bundle.Begin(target, areaName)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := t.Close(); err == nil {
			err = cerr
		}
	}()
	r.Recovered = recovered
	lock, err := readLock(t.Dirs())
	if err != nil {
		return err
	}
	actions, err := plan(t.Dirs(), lock, j, r, backup)
	if err != nil || !r.OK() {
		return err
	}
	was := lock.find(j.man.name)
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
		if a.Action == "remove" || a.Action == "keep" && !ours[a.Path] {
			continue
		}
		m := j.archive.Member(a.Path)
		now.Files = append(now.Files, LockedFile{a.Path, m.SHA256.Hex(), fmt.Sprintf("%04o", m.Mode)})
	}
	missing, err := t.MissingDirs(needed)
	if err != nil {
		return err
	}
	now.Directories = append(now.Directories, missing...)
	slices.Sort(now.Directories)
	now.Directories = slices.Compact(now.Directories)
	emptied := emptyDirs(now.Directories, now.Files)
	now.Directories = slices.DeleteFunc(now.Directories, func(d string) bool { return slices.Contains(emptied, d) })
	var before []byte
	if was != nil {
		if before, err = lock.marshal(); err != nil {
			return err
		}
	}
	lock.set(now)
	after, err := lock.marshal()
	if err != nil {
		return err
	}
	if len(put) == 0 && len(gone) == 0 && was != nil && string(before) == string(after) {
		return nil // the same bundle again
	}
	r.Changed = true
	if len(put) > 0 {
		left := len(put)
		err = j.archive.Walk(ctx, func(m *bundle.Member, content io.Reader) error {
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
		if err != nil {
			return err
		}
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
	if err := t.StageBytes(lockName, 0o644, after); err != nil {
		return err
	}
	return t.Commit(ctx)
}

// emptyDirs are the directories that hold none of the files, by path.
func emptyDirs(dirs []string, files []LockedFile) (empty []string) {
	full := map[string]bool{}
	for _, f := range files {
		for d := path.Dir(f.Path); d != "." && !full[d]; d = path.Dir(d) {
			full[d] = true
		}
	}
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

// Uninstall removes exactly the files of an installed bundle that are as they
// were installed, then the directories that were made and are empty. Changed
// files stay, are named, and stay in the lock.
func Uninstall(ctx context.Context, name, target string) (r *InstallResult, err error) {
	r = &InstallResult{Result: *newResult("uninstall"), Target: target}
	r.Name = name
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		r.Fail(bundle.Faultf(InstallNotFound, "", "nothing is installed in %s", finding.QuoteMax(target, 200)))
		return r, nil
	}
	t, recovered, err := bundle.Begin(target, areaName)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := t.Close(); err == nil {
			err = cerr
		}
	}()
	r.Recovered = recovered
	lock, err := readLock(t.Dirs())
	if err != nil {
		return nil, err
	}
	in := lock.find(name)
	if in == nil {
		r.Fail(bundle.Faultf(InstallNotFound, "", "no bundle %s is installed there", finding.QuoteMax(name, 100)))
		return r, nil
	}
	r.Version = in.Version
	var kept []LockedFile
	for _, f := range in.Files {
		st, err := bundle.StateOf(t.Dirs(), f.Path)
		var link *bundle.LinkError
		if err != nil && !errors.As(err, &link) {
			return nil, err
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
		for _, f := range kept {
			r.Paths = append(r.Paths, f.Path)
			r.Fail(bundle.Faultf(InstallModified, f.Path, "%s was changed since it was installed, it is kept", finding.QuoteMax(f.Path, 200)))
		}
	} else {
		lock.Bundles = slices.DeleteFunc(lock.Bundles, func(b Installed) bool { return b.Name == name })
	}
	r.Changed = removed > 0 || len(kept) == 0
	if len(lock.Bundles) == 0 {
		t.Remove(lockName)
		return r, t.Commit(ctx)
	}
	b, err := lock.marshal()
	if err != nil {
		return nil, err
	}
	if err := t.StageBytes(lockName, 0o644, b); err != nil {
		return nil, err
	}
	return r, t.Commit(ctx)
}
