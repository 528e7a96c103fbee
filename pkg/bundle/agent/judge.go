package agent

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// DefaultLimits returns the limits of docs/spec/agentbundle.md#limits.
func DefaultLimits() bundle.Limits {
	l := bundle.DefaultLimits()
	l.TotalSize, l.MemberSize, l.Entries, l.Manifest = 4<<30, 1<<30, 200_000, 1<<20
	return l
}

// headBudget bounds what is kept of executable files in one pass; the entry
// of a bundle with more of them is read again.
const headBudget = 16 << 20

// profile is what an agent bundle may hold (docs/spec/agentbundle.md#container, #members).
func profile(o bundle.Options, compressions []bundle.Compression) *bundle.Profile {
	limits := o.LimitsOr(DefaultLimits())
	p := &bundle.Profile{
		Limits:       limits,
		Compressions: compressions,
		Links:        true,
		StrictModes:  true,
		StrictPax:    true,
		LenientPax:   true,
		PaxSize:      true,
		CountPadding: true,
		Manifest:     ManifestName,
		Texts:        bundle.TextsByName,
		Allow:        o.Allow,
		KeepBudget:   headBudget,
	}
	p.Check = func(m *bundle.Member) *bundle.Finding {
		if f := checkName(m.Name); f != nil {
			return f
		}
		switch m.Type {
		case bundle.Symlink:
			return checkSymlinkTarget(m.Name, m.Link, limits.Path)
		case bundle.Hardlink:
			target, f := checkHardlinkTarget(m.Name, m.Link, &limits)
			if f == nil {
				m.Link = target
			}
			return f
		}
		return nil
	}
	p.Keep = func(m *bundle.Member) int64 {
		if m.Mode&0o100 != 0 {
			return HeadSize
		}
		return 0
	}
	return p
}

// checkName is [bundle.CheckName], and refuses .git by its own name, too:
// whoever works in the tree later would run what it configures.
func checkName(name string) *bundle.Finding {
	if f := bundle.CheckName(name); f != nil {
		return f
	}
	for c := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(c, ".git") {
			return bundle.Faultf(bundle.MemberName, name, "member name %s has a component .git", finding.QuoteMax(name, 200))
		}
	}
	return nil
}

// checkTree judges the whole tree, step 4 of docs/spec/agentbundle.md#verify: parents, symlinks,
// hard links, collisions. Only the first step with a fault is listed. The tree
// is complete if there is none.
func checkTree(a *bundle.Archive) (*tree, []*bundle.Finding, []bundle.Note) {
	whole := bundle.CheckTree(a.Names(), portable.SimpleFold)
	if len(whole) > 0 && whole[0].Code != bundle.MemberUnicodeCollision && whole[0].Code != bundle.MemberCaseCollision {
		return nil, whole, nil
	}
	t := newTree()
	for i := range a.Members {
		m := &a.Members[i]
		t.add(m.Name, m.Type, i, m.Link)
	}
	notes, f := t.checkSymlinks(a)
	if f != nil {
		return t, []*bundle.Finding{f}, notes
	}
	if f := t.checkHardlinks(a); f != nil {
		return t, []*bundle.Finding{f}, notes
	}
	return t, whole, notes
}

func (t *tree) checkSymlinks(a *bundle.Archive) (notes []bundle.Note, f *bundle.Finding) {
	for i := range a.Members {
		m := &a.Members[i]
		if m.Type != bundle.Symlink {
			continue
		}
		n := t.find(m.Name)
		w, ok := t.resolve(n)
		if !ok {
			code, why := t.fault(n)
			return notes, bundle.Faultf(code, m.Name, "the symlink %s to %s %s", finding.QuoteMax(m.Name, 200), finding.QuoteMax(m.Link, 200), why)
		}
		if w.lost {
			notes = append(notes, bundle.Note{Code: noteDanglingLink, Path: m.Name, Detail: "the target " + finding.QuoteMax(m.Link, 200) + " does not exist"})
		}
	}
	return notes, nil
}

func (t *tree) checkHardlinks(a *bundle.Archive) *bundle.Finding {
	for i := range a.Members {
		m := &a.Members[i]
		if m.Type != bundle.Hardlink {
			continue
		}
		n := t.find(m.Link)
		switch {
		case n == nil || n.index < 0:
			return bundle.Faultf(codeHardlinkTarget, m.Name, "the hard link %s points to %s, which is not a member", finding.QuoteMax(m.Name, 200), finding.QuoteMax(m.Link, 200))
		case n.kind != bundle.File:
			return bundle.Faultf(codeHardlinkTarget, m.Name, "the hard link %s points to %s, which is a %v, a file is expected", finding.QuoteMax(m.Name, 200), finding.QuoteMax(m.Link, 200), n.kind)
		case n.index > i:
			return bundle.Faultf(codeHardlinkOrder, m.Name, "the hard link %s points to %s, which comes later", finding.QuoteMax(m.Name, 200), finding.QuoteMax(m.Link, 200))
		}
	}
	return nil
}

