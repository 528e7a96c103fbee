package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/sshsign"
)

const codeRuntime = "runtime-missing"

// rigVerbs are the verbs of RigBundles (spec/rigbundle.md section 18.1).
func rigVerbs() []*verb {
	rigRoot := flagSpec{name: "--rig-root", value: "DIR", help: "directory that the rig's own paths belong to, by default that of SPEC"}
	sourceRoot := flagSpec{name: "--source-root", value: "DIR", help: "nothing outside is read; by default the top of the git work tree, or the rig root"}
	from := flagSpec{name: "--from", value: "REV", help: "take every file from the blobs of this commit"}
	services := flagSpec{name: "--drop-services", help: "leave the rig's services out"}
	form := flagSpec{name: "--form", value: "NAME", words: []string{rig.FormRigward, rig.FormOpenRig}, help: "rigward (default) or openrig-0.4, the choices of older packers"}
	missing := flagSpec{name: "--allow-missing-digest", help: "take a bundle without a digest file beside it"}
	digest := flagSpec{name: "--sha256-file", value: "FILE", help: "digest file, instead of FILE.sha256 beside the bundle"}
	strict := flagSpec{name: "--strict", value: "NAME,…", optional: true, words: rig.StrictNotes(), help: "make notes errors: all that stand for doubt, or those named"}
	target := flagSpec{name: "--target", value: "DIR", help: "directory that the bundle's files belong to"}
	plan := flagSpec{name: "--plan", help: "print what would be done and write nothing"}
	backup := flagSpec{name: "--backup", help: "move changed and foreign files aside"}
	signed := []flagSpec{
		{name: "--allowed-signers", value: "FILE", help: "whose signatures count, as ssh-keygen reads it"},
		{name: "--signer", value: "PRINCIPAL", help: "who must have signed"},
		{name: "--signature", value: "FILE", help: "signature, instead of FILE.sig beside the bundle"},
		{name: "--require-signature", help: "refuse a bundle that nobody has signed"},
	}
	with := func(flags []flagSpec, more ...flagSpec) []flagSpec {
		return slices.Concat([]flagSpec{jsonFlag, limitFlag}, flags, more)
	}
	source := []flagSpec{rigRoot, sourceRoot, from, services, form}
	return []*verb{
		{name: "create", format: "rig", args: "SPEC", short: "pack a rig with all that it refers to", run: rigCreate, flags: with(source, strict,
			flagSpec{name: "--output", alias: "-o", value: "FILE", help: "bundle to write, its name ends in .rigbundle"},
			flagSpec{name: "--name", value: "NAME", help: "name of the bundle, by default the rig's"},
			flagSpec{name: "--bundle-version", value: "V", help: "version of the bundle, by default 0.1.0"},
			flagSpec{name: "--created-at", value: "TIME", help: "RFC 3339, by default SOURCE_DATE_EPOCH or the commit's time"},
			flagSpec{name: "--notes", value: "TEXT", help: "notes in the provenance"},
			flagSpec{name: "--provenance", value: "KEY=VALUE", many: true, help: "a field of the provenance"},
			flagSpec{name: "--min-daemon-version", value: "V", help: "oldest daemon that can run the rig"},
			flagSpec{name: "--min-cli-version", value: "V", help: "oldest client that can run the rig"})},
		{name: "inspect", format: "rig", args: "FILE", short: "show what a bundle holds, also a bad one", run: rigInspect, flags: with(nil, missing, digest)},
		{name: "verify", format: "rig", args: "FILE…", short: "judge bundles by all rules", run: rigVerify, flags: with(signed, missing, digest, strict)},
		{name: "ls", format: "rig", args: "FILE", short: "list the members of a bundle", run: rigList, flags: with(nil)},
		{name: "diff", format: "rig", args: "A B", short: "compare two bundles", run: rigDiff, flags: with(nil,
			flagSpec{name: "--ignore-stamp", help: "leave out created_at, provenance and assembler"},
			flagSpec{name: "--format", value: "NAME", words: []string{"text", "markdown"}, help: "text (default) or markdown"})},
		{name: "rebuild", format: "rig", args: "SPEC", short: "prove that a bundle matches its source", run: rigRebuild, flags: with(source,
			flagSpec{name: "--against", value: "FILE", help: "the committed bundle"}, strict)},
		{name: "install", format: "rig", args: "FILE", short: "verify a bundle and put its files below a directory", run: rigInstall, flags: with(signed, target, plan, backup, missing, digest, strict)},
		{name: "uninstall", format: "rig", args: "NAME", short: "remove an installed bundle", run: rigUninstall, flags: with(nil, target)},
		{name: "up", format: "rig", args: "FILE", short: "install a bundle and start its rig with the user's own rig program", run: rigUp, flags: with(signed, target, plan, backup, missing, digest, strict,
			flagSpec{name: "--cwd", value: "DIR", help: "working directory of the members for this run"})},
		{name: "sign", format: "rig", args: "FILE…", short: "write FILE.sig, a detached SSH signature", run: sshSign(rig.Namespace), flags: []flagSpec{jsonFlag, signKey}},
	}
}

