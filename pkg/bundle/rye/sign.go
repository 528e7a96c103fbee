package rye

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
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
	return f.sign(name, translateNewlines(data), t, key, at)
}

// SignHead is Sign for the HEAD generation, in which the path alone decides: all
// bytes after the line are covered as they are.
func SignHead(name string, data []byte, key ed25519.PrivateKey, at time.Time) ([]byte, *bundle.Finding) {
	f, ok := headFormatOf(name)
	if !ok {
		return nil, bundle.Faultf(NoSignatureFormat, name, "a file with the extension %s cannot be signed", finding.Quote(extension(name)))
	}
	return f.sign(name, data, "", key, at)
}

func (f lineFormat) sign(name string, text []byte, t Type, key ed25519.PrivateKey, when time.Time) ([]byte, *bundle.Finding) {
	fail := func(fault *bundle.Finding) ([]byte, *bundle.Finding) { return nil, at(name, fault)[0] }
	text, fault := withoutLine(text, f)
	if fault != nil {
		return fail(fault)
	}
	place := linePlace(text, f)
	if place == 0 && f.afterShebang != "" && bytes.HasPrefix(text, []byte(f.afterShebang)) {
		text = append(bytes.Clone(text), '\n') // a shebang without its line feed
		place = len(text)
	}
	hashed, fault := hashedText(text, &Line{start: place, end: place, Head: f.head}, t)
	switch {
	case fault != nil:
		return fail(fault)
	case f.head && isHeadManifestText(hashed):
		return fail(bundle.Faultf(ManifestMalformed, "", "the text reads as the manifest of a bundle, and whoever signs it signs that bundle: it has name, version and kinds at top level"))
	case !f.head && isManifestText(hashed):
		return fail(bundle.Faultf(ManifestMalformed, "", "the text reads as the manifest of a bundle, and whoever signs it signs that bundle: it has bundle and files at top level"))
	}
	return slices.Concat(text[:place], []byte(signatureLine(f, hashed, key, when)), text[place:]), nil
}

// signatureLine returns the line that signs a hashed text.
func signatureLine(f lineFormat, hashed []byte, key ed25519.PrivateKey, at time.Time) string {
	public := key.Public().(ed25519.PublicKey)
	l := &Line{Time: at.UTC().Format("2006-01-02T15:04:05Z"), Hash: hexSum(hashed), Fingerprint: Fingerprint(public), Head: f.head}
	if f.head {
		l.Fingerprint = LongFingerprint(public)
	}
	l.Signature = ed25519.Sign(key, []byte(l.Hash))
	return f.prefix + " " + l.String() + f.suffix + "\n"
}

// withoutLine removes the line that stands where a signature line belongs and
// has one of the markers that the generation replaces: the HEAD generation all.
func withoutLine(text []byte, f lineFormat) ([]byte, *bundle.Finding) {
	place := linePlace(text, f)
	line, whole := cutLine(text[place:])
	switch m := markerOf(line, f); {
	case m == markerHead && !f.head:
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
// nothing of what was signed (docs/spec/ryebundle.md#manifest).
func isManifestText(text []byte) bool {
	if !bytes.Contains(text, []byte("bundle")) || !bytes.Contains(text, []byte("files")) {
		return false
	}
	root, _, _ := parseYAML(text)
	return child(root, "bundle") != nil && child(root, "files") != nil
}

// isHeadManifestText reports whether a text could stand as the body of a HEAD
// manifest.
func isHeadManifestText(text []byte) bool {
	if !bytes.Contains(text, []byte("name")) || !bytes.Contains(text, []byte("version")) || !bytes.Contains(text, []byte("_kinds")) {
		return false
	}
	root, _, _ := parseYAML(text)
	return child(root, "name") != nil && child(root, "version") != nil && (child(root, "provides_kinds") != nil || child(root, "requires_kinds") != nil)
}
