// Package programs builds the commands of this module for tests that start them.
package programs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/module"
)

var (
	built  string // the directory of the programs
	once   sync.Once
	failed error
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
	once.Do(func() { failed = Build(built, "rig-hook", "rig-bridge", "rig-bundle") })
	if failed != nil {
		t.Fatal(failed)
	}
	return built
}

// Root returns the top of the module.
func Root(t testing.TB) string {
	t.Helper()
	root := module.Root()
	if root == "" {
		t.Fatal("no go.mod above the test")
	}
	return root
}

// Build puts commands of this module into dir, static as a release has them.
//
// A program is linked once for all packages that use it: it is kept in the
// user's directory for caches, where go build links it anew if, and only if, it
// is another one. What dir gets is a copy.
func Build(dir string, commands ...string) error {
	// go test reuses a result as long as the files that the test itself has
	// looked at are the same; the compiler's are not among them.
	for _, d := range []string{"cmd", "hooks", "internal", "pkg", "schemas"} {
		err := filepath.WalkDir(filepath.Join(module.Root(), d), func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "rigward", "tests")
		err = os.MkdirAll(cache, 0o700)
	}
	if err != nil {
		return link(dir, commands)
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return link(dir, commands)
	}
	defer lock.Close() // and with it the lock
	if err := files.Lock(lock); err != nil {
		return link(dir, commands)
	}
	if err := link(cache, commands); err != nil {
		return err
	}
	// A process of its own copies: what this one writes, another thread's child
	// may hold open, and a file that is open for writing cannot be run.
	args := []string{}
	for _, c := range commands {
		args = append(args, filepath.Join(cache, c))
	}
	if exec.Command("cp", append(args, dir)...).Run() != nil {
		return link(dir, commands)
	}
	return nil
}

// link builds commands into dir.
func link(dir string, commands []string) error {
	args := []string{"build", "-buildvcs=false", "-o", dir + string(filepath.Separator)}
	for _, c := range commands {
		args = append(args, "./cmd/"+c)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = module.Root(), append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, stderr.Bytes())
	}
	return nil
}
