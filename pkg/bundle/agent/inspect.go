package agent

import (
	"cmp"
	"slices"

	"github.com/rigward/rigward/pkg/bundle"
)

// An Overview is what inspect shows of a bundle, accepted or not, as far as it
// could be read.
type Overview struct {
	Files     int   // regular members, hard links included
	Dirs      int   // explicit directory members
	Symlinks  int   // symlink members
	Bytes     int64 // content of all regular members
	TarBytes  int64 // decompressed stream
	FileBytes int64 // the file itself
	Largest   []bundle.Member
}

// maxLargest is how many members inspect names.
const maxLargest = 10

// Overview counts and measures.
func (r *Result) Overview() Overview {
	a := r.Archive
	o := Overview{TarBytes: a.TarSize, FileBytes: a.FileSize}
	var files []bundle.Member
	for _, m := range a.Members {
		switch m.Type {
		case bundle.File:
			o.Files++
			o.Bytes += m.Size
			files = append(files, m)
		case bundle.Hardlink:
			o.Files++
		case bundle.Dir:
			o.Dirs++
		case bundle.Symlink:
			o.Symlinks++
		}
	}
	slices.SortFunc(files, func(a, b bundle.Member) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name, b.Name))
	})
	o.Largest = slices.Clone(files[:min(len(files), maxLargest)])
	return o
}

// ManifestJSON is the manifest as it was read, unknown fields included, as
// compact JSON; nil if it is no JSON object.
func (r *Result) ManifestJSON() []byte {
	v, err := parseJSON(r.Archive.Kept[ManifestName])
	if err != nil || v.kind != jsonObject {
		return nil
	}
	return v.append(nil)
}
