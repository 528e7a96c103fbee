//go:build !unix

package main

func umask(int) func() { return func() {} }
