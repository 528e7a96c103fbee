//go:build !linux

package main

// resident is not known here.
func resident(int) int64 { return 0 }
