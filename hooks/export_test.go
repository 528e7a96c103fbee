package hooks

// Threads is collectThreads.
var Threads = collectThreads

// AtOnce sets how many commits are judged together.
func (c *Checker) AtOnce(n int) { c.atOnce = n }
