// Package bundle is the archive core that all bundle formats share: one
// strict tar reader, one deterministic writer, path rules, digests, safe
// extraction, installation with rollback, and comparison.
//
// A bundle is judged before a byte of it is written anywhere. [Scan] reads a
// compressed tar archive once, from the first byte of the file to the last,
// with limits checked at each header, and refuses whatever two tar programs
// could read differently. What it returns, an [Archive], holds names, modes,
// sizes and hashes of all members, the two digests, and the contents that the
// format asked for. [Archive.Walk] reads contents again from the same handle.
//
// Identity of a bundle is the SHA-256 of its tar stream, never that of the
// compressed file: compressors change their output between releases.
//
// A format (packages rig, agent and rye) brings a [Profile] for reading, a
// [Layout] for writing and its own rules for the manifest. No format has a
// reader, writer, extraction, path check or file comparison of its own.
//
// What is wrong with an input is a [Finding]; what hinders the judgement, such
// as a read error of the disk, is an ordinary error. The two never mix.
package bundle
