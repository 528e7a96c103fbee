//go:build !unix

package bridge

// openNoFollow: links were told apart before by their directory entry.
const openNoFollow = 0
