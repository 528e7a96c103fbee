package gitrepo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// FetchFiles does what `git fetch --no-tags` does of one branch of a remote in this
// machine's file system that has a few small commits in a row more than the ref which
// follows it here: it copies their objects, each of which has its id, moves the ref, and
// returns its commit. No process is started. FETCH_HEAD stays as it was. The caller
// knows that git would start no maintenance.
//
// It says no (done is false), and nothing has changed but for objects that nobody refers
// to, where anything in the two repositories, their configuration or the environment
// might make git do otherwise, and where the branch did not simply move forward.
func (r *Repo) FetchFiles(remote, branch, tracking string, when time.Time) (id ID, done bool) {
	if r.ctx.Err() != nil || !r.knownGit() || !r.addsPlainly() || !r.fetchesPlainly(remote) {
		return "", false
	}
	dir := r.remoteDir(remote)
	if dir == "" || CheckRefName(branch) != nil || CheckRefName(tracking) != nil || !r.servesPlainly(dir) {
		return "", false
	}
	there := &Repo{place: place{gitDir: dir, commonDir: dir, format: r.format, plain: true}}
	at, state := there.plainRef(branch)
	seen, state2 := r.plainRef(tracking)
	if state != refFound || state2 != refFound || at.ID == "" || seen.ID == "" || at.Target != "" || seen.Target != "" {
		return "", false
	}
	if at.ID == seen.ID {
		return at.ID, true
	}
	who, ok := r.plainIdentity(when)
	from := newStore(Env{}, dir, r.HashLen()/2)
	if !ok || from == nil {
		return "", false
	}
	defer from.close()
	c := copier{from: from, known: map[ID]bool{}}
	if !c.commits(at.ID, seen.ID) {
		return "", false
	}
	for _, o := range c.list {
		if !r.storeLoose(r.objectSum(o.typ, o.data), o.typ, o.data) {
			return "", false
		}
	}
	return at.ID, r.moveRef(tracking, seen.ID, at.ID, who, "fetch: fast-forward", []string{tracking}, func() bool { return true })
}

// fetchesPlainly reports whether nothing in environment, configuration and hooks makes
// git fetch from a remote do more than copy objects and move a ref.
func (r *Repo) fetchesPlainly(remote string) bool {
	for _, key := range []string{"GIT_ALLOW_PROTOCOL", "GIT_PROTOCOL_FROM_USER", "GIT_REFLOG_ACTION", "GIT_SHALLOW_FILE"} {
		if _, set := r.env.Lookup(key); set {
			return false
		}
	}
	own := "remote." + remote + "."
	for key := range r.known {
		switch section, _, _ := strings.Cut(key, "."); {
		case slices.Contains([]string{"fetch", "transfer", "protocol", "uploadpack", "hook", "trace2", "extensions"}, section) && key != "extensions.objectformat":
			return false
		case strings.HasPrefix(key, own) && !slices.Contains([]string{"url", "fetch", "pushurl", "receivepack"}, key[len(own):]):
			return false
		}
	}
	return r.noHook("reference-transaction") && r.whole(r.commonDir)
}

// whole reports whether a repository has not been cut (gitrepository-layout, shallow).
func (r *Repo) whole(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "shallow"))
	return errors.Is(err, fs.ErrNotExist)
}

// served are the sections of a repository's own configuration that do not change what
// git upload-pack gives away.
var served = []string{"receive", "rigward", "gc", "maintenance", "user", "remote", "branch"}

// servesPlainly reports whether git would serve a repository of this user as its files
// are: one of the same kind as r, of which nothing is hidden.
func (r *Repo) servesPlainly(dir string) bool {
	env := Env{Environ: []string{"GIT_DIR=" + dir}, Dir: dir}
	p, ok := findPlain(env)
	if !ok || p.gitDir != filepath.Clean(dir) || p.format != r.format || !env.own(dir) || !r.whole(dir) {
		return false
	}
	text, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil {
		return false
	}
	items, ok := parseConfigFile(string(text))
	for _, item := range items {
		section, name, _ := strings.Cut(item.key, ".")
		ok = ok && (slices.Contains(served, section) || section == "core" && slices.Contains(harmlessCore, name) || item.key == "extensions.objectformat")
	}
	return ok
}

// A copier collects the objects that one repository has and another one lacks, each
// behind those that it refers to.
type copier struct {
	from  *store
	known map[ID]bool
	list  []copied
	bytes int
}

type copied struct {
	typ  string
	data []byte
}

// Limits of what is copied. git packs what is more.
const (
	maxCopiedCommits = 64
	maxCopied        = 512 // objects
	maxCopiedDepth   = 64  // directories within each other
	maxCopiedBytes   = 4 << 20
)

func (c *copier) read(id ID, typ string) ([]byte, bool) {
	t, data, ok := c.from.read(id)
	return data, ok && t == typ && len(data) <= maxStaged
}

func (c *copier) add(id ID, typ string, data []byte) bool {
	if !c.known[id] {
		c.known[id] = true
		c.list = append(c.list, copied{typ, data})
		c.bytes += len(data)
	}
	return len(c.list) <= maxCopied && c.bytes <= maxCopiedBytes
}

// commits adds the commits from tip back to base, which the other repository has with
// all that it refers to; false if there is a merge on the way, or it is long.
func (c *copier) commits(tip, base ID) bool {
	var row []*Commit
	for id := tip; ; {
		data, ok := c.read(id, "commit")
		commit, err := ParseCommit(id, data)
		if !ok || err != nil {
			return false
		}
		row = append(row, commit)
		if id == base {
			break
		}
		if len(commit.Parents) != 1 || len(row) > maxCopiedCommits {
			return false
		}
		id = commit.Parents[0]
	}
	for i := len(row) - 2; i >= 0; i-- {
		if !c.tree(row[i].Tree, row[i+1].Tree, 0) || !c.add(row[i].ID, "commit", row[i].Raw) {
			return false
		}
	}
	return true
}

// tree adds a tree and what is in it, apart from what is in another one in the same
// place, "" for none.
func (c *copier) tree(id, other ID, depth int) bool {
	if id == other || c.known[id] {
		return true
	}
	var before []byte
	if other != "" {
		var ok bool
		if before, ok = c.read(other, "tree"); !ok {
			return false
		}
	}
	data, ok := c.read(id, "tree")
	was, err := ParseTree(other, before)
	now, err2 := ParseTree(id, data)
	if !ok || err != nil || err2 != nil || depth > maxCopiedDepth {
		return false
	}
	for e := range now.Entries() {
		old, there := was.Lookup(e.Name)
		if there && old == e {
			continue
		}
		switch e.Mode {
		case ModeTree:
			if old.Mode != ModeTree {
				old.ID = ""
			}
			if !c.tree(e.ID, old.ID, depth+1) {
				return false
			}
		case ModeGitlink:
		default:
			blob, ok := c.read(e.ID, "blob")
			if !ok || !c.add(e.ID, "blob", blob) {
				return false
			}
		}
	}
	return c.add(id, "tree", data)
}
