package bridge

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/envelope"
)

// leftOut returns the files of a thread that a sparse checkout leaves out of the work tree,
// as the index has them (git-sparse-checkout: the skip-worktree bit): what could be one of its
// messages if it were there.
func (w *work) leftOut(ctx context.Context, thread string) ([]treeEntry, error) {
	sparse, _, err := w.repo.ConfigBool("core.sparseCheckout")
	if err != nil {
		return nil, gitProblem(err)
	}
	if !sparse {
		return nil, nil
	}
	list, err := w.must(ctx, "ls-files", "-t", "-s", "-z", "--", ":(literal)"+thread+"/")
	if err != nil {
		return nil, err
	}
	var out []treeEntry
	for _, line := range strings.Split(list, "\x00") {
		entry, path, ok := strings.Cut(line, "\t")
		words := strings.Fields(entry) // tag, mode, blob, stage
		if !ok || len(words) != 4 || words[0] != "S" || !envelope.IsEnvelopePath(path) {
			continue
		}
		_, name := splitPath(path)
		if _, err := os.Lstat(filepath.Join(w.root, thread, name)); err != nil {
			out = append(out, treeEntry{mode: words[1], name: name, id: words[2]})
		}
	}
	return out, nil
}

// readThread reads a thread as the work tree has it, and from the index what a
// sparse checkout leaves out there.
func (w *work) readThread(ctx context.Context, thread string) ([]*message, error) {
	ms, err := readThread(w.root, thread)
	if err != nil {
		return nil, err
	}
	left, err := w.leftOut(ctx, thread)
	if err != nil || len(left) == 0 {
		return ms, err
	}
	files := map[string]string{}
	for _, e := range left {
		if why := notRegularEntry(e.mode); why != "" {
			ms = append(ms, unreadable(thread, e.name, why))
		} else {
			files[e.name] = e.id
		}
	}
	more, err := w.messagesOf(thread, files)
	if err != nil {
		return nil, err
	}
	ms = append(ms, more...)
	slices.SortFunc(ms, func(a, b *message) int { return strings.Compare(a.file, b.file) })
	return ms, nil
}
