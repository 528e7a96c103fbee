package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
)

// Why a message waits for a rig.
const (
	whyUnread   = "unread"   // it is to the rig, which has not marked it
	whyTurn     = "turn"     // it is the last word of an open thread, and to the rig
	whyDecision = "decision" // an operator's verified relay that is not marked
)

// An inboxItem is a message that waits, as JSON shows it: all of it but its body.
type inboxItem struct {
	ThreadID    string   `json:"thread_id"`
	File        string   `json:"file"`
	Path        string   `json:"path"`
	BodyHash    string   `json:"body_hash"`
	From        string   `json:"from"`
	Recipients  []string `json:"recipients"`
	Type        string   `json:"type"`
	StatusText  string   `json:"status"`
	StatusClass string   `json:"status_class"`
	TLDR        string   `json:"tldr,omitempty"`
	InReplyTo   string   `json:"in_reply_to,omitempty"`
	Date        string   `json:"date"`
	CommittedAt string   `json:"committed_at,omitempty"`
	AgeSeconds  *int     `json:"age_seconds,omitempty"`
	CommitSHA   *string  `json:"commit_sha"`
	Unread      bool     `json:"unread"`
	// Acknowledged says of a message that waits for an answer that this rig has
	// sent an ACK of it.
	Acknowledged bool        `json:"acknowledged,omitempty"`
	Relay        bool        `json:"relay,omitempty"` // carries a person's decision, if the verdict is verified
	Why          []string    `json:"why"`
	Verdict      jsonVerdict `json:"verdict"`
}

// A refusedItem is what the gates refuse of what came for a rig. Nothing of what
// it says is here.
type refusedItem struct {
	ThreadID    string      `json:"thread_id"`
	File        string      `json:"file"`
	Path        string      `json:"path"`
	BodyHash    string      `json:"body_hash"`
	CommittedAt string      `json:"committed_at,omitempty"`
	CommitSHA   *string     `json:"commit_sha"`
	Verdict     jsonVerdict `json:"verdict"`
}

type frozenThread struct {
	ThreadID    string `json:"thread_id"`
	FrozenUntil string `json:"frozen_until"`
	By          string `json:"by"` // the relay's rig
	Path        string `json:"path"`
}

type inboxObject struct {
	head
	Rig       string         `json:"rig"`
	Unread    int            `json:"unread"`    // messages, also those that are refused
	Turns     int            `json:"turns"`     // threads
	Decisions int            `json:"decisions"` // relays
	Items     []inboxItem    `json:"items"`
	Refused   []refusedItem  `json:"refused"`
	Frozen    []frozenThread `json:"frozen"`
	// Proposals wait for people to approve of them.
	Proposals []proposal `json:"proposals,omitempty"`
	More      bool       `json:"more"`
	// Cursor is for --after of inbox and wait, "" while it is not known of all
	// when they were committed.
	Cursor string      `json:"cursor,omitempty"`
	Judged judgedState `json:"judged"`
}

const (
	defaultInboxLimit = 50
	maxInboxLimit     = 1000
)

// runInbox is `rig-bridge inbox` (docs/spec/client.md#inbox).
func runInbox(r *run) error {
	limit := defaultInboxLimit
	if v, given := r.opts.Lookup("--limit"); given {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxInboxLimit {
			return usageError(r.cmd, "%s %s is not a number from 1 to %d", r.arg("--limit"), quote(v), maxInboxLimit)
		}
		limit = n
	}
	b, err := r.lookIn(r.opts.Get("--after"), limit, func(m *message) bool { return m.unread || !r.opts.Has("--unread") })
	if err != nil {
		return err
	}
	if err := r.acknowledge(b, b.waiting[:min(limit, len(b.waiting))]); err != nil {
		return err
	}
	o, err := b.object(r, limit)
	if err != nil {
		return err
	}
	if r.json {
		return r.object(o)
	}
	r.paged = true
	fmt.Fprintf(&r.out, "rig-bridge: inbox rig=%s unread=%d turns=%d decisions=%d frozen=%d refused=%d", o.Rig, o.Unread, o.Turns, o.Decisions, len(o.Frozen), len(o.Refused))
	if len(o.Proposals) > 0 {
		fmt.Fprintf(&r.out, " proposals=%d", len(o.Proposals))
	}
	if o.More {
		r.out.WriteString(" more=true")
		if o.Cursor != "" {
			r.out.WriteString(" cursor=" + o.Cursor)
		}
	}
	r.out.WriteString("\n")
	r.itemRows(o.Items)
	for _, f := range o.Refused {
		fmt.Fprintf(&r.out, "refused=%s rules=%s\n", token(f.Path), token(strings.Join(f.Verdict.Rules, ",")))
	}
	for _, f := range o.Frozen {
		fmt.Fprintf(&r.out, "frozen=%s by=%s until=%s\n", f.ThreadID, token(f.By), f.FrozenUntil)
	}
	for _, p := range o.Proposals {
		fmt.Fprintf(&r.out, "approve=%s by=%s approvals=%d subject=%s show=%s\n", token(p.Branch), token(p.By), p.Approvals, token(p.Subject), token(p.Show))
	}
	return nil
}

