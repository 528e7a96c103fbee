//go:build !linux

package gitrepo

// statOf is for where files are read in git's place.
func statOf(string, []byte) (stat []byte, ok bool) { return nil, false }
