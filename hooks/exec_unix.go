//go:build unix

package hooks

import "io/fs"

func hasExecBit(m fs.FileMode) bool { return m&0o111 != 0 }
