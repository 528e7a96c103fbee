// Package portable decides what a name means to file systems: whether every
// one can hold it, which other names some of them take for it, and which they
// take for .git. Bytes in, a verdict out; no file is looked at.
//
// Rules that guard a path and the formats of bundles ask here, so that both
// say the same of a name.
package portable
