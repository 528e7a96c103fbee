//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// resident is the maximum resident set of a process that has ended, in bytes.
func resident(p *os.ProcessState) int64 {
	usage, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss)
	}
	return int64(usage.Maxrss) << 10
}
