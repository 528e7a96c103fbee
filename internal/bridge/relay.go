package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/relay"
	"github.com/rigward/rigward/pkg/sshsign"
)

type attestation struct {
	AttestedBy string `json:"attested_by"`
	AttestedAt string `json:"attested_at"`
	Nonce      string `json:"nonce"`
}

type relayObject struct {
	sentObject
	Attestation attestation `json:"attestation"`
	attestation             // the same three, flat
	InReplyTo   string      `json:"in_reply_to"`
}

// runRelay is `rig-bridge relay` (docs/spec/relay.md#sender).
func runRelay(r *run) error {
	typ := r.opts.Word(0)
	thread := r.opts.Get("--thread")
	if !slices.Contains(relayTypes, typ) {
		return usageError(r.cmd, "<type> %s is not one of %s", quote(typ), strings.Join(relayTypes, " "))
	}
	w, c, err := r.openAsRig()
	if err != nil {
		return err
	}
	defer w.close()
	if !c.isRelay() {
		return fail(codeRefused, "the rig id %s does not end in -relay; only an operator's relay relays", quote(c.rigID)).
			withHint("in the operator's own clone, never in an agent's: rig-bridge init --rig-id %s-relay --force", c.rigID)
	}
	op, err := r.operator(w)
	if err != nil {
		return err
	}
	if !r.opts.Has("--in-reply-to") {
		return usageError(r.cmd, "--in-reply-to is missing")
	}
	reply := r.opts.Get("--in-reply-to")
	if err := r.checkReply(reply, thread, false); err != nil {
		return err
	}
	if err := w.threadDir(r.ctx, thread, syncing, true); err != nil {
		return err
	}
	body, bodyGiven, err := r.givenBody()
	if err != nil {
		return err
	}
	to, err := r.recipients()
	if err != nil {
		return err
	}
	ms, err := w.readThread(r.ctx, thread)
	if err != nil {
		return err
	}
	if len(to) == 0 {
		ids, count := peers(ms, c.rigID)
		to = []string{mostFrequent(ids, count, c.rigID)}
	}
	answered, err := r.answers(w, c, thread, reply, ms)
	if err != nil {
		return err
	}
	reply = answered.env.Hash
	_, head, err := w.repo.HEAD()
	if err != nil {
		return gitProblem(err)
	}
	signers, err := r.signaturesAt(w, head, op, c.rigID)
	if err != nil {
		return err
	}
	if err := op.isListed(signers, c.rigID, r.env.Now()); err != nil {
		return err
	}
	if err := r.listedThere(w, head, op, c.rigID); err != nil {
		return err
	}
	now := r.env.Now().UTC()
	nonce, err := relay.NewNonce(now, r.env.Rand)
	if err != nil {
		return fail(codeRuntime, "no nonce could be made: %s", err.Error())
	}
	f := envelope.Fields{
		From: c.rigID, To: to, Date: now.Format("2006-01-02"), Status: "▶ Relayed " + typ, Type: typ, Thread: thread,
		InReplyTo: reply, AttestedBy: ssh.FingerprintSHA256(op.key), AttestedAt: now.Format("2006-01-02T15:04:05.000Z"),
		Nonce: nonce, DisplayName: op.name, Body: body,
	}
	if err := r.flagsInto(&f); err != nil {
		return err
	}
	if !bodyGiven {
		f.Body = bodyOf(f, "Relayed for "+op.name+".")
	}
	for _, m := range ms {
		if m.valid() && m.env.From == c.rigID && m.env.InReplyTo == reply && m.env.IsRelay() {
			r.note("warning: this rig has answered that turn already: %s", finding.Path(m.path()))
		}
	}
	d := draft{fields: f, name: "RELAY-" + nonce + ".md", signed: true,
		subject: func(string) string { return fmt.Sprintf("%s (relay): %s nonce=%s", typ, thread, nonce) }}
	d.key = digest("relay", thread, typ, f.To, f.Status, f.TLDR, f.References, bodyHash(f.Body), reply)
	d.verify = func(commit *gitrepo.Commit) error { return op.verify(w, signers, commit) }
	p, err := r.post(w, d)
	if err != nil {
		return err
	}
	o := relayObject{sentObject: r.sentBase(p), InReplyTo: p.env.InReplyTo}
	o.attestation = attestation{p.env.AttestedBy, p.env.AttestedAt, p.env.Nonce}
	o.Attestation = o.attestation
	for _, x := range p.crossed {
		r.note("crossed by %s from %s (commit %s)", finding.Path(x.Path), quote(x.From), short(x.Commit))
	}
	if r.json {
		return r.object(o)
	}
	fmt.Fprintf(&r.out, "rig-bridge: relayed type=%s thread=%s file=%s attested_by=%s nonce=%s commit=%s\n",
		token(o.Type), token(o.Thread), token(o.File), token(o.AttestedBy), token(o.Nonce), short(o.Commit))
	return nil
}

