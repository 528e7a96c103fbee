//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// withMember writes a packed bundle anew, with one more member before the others.
func withMember(t *testing.T, file, member string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: member, Mode: 0o644, Size: 1}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "x")
	r := tar.NewReader(bytes.NewReader(inflate(t, data)))
	for h, err := r.Next(); err != io.EOF; h, err = r.Next() {
		if err != nil {
			t.Fatal(err)
		}
		h.Format = tar.FormatUnknown
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
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), filepath.Base(file))
	put(t, name, out.String(), 0o644)
	put(t, name+".sha256", digest(out.Bytes())+"  "+filepath.Base(file)+"\n", 0o644)
	return name
}

// A packing is a format whose bundles are files, with a source and its command.
type packing struct {
	name, dir, below string // below is where more files of the source may lie
	create           func(dir, out string) []string
	file             string // below out
	install          func(file, target string) []string
}

func packings(t *testing.T) []packing {
	agentDir := filepath.Join(t.TempDir(), "agent")
	agentTree(t, agentDir)
	return []packing{
		{"rig", newRig(t), "agents/impl", func(dir, out string) []string {
			return []string{"create", filepath.Join(dir, "rig.yaml"), "--source-root", dir, "-o", filepath.Join(out, "b.rigbundle"), "--created-at", "2026-01-01T00:00:00Z"}
		}, "b.rigbundle", func(file, target string) []string { return []string{"install", file, "--target", target} }},
		{"agent", agentDir, "bin", func(dir, out string) []string { return []string{"create", "--format", "agent", dir, "-o", out} }, demoFile,
			func(file, target string) []string {
				return []string{"stage", file, "--base", "alpine:3", "--unchecked-base", "--target", "linux/amd64/musl", "--out", target}
			}},
	}
}

// A file whose name another system takes for .git is neither packed, nor
// accepted, nor unpacked (J11); names near them go the whole way.
func TestJ11PackedNamesOfGit(t *testing.T) {
	for _, p := range packings(t) {
		t.Run(p.name, func(t *testing.T) {
			run := func(want int, text string, args ...string) {
				t.Helper()
				code, out, errs := command(p.dir, []string{"SOURCE_DATE_EPOCH=0"}, args...)
				if code != want || !strings.Contains(out+errs, text) {
					t.Errorf("%q: exit %d, expected %d and %s\n%s%s", args, code, want, text, out, errs)
				}
			}
			plain := t.TempDir()
			run(0, "", p.create(p.dir, plain)...)
			for _, name := range []string{
				"git~1/hooks/x", "GIT~2/x", ".git./hooks/x", ".git /x", ".git::$INDEX_ALLOCATION/x", ".g\u200cit/x", ".gi\u00adt/x", "a/.git\ufeff/x",
			} {
				first, _, _ := strings.Cut(name, "/")
				put(t, filepath.Join(p.dir, p.below, name), "x", 0o644)
				out := t.TempDir()
				run(1, "member-name", p.create(p.dir, out)...)
				if _, err := os.Lstat(filepath.Join(out, p.file)); err == nil {
					t.Errorf("%q was packed", name)
				}
				if err := os.RemoveAll(filepath.Join(p.dir, p.below, first)); err != nil {
					t.Fatal(err)
				}
				bad := withMember(t, filepath.Join(plain, p.file), name)
				run(1, "member-name", "verify", bad)
				target := filepath.Join(t.TempDir(), "target")
				run(1, "member-name", p.install(bad, target)...)
				if list, err := os.ReadDir(target); err == nil && len(list) > 0 {
					t.Errorf("%q: installing wrote %v", name, list)
				}
			}
			neighbours := []string{".github/x", "git-notes/x", "a/.gitignore", "x.git/y"}
			for _, name := range neighbours {
				put(t, filepath.Join(p.dir, p.below, name), "x", 0o644)
			}
			out, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
			run(0, "", p.create(p.dir, out)...)
			run(0, "", "verify", filepath.Join(out, p.file))
			run(0, "", p.install(filepath.Join(out, p.file), target)...)
			found := 0
			filepath.WalkDir(target, func(name string, d os.DirEntry, err error) error {
				for _, n := range neighbours {
					if err == nil && !d.IsDir() && strings.HasSuffix(filepath.ToSlash(name), "/"+n) {
						found++
					}
				}
				return nil
			})
			if found != len(neighbours) {
				t.Errorf("%d of %d neighbours were installed", found, len(neighbours))
			}
		})
	}
}

// windows runs the command as it is on Windows, as far as names go.
func windows(dir string, args ...string) (status int, text string) {
	var out bytes.Buffer
	status = Main(context.Background(), Env{Args: args, Stdout: &out, Stderr: &out, Dir: dir, Windows: true,
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
		Getenv: func(key string) string {
			return map[string]string{"XDG_STATE_HOME": testState, "HOME": dir, "SOURCE_DATE_EPOCH": "0"}[key]
		}})
	return status, out.String()
}

