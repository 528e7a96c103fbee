package hooks

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// WriteReports writes a report into files; relative names are relative to dir.
// A file is made anew. Below dir, which may be a checkout of what is judged, no
// symbolic link leads out of it, and a link of the file's name is replaced, not
// followed. The error names the file that could not be written.
func WriteReports(dir string, r *report.Report, targets []report.Target) error {
	for _, t := range targets {
		var b bytes.Buffer
		if err := report.Write(&b, r, t.Format); err != nil {
			return err
		}
		if err := writeBelow(dir, t.File, b.Bytes()); err != nil {
			return &policy.Undecided{Message: "the report " + finding.Quote(t.File) + " cannot be written", Hint: files.HintAt(err, dir), Cause: err}
		}
	}
	return nil
}

func writeBelow(dir, name string, data []byte) error {
	if filepath.IsAbs(name) {
		if rel, err := filepath.Rel(dir, name); err == nil {
			name = rel
		}
	}
	if !filepath.IsLocal(name) { // chosen by whoever calls, not by the checkout
		return files.Output(filepath.Join(dir, name), data)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tmp := name + ".rigward-new" // a link in the file's place is replaced, and half a report is none
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		_ = root.Remove(tmp)
	}
	return err
}

// addThreads adds to a report what a judged range brings to each thread. A
// drawing is not a verdict: where it fails, the report gets a note.
func addThreads(ctx context.Context, repo *gitrepo.Repo, r rules.Range, rep *report.Report) {
	threads, notes, err := collectThreads(ctx, repo, r)
	if err != nil {
		notes = append(notes, "the threads are not drawn: "+err.Error())
	}
	for _, t := range threads { // several refs may add the same turns
		i := slices.IndexFunc(rep.Threads, func(o report.Thread) bool { return o.ID == t.ID })
		if i < 0 {
			rep.Threads = append(rep.Threads, t)
			continue
		}
		for _, u := range t.Turns {
			if !slices.ContainsFunc(rep.Threads[i].Turns, func(o report.Turn) bool { return o.Path == u.Path }) {
				rep.Threads[i].Turns = append(rep.Threads[i].Turns, u)
			}
		}
	}
	rep.Notes = append(rep.Notes, notes...)
}

// Rules tells formats what the rules say.
func Rules() []report.Rule {
	var told []report.Rule
	for _, r := range rules.All() {
		told = append(told, report.Rule{ID: r.ID, Default: r.Default, Says: r.Says})
	}
	return told
}
