package rig

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Source is the tree that a bundle is assembled from.
type Source struct {
	Tree    bundle.Source // rooted at the source root: nothing outside is read
	Spec    string        // path of the RigSpec below the source root
	RigRoot string        // directory that the rig's own paths belong to, "." for the source root
	Abs     string        // absolute path of the source root for path: refs; "" for a commit, where they are outside
	Output  string        // path of the output below the source root, which is left out; "" if it lies elsewhere
	Head    Head          // nil without a commit to compare with
}

// Head is the commit that a work tree is compared with.
type Head interface {
	// Lookup returns the object id of the blob at a path below the source
	// root, "" if there is none.
	Lookup(name string) (id string, err error)
	// Blob returns a blob's content.
	Blob(id string) ([]byte, error)
	// Hash returns a new hash of the repository's object format.
	Hash() hash.Hash
	// Time is the committer time.
	Time() time.Time
}

// Options are what the caller decides about a bundle.
type Options struct {
	Name          string // "": the rig's name
	Version       string // "": 0.1.0
	CreatedAt     string // written as it is; "": Epoch, Time, Head or Now decide
	Epoch         *int64 // SOURCE_DATE_EPOCH
	CommitTime    *time.Time
	Now           func() time.Time
	Provenance    map[string]string // by field; written if it is not empty
	Compatibility map[string]string // min_daemon_version, min_cli_version
	DropServices  bool
	Preset        string   // of configurations.yaml; "" for the rig as it is written
	Seats         []string // `pod.member=runtime`, after the preset
	ContextPacks  []string // directories of context packs below the source root
	Form          string   // FormRigward or FormOpenRig; "": FormRigward
	Stamps        *Stamps  // nil: a bundle without a predecessor
}

// file is one member to be.
type file struct {
	dest    string
	src     string          // below the source root; "" if content is generated
	content []byte          // generated
	have    bool            // content is set
	mode    uint32          // of the member
	size    int64           // of the source
	fault   *bundle.Finding // link or type
	hash    bundle.Digest
	hashed  bool // hash is known
	listed  bool // in the manifest's map
}

// vendored is an agent's directory that goes into the bundle.
type vendored struct {
	dir    string // below the source root
	spec   *agentSpec
	data   []byte      // agent.yaml as it stands
	byUser bool        // a member uses it
	ref    string      // the member's spelling
	to     []*vendored // what its imports lead to, nil for a faulty one
}

func (v *vendored) dest() string { return "agents/" + v.spec.name }

// assembly is the state of a create (docs/spec/rigbundle.md#create). Faults are kept by step; the first
// step that has any decides.
type assembly struct {
	notes
	ctx    context.Context
	src    *Source
	opt    *Options
	rig    *rigSpec
	steps  [9][]*bundle.Finding
	files  []*file
	byDir  map[string]*vendored
	order  []*vendored
	refs   map[*node]string
	loose  map[string]bool // destinations whose mode the older form keeps: content directories
	cul    bool            // the culture file was collected
	lists  contentLists
	pre    *node           // preconditions of the author; nil if there are none
	compat *node           // compatibility of the author
	conf   *configurations // nil without configurations.yaml, and in the older form
	chose  []pair          // the configuration that is built
	specs  []string        // source files that go in rewritten
	sum    hash.Hash       // of the file that is being read
	clean  bool            // every source file is equal to HEAD
}

func (a *assembly) fault(step int, f ...*bundle.Finding) { a.steps[step] = append(a.steps[step], f...) }

func (a *assembly) take(step int, c *checker) {
	a.fault(step, c.faults...)
	a.of(c)
}

// failed returns the faults of the first step that has any, up to step n.
func (a *assembly) failed(n int) []*bundle.Finding {
	for _, f := range a.steps[:n+1] {
		if len(f) > 0 {
			return f
		}
	}
	return nil
}

func newAssembly(src *Source, opt *Options) *assembly {
	return &assembly{ctx: context.Background(), src: src, opt: opt, notes: newNotes(), byDir: map[string]*vendored{},
		refs: map[*node]string{}, loose: map[string]bool{}, sum: sha256.New(), clean: src.Head != nil}
}

