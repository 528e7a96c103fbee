// Package rye reads, verifies, creates and installs Rye bundles, the folder
// trees of docs/spec/ryebundle.md.
//
// A Rye bundle is a root folder with typed items below .ai/ and one signed
// manifest, .ai/bundles/{id}/manifest.yaml, that lists files with their
// hashes. Items may carry a signature line of their own. A signature covers
// the hex digits of a SHA-256 and nothing else, so everything that this package
// says about a bundle rests on three things together: the line is well-formed
// and stands where it must, the hash is that of the text, and the key is one
// that the person who asks has chosen to trust.
//
// [Verify] goes through the layers of docs/spec/ryebundle.md#verify and stops
// before anything unauthenticated is parsed as YAML. [VerifyItem] judges one
// file. Bundles are read through a [bundle.Source], a folder on disk or the tree
// of a commit, which follows no links. [Keyring] decides about trust: pins, then the project's store, then
// the user's; never the bundle's own key folder.
//
// What is wrong with an input is a [bundle.Finding] with a code of docs/spec/ryebundle.md#codes;
// what hinders the judgement is an error.
package rye
