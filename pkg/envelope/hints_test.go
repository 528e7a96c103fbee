package envelope

import (
	"strings"
	"testing"
)

// TestPathHints: what is wrong with a path comes with the command or line that
// repairs it, quoted for a shell.
func TestPathHints(t *testing.T) {
	good := "---\nfrom: rig-a\nto: rig-b\ndate: 2026-01-05\nstatus: ▶ x\ntype: STATE\nthread: talk\nbody_hash: " + BodyHash([]byte("x\n")) + "\n---\nx\n"
	without := strings.Replace(good, "thread: talk\n", "", 1)
	for _, c := range []struct {
		name, path, text string
		mode             uint32
		hint             string
	}{
		{"nothing wrong", "talk/STATE.md", good, modeFile, ""},
		{"E14 a symbolic link", "talk/STATE.md", "", modeSymlink, "put a file in its place: git rm --cached -- talk/STATE.md"},
		{"E14 a submodule", "talk/STATE.md", "", modeGitlink, "git rm --cached -- talk/STATE.md"},
		{"E13 a device name", "talk/con.md", good, modeFile, "git mv -- talk/con.md talk/NAME.md"},
		{"E13 a name with a line end", "talk/a\nb.md", good, modeFile, `git mv -- $'talk/a\012b.md' talk/NAME.md`},
		{"E13 a name that a shell would run, below a root", "threads/talk/$(id):.md", good, modeFile, "git mv -- 'threads/talk/$(id):.md' threads/talk/NAME.md"},
		{"E14 a program whose name a shell would run", "talk/`id`.md", good, modeExecutable, "git update-index --chmod=-x -- 'talk/`id`.md'"},
		{"no thread", "talk/STATE.md", without, modeFile, "add the line thread: talk"},
		{"no thread, in a directory that can be none", "Talk Show/STATE.md", without, modeFile, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, fs := Parse([]byte(c.text), Options{Path: c.path, Mode: c.mode})
			var hints []string
			for _, f := range fs {
				if f.Hint != "" {
					hints = append(hints, f.Hint)
				}
			}
			if got := strings.Join(hints, "; "); got != c.hint {
				t.Errorf("hints %q, expected %q (%d findings)", got, c.hint, len(fs))
			}
			if c.hint != "" && len(fs) != 1 {
				t.Errorf("%d findings, expected one: %v", len(fs), fs)
			}
		})
	}
}
