package rig

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Kinds of a [Fact], in the order in which they are told.
const (
	FactSeat       = "seat"       // an agent or a terminal that starts
	FactPermission = "permission" // what it may do without asking
	FactStartup    = "startup"    // what is typed or given to it
	FactHook       = "hook"       // commands that the harness runs
	FactPlugin     = "plugin"     // plugins and settings that it loads
	FactService    = "service"    // containers and their commands
	FactSettings   = "settings"   // files that tools load by themselves from the target
	FactProgram    = "program"    // files that may be run
	FactNetwork    = "network"    // addresses that the bundle names
	FactNeeds      = "needs"      // what must be there or be done before
	FactUnknown    = "unknown"    // what the bundle can't show
)

var factKinds = []string{FactSeat, FactPermission, FactStartup, FactHook, FactPlugin, FactService, FactSettings,
	FactProgram, FactNetwork, FactNeeds, FactUnknown}

// A Fact is one thing that a bundle does when its rig is started, in plain
// words. Text of the bundle is quoted in it.
type Fact struct {
	Kind  string `json:"kind"`
	Seat  string `json:"seat,omitempty"` // pod.member, "every seat" (of a pod); "" for the whole rig
	Text  string `json:"text"`
	Path  string `json:"path,omitempty"`  // file of the bundle that says so, raw bytes
	Field string `json:"field,omitempty"` // its field
}

// MarshalJSON escapes what a terminal would obey in path and field.
func (f Fact) MarshalJSON() ([]byte, error) {
	type plain Fact
	f.Path, f.Field = bundle.EscapeLine(f.Path), bundle.EscapeLine(f.Field)
	return finding.JSON(plain(f))
}

// Behaviour is what a bundle says that it will do, by kind and then in the
// order of its documents. It is read, nothing is run or looked up.
type Behaviour struct {
	Facts []Fact `json:"facts"`
	Cut   int    `json:"cut,omitempty"` // facts beyond the limit
}

// Bounds of what is told and read for it.
const (
	maxFacts    = 5000
	maxScanFile = 1 << 20
	maxScan     = 64 << 20
	maxDomains  = 500
	maxVisits   = 200_000
)

// describer collects the facts of one bundle.
type describer struct {
	j       *judge
	out     Behaviour
	seen    map[Fact]bool
	want    map[string]bool   // files whose content is needed
	trees   map[string]string // directories of plugins, to the plugin's name
	text    map[string][]byte // content of those files
	kept    int64             // bytes of text
	told    map[string]bool   // trees that a seat loads
	inTree  map[string][]string
	walked  map[string]bool   // seat and tree
	visits  int               // resources of seats looked up
	hosts   map[string]string // domain to the first file that names it
	more    bool              // there are further domains
	unread  int               // files that were not looked through
	program []string
}

// behaviour tells what the bundle does when its rig starts; nil where no manifest that can
// be read says so.
func (j *judge) behaviour() (*Behaviour, error) {
	if j.man == nil || j.man.schema == 0 || j.archive.Fault != nil {
		return nil, nil
	}
	d := &describer{j: j, seen: map[Fact]bool{}, want: map[string]bool{}, trees: map[string]string{}, text: map[string][]byte{}, hosts: map[string]string{}, told: map[string]bool{}, walked: map[string]bool{}}
	if j.man.schema == 1 && j.packages == nil {
		if _, err := j.legacyContents(); err != nil { // its faults are told by install
			return nil, err
		}
	}
	d.interesting()
	if err := j.archive.Walk(j.ctx, d.look); err != nil {
		return nil, err
	}
	switch {
	case j.man.schema == 1:
		d.legacyTeam()
	case j.rig != nil:
		d.team()
	}
	d.files()
	d.needs()
	d.network()
	slices.SortStableFunc(d.out.Facts, func(a, b Fact) int { return slices.Index(factKinds, a.Kind) - slices.Index(factKinds, b.Kind) })
	return &d.out, nil
}