// old reports whether the older form is made, which knows less.
func (a *assembly) old() bool { return a.opt.Form == FormOpenRig }

// assemble carries out the steps of docs/spec/rigbundle.md#create up to the members. Faults come back as such;
// the error means that something could not be read.
func assemble(ctx context.Context, src *Source, opt *Options) (*assembly, []*bundle.Finding, error) {
	a := newAssembly(src, opt)
	a.ctx = ctx
	for _, step := range []func() error{a.readSpec, a.collect, a.author, a.carryPacks} {
		if err := step(); err != nil {
			return nil, nil, err
		}
		if a.rig == nil || len(a.steps[1]) > 0 {
			return a, a.failed(1), nil
		}
	}
	if f := a.failed(6); f != nil {
		return a, f, nil
	}
	if err := a.vendor(); err != nil {
		return nil, nil, err
	}
	if f := a.failed(7); f != nil {
		return a, f, nil
	}
	a.add(&file{dest: "rig.yaml", content: writeRig(a.rig, a.refs), have: true, mode: 0o644, listed: true})
	a.add(&file{dest: manifestName, have: true, mode: 0o644})
	if f := a.members(); f != nil {
		return a, f, nil
	}
	for _, f := range a.files {
		if opt.Form == FormOpenRig && !a.loose[f.dest] {
			f.mode = 0o644
		}
	}
	if err := a.compareSpecs(); err != nil {
		return nil, nil, err
	}
	return a, nil, nil
}

// look describes a source path. A link on the way or at the end is a symlink
// item; nothing there is not ok.
func (a *assembly) look(name string) (it bundle.Item, ok bool, err error) {
	it, err = a.src.Tree.Lstat(name)
	var link *bundle.LinkError
	switch {
	case err == nil:
		return it, true, nil
	case errors.As(err, &link):
		return bundle.Item{Name: path.Base(name), Kind: bundle.KindSymlink}, true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, bundle.ErrNotDir), errors.Is(err, syscall.ENAMETOOLONG):
		return it, false, nil
	}
	return it, false, err
}

func (a *assembly) readSpec() error {
	it, ok, err := a.look(a.src.Spec)
	if err != nil {
		return err
	}
	switch {
	case !ok:
		return &fs.PathError{Op: "open", Path: a.src.Spec, Err: fs.ErrNotExist}
	case it.Kind == bundle.KindDir:
		return fmt.Errorf("%s is a directory, expected a RigSpec", finding.QuoteMax(a.src.Spec, 200))
	}
	data, ok, err := a.document(1, 1, a.src.Spec, it, maxSpec, RigYAML)
	if !ok {
		return err
	}
	a.specs = append(a.specs, a.src.Spec)
	c := &checker{kind: "rig", file: a.src.Spec}
	a.rig = checkRig(c, data, a.opt.DropServices)
	if a.rig == nil || len(c.faults) > 0 {
		a.take(1, c)
		return nil
	}
	if a.old() {
		if s := a.rig.svc; s != nil {
			c.fault(RigServices, "services", s.at, "the form %s can't hold services", FormOpenRig)
			c.faults[0].Hint = "leave them out with --drop-services"
		}
		a.take(1, c)
		return nil
	}
	if err := a.configure(c); err != nil {
		return err
	}
	a.take(1, c)
	return nil
}

