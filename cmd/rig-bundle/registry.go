package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/image"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/sshsign"
)

func registryVerbs() []*verb {
	return []*verb{
		{name: "push", format: "agent", args: "REF NAME", short: "take a bundle to a registry, with its signature and the proof of its source", run: push,
			flags: join(common, digestFlags, signatureFlags, refFlags, []cli.Flag{
				{Name: "--key", Value: "FILE", Help: "SSH key that signs the bundle if FILE.sig is not there, and the statement of --source"},
				{Name: "--source", Value: "DIR", Help: "pack this directory again; if it gives the bundle, say so in a signed statement"}})},
		{name: "pull", format: "agent", args: "NAME", short: "fetch a bundle from a registry, judge it and write it with its signature", run: pull,
			flags: join(common, signatureFlags, []cli.Flag{provenanceFlag,
				{Name: "--output", Alias: "-o", Value: "DIR", Help: "directory for the bundle, by default the current one"}})},
	}
}

var provenanceFlag = cli.Flag{Name: "--require-provenance", Help: "refuse a bundle of a registry without a statement, signed by an allowed signer, that its source makes it"}

// Codes of what refers to a bundle in a registry (docs/spec/agentbundle.md#artifacts).
const (
	provenanceMissing = "provenance-missing"
	noteProvenance    = "provenance"
)

// pushed is what push and pull tell.
type pushed struct {
	*agent.Result
	Image      string `json:"image,omitempty"`
	Digest     string `json:"digest,omitempty"` // of the manifest in the registry
	Signatures int    `json:"signatures"`
	Statements int    `json:"statements"`
}

// isReference reports whether an argument names a bundle in a registry: no file of that name is there.
func (c *call) isReference(arg string) bool {
	if !image.IsReference(arg) {
		return false
	}
	_, err := os.Lstat(c.path(arg))
	return err != nil
}

// registryName reads the name of something in a registry.
func (c *call) registryName(s string) (name.Reference, error) {
	at, err := image.ParseLocation(s, c.path)
	if err == nil && at.Ref == nil {
		err = errors.New(finding.QuoteMax(s, 200) + " is not the name of something in a registry, HOST/NAME:TAG is expected")
	}
	if err != nil {
		return nil, usagef("%v", err)
	}
	return at.Ref, nil
}

// openReference fetches a bundle from a registry, until release. Of its signatures the first one that the rules accept
// counts, or the first.
func (c *call) openReference(ctx context.Context, arg string, o bundle.Options) (*image.Artifact, bundle.Input, error) {
	ref, err := c.registryName(arg)
	if err != nil {
		return nil, bundle.Input{}, err
	}
	a, err := image.Pull(ctx, arg, ref, c.network(), o.LimitsOr(agent.DefaultLimits()))
	if err != nil {
		return nil, bundle.Input{}, imageError(err)
	}
	c.after(a.Close)
	in := bundle.Input{Name: a.Title, File: a.File, Size: a.Size}
	rules := o.Signed
	rules.Namespace = agent.Namespace
	in.Signature, err = bestSignature(rules, a.Signatures, func() io.Reader { return io.NewSectionReader(a.File, 0, a.Size) })
	return a, in, err
}

// bestSignature is the first signature of a content that the rules accept, or the first one, or nil.
func bestSignature(rules bundle.SignatureRules, signatures [][]byte, content func() io.Reader) (best []byte, err error) {
	for _, sig := range signatures {
		fault, _, err := rules.Check(content(), sig)
		if err != nil {
			return nil, err
		}
		if best == nil || fault == nil {
			best = sig
		}
		if fault == nil {
			break
		}
	}
	return best, nil
}

// judgeReference fetches a bundle and judges it and its proof.
func (c *call) judgeReference(ctx context.Context, f agent.Format, arg string, o bundle.Options) (*image.Artifact, bundle.Input, *agent.Result, error) {
	if o.Signed.Signers == nil && c.Has("--require-provenance") {
		return nil, bundle.Input{}, nil, usagef("statements are judged with --allowed-signers FILE only")
	}
	a, in, err := c.openReference(ctx, arg, o)
	if err != nil {
		return nil, in, nil, err
	}
	r, err := agent.Verify(ctx, in, f, o)
	if err != nil {
		return nil, in, nil, err
	}
	r.Whole, r.File = r, arg
	c.provenance(&r.Result, a.Envelopes, o, "its source makes it", func(e []byte) error { return image.CheckEnvelope(e, o.Signed, r.FileDigest, r.TarDigest) })
	return a, in, r, nil
}

