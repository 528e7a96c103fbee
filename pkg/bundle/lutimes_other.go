//go:build !unix

package bundle

import (
	"os"
	"time"
)

// lutimes does nothing: the times of a symlink itself can't be set here.
func lutimes(*os.Root, string, time.Time) error { return nil }
