package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rigward/rigward/internal/test/layout"
)

// rawManifest is a manifest as whoever may push can write it.
type rawManifest struct {
	text      []byte
	mediaType types.MediaType
}

func (m rawManifest) RawManifest() ([]byte, error)        { return m.text, nil }
func (m rawManifest) MediaType() (types.MediaType, error) { return m.mediaType, nil }

const (
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	sigType     = "application/vnd.rigward.sshsig.v1"
	proofType   = "application/vnd.rigward.provenance.v1"
)

// A shelf is one repository of a registry, with the hands of an attacker.
type shelf struct {
	t    *testing.T
	host string
	repo name.Repository
}

func newShelf(t *testing.T, host, repo string) shelf {
	r, err := name.NewRepository(host + "/" + repo)
	if err != nil {
		t.Fatal(err)
	}
	return shelf{t, host, r}
}

// get reads a manifest or blob.
func (s shelf) get(kind, ref string) []byte {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+s.host+"/v2/"+s.repo.RepositoryStr()+"/"+kind+"/"+ref, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Accept", ociManifest+", application/vnd.oci.image.index.v1+json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s: %d %v", kind, ref, resp.StatusCode, err)
	}
	return data
}

// proof is the blob of the first of a kind that refers to a digest.
func (s shelf) proof(digest, kind string) []byte {
	s.t.Helper()
	var list struct{ Manifests []struct{ Digest string } }
	if err := json.Unmarshal(s.get("referrers", digest), &list); err != nil {
		s.t.Fatal(err)
	}
	for _, m := range list.Manifests {
		var about struct {
			ArtifactType string
			Layers       []struct{ Digest string }
		}
		if err := json.Unmarshal(s.get("manifests", m.Digest), &about); err != nil {
			s.t.Fatal(err)
		}
		if about.ArtifactType == kind {
			return s.get("blobs", about.Layers[0].Digest)
		}
	}
	s.t.Fatalf("no %s refers to %s", kind, digest)
	return nil
}

// attach makes a blob refer to a manifest.
func (s shelf) attach(subject, kind string, data []byte) {
	s.t.Helper()
	mediaType := types.MediaType(kind)
	if kind == proofType {
		mediaType = "application/vnd.dsse.envelope.v1+json"
	}
	of := func(data []byte, t types.MediaType) map[string]any {
		l := static.NewLayer(data, t)
		if err := remote.WriteLayer(s.repo, l); err != nil {
			s.t.Fatal(err)
		}
		d, _ := l.Digest()
		return map[string]any{"mediaType": t, "digest": d.String(), "size": len(data)}
	}
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": ociManifest, "artifactType": kind, "config": of([]byte("{}"), "application/vnd.oci.empty.v1+json"),
		"layers": []any{of(data, mediaType)}, "subject": map[string]any{"mediaType": ociManifest, "digest": subject, "size": len(s.get("manifests", subject))}})
	if err != nil {
		s.t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if err := remote.Put(s.repo.Digest("sha256:"+hex.EncodeToString(sum[:])), rawManifest{text, ociManifest}); err != nil {
		s.t.Fatal(err)
	}
}

