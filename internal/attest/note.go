package attest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// Origin is the name of a chain in checkpoints (C2SP tlog-checkpoint).
func (c *Chain) Origin() string { return "rigward/" + c.Repository.UUID }

// text is what a checkpoint of a chain says.
func (c *Chain) text() string {
	root := c.Root()
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin(), c.Size, base64.StdEncoding.EncodeToString(root[:]))
}

// Types of signatures in notes (C2SP signed-note).
const (
	noteSignature   = 1
	noteCosignature = 4
)

// A noteKey is a key in notes: the public half verifies, the private one signs.
type noteKey struct {
	name    string
	kind    byte
	public  ed25519.PublicKey
	private ed25519.PrivateKey // nil where it only verifies
	now     time.Time          // of cosignatures
}

// Name implements note.Signer and note.Verifier.
func (n *noteKey) Name() string { return n.name }

// KeyHash is how a note names the key.
func (n *noteKey) KeyHash() uint32 {
	sum := sha256.Sum256(slices.Concat([]byte(n.name+"\n"), []byte{n.kind}, n.public))
	return binary.BigEndian.Uint32(sum[:])
}

// timed is what a cosignature signs (C2SP tlog-cosignature).
func timed(at uint64, msg []byte) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, msg)
}

// Sign implements note.Signer.
func (n *noteKey) Sign(msg []byte) ([]byte, error) {
	if n.kind != noteCosignature {
		return ed25519.Sign(n.private, msg), nil
	}
	at := uint64(n.now.Unix())
	return append(binary.BigEndian.AppendUint64(nil, at), ed25519.Sign(n.private, timed(at, msg))...), nil
}

// Verify implements note.Verifier.
func (n *noteKey) Verify(msg, sig []byte) bool {
	if n.kind != noteCosignature {
		return ed25519.Verify(n.public, msg, sig)
	}
	if len(sig) != 8+ed25519.SignatureSize || sig[0]&0x80 != 0 {
		return false
	}
	return ed25519.Verify(n.public, timed(binary.BigEndian.Uint64(sig), msg), sig[8:])
}

// checkpoint is the signed head of a chain, in the form of C2SP's tlog-checkpoint.
func (k *Key) checkpoint(c *Chain) ([]byte, error) {
	return note.Sign(&note.Note{Text: c.text()}, &noteKey{name: c.Origin(), kind: noteSignature, public: raw(k.Public), private: k.private})
}

// cosign adds to a checkpoint that its chain was seen at a time and continues all
// that was seen before, by a witness of that name.
func (k *Key) cosign(name string, checkpoint []byte, now time.Time) ([]byte, error) {
	text, sigs, ok := bytes.Cut(checkpoint, []byte("\n\n"))
	if !ok || name == "" || strings.ContainsAny(name, " \t\r\n+") {
		return nil, errors.New("the name of a witness has no blanks and no +")
	}
	own, err := note.Sign(&note.Note{Text: string(text) + "\n"}, &noteKey{name: name, kind: noteCosignature, public: raw(k.Public), private: k.private, now: now})
	if err != nil {
		return nil, err
	}
	_, line, _ := bytes.Cut(own, []byte("\n\n"))
	return slices.Concat(text, []byte("\n\n"), sigs, line), nil
}

// VKey is a witness as others name it (C2SP signed-note, vkey).
func (k *Key) VKey(name string) string {
	n := &noteKey{name: name, kind: noteCosignature, public: raw(k.Public)}
	return fmt.Sprintf("%s+%08x+%s", name, n.KeyHash(), base64.StdEncoding.EncodeToString(append([]byte{n.kind}, n.public...)))
}

// A Seen is the head of a chain that a witness has signed, and when.
type Seen struct {
	Head
	Origin string
	At     time.Time
}

// maxNote is how many bytes a note has at the most.
const maxNote = 64 << 10

