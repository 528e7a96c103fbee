package rig

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// maxSpec bounds rig.yaml and agent.yaml (docs/spec/rigbundle.md#limits).
const maxSpec = 1 << 20

// keepBudget bounds the contents that one pass keeps for the rules.
const keepBudget = 16 << 20

// layer is one step of docs/spec/rigbundle.md#verify. Its faults are in the order that decides
// the code.
type layer struct {
	name   string
	faults []*bundle.Finding
	ran    bool
}

// note is a note with what --strict makes of it.
type note struct {
	bundle.Note
	soft bool // a note even under --strict
}

// notes are notes of which each is told once. Of a code MaxTold are kept: a document is
// anybody's, and can have one for every few of its bytes. The rest is counted, one that
// is there again each time.
type notes struct {
	told []note
	seen map[string]bool
	kept map[noteKind]int // of told
	more map[noteKind]int // that are not kept
	said map[noteKind]int // of more, what into has counted
}

// A noteKind is what decides what becomes of a note.
type noteKind struct {
	code string
	soft bool
}

func newNotes() notes {
	return notes{seen: map[string]bool{}, kept: map[noteKind]int{}, more: map[noteKind]int{}, said: map[noteKind]int{}}
}

func (s *notes) note(code, path, detail string, soft bool) {
	s.tell(bundle.Note{Code: code, Path: path, Detail: detail}, soft)
}

func (s *notes) tell(n bundle.Note, soft bool) {
	kind := noteKind{n.Code, soft}
	if s.kept[kind] >= bundle.MaxTold {
		s.more[kind]++
		return
	}
	if key := n.Code + "\x00" + n.Path + "\x00" + n.Detail; !s.seen[key] {
		s.seen[key] = true
		s.kept[kind]++
		s.told = append(s.told, note{n, soft})
	}
}

// of tells the notes of a document.
func (s *notes) of(c *checker) {
	for _, n := range c.notes {
		s.tell(n, false)
	}
	for code, n := range c.more {
		s.more[noteKind{code, false}] += n
	}
}

// into adds the notes from number first on to a result.
func (s *notes) into(r *bundle.Result, first int) {
	for _, n := range s.told[first:] {
		r.Tell(n.Note)
	}
	for kind, n := range s.more {
		r.Left(kind.code, 0, n-s.said[kind])
		s.said[kind] = n
	}
}

// judge holds what the rules know of one bundle.
type judge struct {
	notes
	ctx     context.Context
	archive *bundle.Archive
	man     *manifest
	lists   []int32 // by member: 1 + its place in man.files, 0 if that has none
	rig     *rigSpec
	legacy  *legacyRig      // of version 1
	dirs    map[string]bool // directories that hold files
	agents  map[string]*agentSpec
	read    map[string]bool // agent directories judged, also faulty ones
	layers  []*layer
	cur     *layer
	missing []string // integrity: listed, not there
	extra   []string // there, not listed

	packages map[string]*legacyPackage // of version 1, by directory

	wrong []string // another hash
}

func (j *judge) fault(f ...*bundle.Finding) { j.cur.faults = append(j.cur.faults, f...) }

func (j *judge) faultf(code, path, format string, args ...any) {
	j.fault(bundle.Faultf(code, path, format, args...))
}

// take moves the faults and notes of a document's checker here.
func (j *judge) take(c *checker) {
	j.fault(c.faults...)
	j.of(c)
}

// profileOf is what a RigBundle lets a tar archive hold (docs/spec/rigbundle.md#container).
func profileOf(l bundle.Limits) *bundle.Profile {
	return &bundle.Profile{
		Limits:       l,
		Compressions: []bundle.Compression{bundle.Gzip},
		Manifest:     manifestName,
		Layout:       Layout{},
		KeepBudget:   keepBudget,
		Keep: func(m *bundle.Member) int64 {
			base := path.Base(m.Name)
			if m.Size <= maxSpec && (base == "agent.yaml" || !strings.Contains(m.Name, "/") && strings.HasSuffix(base, ".yaml")) {
				return m.Size
			}
			return 0
		},
	}
}

