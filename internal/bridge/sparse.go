package bridge

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// leftOut returns the messages of a thread that a sparse checkout leaves out of
// the work tree, by name, with the blobs that the index has of them
// (git-sparse-checkout: the skip-worktree bit).
func (w *work) leftOut(ctx context.Context, thread string) (map[string]string, error) {
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
	out := map[string]string{}
	for _, line := range strings.Split(list, "\x00") {
		entry, path, ok := strings.Cut(line, "\t")
		words := strings.Fields(entry) // tag, mode, blob, stage
		if !ok || len(words) != 4 || words[0] != "S" || words[1] != gitrepo.ModeFile.String() || !envelope.IsEnvelopePath(path) {
			continue
		}
		_, name := splitPath(path)
		if _, err := os.Lstat(filepath.Join(w.root, thread, name)); err != nil {
			out[name] = words[2]
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
	more, err := w.messagesOf(thread, left)
	if err != nil {
		return nil, err
	}
	ms = append(ms, more...)
	slices.SortFunc(ms, func(a, b *message) int { return strings.Compare(a.file, b.file) })
	return ms, nil
}
