package bridge

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

// runAck is `rig-bridge ack`: an ACK of a message, which is read from then on.
func runAck(r *run) error { return r.respond("ACK") }

// runReply is `rig-bridge reply`: a send whose thread, recipients and
// in_reply_to come from the message that it answers, which is read from then on.
func runReply(r *run) error {
	typ := "RESPONSE"
	if v, given := r.opts.Lookup("--type"); given {
		typ = v
	}
	if !slices.Contains(envelope.Types(), typ) {
		return usageError(r.cmd, "%s %s is not one of %s", r.arg("--type"), quote(typ), strings.Join(envelope.Types(), " "))
	}
	return r.respond(typ)
}

// respond answers the message that the command line names.
func (r *run) respond(typ string) error {
	thread, reply, err := r.named()
	if err != nil {
		return err
	}
	to, err := r.recipients()
	if err != nil {
		return err
	}
	w, c, err := r.openAsRig()
	if err != nil {
		return err
	}
	defer w.close()
	if err := c.notRelay(); err != nil {
		return err
	}
	p, err := r.sentBefore(w, c)
	if p != nil || err != nil {
		if err == nil {
			err = r.markAnswered(w, c, p.env, reply)
		}
		return r.told(p, err)
	}
	if thread == "" {
		if thread, reply, err = r.theOne(w, reply); err != nil {
			return err
		}
	}
	if err := w.threadDir(r.ctx, thread, lookup{"rig-bridge inbox", "inbox names what waits"}, true); err != nil {
		return err
	}
	f := envelope.Fields{From: c.rigID, Date: r.today(), Status: "▶ " + typ + " sent", Type: typ, Thread: thread, DisplayName: c.displayName}
	if reply == "" {
		if reply, err = r.lastTo(w, c, thread); err != nil {
			return err
		}
	}
	if err := r.flagsInto(&f); err != nil {
		return err
	}
	answered, err := r.answering(w, c, &f, reply)
	if err != nil {
		return err
	}
	if err := r.answerable(c, typ, answered); err != nil {
		return err
	}
	if f.To = to; len(to) == 0 {
		f.To = answerTo(c, answered)
	}
	if r.cmd.Name == "ack" {
		if p, err := r.acknowledged(w, c, answered); p != nil || err != nil {
			if err == nil {
				err = r.markAnswered(w, c, p.env, answered.file)
			}
			return r.told(p, err)
		}
	}
	body, given, err := r.givenBody()
	if err != nil {
		return err
	}
	switch {
	case given:
		f.Body = body
	case r.cmd.Name == "ack":
		f.Body = bodyOf(f, "Acknowledges "+finding.Path(answered.path())+".")
	default:
		f.Body = bodyOf(f, "No body was given.")
	}
	d := draft{fields: f, subject: subjectOf(f), key: digest(r.typed(), f.InReplyTo)}
	p, err = r.post(w, d)
	if p != nil && p.commit != "" {
		if merr := r.markAnswered(w, c, p.env, answered.file); merr != nil {
			r.note("%s", asFailure(r.ctx, merr).message)
		}
	}
	return r.told(p, err)
}

// named takes the word of the command line apart: THREAD, THREAD/FILE.md,
// THREAD/HASH or HASH; thread is "" for the last, and without a word.
func (r *run) named() (thread, file string, err error) {
	word := strings.TrimSuffix(r.opts.Word(0), "/")
	if word == "" || isHash(word) {
		return "", word, nil
	}
	thread, message, below := strings.Cut(word, "/")
	if err := checkThread(thread); err != nil {
		return "", "", err
	}
	if below && !isHash(message) && (!strings.HasSuffix(message, ".md") || strings.Contains(message, "/")) {
		return "", "", usageError(r.cmd, "%s is neither a thread nor a message (THREAD/FILE or THREAD/HASH)", quote(word))
	}
	return thread, message, nil
}

// theOne finds the message that waits for this rig and is meant: the one with
// that hash, or the only unread one.
func (r *run) theOne(w *work, hash string) (thread, file string, err error) {
	const named = 3
	b, err := r.lookIn("", named, func(m *message) bool {
		return m.env != nil && (hash != "" && m.env.Hash == hash || hash == "" && m.unread)
	})
	if err != nil {
		return "", "", err
	}
	if len(b.waiting) == 1 {
		return b.waiting[0].thread, b.waiting[0].file, nil
	}
	switch {
	case len(b.waiting) == 0 && hash != "":
		return "", "", fail(codeRefused, "%s is the body hash of no message that waits for this rig", hash).
			withHint("name it THREAD/FILE, as rig-bridge thread THREAD shows it").
			orTool("name it THREAD/FILE, as thread shows it")
	case len(b.waiting) == 0:
		return "", "", fail(codeRefused, "no unread message waits for %s", quote(b.rig)).withHint("rig-bridge inbox").
			orTool("wait fetches; name what was read before as THREAD/FILE")
	}
	var paths []string
	for _, m := range b.waiting[:min(named, len(b.waiting))] {
		paths = append(paths, finding.Path(m.path()))
	}
	number := strconv.Itoa(len(b.waiting))
	if len(b.waiting) > named {
		number = "more than " + strconv.Itoa(named)
	}
	return "", "", fail(codeRefused, "%s messages wait, and which one is meant is not said: %s", number, strings.Join(paths, ", ")).
		withHint("rig-bridge %s %s", r.cmd.Name, finding.Word(b.waiting[0].path())).
		orTool("message %s", quote(b.waiting[0].path()))
}

