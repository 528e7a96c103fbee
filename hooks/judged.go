package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// Judged is a server's own record, in its git directory, of the commits that it
// has judged for its protected refs. It is how a server knows that a ref was
// judged since it became protected. No pusher can write it; what it does not
// say counts as not judged, so that it can be lost without harm to safety.
//
// The file rigward/judged has lines, of which the later ones count where two
// contradict each other:
//
//	<id> <ref>       the commit was judged for this ref, whether or not the ref got it
//	had <id>         a protected ref had this commit, which was judged
//	default <ref>    this ref is the default branch and was judged as such
//	default          no ref is
//
// Without a line "default" the branch that HEAD names counts as judged: so it
// was before there was a record.
type Judged struct {
	file  string
	at    map[string][]string // commits by ref, the newest last
	had   []string            // commits
	named bool                // there is a line "default"
	head  string              // what the last such line names
	lines int
	fresh []string // lines to be added

	unread error // why the file could not be read
	valid  func(id string) bool
}

// A record is a ref that was judged, as a push moves it.
type record struct {
	update change.RefUpdate // of the ref itself
	commit string
}

const (
	maxJudged  = 64 << 20 // bytes of the file that are read
	keptJudged = 8        // commits of a ref that are kept when it is written anew
)

func judgedOf(repo *gitrepo.Repo) *Judged {
	return &Judged{file: filepath.Join(repo.CommonDir(), "rigward", "judged"), valid: repo.ValidID}
}

// read reads the file; one that cannot be read says nothing.
func (j *Judged) read() {
	j.at = map[string][]string{}
	f, err := files.OpenKept(j.file)
	if err != nil {
		// Where there is a file that cannot be read, nothing is known, not even
		// that there was no other default branch.
		if !errors.Is(err, fs.ErrNotExist) {
			j.named, j.unread = true, err
		}
		return
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJudged+1))
	if err != nil || len(data) > maxJudged {
		j.named = true
		return
	}
	for line := range bytes.Lines(data) {
		j.lines++
		text, whole := strings.CutSuffix(string(line), "\n")
		word, ref, _ := strings.Cut(text, " ")
		switch {
		case !whole:
		case word == "default":
			j.named, j.head = true, ref
		case word == "had" && j.valid(ref):
			j.had = append(j.had, ref)
		case j.valid(word) && gitrepo.CheckRefName(ref) == nil:
			j.at[ref] = append(j.at[ref], word)
		}
	}
}

// open reads the record and notes in it that another branch is the default now,
// or that the default branch is free. What was the default branch has moved in
// no other way than this door saw, so that its commit is known to be judged.
func (j *Judged) open(d *Door) error {
	if j == nil {
		return nil
	}
	j.read()
	if j.unread != nil {
		u := &policy.Undecided{
			Message: "the server's record of what it has judged cannot be read: " + finding.Quote(j.file),
			Hint:    "let the user of the hooks read and write " + finding.Path(filepath.ToSlash(filepath.Dir(j.file))) + ", or take it away", Cause: j.unread,
		}
		if info, err := os.Lstat(j.file); err == nil && !info.Mode().IsRegular() {
			u.Message = "the server's record of what it has judged is not a file: " + finding.Quote(j.file)
			u.Hint = "rm -r " + finding.Word(filepath.ToSlash(j.file)) + ", after which protected refs are judged anew"
		}
		return u
	}
	protected := !d.Policy.LeavesOut(d.Head)
	was := j.head
	if !j.named {
		was = d.Head
	}
	if was == "" || was == d.Head && protected {
		return nil
	}
	if id, ok, err := d.Repo.Ref(was); err != nil {
		return err
	} else if ok {
		if id, err = d.commit(id); err == nil {
			j.mark(id, was)
			j.had = append(j.had, id)
			j.write("had " + id)
		}
	}
	j.write("default")
	return nil
}

func (j *Judged) write(line string) {
	if j.fresh = append(j.fresh, line+"\n"); line == "default" {
		j.named, j.head = true, ""
	}
}

