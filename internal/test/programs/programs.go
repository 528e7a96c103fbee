// Package programs builds the commands of this module for tests that start them.
package programs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

var (
	built string // the directory of the programs
	once  sync.Once
)

// Main runs the tests of a package that calls Dir and removes what was built.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "rigward-bin-")
	if err != nil {
		panic(err)
	}
	built = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// Dir returns a directory with rig-hook, rig-bridge and rig-bundle in it, which
// are built once. TestMain has to call Main.
func Dir(t testing.TB) string {
	t.Helper()
	gittest.NotShort(t)
	once.Do(func() { build(t, built, "rig-hook", "rig-bridge", "rig-bundle") })
	return built
}

// Root returns the top of the module.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}

// build builds commands of this module into dir, static as a release has them.
func build(t testing.TB, dir string, commands ...string) {
	t.Helper()
	root := Root(t)
	// go test reuses a result as long as the files that the test itself has
	// looked at are the same; the compiler's are not among them.
	for _, d := range []string{"cmd", "hooks", "pkg", "schemas"} {
		err := filepath.WalkDir(filepath.Join(root, d), func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, c := range commands {
		args = append(args, "./cmd/"+c)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("go build: %v\n%s", err, stderr.Bytes())
	}
}
