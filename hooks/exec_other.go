//go:build !unix

package hooks

import "io/fs"

// hasExecBit is always true where files have no such bit.
func hasExecBit(fs.FileMode) bool { return true }
