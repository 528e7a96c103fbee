package rig

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

const manifestName = "bundle.yaml"

// manifest is a bundle.yaml of version 1 or 2.
type manifest struct {
	root      *node
	schema    int
	name      string
	version   string
	createdAt string
	rigSpec   string
	culture   string
	agents    []agentEntry
	packages  []agentEntry // version 1
	files     []fileHash   // in the order of the document
	content   contentLists

	preconditions []precondition
}

// agentEntry is one of agents[], import_entries[] or packages[].
type agentEntry struct {
	name, version, path, hash string
	imports                   []agentEntry
	field                     string
}

type fileHash struct {
	path string
	hash bundle.Digest
}

// contentLists are the lists that a rig's author writes into bundle.yaml.
type contentLists struct {
	skills, workflowSpecs, contextPacks, agentImages []pathField
	plugins                                          []pluginEntry
	nodes                                            []field // as they stand in the document
}

type pathField struct {
	path, field string
}

type pluginEntry struct {
	id, path, field string
}

// Fields of the manifest in writing order.
var manifestFields = []string{
	"schema_version", "name", "version", "created_at", "rig_spec", "agents", "culture_file", "integrity", "assembler", "provenance",
	"compatibility", "preconditions", "skills", "plugins", "workflow_specs", "context_packs", "agent_images", "project", "configuration",
}

var provenanceFields = []string{
	"created_at", "source_host", "author_session", "source_rig_id", "source_rig_name", "daemon_version", "cli_version", "notes",
}

var contentFields = []string{"skills", "plugins", "workflow_specs", "context_packs", "agent_images"}

// checkManifest judges a bundle.yaml by docs/spec/rigbundle.md#manifest and #integrity.
// The result is nil if the document can't be used at all.
func checkManifest(c *checker, data []byte) *manifest {
	root, fault := parseLong(data)
	if fault != nil {
		c.yaml(fault)
		return nil
	}
	if root.kind != kindMap {
		c.fault(ManifestType, "", root, "%s is %v, expected a map", manifestName, root.kind)
		return nil
	}
	m := &manifest{root: root}
	sv, _ := c.child(root, "", "schema_version", true)
	switch {
	case sv == nil:
		return m
	case sv.kind != kindNumber:
		c.wrongType("schema_version", sv, "the number 2")
		return m
	case sv.isInt(2):
		m.schema = 2
	case sv.isInt(1):
		m.schema = 1
		c.note(NoteLegacyV1, "", "a legacy bundle of version 1")
	default:
		c.fault(ManifestSchemaVersion, "schema_version", sv, "schema_version is %s, expected 2", finding.QuoteMax(sv.text, 40))
		return m
	}
	m.name, _ = c.str(root, "", "name", true, notEmpty)
	m.version, _ = c.str(root, "", "version", true, notEmpty)
	m.createdAt, _ = c.str(root, "", "created_at", true, notEmpty)
	if m.createdAt != "" && !IsRFC3339(m.createdAt) {
		c.note(NoteCreatedAtFormat, "", "created_at "+finding.QuoteMax(m.createdAt, 60)+" is no RFC 3339 time")
	}
	m.rigSpec, _ = c.str(root, "", "rig_spec", true, cleanRule)
	known := slices.Clone(manifestFields)
	if m.schema == 2 {
		m.checkAgents(c)
	} else {
		m.checkPackages(c)
		known[5] = "packages"
	}
	m.culture, _ = c.str(root, "", "culture_file", false, cleanRule)
	m.checkIntegrity(c)
	if p, at := c.mapping(root, "", "provenance", false); p != nil {
		for _, f := range provenanceFields {
			c.str(p, at, f, false, nil)
		}
		c.unknown(p, at, append(slices.Clone(provenanceFields), "source")...)
	}
	c.compatibility(root)
	m.preconditions = c.preconditions(root)
	m.content = checkContent(c, root)
	if p, at := c.mapping(root, "", "project", false); p != nil {
		c.str(p, at, "id", true, isToken)
		c.str(p, at, "path", true, cleanRule)
	}
	c.unknown(root, "", known...)
	return m
}

