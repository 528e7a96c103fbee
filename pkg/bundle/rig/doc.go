// Package rig is the RigBundle format, `.rigbundle` (spec/rigbundle.md): one
// file that ships a team of agents with a RigSpec, every AgentSpec it refers
// to, resources, docs, culture and startup files, and a manifest with the hash
// of each file.
//
// [Verify] judges a bundle without writing anything. [Create] assembles one
// from a source tree or a commit. [Rebuild] proves that a bundle matches its
// source, [Diff] compares two, [Install] and [Uninstall] change a target
// directory by transactions of package bundle.
//
// The documents are read by the YAML profile of spec/rigbundle.md section 5.1
// and written by the canonical text of section 5.2. What is wrong is a
// bundle.Finding with one of the codes of section 18; an error means that
// nothing could be decided.
package rig