// configure reads configurations.yaml and applies what is chosen of it.
func (a *assembly) configure(c *checker) error {
	preset, seats := a.opt.Preset, a.opt.Seats
	if s := a.opt.Stamps; s != nil && preset == "" && seats == nil {
		seats = s.man.seats()
	}
	name := a.inRig(configurationsName)
	it, ok, err := a.look(name)
	if err != nil {
		return err
	}
	if !ok {
		if preset != "" || a.opt.Seats != nil {
			a.fault(1, bundle.Faultf(ConfigurationUndeclared, name, "there is no %s beside the rig that offers a choice", configurationsName))
		}
		return nil
	}
	data, ok, err := a.document(1, 1, name, it, maxSpec, ConfigurationsYAML)
	if !ok {
		return err
	}
	a.specs = append(a.specs, name)
	own := &checker{kind: "configurations", file: name}
	d := checkConfigurations(own, data)
	authored := a.rig.runtimesOf()
	if d != nil && len(own.faults) == 0 {
		d.against(own, authored)
	}
	a.take(1, own)
	if d == nil || len(own.faults) > 0 {
		return nil
	}
	a.conf = d
	var fault *bundle.Finding
	if a.chose, fault = d.choose(authored, preset, seats); fault != nil {
		a.fault(1, fault)
		return nil
	}
	if configurationID(a.chose) == configurationID(authored) {
		return nil
	}
	c.faults, c.notes, c.kept, c.more = nil, nil, nil, nil
	a.rig = checkRigNode(c, d.apply(a.rig.root, a.rig, a.chose), a.opt.DropServices)
	return nil
}

// document reads a document of at most limit bytes; it is not ok if it is no
// file, which is a fault of step kind, or longer, which is one of step size with
// the code.
func (a *assembly) document(kind, size int, name string, it bundle.Item, limit int64, code string) (data []byte, ok bool, err error) {
	if f := kindFault(name, it); f != nil {
		a.fault(kind, f)
		return nil, false, nil
	}
	data, err = bundle.ReadFile(a.src.Tree, name, limit)
	if f := bundle.AsFinding(err); f != nil {
		f.Code = code
		a.fault(size, f)
		return nil, false, nil
	}
	return data, err == nil, err
}

// manifest parses a bundle.yaml and returns its map, nil if there is none.
func (c *checker) manifest(data []byte) *node {
	root, fault := parseYAML(data)
	switch {
	case fault != nil:
		c.yaml(fault)
	case root.kind != kindMap:
		c.fault(ManifestType, "", root, "%s is %v, expected a map", manifestName, root.kind)
	default:
		return root
	}
	return nil
}

// kindFault is source-symlink or source-type, nil for files and directories.
func kindFault(name string, it bundle.Item) *bundle.Finding {
	switch it.Kind {
	case bundle.KindSymlink:
		return bundle.Faultf(SourceSymlink, name, "%s is or lies behind a symlink", finding.QuoteMax(name, 200))
	case bundle.KindOther:
		return bundle.Faultf(SourceType, name, "%s is neither a file nor a directory", finding.QuoteMax(name, 200))
	}
	return nil
}

func (a *assembly) inRig(p string) string { return path.Join(a.src.RigRoot, p) }

// collect is steps 2 to 4: culture file, docs, startup files, agents, imports.
func (a *assembly) collect() error {
	if c := a.rig.culture; c != "" {
		got, err := a.take1(a.inRig(c), c)
		if err != nil {
			return err
		}
		if a.cul = got; !got {
			a.note(NoteCultureMissing, c, "the culture file is not there, it is skipped", false)
		}
	}
	for _, d := range a.rig.docs {
		got, err := a.take1(a.inRig(d.path), d.path)
		if err != nil {
			return err
		}
		if !got {
			f := bundle.Faultf(DocMissing, d.path, "the doc %s is not a file", finding.QuoteMax(d.path, 200))
			f.Line, f.Column = d.at.line, d.at.col
			a.fault(2, f)
		}
	}
	if err := a.rigFiles(); err != nil {
		return err
	}
	if err := a.startupFiles(a.rig.startup); err != nil {
		return err
	}
	for i := range a.rig.pods {
		p := &a.rig.pods[i]
		if err := a.startupFiles(p.startup); err != nil {
			return err
		}
		for k := range p.members {
			m := &p.members[k]
			if err := a.startupFiles(m.startup); err != nil {
				return err
			}
			if err := a.memberAgent(m); err != nil {
				return err
			}
		}
	}
	return a.collisions()
}

