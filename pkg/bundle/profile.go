package bundle

// A Profile is what one format lets a tar archive hold and what it wants kept
// of it.
type Profile struct {
	Limits Limits

	// Compressions that the format takes.
	Compressions []Compression

	// Links admits symlinks and hard links as members. Without it they are
	// member-type, and so is a link name on a file.
	Links bool

	// StrictModes refuses set-uid, set-gid, sticky and write permission for
	// others (member-mode). Without it they are dropped with a note.
	StrictModes bool

	// StrictPax refuses a GNU long name beside a pax name.
	StrictPax bool

	// LenientPax takes a pax hdrcharset with a note, and leaves a NUL in a pax
	// value to those who judge the value. Without it both are corrupt.
	LenientPax bool

	// PaxSize lets a pax size replace that of the header. Without it the two
	// must be equal.
	PaxSize bool

	// CountPadding makes Limits.TotalSize count padding blocks too.
	CountPadding bool

	// Manifest is the name of the member that Limits.Manifest bounds. It is
	// always kept.
	Manifest string

	// Check, if set, judges a member at its header after all other rules.
	Check func(m *Member) *Finding

	// Keep, if set, says how many of a file's first bytes to keep in
	// [Archive.Kept]; a file shorter than that is kept whole. All kept bytes
	// but the manifest's together are bounded by KeepBudget.
	Keep       func(m *Member) int64
	KeepBudget int64

	// Layout, if set, is the canonical form: a stream that [WriteArchive]
	// would not write for the same members makes [Archive.NotCanonical].
	Layout Layout

	// Texts says which files are judged as texts; see [Archive.Screened].
	Texts Texts

	// Allow has the keys of findings about texts that are none.
	Allow []string

	// Spool, if set, keeps the stream for a second reading.
	Spool *Spool
}
