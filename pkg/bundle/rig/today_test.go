package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// A small rig to change: the documents with one %s each for what a case adds.
const (
	todayRig = `version: "0.2"
name: today
pods:
  - id: dev
    label: Development
    members:
      - id: impl
        agent_ref: local:agents/impl
        profile: default
        runtime: claude-code
        cwd: .
%s    edges: []
%sedges: []
`
	todayAgent = `name: impl
version: "1.0"
profiles:
  default:
    uses: {}
%s`
)

// writeTree writes files below a new directory.
func writeTree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// todayTree is the small rig with what a member, the rig and the agent get.
func todayTree(member, rig, agent string) map[string]string {
	return map[string]string{
		"rig.yaml":               fmt.Sprintf(todayRig, member, rig),
		"agents/impl/agent.yaml": fmt.Sprintf(todayAgent, agent),
	}
}

func codes(notes []bundle.Note) (out []string) {
	for _, n := range notes {
		out = append(out, n.Code)
	}
	return out
}

func noteOf(r *Result, code string) *bundle.Note {
	for i := range r.Notes {
		if r.Notes[i].Code == code {
			return &r.Notes[i]
		}
	}
	return nil
}

// vocabularyCase is one field with a vocabulary: where it stands, a word of
// today and the place of the value.
type vocabularyCase struct {
	name              string
	member, rig, agnt string // with %s for the value
	today             []string
	field             string
	also              string // note that the case gives anyway
}

