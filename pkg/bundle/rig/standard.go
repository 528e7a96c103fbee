package rig

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// StandardVersion names the rules for a folder that is shared as a bundle.
const StandardVersion = "openrig.bundle-standard/v1"

// Statuses of a [StandardCheck].
const (
	StatusPass       = "pass"
	StatusFinding    = "finding"
	StatusNotChecked = "not_checked"
)

// StandardCheck is what one rule of the bundle standard says, or what one rule
// says of one file.
type StandardCheck struct {
	Rule   string `json:"ruleId"`
	Status string `json:"status"`
	Reason string `json:"reason"`
	Path   string `json:"path,omitempty"` // below the folder, raw bytes
}

// Standard is the result of [CheckStandard], as `rig bundle check --json`
// writes it.
type Standard struct {
	Version string          `json:"standardVersion"`
	Checks  []StandardCheck `json:"checks"`
}

// Findings returns the checks that found something.
func (s *Standard) Findings() (out []StandardCheck) {
	for _, c := range s.Checks {
		if c.Status == StatusFinding {
			out = append(out, c)
		}
	}
	return out
}

// maxStandardEntries bounds the look for credentials, as OpenRig does.
const maxStandardEntries = 10_000

// CheckStandard judges a folder that is meant to be shared by the rules of the
// bundle standard: advice for its author, no gate. It reads the folder and
// nothing else, builds nothing and follows no link.
func CheckStandard(ctx context.Context, tree bundle.Source) (*Standard, error) {
	s := &standard{a: newAssembly(&Source{Tree: tree, Spec: "rig.yaml", RigRoot: "."}, &Options{}), ctx: ctx,
		seen: map[string]bool{}, told: map[StandardCheck]bool{}}
	s.out.Version = StandardVersion
	if err := s.rig(); err != nil {
		return nil, err
	}
	if s.spec == nil {
		for _, rule := range []string{"readme_in_docs", "readme_coverage", "referenced_files", "portable_agents", "minimum_versions",
			"configurations", "credential_paths", "embedded_secrets"} {
			s.add(rule, StatusNotChecked, "needs a rig.yaml with pods that can be read", "")
		}
		return &s.out, nil
	}
	for _, step := range []func() error{s.docs, s.references, s.agents, s.versions, s.choices, s.credentials} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s.add("embedded_secrets", StatusNotChecked, "names of files don't show secrets inside them; read the files before publishing", "")
	if s.unknown > 0 {
		s.add("unknown_values", StatusNotChecked, "the rig or an agent holds words that this version does not know; verify --strict names them", "")
	}
	return &s.out, nil
}

type standard struct {
	a       *assembly
	ctx     context.Context
	out     Standard
	spec    *rigSpec
	seen    map[string]bool // agents judged
	told    map[StandardCheck]bool
	unknown int // notes unknown-value
}

func (s *standard) add(rule, status, reason, file string) {
	c := StandardCheck{rule, status, reason, file}
	if !s.told[c] {
		s.told[c] = true
		s.out.Checks = append(s.out.Checks, c)
	}
}

func (s *standard) has(rule string, statuses ...string) bool {
	return slices.ContainsFunc(s.out.Checks, func(c StandardCheck) bool {
		return c.Rule == rule && slices.Contains(statuses, c.Status)
	})
}

// reasons joins the messages of findings.
func reasons(faults []*bundle.Finding) string {
	var out []string
	for _, f := range faults {
		out = append(out, f.Message)
	}
	return strings.Join(out, "; ")
}

// read returns the text of a document, or the finding of why there is none.
func (s *standard) read(name string, limit int64) (data []byte, why string, err error) {
	it, ok, err := s.a.look(name)
	switch {
	case err != nil:
		return nil, "", err
	case !ok:
		return nil, finding.Path(name) + " is not there", nil
	case it.Kind != bundle.KindFile:
		return nil, finding.Path(name) + " is not a file", nil
	}
	data, err = bundle.ReadFile(s.a.src.Tree, name, limit)
	if f := bundle.AsFinding(err); f != nil {
		return nil, f.Message, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, finding.Path(name) + " can't be read", nil
	}
	return data, "", err
}

