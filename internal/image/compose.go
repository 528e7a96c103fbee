package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
)

// Labels and annotations (OCI image specification, "Annotations"; those below prefix are this project's).
const (
	ociPrefix = "org.opencontainers.image."
	prefix    = "com.github.rigward."
)

// A Part is one image to be composed: an accepted bundle, and the image of the base that was found for it.
type Part struct {
	Bundle *agent.Result
	Base   *Judgement
}

// ComposeOptions say what Compose makes.
type ComposeOptions struct {
	ModTime int64  // of all that is made, in seconds since 1970
	Temp    string // directory for scratch files, "" for the system's
}

// Made is what Compose tells of one image.
type Made struct {
	Platform string `json:"platform"`
	Digest   string `json:"digest"`
	Layer    string `json:"layer"`   // digest of the layer of the bundle
	DiffID   string `json:"diff_id"` // digest of its tar stream
	Base     string `json:"base"`    // digest of the image below
	Bundle   string `json:"bundle"`  // digest of the bundle's tar stream
}

// A Composition is an image, or an index of several, that was composed and is not yet written. The same bundles on the
// same base give the same bytes.
type Composition struct {
	Root   v1.Descriptor
	Images []Made

	tag       string
	manifests []content // the root comes last
	blobs     []content // configs and layers
	saved     saved     // the one image, as a docker archive lists it
	config    v1.ConfigFile
	below     v1.Hash
	proofs    Proofs
	done      []func()
}

// Close removes the scratch files.
func (c *Composition) Close() {
	for _, f := range c.done {
		f()
	}
}

// content is a blob with what describes it.
type content struct {
	d    v1.Descriptor
	open func(ctx context.Context) (io.ReadCloser, error)
}

func inMemory(t types.MediaType, data []byte) content {
	sum := sha256.Sum256(data)
	return content{v1.Descriptor{MediaType: t, Size: int64(len(data)), Digest: v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sum)}},
		func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(string(data))), nil
		}}
}

// Compose puts the layer of each bundle on the image that its base has for its platform
// (docs/spec/agentbundle.md#image): one image of one bundle, an index of several. The findings are those of bundles that
// cannot be a layer.
func Compose(ctx context.Context, parts []Part, base *Base, o ComposeOptions) (_ *Composition, fault *bundle.Finding, err error) {
	c := &Composition{tag: tagOf(parts[0].Bundle.Manifest.Version)}
	defer func() {
		if err != nil || fault != nil {
			c.Close()
		}
	}()
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Compare(a.Bundle.Manifest.Target(), b.Bundle.Manifest.Target())
	})
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for i, p := range parts {
		for _, m := range p.Bundle.Archive.Members {
			if strings.HasPrefix(path.Base(m.Name), whiteout) || strings.Contains(m.Name, "/"+whiteout) || strings.HasPrefix(m.Name, whiteout) {
				return nil, bundle.Faultf(bundle.MemberName, m.Name, "%s would hide a file of the base image, no name in a layer begins with %s", finding.QuoteMax(m.Name, 200), whiteout), nil
			}
		}
		d, err := c.compose(ctx, p, base, o)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 && d.Platform.Equals(*index.Manifests[i-1].Platform) {
			return nil, nil, fmt.Errorf("two bundles are for %s", platformText(*d.Platform))
		}
		index.Manifests = append(index.Manifests, d)
	}
	c.Root = index.Manifests[0]
	c.Root.Platform = nil
	if len(parts) > 1 {
		m := parts[0].Bundle.Manifest
		index.Annotations = map[string]string{ociPrefix + "title": m.Name, ociPrefix + "version": m.Version}
		raw, err := json.Marshal(index)
		if err != nil {
			return nil, nil, err
		}
		all := inMemory(types.OCIImageIndex, raw)
		c.manifests, c.Root = append(c.manifests, all), all.d
	}
	return c, nil, nil
}

// tagOf makes a version one that can be the tag of an image.
func tagOf(version string) string {
	if tag := strings.ReplaceAll(version, "+", "_"); tagPattern.MatchString(tag) {
		return tag
	}
	return "latest"
}

