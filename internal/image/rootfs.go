package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
)

// A rootFS is what the layers of an image hold together, as far as somebody asks: every name with its type, and of a few
// files what they say. It is made by reading each layer once, from the lowest up.
type rootFS struct {
	top    *node
	limits *bundle.Limits
	layer  int   // that is being read, counted from 1
	nodes  int64 // entries read
	names  int64 // bytes of their names and link targets
	bytes  int64 // what came out of all layers
	steps  int64 // components that were followed
}

// A node is a name in the tree.
type node struct {
	name     string
	kind     byte // a flag of tar; TypeReg, TypeDir, TypeSymlink or another one
	exec     bool // somebody may execute it
	layer    int  // that put it there last
	hidden   int  // the layer whose whiteouts it was seen to last
	target   string
	file     *fileInfo
	up       *node
	children map[string]*node
}

// fileInfo is what is known of the content of a file, which hard links share.
type fileInfo struct {
	size    int64
	arch    string // of its ELF header, "" if it has none
	text    []byte // of those that wanted keeps
	version string // that the file says of itself, "" if none or several
}

// Names of whiteouts (OCI image layer specification, "Whiteouts").
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

const (
	maxKept  = 64 << 10 // bytes of a file that is kept
	maxLinks = 40       // that are followed on the way to a name
	maxSteps = 64 << 20 // components that are followed in one image
)

// readRoot reads the layers of an image.
func readRoot(ctx context.Context, m *Image, limits *bundle.Limits) (*rootFS, error) {
	fs := &rootFS{limits: limits, top: &node{kind: tar.TypeDir, children: map[string]*node{}}}
	for i, d := range m.Manifest.Layers {
		fs.layer = i + 1
		if err := fs.read(ctx, m, d, m.Config.RootFS.DiffIDs[i]); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	return fs, nil
}

func (fs *rootFS) read(ctx context.Context, m *Image, d v1.Descriptor, diffID v1.Hash) error {
	kind, err := layerKind(d.MediaType)
	if err != nil {
		return err
	}
	blob, err := m.store.blob(ctx, d)
	if err != nil {
		return err
	}
	defer blob.Close()
	left := *fs.limits
	left.TotalSize -= fs.bytes
	raw, err := bundle.Decompress(kind, contextReader{ctx, blob}, d.Size, &left)
	if err != nil {
		return err
	}
	defer raw.Close()
	sum := sha256.New()
	out := &counted{r: io.TeeReader(raw, sum)}
	t := tar.NewReader(out)
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = fs.add(h, t)
		}
		if err != nil {
			if f := bundle.AsFinding(err); f != nil {
				return f
			}
			return err
		}
	}
	if _, err := io.Copy(io.Discard, out); err != nil { // to the end, where the digests are compared
		return err
	}
	if _, err := io.Copy(io.Discard, blob); err != nil {
		return err
	}
	if fs.bytes += out.n; hex.EncodeToString(sum.Sum(nil)) != diffID.Hex {
		return fmt.Errorf("its content is not %s, which the config names", diffID)
	}
	return nil
}

