package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM lists the programs of a file of the release, and the modules that each was built from, as CycloneDX 1.6.
func writeSBOM(version, file, document string) error {
	list, err := programs(file)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(materials(version, list), cdx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(document, out.Bytes(), 0o644)
}

func materials(version string, list []program) *cdx.BOM {
	b := cdx.NewBOM()
	whole := purl(module, "v"+version)
	b.Metadata = &cdx.Metadata{Component: &cdx.Component{BOMRef: whole, Type: cdx.ComponentTypeApplication, Name: "rigward", Version: version, PackageURL: whole,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "MIT"}}}}}
	modules := map[string]cdx.Component{}
	components, links := []cdx.Component{}, []cdx.Dependency{{Ref: whole, Dependencies: &[]string{}}}
	for _, p := range slices.SortedFunc(slices.Values(list), func(a, b program) int { return cmp.Compare(a.name, b.name) }) {
		sum := sha256.Sum256(p.data)
		components = append(components, cdx.Component{BOMRef: p.name, Type: cdx.ComponentTypeApplication, Name: p.name, Version: version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}})
		*links[0].Dependencies = append(*links[0].Dependencies, p.name)
		parts := []string{}
		for _, m := range append(p.info.Deps, &debug.Module{Path: "std", Version: strings.TrimPrefix(p.info.GoVersion, "go")}) {
			if m.Replace != nil {
				m = m.Replace
			}
			c := library(m)
			modules[c.BOMRef] = c
			parts = append(parts, c.BOMRef)
		}
		slices.Sort(parts)
		links = append(links, cdx.Dependency{Ref: p.name, Dependencies: &parts})
	}
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[ref])
	}
	b.Components, b.Dependencies = &components, &links
	return b
}

// library is a module, with the digest of its tree that go.sum has.
func library(m *debug.Module) cdx.Component {
	ref := purl(m.Path, m.Version)
	c := cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: ref}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}

// purl is a package URL of a module; what may stand in a module's path stands for itself there.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
