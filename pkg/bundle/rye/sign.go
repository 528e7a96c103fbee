package rye

import (
	"bytes"
	"crypto/ed25519"
	"time"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
)

// Sign returns the text of an item with its signature line, which replaces one
// that stands there. As in every signed item, line ends are LF afterwards. The
// path, of which the extension counts and whether it is in a key folder, and
// the type say where the line stands and what it covers; at is written as the
// time of signing and covered by nothing.
func Sign(name string, data []byte, t Type, key ed25519.PrivateKey, at time.Time) ([]byte, *bundle.Finding) {
	f, ok := formatOf(t, name)
	if !ok && inKeyFolder(name) {
		f, t, ok = hashLine, Config, true
	}
	if !ok {
		return nil, bundle.Faultf(NoSignatureFormat, name, "a %s of this extension cannot be signed", t)
	}
	if !utf8.Valid(data) {
		return nil, bundle.Faultf(NotUTF8, name, "the text is not valid UTF-8")
	}
	text, fault := withoutLine(translateNewlines(data), f)
	if fault != nil {
		fault.Path = name
		return nil, fault
	}
	place := linePlace(text, f)
	if place == 0 && f.afterShebang != "" && bytes.HasPrefix(text, []byte(f.afterShebang)) {
		text = append(bytes.Clone(text), '\n') // a shebang without its line feed
		place = len(text)
	}
	hashed, fault := hashedText(text, &Line{start: place, end: place}, t)
	if fault != nil {
		fault.Path = name
		return nil, fault
	}
	if isManifestText(hashed) {
		return nil, bundle.Faultf(ManifestMalformed, name, "the text reads as the manifest of a bundle, and whoever signs it signs that bundle: it has bundle and files at top level")
	}
	out := make([]byte, 0, len(text)+300)
	out = append(out, text[:place]...)
	out = append(out, signatureLine(f, hashed, key, at)...)
	return append(out, text[place:]...), nil
}

// signatureLine returns the line that signs a hashed text.
func signatureLine(f lineFormat, hashed []byte, key ed25519.PrivateKey, at time.Time) string {
	l := &Line{Time: at.UTC().Format("2006-01-02T15:04:05Z"), Hash: hexSum(hashed)}
	l.Signature = ed25519.Sign(key, []byte(l.Hash))
	l.Fingerprint = Fingerprint(key.Public().(ed25519.PublicKey))
	return f.prefix + " " + l.String() + f.suffix + "\n"
}

// withoutLine removes the line that stands where a signature line belongs and
// has one of the markers that this generation replaces.
func withoutLine(text []byte, f lineFormat) ([]byte, *bundle.Finding) {
	place := linePlace(text, f)
	line, whole := cutLine(text[place:])
	switch m := markerOf(line, f); {
	case m == markerHead:
		return nil, bundle.Faultf(FormatUnsupported, "", "the item is signed in the format of a newer generation, which can only be read")
	case m == "" && misplaced(text, place, f):
		return nil, bundle.Faultf(SignatureMisplaced, "", "a signature line stands where none may stand: remove it before signing")
	case m == "":
		return text, nil
	}
	end := place + len(line)
	if whole {
		end++
	}
	return append(bytes.Clone(text[:place]), text[end:]...), nil
}

// isManifestText reports whether a text is YAML with bundle and files at top
// level: a signature on it would be one on a manifest, for the message says
// nothing of what was signed (spec/ryebundle.md section 8).
func isManifestText(text []byte) bool {
	if !bytes.Contains(text, []byte("bundle")) || !bytes.Contains(text, []byte("files")) {
		return false
	}
	root, _, _ := parseYAML(text)
	return child(root, "bundle") != nil && child(root, "files") != nil
}
