package agent

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rigward/rigward/pkg/bundle"
)

func zstdOf(t testing.TB, data []byte, o ...zstd.EOption) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, append(o, zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(data, nil)
}

func skippable(body string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0x184d2a5f)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(body))), body...)
}

// headerSum gives a gzip file's header a checksum, off by so much.
func headerSum(gz []byte, off uint16) []byte {
	head := slices.Clone(gz[:10])
	head[3] = 2
	head = binary.LittleEndian.AppendUint16(head, uint16(crc32.ChecksumIEEE(head))+off)
	return append(head, gz[10:]...)
}

// TestContainers: F14 and its kind for both compressions. Every byte of the
// file and of the stream belongs to the archive or is allowed padding.
func TestContainers(t *testing.T) {
	archive := tarOf(t, base())
	half := len(archive) / 2
	zeros := func(n int) []byte { return append(slices.Clone(archive), make([]byte, n)...) }
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	gz, zs := gzipOf(t, archive), zstdOf(t, archive)
	for _, c := range []struct {
		name, file string
		data       []byte
		code       string
	}{
		{"gzip", "x.tar.gz", gz, "ok"},
		{"zstd", "x.tar.zst", zs, "ok"},
		{"zstd named gz", "x.tar.gz", zs, "container-mismatch"},
		{"gzip under another extension", "x.tgz", gz, "ok"},
		{"zstd under another extension", "x", zs, "ok"},
		{"tar", "x.tar.gz", archive, "container-mismatch"},
		{"tar under another extension", "x.tar", archive, "container-mismatch"},
		{"two gzip members", "x.tar.gz", join(gzipOf(t, archive[:half]), gzipOf(t, archive[half:])), "ok"},
		{"an empty gzip member at the end", "x.tar.gz", join(gz, gzipOf(t, nil)), "ok"},
		{"F14 a second archive in a gzip member", "x.tar.gz", join(gz, gz), "container-trailing-data"},
		{"F14 512 hidden bytes", "x.tar.gz", gzipOf(t, append(slices.Clone(archive), bytes.Repeat([]byte("x"), 512)...)), "container-trailing-data"},
		{"F14 raw bytes after gzip", "x.tar.gz", append(slices.Clone(gz), "hidden"...), "container-trailing-data"},
		{"F14 10 MB of zeros", "x.tar.gz", gzipOf(t, zeros(10_000_000)), "container-trailing-data"},
		{"padding at the limit", "x.tar.gz", gzipOf(t, zeros(10240)), "ok"},
		{"padding over the limit", "x.tar.gz", gzipOf(t, zeros(10241)), "container-trailing-data"},
		{"two zstd frames", "x.tar.zst", join(zstdOf(t, archive[:half]), zstdOf(t, archive[half:])), "ok"},
		{"skippable frames around", "x.tar.zst", join(skippable("a"), zs, skippable("")), "ok"},
		{"skippable frame alone", "x.tar.zst", skippable("abc"), "container-truncated"},
		{"skippable frame cut short", "x.tar.zst", join(zs, skippable("abc")[:9]), "container-truncated"},
		{"F14 a second archive in a zstd frame", "x.tar.zst", join(zs, zs), "container-trailing-data"},
		{"F14 raw bytes after zstd", "x.tar.zst", append(slices.Clone(zs), "hidden"...), "container-trailing-data"},
		{"F14 zero bytes after zstd", "x.tar.zst", append(slices.Clone(zs), 0, 0), "container-trailing-data"},
		{"F14 gzip after zstd", "x.tar.zst", join(zs, gzipOf(t, nil)), "container-trailing-data"},
		{"zstd without checksum", "x.tar.zst", zstdOf(t, archive, zstd.WithEncoderCRC(false)), "ok"},
		{"one zero block", "x.tar.gz", gzipOf(t, archive[:len(archive)-512]), "container-truncated"},
		{"no zero block", "x.tar.gz", gzipOf(t, archive[:len(archive)-1024]), "container-truncated"},
		{"lone zero block", "x.tar.gz", gzipOf(t, join(archive[:len(archive)-1024], make([]byte, 512), archive)), "container-corrupt"},
		{"gzip without content", "x.tar.gz", gzipOf(t, nil), "container-truncated"},
		{"gzip header alone", "x.tar.gz", gz[:10], "container-truncated"},
		{"gzip without its last byte", "x.tar.gz", gz[:len(gz)-1], "container-truncated"},
		{"gzip name and comment of many bytes", "x.tar.gz", join(gz[:3], []byte{0x18}, gz[4:10], bytes.Repeat([]byte("n"), 600), []byte{0}, bytes.Repeat([]byte("c"), 70_000), []byte{0}, gz[10:]), "ok"},
		{"gzip name without an end", "x.tar.gz", join(gz[:3], []byte{8}, gz[4:10], bytes.Repeat([]byte("n"), 600)), "container-truncated"},
		{"gzip header with its checksum", "x.tar.gz", headerSum(gz, 0), "ok"},
		{"gzip header with another checksum", "x.tar.gz", headerSum(gz, 1), "container-corrupt"},
		{"zstd block over its window", "x.tar.zst", []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3, 0x0b, 0, 0x10, 'a'}, "container-corrupt"},
		{"zstd without its last byte", "x.tar.zst", zs[:len(zs)-1], "container-truncated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := verifyBytes(t, c.data, c.file, bundle.Options{})
			checkResult(t, r, c.code, nil)
			if r.Archive.FileDigest != bundle.Sum(c.data) {
				t.Error("the file digest is not that of the whole file")
			}
		})
	}
}