// TestImageProof: an image counts as signed and as composed if who is trusted says so of this image, in this use; what is
// said of another one, or by somebody else, counts for nothing and keeps nothing good from counting.
func TestImageProof(t *testing.T) {
	dir := t.TempDir()
	name := agentBundle(t, dir, nil, nil)
	arm := agentBundle(t, dir, map[string]any{"arch": "arm64", "name": "both"}, nil)
	amd := agentBundle(t, dir, map[string]any{"name": "both"}, nil)
	layout.Write(t, filepath.Join(dir, "base"), "amd64", muslBase)
	layout.Write(t, filepath.Join(dir, "newer"), "amd64", map[string]string{"lib/ld-musl-x86_64.so.1": "loader", "bin/sh": "sh", "etc/motd": "x"})
	key, signers := sshKey(t, dir, "key", "op@example.com")
	stranger, _ := sshKey(t, dir, "stranger", "op@example.com")
	var change func(r *http.Request, w *httptest.ResponseRecorder)
	host := serve(t, registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)), func(r *http.Request, w *httptest.ResponseRecorder) {
		if change != nil {
			change(r, w)
		}
	})
	push := func(base, ref string, more ...string) string {
		t.Helper()
		return agentObject(t, dir, nil, 0, append([]string{"image", name, "--base", base, "-o", host + "/" + ref}, more...)...)["digest"].(string)
	}
	verify := func(what string, exit int, code, ref string, more ...string) {
		t.Helper()
		if v := agentObject(t, dir, nil, exit, append([]string{"verify", host + "/" + ref, "--allowed-signers", signers}, more...)...); v["code"] != code {
			t.Errorf("%s: %v, expected %s", what, v, code)
		}
	}
	const require = "--require-provenance"
	s := newShelf(t, host, "acme/agent")
	digest := push("oci:base", "acme/agent:1", "--key", key)
	verify("as composed", 0, "ok", "acme/agent:1", require, "--signer", "op@example.com")
	verify("by its digest", 0, "ok", "acme/agent@"+digest, require)
	if v := agentObject(t, dir, nil, 0, "verify", host+"/acme/agent:1"); v["digest"] != digest || len(v["images"].([]any)) != 1 {
		t.Errorf("without signers: %v", v)
	}
	verify("another principal", 1, "signature-untrusted", "acme/agent:1", "--signer", "other@example.com")
	unsigned := push("oci:newer", "acme/agent:2")
	if unsigned == digest {
		t.Fatal("two bases, one image")
	}
	verify("unsigned", 1, "signature-missing", "acme/agent:2")
	s.attach(unsigned, sigType, s.proof(digest, sigType))
	verify("the signature of another image", 1, "signature-invalid", "acme/agent:2")
	push("oci:newer", "acme/other:1", "--key", stranger)
	verify("the signature of a stranger", 1, "signature-untrusted", "acme/other:1")
	put(t, filepath.Join(dir, "manifest"), string(s.get("manifests", unsigned)), 0o644)
	agentObject(t, dir, nil, 0, "sign", "--format", "agent", "manifest", "--key", key)
	misused, _ := os.ReadFile(filepath.Join(dir, "manifest.sig"))
	s3 := newShelf(t, host, "acme/misused")
	push("oci:newer", "acme/misused:1")
	s3.attach(unsigned, sigType, misused)
	verify("a signature made for a bundle", 1, "signature-namespace", "acme/misused:1")
	// Now it is signed for what it is, and has the statement of another image, and then of its own.
	agentObject(t, dir, nil, 0, "image", name, "--base", "oci:newer", "-o", host+"/acme/own:1", "--key", key)
	own := newShelf(t, host, "acme/own")
	s.attach(unsigned, sigType, own.proof(unsigned, sigType))
	verify("a good signature among others", 0, "ok", "acme/agent:2")
	verify("no statement", 1, "provenance-missing", "acme/agent:2", require)
	s.attach(unsigned, proofType, s.proof(digest, proofType))
	verify("the statement of another image", 1, "provenance-missing", "acme/agent:2", require)
	other := newShelf(t, host, "acme/other")
	s.attach(unsigned, proofType, other.proof(unsigned, proofType))
	verify("the statement of a stranger", 1, "provenance-missing", "acme/agent:2", require)
	s.attach(unsigned, proofType, own.proof(unsigned, proofType))
	verify("a good statement among others", 0, "ok", "acme/agent:2", require)

	// What a registry may do.
	foreign := s.get("referrers", digest)
	change = func(r *http.Request, w *httptest.ResponseRecorder) {
		if strings.HasSuffix(r.URL.Path, "/referrers/"+unsigned) {
			w.Body.Reset()
			w.Body.Write(foreign)
		}
	}
	verify("what refers to another image", 1, "signature-missing", "acme/agent:2")
	change = func(r *http.Request, w *httptest.ResponseRecorder) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			text := strings.ReplaceAll(w.Body.String(), "loader", "LOADER")
			w.Body.Reset()
			w.Body.WriteString(text)
		}
	}
	verify("another layer", 2, "image-unreadable", "acme/agent:2")
	change = nil

	// Several platforms are one image to who signs.
	bothBases(t, filepath.Join(dir, "joined"))
	both := agentObject(t, dir, nil, 0, "image", amd, arm, "--base", "oci:joined", "-o", host+"/acme/both:1", "--key", key)["digest"].(string)
	verify("an index", 0, "ok", "acme/both:1", require)
	var index struct{ Manifests []struct{ Digest string } }
	if err := json.Unmarshal(newShelf(t, host, "acme/both").get("manifests", both), &index); err != nil || len(index.Manifests) != 2 {
		t.Fatalf("%v %v", index, err)
	}
	verify("one image of the index", 1, "signature-missing", "acme/both@"+index.Manifests[0].Digest)

	// An image that others made has nothing to be held to.
	base, err := os.ReadFile(filepath.Join(dir, "base", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(base, &index); err != nil {
		t.Fatal(err)
	}
	blobs, _ := filepath.Glob(filepath.Join(dir, "base", "blobs", "sha256", "*"))
	for _, b := range blobs {
		data, _ := os.ReadFile(b)
		if err := remote.WriteLayer(s.repo, static.NewLayer(data, "application/octet-stream")); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := os.ReadFile(blobOf(filepath.Join(dir, "base"), index.Manifests[0].Digest))
	if err := remote.Put(s.repo.Tag("plain"), rawManifest{text, ociManifest}); err != nil {
		t.Fatal(err)
	}
	verify("an image of others", 2, "image-unreadable", "acme/agent:plain")
	code, _, errs := agentRun(t, dir, nil, "image", name, "--base", "oci:base", "-o", "oci:out", "--key", key)
	if code != 2 || !strings.Contains(errs, "--key signs an image that goes to a registry") {
		t.Errorf("--key with a layout: %d %s", code, errs)
	}
}
