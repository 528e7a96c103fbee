// Package version says which version of rigward a program was built from.
package version

import "runtime/debug"

// release is set by the build of a release, -ldflags "-X …version.release=0.1.0":
// all its programs have one version, and it depends on nothing but what is built.
var release string

// String is the version of the release, "v0.1.0", else the module's as the go
// command recorded it, "(devel)" for a build that has none.
func String() string {
	if release != "" {
		return "v" + release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
