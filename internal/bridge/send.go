package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

type sentObject struct {
	head
	Type      string        `json:"type"`
	ThreadID  string        `json:"thread_id"`
	Thread    string        `json:"thread"`
	Status    string        `json:"status,omitempty"`
	FilePath  string        `json:"file_path"`
	File      string        `json:"file"`
	CommitSHA string        `json:"commit_sha"`
	Commit    string        `json:"commit"`
	BodyHash  string        `json:"body_hash"`
	InReplyTo string        `json:"in_reply_to,omitempty"`
	Refs      []string      `json:"references,omitempty"`
	Pushed    bool          `json:"pushed"`
	Branch    string        `json:"branch"`
	Remote    *string       `json:"remote"`
	Retries   int           `json:"retries"`
	Crossed   []crossing    `json:"crossed"`
	Warnings  []jsonFinding `json:"warnings"`
	Repeated  bool          `json:"repeated,omitempty"` // an earlier run sent it
}

// runSend is `rig-bridge send` (docs/spec/client.md#commands).
func runSend(r *run) error {
	typ := r.opts.Word(0)
	thread := r.opts.Get("--thread")
	if !slices.Contains(envelope.Types(), typ) {
		return usageError(r.cmd, "%s %s is not one of %s", r.word("type"), quote(typ), strings.Join(envelope.Types(), " "))
	}
	to, err := r.recipients()
	if err != nil {
		return err
	}
	if len(to) == 0 && (typ != "REQUEST" || r.opts.Has("--to")) {
		return usageError(r.cmd, "%s is missing", r.arg("--to"))
	}
	if r.opts.Has("--open") && typ != "REQUEST" {
		return usageError(r.cmd, "--open is for a REQUEST, which begins a thread")
	}
	w, c, err := r.openAsRig()
	if err != nil {
		return err
	}
	defer w.close()
	if err := c.notRelay(); err != nil {
		return err
	}
	if p, err := r.sentBefore(w, c); p != nil || err != nil {
		return r.told(p, err)
	}
	d := draft{}
	err = w.threadDir(r.ctx, thread, lookup{"rig-bridge new " + thread, "a REQUEST opens a thread; status with all names those that are there"}, true)
	if d.opens = r.opts.Has("--open") && errors.Is(err, errNoThread); err != nil && !d.opens {
		return err
	}
	f := envelope.Fields{From: c.rigID, To: to, Date: r.today(), Status: "▶ " + typ + " sent", Type: typ, Thread: thread, DisplayName: c.displayName}
	var draftBody []byte
	edited, unsendable := false, ""
	if typ == "REQUEST" {
		// A killed run may have left its message in the scaffold's place.
		left, err := w.readJournal()
		if err == nil && left != nil && left.Scaffold {
			err = r.begin(w)
		}
		if err != nil {
			return err
		}
		var old []byte
		var e *envelope.Envelope
		if old, e, unsendable, err = w.editedScaffold(r.ctx, c, thread); err != nil {
			return err
		}
		if e != nil {
			d.scaffold, d.name = old, scaffoldName
			if draftBody, edited = written(e.Body, thread); edited && !bytes.Equal(draftBody, e.Body) {
				r.note("the line %s of the scaffold is left out", quote(scaffoldLine))
			}
			if edited && r.opts.Has("--body-file") {
				return fail(codeUsage, "%s and the edited %s/%s are two bodies", r.arg("--body-file"), thread, scaffoldName).
					withHint("leave --body-file out, or remove the file").orTool("without body the file is sent")
			}
			f.Status, f.TLDR, f.References, f.DisplayName = e.Status, e.TLDR, e.References, e.DisplayName
			if len(to) == 0 && !slices.ContainsFunc(e.To, func(id string) bool { return !envelope.ValidRigID(id) }) {
				f.To = e.To
			}
		}
	}
	if len(f.To) == 0 && (r.left == nil || !r.left.Scaffold) {
		return usageError(r.cmd, "%s is missing", r.arg("--to"))
	}
	if err := r.flagsInto(&f); err != nil {
		return err
	}
	reply, replies := r.opts.Lookup("--in-reply-to")
	if replies {
		if err := r.checkReply(reply, thread, true); err != nil {
			return err
		}
		if _, err := r.answering(w, c, &f, reply); err != nil {
			return err
		}
	}
	var body []byte
	given := false
	if !edited {
		if body, given, err = r.givenBody(); err != nil {
			return err
		}
	}
	switch {
	case given:
		f.Body = body
	case draftBody != nil && !edited:
		made := "as `rig-bridge new` made it"
		if r.env.Tool {
			made = "a scaffold that nobody edited"
		}
		return fail(codeInvalid, "%s/%s is %s; what is sent cannot be taken back", thread, scaffoldName, made).
			withHint("write the request into %s/%s, or say it with --body-file FILE", thread, scaffoldName).orTool("say it in body")
	case draftBody != nil:
		f.Body = draftBody
	case unsendable != "":
		return fail(codeInvalid, "%s/%s is not committed and cannot be sent: %s", thread, scaffoldName, unsendable).
			withHint("rig-bridge validate %s/%s", thread, scaffoldName)
	default:
		f.Body = bodyOf(f, "No body was given.")
	}
	d.fields = f
	d.subject = subjectOf(f)
	// What was typed, not what stood in a scaffold: that is gone once it is sent.
	status, _ := r.opts.Lookup("--status")
	tldr, _ := r.opts.Lookup("--tldr")
	d.key = digest("send", thread, typ, to, status, tldr, r.opts.All("--ref"), given, bodyHash(body), reply)
	p, err := r.post(w, d)
	if err != nil {
		return err
	}
	return r.sent(p, "")
}

