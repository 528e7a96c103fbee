package rig

import (
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// rigSpec is what the rules need of a rig.yaml.
type rigSpec struct {
	root    *node
	name    string
	culture string // clean, "" if none
	docs    []docRef
	startup *startup
	pods    []pod
	policy  policyRef
	svc     *services // nil if there are none or they are left out
}

// policyRef is a permission_policy: a built-in one, none, or a file.
type policyRef struct {
	text string // as written; "" if there is none
	path string // clean path of a file; "" for a built-in policy
	at   *node
}

type docRef struct {
	path string // clean
	at   *node
}

type pod struct {
	id      string
	startup *startup
	members []member
}

type member struct {
	id      string
	ref     string
	refNode *node
	profile string
	profAt  *node
	runtime string
	restore string
	policy  policyRef
	at      *node
	field   string
	startup *startup
}

const builtinTerminal = "builtin:terminal"

// terminal reports whether a member is a terminal without an agent.
func (m *member) terminal() bool { return m.ref == builtinTerminal }

var restorePolicies = []string{"resume_if_possible", "relaunch_fresh", "checkpoint_only"}

var (
	isName  = charset(func(b byte) bool { return alnum(b) || strings.IndexByte("_.@-", b) >= 0 }, "letters, digits and _ . @ -")
	isID    = charset(func(b byte) bool { return alnum(b) || b == '_' || b == '-' }, "letters, digits and _ -")
	isToken = charset(func(b byte) bool { return alnum(b) || strings.IndexByte("_.-", b) >= 0 }, "letters, digits and _ . -")
)

// beginning is a rule for a text that begins with a letter or digit, too.
func beginning(rule func(string) string) func(string) string {
	return func(s string) string {
		if s != "" && !alnum(s[0]) {
			return "does not begin with a letter or digit"
		}
		return rule(s)
	}
}

// checkRig judges a rig.yaml by docs/spec/rigbundle.md#rigspec, in the order of
// its table. The result is nil if the document can't be used at all.
func checkRig(c *checker, data []byte, dropServices bool) *rigSpec {
	root := c.document(data)
	if root == nil {
		return nil
	}
	return checkRigNode(c, root, dropServices)
}

// checkRigNode judges a rig that was parsed.
func checkRigNode(c *checker, root *node, dropServices bool) *rigSpec {
	if nodes := root.get("nodes"); root.get("pods") == nil && nodes != nil && nodes.kind == kindList {
		c.fault(RigLegacy, "nodes", nodes, "%s is a legacy rig with a flat list of nodes, expected pods", finding.QuoteMax(c.file, 200))
		return nil
	}
	r := &rigSpec{root: root}
	version, vn := c.str(root, "", "version", true, notEmpty)
	if vn != nil && vn.kind == kindString && version != "" && version != "0.2" {
		c.note(NoteRigVersion, "", "version is "+finding.QuoteMax(version, 40)+", this program knows 0.2")
	}
	r.name, _ = c.str(root, "", "name", true, isName)
	c.str(root, "", "summary", false, nil)
	r.culture, _ = c.str(root, "", "culture_file", false, emptyOr(cleanRefRule))
	r.culture = strings.TrimPrefix(r.culture, "./")
	c.maps(root, "", "docs", false, func(d *node, at string) {
		p, n := c.str(d, at, "path", true, cleanRefRule)
		if n != nil {
			p, _ = cleanRef(p)
			r.docs = append(r.docs, docRef{p, n})
		}
		c.unknown(d, at, "path")
	})
	r.startup = c.startup(root, "")
	if svc := root.get("services"); svc != nil && dropServices {
		c.note(NoteServicesDropped, "", "services are left out")
	} else if r.svc = c.services(root); r.svc != nil {
		c.noteAt(RigServices, "services", svc, "start containers on the machine that runs the rig")
	}
	r.policy = c.policy(root, "")
	c.managedBlocks(root)
	c.boolean(root, "", "non_interruptive", false, false)
	c.workspace(root)
	seen := map[string]bool{}
	pods := c.maps(root, "", "pods", true, func(p *node, at string) { r.pods = append(r.pods, c.pod(p, at, seen)) })
	if pods != nil && len(pods.items) == 0 {
		c.wrongValue("pods", pods, "is empty")
	}
	c.edges(root, "", func(from string) string { return r.podOf(from) })
	c.unknown(root, "", "version", "name", "summary", "culture_file", "docs", "startup", "services", "workspace", "pods", "edges",
		"permission_policy", "managed_blocks", "non_interruptive")
	return r
}

// policy judges the permission_policy of a rig or a member: builtin:NAME, none,
// or the path of a policy file from the rig's directory.
func (c *checker) policy(in *node, at string) policyRef {
	n, field := c.child(in, at, "permission_policy", false)
	if n == nil {
		return policyRef{}
	}
	if n.kind != kindString { // nothing is made of it here
		c.noteAt(NoteUnknownField, field, n, "is %v, which this version does not know, expected a string", n.kind)
		return policyRef{}
	}
	out := policyRef{at: n}
	out.text = c.strNode(n, field, func(s string) string {
		name, builtin := strings.CutPrefix(s, "builtin:")
		switch {
		case s == "none":
		case builtin && builtinPolicies.has(name):
		case builtin && isWord(name):
			c.noteAt(NoteUnknownValue, field, n, "is %s, which is not known to this version, expected one of builtin:%s",
				finding.QuoteMax(s, maxWord), strings.Join(builtinPolicies.known, ", builtin:"))
		case builtinPolicies.has(s):
			return "is the name of a built-in policy, expected builtin:" + s
		default:
			if why := cleanRule(s); why != "" {
				return why
			}
			for _, part := range strings.Split(s, "/") {
				if !alnum(part[0]) || isToken(part) != "" {
					return "holds other characters than letters, digits and _ . -, or a part that does not begin with a letter or digit"
				}
			}
			out.path = s
		}
		return ""
	})
	return out
}

// managedBlocks judges which file of a runtime gets OpenRig's instructions.
func (c *checker) managedBlocks(root *node) {
	n, at := c.child(root, "", "managed_blocks", false)
	if n == nil {
		return
	}
	if n.kind != kindMap { // nothing is made of it here
		c.noteAt(NoteUnknownField, at, n, "is %v, which this version does not know, expected a map", n.kind)
		return
	}
	for _, f := range n.fields {
		key := &node{kind: kindString, text: f.key, line: f.line, col: f.col}
		c.wordNode(key, at+" key", blockRuntimes)
		c.wordNode(f.value, dot(at, f.key), blockFiles)
	}
}

// podOf returns the pod of `pod.member`, "" if there is no such member.
func (r *rigSpec) podOf(ref string) string {
	p, m, ok := strings.Cut(ref, ".")
	if !ok {
		return ""
	}
	for i := range r.pods {
		if r.pods[i].id != p {
			continue
		}
		for j := range r.pods[i].members {
			if r.pods[i].members[j].id == m {
				return p
			}
		}
	}
	return ""
}

func (c *checker) workspace(root *node) {
	ws, at := c.mapping(root, "", "workspace", false)
	if ws == nil {
		return
	}
	c.str(ws, at, "workspace_root", true, notEmpty)
	names := map[string]bool{}
	c.maps(ws, at, "repos", true, func(r *node, at string) {
		name, n := c.str(r, at, "name", true, notEmpty)
		if n != nil && name != "" && names[name] {
			c.wrongValue(dot(at, "name"), n, "%s occurs twice", finding.QuoteMax(name, 60))
		}
		names[name] = true
		c.str(r, at, "path", true, notEmpty)
		c.word(r, at, "kind", true, repoKinds)
		c.unknown(r, at, "name", "path", "kind")
	})
	c.str(ws, at, "default_repo", false, func(s string) string {
		if s == "" || !names[s] {
			return "is not the name of a repository"
		}
		return ""
	})
	c.str(ws, at, "knowledge_root", false, notEmpty)
	c.unknown(ws, at, "workspace_root", "repos", "default_repo", "knowledge_root")
}

// id checks the id of a pod or member, which occurs once among its likes.
func (c *checker) id(in *node, at string, seen map[string]bool) string {
	id, n := c.str(in, at, "id", true, isID)
	if id != "" && seen[id] {
		c.wrongValue(dot(at, "id"), n, "%s occurs twice", finding.QuoteMax(id, 60))
	}
	seen[id] = id != ""
	return id
}

func (c *checker) pod(p *node, at string, pods map[string]bool) pod {
	var out pod
	out.id = c.id(p, at, pods)
	c.str(p, at, "label", true, notEmpty)
	c.str(p, at, "summary", false, nil)
	if cp, at := c.mapping(p, at, "continuity_policy", false); cp != nil {
		c.boolean(cp, at, "enabled", true, false)
		c.strings(cp, at, "sync_triggers", func(i *node, f string) {
			c.wordNode(i, f, syncTriggers)
		})
		c.booleans(cp, at, "artifacts", "session_log", "restore_brief", "quiz")
		c.booleans(cp, at, "restore_protocol", "peer_driven", "verify_via_quiz")
		c.unknown(cp, at, "enabled", "sync_triggers", "artifacts", "restore_protocol")
	}
	out.startup = c.startup(p, at)
	seen := map[string]bool{}
	list := c.maps(p, at, "members", true, func(m *node, at string) {
		out.members = append(out.members, c.member(m, at, seen))
	})
	if list != nil && len(list.items) == 0 {
		c.note(NotePodEmpty, "", "pod "+finding.QuoteMax(out.id, 60)+" has no members")
	}
	c.edges(p, at, func(from string) string {
		if seen[from] {
			return from
		}
		return ""
	})
	c.unknown(p, at, "id", "label", "summary", "continuity_policy", "startup", "members", "edges")
	return out
}

// booleans checks a map of booleans.
func (c *checker) booleans(in *node, at, key string, names ...string) {
	n, at := c.mapping(in, at, key, false)
	if n == nil {
		return
	}
	for _, k := range names {
		c.boolean(n, at, k, false, false)
	}
	c.unknown(n, at, names...)
}

func (c *checker) member(m *node, at string, seen map[string]bool) member {
	out := member{at: m, field: at}
	out.id = c.id(m, at, seen)
	out.ref, out.refNode = c.str(m, at, "agent_ref", true, nil)
	if out.refNode != nil && out.refNode.kind == kindString {
		if why := refFault(out.ref, true); why != "" {
			c.fault(RefForm, dot(at, "agent_ref"), out.refNode, "agent_ref %s %s", finding.QuoteMax(out.ref, 100), why)
		}
	}
	out.profile, out.profAt = c.str(m, at, "profile", true, notEmpty)
	if out.runtime, _ = c.str(m, at, "runtime", true, notEmpty); out.runtime != "" {
		c.word(m, at, "runtime", true, runtimes)
	}
	c.str(m, at, "cwd", true, notEmpty)
	terminal := out.terminal() || out.runtime == "terminal"
	if out.refNode != nil && out.profAt != nil && m.get("runtime") != nil {
		three := []bool{out.terminal(), out.runtime == "terminal", out.profile == "none"}
		if slices.Contains(three, true) && slices.Contains(three, false) {
			c.wrongValue(at, m, "mixes a terminal with an agent: runtime terminal, agent_ref %s and profile none go together", builtinTerminal)
		}
	}
	c.str(m, at, "label", false, nil)
	if s, n := c.str(m, at, "codex_config_profile", false, emptyOr(isToken)); n != nil && s != "" && out.runtime != "codex" {
		c.wrongValue(dot(at, "codex_config_profile"), n, "is only for runtime codex")
	}
	c.str(m, at, "model", false, nil)
	if s, n := c.str(m, at, "role", false, emptyOr(isToken)); n != nil && s != "" && terminal {
		c.wrongValue(dot(at, "role"), n, "is not for a terminal")
	}
	if n := m.get("restore_policy"); n == nil || n.kind != kindString || n.text != "" { // empty counts as none
		out.restore, _ = c.word(m, at, "restore_policy", false, restorePolicy)
	}
	c.word(m, at, "compaction_strategy", false, compactionStrategies)
	c.str(m, at, "mechanic", false, isSession)
	c.str(m, at, "effort", false, nil)
	if out.policy = c.policy(m, at); out.policy.at != nil && terminal {
		c.wrongValue(dot(at, "permission_policy"), out.policy.at, "is not for a terminal")
	}
	out.startup = c.startup(m, at)
	mode := ""
	if src, at := c.mapping(m, at, "session_source", false); src != nil {
		if terminal {
			c.wrongValue(at, src, "is not for a terminal")
		}
		mode = c.sessionSource(src, at)
	}
	if st, at := c.mapping(m, at, "starter_ref", false); st != nil {
		c.str(st, at, "name", true, beginning(isID))
		switch {
		case terminal:
			c.wrongValue(at, st, "is not for a terminal")
		case mode == "fork":
			c.wrongValue(at, st, "can't stand beside a session_source of mode fork")
		}
		c.unknown(st, at, "name")
	}
	c.unknown(m, at, "id", "agent_ref", "profile", "runtime", "cwd", "label", "codex_config_profile", "model", "role",
		"restore_policy", "startup", "session_source", "starter_ref", "compaction_strategy", "mechanic", "effort", "permission_policy")
	return out
}

func (c *checker) sessionSource(src *node, at string) (mode string) {
	mode, _ = c.word(src, at, "mode", true, sourceModes)
	c.unknown(src, at, "mode", "ref")
	ref, at := c.mapping(src, at, "ref", true)
	if ref == nil {
		return mode
	}
	shape := "" // of a newer release: nothing is known of the value
	if kinds := sourceRefKinds[mode]; kinds == nil {
		c.str(ref, at, "kind", false, nil)
	} else if kind, _ := c.word(ref, at, "kind", true, kinds); kinds.has(kind) || kinds.refused[kind] != "" {
		shape = mode
	}
	c.unknown(ref, at, "kind", "value", "version")
	v, field := c.child(ref, at, "value", shape != "")
	switch {
	case v == nil || shape == "":
	case shape == "rebuild":
		if v.kind != kindList {
			c.wrongType(field, v, "a list of strings")
			break
		}
		if len(v.items) == 0 {
			c.wrongValue(field, v, "is empty")
		}
		for i, item := range v.items {
			c.strNode(item, index(field, i), notEmpty)
		}
	default:
		c.strNode(v, field, notEmpty)
	}
	c.strOrNumber(ref, at, "version")
	return mode
}

// edges judges a list of edges. pod tells for the name of an end where it
// belongs, "" if nowhere: in a pod the member itself, in the rig its pod.
func (c *checker) edges(in *node, at string, where func(string) string) {
	c.maps(in, at, "edges", false, func(e *node, at string) {
		c.word(e, at, "kind", true, edgeKinds)
		var ends [2]string
		for i, key := range []string{"from", "to"} {
			s, n := c.str(e, at, key, true, nil)
			if n == nil || n.kind != kindString {
				continue
			}
			if ends[i] = where(s); ends[i] == "" {
				c.wrongValue(dot(at, key), n, "%s names no member", finding.QuoteMax(s, 60))
			}
		}
		if !strings.HasPrefix(at, "pods") && ends[0] != "" && ends[0] == ends[1] {
			c.wrongValue(at, e, "joins two members of one pod, such an edge belongs to the pod")
		}
		c.unknown(e, at, "kind", "from", "to")
	})
}

// refFault tells why an agent or import ref is malformed, "" if it is not.
// Terminals are allowed for members only.
func refFault(ref string, terminal bool) string {
	if !bundle.Printable(ref) || strings.Contains(ref, `\`) {
		return "holds a control character or a backslash"
	}
	scheme, rest, ok := strings.Cut(ref, ":")
	switch {
	case terminal && ref == builtinTerminal:
		return ""
	case ok && scheme == "local" && rest != "" && !path.IsAbs(rest):
		return ""
	case ok && scheme == "path" && path.IsAbs(rest):
		return ""
	case terminal:
		return "is malformed, expected local: and a relative path, path: and an absolute path, or " + builtinTerminal
	}
	return "is malformed, expected local: and a relative path, or path: and an absolute path"
}

// writeRig returns the canonical rig.yaml (docs/spec/rigbundle.md#rigspec), with agent refs
// replaced as refs says, by the ref's node.
func writeRig(r *rigSpec, refs map[*node]string) []byte {
	root := r.root
	w := &mapWriter{in: root}
	w.copy("version", "name")
	w.copyFull("summary", "culture_file")
	w.copyUnless("docs", isEmpty)
	w.set("startup", writeStartup(root.get("startup")))
	w.skip("services")
	if r.svc != nil {
		w.set("services", root.get("services"))
	}
	w.set("workspace", writeWorkspace(root.get("workspace")))
	pods := &node{kind: kindList}
	for _, p := range itemsOf(root.get("pods")) {
		pods.items = append(pods.items, writePod(p, refs))
	}
	w.set("pods", pods)
	w.set("edges", writeEdges(root.get("edges")))
	return writeYAML(w.done())
}

func writeWorkspace(n *node) *node {
	if n == nil {
		return nil
	}
	w := &mapWriter{in: n}
	w.copy("workspace_root")
	w.set("repos", eachInOrder(n.get("repos"), "name", "path", "kind"))
	w.copy("default_repo", "knowledge_root")
	return w.done()
}

func writeEdges(n *node) *node {
	if n == nil {
		return listNode()
	}
	return eachInOrder(n, "kind", "from", "to")
}

func writePod(p *node, refs map[*node]string) *node {
	w := &mapWriter{in: p}
	w.copy("id", "label")
	w.copyFull("summary")
	if cp := p.get("continuity_policy"); cp != nil {
		cw := &mapWriter{in: cp}
		cw.copy("enabled", "sync_triggers")
		cw.set("artifacts", inOrder(cp.get("artifacts"), "session_log", "restore_brief", "quiz"))
		cw.set("restore_protocol", inOrder(cp.get("restore_protocol"), "peer_driven", "verify_via_quiz"))
		w.set("continuity_policy", cw.done())
	}
	w.skip("continuity_policy")
	w.set("startup", writeStartup(p.get("startup")))
	members := listNode()
	for _, m := range itemsOf(p.get("members")) {
		members.items = append(members.items, writeMember(m, refs))
	}
	w.set("members", members)
	w.set("edges", writeEdges(p.get("edges")))
	return w.done()
}

func writeMember(m *node, refs map[*node]string) *node {
	w := &mapWriter{in: m}
	w.copy("id")
	ref := m.get("agent_ref")
	if to, ok := refs[ref]; ok {
		ref = textNode(to)
	}
	w.set("agent_ref", ref)
	w.copy("profile", "runtime", "cwd")
	w.copyFull("label", "codex_config_profile", "model", "role", "restore_policy")
	w.set("startup", writeStartup(m.get("startup")))
	if src := m.get("session_source"); src != nil {
		sw := &mapWriter{in: src}
		sw.copy("mode")
		sw.set("ref", inOrder(src.get("ref"), "kind", "value", "version"))
		w.set("session_source", sw.done())
	}
	w.skip("session_source")
	w.set("starter_ref", inOrder(m.get("starter_ref"), "name"))
	return w.done()
}
