package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// unknownVersion as the version of a runtime fits every version.
const unknownVersion = "unknown"

// A Target is the place where a bundle is to run.
type Target struct {
	Platform, Arch string
	Libc           string // empty off linux
}

// ParseTarget reads platform/arch/libc, without the libc part off linux
// (docs/spec/agentbundle.md#target). The words are those of the manifest.
func ParseTarget(s string) (Target, error) {
	parts := strings.Split(s, "/")
	bad := func() (Target, error) {
		hint := ""
		if len(parts) > 1 && archAliases[parts[1]] != "" {
			hint = fmt.Sprintf(" (%s is called %s here)", parts[1], archAliases[parts[1]])
		}
		return Target{}, fmt.Errorf("target is %s, PLATFORM/ARCH/LIBC as in linux/amd64/glibc or darwin/arm64 is expected%s", finding.QuoteMax(s, 80), hint)
	}
	if len(parts) < 2 || !slices.Contains(platforms, parts[0]) || !slices.Contains(arches, parts[1]) {
		return bad()
	}
	t := Target{Platform: parts[0], Arch: parts[1]}
	if t.Platform != "linux" {
		if len(parts) != 2 {
			return bad()
		}
		return t, nil
	}
	if len(parts) != 3 || !slices.Contains(libcs, parts[2]) {
		return bad()
	}
	t.Libc = parts[2]
	return t, nil
}

// String is the form that ParseTarget reads.
func (t Target) String() string { return t.join("/") }

func (t Target) join(sep string) string {
	s := t.Platform + sep + t.Arch
	if t.Libc != "" {
		s += sep + t.Libc
	}
	return s
}

// ParseRuntime reads TYPE@VERSION, both as runtimes are written in a manifest.
func ParseRuntime(s string) (Runtime, error) {
	kind, version, ok := strings.Cut(s, "@")
	if !ok || !runtimePattern().MatchString(kind) || !runtimePattern().MatchString(version) {
		return Runtime{}, fmt.Errorf("runtime is %s, TYPE@VERSION as in node@20.15.1 is expected", finding.QuoteMax(s, 80))
	}
	return Runtime{Type: kind, Version: version}, nil
}

// String is the form that ParseRuntime reads.
func (r Runtime) String() string { return r.Type + "@" + r.Version }

// CheckTarget reports whether the bundle fits target and, if it is given, the
// runtime there (docs/spec/agentbundle.md#target). The findings are in the
// order platform, arch, libc, runtime.
func (m *Manifest) CheckTarget(target Target, runtime *Runtime) ([]*bundle.Finding, []bundle.Note) {
	var findings []*bundle.Finding
	var notes []bundle.Note
	differs := func(code, what, got, want string) {
		findings = append(findings, &bundle.Finding{Code: code, Path: ManifestName,
			Message: fmt.Sprintf("the bundle is for %s %s, the target has %s", what, quotedKey(got), quotedKey(want))})
	}
	if m.Platform != target.Platform {
		differs(codeCompatPlatform, "platform", m.Platform, target.Platform)
	}
	if m.Arch != target.Arch {
		differs(codeCompatArch, "architecture", m.Arch, target.Arch)
	}
	if m.Libc != target.Libc {
		differs(codeCompatLibc, "libc", cmp.Or(m.Libc, "none"), cmp.Or(target.Libc, "none"))
	}
	switch need := m.Runtime; {
	case need == nil:
	case runtime == nil:
		notes = append(notes, bundle.Note{Code: NoteRuntimeUnchecked, Detail: "the bundle needs " + finding.QuoteMax(need.String(), 129) + ", the target's runtime is not given"})
	case need.Type != runtime.Type:
		differs(codeCompatRuntime, "runtime", need.Type, runtime.Type)
	case !need.Fits(runtime.Version):
		differs(codeCompatRuntime, "runtime", need.String(), runtime.String())
	}
	return findings, notes
}

// Fits reports whether version have of the runtime is one that a bundle which declares r can run with
// (docs/spec/agentbundle.md#target). The version "unknown" fits every other one.
func (r Runtime) Fits(have string) bool {
	if r.Version == unknownVersion { // ParseManifest has noted it
		return true
	}
	a, ok := numericVersion(r.Version)
	b, ok2 := numericVersion(have)
	if !ok || !ok2 {
		return r.Version == have
	}
	major, _, _ := strings.Cut(a, ".")
	return strings.HasPrefix(b, major+".") && bundle.CompareVersions(b, a) >= 0
}

// numericVersion reads up to three dot-separated numbers of any length; a
// leading v is dropped, missing parts are zero, leading zeros do not count.
func numericVersion(s string) (version string, ok bool) {
	v := []string{"0", "0", "0"}
	parts := strings.Split(strings.TrimPrefix(s, "v"), ".")
	if len(parts) > len(v) {
		return "", false
	}
	for i, p := range parts {
		if p == "" || strings.Trim(p, "0123456789") != "" {
			return "", false
		}
		v[i] = cmp.Or(strings.TrimLeft(p, "0"), "0")
	}
	return strings.Join(v, "."), true
}
