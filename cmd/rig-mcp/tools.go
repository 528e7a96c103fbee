package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	env "github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/rules"
)

// A tool is one verb for an agent.
type tool struct {
	name, about string
	reads       bool // changes nothing
	again       bool // a second call with the same arguments changes nothing more
	remote      bool // talks to the server of the repository
	schema      string
	run         func(*server, context.Context, json.RawMessage) (*reply, *problem)
}

func (t tool) definition() *mcp.Tool {
	no := false
	return &mcp.Tool{Name: t.name, Description: t.about, InputSchema: json.RawMessage(`{"type":"object",` + t.schema + `,"additionalProperties":false}`),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.reads, IdempotentHint: t.again || t.reads, DestructiveHint: &no, OpenWorldHint: &t.remote}}
}

const (
	threadArg = `"thread":{"type":"string"}`
	keyArg    = `"key":{"type":"string","description":"your own name for this message: the same call with the same key sends once"}`
	bodyArgs  = `"body":{"type":"string","description":"Markdown"},"tldr":{"type":"string","description":"one line, up to 280 characters"},"status":{"type":"string","description":"one of ▶ ⏸ 🎯 ✅ ❌, a blank, a text"}`
	afterArg  = `"after":{"type":"string","description":"cursor of an earlier inbox or wait: only what is new"}`
	whichArg  = `"message":{"type":"string","description":"THREAD/FILE, or THREAD: its newest to you"}`
	toArg     = `"to":{"type":"array","items":{"type":"string"}}`
)

var typeArg = `"type":{"type":"string","enum":["` + strings.Join(env.Types(), `","`) + `"]}`

// tools are all there are. None of them makes a relay, reads a file outside of
// the threads, or takes a path: bodies are given, not named.
var tools = []tool{
	{name: "inbox", about: "What waits for you, oldest first: unread messages, your turns, decisions, frozen threads. Marks nothing as read.", reads: true,
		schema: `"properties":{` + threadArg + `,"unread":{"type":"boolean","description":"only unread"},"limit":{"type":"integer"},` + afterArg + `}`, run: runInbox},
	{name: "thread", about: "Texts of a thread in order, each with sender and verdict.", reads: true,
		schema: `"properties":{` + threadArg + `,"message":{"type":"string","description":"only this file"},"last":{"type":"integer","description":"how many, default 20"},"offset":{"type":"integer","description":"character to begin at, for a long message"},"refused":{"type":"boolean","description":"also texts that were refused"}},"required":["thread"]`, run: runThread},
	{name: "send", about: "Send a message. A REQUEST opens the thread if it is new.", remote: true,
		schema: `"properties":{` + typeArg + `,` + threadArg + `,` + toArg + `,` + bodyArgs + `,"in_reply_to":{"type":"string","description":"file or body hash, or last"},` + keyArg + `},"required":["type","thread","to"]`, run: runSend},
	{name: "reply", about: "Answer a message; thread, recipient and reference come from it. It is read then.", remote: true,
		schema: `"properties":{` + whichArg + `,` + typeArg + `,` + toArg + `,` + bodyArgs + `,` + keyArg + `},"required":["message"]`, run: runReply},
	{name: "ack", about: "Acknowledge a message; it is read then. Without message: the only unread one.", again: true, remote: true,
		schema: `"properties":{` + whichArg + `,"tldr":{"type":"string"},"mark_only":{"type":"boolean","description":"mark THREAD/FILE, or all of THREAD, as read and send nothing"},` + keyArg + `}`, run: runAck},
	{name: "close", about: "End a thread with a RESOLUTION.", again: true, remote: true,
		schema: `"properties":{` + threadArg + `,"status":{"type":"string","enum":["completed","cancelled"]},"note":{"type":"string"},` + toArg + `},"required":["thread","status"]`, run: runClose},
	{name: "status", about: "Threads with messages to you, most recent first.", reads: true,
		schema: `"properties":{"all":{"type":"boolean","description":"also other threads"},"limit":{"type":"integer"}}`, run: runStatus},
	{name: "wait", about: "Wait for something new; fetches and takes what the rules accept. timed_out if nothing came.", remote: true,
		schema: `"properties":{"seconds":{"type":"number","description":"default 30, up to 300"},` + threadArg + `,` + afterArg + `}`, run: runWait},
	{name: "explain", about: "What a rule says; without one, the protocol and how an operator decides.", reads: true,
		schema: `"properties":{"rule":{"type":"string"}}`, run: runExplain},
}

