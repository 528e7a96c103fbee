package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rigward/rigward/pkg/bundle"
)

// TestLinksAgainstKernel lays random trees of links out on disk and asks the
// kernel where each link leads without leaving the root (openat2 with
// RESOLVE_BENEATH).
func TestLinksAgainstKernel(t *testing.T) {
	probe, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_BENEATH})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skipf("this kernel has no openat2: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(probe)
	rounds := 150
	if os.Getenv("RIGWARD_DIFF") == "full" {
		rounds = 20_000
	}
	outcomes := map[string]int{}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range rounds {
		members := randomLinks(rnd)
		root := t.TempDir()
		layOut(t, root, members)
		tree := newTree()
		for i, m := range members {
			tree.add(m.Name, m.Type, i, m.Link)
		}
		fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if m.Type != bundle.Symlink {
				continue
			}
			kernel, at := ask(t, fd, root, m.Name)
			ours, where := follow(tree, m)
			outcomes[ours+" "+kernel]++
			fine := false
			switch ours {
			case "ok":
				fine = kernel == "ok" && where == at
			case "lost":
				fine = kernel == "lost"
			case codeLinkEscape: // also where the kernel stops at a missing name, or counts links, first
				fine = kernel == "escape" || kernel == "lost" || kernel == "loop"
			case codeLinkLoop, codeLinkDepth:
				fine = kernel == "loop" || kernel == "lost"
			}
			if !fine {
				t.Errorf("round %d: %s -> %s: here %s %q, the kernel says %s %q\n%v", i, m.Name, m.Link, ours, where, kernel, at, members)
			}
		}
		unix.Close(fd)
		os.RemoveAll(root)
	}
	t.Log(outcomes)
	for _, o := range []string{"ok ok", "lost lost", "link-escape escape", "link-loop loop"} {
		if outcomes[o] == 0 {
			t.Errorf("the trees have no case of %q", o)
		}
	}
}

// follow is the verdict on one link by its letters and followed.
func follow(tree *tree, m bundle.Member) (verdict, path string) {
	if f := checkSymlinkTarget(m.Name, m.Link, 4096); f != nil {
		return f.Code, ""
	}
	n := tree.find(m.Name)
	w, ok := tree.resolve(n)
	if !ok {
		code, _ := tree.fault(n)
		return code, ""
	}
	if w.lost {
		return "lost", ""
	}
	return "ok", w.at.path()
}

func ask(t *testing.T, fd int, root, name string) (verdict, path string) {
	how := &unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	got, err := unix.Openat2(fd, name, how)
	for errors.Is(err, unix.EAGAIN) { // something on this machine was renamed meanwhile: openat2(2)
		got, err = unix.Openat2(fd, name, how)
	}
	switch {
	case err == nil:
		defer unix.Close(got)
		p, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", got))
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			t.Fatal(err)
		}
		return "ok", rel
	case errors.Is(err, unix.EXDEV):
		return "escape", ""
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return "lost", ""
	case errors.Is(err, unix.ELOOP):
		return "loop", ""
	}
	t.Fatal(err)
	return "", ""
}

// randomLinks is a small tree of directories, files and links whose targets
// are made of its own names.
func randomLinks(rnd *rand.Rand) (members []bundle.Member) {
	types := map[string]bundle.Type{}
	names := []string{"a", "b", "c", "d"}
	add := func(p string, m bundle.Member) {
		for dir := filepath.Dir(p); dir != "."; dir = filepath.Dir(dir) {
			if have, ok := types[dir]; ok && have != bundle.Dir {
				return
			}
		}
		if _, ok := types[p]; ok {
			return
		}
		for dir := filepath.Dir(p); dir != "."; dir = filepath.Dir(dir) {
			types[dir] = bundle.Dir
		}
		types[p] = m.Type
		m.Name = p
		members = append(members, m)
	}
	pick := func(from []string) string { return from[rnd.IntN(len(from))] }
	where := func() string {
		parts := make([]string, 1+rnd.IntN(3))
		for i := range parts {
			parts[i] = pick(names)
		}
		return strings.Join(parts, "/")
	}
	for range 4 + rnd.IntN(14) {
		switch rnd.IntN(5) {
		case 0:
			add(where(), bundle.Member{Type: bundle.Dir})
		case 1:
			add(where(), bundle.Member{Type: bundle.File})
		default:
			parts := make([]string, 1+rnd.IntN(4))
			for i := range parts {
				parts[i] = pick([]string{"a", "b", "c", "d", "..", "..", ".", ""})
			}
			// an absolute target is refused at its header
			if target := strings.Join(parts, "/"); target != "" && target[0] != '/' {
				add(where(), bundle.Member{Type: bundle.Symlink, Link: target})
			}
		}
	}
	return members
}

func layOut(t *testing.T, root string, members []bundle.Member) {
	for _, m := range members {
		p := filepath.Join(root, m.Name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch m.Type {
		case bundle.Dir:
			err = os.MkdirAll(p, 0o755)
		case bundle.File:
			err = os.WriteFile(p, nil, 0o644)
		default:
			err = os.Symlink(m.Link, p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
