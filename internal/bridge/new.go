package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/envelope"
)

type newObject struct {
	head
	Type     string `json:"type"`
	ThreadID string `json:"thread_id"`
	Thread   string `json:"thread"`
	FilePath string `json:"file_path"`
	File     string `json:"file"`
}

const scaffoldName = "REQUEST.md"

// noRecipient stands in a scaffold where the recipient belongs. It is no rig
// id, on purpose: a scaffold that nobody edited cannot be committed.
const noRecipient = "?"

// runNew is `rig-bridge new` (docs/spec/client.md#commands).
func runNew(r *run) error {
	thread := r.opts.Word(0)
	if err := checkThread(thread); err != nil {
		return err
	}
	w, c, err := r.openAsRig()
	if err != nil {
		return err
	}
	defer w.close()
	if err := c.notRelay(); err != nil {
		return err
	}
	if err := w.threadsOnTop(); err != nil {
		return err
	}
	dir := filepath.Join(w.root, thread)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return fail(codeExists, "%s exists and is not a directory", quote(thread))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cannotRead(dir, err)
	}
	file := filepath.Join(dir, scaffoldName)
	path := thread + "/" + scaffoldName
	_, statErr := os.Lstat(file)
	_, headID, err := w.repo.HEAD()
	if err != nil {
		return gitProblem(err)
	}
	committed, err := w.treeFiles(headID, thread)
	if err != nil {
		return err
	}
	switch {
	case committed[scaffoldName] != "":
		return fail(codeExists, "%s is committed already", path).withHint("rig-bridge send <type> --thread %s --to <ids>", thread)
	case statErr == nil && !r.opts.Has("--force"):
		return fail(codeExists, "%s exists already", path).withHint("rig-bridge new %s --force", thread)
	}
	data, err := envelope.Render(scaffold(c, thread, r.today()))
	if err != nil {
		return fail(codeInvalid, "the scaffold cannot be rendered: %s", err.Error())
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return cannotWrite(dir, err)
	}
	if err := files.Swap(file, data, 0o644); err != nil {
		return cannotWrite(file, err)
	}
	if r.json {
		return r.object(newObject{r.head(), "REQUEST", thread, thread, path, path})
	}
	fmt.Fprintf(&r.out, "rig-bridge: scaffolded type=REQUEST thread=%s file=%s\n", token(thread), token(path))
	r.note("edit %s, then run `rig-bridge send REQUEST --thread %s --to <ids>`", path, thread)
	return nil
}

func scaffold(c config, thread, date string) envelope.Fields {
	return envelope.Fields{
		From: c.rigID, To: []string{noRecipient}, Date: date, Status: "▶ " + thread + " opened", Type: "REQUEST",
		Thread: thread, DisplayName: c.displayName, Body: []byte(scaffoldBody(thread)),
	}
}

func scaffoldBody(thread string) string {
	return "# " + thread + "\n\n" + scaffoldLine + "\n"
}

// scaffoldLine says what belongs into a scaffold. It is never sent.
const scaffoldLine = "What is asked, of whom, and until when."

// today is the UTC day.
func (r *run) today() string { return r.env.Now().UTC().Format("2006-01-02") }
