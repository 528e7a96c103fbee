package bridge

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// maxAttributes is how much of a file of attributes is searched, in bytes.
const maxAttributes = 1 << 20

// unconverted tells that git stores bytes of ours in a thread as they are,
// without asking git: no file of attributes speaks of a filter, of ident or of
// an encoding (gitattributes), and line ends, which other attributes and the
// configuration are about, are LF already. Where it cannot be sure it says no,
// and git has to be asked. A commit that holds other bytes all the same is
// taken back, see findCommit.
func (w *work) unconverted(thread string, data []byte) (bool, error) {
	if runtime.GOOS == "windows" || bytes.IndexByte(data, '\r') >= 0 {
		return false, nil // git for Windows keeps its attributes in places of its own
	}
	env := w.repo.Env()
	if env.Get("GIT_ATTR_SOURCE") != "" {
		return false, nil
	}
	for _, key := range []string{"core.attributesFile", "attr.tree"} {
		if v, err := w.config(key); err != nil || v != "" {
			return false, err
		}
	}
	files := []string{
		filepath.Join(w.root, ".gitattributes"),
		filepath.Join(w.root, thread, ".gitattributes"),
		filepath.Join(w.repo.CommonDir(), "info", "attributes"),
		"/etc/gitattributes",
	}
	if git, err := filepath.EvalSymlinks(w.repo.Program()); err == nil {
		files = append(files, filepath.Join(filepath.Dir(git), "..", "etc", "gitattributes"))
	}
	if home := env.Get("HOME"); home != "" {
		files = append(files, filepath.Join(home, ".config", "git", "attributes"))
	}
	if dir := env.Get("XDG_CONFIG_HOME"); dir != "" {
		files = append(files, filepath.Join(dir, "git", "attributes"))
	}
	for _, file := range files {
		if !harmlessAttributes(file) {
			return false, nil
		}
	}
	return true, nil
}

// harmlessAttributes reports whether a file of attributes, if there is one, says
// nothing that changes more than line ends.
func harmlessAttributes(file string) bool {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return errors.Is(err, fs.ErrNotExist)
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAttributes+1))
	if err != nil || len(text) > maxAttributes {
		return false
	}
	for _, word := range []string{"filter", "ident", "encoding"} {
		if bytes.Contains(text, []byte(word)) {
			return false
		}
	}
	return true
}