// rigFiles collects permission policies and the compose file, which the older
// form does not know.
func (a *assembly) rigFiles() error {
	if a.old() {
		return nil
	}
	one := func(p, code, what string) error {
		got, err := a.take1(a.inRig(p), p)
		if err == nil && !got {
			a.note(code, p, what+" is not there, it is skipped", false)
		}
		return err
	}
	for _, p := range a.rig.policies() {
		if err := one(p, NotePolicyMissing, "a permission policy"); err != nil {
			return err
		}
	}
	if s := a.rig.svc; s != nil && s.compose != "" {
		return one(s.compose, NoteComposeMissing, "the compose file of the services")
	}
	return nil
}

// take1 collects one file. Not got: there is no file.
func (a *assembly) take1(src, dest string) (got bool, err error) {
	it, ok, err := a.look(src)
	if err != nil || !ok || it.Kind == bundle.KindDir {
		return false, err
	}
	a.addItem(src, dest, it)
	return true, nil
}

func (a *assembly) addItem(src, dest string, it bundle.Item) {
	f := &file{dest: dest, src: src, size: it.Size, listed: true, fault: kindFault(src, it)}
	if f.fault == nil {
		f.mode = bundle.NormalMode(it.Mode)
		if it.Mode != f.mode {
			a.note(bundle.NoteModeNormalized, dest, fmt.Sprintf("mode %04o becomes %04o", it.Mode, f.mode), false)
		}
	}
	a.add(f)
}

func (a *assembly) add(f *file) { a.files = append(a.files, f) }

func (a *assembly) startupFiles(s *startup) error {
	if s == nil {
		return nil
	}
	for _, f := range s.files {
		if f.host != "" {
			missingStartup(&startup{files: []startupFile{f}}, a.src.RigRoot, nil, a.note)
		}
		if f.path == "" {
			continue
		}
		got, err := a.take1(a.inRig(f.path), f.path)
		if err != nil {
			return err
		}
		if !got {
			a.note(NoteStartupMissing, f.path, "a startup file is not there, it is skipped", !f.required)
		}
	}
	return nil
}

// resolve returns the directory below the source root that a ref leads to.
func (a *assembly) resolve(dir, ref string) (string, bool) {
	if abs, ok := strings.CutPrefix(ref, "path:"); ok {
		if a.src.Abs == "" {
			return "", false
		}
		rel, err := filepath.Rel(a.src.Abs, filepath.Clean(filepath.FromSlash(abs)))
		if err != nil {
			return "", false
		}
		return resolveRef(".", filepath.ToSlash(rel))
	}
	return localRef(dir, ref)
}

// memberAgent is step 3 for one member, with step 4 for its imports.
func (a *assembly) memberAgent(m *member) error {
	if m.terminal() {
		return nil
	}
	fault := func(code, key string, at *node, format string, args ...any) {
		f := bundle.Faultf(code, a.src.Spec, format, args...)
		f.Field, f.Line, f.Column = dot(m.field, key), at.line, at.col
		a.fault(3, f)
	}
	dir, ok := a.resolve(a.src.RigRoot, m.ref)
	if !ok {
		fault(RefOutside, "agent_ref", m.refNode, "agent_ref %s leaves the source root", finding.QuoteMax(m.ref, 100))
		return nil
	}
	v, missing, err := a.agent(dir)
	if err != nil {
		return err
	}
	if missing {
		fault(RefMissing, "agent_ref", m.refNode, "agent_ref %s leads to no agent.yaml", finding.QuoteMax(m.ref, 100))
		return nil
	}
	if v == nil || v.spec == nil {
		return nil
	}
	if strings.HasPrefix(m.ref, "path:") {
		a.note(NotePathRef, m.ref, "an absolute ref is recorded in the manifest, the digest depends on the place", false)
	}
	if !v.byUser {
		v.byUser, v.ref = true, m.ref
		a.order = append(a.order, v)
	}
	a.refs[m.refNode] = "local:" + v.dest()
	checkUse(m, v.spec, func(code, key string, at *node, msg string) { fault(code, key, at, "%s", msg) })
	return a.importsOf(v)
}