func (d *describer) fact(kind, seat, file, field, format string, args ...any) {
	f := Fact{kind, seat, fmt.Sprintf(format, args...), file, field}
	if d.seen[f] {
		return
	}
	if len(d.out.Facts) >= maxFacts {
		d.out.Cut++
		return
	}
	d.seen[f] = true
	d.out.Facts = append(d.out.Facts, f)
}

func q(s string) string { return finding.QuoteMax(s, 200) }

// interesting marks the files that must be read for the facts.
func (d *describer) interesting() {
	if d.j.man.schema == 1 {
		for _, p := range d.j.man.packages {
			d.want[path.Join(p.path, "package.yaml")] = true
			d.trees[p.path] = "package " + q(p.name)
		}
		return
	}
	for _, p := range d.j.man.content.plugins {
		d.trees[p.path] = "plugin " + q(p.id)
	}
	for _, dir := range sortedKeys(d.j.agents) {
		for _, r := range d.j.agents[dir].resources {
			p, ok := r.inside(dir)
			switch {
			case !ok:
			case r.plugin:
				d.trees[p] = "plugin " + q(r.id)
			case r.kind == "runtime_resources":
				d.want[p] = true
			}
		}
	}
	if d.j.rig != nil {
		root := path.Dir(d.j.man.rigSpec)
		for _, p := range d.j.rig.policies() {
			d.want[path.Join(root, p)] = true
		}
	}
}

// treeOf returns the plugin or package that a file belongs to.
func (d *describer) treeOf(name string) (dir, what string) {
	if len(d.trees) == 0 {
		return "", ""
	}
	for dir = path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if what = d.trees[dir]; what != "" {
			return dir, what
		}
	}
	return "", d.trees["."]
}

// declares reports whether a file of a plugin may declare hooks or servers.
func declares(name string) bool {
	base := strings.ToLower(path.Base(name))
	ext := path.Ext(base)
	return (ext == ".json" || ext == ".yaml" || ext == ".yml" || ext == ".toml") &&
		(strings.Contains(base, "hook") || strings.Contains(base, "mcp") || strings.Contains(base, "settings") ||
			base == "plugin.json" || base == "config.toml" || strings.Contains(name, "/hooks/"))
}

