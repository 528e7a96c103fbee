package doctest

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/programs"
)

// commitID is an abbreviated object id, which depends on the day.
var commitID = regexp.MustCompile(`\b[0-9a-f]{12}\b|\b[0-9a-f]{40}\b|\bcommit=[0-9a-f]{7}\b`)

const shownID = "3f9c2a7d10be4c58a6e1f07b92d4835ec16ab9d7"

// TestReadme does what a newcomer does: from a clone of this repository and
// the README alone, in a new home directory without configuration, with a
// repository of a team that knows nothing of rigward yet.
func TestReadme(t *testing.T) {
	root := programs.Root(t)
	file := filepath.Join(root, "README.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := session(t)
	out, err := exec.Command("go", "env", "-json", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	var caches map[string]string
	if err := json.Unmarshal(out, &caches); err != nil {
		t.Fatal(err)
	}
	// What was compiled already is not compiled again.
	s.Env = append(s.Env, "GOCACHE="+caches["GOCACHE"], "GOMODCACHE="+caches["GOMODCACHE"], "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false")
	writeKey(t, s.Dir, "id_ed25519")
	if _, _, err := s.Play("```sh\n" + strings.Join([]string{
		"git config --global user.name You", "git config --global user.email you@example.com", "git config --global init.defaultBranch main",
		"git init -q --bare team.git", "git clone -q team.git team 2>/dev/null", "cd team", "echo hello >README.md",
		"git add .", "git commit -q -m Begin", "git push -q origin main", "git branch -q --set-upstream-to=origin/main",
	}, "\n") + "\n```\n"); err != nil {
		t.Fatal(err)
	}
	s.Dir = filepath.Join(s.Dir, "rigward")
	if err := os.CopyFS(s.Dir, sources(t, root)); err != nil {
		t.Fatal(err)
	}
	homeDir := filepath.Dir(s.Dir)
	s.Show = func(out string) string {
		return commitID.ReplaceAllStringFunc(strings.ReplaceAll(out, homeDir, home), func(id string) string {
			name, hex, ok := strings.Cut(id, "=")
			if !ok {
				return shownID[:len(id)]
			}
			return name + "=" + shownID[:len(hex)]
		})
	}
	s.Real = func(command string) string {
		switch {
		case command == "go test ./...":
			return "true" // this very test
		case strings.HasPrefix(command, "git commit -m 'HANDOFF"):
			return "rig-hook install >/dev/null && sed 's/^type: .*/type: ORDER/' release-check/REQUEST.md >release-check/HANDOFF.md && git add release-check && " + command
		}
		return command
	}
	played, steps, err := s.Play(string(data))
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) < 15 {
		t.Errorf("only %d commands were found", len(steps))
	}
	hold(t, file, played)
}

// sources is the module's tree as a clone has it, without other files of the
// work tree.
func sources(t *testing.T, root string) fs.FS {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.Command("git", "clone", "-q", "--no-hardlinks", root, dir).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	return os.DirFS(dir)
}
