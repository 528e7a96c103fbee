package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
)

// Codes of a base image that does not bring what a bundle needs (docs/spec/agentbundle.md#base-image).
const (
	codePlatform   = "base-platform"
	codeLibc       = "base-libc"
	codeRuntime    = "base-runtime"
	codeCapability = "base-capability"
)

// noteHint says that a variable of the config names another runtime than the one that is there.
const noteHint = "base-version-hint"

// Facts are what was found in an image.
type Facts struct {
	Reference    string   `json:"reference"`
	Digest       string   `json:"digest"`            // of what the reference names
	Manifest     string   `json:"manifest"`          // of the image for the platform
	Platform     string   `json:"platform"`          // of its config, with the variant
	Libc         []string `json:"libc"`              // glibc, musl, both or none
	Distribution string   `json:"distribution"`      // PRETTY_NAME of os-release, "" if there is none
	Runtime      string   `json:"runtime,omitempty"` // TYPE@VERSION, of the type that the bundle needs
	RuntimeFrom  string   `json:"runtime_from,omitempty"`
	Loader       string   `json:"loader,omitempty"` // path of the dynamic loader that is there for the bundle
}

// Loaders are the paths of dynamic loaders, which binaries name by their psABI (glibc: sysdeps/*/ldsodefs, ABI lists;
// musl: its manual, "Where is ld-musl").
var loaders = map[string]map[string][]string{
	"glibc": {
		"amd64": {"/lib64/ld-linux-x86-64.so.2"}, "arm64": {"/lib/ld-linux-aarch64.so.1"},
		"arm": {"/lib/ld-linux-armhf.so.3", "/lib/ld-linux.so.3"}, "386": {"/lib/ld-linux.so.2"},
		"ppc64le": {"/lib64/ld64.so.2"}, "riscv64": {"/lib/ld-linux-riscv64-lp64d.so.1"}, "s390x": {"/lib/ld64.so.1"},
	},
	"musl": {
		"amd64": {"/lib/ld-musl-x86_64.so.1"}, "arm64": {"/lib/ld-musl-aarch64.so.1"},
		"arm": {"/lib/ld-musl-armhf.so.1", "/lib/ld-musl-arm.so.1"}, "386": {"/lib/ld-musl-i386.so.1"},
		"ppc64le": {"/lib/ld-musl-powerpc64le.so.1"}, "riscv64": {"/lib/ld-musl-riscv64.so.1"}, "s390x": {"/lib/ld-musl-s390x.so.1"},
	},
}

// certificates are where programs look for the certificates of authorities (Go crypto/x509 root_linux.go, OpenSSL).
var certificates = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// defaultPath is where programs are looked for in a container whose image names no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Judgement is what Judge found.
type Judgement struct {
	Findings []*bundle.Finding
	Notes    []bundle.Note
	Facts    *Facts
	Image    *Image // the one for the bundle's platform; nil if there is none
}