// run judges all layers in order. With all set, later layers run although an
// earlier one failed, as far as they can (docs/spec/rigbundle.md#inspect).
func run(ctx context.Context, in bundle.Input, o bundle.Options, all bool) (*judge, error) {
	return runSpooled(ctx, in, o, all, nil)
}

// runSpooled is run with a spool for a second reading, nil for none.
func runSpooled(ctx context.Context, in bundle.Input, o bundle.Options, all bool, spool *bundle.Spool) (*judge, error) {
	j := &judge{ctx: ctx, dirs: map[string]bool{}, agents: map[string]*agentSpec{}, read: map[string]bool{}, notes: newNotes()}
	p := profileOf(o.LimitsOr(bundle.DefaultLimits()))
	p.Spool, p.Allow = spool, o.Allow
	a, err := bundle.Scan(ctx, in.File, in.Size, p)
	if err != nil {
		return nil, err
	}
	j.archive, in.Size = a, a.FileSize
	steps := []struct {
		name string
		run  func() error
	}{
		{"digest file", func() error { j.checksum(&in, o); return nil }},
		{"signature", func() error { return j.signature(&in, o) }},
		{"container", func() error { j.container(); return nil }},
		{"names", func() error { j.names(); return nil }},
		{"manifest", func() error { return j.manifest() }},
		{"integrity", func() error { j.integrity(); return nil }},
		{"content", func() error { return j.contents() }},
		{"texts", func() error { j.fault(j.archive.Screened...); return nil }},
	}
	failed := false
	for _, s := range steps {
		j.cur = &layer{name: s.name}
		j.layers = append(j.layers, j.cur)
		if failed && !all {
			continue
		}
		if (s.name == "integrity" || s.name == "content") && (j.man == nil || j.man.schema == 0) {
			failed = true
			continue
		}
		j.cur.ran = true
		if err := s.run(); err != nil {
			return nil, err
		}
		failed = failed || len(j.cur.faults) > 0
	}
	return j, nil
}

// checksum is layer 1.
func (j *judge) checksum(in *bundle.Input, o bundle.Options) {
	fault, notes := in.CheckDigest(j.archive.FileDigest, o.RequireChecksum)
	j.found(fault, notes)
}

// signature judges the detached signature, which is no part of the format.
func (j *judge) signature(in *bundle.Input, o bundle.Options) error {
	fault, notes, err := in.CheckSignature(o.Signed, Namespace)
	j.found(fault, notes)
	return err
}

func (j *judge) found(fault *bundle.Finding, notes []bundle.Note) {
	if fault != nil {
		j.fault(fault)
	}
	for _, n := range notes {
		j.note(n.Code, n.Path, n.Detail, false)
	}
}

// container is layer 2, which Scan has judged.
func (j *judge) container() {
	a := j.archive
	if a.Fault != nil {
		j.fault(a.Fault)
	}
	for _, n := range a.Notes {
		j.note(n.Code, n.Path, n.Detail, false)
	}
	if a.NotCanonical != "" && a.Fault == nil {
		j.note(bundle.NoteNotCanonical, "", a.NotCanonical, false)
	}
}

// names is layer 3.
func (j *judge) names() {
	members := j.archive.Members
	for i := range members {
		if members[i].Type == bundle.File {
			j.nameNotes(members[i].Name)
		}
	}
	faults := bundle.CheckTree(j.archive.Names(), portable.SimpleFold)
	j.fault(faults...)
	if len(faults) > 0 {
		return
	}
	for i := range members {
		if members[i].Type == bundle.File {
			for d := path.Dir(members[i].Name); d != "." && !j.dirs[d]; d = path.Dir(d) {
				j.dirs[d] = true
			}
		}
	}
	for i := range members {
		if m := &members[i]; m.Type == bundle.Dir && !j.dirs[m.Name] {
			j.note(NoteEmptyDirectory, m.Name, "a directory without files, it is ignored", false)
		}
	}
}

