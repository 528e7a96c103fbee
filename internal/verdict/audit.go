package verdict

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/rules"
)

// An Audit is the mark that an audit of a whole history leaves: up to which commit
// it went, what it found, which policies and signers followed one another, and the
// nonces that were used. The next audit reads only what came since.
//
// It is kept as verdicts are (see store): nobody can write it who has not the secret
// of the user who audits, and it says nothing in another repository, to another
// program, or under another setting. A commit's id stands for all of its history, so
// that a mark of a commit holds wherever that is part of a history. Its objects are
// not looked at again: whether they are still there and whole is git fsck's to say.
type Audit struct {
	store *store
	now   time.Time
	fresh []record // nonces of the range at hand

	memory []record // those of earlier ranges, where nothing can be kept
	unkept bool
}

// audited is what the manifest of an Audit has besides that of verdicts.
type audited struct {
	Commits, Envelopes int
	Findings           []finding.Finding
}

// auditForm is form for an Audit.
const auditForm = "rigward audit 3"

// ofText are the rules about hidden characters and secrets.
var ofText = []string{"hidden-text", "secret"}

// maxMarked is with how many findings a mark is made; a history with more is read
// as a whole each time.
const maxMarked = 1000

// OpenAudit reads the mark of the last audit: an empty one if there is none that
// holds. It is nil where none can be kept: without a secret, where objects are not in
// the places of the repository, and where history or objects may be missing, which
// only reading them shows. program names the program and its form.
func OpenAudit(o Options, program string) *Audit {
	for _, key := range []string{"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE"} {
		if _, set := o.Repo.Env().Lookup(key); set {
			return nil
		}
	}
	shallow, err := o.Repo.Shallow()
	if err != nil || len(shallow) > 0 {
		return nil
	}
	if partial, _, err := o.Repo.ConfigLast("extensions.partialclone"); err != nil || partial != "" {
		return nil
	}
	parts, err := setting(o.Repo, o.Loader)
	if err != nil {
		return nil
	}
	key := formKey(auditForm, o.Secret, append(parts, program)...)
	if key == nil {
		return nil
	}
	id := formKey(auditForm, o.Secret, "name")
	a := &Audit{store: load(filepath.Join(o.Dir, "audit-"+hex.EncodeToString(id[:4])), key), now: o.Now}
	if a.store.Audited == nil {
		a.Forget()
	}
	return a
}

// Forget makes the mark an empty one. What is kept stays until another mark takes its
// place.
func (a *Audit) Forget() {
	a.store, a.fresh, a.memory = &store{dir: a.store.dir, key: a.store.key}, nil, nil
	a.store.Audited = &audited{}
}

// Tip is the commit whose history was judged, "" for none.
func (a *Audit) Tip() string { return a.store.Tip }

// Commits is how many commits that are.
func (a *Audit) Commits() int { return a.store.Audited.Commits }

// Of reports whether the mark is of a part of the history of a commit.
func (a *Audit) Of(ctx context.Context, repo *gitrepo.Repo, head string) (bool, error) {
	if a.store.Tip == "" {
		return false, nil
	}
	types, err := repo.Has([]string{a.store.Tip})
	if err != nil || types[0] != "commit" {
		return false, err
	}
	within, err := repo.IsAncestor(ctx, a.store.Tip, head)
	if errors.Is(err, gitrepo.ErrCut) || errors.Is(err, gitrepo.ErrMissing) {
		return false, nil
	}
	return within, err
}

// Prepare makes a judge go on where the mark is.
func (a *Audit) Prepare(j *rules.Judge) {
	a.fresh = nil
	j.Brought = func(nonce string, hit history.Hit) {
		a.fresh = append(a.fresh, record{key: "\x00" + nonce, name: hit.Path, blob: hit.Blob, commit: hit.Commit})
	}
	if a.store.Tip != "" {
		j.Eras, j.Held, j.Used = a.store.Eras, a.store.Now, a.used
	}
}

// used finds older envelopes by nonce.
func (a *Audit) used(nonces []string) (map[string][]history.Hit, error) {
	found := map[string][]history.Hit{}
	for _, seg := range a.store.Segments {
		err := a.store.findAll(seg, nonces, func(nonce string, r record) {
			found[nonce] = append(found[nonce], history.Hit{Path: r.name, Blob: r.blob, Commit: r.commit})
		})
		if err != nil {
			return nil, err
		}
	}
	for _, r := range a.memory {
		if nonce := r.key[1:]; asked(nonces, nonce) {
			found[nonce] = append(found[nonce], history.Hit{Path: r.name, Blob: r.blob, Commit: r.commit})
		}
	}
	return found, nil
}

func asked(nonces []string, nonce string) bool {
	_, ok := slices.BinarySearch(nonces, nonce)
	return ok
}

// Passed takes over what a prepared judge has come to of a range from the mark to
// tip, and keeps it. It is false, and nothing is taken over, where what comes later
// could be judged in another way than together with it: there is a finding that is
// not about the content of one file, or the rule against changes of what was accepted
// is off and was needed, or policies of the history take different paths for envelopes;
// and where there is too much to keep.
func (a *Audit) Passed(tip string, j *rules.Judge) bool {
	all := append(slices.Clip(a.store.Audited.Findings), j.Findings...)
	if j.Commits < j.Total || j.Rewritten > 0 || j.More.Total() > 0 || len(all) > maxMarked || j.Strayed() || j.Moved() {
		return false
	}
	for _, f := range j.Findings {
		if !slices.Contains(ofContent, f.Rule) && !slices.Contains(ofText, f.Rule) || !whole(f) {
			return false
		}
	}
	s := a.store
	s.Audited = &audited{s.Audited.Commits + j.Commits, s.Audited.Envelopes + j.Envelopes, all}
	if s.Tip == tip {
		return true
	}
	s.Tip, s.Eras, s.Now = tip, j.Eras, j.Latest()
	slices.SortFunc(a.fresh, record.compare)
	a.fresh = slices.Compact(a.fresh)
	kept := slices.Clone(s.Segments)
	if a.unkept = a.unkept || makeDir(s.dir) != nil || s.keep(a.fresh) != nil; a.unkept {
		s.Segments, a.memory = kept, append(a.memory, a.fresh...)
	} else {
		_ = s.save(a.now) // else the next audit reads it again
	}
	a.fresh = nil
	return true
}

// makeDir makes the directory of a store: its own to this user, and the one above to
// whoever runs the hooks, which keep other things there.
func makeDir(dir string) error {
	if err := files.KeepDir(filepath.Dir(dir)); err != nil {
		return err
	}
	_ = os.Mkdir(dir, 0o700)
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = errStore
	}
	return err
}

// whole reports whether a finding can be kept as text.
func whole(f finding.Finding) bool {
	return utf8.ValidString(strings.Join([]string{f.Path, f.Ref, f.Message, f.Hint, f.Key}, ""))
}

// Fill gives a judge all that was found in the history up to the tip.
func (a *Audit) Fill(j *rules.Judge) {
	was := a.store.Audited
	j.Commits, j.Total, j.Envelopes = was.Commits, was.Commits, was.Envelopes
	j.Findings = slices.Clone(was.Findings)
}
