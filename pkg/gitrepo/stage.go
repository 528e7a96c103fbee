package gitrepo

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"hash/adler32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Stage does what `git add -- path` does for a new file in a directory of the top of
// the work tree, without starting git: it stores the content as a blob and adds an
// entry to the index. The caller knows that git stores these bytes as they are
// (gitattributes(5)), and that the file was made with them.
//
// It says no (done is false, and nothing has changed but a blob that nobody refers to)
// wherever git might refuse, store something else or do more: a path that a pattern
// may ignore, other things in its place, an index with extensions beside the one
// for trees, a lock, a hook of the index, or a setting of which it is not known that
// it does not matter.
func (r *Repo) Stage(path string, data []byte) (done bool) {
	dir, name, ok := strings.Cut(path, "/")
	if !ok || dir == "" || name == "" || strings.Contains(name, "/") || len(path) > maxIndexPath || len(data) > maxStaged {
		return false
	}
	if r.ctx.Err() != nil || r.workTree == "" || !r.knownGit() || !r.addsPlainly() || r.mayIgnore(dir, name) {
		return false
	}
	if _, err := os.Lstat(filepath.Join(r.workTree, dir, ".git")); !errors.Is(err, fs.ErrNotExist) {
		return false // another repository
	}
	stat, ok := statOf(filepath.Join(r.workTree, dir, name), data)
	if !ok {
		return false
	}
	id := r.objectSum("blob", data)
	return r.storeLoose(id, "blob", data) && r.addEntry(path, id, stat)
}

// maxStaged is the largest blob that is stored here, in bytes.
const maxStaged = 60 << 10

// harmlessCore are the settings below core that do not change how a file is added
// whose bytes are stored as they are (git-config(1)).
var harmlessCore = []string{
	"repositoryformatversion", "bare", "filemode", "symlinks", "logallrefupdates", "autocrlf", "eol", "safecrlf", "quotepath", "abbrev",
	"editor", "pager", "sshcommand", "askpass", "commentchar", "commentstring", "whitespace", "hookspath", "warnambiguousrefs", "protecthfs",
	"protectntfs", "gitproxy", "notesref",
}

// addsPlainly reports whether nothing in environment, configuration and hooks makes
// git add do more than store a blob and write an index with one entry more.
func (r *Repo) addsPlainly() bool {
	for _, key := range []string{"GIT_INDEX_FILE", "GIT_INDEX_VERSION", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_FORCE_UNTRACKED_CACHE"} {
		if _, set := r.env.Lookup(key); set {
			return false
		}
	}
	for key, values := range r.known {
		last := values[len(values)-1]
		switch section, name, _ := strings.Cut(key, "."); {
		case section == "index", section == "feature", section == "fsmonitor":
			return false
		case section == "core" && (name == "ignorecase" || name == "precomposeunicode" || name == "fsmonitor" || name == "sparsecheckout") && last.text == "false":
		case section == "core" && !slices.Contains(harmlessCore, name):
			return false
		}
	}
	hooks := filepath.Join(r.commonDir, "hooks")
	if set := r.known["core.hookspath"]; len(set) > 0 {
		hooks = set[len(set)-1].text
		if strings.HasPrefix(hooks, "~") {
			return false
		}
		if !filepath.IsAbs(hooks) {
			hooks = filepath.Join(r.workTree, hooks)
		}
	}
	_, err := os.Lstat(filepath.Join(hooks, "post-index-change"))
	return errors.Is(err, fs.ErrNotExist)
}

// mayIgnore reports whether a pattern in one of the files that git reads could mean
// a file or its directory (gitignore(5)).
func (r *Repo) mayIgnore(dir, name string) bool {
	home, _ := r.env.Lookup("HOME")
	xdg, _ := r.env.Lookup("XDG_CONFIG_HOME")
	files := []string{
		filepath.Join(r.workTree, ".gitignore"), filepath.Join(r.workTree, dir, ".gitignore"), filepath.Join(r.commonDir, "info", "exclude"),
	}
	if home != "" {
		files = append(files, filepath.Join(home, ".config", "git", "ignore"))
	}
	if xdg != "" {
		files = append(files, filepath.Join(xdg, "git", "ignore"))
	}
	for _, file := range files {
		info, err := os.Lstat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig {
			return true
		}
		text, err := os.ReadFile(file)
		if err != nil || mayMatch(string(text), dir, name) {
			return true
		}
	}
	return false
}

// mayMatch reports whether a pattern of a text could mean a directory, a file in it
// or both. No is certain.
func mayMatch(text, dir, name string) bool {
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		pattern := strings.TrimRight(line, " \t\r\n")
		if pattern == "" || pattern[0] == '#' || pattern[0] == '!' {
			continue
		}
		if strings.Contains(pattern, "\\") {
			return true
		}
		pattern = strings.TrimPrefix(pattern, "/")
		for strings.HasPrefix(pattern, "**/") {
			pattern = pattern[3:]
		}
		pattern = strings.TrimRight(pattern, "/")
		for _, target := range []string{dir, name, dir + "/" + name} {
			first := strings.IndexAny(pattern, "*?[")
			if first < 0 {
				if pattern == target {
					return true
				}
				continue
			}
			last := strings.LastIndexAny(pattern, "*?[]")
			if strings.HasPrefix(target, pattern[:first]) && strings.HasSuffix(target, pattern[last+1:]) {
				return true
			}
		}
	}
	return false
}

