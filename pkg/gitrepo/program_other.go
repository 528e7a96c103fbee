//go:build !linux

package gitrepo

// systemConfig knows no program here, so that git is always asked.
func systemConfig(string) (path string, ok bool) { return "", false }

func (r *Repo) systemConfig() (path string, ok bool) { return systemConfig(r.git) }