// TestLimits: exceeding means strictly more.
func TestLimits(t *testing.T) {
	data := gzipOf(t, tarOf(t, base(file("big", strings.Repeat("x", 5000)))))
	for _, c := range []struct{ limit, code string }{
		{"entries=3", "ok"}, {"entries=2", "limit-entries"},
		{"member-size=5000", "ok"}, {"member-size=4999", "limit-member-size"},
		{"manifest=122", "ok"}, {"manifest=121", "limit-manifest"},
		{"path=9", "limit-path"}, {"path=13", "ok"}, {"component=12", "limit-path"}, {"depth=1", "limit-path"}, {"depth=2", "ok"},
		{"name-bytes=25", "ok"}, {"name-bytes=24", "limit-path"},
		{"total-size=7560", "ok"}, {"total-size=7559", "limit-total-size"},
	} {
		o := bundle.Options{Limits: DefaultLimits()}
		if err := o.Limits.Set(c.limit); err != nil {
			t.Fatal(err)
		}
		t.Run(c.limit, func(t *testing.T) { checkResult(t, verifyBytes(t, data, "x.tar.gz", o), c.code, nil) })
	}
}

// agree holds an accepted archive against the standard library's tar reader
// and a decoder that reads the whole stream.
func agree(t *testing.T, data []byte, a *bundle.Archive) {
	var stream io.Reader
	if a.Compression == bundle.Gzip {
		zr, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("accepted, but gzip says %v", err)
		}
		stream = zr
	} else {
		zr, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			t.Fatalf("accepted, but zstd says %v", err)
		}
		defer zr.Close()
		stream = zr
	}
	h := sha256.New()
	whole := io.TeeReader(stream, h)
	tr := tar.NewReader(whole)
	var names []string
	for {
		head, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("accepted, but archive/tar says %v", err)
		}
		if head.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if name := path.Clean(head.Name); name != "." {
			names = append(names, name)
		}
	}
	if _, err := io.Copy(io.Discard, whole); err != nil {
		t.Fatalf("accepted, but decompressing says %v", err)
	}
	if got := bundle.Digest(h.Sum(nil)); got != a.TarDigest {
		t.Fatalf("tar digest %s, the whole stream has %s", a.TarDigest, got)
	}
	var ours []string
	for _, m := range a.Members {
		ours = append(ours, m.Name)
	}
	if !slices.Equal(names, ours) {
		t.Fatalf("members %q, archive/tar reads %q", ours, names)
	}
}

// FuzzBundle: no input panics, hangs or is accepted with another content than
// other readers see.
func FuzzBundle(f *testing.F) {
	archive := tarOf(f, base(symlink("l", "bin"), dir("d"), file("ü", "x")))
	f.Add(gzipOf(f, archive))
	f.Add(zstdOf(f, archive))
	f.Add(slices.Concat(skippable("x"), zstdOf(f, archive[:700]), zstdOf(f, archive[700:])))
	f.Add(slices.Concat(gzipOf(f, archive[:700]), gzipOf(f, archive[700:])))
	f.Fuzz(func(t *testing.T, data []byte) {
		limits := DefaultLimits()
		limits.TotalSize, limits.Window = 8<<20, 8<<20
		r := verifyBytes(t, data, "x", bundle.Options{Limits: limits})
		for _, finding := range r.Findings {
			if !bundle.Printable(finding.Message) || !bundle.Printable(finding.Hint) {
				t.Errorf("finding %+v", finding)
			}
		}
		if r.Archive.Fault == nil {
			agree(t, data, r.Archive)
		}
	})
}