// verifyOptions reads the flags that judge a bundle.
func (c *call) rigOptions() (o rig.VerifyOptions, err error) {
	l, err := c.limits(bundle.DefaultLimits())
	if err != nil {
		return o, err
	}
	o.Limits = &l
	o.AllowMissingDigest = c.has("--allow-missing-digest")
	if c.has("--strict") {
		o.Strict = true
		if names := c.get("--strict"); names != "" {
			o.Only = strings.Split(names, ",")
			for _, n := range o.Only {
				if !slices.Contains(rig.StrictNotes(), n) {
					return o, usagef("--strict knows no note %s, only %s", finding.QuoteMax(n, 60), strings.Join(rig.StrictNotes(), ", "))
				}
			}
		}
	}
	o.Signed = bundle.SignatureRules{Signer: c.get("--signer"), Require: c.has("--require-signature"), Now: c.Now()}
	switch name := c.get("--allowed-signers"); {
	case name != "":
		data, err := os.ReadFile(c.path(name))
		if err != nil {
			return o, err
		}
		if o.Signed.Signers, err = sshsign.ParseSigners(data); err != nil {
			return o, err
		}
	case c.has("--signer"), c.has("--require-signature"), c.has("--signature"):
		return o, usagef("signatures are judged with --allowed-signers FILE only")
	}
	return o, nil
}

// openRig opens a bundle with the files beside it.
func (c *call) openRig(ctx context.Context, name string) (in bundle.Input, done func(), err error) {
	f, size, err := bundle.OpenFile(c.path(name))
	if err != nil {
		return in, nil, err
	}
	in = bundle.Input{Name: filepath.Base(name), File: f, Size: size}
	var stop func()
	in.File, stop = c.progress(c.verb.name+" "+finding.Path(in.Name), f, size)
	done = func() { stop(); f.Close() }
	sum := c.path(name) + ".sha256"
	if info, serr := os.Stat(sum); serr == nil && !info.Mode().IsRegular() && !c.has("--sha256-file") {
		in.Checksum = []byte{} // not a file: checksum-format, as any other shape that is none
	} else {
		in.Checksum, err = c.beside("--sha256-file", sum)
	}
	if err == nil {
		in.Signature, err = c.beside("--signature", c.path(name)+".sig")
	}
	if err != nil {
		done()
		return in, nil, err
	}
	return in, done, nil
}

// tell prints a result: in JSON one object, in text the given lines, and notes
// and hints on standard error. It returns the exit status.
func (c *call) tell(v any, r *rig.Result, text func()) int {
	for i := range r.Findings {
		r.Findings[i].Path = bundle.EscapeLine(r.Findings[i].Path)
	}
	for i := range r.Notes {
		r.Notes[i].Path = bundle.EscapeLine(r.Notes[i].Path)
	}
	if c.has("--json") {
		c.json(v)
	} else if text != nil {
		text()
	}
	c.sayFindings(r.Findings)
	c.sayNotes(r.Notes)
	if !r.OK() {
		return exitFindings
	}
	return exitOK
}

func (c *call) sayFindings(fs []bundle.Finding) {
	for i, f := range fs {
		if i == shownNotes {
			c.say("and %d more findings", len(fs)-i)
			break
		}
		if i > 0 {
			c.say("also %s: %s%s", f.Code, place(f), f.Message)
		}
		if f.Hint != "" {
			c.say("hint: %s", f.Hint)
		}
	}
}

// place is the line and column of a finding in its document.
func place(f bundle.Finding) string {
	switch {
	case f.Line > 0 && f.Column > 0:
		return fmt.Sprintf("%s:%d:%d: ", finding.Path(f.Path), f.Line, f.Column)
	case f.Line > 0:
		return fmt.Sprintf("%s:%d: ", finding.Path(f.Path), f.Line)
	}
	return ""
}

