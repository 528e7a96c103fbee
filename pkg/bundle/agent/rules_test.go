package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

const goodManifest = `{"bundleVersion":"1","name":"demo","version":"1.0.0","entry":"bin/agent","platform":"linux","arch":"amd64","libc":"glibc"}`

// member is one member of an archive made for a test.
type member struct {
	name string
	kind byte // 0 is a regular file
	mode int64
	body string
	link string
	pax  map[string]string
}

func file(name, body string) member    { return member{name: name, mode: 0o644, body: body} }
func program(name, body string) member { return member{name: name, mode: 0o755, body: body} }
func dir(name string) member           { return member{name: name + "/", kind: tar.TypeDir, mode: 0o755} }
func symlink(name, target string) member {
	return member{name: name, kind: tar.TypeSymlink, mode: 0o777, link: target}
}
func hardlink(name, target string) member {
	return member{name: name, kind: tar.TypeLink, mode: 0o644, link: target}
}
func manifest(text string) member { return file(ManifestName, text) }
func base(more ...member) (all []member) {
	return append([]member{manifest(goodManifest), program("bin/agent", "#!/bin/sh\n")}, more...)
}
func withEntry(head string) []member {
	return []member{manifest(goodManifest), program("bin/agent", head)}
}
func replace(from, to string) member { return manifest(strings.Replace(goodManifest, from, to, 1)) }
func entryAt(e string, m ...member) []member {
	return append([]member{replace(`"bin/agent"`, `"`+e+`"`), program("bin/agent", "#!/bin/sh\n")}, m...)
}