// bodyOf is the body of a message for which none was given: what its tldr says,
// so that who reads the thread reads it, else stub.
func bodyOf(f envelope.Fields, stub string) []byte {
	if text := oneLine(f.TLDR); text != "" {
		stub = text
	}
	return []byte("# " + f.Thread + ": " + f.Type + "\n\n" + stub + "\n")
}

// subjectOf makes the commit message of a message that was sent: always one
// line, whatever stands in the tldr.
func subjectOf(f envelope.Fields) func(path string) string {
	return func(path string) string {
		text := path
		if t := oneLine(f.TLDR); t != "" {
			text = t
		}
		return f.Type + ": " + text
	}
}

// oneLine makes every run of white space and control characters one blank.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || r == 0xfeff
	}), " ")
}

func bodyHash(body []byte) string { return envelope.BodyHash(envelope.NormalizeBody(body)) }

// digest names what the user asked for, to know a repeated command again.
func digest(parts ...any) string {
	data, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// recipients returns the rig ids of --to: split at commas, blanks trimmed,
// empty parts dropped, normalised; order and duplicates kept.
func (r *run) recipients() ([]string, error) {
	var out []string
	for _, v := range r.opts.All("--to") {
		for _, part := range strings.Split(v, ",") {
			if strings.TrimSpace(part) == "" {
				continue
			}
			id, err := envelope.NormalizeRigID(part)
			if err != nil {
				return nil, usageError(r.cmd, "%s %s: %s", r.arg("--to"), quote(part), err.Error())
			}
			out = append(out, id)
		}
	}
	if len(out) == 0 && r.opts.Has("--to") {
		return nil, usageError(r.cmd, "%s names no rig id", r.arg("--to"))
	}
	return out, nil
}

// flagsInto lays --status, --tldr and --ref over the fields.
func (r *run) flagsInto(f *envelope.Fields) error {
	if v, given := r.opts.Lookup("--status"); given {
		if v == "" {
			return fail(codeInvalid, "status is empty, a marker and a text were expected").withHint(`--status "▶ Working"`).orTool("▶ Working")
		}
		f.Status = v
	}
	if v, given := r.opts.Lookup("--tldr"); given {
		if v == "" {
			return fail(codeInvalid, "tldr is empty").withHint("leave --tldr out").orTool("leave tldr out")
		}
		f.TLDR = v
	}
	if refs := r.opts.All("--ref"); len(refs) > 0 {
		f.References = refs
	}
	for _, kv := range [][2]string{{"status", f.Status}, {"tldr", f.TLDR}} {
		if !utf8.ValidString(kv[1]) {
			return fail(codeInvalid, "%s %s is not valid UTF-8", kv[0], quote(kv[1]))
		}
	}
	for _, ref := range f.References {
		if !utf8.ValidString(ref) {
			return fail(codeInvalid, "references: %s is not valid UTF-8", quote(ref))
		}
	}
	return nil
}

// givenBody returns the body that was given: the file of --body-file, or what is
// piped in. An empty one, or one of white space only, is refused: append-only
// keeps what was sent by mistake for ever.
func (r *run) givenBody() (body []byte, given bool, err error) {
	name, given := r.opts.Lookup("--body-file")
	limit := envelope.DefaultLimits().File
	switch {
	case !given:
		name = "standard input"
		if body, err = r.piped(limit + 1); len(body) == 0 || err != nil {
			return nil, false, err
		}
	case name == "-":
		name = r.arg("--body-file")
		if !r.env.Tool {
			name += " -"
		}
		body, err = readAll(r.ctx, func() (io.ReadCloser, error) { return io.NopCloser(r.env.Stdin), nil }, limit+1)
		if err != nil {
			return nil, true, r.cannotReadInput(err)
		}
	default:
		if body, err = r.bodyFile(name, limit); err != nil {
			return nil, true, err
		}
		name = "--body-file " + quote(name)
	}
	switch {
	case int64(len(body)) > limit:
		err = fail(codeInvalid, "%s has more than %d bytes, the most that a message has", name, limit)
	case !utf8.Valid(body):
		err = fail(codeInvalid, "%s is not valid UTF-8", name)
	case blank(body):
		err = fail(codeInvalid, "%s holds no text; a message without words is not sent", name).
			withHint("leave the body out and say it in --tldr, or give one").orTool("leave body out and say it in tldr, or give one")
	}
	r.body = bodyHash(body)
	return body, true, err
}

// bodyFile reads a file of at most limit bytes, and one byte more.
func (r *run) bodyFile(name string, limit int64) ([]byte, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.env.Dir, path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail(codeUsage, "--body-file %s does not exist", quote(name))
	case err != nil:
		return nil, fail(codeUsage, "--body-file %s cannot be read: %s", quote(name), reason(err))
	case info.IsDir():
		return nil, fail(codeUsage, "--body-file %s is a directory", quote(name))
	case info.Size() > limit:
		return nil, fail(codeInvalid, "--body-file %s has %d bytes, a message has at most %d", quote(name), info.Size(), limit)
	}
	body, err := readAll(r.ctx, func() (io.ReadCloser, error) { return os.Open(path) }, limit+1)
	if err != nil && r.ctx.Err() == nil {
		err = fail(codeUsage, "--body-file %s cannot be read: %s", quote(name), reason(err))
	}
	return body, err
}