type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// add applies one member of a layer.
func (fs *rootFS) add(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if err := fs.count(); err != nil {
		return err
	}
	if fs.names += int64(len(h.Name) + len(h.Linkname)); fs.names > fs.limits.NameBytes || int64(max(len(h.Name), len(h.Linkname))) > fs.limits.Path {
		return bundle.Faultf(bundle.LimitPath, "", "names are too long, see the limits path and name-bytes")
	}
	parts, err := split(h.Name)
	if err != nil {
		return err
	}
	if int64(len(parts)) > fs.limits.Depth {
		return bundle.Faultf(bundle.LimitPath, "", "a path has more than %d components, the limit depth", fs.limits.Depth)
	}
	if len(parts) == 0 { // the root itself
		return nil
	}
	base := parts[len(parts)-1]
	dir, err := fs.walk(parts[:len(parts)-1], true, true)
	if err != nil {
		return err
	}
	if base == opaque {
		if dir.hidden != fs.layer {
			dir.hidden, dir.layer = fs.layer, fs.layer
			for _, child := range dir.children {
				fs.hide(child)
			}
		}
		return nil
	}
	if name, ok := strings.CutPrefix(base, whiteout); ok {
		if child := dir.children[name]; child != nil {
			fs.hide(child)
		}
		return nil
	}
	old := dir.children[base]
	if h.Typeflag == tar.TypeDir && old != nil && old.kind == tar.TypeDir {
		old.layer = fs.layer
		return nil
	}
	n := &node{name: base, kind: h.Typeflag, exec: h.Mode&0o111 != 0, layer: fs.layer, up: dir, target: h.Linkname}
	switch h.Typeflag {
	case tar.TypeDir:
		n.children = map[string]*node{}
	case tar.TypeReg:
		if n.file, err = readFile(n.path(), h.Size, content); err != nil {
			return err
		}
	case tar.TypeLink:
		to, err := split(h.Linkname)
		if err != nil {
			return err
		}
		was, err := fs.walk(to, false, false)
		if err != nil {
			return err
		}
		if was == nil || was.kind == tar.TypeDir {
			return fmt.Errorf("%s is a hard link to %s, which is not there", finding.QuoteMax(h.Name, 200), finding.QuoteMax(h.Linkname, 200))
		}
		n.kind, n.exec, n.file, n.target = was.kind, was.exec, was.file, was.target
	}
	dir.children[base] = n
	return nil
}

// count counts one more entry.
func (fs *rootFS) count() error {
	if fs.nodes++; fs.nodes > fs.limits.Entries {
		return bundle.Faultf(bundle.LimitEntries, "", "there are more than %d entries, the limit entries", fs.limits.Entries)
	}
	return nil
}

// hide takes away what lower layers put at and below a name. What the layer itself has put there stays, whatever the
// order of its members; each part of the tree is looked at once a layer.
func (fs *rootFS) hide(n *node) {
	if n.hidden == fs.layer {
		return
	}
	n.hidden = fs.layer
	for _, child := range n.children {
		fs.hide(child)
	}
	switch {
	case n.layer == fs.layer:
	case len(n.children) == 0:
		delete(n.up.children, n.name)
	default:
		n.layer = fs.layer
	}
}

// split takes a name of an archive apart. Nothing may lead out of the root.
func split(name string) ([]string, error) {
	var parts []string
	for c := range strings.SplitSeq(name, "/") {
		switch c {
		case "", ".":
		case "..":
			if len(parts) == 0 {
				return nil, fmt.Errorf("the name %s leads out of the image", finding.QuoteMax(name, 200))
			}
			parts = parts[:len(parts)-1]
		default:
			parts = append(parts, c)
		}
	}
	return parts, nil
}

// walk goes from the root to a name, through symlinks that stay inside the root; the last component is followed if follow
// is set. Without create it returns nil if the name is not there. With create it makes the directories that are missing,
// and puts one in the place of what is not a directory, as those do who unpack a layer over those below it.
func (fs *rootFS) walk(parts []string, follow, create bool) (*node, error) {
	at, links := fs.top, 0
	for len(parts) > 0 {
		if fs.steps++; fs.steps > maxSteps {
			return nil, errors.New("its symlinks lead too far")
		}
		c := parts[0]
		parts = parts[1:]
		if c == "" || c == "." {
			continue
		}
		if c == ".." {
			if at.up != nil {
				at = at.up
			}
			continue
		}
		next := at.children[c]
		if next != nil && next.kind == tar.TypeSymlink && (len(parts) > 0 || follow) {
			if links++; links > maxLinks {
				if create {
					return nil, fmt.Errorf("more than %d symlinks lead to one name", maxLinks)
				}
				return nil, nil
			}
			if strings.HasPrefix(next.target, "/") {
				at = fs.top
			}
			parts = append(strings.Split(next.target, "/"), parts...)
			continue
		}
		if next == nil || next.kind != tar.TypeDir && (create || len(parts) > 0) {
			if !create {
				return nil, nil
			}
			if err := fs.count(); err != nil {
				return nil, err
			}
			next = &node{name: c, kind: tar.TypeDir, layer: fs.layer, up: at, children: map[string]*node{}}
			at.children[c] = next
		}
		at = next
	}
	return at, nil
}

// find returns what an absolute path leads to, nil if nothing.
func (fs *rootFS) find(name string) *node {
	n, _ := fs.walk(strings.Split(name, "/"), true, false)
	return n
}