// An item is a message of inbox and wait, without what its sender wrote freely.
type item struct {
	Path         string    `json:"path"`
	From         string    `json:"from"`
	Recipients   []string  `json:"recipients"`
	Type         string    `json:"type"`
	StatusClass  string    `json:"status_class"`
	Relay        bool      `json:"relay,omitempty"`
	Why          []string  `json:"why"`
	Acknowledged bool      `json:"acknowledged,omitempty"`
	Verdict      *judgment `json:"verdict"`
	BodyHash     string    `json:"body_hash"`
	InReplyTo    string    `json:"in_reply_to,omitempty"`
	AgeSeconds   *int      `json:"age_seconds,omitempty"`
}

type judgment struct {
	State  string `json:"state"`
	Signer *struct {
		Principal string `json:"principal"`
		Revoked   bool   `json:"revoked,omitempty"`
	} `json:"signer,omitempty"`
	Rules []string `json:"rules,omitempty"`
}

// String is the verdict in words.
func (j *judgment) String() string {
	if j.Signer != nil && j.Signer.Revoked {
		return j.State + ", its key is revoked since"
	}
	return j.State
}

type refusedItem struct {
	Path    string    `json:"path"`
	Verdict *judgment `json:"verdict"`
}

// listed are items and the texts in one fence: a line for each tldr.
func listed(label string, tldrs []tldr) []text {
	var b strings.Builder
	for _, t := range tldrs {
		if t.TLDR != "" {
			b.WriteString(t.Path + ": " + finding.Clean(t.TLDR) + "\n")
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return []text{{label, b.String()}}
}

type tldr struct {
	Path string `json:"path"`
	TLDR string `json:"tldr"`
}

func runInbox(s *server, ctx context.Context, raw json.RawMessage) (*reply, *problem) {
	in, p := arguments[struct {
		Thread, After string
		Unread        bool
		Limit         *int
	}](raw)
	if p != nil {
		return nil, p
	}
	c := call{verb: "inbox"}
	c.flag("--thread", in.Thread)
	c.flag("--after", in.After)
	c.on("--unread", in.Unread)
	limit := 20
	if in.Limit != nil {
		limit = *in.Limit
	}
	c.flag("--limit", fmt.Sprint(limit))
	var o struct {
		Rig       string        `json:"rig"`
		Unread    int           `json:"unread"`
		Turns     int           `json:"turns"`
		Decisions int           `json:"decisions"`
		Items     []item        `json:"items"`
		Refused   []refusedItem `json:"refused,omitempty"`
		Frozen    []any         `json:"frozen,omitempty"`
		More      bool          `json:"more,omitempty"`
		Cursor    string        `json:"cursor,omitempty"`
		Judged    any           `json:"judged,omitempty"`
	}
	var words struct{ Items []tldr }
	if p := s.both(ctx, c, &o, &words); p != nil {
		return nil, p
	}
	o.Judged = unlessComplete(o.Judged)
	return &reply{o, listed("summaries of the messages by their senders", words.Items)}, nil
}

// both runs a verb once and reads its object in two ways.
func (s *server) both(ctx context.Context, c call, a, b any) *problem {
	var whole json.RawMessage
	if _, p := s.do(ctx, c, &whole); p != nil {
		return p
	}
	for _, into := range []any{a, b} {
		if err := json.Unmarshal(whole, into); err != nil {
			return &problem{Code: "runtime", Message: "the answer of " + c.verb + " cannot be read: " + finding.QuoteMax(err.Error(), 200)}
		}
	}
	return nil
}

// unlessComplete leaves out that all is judged.
func unlessComplete(judged any) any {
	if m, ok := judged.(map[string]any); ok && m["complete"] == true {
		return nil
	}
	return judged
}

// maxText is how many characters of one message are shown at once, and maxTexts
// of all of an answer.
const (
	maxText  = 20_000
	maxTexts = 60_000
)

// A said is a message of a thread.
type said struct {
	File        string    `json:"file"`
	BodyHash    string    `json:"body_hash,omitempty"`
	From        string    `json:"from,omitempty"`
	To          []string  `json:"to,omitempty"`
	Type        string    `json:"type,omitempty"`
	StatusClass string    `json:"status_class,omitempty"`
	Relay       bool      `json:"relay,omitempty"`
	InReplyTo   string    `json:"in_reply_to,omitempty"`
	CommittedAt string    `json:"committed_at,omitempty"`
	Unread      bool      `json:"unread,omitempty"`
	Valid       *bool     `json:"valid,omitempty"`
	Verdict     *judgment `json:"verdict"`
	More        int       `json:"more_characters,omitempty"`
}

type envelope struct {
	said
	Body        string          `json:"body"`
	Frontmatter json.RawMessage `json:"frontmatter"`
}

// told takes from the front matter what is of use, and leaves out the rest.
func (e *envelope) told() {
	var f struct {
		From, Type, TLDR, Status string
		To                       any
		InReplyTo                string `json:"in_reply_to"`
		AttestedBy               string `json:"attested_by"`
	}
	if json.Unmarshal(e.Frontmatter, &f) != nil {
		return
	}
	e.From, e.Type, e.InReplyTo, e.Relay = f.From, f.Type, f.InReplyTo, f.AttestedBy != ""
	switch to := f.To.(type) {
	case string:
		e.To = []string{to}
	case []any:
		for _, id := range to {
			e.To = append(e.To, fmt.Sprint(id))
		}
	}
}

func runThread(s *server, ctx context.Context, raw json.RawMessage) (*reply, *problem) {
	in, p := arguments[struct {
		Thread, Message string
		Last, Offset    int
		Refused         bool
	}](raw)
	if p != nil {
		return nil, p
	}
	if in.Last == 0 {
		in.Last = 20
	}
	if in.Last < 0 || in.Offset < 0 {
		return nil, usage("last and offset are numbers from 0 on")
	}
	return s.thread(ctx, in.Thread, in.Message, in.Last, in.Offset, in.Refused)
}

func (s *server) thread(ctx context.Context, thread, message string, last, offset int, refused bool) (*reply, *problem) {
	var o struct {
		Count      int `json:"envelope_count"`
		Envelopes  []envelope
		Refused    []envelope
		Unreadable []struct{ File string }
		Mark       string
		Judged     any
	}
	name := strings.TrimPrefix(message, thread+"/")
	want := func(file, hash string, after int) bool {
		if message == "" {
			return after < last
		}
		return file == name || hash == name
	}
	if _, p := s.do(ctx, call{verb: "thread", words: []string{thread}, want: want}, &o); p != nil {
		return nil, p
	}
	out := struct {
		Thread   string `json:"thread"`
		Count    int    `json:"count"`
		Messages []said `json:"messages"`
		Refused  []said `json:"refused,omitempty"`
		// Unreadable are files that are no messages.
		Unreadable []string `json:"unreadable,omitempty"`
		Note       string   `json:"note,omitempty"`
		Judged     any      `json:"judged,omitempty"`
	}{Thread: thread, Count: o.Count, Messages: []said{}, Judged: unlessComplete(o.Judged)}
	for _, f := range o.Unreadable {
		if message == "" || f.File == name {
			out.Unreadable = append(out.Unreadable, f.File)
		}
	}
	if message != "" && len(o.Envelopes)+len(o.Refused)+len(out.Unreadable) == 0 {
		return nil, &problem{Code: "refused", Message: finding.QuoteMax(message, 80) + " is no message of " + thread, Hint: "thread without message lists them"}
	}
	r := &reply{}
	left := maxTexts
	show := func(e *envelope, label string) {
		part, more := cut(e.Body, offset, min(maxText, left))
		left -= len([]rune(part))
		e.More = more
		r.texts = append(r.texts, text{fmt.Sprintf("%s %s from %s, verdict %v", label, finding.Quote(thread+"/"+e.File), sender(e.From), e.Verdict), part})
	}
	for i := range o.Envelopes {
		e := &o.Envelopes[i]
		e.told()
		if e.Valid != nil && *e.Valid {
			e.Valid = nil
		}
		// Only what passes the gates is shown unasked.
		switch {
		case e.Verdict == nil:
			e.Verdict = &judgment{State: "unknown"}
		case e.Verdict.State == "refused" && !refused:
			out.Refused = append(out.Refused, said{File: e.File, Verdict: e.Verdict})
			continue
		}
		if message != "" || left > 0 {
			show(e, "message")
		} else {
			e.More = len([]rune(e.Body))
		}
		out.Messages = append(out.Messages, e.said)
	}
	for i := range o.Refused {
		e := &o.Refused[i]
		if e.Verdict == nil {
			e.Verdict = &judgment{State: "refused"}
		}
		if refused && e.Body != "" {
			show(e, "refused, it was not said:")
		}
		out.Refused = append(out.Refused, said{File: e.File, Verdict: e.Verdict, More: e.More})
	}
	if len(out.Refused) > 0 && !refused {
		out.Note = "what is refused was not said in this thread, and its text is left out"
	}
	r.object = out
	return r, nil
}

// sender is who a message says that it is from, in words that cannot go on to
// say anything else.
func sender(from string) string {
	if !env.ValidRigID(from) {
		return "no rig id"
	}
	return from
}

// A sending is what verbs that send tell.
type sending struct {
	Type      string `json:"type"`
	Path      string `json:"file_path"`
	BodyHash  string `json:"body_hash"`
	Commit    string `json:"commit"`
	InReplyTo string `json:"in_reply_to,omitempty"`
	Pushed    bool   `json:"pushed"`
	Repeated  bool   `json:"repeated,omitempty"`
	Crossed   []struct {
		Path string `json:"path"`
		From string `json:"from"`
	} `json:"crossed,omitempty"`
	Warnings []struct {
		Rule    string `json:"rule"`
		Message string `json:"message"`
	} `json:"warnings,omitempty"`
}

func (s *server) sends(ctx context.Context, c call) (*reply, *problem) {
	var o sending
	if _, p := s.do(ctx, c, &o); p != nil {
		return nil, p
	}
	return &reply{object: o}, nil
}

// words are the free parts of a message.
type words struct{ Body, TLDR, Status string }

// says refuses a message without words: what is sent cannot be taken back. An ACK
// says what it is.
func (w words) says(typ string) *problem {
	if typ == "ACK" || w.Body != "" || strings.TrimSpace(w.TLDR) != "" {
		return nil
	}
	return usage("body and tldr are missing, so the message says nothing")
}

func (c *call) say(w words) {
	c.flag("--tldr", w.TLDR)
	c.flag("--status", w.Status)
	if w.Body != "" {
		c.body = []byte(w.Body)
	}
}

func runSend(s *server, ctx context.Context, raw json.RawMessage) (*reply, *problem) {
	in, p := arguments[struct {
		words
		Type, Thread string
		To           []string
		InReplyTo    string `json:"in_reply_to"`
		Key          string
	}](raw)
	if p != nil {
		return nil, p
	}
	if p := in.says(in.Type); p != nil {
		return nil, p
	}
	c := call{verb: "send", words: []string{in.Type}}
	c.on("--open", in.Type == "REQUEST")
	c.flags = append(c.flags, "--thread="+in.Thread)
	c.flag("--in-reply-to", in.InReplyTo)
	c.flag("--key", in.Key)
	c.say(in.words)
	if p := c.to(in.To); p != nil {
		return nil, p
	}
	return s.sends(ctx, c)
}

func (c *call) to(ids []string) *problem {
	for _, id := range ids {
		if strings.TrimSpace(id) == "" {
			return usage("to has an empty rig id")
		}
		c.flag("--to", id)
	}
	return nil
}

func runReply(s *server, ctx context.Context, raw json.RawMessage) (*reply, *problem) {
	in, p := arguments[struct {
		words
		Message, Type, Key string
		To                 []string
	}](raw)
	if p != nil {
		return nil, p
	}
	if in.Message == "" {
		return nil, usage("message is missing")
	}
	if p := in.says(in.Type); p != nil {
		return nil, p
	}
	c := call{verb: "reply", words: []string{in.Message}}
	c.flag("--type", in.Type)
	c.flag("--key", in.Key)
	c.say(in.words)
	if p := c.to(in.To); p != nil {
		return nil, p
	}
	return s.sends(ctx, c)
}

func runAck(s *server, ctx context.Context, raw json.RawMessage) (*reply, *problem) {
	in, p := arguments[struct {
		Message, TLDR, Key string
		MarkOnly           bool `json:"mark_only"`
	}](raw)
	if p != nil {
		return nil, p
	}
	if !in.MarkOnly {
		c := call{verb: "ack"}
		if in.Message != "" {
			c.words = []string{in.Message}
		}
		c.flag("--tldr", in.TLDR)
		c.flag("--key", in.Key)
		return s.sends(ctx, c)
	}
	thread, file, one := strings.Cut(in.Message, "/")
	c := call{verb: "read", words: []string{thread}}
	if one {
		c.words = append(c.words, file)
	}
	var o struct {
		Thread   string   `json:"thread"`
		Marked   int      `json:"marked"`
		Unread   int      `json:"unread"`
		Messages []string `json:"messages"`
	}
	if _, p := s.do(ctx, c, &o); p != nil {
		return nil, p
	}
	return &reply{object: o}, nil
}

func runClose(s *server, ctx context.Context, raw json.RawMessage) (*reply, *problem) {
	in, p := arguments[struct {
		Thread, Status, Note string
		To                   []string
	}](raw)
	if p != nil {
		return nil, p
	}
	c := call{verb: "close", words: []string{in.Thread}}
	c.flags = append(c.flags, "--status="+in.Status)
	c.flag("--note", in.Note)
	if p := c.to(in.To); p != nil {
		return nil, p
	}
	return s.sends(ctx, c)
}

func runStatus(s *server, ctx context.Context, raw json.RawMessage) (*reply, *problem) {
	in, p := arguments[struct {
		All   bool
		Limit *int
	}](raw)
	if p != nil {
		return nil, p
	}
	limit := 30
	if in.Limit != nil {
		limit = *in.Limit
	}
	if limit < 1 || limit > 1000 {
		return nil, usage("limit is a number from 1 to 1000")
	}
	type row struct {
		Thread string `json:"thread_id"`
		Closed bool   `json:"is_closed"`
		Unread int    `json:"unread"`
		Count  int    `json:"envelope_count"`
		Frozen string `json:"frozen_until,omitempty"`
		Latest struct {
			File    string    `json:"filename"`
			Type    string    `json:"type"`
			From    string    `json:"from"`
			Verdict *judgment `json:"verdict,omitempty"`
		} `json:"latest_envelope"`
	}
	var o struct {
		To       string `json:"rig"`
		Open     int    `json:"open"`
		Closed   int    `json:"closed"`
		Unread   int    `json:"unread"`
		Unpushed int    `json:"unpushed"`
		Threads  []row  `json:"threads"`
		More     int    `json:"more_threads,omitempty"`
	}
	c := call{verb: "status"}
	c.on("--to", !in.All)
	c.on("--wide", in.All)
	var rig struct{ To string }
	if p := s.both(ctx, c, &o, &rig); p != nil {
		return nil, p
	}
	o.To = rig.To
	if n := len(o.Threads) - limit; n > 0 {
		o.Threads, o.More = o.Threads[:limit], n
	}
	return &reply{object: o}, nil
}

func runWait(s *server, ctx context.Context, raw json.RawMessage) (*reply, *problem) {
	in, p := arguments[struct {
		Seconds       *float64
		Thread, After string
	}](raw)
	if p != nil {
		return nil, p
	}
	seconds := 30.0
	if in.Seconds != nil {
		seconds = *in.Seconds
	}
	if !(seconds >= 0.1 && seconds <= 300) {
		return nil, usage("seconds is a number from 0.1 to 300")
	}
	c := call{verb: "wait"}
	c.flag("--timeout", fmt.Sprint(seconds))
	c.flag("--thread", in.Thread)
	c.flag("--after", in.After)
	type untaken struct {
		Reason string `json:"reason"`
		Hint   string `json:"hint"`
		Items  []item `json:"items"`
	}
	var o struct {
		Items        []item        `json:"items"`
		Refused      []refusedItem `json:"refused,omitempty"`
		TimedOut     bool          `json:"timed_out"`
		Untaken      *untaken      `json:"untaken,omitempty"`
		TrustChanges []struct {
			Path      string `json:"path"`
			Signature string `json:"signature"`
		} `json:"trust_changes,omitempty"`
		More       bool   `json:"more,omitempty"`
		Cursor     string `json:"cursor,omitempty"`
		NotFetched string `json:"not_fetched,omitempty"` // why it is not known whether more has come
	}
	var words struct {
		Items   []tldr
		Untaken struct{ Items []tldr }
	}
	if p := s.both(ctx, c, &o, &words); p != nil {
		return nil, p
	}
	return &reply{o, listed("summaries of the messages by their senders", slices.Concat(words.Items, words.Untaken.Items))}, nil
}

func runExplain(s *server, _ context.Context, raw json.RawMessage) (*reply, *problem) {
	in, p := arguments[struct{ Rule string }](raw)
	if p != nil {
		return nil, p
	}
	if in.Rule == "" {
		var ids []string
		for _, r := range rules.All() {
			ids = append(ids, r.ID)
		}
		return &reply{object: map[string]any{"protocol": protocolText, "rules": ids}}, nil
	}
	r, ok := rules.ByID(in.Rule)
	if !ok {
		return nil, &problem{Code: "usage", Message: "no rule is called " + finding.QuoteMax(in.Rule, 40), Hint: "explain without a rule lists them"}
	}
	return &reply{object: map[string]any{"rule": r.ID, "says": r.Says, "default": r.Default.String(), "more": "at the command line: rig-hook explain " + r.ID}}, nil
}
