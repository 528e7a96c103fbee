// Package module says where the sources of this module are, for tests.
package module

import (
	"os"
	"path/filepath"
)

// A test starts in the directory of its package, and may leave it. What the
// compiler knows of places is no help: -trimpath takes it away.
var root = above(os.Getwd())

// Root returns the top of the module, "" outside of it.
func Root() string { return root }

// above returns the nearest directory with a go.mod, from one upwards.
func above(dir string, err error) string {
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}