func (j *judge) nameNotes(name string) {
	switch {
	case sensitive(name):
		j.faultf(SensitiveFile, name, "%s has the name of a file that holds secrets", finding.QuoteMax(name, 200))
	case suspect(name):
		j.note(NoteSensitiveSuspect, name, "the name often stands for a secret", false)
	}
}

// manifest is layer 4.
func (j *judge) manifest() error {
	m := j.archive.Member(manifestName)
	if m == nil {
		f := bundle.Faultf(ManifestMissing, "", "there is no %s at the root", manifestName)
		for i := range j.archive.Members {
			n := j.archive.Members[i].Name
			if strings.EqualFold(path.Base(n), manifestName) {
				f.Hint = "found " + finding.QuoteMax(n, 100)
				break
			}
		}
		j.fault(f)
		return nil
	}
	if m.Type != bundle.File {
		j.faultf(ManifestType, manifestName, "%s is a %v, expected a file", manifestName, m.Type)
		return nil
	}
	c := &checker{kind: "manifest", file: manifestName}
	j.man = checkManifest(c, j.archive.Kept[manifestName])
	j.take(c)
	return nil
}

// integrity is layer 5: missing files, unlisted files, mismatches, each in tar
// order, then rig_spec.
func (j *judge) integrity() {
	var missing []string
	for _, f := range j.man.files {
		if m := j.archive.Member(f.path); m == nil || m.Type != bundle.File {
			missing = append(missing, f.path)
		}
	}
	slices.SortFunc(missing, Layout{}.Compare)
	for _, p := range missing {
		j.missing = append(j.missing, p)
		j.faultf(IntegrityMissingFile, p, "%s is listed but not there", finding.QuoteMax(p, 200))
	}
	for i := range j.archive.Members {
		m := &j.archive.Members[i]
		if m.Type != bundle.File || m.Name == manifestName {
			continue
		}
		if j.listed(i) != nil {
			continue
		}
		if path.Base(m.Name) == ".gitkeep" && m.Size == 0 {
			j.note(NoteUnlistedGitkeep, m.Name, "an empty file that the manifest does not list, it is not installed", false)
			continue
		}
		j.extra = append(j.extra, m.Name)
		j.faultf(IntegrityExtraFile, m.Name, "%s is not listed in the manifest", finding.QuoteMax(m.Name, 200))
	}
	for i := range j.archive.Members {
		m := &j.archive.Members[i]
		if want := j.listed(i); want != nil && m.Type == bundle.File && m.SHA256 != want.hash {
			j.wrong = append(j.wrong, m.Name)
			j.faultf(IntegrityMismatch, m.Name, "%s has another hash than the manifest says", finding.QuoteMax(m.Name, 200))
		}
	}
	if j.man.rigSpec != "" && !j.file(j.man.rigSpec) {
		j.faultf(RigMissing, j.man.rigSpec, "rig_spec %s is not in the archive", finding.QuoteMax(j.man.rigSpec, 200))
	}
}

// listed returns what the manifest says of member i, nil if it does not list it.
func (j *judge) listed(i int) *fileHash {
	if j.man == nil {
		return nil
	}
	if j.lists == nil {
		j.lists = make([]int32, len(j.archive.Members))
		for k := range j.man.files {
			if m := j.archive.Index(j.man.files[k].path); m >= 0 {
				j.lists[m] = int32(k + 1)
			}
		}
	}
	if k := j.lists[i]; k > 0 {
		return &j.man.files[k-1]
	}
	return nil
}

func (j *judge) file(name string) bool {
	m := j.archive.Member(name)
	return m != nil && m.Type == bundle.File
}

func (j *judge) there(name string) bool { return j.file(name) || j.dirs[name] }

