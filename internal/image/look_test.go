package image

import (
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle/agent"
)

const (
	glibc = "lib64/ld-linux-x86-64.so.2"
	musl  = "lib/ld-musl-x86_64.so.1"

	nodeHeader = "#define NODE_MAJOR_VERSION 20\n#define NODE_MINOR_VERSION 15\n#define NODE_PATCH_VERSION 1\n"
)

func osRelease(name string) item { return plain("etc/os-release", "ID=x\nPRETTY_NAME=\""+name+"\"\n") }

// TestBaseImages: the shapes that base images have, each with what a bundle asks of it, and beside it a neighbour that is
// judged otherwise (docs/spec/agentbundle.md#base-image).
func TestBaseImages(t *testing.T) {
	debian := []item{elf(glibc, "amd64"), osRelease("Debian 12"), file("bin/sh", "sh"), file("usr/bin/env", "env")}
	alpine := []item{elf(musl, "amd64"), osRelease("Alpine 3.20"), file("bin/sh", "sh"), file("usr/bin/env", "env")}
	node := func(version string) item { return program("usr/local/bin/node", "v"+version) }
	one := func(items ...item) shape { return shape{layers: [][]item{items}} }
	two := func(a, b []item) shape { return shape{layers: [][]item{a, b}} }
	with := func(a []item, more ...item) []item { return append(slices.Clone(a), more...) }
	node20 := need{runtime: "node@20.15.1"}
	python := need{runtime: "python@3.11.2"}
	type row struct {
		name  string
		base  shape
		need  need
		want  string // codes, "" if the bundle fits
		found string // part of the first message, or of the facts where it fits
	}
	rows := []row{
		{"glibc", one(debian...), need{}, "", "Debian 12"},
		{"glibc, for a bundle of musl", one(debian...), need{libc: "musl"}, "base-libc", "(Debian 12) has /lib64/ld-linux-x86-64.so.2 of glibc"},
		{"musl", one(alpine...), need{libc: "musl"}, "", "musl"},
		{"musl, for a bundle of glibc", one(alpine...), need{}, "base-libc", "(Alpine 3.20) has /lib/ld-musl-x86_64.so.1 of musl"},
		{"distroless with a libc", one(elf(glibc, "amd64"), plain("usr/lib/os-release", "PRETTY_NAME=\"Distroless\"\n")), need{}, "", "Distroless"},
		{"distroless, static", one(plain("usr/lib/os-release", "PRETTY_NAME=\"Distroless\"\n")), need{}, "base-libc", "no loader"},
		{"scratch", shape{}, need{}, "base-libc", "no loader"},
		{"scratch and a loader", one(elf(glibc, "amd64")), need{}, "", "glibc"},
		{"the script of an entry, without a shell", one(elf(glibc, "amd64")), need{entry: "#!/bin/sh\n"}, "base-runtime", "is started by \"/bin/sh\""},
		{"the script of an entry, with a shell", one(debian...), need{entry: "#!/bin/sh\n"}, "", ""},
		{"env finds no interpreter", one(debian...), need{entry: "#!/usr/bin/env bash\n"}, "base-runtime", "\"bash\""},
		{"env finds the interpreter", one(debian...), need{entry: "#!/usr/bin/env -S sh -e\n"}, "", ""},
		{"another architecture", shape{arch: "arm64", layers: [][]item{{elf("lib/ld-linux-aarch64.so.1", "arm64")}}}, need{}, "base-platform", "says \"linux/arm64\""},
		{"the same for its own bundle", shape{arch: "arm64", variant: "v8", layers: [][]item{{elf("lib/ld-linux-aarch64.so.1", "arm64")}}}, need{arch: "arm64"}, "", "linux/arm64/v8"},
		{"another system", shape{os: "windows", layers: [][]item{debian}}, need{}, "base-platform", "windows/amd64"},
		{"a config of amd64 over files of arm64", one(elf(glibc, "arm64")), need{}, "base-libc", "ld-linux-x86-64.so.2 for arm64"},
		{"a config of amd64 over files of amd64", one(elf(glibc, "amd64")), need{}, "", ""},
		{"node 18 for a bundle of 20", one(with(debian, node("18.20.4"))...), node20, "base-runtime", "has 18.20.4, as /usr/local/bin/node says"},
		{"node 20", one(with(debian, node("20.15.1"))...), node20, "", "node@20.15.1"},
		{"an older node 20", one(with(debian, node("20.9.0"))...), node20, "base-runtime", "has 20.9.0"},
		{"a newer node 20", one(with(debian, node("20.19.0"))...), node20, "", "node@20.19.0"},
		{"node 22", one(with(debian, node("22.1.0"))...), node20, "base-runtime", "has 22.1.0"},
		{"no node", one(debian...), node20, "base-runtime", "has no program node or nodejs on its PATH"},
		{"three nodes, and the PATH says which", shape{env: []string{"PATH=/opt/20/bin:/opt/18/bin:/opt/22/bin"}, layers: [][]item{with(debian,
			program("opt/18/bin/node", "v18.0.0"), program("opt/20/bin/node", "v20.15.1"), program("opt/22/bin/node", "v22.0.0"))}}, node20, "", "/opt/20/bin/node"},
		{"three nodes, and the PATH says another", shape{env: []string{"PATH=/opt/18/bin:/opt/20/bin:/opt/22/bin"}, layers: [][]item{with(debian,
			program("opt/18/bin/node", "v18.0.0"), program("opt/20/bin/node", "v20.15.1"), program("opt/22/bin/node", "v22.0.0"))}}, node20, "base-runtime", "has 18.0.0"},
		{"node by its headers", one(with(debian, file("usr/local/bin/node", "stripped"), plain("usr/local/include/node/node_version.h", nodeHeader))...), node20, "", "/usr/local/include/node/node_version.h"},
		{"headers without a node", one(with(debian, plain("usr/local/include/node/node_version.h", nodeHeader))...), node20, "base-runtime", "no program node"},
		{"headers of another prefix", one(with(debian, file("usr/local/bin/node", "stripped"), plain("opt/include/node/node_version.h", nodeHeader))...), node20, "base-runtime", "can't be told"},
		{"NODE_VERSION is a hint only", shape{env: []string{"NODE_VERSION=20.15.1"}, layers: [][]item{with(debian, node("18.20.4"))}}, node20, "base-runtime", "has 18.20.4"},
		{"NODE_VERSION says less than there is", shape{env: []string{"NODE_VERSION=18.0.0"}, layers: [][]item{with(debian, node("20.15.1"))}}, node20, "", "base-version-hint"},
		{"NODE_VERSION alone", shape{env: []string{"NODE_VERSION=20.15.1"}, layers: [][]item{with(debian, file("usr/local/bin/node", "stripped"))}}, node20, "base-runtime", "can't be told"},
		{"a node that names two versions", one(with(debian, program("usr/local/bin/node", "v18.0.0\x00v20.15.1"))...), node20, "base-runtime", "can't be told"},
		{"a node that cannot be executed", one(with(debian, plain("usr/local/bin/node", "\x00v20.15.1\x00"))...), node20, "base-runtime", "no program node"},
		{"a node of another architecture", one(with(debian, item{name: "usr/bin/node", text: elfHead("arm64") + "\x00v20.15.1\x00"})...), node20, "base-runtime", "one for arm64"},
		{"node at the end of links", one(with(debian, link("usr/bin/node", "/etc/alternatives/node"), link("etc/alternatives/node", "../../opt/node-20"), program("opt/node-20", "v20.15.1"))...), node20, "", "/opt/node-20"},
		{"node at the end of a broken link", one(with(debian, link("usr/bin/node", "/etc/alternatives/node"))...), node20, "base-runtime", "no program node"},
		{"node that only the entrypoint names", shape{entrypoint: []string{"/nodejs/bin/node"}, layers: [][]item{with(debian, program("nodejs/bin/node", "v20.15.1"))}}, node20, "", "/nodejs/bin/node"},
		{"node that nobody names", one(with(debian, program("nodejs/bin/node", "v20.15.1"))...), node20, "base-runtime", "no program node"},
		{"any node will do", one(with(debian, file("usr/bin/node", "stripped"))...), need{runtime: "node@unknown"}, "", "/usr/bin/node"},
		{"any node would do, and none is there", one(debian...), need{runtime: "node@unknown"}, "base-runtime", "no program node"},
		{"python by its binary", one(with(debian, link("usr/bin/python3", "python3.11"), program("usr/bin/python3.11", "3.11.2"))...), python, "", "python@3.11.2"},
		{"python by its library", one(with(debian, link("usr/local/bin/python3", "python3.11"), program("usr/local/bin/python3.11", ""), program("usr/local/lib/libpython3.11.so.1.0", "3.11.9"))...), python, "", "libpython3.11.so.1.0"},
		{"python by its library, an older one", one(with(debian, link("usr/local/bin/python3", "python3.11"), program("usr/local/bin/python3.11", ""), program("usr/local/lib/libpython3.11.so.1.0", "3.11.1"))...), python, "base-runtime", "has 3.11.1"},
		{"python by its headers", one(with(debian, link("usr/local/bin/python3", "python3.11"), program("usr/local/bin/python3.11", ""), plain("usr/local/include/python3.11/patchlevel.h", "#define PY_VERSION      \"3.11.4+\"\n"))...), python, "", "patchlevel.h"},
		{"python by its headers, an older one", one(with(debian, link("usr/local/bin/python3", "python3.11"), program("usr/local/bin/python3.11", ""), plain("usr/local/include/python3.11/patchlevel.h", "#define PY_VERSION      \"3.11.1\"\n"))...), python, "base-runtime", "has 3.11.1"},
		{"an older python", one(with(debian, link("usr/bin/python3", "python3.11"), program("usr/bin/python3.11", "3.11.1"))...), python, "base-runtime", "has 3.11.1"},
		{"python of which the name alone tells", one(with(debian, link("usr/bin/python3", "python3.11"), program("usr/bin/python3.11", ""))...), need{runtime: "python@3.11"}, "", "python@3.11"},
		{"python of which the name tells too little", one(with(debian, link("usr/bin/python3", "python3.11"), program("usr/bin/python3.11", ""))...), python, "base-runtime", "has 3.11,"},
		{"an unknown runtime", one(with(debian, program("usr/bin/deno", "2.0.0"))...), need{runtime: "deno@2.0.0"}, "base-runtime", "can't be told"},
		{"os-release of Alpine over glibc", one(elf(glibc, "amd64"), osRelease("Alpine 3.20")), need{}, "", "Alpine 3.20"},
		{"os-release of Debian over musl", one(elf(musl, "amd64"), osRelease("Debian 12")), need{}, "base-libc", "(Debian 12) has /lib/ld-musl"},
		{"split: the link in one layer, the loader in the next", two([]item{link("lib64", "usr/lib64")}, []item{elf("usr/lib64/ld-linux-x86-64.so.2", "amd64")}), need{}, "", "/usr/lib64/ld-linux"},
		{"split: a loader put behind the link of a lower layer", two([]item{directory("usr/lib64"), link("lib64", "usr/lib64")}, []item{elf(glibc, "amd64")}), need{}, "", "/usr/lib64/ld-linux"},
		{"split: the loader never comes", two([]item{link("lib64", "usr/lib64")}, []item{directory("usr/lib64")}), need{}, "base-libc", "no loader"},
		{"a whiteout over the runtime", two(with(debian, node("20.15.1")), []item{gone("usr/local/bin/node")}), node20, "base-runtime", "no program node"},
		{"a whiteout over something else", two(with(debian, node("20.15.1")), []item{gone("usr/local/bin/npm")}), node20, "", "node@20.15.1"},
		{"a whiteout over the runtime's directory", two(with(debian, node("20.15.1")), []item{gone("usr/local")}), node20, "base-runtime", "no program node"},
		{"an opaque directory over the runtime", two(with(debian, node("20.15.1")), []item{file("usr/local/bin/.wh..wh..opq", "")}), node20, "base-runtime", "no program node"},
		{"an opaque directory and a runtime of its own", two(with(debian, node("18.0.0")), []item{node("20.15.1"), file("usr/local/bin/.wh..wh..opq", "")}), node20, "", "node@20.15.1"},
		{"a whiteout before a runtime of its own", two(with(debian, node("18.0.0")), []item{gone("usr/local/bin/node"), node("20.15.1")}), node20, "", "node@20.15.1"},
		{"a whiteout in the layer of the runtime itself", one(with(debian, node("20.15.1"), gone("usr/local/bin/node"))...), node20, "", "node@20.15.1"},
		{"a whiteout behind a link", two(with(debian, node("20.15.1"), link("usr/here", "local")), []item{gone("usr/here/bin/node")}), node20, "base-runtime", "no program node"},
		{"the runtime is replaced", two(with(debian, node("20.15.1")), []item{node("18.0.0")}), node20, "base-runtime", "has 18.0.0"},
		{"a loader behind an absolute link", one(link(glibc, "/usr/lib/real.so"), elf("usr/lib/real.so", "amd64")), need{}, "", "/usr/lib/real.so"},
		{"an absolute link to no loader", one(link(glibc, "/usr/lib/real.so"), elf("usr/lib/other.so", "amd64")), need{}, "base-libc", "no loader"},
		{"a loader behind a link that would lead out", one(link(glibc, "../../../../usr/lib/real.so"), elf("usr/lib/real.so", "amd64")), need{}, "", "/usr/lib/real.so"},
		{"a link that would lead out, to no loader", one(link(glibc, "../../../../usr/lib/real.so")), need{}, "base-libc", "no loader"},
		{"a loader behind a loop", one(link(glibc, "other"), link("lib64/other", "ld-linux-x86-64.so.2")), need{}, "base-libc", "no loader"},
		{"a directory where the loader belongs", one(directory(glibc)), need{}, "base-libc", "which is not a file"},
		{"a loader by a hard link", one(elf("usr/lib/ld.so", "amd64"), hard(glibc, "usr/lib/ld.so")), need{}, "", "glibc"},
		{"a hard link in another place", one(elf("usr/lib/ld.so", "amd64"), hard("lib64/other.so", "usr/lib/ld.so")), need{}, "base-libc", "no loader"},
		{"both loaders", one(elf(glibc, "amd64"), elf(musl, "amd64")), need{libc: "musl"}, "", "glibc musl"},
		{"both loaders, and a bundle of the other", one(elf(glibc, "amd64"), elf(musl, "amd64")), need{}, "", "glibc musl"},
		{"both loaders, one of them for arm64", one(elf(glibc, "amd64"), elf(musl, "arm64")), need{libc: "musl"}, "base-libc", "of glibc"},
		{"git", one(with(debian, program("usr/bin/git", ""))...), need{capabilities: "needsGit"}, "", ""},
		{"no git", one(debian...), need{capabilities: "needsGit"}, "base-capability", "no program git"},
		{"certificates", one(with(debian, plain("etc/ssl/certs/ca-certificates.crt", "PEM"))...), need{capabilities: "needsNetwork"}, "", ""},
		{"no certificates", one(debian...), need{capabilities: "needsNetwork"}, "base-capability", "certificates of authorities"},
		{"an empty file of certificates", one(with(debian, plain("etc/ssl/certs/ca-certificates.crt", ""))...), need{capabilities: "needsNetwork"}, "base-capability", "certificates"},
		{"another capability asks for nothing", one(debian...), need{capabilities: "needsCoffee"}, "", ""},
		{"layers in zstd", shape{kind: "zstd", layers: [][]item{debian}}, need{}, "", "glibc"},
		{"layers in zstd, for a bundle of musl", shape{kind: "zstd", layers: [][]item{debian}}, need{libc: "musl"}, "base-libc", "of glibc"},
		{"layers in no compression", shape{kind: "tar", layers: [][]item{debian}}, need{}, "", "glibc"},
		{"layers in no compression, for a bundle of musl", shape{kind: "tar", layers: [][]item{debian}}, need{libc: "musl"}, "base-libc", "of glibc"},
		{"docker's media types", shape{docker: true, layers: [][]item{debian}}, need{}, "", "glibc"},
		{"docker's media types, for a bundle of musl", shape{docker: true, layers: [][]item{debian}}, need{libc: "musl"}, "base-libc", "of glibc"},
		{"devices, owners and set-uid are the base's own", one(with(debian, item{name: "dev/null", flag: '3'}, item{name: "usr/bin/su", text: "x", mode: 0o4755})...), need{}, "", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := build(t, row.base)
			r := bundleFor(t, row.need)
			j, err := openLayout(t, layout(t, b)).Judge(t.Context(), r, nil, agent.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(codesOf(j), " "); got != row.want {
				t.Errorf("found %q, want %q: %v", got, row.want, j.Findings)
			}
			text := strings.Join(append(slices.Clone(j.Facts.Libc), j.Facts.Distribution, j.Facts.Platform, j.Facts.Runtime, j.Facts.RuntimeFrom, j.Facts.Loader), " ")
			for _, f := range j.Findings {
				text = f.Message
			}
			for _, n := range j.Notes {
				text += n.Code
			}
			if !strings.Contains(text, row.found) {
				t.Errorf("%q does not say %q", text, row.found)
			}
			if row.base.kind != "" || row.base.docker {
				return
			}
			for _, keep := range []bool{false, true} { // the same image as docker saves it
				name := saveDocker(t, b, keep)
				d, err := Open(t.Context(), name, Location{Archive: name, Tag: "1"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				again, err := d.Judge(t.Context(), r, nil, agent.DefaultLimits())
				d.Close()
				if err != nil || strings.Join(codesOf(again), " ") != row.want {
					t.Errorf("as a docker archive: %v %v", again, err)
				}
			}
		})
	}
}

// TestBaseIndex: of an index the image for the bundle's platform is looked at, and no other one.
func TestBaseIndex(t *testing.T) {
	amd := build(t, shape{layers: [][]item{{elf(glibc, "amd64")}}})
	arm := build(t, shape{arch: "arm64", variant: "v8", layers: [][]item{{elf("lib/ld-linux-aarch64.so.1", "arm64")}}})
	old := build(t, shape{arch: "arm", variant: "v6", layers: [][]item{{file("x", "6")}}})
	v7 := build(t, shape{arch: "arm", variant: "v7", layers: [][]item{{file("x", "7")}}})
	b := openLayout(t, layout(t, amd, arm, old, v7))
	for arch, want := range map[string]*built{"amd64": amd, "arm64": arm, "arm": v7} {
		m, _, ok, err := b.image(t.Context(), "linux", arch)
		if err != nil || !ok || m.Descriptor.Digest.String() != digestOf(want.manifest) {
			t.Errorf("%s: %v %v %v", arch, m, ok, err)
		}
	}
	j, err := b.Judge(t.Context(), bundleFor(t, need{arch: "riscv64", entry: "#!/bin/sh\n"}), nil, agent.DefaultLimits())
	if err != nil || strings.Join(codesOf(j), " ") != "base-platform" || !strings.Contains(j.Findings[0].Message, "linux/amd64, linux/arm/v6, linux/arm/v7, linux/arm64/v8") {
		t.Errorf("no image of the platform: %v %v", j, err)
	}
	liar := build(t, shape{layers: [][]item{{elf(glibc, "amd64")}}})
	liar.platform = object{"os": "linux", "architecture": "arm64"}
	j, err = openLayout(t, layout(t, amd, liar)).Judge(t.Context(), bundleFor(t, need{arch: "arm64"}), nil, agent.DefaultLimits())
	if err != nil || strings.Join(codesOf(j), " ") != "base-platform" || !strings.Contains(j.Findings[0].Message, "the config of the base") {
		t.Errorf("an index that says arm64 of an image of amd64: %v %v", j, err)
	}
}

// TestStatedRuntime: what the user vouches for is believed only where the image says nothing.
func TestStatedRuntime(t *testing.T) {
	stated := &agent.Runtime{Type: "node", Version: "20.15.1"}
	for says, want := range map[string]string{"": "", "v18.0.0": "base-runtime", "v20.15.1": ""} {
		b := openLayout(t, layout(t, build(t, shape{layers: [][]item{{elf(glibc, "amd64"), program("bin/node", says)}}})))
		j, err := b.Judge(t.Context(), bundleFor(t, need{runtime: "node@20.15.1"}), stated, agent.DefaultLimits())
		if err != nil || strings.Join(codesOf(j), " ") != want || (len(j.Notes) == 1) != (says == "") {
			t.Errorf("%q: %v %v", says, j, err)
		}
	}
}