func (s *standard) rig() error {
	const rule = "pod_aware_rig"
	data, why, err := s.read("rig.yaml", maxSpec)
	if err != nil {
		return err
	}
	if why != "" {
		s.add(rule, StatusFinding, why, "rig.yaml")
		return nil
	}
	c := &checker{kind: "rig", file: "rig.yaml"}
	spec := checkRig(c, data, false)
	s.count(c)
	if spec == nil || len(c.faults) > 0 {
		s.add(rule, StatusFinding, reasons(c.faults), "rig.yaml")
		return nil
	}
	s.spec = spec
	s.add(rule, StatusPass, "rig.yaml holds to the rules of a rig with pods", "rig.yaml")
	return nil
}

func (s *standard) count(c *checker) {
	for _, n := range c.notes {
		if n.Code == NoteUnknownValue {
			s.unknown++
		}
	}
	s.unknown += c.more[NoteUnknownValue]
}

// file judges a declared file or directory from the folder.
func (s *standard) file(rule, name string, dir bool) (bool, error) {
	it, ok, err := s.a.look(name)
	if err != nil {
		return false, err
	}
	switch {
	case !ok:
		s.add(rule, StatusFinding, "a declared file is not there", name)
	case kindFault(name, it) != nil:
		s.add(rule, StatusFinding, "a declared file is or lies behind a link, or is neither a file nor a directory", name)
	case it.Kind == bundle.KindDir && !dir:
		s.add(rule, StatusFinding, "a declared file is a directory", name)
	default:
		return true, nil
	}
	return false, nil
}

func (s *standard) docs() error {
	const rule = "readme_in_docs"
	readme := slices.IndexFunc(s.spec.docs, func(d docRef) bool {
		base := strings.ToLower(path.Base(d.path))
		return base == "readme" || base == "readme.md"
	})
	if readme < 0 {
		s.add(rule, StatusFinding, "no README is among the docs of rig.yaml", "")
	} else if ok, err := s.file(rule, s.spec.docs[readme].path, false); err != nil {
		return err
	} else if ok {
		s.add(rule, StatusPass, "the README is among the docs and can be read", "")
	}
	s.add("readme_coverage", StatusNotChecked, "read the README for purpose, seats, what it needs, permissions, what it writes, and how to stop it", "")
	return nil
}

const ruleFiles = "referenced_files"

// references are the files that the rig itself names.
func (s *standard) references() error {
	var names []string
	for _, d := range s.spec.docs {
		names = append(names, d.path)
	}
	if s.spec.culture != "" {
		names = append(names, s.spec.culture)
	}
	names = append(names, s.spec.policies()...)
	if s.spec.svc != nil && s.spec.svc.compose != "" {
		names = append(names, s.spec.svc.compose)
	}
	for _, n := range names {
		if _, err := s.file(ruleFiles, n, false); err != nil {
			return err
		}
	}
	var err error
	s.spec.eachStartup(func(b *startup) {
		if err == nil {
			err = s.startup(b, ".")
		}
	})
	return err
}