// lastTo names the newest message of a thread that is to this rig, of those that
// the gates take.
func (r *run) lastTo(w *work, c config, thread string) (string, error) {
	_, head, err := w.repo.HEAD()
	if err != nil {
		return "", gitProblem(err)
	}
	ms, err := r.messagesAt(w, head, thread)
	if err != nil {
		return "", err
	}
	book, err := r.book(w, maxJudged)
	if err != nil {
		return "", err
	}
	verdicts := book.Thread(thread)
	ms = slices.DeleteFunc(ms, func(m *message) bool {
		m.verdict = verdicts.Of(m.file, m.blob)
		return !m.isTo(c.rigID)
	})
	placed(verdicts, ms)
	sortMessages(ms)
	if len(ms) == 0 {
		return "", fail(codeRefused, "no message of %s is to %s", quote(thread), quote(c.rigID)).withHint("rig-bridge sync --auto").orTool("%s", syncing.tool)
	}
	m, err := latestOther(c, thread, ms, book)
	if err != nil {
		return "", err
	}
	return m.file, nil
}

// answerable refuses to answer what was not said, and to acknowledge what ends
// a talk: two rigs would go on for ever.
func (r *run) answerable(c config, typ string, m *message) error {
	switch {
	case m.verdict.State == verdict.Refused:
		return fail(codeRefused, "%s is refused by the rules %s: it was not said in this thread", finding.Path(m.path()), strings.Join(m.verdict.Rules, ", ")).
			withHint("rig-bridge thread %s shows it apart; rig-bridge read %s %s", m.thread, m.thread, finding.Word(m.file)).
			orTool("thread with refused shows it apart; ack with mark_only marks it as read")
	case typ == "ACK" && m.env.From == c.rigID:
		return fail(codeRefused, "%s is of this rig; what others sent is acknowledged", finding.Path(m.path())).
			withHint("rig-bridge inbox").orTool("inbox names what waits")
	case typ == "ACK" && (m.env.Type == "ACK" || m.env.Type == "RESOLUTION"):
		return fail(codeRefused, "%s is a %s, which is read and not acknowledged", finding.Path(m.path()), m.env.Type).
			withHint("rig-bridge read %s %s", m.thread, finding.Word(m.file)).orTool("ack with mark_only")
	}
	return nil
}

// answerTo are the recipients of an answer: who wrote the message, or to whom it
// is where that is this rig.
func answerTo(c config, m *message) []string {
	if m.env.From != c.rigID {
		return []string{m.env.From}
	}
	return addressees(m.env)
}

// acknowledged finds the ACK that this rig has sent of a message, nil if there is
// none.
func (r *run) acknowledged(w *work, c config, m *message) (*posted, error) {
	if err := r.begin(w); err != nil {
		return nil, err
	}
	_, head, err := w.repo.HEAD()
	if err != nil {
		return nil, gitProblem(err)
	}
	ms, err := r.messagesAt(w, head, m.thread)
	if err != nil {
		return nil, err
	}
	book, err := r.book(w, maxJudged)
	if err != nil {
		return nil, err
	}
	if a := ackOf(book.Thread(m.thread), ms, m, c.rigID); a != nil {
		return r.again(w, a.path(), a.blob)
	}
	return nil, nil
}

// ackOf returns the ACK that a rig has sent of a message, of those that the gates
// take: nobody else acknowledges in its name.
func ackOf(verdicts *verdict.Thread, ms []*message, m *message, rig string) *message {
	for _, a := range ms {
		if a.valid() && a.env.Type == "ACK" && a.env.From == rig && a.env.InReplyTo == m.env.Hash &&
			verdicts.Of(a.file, a.blob).State != verdict.Refused {
			return a
		}
	}
	return nil
}

// acknowledge finds out which messages that wait for an answer this rig has
// acknowledged.
func (r *run) acknowledge(b *box, ms []*message) error {
	ms = slices.DeleteFunc(slices.Clone(ms), func(m *message) bool { return m.unread || m.env == nil || !slices.Contains(m.why, whyTurn) })
	if len(ms) == 0 {
		return nil
	}
	w, _, err := r.openAsRig()
	if err != nil {
		return err
	}
	defer w.close()
	book, err := r.book(w, maxJudged)
	if err != nil {
		return err
	}
	for _, m := range ms {
		all, err := r.messagesAt(w, b.head, m.thread)
		if err != nil {
			return err
		}
		m.acknowledged = ackOf(book.Thread(m.thread), all, m, b.rig) != nil
	}
	return nil
}

// markAnswered marks the message that e, of this rig, answers as read. file is
// its name; where that is not known the only message with the hash is meant.
func (r *run) markAnswered(w *work, c config, e *envelope.Envelope, file string) error {
	if e.InReplyTo == "" || e.From != c.rigID {
		return nil
	}
	at, err := w.headPlace(e.Thread)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(file, ".md") {
		file = e.InReplyTo
	}
	files, err := w.named(at, []string{file})
	if err != nil || len(files) != 1 {
		return err
	}
	return w.marking(r.ctx, c.rigID, func(m *marks) error { return w.add(m, at, "", files) })
}