func (j *Judgement) find(code, hint, format string, args ...any) {
	j.Findings = append(j.Findings, &bundle.Finding{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Judge looks at what a base brings for a bundle that Verify has accepted (docs/spec/agentbundle.md#base-image): the findings
// are in the order platform, libc, runtime, capability. stated is the runtime that the user vouches for, nil if none. The
// error, an *UnreadableError, says that nothing could be decided.
func (b *Base) Judge(ctx context.Context, r *agent.Result, stated *agent.Runtime, limits bundle.Limits) (*Judgement, error) {
	m := r.Manifest
	image, offered, ok, err := b.image(ctx, m.Platform, m.Arch)
	if err != nil {
		return nil, &UnreadableError{b.Name, err}
	}
	j := &Judgement{Facts: &Facts{Reference: bundle.EscapeLine(b.Name), Digest: b.Digest.String(), Libc: []string{}}}
	if !ok {
		j.find(codePlatform, "", "the bundle is for %s/%s, the base %s has %s", m.Platform, m.Arch, b.quoted(), finding.QuoteMax(strings.Join(offered, ", "), 200))
		return j, nil
	}
	if image.root == nil {
		if image.root, err = readRoot(ctx, image, &limits); err != nil {
			return nil, &UnreadableError{b.Name, err}
		}
	}
	j.Image = image
	l := &look{Judgement: j, base: b, fs: image.root, config: &image.Config, r: r, m: m}
	j.Facts.Manifest, j.Facts.Platform = image.Descriptor.Digest.String(), platformText(v1.Platform{OS: l.config.OS, Architecture: l.config.Architecture, Variant: l.config.Variant})
	l.release()
	if l.config.OS != m.Platform || l.config.Architecture != m.Arch {
		j.find(codePlatform, "", "the bundle is for %s/%s, the config of the base %s says %s", m.Platform, m.Arch, b.quoted(), finding.Quote(j.Facts.Platform))
		return j, nil // nothing else can be right
	}
	l.libc()
	l.runtime(stated)
	l.interpreter()
	l.capabilities()
	return j, nil
}

func (b *Base) quoted() string { return finding.QuoteMax(b.Name, 200) }

// look is one look at an image for one bundle.
type look struct {
	*Judgement
	base   *Base
	fs     *rootFS
	config *v1.ConfigFile
	r      *agent.Result
	m      *agent.Manifest
}

// release reads the distribution out of os-release.
func (l *look) release() {
	n := l.fs.find("/etc/os-release")
	if n == nil || n.file == nil {
		n = l.fs.find("/usr/lib/os-release")
	}
	if n == nil || n.file == nil {
		return
	}
	values := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(n.file.text)); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), "="); ok {
			values[key] = strings.Trim(value, `"'`)
		}
	}
	name := cmp.Or(values["PRETTY_NAME"], strings.TrimSpace(values["ID"]+" "+values["VERSION_ID"]))
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "")
	}
	l.Facts.Distribution = finding.Clean(name)
}

// libc looks for the loader that binaries of the bundle's architecture name.
func (l *look) libc() {
	seen := "no loader"
	for _, libc := range []string{"glibc", "musl"} {
		for _, name := range loaders[libc][l.m.Arch] {
			n := l.fs.find(name)
			switch {
			case n == nil:
			case n.file == nil:
				seen = name + ", which is not a file"
			case n.file.arch != "" && n.file.arch != l.m.Arch:
				seen = fmt.Sprintf("%s for %s", name, n.file.arch)
			default:
				l.Facts.Libc = append(l.Facts.Libc, libc)
				if libc == l.m.Libc {
					l.Facts.Loader = n.path()
				}
			}
			if n != nil && n.file != nil {
				break
			}
		}
	}
	if slices.Contains(l.Facts.Libc, l.m.Libc) {
		return
	}
	if len(l.Facts.Libc) > 0 {
		seen = loaders[l.Facts.Libc[0]][l.m.Arch][0] + " of " + l.Facts.Libc[0]
	}
	where := ""
	if l.Facts.Distribution != "" {
		where = " (" + l.Facts.Distribution + ")"
	}
	l.find(codeLibc, "", "the bundle is for %s, whose loader is %s; the base %s%s has %s", l.m.Libc,
		strings.Join(loaders[l.m.Libc][l.m.Arch], " or "), l.base.quoted(), where, seen)
}

// env returns a variable of the config.
func (l *look) env(key string) string {
	value := ""
	for _, e := range l.config.Config.Env {
		if k, v, ok := strings.Cut(e, "="); ok && k == key {
			value = v
		}
	}
	return value
}

// program finds a program on the PATH of the image, nil if it is not there.
func (l *look) program(name string) *node {
	for dir := range strings.SplitSeq(cmp.Or(l.env("PATH"), defaultPath), ":") {
		if !path.IsAbs(dir) {
			continue
		}
		if n := l.fs.find(path.Join(dir, name)); n.program() {
			return n
		}
	}
	return nil
}

// runtimes are those whose version can be found, with the names of their programs.
var runtimes = map[string]struct {
	programs []string
	binary   *regexp.Regexp
	hint     string // the variable of the config by which images of them name a version
	version  func(l *look, n *node) (version, from string)
}{
	"node":   {[]string{"node", "nodejs"}, nodeBinary, "NODE_VERSION", (*look).nodeVersion},
	"python": {[]string{"python3", "python"}, pythonBinary, "PYTHON_VERSION", (*look).pythonVersion},
}