// agent reads an agent's directory once. missing: there is no agent.yaml. v is
// nil if a link or another kind of file stands in the way, which is recorded.
func (a *assembly) agent(dir string) (v *vendored, missing bool, err error) {
	if v, ok := a.byDir[dir]; ok {
		return v, false, nil
	}
	name := agentFile(dir)
	it, ok, err := a.look(name)
	if err != nil {
		return nil, false, err
	}
	if !ok || it.Kind == bundle.KindDir {
		return nil, true, nil
	}
	if f := kindFault(name, it); f != nil {
		a.fault(7, f)
		return nil, false, nil
	}
	v = &vendored{dir: dir}
	a.byDir[dir] = v
	data, ok, err := a.document(7, 3, name, it, maxSpec, AgentYAML)
	if !ok {
		return v, false, err
	}
	v.data = data
	c := &checker{kind: "agent", file: name}
	v.spec = checkAgent(c, data)
	a.take(3, c)
	if v.spec == nil {
		return v, false, nil
	}
	if at := v.spec.nameAt; at != nil && at.kind == kindString && at.text != "" && !safeComponent(at.text) {
		f := bundle.Faultf(AgentName, name, "the agent name %s is not a safe name for a directory", finding.QuoteMax(at.text, 100))
		f.Field, f.Line, f.Column = "name", at.line, at.col
		a.fault(3, f)
	}
	return v, false, nil
}

// importsOf is step 4 for one agent, once.
func (a *assembly) importsOf(v *vendored) error {
	if v.to != nil || v.spec == nil {
		return nil
	}
	v.to = make([]*vendored, len(v.spec.imports))
	for i, imp := range v.spec.imports {
		fault := func(code, why string) {
			f := bundle.Faultf(code, agentFile(v.dir), "import %s %s", finding.QuoteMax(imp.ref, 100), why)
			f.Field, f.Line, f.Column = imp.field, imp.at.line, imp.at.col
			a.fault(4, f)
		}
		if refFault(imp.ref, false) != "" {
			continue // a fault of the AgentSpec
		}
		dir, ok := a.resolve(v.dir, imp.ref)
		switch {
		case !ok:
			fault(RefOutside, "leaves the source root")
			continue
		case dir == v.dir:
			fault(ImportCycle, "is the agent itself")
			continue
		}
		to, missing, err := a.agent(dir)
		if err != nil {
			return err
		}
		if missing {
			fault(RefMissing, "leads to no agent.yaml")
			continue
		}
		if to == nil || to.spec == nil {
			continue
		}
		checkImport(to.spec, imp, fault)
		v.to[i] = to
	}
	return nil
}

// collisions: one name, one directory, over all agents and imports.
func (a *assembly) collisions() error {
	byName := map[string]string{}
	for _, dir := range sortedKeys(a.byDir) {
		v := a.byDir[dir]
		if v.spec == nil || v.spec.name == "" {
			continue
		}
		if first, ok := byName[v.spec.name]; ok {
			a.fault(4, bundle.Faultf(AgentNameCollision, agentFile(dir), "%s and %s both hold an agent named %s",
				finding.QuoteMax(first, 100), finding.QuoteMax(dir, 100), finding.QuoteMax(v.spec.name, 60)))
			continue
		}
		byName[v.spec.name] = dir
	}
	return nil
}

// author is step 6: the content lists of the rig's own bundle.yaml.
func (a *assembly) author() error {
	name := a.inRig(manifestName)
	it, ok, err := a.look(name)
	if err != nil || !ok {
		return err
	}
	if it.Kind == bundle.KindDir {
		a.fault(6, bundle.Faultf(ManifestType, name, "%s is a directory, expected a file", manifestName))
		return nil
	}
	data, ok, err := a.document(7, 6, name, it, bundle.DefaultLimits().Manifest, bundle.LimitManifest)
	if !ok {
		return err
	}
	a.specs = append(a.specs, name)
	c := &checker{kind: "manifest", file: name}
	if root := c.manifest(data); root != nil {
		a.lists = checkContent(c, root)
		if !a.old() {
			if c.preconditions(root) != nil {
				a.pre = root.get("preconditions")
			}
			a.compat = c.compatibility(root)
		}
	}
	a.take(6, c)
	if len(c.faults) > 0 {
		return nil
	}
	return a.takeLists()
}

