package rye

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"gopkg.in/yaml.v3"
)

// A Root is one place where bundles are looked for. The order of roots is the
// order of precedence (docs/spec/ryebundle.md#discovery).
type Root struct {
	Path       string   // as the caller named it
	ID         string   // "" for all bundles that stand there
	Version    string   // "" for any
	Categories []string // that the bundle shows; empty: all
	Manifest   string   // path of the manifest below the root, "" for where it belongs
}

// A Listing is what List found.
type Listing struct {
	bundle.Result
	Bundles []ListedBundle `json:"bundles"`
	Items   []ListedItem   `json:"items"` // visible items of the verified bundles
}

// A ListedBundle is one bundle of a root.
type ListedBundle struct {
	ID         string   `json:"id"`
	Version    *string  `json:"version"` // null unless verified
	Status     string   `json:"status"`  // "verified" or "failed"
	Signer     *string  `json:"signer"`
	Trust      Trust    `json:"trust"`
	Root       string   `json:"root"`
	Categories []string `json:"categories"`
	Code       []string `json:"code"`
}

// A ListedItem is one item that a bundle shows.
type ListedItem struct {
	Path       string `json:"path"`
	ItemType   Type   `json:"item_type"`
	ItemID     string `json:"item_id"`
	Category   string `json:"category"`
	BundleID   string `json:"bundle_id"`
	Root       string `json:"root"`
	ShadowedBy string `json:"shadowed_by,omitempty"` // id of the bundle of an earlier root that has the same path
}

// OpenRoot gives List a root and the keys to judge its bundles by; close, if
// not nil, is called when List is done with it.
type OpenRoot func(r Root) (t bundle.Source, keys *Keyring, close func() error, err error)

// List verifies the bundles of all roots and lists their items. A root that is
// missing, empty or not verified is a finding.
func List(ctx context.Context, roots []Root, open OpenRoot) (*Listing, error) {
	l := &lister{ctx: ctx, out: &Listing{Result: bundle.NewResult("list"), Bundles: []ListedBundle{}, Items: []ListedItem{}}, first: map[string]string{}}
	for _, r := range roots {
		if err := l.root(r, open); err != nil {
			return nil, err
		}
	}
	l.out.Finish()
	return l.out, nil
}

type lister struct {
	ctx   context.Context
	out   *Listing
	first map[string]string // path to the bundle that has it first
}

func (l *lister) add(root string, fs ...*bundle.Finding) {
	for _, f := range fs {
		c := *f
		c.Path = path.Join(root, f.Path)
		l.out.Fail(&c)
	}
}

func (l *lister) root(r Root, open OpenRoot) error {
	t, keys, done, err := open(r)
	if errors.Is(err, fs.ErrNotExist) {
		l.add(r.Path, bundle.Faultf(ManifestMissing, "", "the root %s does not exist", finding.QuoteMax(r.Path, 200)))
		return nil
	}
	if err != nil {
		return err
	}
	if done != nil {
		defer done()
	}
	ids := []string{r.ID}
	if r.ID == "" {
		var head bool
		if ids, head, err = Discover(t); err != nil {
			return err
		}
		if head && len(ids) == 0 {
			ids = []string{""}
		}
		if len(ids) == 0 {
			l.add(r.Path, bundle.Faultf(ManifestMissing, "", "there is no manifest below the root %s", finding.QuoteMax(r.Path, 200)))
		}
	}
	own := map[string]string{}
	for _, id := range ids {
		if err := l.bundle(r, id, t, keys, own); err != nil {
			return err
		}
	}
	for p, id := range own {
		if _, ok := l.first[p]; !ok {
			l.first[p] = id
		}
	}
	return nil
}

