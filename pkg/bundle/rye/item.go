package rye

import (
	"path"
	"slices"
	"strings"
)

// Type is the type of an item, which follows from its path
// (docs/spec/ryebundle.md#item-types).
type Type string

// The types of items. An Asset has no signature format and no category.
const (
	Directive Type = "directive"
	Tool      Type = "tool"
	Knowledge Type = "knowledge"
	Config    Type = "config"
	Asset     Type = "asset"
)

// typeFolders maps the second component of a path to the type it stands for.
var typeFolders = map[string]Type{"directives": Directive, "tools": Tool, "knowledge": Knowledge, "config": Config}

// ParseType reads a type as `--type` takes it; ok is false for any other word.
func ParseType(word string) (t Type, ok bool) {
	switch t = Type(word); t {
	case Directive, Tool, Knowledge, Config, Asset:
		return t, true
	}
	return "", false
}

// TypeOf returns the type of the item at a path below a bundle's root, such as
// ".ai/tools/acme/hello.py".
func TypeOf(p string) Type {
	rest, ok := strings.CutPrefix(p, ".ai/")
	if !ok {
		return Asset
	}
	folder, _, ok := strings.Cut(rest, "/")
	if t, known := typeFolders[folder]; ok && known {
		return t
	}
	return Asset
}

// ItemID returns the id of the item at a path: the path below its type's
// folder without the extension, or for an asset the file name without it
// (docs/spec/ryebundle.md#object-hash).
func ItemID(p string) string {
	id := path.Base(p)
	if TypeOf(p) != Asset {
		id = strings.SplitN(p, "/", 3)[2]
	}
	return id[:len(id)-len(extension(id))]
}

// Category returns the folder of an item below its type's folder, "" for items
// directly in it (docs/spec/ryebundle.md#discovery).
func Category(p string) string {
	c := path.Dir(ItemID(p))
	if TypeOf(p) == Asset || c == "." {
		return ""
	}
	return c
}

// extension returns the last dot of a file name and what follows it, as
// written. A leading dot starts no extension, nor does a final one: the rule
// differs from path.Ext.
func extension(name string) string {
	name = path.Base(name)
	i := strings.LastIndexByte(name, '.')
	if i <= 0 || i == len(name)-1 {
		return ""
	}
	return name[i:]
}

// A lineFormat says how a signature line is written in one kind of file.
type lineFormat struct {
	prefix, suffix string
	afterShebang   string // "#!/" or "#!": line 2 if line 1 starts with it; "": always line 1
	head           bool   // HEAD generation: marker ryeos:signed
}

var (
	hashLine     = lineFormat{prefix: "#"}
	headHashLine = lineFormat{prefix: "#", head: true}
	toolLine     = lineFormat{prefix: "#", afterShebang: "#!/"}
	slashLine    = lineFormat{prefix: "//"}
	commentLine  = lineFormat{prefix: "<!--", suffix: " -->"}
)

// formatOf returns the signature format of a type and file name by the table of
// docs/spec/ryebundle.md#item-types.
func formatOf(t Type, name string) (f lineFormat, ok bool) {
	ext := strings.ToLower(extension(name))
	switch t {
	case Directive:
		return commentLine, ext == ".md"
	case Knowledge:
		switch ext {
		case ".md", ".yaml", ".yml":
			return commentLine, true
		}
	case Tool:
		switch ext {
		case ".py", ".yaml", ".yml", ".json", ".sh", ".toml":
			return toolLine, true
		case ".js", ".ts", ".mjs", ".cjs":
			return slashLine, true
		}
	case Config:
		switch ext {
		case ".yaml", ".yml", ".toml":
			return hashLine, true
		}
	}
	return lineFormat{}, false
}

// itemFormat is formatOf for the file at a path below a root, where key
// documents have a format of their own.
func itemFormat(p string) (f lineFormat, ok bool) {
	if isKeyDocument(p) {
		return hashLine, true
	}
	return formatOf(TypeOf(p), p)
}

// headFormatOf returns the signature format of a file of the HEAD generation
// (docs/spec/ryebundle.md#head-generation).
func headFormatOf(name string) (f lineFormat, ok bool) {
	switch strings.ToLower(extension(name)) {
	case ".py":
		return lineFormat{prefix: "#", afterShebang: "#!", head: true}, true
	case ".yaml", ".yml", ".toml", ".json", ".sh":
		return headHashLine, true
	case ".js", ".ts", ".mjs", ".cjs":
		return lineFormat{prefix: "//", head: true}, true
	case ".md":
		return lineFormat{prefix: "<!--", suffix: " -->", head: true}, true
	}
	return lineFormat{}, false
}

// keyFolders are the folders of a root that hold key documents, the newer one
// first (docs/spec/ryebundle.md#trust).
var keyFolders = []string{".ai/config/keys/trusted", ".ai/trusted_keys"}

// isKeyDocument reports whether the file at a path is a key document.
func isKeyDocument(p string) bool {
	dir, name := path.Split(p)
	return slices.Contains(keyFolders, strings.TrimSuffix(dir, "/")) && strings.ToLower(extension(name)) == ".toml"
}

// unsignedNames are files of package managers, which rewrite them: they are
// never signed in place (docs/spec/ryebundle.md#discovery).
func signableName(p string) bool {
	switch path.Base(p) {
	case "package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml":
		return false
	}
	return true
}
