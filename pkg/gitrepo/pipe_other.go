//go:build !linux

package gitrepo

import "io"

// growPipe does nothing: only Linux can enlarge a pipe's buffer.
func growPipe(io.Reader) {}
