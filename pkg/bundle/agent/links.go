package agent

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Codes of links (docs/spec/agentbundle.md#codes).
const (
	codeLinkTarget     = "link-target"
	codeLinkEscape     = "link-escape"
	codeLinkLoop       = "link-loop"
	codeLinkDepth      = "link-depth"
	codeHardlinkEscape = "hardlink-escape"
	codeHardlinkTarget = "hardlink-target"
	codeHardlinkOrder  = "hardlink-order"
)

// maxLinks is the number of symlinks that one resolution may follow, the link
// itself included; Linux has the same.
const maxLinks = 40

// checkSymlinkTarget judges the target of the symlink name by its letters
// (docs/spec/agentbundle.md#members): link-target or link-escape.
func checkSymlinkTarget(name, target string, maxPath int64) *bundle.Finding {
	fault := func(code, why string) *bundle.Finding {
		return bundle.Faultf(code, name, "the symlink target %s %s", finding.QuoteMax(target, 200), why)
	}
	switch {
	case target == "":
		return fault(codeLinkTarget, "is empty")
	case !utf8.ValidString(target):
		return fault(codeLinkTarget, "is not valid UTF-8")
	case strings.ContainsFunc(target, unicode.IsControl):
		return fault(codeLinkTarget, "holds a control character")
	case int64(len(target)) > maxPath:
		return fault(codeLinkTarget, fmt.Sprintf("is %d bytes long, the limit is %d", len(target), maxPath))
	case target[0] == '/':
		return fault(codeLinkEscape, "is absolute")
	case strings.Contains(target, `\`):
		return fault(codeLinkEscape, "has a backslash")
	case hasDriveLetter(target):
		return fault(codeLinkEscape, "begins with a drive letter")
	}
	depth := strings.Count(name, "/")
	for c := range strings.SplitSeq(target, "/") {
		switch c {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return fault(codeLinkEscape, "leaves the bundle root")
			}
		default:
			depth++
		}
	}
	return nil
}

// checkHardlinkTarget judges the target of the hard link name by its letters
// and returns it normalised: hardlink-escape or hardlink-target.
func checkHardlinkTarget(name, target string, limits *bundle.Limits) (string, *bundle.Finding) {
	fault := func(code, why string) (string, *bundle.Finding) {
		return "", bundle.Faultf(code, name, "the hard link target %s %s", finding.QuoteMax(target, 200), why)
	}
	clean := strings.TrimPrefix(target, "./")
	f := bundle.CheckName(clean)
	switch {
	case f == nil && limits.CheckPath(clean) != nil:
		return fault(codeHardlinkTarget, "is too long")
	case f == nil:
		return clean, nil
	case f.Code == bundle.MemberName:
		return fault(codeHardlinkTarget, "is empty or not printable")
	case clean[0] == '/':
		return fault(codeHardlinkEscape, "is absolute")
	case strings.Contains(clean, `\`):
		return fault(codeHardlinkEscape, "has a backslash")
	case hasDriveLetter(clean):
		return fault(codeHardlinkEscape, "begins with a drive letter")
	}
	for c := range strings.SplitSeq(clean, "/") {
		if c == ".." {
			return fault(codeHardlinkEscape, `has the component ".."`)
		}
	}
	return fault(codeHardlinkTarget, `has an empty component or the component "."`)
}

// A node is a member, an implied directory, or the root.
type node struct {
	parent *node // the root is its own
	name   string
	kind   bundle.Type
	index  int    // of the member; -1 for implied directories and the root
	target string // of links
	memo   *walk  // result of following this symlink
}

type edge struct {
	parent *node
	name   string
}

// A tree finds members by path and follows links. It needs member names
// without faults and no member below a file or symlink.
type tree struct {
	root  *node
	nodes map[edge]*node
}

func newTree() *tree {
	r := &node{kind: bundle.Dir, index: -1}
	r.parent = r
	return &tree{root: r, nodes: map[edge]*node{}}
}

func (t *tree) add(p string, kind bundle.Type, index int, target string) {
	n := t.root
	for c := range strings.SplitSeq(p, "/") {
		e := edge{n, c}
		child := t.nodes[e]
		if child == nil {
			child = &node{parent: n, name: c, kind: bundle.Dir, index: -1}
			t.nodes[e] = child
		}
		n = child
	}
	n.kind, n.index, n.target = kind, index, target
}

// find returns the node at a clean path without following links, nil if there
// is none.
func (t *tree) find(p string) *node {
	n := t.root
	for c := range strings.SplitSeq(p, "/") {
		if n = t.nodes[edge{n, c}]; n == nil {
			return nil
		}
	}
	return n
}

// A walk is a position in the tree while a link is followed, and in the end
// where it leads.
type walk struct {
	at    *node
	below int  // components below at that do not exist
	lost  bool // the kernel would have stopped at a name that does not exist
	links int  // symlinks followed so far
}

// step goes on by one component that is no symlink to follow; false: it left
// the root.
func (w *walk) step(t *tree, c string) bool {
	switch c {
	case "", ".":
		if w.at.kind != bundle.Dir {
			w.lost = true
		}
	case "..":
		switch {
		case w.below > 0:
			w.below--
		case w.at == t.root:
			return false
		default:
			if w.at.kind != bundle.Dir {
				w.lost = true
			}
			w.at = w.at.parent
		}
	default:
		if w.below == 0 {
			if n := t.nodes[edge{w.at, c}]; n != nil {
				w.at = n
				return true
			}
		}
		w.below++
		w.lost = true
	}
	return true
}

// resolve follows the symlink n to its end. It is linear in the letters of all
// targets together, because each link is followed once and remembered; ok is
// false if the way leaves the root or follows more than maxLinks links, and
// fault then says which it is.
func (t *tree) resolve(n *node) (w walk, ok bool) { return t.follow(n, 0) }

func (t *tree) follow(n *node, nesting int) (w walk, ok bool) {
	if n.memo != nil {
		return *n.memo, true
	}
	if nesting >= maxLinks {
		return w, false
	}
	w = walk{at: n.parent, links: 1}
	for c := range strings.SplitSeq(n.target, "/") {
		if !w.step(t, c) {
			return w, false
		}
		if w.below > 0 || w.at.kind != bundle.Symlink {
			continue
		}
		inner, ok := t.follow(w.at, nesting+1)
		if !ok {
			return w, false
		}
		w.at, w.below = inner.at, inner.below
		w.lost = w.lost || inner.lost
		if w.links += inner.links; w.links > maxLinks {
			return w, false
		}
	}
	n.memo = &w
	return w, true
}

// fault says why the symlink n cannot be followed, walking as a kernel does:
// what comes first on the way is the reason. It takes at most maxLinks+1
// targets.
func (t *tree) fault(n *node) (code, why string) {
	w := walk{at: n.parent, links: 1}
	met := map[*node]bool{n: true}
	twice := false
	todo := []string{n.target} // targets to walk, the innermost last
	for len(todo) > 0 {
		c, rest, more := strings.Cut(todo[len(todo)-1], "/")
		if todo[len(todo)-1] = rest; !more {
			todo = todo[:len(todo)-1]
		}
		if !w.step(t, c) {
			return codeLinkEscape, "leads out of the bundle root when the links on its way are followed"
		}
		if w.below > 0 || w.at.kind != bundle.Symlink {
			continue
		}
		twice = twice || met[w.at]
		met[w.at] = true
		if w.links++; w.links > maxLinks {
			if twice {
				return codeLinkLoop, "leads in a circle"
			}
			return codeLinkDepth, fmt.Sprintf("leads through more than %d links", maxLinks)
		}
		todo = append(todo, w.at.target)
		w.at = w.at.parent
	}
	return "", ""
}

// path is the path of a node below the root, "." for the root itself.
func (n *node) path() string {
	if n.parent == n {
		return "."
	}
	if n.parent.parent == n.parent {
		return n.name
	}
	return path.Join(n.parent.path(), n.name)
}
