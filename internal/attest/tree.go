package attest

import "golang.org/x/mod/sumdb/tlog"

// A Node is the root of a whole subtree of the Merkle tree of all statements (RFC
// 6962, as tlog has it): Size is a power of two.
type Node struct {
	Size int64     `json:"size"`
	Hash tlog.Hash `json:"hash"`
}

// grow adds a statement to the tree.
func (c *Chain) grow(payload []byte) {
	c.Edge = append(c.Edge, Node{1, tlog.RecordHash(payload)})
	for n := len(c.Edge); n > 1 && c.Edge[n-2].Size == c.Edge[n-1].Size; n = len(c.Edge) {
		left, right := c.Edge[n-2], c.Edge[n-1]
		c.Edge = append(c.Edge[:n-2], Node{2 * left.Size, tlog.NodeHash(left.Hash, right.Hash)})
	}
}

// Root is the hash of the tree.
func (c *Chain) Root() (root tlog.Hash) {
	for i := len(c.Edge) - 1; i >= 0; i-- {
		if i == len(c.Edge)-1 {
			root = c.Edge[i].Hash
		} else {
			root = tlog.NodeHash(c.Edge[i].Hash, root)
		}
	}
	return root
}