// file returns the regular member that a member stands for: itself, or the
// target of a hard link.
func (t *tree) file(a *bundle.Archive, n *node) *bundle.Member {
	if n.kind == bundle.Hardlink {
		n = t.find(a.Members[n.index].Link)
	}
	if n.kind != bundle.File {
		return nil
	}
	return &a.Members[n.index]
}

// readManifest judges manifest.json, step 5 of docs/spec/agentbundle.md#verify.
func readManifest(a *bundle.Archive) (*Manifest, []*bundle.Finding, []bundle.Note) {
	m := a.Member(ManifestName)
	if m == nil {
		f := bundle.Faultf(codeManifestMissing, "", "the bundle has no manifest.json at its root")
		for i := range a.Members {
			name := a.Members[i].Name
			if dir, base := path.Split(name); strings.EqualFold(base, ManifestName) && strings.Count(dir, "/") <= 1 {
				f.Message += ", found " + finding.QuoteMax(name, 200)
				f.Hint = "rename it to manifest.json"
				if dir != "" {
					f.Hint = "pack what lies in " + finding.Path(strings.TrimSuffix(dir, "/")) + ", not the directory itself"
				}
				break
			}
		}
		return nil, []*bundle.Finding{f}, nil
	}
	if m.Type != bundle.File {
		return nil, []*bundle.Finding{bundle.Faultf(codeManifestType, ManifestName, "manifest.json is a %v, a file is expected", m.Type)}, nil
	}
	return ParseManifest(a.Kept[ManifestName])
}

// checkEntry judges the entry, step 6 of docs/spec/agentbundle.md#verify, and returns its first bytes. The error is for
// reading.
func checkEntry(ctx context.Context, a *bundle.Archive, t *tree, m *Manifest) ([]byte, *bundle.Finding, error) {
	entry := m.Entry
	if f := checkEntryPath(entry); f != nil {
		return nil, f, nil
	}
	quoted := finding.QuoteMax(entry, 200)
	n := t.root
	for c := range strings.SplitSeq(entry, "/") {
		if n.kind == bundle.Symlink {
			return nil, entryFault(codeEntryPath, entry, "", "entry %s goes through the symlink %s, directories are expected", quoted, finding.QuoteMax(n.path(), 200)), nil
		}
		if n = t.nodes[edge{n, c}]; n == nil {
			return nil, entryFault(codeEntryMissing, entry, missingHint(a, t, entry), "entry %s is not a member of the bundle", quoted), nil
		}
	}
	if n.kind == bundle.Symlink {
		w, _ := t.resolve(n) // checkTree has followed all of them
		if w.lost || w.at.kind != bundle.File && w.at.kind != bundle.Hardlink {
			return nil, entryFault(codeEntryType, entry, "", "entry %s is a symlink to %s, which is not a file", quoted, finding.QuoteMax(n.target, 200)), nil
		}
		n = w.at
	}
	file := t.file(a, n)
	if file == nil {
		return nil, entryFault(codeEntryType, entry, "", "entry %s is a %v, a file is expected", quoted, n.kind), nil
	}
	switch {
	case file.RawMode&0o100 == 0:
		return nil, entryFault(codeEntryNotExecutable, entry, "in the source: chmod 0755 "+finding.Path(file.Name), "entry %s has mode %04o, its owner cannot execute it", quoted, file.RawMode), nil
	case file.RawMode&0o400 == 0:
		return nil, entryFault(codeEntryMode, entry, "in the source: chmod 0755 "+finding.Path(file.Name), "entry %s has mode %04o, its owner cannot read it", quoted, file.RawMode), nil
	}
	head, err := readHead(ctx, a, file)
	if err != nil {
		return nil, nil, err
	}
	return head, checkEntryFormat(entry, head, m.Platform, m.Arch), nil
}

// readHead returns the first HeadSize bytes of a file.
func readHead(ctx context.Context, a *bundle.Archive, file *bundle.Member) ([]byte, error) {
	want := min(file.Size, HeadSize)
	if head := a.Kept[file.Name]; int64(len(head)) >= want {
		return head[:want], nil
	}
	head := make([]byte, want)
	err := a.Walk(ctx, func(m *bundle.Member, r io.Reader) error {
		if m.Name != file.Name {
			return nil
		}
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		return bundle.ErrStop
	})
	return head, err
}

// missingHint helps with the usual reasons why an entry is not there.
func missingHint(a *bundle.Archive, t *tree, entry string) string {
	if command, _, ok := strings.Cut(entry, " "); ok && command != "" && t.find(command) != nil {
		return "entry takes no arguments, name a script that starts the program with them"
	}
	fold := portable.SimpleFold(entry)
	for i := range a.Members {
		if name := a.Members[i].Name; portable.SimpleFold(name) == fold {
			return fmt.Sprintf(`"entry": %s`, finding.QuoteMax(name, 200))
		}
	}
	return ""
}