func (a *assembly) takeLists() error {
	var lookErr error
	is := func(kind bundle.Kind) func(string) bool {
		return func(p string) bool {
			it, ok, err := a.look(a.inRig(p))
			if err != nil && lookErr == nil {
				lookErr = err
			}
			// a link is reported as a member, not as missing
			return ok && (it.Kind == kind || it.Kind == bundle.KindSymlink)
		}
	}
	missing := a.lists.missing(is(bundle.KindFile), is(bundle.KindDir))
	if lookErr != nil {
		return lookErr
	}
	a.fault(6, missing...)
	if len(missing) > 0 {
		return nil
	}
	one := func(list []pathField) error {
		for _, f := range list {
			if _, err := a.take1(a.inRig(f.path), f.path); err != nil {
				return err
			}
		}
		return nil
	}
	if err := one(a.lists.skills); err != nil {
		return err
	}
	for _, f := range a.lists.skills {
		if dir, ok := skillDir(f.path); ok && !a.old() {
			if err := a.tree(a.inRig(dir), dir, true); err != nil {
				return err
			}
		}
	}
	for _, p := range a.lists.plugins {
		if err := a.tree(a.inRig(p.path), p.path, true); err != nil {
			return err
		}
	}
	if err := one(a.lists.workflowSpecs); err != nil {
		return err
	}
	for _, f := range a.lists.contextPacks {
		dir := path.Dir(f.path)
		if err := a.tree(a.inRig(dir), dir, true); err != nil {
			return err
		}
	}
	for _, f := range a.lists.agentImages {
		if err := a.tree(a.inRig(f.path), f.path, true); err != nil {
			return err
		}
	}
	return nil
}

// skillDir returns the directory of a skill that is shared by a rig's agents,
// `skills/NAME`; the whole of it belongs to the skill. Other files are only
// themselves.
func skillDir(p string) (dir string, ok bool) {
	dir = path.Dir(p)
	return dir, path.Base(p) == "SKILL.md" && path.Dir(dir) == "skills"
}

// tree collects a whole directory. Links and special files are collected too,
// with their fault, so that the order of the members decides.
func (a *assembly) tree(src, dest string, loose bool) error {
	it, ok, err := a.look(src)
	if err != nil {
		return err
	}
	if !ok || it.Kind != bundle.KindDir {
		if ok && kindFault(src, it) != nil {
			a.addItem(src, dest, it)
		}
		return nil
	}
	return bundle.WalkSource(a.src.Tree, src, func(name string, it bundle.Item) error {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		if why := bundle.LeftBeside(name, it); why != "" {
			a.note(NoteIgnoredFile, name, why, false)
			if it.Kind == bundle.KindDir {
				return fs.SkipDir
			}
			return nil
		}
		if it.Kind == bundle.KindDir {
			return nil
		}
		rel := dest + strings.TrimPrefix(name, src)
		if src == "." {
			rel = dest + "/" + name
		}
		switch base := path.Base(name); {
		case name == a.src.Output || a.src.Output != "" && name == a.src.Output+".sha256":
			a.note(NoteIgnoredFile, name, "the output itself is left out", false)
			return nil
		case base == ".gitkeep" && a.opt.Form == FormOpenRig && it.Kind == bundle.KindFile && it.Size == 0:
			a.add(&file{dest: rel, src: name, mode: 0o644})
			return nil
		case (base == ".DS_Store" || base == "Thumbs.db" || base == ".gitkeep") && it.Kind == bundle.KindFile:
			a.note(NoteIgnoredFile, name, "a file of this name is left out", false)
			return nil
		}
		if loose {
			a.loose[rel] = true
		}
		a.addItem(name, rel, it)
		return nil
	})
}

