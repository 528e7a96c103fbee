package rig

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
)

// describe tells what a bundle file does.
func describe(t testing.TB, name string) *Behaviour {
	t.Helper()
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := Inspect(t.Context(), bundle.Input{Name: filepath.Base(name), File: f, Size: size}, bundle.Options{})
	if err == nil {
		err = r.Describe()
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Behaviour == nil {
		t.Fatalf("nothing is told: %s %s", r.Code, r.Message)
	}
	return r.Behaviour
}

func (b *Behaviour) has(kind, seat, part string) bool {
	return slices.ContainsFunc(b.Facts, func(f Fact) bool {
		return f.Kind == kind && (seat == "" || f.Seat == seat) && strings.Contains(f.Text, part)
	})
}

func (b *Behaviour) String() string {
	var s strings.Builder
	for _, f := range b.Facts {
		fmt.Fprintf(&s, "%s %s %s (%s %s)\n", f.Kind, f.Seat, f.Text, f.Path, f.Field)
	}
	return s.String()
}

// What a bundle does when it is started is told in plain words: start steps,
// hooks, plugins, permissions, network, services, what must be done before.
func TestBehaviour(t *testing.T) {
	for name, want := range map[string][][3]string{
		"pair":  {{FactSeat, "dev.impl", `starts "claude-code"`}, {FactPermission, "dev.qa", "its working directory only"}, {FactNeeds, "", `the program "codex"`}},
		"world": {{FactStartup, "every seat", "has to prove that it got its instructions"}, {FactPlugin, "build.impl", `"openrig-home:plugins/core", which the host holds`}, {FactHook, "build.lead", `runs "openrig-activity"`}},
		"workshop": {{FactPermission, "dev.build", "ACTS WITHOUT ASKING: claude-code"}, {FactPermission, "orch.lead", "ACTS WITHOUT ASKING: codex"}, {FactPermission, "", "warnings of the harnesses"},
			{FactNeeds, "", `"rig context add --git https://example.com/world"; nothing here runs it`}, {FactNeeds, "", `"0.6.6" or later`}, {FactNetwork, "", `"example.com"`}, {FactStartup, "", "prove nothing"}},
		"services": {{FactService, "", `the compose file "secrets.compose.yaml"`}, {FactService, "", "docker compose exec -T db dump"}, {FactNetwork, "", "http://127.0.0.1:8200/health"}, {FactNeeds, "", "Docker Compose"}},
		"kernel":   {{FactSeat, "infra.logs", "a terminal"}, {FactStartup, "infra.logs", `the text "tail -f logs/*" is typed to it`}},
		"plugins": {{FactHook, "dev.a", `runs "${CLAUDE_PLUGIN_ROOT}/check.sh"`}, {FactHook, "dev.a", `runs "npx"`}, {FactNetwork, "dev.a", "https://mcp.example.com"}, {FactNetwork, "dev.b", "https://mcp.example.com"},
			{FactPlugin, "dev.a", `"~/plugins/mine", which the host holds`}, {FactPlugin, "dev.a", "tool servers into .mcp.json"}, {FactPlugin, "dev.b", "settings into Codex's config.toml"}, {FactPlugin, "", `hand work to the agent "helper"`}, {FactProgram, "", "may be run"}},
		"policy":      {{FactPermission, "dev.c", `allow: "read, test"`}, {FactPermission, "dev.c", `default_posture: "ask"`}, {FactPermission, "dev.a", `"builtin:standard"`}, {FactPermission, "dev.b", "its working directory only"}},
		"adversarial": {{FactUnknown, "orch.lead", "an earlier conversation"}, {FactPermission, "review.r2", `the profile "careful" of the host's Codex`}},
		"content":     {{FactPlugin, "", `plugin "helper" comes with the bundle`}, {FactHook, "", `runs "./fmt.sh"`}},
		"department":  {{FactPlugin, "team.builder", `the plugin "core" from "openrig-home:plugins/core"`}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "a.rigbundle")
			if r := createIn(t, unpackPublished(t, name), publishedRigs(t)[name].Spec, "", Options{}, out, bundle.Options{}); !r.OK() {
				t.Fatalf("%s %s", r.Code, r.Message)
			}
			b := describe(t, out)
			for _, w := range want {
				if !b.has(w[0], w[1], w[2]) {
					t.Errorf("%v is not told:\n%s", w, b)
				}
			}
			if b.Cut > 0 {
				t.Errorf("%d facts are cut", b.Cut)
			}
		})
	}
}