// look reads one member: what is wanted is kept, text is looked through for
// addresses.
func (d *describer) look(m *bundle.Member, r io.Reader) error {
	if m.Mode&0o100 != 0 {
		d.program = append(d.program, m.Name)
	}
	_, what := d.treeOf(m.Name)
	keep := d.want[m.Name] || what != "" && declares(m.Name) || autoloaded(m.Name) != ""
	if m.Size > maxScanFile || keep && d.kept+m.Size > maxScan {
		d.unread++
		return nil
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if keep {
		d.text[m.Name] = data
		d.kept += m.Size
	}
	if m.Name != manifestName {
		d.addresses(m.Name, data)
	}
	return nil
}

// team tells of a rig with pods.
func (d *describer) team() {
	j, rig := d.j, d.j.rig
	root := path.Dir(j.man.rigSpec)
	file := j.man.rigSpec
	if n := rig.root.get("non_interruptive"); n != nil && n.text == "true" {
		d.fact(FactPermission, "", file, "non_interruptive", "warnings of the harnesses at their first start are accepted without asking anybody")
	}
	d.startup(rig.startup, "every seat", file, "startup")
	for pi := range rig.pods {
		p := &rig.pods[pi]
		d.startup(p.startup, "every seat of "+p.id, file, index("pods", pi)+".startup")
		for mi := range p.members {
			m := &p.members[mi]
			name := p.id + "." + m.id
			if m.terminal() {
				d.fact(FactSeat, name, file, m.field, "starts a terminal: a shell of the user who starts the rig")
			} else {
				d.fact(FactSeat, name, file, m.field, "starts %s with the profile %s of the agent at %s; it can run commands as the user who starts the rig",
					q(m.runtime), q(m.profile), q(m.ref))
				d.permission(m, name, root)
			}
			d.agent(m, name, root)
			d.startup(m.startup, name, file, m.field+".startup")
			if m.at.get("session_source") != nil || m.at.get("starter_ref") != nil {
				d.fact(FactUnknown, name, file, m.field, "goes on from an earlier conversation that the host looks up")
			}
		}
	}
	if s := rig.svc; s != nil {
		d.fact(FactService, "", file, "services", "containers are started before the agents, as the compose file %s says", q(s.compose))
		for _, cmd := range s.commands {
			d.fact(FactService, "", file, "services.checkpoints", "the command %s is run to save or restore the services", q(cmd))
		}
		for _, u := range s.urls {
			d.fact(FactNetwork, "", file, "services.wait_for", "the address %s is asked until it answers", q(u))
		}
	}
}

// permission tells what a seat may do without asking.
func (d *describer) permission(m *member, seat, root string) {
	ref, field := m.policy, dot(m.field, "permission_policy")
	if ref.text == "" {
		ref, field = d.j.rig.policy, "permission_policy"
	}
	say := func(format string, args ...any) {
		d.fact(FactPermission, seat, d.j.man.rigSpec, field, format, args...)
	}
	usual := func() {
		switch m.runtime {
		case "claude-code":
			say("edits files without asking and asks before it runs commands, as OpenRig has it unless the host says otherwise")
		case "codex":
			say("writes in its working directory only, as OpenRig has it unless the host says otherwise")
		default:
			say("asks as its runtime does by default")
		}
	}
	free := func() {
		switch m.runtime {
		case "claude-code":
			say("ACTS WITHOUT ASKING: claude-code skips all its permission checks")
		case "codex":
			say("ACTS WITHOUT ASKING: codex runs outside its sandbox and never asks")
		default:
			say("ACTS WITHOUT ASKING: the runtime is given full trust")
		}
	}
	builtin, isBuiltin := strings.CutPrefix(ref.text, "builtin:")
	switch {
	case ref.text == "":
		field = m.field
		usual()
	case ref.text == "none":
		usual()
	case builtin == "yolo" && isBuiltin:
		free()
	case builtin == "auto" && isBuiltin:
		say("decides by itself when to ask: the policy is builtin:auto")
	case isBuiltin:
		say("asks as the policy %s of the host's OpenRig says", q(ref.text))
	default:
		d.policyFile(path.Join(root, ref.path), say, usual, free)
	}
	if p := m.at.get("codex_config_profile"); p != nil && p.text != "" {
		d.fact(FactPermission, seat, d.j.man.rigSpec, dot(m.field, "codex_config_profile"), "uses the profile %s of the host's Codex configuration, which may allow more", q(p.text))
	}
}

// policyFile tells what a permission policy of the bundle allows.
func (d *describer) policyFile(name string, say func(string, ...any), usual, free func()) {
	front, why := frontMatter(d.text[name])
	if why != "" {
		say("asks as the policy %s says, which %s", q(name), why)
		return
	}
	get := func(key string) string {
		if n := front.get(key); n != nil && n.kind == kindString {
			return n.text
		}
		return ""
	}
	switch get("surface") + " " + get("launch_posture") {
	case "flag full_bypass":
		free()
		return
	case "flag floor":
		usual()
		return
	case "flag auto":
		say("decides by itself when to ask, as the policy %s says", q(name))
		return
	}
	said := false
	for _, key := range []string{"default_posture", "allow", "ask", "deny"} {
		n := front.get(key)
		if n == nil {
			continue
		}
		said = true
		words := n.text
		if n.kind == kindList {
			words = ""
			for i, item := range n.items {
				if i > 0 {
					words += ", "
				}
				words += item.text
			}
		}
		say("the policy %s says %s: %s", q(name), key, q(words))
	}
	if !said {
		say("asks as the policy %s says, whose kind is not known to this version", q(name))
	}
}

// frontMatter reads the YAML between the fences at the head of a text.
func frontMatter(data []byte) (*node, string) {
	if data == nil {
		return nil, "is not in the bundle or too large to be shown"
	}
	text, ok := strings.CutPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "---\n")
	head, _, closed := strings.Cut(text, "\n---")
	if !ok || !closed {
		return nil, "has no front matter"
	}
	root, fault := parseYAML([]byte(head + "\n"))
	if fault != nil || root.kind != kindMap {
		return nil, "has no front matter that can be read"
	}
	return root, ""
}