func (s *standard) startup(b *startup, dir string) error {
	if b == nil {
		return nil
	}
	for _, f := range b.files {
		switch {
		case f.host != "":
			s.host(dir)
		case f.path != "":
			if _, err := s.file(ruleFiles, path.Join(dir, f.path), false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *standard) host(dir string) {
	s.add("host_resources", StatusNotChecked, "what the host resolves is looked up when the rig starts", dir)
}

const ruleAgents = "portable_agents"

func (s *standard) agents() error {
	for _, p := range s.spec.pods {
		for _, m := range p.members {
			if m.terminal() {
				continue
			}
			if err := s.agent(".", m.ref); err != nil {
				return err
			}
		}
	}
	if !s.has(ruleAgents, StatusFinding) {
		s.add(ruleAgents, StatusPass, "every agent and import lies in the folder and holds to the rules", "")
	}
	if !s.has(ruleFiles, StatusFinding) {
		s.add(ruleFiles, StatusPass, "declared docs, startup files and resources are there", "")
	}
	return nil
}

func (s *standard) agent(from, ref string) error {
	dir, ok := localRef(from, ref)
	if !ok {
		s.add(ruleAgents, StatusFinding, "refs of agents and imports are local: and stay in the folder", agentFile(from))
		return nil
	}
	if s.seen[dir] {
		return nil
	}
	s.seen[dir] = true
	name := agentFile(dir)
	data, why, err := s.read(name, maxSpec)
	if err != nil {
		return err
	}
	if why != "" {
		s.add(ruleAgents, StatusFinding, why, name)
		return nil
	}
	c := &checker{kind: "agent", file: name}
	a := checkAgent(c, data)
	s.count(c)
	if a == nil || len(c.faults) > 0 {
		s.add(ruleAgents, StatusFinding, reasons(c.faults), name)
		return nil
	}
	if err := s.startup(a.startup, dir); err != nil {
		return err
	}
	for _, p := range sortedKeys(a.profiles) {
		if err := s.startup(a.profiles[p].startup, dir); err != nil {
			return err
		}
	}
	for _, r := range a.resources {
		p, inside := r.inside(dir)
		switch {
		case r.host:
			s.host(dir)
		case !inside:
			s.add(ruleFiles, StatusFinding, "a declared resource lies outside the agent", dir)
		default:
			if _, err := s.file(ruleFiles, p, true); err != nil {
				return err
			}
		}
	}
	for _, i := range a.imports {
		if err := s.agent(dir, i.ref); err != nil {
			return err
		}
	}
	return nil
}

// optional judges a document that need not be there; none and good are what is
// told of it if it is not there, and if nothing is found.
func (s *standard) optional(rule, name string, limit int64, none, good string, judge func(data []byte) []*bundle.Finding) error {
	if _, ok, err := s.a.look(name); err != nil || !ok {
		if err == nil {
			s.add(rule, StatusPass, none, "")
		}
		return err
	}
	data, why, err := s.read(name, limit)
	if err != nil {
		return err
	}
	if why == "" {
		why = reasons(judge(data))
	}
	if why != "" {
		s.add(rule, StatusFinding, why, name)
	} else {
		s.add(rule, StatusPass, good, "")
	}
	return nil
}

// versions judges the author's bundle.yaml.
func (s *standard) versions() error {
	return s.optional("minimum_versions", manifestName, bundle.DefaultLimits().Manifest, "no minimum versions are declared",
		"declared minimum versions have their form", func(data []byte) []*bundle.Finding {
			c := &checker{kind: "manifest", file: manifestName}
			if root := c.manifest(data); root != nil {
				c.compatibility(root)
			}
			return c.faults
		})
}

func (s *standard) choices() error {
	return s.optional("configurations", configurationsName, maxSpec, "no other configurations are offered, the rig is built as it is written",
		"every preset can be built", func(data []byte) []*bundle.Finding {
			c := &checker{kind: "configurations", file: configurationsName}
			if d := checkConfigurations(c, data); d != nil && len(c.faults) == 0 {
				d.against(c, s.spec.runtimesOf())
			}
			return c.faults
		})
}

// credentials looks at the names of all files of the folder.
func (s *standard) credentials() error {
	const rule = "credential_paths"
	n := 0
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		items, err := s.a.src.Tree.ReadDir(dir)
		if errors.Is(err, fs.ErrPermission) {
			s.add(rule, StatusNotChecked, "a directory can't be read", dir)
			return nil
		}
		if err != nil {
			return err
		}
		for _, it := range items {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			if n++; n > maxStandardEntries || depth > int(bundle.DefaultLimits().Depth) {
				return bundle.ErrStop
			}
			name := path.Join(dir, it.Name)
			switch {
			case it.Name == ".git" || it.Name == "node_modules": // no content of a bundle
			case it.Kind == bundle.KindDir:
				if err := walk(name, depth+1); err != nil {
					return err
				}
			case it.Kind == bundle.KindSymlink:
				s.add(rule, StatusNotChecked, "what a link leads to was not looked at", name)
			case sensitive(name):
				s.add(rule, StatusFinding, "a file of this name holds secrets", name)
			}
		}
		return nil
	}
	err := walk(".", 1)
	if errors.Is(err, bundle.ErrStop) {
		s.add(rule, StatusNotChecked, "the folder holds too much, not all names were looked at", "")
		err = nil
	}
	if err == nil && !s.has(rule, StatusFinding, StatusNotChecked) {
		s.add(rule, StatusPass, "no file has the name of a secret", "")
	}
	return err
}