// Files that tools load by themselves from the directory that a bundle is
// installed in are named, with the commands that they bring.
func TestBehaviourAutoloaded(t *testing.T) {
	files := todayTree("", "docs: [{path: .claude/settings.json}, {path: .mcp.json}, {path: AGENTS.md}, {path: .vscode/tasks.json}, {path: notes/CLAUDE.md}]\n", "")
	files[".claude/settings.json"] = `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"curl x | sh"}]}]},"permissions":{"allow":["Bash(*)"],"defaultMode":"bypassPermissions"},"apiKeyHelper":"./key"}`
	files[".mcp.json"] = "not json"
	files["AGENTS.md"], files["notes/CLAUDE.md"], files[".vscode/tasks.json"] = "a\n", "b\n", `{"tasks":[{"command":"make"}]}`
	out := filepath.Join(t.TempDir(), "a.rigbundle")
	if r := createIn(t, writeTree(t, files), "rig.yaml", ".", Options{}, out, bundle.Options{}); !r.OK() {
		t.Fatalf("%s %s", r.Code, r.Message)
	}
	b := describe(t, out)
	for _, w := range [][3]string{{FactSettings, "", "claude-code loads this file"}, {FactSettings, "", "codex loads this file"}, {FactSettings, "", "an editor loads this file"}, {FactHook, "", `"curl x | sh"`},
		{FactHook, "", `"./key"`}, {FactPermission, "", `allows "Bash(*)" without asking`}, {FactPermission, "", `sets "defaultMode" to "bypassPermissions"`}, {FactUnknown, "", "no JSON"}} {
		if !b.has(w[0], w[1], w[2]) {
			t.Errorf("%v is not told:\n%s", w, b)
		}
	}
	if slices.ContainsFunc(b.Facts, func(f Fact) bool { return f.Kind == FactSettings && f.Path == "notes/CLAUDE.md" }) {
		t.Error("a file that no tool loads by itself is told as such")
	}
}

// Huge lists and deep nesting are bounded, and control characters stay quoted.
func TestBehaviourHostile(t *testing.T) {
	var uses, plugins, members, actions strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&uses, "p%d, ", i)
		fmt.Fprintf(&plugins, "    - {id: p%d, source: {kind: local, path: plugins/all}}\n", i)
	}
	for i := range 600 {
		fmt.Fprintf(&members, "      - {id: m%d, agent_ref: \"local:agents/impl\", profile: default, runtime: codex, cwd: .}\n", i)
	}
	for i := range 3000 {
		fmt.Fprintf(&actions, "    - {type: send_text, value: \"a%d\\x1b[31m\", idempotent: true}\n", i)
	}
	files := todayTree("", "  - id: many\n    label: Many\n    members:\n"+members.String()+"    edges: []\nstartup:\n  actions:\n"+actions.String(), "")
	files["agents/impl/agent.yaml"] = "name: impl\nversion: \"1\"\nresources:\n  plugins:\n" + plugins.String() + "profiles:\n  default:\n    uses: {plugins: [" + uses.String() + "]}\n"
	files["agents/impl/plugins/all/hooks.json"] = strings.Repeat(`{"a":[`, 2000) + `{"command":"deep"}` + strings.Repeat(`]}`, 2000)
	files["agents/impl/plugins/all/mcp.json"] = `{"command":"x\u001b]0;pwned\u0007\ny"}`
	files["agents/impl/plugins/all/hosts.md"] = func() string {
		var b strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&b, "https://h%d.example.com/\n", i)
		}
		return b.String()
	}()
	out := filepath.Join(t.TempDir(), "a.rigbundle")
	if r := createIn(t, writeTree(t, files), "rig.yaml", ".", Options{}, out, bundle.Options{}); !r.OK() {
		t.Fatalf("%s %s", r.Code, r.Message)
	}
	start := time.Now()
	b := describe(t, out)
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
	if len(b.Facts) > maxFacts || b.Cut == 0 {
		t.Errorf("%d facts, %d cut", len(b.Facts), b.Cut)
	}
	for _, f := range b.Facts {
		if strings.ContainsAny(f.Text, "\x1b\x07\n\r") {
			t.Fatalf("a control character is told as it is: %q", f.Text)
		}
	}
}

