package hooks

// Threads is collectThreads.
var Threads = collectThreads