// TestZstdAgainstTool mutates zstd files: what is accepted, zstd and GNU tar
// take too, with the same stream and the same names.
func TestZstdAgainstTool(t *testing.T) {
	tool, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("zstd is not installed")
	}
	gnutar, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("tar is not installed")
	}
	n := 80
	if os.Getenv("RIGWARD_DIFF") == "full" {
		n = 10_000
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	archive := tarOf(t, base(symlink("l", "bin"), dir("d"), file("text", strings.Repeat("some words, ", 400)), file("ü", "x")))
	seeds := [][]byte{
		zstdOf(t, archive), zstdOf(t, archive, zstd.WithEncoderCRC(false)), zstdOf(t, archive, zstd.WithEncoderLevel(zstd.SpeedBestCompression)),
		slices.Concat(skippable("x"), zstdOf(t, archive[:700]), skippable(""), zstdOf(t, archive[700:])),
	}
	made := exec.Command(tool, "-19", "-c")
	made.Stdin = bytes.NewReader(archive)
	if out, err := made.Output(); err == nil {
		seeds = append(seeds, out)
	}
	name := filepath.Join(t.TempDir(), "x.tar.zst")
	count := map[string]int{}
	for i := range n {
		data := slices.Clone(seeds[i%len(seeds)])
		for range rnd.IntN(3) {
			at := rnd.IntN(len(data))
			switch rnd.IntN(4) {
			case 0:
				data[at] ^= 1 << rnd.IntN(8)
			case 1:
				data = data[:at+1]
			case 2:
				data = append(data, data[at:]...)
			default:
				data = slices.Insert(data, at, byte(rnd.IntN(256)))
			}
		}
		r := verifyBytes(t, data, "x.tar.zst", bundle.Options{})
		count[r.Code]++
		if r.Archive.Fault != nil {
			continue
		}
		agree(t, data, r.Archive)
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(tool, "-dc", "--long=27", name).Output()
		if err != nil {
			t.Fatalf("round %d: accepted, but zstd says %v", i, err)
		}
		if bundle.Sum(out) != r.Archive.TarDigest {
			t.Fatalf("round %d: zstd gives another stream", i)
		}
		list := exec.Command(gnutar, "-tf", "-", "--quoting-style=literal")
		list.Stdin = bytes.NewReader(out)
		names, err := list.Output()
		if err != nil {
			t.Fatalf("round %d: accepted, but tar says %v", i, err)
		}
		var ours strings.Builder
		for _, m := range r.Archive.Members {
			ours.WriteString(m.Name)
			if m.Type == bundle.Dir {
				ours.WriteByte('/')
			}
			ours.WriteByte('\n')
		}
		if ours.String() != string(names) {
			t.Fatalf("round %d: members %q, tar lists %q", i, ours.String(), names)
		}
	}
	t.Log(count)
}

// TestExtractAgainstTar extracts a bundle here and with GNU tar and compares
// the trees.
func TestExtractAgainstTar(t *testing.T) {
	gnutar, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("tar is not installed")
	}
	data := gzipOf(t, tarOf(t, base(dir("d"), symlink("l", "d/../bin"), file("d/ü", "x"), hardlink("h", "d/ü"), file(strings.Repeat("long/", 40)+"f", "y"))))
	r := verifyBytes(t, data, "x.tar.gz", bundle.Options{})
	checkResult(t, r, "ok", nil)
	ours, theirs := filepath.Join(t.TempDir(), "ours"), t.TempDir()
	if err := Stage(t.Context(), r, StageOptions{Base: "base", Dir: ours}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(gnutar, "-xzf", "-", "-C", theirs)
	cmd.Stdin = bytes.NewReader(data)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if out, err := exec.Command("diff", "-r", "--no-dereference", filepath.Join(ours, "agent"), theirs).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
