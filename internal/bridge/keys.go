package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

// A message with a key of the client's is sent once: each key has a record in
// this clone, which is written after the commit and before the push. A run that
// is killed between the two leaves its journal, from which the next run writes
// the record. The record names the message by its bytes, which stay the same
// where commit and file name change on top of what others pushed.
type keyRecord struct {
	Version int    `json:"version"`
	Typed   string `json:"typed"` // digest of what was asked for
	Path    string `json:"path"`
	Blob    string `json:"blob"`
}

const (
	maxKey       = 200 // bytes
	maxKeyRecord = 4 << 10
)

// keysDir is where the records lie.
func (w *work) keysDir(make bool) (string, error) {
	dir, err := w.stateDir(make)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "keys")
	if make {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", cannotWrite(dir, err)
		}
	}
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return "", fail(codeRuntime, "%s is not a directory, and is not followed", quote(dir)).withHint("rm %s", finding.Word(dir))
	}
	return dir, nil
}

// keepKey writes the record of a message that is committed, if it has a key.
func (w *work) keepKey(j *journal) error {
	if j.Client == "" {
		return nil
	}
	dir, err := w.keysDir(true)
	if err != nil {
		return err
	}
	data, err := json.Marshal(keyRecord{1, j.Typed, j.Path, j.Blob})
	if err == nil {
		err = files.Replace(filepath.Join(dir, j.Client), append(data, '\n'), 0o644)
	}
	if err != nil {
		return cannotWrite(filepath.Join(dir, j.Client), err)
	}
	return nil
}

// keptKey reads a record, nil if there is none.
func (r *run) keptKey(w *work, name string) (*keyRecord, error) {
	dir, err := w.keysDir(false)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, name)
	data, err := readFile(file, maxKeyRecord)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	var k *keyRecord
	if err == nil {
		k, err = parseKeyRecord(data, w.repo.ValidID)
	}
	if err != nil {
		return nil, fail(codeRuntime, "whether %s was used cannot be read from %s: %s", r.arg("--key"), quote(file), reason(err)).
			withHint("rig-bridge thread THREAD shows what was sent; rm %s lets the key be used anew", finding.Word(file))
	}
	return k, nil
}

// parseKeyRecord reads a record; validID knows ids of the repository.
func parseKeyRecord(data []byte, validID func(string) bool) (*keyRecord, error) {
	var k keyRecord
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, err
	}
	if k.Version != 1 || !envelope.IsEnvelopePath(k.Path) || !validID(k.Blob) {
		return nil, errors.New("it is not a record of this version")
	}
	return &k, nil
}

// typed names what the command line asks for: words, flags and body, apart from
// how and when it is sent.
func (r *run) typed() string {
	parts := []any{r.cmd.Name, r.opts.Words, r.body}
	for _, f := range r.cmd.Flags {
		if !slices.Contains([]string{"--key", "--no-push", "--author-from-env", "--body-file", "--open"}, f.Name) {
			parts = append(parts, f.Name, r.opts.All(f.Name))
		}
	}
	return digest(parts...)
}

// sentBefore returns the message that an earlier run sent with the same --key,
// nil if there is none. From then on the clone's lock is held, so that of two
// runs at once the second one finds what the first one sent.
func (r *run) sentBefore(w *work, c config) (*posted, error) {
	key, given := r.opts.Lookup("--key")
	switch {
	case !given:
		return nil, nil
	case key == "" || len(key) > maxKey || !utf8.ValidString(key) || finding.Clean(key) != key:
		return nil, usageError(r.cmd, "%s %s is not a text of 1 to %d bytes in one line", r.arg("--key"), quote(key), maxKey)
	}
	name := digest("key", c.rigID, key)
	if name == "" {
		return nil, fail(codeRuntime, "%s cannot be kept", r.arg("--key"))
	}
	if err := r.begin(w); err != nil {
		return nil, err
	}
	r.client = name
	k, err := r.keptKey(w, name)
	if err != nil || k == nil {
		return nil, err
	}
	if _, _, err := r.givenBody(); err != nil {
		return nil, err
	}
	if r.typed() != k.Typed {
		return nil, fail(codeExists, "%s %s was used for another message, %s", r.arg("--key"), quote(key), finding.Path(k.Path)).
			withHint("another key for another message").orTool("another key for another message")
	}
	return r.again(w, k.Path, k.Blob)
}

