//go:build !unix

package files

import "os"

// Open is os.Open.
func Open(name string) (*os.File, error) { return os.Open(name) }
