package agent

// Codes of this format (docs/spec/agentbundle.md#codes). Those of the
// container, its members and their limits are the archive reader's own.
const (
	codeManifestMissing       = "manifest-missing"
	codeManifestType          = "manifest-type"
	codeManifestEncoding      = "manifest-encoding"
	codeManifestJSON          = "manifest-json"
	codeManifestDuplicateKey  = "manifest-duplicate-key"
	codeManifestBundleVersion = "manifest-bundle-version"
	codeManifestFieldMissing  = "manifest-field-missing"
	codeManifestFieldType     = "manifest-field-type"
	codeManifestFieldValue    = "manifest-field-value"
	codeManifestEnvDenied     = "manifest-env-denied"

	codeEntryPath          = "entry-point-path"
	codeEntryMissing       = "entry-point-missing"
	codeEntryType          = "entry-point-type"
	codeEntryNotExecutable = "entry-point-not-executable"
	codeEntryMode          = "entry-point-mode"
	codeEntryFormat        = "entry-point-format"
	codeEntryArch          = "entry-point-arch"

	codeNamingMismatch = "naming-mismatch"
	codeCompatPlatform = "compat-platform"
	codeCompatArch     = "compat-arch"
	codeCompatLibc     = "compat-libc"
	codeCompatRuntime  = "compat-runtime"

	codeRefSyntax    = "ref-syntax"
	codeRefScheme    = "ref-scheme"
	codeRefDigest    = "ref-digest"
	RefNotFound      = "ref-not-found"
	codeRefAmbiguous = "ref-ambiguous"
)

// Notes (docs/spec/agentbundle.md#notes): they never change the verdict.
const (
	noteUnknownField       = "unknown-field"
	noteRuntimeUnknown     = "runtime-version-unknown"
	NoteRuntimeUnchecked   = "runtime-unchecked"
	noteDanglingLink       = "dangling-link"
	noteNameNotRecommended = "name-not-recommended"
	noteBaseNotPinned      = "base-not-pinned"
)