// sum makes the hash by which objects are named.
func (r *Repo) sum() hash.Hash {
	if r.format == "sha256" {
		return sha256.New()
	}
	return sha1.New()
}

func (r *Repo) objectSum(typ string, data []byte) []byte {
	h := r.sum()
	_, _ = io.WriteString(h, typ+" "+strconv.Itoa(len(data))+"\x00")
	_, _ = h.Write(data)
	return h.Sum(nil)
}

// storeLoose writes an object as git does: complete, then under its name, never over
// another file (gitrepository-layout(5), objects).
func (r *Repo) storeLoose(id []byte, typ string, data []byte) bool {
	text := hex.EncodeToString(id)
	dir := filepath.Join(r.commonDir, "objects", text[:2])
	file := filepath.Join(dir, text[2:])
	if info, err := os.Lstat(file); err == nil {
		return info.Mode().IsRegular() && freshened(file) // which keeps git from pruning it
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return false
	}
	tmp := filepath.Join(dir, "tmp_obj_"+strconv.FormatUint(rand.Uint64(), 36))
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return false
	}
	_, err = f.Write(storedZlib(append([]byte(typ+" "+strconv.Itoa(len(data))+"\x00"), data...)))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err == nil
}

// storedZlib is a zlib stream of at most 65,535 bytes that are not compressed (RFC
// 1950; RFC 1951, 3.2.4): the tables of a compressor cost more than a message
// weighs, and git compresses what it packs.
func storedZlib(data []byte) []byte {
	out := []byte{0x78, 0x01, 1}
	out = binary.LittleEndian.AppendUint16(out, uint16(len(data)))
	out = binary.LittleEndian.AppendUint16(out, ^uint16(len(data)))
	return binary.BigEndian.AppendUint32(append(out, data...), adler32.Checksum(data))
}

// addEntry writes the index with one entry more, under git's own lock. Times of the
// file stay those of the index before: what was changed too soon after that to be
// told by its times is still read by git, as the new entry is
// (Documentation/technical/racy-git).
func (r *Repo) addEntry(path string, id, stat []byte) bool {
	index := filepath.Join(r.gitDir, "index")
	lock, err := os.OpenFile(index+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return false
	}
	done := false
	defer func() {
		if !done {
			_ = lock.Close()
			_ = os.Remove(index + ".lock")
		}
	}()
	info, err := os.Lstat(index)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	x, ok := readIndex(index, len(id))
	if !ok {
		return false
	}
	parts, ok := x.with(path, id, stat)
	if !ok {
		return false
	}
	sum := r.sum()
	for _, p := range parts {
		_, _ = sum.Write(p)
	}
	for _, p := range append(parts, sum.Sum(nil)) {
		if _, err := lock.Write(p); err != nil {
			return false
		}
	}
	runtime.KeepAlive(x)
	if lock.Close() != nil || os.Chtimes(index+".lock", info.ModTime(), info.ModTime()) != nil || os.Rename(index+".lock", index) != nil {
		return false
	}
	done = true
	return true
}

// maxAdded is up to how many bytes an index is written here. git writes a larger one
// so that several processors can read it.
const maxAdded = 4 << 20

// with returns the parts of the index with an entry more, without the checksum; ok is
// false for an index of another form, and where something is at the path, above or
// below it.
func (x *Index) with(path string, id, stat []byte) (parts [][]byte, ok bool) {
	dir, _, _ := strings.Cut(path, "/")
	if len(x.at) == 0 || x.more || len(x.data) > maxAdded || binary.BigEndian.Uint32(x.data[4:]) > 3 {
		return nil, false
	}
	for _, taken := range []string{path, dir} {
		if _, there := x.Lookup(taken); there {
			return nil, false
		}
	}
	if x.HasDir(path) {
		return nil, false
	}
	trees, ok := x.treesWithout(dir)
	if !ok {
		return nil, false
	}
	entry := append(append(slices.Clone(stat), id...), 0, 0)
	binary.BigEndian.PutUint16(entry[len(entry)-2:], uint16(min(len(path), 0xfff)))
	entry = append(entry, path...)
	entry = append(entry, make([]byte, 8-len(entry)%8)...)
	at := x.end
	if i := x.search(path); i < len(x.at) {
		at = int(x.at[i])
	}
	head := slices.Clone(x.data[:12])
	binary.BigEndian.PutUint32(head[8:], uint32(len(x.at)+1))
	return [][]byte{head, x.data[12:at], entry, x.data[at:x.end], trees}, true
}

// treesWithout returns the extension that holds the ids of trees, without those of the
// top and of one directory in it.
func (x *Index) treesWithout(dir string) (ext []byte, ok bool) {
	if x.trees == nil {
		return nil, true
	}
	root, ok := x.cached(x.trees)
	if !ok || len(root.name) > 0 {
		return nil, false
	}
	unknown := func(t cachedTree) {
		ext = append(append(ext, t.name...), "\x00-1 "+strconv.Itoa(t.below)+"\n"...)
	}
	ext = append(ext, "TREE\x00\x00\x00\x00"...)
	unknown(root)
	rest := root.rest
	for range root.below {
		t, ok := x.cached(rest)
		if !ok {
			return nil, false
		}
		after, ok := x.below(t, 1)
		if !ok {
			return nil, false
		}
		if string(t.name) == dir {
			unknown(t)
			rest = t.rest
		}
		ext, rest = append(ext, rest[:len(rest)-len(after)]...), after
	}
	binary.BigEndian.PutUint32(ext[4:], uint32(len(ext)-8))
	return ext, len(rest) == 0
}
