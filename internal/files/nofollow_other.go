//go:build !unix

package files

// NoFollow is nothing where the system has no such flags.
const NoFollow = 0