// agent tells what a seat's agent brings.
func (d *describer) agent(m *member, seat, root string) {
	dir, ok := localRef(root, m.ref)
	a := d.j.agents[dir]
	if m.terminal() || !ok || a == nil {
		return
	}
	profile := a.profiles[m.profile]
	file := agentFile(dir)
	d.startup(a.startup, seat, file, "startup")
	d.startup(profile.startup, seat, file, "profiles."+m.profile+".startup")
	type owned struct {
		dir string
		a   *agentSpec
	}
	from := []owned{{dir, a}}
	for _, i := range a.imports {
		if to, ok := localRef(dir, i.ref); ok && d.j.agents[to] != nil {
			from = append(from, owned{to, d.j.agents[to]})
		}
	}
	for _, kind := range []string{"plugins", "runtime_resources", "subagents"} {
		for _, used := range profile.uses[kind] {
			for _, o := range from {
				if d.visits++; d.visits > maxVisits || d.full() {
					d.out.Cut++
					return
				}
				if r := o.a.resource(kind, strings.TrimPrefix(used, o.a.name+":")); r != nil {
					d.resource(r, o.dir, seat, m.runtime)
				}
			}
		}
	}
}

// resource returns what an agent declares, nil if it does not.
func (a *agentSpec) resource(kind, id string) *resource {
	if a.byID == nil {
		a.byID = make(map[[2]string]*resource, len(a.resources))
		for i := range a.resources {
			r := &a.resources[i]
			a.byID[[2]string{r.kind, r.id}] = r
		}
	}
	return a.byID[[2]string{kind, id}]
}

func (d *describer) resource(r *resource, dir, seat, runtime string) {
	file := agentFile(dir)
	p, inside := r.inside(dir)
	switch {
	case r.plugin && !inside:
		d.fact(FactPlugin, seat, file, r.field, "loads the plugin %s from %s, which the host holds and the bundle does not show", q(r.id), q(r.path))
	case r.plugin:
		d.fact(FactPlugin, seat, file, r.field, "loads the plugin %s at %s, with the commands and hooks that it brings", q(r.id), q(p))
		d.told[p] = true
		d.tree(p, seat)
	case r.kind == "subagents":
		d.fact(FactPlugin, seat, file, r.field, "can hand work to the agent %s at %s", q(r.id), q(r.path))
	case r.runtime != "" && r.runtime != runtime:
	case !inside:
		d.fact(FactPlugin, seat, file, r.field, "takes settings from %s, which the host holds and the bundle does not show", q(r.path))
	default:
		what := "settings of the kind " + q(r.typ)
		switch r.typ {
		case "claude_settings_fragment", "claude_activity_hooks":
			what = "settings into .claude/settings.local.json"
		case "claude_mcp_fragment":
			what = "tool servers into .mcp.json"
		case "codex_config_fragment":
			what = "settings into Codex's config.toml"
		}
		d.fact(FactPlugin, seat, file, r.field, "writes %s from %s", what, q(p))
		d.declared(p, seat)
	}
}

// tree tells what the files of a plugin declare.
func (d *describer) tree(dir, seat string) {
	if d.inTree == nil {
		d.inTree = map[string][]string{}
		for _, name := range sortedKeys(d.text) {
			of, _ := d.treeOf(name)
			d.inTree[of] = append(d.inTree[of], name)
		}
	}
	if key := seat + "\x00" + dir; !d.walked[key] {
		d.walked[key] = true
		for _, name := range d.inTree[dir] {
			d.declared(name, seat)
		}
	}
}

// full reports whether no more facts are taken.
func (d *describer) full() bool { return len(d.out.Facts) >= maxFacts }

