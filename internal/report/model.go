package report

// A Thread is what the judged range brings to one thread: the turns that it
// adds, and the older ones that they answer or name.
type Thread struct {
	ID     string `json:"thread"`           // the thread's directory name
	Turns  []Turn `json:"turns"`            // in the order of history
	Cut    int    `json:"cut,omitempty"`    // turns left out, the newest of the range
	Untold int    `json:"untold,omitempty"` // diverging pairs left out of Diverges
}

// A Turn is one envelope of a Thread. All texts are as written by its author.
type Turn struct {
	Path     string   `json:"path"`
	Commit   string   `json:"commit"` // that added it
	Type     string   `json:"type"`
	From     string   `json:"from"`
	To       []string `json:"to"`
	Date     string   `json:"date"`
	TLDR     string   `json:"tldr,omitempty"`
	New      bool     `json:"new"`                // added by the judged range
	Relay    bool     `json:"relay,omitempty"`    // from a "-relay" sender
	Answers  []string `json:"answers,omitempty"`  // paths of the turns that in_reply_to names
	Names    []string `json:"names,omitempty"`    // paths of the turns that references names
	Diverges []string `json:"diverges,omitempty"` // paths of turns written without knowledge of this one
}

// A Bundle is one entry of the policy's "bundles": what the judged tip's
// sources give, beside what is committed and what the base's sources gave.
type Bundle struct {
	Name          string         `json:"name"`
	Format        string         `json:"format"`                   // "rig", "agent" or "rye"
	Source        string         `json:"source"`                   // path in the repository
	Output        string         `json:"output"`                   // path in the repository
	Touched       bool           `json:"touched"`                  // the range changes its source or its output
	Deterministic bool           `json:"deterministic"`            // two rebuilds under different conditions were equal
	Drift         bool           `json:"drift"`                    // the committed bundle is not the rebuilt one
	Committed     string         `json:"committed,omitempty"`      // tar digest of the committed bundle, "sha256:…"
	Rebuilt       string         `json:"rebuilt,omitempty"`        // tar digest of the bundle rebuilt from the tip
	Base          string         `json:"base,omitempty"`           // tar digest of the bundle rebuilt from the base
	FromBase      []MemberChange `json:"from_base,omitempty"`      // from Base to Rebuilt
	FromCommitted []MemberChange `json:"from_committed,omitempty"` // from Committed to Rebuilt
	Truncated     int            `json:"truncated,omitempty"`      // changes left out of the lists
	Capabilities  []Capability   `json:"capabilities,omitempty"`   // what it may do and could not at the base, or not any more
	Image         *Image         `json:"image,omitempty"`          // what it makes on the policy's base; nil if that names none
}

// An Image is what a bundle makes on the base image that the policy names.
type Image struct {
	On      string         `json:"on"`                // the base, as the policy names it
	Why     string         `json:"why,omitempty"`     // no image was composed of the tip's sources
	Before  string         `json:"before,omitempty"`  // digest of the image of the base's sources on the base's image
	Digest  string         `json:"digest,omitempty"`  // digest of that of the tip's, "sha256:…"
	Changes []MemberChange `json:"changes,omitempty"` // from Before to Digest: layers and fields of the config
}

// result is the image's digest, or why there is none.
func (i *Image) result() string {
	if i.Digest == "" {
		return "none: " + i.Why
	}
	return i.Digest
}

// A Capability is what became of one thing that a bundle may do: Old is "" where it is
// new, New where it is gone.
type Capability struct {
	Kind  string `json:"kind"`
	Where string `json:"where"`
	Old   string `json:"old"`
	New   string `json:"new"`
	Gain  bool   `json:"gain"`
}

// A MemberChange is one difference between two bundles.
type MemberChange struct {
	Path string `json:"path"`          // member, or field of the manifest
	Kind string `json:"kind"`          // "added", "removed", "changed", "mode" or "manifest"
	Old  string `json:"old,omitempty"` // digest, mode or value before
	New  string `json:"new,omitempty"`
	Diff string `json:"diff,omitempty"` // unified diff of a text member
}