// itemRows prints messages that wait, one a line.
func (r *run) itemRows(items []inboxItem) {
	for _, m := range items {
		fmt.Fprintf(&r.out, "message=%s type=%s from=%s why=%s verdict=%s", token(m.Path), token(m.Type), token(m.From),
			strings.Join(m.Why, ","), r.paint(m.Verdict.State, stateColour(verdict.State(m.Verdict.State))))
		if m.Verdict.Signer != nil {
			r.out.WriteString(" signer=" + token(m.Verdict.Signer.Principal))
			if m.Verdict.Signer.Revoked {
				r.out.WriteString(r.paint(" revoked=true", red))
			}
		}
		if m.Acknowledged {
			r.out.WriteString(" acknowledged=true")
		}
		if m.AgeSeconds != nil {
			r.out.WriteString(" age=" + age(*m.AgeSeconds))
		}
		if m.TLDR != "" {
			r.out.WriteString(" tldr=" + token(m.TLDR))
		}
		r.out.WriteString("\n")
	}
}

// age is a number of seconds in one unit.
func age(seconds int) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 2*3600:
		return fmt.Sprintf("%dm", seconds/60)
	case seconds < 2*86400:
		return fmt.Sprintf("%dh", seconds/3600)
	}
	return fmt.Sprintf("%dd", seconds/86400)
}

// lookIn finds what waits for the rig of this clone, in HEAD. It changes nothing:
// no message is read by it. It keeps the first limit of the messages that are wanted.
func (r *run) lookIn(after string, limit int, wanted func(*message) bool) (*box, error) {
	thread, one := r.opts.Lookup("--thread")
	if one {
		if err := checkThread(thread); err != nil {
			return nil, err
		}
	}
	w, c, err := r.openAsRig()
	if err != nil {
		return nil, err
	}
	defer w.close()
	if one {
		err := w.threadDir(r.ctx, thread, listing, false)
		if err != nil && !(r.cmd.Name == "wait" && errors.Is(err, errNoThread)) { // it may come
			return nil, err
		}
	} else if err := w.threadsOnTop(); err != nil {
		return nil, err
	}
	b := &box{rig: c.rigID, timed: true}
	if b.after, err = r.cursorOf(w, after); err != nil {
		return nil, err
	}
	if _, b.head, err = w.repo.HEAD(); err != nil {
		return nil, gitProblem(err)
	}
	marks, err := w.readMarks(c.rigID)
	if err != nil {
		return nil, err
	}
	kept := r.summaries(w)
	threads, trees, _, err := w.atHead(b.head, nil, kept)
	if err != nil {
		return nil, err
	}
	kept.save(trees)
	threads = slices.DeleteFunc(threads, func(s seen) bool { return s.toRig(c.rigID) == 0 || one && s.name != thread })
	book, err := r.book(w, maxJudged)
	if err != nil {
		return nil, err
	}
	if err := b.fill(r, w, book, marks, threads, limit, wanted); err != nil {
		return nil, err
	}
	b.judged = r.judgedState(book)
	if r.cmd.Name == "inbox" && !one {
		b.proposals = w.proposals(r.ctx)
	}
	r.behind(book)
	return b, nil
}

// decides reports whether a message is a person's decision: a relay that the gates
// take, signed by who may.
func (m *message) decides() bool {
	return m.env != nil && m.env.IsRelay() && m.verdict.State == verdict.Verified && !m.isFreeze()
}

