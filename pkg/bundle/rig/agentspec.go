package rig

import (
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// agentSpec is what the rules need of an agent.yaml.
type agentSpec struct {
	name, version string
	nameAt        *node
	imports       []importRef
	restore       string // of defaults.lifecycle
	startup       *startup
	profiles      map[string]profile
	resources     []resource
	loose         []looseSkill
	byID          map[[2]string]*resource // by category and id; made when asked
}

// looseSkill is a skill that a profile uses and the agent does not declare.
type looseSkill struct{ id, field string }

type importRef struct {
	ref, version string
	at           *node // the ref
	field        string
}

type profile struct {
	restore string
	startup *startup
	uses    map[string][]string // by category
}

type resource struct {
	id, kind string // kind is one of resourceKinds
	path     string // as written; clean unless it is a plugin's
	plugin   bool
	host     bool   // the host that runs the rig resolves it
	runtime  string // of a runtime resource; of a plugin its type
	typ      string // of a runtime resource
	at       *node
	field    string
}

// checkAgent judges an agent.yaml by docs/spec/rigbundle.md#agentspec, in the
// order of its table. Unknown keys pass. The result is nil if the document
// can't be used at all.
func checkAgent(c *checker, data []byte) *agentSpec {
	root := c.document(data)
	if root == nil {
		return nil
	}
	a := &agentSpec{profiles: map[string]profile{}}
	a.name, a.nameAt = c.str(root, "", "name", true, notEmpty)
	a.version, _ = c.str(root, "", "version", true, notEmpty)
	c.str(root, "", "summary", false, nil)
	c.maps(root, "", "imports", false, func(i *node, at string) {
		ref, n := c.str(i, at, "ref", true, nil)
		if n == nil || n.kind != kindString {
			return
		}
		if why := refFault(ref, false); why != "" {
			c.fault(RefForm, dot(at, "ref"), n, "import %s %s", finding.QuoteMax(ref, 100), why)
		}
		version, _ := c.str(i, at, "version", false, func(s string) string {
			if strings.ContainsAny(s, "~^><=|") {
				return "is a range, versions are compared exactly"
			}
			return ""
		})
		a.imports = append(a.imports, importRef{ref, version, n, dot(at, "ref")})
	})
	if d, at := c.mapping(root, "", "defaults", false); d != nil {
		c.word(d, at, "runtime", false, runtimes)
		c.str(d, at, "model", false, nil)
		a.restore = c.lifecycle(d, at)
	}
	a.startup = c.startup(root, "")
	declared := map[string]map[string]bool{}
	if r, at := c.mapping(root, "", "resources", false); r != nil {
		a.checkResources(c, r, at, declared)
	}
	if p, at := c.mapping(root, "", "profiles", false); p != nil {
		for _, f := range p.fields {
			a.checkProfile(c, f, dot(at, f.key), declared)
		}
	}
	return a
}

func (c *checker) lifecycle(in *node, at string) (restore string) {
	l, at := c.mapping(in, at, "lifecycle", false)
	if l == nil {
		return ""
	}
	c.word(l, at, "execution_mode", false, executionModes)
	c.word(l, at, "compaction_strategy", false, compactionStrategies)
	restore, _ = c.word(l, at, "restore_policy", false, restorePolicy)
	c.str(l, at, "mechanic", false, isSession)
	return restore
}

// isSession is the rule for the address of a seat, `pod-member@rig`.
func isSession(s string) string {
	seat, rig, ok := strings.Cut(s, "@")
	if !ok || isToken(seat) != "" || isToken(rig) != "" {
		return "is not an address of a seat, expected pod-member@rig"
	}
	return ""
}

var resourceKinds = []string{"skills", "guidance", "subagents", "runtime_resources", "plugins"}

func (a *agentSpec) checkResources(c *checker, r *node, at string, declared map[string]map[string]bool) {
	for _, kind := range resourceKinds {
		ids := map[string]bool{}
		declared[kind] = ids
		c.maps(r, at, kind, false, func(item *node, at string) {
			id, n := c.str(item, at, "id", true, notEmpty)
			if id != "" && ids[id] {
				c.wrongValue(dot(at, "id"), n, "%s occurs twice", finding.QuoteMax(id, 60))
			}
			ids[id] = true
			if kind == "plugins" {
				a.checkPlugin(c, item, at, id)
				return
			}
			r := resource{id: id, kind: kind, field: dot(at, "path")}
			var ok bool
			if r.path, r.at = c.str(item, at, "path", true, bundlePathRule); r.at != nil && hostPath(r.path) {
				r.host, ok = true, bundlePathRule(r.path) == ""
			} else if r.at != nil {
				r.path, ok = cleanRef(r.path)
			}
			switch kind {
			case "guidance":
				c.str(item, at, "target", false, nil)
				c.word(item, at, "merge", false, guidanceMerges)
			case "runtime_resources":
				if r.runtime, _ = c.str(item, at, "runtime", true, notEmpty); r.runtime != "" {
					c.word(item, at, "runtime", true, runtimes)
				}
				r.typ, _ = c.str(item, at, "type", true, notEmpty)
			}
			if ok {
				a.resources = append(a.resources, r)
			}
		})
	}
	c.noHooks(r, at)
}

// checkPlugin judges a plugin. A source of a kind that is not known leads to
// something of the host.
func (a *agentSpec) checkPlugin(c *checker, item *node, at, id string) {
	r := resource{id: id, kind: "plugins", plugin: true}
	if src, at := c.mapping(item, at, "source", true); src != nil {
		kind, _ := c.word(src, at, "kind", true, pluginSources)
		r.host, r.field = kind != "local", dot(at, "path")
		r.path, r.at = c.str(src, at, "path", !r.host, nil)
		if r.at == nil && r.host {
			r.at = src
		}
	}
	r.runtime, _ = c.word(item, at, "plugin_type", false, pluginTypes)
	if r.at != nil && (r.at.kind == kindString || r.host) {
		r.host = r.host || hostPath(r.path)
		a.resources = append(a.resources, r)
	}
}

func (c *checker) noHooks(in *node, at string) {
	if h := in.get("hooks"); h != nil {
		c.wrongValue(dot(at, "hooks"), h, "is refused, hooks ship inside plugins")
	}
}

func (a *agentSpec) checkProfile(c *checker, f field, at string, declared map[string]map[string]bool) {
	p := f.value
	if p.kind == kindNull {
		return
	}
	if p.kind != kindMap {
		c.wrongType(at, p, "a map")
		return
	}
	var out profile
	c.str(p, at, "summary", false, nil)
	if pref, at := c.mapping(p, at, "preferences", false); pref != nil {
		c.word(pref, at, "runtime", false, runtimes)
	}
	out.startup = c.startup(p, at)
	out.restore = c.lifecycle(p, at)
	out.uses = map[string][]string{}
	if uses, at := c.mapping(p, at, "uses", false); uses != nil {
		c.noHooks(uses, at)
		for _, kind := range resourceKinds {
			c.strings(uses, at, kind, func(item *node, field string) {
				out.uses[kind] = append(out.uses[kind], item.text)
				c.strNode(item, field, func(s string) string {
					ns, id, qualified := strings.Cut(s, ":")
					switch {
					case qualified && (ns == "" || id == "" || strings.Contains(id, ":")):
						return "is malformed, expected namespace:id"
					case !qualified && !declared[kind][s] && kind == "skills":
						a.loose = append(a.loose, looseSkill{s, field})
					case !qualified && !declared[kind][s] && len(a.imports) == 0:
						return "is not declared in resources." + kind
					}
					return ""
				})
			})
		}
	}
	if act, at := c.mapping(p, at, "activity", false); act != nil {
		if n, field := c.child(act, at, "silence_window_seconds", false); n != nil {
			if n.kind != kindNumber {
				c.wrongType(field, n, "a number")
			} else if v, ok := wholeNumber(n.text); !ok || v < 1 || v > 3600 {
				c.wrongValue(field, n, "is not a whole number from 1 to 3600")
			}
		}
	}
	a.profiles[f.key] = out
}

// wholeNumber returns the value of a number that is whole, however spelled.
func wholeNumber(s string) (int64, bool) {
	if v, err := strconv.ParseInt(s, 0, 64); err == nil && (strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0o")) {
		return v, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != float64(int64(f)) || f > 1<<53 || f < -1<<53 {
		return 0, false
	}
	return int64(f), true
}

// restoreWidens reports whether a chain of restore policies, from the agent's
// default to the member's, ever moves to the left; empty ones are skipped.
func restoreWidens(chain ...string) bool {
	at := -1
	for _, p := range chain {
		for i, known := range restorePolicies {
			if p != known {
				continue
			}
			if i < at {
				return true
			}
			at = i
		}
	}
	return false
}

// rewriteImports replaces the refs of an agent.yaml as to says, by field, and
// leaves every other byte (docs/spec/rigbundle.md#create, step 5).
func rewriteImports(data []byte, a *agentSpec, to []string) ([]byte, *bundle.Finding) {
	out := data
	for i := len(a.imports) - 1; i >= 0; i-- {
		imp := a.imports[i]
		if to[i] == "" || imp.ref == to[i] {
			continue
		}
		start, end, style, ok := scalarSpan(data, imp.at)
		if !ok {
			return nil, bundle.Faultf(AgentYAML, "", "the place of import %s can't be found", finding.QuoteMax(imp.ref, 100))
		}
		out = append(append(append([]byte(nil), out[:start]...), spell(to[i], style)...), out[end:]...)
	}
	return out, nil
}
