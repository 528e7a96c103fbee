package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/sshsign"
)

// agentVerbs are the verbs of agent bundles (spec/agentbundle.md section 16).
func agentVerbs() []*verb {
	mirror := flagSpec{name: "--mirror", value: "DIR", help: "directory in which gh: references are looked up"}
	target := flagSpec{name: "--target", value: "TARGET", help: "where it is to run: linux/amd64/glibc, darwin/arm64"}
	runtime := flagSpec{name: "--runtime", value: "TYPE@VERSION", help: "what the base image brings, such as node@20.15.1"}
	proof := []flagSpec{
		{name: "--sha256-file", value: "FILE", help: "digest file, instead of FILE.sha256 beside the bundle"},
		{name: "--require-checksum", help: "refuse a bundle for which no digest is known"},
		{name: "--allowed-signers", value: "FILE", help: "whose signatures count, as ssh-keygen reads it"},
		{name: "--signer", value: "PRINCIPAL", help: "who must have signed"},
		{name: "--signature", value: "FILE", help: "signature, instead of FILE.sig beside the bundle"},
		{name: "--require-signature", help: "refuse a bundle that nobody has signed"},
	}
	with := func(flags []flagSpec, more ...flagSpec) []flagSpec {
		return append(append([]flagSpec{jsonFlag, limitFlag}, flags...), more...)
	}
	return []*verb{
		{name: "create", format: "agent", args: "DIR", short: "pack a directory that holds manifest.json", run: agentCreate, flags: with(nil,
			flagSpec{name: "--output", alias: "-o", value: "PATH", help: "directory for the bundle, or its path with the name that the manifest gives"},
			flagSpec{name: "--compression", value: "NAME", words: []string{"gzip", "zstd"}, help: "gzip (default) or zstd"})},
		{name: "inspect", format: "agent", args: "REF", short: "show what a bundle holds", run: agentInspect, flags: with(proof, mirror, target, runtime)},
		{name: "verify", format: "agent", args: "REF…", short: "judge bundles by all rules", run: agentVerify, flags: with(proof, mirror, target, runtime)},
		{name: "diff", format: "agent", args: "REF REF", short: "compare two bundles", run: agentDiff, flags: with(nil, mirror, target)},
		{name: "rebuild", format: "agent", args: "DIR|REF", short: "pack again and compare", run: agentRebuild, flags: with(nil, mirror, target,
			flagSpec{name: "--against", value: "FILE", help: "bundle to compare with, by default REF itself"})},
		{name: "stage", format: "agent", args: "[REF]", short: "prepare an image build context", run: agentStage, flags: with(proof, mirror, target, runtime,
			flagSpec{name: "--base", value: "IMAGE", help: "base image, best with @sha256: digest"},
			flagSpec{name: "--out", value: "DIR", help: "new directory for the context"},
			flagSpec{name: "--source", value: "DIR", help: "build a bundle from this directory instead of taking REF"},
			flagSpec{name: "--lock", value: "FILE", help: "lockfile that belongs to the key of the build"},
			flagSpec{name: "--cache", value: "DIR", help: "where built bundles are kept under their keys"},
			flagSpec{name: "--build-cmd", value: "CMD", help: "command that leaves one bundle in $RIG_BUNDLE_OUT"},
			flagSpec{name: "--print-key", help: "print the key of the build and stop"})},
		{name: "sign", format: "agent", args: "FILE…", short: "write FILE.sig, a detached SSH signature", run: sshSign(agent.Namespace), flags: []flagSpec{jsonFlag, signKey}},
	}
}

// An agentInput is a bundle file that a reference names, with its proof.
type agentInput struct {
	agent.Opened
	close   func() error
	options agent.Options
}