func (c *call) sayNotes(notes []bundle.Note) {
	for i, n := range notes {
		if i == shownNotes {
			c.say("and %d more notes", len(notes)-i)
			return
		}
		if n.Path != "" {
			c.say("note: %s: %s: %s", n.Code, finding.Path(n.Path), n.Detail)
		} else {
			c.say("note: %s: %s", n.Code, n.Detail)
		}
	}
}

func rejected(r *rig.Result, name string) string {
	where := ""
	if len(r.Findings) > 0 {
		where = place(r.Findings[0])
	}
	return fmt.Sprintf("%s %s: %s%s", r.Code, finding.Path(name), where, r.Message)
}

func rigVerify(ctx context.Context, c *call) int {
	o, err := c.rigOptions()
	if err == nil {
		err = c.words(1, -1)
	}
	if err == nil && len(c.args) > 1 && (c.has("--sha256-file") || c.has("--signature")) {
		err = usagef("--sha256-file and --signature go with one bundle")
	}
	if err != nil {
		return c.fail(err)
	}
	worst, good := exitOK, false
	for _, name := range c.args {
		in, done, err := c.openRig(ctx, name)
		if err != nil {
			worst = max(worst, c.fail(err))
			continue
		}
		r, err := rig.Verify(ctx, in, o)
		done()
		if err != nil {
			worst = max(worst, c.fail(err))
			continue
		}
		r.File = bundle.EscapeLine(name)
		good = good || r.OK()
		worst = max(worst, c.tell(r, r, func() {
			if r.OK() {
				c.print("ok %s", finding.Path(name))
			} else {
				c.print("%s", rejected(r, name))
			}
		}))
	}
	if good && o.Signed.Signers == nil {
		c.say("the digests show that a bundle is whole, not who made it; --allowed-signers judges signatures")
	}
	return worst
}

func rigInspect(ctx context.Context, c *call) int {
	o, err := c.rigOptions()
	if err == nil {
		err = c.words(1, 1)
	}
	if err != nil {
		return c.fail(err)
	}
	in, done, err := c.openRig(ctx, c.args[0])
	if err != nil {
		return c.fail(err)
	}
	defer done()
	r, err := rig.Inspect(ctx, in, o)
	if err != nil {
		return c.fail(err)
	}
	r.File = bundle.EscapeLine(c.args[0])
	return c.tell(r, &rig.Result{Code: r.Code}, func() { c.printRigInspection(r) })
}

func (c *call) printRigInspection(r *rig.Inspection) {
	q := func(s string) string { return finding.QuoteMax(s, 200) }
	p := finding.Path
	c.print("Bundle: %s v%s", bundle.EscapeLine(oneLine(r.Name)), bundle.EscapeLine(oneLine(r.Version)))
	switch {
	case r.DigestValid == nil:
		c.print("Digest valid: missing")
	default:
		c.print("Digest valid: %t", *r.DigestValid)
	}
	integrity := "FAIL"
	if r.Integrity != nil && r.Integrity.Passed {
		integrity = "PASS"
	}
	c.print("Integrity: %s", integrity)
	c.print("File digest: %s", r.FileDigest)
	if r.TarDigest != "" {
		c.print("Tar digest: %s", r.TarDigest)
	}
	if r.Form != "" {
		c.print("Form: %s", r.Form)
	}
	for _, a := range r.Agents {
		c.print("Agent: %s %s at %s", q(a.Name), q(a.Version), p(a.Path))
	}
	for _, line := range r.Content {
		c.print("Content: %s", bundle.EscapeLine(oneLine(line)))
	}
	if r.CreatedAt != "" {
		c.print("Created at: %s", bundle.EscapeLine(oneLine(r.CreatedAt)))
	}
	if r.Provenance != nil {
		if b, err := r.Provenance.MarshalJSON(); err == nil {
			c.print("Provenance (claimed, not proved): %s", bundle.EscapeLine(string(b)))
		}
	}
	if r.Counts != nil {
		c.print("Contents: %s, %s", count(r.Counts.Files, "file"), count(r.Counts.Bytes, "byte"))
	}
	for _, f := range r.Largest {
		c.print("Largest: %d bytes %s", f.Size, p(f.Path))
	}
	for _, a := range r.StartupActions {
		c.print("Startup action: %s", bundle.EscapeLine(oneLine(a)))
	}
	for _, f := range r.Faults {
		c.print("%s: %s%s", f.Code, place(f), f.Message)
	}
	for _, n := range r.Notes {
		c.print("note %s: %s %s", n.Code, p(n.Path), n.Detail)
	}
	c.print("The digests show that the bundle is whole, not who made it.")
}

