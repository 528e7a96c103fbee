package rye

import (
	"crypto/ed25519"
	"errors"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Trust says why a key is trusted.
type Trust string

// The kinds of trust of docs/spec/ryebundle.md#verify.
const (
	TrustPinned  Trust = "pinned"
	TrustProject Trust = "project"
	TrustUser    Trust = "user"
	TrustMachine Trust = "machine" // the administrator's, see [OpenMachineStore]
	TrustNone    Trust = "none"
)

// A Store is one tier of the trust store: a root whose key folders the caller
// has chosen to trust. Key documents are read through Tree, which should offer
// no folder at or below the bundle under test (see [OpenStore]); at a git gate
// it is the tree of the old tip.
type Store struct {
	Trust Trust // TrustProject, TrustUser or TrustMachine
	Tree  bundle.Source
}

// A Keyring decides which keys are trusted by the rules of docs/spec/ryebundle.md#trust.
// Its zero value trusts nobody. It remembers what it read and is for
// one goroutine.
type Keyring struct {
	Pins   []Pin
	Stores []Store       // in order: the project's, the user's, the machine's
	Bundle bundle.Source // root of the bundle under test; supplies bytes of pinned keys, never trust

	docs  map[string][]storedKey
	found map[string]*keyAnswer
}

// A storedKey is a document of a store with what is wrong with it.
type storedKey struct {
	doc   *KeyDocument // nil if it cannot be read
	trust Trust
	where string
	fault *bundle.Finding
}

type keyAnswer struct {
	key     ed25519.PublicKey
	trust   Trust
	reasons []*bundle.Finding
	err     error
}

// Key returns the trusted key of a fingerprint. If there is none, trust is
// TrustNone and the findings say why: untrusted-key first, then what is wrong
// with each document of that name. The error is one of reading.
func (k *Keyring) Key(fp string) (ed25519.PublicKey, Trust, []*bundle.Finding, error) {
	a := k.found[fp]
	if a == nil {
		a = &keyAnswer{}
		a.key, a.trust, a.reasons, a.err = k.resolve(fp)
		if k.found == nil {
			k.found = map[string]*keyAnswer{}
		}
		k.found[fp] = a
	}
	return a.key, a.trust, a.reasons, a.err
}

// asked reports whether Key was asked for a fingerprint: if so, it only looks
// the answer up and may be called by several goroutines.
func (k *Keyring) asked(fp string) bool { return k.found[fp] != nil }

func (k *Keyring) resolve(fp string) (ed25519.PublicKey, Trust, []*bundle.Finding, error) {
	if !isFingerprint(fp) {
		return nil, TrustNone, nil, errors.New("not a fingerprint")
	}
	key, err := k.pinned(fp)
	if err != nil {
		return nil, TrustNone, nil, err
	}
	if key != nil {
		return key, TrustPinned, nil, nil
	}
	own, err := k.stored(fp)
	if err != nil {
		return nil, TrustNone, nil, err
	}
	var reasons []*bundle.Finding
	for _, s := range own {
		fault := s.fault
		if fault == nil {
			if fault, err = k.judge(fp, s); err != nil {
				return nil, TrustNone, nil, err
			}
		}
		if fault == nil {
			return s.doc.Key, s.trust, nil, nil
		}
		reasons = append(reasons, fault)
	}
	fault, err := k.untrusted(fp)
	if err != nil {
		return nil, TrustNone, nil, err
	}
	return nil, TrustNone, append([]*bundle.Finding{fault}, reasons...), nil
}

// judge checks the signature on a document whose signer is not fp itself only
// through other keys that are trusted without it.
func (k *Keyring) judge(fp string, s storedKey) (*bundle.Finding, error) {
	if s.doc.selfSigned() {
		return s.doc.checkSignature(s.doc.Key, s.where), nil
	}
	signer := s.doc.Signer
	trusted, ring, err := k.reach(signer, fp)
	if err != nil {
		return nil, err
	}
	if key := trusted[signer]; key != nil {
		return s.doc.checkSignature(key, s.where), nil
	}
	if ring {
		return bundle.Faultf(KeyCycle, s.where, "the key document's signers lead back to themselves: nobody outside the ring vouches for them"), nil
	}
	return bundle.Faultf(KeySignerUntrusted, s.where, "the key document is signed by %s, which is not trusted itself", signer), nil
}

func (d *KeyDocument) checkSignature(key ed25519.PublicKey, where string) *bundle.Finding {
	if !d.line.verifies(key) {
		return bundle.Faultf(KeyInvalid, where, "the signature on the key document is not that of %s", d.Signer)
	}
	return nil
}

// reach returns the keys that are trusted among start and the signers that its
// documents lead to, without any document of the fingerprint but. ring tells
// whether the signers lead back to one of themselves or to but.
func (k *Keyring) reach(start, but string) (trusted map[string]ed25519.PublicKey, ring bool, err error) {
	trusted = map[string]ed25519.PublicKey{}
	documents := map[string][]storedKey{}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		fp := queue[0]
		if _, seen := documents[fp]; seen || fp == but {
			continue
		}
		key, err := k.pinned(fp)
		if err != nil {
			return nil, false, err
		}
		if key != nil {
			trusted[fp] = key
			documents[fp] = nil
			continue
		}
		if documents[fp], err = k.stored(fp); err != nil {
			return nil, false, err
		}
		for _, s := range documents[fp] {
			if s.fault == nil && !s.doc.selfSigned() {
				queue = append(queue, s.doc.Signer)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for fp, list := range documents {
			for _, s := range list {
				if s.fault != nil || trusted[fp] != nil {
					continue
				}
				signer := trusted[s.doc.Signer]
				if s.doc.selfSigned() {
					signer = s.doc.Key
				}
				if signer != nil && s.doc.checkSignature(signer, "") == nil {
					trusted[fp] = s.doc.Key
					changed = true
				}
			}
		}
	}
	return trusted, hasRing(documents, start, but), nil
}

// hasRing walks from start to signers and reports whether one of them, or but,
// is met again on the way.
func hasRing(documents map[string][]storedKey, start, but string) bool {
	const open, done = 1, 2
	state := map[string]int{}
	var walk func(fp string) bool
	walk = func(fp string) bool {
		if fp == but || state[fp] == open {
			return true
		}
		if state[fp] == done {
			return false
		}
		state[fp] = open
		for _, s := range documents[fp] {
			if s.fault == nil && !s.doc.selfSigned() && walk(s.doc.Signer) {
				return true
			}
		}
		state[fp] = done
		return false
	}
	return walk(start)
}

// stored reads the documents of a fingerprint from all stores.
func (k *Keyring) stored(fp string) ([]storedKey, error) {
	if list, ok := k.docs[fp]; ok {
		return list, nil
	}
	var list []storedKey
	for _, st := range k.Stores {
		for _, p := range keyDocumentPaths(fp) {
			data, fault, err := readKeyFile(st.Tree, p)
			if err != nil {
				return nil, err
			}
			if data == nil && fault == nil {
				continue
			}
			s := storedKey{trust: st.Trust, where: p, fault: fault}
			if fault == nil {
				if s.doc, s.fault = ParseKeyDocument(data); s.fault == nil {
					s.fault = s.doc.checkStored(fp, p)
				} else {
					s.fault.Path = p
				}
			}
			list = append(list, s)
		}
	}
	if k.docs == nil {
		k.docs = map[string][]storedKey{}
	}
	k.docs[fp] = list
	return list, nil
}

// readKeyFile reads a file that may be absent: then data is nil.
func readKeyFile(t bundle.Source, p string) (data []byte, fault *bundle.Finding, err error) {
	data, code, err := load(t, p, MaxKeyDocument, nil)
	switch code {
	case "", FileMissing:
		return data, nil, err
	case LimitExceeded:
		return nil, bundle.Faultf(KeyInvalid, p, "the key document has more than %d bytes", MaxKeyDocument), nil
	}
	return nil, bundle.Faultf(KeyInvalid, p, "the key document is not a regular file"), nil
}

// pinned returns the key of a fingerprint if a pin names it and its bytes can
// be had, else nil.
func (k *Keyring) pinned(fp string) (ed25519.PublicKey, error) {
	for _, p := range k.Pins {
		if p.key != nil {
			if fingerprintLike(p.key, fp) == fp {
				return p.key, nil
			}
			continue
		}
		if len(p.fingerprint) == len(fp) && p.fingerprint != fp {
			continue
		}
		for _, name := range []string{fp, p.fingerprint} {
			docs, err := k.suppliers(name)
			if err != nil {
				return nil, err
			}
			for _, d := range docs {
				if fingerprintLike(d.Key, fp) == fp && p.matches(d.Key) {
					return d.Key, nil
				}
			}
		}
	}
	return nil, nil
}

// publisherFile is a document that HEAD publishers ship beside .ai.
const publisherFile = "PUBLISHER_TRUST.toml"

// suppliers returns the documents that may supply the bytes of a key: those of
// the stores, and those of the bundle under test.
func (k *Keyring) suppliers(fp string) ([]*KeyDocument, error) {
	var docs []*KeyDocument
	stored, err := k.stored(fp)
	if err != nil {
		return nil, err
	}
	for _, s := range stored {
		if s.doc != nil {
			docs = append(docs, s.doc)
		}
	}
	if k.Bundle == nil {
		return docs, nil
	}
	for _, p := range append(keyDocumentPaths(fp), publisherFile) {
		data, _, err := readKeyFile(k.Bundle, p)
		if err != nil {
			return nil, err
		}
		if d, _ := ParseKeyDocument(data); d != nil {
			docs = append(docs, d)
		}
	}
	return docs, nil
}

// bytes returns the key of a fingerprint from wherever it can be had, trusted
// or not; nil if it is nowhere.
func (k *Keyring) bytes(fp string) (ed25519.PublicKey, error) {
	key, _, _, err := k.Key(fp)
	if key != nil || err != nil {
		return key, err
	}
	docs, err := k.suppliers(fp)
	for _, d := range docs {
		if fingerprintLike(d.Key, fp) == fp {
			return d.Key, nil
		}
	}
	return nil, err
}

// untrusted says that a key is in no store and not pinned, or pinned by a
// fingerprint alone and nowhere to be had, and how to change that.
func (k *Keyring) untrusted(fp string) (*bundle.Finding, error) {
	for _, p := range k.Pins {
		if p.key == nil && p.fingerprint == fp {
			f := bundle.Faultf(UntrustedKey, "", "the signer %s is pinned, but neither a trust store nor the bundle has the key itself", fp)
			f.Hint = "--trust-fingerprint ed25519:BASE64 # the key in base64, not only its fingerprint"
			return f, nil
		}
	}
	f := bundle.Faultf(UntrustedKey, "", "the signer %s is in no trust store and not pinned", fp)
	f.Hint = "ask the signer for the key document " + fp + ".toml, then: rig-bundle trust add " + fp + ".toml --key OWN.pem " +
		"(OWN.pem is your own key, which is trusted once: rig-bundle trust add --key OWN.pem)"
	docs, err := k.suppliers(fp)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if fingerprintLike(d.Key, fp) == fp {
			f.Message += ", its key is at hand as " + LongFingerprint(d.Key)
			if d.Owner != "" {
				f.Message += " and calls itself " + finding.QuoteMax(d.Owner, 60)
			}
			f.Hint = "--trust-fingerprint " + LongFingerprint(d.Key) + " # once its owner has told you the same fingerprint"
			break
		}
	}
	return f, nil
}