// contents is layer 6.
func (j *judge) contents() error {
	if j.man.schema == 1 {
		for _, p := range j.man.packages {
			if p.path != "" && !j.dirs[p.path] {
				j.faultf(ContentMissing, p.path, "package %s has no files at %s", finding.QuoteMax(p.name, 60), finding.QuoteMax(p.path, 200))
			}
		}
		if c := j.man.culture; c != "" && !j.file(c) {
			j.note(NoteCultureMissing, c, "the culture file is not in the archive", false)
		}
		return nil
	}
	for _, miss := range j.man.content.missing(j.file, func(d string) bool { return j.dirs[d] }) {
		j.fault(miss)
	}
	if err := j.listedAgents(); err != nil {
		return err
	}
	if c := j.man.culture; c != "" && !j.file(c) {
		j.note(NoteCultureMissing, c, "the culture file is not in the archive", false)
	}
	if !j.file(j.man.rigSpec) {
		return nil
	}
	if err := j.rigFile(); err != nil || j.rig == nil {
		return err
	}
	return j.refs()
}

// missing lists what the content lists name and the tree does not have.
func (l *contentLists) missing(file, dir func(string) bool) (faults []*bundle.Finding) {
	need := func(ok bool, p, field, what string) {
		if !ok {
			f := bundle.Faultf(ContentMissing, p, "%s names %s, which is no %s", field, finding.QuoteMax(p, 200), what)
			f.Field = field
			faults = append(faults, f)
		}
	}
	for _, s := range l.skills {
		need(file(s.path), s.path, s.field, "file")
	}
	for _, p := range l.plugins {
		need(p.path == "" || dir(p.path), p.path, p.field, "directory with files")
	}
	for _, s := range l.workflowSpecs {
		need(file(s.path), s.path, s.field, "file")
	}
	for _, s := range l.contextPacks {
		need(file(s.path), s.path, s.field, "file")
	}
	for _, s := range l.agentImages {
		need(file(s.path+"/manifest.yaml"), s.path, s.field, "directory with a manifest.yaml")
	}
	return faults
}

// listedAgents judges agents and imports of the manifest: agent-missing, the
// rules of an AgentSpec, hashes.
func (j *judge) listedAgents() error {
	var dirs []string
	each := func(fn func(e agentEntry)) {
		for _, a := range j.man.agents {
			fn(a)
			for _, i := range a.imports {
				fn(i)
			}
		}
	}
	each(func(e agentEntry) { dirs = append(dirs, e.path) })
	faults, err := j.load(dirs)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	each(func(e agentEntry) {
		if e.path == "" {
			return
		}
		file := e.path + "/agent.yaml"
		if !j.file(file) {
			if !done[e.path] {
				j.faultf(AgentMissing, file, "%s names %s, where there is no agent.yaml", e.field, finding.QuoteMax(e.path, 200))
			}
			done[e.path] = true
			return
		}
		if !done[e.path] {
			j.fault(faults[e.path]...)
		}
		done[e.path] = true
		a := j.agents[e.path]
		if a != nil && len(a.imports) == 0 && e.hash != "" && e.hash != j.archive.Member(file).SHA256.Hex() {
			f := bundle.Faultf(AgentHash, file, "%s has another hash than %s says", finding.QuoteMax(file, 200), e.field)
			f.Field = e.field
			j.fault(f)
		}
	})
	return nil
}