// tarOf packs members in their order with the standard library's writer.
func tarOf(t testing.TB, members []member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Typeflag: m.kind, Name: m.name, Mode: m.mode, Size: int64(len(m.body)), Linkname: m.link, PAXRecords: m.pax}
		if m.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func verifyBytes(t testing.TB, data []byte, name string, o bundle.Options) *Result {
	t.Helper()
	r, err := Verify(t.Context(), bundle.Input{Name: name, File: bytes.NewReader(data), Size: int64(len(data))}, Format{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func verifyMembers(t testing.TB, members []member) *Result {
	t.Helper()
	return verifyBytes(t, gzipOf(t, tarOf(t, members)), "x.tar.gz", bundle.Options{})
}

func elf(class, order byte, machine uint16) string {
	h := make([]byte, 64)
	copy(h, "\x7fELF")
	h[4], h[5], h[6] = class, order, 1
	if order == 2 {
		binary.BigEndian.PutUint16(h[18:], machine)
	} else {
		binary.LittleEndian.PutUint16(h[18:], machine)
	}
	return string(h)
}

func machO(magic, cpu uint32) string {
	h := make([]byte, 32)
	binary.LittleEndian.PutUint32(h, magic)
	binary.LittleEndian.PutUint32(h[4:], cpu)
	return string(h)
}

func fatMachO(cpus ...uint32) string {
	h := binary.BigEndian.AppendUint32(nil, machOFat)
	h = binary.BigEndian.AppendUint32(h, uint32(len(cpus)))
	for _, c := range cpus {
		h = append(binary.BigEndian.AppendUint32(h, c), make([]byte, 16)...)
	}
	return string(h)
}

// chain is n symlinks l1 -> l2 -> … -> bin/agent.
func chain(n int) (links []member) {
	for i := 1; i < n; i++ {
		links = append(links, symlink(fmt.Sprintf("l%d", i), fmt.Sprintf("l%d", i+1)))
	}
	return append(links, symlink(fmt.Sprintf("l%d", n), "bin/agent"))
}

// TestTreeRules has for every rule of links, members and entry the attack and
// a neighbour that is fine.
func TestTreeRules(t *testing.T) {
	darwin := replace(`"platform":"linux","arch":"amd64","libc":"glibc"`, `"platform":"darwin","arch":"arm64"`)
	for _, c := range []struct {
		name    string
		members []member
		code    string
	}{
		{"plain", base(), "ok"},
		{"empty archive", nil, "container-no-entries"},
		{"root member only", []member{dir(".")}, "container-no-entries"},
		{"root member", base(dir(".")), "ok"},
		{"root member twice", base(dir("."), member{name: ".", kind: tar.TypeDir, mode: 0o755}), "member-duplicate"},
		{"set-gid root", base(member{name: "./", kind: tar.TypeDir, mode: 0o2755}), "member-mode"},
		{"root that others may write", base(member{name: "./", kind: tar.TypeDir, mode: 0o777}), "member-mode"},
		{"root with an ACL", base(member{name: "./", kind: tar.TypeDir, mode: 0o755, pax: map[string]string{"SCHILY.acl.default": "user::rwx"}}), "member-xattr"},

		{"link inside", base(symlink("a/b/l", "../../bin/agent")), "ok"},
		{"link to the root", base(symlink("a/l", "..")), "ok"},
		{"link above the root", base(symlink("a/l", "../..")), "link-escape"},
		{"link out and back", base(symlink("a/l", "../../agent/bin/agent")), "link-escape"},
		{"absolute link", base(symlink("l", "/etc/passwd")), "link-escape"},
		{"backslash link", base(symlink("l", `..\..\x`)), "link-escape"},
		{"drive link", base(symlink("l", "C:/x")), "link-escape"},
		{"colon link", base(symlink("l", "12:30")), "ok"},
		{"control character in a target", base(symlink("l", "a\x1bb")), "link-target"},
		{"C1 in a target", base(symlink("l", "a\u0085b")), "link-target"},
		{"not UTF-8 in a target", base(member{name: "l", kind: tar.TypeSymlink, link: "a\xffb"}), "link-target"},
		{"target of 4096 bytes", base(symlink("l", strings.Repeat("a/", 2048))), "ok"},
		{"target of 4097 bytes", base(symlink("l", strings.Repeat("a/", 2048)+"b")), "link-target"},
		{"escape through a link", base(dir("d/e"), symlink("s", "d/e"), symlink("l", "s/../../../x")), "link-escape"},
		{"escape by a followed link", base(symlink("d/e/up", "../.."), symlink("x/y/l", "../../d/e/up/../x")), "link-escape"},
		{"inside by a followed link", base(symlink("d/e/up", ".."), symlink("x/y/l", "../../d/e/up/../bin/agent")), "ok"},
		{"link to itself", base(symlink("l", "l")), "link-loop"},
		{"loop of two", base(symlink("a", "b"), symlink("b", "a")), "link-loop"},
		{"loop through a directory link", base(symlink("a", "b/x"), symlink("b", "a")), "link-loop"},
		{"link below itself", base(symlink("d/l", "../d/l/x")), "link-loop"},
		{"40 links", base(chain(40)...), "ok"},
		{"41 links", base(chain(41)...), "link-depth"},
		{"41 links, the last first", base(reversed(chain(41))...), "link-depth"},
		{"40 uses of one link", base(symlink("s", "."), symlink("l", strings.Repeat("s/", 39)+"bin")), "ok"},
		{"41 uses of one link", base(symlink("s", "."), symlink("l", strings.Repeat("s/", 40)+"bin")), "link-loop"},
		{"dangling", base(symlink("l", "nowhere/at/all")), "ok"},

		{"hidden text", base(file("skills/a/SKILL.md", "a\U000e0041b")), "hidden-text"},
		{"hidden text in a name", base(file("skills/a\u200b/x.md", "a")), "hidden-text"},
		{"hidden text of a package", base(file("lib/node_modules/a/README.md", "a\u200bb")), "ok"},
		{"joined emoji", base(file("skills/a/SKILL.md", "👩\u200d🚀")), "ok"},
		{"hard link", base(file("a", "x"), hardlink("b", "a")), "ok"},
		{"hard link with ./", base(file("a", "x"), hardlink("b", "./a")), "ok"},
		{"hard link to a later file", base(hardlink("b", "a"), file("a", "x")), "hardlink-order"},
		{"hard link to itself", base(hardlink("b", "b")), "hardlink-target"},
		{"hard link to a hard link", base(file("a", "x"), hardlink("b", "a"), hardlink("c", "b")), "hardlink-target"},
		{"hard link to a directory", base(dir("a"), hardlink("b", "a")), "hardlink-target"},
		{"hard link to an implied directory", base(hardlink("b", "bin")), "hardlink-target"},
		{"hard link to a symlink", base(symlink("a", "bin/agent"), hardlink("b", "a")), "hardlink-target"},
		{"hard link through a symlink", base(symlink("a", "bin"), hardlink("b", "a/agent")), "hardlink-target"},
		{"hard link to nothing", base(hardlink("b", "")), "hardlink-target"},
		{"hard link with an empty component", base(hardlink("b", "bin//agent")), "hardlink-target"},
		{"hard link with .", base(hardlink("b", "bin/./agent")), "hardlink-target"},
		{"hard link with ..", base(hardlink("b", "bin/../bin/agent")), "hardlink-escape"},
		{"absolute hard link", base(hardlink("b", "/bin/agent")), "hardlink-escape"},
		{"backslash hard link", base(hardlink("b", `bin\agent`)), "hardlink-escape"},
		{"drive hard link", base(hardlink("b", "C:bin/agent")), "hardlink-escape"},
		{"control character in a hard link", base(hardlink("b", "bin/a\x01")), "hardlink-target"},
		{"set-uid hard link", base(member{name: "b", kind: tar.TypeLink, mode: 0o4755, link: "bin/agent"}), "member-mode"},
		{"set-uid symlink", base(member{name: "b", kind: tar.TypeSymlink, mode: 0o4777, link: "bin/agent"}), "ok"},

		{"below a file", base(file("a", "x"), file("a/b", "y")), "member-conflict"},
		{"below a hard link", base(file("a", "x"), hardlink("h", "a"), file("h/b", "y")), "member-conflict"},
		{"below a link, before it", base(file("d/x", "y"), symlink("d", "bin")), "member-through-link"},
		{"case collision of implied parents", base(file("Lib/a", ""), file("lib/b", "")), "member-case-collision"},
		{"sharp s does not fold simply", base(file("straße", ""), file("strasse", "")), "ok"},
		{"Kelvin sign folds", base(file("a\u212a", ""), file("ak", "")), "member-case-collision"},
		{"NFC and NFD", base(file("e\u0301", ""), file("\u00e9", "")), "member-unicode-collision"},
		{"links before collisions", base(file("a", ""), file("A", ""), symlink("l", "l")), "link-loop"},
		{"bidi in a name", base(file("a\u202eb", "")), "member-name"},
		{"sticky directory", base(member{name: "d/", kind: tar.TypeDir, mode: 0o1755}), "member-mode"},
		{"world-writable directory", base(member{name: "d/", kind: tar.TypeDir, mode: 0o777}), "member-mode"},
		{"private file", base(member{name: "f", mode: 0o600}), "ok"},
		{"ACL", base(member{name: "f", mode: 0o644, pax: map[string]string{"SCHILY.acl.access": "user::rw-"}}), "member-xattr"},
		{"SELinux label", base(member{name: "f", mode: 0o644, pax: map[string]string{"RHT.security.selinux": "x"}}), "member-xattr"},

		{"charset of names", base(member{name: "f", mode: 0o644, pax: map[string]string{"hdrcharset": "BINARY"}}), "ok"},
		{"vendor record", base(member{name: "f", mode: 0o644, pax: map[string]string{"LIBARCHIVE.creationtime": "1"}}), "ok"},

		{"manifest in a directory", []member{file("agent/manifest.json", goodManifest)}, "manifest-missing"},
		{"manifest in other case", []member{file("Manifest.json", goodManifest)}, "manifest-missing"},
		{"manifest is a symlink", []member{file("m", goodManifest), symlink(ManifestName, "m")}, "manifest-type"},
		{"manifest is a hard link", []member{file("m", goodManifest), hardlink(ManifestName, "m")}, "manifest-type"},
		{"no entry without a manifest", []member{manifest("{"), file("bin/agent", "")}, "manifest-json"},

		{"entry with ./", entryAt("./bin/agent"), "entry-point-path"},
		{"entry with an empty component", entryAt("bin//agent"), "entry-point-path"},
		{"entry with ..", entryAt("bin/../bin/agent"), "entry-point-path"},
		{"absolute entry", entryAt("/bin/agent"), "entry-point-path"},
		{"entry with drive", entryAt("C:/bin/agent"), "entry-point-path"},
		{"entry in another case", entryAt("Bin/agent"), "entry-point-missing"},
		{"entry below a file", entryAt("bin/agent/x"), "entry-point-missing"},
		{"entry with arguments", entryAt("bin/agent --serve"), "entry-point-missing"},
		{"entry is an implied directory", entryAt("bin"), "entry-point-type"},
		{"entry is a directory", entryAt("d", dir("d")), "entry-point-type"},
		{"entry through a directory link", entryAt("b/agent", symlink("b", "bin")), "entry-point-path"},
		{"entry is a link", entryAt("run", symlink("run", "bin/agent")), "ok"},
		{"entry is a chain of links", entryAt("run", append(chain(3), symlink("run", "l1"))...), "ok"},
		{"entry is a link through a directory link", entryAt("run", symlink("b", "bin"), symlink("run", "b/agent")), "ok"},
		{"entry is a dangling link", entryAt("run", symlink("run", "gone")), "entry-point-type"},
		{"entry is a link to a directory", entryAt("run", symlink("run", "bin")), "entry-point-type"},
		{"entry is a link to a file with a slash", entryAt("run", symlink("run", "bin/agent/")), "entry-point-type"},
		{"entry is a hard link", entryAt("run", hardlink("run", "bin/agent")), "ok"},
		{"entry is a link to a hard link", entryAt("run", hardlink("h", "bin/agent"), symlink("run", "h")), "ok"},
		{"entry is a hard link to a file without x", entryAt("run", file("f", "#!/bin/sh\n"), member{name: "run", kind: tar.TypeLink, mode: 0o755, link: "f"}), "entry-point-not-executable"},
		{"entry cannot be read", []member{manifest(goodManifest), {name: "bin/agent", mode: 0o311, body: "#!/bin/sh\n"}}, "entry-point-mode"},
		{"entry for the owner alone", []member{manifest(goodManifest), {name: "bin/agent", mode: 0o500, body: "#!/bin/sh\n"}}, "ok"},

		{"shebang with blanks", withEntry("#! \t/usr/bin/env -S node --x\n"), "ok"},
		{"shebang with CR", withEntry("#!/bin/sh\r\n"), "entry-point-format"},
		{"shebang without line feed", withEntry("#!/bin/sh"), "entry-point-format"},
		{"shebang of 256 bytes", withEntry("#!/" + strings.Repeat("x", 252) + "\n"), "ok"},
		{"shebang of 257 bytes", withEntry("#!/" + strings.Repeat("x", 253) + "\n"), "entry-point-format"},
		{"shebang without interpreter", withEntry("#!\n"), "entry-point-format"},
		{"shebang with a relative interpreter", withEntry("#!bin/sh\n"), "entry-point-format"},
		{"BOM before shebang", withEntry("\ufeff#!/bin/sh\n"), "entry-point-format"},
		{"blank before shebang", withEntry(" #!/bin/sh\n"), "entry-point-format"},
		{"ELF", withEntry(elf(2, 1, 62)), "ok"},
		{"ELF of another machine", withEntry(elf(2, 1, 183)), "entry-point-arch"},
		{"ELF of 32 bits", withEntry(elf(1, 1, 62)), "entry-point-arch"},
		{"ELF of another byte order", withEntry(elf(2, 2, 62)), "entry-point-arch"},
		{"ELF cut short", withEntry("\x7fELF\x02\x01"), "entry-point-format"},
		{"Mach-O on linux", withEntry(machO(machO64, 0x01000007)), "entry-point-arch"},
		{"Windows program", withEntry("MZ\x90\x00"), "entry-point-arch"},
		{"Java class", withEntry("\xca\xfe\xba\xbe\x00\x00\x00\x34"), "entry-point-format"},
		{"Mach-O on darwin", []member{darwin, program("bin/agent", machO(machO64, 0x0100000c))}, "ok"},
		{"Mach-O of another machine", []member{darwin, program("bin/agent", machO(machO64, 0x01000007))}, "entry-point-arch"},
		{"fat Mach-O", []member{darwin, program("bin/agent", fatMachO(0x01000007, 0x0100000c))}, "ok"},
		{"fat Mach-O without ours", []member{darwin, program("bin/agent", fatMachO(0x01000007, 7))}, "entry-point-arch"},
		{"ELF on darwin", []member{darwin, program("bin/agent", elf(2, 1, 183))}, "entry-point-arch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := verifyMembers(t, c.members)
			checkResult(t, r, c.code, nil)
			for _, f := range r.Findings {
				if f.Message == "" || strings.ContainsAny(f.Message+f.Hint, "\n\x1b") || strings.HasSuffix(f.Message, ".") {
					t.Errorf("message %q", f.Message)
				}
			}
		})
	}
}

func reversed(m []member) []member {
	slices.Reverse(m)
	return m
}

// TestEntryNotKept reads the entry's head again if the budget for heads was
// used up before it came.
func TestEntryNotKept(t *testing.T) {
	for body, code := range map[string]string{"#!/bin/sh\n": "ok", "echo\n": "entry-point-format"} {
		data := gzipOf(t, tarOf(t, []member{manifest(goodManifest), program("p", "#!/bin/p\n"), program("bin/agent", body)}))
		p := profile(bundle.Options{}, compressions("x"))
		p.KeepBudget = 9 // as long as p
		a, err := bundle.Scan(t.Context(), bytes.NewReader(data), int64(len(data)), p)
		if err != nil {
			t.Fatal(err)
		}
		if a.Kept["p"] == nil || a.Kept["bin/agent"] != nil {
			t.Fatalf("kept %q", a.Kept)
		}
		r := NewResult("verify")
		r.Archive = a
		if err := r.judgeContent(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkResult(t, r, code, nil)
	}
}

// TestStreamFaultsComeFirst: what the archive order meets first decides.
func TestStreamFaultsComeFirst(t *testing.T) {
	r := verifyMembers(t, []member{manifest("{"), symlink("l", "/x"), file("../x", "")})
	checkResult(t, r, "link-escape", nil)
	r = verifyMembers(t, []member{manifest("{"), file("../x", ""), symlink("l", "/x")})
	checkResult(t, r, "member-path", nil)
}

// TestBytesAfterNUL: what follows the NUL of a header's name is refused, also
// where an extension header gives another name, and in its own header.
func TestBytesAfterNUL(t *testing.T) {
	long := file(strings.Repeat("n", 120), "")
	long.pax = map[string]string{"path": long.name}
	for _, c := range []struct {
		name  string
		block int // whose name gets bytes after a NUL
		code  string
	}{{"none", -1, "ok"}, {"pax header", 0, "container-corrupt"}, {"member with a pax name", 2, "member-name"}} {
		t.Run(c.name, func(t *testing.T) {
			data := tarOf(t, append([]member{long}, base()...))
			if c.block >= 0 {
				b := data[c.block*512:][:512]
				copy(b, "n\x00hidden")
				copy(b[148:], "        ")
				copy(b[148:], fmt.Sprintf("%06o\x00 ", bundle.BlockSum(b)))
			}
			checkResult(t, verifyBytes(t, gzipOf(t, data), "x.tar.gz", bundle.Options{}), c.code, nil)
		})
	}
}
