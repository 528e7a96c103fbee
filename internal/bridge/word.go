package bridge

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// Whose word a message is: what internal/verdict says of it, in the client's words.

// maxJudged is how many commits a command judges that is to answer at once;
// sync and validate judge all.
const maxJudged = 1000

// book opens the verdicts of this clone. max is how many commits may be judged
// for it, 0 for all.
func (r *run) book(w *work, max int) (*verdict.Book, error) {
	view, err := w.view()
	if err != nil {
		return nil, err
	}
	return r.bookOf(w, view, max)
}

// bookOfTheirs opens the verdicts of what was fetched. Sync judges all of it,
// so that later commands need not, and with --check as much as they do.
func (r *run) bookOfTheirs(w *work, theirs string) (*verdict.Book, error) {
	view, err := w.view()
	if err != nil {
		return nil, err
	}
	view.Head = theirs
	max := 0
	if r.opts.Has("--check") {
		max = maxJudged
	}
	return r.bookOf(w, view, max)
}

func (r *run) bookOf(w *work, view verdict.View, max int) (*verdict.Book, error) {
	b, err := verdict.Open(r.ctx, verdict.Options{
		Repo: w.repo, Loader: w.loader(), Dir: filepath.Join(w.repo.CommonDir(), "rigward"), Secret: verdict.Secret(r.env.Getenv, r.env.Rand),
		ReadOnly: r.opts.Has("--check"), Max: max, Now: r.env.Now(), Memory: &w.memory.said,
	}, view)
	if err != nil {
		return nil, gitProblem(err)
	}
	return b, nil
}

// view finds out what is accepted: the default branch of the remote that the
// current branch goes to, as far as this clone has seen it; else the upstream
// of the current branch; else, where nothing is fetched from anywhere, HEAD.
func (w *work) view() (v verdict.View, err error) {
	branch, head, err := w.repo.HEAD()
	if err != nil {
		return v, gitProblem(err)
	}
	v.Head = head
	remote := "origin"
	if strings.HasPrefix(branch, "refs/heads/") {
		t, err := w.target()
		if err != nil {
			return v, err
		}
		if t.remote != "" && t.remote != "." {
			remote = t.remote
		}
		if t.upstream {
			if v.Upstream, err = w.ref(t.tracking); err != nil {
				return v, err
			}
		}
	}
	v.Accepted = v.Upstream
	if gitrepo.CheckRefName("refs/remotes/"+remote+"/HEAD") == nil {
		id, err := w.ref("refs/remotes/" + remote + "/HEAD")
		if err != nil {
			return v, err
		}
		if id != "" {
			v.Accepted = id
		}
	}
	v.Remotes = v.Accepted != ""
	return v, nil
}

// A jsonVerdict is whose word a message is, in JSON.
type jsonVerdict struct {
	State   string      `json:"state"`
	Signer  *jsonSigner `json:"signer"`
	Rules   []string    `json:"rules"`
	Reason  string      `json:"reason,omitempty"`
	Pushed  bool        `json:"pushed"`
	Deleted bool        `json:"deleted,omitempty"` // the file of what is refused is gone
	// Expunged says that operators have taken the body out; the signer is one of them.
	Expunged bool `json:"expunged,omitempty"`
}

type jsonSigner struct {
	Principal   string `json:"principal"`
	Fingerprint string `json:"fingerprint"`
	Revoked     bool   `json:"revoked,omitempty"` // since it signed
}

func jsonOf(v verdict.Verdict) jsonVerdict {
	o := jsonVerdict{State: string(v.State), Rules: append([]string{}, v.Rules...), Reason: v.Reason, Pushed: v.Pushed, Expunged: v.Tombstone}
	if v.Fingerprint != "" {
		o.Signer = &jsonSigner{v.Principal, v.Fingerprint, v.Revoked}
	}
	return o
}

// shortKey is as much of a fingerprint as a person compares.
func shortKey(fingerprint string) string {
	const digits = len("SHA256:") + 12
	if len(fingerprint) > digits {
		return fingerprint[:digits] + "…"
	}
	return fingerprint
}

func stateColour(s verdict.State) int {
	switch s {
	case verdict.Verified:
		return green
	case verdict.Refused:
		return red
	}
	return yellow
}

// verdictLine says in one line whose word a message is. from is its sender.
func (r *run) verdictLine(v verdict.Verdict, from string) string {
	by := "unsigned"
	if v.Fingerprint != "" {
		by = "signed by " + token(v.Principal) + " " + shortKey(v.Fingerprint)
	}
	since := ""
	if v.Revoked {
		since = ", " + r.paint("its key is revoked since", red)
	}
	reason := ""
	if v.Reason != "" {
		reason = ": " + escapeLine(v.Reason)
	}
	if v.Tombstone && v.State != verdict.Refused {
		return r.paint("its body was taken out", yellow) + ", " + by + since + reason
	}
	switch v.State {
	case verdict.Verified:
		return by + " as " + token(from) + ", " + r.paint("verified", stateColour(v.State)) + since
	case verdict.Refused:
		line := r.paint("refused", stateColour(v.State)) + " by the rules " + strings.Join(v.Rules, ", ")
		if v.Commit != "" {
			line += ", commit " + short(v.Commit)
		}
		return line + reason
	case verdict.NotPushed:
		return r.paint("not pushed", stateColour(v.State)) + ", " + by + since + reason
	case verdict.NotCommitted:
		return r.paint("not committed", stateColour(v.State))
	case verdict.Pending:
		return r.paint("not judged yet", stateColour(v.State))
	case verdict.Unknown:
		return r.paint("cannot be judged", stateColour(v.State)) + reason
	}
	return r.paint(by, stateColour(v.State)) + since + reason
}

