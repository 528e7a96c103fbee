package gitrepo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/finding"
)

// A Ref is one ref as stored.
type Ref struct {
	Name   string // full name, raw bytes
	ID     ID     // what it points at in the end; of an annotated tag, the tag object
	Target string // of a symbolic ref, the name of the ref to which it leads in the end; else ""
}

// maxSymbolic is how many symbolic refs are followed, as in git.
const maxSymbolic = 5

// HEAD returns the full name of the branch that is checked out ("" if HEAD is
// detached) and the id of its commit ("" if the branch is unborn).
func (r *Repo) HEAD() (ref string, id ID, err error) {
	if target, ok, err := r.SymbolicTarget("HEAD"); err != nil {
		return "", "", err
	} else if ok {
		id, _, err := r.Ref(target)
		return target, id, err
	}
	id, ok, err := r.Ref("HEAD")
	if err == nil && !ok {
		err = &Error{Kind: ErrNotRepository, Message: "HEAD cannot be read"}
	}
	return "", id, err
}

// Ref returns the id that a ref of exactly this full name points at. ok is
// false if there is no such ref, or if it is a symbolic ref to one that does
// not exist.
func (r *Repo) Ref(name string) (id ID, ok bool, err error) {
	ref, ok, err := r.ref(name)
	return ref.ID, ok && ref.ID != "", err
}

// SymbolicTarget returns the name of the ref to which a symbolic ref leads in
// the end, whether that one exists or not; ok is false if there is no ref of
// the given name or it is not symbolic.
func (r *Repo) SymbolicTarget(name string) (target string, ok bool, err error) {
	if err := CheckRefName(name); err != nil {
		return "", false, err
	}
	if target, ok := r.looseTarget(name); ok {
		return target, target != "", nil
	}
	return r.askSymbolic(name)
}

// looseTarget follows symbolic refs without git, which is only known where refs
// are files: packed-refs holds no symbolic ref (gitrepository-layout), so that
// it need not be read. target is "" if the ref is none; ok is false where git
// has to say.
func (r *Repo) looseTarget(name string) (target string, ok bool) {
	for range maxSymbolic {
		if !r.looseRefs(name) {
			return "", false
		}
		value, state := looseRef(filepath.Join(r.commonDir, filepath.FromSlash(name)), len(r.EmptyTree()))
		if state == refUnclear {
			return "", false
		}
		next, symbolic := strings.CutPrefix(value, "ref: ")
		if !symbolic {
			return target, true
		}
		name, target = next, next
	}
	return "", false
}

// looseRefs reports whether a symbolic ref of that name could only be a file.
func (r *Repo) looseRefs(name string) bool {
	if r.plain {
		return true
	}
	if !strings.HasPrefix(name, "refs/heads/") && !strings.HasPrefix(name, "refs/tags/") {
		return false // may be one of a worktree
	}
	for _, key := range []string{"GIT_REF_STORAGE_FORMAT", "GIT_REFERENCE_BACKEND", "GIT_COMMON_DIR"} {
		if _, set := r.env.Lookup(key); set {
			return false
		}
	}
	if _, err := os.Lstat(filepath.Join(r.commonDir, "reftable")); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	storage, _, err := r.ConfigLast("extensions.refstorage")
	return err == nil && (storage == "" || storage == "files")
}

func (r *Repo) askSymbolic(name string) (target string, ok bool, err error) {
	stdout, stderr, code, err := r.env.output(r.ctx, r.git, "symbolic-ref", "-q", name)
	switch {
	case err != nil:
		return "", false, err
	case code == 1 && len(stderr) == 0:
		return "", false, nil
	case code != 0:
		return "", false, failure(r.ctx, "git symbolic-ref", stderr, nil)
	}
	return strings.TrimSuffix(string(stdout), "\n"), true, nil
}

// ref reads one ref; ok is false if it does not exist.
func (r *Repo) ref(name string) (ref Ref, ok bool, err error) {
	if err := CheckRefName(name); err != nil {
		return Ref{}, false, err
	}
	if r.plain {
		switch ref, state := r.plainRef(name); state {
		case refFound:
			return ref, true, nil
		case refAbsent:
			return Ref{}, false, nil
		}
	}
	if !strings.HasPrefix(name, "refs/") {
		return r.pseudoRef(name)
	}
	for ref, err := range r.askRefs(r.ctx, name) {
		if err != nil {
			return Ref{}, false, err
		}
		if ref.Name == name {
			return ref, true, nil
		}
	}
	// for-each-ref passes over what it can't read without a word.
	if st, err := os.Lstat(filepath.Join(r.commonDir, filepath.FromSlash(name))); err != nil || st.IsDir() {
		return Ref{}, false, nil
	}
	target, symbolic, err := r.askSymbolic(name)
	if err == nil && !symbolic || err == nil && CheckRefName(target) != nil {
		err = &Error{Message: "ref " + finding.Path(name) + " cannot be read"}
	}
	if err != nil {
		return Ref{}, false, err
	}
	return Ref{Name: name, Target: target}, true, nil
}