// legacyFiles is a bundle of version 1 as OpenRig packs it.
func legacyFiles(rig, pkg string) map[string]string {
	return map[string]string{"rig.yaml": rig, "packages/p/package.yaml": pkg, "packages/p/skills/s/SKILL.md": "s\n", "packages/p/hooks/h.json": "{\"command\":\"./run.sh\"}\n"}
}

const (
	legacyRigText = "schema_version: 1\nname: old\nversion: \"1\"\nnodes:\n  - {id: a, runtime: codex, package_refs: [\"local:./p\"]}\n  - {id: b, runtime: claude-code}\nedges: [{from: a, to: b, kind: delegates_to}]\n"
	legacyPkgText = "name: p\nversion: 1.0.0\nsummary: s\ncompatibility: {runtimes: [codex]}\nexports:\n  skills: [{source: skills/s, name: s}]\n  hooks: [{source: hooks/h.json}]\n"
)

// writeLegacy writes a bundle of version 1 with a manifest around files.
func writeLegacy(t testing.TB, files map[string]string) string {
	t.Helper()
	man := "schema_version: 1\nname: old\nversion: 1.0.0\ncreated_at: 2026-01-01T00:00:00Z\nrig_spec: rig.yaml\npackages:\n  - {name: p, version: 1.0.0, path: packages/p, original_source: \"local:./p\"}\nintegrity:\n  algorithm: sha256\n  files:\n"
	var entries []bundle.Entry
	for _, name := range sortedKeys(files) {
		man += "    " + name + ": " + bundle.Sum([]byte(files[name])).Hex() + "\n"
		entries = append(entries, bundle.BytesEntry(name, 0o644, []byte(files[name])))
	}
	entries = append(entries, bundle.BytesEntry(manifestName, 0o644, []byte(man)))
	slices.SortFunc(entries, func(a, b bundle.Entry) int { return Layout{}.Compare(a.Name, b.Name) })
	name := filepath.Join(t.TempDir(), "old.rigbundle")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bundle.WriteArchive(t.Context(), f, bundle.Gzip, Layout{}, entries); err != nil {
		t.Fatal(err)
	}
	return name
}