// apart reports whether a message is not shown among what was said.
func (m *message) apart() bool {
	return m.verdict.State == verdict.Refused && verdict.Apart(m.verdict.Rules, m.env != nil && m.env.IsRelay() || m.verdict.Relay)
}

// judged gives the messages of a thread their verdicts. It adds what was
// accepted and is no longer what the work tree holds: edited there or in the
// history, or deleted by a commit. What became of it comes as gone.
func (r *run) judged(w *work, b *verdict.Book, thread string, ms []*message) (all []*message, gone []*message, err error) {
	t := b.Thread(thread)
	type old struct{ file, blob string }
	var olds []old
	here := map[string]bool{}
	for _, m := range ms {
		here[m.file] = true
		m.verdict, m.came = w.verdictOf(t, m.file, m.data)
		if m.data == nil { // a link, say
			m.verdict = verdict.Verdict{State: verdict.NotCommitted}
			if v, refused := t.Latest(m.file); refused {
				m.verdict = v
			}
		}
		if t.Expunged(m.file) && !m.verdict.Tombstone {
			m.conceal()
		}
		if m.verdict.Word != "" {
			olds = append(olds, old{m.file, m.verdict.Word})
		}
		m.commit = m.verdict.Commit
		all = append(all, m)
	}
	for file, removal := range t.Removed() {
		if here[file] {
			continue
		}
		olds = append(olds, old{file, removal.Blob})
		m := &message{thread: thread, file: file, day: noDay, verdict: removal.By, commit: removal.By.Commit, gone: true}
		gone = append(gone, m)
	}
	slices.SortFunc(olds, func(a, b old) int { return compareNames(a.file, b.file) })
	slices.SortFunc(gone, func(a, b *message) int { return compareNames(a.file, b.file) })
	ids := make([]string, len(olds))
	for i, o := range olds {
		ids[i] = o.blob
	}
	i := 0
	err = w.repo.Objects(ids, envelope.DefaultLimits().File, func(o gitrepo.Object) error {
		file := olds[i].file
		i++
		if o.Err != nil {
			return o.Err
		}
		m := newMessage(thread, file, slices.Clone(o.Data))
		m.blob, m.verdict = o.ID, t.Of(file, o.ID)
		m.commit, m.restored = m.verdict.Commit, true
		m.came = t.Came(file, o.ID)
		all = append(all, m)
		return nil
	})
	if err != nil {
		return nil, nil, gitProblem(err)
	}
	return all, gone, nil
}

// conceal leaves nothing of a message whose body was taken out and that the work tree,
// or HEAD, still has as it was.
func (m *message) conceal() {
	m.env, m.data = nil, nil
	m.findings = []finding.Finding{{Rule: "append-only", Severity: finding.Error, Path: m.path(), Line: 1, Col: 1,
		Message: "the body of the message was taken out, and what stands here in its place is not shown"}}
}

// verdictOf is the verdict of a file of the work tree, and when it came.
func (w *work) verdictOf(t *verdict.Thread, file string, data []byte) (verdict.Verdict, order.Moment) {
	blob := w.blobID(data)
	if lf := withoutCR(data); !t.Committed(file, blob) && len(lf) != len(data) {
		// As a work tree with other line ends holds it.
		if other := w.blobID(lf); t.Committed(file, other) {
			blob = other
		}
	}
	v := t.Of(file, blob)
	if v.Word != "" && v.State == verdict.NotCommitted {
		v.State, v.Rules, v.Reason = verdict.Refused, []string{"append-only"}, "what was accepted was changed in this work tree"
	}
	return v, t.Came(file, blob)
}

// withoutCR is what git stores of a file whose line ends it converts.
func withoutCR(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for i, c := range data {
		if c != '\r' || i+1 == len(data) || data[i+1] != '\n' {
			out = append(out, c)
		}
	}
	return out
}

// judgedState says whether all verdicts are known.
func (r *run) judgedState(b *verdict.Book) judgedState {
	why, hint := b.Behind()
	switch {
	case hint != "":
		hint = r.forPeople(hint)
	case why != "" && r.env.Tool:
		hint = syncing.tool
	}
	return judgedState{Complete: why == "", Reason: why, Hint: hint}
}

// behind tells why some verdicts are missing.
func (r *run) behind(b *verdict.Book) {
	why, hint := b.Behind()
	if why == "" {
		return
	}
	if hint == "" {
		hint = "rig-bridge sync, or rig-bridge validate ., which judge them"
	}
	r.note("whose word the messages are is not known of all: %s; %s", why, hint)
}