// vendor takes the directories of all agents and imports, with rewritten refs.
func (a *assembly) vendor() error {
	for _, dir := range sortedKeys(a.byDir) {
		v := a.byDir[dir]
		to := make([]string, len(v.to))
		for i, t := range v.to {
			if t != nil {
				to[i] = "local:../" + t.spec.name
			}
		}
		data := v.data
		if v.to != nil {
			var fault *bundle.Finding
			if data, fault = rewriteImports(v.data, v.spec, to); fault != nil {
				fault.Path = agentFile(dir)
				a.fault(5, fault)
				continue
			}
		}
		before := len(a.files)
		if err := a.tree(dir, v.dest(), false); err != nil {
			return err
		}
		for _, f := range a.files[before:] {
			if f.src == agentFile(dir) {
				f.content, f.have = data, true
			}
		}
		file := func(p string) bool { it, ok, err := a.look(p); return err == nil && ok && it.Kind == bundle.KindFile }
		there := func(p string) bool { _, ok, err := a.look(p); return err == nil && ok }
		v.spec.missing(dir, file, there, a.note)
		v.spec.looseSkills(dir, a.lists.pool(), a.note)
	}
	return nil
}

// members is step 8: in tar order links and types, names, lengths, secrets,
// two sources for one path; then the whole tree.
func (a *assembly) members() []*bundle.Finding {
	slices.SortStableFunc(a.files, func(x, y *file) int { return Layout{}.Compare(x.dest, y.dest) })
	limits := bundle.DefaultLimits()
	var names []bundle.Name
	kept := a.files[:0]
	for i, f := range a.files {
		var prev *file
		if i > 0 {
			prev = kept[len(kept)-1]
		}
		again := prev != nil && prev.dest == f.dest
		if again && prev.src == f.src && f.src != "" {
			prev.have = prev.have || f.have
			if f.have {
				prev.content = f.content
			}
			continue
		}
		fault := f.fault
		if fault == nil {
			fault = bundle.CheckName(f.dest)
		}
		if fault == nil {
			fault = limits.CheckPath(f.dest)
		}
		if fault == nil && sensitive(f.dest) {
			fault = bundle.Faultf(SensitiveFile, f.dest, "%s has the name of a file that holds secrets", finding.QuoteMax(f.dest, 200))
		}
		if fault == nil && again {
			fault = bundle.Faultf(PathCollision, f.dest, "%s would come from two sources, %s and %s", finding.QuoteMax(f.dest, 200), sourceName(prev.src), sourceName(f.src))
		}
		if fault != nil {
			return []*bundle.Finding{fault}
		}
		kept = append(kept, f)
		names = append(names, bundle.Name{Path: f.dest, Type: bundle.File})
	}
	a.files = kept
	return bundle.CheckTree(names, portable.SimpleFold)
}

func sourceName(src string) string {
	if src == "" {
		return "create itself"
	}
	return finding.QuoteMax(src, 200)
}

// compareSpecs compares with HEAD what goes in rewritten or not at all.
func (a *assembly) compareSpecs() error {
	if a.src.Head == nil {
		return nil
	}
	for _, name := range a.specs {
		data, err := bundle.ReadFile(a.src.Tree, name, 64<<20)
		if err != nil {
			return err
		}
		if err := a.compareHead(name, data); err != nil {
			return err
		}
	}
	return nil
}

// hashFiles reads the files that were not read yet.
func (a *assembly) hashFiles() error {
	for _, f := range a.files {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		if f.hashed || f.dest == manifestName {
			continue
		}
		r, err := a.open(f)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, struct{ io.Reader }{r})
		r.Close()
		if err != nil {
			return err
		}
		if !f.have && n != f.size {
			return fmt.Errorf("%s changed its size while it was read", finding.QuoteMax(f.src, 200))
		}
	}
	return nil
}

const lfsPrefix = "version https://git-lfs.github.com/spec/"