// oneLine keeps a value from leaving its line.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

func rigList(ctx context.Context, c *call) int {
	o, err := c.rigOptions()
	if err == nil {
		err = c.words(1, 1)
	}
	if err != nil {
		return c.fail(err)
	}
	in, done, err := c.openRig(ctx, c.args[0])
	if err != nil {
		return c.fail(err)
	}
	defer done()
	o.AllowMissingDigest = true
	r, err := rig.Inspect(ctx, in, o)
	if err != nil {
		return c.fail(err)
	}
	if c.has("--json") {
		c.json(struct {
			Schema  string         `json:"schema_version"`
			Command string         `json:"command"`
			Code    string         `json:"code"`
			Message string         `json:"message"`
			File    string         `json:"file"`
			Files   []rig.FileInfo `json:"files"`
		}{"1.0", "ls", r.Code, r.Message, bundle.EscapeLine(c.args[0]), r.Files})
	} else {
		for _, f := range r.Files {
			c.print("%s %10d %s", f.Mode, f.Size, finding.Path(f.Path))
		}
	}
	if !r.OK() {
		c.say("%s", rejected(&r.Result, c.args[0]))
		return exitFindings
	}
	return exitOK
}

// rigSource finds source root, rig root and SPEC. A fault says that SPEC lies
// outside. done releases what was opened.
func (c *call) rigSource(ctx context.Context, spec, output string) (src *rig.Source, o rig.Options, fault *bundle.Finding, done func(), err error) {
	var closers []func()
	release := func() {
		for _, fn := range closers {
			fn()
		}
	}
	defer func() {
		if err != nil || fault != nil {
			release()
		}
	}()
	o = rig.Options{DropServices: c.has("--drop-services"), Form: c.get("--form"), Now: c.Now}
	if f := o.Form; f != "" && f != rig.FormRigward && f != rig.FormOpenRig {
		return nil, o, nil, nil, usagef("--form is %s or %s", rig.FormRigward, rig.FormOpenRig)
	}
	specPath := c.path(spec)
	rigRoot := filepath.Dir(specPath)
	if c.has("--rig-root") {
		rigRoot = filepath.Clean(c.path(c.get("--rig-root")))
	}
	if c.has("--from") {
		if c.has("--source-root") {
			return nil, o, nil, nil, usagef("with --from the source root is the top of the repository")
		}
		repo, ok, err := c.openRepo(ctx, rigRoot)
		if err == nil && !ok {
			err = gitError(fmt.Errorf("--from needs a git repository"))
		}
		if err != nil {
			return nil, o, nil, nil, err
		}
		closers = append(closers, func() { repo.Close() })
		id, err := repo.Resolve(ctx, c.get("--from"))
		if err != nil {
			return nil, o, nil, nil, gitError(err)
		}
		commit, err := repo.Commit(id)
		if err != nil {
			return nil, o, nil, nil, gitError(err)
		}
		when := time.Unix(commit.Committer.When, 0)
		o.CommitTime = &when
		src = &rig.Source{Tree: gitTree{bundle.NewGitSource(newGitObjects(repo), commit.Tree)}}
		top := repo.WorkTree()
		if top == "" { // a bare repository: paths are those of the tree
			top = c.Dir
		}
		fault = locate(src, top, rigRoot, specPath)
		if rel, ok := below(top, output); ok && output != "" {
			src.Output = rel
		}
		return src, o, fault, release, nil
	}
	repo, ok, err := c.openRepo(ctx, rigRoot)
	if err != nil {
		if !c.has("--source-root") {
			return nil, o, nil, nil, err
		}
		c.say("note: git can't be asked: %s", errorText(err))
		repo, ok = nil, false
	}
	root := rigRoot
	switch {
	case c.has("--source-root"):
		root = filepath.Clean(c.path(c.get("--source-root")))
	case ok && repo.WorkTree() != "":
		root = repo.WorkTree()
	}
	tree, err := bundle.OpenDirSource(root)
	if err != nil {
		return nil, o, nil, nil, err
	}
	closers = append(closers, func() { tree.Close() })
	src = &rig.Source{Tree: tree, Abs: root}
	if fault = locate(src, root, rigRoot, specPath); fault != nil {
		return nil, o, fault, nil, nil
	}
	if output != "" {
		if rel, ok := below(root, output); ok {
			src.Output = rel
		}
	}
	if ok {
		closers = append(closers, func() { repo.Close() })
		if prefix, inside := below(repo.WorkTree(), root); inside && repo.WorkTree() != "" {
			h, err := openHead(repo, prefix)
			if err != nil {
				return nil, o, nil, nil, gitError(err)
			}
			if h != nil {
				src.Head = h
			}
		}
	}
	return src, o, nil, release, nil
}