// compose makes the image of one bundle, and describes it for an index.
func (c *Composition) compose(ctx context.Context, p Part, base *Base, o ComposeOptions) (v1.Descriptor, error) {
	m, below := p.Bundle.Manifest, p.Base.Image
	labels, err := labelsOf(p, base, o)
	if err != nil {
		return v1.Descriptor{}, err
	}
	layer, diffID, err := c.layer(ctx, p, o)
	if err != nil {
		return v1.Descriptor{}, err
	}
	config := below.Config
	config.Created = v1.Time{Time: time.Unix(o.ModTime, 0).UTC()}
	config.RootFS.DiffIDs = append(slices.Clone(config.RootFS.DiffIDs), diffID)
	if len(config.History) > 0 || len(below.Manifest.Layers) == 0 {
		config.History = append(slices.Clone(config.History), v1.History{Created: config.Created, CreatedBy: "rig-bundle image", Comment: m.Name + " " + m.Version})
	}
	run := config.Config
	run.Entrypoint, run.Cmd, run.ArgsEscaped = []string{agent.Root + "/" + m.Entry}, nil, false
	run.WorkingDir = agent.Workspace
	run.Env = environment(run.Env, m)
	run.Labels = maps.Clone(run.Labels)
	if run.Labels == nil {
		run.Labels = map[string]string{}
	}
	maps.Copy(run.Labels, labels)
	config.Config = run
	c.config, c.below = config, below.Descriptor.Digest
	raw, err := json.Marshal(config)
	if err != nil {
		return v1.Descriptor{}, err
	}
	about := inMemory(types.OCIConfigJSON, raw)
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: about.d, Layers: []v1.Descriptor{}, Annotations: labels}
	c.saved = saved{Config: blobPath(about.d), RepoTags: []string{m.Name + ":" + c.tag}}
	for _, l := range below.Manifest.Layers {
		d := v1.Descriptor{MediaType: ociType(l.MediaType), Size: l.Size, Digest: l.Digest}
		manifest.Layers = append(manifest.Layers, d)
		c.blobs = append(c.blobs, content{d, func(ctx context.Context) (io.ReadCloser, error) { return below.store.blob(ctx, l) }})
	}
	manifest.Layers = append(manifest.Layers, layer.d)
	for _, l := range manifest.Layers {
		c.saved.Layers = append(c.saved.Layers, blobPath(l))
	}
	if raw, err = json.Marshal(manifest); err != nil {
		return v1.Descriptor{}, err
	}
	whole := inMemory(types.OCIManifestSchema1, raw)
	c.blobs = append(c.blobs, about, layer)
	c.manifests = append(c.manifests, whole)
	d := whole.d
	d.Platform = &v1.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}
	c.Images = append(c.Images, Made{platformText(*d.Platform), d.Digest.String(), layer.d.Digest.String(), diffID.String(), below.Descriptor.Digest.String(), p.Bundle.TarDigest.String()})
	return d, nil
}

// Prove makes what a registry gets beside the image: sign signs the manifest of the image or index in ImageNamespace, seal
// the statement that it was composed of its bases and bundles, by a version of rig-bundle, under the name it is pushed to.
func (c *Composition) Prove(ctx context.Context, to Location, version string, sign func(text []byte) ([]byte, error), seal func(text []byte) (armored []byte, key string, err error)) error {
	r, err := c.manifests[len(c.manifests)-1].open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	sig, err := sign(raw)
	if err != nil {
		return err
	}
	e, err := imageStatement(to.Ref.Context().Name(), c.Root.Digest, c.Images, version).Seal(seal)
	c.proofs = Proofs{[][]byte{sig}, [][]byte{e}}
	return err
}

// Tell lists what the image of one bundle is made of, each fact under a name of its own: platform, base, layers, and all
// that its config says of a container.
func (c *Composition) Tell() ([][2]string, error) {
	facts := [][2]string{{"platform", c.Images[0].Platform}, {"base", c.below.String()}}
	for i, id := range c.config.RootFS.DiffIDs[:len(c.config.RootFS.DiffIDs)-1] {
		facts = append(facts, [2]string{fmt.Sprintf("layer %d of the base", i+1), id.String()})
	}
	facts = append(facts, [2]string{"layer of the bundle", c.Images[0].DiffID}, [2]string{"created", c.config.Created.UTC().Format(time.RFC3339)})
	text, err := json.Marshal(c.config.Config)
	if err != nil {
		return nil, err
	}
	var said map[string]json.RawMessage
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, err
	}
	delete(said, "Env")
	delete(said, "Labels")
	for _, key := range slices.Sorted(maps.Keys(said)) {
		facts = append(facts, [2]string{"config " + key, string(said[key])})
	}
	for _, e := range c.config.Config.Env {
		key, value, _ := strings.Cut(e, "=")
		facts = append(facts, [2]string{"env " + key, value})
	}
	for _, key := range slices.Sorted(maps.Keys(c.config.Config.Labels)) {
		facts = append(facts, [2]string{"label " + key, c.config.Config.Labels[key]})
	}
	return facts, nil
}