// provenance looks among envelopes for one that counts, and says so; that is what the signer has to have said.
func (c *call) provenance(r *bundle.Result, envelopes [][]byte, o bundle.Options, that string, check func(envelope []byte) error) {
	proved := errors.New("no statement refers to it")
	for _, e := range envelopes {
		if o.Signed.Signers == nil {
			break
		}
		if proved = check(e); proved == nil {
			r.Note(noteProvenance, "", "an allowed signer says that "+that)
			break
		}
	}
	if proved != nil && c.Has("--require-provenance") {
		r.Fail(bundle.Faultf(provenanceMissing, "", "nobody who is trusted says that %s: %s", that, image.Why(proved)))
	}
}

// verifyImage judges an image that rig-bundle composed, and its proof.
func (c *call) verifyImage(ctx context.Context, arg string, o bundle.Options) (int, error) {
	b, err := c.openBase(ctx, arg)
	if err != nil {
		return 0, err
	}
	made, err := b.Composed(ctx, o.LimitsOr(agent.DefaultLimits()))
	if err != nil {
		return 0, imageError(err)
	}
	proofs, err := b.Proofs(ctx, c.network())
	if err != nil {
		return 0, imageError(err)
	}
	out := &imageResult{Result: bundle.NewResult("verify"), Image: bundle.EscapeLine(arg), Digest: b.Digest.String(), Images: made, Bundles: []string{}, Bases: []any{}}
	out.Whole, out.File = out, arg
	rules := o.Signed
	rules.Namespace = image.ImageNamespace
	content := func() io.Reader { return bytes.NewReader(b.Manifest()) }
	best, err := bestSignature(rules, proofs.Signatures, content)
	if err != nil {
		return 0, err
	}
	fault, notes, err := rules.Check(content(), best)
	if err != nil {
		return 0, err
	}
	if fault != nil {
		out.Fail(fault)
	}
	out.Tell(notes...)
	c.provenance(&out.Result, proofs.Envelopes, o, "it was composed of its bases and bundles", func(e []byte) error { return image.CheckImageEnvelope(e, o.Signed, b.Digest, made) })
	return c.tellImage(out)
}

// push verifies a bundle and takes it to a registry.
func push(ctx context.Context, c *call) (int, error) {
	if err := c.count(2, 2); err != nil {
		return 0, err
	}
	ref, err := c.registryName(c.Words[1])
	if err != nil {
		return 0, err
	}
	if _, pinned := ref.(name.Digest); pinned {
		return 0, usagef("the digest comes out of what is pushed, NAME:TAG is expected")
	}
	if c.Has("--source") && !c.Has("--key") {
		return 0, usagef("the statement of --source is signed, which needs --key FILE")
	}
	f, err := c.builder()
	if err != nil {
		return 0, err
	}
	o, err := c.options()
	if err != nil {
		return 0, err
	}
	in, err := c.open(f, c.Words[0])
	if err != nil {
		return 0, err
	}
	r, err := agent.Verify(ctx, in, f, o)
	if err != nil {
		return 0, err
	}
	out := &pushed{Result: r, Image: bundle.EscapeLine(c.Words[1])}
	r.Command, r.File, r.Whole = "push", c.Words[0], out
	a := &image.Artifact{File: in.File, Size: in.Size, FileDigest: r.FileDigest, Zstd: r.Archive.Compression == bundle.Zstd}
	if r.OK() {
		if err := c.prove(ctx, f, r, in, a, o.Allow); err != nil {
			return 0, err
		}
	}
	if r.OK() {
		m := r.Manifest
		a.About = map[string]string{"org.opencontainers.image.title": m.Name, "org.opencontainers.image.version": m.Version,
			"com.github.rigward.bundle.target": m.Target(), "com.github.rigward.bundle.tar-digest": r.TarDigest.String()}
		if err := a.Push(ctx, ref, c.network()); err != nil {
			return 0, &codedError{codeRegistry, errors.New("the bundle can't be pushed: " + image.Why(err))}
		}
	}
	return c.tellPushed(out, a)
}