// openAgent resolves a reference and opens what it names. The finding says
// what is wrong with the reference.
func (c *call) openAgent(arg string, o agent.Options) (*agentInput, *bundle.Finding, error) {
	ref, fault := agent.ParseRef(arg)
	if fault != nil {
		return nil, fault, nil
	}
	name, fault, err := ref.Resolve(c.path(c.get("--mirror")), o.Target)
	if fault != nil || err != nil {
		return nil, fault, err
	}
	name = c.path(name)
	f, size, err := bundle.OpenFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &bundle.Finding{Code: "ref-not-found", Message: fmt.Sprintf("there is no file %s", finding.QuoteMax(arg, 200))}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	in := &agentInput{Opened: agent.Opened{Name: name, File: f, Size: size}, close: f.Close, options: o}
	p := &in.options.Proof
	p.SHA256 = ref.SHA256
	if p.Sidecar, err = c.beside("--sha256-file", name+".sha256"); err == nil {
		p.Signature, err = c.beside("--signature", name+".sig")
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return in, nil, nil
}

// beside reads the file that a flag names, or the one beside the bundle; nil
// if that is not there.
func (c *call) beside(flag, name string) ([]byte, error) {
	named := c.has(flag)
	if named {
		name = c.path(c.get(flag))
	}
	f, _, err := bundle.OpenFile(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 64<<10 + 1 // one byte more than either may have
	data, err := io.ReadAll(io.LimitReader(f, most))
	if data == nil {
		data = []byte{}
	}
	return data, err
}

// agentOptions reads the flags that judge a bundle.
func (c *call) agentOptions() (o agent.Options, err error) {
	if o.Limits, err = c.limits(agent.DefaultLimits()); err != nil {
		return o, err
	}
	if o.Target, o.Runtime, err = c.agentTarget(); err != nil {
		return o, err
	}
	o.Proof.RequireChecksum = c.has("--require-checksum")
	o.Proof.Signed = bundle.SignatureRules{Signer: c.get("--signer"), Require: c.has("--require-signature"), Now: c.Now()}
	name := c.get("--allowed-signers")
	if name == "" {
		if c.has("--signer") || c.has("--require-signature") || c.has("--signature") {
			return o, usagef("signatures are judged with --allowed-signers FILE only")
		}
		return o, nil
	}
	data, err := os.ReadFile(c.path(name))
	if err != nil {
		return o, err
	}
	o.Proof.Signed.Signers, err = sshsign.ParseSigners(data)
	return o, err
}

func (c *call) agentTarget() (target *agent.Target, runtime *agent.Runtime, err error) {
	if s := c.get("--target"); s != "" {
		t, err := agent.ParseTarget(s)
		if err != nil {
			return nil, nil, usagef("%v", err)
		}
		target = &t
	}
	if s := c.get("--runtime"); s != "" {
		r, err := agent.ParseRuntime(s)
		if err != nil {
			return nil, nil, usagef("%v", err)
		}
		if target == nil {
			return nil, nil, usagef("--runtime needs --target")
		}
		runtime = &r
	}
	return target, runtime, nil
}

func (c *call) epoch() (int64, error) {
	n, err := agent.ParseEpoch(c.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return 0, usagef("%v", err)
	}
	return n, nil
}

// agentReport is the JSON object of one bundle.
type agentReport struct {
	Schema     string           `json:"schema_version"`
	Command    string           `json:"command"`
	Code       string           `json:"code"`
	Message    string           `json:"message"`
	File       string           `json:"file,omitempty"`
	Member     string           `json:"member,omitempty"`
	FileDigest string           `json:"file_digest,omitempty"`
	TarDigest  string           `json:"tar_digest,omitempty"`
	Name       string           `json:"name,omitempty"`
	Version    string           `json:"version,omitempty"`
	Notes      []bundle.Note    `json:"notes"`
	Findings   []bundle.Finding `json:"findings"`
	*agentDetails
	*agentStaged
}

// agentDetails is what inspect adds.
type agentDetails struct {
	Manifest json.RawMessage `json:"manifest"`
	Counts   struct {
		Files       int   `json:"files"`
		Directories int   `json:"directories"`
		Symlinks    int   `json:"symlinks"`
		Bytes       int64 `json:"bytes"`
	} `json:"counts"`
	FileSize int64         `json:"file_size"`
	TarSize  int64         `json:"tar_size"`
	Largest  []agentMember `json:"largest"`
}

type agentMember struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// agentStaged is what stage adds.
type agentStaged struct {
	Target string `json:"target"`
	Base   string `json:"base"`
	Out    string `json:"out"`
}

// report makes the object of a result; file is the argument as it was given.
func (c *call) agentReport(file string, r *agent.Result) *agentReport {
	v := r.Verdict()
	rep := &agentReport{
		Schema: "1.0", Command: c.verb.name, Code: v.Code, Message: v.Message, File: bundle.EscapeLine(file),
		FileDigest: v.FileDigest.String(), TarDigest: v.TarDigest.String(), Name: v.Name, Version: v.Version,
		Notes: []bundle.Note{}, Findings: []bundle.Finding{},
	}
	for i, f := range v.Findings {
		f.Path = bundle.EscapeLine(f.Path)
		if i == 0 {
			rep.Member = f.Path
		}
		rep.Findings = append(rep.Findings, f)
	}
	for _, n := range v.Notes {
		n.Path = bundle.EscapeLine(n.Path)
		n.Detail = cmp.Or(n.Detail, n.Path)
		rep.Notes = append(rep.Notes, n)
	}
	return rep
}

// tellAgent prints a result and returns its exit status.
func (c *call) tellAgent(rep *agentReport) int {
	if c.has("--json") {
		c.json(rep)
	} else if rep.Code == "ok" {
		c.print("ok %s", finding.Path(rep.File))
		c.digests(rep)
	} else {
		c.print("%s %s: %s", rep.Code, finding.Path(rep.File), rep.Message)
		c.digests(rep)
	}
	c.tellNotes(rep)
	if rep.Code != "ok" {
		return exitFindings
	}
	return exitOK
}

func (c *call) digests(rep *agentReport) {
	if rep.FileDigest != "" {
		c.print("  file digest %s", rep.FileDigest)
	}
	if rep.TarDigest != "" {
		c.print("  tar digest  %s", rep.TarDigest)
	}
}

// shownNotes is how many notes are told on standard error; JSON has them all.
const shownNotes = 20

func (c *call) tellNotes(rep *agentReport) {
	for i, f := range rep.Findings {
		if i > 0 {
			c.say("also %s: %s", f.Code, f.Message)
		}
		if f.Hint != "" {
			c.say("hint: %s", f.Hint)
		}
	}
	for i, n := range rep.Notes {
		if i == shownNotes {
			c.say("and %d more notes", len(rep.Notes)-i)
			return
		}
		if n.Path != "" && n.Path != n.Detail {
			c.say("note: %s: %s: %s", n.Code, finding.Path(n.Path), n.Detail)
		} else {
			c.say("note: %s: %s", n.Code, n.Detail)
		}
	}
}

// faulty is the result of something that went wrong before a bundle was read.
func faulty(f *bundle.Finding) *agent.Result {
	return &agent.Result{Findings: []*bundle.Finding{f}}
}

// judgeAgent opens and verifies what a reference names. The caller closes.
func (c *call) judgeAgent(ctx context.Context, arg string, o agent.Options) (*agent.Result, func() error, error) {
	in, fault, err := c.openAgent(arg, o)
	if err != nil {
		return nil, nil, err
	}
	if fault != nil {
		return faulty(fault), func() error { return nil }, nil
	}
	r, err := agent.Verify(ctx, in.File, in.Size, in.Name, in.options)
	if err != nil {
		in.close()
		return nil, nil, err
	}
	return r, in.close, nil
}

func agentVerify(ctx context.Context, c *call) int {
	o, err := c.agentOptions()
	if err == nil {
		err = c.words(1, -1)
	}
	if err == nil && len(c.args) > 1 && (c.has("--sha256-file") || c.has("--signature")) {
		err = usagef("--sha256-file and --signature go with one bundle")
	}
	if err != nil {
		return c.fail(err)
	}
	worst := exitOK
	for _, arg := range c.args {
		r, done, err := c.judgeAgent(ctx, arg, o)
		if err != nil {
			worst = max(worst, c.fail(err))
			continue
		}
		worst = max(worst, c.tellAgent(c.agentReport(arg, r)))
		done()
	}
	return worst
}

func agentInspect(ctx context.Context, c *call) int {
	o, err := c.agentOptions()
	if err == nil {
		err = c.words(1, 1)
	}
	if err != nil {
		return c.fail(err)
	}
	r, done, err := c.judgeAgent(ctx, c.args[0], o)
	if err != nil {
		return c.fail(err)
	}
	defer done()
	rep := c.agentReport(c.args[0], r)
	if r.Archive == nil {
		return c.tellAgent(rep)
	}
	view := r.Overview()
	d := &agentDetails{Manifest: r.ManifestJSON(), FileSize: view.FileBytes, TarSize: view.TarBytes, Largest: []agentMember{}}
	d.Counts.Files, d.Counts.Directories, d.Counts.Symlinks, d.Counts.Bytes = view.Files, view.Dirs, view.Symlinks, view.Bytes
	for _, m := range view.Largest {
		d.Largest = append(d.Largest, agentMember{bundle.EscapeLine(m.Name), m.Size})
	}
	rep.agentDetails = d
	status := c.tellAgent(rep)
	if c.has("--json") {
		return status
	}
	c.print("file size %d, tar size %d, %v", d.FileSize, d.TarSize, r.Archive.Compression)
	c.print("%s, %s, %s, %s", count(d.Counts.Files, "file"), plural(d.Counts.Directories, "directory", "directories"), count(d.Counts.Symlinks, "symlink"), count(d.Counts.Bytes, "byte"))
	if d.Manifest != nil {
		c.print("manifest %s", d.Manifest)
	}
	for _, m := range d.Largest {
		c.print("%12d %s", m.Size, finding.Path(m.Path))
	}
	return status
}

func agentCreate(ctx context.Context, c *call) int {
	limits, err := c.limits(agent.DefaultLimits())
	if err == nil {
		err = c.words(1, 1)
	}
	o := agent.CreateOptions{Limits: limits, Compression: bundle.Gzip}
	if err == nil {
		o.ModTime, err = c.epoch()
	}
	if err != nil {
		return c.fail(err)
	}
	out, want := c.path(cmp.Or(c.get("--output"), ".")), ""
	if strings.HasSuffix(out, ".tar.gz") || strings.HasSuffix(out, ".tar.zst") {
		out, want = filepath.Dir(out), filepath.Base(out)
	}
	switch name := c.get("--compression"); {
	case name == "zstd" || name == "" && strings.HasSuffix(want, ".zst"):
		o.Compression = bundle.Zstd
	case name != "" && name != "gzip":
		return c.fail(usagef("--compression is gzip or zstd"))
	}
	root := c.path(c.args[0])
	if inside(out, root) {
		return c.fail(usagef("the output would lie in the bundle root and be packed with it, give another directory with -o"))
	}
	src, err := bundle.OpenDirSource(root)
	if err != nil {
		return c.fail(err)
	}
	defer src.Close()
	o.Name = want
	r, err := agent.Create(ctx, src, out, o)
	if err != nil {
		return c.fail(err)
	}
	rep := c.agentReport(c.args[0], r)
	if rep.Code == "ok" {
		rep.File = bundle.EscapeLine(r.File)
	}
	return c.tellAgent(rep)
}

// inside tells whether a directory is root or lies below it, links followed.
func inside(dir, root string) bool {
	top, err := os.Stat(root)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for {
		if info, err := os.Stat(dir); err == nil && os.SameFile(top, info) {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
}

// agentChanges is the JSON object of diff and rebuild.
type agentChanges struct {
	Schema      string         `json:"schema_version"`
	Command     string         `json:"command"`
	Code        string         `json:"code"`
	Message     string         `json:"message"`
	SameBytes   *bool          `json:"same_bytes,omitempty"`
	SameTar     *bool          `json:"same_tar,omitempty"`
	SameContent *bool          `json:"same_content,omitempty"`
	TarDigest   string         `json:"tar_digest,omitempty"`
	Rebuilt     string         `json:"rebuilt_tar_digest,omitempty"`
	Changes     []agent.Change `json:"changes"`
	A           *agentReport   `json:"a,omitempty"`
	B           *agentReport   `json:"b,omitempty"`
}

func (c *call) tellChanges(rep *agentChanges, renames bool) int {
	if c.has("--json") {
		c.json(rep)
	} else {
		for _, ch := range rep.Changes {
			line := ch.Kind + " " + finding.Path(ch.Path)
			if ch.A != nil {
				line += " " + string(ch.A) + " -> " + string(ch.B)
			}
			c.print("%s", line)
		}
		c.print("%s %s", rep.Code, rep.Message)
		if rep.TarDigest != "" {
			c.print("  tar digest         %s", rep.TarDigest)
			c.print("  rebuilt tar digest %s", rep.Rebuilt)
		}
	}
	if renames {
		for _, p := range agent.Renames(rep.Changes) {
			c.say("note: %s has the content of %s", finding.Path(p[1]), finding.Path(p[0]))
		}
	}
	if rep.Code != "ok" {
		return exitFindings
	}
	return exitOK
}

func agentDiff(ctx context.Context, c *call) int {
	limits, err := c.limits(agent.DefaultLimits())
	if err == nil {
		err = c.words(2, 2)
	}
	o := agent.Options{Limits: limits}
	if err == nil {
		o.Target, _, err = c.agentTarget()
	}
	if err != nil {
		return c.fail(err)
	}
	var in [2]*agentInput
	for i, arg := range c.args {
		var fault *bundle.Finding
		if in[i], fault, err = c.openAgent(arg, o); err != nil {
			return c.fail(err)
		}
		if fault != nil {
			return c.tellAgent(c.agentReport(arg, faulty(fault)))
		}
		defer in[i].close()
	}
	d, err := agent.Diff(ctx, in[0].Opened, in[1].Opened, limits)
	if err != nil {
		return c.fail(err)
	}
	rep := &agentChanges{
		Schema: "1.0", Command: "diff", Code: d.Code, SameBytes: &d.SameBytes,
		Changes: append([]agent.Change{}, d.Changes...), A: c.agentReport(c.args[0], d.A), B: c.agentReport(c.args[1], d.B),
	}
	switch d.Code {
	case "ok":
		rep.Message = "the contents are the same"
	case agent.CodeContentDiffers:
		rep.Message = "the contents differ in " + count(len(d.Changes), "place")
	default: // a side that cannot be compared
		side := rep.A
		if !d.A.Comparable() {
			rep.Message = side.Message
		} else {
			side = rep.B
		}
		rep.Message = finding.Path(side.File) + ": " + side.Message
		return c.tellChanges(rep, false)
	}
	rep.SameTar, rep.SameContent = &d.SameTar, &d.SameContent
	return c.tellChanges(rep, true)
}

func agentRebuild(ctx context.Context, c *call) int {
	limits, err := c.limits(agent.DefaultLimits())
	if err == nil {
		err = c.words(1, 1)
	}
	o := agent.Options{Limits: limits}
	if err == nil {
		o.Target, _, err = c.agentTarget()
	}
	ro := agent.RebuildOptions{Limits: limits}
	if err == nil {
		ro.ModTime, err = c.epoch()
	}
	if err != nil {
		return c.fail(err)
	}
	var against *agent.Opened
	if arg := c.get("--against"); arg != "" {
		in, fault, err := c.openAgent(arg, o)
		if err != nil {
			return c.fail(err)
		}
		if fault != nil {
			return c.tellAgent(c.agentReport(arg, faulty(fault)))
		}
		defer in.close()
		against = &in.Opened
	}
	var r *agent.Rebuilt
	if info, serr := os.Stat(c.path(c.args[0])); serr == nil && info.IsDir() {
		if against == nil {
			return c.fail(usagef("a directory is compared with --against FILE"))
		}
		src, err := bundle.OpenDirSource(c.path(c.args[0]))
		if err != nil {
			return c.fail(err)
		}
		defer src.Close()
		r, err = agent.RebuildTree(ctx, src, *against, ro)
		if err != nil {
			return c.fail(err)
		}
	} else {
		in, fault, err := c.openAgent(c.args[0], o)
		if err != nil {
			return c.fail(err)
		}
		if fault != nil {
			return c.tellAgent(c.agentReport(c.args[0], faulty(fault)))
		}
		defer in.close()
		if r, err = agent.Rebuild(ctx, in.Opened, against, ro); err != nil {
			return c.fail(err)
		}
	}
	rep := &agentChanges{
		Schema: "1.0", Command: "rebuild", Code: r.Code, TarDigest: r.TarDigest.String(), Rebuilt: r.RebuiltTarDigest.String(),
		Changes: append([]agent.Change{}, r.Changes...),
	}
	switch r.Code {
	case "ok":
		rep.Message = "the rebuilt tar stream is the same"
	case agent.CodeTarDiffers:
		rep.Message = "the rebuilt tar stream differs, with " + count(len(r.Changes), "change") + " of content"
	default:
		side, name := r.Source, c.args[0]
		if len(side.Findings) == 0 {
			side, name = r.Against, c.get("--against")
		}
		return c.tellAgent(c.agentReport(name, side))
	}
	return c.tellChanges(rep, true)
}