// compatibility judges the oldest releases that a bundle needs; nil if it says
// nothing.
func (c *checker) compatibility(root *node) *node {
	p, at := c.mapping(root, "", "compatibility", false)
	if p == nil {
		return nil
	}
	c.str(p, at, "min_daemon_version", false, nil)
	c.str(p, at, "min_cli_version", false, nil)
	if n, field := c.child(p, at, "schema_version", false); n != nil && n.kind != kindNumber {
		c.wrongType(field, n, "a number")
	}
	c.unknown(p, at, "min_daemon_version", "min_cli_version", "schema_version")
	return p
}

// configuration returns the id of the configuration that a bundle says it was
// built in, "" if it says none.
func (m *manifest) configuration() string {
	if id := m.root.get("configuration").get("id"); id != nil && id.kind == kindString {
		return id.text
	}
	return ""
}

// seats are the choices of that configuration, each `pod.member=runtime`.
func (m *manifest) seats() []string {
	if id := m.configuration(); id != "" {
		return strings.Split(id, ",")
	}
	return nil
}

// IsRFC3339 reports whether s is a time as RFC 3339 writes it. time.Parse also
// takes hours of one digit, a decimal comma and offsets of 24 hours and more.
func IsRFC3339(s string) bool {
	if _, err := time.Parse(time.RFC3339, s); err != nil || s[13] != ':' || strings.Contains(s, ",") {
		return false
	}
	zone := s[len(s)-len("00:00"):]
	return strings.HasSuffix(s, "Z") || zone[:2] < "24" && zone[3:] < "60"
}

func (c *checker) hash(in *node, at string) string {
	h, _ := c.str(in, at, "hash", true, func(s string) string {
		if _, ok := bundle.ParseHex(s); !ok {
			return "is no SHA-256 of 64 lower-case hex digits"
		}
		return ""
	})
	return h
}

func (c *checker) agentEntry(a *node, at string) agentEntry {
	e := agentEntry{field: at}
	e.name, _ = c.str(a, at, "name", true, notEmpty)
	e.version, _ = c.str(a, at, "version", false, nil)
	e.path, _ = c.str(a, at, "path", true, cleanRule)
	c.str(a, at, "original_ref", false, nil)
	e.hash = c.hash(a, at)
	return e
}

func (m *manifest) checkAgents(c *checker) {
	names, paths := map[string]bool{}, map[string]bool{}
	c.maps(m.root, "", "agents", true, func(a *node, at string) {
		e := c.agentEntry(a, at)
		c.once(a, at, e, names, paths)
		inNames, inPaths := map[string]bool{}, map[string]bool{}
		c.maps(a, at, "import_entries", false, func(i *node, at string) {
			imp := c.agentEntry(i, at)
			if imp.name != "" && imp.name == e.name || imp.path != "" && imp.path == e.path {
				c.fault(ManifestAgentDuplicate, at, i, "%s is the agent %s itself", at, finding.QuoteMax(e.name, 60))
			} else {
				c.once(i, at, imp, inNames, inPaths)
			}
			c.unknown(i, at, "name", "version", "path", "original_ref", "hash")
			e.imports = append(e.imports, imp)
		})
		c.unknown(a, at, "name", "version", "path", "original_ref", "hash", "import_entries")
		m.agents = append(m.agents, e)
	})
}

// once reports a second entry with one name or path.
func (c *checker) once(at *node, field string, e agentEntry, names, paths map[string]bool) {
	switch {
	case e.name != "" && names[e.name]:
		c.fault(ManifestAgentDuplicate, field, at, "%s has the name %s of another entry", field, finding.QuoteMax(e.name, 60))
	case e.path != "" && paths[e.path]:
		c.fault(ManifestAgentDuplicate, field, at, "%s has the path %s of another entry", field, finding.QuoteMax(e.path, 100))
	}
	names[e.name], paths[e.path] = true, true
}

func (m *manifest) checkPackages(c *checker) {
	list := c.maps(m.root, "", "packages", true, func(p *node, at string) {
		e := agentEntry{field: at}
		e.name, _ = c.str(p, at, "name", true, notEmpty)
		e.version, _ = c.str(p, at, "version", true, notEmpty)
		e.path, _ = c.str(p, at, "path", true, cleanRule)
		c.str(p, at, "original_source", false, nil)
		m.packages = append(m.packages, e)
	})
	if list != nil && len(list.items) == 0 {
		c.wrongValue("packages", list, "is empty")
	}
}

