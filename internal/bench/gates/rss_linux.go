package main

import (
	"fmt"
	"os"
	"strings"
)

// resident is the peak so far of a process's own resident memory in bytes
// (proc(5), VmHWM); 0 if it has ended. What wait4(2) tells counts its children,
// too.
func resident(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\nVmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}
