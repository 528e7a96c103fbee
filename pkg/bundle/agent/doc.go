// Package agent is the agent bundle format: one archive that carries an agent
// ready to run, with a manifest that says how to start it and where it fits
// (docs/spec/agentbundle.md).
//
// [Verify] judges a bundle file and changes nothing; all other verbs verify
// first. [Create] packs a directory, [Rebuild] packs a bundle again and
// compares, [Diff] compares two, [Stage] prepares an image build context, and
// [CacheKey] names a local build by what goes into it. [ParseRef] and
// [Ref.Resolve] find a bundle on disk or in a mirror; nothing here uses a
// network, starts an agent or runs what it found in a bundle.
//
// The archive is read, written and extracted by package bundle. This package
// adds what only agent bundles have: the manifest, the entry, links between
// members, the file name, and the place where a bundle fits.
package agent
