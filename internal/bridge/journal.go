package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/gitrepo"
)

const (
	journalFile  = "rig-bridge.journal"
	scaffoldFile = "rig-bridge.scaffold" // what an edited scaffold was before it was sent
)

// A journal says what a writing command is about to do, so that the next run
// can take it back or finish it if this one is killed (docs/spec/client.md#sending).
// It lies in git's common directory and is there only while a command
// runs, under the clone's lock.
type journal struct {
	Version  int       `json:"version"`
	Started  time.Time `json:"started"`
	Key      string    `json:"key"`  // digest of what the user asked for
	Root     string    `json:"root"` // work tree
	Path     string    `json:"path"`
	Blob     string    `json:"blob"`
	Branch   string    `json:"branch"`
	Tracking string    `json:"tracking,omitempty"` // ref that remembers the remote's branch
	Before   string    `json:"before"`             // tip of the branch, "" if it had none
	Scaffold bool      `json:"scaffold"`           // Path existed and is replaced
	Opens    bool      `json:"opens,omitempty"`    // the directory of Path is made for it
	Commit   string    `json:"commit,omitempty"`   // once it exists
	Client   string    `json:"client,omitempty"`   // name of the record of --key, and what was typed
	Typed    string    `json:"typed,omitempty"`
	// Moved maps commits of ours to those that stand for them on top of what
	// others pushed, from before their push until the branch has followed.
	Moved map[string]string `json:"moved,omitempty"`
	Tip   string            `json:"tip,omitempty"`  // where the branch follows to
	From  string            `json:"from,omitempty"` // where it stands meanwhile
}

func (w *work) journalPath() string { return filepath.Join(w.repo.CommonDir(), journalFile) }

func (w *work) writeJournal(j *journal) error {
	data, err := json.Marshal(j)
	if err == nil {
		err = files.Swap(w.journalPath(), append(data, '\n'), 0o644)
	}
	if err != nil {
		return cannotWrite(w.journalPath(), err)
	}
	return nil
}

// readJournal returns nil if no run was cut off. A journal that cannot be
// understood is set aside: it was written by replaceFile, so it is not ours.
func (w *work) readJournal() (*journal, error) {
	data, err := os.ReadFile(w.journalPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cannotRead(w.journalPath(), err)
	}
	var j journal
	if err := json.Unmarshal(data, &j); err != nil || j.Version != 1 {
		return nil, fail(codeRuntime, "%s is not a journal of this version", quote(w.journalPath())).
			withHint("look at it, then remove it")
	}
	return &j, nil
}

func (w *work) dropJournal() error {
	os.Remove(filepath.Join(w.repo.CommonDir(), scaffoldFile))
	if err := os.Remove(w.journalPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cannotWrite(w.journalPath(), err)
	}
	return nil
}

// endJournal drops the journal of a run that is done. If the branch could not
// follow what was pushed it stays: by it the next run knows the commits again.
func (w *work) endJournal(j *journal, p *posted) error {
	if p.pushed && j.Tip != "" {
		return nil
	}
	return w.dropJournal()
}

// recover takes back or completes what a killed run left behind. It runs under
// the lock, so no git of that run is alive any more but one that talks to a
// remote (gitRemote). It returns the journal if that run's commit exists, for
// the caller to finish.
func (w *work) recover(ctx context.Context) (*journal, error) {
	j, err := w.readJournal()
	if j == nil || err != nil {
		return nil, err
	}
	if _, err := os.Lstat(j.Root); errors.Is(err, fs.ErrNotExist) {
		return nil, w.dropJournal() // its linked worktree is gone, and the rest with it
	}
	if err := w.removeStaleLocks(ctx, j); err != nil {
		return nil, err
	}
	if j.Commit == "" {
		if j.Commit, err = w.findCommit(j); err != nil {
			return nil, err
		}
	}
	if j.Commit == "" {
		if err := w.takeBack(ctx, j); err != nil {
			return nil, err
		}
		return nil, w.dropJournal()
	}
	tip, err := w.ref(j.Branch)
	if err != nil {
		return nil, err
	}
	kept, err := w.ancestor(ctx, j.Commit, tip)
	if err == nil && !kept && j.Moved[j.Commit] != "" {
		if kept, err = w.ancestor(ctx, j.Moved[j.Commit], tip); kept {
			// The branch had followed already.
			j.Commit = j.Moved[j.Commit]
			j.Path, err = w.addedPath(j.Commit)
			j.Tip, j.From = "", ""
		}
	} else if err == nil && kept && j.Tip == "" {
		err = w.settleIndex(ctx, j)
	}
	switch {
	case err != nil:
		return nil, err
	case !kept:
		return nil, w.dropJournal() // somebody has taken the commit back
	}
	return j, nil
}

// addedPath returns the path that a commit of ours adds.
func (w *work) addedPath(commit string) (string, error) {
	c, err := w.repo.Commit(commit)
	if err != nil {
		return "", gitProblem(err)
	}
	diffs, err := w.repo.DiffCommit(c)
	if err != nil {
		return "", gitProblem(err)
	}
	if len(diffs) == 0 || len(diffs[0].Changes) == 0 {
		return "", fail(codeRuntime, "the commit %s adds no message", short(commit))
	}
	return diffs[0].Changes[0].Path, nil
}

