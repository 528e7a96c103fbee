package attest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"
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

// keyHash is how a note names a key.
func keyHash(name string, kind byte, public ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(slices.Concat([]byte(name+"\n"), []byte{kind}, public))
	return binary.BigEndian.Uint32(sum[:])
}

// noteSigner signs notes with a Key.
type noteSigner struct {
	name string
	key  *Key
}

func (n noteSigner) Name() string { return n.name }
func (n noteSigner) KeyHash() uint32 {
	return keyHash(n.name, noteSignature, raw(n.key.Public))
}
func (n noteSigner) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(n.key.private, msg), nil }

// Checkpoint is the signed head of a chain, in the form of C2SP's tlog-checkpoint.
func (k *Key) Checkpoint(c *Chain) ([]byte, error) {
	return note.Sign(&note.Note{Text: c.text()}, noteSigner{c.Origin(), k})
}
