package rye

// Codes of docs/spec/ryebundle.md#codes.
const (
	ManifestMissing        = "manifest-missing"
	ManifestUnsigned       = "manifest-unsigned"
	ItemUnsigned           = "item-unsigned"
	SignatureMisplaced     = "signature-misplaced"
	SignatureMalformed     = "signature-malformed"
	SignatureEncoding      = "signature-encoding"
	UnsignedProvenance     = "unsigned-provenance"
	FormatUnsupported      = "format-unsupported"
	NoSignatureFormat      = "no-signature-format"
	NotUTF8                = "not-utf8"
	ContentModified        = "content-modified"
	NewlineChanged         = "newline-changed"
	DirectiveTagMissing    = "directive-tag-missing"
	SignatureInvalid       = "signature-invalid"
	UntrustedKey           = "untrusted-key"
	KeyUnsigned            = "key-unsigned"
	KeyCycle               = "key-cycle"
	KeyMismatch            = "key-mismatch"
	KeySignerUntrusted     = "key-signer-untrusted"
	KeyInvalid             = "key-invalid"
	YAMLInvalid            = "yaml-invalid"
	YAMLAlias              = "yaml-alias"
	YAMLDuplicateKey       = "yaml-duplicate-key"
	ManifestMalformed      = "manifest-malformed"
	FilesEmpty             = "files-empty"
	BundleIDInvalid        = "bundle-id-invalid"
	BundleIDMismatch       = "bundle-id-mismatch"
	VersionInvalid         = "version-invalid"
	EntrypointMissing      = "entrypoint-missing"
	ManifestDigestMismatch = "manifest-digest-mismatch"
	PathUnsafe             = "path-unsafe"
	PathNotCovered         = "path-not-covered"
	PathCollision          = "path-collision"
	LimitExceeded          = "limit-exceeded"
	EntryHashMissing       = "entry-hash-missing"
	EntryMalformed         = "entry-malformed"
	ItemTypeMismatch       = "item-type-mismatch"
	FileMissing            = "file-missing"
	NotRegularFile         = "not-regular-file"
	SymlinkFound           = "symlink"
	HashMismatch           = "hash-mismatch"
	ExtraFile              = "extra-file"
	InstallConflict        = "install-conflict"
	OwnedByOther           = "owned-by-other"
	UserModified           = "user-modified"
	VersionNotNewer        = "version-not-newer"
	NotInstalled           = "not-installed"
	LockInvalid            = "lock-invalid"
	LockNoHashes           = "lock-no-hashes"
	EntryPointUnread       = "entry-point-unread"

	// Notes: they do not change the verdict.
	InlineUnsigned  = "inline-unsigned"
	PartialCoverage = "partial-coverage"
	NoFileList      = "no-file-list"

	DependenciesChanged = "dependencies-changed"
)

// Limits of docs/spec/ryebundle.md#limits.
const (
	MaxManifest    = 4 << 20  // bytes of a manifest
	MaxEntries     = 50_000   // entries of a manifest
	MaxNesting     = 8        // YAML collections within each other
	MaxPath        = 512      // bytes of a path
	MaxFile        = 64 << 20 // bytes of one listed file
	MaxKeyDocument = 64 << 10 // bytes of a key document
)