func (l *look) runtime(stated *agent.Runtime) {
	need := l.m.Runtime
	if need == nil {
		return
	}
	kind, known := runtimes[need.Type]
	if !known {
		kind.programs = []string{need.Type}
	}
	var n *node
	for _, p := range kind.programs {
		if n == nil {
			n = l.program(p)
		}
	}
	// An image without a shell may name its runtime by path only.
	for _, p := range slices.Concat(first(l.config.Config.Entrypoint), first(l.r.Interpreter)) {
		if n == nil && known && path.IsAbs(p) && kind.binary.MatchString(path.Base(p)) {
			if at := l.fs.find(p); at.program() {
				n = at
			}
		}
	}
	if n == nil {
		l.find(codeRuntime, "", "the bundle needs %s, the base %s has no program %s on its PATH %s", finding.QuoteMax(need.String(), 129),
			l.base.quoted(), strings.Join(kind.programs, " or "), finding.QuoteMax(cmp.Or(l.env("PATH"), defaultPath), 200))
		return
	}
	if n.file.arch != "" && n.file.arch != l.m.Arch {
		l.find(codeRuntime, "", "the bundle needs %s for %s, the base %s has one for %s at %s", finding.QuoteMax(need.String(), 129), l.m.Arch, l.base.quoted(),
			n.file.arch, finding.Path(n.path()))
		return
	}
	version, from := "", n.path()
	if known {
		version, from = kind.version(l, n)
	}
	l.Facts.RuntimeFrom = bundle.EscapeLine(cmp.Or(from, n.path()))
	if version != "" {
		l.Facts.Runtime = need.Type + "@" + version
	}
	if hint := strings.TrimPrefix(l.env(kind.hint), "v"); known && hint != "" && version != "" && hint != version {
		l.Notes = append(l.Notes, bundle.Note{Code: noteHint, Detail: fmt.Sprintf("%s of the base says %s, %s is %s", kind.hint, finding.QuoteMax(hint, 60), finding.Path(from), version)})
	}
	switch {
	case version != "" && need.Fits(version), version == "" && need.Version == "unknown":
	case version != "":
		l.find(codeRuntime, "", "the bundle needs %s, the base %s has %s, as %s says", finding.QuoteMax(need.String(), 129), l.base.quoted(), version, finding.Path(from))
	case stated != nil && stated.Type == need.Type:
		l.Notes = append(l.Notes, bundle.Note{Code: agent.NoteRuntimeUnchecked, Detail: fmt.Sprintf("%s does not say its version, %s is believed", finding.Path(n.path()), finding.QuoteMax(stated.String(), 129))})
	default:
		l.find(codeRuntime, "give --runtime "+finding.Word(need.Type+"@VERSION")+" if you know it", "the bundle needs %s, the version of %s in the base %s can't be told",
			finding.QuoteMax(need.String(), 129), finding.Path(n.path()), l.base.quoted())
	}
}

func first(words []string) []string { return words[:min(len(words), 1)] }

var (
	nodeMacro   = regexp.MustCompile(`(?m)^#define NODE_(MAJOR|MINOR|PATCH)_VERSION +(\d{1,4})\s*$`)
	pythonMacro = regexp.MustCompile(`(?m)^#define PY_VERSION\s+"(3\.\d{1,3}\.\d{1,3})[^"]*"`)
)

// nodeVersion is what the binary says of itself, else what the headers beside it say.
func (l *look) nodeVersion(n *node) (version, from string) {
	if n.file.version != "" {
		return n.file.version, n.path()
	}
	prefix := path.Dir(path.Dir(n.path()))
	for _, name := range l.below(prefix, "lib", `\Alibnode\.so`) {
		if n := l.fs.find(name); n != nil && n.file != nil && n.file.version != "" {
			return n.file.version, name
		}
	}
	for _, name := range []string{"/include/node/node_version.h", "/include/nodejs/src/node_version.h"} {
		h := l.fs.find(prefix + name)
		if h == nil || h.file == nil {
			continue
		}
		part := map[string]string{}
		for _, m := range nodeMacro.FindAllStringSubmatch(string(h.file.text), -1) {
			part[m[1]] = m[2]
		}
		if len(part) == 3 {
			return part["MAJOR"] + "." + part["MINOR"] + "." + part["PATCH"], h.path()
		}
	}
	return "", ""
}

