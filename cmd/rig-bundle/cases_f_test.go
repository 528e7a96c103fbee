//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the golden digests anew")

const golden = "testdata/digests.golden"

// fixed makes the same small bundle wherever and with whatever it is called.
func fixed(t *testing.T, program string) (dir string, file []byte) {
	t.Helper()
	dir = newRig(t)
	if err := os.WriteFile(filepath.Join(dir, "agents/impl/long.md"), []byte(strings.Repeat("The same bytes again, and again. ", 9000)), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "create", "rig.yaml", "-o", "out.rigbundle", "--created-at", "2026-01-01T00:00:00Z", "--source-root", ".")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), asCommand + "=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := os.ReadFile(filepath.Join(dir, "out.rigbundle"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, file
}

func inflate(t *testing.T, file []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func self(t *testing.T) string {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// F01, F03: tar and file have the bytes that they had when the golden digests
// were written, whatever version of Go, processor or zlib is at work.
func TestGoldenDigests(t *testing.T) {
	line := func(file []byte) string {
		return fmt.Sprintf("tar %s\nfile %s\n", digest(inflate(t, file)), digest(file))
	}
	_, file := fixed(t, self(t))
	if *update {
		if err := os.WriteFile(golden, []byte(line(file)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := line(file); got != string(want) {
		t.Errorf("F01 other bytes:\n%sexpected:\n%s", got, want)
	}
	t.Run("F01 another version of Go", func(t *testing.T) {
		version := os.Getenv("RIGWARD_TOOLCHAIN")
		if version == "" {
			t.Skip("RIGWARD_TOOLCHAIN does not name a toolchain, such as go1.27.3")
		}
		program := filepath.Join(t.TempDir(), "rig-bundle")
		cmd := exec.Command("go", "build", "-o", program, ".")
		cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+version)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if _, file := fixed(t, program); line(file) != string(want) {
			t.Errorf("%s: other bytes:\n%sexpected:\n%s", version, line(file), want)
		}
	})
}

// F02, F18: what a bundle is says its tar: packed by another compressor it has
// the same identity, and no digest of the packed form is inside.
func TestIdentityIsTheTar(t *testing.T) {
	dir, file := fixed(t, self(t))
	data := inflate(t, file)
	var other bytes.Buffer
	z, err := gzip.NewWriterLevel(&other, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	z.OS = 255
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(other.Bytes(), file) {
		t.Fatal("the other compressor gave the same bytes, so nothing is tested")
	}
	name := filepath.Join(dir, "other.rigbundle")
	for n, b := range map[string][]byte{name: other.Bytes(), name + ".sha256": []byte(digest(other.Bytes()) + "  other.rigbundle\n")} {
		if err := os.WriteFile(n, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tarDigest := func(bundle string) string {
		code, out, errs := command(dir, nil, "verify", bundle, "--json")
		if code != 0 {
			t.Fatalf("F02 %s: exit code %d: %s%s", bundle, code, out, errs)
		}
		found := regexp.MustCompile(`"tar_digest":\s*"sha256:([0-9a-f]{64})"`).FindStringSubmatch(out)
		if found == nil {
			t.Fatalf("no tar digest in %s", out)
		}
		return found[1]
	}
	if a, b := tarDigest("out.rigbundle"), tarDigest("other.rigbundle"); a != b || a != digest(data) {
		t.Errorf("F02 digests %s and %s, the tar's is %s", a, b, digest(data))
	}
	if code, out, errs := command(dir, nil, "diff", "out.rigbundle", "other.rigbundle"); code != 0 {
		t.Errorf("F02 diff of two packings of one tar: exit code %d: %s%s", code, out, errs)
	}
	for _, d := range []string{digest(file), digest(data)} {
		if bytes.Contains(data, []byte(d)) {
			t.Errorf("F18 the bundle holds the digest %s of itself", d)
		}
	}
	read := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := read.Next()
		if err != nil {
			t.Fatal("F18 no manifest:", err)
		}
		if filepath.Base(h.Name) != "bundle.yaml" {
			continue
		}
		text, err := io.ReadAll(read)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), digest([]byte("Build it.\n"))) {
			t.Errorf("F18 the manifest has no digest of a file: %s", text)
		}
		break
	}
}

// F09: what a name needs decides the form of its header, by our rule and not by
// what a library thinks best: an unusual one is not silently of another form.
// F10, F15: names that lead elsewhere, and forms that two programs read
// differently, are refused.
func TestOddHeaders(t *testing.T) {
	dir, file := fixed(t, self(t))
	data := inflate(t, file)
	// again writes the tar anew with a change to one header, and packs it.
	again := func(change func(h *tar.Header)) []byte {
		var out, packed bytes.Buffer
		w, r := tar.NewWriter(&out), tar.NewReader(bytes.NewReader(data))
		for {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(h.Name) == "role.md" {
				change(h)
			}
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(w, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(&packed)
		z.OS = 255
		if _, err := z.Write(out.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return packed.Bytes()
	}
	const notCanonical = -1 // noted; with --strict an error
	for _, c := range []struct {
		name   string
		change func(h *tar.Header)
		code   int
	}{
		{"control: nothing changed", func(*tar.Header) {}, 0},
		{"F10 up and down", func(h *tar.Header) { h.Name = filepath.Dir(h.Name) + "/../x/role.md" }, 1},
		{"F10 above the top", func(h *tar.Header) { h.Name = "../role.md" }, 1},
		{"F10 backslashes", func(h *tar.Header) { h.Name = strings.ReplaceAll(h.Name, "/", `\`) }, 1},
		{"F10 a drive", func(h *tar.Header) { h.Name = "C:/role.md" }, 1},
		{"F10 absolute", func(h *tar.Header) { h.Name = "/" + h.Name }, 1},
		{"F15 a GNU header", func(h *tar.Header) { h.Format, h.Name = tar.FormatGNU, strings.Repeat("long/", 40)+"role.md" }, 1},
		{"F15 a sparse file", func(h *tar.Header) { h.Typeflag = 'S' }, 1},
		{"F15 a key of nobody's", func(h *tar.Header) {
			h.Format, h.PAXRecords = tar.FormatPAX, map[string]string{"RIGWARD.x": "1"}
		}, notCanonical},
		{"F09 another time makes another form", func(h *tar.Header) { h.Format, h.AccessTime = tar.FormatPAX, h.ModTime }, notCanonical},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := again(c.change)
			name := filepath.Join(dir, "odd.rigbundle")
			for n, b := range map[string][]byte{name: b, name + ".sha256": []byte(digest(b) + "  odd.rigbundle\n")} {
				if err := os.WriteFile(n, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			code, out, errs := command(dir, nil, "verify", name)
			if want := max(c.code, 0); code != want {
				t.Errorf("exit code %d, expected %d: %s%s", code, want, out, errs)
			}
			if c.code != notCanonical {
				return
			}
			if !strings.Contains(out+errs, "not-canonical") {
				t.Errorf("no note: %s%s", out, errs)
			}
			if code, out, errs := command(dir, nil, "verify", name, "--strict=not-canonical"); code != 1 {
				t.Errorf("with --strict: exit code %d, expected 1: %s%s", code, out, errs)
			}
		})
	}
}

// F19: what a file system adds to files is not packed.
func TestNoAttributes(t *testing.T) {
	_, plain := fixed(t, self(t))
	dir, _ := fixed(t, self(t))
	if err := unix.Setxattr(filepath.Join(dir, "agents/impl/role.md"), "user.rigward", []byte("x"), 0); err != nil {
		t.Skipf("F19: the file system takes no extended attributes: %v", err)
	}
	if code, out, errs := command(dir, nil, "create", "rig.yaml", "-o", "again.rigbundle", "--created-at", "2026-01-01T00:00:00Z", "--source-root", "."); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "again.rigbundle")); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("F19 an extended attribute changes the bundle (%v)", err)
	}
}