func vocabularyCases() []vocabularyCase {
	action := "startup:\n  files: []\n  actions:\n    - type: %s\n      value: authenticated\n      idempotent: true\n"
	file := "startup:\n  files:\n    - path: agents/impl/agent.yaml\n      %s\n  actions: []\n"
	in := func(indent, text string) string {
		return indent + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+indent) + "\n"
	}
	return []vocabularyCase{
		{name: "startup action of a rig", rig: action, today: []string{"slash_command", "send_text", "startup_proof"}, field: "startup.actions[0].type"},
		{name: "startup action of a member", member: in("        ", action), today: []string{"startup_proof"}, field: "pods[0].members[0].startup.actions[0].type"},
		{name: "startup action of an agent", agnt: action, today: []string{"startup_proof"}, field: "startup.actions[0].type"},
		{name: "startup proof", rig: "startup:\n  actions:\n    - {type: startup_proof, value: %s, idempotent: true}\n", today: []string{"authenticated", "none"}, field: "startup.actions[0].value"},
		{name: "phase", rig: "startup:\n  actions:\n    - {type: send_text, value: x, phase: %s, idempotent: true}\n", today: []string{"after_files", "after_ready"}, field: "startup.actions[0].phase"},
		{name: "applies_on", rig: "startup:\n  actions:\n    - {type: send_text, value: x, idempotent: true, applies_on: [%s]}\n", today: []string{"fresh_start", "restore"}, field: "startup.actions[0].applies_on[0]"},
		{name: "delivery hint", rig: strings.Replace(file, "%s", "delivery_hint: %s", 1), today: []string{"auto", "guidance_merge", "skill_install", "send_text"}, field: "startup.files[0].delivery_hint"},
		{name: "orientation", rig: strings.Replace(file, "%s", "orientation: %s", 1), today: []string{"role"}, field: "startup.files[0].orientation"},
		{name: "startup kind", rig: strings.Replace(file, "%s", "kind: %s", 1), today: []string{"file"}, field: "startup.files[0].kind"},
		{name: "compaction", agnt: "defaults:\n  lifecycle:\n    compaction_strategy: %s\n", field: "defaults.lifecycle.compaction_strategy",
			today: []string{"default-compaction", "managed-compaction", "handover", "apprentice-handover", "harness_native", "pod_continuity"}},
		{name: "compaction of a member", member: "        compaction_strategy: %s\n", today: []string{"managed-compaction", "handover"}, field: "pods[0].members[0].compaction_strategy"},
		{name: "execution mode", agnt: "defaults:\n  lifecycle:\n    execution_mode: %s\n", today: []string{"interactive_resident"}, field: "defaults.lifecycle.execution_mode"},
		{name: "restore policy", member: "        restore_policy: %s\n", today: []string{"resume_if_possible", "relaunch_fresh", "checkpoint_only"}, field: "pods[0].members[0].restore_policy"},
		{name: "restore policy of an agent", agnt: "defaults:\n  lifecycle:\n    restore_policy: %s\n", today: []string{"resume_if_possible"}, field: "defaults.lifecycle.restore_policy"},
		{name: "session source", member: "        session_source: {mode: %s, ref: {kind: native_id, value: abc}}\n", today: []string{"fork"}, field: "pods[0].members[0].session_source.mode"},
		{name: "session source ref", member: "        session_source: {mode: fork, ref: {kind: %s, value: abc}}\n", today: []string{"native_id"}, field: "pods[0].members[0].session_source.ref.kind"},
		{name: "member permission policy", member: "        permission_policy: builtin:%s\n", today: []string{"locked", "standard", "open", "yolo", "auto"}, field: "pods[0].members[0].permission_policy"},
		{name: "rig permission policy", rig: "permission_policy: builtin:%s\n", today: []string{"yolo"}, field: "permission_policy"},
		{name: "managed block", rig: "managed_blocks: {claude-code: %s}\n", today: []string{"CLAUDE.md", "CLAUDE.local.md"}, field: "managed_blocks.claude-code"},
		{name: "managed block runtime", rig: "managed_blocks: {%s: CLAUDE.md}\n", today: []string{"claude-code"}, field: "managed_blocks key"},
		{name: "workspace kind", rig: "workspace: {workspace_root: ., repos: [{name: a, path: a, kind: %s}]}\n", today: []string{"user", "project", "knowledge", "lab", "delivery"}, field: "workspace.repos[0].kind"},
		{name: "sync trigger", rig: "  - id: two\n    label: Two\n    continuity_policy: {enabled: true, sync_triggers: [%s]}\n    members: []\n", field: "pods[1].continuity_policy.sync_triggers[0]",
			today: []string{"pre_compaction", "pre_shutdown", "manual", "milestone"}},
		{name: "edge", rig: "  - id: two\n    label: Two\n    members:\n      - {id: a, agent_ref: \"local:agents/impl\", profile: default, runtime: codex, cwd: .}\n" +
			"      - {id: b, agent_ref: \"local:agents/impl\", profile: default, runtime: codex, cwd: .}\n    edges: [{kind: %s, from: a, to: b}]\n",
			today: []string{"delegates_to", "spawned_by", "can_observe", "collaborates_with", "escalates_to"}, field: "pods[1].edges[0].kind"},
		{name: "runtime", rig: "  - id: two\n    label: Two\n    members:\n      - {id: a, agent_ref: \"local:agents/impl\", profile: default, runtime: %s, cwd: .}\n",
			today: []string{"claude-code", "codex", "pi", "omp", "jcode", "cursor", "stub"}, field: "pods[1].members[0].runtime"},
		{name: "guidance merge", agnt: "resources:\n  guidance: [{id: a, path: agent.yaml, merge: %s}]\n", today: []string{"managed_block", "append"}, field: "resources.guidance[0].merge"},
		{name: "plugin type", agnt: "resources:\n  plugins: [{id: a, source: {kind: local, path: .}, plugin_type: %s}]\n", today: []string{"claude", "codex", "auto"}, field: "resources.plugins[0].plugin_type"},
		{name: "plugin source", agnt: "resources:\n  plugins: [{id: a, source: {kind: %s, path: .}}]\n", today: []string{"local"}, field: "resources.plugins[0].source.kind", also: NoteResourceOutside},
		{name: "services kind", rig: "services: {kind: %s, compose_file: agents/impl/agent.yaml}\n", today: []string{"compose"}, field: "services.kind", also: RigServices},
		{name: "down policy", rig: "services: {kind: compose, compose_file: agents/impl/agent.yaml, down_policy: %s}\n", today: []string{"leave_running", "down", "down_and_volumes"}, field: "services.down_policy", also: RigServices},
	}
}