// path is the absolute path of a node, without symlinks.
func (n *node) path() string {
	if n.up == nil {
		return "/"
	}
	return path.Join(n.up.path(), n.name)
}

// program reports whether a node is a file that can be executed.
func (n *node) program() bool { return n != nil && n.file != nil && n.exec }

// wantedText are the files that are kept, by their paths or ends of them.
func wantedText(name string) bool {
	switch path.Base(name) {
	case "os-release":
		return name == "/etc/os-release" || name == "/usr/lib/os-release"
	case "node_version.h":
		return strings.HasSuffix(name, "/include/node/node_version.h") || strings.HasSuffix(name, "/nodejs/src/node_version.h")
	case "patchlevel.h":
		return pythonHeader.MatchString(name)
	}
	return false
}

var (
	pythonHeader = regexp.MustCompile(`/include/python3\.\d+\w*/patchlevel\.h\z`)
	nodeBinary   = regexp.MustCompile(`\Anode(js)?(-?\d+)?\z|\Alibnode\.so`)
	pythonBinary = regexp.MustCompile(`\Apython3?(\.\d+)?\z|\Alibpython3\.\d+\w*\.so`)
	pythonMinor  = regexp.MustCompile(`\A(?:lib)?python(3\.\d{1,3})`)
	versionText  = regexp.MustCompile(`\A(\d{1,3}\.\d{1,3}\.\d{1,3})(?:[+\x00/\s]|\.tar|-headers|\z)`)
)

// readFile takes what is needed of the content of a file.
func readFile(name string, size int64, content io.Reader) (*fileInfo, error) {
	f := &fileInfo{size: size}
	if wantedText(name) {
		text, err := io.ReadAll(io.LimitReader(content, maxKept))
		f.text = text
		return f, err
	}
	var head [20]byte
	n, err := io.ReadFull(content, head[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	f.arch, _ = agent.ELFArch(head[:n])
	rest := io.MultiReader(strings.NewReader(string(head[:n])), content)
	switch base := path.Base(name); {
	case nodeBinary.MatchString(base):
		f.version, err = scanVersion(rest, "v", "", "\x00", "node.js/", "release/")
	case pythonBinary.MatchString(base):
		f.version, err = scanVersion(rest, "", minor(base), "\x00", "Python ", "Python-")
	default:
		err = nil
	}
	return f, err
}

// minor is "3.11." of python3.11 and its library, so that no other number is taken for the version; "" of python3.
func minor(base string) string {
	if m := pythonMinor.FindStringSubmatch(base); m != nil {
		return m[1] + "."
	}
	return ""
}

// scanVersion finds the one version that a program says of itself: three numbers that begin as wanted, behind the letter,
// if there is one, and before that one of the given texts or the beginning of the file.
func scanVersion(r io.Reader, letter, wanted string, before ...string) (string, error) {
	const (
		behind = 16 // bytes that a version may take
		ahead  = 16 // bytes that stand before it
	)
	found, start := "", true
	buf := make([]byte, 0, 128<<10)
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := err != nil
		if end && err != io.EOF && err != io.ErrUnexpectedEOF {
			return "", err
		}
		for at := 0; ; {
			i := bytes.IndexByte(buf[at:], '.')
			if i < 0 {
				break
			}
			dot := at + i
			at = dot + 1
			if !end && len(buf)-dot < behind { // the next round sees it whole
				break
			}
			from := dot
			for from > 0 && dot-from < 3 && buf[from-1] >= '0' && buf[from-1] <= '9' {
				from--
			}
			m := versionText.FindSubmatch(buf[from:min(len(buf), from+behind+8)])
			if m == nil {
				continue
			}
			lead, ok := bytes.CutSuffix(buf[max(0, from-ahead):from], []byte(letter))
			first := len(lead) == 0 && start
			if !ok || !strings.HasPrefix(string(m[1]), wanted) || !first && !slices.ContainsFunc(before, func(b string) bool { return bytes.HasSuffix(lead, []byte(b)) }) {
				continue
			}
			if found != "" && found != string(m[1]) {
				return "", nil // it names several, which proves nothing
			}
			found = string(m[1])
		}
		if end {
			return found, nil
		}
		buf, start = append(buf[:0], buf[len(buf)-behind-ahead-8:]...), false
	}
}
