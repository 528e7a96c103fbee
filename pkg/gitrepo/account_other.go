//go:build !unix

package gitrepo

import "os/exec"

// Owner returns nil: files have no owner by whose rights a program could run
// here.
func Owner(string) (*Account, error) { return nil, nil }

// Current reports whether this process runs by the account's rights.
func (a *Account) Current() bool { return true }

// Lent reports whether this process may start others by the account's rights.
func (a *Account) Lent() bool { return false }

// Executes says why the account cannot run a program, "" if it can.
func (a *Account) Executes(string) (why string) { return "" }

func (a *Account) run(*exec.Cmd) {}

// own is for git to say here.
func (e Env) own(string) bool { return true }
