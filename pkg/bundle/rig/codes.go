package rig

import "github.com/rigward/rigward/pkg/bundle"

// Codes of docs/spec/rigbundle.md#codes that this package adds to those of
// package bundle, besides those of its documents, which a checker makes of the
// kind of document: KIND-yaml, KIND-field-missing, KIND-field-type and
// KIND-field-value, for manifest, agent, rig, configurations, package and
// context-pack.
const (
	SensitiveFile = "sensitive-file"

	ManifestMissing        = "manifest-missing"
	ManifestType           = "manifest-type"
	ManifestEncoding       = "manifest-encoding"
	ManifestDuplicateKey   = "manifest-duplicate-key"
	ManifestSchemaVersion  = "manifest-schema-version"
	ManifestAgentDuplicate = "manifest-agent-duplicate"

	IntegritySection     = "integrity-section"
	IntegrityAlgorithm   = "integrity-algorithm"
	IntegrityKey         = "integrity-key"
	IntegrityHashFormat  = "integrity-hash-format"
	IntegrityMissingFile = "integrity-missing-file"
	IntegrityExtraFile   = "integrity-extra-file"
	IntegrityMismatch    = "integrity-mismatch"

	ContentMissing     = "content-missing"
	AgentMissing       = "agent-missing"
	AgentHash          = "agent-hash"
	AgentYAML          = "agent-yaml"
	AgentName          = "agent-name"
	AgentNameCollision = "agent-name-collision"

	RigMissing    = "rig-missing"
	RigYAML       = "rig-yaml"
	RigLegacy     = "rig-legacy"
	RigFieldValue = "rig-field-value"
	RigServices   = "rig-services"
	RigProfile    = "rig-profile"

	DocMissing    = "doc-missing"
	RefForm       = "ref-form"
	RefMissing    = "ref-missing"
	RefOutside    = "ref-outside"
	ImportCycle   = "import-cycle"
	ImportNested  = "import-nested"
	ImportVersion = "import-version"

	ConfigurationsYAML      = "configurations-yaml"
	ConfigurationUndeclared = "configuration-undeclared"

	PackYAML        = "context-pack-yaml"
	PackFileMissing = "context-pack-file-missing"

	SourceSymlink = "source-symlink"
	SourceType    = "source-type"
	PathCollision = "path-collision"
)

// Codes of the other commands (docs/spec/rigbundle.md#codes-of-other-commands).
const (
	InstallConflict = "install-conflict"
	InstallSymlink  = "install-symlink"
	InstallLegacy   = "install-legacy"
	InstallModified = "install-modified"
	InstallNotFound = "install-not-found"
)

// Notes (docs/spec/rigbundle.md#notes).
const (
	NoteCultureMissing   = "culture-missing"
	NoteStartupMissing   = "startup-missing"
	NoteResourceMissing  = "resource-missing"
	NoteResourceOutside  = "resource-outside"
	NoteAgentUnlisted    = "agent-unlisted"
	NoteSensitiveSuspect = "sensitive-suspect"
	NoteLFSPointer       = "lfs-pointer"
	NoteUnlistedGitkeep  = "unlisted-gitkeep"
	NoteUnknownField     = "unknown-field"
	NoteCreatedAtFormat  = "created-at-format"
	NoteCreatedAtNow     = "created-at-now"
	NoteLegacyV1         = "legacy-v1"
	NoteEmptyDirectory   = "empty-directory"
	NoteIgnoredFile      = bundle.NoteIgnoredFile
	NoteRigVersion       = "rig-version"
	NotePodEmpty         = "pod-empty"
	NoteServicesDropped  = "services-dropped"
	NotePathRef          = "path-ref"
	NoteEOLConverted     = "eol-converted"

	NoteUnknownValue         = "unknown-value"
	NotePolicyMissing        = "policy-missing"
	NoteComposeMissing       = "compose-missing"
	NotePreconditions        = "preconditions-malformed"
	NotePreconditionShell    = "precondition-shell"
	NoteConfigurationDiffers = "configuration-differs"
)

// strictNotes are the notes that --strict turns into errors, in the order in
// which they decide the code.
var strictNotes = [...]string{
	NoteCultureMissing, NoteStartupMissing, NoteResourceMissing, NoteResourceOutside, NoteAgentUnlisted,
	NoteSensitiveSuspect, NoteLFSPointer, NoteUnlistedGitkeep, bundle.NoteNotCanonical,
	NoteUnknownValue, RigServices, NotePolicyMissing, NoteComposeMissing, NotePreconditions, NoteConfigurationDiffers,
}

// StrictNotes returns the notes that strict verification turns into errors.
func StrictNotes() []string { return append([]string(nil), strictNotes[:]...) }
