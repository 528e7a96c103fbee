package bridge

import (
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
	Pushed    bool          `json:"pushed"`
	Branch    string        `json:"branch"`
	Remote    *string       `json:"remote"`
	Retries   int           `json:"retries"`
	Crossed   []crossing    `json:"crossed"`
	Warnings  []jsonFinding `json:"warnings"`
}

// runSend is `rig-bridge send` (spec/cli.md section 5).
func runSend(r *run) error {
	typ := r.opts.word()
	if len(r.opts.words) == 0 {
		return usageError(r.cmd, "<type> is missing")
	}
	thread, given := r.opts.value("--thread")
	if !given {
		return usageError(r.cmd, "--thread is missing")
	}
	if !slices.Contains(types, typ) {
		return usageError(r.cmd, "<type> %s is not one of %s", quote(typ), strings.Join(types, " "))
	}
	to, err := r.recipients()
	if err != nil {
		return err
	}
	if len(to) == 0 && (typ != "REQUEST" || r.opts.has("--to")) {
		return usageError(r.cmd, "--to is missing")
	}
	w, c, err := r.openAsRig()
	if err != nil {
		return err
	}
	defer w.close()
	if err := c.notRelay(); err != nil {
		return err
	}
	if err := w.threadDir(thread, "rig-bridge new "+thread); err != nil {
		return err
	}
	f := envelope.Fields{From: c.rigID, To: to, Date: r.today(), Status: "▶ " + typ + " sent", Type: typ, Thread: thread, DisplayName: c.displayName}
	d := draft{}
	var draftBody []byte
	if typ == "REQUEST" {
		// A killed run may have left its message in the scaffold's place.
		left, err := w.readJournal()
		if err == nil && left != nil && left.Scaffold {
			err = r.begin(w)
		}
		if err != nil {
			return err
		}
		old, e, err := w.editedScaffold(r.ctx, c, thread)
		if err != nil {
			return err
		}
		if e != nil {
			d.scaffold, d.name = old, scaffoldName
			draftBody = e.Body
			if string(e.Body) != scaffoldBody(thread) && r.opts.has("--body-file") {
				return fail(codeUsage, "--body-file and the edited %s/%s are two bodies", thread, scaffoldName).
					withHint("leave --body-file out, or remove the file")
			}
			f.Status, f.TLDR, f.References, f.DisplayName = e.Status, e.TLDR, e.References, e.DisplayName
			if len(to) == 0 && !slices.ContainsFunc(e.To, func(id string) bool { return !envelope.ValidRigID(id) }) {
				f.To = e.To
			}
		}
	}
	if len(f.To) == 0 && (r.left == nil || !r.left.Scaffold) {
		return usageError(r.cmd, "--to is missing")
	}
	if err := r.flagsInto(&f); err != nil {
		return err
	}
	body, given, err := r.bodyFile()
	switch {
	case err != nil:
		return err
	case given:
		f.Body = body
	case draftBody != nil:
		f.Body = draftBody
	default:
		f.Body = []byte("# " + thread + ": " + typ + "\n\nNo body was given.\n")
	}
	d.fields = f
	d.subject = subjectOf(f)
	// What was typed, not what stood in a scaffold: that is gone once it is sent.
	status, _ := r.opts.value("--status")
	tldr, _ := r.opts.value("--tldr")
	d.key = digest("send", thread, typ, to, status, tldr, r.opts.values["--ref"], given, bodyHash(body))
	p, err := r.post(w, d)
	if err != nil {
		return err
	}
	return r.sent(p, "")
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
	for _, v := range r.opts.values["--to"] {
		for _, part := range strings.Split(v, ",") {
			if strings.TrimSpace(part) == "" {
				continue
			}
			id, err := envelope.NormalizeRigID(part)
			if err != nil {
				return nil, usageError(r.cmd, "--to %s: %s", quote(part), err.Error())
			}
			out = append(out, id)
		}
	}
	if len(out) == 0 && r.opts.has("--to") {
		return nil, usageError(r.cmd, "--to names no rig id")
	}
	return out, nil
}