func installFile(t testing.TB, name, target string, start bool, o bundle.Options) *InstallResult {
	t.Helper()
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o.State = filepath.Join(filepath.Dir(name), "state")
	r, err := Install(t.Context(), bundle.Input{Name: filepath.Base(name), File: f, Size: size}, target, start, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Bundles of version 1 are installed with the safety of version 2: their rig
// and packages are judged, nothing is written through links, and they are not
// started from the directory.
func TestInstallLegacy(t *testing.T) {
	good := writeLegacy(t, legacyFiles(legacyRigText, legacyPkgText))
	target := filepath.Join(t.TempDir(), "T")
	plan := installFile(t, good, target, false, bundle.Options{Plan: true})
	if !plan.OK() || plan.Behaviour == nil || !plan.Behaviour.has(FactHook, "", `hooks of "hooks/h.json"`) || !plan.Behaviour.has(FactSeat, "a", `"codex"`) {
		t.Errorf("%s %s\n%v", plan.Code, plan.Message, plan.Behaviour)
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("a plan wrote")
	}
	if r := installFile(t, good, target, false, bundle.Options{}); !r.OK() || !r.Changed || len(r.Plan) != 4 {
		t.Errorf("%s %s %v", r.Code, r.Message, r.Plan)
	}
	if r := installFile(t, good, target, false, bundle.Options{}); !r.OK() || r.Changed {
		t.Errorf("installed again: %s %v", r.Code, r.Changed)
	}
	if r, err := Uninstall(t.Context(), "old", target, filepath.Join(filepath.Dir(good), "state")); err != nil || !r.OK() {
		t.Errorf("%v %v", r, err)
	}
	if r := installFile(t, good, filepath.Join(t.TempDir(), "U"), true, bundle.Options{}); r.Code != InstallLegacy {
		t.Errorf("up: %s %s", r.Code, r.Message)
	}
	linked := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(linked, "packages")); err != nil {
		t.Skip(err)
	}
	if r := installFile(t, good, linked, false, bundle.Options{}); r.Code != InstallSymlink {
		t.Errorf("through a link: %s %s", r.Code, r.Message)
	}
	for name, c := range map[string]struct{ rig, pkg, code string }{
		"export above the package":   {legacyRigText, strings.Replace(legacyPkgText, "skills/s", "../../x", 1), "package-field-value"},
		"absolute export":            {legacyRigText, strings.Replace(legacyPkgText, "skills/s", "/etc", 1), "package-field-value"},
		"export with a control":      {legacyRigText, strings.Replace(legacyPkgText, "skills/s", `"a\x01"`, 1), "package-field-value"},
		"package name is a path":     {legacyRigText, strings.Replace(legacyPkgText, "name: p\n", "name: ../p\n", 1), "package-field-value"},
		"package is not YAML":        {legacyRigText, "a: [\n", "package-yaml"},
		"exports are missing":        {legacyRigText, "name: p\nversion: 1.0.0\n", "package-field-missing"},
		"edge to nobody":             {strings.Replace(legacyRigText, "to: b", "to: c", 1), legacyPkgText, RigFieldValue},
		"node twice":                 {strings.Replace(legacyRigText, "id: b", "id: a", 1), legacyPkgText, RigFieldValue},
		"refs are not a list":        {strings.Replace(legacyRigText, "[\"local:./p\"]", "x", 1), legacyPkgText, "rig-field-type"},
		"rig without nodes":          {"name: a\nversion: \"1\"\n", legacyPkgText, "rig-field-missing"},
		"a rig that is too deep":     {"name: a\nversion: \"1\"\nnodes: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n", legacyPkgText, RigYAML},
		"a package that is too long": {legacyRigText, legacyPkgText + strings.Repeat("#", maxSpec), "package-yaml"},
	} {
		target := filepath.Join(t.TempDir(), "T")
		r := installFile(t, writeLegacy(t, legacyFiles(c.rig, c.pkg)), target, false, bundle.Options{})
		if r.Code != c.code {
			t.Errorf("%s: %s %s, want %s", name, r.Code, r.Message, c.code)
		}
		if _, err := os.Lstat(target); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
	files := legacyFiles(legacyRigText, legacyPkgText)
	delete(files, "packages/p/package.yaml")
	if r := installFile(t, writeLegacy(t, files), filepath.Join(t.TempDir(), "T"), false, bundle.Options{}); r.Code != ContentMissing {
		t.Errorf("without a package.yaml: %s %s", r.Code, r.Message)
	}
}

// The bundle standard is judged rule by rule.
func TestCheckStandard(t *testing.T) {
	good := func() map[string]string {
		files := todayTree("", "docs: [{path: README.md}]\n", "")
		files["README.md"] = "# Team\n"
		files[".gitignore"] = "x\n"
		return files
	}
	for name, c := range map[string]struct {
		change func(map[string]string)
		rule   string // that finds something; "" for none
		status string
	}{
		"good":               {func(map[string]string) {}, "", ""},
		"no rig":             {func(f map[string]string) { delete(f, "rig.yaml") }, "pod_aware_rig", StatusFinding},
		"a rig that is none": {func(f map[string]string) { f["rig.yaml"] = "not: a rig\n" }, "pod_aware_rig", StatusFinding},
		"a legacy rig":       {func(f map[string]string) { f["rig.yaml"] = legacyRigText }, "pod_aware_rig", StatusFinding},
		"README is gone":     {func(f map[string]string) { delete(f, "README.md") }, "readme_in_docs", StatusFinding},
		"README is not among docs": {func(f map[string]string) {
			f["rig.yaml"] = strings.Replace(f["rig.yaml"], "README.md", ".gitignore", 1)
		}, "readme_in_docs", StatusFinding},
		"agent outside": {func(f map[string]string) {
			f["rig.yaml"] = strings.Replace(f["rig.yaml"], "local:agents/impl", "path:/opt/agent", 1)
		}, "portable_agents", StatusFinding},
		"agent above": {func(f map[string]string) {
			f["rig.yaml"] = strings.Replace(f["rig.yaml"], "local:agents/impl", "local:../agents/impl", 1)
		}, "portable_agents", StatusFinding},
		"agent is not an agent": {func(f map[string]string) { f["agents/impl/agent.yaml"] = "name: 1\n" }, "portable_agents", StatusFinding},
		"resource is gone": {func(f map[string]string) {
			f["agents/impl/agent.yaml"] += "resources: {skills: [{id: a, path: gone}]}\n"
		}, "referenced_files", StatusFinding},
		"startup file is gone": {func(f map[string]string) { f["agents/impl/agent.yaml"] += "startup: {files: [{path: gone.md}]}\n" }, "referenced_files", StatusFinding},
		"plugin of the host": {func(f map[string]string) {
			f["agents/impl/agent.yaml"] += "resources: {plugins: [{id: a, source: {kind: local, path: \"openrig-home:p\"}}]}\n"
		}, "host_resources", StatusNotChecked},
		"minimum version":             {func(f map[string]string) { f["bundle.yaml"] = "compatibility: {min_cli_version: false}\n" }, "minimum_versions", StatusFinding},
		"configurations":              {func(f map[string]string) { f["configurations.yaml"] = "schema: wrong\n" }, "configurations", StatusFinding},
		"secret":                      {func(f map[string]string) { f["agents/impl/.env"] = "A=1\n" }, "credential_paths", StatusFinding},
		"a word of tomorrow":          {func(f map[string]string) { f["rig.yaml"] = strings.Replace(f["rig.yaml"], "claude-code", "gemini", 1) }, "unknown_values", StatusNotChecked},
		"secrets in .git do not mind": {func(f map[string]string) { f[".git/x.pem"] = "1" }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := good()
			c.change(files)
			tree, err := bundle.OpenDirs(writeTree(t, files))
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Close()
			s, err := CheckStandard(t.Context(), tree)
			if err != nil {
				t.Fatal(err)
			}
			if s.Version != "openrig.bundle-standard/v1" {
				t.Error(s.Version)
			}
			found := s.Findings()
			if c.status != StatusFinding && len(found) > 0 {
				t.Errorf("found %+v", found)
			}
			if c.rule != "" && !slices.ContainsFunc(s.Checks, func(k StandardCheck) bool { return k.Rule == c.rule && k.Status == c.status }) {
				t.Errorf("%s has no %s: %+v", c.rule, c.status, s.Checks)
			}
			for _, rule := range []string{"readme_coverage", "embedded_secrets"} {
				if !slices.ContainsFunc(s.Checks, func(k StandardCheck) bool { return k.Rule == rule && k.Status == StatusNotChecked }) {
					t.Errorf("%s is not told as not checked", rule)
				}
			}
		})
	}
}

// A context pack that the caller names is carried with what its manifest
// declares, and nothing else of its directory.
func TestContextPack(t *testing.T) {
	files := todayTree("", "", "")
	files["world/manifest.yaml"] = "name: our-world\nversion: 0.1\nfiles:\n  - {path: who.md, role: identity}\n  - {path: craft/how.md, role: craft}\n"
	files["world/who.md"], files["world/craft/how.md"], files["world/secret.md"] = "we\n", "so\n", "not declared\n"
	out := filepath.Join(t.TempDir(), "a.rigbundle")
	pack := func(files map[string]string, dirs ...string) *Result {
		return createIn(t, writeTree(t, files), "rig.yaml", ".", Options{ContextPacks: dirs}, out, bundle.Options{})
	}
	if r := pack(files, "world"); !r.OK() {
		t.Fatalf("%s %s", r.Code, r.Message)
	}
	paths, man := contentsOf(t, out)
	for _, want := range []string{"context-packs/our-world/manifest.yaml", "context-packs/our-world/who.md", "context-packs/our-world/craft/how.md"} {
		if !slices.Contains(paths, want) {
			t.Errorf("%s is not packed", want)
		}
	}
	if slices.Contains(paths, "context-packs/our-world/secret.md") || !strings.Contains(man, "context_packs:\n  - context-packs/our-world/manifest.yaml\n") {
		t.Errorf("%v\n%s", paths, man)
	}
	with := func(manifest string) map[string]string {
		out := map[string]string{}
		for k, v := range files {
			out[k] = v
		}
		out["world/manifest.yaml"] = manifest
		return out
	}
	for name, c := range map[string]struct {
		files map[string]string
		dirs  []string
		code  string
	}{
		"twice":               {files, []string{"world", "world"}, PathCollision},
		"no manifest":         {files, []string{"agents/impl"}, ContentMissing},
		"name is a path":      {with("name: ../x\nversion: 1\nfiles: []\n"), []string{"world"}, "context-pack-field-value"},
		"file above the pack": {with("name: x\nversion: 1\nfiles: [{path: ../rig.yaml, role: a}]\n"), []string{"world"}, "context-pack-field-value"},
		"file is gone":        {with("name: x\nversion: 1\nfiles: [{path: gone.md, role: a}]\n"), []string{"world"}, PackFileMissing},
		"files are missing":   {with("name: x\nversion: 1\n"), []string{"world"}, "context-pack-field-missing"},
		"files are text":      {with("name: x\nversion: 1\nfiles: a\n"), []string{"world"}, "context-pack-field-type"},
		"no YAML":             {with("name: [\n"), []string{"world"}, PackYAML},
	} {
		if r := pack(c.files, c.dirs...); r.Code != c.code {
			t.Errorf("%s: %s %s, want %s", name, r.Code, r.Message, c.code)
		}
	}
}

// Links in what is collected anew are refused: a shared skill's directory, a
// policy, a compose file, a context pack.
func TestNoLinksInSource(t *testing.T) {
	for name, link := range map[string]string{
		"in a skill":          "skills/s/scripts",
		"the skill itself":    "skills/s",
		"all skills":          "skills",
		"a policy":            "policies/p.md",
		"a compose file":      "compose.yaml",
		"configurations":      "configurations.yaml",
		"a pack's file":       "world/who.md",
		"the pack's parent":   "world",
		"the pack's document": "world/manifest.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			files := todayTree("", "permission_policy: policies/p.md\nservices: {kind: compose, compose_file: compose.yaml}\n", "")
			files["bundle.yaml"] = "skills: [skills/s/SKILL.md]\n"
			files["skills/s/SKILL.md"], files["skills/s/scripts/a.sh"], files["policies/p.md"], files["compose.yaml"] = "s", "a", "p", "c"
			files["world/manifest.yaml"], files["world/who.md"] = "name: w\nversion: 1\nfiles: [{path: who.md, role: a}]\n", "w"
			files["configurations.yaml"] = "schema: openrig.bundle-configurations/v1\nrecommended: r\nseats: {dev.impl: {runtimes: {claude-code: default}}}\npresets: {r: {dev.impl: claude-code}}\n"
			dir := writeTree(t, files)
			o := Options{ContextPacks: []string{"world"}}
			out := filepath.Join(t.TempDir(), "a.rigbundle")
			if r := createIn(t, dir, "rig.yaml", ".", o, out, bundle.Options{}); !r.OK() {
				t.Fatalf("without a link: %s %s", r.Code, r.Message)
			}
			outside := filepath.Join(t.TempDir(), "moved")
			if err := os.Rename(filepath.Join(dir, link), outside); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(dir, link)); err != nil {
				t.Skip(err)
			}
			if r := createIn(t, dir, "rig.yaml", ".", o, out, bundle.Options{}); r.Code != SourceSymlink && r.Code != ContentMissing {
				t.Errorf("%s %s", r.Code, r.Message)
			}
		})
	}
}