// ociType is the media type of the OCI for a layer, whose bytes stay what they are.
func ociType(t types.MediaType) types.MediaType {
	switch kind, _ := layerKind(t); kind {
	case bundle.Gzip:
		return types.OCILayer
	case bundle.Zstd:
		return types.OCILayerZStd
	}
	return types.OCIUncompressedLayer
}

// environment is that of the base with that of the bundle over it.
func environment(base []string, m *agent.Manifest) []string {
	env := slices.DeleteFunc(slices.Clone(base), func(e string) bool {
		key, _, _ := strings.Cut(e, "=")
		_, own := m.Env[key]
		return own
	})
	for _, key := range m.EnvKeys() {
		env = append(env, key+"="+m.Env[key])
	}
	return env
}

// run is what run.json says: how a runner starts the agent (docs/spec/agentbundle.md#stage).
type run struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Target       string            `json:"target"`
	TarDigest    string            `json:"tar_digest"`
	Base         string            `json:"base"` // digest of the image below
	Entrypoint   []string          `json:"entrypoint"`
	WorkingDir   string            `json:"working_dir"`
	Env          map[string]string `json:"env"`
	Mounts       []agent.Mount     `json:"mounts"`
	Capabilities map[string]bool   `json:"capabilities"`
}

func runOf(p Part) run {
	m := p.Bundle.Manifest
	r := run{m.Name, m.Version, m.Target(), p.Bundle.TarDigest.String(), p.Base.Image.Descriptor.Digest.String(), []string{agent.Root + "/" + m.Entry}, agent.Workspace,
		m.Env, agent.Mounts(), m.Capabilities}
	if r.Env == nil {
		r.Env = map[string]string{}
	}
	if r.Capabilities == nil {
		r.Capabilities = map[string]bool{}
	}
	return r
}

// labelsOf are the labels of the config, and the annotations of the manifest. A path of this machine is not among them.
func labelsOf(p Part, base *Base, o ComposeOptions) (map[string]string, error) {
	r := runOf(p)
	labels := map[string]string{
		ociPrefix + "title": r.Name, ociPrefix + "version": r.Version, ociPrefix + "base.digest": r.Base,
		ociPrefix + "created":    time.Unix(o.ModTime, 0).UTC().Format(time.RFC3339),
		prefix + "bundle.target": r.Target, prefix + "bundle.tar-digest": r.TarDigest,
	}
	if base.At.Ref != nil {
		labels[ociPrefix+"base.name"] = base.At.Ref.Name()
	}
	for key, v := range map[string]any{prefix + "run.mounts": r.Mounts, prefix + "run.capabilities": r.Capabilities} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		labels[key] = string(text)
	}
	return labels, nil
}

// layer writes the layer of a bundle to a scratch file.
func (c *Composition) layer(ctx context.Context, p Part, o ComposeOptions) (content, v1.Hash, error) {
	var none content
	files, done, err := bundle.Scratch(o.Temp)
	if err != nil {
		return none, v1.Hash{}, err
	}
	defer done()
	entries, err := agent.Entries(ctx, p.Bundle.Archive, files)
	if err != nil {
		return none, v1.Hash{}, err
	}
	top := strings.TrimPrefix(agent.Root, "/")
	for i := range entries {
		entries[i].Name = top + "/" + entries[i].Name
	}
	dirs := []string{path.Dir(top), top}
	for _, m := range agent.Mounts() {
		dirs = append(dirs, strings.TrimPrefix(m.Path, "/"))
	}
	for _, dir := range dirs {
		entries = append(entries, bundle.Entry{Member: bundle.Member{Name: dir, Type: bundle.Dir, Mode: 0o755}})
	}
	text, err := json.MarshalIndent(runOf(p), "", "  ")
	if err != nil {
		return none, v1.Hash{}, err
	}
	entries = append(entries, bundle.BytesEntry(path.Dir(top)+"/run.json", 0o644, append(text, '\n')))
	if old := p.Base.Image.root.find(agent.Root); old != nil && len(old.children) > 0 { // what the base has there is not the bundle's
		entries = append(entries, bundle.BytesEntry(top+"/"+opaque, 0o644, nil))
	}
	packed, done, err := bundle.Scratch(o.Temp)
	if err != nil {
		return none, v1.Hash{}, err
	}
	c.done = append(c.done, done)
	sum := sha256.New()
	written, err := bundle.WriteCompressed(ctx, bundle.NewFastGzipWriter(io.MultiWriter(packed, sum)), bundle.USTAR{ModTime: o.ModTime}, entries)
	if err != nil {
		return none, v1.Hash{}, err
	}
	size, err := packed.Seek(0, io.SeekCurrent)
	if err != nil {
		return none, v1.Hash{}, err
	}
	d := v1.Descriptor{MediaType: types.OCILayer, Size: size, Digest: v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sum.Sum(nil))}}
	open := func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(packed, 0, size)), nil
	}
	return content{d, open}, v1.Hash{Algorithm: "sha256", Hex: written.TarDigest.Hex()}, nil
}

