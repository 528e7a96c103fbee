package image

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rigward/rigward/pkg/bundle"
)

// Words of a statement about a rebuild (in-toto Statement v1, SLSA Provenance v1, DSSE v1.0.2).
const (
	statementType = "https://in-toto.io/Statement/v1"
	slsaType      = "https://slsa.dev/provenance/v1"
	payloadType   = "application/vnd.in-toto+json"
	rebuildType   = "https://github.com/rigward/rigward/rig-bundle-rebuild/v1"
	composeType   = "https://github.com/rigward/rigward/rig-bundle-image/v1"
	builderID     = "https://github.com/rigward/rigward/rig-bundle"
)

// Namespaces of SSH signatures: of statements, and of an image's manifest.
const (
	ProvenanceNamespace = "agent-bundle-provenance"
	ImageNamespace      = "agent-bundle-image"
)

// A Statement says that somebody packed a source again and got the bundle.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType          string `json:"buildType"`
		ExternalParameters struct {
			TarDigest string `json:"tarDigest,omitempty"` // of the bundle that was built again
			Version   string `json:"version"`             // of rig-bundle
		} `json:"externalParameters"`
		ResolvedDependencies []subject `json:"resolvedDependencies,omitempty"` // of an image: base and bundle of each
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// RebuildStatement is the statement about a bundle whose source gives tar again, by a version of rig-bundle.
func RebuildStatement(file string, digest, tar bundle.Digest, version string) *Statement {
	s := &Statement{Type: statementType, Subject: []subject{{file, map[string]string{"sha256": digest.Hex()}}}, PredicateType: slsaType}
	s.Predicate.BuildDefinition.BuildType = rebuildType
	s.Predicate.BuildDefinition.ExternalParameters.TarDigest = tar.String()
	s.Predicate.BuildDefinition.ExternalParameters.Version = version
	s.Predicate.RunDetails.Builder.ID = builderID
	return s
}

// imageStatement is the statement about an image, or an index, that was composed of these by a version of rig-bundle.
func imageStatement(name string, digest v1.Hash, made []Made, version string) *Statement {
	s := &Statement{Type: statementType, Subject: []subject{{name, map[string]string{"sha256": digest.Hex}}}, PredicateType: slsaType}
	s.Predicate.BuildDefinition.BuildType = composeType
	s.Predicate.BuildDefinition.ExternalParameters.Version = version
	s.Predicate.BuildDefinition.ResolvedDependencies = materials(made)
	s.Predicate.RunDetails.Builder.ID = builderID
	return s
}

// materials are what images were composed of: bases by the digests of their manifests, bundles by those of their tar
// streams.
func materials(made []Made) (list []subject) {
	for _, m := range made {
		list = append(list, subject{"base " + m.Platform, map[string]string{"sha256": strings.TrimPrefix(m.Base, "sha256:")}},
			subject{"bundle " + m.Platform, map[string]string{"sha256": strings.TrimPrefix(m.Bundle, "sha256:")}})
	}
	return list
}

// envelope is DSSE's. The signature is an armored SSH signature.
type envelope struct {
	PayloadType string     `json:"payloadType"`
	Payload     string     `json:"payload"`
	Signatures  []dsseSign `json:"signatures"`
}

type dsseSign struct {
	KeyID string `json:"keyid,omitempty"`
	Sig   string `json:"sig"`
}

// encoded is what is signed of a payload (DSSE, "PAE").
func encoded(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

// Seal makes the envelope of a statement. sign signs what it is given, and says by which key.
func (s *Statement) Seal(sign func([]byte) (armored []byte, key string, err error)) ([]byte, error) {
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	sig, key, err := sign(encoded(payload))
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{payloadType, base64.StdEncoding.EncodeToString(payload), []dsseSign{{key, base64.StdEncoding.EncodeToString(sig)}}})
}

// CheckEnvelope judges an envelope: by a signature that the rules accept, it has to say that the bundle of these digests
// is what its source makes. The error says why it does not.
func CheckEnvelope(data []byte, rules bundle.SignatureRules, digest, tar bundle.Digest) error {
	s, err := unsealed(data, rules, rebuildType, "the statement is not about a rebuild")
	if err != nil {
		return err
	}
	if !s.about(digest.Hex()) || s.Predicate.BuildDefinition.ExternalParameters.TarDigest != tar.String() {
		return errors.New("the statement is about another bundle")
	}
	return nil
}

// CheckImageEnvelope judges an envelope: by a signature that the rules accept, it has to say that the image of this digest
// was composed of the bases and bundles that it names itself. The error says why it does not.
func CheckImageEnvelope(data []byte, rules bundle.SignatureRules, digest v1.Hash, made []Made) error {
	s, err := unsealed(data, rules, composeType, "the statement is not about an image")
	if err != nil {
		return err
	}
	if !s.about(digest.Hex) || !reflect.DeepEqual(s.Predicate.BuildDefinition.ResolvedDependencies, materials(made)) {
		return errors.New("the statement is about another image")
	}
	return nil
}

// about reports whether a digest is one of the statement's subjects.
func (s *Statement) about(hex string) bool {
	return slices.ContainsFunc(s.Subject, func(sub subject) bool { return sub.Digest["sha256"] == hex })
}

// unsealed is the statement of an envelope which was signed by whom the rules trust, and is of a build type.
func unsealed(data []byte, rules bundle.SignatureRules, buildType, otherwise string) (*Statement, error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil || e.PayloadType != payloadType {
		return nil, errors.New("the envelope does not hold a statement of in-toto")
	}
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		return nil, errors.New("the envelope's payload is not base64")
	}
	rules.Namespace, rules.Require = ProvenanceNamespace, true
	signed := errors.New("the envelope has no signature")
	for _, s := range e.Signatures[:min(len(e.Signatures), 8)] {
		armored, err := base64.StdEncoding.DecodeString(s.Sig)
		if err != nil {
			continue
		}
		fault, _, err := rules.Check(io.Reader(bytes.NewReader(encoded(payload))), armored)
		if err != nil {
			return nil, err
		}
		if fault == nil {
			signed = nil
			break
		}
		signed = fault
	}
	if signed != nil {
		return nil, signed
	}
	s := &Statement{}
	if err := json.Unmarshal(payload, s); err != nil || s.Type != statementType || s.PredicateType != slsaType || s.Predicate.BuildDefinition.BuildType != buildType {
		return nil, errors.New(otherwise)
	}
	return s, nil
}