// TestDeclaredForms: what one settings file says is told alike whether it is
// JSON, YAML or TOML.
func TestDeclaredForms(t *testing.T) {
	forms := map[string]string{
		"settings.json": `{"hooks": {"Stop": [{"command": "run.sh"}]}, "approval_policy": "never", "permissions": {"allow": ["Bash(*)"]}, "network_access": true}`,
		"settings.yaml": "hooks: {Stop: [{command: run.sh}]}\napproval_policy: never\npermissions:\n  allow: [Bash(*)]\nnetwork_access: true\n",
		"settings.toml": "approval_policy = \"never\"\nnetwork_access = true\n[permissions]\nallow = [\"Bash(*)\"]\n[[hooks.Stop]]\ncommand = 'run.sh'\n",
	}
	var first []Fact
	for _, name := range sortedKeys(forms) {
		d := &describer{j: &judge{}, seen: map[Fact]bool{}, text: map[string][]byte{name: []byte(forms[name]), "bad" + name: []byte("\x00[")}}
		d.declared("bad"+name, "")
		if len(d.out.Facts) != 1 || d.out.Facts[0].Kind != FactUnknown {
			t.Errorf("bad%s: %v", name, d.out.Facts)
		}
		d.out.Facts = nil
		d.declared(name, "a.b")
		for i := range d.out.Facts {
			d.out.Facts[i].Path = ""
		}
		if first == nil {
			first = d.out.Facts
		}
		if len(first) != 4 || !slices.Equal(d.out.Facts, first) {
			t.Errorf("%s: %v, expected %v", name, d.out.Facts, first)
		}
	}
}

