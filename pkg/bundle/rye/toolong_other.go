//go:build !unix

package rye

// tooLong is false where the file system has no such error.
func tooLong(error) bool { return false }