// OpenNote reads a cosigned checkpoint, and verifies the cosignature by the witness
// that the vkey names.
func OpenNote(data []byte, vkey string) (*Seen, error) {
	parts := strings.Split(vkey, "+")
	witness := &noteKey{name: parts[0], kind: noteCosignature}
	if len(parts) >= 3 {
		key, err := base64.StdEncoding.Strict().DecodeString(strings.Join(parts[2:], "+"))
		if err == nil && len(key) == 1+ed25519.PublicKeySize && key[0] == noteCosignature {
			witness.public = key[1:]
		}
	}
	if witness.public == nil || witness.name == "" || fmt.Sprintf("%08x", witness.KeyHash()) != parts[1] {
		return nil, errors.New("the witness's key is malformed, expected NAME+HASH+KEY")
	}
	if len(data) > maxNote {
		return nil, errors.New("the note is too long")
	}
	n, err := note.Open(data, note.VerifierList(witness))
	if err != nil {
		return nil, errors.New("the note has no good signature of the witness " + witness.name)
	}
	sig, err := base64.StdEncoding.DecodeString(n.Sigs[0].Base64)
	if err != nil || len(sig) < 12 {
		return nil, errors.New("the cosignature is malformed")
	}
	s := &Seen{At: time.Unix(int64(binary.BigEndian.Uint64(sig[4:])), 0).UTC()}
	return s, s.read(n.Text)
}

// read reads the text of a checkpoint.
func (s *Seen) read(text string) error {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 {
		return errors.New("the note is no checkpoint")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	root, rootErr := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] || rootErr != nil || len(root) != len(s.Root) || lines[0] == "" {
		return errors.New("the note is no checkpoint")
	}
	s.Origin, s.Size = lines[0], size
	copy(s.Root[:], root)
	return nil
}

// trailer is the line of a commit's message by which who sends it says what they
// have seen: the head of the chain as the server has signed it.
const trailer = "Rigward-Seen: "

// Told returns the trailer line of what was seen, "" where the server has signed no
// head of just that.
func (m *Memory) Told(repo *gitrepo.Repo) (string, error) {
	if m.Size == 0 {
		return "", nil
	}
	if types, err := repo.Has([]string{m.Tip}); err != nil || types[0] == "" {
		return "", err
	}
	data, err := fileOf(repo, m.Tip, checkpointFile)
	text, sigs, ok := strings.Cut(string(data), "\n\n")
	sig, own := strings.CutPrefix(strings.TrimSuffix(sigs, "\n"), "— "+m.Origin()+" ")
	if err != nil || !ok || text+"\n" != m.text() || !own || strings.ContainsAny(sig, " \n") {
		return "", err
	}
	lines := strings.Split(text, "\n")
	return trailer + lines[1] + " " + lines[2] + " " + sig, nil
}

// Heads returns those heads of a chain of which a commit's message says that its
// sender had seen them, and that a key which counts has signed. Whatever else
// stands there is nobody's word.
func (r *KeyRing) Heads(origin string, message []byte) (heads []Head) {
	for line := range strings.Lines(string(message)) {
		words := strings.Fields(strings.TrimPrefix(line, trailer))
		if !strings.HasPrefix(line, trailer) || len(words) != 3 {
			continue
		}
		var s Seen
		text := origin + "\n" + words[0] + "\n" + words[1] + "\n"
		if s.read(text) != nil || !r.signed(origin, text, words[2]) {
			continue
		}
		heads = append(heads, s.Head)
	}
	return heads
}

// signed reports whether a note has a good signature of one of the keys.
func (r *KeyRing) signed(origin, text, sig string) bool {
	var known []note.Verifier
	for _, k := range r.keys {
		if k.worth == Good {
			known = append(known, &noteKey{name: origin, kind: noteSignature, public: raw(k.key)})
		}
	}
	_, err := note.Open([]byte(text+"\n— "+origin+" "+sig+"\n"), note.VerifierList(known...))
	return err == nil
}

// Witnessed returns the checkpoint of what was seen, with the cosignature of a
// witness of that name.
func (m *Memory) Witnessed(repo *gitrepo.Repo, k *Key, name string, now time.Time) ([]byte, error) {
	data, err := fileOf(repo, m.Tip, checkpointFile)
	if err != nil {
		return nil, err
	}
	if text, _, ok := strings.Cut(string(data), "\n\n"); !ok || text+"\n" != m.text() {
		return nil, errors.New("the checkpoint beside the last statement is not that of the chain")
	}
	return k.cosign(name, data, now)
}
