package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Types of what registries keep for bundles (docs/spec/agentbundle.md#artifacts).
const (
	bundleType     = "application/vnd.rigward.agent-bundle.v1"
	signatureType  = "application/vnd.rigward.sshsig.v1"
	provenanceType = "application/vnd.rigward.provenance.v1"
	envelopeType   = "application/vnd.dsse.envelope.v1+json"
	emptyType      = "application/vnd.oci.empty.v1+json"

	titleKey = "org.opencontainers.image.title"
)

const (
	maxReferrers = 64       // of one bundle that are looked at
	maxProof     = 64 << 10 // bytes of a signature or an envelope
)

// An Artifact is a bundle with what proves where it comes from, as it is pushed and pulled.
type Artifact struct {
	Title      string // file name of the bundle
	Zstd       bool   // its compression, gzip otherwise
	File       io.ReaderAt
	Size       int64
	FileDigest bundle.Digest
	About      map[string]string // annotations

	Proofs
	Digest string // of its manifest, once it was pushed or pulled
	close  func()
}

// Proofs are what refers to an artifact or an image, and says where it comes from.
type Proofs struct {
	Signatures [][]byte // armored SSH signatures of the file, or of the image's manifest
	Envelopes  [][]byte // DSSE envelopes of statements about it
}

// attached are the blobs and the manifests by which the proofs refer to a subject.
func (p Proofs) attached(subject v1.Descriptor) (blobs, manifests []content, err error) {
	empty := inMemory(emptyType, []byte("{}"))
	subject = v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	add := func(artifactType, mediaType string, list [][]byte) error {
		for _, data := range list {
			b := inMemory(types.MediaType(mediaType), data)
			m, err := artifact(artifactType, empty, b, &subject, nil)
			if err != nil {
				return err
			}
			blobs, manifests = append(blobs, empty, b), append(manifests, m)
		}
		return nil
	}
	err = errors.Join(add(signatureType, signatureType, p.Signatures), add(provenanceType, envelopeType, p.Envelopes))
	return blobs, manifests, err
}

// Close removes what was fetched.
func (a *Artifact) Close() {
	if a.close != nil {
		a.close()
	}
}

// Push uploads a bundle and its proof: blobs, then manifests, then the name. Signatures and envelopes refer to the
// manifest of the bundle, by the registry's own list of referrers or by the tag that stands for it.
func (a *Artifact) Push(ctx context.Context, ref name.Reference, net *Network) error {
	empty := inMemory(emptyType, []byte("{}"))
	kind := "gzip"
	if a.Zstd {
		kind = "zstd"
	}
	file := content{v1.Descriptor{MediaType: types.MediaType(bundleType + ".tar+" + kind), Size: a.Size, Digest: v1.Hash{Algorithm: "sha256", Hex: a.FileDigest.Hex()},
		Annotations: map[string]string{titleKey: a.Title}},
		func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(a.File, 0, a.Size)), nil
		}}
	blobs := []content{empty, file}
	main, err := artifact(bundleType, empty, file, nil, a.About)
	if err != nil {
		return err
	}
	proof, manifests, err := a.attached(main.d)
	if err != nil {
		return err
	}
	if err := pushAll(ctx, ref, net, append(blobs, proof...), append(manifests, main)); err != nil {
		return err
	}
	a.Digest = main.d.Digest.String()
	return nil
}

// artifact is a manifest of one blob that is no image.
func artifact(kind string, empty, blob content, subject *v1.Descriptor, about map[string]string) (content, error) {
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: kind, Config: empty.d, Layers: []v1.Descriptor{blob.d}, Subject: subject, Annotations: about}
	raw, err := json.Marshal(m)
	return inMemory(types.OCIManifestSchema1, raw), err
}

// Pull fetches a bundle into a scratch file, and what refers to it. Nothing of it is judged but its digests. The error is
// an *UnreadableError.
func Pull(ctx context.Context, given string, ref name.Reference, net *Network, limits bundle.Limits) (*Artifact, error) {
	a, err := pull(ctx, ref, net, limits)
	if err != nil {
		return nil, &UnreadableError{given, err}
	}
	return a, nil
}

