package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/rules"
)

type validatedFile struct {
	File        string        `json:"file"`
	Valid       bool          `json:"valid"`
	BodyHash    *string       `json:"body_hash"`
	StatusClass *string       `json:"status_class"`
	Findings    []jsonFinding `json:"findings"`
	Verdict     *jsonVerdict  `json:"verdict,omitempty"` // of an envelope path of the repository
}

type unreadablePath struct {
	File    string `json:"file"`
	Message string `json:"message"`
}

type validateObject struct {
	head
	Checked    int              `json:"checked"`
	Files      []validatedFile  `json:"files"`
	Unreadable []unreadablePath `json:"unreadable"`
}

// A validation collects what `rig-bridge validate` finds.
type validation struct {
	r       *run
	root    string // top of the work tree around the current directory, "" if none
	object  validateObject
	invalid int
	dirs    map[string][]string            // of the root, by their folded names; nil: not read
	folded  map[string]map[string][]string // see twin
	work    *work                          // the repository around the current directory, nil if there is none
	book    *verdict.Book                  // of its history, nil if there is none
}

// runValidate is `rig-bridge validate` (docs/spec/client.md#validate).
func runValidate(r *run) error {
	v := &validation{r: r, folded: map[string]map[string][]string{}, object: validateObject{head: r.head(), Files: []validatedFile{}, Unreadable: []unreadablePath{}}}
	// A repository is not needed; if there is one its paths are known.
	repo, err := gitrepo.OpenIdle(r.ctx, gitrepo.Env{Environ: r.env.Environ, Dir: r.env.Dir})
	switch {
	case err == nil:
		defer repo.Close()
		if v.root = repo.WorkTree(); v.root != "" {
			v.work = &work{root: v.root, repo: repo, memory: r.env.Memory}
			if v.book, err = r.book(v.work, 0); err != nil {
				return err
			}
			r.behind(v.book)
		}
	case errors.Is(err, gitrepo.ErrNotRepository), errors.Is(err, gitrepo.ErrNoGit):
	default:
		return gitProblem(err)
	}
	for _, name := range r.opts.Words {
		if r.ctx.Err() != nil {
			return nil
		}
		v.path(name)
	}
	o := &v.object
	switch {
	case len(o.Unreadable) > 0 || o.Checked == 0:
		r.exit = 2
	case v.invalid > 0:
		r.exit = 1
	}
	if o.Checked == 0 && len(o.Unreadable) == 0 {
		r.note("no message was found in %s", quote(strings.Join(r.opts.Words, " ")))
	}
	for _, u := range o.Unreadable {
		r.note("%s: %s", finding.Path(u.File), u.Message)
	}
	if r.json {
		return r.object(o)
	}
	fmt.Fprintf(&r.out, "rig-bridge: validate checked=%d valid=%d invalid=%d\n", o.Checked, o.Checked-v.invalid, v.invalid)
	return nil
}

// path judges what a word of the command line names.
func (v *validation) path(name string) {
	full := name
	if !filepath.IsAbs(full) {
		full = filepath.Join(v.r.env.Dir, full)
	}
	info, err := os.Lstat(full)
	switch {
	case err != nil:
		v.unreadable(name, "cannot be read: "+reason(err))
	case info.IsDir():
		v.directory(name, full)
	default:
		if why := notRegular(info.Mode()); why != "" {
			v.unreadable(name, why)
			return
		}
		v.file(name, full, info.Mode(), true)
	}
}

func (v *validation) unreadable(name, why string) {
	v.object.Unreadable = append(v.object.Unreadable, unreadablePath{name, why})
}