// A whole is a thread as a commit has it.
type whole struct {
	commit, thread string
	messages       []*message
}

// messagesAt reads the messages of a thread from a commit. What was read last is held
// for whoever asks again: an answer asks what it answers, and whether that was done.
func (r *run) messagesAt(w *work, commit, thread string) ([]*message, error) {
	if last := r.whole; last == nil || last.commit != commit || last.thread != thread {
		files, err := w.treeFiles(commit, thread)
		if err != nil {
			return nil, err
		}
		ms, err := w.messagesOf(thread, files)
		if err != nil {
			return nil, err
		}
		r.whole = &whole{commit, thread, ms}
	}
	out := make([]*message, len(r.whole.messages))
	for i, m := range r.whole.messages {
		own := *m // who asks notes in it whose word it is
		out[i] = &own
	}
	return out, nil
}

// messagesOf reads the messages among the files of a thread, which are named with
// their blobs.
func (w *work) messagesOf(thread string, files map[string]string) ([]*message, error) {
	var names, ids []string
	for name := range files {
		if envelope.IsEnvelopePath(thread + "/" + name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		ids = append(ids, files[name])
	}
	var out []*message
	i := 0
	err := w.repo.Objects(ids, envelope.DefaultLimits().File, func(o gitrepo.Object) error {
		name := names[i]
		i++
		switch {
		case errors.Is(o.Err, gitrepo.ErrTooLarge) || o.Err == nil && o.Type != "blob":
			out = append(out, unreadable(thread, name, "it is not a file of a message's size"))
		case o.Err != nil:
			return o.Err
		default:
			data := bytes.Clone(o.Data)
			m := newMessage(thread, name, data)
			m.data, m.blob = data, o.ID
			out = append(out, m)
		}
		return nil
	})
	if err != nil {
		return nil, gitProblem(err)
	}
	return out, nil
}

// An operator is who signs: the configured identity with its key.
type operator struct {
	name, email string
	key         ssh.PublicKey // plain
	offered     ssh.PublicKey // what git signs with: key, or a certificate of it
}

// operator reads the identity from git's configuration; the environment does not
// count. The key is the one that git signs with.
func (r *run) operator(w *work) (*operator, error) {
	op := &operator{}
	for key, into := range map[string]*string{"user.name": &op.name, "user.email": &op.email} {
		v, err := w.config(key)
		if err != nil {
			return nil, err
		}
		*into = v
	}
	for _, kv := range [][2]string{{"user.name", op.name}, {"user.email", op.email}} {
		if strings.TrimSpace(kv[1]) == "" {
			return nil, fail(codeRefused, "%s is not set; a relay is signed by a person", kv[0]).withHint("git config %s <value>", kv[0])
		}
	}
	if why := relay.BridgeDefault(relay.Person{Name: op.name, Email: op.email}, nil); why != "" {
		hint := "git config user.email <address>"
		if relay.BridgeDefault(relay.Person{Name: "Operator", Email: op.email}, nil) == "" {
			hint = "git config user.name <name>"
		}
		return nil, fail(codeRefused, "user.name and user.email are not an operator's: %s", why).withHint("%s", hint)
	}
	for _, who := range []string{"author", "committer"} {
		for what, own := range map[string]string{"name": op.name, "email": op.email} {
			key := who + "." + what
			v, err := w.config(key)
			if err != nil {
				return nil, err
			}
			if v != "" && v != own {
				return nil, fail(codeRefused, "%s is %s and user.%s is %s; a relay's author and committer are one, its operator", key, quote(v), what, quote(own)).
					withHint("git config %s %s", key, finding.Word(own))
			}
		}
	}
	key, err := r.signingKey(w)
	if err != nil {
		return nil, err
	}
	op.key, op.offered = key, key
	if cert, ok := key.(*ssh.Certificate); ok {
		op.key = cert.Key
	}
	return op, nil
}

// KeyVariable is set for the program that git runs in the place of
// gpg.ssh.program, to tell ShowKey from rig-bridge.
const KeyVariable = "RIG_BRIDGE_SHOW_KEY"

// signingKey asks git which key it signs commits with, in any of git's ways
// (git-config, user.signingKey and gpg.ssh.defaultKeyCommand): git starts to
// sign, and in the place of ssh-keygen runs this program, which names the key
// that it is given and signs nothing.
func (r *run) signingKey(w *work) (ssh.PublicKey, error) {
	const anew = "git config gpg.format ssh && git config user.signingkey ~/.ssh/id_ed25519.pub"
	configured, err := w.config("user.signingkey")
	if err != nil {
		return nil, err
	}
	command, err := w.config("gpg.ssh.defaultKeyCommand")
	if err != nil {
		return nil, err
	}
	named := "user.signingkey " + quote(configured)
	switch {
	case configured == "" && command == "":
		return nil, fail(codeRefused, "user.signingkey is not set; without a signature there is no relay").withHint(anew)
	case configured == "":
		named = "gpg.ssh.defaultKeyCommand " + quote(command)
	}
	format, err := w.config("gpg.format")
	if err != nil {
		return nil, err
	}
	if format != "ssh" {
		return nil, fail(codeRefused, "gpg.format is %s, a relay with %s needs ssh", quote(format), named).
			withHint("git config gpg.format ssh")
	}
	if r.env.Self == "" {
		return nil, fail(codeRuntime, "the path of this program is not known, so git cannot be asked for its signing key")
	}
	res, err := w.gitWith(r.ctx, gitrepo.Command{
		Args:  []string{"-c", "gpg.ssh.program=" + r.env.Self, "commit-tree", "-S", w.repo.EmptyTree()},
		Stdin: []byte{}, Drop: identityVariables, Env: []string{KeyVariable + "=1"}, Timeout: localTime,
	})
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(res.Stdout)
	if err != nil {
		why := tellingLine(res.Stderr)
		return nil, fail(codeRefused, "git signs with no key: %s gives none that can be read (%s)", named, finding.QuoteMax(why, 200)).
			withHint("git config user.signingkey <path of a public key>")
	}
	return key, nil
}

// ShowKey does what git wants of gpg.ssh.program when KeyVariable is set: args
// are those of `ssh-keygen -Y sign -n git -f FILE … BUFFER`. It prints the public
// key of FILE in one line and returns 1, so that git makes no commit. FILE holds
// a public key, a certificate or a private key, beside which lies the public one.
func ShowKey(args []string, stdout, stderr io.Writer) int {
	at := slices.Index(args, "-f") + 1
	if at == 0 || at == len(args) {
		fmt.Fprintln(stderr, "no key file among the arguments")
		return 2
	}
	key, err := publicKey(args[at])
	if err != nil {
		fmt.Fprintln(stderr, "the key file "+quote(args[at])+" cannot be read: "+reason(err))
		return 2
	}
	stdout.Write(ssh.MarshalAuthorizedKey(key))
	return 1
}

// publicKey reads the public key of a key file.
func publicKey(path string) (ssh.PublicKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if key, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
		return key, nil
	}
	if public, err := os.ReadFile(path + ".pub"); err == nil {
		if key, _, _, _, err := ssh.ParseAuthorizedKey(public); err == nil {
			return key, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return signer.PublicKey(), nil
	case errors.As(err, &locked) && locked.PublicKey != nil:
		return locked.PublicKey, nil
	}
	return nil, errors.New("it holds no key")
}

// signatures are what the gates take from the commit before ours:
// signers, revocations and limits.
type signatures struct {
	signers *sshsign.Signers
	revoked *sshsign.Revocations
	options sshsign.Options
	source  string // of the signers, for people
}

// signaturesAt reads by what the gates judge a commit on top of head. Where they
// trust nobody, no relay passes.
func (r *run) signaturesAt(w *work, head string, op *operator, rigID string) (*signatures, error) {
	p, trust, err := w.policyAt(head)
	if err != nil {
		return nil, err
	}
	s := &signatures{options: sshsign.Options{MinRSABits: p.MinRSABits}, source: p.Signers}
	line := op.email + "," + rigID + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(op.key)))
	if !trust.Exists() {
		where := "HEAD"
		if _, other, err := w.trusted(head); err == nil && other {
			where = "the default branch"
		}
		return nil, fail(codeRefused, "there is no %s in %s, so no gate knows whose relay to accept", finding.Path(p.Signers), where).
			withHint("the one who looks after the repository commits and pushes %s with the line: %s", finding.Path(p.Signers), line)
	}
	if s.signers, s.revoked, err = trust.Signers(); err != nil {
		return nil, undecided(err)
	}
	return s, nil
}

