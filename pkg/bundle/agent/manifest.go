package agent

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// ManifestName is the path of the manifest below the bundle root.
const ManifestName = "manifest.json"

// A Manifest is what manifest.json says (docs/spec/agentbundle.md#manifest).
type Manifest struct {
	Name     string
	Version  string // SemVer 2.0.0
	Entry    string // path of the entry below the root
	Platform string // linux or darwin
	Arch     string // as in GOARCH
	Libc     string // glibc or musl on linux, else empty

	Engine       *Engine  // nil if absent
	Runtime      *Runtime // nil if the base image needs none
	Env          map[string]string
	Capabilities map[string]bool
}

// Engine says what the agent is built on. Absent strings are empty.
type Engine struct{ Name, SDK, SDKVersion string }

// Runtime is what the base image has to bring.
type Runtime struct{ Type, Version string }

// Target is where the bundle runs: platform/arch/libc, without libc off linux.
func (m *Manifest) Target() string {
	return Target{m.Platform, m.Arch, m.Libc}.String()
}

var (
	platforms = []string{"linux", "darwin"}
	arches    = []string{"amd64", "arm64", "arm", "386", "ppc64le", "riscv64", "s390x"}
	libcs     = []string{"glibc", "musl"}

	// archAliases are names of other tools for what arches holds.
	archAliases = map[string]string{
		"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64", "armv8": "arm64", "arm64v8": "arm64",
		"armv6l": "arm", "armv7": "arm", "armv7l": "arm", "armhf": "arm", "i386": "386", "i486": "386", "i586": "386", "i686": "386",
		"x86": "386", "ia32": "386", "ppc64el": "ppc64le", "powerpc64le": "ppc64le", "riscv": "riscv64",
	}

	namePattern    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[a-z0-9]+([._-][a-z0-9]+)*\z`) })
	envPattern     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[A-Z_][A-Z0-9_]*\z`) })
	runtimePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[!-~]{1,64}\z`) })

	deniedEnv         = []string{"PATH", "HOME", "IFS", "ENV", "BASH_ENV", "GLIBC_TUNABLES"}
	deniedEnvPrefixes = []string{"LD_", "DYLD_", "HOLON_"}
)

const (
	maxNameBytes = 100 // of name and of version
	maxFindings  = 100 // in one manifest; more would help nobody
)

// ParseManifest reads manifest.json and judges it by docs/spec/agentbundle.md#manifest.
// Findings come in the order of docs/spec/agentbundle.md#verify, step 5, the first being
// the verdict; the manifest is nil if there is any. Notes name unknown fields.
// The size of data is the caller's to limit.
func ParseManifest(data []byte) (*Manifest, []*bundle.Finding, []bundle.Note) {
	root, err := parseJSON(data)
	if err != nil {
		return nil, []*bundle.Finding{jsonFinding(data, err)}, nil
	}
	if root.kind != jsonObject {
		return nil, []*bundle.Finding{{Code: codeManifestType, Path: ManifestName, Line: 1, Column: 1,
			Message: fmt.Sprintf("manifest.json holds %s, an object is expected", root.kind)}}, nil
	}
	j := &manifestJudge{data: data, root: root, m: &Manifest{}}
	j.judge()
	if len(j.findings) > 0 {
		return nil, j.findings, j.notes
	}
	return j.m, nil, j.notes
}

func jsonFinding(data []byte, err *jsonError) *bundle.Finding {
	line, col := yamlprofile.Place(data, err.offset)
	f := &bundle.Finding{Code: err.code, Path: ManifestName, Line: line, Column: col}
	switch err.code {
	case codeManifestDuplicateKey:
		f.Message = fmt.Sprintf("the key %s occurs twice in one object", finding.QuoteMax(err.message, 80))
		f.Hint = "keep one of the two"
	case codeManifestEncoding:
		f.Message = "manifest.json holds " + err.message + ", UTF-8 text is expected"
	default:
		f.Message = "manifest.json is not JSON: " + err.message
	}
	return f
}

// manifestJudge collects what is wrong with the fields of one manifest.
type manifestJudge struct {
	data     []byte
	root     *jsonValue
	m        *Manifest
	findings []*bundle.Finding
	notes    []bundle.Note
}

func (j *manifestJudge) add(code, field string, at *jsonValue, hint, format string, args ...any) {
	if len(j.findings) == maxFindings {
		return
	}
	f := &bundle.Finding{Code: code, Path: ManifestName, Field: field, Message: fmt.Sprintf(format, args...), Hint: hint}
	if at != nil {
		f.Line, f.Column = yamlprofile.Place(j.data, at.offset)
	}
	j.findings = append(j.findings, f)
}

func (j *manifestJudge) missing(field, expected string) {
	j.add(codeManifestFieldMissing, field, nil, "", "%s is missing, %s is expected", field, expected)
}

// typed says whether v has the kind that the field must have.
func (j *manifestJudge) typed(v *jsonValue, field string, want jsonKind) bool {
	if v.kind != want {
		j.add(codeManifestFieldType, field, v, "", "%s is %s, %s is expected", field, v.kind, want)
	}
	return v.kind == want
}

func (j *manifestJudge) value(v *jsonValue, field, expected, hint string) {
	j.add(codeManifestFieldValue, field, v, hint, "%s is %s, %s is expected", field, finding.QuoteMax(v.text, 80), expected)
}

// required returns a string of the top level that must be there.
func (j *manifestJudge) required(field, expected string) *jsonValue {
	v := j.root.get(field)
	if v == nil {
		j.missing(field, expected)
		return nil
	}
	if !j.typed(v, field, jsonString) {
		return nil
	}
	return v
}

func (j *manifestJudge) judge() {
	const one = `the string "1"`
	if v := j.required("bundleVersion", one); v != nil && v.text != "1" {
		j.add(codeManifestBundleVersion, "bundleVersion", v, "", "bundleVersion is %s, %s is expected", finding.QuoteMax(v.text, 80), one)
	}
	const name = "a name like my-agent of at most 100 bytes in lower-case letters, digits and single . _ -"
	if v := j.required("name", name); v != nil {
		if j.m.Name = v.text; len(v.text) > maxNameBytes || !namePattern().MatchString(v.text) {
			j.value(v, "name", name, "")
		}
	}
	const version = "a version like 1.2.3 (SemVer 2.0.0) of at most 100 bytes"
	if v := j.required("version", version); v != nil {
		if j.m.Version = v.text; len(v.text) > maxNameBytes || !bundle.IsVersion(v.text) {
			hint := ""
			if rest, ok := strings.CutPrefix(v.text, "v"); ok && bundle.IsVersion(rest) {
				hint = fmt.Sprintf(`"version": "%s"`, rest)
			}
			j.value(v, "version", version, hint)
		}
	}
	const entry = "the path of a program in the bundle, like bin/agent,"
	if v := j.required("entry", entry); v != nil {
		if j.m.Entry = v.text; v.text == "" || strings.ContainsFunc(v.text, unicode.IsControl) {
			j.value(v, "entry", entry, "")
		}
	}
	platform := strings.Join(platforms, " or ")
	if v := j.required("platform", platform); v != nil {
		if j.m.Platform = v.text; !slices.Contains(platforms, v.text) {
			j.value(v, "platform", platform, "")
		}
	}
	arch := "one of " + strings.Join(arches, " ")
	if v := j.required("arch", arch); v != nil {
		if j.m.Arch = v.text; !slices.Contains(arches, v.text) {
			hint := ""
			if a := archAliases[strings.ToLower(v.text)]; a != "" {
				hint = fmt.Sprintf(`"arch": "%s"`, a)
			} else if a := strings.ToLower(v.text); slices.Contains(arches, a) {
				hint = fmt.Sprintf(`"arch": "%s"`, a)
			}
			j.value(v, "arch", arch, hint)
		}
	}
	j.libc()
	j.engine()
	j.runtime()
	j.env()
	j.capabilities()
	j.unknown(j.root, "", "bundleVersion", "name", "version", "entry", "platform", "arch", "libc", "engine", "runtime", "env", "capabilities")
}

func (j *manifestJudge) libc() {
	v := j.root.get("libc")
	expected := strings.Join(libcs, " or ")
	switch {
	case v == nil:
		if j.m.Platform == "linux" {
			j.missing("libc", expected)
		}
	case !j.typed(v, "libc", jsonString):
	case j.m.Platform == "linux":
		if j.m.Libc = v.text; !slices.Contains(libcs, v.text) {
			j.value(v, "libc", expected, "")
		}
	case slices.Contains(platforms, j.m.Platform):
		j.value(v, "libc", "no libc off linux", "remove the field libc")
	}
}

func (j *manifestJudge) engine() {
	v := j.root.get("engine")
	if v == nil || !j.typed(v, "engine", jsonObject) {
		return
	}
	j.m.Engine = &Engine{}
	for _, f := range []struct {
		key string
		to  *string
	}{{"name", &j.m.Engine.Name}, {"sdk", &j.m.Engine.SDK}, {"sdkVersion", &j.m.Engine.SDKVersion}} {
		if s := v.get(f.key); s != nil && j.typed(s, "engine."+f.key, jsonString) {
			*f.to = s.text
		}
	}
	j.unknown(v, "engine.", "name", "sdk", "sdkVersion")
}

func (j *manifestJudge) runtime() {
	v := j.root.get("runtime")
	if v == nil || !j.typed(v, "runtime", jsonObject) {
		return
	}
	const expected = "1 to 64 printable ASCII characters without blanks"
	j.m.Runtime = &Runtime{}
	parts := []struct {
		key string
		to  *string
	}{{"type", &j.m.Runtime.Type}, {"version", &j.m.Runtime.Version}}
	for _, p := range parts {
		if v.get(p.key) == nil {
			j.missing("runtime."+p.key, expected)
		}
	}
	for _, p := range parts {
		if s := v.get(p.key); s != nil && j.typed(s, "runtime."+p.key, jsonString) {
			*p.to = s.text
		}
	}
	for _, p := range parts {
		if s := v.get(p.key); s != nil && s.kind == jsonString && !runtimePattern().MatchString(s.text) {
			j.value(s, "runtime."+p.key, expected, "")
		}
	}
	if j.m.Runtime.Version == unknownVersion {
		j.notes = append(j.notes, bundle.Note{Code: noteRuntimeUnknown, Detail: "the bundle does not say which version of " + finding.QuoteMax(j.m.Runtime.Type, 64) + " it needs"})
	}
	j.unknown(v, "runtime.", "type", "version")
}

func (j *manifestJudge) env() {
	v := j.root.get("env")
	if v == nil || !j.typed(v, "env", jsonObject) {
		return
	}
	j.m.Env = make(map[string]string, len(v.fields))
	for _, f := range v.fields {
		if j.typed(f.value, "env."+quotedKey(f.key), jsonString) {
			j.m.Env[f.key] = f.value.text
		}
	}
	for _, f := range v.fields {
		if !envPattern().MatchString(f.key) {
			j.add(codeManifestFieldValue, "env."+quotedKey(f.key), f.value, "", "env has the key %s, capital letters, digits and _ are expected, no digit first", finding.QuoteMax(f.key, 80))
		}
		if f.value.kind == jsonString && strings.ContainsFunc(f.value.text, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
			j.value(f.value, "env."+quotedKey(f.key), "text without control characters other than tab", "")
		}
	}
	for _, f := range v.fields {
		if isDeniedEnv(f.key) {
			j.add(codeManifestEnvDenied, "env."+quotedKey(f.key), f.value, "remove it from env", "env sets %s, which belongs to the loader, the shell or the runner", finding.QuoteMax(f.key, 80))
		}
	}
}

func (j *manifestJudge) capabilities() {
	v := j.root.get("capabilities")
	if v == nil || !j.typed(v, "capabilities", jsonObject) {
		return
	}
	j.m.Capabilities = make(map[string]bool, len(v.fields))
	for _, f := range v.fields {
		if j.typed(f.value, "capabilities."+quotedKey(f.key), jsonBool) {
			j.m.Capabilities[f.key] = f.value.bool
		}
	}
}

func (j *manifestJudge) unknown(v *jsonValue, prefix string, known ...string) {
	n := 0
	for _, f := range v.fields {
		if slices.Contains(known, f.key) {
			continue
		}
		if n++; n < bundle.MaxTold {
			j.notes = append(j.notes, bundle.Note{Code: noteUnknownField, Detail: prefix + quotedKey(f.key)})
		}
	}
	if n -= bundle.MaxTold - 1; n > 0 {
		j.notes = append(j.notes, bundle.Note{Code: noteUnknownField, Detail: fmt.Sprintf("%d more", n)})
	}
}

// quotedKey is a key as it is if it is plain, else quoted.
func quotedKey(key string) string {
	if len(key) <= 80 {
		return finding.Path(key)
	}
	return finding.QuoteMax(key, 80)
}

func isDeniedEnv(key string) bool {
	return slices.Contains(deniedEnv, key) || slices.ContainsFunc(deniedEnvPrefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// EnvKeys returns the keys of Env in byte order.
func (m *Manifest) EnvKeys() []string { return slices.Sorted(maps.Keys(m.Env)) }
