//go:build unix

package gitrepo

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Owner returns the account that a file or directory belongs to.
func Owner(path string) (*Account, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, nil
	}
	a := &Account{UID: st.Uid, GID: st.Gid, Name: fmt.Sprintf("uid %d", st.Uid)}
	u, err := user.LookupId(strconv.FormatUint(uint64(st.Uid), 10))
	if err != nil {
		return a, nil // an account without a name, as in containers
	}
	a.Name, a.Home = u.Username, u.HomeDir
	if gid, err := strconv.ParseUint(u.Gid, 10, 32); err == nil {
		a.GID = uint32(gid)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return a, nil
	}
	for _, id := range ids {
		if gid, err := strconv.ParseUint(id, 10, 32); err == nil {
			a.Groups = append(a.Groups, uint32(gid))
		}
	}
	return a, nil
}

// Current reports whether this process runs by the account's rights.
func (a *Account) Current() bool { return a == nil || int(a.UID) == os.Geteuid() }

// Lent reports whether this process may start others by the account's rights.
func (a *Account) Lent() bool { return a != nil && os.Geteuid() == 0 }

// Executes says why the account cannot run a program, "" if it can: each
// directory on the way must let it pass.
func (a *Account) Executes(program string) (why string) {
	if a == nil || a.UID == 0 {
		return ""
	}
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "it cannot be found"
	}
	for _, path := range []string{program, real} {
		for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err == nil && !a.may(info, 1) {
				return "it may not enter the directory " + strconv.Quote(dir)
			}
			if filepath.Dir(dir) == dir {
				break
			}
		}
	}
	if info, err := os.Stat(real); err == nil && !a.may(info, 1) {
		return "it may not execute the file"
	}
	return ""
}

// may reports whether the permission bits give the account what want asks for,
// as access(2) reads them: those of the first class that fits.
func (a *Account) may(info fs.FileInfo, want uint32) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	bits := uint32(info.Mode().Perm())
	switch {
	case st.Uid == a.UID:
		bits >>= 6
	case st.Gid == a.GID || contains(a.Groups, st.Gid):
		bits >>= 3
	}
	return bits&want == want
}

func contains(ids []uint32, id uint32) bool {
	for _, g := range ids {
		if g == id {
			return true
		}
	}
	return false
}

// run makes a child run by the account's rights, where that is another one.
func (a *Account) run(cmd *exec.Cmd) {
	if !a.Current() && a.Lent() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.UID, Gid: a.GID, Groups: a.Groups}}
		cmd.Env = append(cmd.Env, "HOME="+a.Home, "USER="+a.Name, "LOGNAME="+a.Name)
	}
}

// own reports whether a file or directory belongs to the user by whose rights git
// runs.
func (e Env) own(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !e.As.Current() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