// isListed refuses a key for which the relay would be refused at every gate.
func (op *operator) isListed(s *signatures, rigID string, now time.Time) error {
	o := s.options
	o.At, o.Now = now, now
	v := s.signers.Judge(op.offered, s.revoked, o)
	file := finding.Path(s.source)
	line := op.email + "," + rigID + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(op.key)))
	hint := "a listed signer adds to " + file + " and pushes: " + line
	var why string
	switch {
	case v.Reason == sshsign.UnknownKey && v.Line != 0:
		why = "is not listed for commits in " + file
	case v.Reason == sshsign.UnknownKey:
		why = "is not listed in " + file
	case v.Reason == sshsign.NotYetValid:
		why = "is not yet valid in " + file
	case v.Reason == sshsign.Expired:
		why = "has expired in " + file
	case v.Reason == sshsign.Revoked:
		why, hint = "is revoked", "git config user.signingkey <a key that is listed and not revoked>"
	case !v.Good():
		why = fmt.Sprintf("is not accepted (%s)", v.Detail)
	case !v.Speaks(op.email):
		why = fmt.Sprintf("is not listed for user.email %s in %s", quote(op.email), file)
	case s.signers.HasRigIDs() && !v.Speaks(rigID):
		why = fmt.Sprintf("is not listed for the rig %s in %s", quote(rigID), file)
	default:
		return nil
	}
	if other := otherRig(v.Principals, rigID); other != "" { // that of an agent must not become an operator's
		hint = fmt.Sprintf("git config user.signingkey <the operator's own key>; this one is that of %s", other)
	}
	return fail(codeRefused, "the key %s %s; the relay would be refused everywhere", v.Fingerprint, why).withHint("%s", hint)
}