// gitTree marks what goes wrong in a commit's tree as a matter of git.
type gitTree struct{ *bundle.GitSource }

func (t gitTree) Lstat(name string) (bundle.Item, error) {
	it, err := t.GitSource.Lstat(name)
	return it, gitCause(err)
}

func (t gitTree) ReadDir(name string) ([]bundle.Item, error) {
	items, err := t.GitSource.ReadDir(name)
	return items, gitCause(err)
}

func gitCause(err error) error {
	var e *gitrepo.Error
	var tree *gitrepo.MalformedTreeError
	if errors.As(err, &e) || errors.As(err, &tree) {
		return gitError(err)
	}
	return err
}

// locate sets SPEC and rig root relative to the source root.
func locate(src *rig.Source, root, rigRoot, spec string) *bundle.Finding {
	var ok bool
	if src.RigRoot, ok = below(root, rigRoot); !ok {
		return bundle.Faultf(rig.RefOutside, "", "the rig root lies outside the source root %s", finding.QuoteMax(root, 200))
	}
	if src.Spec, ok = below(root, spec); !ok {
		return bundle.Faultf(rig.RefOutside, "", "SPEC lies outside the source root %s", finding.QuoteMax(root, 200))
	}
	return nil
}

// below returns a path relative to a root, with slashes, if it lies below it:
// by its components, else where links of the system lead.
func below(root, name string) (string, bool) {
	rel := func(root, name string) (string, bool) {
		r, err := filepath.Rel(root, name)
		r = filepath.ToSlash(r)
		return r, err == nil && r != ".." && !strings.HasPrefix(r, "../")
	}
	if r, ok := rel(root, name); ok {
		return r, true
	}
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", false
	}
	realName, err := filepath.EvalSymlinks(name)
	if err != nil {
		dir, derr := filepath.EvalSymlinks(filepath.Dir(name))
		if derr != nil {
			return "", false
		}
		realName = filepath.Join(dir, filepath.Base(name))
	}
	return rel(realRoot, realName)
}

// stamps reads the flags that create writes into the manifest.
func (c *call) stamps(o *rig.Options) error {
	o.Name, o.Version, o.CreatedAt = c.get("--name"), c.get("--bundle-version"), c.get("--created-at")
	for _, f := range []string{"--name", "--bundle-version", "--created-at"} {
		if c.has(f) && c.get(f) == "" {
			return usagef("%s is empty", f)
		}
	}
	if o.CreatedAt != "" {
		if !rig.IsRFC3339(o.CreatedAt) {
			return usagef("--created-at takes an RFC 3339 time, as 2026-01-02T03:04:05Z")
		}
	} else if s := c.Getenv("SOURCE_DATE_EPOCH"); s != "" {
		n, ok := rig.ParseEpoch(s)
		if !ok {
			return usagef("SOURCE_DATE_EPOCH is no decimal number from 0 to 8589934591")
		}
		o.Epoch = &n
	}
	o.Provenance = map[string]string{}
	for _, kv := range c.all("--provenance") {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || !slices.Contains(rig.ProvenanceKeys(), k) {
			return usagef("--provenance takes KEY=VALUE with KEY one of %s", strings.Join(rig.ProvenanceKeys(), ", "))
		}
		o.Provenance[k] = v
	}
	if c.has("--notes") {
		o.Provenance["notes"] = c.get("--notes")
	}
	o.Compatibility = map[string]string{}
	for flag, key := range map[string]string{"--min-daemon-version": "min_daemon_version", "--min-cli-version": "min_cli_version"} {
		if c.has(flag) {
			o.Compatibility[key] = c.get(flag)
		}
	}
	return nil
}

