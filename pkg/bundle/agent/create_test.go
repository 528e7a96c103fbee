//go:build unix

package agent

import (
	"archive/tar"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
)

// plant writes a bundle root; order shuffles the creation, loose takes other
// modes and times than usual.
func plant(t *testing.T, order *rand.Rand, loose bool) string {
	t.Helper()
	root := t.TempDir()
	files := []struct {
		name, text string
		mode       os.FileMode
	}{
		{ManifestName, goodManifest, 0o644}, {"bin/agent", "#!/bin/sh\necho hi\n", 0o755}, {"dist/a.js", "a", 0o644}, {"dist-x", "b", 0o644},
		{"dist.d/ü/" + strings.Repeat("long", 40), "c", 0o644}, {"empty", "", 0o644}, {".hidden/.github/config", "d", 0o644},
	}
	order.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	for _, f := range files {
		p := filepath.Join(root, f.name)
		mode := f.mode
		if loose {
			mode = mode&0o100 | 0o660
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(f.text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		if loose {
			when := time.Unix(order.Int64N(2e9), order.Int64N(1e9))
			if err := os.Chtimes(p, when, when); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, l := range [][2]string{{"bin/link", "agent"}, {"dangling", "no/where"}} {
		if err := os.Symlink(l[1], filepath.Join(root, l[0])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(root, "dist/a.js"), filepath.Join(root, "dist/twin.js")); err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o755)
	if loose {
		mode = 0o700 | os.ModeSetgid
	}
	if err := os.Mkdir(filepath.Join(root, "void"), mode); err != nil {
		t.Fatal(err)
	}
	return root
}

func createFrom(t *testing.T, root string, f Format) (*Result, string) {
	t.Helper()
	src, err := bundle.OpenDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	out := t.TempDir()
	r, err := Create(t.Context(), src, out, f, bundle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r, out
}

// TestCreateIsDeterministic: creation order, modes beyond the execute bit,
// owners, times, the zone and the number of processors leave no trace.
func TestCreateIsDeterministic(t *testing.T) {
	var want *Result
	var bytes []byte
	for i, name := range []string{"F04 and F06 times", "F07 modes and owners", "F08 header format", "F17 one processor", "F17 many processors"} {
		t.Run(name, func(t *testing.T) {
			procs := 0
			switch name {
			case "F17 one processor":
				procs = 1
			case "F17 many processors":
				procs = 8
			}
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			r, _ := createFrom(t, plant(t, rand.New(rand.NewPCG(uint64(i), 1)), i > 0), Format{})
			if r.Code != "ok" {
				t.Fatal(r.Findings[0])
			}
			data, err := os.ReadFile(r.File)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want, bytes = r, data
			}
			if r.Archive.TarDigest != want.Archive.TarDigest || !slices.Equal(data, bytes) {
				t.Errorf("another bundle: %s, want %s", r.Archive.TarDigest, want.Archive.TarDigest)
			}
		})
	}
	var names []string
	for _, m := range want.Archive.Members {
		names = append(names, m.Name)
	}
	if !slices.IsSorted(names) || !slices.Contains(names, "void") || !slices.Contains(names, "dist.d") || len(names) != 17 {
		t.Errorf("members %q", names)
	}
	later, _ := createFrom(t, plant(t, rand.New(rand.NewPCG(9, 9)), false), Format{ModTime: 1})
	if later.Archive.TarDigest == want.Archive.TarDigest {
		t.Error("SOURCE_DATE_EPOCH has no influence")
	}
	z, _ := createFrom(t, plant(t, rand.New(rand.NewPCG(9, 9)), false), Format{Compression: bundle.Zstd})
	if z.Archive.TarDigest != want.Archive.TarDigest || !strings.HasSuffix(z.File, "agent-bundle-demo-1.0.0-linux-amd64-glibc.tar.zst") {
		t.Errorf("zstd: %s %s", z.File, z.Archive.TarDigest)
	}
	sum, err := os.ReadFile(want.File + ".sha256")
	if err == nil && string(sum) != want.Archive.FileDigest.Hex()+"  agent-bundle-demo-1.0.0-linux-amd64-glibc.tar.gz\n" {
		t.Errorf("digest file %q", sum)
	}
}

// TestCreateRefuses: what cannot be a bundle is named, and nothing is left.
func TestCreateRefuses(t *testing.T) {
	for _, c := range []struct {
		name, code string
		spoil      func(root string) error
	}{
		{"no manifest", "manifest-missing", func(r string) error { return os.Remove(filepath.Join(r, ManifestName)) }},
		{"bad manifest", "manifest-json", func(r string) error { return os.WriteFile(filepath.Join(r, ManifestName), []byte("{"), 0o644) }},
		{"manifest link", "manifest-type", func(r string) error {
			os.Rename(filepath.Join(r, ManifestName), filepath.Join(r, "m"))
			return os.Symlink("m", filepath.Join(r, ManifestName))
		}},
		{"set-uid", "member-mode", func(r string) error { return os.Chmod(filepath.Join(r, "bin/agent"), 0o755|os.ModeSetuid) }},
		{"FIFO", "member-type", func(r string) error { return syscall.Mkfifo(filepath.Join(r, "fifo"), 0o644) }},
		{"line feed in a name", "member-name", func(r string) error { return os.WriteFile(filepath.Join(r, "a\nb"), nil, 0o644) }},
		{"not UTF-8 in a name", "member-name", func(r string) error { return os.WriteFile(filepath.Join(r, "a\xff"), nil, 0o644) }},
		{"backslash in a name", "member-path", func(r string) error { return os.WriteFile(filepath.Join(r, `a\b`), nil, 0o644) }},
		{"F13 link out", "link-escape", func(r string) error { return os.Symlink("/etc/passwd", filepath.Join(r, "l")) }},
		{"entry without x", "entry-point-not-executable", func(r string) error { return os.Chmod(filepath.Join(r, "bin/agent"), 0o644) }},
		{"names of two cases", "member-case-collision", func(r string) error { return os.WriteFile(filepath.Join(r, "EMPTY"), nil, 0o644) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := plant(t, rand.New(rand.NewPCG(1, 1)), false)
			if err := c.spoil(root); err != nil {
				t.Fatal(err)
			}
			r, out := createFrom(t, root, Format{})
			checkResult(t, r, c.code, nil)
			if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
				t.Errorf("left behind: %v %v", entries, err)
			}
		})
	}
}

// TestRebuildMeansContent: two bundles have the same content exactly when
// their rebuilt tar digests are equal, and rebuilding is idempotent.
func TestRebuildMeansContent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	first := base(dir("bin"), file("a/x", "1"), file("a/y", "1"), symlink("l", "a/x"), dir("void"), file("ü", "z"))
	same, other := 0, 0
	for range 60 {
		members := disguise(rnd, first)
		if rnd.IntN(2) == 0 {
			members = alter(rnd, members)
		}
		a := bundle.Input{Name: "a.tar.gz", File: strings.NewReader(string(gzipOf(t, tarOf(t, first)))), Size: 0}
		b := bundle.Input{Name: "b.tar.gz", File: strings.NewReader(string(gzipOf(t, tarOf(t, members)))), Size: 0}
		a.Size, b.Size = a.File.(*strings.Reader).Size(), b.File.(*strings.Reader).Size()
		d, err := Diff(t.Context(), a, b, bundle.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o := bundle.Options{Temp: t.TempDir()}
		ra, err := Rebuild(t.Context(), a, bundle.Input{}, Format{}, o)
		if err != nil {
			t.Fatal(err)
		}
		rb, err := Rebuild(t.Context(), b, bundle.Input{}, Format{}, o)
		if err != nil {
			t.Fatal(err)
		}
		if rb.Code != "ok" && rb.Code != bundle.TarDiffers {
			t.Fatalf("%s: %v", rb.Code, rb.Findings[0])
		}
		if d.SameContent != (ra.RebuiltTarDigest == rb.RebuiltTarDigest) {
			t.Errorf("same content %v, rebuilt %s and %s: %v", d.SameContent, ra.RebuiltTarDigest, rb.RebuiltTarDigest, d.Changes)
		}
		if d.SameContent {
			same++
		} else {
			other++
		}
	}
	if same < 10 || other < 10 {
		t.Errorf("%d pairs of one content, %d of two", same, other)
	}
}

// disguise changes what does not matter: order, ./, times, owners, directory
// members, hard links for copies.
func disguise(rnd *rand.Rand, in []member) (out []member) {
	parents := map[string]bool{}
	for _, m := range in {
		parents[path.Dir(path.Clean(m.name))+"/"] = true
	}
	for _, m := range in {
		if m.kind == tar.TypeDir && parents[m.name] && rnd.IntN(2) == 0 {
			continue
		}
		if rnd.IntN(2) == 0 {
			m.name = "./" + m.name
		}
		out = append(out, m)
	}
	rnd.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	if rnd.IntN(2) == 0 {
		for i, m := range out {
			if path.Clean(m.name) == "a/y" { // a copy of a/x
				out = append(slices.Delete(out, i, i+1), hardlink("a/y", "a/x"))
				break
			}
		}
	}
	return out
}

// alter changes one thing that matters.
func alter(rnd *rand.Rand, in []member) []member {
	out := slices.Clone(in)
	at := func(name string) int {
		return slices.IndexFunc(out, func(m member) bool { return path.Clean(m.name) == name })
	}
	switch rnd.IntN(6) {
	case 0:
		out[at("a/x")].body = "2"
	case 1:
		out[at("a/x")].mode = 0o755
	case 2:
		out[at("l")].link = "a/y"
	case 3:
		out = slices.Delete(out, at("void"), at("void")+1)
	case 4:
		out = append(out, file(fmt.Sprintf("new%d", rnd.IntN(9)), ""))
	default:
		out[at(ManifestName)].body += "\n"
	}
	return out
}

func TestDiffChanges(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []member
		want string
	}{
		{"mode", base(file("f", "x")), base(program("f", "x")), `[["mode","f","0644","0755"]]`},
		{"mode and content", base(file("f", "x")), base(program("f", "y")), `[["modified","f"],["mode","f","0644","0755"]]`},
		{"type", base(file("f", "x")), base(symlink("f", "bin")), `[["type","f","file","symlink"]]`},
		{"file to empty directory", base(file("f", "x")), base(dir("f")), `[["type","f","file","directory"]]`},
		{"empty directory", base(), base(dir("d")), `[["added","d"]]`},
		{"link", base(symlink("l", "bin")), base(symlink("l", "bin/agent")), `[["link","l","bin","bin/agent"]]`},
		{"manifest leaves", append(base(file("z", ""))[1:], manifest(with("env", `{"A":"1","B":"2"}`))), append(base()[1:], manifest(with("env", `{"B":"3"}`))),
			`[["manifest","env.A","1",null],["manifest","env.B","2","3"],["removed","z"]]`},
		{"manifest object comes", base(), append(base()[1:], manifest(with("runtime", `{"type":"node","version":"20"}`))),
			`[["manifest","runtime.type",null,"node"],["manifest","runtime.version",null,"20"]]`},
		{"manifest number spelled otherwise", append(base()[1:], manifest(with("x", "1.0"))), append(base()[1:], manifest(with("x", "1"))), `[["manifest-format","manifest.json"]]`},
		{"manifest that cannot be read", base(), append(base()[1:], manifest("{")), `[["modified","manifest.json"]]`},
		{"no manifest", base(), base()[1:], `[["removed","manifest.json"]]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := func(name string, m []member) bundle.Input {
				data := gzipOf(t, tarOf(t, m))
				return bundle.Input{Name: name, File: strings.NewReader(string(data)), Size: int64(len(data))}
			}
			d, err := Diff(t.Context(), in("a.tar.gz", c.a), in("b.tar.gz", c.b), bundle.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := jsonOf(t, d.Listed); got != c.want || d.Code != bundle.ContentDiffers {
				t.Errorf("%s %s, want %s", d.Code, got, c.want)
			}
		})
	}
	bad := gzipOf(t, tarOf(t, base(symlink("l", "/x"))))
	d, err := Diff(t.Context(), bundle.Input{Name: "a.tar.gz", File: strings.NewReader(string(bad)), Size: int64(len(bad))}, bundle.Input{Name: "b.tar.gz", File: strings.NewReader(string(bad)), Size: int64(len(bad))}, bundle.Options{})
	if err != nil || d.Code != "link-escape" {
		t.Errorf("a side that breaks the rules: %v %v", err, d)
	}
}

func TestCache(t *testing.T) {
	build := t.TempDir()
	made, _ := createFrom(t, plant(t, rand.New(rand.NewPCG(1, 1)), false), Format{Compression: bundle.Zstd})
	data, err := os.ReadFile(made.File)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(build, filepath.Base(made.File))
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("ab", 32)
	c := &Cache{Dir: filepath.Join(t.TempDir(), "cache"), Limits: DefaultLimits(), State: filepath.Join(t.TempDir(), "state")}
	target := &Target{"linux", "amd64", "glibc"}
	get := func(target *Target) *Result {
		t.Helper()
		r, f, err := c.Get(t.Context(), key, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f != nil {
			f.Close()
		}
		return r
	}
	if get(target) != nil {
		t.Error("a bundle came out of an empty cache")
	}
	r, f, err := c.Put(t.Context(), key, build, target, nil)
	if err != nil || r.Code != "ok" {
		t.Fatalf("%v %v", err, r)
	}
	f.Close()
	if r := get(target); r == nil || r.Archive.TarDigest != made.Archive.TarDigest {
		t.Errorf("got %v", r)
	}
	if get(&Target{"linux", "arm64", "musl"}) != nil {
		t.Error("a bundle for another target came out")
	}
	kept := filepath.Join(c.Dir, key+extZstd)
	for what, spoil := range map[string]func() error{
		"damaged": func() error { return os.WriteFile(kept, append(data[:len(data)-5:len(data)-5], "xxxxx"...), 0o644) },
		"another good bundle": func() error {
			return os.WriteFile(kept, append(slices.Clone(data), 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0), 0o644)
		},
		"no digest": func() error { return os.Remove(kept + ".sha256") },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if get(target) != nil {
			t.Errorf("%s: it came out", what)
		}
		_, f, err := c.Put(t.Context(), key, build, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if get(target) == nil {
			t.Errorf("%s: it was not made good", what)
		}
	}
	if _, _, err := c.Get(t.Context(), "../x", target, nil); err == nil {
		t.Error("a key that is a path was taken")
	}
	if _, _, err := c.Put(t.Context(), key, t.TempDir(), target, nil); err == nil {
		t.Error("a build without a bundle was taken")
	}
}

func TestCacheKeyRefuses(t *testing.T) {
	root := plant(t, rand.New(rand.NewPCG(1, 1)), false)
	src, err := bundle.OpenDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	key := func() (string, error) { return CacheKey(src, nil, Target{"linux", "amd64", "musl"}, nil) }
	before, err := key()
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"node_modules/x/index.js", "sub/node_modules/y", "sub/.git/HEAD"} {
		if err := os.MkdirAll(filepath.Join(root, path.Dir(left)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, left), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := key(); err != nil || after != before {
		t.Errorf("what is left out changes the key: %v", err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := key(); bundle.AsFinding(err) == nil || bundle.AsFinding(err).Code != bundle.MemberType {
		t.Errorf("a FIFO gives %v", err)
	}
}
