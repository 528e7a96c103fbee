// Package version says which version of rigward a program was built from.
package version

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
)

// release is set by the build of a release, and only there:
//
//	-ldflags "-X …version.release=rigward-release=0.1.0;"
//
// So all its programs have one version, which depends on nothing but what is
// built, and which can be found in the file of a program that is not run.
var release string

const module = "github.com/rigward/rigward"

// none is what a build has that knows no version.
const none = "(devel)"

// String is the version of the release, "v0.1.0", else the module's as the go
// command recorded it, "(devel)" for a build that has none.
func String() string {
	if _, v, ok := strings.Cut(release, "="); ok {
		return "v" + strings.TrimSuffix(v, ";")
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return none
}

// marked is release in a file. The brackets keep this text from being one.
var marked = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`rigward-releas[e]=([0-9][-+.0-9A-Za-z]{0,60});`)
})

// maxProgram is how large a program may be, in bytes.
const maxProgram = 256 << 20

// Of returns what String says in the program that a file is, without running
// it. ok is false for a file that is not a program of this module.
func Of(file string) (v string, ok bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return "", false, err
	}
	info, err := buildinfo.Read(f)
	if err != nil || info.Main.Path != module {
		return "", false, nil
	}
	if st.Size() > maxProgram {
		return "", true, fmt.Errorf("it has more than %d bytes", maxProgram)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, maxProgram))
	if err != nil {
		return "", true, err
	}
	if m := marked().FindSubmatch(data); m != nil {
		return "v" + string(m[1]), true, nil
	}
	if info.Main.Version == "" {
		return none, true, nil
	}
	return info.Main.Version, true, nil
}