// pseudoRef reads HEAD and its like through git.
func (r *Repo) pseudoRef(name string) (Ref, bool, error) {
	stdout, stderr, code, err := r.env.output(r.ctx, r.git, "rev-parse", "--verify", "-q", name)
	if err != nil {
		return Ref{}, false, err
	}
	id := strings.TrimSuffix(string(stdout), "\n")
	switch {
	case code == 1 && len(stderr) == 0:
		return Ref{}, false, nil
	case code != 0 || !r.ValidID(id):
		return Ref{}, false, failure(r.ctx, "git rev-parse", stderr, nil)
	}
	return Ref{Name: name, ID: id}, true, nil
}

// Refs yields all refs whose name begins with one of the prefixes, each of
// which ends in "/" or is a whole name; none means all. Sorted by name. A ref
// that can't be read is an error, not a gap; the sequence ends with the first
// error. Symbolic refs to refs that do not exist are left out, as git does.
func (r *Repo) Refs(ctx context.Context, prefixes ...string) iter.Seq2[Ref, error] {
	for _, p := range prefixes {
		if err := CheckRefName(strings.TrimSuffix(p, "/")); err != nil {
			return func(yield func(Ref, error) bool) { yield(Ref{}, err) }
		}
	}
	if list, ok := r.plainRefs(prefixes); ok && ctx.Err() == nil {
		return func(yield func(Ref, error) bool) {
			for _, ref := range list {
				if !yield(ref, nil) {
					return
				}
			}
		}
	}
	return r.askRefs(ctx, prefixes...)
}

// maxPlainRefs is how many files of refs are read here; git reads more as fast.
const maxPlainRefs = 1024

// plainRefs is Refs where refs are plain files, each as git writes it.
func (r *Repo) plainRefs(prefixes []string) (list []Ref, ok bool) {
	if !r.plain {
		return nil, false
	}
	values := map[string]string{}
	count := 0
	err := filepath.WalkDir(filepath.Join(r.gitDir, "refs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, r.gitDir+string(filepath.Separator)))
		value, state := looseRef(path, r.HashLen())
		if count++; count > maxPlainRefs || state != refFound || CheckRefName(name) != nil {
			return errEnough
		}
		values[name] = value
		return nil
	})
	if err != nil {
		return nil, false
	}
	// git writes a ref there before it takes its file away, so this comes second.
	state := packedRefs(filepath.Join(r.gitDir, "packed-refs"), r.HashLen(), func(name string, id ID) {
		if _, loose := values[name]; !loose {
			values[name] = id
		}
	})
	if state == refUnclear {
		return nil, false
	}
	for name, id := range values {
		if len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(p string) bool {
			return name == p || strings.HasPrefix(name, p) && strings.HasSuffix(p, "/")
		}) {
			continue
		}
		ref := Ref{Name: name, ID: id}
		for range maxSymbolic {
			target, symbolic := strings.CutPrefix(ref.ID, "ref: ")
			if !symbolic {
				break
			}
			if !strings.HasPrefix(target, "refs/") {
				return nil, false
			}
			ref.Target, ref.ID = target, values[target]
		}
		if strings.HasPrefix(ref.ID, "ref: ") {
			return nil, false
		}
		if ref.ID != "" {
			list = append(list, ref)
		}
	}
	slices.SortFunc(list, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return list, true
}

// askRefs lists refs with for-each-ref.
func (r *Repo) askRefs(ctx context.Context, prefixes ...string) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		args := []string{"for-each-ref", "--format=%(objectname) %(refname)%00%(symref)%00", "--"}
		stdout, stderr, code, err := r.env.output(ctx, r.git, append(args, prefixes...)...)
		if err == nil && (code != 0 || len(stderr) > 0) {
			err = failure(ctx, "git for-each-ref", stderr, nil)
		}
		if err != nil {
			yield(Ref{}, err)
			return
		}
		rest := string(stdout)
		for rest != "" {
			var ref Ref
			head, after, ok := strings.Cut(rest, "\x00")
			target, after, ok2 := strings.Cut(after, "\x00\n")
			id, name, ok3 := strings.Cut(head, " ")
			if !ok || !ok2 || !ok3 || !r.ValidID(id) {
				yield(Ref{}, &Error{Kind: ErrDied, Message: "git for-each-ref gave an answer of unknown form"})
				return
			}
			ref.ID, ref.Name, ref.Target, rest = id, name, target, after
			if !yield(ref, nil) {
				return
			}
		}
	}
}