// findCommit looks for the commit that a run made: the newest first parent of
// the branch, back to where it stood, in which the path holds the blob and
// whose parent does not. "" if there is none.
func (w *work) findCommit(j *journal) (string, error) {
	tip, err := w.ref(j.Branch)
	if err != nil {
		return "", err
	}
	for steps := 0; tip != "" && tip != j.Before && steps < 1000; steps++ {
		c, err := w.repo.Commit(tip)
		if err != nil {
			return "", gitProblem(err)
		}
		here, err := w.blobAt(tip, j.Path)
		if err != nil {
			return "", err
		}
		parent := ""
		if len(c.Parents) > 0 {
			parent = c.Parents[0]
		}
		there, err := w.blobAt(parent, j.Path)
		if err != nil {
			return "", err
		}
		if here == j.Blob && there != j.Blob {
			return tip, nil
		}
		tip = parent
	}
	return "", nil
}

// blobAt returns the id of the regular file at an envelope path in a commit,
// "" if there is none.
func (w *work) blobAt(commit, path string) (string, error) {
	if commit == "" {
		return "", nil
	}
	thread, file := splitPath(path)
	files, err := w.treeFiles(commit, thread)
	return files[file], err
}

// takeBack restores work tree and index to what they were before the run.
func (w *work) takeBack(ctx context.Context, j *journal) error {
	file := filepath.Join(j.Root, filepath.FromSlash(j.Path))
	data, err := os.ReadFile(file)
	if err == nil && w.blobID(data) == j.Blob {
		if j.Scaffold {
			err = os.Rename(filepath.Join(w.repo.CommonDir(), scaffoldFile), file)
		} else {
			err = os.Remove(file)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cannotWrite(file, err)
		}
	}
	if j.Opens {
		os.Remove(filepath.Dir(file)) // fails where others have put something into it
	}
	// The entry is in the index only if we put it there: a name that the
	// index held was not free.
	res, err := w.gitAt(ctx, j.Root, "ls-files", "-z", "--", j.Path)
	if err != nil || res.Code == 0 && len(res.Stdout) == 0 {
		return err
	}
	res, err = w.gitAt(ctx, j.Root, "update-index", "--force-remove", "--", j.Path)
	if err == nil && res.Code != 0 {
		return gitFailed("git update-index", res)
	}
	return err
}

// settleIndex makes the index hold the path of a commit that exists: a killed
// git commit may have moved the branch and not the index.
func (w *work) settleIndex(ctx context.Context, j *journal) error {
	res, err := w.gitAt(ctx, j.Root, "ls-files", "-s", "-z", "--", j.Path)
	if err != nil {
		return err
	}
	if bytes.Contains(res.Stdout, []byte(j.Blob)) {
		return nil
	}
	head, err := w.blobAt(j.Commit, j.Path)
	if err != nil || head != j.Blob {
		return err
	}
	res, err = w.gitAt(ctx, j.Root, "update-index", "--add", "--cacheinfo", "100644,"+j.Blob+","+j.Path)
	if err == nil && res.Code != 0 {
		return gitFailed("git update-index", res)
	}
	return err
}

// gitAt runs git in another work tree of the same repository.
func (w *work) gitAt(ctx context.Context, root string, args ...string) (gitrepo.Result, error) {
	if root == w.root {
		return w.git(ctx, args...)
	}
	return w.git(ctx, append([]string{"-C", root}, args...)...)
}

// removeStaleLocks removes the lock files that a killed git left which a journal is of.
func (w *work) removeStaleLocks(ctx context.Context, j *journal) error {
	written, err := os.Stat(w.journalPath())
	if err != nil {
		return cannotRead(w.journalPath(), err)
	}
	return w.removeLocks(ctx, j.Root, []string{"index", "HEAD", j.Branch, j.Tracking}, j.Started, written.ModTime())
}

// removeLocks removes git's locks on some files of the git directory of a work tree:
// those made since a run began, and not long after it last said that it was there, that
// nobody touches for a second.
func (w *work) removeLocks(ctx context.Context, root string, locked []string, begun, said time.Time) error {
	args := []string{"rev-parse", "--path-format=absolute"}
	for _, file := range locked {
		if file != "" {
			args = append(args, "--git-path", file+".lock")
		}
	}
	paths, err := w.gitAt(ctx, root, args...)
	if err != nil {
		return err
	}
	if paths.Code != 0 {
		return gitFailed("git rev-parse", paths)
	}
	first, last := begun.Add(-2*time.Second), said.Add(resumable)
	seen := map[string]fs.FileInfo{}
	for line := range bytes.Lines(paths.Stdout) {
		path := string(bytes.TrimSuffix(line, []byte("\n")))
		if info, err := os.Lstat(path); err == nil && info.ModTime().After(first) && info.ModTime().Before(last) {
			seen[path] = info
		}
	}
	if len(seen) == 0 {
		return nil
	}
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for path, before := range seen {
		now, err := os.Lstat(path)
		if err != nil || !os.SameFile(before, now) || !now.ModTime().Equal(before.ModTime()) || now.Size() != before.Size() {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cannotWrite(path, err)
		}
	}
	return nil
}
