// Package version says which version of rigward a program was built from.
package version

import "runtime/debug"

// String is the module's version as the go command recorded it, "(devel)" for
// a build that has none.
func String() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
