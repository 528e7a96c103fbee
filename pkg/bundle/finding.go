package bundle

import (
	"fmt"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/screen"
)

// A Finding is one fault of a bundle. Code is stable and documented by the
// format (docs/spec/rigbundle.md#codes, docs/spec/agentbundle.md#codes,
// docs/spec/ryebundle.md#codes).
type Finding struct {
	Code    string `json:"code"`
	Message string `json:"message"`          // one sentence, untrusted text quoted
	Path    string `json:"path,omitempty"`   // member or source path, raw bytes
	Field   string `json:"field,omitempty"`  // field of a document, as agents[0].name
	Line    int    `json:"line,omitempty"`   // counted from 1; 0: no place in the file
	Column  int    `json:"column,omitempty"` // in code points, counted from 1
	Hint    string `json:"hint,omitempty"`   // the exact command or line that repairs it
	Key     string `json:"key,omitempty"`    // by which [Options] can except it, "" if they cannot
}

// Error returns the message, so that readers can hand a Finding up as an
// error; [AsFinding] gets it back.
func (f *Finding) Error() string { return f.Message }

// Finding converts to the value that policies and reports use. The rule id is
// "bundle-" and the code, or that of package screen; path is that of the bundle
// file in the repository. The hint says how a policy excepts it.
func (f *Finding) Finding(path string, s finding.Severity) finding.Finding {
	msg := f.Message
	if f.Path != "" {
		msg = finding.QuoteMax(f.Path, 200) + ": " + msg
	}
	rule := "bundle-" + f.Code
	if f.Code == HiddenText || f.Code == Secret {
		rule = f.Code
	}
	hint := f.Hint
	if f.Key != "" {
		hint += screen.Exception(f.Key)
	}
	return finding.Finding{Rule: rule, Severity: s, Path: path, Message: msg, Hint: hint, Key: f.Key}
}

// AsFinding returns the Finding that err is, nil if it is an ordinary error.
func AsFinding(err error) *Finding {
	f, _ := err.(*Finding)
	return f
}

// A Note tells something worth knowing that does not change the verdict.
type Note struct {
	Code   string `json:"code"`
	Path   string `json:"path,omitempty"` // raw bytes
	Field  string `json:"field,omitempty"`
	Line   int    `json:"line,omitempty"`   // counted from 1; 0: no place in the file
	Column int    `json:"column,omitempty"` // in code points, counted from 1
	Detail string `json:"detail,omitempty"`
}

// Faultf returns a Finding. Untrusted text among the arguments must have gone
// through finding.Quote.
func Faultf(code, path, format string, args ...any) *Finding {
	return &Finding{Code: code, Path: path, Message: fmt.Sprintf(format, args...)}
}

// Codes that the core itself gives; the formats add their own.
const (
	ContainerEmpty        = "container-empty"
	ContainerUnknown      = "container-unknown"
	ContainerMismatch     = "container-mismatch"
	ContainerUnsupported  = "container-unsupported"
	ContainerCorrupt      = "container-corrupt"
	ContainerTruncated    = "container-truncated"
	ContainerTrailingData = "container-trailing-data"
	ContainerNoEntries    = "container-no-entries"
	ContainerPaxGlobal    = "container-pax-global"

	LimitTotalSize  = "limit-total-size"
	LimitMemberSize = "limit-member-size"
	LimitEntries    = "limit-entries"
	LimitManifest   = "limit-manifest"
	LimitPath       = "limit-path"
	LimitWindow     = "limit-window"
	LimitRatio      = "limit-ratio"

	MemberType             = "member-type"
	MemberName             = "member-name"
	MemberPath             = "member-path"
	MemberMode             = "member-mode"
	MemberXattr            = "member-xattr"
	MemberDuplicate        = "member-duplicate"
	MemberConflict         = "member-conflict"
	MemberThroughLink      = "member-through-link"
	MemberCaseCollision    = "member-case-collision"
	MemberUnicodeCollision = "member-unicode-collision"

	ChecksumMismatch = "checksum-mismatch"
	ChecksumFormat   = "checksum-format"
	ChecksumName     = "checksum-name"
	ChecksumConflict = "checksum-conflict"
	ChecksumMissing  = "checksum-missing"

	NoteNoChecksum     = "no-checksum"
	NotePaxIgnored     = "pax-ignored"
	NoteModeNormalized = "mode-normalized"
	NoteWindowsName    = "windows-name"
	NoteMacFile        = "mac-file"
	NoteIgnoredFile    = "ignored-file"
	NoteNotCanonical   = "not-canonical"
)
