package rig

import (
	"context"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

const (
	configurationsName   = "configurations.yaml"
	configurationsSchema = "openrig.bundle-configurations/v1"
)

// configurations are what a configurations.yaml offers beside a rig.yaml:
// which runtimes a seat may use, and presets of runtimes for all seats.
type configurations struct {
	recommended   string
	recommendedAt *node
	seats         []seat
	presets       []preset
}

// seat is what a member, `pod.member`, may use.
type seat struct {
	name     string
	at       *node
	runtimes []pair // runtime and the profile that it uses
}

// preset is a runtime for every member.
type preset struct {
	name    string
	at      *node
	mapping []pair
}

// pair is one entry of a map of strings, in the order of the document.
type pair struct{ key, value string }

func lookup(list []pair, key string) (string, bool) {
	for _, p := range list {
		if p.key == key {
			return p.value, true
		}
	}
	return "", false
}

// checkConfigurations judges a configurations.yaml by itself; nil if it can't
// be used at all.
func checkConfigurations(c *checker, data []byte) *configurations {
	root := c.document(data)
	if root == nil {
		return nil
	}
	out := &configurations{}
	c.str(root, "", "schema", true, func(s string) string {
		if s != configurationsSchema {
			return "is unknown, expected " + configurationsSchema
		}
		return ""
	})
	out.recommended, out.recommendedAt = c.str(root, "", "recommended", true, notEmpty)
	if seats, at := c.mapping(root, "", "seats", true); seats != nil {
		for _, f := range seats.fields {
			s := seat{name: f.key, at: &node{line: f.line, col: f.col}}
			if f.value.kind != kindMap {
				c.wrongType(dot(at, f.key), f.value, "a map")
				continue
			}
			s.runtimes = c.pairs(f.value, dot(at, f.key), "runtimes")
			c.unknown(f.value, dot(at, f.key), "runtimes")
			out.seats = append(out.seats, s)
		}
	}
	if presets, at := c.mapping(root, "", "presets", true); presets != nil {
		for _, f := range presets.fields {
			p := preset{name: f.key, at: &node{line: f.line, col: f.col}}
			p.mapping = c.pairs(presets, at, f.key)
			out.presets = append(out.presets, p)
		}
	}
	c.unknown(root, "", "schema", "recommended", "seats", "presets")
	return out
}

// pairs reads a map of strings that is required and not empty.
func (c *checker) pairs(in *node, at, key string) (out []pair) {
	n, at := c.mapping(in, at, key, true)
	if n == nil {
		return nil
	}
	if len(n.fields) == 0 {
		c.wrongValue(at, n, "is empty")
	}
	for _, f := range n.fields {
		out = append(out, pair{f.key, c.strNode(f.value, dot(at, f.key), notEmpty)})
	}
	return out
}

func (d *configurations) preset(name string) *preset {
	return first(d.presets, func(p preset) bool { return p.name == name })
}

// seat returns what a member may use, nil if the document does not list it.
func (d *configurations) seat(name string) *seat {
	return first(d.seats, func(s seat) bool { return s.name == name })
}

// runtimesOf are the runtimes of all members, `pod.member` to runtime, in
// document order.
func (r *rigSpec) runtimesOf() (out []pair) {
	for _, p := range r.pods {
		for _, m := range p.members {
			out = append(out, pair{p.id + "." + m.id, m.runtime})
		}
	}
	return out
}

// configurationID names a choice of runtimes: `pod.member=runtime` of every
// member, sorted by member in UTF-16 order, joined with commas.
func configurationID(mapping []pair) string {
	sorted := slices.Clone(mapping)
	slices.SortFunc(sorted, func(a, b pair) int { return Layout{}.Compare(a.key, b.key) })
	parts := make([]string, len(sorted))
	for i, p := range sorted {
		parts[i] = p.key + "=" + p.value
	}
	return strings.Join(parts, ",")
}

// against judges the document by the rig as it is written: every seat and
// every preset names its members, presets stay within what seats may use, and
// the recommended preset is the rig as written.
func (d *configurations) against(c *checker, authored []pair) {
	for _, s := range d.seats {
		if _, ok := lookup(authored, s.name); !ok {
			c.wrongValue("seats", s.at, "name %s, which is not a member of the rig", finding.QuoteMax(s.name, 100))
		}
	}
	for _, p := range d.presets {
		if why := d.fault(p.mapping, authored); why != "" {
			c.wrongValue("presets", p.at, "%s %s", finding.QuoteMax(p.name, 60), why)
		}
	}
	if d.recommendedAt == nil || d.recommended == "" {
		return
	}
	switch p := d.preset(d.recommended); {
	case p == nil:
		c.wrongValue("recommended", d.recommendedAt, "names %s, which is not a preset", finding.QuoteMax(d.recommended, 60))
	case configurationID(p.mapping) != configurationID(authored):
		c.wrongValue("recommended", d.recommendedAt, "names %s, which is not the rig as it is written", finding.QuoteMax(d.recommended, 60))
	}
}

// fault tells why a mapping can't be built, "" if it can.
func (d *configurations) fault(mapping, authored []pair) string {
	for _, m := range authored {
		if _, ok := lookup(mapping, m.key); !ok {
			return "gives " + finding.QuoteMax(m.key, 100) + " no runtime"
		}
	}
	for _, m := range mapping {
		was, ok := lookup(authored, m.key)
		if !ok {
			return "names " + finding.QuoteMax(m.key, 100) + ", which is not a member of the rig"
		}
		allowed := []string{was}
		if s := d.seat(m.key); s != nil {
			allowed = nil
			for _, r := range s.runtimes {
				allowed = append(allowed, r.key)
			}
		}
		if !slices.Contains(allowed, m.value) {
			return "gives " + finding.QuoteMax(m.key, 100) + " the runtime " + finding.QuoteMax(m.value, 60) +
				", it may use " + finding.QuoteMax(strings.Join(allowed, ", "), 200)
		}
	}
	return ""
}

// choose applies a preset, "" for the rig as it is written, and then seats,
// each `pod.member=runtime`. The fault says why nothing of that kind is
// offered.
func (d *configurations) choose(authored []pair, name string, seats []string) ([]pair, *bundle.Finding) {
	mapping := slices.Clone(authored)
	refuse := func(format string, args ...any) ([]pair, *bundle.Finding) {
		f := bundle.Faultf(ConfigurationUndeclared, configurationsName, format, args...)
		f.Hint = "rig-bundle configurations SPEC lists what is offered"
		return nil, f
	}
	if name != "" {
		p := d.preset(name)
		if p == nil {
			return refuse("there is no preset %s", finding.QuoteMax(name, 60))
		}
		mapping = slices.Clone(p.mapping)
	}
	for _, s := range seats {
		member, runtime, _ := strings.Cut(s, "=")
		i := slices.IndexFunc(mapping, func(p pair) bool { return p.key == member })
		if i < 0 {
			return refuse("%s is not a member of the rig", finding.QuoteMax(member, 100))
		}
		mapping[i].value = runtime
	}
	if why := d.fault(mapping, authored); why != "" {
		return refuse("the configuration %s", why)
	}
	return mapping, nil
}

// presetOf returns the name of the first preset that a mapping equals, "" if
// there is none.
func (d *configurations) presetOf(mapping []pair) string {
	id := configurationID(mapping)
	for _, p := range d.presets {
		if configurationID(p.mapping) == id {
			return p.name
		}
	}
	return ""
}

// apply returns the rig with the chosen runtimes, and with the profiles that
// the document names for them. Nothing of the given tree is changed.
func (d *configurations) apply(root *node, r *rigSpec, mapping []pair) *node {
	change := map[*node]*node{} // member to what it becomes
	for _, p := range r.pods {
		for _, m := range p.members {
			name := p.id + "." + m.id
			runtime, _ := lookup(mapping, name)
			if runtime == "" || runtime == m.runtime {
				continue
			}
			w := *m.at
			w.fields = slices.Clone(m.at.fields)
			set := func(key, value string) {
				for i := range w.fields {
					if w.fields[i].key == key {
						old := *w.fields[i].value
						old.kind, old.text, old.items, old.fields = kindString, value, nil, nil
						w.fields[i].value = &old
					}
				}
			}
			set("runtime", runtime)
			if s := d.seat(name); s != nil {
				if profile, ok := lookup(s.runtimes, runtime); ok {
					set("profile", profile)
				}
			}
			change[m.at] = &w
		}
	}
	return replaceMembers(root, change)
}

// replaceMembers copies a rig on the way to the members that change.
func replaceMembers(root *node, change map[*node]*node) *node {
	with := func(n *node, key string, value *node) *node {
		out := *n
		out.fields = slices.Clone(n.fields)
		for i := range out.fields {
			if out.fields[i].key == key {
				out.fields[i].value = value
			}
		}
		return &out
	}
	pods := *root.get("pods")
	pods.items = slices.Clone(pods.items)
	for i, p := range pods.items {
		members := *p.get("members")
		members.items = slices.Clone(members.items)
		for k, m := range members.items {
			if to := change[m]; to != nil {
				members.items[k] = to
			}
		}
		pods.items[i] = with(p, "members", &members)
	}
	return with(root, "pods", &pods)
}

// Configuration is one preset that a rig offers.
type Configuration struct {
	Preset      string `json:"preset"`
	ID          string `json:"configuration_id"`
	Recommended bool   `json:"recommended"`
	Authored    bool   `json:"authored"` // the rig as it is written
}

// Offer is what a rig offers beside itself.
type Offer struct {
	bundle.Result
	Declared       bool            `json:"declared"` // false: there is no configurations.yaml
	Configurations []Configuration `json:"configurations"`
}

// Configurations reads what is offered beside a rig.yaml.
func Configurations(ctx context.Context, f Format, in bundle.Input) (*Offer, error) {
	r := &Offer{Result: bundle.NewResult("configurations"), Configurations: []Configuration{}}
	a := newAssembly(f.source(ctx, in), &Options{})
	err := a.readSpec()
	if r.Declared = a.conf != nil; err != nil {
		return nil, err
	}
	if r.Fail(a.failed(1)...); !r.OK() || a.conf == nil {
		return r, nil
	}
	authored := configurationID(a.rig.runtimesOf())
	for _, p := range a.conf.presets {
		id := configurationID(p.mapping)
		r.Configurations = append(r.Configurations, Configuration{p.name, id, p.name == a.conf.recommended, id == authored})
	}
	return r, nil
}
