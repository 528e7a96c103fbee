//go:build !unix

package main

// unread would return a channel that is closed when the reader of standard
// output is gone; here the next write finds out.
func unread() <-chan struct{} { return nil }