func rigCreate(ctx context.Context, c *call) int {
	v, err := c.rigOptions()
	if err == nil {
		err = c.words(1, 1)
	}
	output := c.get("--output")
	if err == nil && !strings.HasSuffix(output, rig.Ext) {
		err = usagef("create needs -o FILE%s", rig.Ext)
	}
	if err != nil {
		return c.fail(err)
	}
	src, o, fault, done, err := c.rigSource(ctx, c.args[0], c.path(output))
	if err != nil {
		return c.fail(err)
	}
	if fault != nil {
		r := rig.NewResult("create").Fail(fault)
		return c.tell(r, r, func() { c.print("%s", rejected(r, c.args[0])) })
	}
	defer done()
	if err := c.stamps(&o); err != nil {
		return c.fail(err)
	}
	stop := c.spin("create " + finding.Path(output))
	r, err := rig.Create(ctx, src, o, c.path(output), v)
	stop()
	if err != nil {
		return c.fail(err)
	}
	if r.OK() {
		r.File = bundle.EscapeLine(output)
	}
	return c.tell(r, r, func() {
		if r.OK() {
			c.print("%s", bundle.EscapeLine(output))
		} else {
			c.print("%s", rejected(r, c.args[0]))
		}
	})
}

func rigRebuild(ctx context.Context, c *call) int {
	v, err := c.rigOptions()
	if err == nil {
		err = c.words(1, 1)
	}
	if err == nil && !c.has("--against") {
		err = usagef("rebuild needs --against FILE")
	}
	if err != nil {
		return c.fail(err)
	}
	name := c.get("--against")
	in, closeFile, err := c.openRig(ctx, name)
	if err != nil {
		return c.fail(err)
	}
	defer closeFile()
	src, o, fault, done, err := c.rigSource(ctx, c.args[0], c.path(name))
	if err != nil {
		return c.fail(err)
	}
	if fault != nil {
		r := rig.NewResult("rebuild").Fail(fault)
		return c.tell(r, r, func() { c.print("%s", rejected(r, c.args[0])) })
	}
	defer done()
	r, err := rig.Rebuild(ctx, in, src, o, v)
	if err != nil {
		return c.fail(err)
	}
	r.File = bundle.EscapeLine(name)
	head := &rig.Result{Code: r.Code, Message: r.Message, Findings: r.Findings, Notes: r.Notes}
	return c.tell(r, head, func() {
		switch {
		case r.Code == rig.OK:
			c.print("ok %s", finding.Path(name))
		case r.Code != rig.TarDiffers:
			c.print("%s", rejected(head, name))
		default:
			for _, d := range r.Drift {
				c.print("%s %s", d.Change, finding.Path(d.Path))
			}
			for _, m := range r.Manifest {
				c.print("manifest %s: %s -> %s", finding.Path(m.Field), bundle.EscapeLine(string(m.A)), bundle.EscapeLine(string(m.B)))
			}
		}
	})
}

func rigInstall(ctx context.Context, c *call) int {
	o, err := c.rigOptions()
	if err == nil {
		err = c.words(1, 1)
	}
	if err == nil && !c.has("--target") && !c.has("--plan") {
		err = usagef("install needs --target DIR, or --plan to list the contents")
	}
	if err != nil {
		return c.fail(err)
	}
	in, done, err := c.openRig(ctx, c.args[0])
	if err != nil {
		return c.fail(err)
	}
	defer done()
	r, err := rig.Install(ctx, in, rig.InstallOptions{Target: c.path(c.get("--target")), Plan: c.has("--plan"), Backup: c.has("--backup"), Verify: o})
	if err != nil {
		return c.fail(err)
	}
	return c.tellInstall(ctx, r, c.args[0], nil)
}

func (c *call) tellInstall(ctx context.Context, r *rig.InstallResult, file string, runs []string) int {
	if len(r.Findings) > 0 && c.isAgentBundle(ctx, file) {
		r.Findings[0].Hint = "an agent bundle is staged, not installed: rig-bundle stage " + finding.Path(file) + " --base IMAGE --out DIR"
	}
	r.File = bundle.EscapeLine(file)
	target := c.get("--target")
	r.Target = bundle.EscapeLine(target)
	for i := range r.Plan {
		r.Plan[i].Path = bundle.EscapeLine(r.Plan[i].Path)
	}
	if r.Recovered {
		c.say("an interrupted run was undone first")
	}
	return c.tell(r, &r.Result, func() {
		switch {
		case c.has("--plan") && (r.OK() || len(r.Plan) > 0):
			c.printPlan(r, runs)
		case r.OK():
			c.print("installed %s %s in %s: %s", bundle.EscapeLine(r.Name), bundle.EscapeLine(r.Version), finding.Path(target), count(len(r.Plan), "file"))
		default:
			c.print("%s", rejected(&r.Result, file))
		}
	})
}

