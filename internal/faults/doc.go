// Package faults breaks the machine around a server's hook: disks, limits,
// streams, children, objects. Whatever breaks, the hook gives the right
// verdict or none (exit 2): a bad push never passes.
package faults
