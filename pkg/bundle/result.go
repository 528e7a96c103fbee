package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
)

// Codes of a Result that are no faults of a bundle.
const (
	OK             = "ok"
	ContentDiffers = "content-differs" // diff: the contents are not the same
	TarDiffers     = "tar-differs"     // rebuild: another identity
)

// A Result is what a verb of any format tells of a bundle. The types with more
// to tell embed it, so that every verb has the same keys in JSON and its own
// ones after them; keys that are absent are unknown.
type Result struct {
	Schema     string     `json:"schema_version"`
	Command    string     `json:"command"`
	Code       string     `json:"code"` // OK, that of the first finding, or what a comparison came to
	Message    string     `json:"message"`
	Findings   []*Finding `json:"findings"`
	Notes      []Note     `json:"notes"`
	Codes      []string   `json:"codes"` // sorted set of the codes of findings and notes, see Finish
	File       string     `json:"file,omitempty"`
	FileDigest Digest     `json:"file_digest,omitzero"`
	TarDigest  Digest     `json:"tar_digest,omitzero"` // identity of an archive
	Name       string     `json:"name,omitempty"`      // of the manifest, as far as it could be read
	Version    string     `json:"version,omitempty"`
	// More counts what is not told, because MaxTold of its kind are.
	More More `json:"more,omitzero"`
	// Capabilities are what Diff found that became of what a bundle may do.
	Capabilities []CapabilityChange `json:"capabilities,omitempty"`

	// Identity is what Digest and Rebuild compare: the digest of the tar stream,
	// or that of the manifest for a format without archives.
	Identity Digest `json:"-"`
	// Archive is what was read of a file, nil if there is none.
	Archive *Archive `json:"-"`
	// Recovered tells that an interrupted run was undone first.
	Recovered bool `json:"-"`
	// Changes are those that Diff and Rebuild found.
	Changes []Change `json:"-"`
	// Whole is the value that embeds this one, set by Base.
	Whole any `json:"-"`

	leftFindings, leftNotes map[string]bool // codes of what is left out
}

// MaxTold is how many findings, and how many notes, a result holds: a bundle is
// anybody's, and can have one for every few of its bytes.
const MaxTold = 1000

// More counts findings and notes beyond those that are told.
type More struct {
	Findings int `json:"findings,omitempty"`
	Notes    int `json:"notes,omitempty"`
	Missing  int `json:"files_missing,omitempty"`  // of a Rye bundle
	Tampered int `json:"files_tampered,omitempty"` // of a Rye bundle
	Extra    int `json:"files_extra,omitempty"`    // of a Rye bundle
}

// NewResult returns an accepted result without content for a verb.
func NewResult(command string) Result {
	return Result{Schema: "1.0", Command: command, Code: OK, Message: "ok", Findings: []*Finding{}, Notes: []Note{}, Codes: []string{}}
}

// Base returns the Result that a value embeds, and links the two: what the
// verbs of a Format return.
func Base[T interface{ base() *Result }](r T, err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	b := r.base()
	b.Whole = r
	return b, nil
}

func (r *Result) base() *Result { return r }

// OK reports whether nothing was found.
func (r *Result) OK() bool { return r.Code == OK }

// Fail adds findings, of which nil is none, and counts those beyond MaxTold. The
// first one of all decides code and message.
func (r *Result) Fail(faults ...*Finding) {
	for _, f := range faults {
		if f == nil {
			continue
		}
		if len(r.Findings) >= MaxTold {
			r.More.Findings++
			left(&r.leftFindings, f.Code)
			continue
		}
		if r.Findings = append(r.Findings, f); r.Code == OK {
			r.Code, r.Message = f.Code, f.Message
		}
	}
}

// Tell adds notes, and counts those beyond MaxTold.
func (r *Result) Tell(notes ...Note) {
	for _, n := range notes {
		if len(r.Notes) >= MaxTold {
			r.More.Notes++
			left(&r.leftNotes, n.Code)
			continue
		}
		r.Notes = append(r.Notes, n)
	}
}

// Note adds a note.
func (r *Result) Note(code, path, detail string) {
	r.Tell(Note{Code: code, Path: path, Detail: detail})
}

// Unsay takes all notes back.
func (r *Result) Unsay() { r.Notes, r.More.Notes, r.leftNotes = []Note{}, 0, nil }

// TellAs adds the notes of another result, and what that one left out of them.
func (r *Result) TellAs(from *Result) {
	r.Tell(from.Notes...)
	r.More.Notes += from.More.Notes
	for code := range from.leftNotes {
		left(&r.leftNotes, code)
	}
}

// Left counts n findings and notes of a code that a format has not kept itself, after
// MaxTold of that code.
func (r *Result) Left(code string, findings, notes int) {
	if r.More.Findings += findings; findings > 0 {
		left(&r.leftFindings, code)
	}
	if r.More.Notes += notes; notes > 0 {
		left(&r.leftNotes, code)
	}
}

func left(codes *map[string]bool, code string) {
	if *codes == nil {
		*codes = map[string]bool{}
	}
	(*codes)[code] = true
}

// Differs sets code and message of a comparison that found differences.
func (r *Result) Differs(code, format string, args ...any) {
	r.Code, r.Message = code, fmt.Sprintf(format, args...)
}

// Finish sets Codes.
func (r *Result) Finish() {
	r.Codes = make([]string, 0, len(r.Findings)+len(r.Notes))
	for _, f := range r.Findings {
		r.Codes = append(r.Codes, f.Code)
	}
	for _, n := range r.Notes {
		r.Codes = append(r.Codes, n.Code)
	}
	for _, left := range []map[string]bool{r.leftFindings, r.leftNotes} {
		for code := range left {
			r.Codes = append(r.Codes, code)
		}
	}
	slices.Sort(r.Codes)
	r.Codes = slices.Compact(r.Codes)
}

// JSONText is a text in its JSON form, as it stands in manifests and lock files:
// control and bidi characters are escapes, and all else is as it is.
func JSONText(s string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // of a string: there is no error
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if Printable(string(out)) {
		return out
	}
	b = bytes.Buffer{}
	for _, r := range string(out) {
		if controlRune(r) || bidiRune(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// MarshalText is String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalJSON escapes what a terminal would obey in the path.
func (f Finding) MarshalJSON() ([]byte, error) {
	type plain Finding
	f.Path = EscapeLine(f.Path)
	return finding.JSON(plain(f))
}

// MarshalJSON escapes what a terminal would obey in the path.
func (n Note) MarshalJSON() ([]byte, error) {
	type plain Note
	n.Path = EscapeLine(n.Path)
	return finding.JSON(plain(n))
}