// A rig is packed whatever words of a newer release it holds, and the note has
// the place of each; --strict refuses them. Words of today give no note (I03).
func TestVocabulariesI03(t *testing.T) {
	for _, c := range vocabularyCases() {
		t.Run(c.name, func(t *testing.T) {
			with := func(word string) map[string]string {
				fill := func(s string) string { return strings.ReplaceAll(s, "%s", word) }
				return todayTree(fill(c.member), fill(c.rig), fill(c.agnt))
			}
			for _, word := range c.today {
				r := createIn(t, writeTree(t, with(word)), "rig.yaml", ".", Options{}, filepath.Join(t.TempDir(), "a.rigbundle"), bundle.Options{})
				if !r.OK() {
					t.Fatalf("%s: %s %s", word, r.Code, r.Message)
				}
				if n := noteOf(r, NoteUnknownValue); n != nil {
					t.Errorf("%s is not known: %s", word, n.Detail)
				}
			}
			const word = "of_tomorrow"
			dir := writeTree(t, with(word))
			out := filepath.Join(t.TempDir(), "a.rigbundle")
			r := createIn(t, dir, "rig.yaml", ".", Options{}, out, bundle.Options{})
			if !r.OK() {
				t.Fatalf("%s: %s", r.Code, r.Message)
			}
			n := noteOf(r, NoteUnknownValue)
			if n == nil {
				t.Fatalf("no note %s among %v", NoteUnknownValue, codes(r.Notes))
			}
			if n.Field != c.field || n.Line == 0 || n.Column == 0 || !strings.Contains(n.Detail, `"`) || n.Path == "" {
				t.Errorf("the note has no place: %+v, want field %s", n, c.field)
			}
			// the written bundle says the same, and keeps the word
			v := verifyFile(t, out, bundle.Options{})
			if !v.OK() || noteOf(v, NoteUnknownValue) == nil {
				t.Errorf("verify: %s %s, notes %v", v.Code, v.Message, codes(v.Notes))
			}
			want := NoteUnknownValue
			if c.also == NoteResourceOutside {
				want = c.also // it comes first among the strict notes
			}
			strict := createIn(t, dir, "rig.yaml", ".", Options{}, out+".strict.rigbundle", bundle.Options{Strict: true})
			if strict.Code != want {
				t.Errorf("strict: %s %s, want %s", strict.Code, strict.Message, want)
			}
			only := verifyFile(t, out, bundle.Options{Strict: true, Only: []string{NoteUnknownValue}})
			if only.Code != NoteUnknownValue || only.Findings[0].Line == 0 || only.Findings[0].Field != c.field {
				t.Errorf("strict: %+v", only.Findings)
			}
			// no word at all stays refused
			if c.name != "runtime" && !strings.Contains(c.name, "managed block runtime") {
				r = createIn(t, writeTree(t, with(`"two words; rm"`)), "rig.yaml", ".", Options{}, out+".2.rigbundle", bundle.Options{})
				if r.OK() && !strings.Contains(c.name, "policy") {
					t.Error("text that is not a word was taken")
				}
			}
		})
	}
}

// What every release refuses stays refused, and rules that are no vocabulary
// still hold (I03).
func TestNoVocabularyI03(t *testing.T) {
	for _, c := range []struct{ name, member, rig, agent, code string }{
		{name: "shell action", rig: "startup: {actions: [{type: shell, value: ls, idempotent: true}]}\n", code: RigFieldValue},
		{name: "wake on demand", agent: "defaults: {lifecycle: {execution_mode: wake_on_demand}}\n", code: "agent-field-value"},
		{name: "custom prompt", agent: "defaults: {lifecycle: {compaction_strategy: custom_prompt}}\n", code: "agent-field-value"},
		{name: "proof that is not idempotent", rig: "startup: {actions: [{type: startup_proof, value: none, idempotent: false, applies_on: [fresh_start]}]}\n", code: RigFieldValue},
		{name: "proof without idempotent", rig: "startup: {actions: [{type: startup_proof, value: none}]}\n", code: "rig-field-missing"},
		{name: "bare name of a policy", rig: "permission_policy: yolo\n", code: RigFieldValue},
		{name: "policy above the rig", rig: "permission_policy: ../p.md\n", code: RigFieldValue},
		{name: "absolute policy", rig: "permission_policy: /etc/p.md\n", code: RigFieldValue},
		{name: "mechanic", member: "        mechanic: nobody\n", code: RigFieldValue},
		{name: "two targets", rig: "services: {kind: compose, compose_file: c.yaml, wait_for: [{url: a, tcp: b}]}\n", code: RigFieldValue},
		{name: "compose file above the rig", rig: "services: {kind: compose, compose_file: ../c.yaml}\n", code: RigFieldValue},
		{name: "fork by another kind", member: "        session_source: {mode: fork, ref: {kind: last}}\n", code: RigFieldValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := createIn(t, writeTree(t, todayTree(c.member, c.rig, c.agent)), "rig.yaml", ".", Options{}, filepath.Join(t.TempDir(), "a.rigbundle"), bundle.Options{})
			if r.Code != c.code {
				t.Errorf("%s %s, want %s", r.Code, r.Message, c.code)
			}
		})
	}
}