// startup tells the actions of one block.
func (d *describer) startup(s *startup, seat, file, at string) {
	if s == nil {
		return
	}
	if d.full() {
		d.out.Cut += len(s.actions)
		return
	}
	for i, a := range s.actions {
		when := "after its files"
		if a.phase == "after_ready" {
			when = "when it is ready"
		}
		field := index(at+".actions", i)
		switch {
		case a.kind == "send_text":
			d.fact(FactStartup, seat, file, field, "%s the text %s is typed to it", when, q(a.value))
		case a.kind == "slash_command":
			d.fact(FactStartup, seat, file, field, "%s the command %s is given to it", when, q(a.value))
		case a.kind == "startup_proof" && a.value == "authenticated":
			d.fact(FactStartup, seat, file, field, "it has to prove that it got its instructions")
		case a.kind == "startup_proof" && a.value == "none":
			d.fact(FactStartup, seat, file, field, "it has to prove nothing")
		default:
			d.fact(FactStartup, seat, file, field, "%s %s is done with %s, which this version does not know", when, q(a.kind), q(a.value))
		}
	}
	for i, f := range s.files {
		if f.host != "" {
			d.fact(FactStartup, seat, file, index(at+".files", i), "it is given %s, which the host holds and the bundle does not show", q(f.host))
		}
	}
}

// files tells of files that do something by where they lie or what they are.
func (d *describer) files() {
	for _, name := range sortedKeys(d.text) {
		if what := autoloaded(name); what != "" {
			d.fact(FactSettings, "", name, "", "%s loads this file by itself from the directory that the bundle is installed in", what)
			d.declared(name, "")
		}
	}
	for _, dir := range sortedKeys(d.trees) {
		if !d.told[dir] {
			d.fact(FactPlugin, "", dir, "", "the %s comes with the bundle", d.trees[dir])
			d.tree(dir, "")
		}
	}
	const show = 20
	for i, p := range d.program {
		if i == show {
			d.fact(FactProgram, "", "", "", "and %d more files may be run as programs", len(d.program)-i)
			break
		}
		d.fact(FactProgram, "", p, "", "may be run as a program")
	}
}

// autoloaded names the tool that loads a file of an installed bundle by
// itself, "" if none is known to.
func autoloaded(name string) string {
	lower := strings.ToLower(name)
	switch lower {
	case "claude.md", "claude.local.md", ".mcp.json":
		return "claude-code"
	case "agents.md", "agents.override.md":
		return "codex"
	case ".envrc":
		return "direnv"
	case ".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json":
		return "an editor"
	case "package.json", "makefile", "justfile":
		return "" // run by name only
	}
	for prefix, tool := range map[string]string{".claude/": "claude-code", ".codex/": "codex", ".agents/": "codex",
		".cursor/": "cursor", ".github/workflows/": "GitHub", ".husky/": "git", ".githooks/": "git", ".devcontainer/": "an editor", ".pi/": "pi", ".omp/": "omp"} {
		if strings.HasPrefix(lower, prefix) {
			return tool
		}
	}
	return ""
}

// needs tells what must be there before the rig is started.
func (d *describer) needs() {
	m := d.j.man
	for _, key := range []string{"min_daemon_version", "min_cli_version"} {
		if n := m.root.get("compatibility").get(key); n != nil && n.kind == kindString {
			d.fact(FactNeeds, "", manifestName, "compatibility."+key, "%s %s or later", strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(key, "min_"), "_version"), "cli", "OpenRig's client"), q(n.text))
		}
	}
	if d.j.rig != nil {
		for _, r := range d.j.runtimes() {
			if r != "terminal" {
				d.fact(FactNeeds, "", m.rigSpec, "", "the program %s, signed in with an account of the user; it talks to its provider over the network", q(r))
			}
		}
		if d.j.rig.svc != nil {
			d.fact(FactNeeds, "", m.rigSpec, "services", "Docker Compose; images that are not there are fetched over the network")
		}
	}
	for i, p := range m.preconditions {
		at := index("preconditions", i)
		d.fact(FactNeeds, "", manifestName, at, "to be done before by the user: %s", q(p.name))
		for _, cmd := range p.commands {
			d.fact(FactNeeds, "", manifestName, at+".commands", "  the author asks to run %s; nothing here runs it", q(cmd))
		}
	}
	if m.root.get("preconditions") != nil && m.preconditions == nil {
		d.fact(FactUnknown, "", manifestName, "preconditions", "what the author asks to be done before can't be read")
	}
	d.fact(FactUnknown, "", "", "", "permissions, accounts, plugins and settings of the host decide, too; agents and scripts can do more than files say")
}