// setDefault notes that a ref is the default branch, and was judged as such.
func (j *Judged) setDefault(ref string) {
	if !j.named || j.head != ref {
		j.write("default " + ref)
		j.named, j.head = true, ref
	}
}

// mark notes that a commit was judged for a ref.
func (j *Judged) mark(id, ref string) {
	if !j.has(ref, id) {
		j.at[ref] = append(j.at[ref], id)
		j.write(id + " " + ref)
	}
}

func (j *Judged) has(ref, id string) bool { return slices.Contains(j.at[ref], id) }

func (j *Judged) isDefault(ref string) bool { return !j.named || j.head == ref }

// commits returns those commits of protected refs of old that are still there.
func (j *Judged) commits(repo *gitrepo.Repo) (ids []string, err error) {
	if j == nil {
		return nil, nil
	}
	return repo.PresentCommits(j.had)
}

// Keep writes down what an accepted push has brought. A failure to write costs
// that the refs are judged anew.
func (d *Door) Keep(ctx context.Context) error {
	j := d.Judged
	if j == nil {
		return nil
	}
	judgedHead := d.HeadID != "" && d.settled(d.Head, d.HeadID)
	at, err := d.now(ctx)
	if err != nil {
		return err
	}
	for _, r := range d.record {
		if r.update.Ref == d.Head && j.isDefault(d.Head) && j.named {
			continue // its name says it
		}
		// What was there before is the pusher's word. Where it is not true, git
		// will not move the ref.
		if id, ok, err := at(r.update.Ref); err != nil {
			return err
		} else if r.update.Create() != !ok || ok && id != r.update.Old {
			continue
		}
		j.mark(r.commit, r.update.Ref)
		judgedHead = judgedHead || r.update.Ref == d.Head
	}
	if judgedHead && len(d.record) > 0 && (!j.named || j.head != d.Head) {
		if !d.Policy.LeavesOut(d.Head) {
			j.setDefault(d.Head)
		}
	}
	return j.flush()
}

// now returns what looks up a ref as it is now. Many are read at once.
func (d *Door) now(ctx context.Context) (func(ref string) (string, bool, error), error) {
	if len(d.record) <= 8 {
		return d.Repo.Ref, nil
	}
	all := map[string]string{}
	for ref, err := range d.Repo.Refs(ctx) {
		if err != nil {
			return nil, err
		}
		all[ref.Name] = ref.ID
	}
	return func(ref string) (string, bool, error) { id, ok := all[ref]; return id, ok, nil }, nil
}

// flush appends what is new, or writes the file anew if it has grown much.
func (j *Judged) flush() error {
	if len(j.fresh) == 0 {
		return nil
	}
	text := strings.Join(j.fresh, "")
	j.fresh = nil
	if err := os.MkdirAll(filepath.Dir(j.file), 0o777); err != nil {
		return err
	}
	files.Share(filepath.Dir(j.file))
	if j.lines > 1024+len(j.had)+2*keptJudged*len(j.at) {
		return j.rewrite()
	}
	f, err := os.OpenFile(j.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY|files.NoFollow, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); j.lines == 0 {
		files.Share(j.file)
	}
	return err
}

// rewrite writes the file with the newest commits of each ref only. A line that
// another push adds meanwhile may be lost, and costs a second judgement.
func (j *Judged) rewrite() error {
	var b strings.Builder
	if j.named {
		b.WriteString(strings.TrimSuffix("default "+j.head, " ") + "\n")
	}
	for _, id := range j.had {
		b.WriteString("had " + id + "\n")
	}
	for _, ref := range slices.Sorted(maps.Keys(j.at)) {
		ids := j.at[ref]
		for _, id := range ids[max(0, len(ids)-keptJudged):] {
			fmt.Fprintf(&b, "%s %s\n", id, ref)
		}
	}
	err := files.Replace(j.file, []byte(b.String()), 0o644)
	files.Share(j.file)
	return err
}
