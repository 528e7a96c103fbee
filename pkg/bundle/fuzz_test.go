package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/rigward/rigward/internal/portable"
)

// tarProfile takes an uncompressed stream of files and directories.
func tarProfile() *Profile {
	l := DefaultLimits()
	l.TotalSize, l.MemberSize, l.Entries = 1<<20, 1<<20, 200
	return &Profile{Limits: l, Compressions: []Compression{Gzip, Zstd, Tar}, Manifest: "manifest", Layout: USTAR{}}
}

func seedTars(f *testing.F) {
	f.Helper()
	add := func(format tar.Format, hs ...*tar.Header) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range hs {
			h.Format = format
			if err := w.WriteHeader(h); err != nil {
				f.Fatal(err)
			}
			fmt.Fprintf(w, "%*d", h.Size, 7)
		}
		w.Close()
		f.Add(b.Bytes())
	}
	long := string(bytes.Repeat([]byte("d/"), 60)) + "é"
	add(tar.FormatUSTAR, &tar.Header{Name: "a", Mode: 0o644, Size: 3}, &tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755})
	add(tar.FormatPAX, &tar.Header{Name: long, Mode: 0o755, Size: 600})
	add(tar.FormatGNU, &tar.Header{Name: long + "x", Mode: 0o600, Size: 1}, &tar.Header{Name: "z", Size: 0, Mode: 0o644})
	add(tar.FormatPAX, &tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a", Mode: 0o777})
}

// FuzzScan feeds the reader with tar streams. Whatever it accepts, GNU tar
// extracts to the same tree.
func FuzzScan(f *testing.F) {
	seedTars(f)
	gnu, err := exec.LookPath("tar")
	if err != nil {
		f.Skip("no tar here")
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx := context.Background()
		a, err := Scan(ctx, bytes.NewReader(data), int64(len(data)), tarProfile())
		if err != nil {
			t.Fatal(err)
		}
		if a.FileDigest != Sum(data) {
			t.Fatal("the file digest is not that of the file")
		}
		if a.Fault != nil || a.Compression != Tar {
			return
		}
		if a.TarDigest != Sum(data) {
			t.Fatal("the tar digest is not that of the stream")
		}
		if len(CheckTree(a.Names(), portable.SimpleFold)) > 0 {
			return
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "x.tar")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
		for _, d := range []string{theirs, ours} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(gnu, "-xf", file, "-C", theirs, "--no-same-owner", "--no-same-permissions", "--delay-directory-restore")
		cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil && !bytes.Contains(out, []byte("utime")) && !bytes.Contains(out, []byte("time stamp")) {
			t.Fatalf("GNU tar refuses what was accepted: %v\n%s\n%q", err, out, data)
		}
		d, err := OpenDirs(ours)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := a.Extract(ctx, d, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		if got, want := describe(t, ours), describe(t, theirs); got != want {
			t.Fatalf("trees differ\nours:\n%s\ntheirs:\n%s\n%q", got, want, data)
		}
	})
}

// describe lists paths, kinds and contents of a tree, without modes.
func describe(t *testing.T, dir string) string {
	t.Helper()
	var b bytes.Buffer
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if err != nil && d != nil && d.IsDir() { // a directory that nobody may read
			os.Chmod(p, 0o755)
			return nil
		}
		if rel == "." {
			return nil
		}
		fmt.Fprintf(&b, "%q %v", rel, d.Type())
		if d.Type().IsRegular() {
			os.Chmod(p, 0o644)
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, " %x", Sum(data))
		}
		b.WriteByte('\n')
		return nil
	})
	return b.String()
}

// FuzzContainer feeds the decompressors with damaged files: no input may
// panic, hang, or be accepted with other bytes than were written.
func FuzzContainer(f *testing.F) {
	entries := []Entry{BytesEntry("manifest", 0o644, bytes.Repeat([]byte("abc"), 300))}
	for _, c := range []Compression{Gzip, Zstd} {
		var b bytes.Buffer
		if _, err := WriteArchive(context.Background(), &b, c, USTAR{}, entries); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes(), uint16(0), byte(0))
		f.Add(b.Bytes(), uint16(b.Len()/2), byte(1))
		f.Add(append(b.Bytes(), b.Bytes()...), uint16(0), byte(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		data = bytes.Clone(data)
		if len(data) > 0 {
			data[int(at)%len(data)] ^= flip
		}
		a, err := Scan(context.Background(), bytes.NewReader(data), int64(len(data)), tarProfile())
		if err != nil {
			t.Fatal(err)
		}
		if a.Fault != nil || a.Compression != Gzip {
			return
		}
		// what is accepted, another decompressor reads as well
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		var tarred bytes.Buffer
		if _, err := tarred.ReadFrom(z); err != nil || Sum(tarred.Bytes()) != a.TarDigest {
			t.Fatalf("another decompressor reads something else: %v", err)
		}
	})
}

// FuzzChecksum: a digest that is found stands in the file.
func FuzzChecksum(f *testing.F) {
	hex := Sum(nil).Hex()
	for _, s := range []string{hex, hex + "  x\n", "SHA256 (x) = " + hex + "\n", hex + " *dir/x\r\n", `\` + hex + "  x\n", "\ufeff" + hex} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, fault := ParseChecksum(data, "x")
		if fault == nil && !bytes.Contains(bytes.ToLower(data), []byte(d.Hex())) {
			t.Fatalf("%s is not in %q", d, data)
		}
	})
}