func pull(ctx context.Context, ref name.Reference, net *Network, limits bundle.Limits) (*Artifact, error) {
	r, err := openRegistry(ref, net)
	if err != nil {
		return nil, err
	}
	root, raw, err := r.root(ctx)
	if err != nil {
		return nil, err
	}
	if isImage(root.MediaType, raw) {
		return nil, ErrImage
	}
	d, err := onlyBlob(raw, root.MediaType, bundleType, nil)
	if err != nil {
		return nil, err
	}
	a := &Artifact{Title: d.Annotations[titleKey], Digest: root.Digest.String(), Size: d.Size}
	switch d.MediaType {
	case bundleType + ".tar+gzip":
	case bundleType + ".tar+zstd":
		a.Zstd = true
	default:
		return nil, fmt.Errorf("it holds %s, a bundle is expected", finding.QuoteMax(string(d.MediaType), 100))
	}
	if strings.ContainsAny(a.Title, "/\\:\x00") || a.Title == "" || a.Title == "." || a.Title == ".." || len(a.Title) > 255 {
		return nil, fmt.Errorf("its file is called %s, which is not the name of a file", finding.QuoteMax(a.Title, 200))
	}
	if d.Size > limits.TotalSize {
		return nil, fmt.Errorf("its bundle has %d bytes, the limit total-size is %d", d.Size, limits.TotalSize)
	}
	blob, err := r.blob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	f, done, err := bundle.Scratch("")
	if err != nil {
		return nil, err
	}
	a.File, a.close = f, done
	if _, err = io.Copy(f, contextReader{ctx, blob}); err == nil {
		a.Proofs, err = r.proofs(ctx, root, net)
	}
	if err != nil {
		done()
		return nil, err
	}
	return a, nil
}

// ErrImage says that a name is that of an image, not of a bundle.
var ErrImage = errors.New("it is an image, a bundle is expected")

// isImage reports whether a manifest is that of an image, or of several.
func isImage(mediaType types.MediaType, raw []byte) bool {
	var m v1.Manifest
	return mediaType.IsIndex() || mediaType == types.DockerManifestSchema2 ||
		mediaType == types.OCIManifestSchema1 && json.Unmarshal(raw, &m) == nil && m.ArtifactType == "" && m.Config.MediaType == types.OCIConfigJSON
}

// onlyBlob is the one blob of an artifact of a kind, which has to refer to subject.
func onlyBlob(raw []byte, mediaType types.MediaType, kind string, subject *v1.Hash) (v1.Descriptor, error) {
	var m v1.Manifest
	if mediaType != types.OCIManifestSchema1 {
		return v1.Descriptor{}, fmt.Errorf("it is %s, a manifest of an artifact is expected", finding.QuoteMax(string(mediaType), 100))
	}
	if err := strict(raw, mediaType, &m); err != nil {
		return v1.Descriptor{}, err
	}
	switch {
	case m.ArtifactType != kind:
		return v1.Descriptor{}, fmt.Errorf("it is an artifact %s, %s is expected", finding.QuoteMax(m.ArtifactType, 100), kind)
	case len(m.Layers) != 1:
		return v1.Descriptor{}, fmt.Errorf("it holds %d blobs, one is expected", len(m.Layers))
	case subject != nil && (m.Subject == nil || m.Subject.Digest != *subject):
		return v1.Descriptor{}, errors.New("it refers to something else")
	}
	return m.Layers[0], checkDescriptor(m.Layers[0], "its blob")
}

// proofs collects what refers to a manifest. One that is not what it is listed as is left out: it proves nothing, and
// whoever can add one could keep the others from being found otherwise.
func (r *registry) proofs(ctx context.Context, root v1.Descriptor, net *Network) (p Proofs, err error) {
	at := r.ref.Context().Digest(root.Digest.String())
	index, err := remote.Referrers(at, append(net.options(at.Context()), remote.WithContext(ctx))...)
	if err != nil {
		return p, err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return p, errors.New("the list of what refers to it is not JSON of an index")
	}
	seen := 0
	for _, d := range list.Manifests {
		if !slices.Contains([]string{signatureType, provenanceType, emptyType, ""}, d.ArtifactType) { // older registries tell the config's type
			continue
		}
		if seen++; seen > maxReferrers {
			return p, fmt.Errorf("more than %d signatures and statements refer to it", maxReferrers)
		}
		kind, data, err := r.proof(ctx, d, root.Digest)
		switch {
		case ctx.Err() != nil:
			return p, ctx.Err()
		case err != nil:
		case kind == signatureType:
			p.Signatures = append(p.Signatures, data)
		case kind == provenanceType:
			p.Envelopes = append(p.Envelopes, data)
		}
	}
	return p, nil
}

// proof reads one that refers to the subject, and says of which kind it is.
func (r *registry) proof(ctx context.Context, d v1.Descriptor, subject v1.Hash) (kind string, data []byte, err error) {
	if !d.MediaType.IsImage() {
		return "", nil, errors.New("it is not a manifest")
	}
	raw, err := readDocument(ctx, r, d, "a manifest")
	if err != nil {
		return "", nil, err
	}
	var said struct {
		ArtifactType string `json:"artifactType"`
	}
	if err := json.Unmarshal(raw, &said); err != nil || said.ArtifactType != signatureType && said.ArtifactType != provenanceType {
		return "", nil, errors.New("it is something else")
	}
	b, err := onlyBlob(raw, d.MediaType, said.ArtifactType, &subject)
	if err != nil {
		return "", nil, err
	}
	if b.Size > maxProof {
		return "", nil, errors.New("it is too large")
	}
	data, err = readDocument(ctx, r, b, "a proof")
	return said.ArtifactType, data, err
}