func (r *run) cannotReadInput(err error) error {
	if r.ctx.Err() != nil {
		return err
	}
	return fail(codeRuntime, "cannot read standard input: %s", reason(err))
}

// patience is how long the first byte of a pipe is waited for that may be there
// only because a program starts its children so, and never writes or closes it.
const patience = 3 * time.Second

// piped reads standard input to its end where it is a pipe or a file. Nobody
// named it, so a pipe in which nothing comes is not waited for; but what may
// still come is not dropped either.
func (r *run) piped(limit int64) ([]byte, error) {
	if r.env.Piped == nil || !r.env.Piped() {
		return nil, nil
	}
	first := make(chan struct{})
	late := time.AfterFunc(patience, func() { close(first) })
	defer late.Stop()
	type result struct {
		data []byte
		err  error
	}
	begun, done := make(chan struct{}), make(chan result, 1)
	go func() {
		head := make([]byte, 1)
		n, err := io.ReadFull(r.env.Stdin, head)
		close(begun)
		var data []byte
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(r.env.Stdin, limit-1))
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
		done <- result{append(head[:n], data...), err}
	}()
	select {
	case <-begun:
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	case <-first:
		return nil, fail(codeUsage, "standard input is a pipe in which nothing came for %s, so whether it holds the body is not known", patience).
			withHint("--body-file - waits for it; </dev/null says that there is none")
	}
	select {
	case got := <-done:
		if got.err != nil {
			return nil, r.cannotReadInput(got.err)
		}
		return got.data, nil
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	}
}

