package rye

import (
	"bytes"
	"crypto/ed25519"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// A KeyDocument is a public key with what its file says about it
// (docs/spec/ryebundle.md#trust). Owner, Version, Category and Attestation are
// unproven text. Whether the document counts for anything is for a [Keyring]
// to say.
type KeyDocument struct {
	Fingerprint string // as the document says, 16 or 64 hex
	Key         ed25519.PublicKey
	Owner       string
	Version     string
	Category    string
	Attestation string
	Signer      string // fingerprint in the signature line, "" if there is none that can be read

	line *Line
	read *bundle.Finding // what is wrong with the signature line or the hash, nil if nothing
}

// ParseKeyDocument reads a key document or a publisher's PUBLISHER_TRUST.toml.
// It takes unsigned ones too, and ones whose signature is wrong, because they
// can still supply the bytes of a pinned key. The fault of a document that
// names no key has the code key-invalid.
func ParseKeyDocument(data []byte) (*KeyDocument, *bundle.Finding) {
	if len(data) > MaxKeyDocument {
		return nil, bundle.Faultf(KeyInvalid, "", "the key document has more than %d bytes", MaxKeyDocument)
	}
	if !utf8.Valid(data) {
		return nil, bundle.Faultf(KeyInvalid, "", "the key document is not valid UTF-8")
	}
	doc, err := parseTOML(string(translateNewlines(data)))
	if err != nil {
		return nil, bundle.Faultf(KeyInvalid, "", "the key document is not TOML that a key document can be: %v", err)
	}
	d := &KeyDocument{}
	var ok bool
	if d.Fingerprint, ok = doc.text("fingerprint"); !ok {
		return nil, bundle.Faultf(KeyInvalid, "", "the key document has no text fingerprint")
	}
	if text, found := doc.text("public_key", "pem"); found {
		d.Key, ok = decodeKey(text)
	} else {
		text, _ = doc.text("public_key")
		d.Key, ok = parseKeyText(text)
	}
	if !ok {
		return nil, bundle.Faultf(KeyInvalid, "", "the key document has no Ed25519 key in the canonical PEM form under [public_key] pem")
	}
	d.Owner, _ = doc.text("owner")
	d.Version, _ = doc.text("version")
	d.Category, _ = doc.text("category")
	d.Attestation, _ = doc.text("attestation")
	s, fault := readKeyDocumentLine(data)
	d.read = fault
	if s != nil {
		d.line = s.line
		d.Signer = s.line.Fingerprint
	}
	return d, nil
}

func readKeyDocumentLine(data []byte) (*signedText, *bundle.Finding) {
	return readSigned(data, hashLine, func(text []byte, l *Line) ([]byte, *bundle.Finding) {
		if l.Provider != "" {
			return nil, bundle.Faultf(UnsignedProvenance, "", "the signature line of a key document claims a registry origin, which no signature covers")
		}
		return hashedText(text, l, Config)
	})
}

// checkStored judges a document as one of a store, its signer's trust aside:
// name is the file name without ".toml". It returns nil if nothing but the
// signature itself is left to check.
func (d *KeyDocument) checkStored(name, where string) *bundle.Finding {
	if d.Fingerprint != name || fingerprintLike(d.Key, name) != name {
		return bundle.Faultf(KeyMismatch, where, "the file name, the fingerprint %s and the key of the document disagree: the key is %s", finding.QuoteMax(d.Fingerprint, 80), fingerprintLike(d.Key, name))
	}
	switch {
	case d.read == nil:
		return nil
	case d.read.Code == ItemUnsigned:
		return bundle.Faultf(KeyUnsigned, where, "the key document carries no signature")
	case d.read.Code == UnsignedProvenance:
		return bundle.Faultf(UnsignedProvenance, where, "%s", d.read.Message)
	}
	return bundle.Faultf(KeyInvalid, where, "the key document's signature cannot be taken: %s", d.read.Message)
}

// selfSigned reports whether the document's line names the document's own key.
func (d *KeyDocument) selfSigned() bool {
	return d.line.Fingerprint == fingerprintLike(d.Key, d.line.Fingerprint)
}

// renderKeyDocument writes the text of a key document below its signature line.
func renderKeyDocument(key ed25519.PublicKey, fingerprint, owner string) []byte {
	var b bytes.Buffer
	b.WriteString("version = \"1.0.0\"\ncategory = \"keys/trusted\"\nfingerprint = \"" + fingerprint + "\"\nowner = ")
	b.WriteString(tomlString(owner))
	b.WriteString("\nattestation = \"\"\n\n[public_key]\npem = \"\"\"\n" + EncodeKey(key) + "\"\"\"\n")
	return b.Bytes()
}

// tomlString writes a text as a basic string of TOML.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			b.Write(appendU(nil, r))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// keyDocumentPaths returns where in a root the document of a fingerprint can
// stand, in the order in which they are looked at.
func keyDocumentPaths(fp string) []string {
	paths := make([]string, len(keyFolders))
	for i, f := range keyFolders {
		paths[i] = path.Join(f, fp+".toml")
	}
	return paths
}