// checkIntegrity judges the integrity section as far as it needs no file
// (docs/spec/rigbundle.md#integrity).
func (m *manifest) checkIntegrity(c *checker) {
	in := m.root.get("integrity")
	if in == nil {
		c.fault(IntegritySection, "integrity", m.root, "integrity is missing")
		return
	}
	if in.kind != kindMap {
		c.fault(IntegritySection, "integrity", in, "integrity is %v, expected a map", in.kind)
		return
	}
	if alg := in.get("algorithm"); alg == nil || alg.kind != kindString || alg.text != "sha256" {
		c.fault(IntegrityAlgorithm, "integrity.algorithm", in, "integrity.algorithm is not sha256")
	}
	files := in.get("files")
	if files == nil || files.kind != kindMap || len(files.fields) == 0 {
		c.fault(IntegritySection, "integrity.files", in, "integrity.files is not a non-empty map")
		return
	}
	for _, f := range files.fields {
		if !bundle.CleanPath(f.key) || f.key == manifestName {
			c.fault(IntegrityKey, "integrity.files", &node{line: f.line, col: f.col}, "integrity.files has the key %s, which is not a clean path of another file", finding.QuoteMax(f.key, 200))
		}
	}
	m.files = make([]fileHash, 0, len(files.fields))
	for i := range files.fields {
		f := &files.fields[i]
		hash, ok := bundle.ParseHex(f.value.text)
		if !ok || f.value.kind != kindString {
			c.fault(IntegrityHashFormat, "integrity.files", f.value, "the hash of %s is not a string of 64 lower-case hex digits", finding.QuoteMax(f.key, 200))
			continue
		}
		m.files = append(m.files, fileHash{f.key, hash})
	}
	c.unknown(in, "integrity", "algorithm", "files")
}

// checkContent judges the content lists of a manifest or of an author's
// bundle.yaml (docs/spec/rigbundle.md#manifest).
func checkContent(c *checker, root *node) contentLists {
	var out contentLists
	paths := func(key string, rule func(string) string) (list []pathField) {
		c.strings(root, "", key, func(n *node, field string) {
			if p := c.strNode(n, field, rule); rule(p) == "" {
				list = append(list, pathField{p, field})
			}
		})
		return list
	}
	out.skills = paths("skills", cleanRule)
	c.maps(root, "", "plugins", false, func(p *node, at string) {
		e := pluginEntry{field: at}
		e.id, _ = c.str(p, at, "id", true, safeRule)
		if src, at := c.mapping(p, at, "source", true); src != nil {
			c.str(src, at, "kind", true, oneOf("local"))
			e.path, _ = c.str(src, at, "path", true, cleanRule)
			c.unknown(src, at, "kind", "path")
		}
		c.unknown(p, at, "id", "source")
		out.plugins = append(out.plugins, e)
	})
	out.workflowSpecs = paths("workflow_specs", cleanRule)
	out.contextPacks = paths("context_packs", func(s string) string {
		if why := cleanRule(s); why != "" {
			return why
		}
		if !strings.Contains(s, "/") {
			return "lies at the root, a context pack has a directory of its own"
		}
		return ""
	})
	out.agentImages = paths("agent_images", cleanRule)
	for _, key := range contentFields {
		if n := root.get(key); n != nil {
			out.nodes = append(out.nodes, field{key: key, value: n})
		}
	}
	return out
}

// pool are the names of the skills that all agents of a rig may use.
func (l *contentLists) pool() map[string]bool {
	out := map[string]bool{}
	for _, s := range l.skills {
		if dir, ok := skillDir(s.path); ok {
			out[path.Base(dir)] = true
		}
	}
	return out
}

// integrityOrder is the writing order of integrity.files: depth first, entries
// of a directory by the bytes of their names; at the root, names that are
// canonical decimal integers below 2^32-1 first, ascending.
func integrityOrder(a, b string) int {
	na, oka := arrayIndex(a)
	nb, okb := arrayIndex(b)
	switch {
	case oka && okb:
		return cmp.Compare(na, nb)
	case oka:
		return -1
	case okb:
		return 1
	}
	for {
		ca, ra, moreA := strings.Cut(a, "/")
		cb, rb, moreB := strings.Cut(b, "/")
		if c := strings.Compare(ca, cb); c != 0 {
			return c
		}
		if !moreA || !moreB {
			return cmp.Compare(len(a), len(b))
		}
		a, b = ra, rb
	}
}

func arrayIndex(s string) (uint64, bool) {
	if s == "" || len(s) > 10 || s[0] == '0' && s != "0" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && s[0] != '+' && n < 1<<32-1
}