// pythonVersion is what the binary says of itself, else its library or the headers beside it. The name of the binary
// gives two numbers of three, which is enough for a bundle that asks for no more.
func (l *look) pythonVersion(n *node) (version, from string) {
	if n.file.version != "" {
		return n.file.version, n.path()
	}
	m := pythonMinor.FindStringSubmatch(path.Base(n.path()))
	if m == nil {
		return "", ""
	}
	prefix := path.Dir(path.Dir(n.path()))
	for _, name := range l.below(prefix, "lib", `\Alib`+regexp.QuoteMeta("python"+m[1])+`\w*\.so`) {
		if n := l.fs.find(name); n != nil && n.file != nil && n.file.version != "" {
			return n.file.version, name
		}
	}
	if h := l.fs.find(prefix + "/include/python" + m[1] + "/patchlevel.h"); h != nil && h.file != nil {
		if v := pythonMacro.FindStringSubmatch(string(h.file.text)); v != nil && strings.HasPrefix(v[1], m[1]+".") {
			return v[1], h.path()
		}
	}
	return m[1], n.path()
}

// below lists the files of a name in a directory and in those directly below it, as Debian has one for each architecture.
func (l *look) below(prefix, dir, pattern string) (names []string) {
	want := regexp.MustCompile(pattern)
	for _, suffix := range []string{"", "64"} {
		top := l.fs.find(path.Join(prefix, dir+suffix))
		if top == nil {
			continue
		}
		for name, n := range top.children {
			if want.MatchString(name) {
				names = append(names, path.Join(top.path(), name))
			}
			if !strings.HasSuffix(name, "-linux-gnu") && !strings.Contains(name, "-linux-gnu") {
				continue
			}
			for file := range n.children {
				if want.MatchString(file) {
					names = append(names, path.Join(n.path(), file))
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// interpreter looks for what the entry's #! line starts.
func (l *look) interpreter() {
	if len(l.r.Interpreter) == 0 {
		return
	}
	name := l.r.Interpreter[0]
	if strings.HasPrefix(name, agent.Root+"/") { // the bundle brings it
		return
	}
	if n := l.fs.find(name); !n.program() {
		l.find(codeRuntime, "", "the entry is started by %s, which the base %s does not have", finding.QuoteMax(name, 200), l.base.quoted())
		return
	}
	if path.Base(name) != "env" {
		return
	}
	for _, word := range l.r.Interpreter[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue
		}
		if !path.IsAbs(word) && l.program(word) == nil {
			l.find(codeRuntime, "", "the entry is started by %s, which is not on the PATH of the base %s", finding.QuoteMax(word, 200), l.base.quoted())
		}
		return
	}
}

// capabilities looks for what the bundle's capabilities need.
func (l *look) capabilities() {
	if l.m.Capabilities["needsGit"] && l.program("git") == nil {
		l.find(codeCapability, "", "the bundle has the capability needsGit, the base %s has no program git on its PATH", l.base.quoted())
	}
	if !l.m.Capabilities["needsNetwork"] {
		return
	}
	for _, name := range append([]string{l.env("SSL_CERT_FILE")}, certificates...) {
		if n := l.fs.find(name); path.IsAbs(name) && n != nil && n.file != nil && n.file.size > 0 {
			return
		}
	}
	if dir := l.fs.find("/etc/ssl/certs"); dir != nil && dir.kind == tar.TypeDir {
		for name := range dir.children {
			if n := l.fs.find(path.Join(dir.path(), name)); n != nil && n.file != nil && n.file.size > 0 && slices.Contains([]string{".pem", ".crt", ".0"}, path.Ext(name)) {
				return
			}
		}
	}
	l.find(codeCapability, "", "the bundle has the capability needsNetwork, the base %s has no certificates of authorities, expected at %s", l.base.quoted(), certificates[0])
}