// Paths that the host resolves are told as such, never joined to the agent's
// directory, also where a file of that name lies there (I04).
func TestHostPathsI04(t *testing.T) {
	plugin := "resources:\n  plugins: [{id: p, source: {kind: local, path: %q}}]\n"
	skill := "resources:\n  skills: [{id: s, path: %q}]\n"
	file := "startup: {files: [{path: %q}]}\n"
	for _, c := range []struct {
		name, agent, path, code string
		soft                    bool
	}{
		{name: "openrig home", agent: plugin, path: "openrig-home:plugins/core"},
		{name: "openrig home itself", agent: plugin, path: "openrig-home:"},
		{name: "user home", agent: plugin, path: "~/plugins/core"},
		{name: "home itself", agent: plugin, path: "~"},
		{name: "absolute", agent: plugin, path: "/opt/plugins/core"},
		{name: "drive", agent: plugin, path: "C:/plugins"},
		{name: "UNC", agent: plugin, path: `\\server\share`},
		{name: "URL", agent: plugin, path: "https://example.com/p.git"},
		{name: "git URL", agent: plugin, path: "git+ssh://git@example.com/p"},
		{name: "file URL", agent: plugin, path: "file:///etc"},
		{name: "skill of openrig", agent: skill, path: "openrig-home:skills/x"},
		{name: "skill at home", agent: skill, path: "~/skills/x"},
		{name: "skill by URL", agent: skill, path: "https://example.com/skill"},
		{name: "absolute skill", agent: skill, path: "/opt/skill", code: "agent-field-value"},
		{name: "home and up", agent: skill, path: "~/../x", code: "agent-field-value"},
		{name: "home and a control character", agent: skill, path: "~/a\x01b", code: "agent-field-value"},
		{name: "startup of openrig", agent: file, path: "openrig-home:a.md"},
		{name: "startup at home", agent: file, path: "~/a.md"},
		{name: "absolute startup", agent: file, path: "/a.md", code: "agent-field-value"},
		// lawful neighbours
		{name: "another user is a name", agent: plugin, path: "~user/p", code: NoteResourceMissing},
		{name: "a colon is a name", agent: skill, path: "ab:c.md", code: bundle.OK},
		{name: "relative", agent: plugin, path: "p/here", code: bundle.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := todayTree("", "", fmt.Sprintf(c.agent, c.path))
			files["agents/impl/ab:c.md"] = "x"
			files["agents/impl/p/here/plugin.json"] = "{}"
			files["agents/impl/~/plugins/core/plugin.json"] = "{}"
			files["agents/impl/openrig-home:plugins/core/plugin.json"] = "{}"
			r := createIn(t, writeTree(t, files), "rig.yaml", ".", Options{}, filepath.Join(t.TempDir(), "a.rigbundle"), bundle.Options{})
			switch c.code {
			case "":
				n := noteOf(r, NoteResourceOutside)
				if !r.OK() || n == nil || !strings.Contains(n.Detail, "resolved by the host") {
					t.Errorf("%s %s, notes %v", r.Code, r.Message, r.Notes)
				}
				if noteOf(r, NoteResourceMissing) != nil {
					t.Error("the path was joined to the agent's directory")
				}
			case bundle.OK:
				if !r.OK() || noteOf(r, NoteResourceOutside) != nil || noteOf(r, NoteResourceMissing) != nil {
					t.Errorf("%s %s, notes %v", r.Code, r.Message, r.Notes)
				}
			case NoteResourceMissing:
				if !r.OK() || noteOf(r, NoteResourceMissing) == nil {
					t.Errorf("%s %s, notes %v", r.Code, r.Message, r.Notes)
				}
			default:
				if r.Code != c.code {
					t.Errorf("%s %s, want %s", r.Code, r.Message, c.code)
				}
			}
		})
	}
}