// isAgentBundle reports whether a file is of that format rather than another.
func (c *call) isAgentBundle(ctx context.Context, name string) bool {
	probe, done, err := probePath(ctx, c.path(name))
	if err != nil {
		return false
	}
	defer done()
	f := bundle.Choose(probe, formats())
	return f != nil && f.Name() == agent.Format{}.Name()
}

func (c *call) printPlan(r *rig.InstallResult, runs []string) {
	for _, a := range r.Plan {
		c.print("%-8s %s", a.Action, finding.Path(a.Path))
	}
	for _, a := range r.Agents {
		c.print("agent    %s %s at %s", finding.QuoteMax(a.Name, 100), finding.QuoteMax(a.Version, 60), finding.Path(a.Path))
	}
	for _, rt := range r.Runtimes {
		c.print("runtime  %s", finding.QuoteMax(rt, 60))
	}
	for _, a := range r.StartupActions {
		c.print("startup  %s", bundle.EscapeLine(oneLine(a)))
	}
	if runs != nil {
		for i, a := range runs {
			runs[i] = finding.Path(a)
		}
		c.print("run      %s", strings.Join(runs, " "))
	}
}

func rigUninstall(ctx context.Context, c *call) int {
	err := c.words(1, 1)
	if err == nil && !c.has("--target") {
		err = usagef("uninstall needs --target DIR")
	}
	if err != nil {
		return c.fail(err)
	}
	r, err := rig.Uninstall(ctx, c.args[0], c.path(c.get("--target")))
	if err != nil {
		return c.fail(err)
	}
	r.Target = bundle.EscapeLine(c.get("--target"))
	if r.Recovered {
		c.say("an interrupted run was undone first")
	}
	return c.tell(r, &r.Result, func() {
		if r.Code == rig.InstallNotFound {
			c.print("%s", rejected(&r.Result, c.args[0]))
			return
		}
		c.print("removed %s: %s", bundle.EscapeLine(r.Name), count(len(r.Plan), "file"))
		for _, p := range r.Paths {
			c.print("%s %s: changed since it was installed, kept", rig.InstallModified, finding.Path(p))
		}
	})
}

func rigUp(ctx context.Context, c *call) int {
	o, err := c.rigOptions()
	if err == nil {
		err = c.words(1, 1)
	}
	if err != nil {
		return c.fail(err)
	}
	target := filepath.Clean(c.Dir)
	if c.has("--target") {
		target = filepath.Clean(c.path(c.get("--target")))
	}
	program, err := c.findRig(target)
	if err != nil {
		return c.fail(err)
	}
	in, done, err := c.openRig(ctx, c.args[0])
	if err != nil {
		return c.fail(err)
	}
	r, err := rig.Install(ctx, in, rig.InstallOptions{Target: target, Plan: c.has("--plan"), Backup: c.has("--backup"), Verify: o})
	done()
	if err != nil {
		return c.fail(err)
	}
	args := []string{program, "up", filepath.Join(target, filepath.FromSlash(r.RigSpec))}
	if c.has("--cwd") {
		args = append(args, "--cwd", filepath.Clean(c.path(c.get("--cwd"))))
	}
	if !r.OK() || c.has("--plan") {
		return c.tellInstall(ctx, r, c.args[0], args)
	}
	c.sayNotes(r.Notes)
	status, err := c.Exec(program, args, c.Environ)
	if err != nil {
		return c.fail(err)
	}
	return status
}

// findRig looks for the rig program on PATH: absolute entries only, none
// inside the target.
func (c *call) findRig(target string) (string, error) {
	for _, dir := range filepath.SplitList(c.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if _, inside := below(target, filepath.Clean(dir)); inside {
			continue
		}
		for _, name := range rigPrograms {
			p := filepath.Join(dir, name)
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && runnable(info) {
				return p, nil
			}
		}
	}
	return "", &codedError{codeRuntime, fmt.Errorf("there is no rig program on PATH")}
}
