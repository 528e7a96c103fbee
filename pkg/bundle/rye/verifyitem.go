package rye

import (
	"bytes"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// An ItemReport is the outcome of [VerifyItem].
type ItemReport struct {
	bundle.Result
	Status string  `json:"status"` // "verified" or "failed"
	Signer *string `json:"signer"` // fingerprint, null unless verified
	Trust  Trust   `json:"trust"`  // TrustNone unless verified

	Line *Line `json:"-"` // signature line, nil if none can be read
}

// VerifyItem judges one file on its own: name is its path, of which the
// extension counts and whether it stands in a key folder. A line of the HEAD
// generation is recognised by its marker.
func VerifyItem(name string, data []byte, t Type, keys *Keyring) (*ItemReport, error) {
	if keys == nil {
		keys = &Keyring{}
	}
	r := &ItemReport{Result: bundle.NewResult("verify"), Status: "failed", Trust: TrustNone}
	f, faults := itemLineFormat(name, data, t)
	if len(faults) == 0 && len(data) > MaxFile {
		faults = []*bundle.Finding{tooLarge(name)}
	}
	if len(faults) == 0 {
		s, trust, found, err := verifyText(data, f, t, t == Config && inKeyFolder(name), keys)
		if err != nil {
			return nil, err
		}
		faults = found
		if s != nil {
			r.Line = s.line
		}
		if len(faults) == 0 {
			r.Status, r.Signer, r.Trust = "verified", &s.line.Fingerprint, trust
			if s.partial {
				r.Note(PartialCoverage, name, "the signature does not cover the whole file")
			}
		}
	}
	r.Fail(addHints(at(name, faults...))...)
	r.Finish()
	return r, nil
}

// inKeyFolder reports whether a path, absolute or not, ends in a key document
// of some root.
func inKeyFolder(name string) bool {
	parts := strings.Split(name, "/")
	for i := range parts {
		if isKeyDocument(strings.Join(parts[i:], "/")) {
			return true
		}
	}
	return false
}

// itemLineFormat chooses between the generations.
func itemLineFormat(name string, data []byte, t Type) (lineFormat, []*bundle.Finding) {
	if f, ok := headFormatOf(name); ok {
		line, _ := cutLine(data[linePlace(data, f):])
		if bytes.HasPrefix(line, []byte(f.prefix)) && markerOf(line, f) == markerHead {
			return f, nil
		}
	}
	f, ok := formatOf(t, name)
	if !ok {
		return f, []*bundle.Finding{bundle.Faultf(NoSignatureFormat, name, "a %s with the extension %s cannot be signed", t, finding.Quote(extension(name)))}
	}
	return f, nil
}

// carriesLine reports whether a well-formed signature line stands at its place.
func carriesLine(data []byte, f lineFormat) bool {
	l, _ := parseLine(data, f)
	return l != nil
}

// readText reads the signature line of an item or key document and compares the
// hash: all that needs no key.
func readText(data []byte, f lineFormat, t Type, keyDocument bool) (*signedText, *bundle.Finding) {
	if keyDocument && !f.head {
		return readKeyDocumentLine(data)
	}
	return readSigned(data, f, func(text []byte, l *Line) ([]byte, *bundle.Finding) { return hashedText(text, l, t) })
}

// verifyText verifies the signature in one file. The signedText is nil if there
// is no line that can be taken.
func verifyText(data []byte, f lineFormat, t Type, keyDocument bool, keys *Keyring) (*signedText, Trust, []*bundle.Finding, error) {
	s, fault := readText(data, f, t, keyDocument)
	if fault != nil {
		return s, TrustNone, []*bundle.Finding{fault}, nil
	}
	trust, faults, err := verifyLine(s.line, keys)
	return s, trust, faults, err
}
