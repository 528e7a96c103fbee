package bridge

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/envelope"
)

const resolutionName = "RESOLUTION.md"

// runClose is `rig-bridge close` (docs/spec/client.md#commands).
func runClose(r *run) error {
	thread := r.opts.Word(0)
	class := r.opts.Get("--status")
	status := map[string]string{"completed": "✅ Completed", "cancelled": "❌ Cancelled"}[class]
	if status == "" {
		return usageError(r.cmd, "%s %s is neither completed nor cancelled", r.arg("--status"), quote(class))
	}
	if note, given := r.opts.Lookup("--note"); given && note != "" {
		if !utf8.ValidString(note) {
			return usageError(r.cmd, "%s %s is not valid UTF-8", r.arg("--note"), quote(note))
		}
		status += " — " + note
	}
	to, err := r.recipients()
	if err != nil {
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
	if err := w.threadDir(r.ctx, thread, listing, true); err != nil {
		return err
	}
	if len(to) == 0 {
		ms, err := w.readThread(r.ctx, thread)
		if err != nil {
			return err
		}
		ids, count := peers(ms, c.rigID)
		slices.SortFunc(ids, strings.Compare)
		to = []string{mostFrequent(ids, count, c.rigID)}
	}
	f := envelope.Fields{
		From: c.rigID, To: to, Date: r.today(), Status: status, Type: "RESOLUTION", Thread: thread,
		DisplayName: c.displayName, Body: []byte("# " + thread + " is " + class + "\n"),
	}
	d := draft{fields: f, name: resolutionName, subject: func(string) string { return "RESOLUTION: " + thread + " " + class }}
	d.key = digest("close", thread, f.To, status)
	p, err := r.post(w, d)
	if err != nil {
		return err
	}
	return r.sent(p, class)
}