// again returns a message that an earlier run has committed, and pushes it if
// that did not get so far.
func (r *run) again(w *work, path, blob string) (*posted, error) {
	t, err := w.target()
	if err != nil {
		return nil, err
	}
	if j := r.left; j != nil && j.Blob == blob && j.Root == w.root && j.Branch == t.branch {
		p, err := r.resume(w, j, t)
		if p != nil {
			p.repeated = true
		}
		return p, err
	}
	tip, err := w.ref(t.branch)
	if err != nil {
		return nil, err
	}
	upstream, err := w.ref(t.tracking)
	if err != nil {
		return nil, err
	}
	p := &posted{target: t, repeated: true}
	for _, at := range []string{tip, upstream} {
		thread, file := splitPath(path)
		there, err := w.treeFiles(at, thread)
		if err != nil {
			return nil, err
		}
		if there[file] != blob {
			file = ""
			for name, id := range there {
				if id == blob && strings.HasSuffix(name, ".md") && (file == "" || compareNames(name, file) < 0) {
					file = name
				}
			}
		}
		if file == "" {
			continue
		}
		p.path = thread + "/" + file
		if p.commit, err = w.must(r.ctx, "rev-list", "-1", at, "--", ":(literal)"+p.path); err != nil {
			return nil, err
		}
		break
	}
	if p.commit == "" {
		return nil, fail(codeRefused, "%s was sent before, and is not in this branch any more", finding.Path(path)).
			withHint("git log --all -- %s; another --key sends it anew", finding.Word(path)).orTool("another key sends it anew")
	}
	if _, p.data, err = w.repo.Object(blob, envelope.DefaultLimits().File); err != nil {
		return nil, gitProblem(err)
	}
	p.env, p.notes = content(p.data, p.path, 0)
	if p.env == nil {
		return nil, fail(codeRefused, "%s, which was sent before, cannot be read", finding.Path(p.path))
	}
	if p.pushed, err = w.ancestor(r.ctx, p.commit, upstream); err != nil || p.pushed && upstream != "" || r.opts.Has("--no-push") {
		p.pushed = p.pushed && upstream != ""
		return p, err
	}
	j := &journal{Version: 1, Started: r.env.Now(), Root: w.root, Path: p.path, Blob: blob, Branch: t.branch, Tracking: t.tracking, Before: tip, Commit: p.commit,
		Client: r.client, Typed: r.typed()}
	if r.left != nil {
		j.Moved = r.left.Moved
	}
	if err := w.writeJournal(j); err != nil {
		return nil, err
	}
	r.kept = fmt.Sprintf("the commit %s of %s is kept and not pushed; push it with `%s`", short(p.commit), p.path, pushHint(t))
	r.atEnd(func() error { return w.endJournal(j, p) })
	p.pushed = false
	return p, (&delivery{run: r, w: w, j: j, p: p}).pushKeyed()
}

// pushKeyed pushes a message. Where it got another name on top of what others
// pushed, the record of its key follows.
func (r *delivery) pushKeyed() error {
	before := r.p.path
	if err := r.push(); err != nil || r.p.path == before {
		return err
	}
	moved := *r.j
	moved.Path = r.p.path
	return r.w.keepKey(&moved)
}

// told prints a message that is out, or why it is not.
func (r *run) told(p *posted, err error) error {
	if err != nil {
		return err
	}
	return r.sent(p, "")
}