// blobPath is where a layout has a blob.
func blobPath(d v1.Descriptor) string { return "blobs/sha256/" + d.Digest.Hex }

// all lists what a layout holds, each content once.
func (c *Composition) all() []content {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Concat(c.blobs, c.manifests), func(b content) bool {
		was := seen[b.d.Digest.Hex]
		seen[b.d.Digest.Hex] = true
		return was
	})
}

// documents are the files of a layout beside its blobs.
func (c *Composition) documents(tag string) (mark, index []byte, err error) {
	d := c.Root
	d.Annotations = map[string]string{refName: cmp.Or(tag, c.tag)}
	index, err = json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
	return []byte(`{"imageLayoutVersion":"1.0.0"}`), index, err
}

// Write writes the composition to a location: a new or empty directory, a file, or a registry. It appears complete or not
// at all; in a registry the name comes last.
func (c *Composition) Write(ctx context.Context, to Location, net *Network) error {
	switch {
	case to.Layout != "":
		return c.writeLayout(ctx, to)
	case to.Archive != "":
		return c.writeArchive(ctx, to)
	}
	return c.push(ctx, to, net)
}

func (c *Composition) writeLayout(ctx context.Context, to Location) error {
	mark, index, err := c.documents(to.Tag)
	if err != nil {
		return err
	}
	return bundle.NewTree(to.Layout, func(d *bundle.Dirs) error {
		if _, err := d.MkdirAll("blobs/sha256"); err != nil {
			return err
		}
		for _, b := range c.all() {
			if err := copyTo(ctx, d, b); err != nil {
				return err
			}
		}
		if err := d.WriteFile("index.json", 0o644, index); err != nil {
			return err
		}
		return d.WriteFile("oci-layout", 0o644, mark)
	})
}

func copyTo(ctx context.Context, d *bundle.Dirs, b content) error {
	r, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := d.Create(blobPath(b.d), 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, contextReader{ctx, r})
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}

func (c *Composition) writeArchive(ctx context.Context, to Location) error {
	if len(c.Images) > 1 {
		return errors.New("a docker archive holds one image, give one bundle or write to oci:DIR")
	}
	mark, index, err := c.documents(to.Tag)
	if err != nil {
		return err
	}
	one := c.saved
	if to.Tag != "" {
		name, _, _ := strings.Cut(one.RepoTags[0], ":")
		one.RepoTags = []string{name + ":" + to.Tag}
	}
	list, err := json.Marshal([]saved{one})
	if err != nil {
		return err
	}
	entries := []bundle.Entry{bundle.BytesEntry("oci-layout", 0o644, mark), bundle.BytesEntry("index.json", 0o644, index), bundle.BytesEntry("manifest.json", 0o644, list)}
	for _, b := range c.all() {
		entries = append(entries, bundle.Entry{Member: bundle.Member{Name: blobPath(b.d), Type: bundle.File, Mode: 0o644, Size: b.d.Size}, Open: func() (io.ReadCloser, error) { return b.open(ctx) }})
	}
	return bundle.WriteFile(to.Archive, 0o644, func(w io.Writer) error {
		_, err := bundle.WriteTar(ctx, w, bundle.USTAR{}, entries)
		return err
	}, nil)
}
