package main

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/test/corpus"
)

// programs are the commands that are released.
var programs = []string{"rig-hook", "rig-bridge", "rig-bundle", "rig-action", "rig-control"}

// floor measures what nothing can be faster than on this machine: the start of
// a process, hashing, verifying a signature and inflating, each alone on one
// core; and beside it the start and the size of each program as released.
func floor() (string, error) {
	scratch, err := os.MkdirTemp("", "rigward-bench-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	version, err := exec.Command("git", "--version").Output()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d cores, %s, %s %s/%s, load %s at the start.\n\n", runtime.NumCPU(), strings.TrimSpace(string(version)), runtime.Version(), runtime.GOOS, runtime.GOARCH, load())
	fmt.Fprintf(&b, "| floor | |\n|---|---|\n")
	git, err := repeated(41, "git", "--version")
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "| start of `git --version` | %.1f ms |\n", milli(git))
	for i, idle := range []struct{ what, imports string }{
		{"that does nothing", ""},
		{"that does nothing, linked with yaml.v3 and x/crypto/ssh, which read front matter and signatures", "import (\n\t_ \"golang.org/x/crypto/ssh\"\n\t_ \"gopkg.in/yaml.v3\"\n)\n\n"},
	} {
		program := filepath.Join(scratch, fmt.Sprintf("idle-%d", i))
		if err := os.WriteFile(program+".go", []byte("package main\n\n"+idle.imports+"func main() {}\n"), 0o644); err != nil {
			return "", err
		}
		if err := compile(program, program+".go"); err != nil {
			return "", err
		}
		took, err := repeated(41, program)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| start of a Go program %s | %.1f ms |\n", idle.what, milli(took))
	}
	fmt.Fprintf(&b, "| SHA-256 | %.0f MiB/s |\n", rate(func(data []byte) { sha256.Sum256(data) }))
	message, signature := []byte("what was signed"), []byte(nil)
	public, private, err := ed25519.GenerateKey(bytes.NewReader(make([]byte, ed25519.SeedSize)))
	if err != nil {
		return "", err
	}
	signature = ed25519.Sign(private, message)
	each := shortest(5, func() {
		for range 200 {
			if !ed25519.Verify(public, message, signature) {
				panic("a good signature was refused")
			}
		}
	}) / 200
	fmt.Fprintf(&b, "| Ed25519, one verification | %.0f µs |\n", float64(each.Nanoseconds())/1000)
	fmt.Fprintf(&b, "| inflate of compress/gzip, output | %.0f MiB/s |\n", inflate())
	fmt.Fprintf(&b, "\n| program | start with `--version` | beside `git --version` | size, stripped |\n|---|---|---|---|\n")
	for _, name := range programs {
		built, err := build(scratch, name)
		if err != nil {
			return "", err
		}
		path := built[0]
		took, err := repeated(41, path, "--version")
		if err != nil {
			return "", err
		}
		st, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| `%s` | %.1f ms | %.1f | %.1f MiB |\n", name, milli(took), float64(took)/float64(git), float64(st.Size())/(1<<20))
	}
	return b.String(), nil
}

func shortest(runs int, f func()) time.Duration {
	var best time.Duration
	for i := range runs {
		begin := time.Now()
		f()
		if took := time.Since(begin); i == 0 || took < best {
			best = took
		}
	}
	return best
}

// rate is the throughput of f over 16 MiB, in MiB a second.
func rate(f func([]byte)) float64 {
	data := make([]byte, 16<<20)
	return 16 / shortest(5, func() { f(data) }).Seconds()
}

// inflate is the throughput of the standard library's reader over text of
// envelopes, in MiB of output a second.
func inflate() float64 {
	var packed bytes.Buffer
	w, size := gzip.NewWriter(&packed), 0
	for i := range 4000 {
		_, text := corpus.Envelope(i, corpus.Options{})
		size += len(text)
		w.Write(text)
	}
	w.Close()
	took := shortest(5, func() {
		r, err := gzip.NewReader(bytes.NewReader(packed.Bytes()))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			panic(err)
		}
	})
	return float64(size) / (1 << 20) / took.Seconds()
}
