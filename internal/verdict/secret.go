package verdict

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// UserDir is where what concerns all clones of a user lies, "" if there is no place.
func UserDir(getenv func(key string) (value string, set bool)) string {
	dir, _ := getenv("XDG_STATE_HOME")
	if runtime.GOOS == "windows" {
		dir, _ = getenv("LOCALAPPDATA")
	} else if !filepath.IsAbs(dir) {
		home, _ := getenv("HOME")
		dir = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "rigward")
}

// Secret returns what only this user has, from a file of theirs that is made with
// the bytes of random when it is first asked for. getenv is that of the environment.
// Without it nothing is kept; nil then.
func Secret(getenv func(key string) (value string, set bool), random io.Reader) []byte {
	dir := UserDir(getenv)
	if dir == "" {
		return nil
	}
	file := filepath.Join(dir, "secret")
	const size = 32
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		secret := make([]byte, size)
		if _, err := io.ReadFull(random, secret); err != nil || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
			return nil
		}
		// Complete, then visible: two runs at once agree on one.
		tmp, err := os.CreateTemp(filepath.Dir(file), "secret-")
		if err != nil {
			return nil
		}
		_, err = tmp.Write(secret)
		if e := tmp.Close(); err == nil && e == nil {
			_ = os.Link(tmp.Name(), file)
		}
		os.Remove(tmp.Name())
		info, err = os.Lstat(file)
		if err != nil {
			return nil
		}
	} else if err != nil {
		return nil
	}
	if !info.Mode().IsRegular() || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil // others could know it
	}
	data, err := os.ReadFile(file)
	if err != nil || len(data) != size {
		return nil
	}
	return data
}