// hasRefNamed reports whether a ref may exist that git prefers to an abbreviated
// object id of the same spelling (gitrevisions, <refname>).
func (r *Repo) hasRefNamed(word string) bool {
	// Where refs are not plain files the caller's other way costs the same.
	if !r.plain {
		return true
	}
	if _, state := looseRef(filepath.Join(r.gitDir, word), r.HashLen()); state != refAbsent {
		return true
	}
	for _, name := range []string{"refs/" + word, "refs/tags/" + word, "refs/heads/" + word, "refs/remotes/" + word, "refs/remotes/" + word + "/HEAD"} {
		if _, state := r.plainRef(name); state != refAbsent {
			return true
		}
	}
	return false
}

type refState int

const (
	refAbsent  refState = iota
	refFound            // Ref.ID is "" if it is symbolic and leads nowhere
	refUnclear          // git has to say
)

// plainRef reads a ref where refs are plain files: a loose one, else the line
// of packed-refs (gitrepository-layout). It leaves to git (refUnclear) every
// file that is not written exactly as git writes it.
func (r *Repo) plainRef(name string) (Ref, refState) {
	result := Ref{Name: name}
	for range maxSymbolic {
		value, state := looseRef(filepath.Join(r.gitDir, filepath.FromSlash(name)), r.HashLen())
		if state == refAbsent {
			value, state = packedRef(filepath.Join(r.gitDir, "packed-refs"), name, r.HashLen())
		}
		if state == refAbsent && result.Target != "" {
			return result, refFound
		}
		if state != refFound {
			return Ref{}, state
		}
		target, symbolic := strings.CutPrefix(value, "ref: ")
		if !symbolic {
			result.ID = value
			return result, refFound
		}
		name, result.Target = target, target
	}
	return Ref{}, refUnclear
}

// looseRef reads a file that holds exactly a line with an id of so many digits,
// or with "ref: " and a name (refFound); it may not be there (refAbsent) or be anything else.
func looseRef(file string, digits int) (value string, state refState) {
	st, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.IsDir() {
		return "", refAbsent
	}
	if err != nil || !st.Mode().IsRegular() || st.Size() > 4096 {
		return "", refUnclear
	}
	text, err := files.Read(file)
	if err != nil {
		return "", refUnclear
	}
	line, ok := strings.CutSuffix(string(text), "\n")
	target, symbolic := strings.CutPrefix(line, "ref: ")
	if !ok || symbolic && CheckRefName(target) != nil || !symbolic && !fullID(line, digits) {
		return "", refUnclear
	}
	return line, refFound
}

// packedRef reads the id of a ref, of so many digits, from packed-refs.
func packedRef(file, name string, digits int) (id string, state refState) {
	found := false
	state = packedRefs(file, digits, func(n string, at ID) {
		if n == name {
			id, found = at, true
		}
	})
	if state == refFound && !found {
		state = refAbsent
	}
	return id, state
}

// packedRefs calls fn for the refs of a file packed-refs with ids of so many digits:
// a header, lines of an id, a blank and a name, and after an annotated tag a line of
// "^" and an id. The names are in order, each once; git has to say of any other file.
func packedRefs(file string, digits int, fn func(name string, id ID)) refState {
	f, err := files.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return refAbsent
	}
	if err != nil {
		return refUnclear
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 16<<10)
	last := ""
	for first := true; ; first = false {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return refFound
		}
		if err != nil {
			return refUnclear // no line end, or longer than any name
		}
		id, name, ok := packedLine(string(line[:len(line)-1]), first, digits)
		if !ok || name != "" && name <= last {
			return refUnclear
		}
		if name != "" {
			fn(name, id)
			last = name
		}
	}
}

// packedLine reads one line of packed-refs; name is "" for the header and the
// peeled id of a tag. first says that nothing came before.
func packedLine(line string, first bool, digits int) (id, name string, ok bool) {
	if first && strings.HasPrefix(line, "# ") {
		return "", "", true
	}
	if peeled, found := strings.CutPrefix(line, "^"); found {
		return "", "", !first && fullID(peeled, digits)
	}
	id, name, _ = strings.Cut(line, " ")
	return id, name, fullID(id, digits) && CheckRefName(name) == nil
}

// fullID accepts a full id of so many digits other than the one of no object.
func fullID(s string, digits int) bool {
	return len(s) == digits && isHex(s) && strings.Trim(s, "0") != ""
}

// CheckRefName is nil for what git takes as a full ref name: one below "refs/",
// or HEAD and its like in capital letters (git-check-ref-format). Any other
// name is ErrInvalid.
func CheckRefName(name string) error {
	bad := func() error { return invalid("a full ref name", name) }
	if !strings.HasPrefix(name, "refs/") && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" ||
		name == "" || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return bad()
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return bad()
		}
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return bad()
		}
	}
	return nil
}