// turnOf returns the last word of a thread that is open, nil if there is none:
// the last message that is no ACK, of those that the gates take.
func (w *work) turnOf(verdicts *verdict.Thread, s seen) (*message, error) {
	for _, list := range [][]*message{s.latest, s.words} {
		if len(list) > 1 {
			placed(verdicts, list)
		}
	}
	if m := s.lastWord(); m != nil {
		m, err := w.newest(verdicts, m, true)
		if err != nil {
			return nil, err
		}
		m.verdict = verdicts.Of(m.file, m.blob)
		switch {
		case m.apart():
		case m.env.Type == "RESOLUTION" && m.valid():
			return nil, nil
		case !s.closed:
			return m, nil
		}
	}
	// What the glance says may be the word of somebody whom the gates refuse.
	all, err := w.filesOf([]string{s.tree})
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, f := range all[s.tree] {
		files[f.name] = f.blob
	}
	ms, err := w.messagesOf(s.name, files)
	if err != nil {
		return nil, err
	}
	ms = slices.DeleteFunc(ms, func(m *message) bool {
		m.verdict = verdicts.Of(m.file, m.blob)
		return m.env == nil || m.apart()
	})
	placed(verdicts, ms)
	if slices.ContainsFunc(ms, func(m *message) bool { return m.valid() && m.env.Type == "RESOLUTION" }) {
		return nil, nil
	}
	sortMessages(ms)
	for _, m := range slices.Backward(ms) {
		if m.env.Type != "ACK" {
			return m, nil
		}
	}
	return nil, nil
}

// freeze adds a thread that an operator's freeze holds. What the gates refuse
// neither freezes nor thaws.
func (b *box) freeze(r *run, w *work, verdicts *verdict.Thread, s seen) error {
	relays := slices.DeleteFunc(slices.Clone(s.relays), func(m *message) bool {
		m.verdict = verdicts.Of(m.file, m.blob)
		return m.verdict.State == verdict.Refused
	})
	until, err := r.frozenUntil(w, relays, b.head)
	if err != nil || until == "" {
		return err
	}
	for _, m := range slices.Backward(relays) {
		if m.isFreeze() {
			b.frozen = append(b.frozen, frozenThread{s.name, until, m.env.From, m.path()})
			return nil
		}
	}
	return nil
}

// object shows at most limit of what waits.
func (b *box) object(r *run, limit int) (*inboxObject, error) {
	o := &inboxObject{head: r.head(), Rig: b.rig, Unread: b.unread, Turns: b.turns, Decisions: b.decisions, Items: []inboxItem{}, Refused: []refusedItem{}, Frozen: append([]frozenThread{}, b.frozen...), Judged: b.judged, Proposals: b.proposals}
	n := min(limit, len(b.waiting))
	o.More = n < len(b.waiting)
	for _, m := range b.waiting[:n] {
		o.Items = append(o.Items, m.item(r.env.Now()))
	}
	for _, m := range b.refused {
		o.Refused = append(o.Refused, refusedItem{m.thread, m.file, m.path(), m.hash(), m.made, m.commitSHA(), jsonOf(m.verdict)})
	}
	o.Cursor = b.next(n)
	return o, nil
}

func (m *message) hash() string { return m.envelope().Hash }

func (m *message) item(now time.Time) inboxItem {
	e := m.envelope()
	i := inboxItem{
		ThreadID: m.thread, File: m.file, Path: m.path(), BodyHash: e.Hash, From: e.From, Recipients: append([]string{}, e.To...), Type: e.Type,
		StatusText: e.Status, StatusClass: envelope.StatusClass(e.Status), TLDR: e.TLDR, InReplyTo: e.InReplyTo, Date: e.Date,
		CommittedAt: m.made, CommitSHA: m.commitSHA(), Unread: m.unread, Acknowledged: m.acknowledged, Relay: e.IsRelay(), Why: append([]string{}, m.why...), Verdict: jsonOf(m.verdict),
	}
	if i.StatusClass == "" {
		i.StatusClass = "unknown"
	}
	if at, err := time.Parse(time.RFC3339, m.made); err == nil {
		seconds := int(max(0, now.Sub(at)/time.Second))
		i.AgeSeconds = &seconds
	}
	return i
}

// errCursor is why a cursor is not taken.
var errCursor = errors.New("it is not a cursor that inbox or wait printed")
