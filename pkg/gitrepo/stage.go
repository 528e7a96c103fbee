package gitrepo

import (
	"bytes"
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
	"time"
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
	id, stat, ok := r.addable(path, data)
	return ok && r.storeLoose(id, "blob", data) && r.addEntry(path, id, stat)
}

// addable reports whether Stage may add a file, and returns the id of its content and
// what the index says of it.
func (r *Repo) addable(path string, data []byte) (id, stat []byte, ok bool) {
	dir, name, ok := strings.Cut(path, "/")
	if !ok || dir == "" || name == "" || strings.Contains(name, "/") || len(path) > maxIndexPath || len(data) > maxStaged {
		return nil, nil, false
	}
	if r.ctx.Err() != nil || r.workTree == "" || !r.knownGit() || !r.addsPlainly() || r.mayIgnore(dir, name) {
		return nil, nil, false
	}
	if _, err := os.Lstat(filepath.Join(r.workTree, dir, ".git")); !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, false // another repository
	}
	stat, ok = statOf(filepath.Join(r.workTree, dir, name), data)
	return r.objectSum("blob", data), stat, ok
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
	return r.noHook("post-index-change")
}

// noHook reports whether git has none of these hooks to run.
func (r *Repo) noHook(names ...string) bool {
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
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(hooks, name)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
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
	n := r.indexWith(path, id, stat, nil)
	if n == nil {
		return false
	}
	defer n.drop()
	return os.Chtimes(n.name, n.old.ModTime(), n.old.ModTime()) == nil && n.place()
}

// A newFile is a file that git's lock on another one holds, to be put in its place.
type newFile struct {
	name, path string      // of the lock and of the file
	old        fs.FileInfo // of the file; may be nil
}

// newFileOf takes git's lock on a file, nil if another process has it.
func newFileOf(path string) (*newFile, *os.File) {
	f, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, nil
	}
	return &newFile{name: path + ".lock", path: path}, f
}

// place puts the file in its place, which ends the lock.
func (n *newFile) place() bool {
	if os.Rename(n.name, n.path) != nil {
		return false
	}
	n.name = ""
	return true
}

// drop ends the lock, and leaves the file as it was.
func (n *newFile) drop() {
	if n.name != "" {
		_ = os.Remove(n.name)
		n.name = ""
	}
}

// indexWith makes an index with one entry more, nil where that is left to git. now are
// the trees that the index comes to with it, nil if they are not known; then nothing
// that the index says is in doubt any more.
func (r *Repo) indexWith(path string, id, stat []byte, now *treesNow) *newFile {
	n, lock := newFileOf(filepath.Join(r.gitDir, "index"))
	if n == nil {
		return nil
	}
	info, err := os.Lstat(n.path)
	ok := err == nil && info.Mode().IsRegular()
	if n.old = info; ok {
		ok = r.writeIndexWith(lock, info, path, id, stat, now)
	}
	if lock.Close() != nil || !ok {
		n.drop()
		return nil
	}
	return n
}

func (r *Repo) writeIndexWith(to io.Writer, info fs.FileInfo, path string, id, stat []byte, now *treesNow) bool {
	x, ok := readIndex(filepath.Join(r.gitDir, "index"), len(id))
	if !ok || now != nil && !r.settled(x, info.ModTime()) {
		return false
	}
	parts, ok := x.with(path, id, stat, now)
	if !ok {
		return false
	}
	sum := r.sum()
	for _, p := range parts {
		_, _ = sum.Write(p)
	}
	for _, p := range append(parts, sum.Sum(nil)) {
		if _, err := to.Write(p); err != nil {
			return false
		}
	}
	runtime.KeepAlive(x)
	return true
}

// maxDoubted is how many files are read to settle what the index says of them.
const maxDoubted = 32

// settled reports whether those files whose times do not tell whether they were changed
// after the index was written, at a time, are what it says, so that an index may
// follow that is younger than they are.
func (r *Repo) settled(x *Index, written time.Time) bool {
	doubted := 0
	for i := range x.at {
		if int64(binary.BigEndian.Uint32(x.data[x.at[i]+8:])) < written.Unix() {
			continue
		}
		if doubted++; doubted > maxDoubted || x.mode(i) != ModeFile {
			return false
		}
		file := filepath.Join(r.workTree, filepath.FromSlash(string(x.name(i))))
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxStaged {
			return false
		}
		data, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(r.objectSum("blob", data), x.rawID(i)) {
			return false
		}
	}
	return true
}

// maxAdded is up to how many bytes an index is written here. git writes a larger one
// so that several processors can read it.
const maxAdded = 4 << 20

// with returns the parts of the index with an entry more, without the checksum; ok is
// false for an index of another form, and where something is at the path, above or
// below it.
func (x *Index) with(path string, id, stat []byte, now *treesNow) (parts [][]byte, ok bool) {
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
	trees, ok := x.treesWith(dir, now)
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

// treesNow are the ids of the trees of the top and of one directory in it, before and
// after a file is added to that.
type treesNow struct{ was, top, dir []byte }

// treesWith returns the extension that holds the ids of trees, with those of the top and
// of one directory in it as they are now, or without them where that is nil.
func (x *Index) treesWith(dir string, now *treesNow) (ext []byte, ok bool) {
	if x.trees == nil {
		return nil, now == nil
	}
	root, ok := x.cached(0)
	if !ok || root.name > 0 || now != nil && (int(root.covers) != len(x.at) || !bytes.Equal(x.cachedID(root), now.was)) {
		return nil, false
	}
	list, rest, ok := x.children(root, 1)
	if !ok || int(rest) != len(x.trees) {
		return nil, false
	}
	record := func(name []byte, t cachedTree, id []byte) {
		if t.covers++; now == nil {
			t.covers = -1
		}
		ext = append(append(append(ext, name...), "\x00"+strconv.Itoa(int(t.covers))+" "+strconv.Itoa(int(t.below))+"\n"...), id...)
	}
	ids := treesNow{}
	_, there := (&cachedList{Index: x, list: list}).of([]byte(dir))
	if there = there || now == nil; now != nil {
		ids = *now
	}
	ext = append(ext, "TREE\x00\x00\x00\x00"...)
	t := root
	if !there {
		t.below++
	}
	record(nil, t, ids.top)
	rest = root.rest
	for range root.below {
		t, ok := x.cached(rest)
		if !ok {
			return nil, false
		}
		after, ok := x.below(t, 1)
		if !ok {
			return nil, false
		}
		name := x.cachedName(t)
		if !there && (len(name) > len(dir) || len(name) == len(dir) && string(name) > dir) { // git's order
			record([]byte(dir), cachedTree{}, ids.dir)
			there = true
		}
		if string(name) == dir {
			record(name, t, ids.dir)
			rest = t.rest
		}
		ext, rest = append(ext, x.trees[rest:after]...), after
	}
	if !there {
		record([]byte(dir), cachedTree{}, ids.dir)
	}
	binary.BigEndian.PutUint32(ext[4:], uint32(len(ext)-8))
	return ext, true
}