// load reads and judges the agent.yaml of directories that were not read yet
// and exist. It returns the faults by directory.
func (j *judge) load(dirs []string) (map[string][]*bundle.Finding, error) {
	faults := map[string][]*bundle.Finding{}
	later := map[string]string{} // file to directory
	judge := func(dir, file string, data []byte) {
		c := &checker{kind: "agent", file: file}
		if a := checkAgent(c, data); a != nil {
			j.agents[dir] = a
		}
		faults[dir] = c.faults
		j.of(c)
	}
	for _, dir := range dirs {
		file := agentFile(dir)
		if j.read[dir] || !j.file(file) {
			continue
		}
		j.read[dir] = true
		m := j.archive.Member(file)
		if m.Size > maxSpec {
			faults[dir] = []*bundle.Finding{bundle.Faultf(AgentYAML, file, "%s is over %d bytes", finding.QuoteMax(file, 200), maxSpec)}
			continue
		}
		if data, ok := j.archive.Kept[file]; ok || m.Size == 0 {
			judge(dir, file, data)
		} else {
			later[file] = dir
		}
	}
	if len(later) == 0 {
		return faults, nil
	}
	err := j.archive.Walk(j.ctx, func(m *bundle.Member, r io.Reader) error {
		dir, ok := later[m.Name]
		if !ok {
			return nil
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		judge(dir, m.Name, data)
		if delete(later, m.Name); len(later) == 0 {
			return bundle.ErrStop
		}
		return nil
	})
	return faults, err
}

// agentFile is the agent.yaml of a directory, "." being the root.
func agentFile(dir string) string { return path.Join(dir, "agent.yaml") }

// rigFile judges rig.yaml and the docs that it names.
func (j *judge) rigFile() error {
	name := j.man.rigSpec
	c := &checker{kind: "rig", file: name}
	if m := j.archive.Member(name); m.Size > maxSpec {
		j.faultf(RigYAML, name, "%s is over %d bytes", finding.QuoteMax(name, 200), maxSpec)
		return nil
	}
	got, err := j.archive.Contents(j.ctx, name)
	if err != nil {
		return err
	}
	j.rig = checkRig(c, got[name], false)
	j.take(c)
	if j.rig == nil {
		return nil
	}
	root := path.Dir(name)
	for _, d := range j.rig.docs {
		if p := path.Join(root, d.path); d.path != "" && !j.file(p) {
			j.faultf(DocMissing, p, "rig.yaml names the doc %s, which is not in the archive", finding.QuoteMax(d.path, 200))
		}
	}
	if j.rig.culture != "" && !j.file(path.Join(root, j.rig.culture)) {
		j.note(NoteCultureMissing, path.Join(root, j.rig.culture), "the culture file is not in the archive", false)
	}
	return nil
}

// refs follows the refs of members and of agents' imports.
func (j *judge) refs() error {
	root := path.Dir(j.man.rigSpec)
	listed := map[string]bool{}
	var dirs []string
	for _, a := range j.man.agents {
		listed[a.path] = true
		dirs = append(dirs, a.path)
	}
	type use struct {
		m   *member
		dir string
	}
	var uses []use
	for i := range j.rig.pods {
		for k := range j.rig.pods[i].members {
			m := &j.rig.pods[i].members[k]
			if m.refNode == nil || m.terminal() || refFault(m.ref, true) != "" {
				continue
			}
			dir, ok := localRef(root, m.ref)
			if !ok {
				j.memberFault(RefOutside, m, "agent_ref", m.refNode, "agent_ref %s leaves the bundle", finding.QuoteMax(m.ref, 100))
				continue
			}
			if !j.file(agentFile(dir)) {
				j.memberFault(RefMissing, m, "agent_ref", m.refNode, "agent_ref %s leads to no agent.yaml", finding.QuoteMax(m.ref, 100))
				continue
			}
			uses = append(uses, use{m, dir})
			dirs = append(dirs, dir)
			if !listed[dir] {
				j.note(NoteAgentUnlisted, dir, "a member uses this agent, the manifest does not list it", false)
			}
		}
	}
	var fresh []string
	for _, u := range uses {
		fresh = append(fresh, u.dir)
	}
	faults, err := j.load(fresh)
	if err != nil {
		return err
	}
	for _, dir := range sortedKeys(faults) {
		j.fault(faults[dir]...)
	}
	for _, u := range uses {
		checkUse(u.m, j.agents[u.dir], func(code, key string, at *node, msg string) {
			j.memberFault(code, u.m, key, at, "%s", msg)
		})
	}
	if err := j.imports(dirs); err != nil {
		return err
	}
	j.startupNotes(root)
	return nil
}

func (j *judge) memberFault(code string, m *member, key string, at *node, format string, args ...any) {
	f := bundle.Faultf(code, j.man.rigSpec, format, args...)
	f.Field = dot(m.field, key)
	if at != nil {
		f.Line, f.Column = at.line, at.col
	}
	j.fault(f)
}

// checkUse judges what a member asks of its agent: a profile that is defined,
// and a restore policy that only narrows.
func checkUse(m *member, a *agentSpec, fault func(code, key string, at *node, msg string)) {
	if a == nil || m.profile == "" {
		return
	}
	p, ok := a.profiles[m.profile]
	if !ok {
		fault(RigProfile, "profile", m.profAt, fmt.Sprintf("profile %s is not defined by the agent %s", finding.QuoteMax(m.profile, 60), finding.QuoteMax(a.name, 60)))
	}
	if restoreWidens(a.restore, p.restore, m.restore) {
		fault(RigFieldValue, "restore_policy", m.at, "restore_policy is wider than that of the agent or its profile")
	}
}

// localRef resolves a local: ref from a directory; not ok for path: and for
// what leaves the root.
func localRef(dir, ref string) (string, bool) {
	rest, ok := strings.CutPrefix(ref, "local:")
	if !ok {
		return "", false
	}
	return resolveRef(dir, rest)
}

// imports judges the imports of the agents in dirs.
func (j *judge) imports(dirs []string) error {
	type edge struct {
		from, to string
		ref      importRef
	}
	var edges []edge
	var targets []string
	done := map[string]bool{}
	for _, dir := range dirs {
		a := j.agents[dir]
		if done[dir] || a == nil {
			continue
		}
		done[dir] = true
		for _, imp := range a.imports {
			if refFault(imp.ref, false) != "" {
				continue
			}
			to, ok := localRef(dir, imp.ref)
			switch {
			case !ok:
				j.importFault(RefOutside, dir, imp, "leaves the bundle")
			case to == dir:
				j.importFault(ImportCycle, dir, imp, "is the agent itself")
			case !j.file(agentFile(to)):
				j.importFault(RefMissing, dir, imp, "leads to no agent.yaml")
			default:
				edges = append(edges, edge{dir, to, imp})
				targets = append(targets, to)
			}
		}
	}
	faults, err := j.load(targets)
	if err != nil {
		return err
	}
	for _, dir := range sortedKeys(faults) {
		j.fault(faults[dir]...)
	}
	for _, e := range edges {
		checkImport(j.agents[e.to], e.ref, func(code, why string) { j.importFault(code, e.from, e.ref, why) })
	}
	return nil
}

// checkImport judges an import by what it leads to.
func checkImport(to *agentSpec, ref importRef, fault func(code, why string)) {
	if to == nil {
		return
	}
	if ref.version != "" && ref.version != to.version {
		fault(ImportVersion, fmt.Sprintf("has version %s, asked is %s", finding.QuoteMax(to.version, 40), finding.QuoteMax(ref.version, 40)))
	}
	if len(to.imports) > 0 {
		fault(ImportNested, "has imports of its own")
	}
}

func (j *judge) importFault(code, dir string, imp importRef, why string) {
	f := bundle.Faultf(code, agentFile(dir), "import %s %s", finding.QuoteMax(imp.ref, 100), why)
	f.Field, f.Line, f.Column = imp.field, imp.at.line, imp.at.col
	j.fault(f)
}

// startupNotes notes startup files and resources that are not there.
func (j *judge) startupNotes(root string) {
	j.rig.eachStartup(func(s *startup) { missingStartup(s, root, j.file, j.note) })
	for _, p := range j.rig.policies() {
		if p = path.Join(root, p); !j.file(p) {
			j.note(NotePolicyMissing, p, "a permission policy is not there", false)
		}
	}
	if s := j.rig.svc; s != nil && s.compose != "" && !j.file(path.Join(root, s.compose)) {
		j.note(NoteComposeMissing, path.Join(root, s.compose), "the compose file of the services is not there", false)
	}
	if id := j.man.configuration(); id != "" && id != configurationID(j.rig.runtimesOf()) {
		j.note(NoteConfigurationDiffers, manifestName, "the manifest says that the rig is built as "+finding.QuoteMax(id, 200)+
			", its rig.yaml says otherwise", false)
	}
	pool := j.man.content.pool()
	for _, dir := range sortedKeys(j.agents) {
		j.agents[dir].missing(dir, j.file, j.there, j.note)
		j.agents[dir].looseSkills(dir, pool, j.note)
	}
}

// eachStartup calls fn for all startup blocks: rig, pods, members.
func (r *rigSpec) eachStartup(fn func(*startup)) {
	fn(r.startup)
	for _, p := range r.pods {
		fn(p.startup)
		for _, m := range p.members {
			fn(m.startup)
		}
	}
}

type noteFunc func(code, path, detail string, soft bool)

func missingStartup(s *startup, dir string, file func(string) bool, note noteFunc) {
	if s == nil {
		return
	}
	for _, f := range s.files {
		if f.host != "" {
			note(NoteResourceOutside, dir, "startup file "+finding.QuoteMax(f.host, 100)+
				" is resolved by the host that runs the rig, it is not part of the bundle", !f.required)
			continue
		}
		if p := path.Join(dir, f.path); f.path != "" && !file(p) {
			note(NoteStartupMissing, p, "a startup file is not there", !f.required)
		}
	}
}

// missing notes what an agent declares and its directory does not have.
func (a *agentSpec) missing(dir string, file, there func(string) bool, note noteFunc) {
	missingStartup(a.startup, dir, file, note)
	for _, name := range sortedKeys(a.profiles) {
		missingStartup(a.profiles[name].startup, dir, file, note)
	}
	for _, r := range a.resources {
		switch p, inside := r.inside(dir); {
		case r.host:
			note(NoteResourceOutside, dir, r.field+" "+finding.QuoteMax(r.path, 100)+
				" is resolved by the host that runs the rig, it is not part of the bundle", false)
		case !inside:
			note(NoteResourceOutside, dir, "plugin path "+finding.QuoteMax(r.path, 100)+" lies outside the agent", false)
		case !there(p):
			note(NoteResourceMissing, p, "a declared resource is not there", false)
		}
	}
}

// looseSkills notes the skills that an agent uses without declaring them,
// unless they are in the rig's own pool or may come from an import.
func (a *agentSpec) looseSkills(dir string, pool map[string]bool, note noteFunc) {
	if len(a.imports) > 0 {
		return
	}
	for _, s := range a.loose {
		if !pool[s.id] {
			note(NoteResourceOutside, agentFile(dir), s.field+" "+finding.QuoteMax(s.id, 60)+
				" is declared nowhere, the host that runs the rig looks it up", false)
		}
	}
}

// policies are the files of permission policies, from the rig's directory.
func (r *rigSpec) policies() (out []string) {
	add := func(p policyRef) {
		if p.path != "" && !slices.Contains(out, p.path) {
			out = append(out, p.path)
		}
	}
	add(r.policy)
	for _, p := range r.pods {
		for _, m := range p.members {
			add(m.policy)
		}
	}
	return out
}

// inside returns where a resource of the agent in dir lies in the bundle, not
// ok if that is outside the agent's directory.
func (r *resource) inside(dir string) (string, bool) {
	switch {
	case r.host:
		return "", false
	case !r.plugin:
		return path.Join(dir, r.path), true
	case path.IsAbs(r.path) || strings.Contains(r.path, `\`) || !bundle.Printable(r.path):
		return "", false
	}
	p, ok := resolveRef(dir, r.path)
	return p, ok && (dir == "." || p == dir || strings.HasPrefix(p, dir+"/"))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// first returns the first of a list that is meant, nil if none is.
func first[T any](list []T, meant func(T) bool) *T {
	if i := slices.IndexFunc(list, meant); i >= 0 {
		return &list[i]
	}
	return nil
}