// envelopePath is the path from the top of the work tree if it is that of an
// envelope, else "".
func (v *validation) envelopePath(full string) string {
	if v.root == "" {
		return ""
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil {
		return ""
	}
	rel, err := filepath.Rel(v.root, filepath.Join(dir, filepath.Base(full)))
	if err != nil || !envelope.IsEnvelopePath(filepath.ToSlash(rel)) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// file judges one file. named says that the user named it, so that it counts
// as unreadable if it is.
func (v *validation) file(name, full string, mode fs.FileMode, named bool) {
	data, err := readFile(full, envelope.DefaultLimits().File)
	if err != nil {
		v.unreadable(name, "cannot be read: "+reason(err))
		return
	}
	path := v.envelopePath(full)
	var gitMode uint32
	if path != "" {
		gitMode = 0o100644
		if mode&0o100 != 0 {
			gitMode = 0o100755
		}
	}
	e, fs := screened(data, path, gitMode)
	if path != "" {
		if other := v.twin(path); other != "" {
			fs = append(fs, envelope.Twin(other))
		}
	}
	if path != "" {
		// Where the policy cannot be read nothing is excepted.
		if left, err := v.work.excepted(fs); err == nil {
			fs = left
		}
	}
	if path == "" || v.book == nil {
		v.result(name, e, fs, nil)
		return
	}
	thread, file := splitPath(path)
	word, _ := v.work.verdictOf(v.book.Thread(thread), file, data)
	if word.Tombstone && e != nil { // it is not new
		fs = slices.DeleteFunc(fs, func(f finding.Finding) bool { return f.Message == rules.NewTombstone(e, path).Message })
	}
	v.result(name, e, append(fs, refusals(word, fs)...), &word)
}

// refusals are the findings for the rules by which the gates refuse the commit
// of a file, but those that its content shows already.
func refusals(word verdict.Verdict, fs []finding.Finding) (out []finding.Finding) {
	if word.State != verdict.Refused {
		return nil
	}
	for _, rule := range word.Rules {
		if slices.ContainsFunc(fs, func(f finding.Finding) bool { return f.Rule == rule }) {
			continue
		}
		message := "the gates refuse the commit " + short(word.Commit) + " that brought it"
		if word.Reason != "" {
			message = word.Reason
		}
		out = append(out, finding.Finding{Rule: rule, Severity: finding.Error, Line: 1, Col: 1, Message: message})
	}
	return out
}

// twin returns another path of the work tree that some file system could take
// for an envelope path, "" if there is none.
func (v *validation) twin(path string) string {
	thread, _ := splitPath(path)
	names, known := v.folded[thread]
	if !known {
		if v.dirs == nil {
			v.dirs = map[string][]string{}
			entries, _ := os.ReadDir(v.root)
			for _, d := range entries {
				if key := portable.Fold(d.Name()); d.IsDir() {
					v.dirs[key] = append(v.dirs[key], d.Name())
				}
			}
		}
		names = map[string][]string{}
		for _, d := range v.dirs[portable.Fold(thread)] {
			files, _ := os.ReadDir(filepath.Join(v.root, d))
			for _, f := range files {
				if !f.IsDir() {
					other := d + "/" + f.Name()
					key := portable.Fold(other)
					names[key] = append(names[key], other)
				}
			}
		}
		v.folded[thread] = names
	}
	for _, other := range names[portable.Fold(path)] {
		if other != path {
			return other
		}
	}
	return ""
}

func (v *validation) result(name string, e *envelope.Envelope, fs []finding.Finding, word *verdict.Verdict) {
	f := validatedFile{File: name, Valid: finding.Worst(fs) < finding.Error}
	for i := range fs {
		fs[i].Path = name
	}
	finding.Sort(fs)
	f.Findings = jsonFindings(fs)
	if word != nil {
		j := jsonOf(*word)
		f.Verdict = &j
	}
	if e != nil {
		hash := e.Hash // nothing else of a message is kept
		f.BodyHash = &hash
		if class := envelope.StatusClass(e.Status); class != "" {
			f.StatusClass = &class
		}
	}
	v.object.Checked++
	if !f.Valid {
		v.invalid++
	}
	if v.r.json {
		v.object.Files = append(v.object.Files, f)
	} else {
		for _, x := range fs {
			v.r.out.WriteString(findingLine(x) + "\n")
			if x.Hint != "" {
				v.r.note("hint for %s:%d: %s", finding.Path(name), x.Line, x.Hint)
			}
		}
	}
}

// directory judges every envelope path in a directory: those of a thread, or
// those of the threads in a root.
func (v *validation) directory(name, full string) {
	entries, err := os.ReadDir(full)
	if err != nil {
		v.unreadable(name, "cannot be read: "+reason(err))
		return
	}
	inside := v.inside(full)
	if !inside || v.envelopePath(filepath.Join(full, "x.md")) != "" {
		v.thread(name, full, entries)
	}
	if inside && !v.isRoot(full) {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !envelope.IsEnvelopePath(e.Name()+"/x.md") {
			continue
		}
		sub := filepath.Join(full, e.Name())
		files, err := os.ReadDir(sub)
		if err != nil {
			v.unreadable(filepath.Join(name, e.Name()), "cannot be read: "+reason(err))
			continue
		}
		v.thread(filepath.Join(name, e.Name()), sub, files)
	}
}

// inside reports whether a directory lies in the work tree around the current
// directory: in any other, threads have no place of their own.
func (v *validation) inside(full string) bool {
	real, err := filepath.EvalSymlinks(full)
	if err != nil || v.root == "" {
		return false
	}
	rel, err := filepath.Rel(v.root, real)
	return err == nil && filepath.IsLocal(rel)
}

func (v *validation) isRoot(full string) bool {
	real, err := filepath.EvalSymlinks(full)
	return err == nil && real == v.root
}

// thread judges the files of a directory if it is a thread: if one of them
// begins with a fence (docs/spec/envelope.md#where).
func (v *validation) thread(name, full string, entries []os.DirEntry) {
	is := false
	for _, e := range entries {
		if is || !strings.HasSuffix(e.Name(), ".md") || !e.Type().IsRegular() {
			continue
		}
		is = beginsWithFence(filepath.Join(full, e.Name()))
	}
	if !is {
		return
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".md") {
			continue
		}
		shown := filepath.Join(name, e.Name())
		if why := notRegular(e.Type()); why != "" {
			v.result(shown, nil, []finding.Finding{{Rule: envelope.RulePath, Severity: finding.Error, Line: 1, Col: 1, Message: why}}, nil)
			continue
		}
		info, err := e.Info()
		if err != nil {
			v.unreadable(shown, "cannot be read: "+reason(err))
			continue
		}
		v.file(shown, filepath.Join(full, e.Name()), info.Mode(), false)
	}
	v.removed(name, full, entries)
}

// removed tells of envelopes of a thread that were accepted, and that a commit
// has deleted.
func (v *validation) removed(name, full string, entries []os.DirEntry) {
	path := v.envelopePath(filepath.Join(full, "x.md"))
	if path == "" || v.book == nil {
		return
	}
	thread, _ := splitPath(path)
	gone := v.book.Thread(thread).Removed()
	here := map[string]bool{}
	for _, e := range entries {
		here[e.Name()] = true
	}
	for _, file := range slices.Sorted(maps.Keys(gone)) {
		if here[file] {
			continue
		}
		by := gone[file].By
		v.result(filepath.Join(name, file), nil, []finding.Finding{{Rule: "append-only", Severity: finding.Error, Line: 1, Col: 1,
			Message: "the accepted message was deleted by commit " + short(by.Commit)}}, &by)
	}
}

// beginsWithFence looks at the first bytes of a file.
func beginsWithFence(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|files.NoFollow, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 64)
	n, _ := f.Read(head)
	return envelope.HasFence(head[:n])
}
