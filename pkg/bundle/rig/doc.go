// Package rig is the RigBundle format, `.rigbundle` (docs/spec/rigbundle.md): one
// file that ships a team of agents with a RigSpec, every AgentSpec it refers
// to, resources, docs, culture and startup files, and a manifest with the hash
// of each file.
//
// [Verify] judges a bundle without writing anything. [Create] assembles one
// from a source tree or a commit. [Rebuild] proves that a bundle matches its
// source, [Diff] compares two, [Install] and [Uninstall] change a target
// directory by transactions of package bundle.
//
// The documents are read by the YAML profile of docs/spec/rigbundle.md#yaml
// and written by the canonical text of docs/spec/rigbundle.md#canonical-text. What is wrong is a
// bundle.Finding with one of the codes of docs/spec/rigbundle.md#codes; an error means that
// nothing could be decided.
package rig