func (l *lister) bundle(r Root, id string, t bundle.Source, keys *Keyring, own map[string]string) error {
	report, err := Verify(l.ctx, t, Options{ID: id, Keys: keys})
	if err != nil {
		return err
	}
	faults := slices.Clone(report.Findings)
	if m := report.Manifest; m != nil {
		if r.Version != "" && r.Version != m.Version {
			faults = append(faults, m.fault(VersionInvalid, "version", "the bundle has version %s, the list of roots says %s", finding.QuoteMax(m.Version, 80), finding.QuoteMax(r.Version, 80)))
		}
		if r.Manifest != "" && r.Manifest != ManifestPath(report.Name) {
			faults = append(faults, m.fault(ManifestMissing, "id", "the list of roots places the manifest at %s, it stands at %s", finding.QuoteMax(r.Manifest, 200), finding.QuoteMax(ManifestPath(report.Name), 200)))
		}
	}
	b := ListedBundle{ID: report.Name, Status: "verified", Signer: report.Signer, Trust: report.Trust, Root: r.Path, Categories: slices.Clone(r.Categories), Code: []string{}}
	if b.Categories == nil {
		b.Categories = []string{}
	}
	for _, n := range report.Notes {
		b.Code = append(b.Code, n.Code)
	}
	for _, f := range faults {
		b.Code = append(b.Code, f.Code)
	}
	slices.Sort(b.Code)
	b.Code = slices.Compact(b.Code)
	if len(faults) > 0 {
		b.Status = "failed"
		l.add(r.Path, faults...)
		l.out.Bundles = append(l.out.Bundles, b)
		return nil
	}
	paths, err := itemPaths(t, report, &b)
	if err != nil {
		return err
	}
	l.out.Bundles = append(l.out.Bundles, b)
	for _, p := range paths {
		if !Visible(p, r.Categories) {
			continue
		}
		it := ListedItem{Path: p, ItemType: TypeOf(p), ItemID: ItemID(p), Category: Category(p), BundleID: report.Name, Root: r.Path, ShadowedBy: l.first[p]}
		own[p] = report.Name
		l.out.Items = append(l.out.Items, it)
	}
	return nil
}

// itemPaths returns the files of a verified bundle and sets its version.
func itemPaths(t bundle.Source, r *Report, b *ListedBundle) (paths []string, err error) {
	b.Version = &r.Version
	if r.Manifest != nil {
		return r.Manifest.paths(), nil
	}
	err = walkFiles(t, ".ai", bundle.Item{Name: ".ai", Kind: bundle.KindDir}, func(p string, it bundle.Item) error {
		if p != headManifest && p != headSource {
			paths = append(paths, p)
		}
		return nil
	})
	return paths, err
}

// Visible reports whether an item is shown under the declared categories, which
// go by whole components: "rye/core" shows rye/core and rye/core/x, not
// rye/corex. None declared shows all. Config is always shown, key documents and
// assets never.
func Visible(p string, categories []string) bool {
	switch t := TypeOf(p); {
	case t == Asset, isKeyPath(p):
		return false
	case t == Config, len(categories) == 0:
		return true
	}
	c := Category(p) + "/"
	return slices.ContainsFunc(categories, func(shown string) bool {
		return strings.HasPrefix(c, strings.TrimSuffix(shown, "/")+"/")
	})
}

// ParseRoots reads a file of roots: a YAML mapping with a list bundles of
// bundle_id, root_path, categories and optionally version and manifest_path.
func ParseRoots(data []byte) ([]Root, *bundle.Finding) {
	wrong := func(line int, format string, args ...any) ([]Root, *bundle.Finding) {
		f := bundle.Faultf(ManifestMalformed, "", "list of roots: "+format, args...)
		f.Line = line
		return nil, f
	}
	if len(data) > MaxManifest {
		return nil, bundle.Faultf(LimitExceeded, "", "the list of roots has more than %d bytes", MaxManifest)
	}
	root, deep, faults := parseYAML(data)
	if len(faults) > 0 {
		f := faults[0]
		f.Message = strings.Replace(f.Message, "the manifest", "the list of roots", 1)
		if f.Line > 0 {
			f.Line-- // it has no signature line
		}
		return nil, f
	}
	if deep || root.Kind != yaml.MappingNode {
		return wrong(root.Line, "expected a list bundles")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var file struct {
		Bundles []struct {
			ID         string   `yaml:"bundle_id"`
			Path       string   `yaml:"root_path"`
			Version    string   `yaml:"version"`
			Manifest   string   `yaml:"manifest_path"`
			Categories []string `yaml:"categories"`
		} `yaml:"bundles"`
		Rest map[string]any `yaml:",inline"`
	}
	if err := dec.Decode(&file); err != nil {
		return wrong(0, "%s", finding.QuoteMax(strings.TrimPrefix(err.Error(), "yaml: "), 200))
	}
	if file.Bundles == nil {
		return wrong(root.Line, "expected a list bundles")
	}
	var roots []Root
	for i, b := range file.Bundles {
		line := child(root, "bundles").Content[i].Line
		switch {
		case b.Path == "" || b.ID == "":
			return wrong(line, "an entry has no bundle_id or no root_path")
		case slices.Contains(b.Categories, ""):
			return wrong(line, "a category is empty")
		case !ValidID(b.ID):
			return wrong(line, "the bundle id %s %s", finding.QuoteMax(b.ID, 200), idGrammar)
		}
		roots = append(roots, Root{b.Path, b.ID, b.Version, append([]string(nil), b.Categories...), b.Manifest})
	}
	return roots, nil
}