// A bundle whose manifest says nothing that can be read is compared, inspected and
// judged like any other bad one.
func TestDiffWithoutManifest(t *testing.T) {
	for name, text := range map[string]string{
		"none": "", "text": "a\n", "list": "- a\n", "deep": strings.Repeat("[", 20000), "tab": "\t: x", "number": "schema_version: 900\n", "empty": "{}\n",
	} {
		t.Run(name, func(t *testing.T) {
			var tarred, packed bytes.Buffer
			w := tar.NewWriter(&tarred)
			for file, content := range map[string]string{"bundle.yaml": text, "x": "x"} {
				if content == "" {
					continue
				}
				if err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write([]byte(content)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			z := gzip.NewWriter(&packed)
			if _, err := z.Write(tarred.Bytes()); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			in := bundle.Input{Name: "bad.rigbundle", File: bytes.NewReader(packed.Bytes()), Size: int64(packed.Len())}
			c, err := Diff(t.Context(), in, in, false, bundle.Options{})
			if err != nil || len(c.Findings) == 0 || len(c.Changes) > 0 {
				t.Errorf("%+v, %v", c, err)
			}
			ins, err := Inspect(t.Context(), in, bundle.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := ins.Describe(); err != nil || ins.Behaviour != nil {
				t.Errorf("%+v, %v", ins.Behaviour, err)
			}
		})
	}
}