// listedThere refuses a key that only unpushed commits list: what a push changes of the
// signers counts from the next one on, so the relay would have to wait for that.
func (r *run) listedThere(w *work, head string, op *operator, rigID string) error {
	t, err := w.target()
	if err != nil || t.tracking == "" {
		return err
	}
	seen, err := w.ref(t.tracking)
	if err != nil || seen == "" || seen == head {
		return err
	}
	s, err := r.signaturesAt(w, seen, op, rigID)
	if err == nil {
		err = op.isListed(s, rigID, r.env.Now())
	}
	if err == nil {
		return nil
	}
	if within, aerr := w.ancestor(r.ctx, seen, head); aerr != nil || !within {
		return err
	}
	return fail(codeRefused, "only commits that are not pushed yet let the key %s speak for %s, and what a push changes of the signers counts from the next one on",
		ssh.FingerprintSHA256(op.key), quote(rigID)).withHint("%s, then the relay", pushHint(t))
}

// otherRig returns a rig that lists of principals name besides an operator's relay.
func otherRig(principals []string, relay string) string {
	for _, list := range principals {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); envelope.ValidRigID(name) && name != relay {
				return name
			}
		}
	}
	return ""
}

// verify judges the commit that git has made as a gate would.
func (op *operator) verify(w *work, s *signatures, c *gitrepo.Commit) error {
	v := sshsign.VerifyCommit(c.Raw, sshsign.ObjectFormat(w.repo.ObjectFormat()), s.signers, s.revoked, s.options)
	switch {
	case v.Reason == sshsign.Unsigned:
		return fail(codeRefused, "git commit made no signature; the relay was taken back")
	case !v.Good():
		return fail(codeRefused, "the signature of the relay does not verify: %s; it was taken back", v.Why())
	case v.Fingerprint != ssh.FingerprintSHA256(op.key):
		return fail(codeRefused, "git signed with the key %s, expected %s, which git named before; the relay was taken back", v.Fingerprint, ssh.FingerprintSHA256(op.key))
	}
	author := relay.Person{Name: c.Author.Name, Email: c.Author.Email}
	committer := relay.Person{Name: c.Committer.Name, Email: c.Committer.Email}
	if why := relay.Author(author, committer, v.Speaks, nil); why != "" {
		return fail(codeRefused, "the relay was taken back: %s", why)
	}
	return nil
}