// blank reports whether a body holds no character that shows.
func blank(body []byte) bool {
	return len(bytes.TrimFunc(body, func(c rune) bool {
		return unicode.IsSpace(c) || unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == 0x115f || c == 0x1160 || c == 0x3164 || c == 0xffa0 || c == 0x2800
	})) == 0
}

// written returns what somebody wrote into the body of a scaffold, without the line
// that says what belongs there; edited is false if that is nothing.
func written(body []byte, thread string) (text []byte, edited bool) {
	for line := range bytes.Lines(body) {
		if string(bytes.TrimSpace(line)) != scaffoldLine {
			text = append(text, line...)
		}
	}
	return text, !blank(text) && !sameWords(text, "# "+thread)
}

// sameWords reports whether two texts differ in white space at most.
func sameWords(a []byte, b string) bool {
	return slices.Equal(strings.Fields(string(a)), strings.Fields(b))
}

// editedScaffold returns the REQUEST.md that new made and nobody committed:
// untracked, readable, from this rig, without body_hash. Nil if there is none;
// why says in words that one is there and is not such a message. A staged one
// that names no recipient yet is refused: what would be sent in its place is a
// stub.
func (w *work) editedScaffold(ctx context.Context, c config, thread string) (data []byte, e *envelope.Envelope, why string, err error) {
	data, err = readFile(filepath.Join(w.root, thread, scaffoldName), envelope.DefaultLimits().File)
	if err != nil {
		return nil, nil, "", nil
	}
	e, fs := content(data, "", 0)
	switch {
	case e == nil && len(fs) > 0:
		why = fs[0].Message
	case e == nil:
		why = "it is not an envelope"
	case e.From != c.rigID:
		why = "it is from " + quote(e.From) + ", this rig is " + quote(c.rigID)
	case e.Has("body_hash"):
		why = "it has a body_hash, which send writes"
	}
	path := thread + "/" + scaffoldName
	res, err := w.git(ctx, "ls-files", "-z", "--", path)
	if err != nil {
		return nil, nil, "", err
	}
	if len(res.Stdout) > 0 {
		if why == "" && slices.Equal(e.To, []string{"?"}) {
			return nil, nil, "", fail(codeRefused, "%s is staged; a scaffold is sent from the work tree, where git does not know it yet", path).
				withHint("git reset -q -- %s", path)
		}
		return nil, nil, "", nil
	}
	_, head, err := w.repo.HEAD()
	if err != nil {
		return nil, nil, "", gitProblem(err)
	}
	committed, err := w.treeFiles(head, thread)
	if err != nil || committed[scaffoldName] != "" {
		return nil, nil, "", err
	}
	if why != "" {
		return nil, nil, why, nil
	}
	return data, e, "", nil
}

// sentBase is the object of a message that is out.
func (r *run) sentBase(p *posted) sentObject {
	thread, _ := splitPath(p.path)
	o := sentObject{
		head: r.head(), Type: p.env.Type, ThreadID: thread, Thread: thread, FilePath: p.path, File: p.path,
		CommitSHA: p.commit, Commit: p.commit, BodyHash: p.env.Hash, InReplyTo: p.env.InReplyTo, Refs: p.env.References, Pushed: p.pushed, Branch: p.target.short(),
		Retries: p.retries, Crossed: append([]crossing{}, p.crossed...), Warnings: jsonFindings(p.notes),
		Repeated: p.repeated,
	}
	if p.target.remote != "" {
		o.Remote = &p.target.remote
	}
	return o
}

// sent prints the result of send and close.
func (r *run) sent(p *posted, class string) error {
	o := r.sentBase(p)
	o.Status = class
	for _, c := range p.crossed {
		r.note("crossed by %s from %s (commit %s)", finding.Path(c.Path), quote(c.From), short(c.Commit))
	}
	if r.json {
		return r.object(o)
	}
	if class == "" {
		fmt.Fprintf(&r.out, "rig-bridge: sent type=%s thread=%s file=%s commit=%s", token(o.Type), token(o.Thread), token(o.File), short(o.Commit))
		if p.repeated {
			r.out.WriteString(" repeated=true")
		}
		r.out.WriteString("\n")
	} else {
		fmt.Fprintf(&r.out, "rig-bridge: closed type=RESOLUTION thread=%s status=%s commit=%s\n", token(o.Thread), token(class), short(o.Commit))
	}
	return nil
}
