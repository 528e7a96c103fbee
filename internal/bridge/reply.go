package bridge

import (
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

// latestMessage is the word of --in-reply-to for the newest message of a thread
// that another rig wrote.
const latestMessage = "last"

// isHash accepts a body hash: 64 digits of 0-9 and a-f.
func isHash(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// meant is how the caller said which message is answered.
func (r *run) meant(reply string) string {
	if _, given := r.opts.Lookup("--in-reply-to"); given {
		return r.arg("--in-reply-to") + " " + quote(reply)
	}
	return quote(reply)
}

// checkReply judges the form of --in-reply-to: a body hash, the file of a message
// of the thread, or, where latest is allowed, the word for the newest one.
func (r *run) checkReply(reply, thread string, latest bool) error {
	dir, file, below := strings.Cut(reply, "/")
	switch {
	case isHash(reply), latest && reply == latestMessage, !below && strings.HasSuffix(reply, ".md"):
		return nil
	case below && strings.HasSuffix(file, ".md") && dir != thread:
		return usageError(r.cmd, "%s is not in the thread %s", r.meant(reply), quote(thread))
	case below && strings.HasSuffix(file, ".md") && !strings.Contains(file, "/"):
		return nil
	}
	words := "a body hash (64 digits of 0-9 and a-f) or the file of a message"
	if latest {
		words = "a body hash (64 digits of 0-9 and a-f), the file of a message, or " + latestMessage
	}
	return usageError(r.cmd, "%s is not %s", r.meant(reply), words)
}

// answers returns the message of a thread in HEAD that --in-reply-to names, with
// its verdict, or says why there is none. ms are the messages of the work tree.
func (r *run) answers(w *work, c config, thread, reply string, ms []*message) (*message, error) {
	_, head, err := w.repo.HEAD()
	if err != nil {
		return nil, gitProblem(err)
	}
	committed, err := r.messagesAt(w, head, thread)
	if err != nil {
		return nil, err
	}
	book, err := r.book(w, maxJudged)
	if err != nil {
		return nil, err
	}
	verdicts := book.Thread(thread)
	for _, m := range committed {
		m.verdict = verdicts.Of(m.file, m.blob)
	}
	name := strings.TrimPrefix(reply, thread+"/")
	is := func(m *message) bool { return m.env != nil && (m.env.Hash == reply || m.file == name) }
	if i := slices.IndexFunc(committed, is); i >= 0 {
		if m := committed[i]; m.verdict.State == verdict.Refused {
			r.note("warning: %s, which this answers, is refused by the rules %s", finding.Path(m.path()), strings.Join(m.verdict.Rules, ", "))
		}
		return committed[i], nil
	}
	placed(verdicts, committed)
	sortMessages(committed)
	if reply == latestMessage {
		return latestOther(c, thread, committed, book)
	}
	f := fail(codeRefused, "%s is not a committed message of %s", r.meant(reply), quote(thread))
	if isHash(reply) {
		f = fail(codeRefused, "%s is the body hash of no committed message of %s", r.meant(reply), quote(thread))
	}
	if i := slices.IndexFunc(ms, is); i >= 0 {
		path := ms[i].path()
		return nil, fail(codeRefused, "%s is %s, which is not committed yet", r.meant(reply), finding.Path(path)).
			withHint("git add %s && git commit", finding.Word(path))
	}
	if t, err := w.target(); err == nil {
		upstream, err := w.ref(t.tracking)
		if err != nil {
			return nil, err
		}
		theirs, err := r.messagesAt(w, upstream, thread)
		if err == nil && slices.ContainsFunc(theirs, is) {
			return nil, f.withHint("rig-bridge sync --auto").orTool("%s", syncing.tool)
		}
	}
	var latest []string
	for _, m := range slices.Backward(committed) {
		if m.env != nil && len(latest) < 3 {
			latest = append(latest, m.env.Hash+" "+finding.Path(m.file))
		}
	}
	if len(latest) > 0 {
		f.withHint("the latest turns are %s", strings.Join(latest, ", ")).orTool("the latest turns are %s", strings.Join(latest, ", "))
	}
	return nil, f
}

// latestOther returns the newest message of another rig that the gates take.
// Where they cannot say, no guess is made.
func latestOther(c config, thread string, committed []*message, book *verdict.Book) (*message, error) {
	for _, m := range slices.Backward(committed) {
		if m.env == nil || m.env.From == c.rigID || m.verdict.State == verdict.Refused {
			continue
		}
		switch m.verdict.State {
		case verdict.Pending, verdict.Unknown, verdict.NotCommitted:
			why, hint := book.Behind()
			if why == "" {
				why = m.verdict.Reason
			}
			f := fail(codeRuntime, "whether the gates take %s, the latest message, is not known: %s", finding.Path(m.path()), why)
			if hint == "" {
				hint = "rig-bridge validate ."
			}
			return nil, f.withHint("%s; or --in-reply-to %s, if that is meant", hint, finding.Word(m.file)).
				orTool("name the file %s, if that is meant", finding.Path(m.file))
		}
		return m, nil
	}
	return nil, fail(codeRefused, "no other rig has a committed message in %s to reply to", quote(thread)).withHint("rig-bridge sync --auto").orTool("%s", syncing.tool)
}

// commitOf returns the commit by which an accepted message came, to refer to;
// "" where it is not published: its id may change yet.
func (r *run) commitOf(w *work, m *message) (string, error) {
	t, err := w.target()
	if err != nil {
		return "", err
	}
	upstream, err := w.ref(t.tracking)
	if err != nil || upstream == "" {
		return "", err
	}
	id := m.verdict.Commit
	switch {
	case id != "" && !m.verdict.Pushed:
		return "", nil
	case id == "":
		// It is not judged yet. What was accepted stays as it is: the only commit
		// that touches the path brought it.
		if id, err = w.must(r.ctx, "rev-list", "-1", upstream, "--", ":(literal)"+m.path()); err != nil {
			return "", err
		}
	}
	return id[:min(len(id), maxReference)], nil
}

// maxReference is how long an entry of references may be (docs: envelope, schema).
const maxReference = 40

// answering makes a message answer another one of its thread, by its hash, and
// refer to the commit that brought that.
func (r *run) answering(w *work, c config, f *envelope.Fields, reply string) (*message, error) {
	ms, err := w.readThread(r.ctx, f.Thread)
	if err != nil {
		return nil, err
	}
	answered, err := r.answers(w, c, f.Thread, reply, ms)
	if err != nil {
		return nil, err
	}
	f.InReplyTo = answered.env.Hash
	commit, err := r.commitOf(w, answered)
	if err != nil {
		return nil, err
	}
	if commit != "" && !slices.ContainsFunc(f.References, func(ref string) bool { return strings.HasPrefix(commit, ref) }) {
		f.References = append(slices.Clone(f.References), commit)
	}
	return answered, nil
}