// open gives the content of a file. The first time, reading it to its end
// hashes it for the manifest and compares it with HEAD.
func (a *assembly) open(f *file) (io.ReadCloser, error) {
	if f.have {
		if !f.hashed {
			f.hash, f.hashed = bundle.Sum(f.content), true
			if f.src != "" && a.src.Head != nil {
				data, err := bundle.ReadFile(a.src.Tree, f.src, maxSpec)
				if err != nil {
					return nil, err
				}
				if err := a.compareHead(f.src, data); err != nil {
					return nil, err
				}
			}
		}
		return io.NopCloser(bytes.NewReader(f.content)), nil
	}
	r, err := a.src.Tree.Open(f.src)
	if err != nil || f.hashed {
		return r, err
	}
	s := &sourceFile{ReadCloser: r, a: a, f: f, sum: a.sum}
	s.sum.Reset()
	if head := a.src.Head; head != nil {
		if s.id, err = head.Lookup(f.src); err != nil {
			r.Close()
			return nil, err
		}
		if s.id != "" {
			s.git = head.Hash()
			fmt.Fprintf(s.git, "blob %d\x00", f.size)
		}
	}
	a.clean = a.clean && s.id != ""
	return s, nil
}

// sourceFile is a file of the source on its way into the bundle.
type sourceFile struct {
	io.ReadCloser
	a    *assembly
	f    *file
	sum  hash.Hash
	git  hash.Hash // of the blob that it would be; nil if HEAD has no file here
	id   string    // of the blob that HEAD has
	head []byte    // of a file that may be a Git LFS pointer
}

// Read implements io.Reader.
func (s *sourceFile) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.sum.Write(p[:n])
	if s.git != nil {
		s.git.Write(p[:n])
	}
	if s.f.size <= maxPointer && len(s.head) < len(lfsPrefix) {
		s.head = append(s.head, p[:min(n, len(lfsPrefix))]...)
	}
	if err == io.EOF && !s.f.hashed {
		if ferr := s.finish(); ferr != nil {
			err = ferr
		}
	}
	return n, err
}

// maxPointer is the size that a Git LFS pointer has at most.
const maxPointer = 1024

func (s *sourceFile) finish() error {
	s.sum.Sum(s.f.hash[:0])
	s.f.hashed = true
	if strings.HasPrefix(string(s.head), lfsPrefix) {
		s.a.note(NoteLFSPointer, s.f.dest, "the file is a Git LFS pointer, not the content", false)
	}
	if s.git == nil || hex.EncodeToString(s.git.Sum(nil)) == s.id {
		return nil
	}
	s.a.clean = false
	data, err := bundle.ReadFile(s.a.src.Tree, s.f.src, bundle.DefaultLimits().MemberSize)
	if err != nil {
		return err
	}
	return s.a.lineEnds(s.f.src, s.id, data)
}

// compareHead compares a source file with the blob of HEAD: whether the tree
// is clean, and whether only line ends differ.
func (a *assembly) compareHead(name string, data []byte) error {
	head := a.src.Head
	id, err := head.Lookup(name)
	if err != nil {
		return err
	}
	if id == "" {
		a.clean = false
		return nil
	}
	h := head.Hash()
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	if hex.EncodeToString(h.Sum(nil)) == id {
		return nil
	}
	a.clean = false
	return a.lineEnds(name, id, data)
}

// lineEnds notes a file that differs from a blob by carriage returns only.
func (a *assembly) lineEnds(name, id string, data []byte) error {
	blob, err := a.src.Head.Blob(id)
	if err != nil {
		return err
	}
	if strings.ReplaceAll(string(blob), "\r", "") == strings.ReplaceAll(string(data), "\r", "") {
		a.note(NoteEOLConverted, name, "differs from the commit by carriage returns only; --from takes the committed bytes", false)
	}
	return nil
}

// createdAt decides the time of a bundle (docs/spec/rigbundle.md#create).
func (a *assembly) createdAt() string {
	stamp := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
	switch o := a.opt; {
	case o.Stamps != nil:
		return o.Stamps.man.createdAt
	case o.CreatedAt != "":
		return o.CreatedAt
	case o.Epoch != nil:
		return stamp(time.Unix(*o.Epoch, 0))
	case o.CommitTime != nil:
		return stamp(*o.CommitTime)
	case a.clean && a.src.Head != nil:
		return stamp(a.src.Head.Time())
	default:
		a.note(NoteCreatedAtNow, "", "created_at is the time of this run; --created-at or SOURCE_DATE_EPOCH fixes it", false)
		return stamp(o.Now())
	}
}
