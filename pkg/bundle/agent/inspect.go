package agent

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/rigward/rigward/pkg/bundle"
)

// An Overview is what inspect shows of a bundle, accepted or not, as far as it
// could be read.
type Overview struct {
	// ManifestText is the manifest as it was read, unknown fields included, as
	// compact JSON; null if it is no JSON object.
	ManifestText json.RawMessage `json:"manifest"`
	Counts       Counts          `json:"counts"`
	FileBytes    int64           `json:"file_size"`
	TarBytes     int64           `json:"tar_size"` // decompressed stream
	Largest      []Largest       `json:"largest"`
}

// Counts are the members of a bundle.
type Counts struct {
	Files    int   `json:"files"`       // regular members, hard links included
	Dirs     int   `json:"directories"` // explicit ones
	Symlinks int   `json:"symlinks"`
	Bytes    int64 `json:"bytes"` // content of all regular members
}

// Largest is one of the largest members.
type Largest struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// maxLargest is how many members inspect names.
const maxLargest = 10

// Inspect counts and measures what Verify read, and sets Overview.
func (r *Result) Inspect() {
	a := r.Archive
	if a == nil {
		return
	}
	o := &Overview{TarBytes: a.TarSize, FileBytes: a.FileSize, Largest: []Largest{}}
	n := &o.Counts
	var files []bundle.Member
	for _, m := range a.Members {
		switch m.Type {
		case bundle.File:
			n.Files++
			n.Bytes += m.Size
			files = append(files, m)
		case bundle.Hardlink:
			n.Files++
		case bundle.Dir:
			n.Dirs++
		case bundle.Symlink:
			n.Symlinks++
		}
	}
	slices.SortFunc(files, func(a, b bundle.Member) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name, b.Name))
	})
	for _, m := range files[:min(len(files), maxLargest)] {
		o.Largest = append(o.Largest, Largest{bundle.EscapeLine(m.Name), m.Size})
	}
	if v, err := parseJSON(a.Kept[ManifestName]); err == nil && v.kind == jsonObject {
		o.ManifestText = v.append(nil, false)
	}
	r.Overview = o
}
