package doctest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/internal/test/testkeys"
)

var update = flag.Bool("update", false, "write into the documents what the programs say")

// home is the home directory that documents show.
const home = "/home/you"

func TestMain(m *testing.M) { programs.Main(m) }

// session is a new home directory without any configuration.
func session(t *testing.T) *Session {
	dir := filepath.Join(gittest.TempDir(t), "you")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &Session{Dir: dir, Env: []string{
		"PATH=" + programs.Dir(t) + string(filepath.ListSeparator) + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1",
		"TMPDIR=" + gittest.TempDir(t), "GIT_TEMPLATE_DIR=", "GIT_TEST_FSYNC=0", "GIT_TERMINAL_PROMPT=0",
	}}
	s.Show = func(out string) string { return strings.ReplaceAll(out, dir, home) }
	return s
}

// hold compares a document with what it should be, or writes it.
func hold(t *testing.T, file, want string) {
	t.Helper()
	have, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if string(have) == want {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	a, b := strings.Split(string(have), "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s:%d is\n\t%s\nexpected\n\t%s\nwrite it with go test ./internal/doctest -update", filepath.Base(file), i+1, a[i], b[i])
		}
	}
	t.Fatalf("%s has %d lines, expected %d; write it with go test ./internal/doctest -update", filepath.Base(file), len(a), len(b))
}

// writeKey writes the key pair of that name below .ssh and returns the file.
func writeKey(t *testing.T, dir, name string) {
	t.Helper()
	ssh := filepath.Join(dir, ".ssh")
	if err := os.MkdirAll(ssh, 0o700); err != nil {
		t.Fatal(err)
	}
	k := testkeys.Ed25519(name)
	for file, data := range map[string]string{name: string(k.PEM()), name + ".pub": k.Authorized() + "\n"} {
		if err := os.WriteFile(filepath.Join(ssh, file), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
