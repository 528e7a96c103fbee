package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestValidateDirectories: validate finds in a directory what the hooks find in
// a commit of it, and knows threads outside of the work tree around it.
func TestValidateDirectories(t *testing.T) {
	top := gittest.TempDir(t)
	repo := filepath.Join(top, "repo")
	if out, err := exec.Command("git", "init", "-q", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	write := func(path, thread string) {
		t.Helper()
		file := filepath.Join(top, filepath.FromSlash(path))
		text := "---\nfrom: rig-a\nto: peer\ndate: 2026-01-01\nstatus: ▶ x\ntype: ACK\nthread: " + thread + "\n---\nx\n"
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	validate := func(args ...string) (code int, errors []string, checked int) {
		t.Helper()
		var out, errs bytes.Buffer
		code = Main(context.Background(), Env{Args: append([]string{"validate", "--json"}, args...), Stdout: &out, Stderr: &errs, Dir: repo,
			Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + top, "GIT_CONFIG_NOSYSTEM=1"}, Now: time.Now, Rand: rand.Reader})
		var o validateObject
		if err := json.Unmarshal(out.Bytes(), &o); err != nil {
			t.Fatalf("%v %s%s", err, out.String(), errs.String())
		}
		for _, f := range o.Files {
			for _, x := range f.Findings {
				if x.Severity == "error" {
					errors = append(errors, fmt.Sprintf("%s:%d %s %s", filepath.ToSlash(f.File), x.Line, x.Rule, x.Message))
				}
			}
		}
		return code, errors, o.Checked
	}
	write("repo/t-one/ACK.md", "t-one")
	write("elsewhere/t-two/ACK.md", "t-two")
	write("elsewhere/t-two/STATE.md", "t-other")
	if code, errors, checked := validate("."); code != 0 || checked != 1 {
		t.Errorf("a sound root: exit %d, %d checked, %q", code, checked, errors)
	}
	for _, name := range []string{"../elsewhere", "../elsewhere/t-two", filepath.Join(top, "elsewhere")} {
		if code, errors, checked := validate(name); code != 0 || checked != 2 {
			t.Errorf("%s: exit %d, %d checked, %q", name, code, checked, errors)
		}
	}
	if code, _, checked := validate(".."); code != 2 || checked != 0 {
		t.Errorf("a directory that holds no thread: exit %d, %d checked", code, checked)
	}

	t.Run("a device name", func(t *testing.T) {
		write("repo/con/ACK.md", "con")
		if code, errors, _ := validate("."); code != 1 || len(errors) != 1 || !strings.HasPrefix(errors[0], "con/ACK.md:7 envelope-path ") {
			t.Errorf("exit %d, %q", code, errors)
		}
		os.RemoveAll(filepath.Join(repo, "con"))
	})
	t.Run("twins", func(t *testing.T) {
		write("repo/T-one/ack.md", "t-one")
		if _, err := os.Lstat(filepath.Join(repo, "t-one", "ack.md")); err == nil {
			t.Skip("this file system folds case")
		}
		write("repo/t-one/state.md", "t-one")
		write("repo/t-one/STATE.md", "t-one")
		write("repo/t-one/RESULT.MD", "t-one")
		write("repo/t-one/result.md", "t-one")
		want := []string{
			`t-one/ACK.md:1 envelope-path some file systems take this path and "T-one/ack.md" for one file`,
			`t-one/STATE.md:1 envelope-path some file systems take this path and "t-one/state.md" for one file`,
			`t-one/result.md:1 envelope-path some file systems take this path and "t-one/RESULT.MD" for one file`,
			`t-one/state.md:1 envelope-path some file systems take this path and "t-one/STATE.md" for one file`,
		}
		if code, errors, _ := validate("."); code != 1 || !slices.Equal(errors, want) {
			t.Errorf("exit %d, %q", code, errors)
		}
	})
}