// flagsInto lays --status, --tldr and --ref over the fields.
func (r *run) flagsInto(f *envelope.Fields) error {
	if v, given := r.opts.value("--status"); given {
		if v == "" {
			return fail(codeInvalid, "status is empty, a marker and a text were expected").withHint(`--status "▶ Working"`)
		}
		f.Status = v
	}
	if v, given := r.opts.value("--tldr"); given {
		if v == "" {
			return fail(codeInvalid, "tldr is empty").withHint("leave --tldr out")
		}
		f.TLDR = v
	}
	if refs := r.opts.values["--ref"]; len(refs) > 0 {
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

// bodyFile reads what --body-file names; - is standard input, read to its end.
func (r *run) bodyFile() (body []byte, given bool, err error) {
	name, given := r.opts.value("--body-file")
	if !given {
		return nil, false, nil
	}
	limit := envelope.DefaultLimits().File
	if name == "-" {
		body, err = readAll(r.ctx, func() (io.ReadCloser, error) { return io.NopCloser(r.env.Stdin), nil }, limit+1)
		if err != nil {
			if r.ctx.Err() != nil {
				return nil, true, err
			}
			return nil, true, fail(codeRuntime, "cannot read standard input: %s", reason(err))
		}
	} else {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.env.Dir, path)
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, true, fail(codeUsage, "--body-file %s does not exist", quote(name))
		case err != nil:
			return nil, true, fail(codeUsage, "--body-file %s cannot be read: %s", quote(name), reason(err))
		case info.IsDir():
			return nil, true, fail(codeUsage, "--body-file %s is a directory", quote(name))
		case info.Size() > limit:
			return nil, true, fail(codeInvalid, "--body-file %s has %d bytes, a message has at most %d", quote(name), info.Size(), limit)
		}
		body, err = readAll(r.ctx, func() (io.ReadCloser, error) { return os.Open(path) }, limit+1)
		if err != nil {
			if r.ctx.Err() != nil {
				return nil, true, err
			}
			return nil, true, fail(codeUsage, "--body-file %s cannot be read: %s", quote(name), reason(err))
		}
	}
	if int64(len(body)) > limit {
		return nil, true, fail(codeInvalid, "--body-file %s has more than %d bytes, the most that a message has", quote(name), limit)
	}
	if !utf8.Valid(body) {
		return nil, true, fail(codeInvalid, "--body-file %s is not valid UTF-8", quote(name))
	}
	return body, true, nil
}

// editedScaffold returns the REQUEST.md that new made and nobody committed:
// untracked, readable, from this rig, without body_hash. Nil if there is none.
// A staged one that names no recipient yet is refused: what would be sent in
// its place is a stub.
func (w *work) editedScaffold(ctx context.Context, c config, thread string) ([]byte, *envelope.Envelope, error) {
	data, err := readFile(filepath.Join(w.root, thread, scaffoldName), envelope.DefaultLimits().File)
	if err != nil {
		return nil, nil, nil
	}
	e, _ := content(data, "", 0)
	if e == nil || e.From != c.rigID || e.Has("body_hash") {
		return nil, nil, nil
	}
	path := thread + "/" + scaffoldName
	res, err := w.git(ctx, "ls-files", "-z", "--", path)
	if err != nil {
		return nil, nil, err
	}
	if len(res.Stdout) > 0 {
		if slices.Equal(e.To, []string{"?"}) {
			return nil, nil, fail(codeRefused, "%s is staged; a scaffold is sent from the work tree, where git does not know it yet", path).
				withHint("git reset -q -- %s", path)
		}
		return nil, nil, nil
	}
	_, head, err := w.repo.HEAD()
	if err != nil {
		return nil, nil, gitProblem(err)
	}
	committed, err := w.treeFiles(head, thread)
	if err != nil || committed[scaffoldName] != "" {
		return nil, nil, err
	}
	return data, e, nil
}

// sentBase is the object of a message that is out.
func (r *run) sentBase(p *posted) sentObject {
	thread, _ := splitPath(p.path)
	o := sentObject{
		head: r.head(), Type: p.env.Type, ThreadID: thread, Thread: thread, FilePath: p.path, File: p.path,
		CommitSHA: p.commit, Commit: p.commit, BodyHash: p.env.Hash, Pushed: p.pushed, Branch: p.target.short(),
		Retries: p.retries, Crossed: append([]crossing{}, p.crossed...), Warnings: jsonFindings(p.notes),
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
		fmt.Fprintf(&r.out, "rig-bridge: sent type=%s thread=%s file=%s commit=%s\n", token(o.Type), token(o.Thread), token(o.File), short(o.Commit))
	} else {
		fmt.Fprintf(&r.out, "rig-bridge: closed type=RESOLUTION thread=%s status=%s commit=%s\n", token(o.Thread), token(class), short(o.Commit))
	}
	return nil
}