// A name that Windows cannot hold (E13), or takes for that of another file or stream, is no reason against a bundle elsewhere; on
// Windows nothing of the bundle is written. Names near them are.
func TestNamesOfWindows(t *testing.T) {
	neighbours := []string{"x.md", "dots...md", "conx.md", "com10", "a~1.md", " b.md"}
	for _, p := range packings(t) {
		t.Run(p.name, func(t *testing.T) {
			install := func(file string) (status int, text string, left int) {
				target := filepath.Join(t.TempDir(), "target")
				status, text = windows(p.dir, p.install(file, target)...)
				list, _ := os.ReadDir(target)
				return status, text, len(list)
			}
			pack := func() string {
				out := t.TempDir()
				if code, text, errs := command(p.dir, []string{"SOURCE_DATE_EPOCH=0"}, p.create(p.dir, out)...); code != 0 {
					t.Fatalf("create: exit %d\n%s%s", code, text, errs)
				}
				return filepath.Join(out, p.file)
			}
			for _, name := range neighbours {
				put(t, filepath.Join(p.dir, p.below, name), "x", 0o644)
			}
			if status, text, left := install(pack()); status != 0 || left == 0 {
				t.Fatalf("the neighbours: exit %d, %d files\n%s", status, left, text)
			}
			for _, name := range []string{"x.md::$DATA", "x.md:other", "12:30.md", "x.md.", "x.md ", "d. /y", "con", "AUX.md", "lpt1.txt", "a?", "a|b", `a"b`, "<a>"} {
				put(t, filepath.Join(p.dir, p.below, name), "y", 0o644)
				file := pack()
				if status, text, left := install(file); status != 1 || left != 0 || !strings.Contains(text, "windows-name") || !strings.Contains(text, "hint: unpack it on another system") {
					t.Errorf("%q: exit %d, %d files\n%s", name, status, left, text)
				}
				if status, text := windows(p.dir, "verify", file); status != 0 || !strings.Contains(text, "windows-name") {
					t.Errorf("%q: verify has exit %d\n%s", name, status, text)
				}
				if status, out, errs := command(p.dir, nil, p.install(file, filepath.Join(t.TempDir(), "target"))...); status != 0 {
					t.Errorf("%q elsewhere: exit %d\n%s%s", name, status, out, errs)
				}
				first, _, _ := strings.Cut(name, "/")
				if err := os.RemoveAll(filepath.Join(p.dir, p.below, first)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	t.Run("rye", func(t *testing.T) {
		r := newRyeRun(t)
		r.key("own.pem")
		r.env["HOME"] = r.dir
		r.want(0, "", "trust", "add", "--key", "own.pem", "--owner", "me")
		for _, c := range []struct {
			id, item string
			want     int
		}{{"notes", "notes/conx.md", 0}, {"notes", "notes/aux.md", 1}, {"acme/con", "notes/x.md", 1}} {
			root, space := t.TempDir(), t.TempDir()
			put(t, filepath.Join(root, ".ai/knowledge", c.item), "x\n", 0o644)
			r.want(0, "created", "create", "--format", "rye", root, "--id", c.id, "--version", "1.0.0", "--key", "own.pem", "--sign-items")
			if status, text := windows(r.dir, "install", root, "--space", space); status != c.want || c.want == 1 && !strings.Contains(text, "windows-name") {
				t.Errorf("%v: exit %d\n%s", c, status, text)
			}
			if _, err := os.Stat(filepath.Join(space, ".ai")); (err == nil) != (c.want == 0) {
				t.Errorf("%v: %v", c, err)
			}
			r.want(0, "installed", "install", root, "--space", t.TempDir())
		}
	})
}

// What macOS leaves in a source is not packed, which create says; in a bundle
// that another program packed verify tells of it.
func TestMacFilesOfPackings(t *testing.T) {
	notes := func(text string) (names []string) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "macOS leaves") {
				names = append(names, line)
			}
		}
		return names
	}
	for _, p := range packings(t) {
		t.Run(p.name, func(t *testing.T) {
			env := []string{"SOURCE_DATE_EPOCH=0"}
			plain, out := t.TempDir(), t.TempDir()
			command(p.dir, env, p.create(p.dir, plain)...)
			for _, name := range []string{"._x", "__MACOSX/a/b", "a/._y"} {
				put(t, filepath.Join(p.dir, p.below, name), "x", 0o644)
			}
			put(t, filepath.Join(p.dir, p.below, "a/z"), "x", 0o644)
			code, text, errs := command(p.dir, env, p.create(p.dir, out)...)
			if got := notes(text + errs); code != 0 || len(got) != 3 || !strings.Contains(text+errs, "ignored-file") {
				t.Errorf("create: exit %d, notes %q\n%s%s", code, got, text, errs)
			}
			data, err := os.ReadFile(filepath.Join(out, p.file))
			if err != nil {
				t.Fatal(err)
			}
			if all := inflate(t, data); bytes.Contains(all, []byte("._")) || bytes.Contains(all, []byte("__MACOSX")) || !bytes.Contains(all, []byte("a/z")) {
				t.Error("the wrong files are packed")
			}
			for _, name := range []string{"._x", "__MACOSX/b"} {
				_, text, errs := command(p.dir, env, "verify", withMember(t, filepath.Join(plain, p.file), name))
				if !strings.Contains(text+errs, "mac-file") {
					t.Errorf("verify says nothing of %s: %s%s", name, text, errs)
				}
			}
		})
	}
}

// A source whose directories lie deeper than the format's limit is a finding of
// its own; one at the limit is packed.
func TestDeepSources(t *testing.T) {
	for _, p := range packings(t) {
		t.Run(p.name, func(t *testing.T) {
			above := 2 // components of the member besides the directories: what is above, and the file
			if p.name == "rig" {
				above = 3
			}
			for _, c := range []struct {
				depth, want int
			}{{256 - above, 0}, {257 - above, 1}, {1100, 1}} {
				root, err := os.OpenRoot(filepath.Join(p.dir, p.below))
				if err != nil {
					t.Fatal(err)
				}
				name := strings.Repeat("d/", c.depth)
				if err = root.MkdirAll(name, 0o755); err == nil {
					err = root.WriteFile(name+"x", []byte("x"), 0o644)
				}
				if err != nil {
					t.Skip(err)
				}
				code, out, errs := command(p.dir, []string{"SOURCE_DATE_EPOCH=0"}, p.create(p.dir, t.TempDir())...)
				if code != c.want || strings.Contains(out+errs, "limit-path") != (c.want == 1) {
					t.Errorf("%d deep: exit %d, expected %d\n%.300s%.300s", c.depth, code, c.want, out, errs)
				}
				if err := root.RemoveAll("d"); err != nil {
					t.Fatal(err)
				}
				root.Close()
			}
		})
	}
	t.Run("rye", func(t *testing.T) {
		r := newRyeRun(t)
		r.key("own.pem")
		for _, generation := range []string{"object_hash", "head"} {
			for depth, want := range map[int]string{
				240: "0 created", 250: "1 limit-exceeded", 300: "1 limit-path", 1100: "1 limit-path", // 512 bytes are the limit of a path
			} {
				status, text, _ := strings.Cut(want, " ")
				name := fmt.Sprintf("%s%d", generation, depth)
				root, err := os.OpenRoot(r.dir)
				if err != nil {
					t.Fatal(err)
				}
				below := name + "/.ai/knowledge/" + strings.Repeat("d/", depth)
				if err = root.MkdirAll(below, 0o755); err == nil {
					err = root.WriteFile(below+"x.md", []byte("x\n"), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
				args := []string{"create", "--format", "rye", name, "--id", "notes", "--version", "1.0.0", "--generation", generation, "--key", "own.pem", "--sign-items"}
				r.want(int(status[0]-'0'), text, args...)
				if err := root.RemoveAll(name); err != nil {
					t.Fatal(err)
				}
				root.Close()
			}
		}
	})
}

// A faulty reference is named as such without --format; a path that is not there
// is trouble, whatever it looks like otherwise.
func TestFaultyReference(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a#b"), "x", 0o644)
	for ref, want := range map[string]string{
		"oci://acme/agent": "1 ref-scheme", "npm:agent": "1 ref-scheme", "https://example.com/a.tar.gz": "1 ref-scheme", "a.tar.gz#sha256=12": "1 ref-digest",
		"a#sha512=12": "1 ref-digest", "gh:acme/agent@v1#sha256=zz": "1 ref-digest", "a#b": "1 checksum-missing",
		"absent": "2 io-error", "absent.rigbundle": "2 io-error", "absent#1.rigbundle": "2 io-error", "dir/absent": "2 io-error",
	} {
		status, code, _ := strings.Cut(want, " ")
		for _, verb := range []string{"verify", "inspect"} {
			got, out, errs := command(dir, nil, verb, ref)
			if string(rune('0'+got)) != status || !strings.Contains(out+errs, code) {
				t.Errorf("%s %s: exit %d, expected %s\n%s%s", verb, ref, got, want, out, errs)
			}
		}
	}
}

// The source of an agent bundle that is a work tree is refused with what to do.
func TestAgentSourceWithGit(t *testing.T) {
	p := packings(t)[1]
	for _, name := range []string{".git/HEAD", "bin/.GIT"} {
		put(t, filepath.Join(p.dir, name), "x", 0o644)
		code, out, errs := command(p.dir, []string{"SOURCE_DATE_EPOCH=0"}, p.create(p.dir, t.TempDir())...)
		var hints []string
		for line := range strings.Lines(out + errs) {
			if strings.HasPrefix(line, "hint: ") {
				hints = append(hints, line)
			}
		}
		want := "rsync -a --exclude=" + strings.TrimPrefix(strings.TrimSuffix(name, "/HEAD"), "bin/")
		if code != 1 || !slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(h, want) && strings.Contains(h, "git archive") }) {
			t.Errorf("%s: exit %d, no hint with %q\n%s%s", name, code, want, out, errs)
		}
		if err := os.RemoveAll(filepath.Join(p.dir, strings.TrimSuffix(name, "/HEAD"))); err != nil {
			t.Fatal(err)
		}
	}
}
