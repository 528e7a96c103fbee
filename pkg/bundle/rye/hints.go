package rye

import (
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// addHints says of each finding without a hint what repairs it.
func addHints(fs []*bundle.Finding) []*bundle.Finding {
	for _, f := range fs {
		if f.Hint == "" {
			f.Hint = hint(f)
		}
	}
	return fs
}

const makeAnew = "rig-bundle create --format rye ROOT --id ID --version V --key KEY makes the manifest anew"

func hint(f *bundle.Finding) string {
	at := finding.Path(f.Path)
	switch f.Code {
	case ManifestMissing, ManifestUnsigned, YAMLInvalid, YAMLAlias, YAMLDuplicateKey, ManifestMalformed, FilesEmpty, BundleIDMismatch,
		VersionInvalid, EntrypointMissing, ManifestDigestMismatch, EntryHashMissing, EntryMalformed, ItemTypeMismatch:
		return makeAnew
	case PathUnsafe, PathNotCovered, PathCollision:
		return "rename the file, then " + makeAnew
	case ItemUnsigned, SignatureMalformed, SignatureEncoding, UnsignedProvenance, FormatUnsupported, ContentModified, SignatureInvalid:
		if f.Path == "" || f.Path == headManifest || isManifestPath(f.Path) {
			return makeAnew
		}
		return "rig-bundle sign --format rye " + at + " --key KEY, once you have read the text"
	case SignatureMisplaced:
		return "move the signature line of " + at + " to its place: line 1, or line 2 of a tool after #!/"
	case NewlineChanged:
		return "sed -i 's/\\r$//' " + at + ", and -text for it in .gitattributes"
	case NotUTF8:
		return "iconv -t UTF-8 " + at + ", then sign it anew"
	case DirectiveTagMissing:
		return "put the directive between <directive name=…> and </directive>"
	case FileMissing, HashMismatch:
		return "git restore " + at + ", or list the files as they are: " + makeAnew
	case ExtraFile:
		return "rm " + at + ", or list it: " + makeAnew
	case SymlinkFound:
		return "put a regular file or folder in the place of the link " + at
	case NotRegularFile:
		return "put a regular file in the place of " + at
	case InstallConflict:
		return "mv " + at + " out of the way"
	case UserModified:
		return "mv " + at + " out of the way to keep the change, then install again"
	case LockInvalid, LockNoHashes:
		return "restore " + at + " from a backup, or remove it and the bundle's files by hand"
	case NotInstalled:
		return "rig-bundle list --format rye --root SPACE shows what is there"
	}
	return ""
}

// isManifestPath reports whether a path is that of some bundle's manifest.
func isManifestPath(p string) bool {
	const head, tail = ".ai/bundles/", "/manifest.yaml"
	return len(p) > len(head)+len(tail) && p[:len(head)] == head && p[len(p)-len(tail):] == tail
}