// A shared skill is packed with all that lies in its directory, and what the
// author declares goes into the manifest (I05).
func TestSourceOfTodayI05(t *testing.T) {
	files := todayTree("", "permission_policy: policies/careful.md\n", "")
	files["agents/impl/agent.yaml"] = strings.Replace(files["agents/impl/agent.yaml"], "uses: {}", "uses: {skills: [review-work]}", 1)
	files["skills/review-work/SKILL.md"] = "---\nname: review-work\ndescription: Reviews work\n---\n"
	files["skills/review-work/scripts/run.sh"] = "#!/bin/sh\n"
	files["skills/review-work/references/a.md"] = "a\n"
	files["skills/other/SKILL.md"] = "not declared\n"
	files["extra/one/SKILL.md"] = "one file\n"
	files["extra/one/more.md"] = "not taken\n"
	files["policies/careful.md"] = "---\npolicy_schema_version: 1\n---\n"
	files["bundle.yaml"] = `skills:
  - skills/review-work/SKILL.md
  - extra/one/SKILL.md
preconditions:
  - name: Build it first
    commands: [npm ci, npm run build]
  - name: Sign in
compatibility:
  min_cli_version: "0.6.6"
`
	dir := writeTree(t, files)
	out := filepath.Join(t.TempDir(), "a.rigbundle")
	r := createIn(t, dir, "rig.yaml", ".", Options{}, out, bundle.Options{})
	if !r.OK() {
		t.Fatalf("%s %s", r.Code, r.Message)
	}
	if n := noteOf(r, NoteResourceOutside); n != nil {
		t.Errorf("a skill of the rig's own pool is said to be the host's: %s", n.Detail)
	}
	paths, man := contentsOf(t, out)
	for _, want := range []string{"skills/review-work/SKILL.md", "skills/review-work/scripts/run.sh", "skills/review-work/references/a.md", "extra/one/SKILL.md", "policies/careful.md"} {
		if !slices.Contains(paths, want) {
			t.Errorf("%s is not packed: %v", want, paths)
		}
	}
	for _, no := range []string{"skills/other/SKILL.md", "extra/one/more.md"} {
		if slices.Contains(paths, no) {
			t.Errorf("%s is packed, nobody declares it", no)
		}
	}
	for _, want := range []string{"preconditions:\n  - name: Build it first\n    commands:\n      - npm ci\n      - npm run build\n  - name: Sign in\n", "compatibility:\n  min_cli_version: 0.6.6\n"} {
		if !strings.Contains(man, want) {
			t.Errorf("the manifest lacks %q:\n%s", want, man)
		}
	}
	// the older form knows none of this
	old := filepath.Join(t.TempDir(), "old.rigbundle")
	if r := createIn(t, dir, "rig.yaml", ".", Options{Form: FormOpenRig}, old, bundle.Options{}); !r.OK() {
		t.Fatalf("%s %s", r.Code, r.Message)
	}
	paths, man = contentsOf(t, old)
	if slices.Contains(paths, "skills/review-work/scripts/run.sh") || strings.Contains(man, "preconditions") {
		t.Errorf("--form openrig-0.4 packs what that release did not: %v\n%s", paths, man)
	}
	// what can't be read is left out, told, and refused when strict
	files["bundle.yaml"] = "preconditions: [{commands: [x]}]\n"
	dir = writeTree(t, files)
	r = createIn(t, dir, "rig.yaml", ".", Options{}, out, bundle.Options{})
	if _, man = contentsOf(t, out); !r.OK() || noteOf(r, NotePreconditions) == nil || strings.Contains(man, "preconditions") {
		t.Errorf("%s, notes %v\n%s", r.Code, codes(r.Notes), man)
	}
	if r = createIn(t, dir, "rig.yaml", ".", Options{}, out, bundle.Options{Strict: true, Only: []string{NotePreconditions}}); r.Code != NotePreconditions {
		t.Errorf("strict: %s %s", r.Code, r.Message)
	}
}

// contentsOf returns the paths of a bundle and the text of its manifest.
func contentsOf(t testing.TB, name string) (paths []string, manifest string) {
	t.Helper()
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := bundle.Scan(t.Context(), f, size, profileOf(bundle.DefaultLimits()))
	if err != nil || a.Fault != nil {
		t.Fatalf("%v %v", err, a.Fault)
	}
	for i := range a.Members {
		paths = append(paths, a.Members[i].Name)
	}
	return paths, string(a.Kept[manifestName])
}