// prove gives an artifact its name, signature and statement.
func (c *call) prove(ctx context.Context, f agent.Format, r *agent.Result, in bundle.Input, a *image.Artifact, allow []string) error {
	a.Title = r.Manifest.FileName(map[bool]string{true: ".tar.zst", false: ".tar.gz"}[a.Zstd])
	if in.Signature != nil {
		a.Signatures = [][]byte{in.Signature}
	}
	if !c.Has("--key") {
		return nil
	}
	sign, key, err := c.signWith()
	if err != nil {
		return err
	}
	if in.Signature == nil {
		sig, err := sign(io.NewSectionReader(in.File, 0, in.Size), agent.Namespace)
		if err != nil {
			return err
		}
		a.Signatures = [][]byte{sig}
	}
	if !c.Has("--source") {
		return nil
	}
	src, err := c.openTree(c.Get("--source"))
	if err != nil {
		return err
	}
	again, err := agent.Rebuild(ctx, src, bundle.Input{Name: in.Name, File: in.File, Size: in.Size, Made: true}, f, bundle.Options{Allow: allow})
	if err != nil {
		return err
	}
	if !again.OK() {
		r.Fail(bundle.Faultf(again.Code, "", "the source does not make the bundle: %s", again.Message))
		return nil
	}
	s := image.RebuildStatement(a.Title, r.FileDigest, r.TarDigest, version.String())
	e, err := s.Seal(func(text []byte) ([]byte, string, error) {
		sig, err := sign(bytes.NewReader(text), image.ProvenanceNamespace)
		return sig, key, err
	})
	a.Envelopes = [][]byte{e}
	return err
}

// signWith signs with the key of --key, which is named by its fingerprint.
func (c *call) signWith() (sign func(content io.Reader, namespace string) ([]byte, error), key string, err error) {
	signer, done, err := c.sshSigner(c.path(c.Get("--key")))
	if err != nil {
		return nil, "", err
	}
	c.after(done)
	return func(content io.Reader, namespace string) ([]byte, error) {
		sig, err := sshsig.Sign(content, signer, sshsig.HashSHA512, namespace)
		if err != nil {
			return nil, err
		}
		return sshsign.Armor(sig.Marshal()), nil
	}, ssh.FingerprintSHA256(signer.PublicKey()), nil
}

func (c *call) tellPushed(out *pushed, a *image.Artifact) (int, error) {
	out.Digest, out.Signatures, out.Statements = a.Digest, len(a.Signatures), len(a.Envelopes)
	return c.tell(&out.Result.Result, func() {
		if c.verdict(&out.Result.Result); out.OK() {
			c.print("  manifest    %s", out.Digest)
		}
	})
}

// pull fetches a bundle, judges it, and writes it with its signature. What is refused is not written.
func pull(ctx context.Context, c *call) (int, error) {
	o, err := c.options()
	if err != nil {
		return 0, err
	}
	a, in, r, err := c.judgeReference(ctx, agent.Format{}, c.Words[0], o)
	if err != nil {
		return 0, err
	}
	out := &pushed{Result: r}
	r.Command, r.Whole = "pull", out
	if r.OK() {
		file := filepath.Join(c.path(cmp.Or(c.Get("--output"), ".")), a.Title)
		var beside []bundle.Beside
		if in.Signature != nil {
			beside = append(beside, func() (string, []byte) { return ".sig", in.Signature })
		}
		if err := bundle.WriteFile(file, 0o644, func(w io.Writer) error {
			_, err := io.Copy(w, io.NewSectionReader(a.File, 0, a.Size))
			return err
		}, nil, beside...); err != nil {
			return 0, err
		}
		out.Image = bundle.EscapeLine(filepath.Join(cmp.Or(c.Get("--output"), "."), a.Title))
	}
	return c.tellPushed(out, a)
}

// fetchAsset takes the asset of a release from the user's cache, or fetches it.
func (c *call) fetchAsset(ref agent.Ref) (string, error) {
	o, err := c.options()
	if err != nil {
		return "", err
	}
	cache := c.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(cache) {
		home := c.Getenv("HOME")
		if runtime.GOOS == "windows" {
			home = c.Getenv("LOCALAPPDATA")
		}
		if !filepath.IsAbs(home) {
			return "", errors.New("there is no place for a cache, set XDG_CACHE_HOME to a directory of your own")
		}
		cache = filepath.Join(home, ".cache")
	}
	a := image.Asset{Server: cmp.Or(c.Getenv("GITHUB_SERVER_URL"), "https://github.com"), Owner: ref.Owner, Repo: ref.Repo, Tag: ref.Tag, Asset: ref.Asset, SHA256: ref.SHA256}
	file, err := a.Fetch(c.ctx, filepath.Join(cache, "rig-bundle"), c.network(), o.LimitsOr(agent.DefaultLimits()).TotalSize)
	if err != nil && bundle.AsFinding(err) == nil {
		err = &codedError{codeFetch, errors.New("the asset can't be fetched: " + image.Why(err))}
	}
	return file, err
}

// codeFetch is exit 2: an asset can't be fetched.
const codeFetch = "fetch-failed"
