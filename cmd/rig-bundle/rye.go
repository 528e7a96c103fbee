package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

// Flags that several verbs of Rye bundles share.
var (
	ryeID    = flagSpec{name: "--id", value: "ID", help: "the bundle that is meant, such as acme/greeter; by default the only one there"}
	ryeKey   = flagSpec{name: "--key", value: "FILE", help: "Ed25519 key to sign with, unencrypted PKCS#8 PEM that nobody else can read"}
	ryeSpace = flagSpec{name: "--space", value: "DIR", help: "folder whose .ai the bundle is installed in, by default the current one"}
	ryeType  = flagSpec{name: "--type", value: "TYPE", words: []string{"directive", "tool", "knowledge", "config"}, help: "type of the item, by default what its path below .ai says"}
	ryeTrust = []flagSpec{
		{name: "--project", value: "DIR", help: "project whose trust store counts, by default the current folder"},
		{name: "--trust-fingerprint", value: "KEY", many: true, help: "trust this key: 16 or 64 hex digits, or ed25519:BASE64"},
	}
)

// ryeVerbs are the verbs of Rye bundles (spec/ryebundle.md sections 9 to 11).
func ryeVerbs() []*verb {
	with := func(flags []flagSpec, more ...flagSpec) []flagSpec {
		return append(append([]flagSpec{jsonFlag}, flags...), more...)
	}
	extra := flagSpec{name: "--allow-extra", help: "files that the manifest does not list are a note only"}
	return []*verb{
		{name: "create", format: "rye", args: "ROOT", short: "write the signed manifest of the items below ROOT/.ai", run: ryeCreate, flags: with(ryeTrust, ryeID, ryeKey,
			flagSpec{name: "--version", value: "V", help: "version of the bundle, SemVer"},
			flagSpec{name: "--description", value: "TEXT", help: "what the bundle is for, in one line"},
			flagSpec{name: "--entrypoint", value: "ITEM", help: "id of the item to run"},
			flagSpec{name: "--sign-items", help: "sign all items that can be signed"})},
		{name: "sign", format: "rye", args: "FILE…", short: "write a signature line into items", run: ryeSign, flags: with(nil, ryeKey, ryeType)},
		{name: "verify", format: "rye", args: "[ROOT]", short: "judge a bundle, an item or an installed bundle by all rules", run: ryeVerify, flags: with(ryeTrust, ryeID, extra, ryeSpace, ryeType,
			flagSpec{name: "--item", value: "FILE", help: "judge this one file"})},
		{name: "inspect", format: "rye", args: "ROOT", short: "show what a manifest says, unverified", run: ryeInspect, flags: with(nil, ryeID)},
		{name: "diff", format: "rye", args: "ROOT ROOT", short: "compare two bundles", run: ryeDiff, flags: with(nil, ryeID)},
		{name: "rebuild", format: "rye", args: "ROOT", short: "make the manifest again and compare", run: ryeRebuild, flags: with(nil, ryeID)},
		{name: "install", format: "rye", args: "SRC", short: "verify a bundle and install it", run: ryeInstall, flags: with(ryeTrust, ryeID, extra, ryeSpace,
			flagSpec{name: "--allow-downgrade", help: "take an older version, or the same one with another manifest"},
			flagSpec{name: "--dry-run", help: "print what would be done"})},
		{name: "uninstall", format: "rye", args: "ID", short: "remove an installed bundle", run: ryeUninstall, flags: with(nil, ryeSpace)},
		{name: "list", format: "rye", args: "", short: "list bundles and what they show", run: ryeList, flags: with(ryeTrust,
			flagSpec{name: "--root", value: "DIR", many: true, help: "folder that contains a bundle's .ai; the order is that of precedence"},
			flagSpec{name: "--roots", value: "FILE", help: "YAML list of roots with ids and categories"})},
		{name: "trust", format: "rye", args: "list | add [DOC] | remove FINGERPRINT", short: "look at and change a trust store", run: ryeTrustStore, flags: []flagSpec{jsonFlag, ryeKey,
			{name: "--project", value: "DIR", help: "the store of this project instead of the user's"},
			{name: "--owner", value: "NAME", help: "owner to write into the document of the own key"}}},
	}
}

// ryeUser is the root of the user's trust store, "" if there is none.
func (c *call) ryeUser() string {
	return cmp.Or(c.Getenv("USER_SPACE"), c.Getenv("HOME"), c.Getenv("USERPROFILE"))
}

// ryeKeys opens the trust stores and reads the pins. What lies at or below
// bundleRoot gives no trust.
func (c *call) ryeKeys(bundleRoot string, t bundle.Source) (*rye.Keyring, error) {
	k := &rye.Keyring{Bundle: t}
	for _, p := range c.all("--trust-fingerprint") {
		pin, err := rye.ParsePin(p)
		if err != nil {
			return nil, usagef("--trust-fingerprint: %v", err)
		}
		k.Pins = append(k.Pins, pin)
	}
	for _, tier := range []struct {
		trust rye.Trust
		root  string
	}{{rye.TrustProject, c.path(cmp.Or(c.get("--project"), "."))}, {rye.TrustUser, c.ryeUser()}} {
		if tier.root == "" {
			continue
		}
		s, err := rye.OpenStore(tier.trust, tier.root, bundleRoot)
		if err != nil {
			return nil, err
		}
		k.Stores = append(k.Stores, s)
	}
	return k, nil
}

// signingKey reads the file of --key.
func (c *call) signingKey() (ed25519.PrivateKey, error) {
	name := c.get("--key")
	if name == "" {
		return nil, usagef("%s needs --key FILE; a key is never made on the way: openssl genpkey -algorithm ed25519 -out FILE", c.verb.name)
	}
	f, _, err := bundle.OpenFile(c.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, usagef("the key file %s can be read by others: chmod 600 %s", finding.Path(name), finding.Path(name))
	}
	data, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return nil, err
	}
	key, err := rye.ParsePrivateKey(data)
	if err != nil {
		return nil, usagef("%s: %v", finding.Path(name), err)
	}
	return key, nil
}

// sourceEpoch reads SOURCE_DATE_EPOCH; the zero time if it is not set.
func (c *call) sourceEpoch() (time.Time, error) {
	s := c.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return time.Time{}, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > 253402300799 {
		return time.Time{}, usagef("SOURCE_DATE_EPOCH is %s, expected seconds since 1970 of a year up to 9999", finding.QuoteMax(s, 40))
	}
	return time.Unix(int64(n), 0), nil
}

// signingTime is SOURCE_DATE_EPOCH, or now. No signature covers it.
func (c *call) signingTime() (time.Time, error) {
	at, err := c.sourceEpoch()
	if err == nil && at.IsZero() {
		at = c.Now()
	}
	return at, err
}

// tellRye prints findings and notes to standard error.
func (c *call) tellRye(faults []*bundle.Finding, notes []bundle.Note) {
	for i, f := range faults {
		if i == shownFaults {
			c.say("and %d more findings", len(faults)-i)
			break
		}
		where := ""
		if f.Path != "" {
			where = finding.Path(f.Path) + ": "
			if f.Line > 0 {
				where = finding.Path(f.Path) + ":" + strconv.Itoa(f.Line) + ": "
			}
		}
		c.say("%s: %s%s", f.Code, where, f.Message)
		if f.Hint != "" {
			c.say("hint: %s", f.Hint)
		}
	}
	for i, n := range notes {
		if i == shownFaults {
			c.say("and %d more notes", len(notes)-i)
			break
		}
		c.say("note: %s: %s: %s", n.Code, finding.Path(n.Path), n.Detail)
	}
}

// shownFaults is how many findings, and how many notes, are told on standard
// error.
const shownFaults = 100

// ryeStatus is the exit status that goes with findings.
func ryeStatus(faults []*bundle.Finding) int {
	if len(faults) > 0 {
		return exitFindings
	}
	return exitOK
}

// codesOf returns the sorted set of codes.
func codesOf(faults []*bundle.Finding) []string {
	codes := []string{}
	for _, f := range faults {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func ryeVerify(_ context.Context, c *call) int {
	var r *rye.Report
	var err error
	switch {
	case c.has("--item"):
		return ryeVerifyItem(c)
	case c.has("--type"):
		err = usagef("--type goes with --item")
	case c.has("--space"):
		r, err = c.verifyInstalled()
	default:
		r, err = c.verifyRoot()
	}
	if err != nil {
		return c.fail(err)
	}
	if c.has("--json") {
		c.json(r)
	} else {
		c.print("%s %s: %s, %d ok, %d missing, %d tampered, %d extra", r.Status, finding.Path(r.ID), count(r.FilesChecked, "file"), r.FilesOK, len(r.FilesMissing), len(r.FilesTampered), len(r.FilesExtra))
		if r.Signer != nil {
			c.print("  signer %s, trust %s", *r.Signer, r.Trust)
		}
	}
	c.tellRye(r.Findings, r.Notes)
	return ryeStatus(r.Findings)
}

func (c *call) verifyRoot() (*rye.Report, error) {
	if err := c.words(1, 1); err != nil {
		return nil, err
	}
	root := c.path(c.args[0])
	src, err := bundle.OpenDirSource(root)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	o, err := c.ryeOptions(root, src)
	if err != nil {
		return nil, err
	}
	return rye.Verify(src, o)
}

func (c *call) ryeOptions(root string, src bundle.Source) (rye.Options, error) {
	keys, err := c.ryeKeys(root, src)
	if c.has("--id") && c.get("--id") == "" {
		return rye.Options{}, usagef("--id is empty")
	}
	return rye.Options{ID: c.get("--id"), Keys: keys, AllowExtra: c.has("--allow-extra")}, err
}

func (c *call) verifyInstalled() (*rye.Report, error) {
	if err := c.words(0, 0); err != nil {
		return nil, err
	}
	if !c.has("--id") {
		return nil, usagef("verify --space DIR needs --id ID")
	}
	src, err := bundle.OpenDirSource(c.path(c.get("--space")))
	if err != nil {
		return nil, err
	}
	defer src.Close()
	o, err := c.ryeOptions("", src)
	if err != nil {
		return nil, err
	}
	return rye.VerifyInstalled(src, o)
}

func ryeVerifyItem(c *call) int {
	if err := c.words(0, 0); err != nil {
		return c.fail(err)
	}
	name := c.get("--item")
	t, err := c.itemType(name)
	if err != nil {
		return c.fail(err)
	}
	data, err := readItem(c.path(name))
	if err != nil {
		return c.fail(err)
	}
	keys, err := c.ryeKeys("", nil)
	if err != nil {
		return c.fail(err)
	}
	r, err := rye.VerifyItem(filepath.ToSlash(name), data, t, keys)
	if err != nil {
		return c.fail(err)
	}
	if c.has("--json") {
		c.json(r)
	} else {
		c.print("%s %s", r.Status, finding.Path(name))
		if r.Signer != nil {
			c.print("  signer %s, trust %s", *r.Signer, r.Trust)
		}
		if r.Line != nil && r.Line.Provider != "" {
			c.print("  claims to come from %s by %s, which no signature covers", r.Line.Provider, r.Line.User)
		}
	}
	c.tellRye(r.Findings, r.Notes)
	return ryeStatus(r.Findings)
}

// itemType is that of --type, or of the path below the last .ai folder.
func (c *call) itemType(name string) (rye.Type, error) {
	if c.has("--type") {
		t, ok := rye.ParseType(c.get("--type"))
		if !ok {
			return "", usagef("--type is directive, tool, knowledge or config")
		}
		return t, nil
	}
	p := filepath.ToSlash(c.path(name))
	if i := strings.LastIndex(p, "/.ai/"); i >= 0 {
		if t := rye.TypeOf(p[i+1:]); t != rye.Asset {
			return t, nil
		}
	}
	return "", usagef("the path of %s does not tell the type of the item, give --type", finding.Path(name))
}

// readItem reads a file that may be one byte over the limit, so that the format
// can say so.
func readItem(name string) ([]byte, error) {
	f, _, err := bundle.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, rye.MaxFile+1))
}

func ryeInspect(_ context.Context, c *call) int {
	if err := c.words(1, 1); err != nil {
		return c.fail(err)
	}
	src, err := bundle.OpenDirSource(c.path(c.args[0]))
	if err != nil {
		return c.fail(err)
	}
	defer src.Close()
	in, err := rye.Inspect(src, c.get("--id"))
	if err != nil {
		return c.fail(err)
	}
	if c.has("--json") {
		c.json(in)
	} else {
		c.printInspection(in)
	}
	c.tellRye(in.Findings, nil)
	return ryeStatus(in.Findings)
}

func (c *call) printInspection(in *rye.Inspection) {
	c.print("unverified manifest %s, generation %s", finding.Path(in.Path), in.Generation)
	if s := in.SignerClaim; s != nil {
		c.print("  claims to be signed by %s at %s", s.Fingerprint, s.Time)
	}
	u := in.Unverified
	if u == nil {
		return
	}
	for _, f := range []struct{ name, value string }{
		{"id", u.ID}, {"version", u.Version}, {"entrypoint", u.Entrypoint}, {"description", u.Description}, {"created_at", u.CreatedAt},
		{"type", u.Type}, {"manifest_digest", u.ManifestDigest},
	} {
		c.print("  %s %s (unverified)", f.name, finding.QuoteMax(f.value, 500))
	}
	if in.ManifestDigest != "" {
		c.print("  manifest_digest of its content %s", in.ManifestDigest)
	}
	for _, e := range u.Files {
		c.print("  %s %s %s (unverified)", e.ItemType, cmp.Or(e.ObjectHash, e.SHA256), finding.Path(e.Path))
	}
}

func ryeDiff(_ context.Context, c *call) int {
	if err := c.words(2, 2); err != nil {
		return c.fail(err)
	}
	var sides [2]*bundle.DirSource
	for i := range sides {
		src, err := bundle.OpenDirSource(c.path(c.args[i]))
		if err != nil {
			return c.fail(err)
		}
		defer src.Close()
		sides[i] = src
	}
	d, err := rye.Diff(sides[0], c.get("--id"), sides[1], c.get("--id"))
	if err != nil {
		return c.fail(err)
	}
	if c.has("--json") {
		c.json(d)
	} else {
		c.print("%s", d.Status)
		for _, f := range d.Fields {
			c.print("  %s: %s -> %s", bundle.EscapeLine(f.Field), finding.QuoteMax(f.A, 200), finding.QuoteMax(f.B, 200))
		}
		for _, f := range d.Files {
			c.print("  %s %s", f.Change, finding.Path(f.Path))
		}
	}
	c.tellRye(d.Findings, nil)
	if d.Status != "equal" {
		return exitFindings
	}
	return exitOK
}

func ryeRebuild(_ context.Context, c *call) int {
	if err := c.words(1, 1); err != nil {
		return c.fail(err)
	}
	src, err := bundle.OpenDirSource(c.path(c.args[0]))
	if err != nil {
		return c.fail(err)
	}
	defer src.Close()
	r, err := rye.Rebuild(src, c.get("--id"))
	if err != nil {
		return c.fail(err)
	}
	if c.has("--json") {
		c.json(r)
	} else {
		c.print("%s %s", r.Status, finding.Path(r.ID))
		c.print("  manifest_digest %s", r.Digest)
		if r.RebuiltDigest != "" {
			c.print("  rebuilt         %s", r.RebuiltDigest)
		}
		for _, list := range []struct {
			what  string
			paths []string
		}{{"added", r.Added}, {"removed", r.Removed}, {"modified", r.Modified}} {
			for _, p := range list.paths {
				c.print("  %s %s", list.what, finding.Path(p))
			}
		}
	}
	c.tellRye(r.Findings, nil)
	if r.Status != "identical" {
		return exitFindings
	}
	return exitOK
}

// ryeCreated is the JSON object of create.
type ryeCreated struct {
	Status   string   `json:"status"` // "created" or "refused"
	ID       string   `json:"bundle_id"`
	Version  string   `json:"version"`
	Manifest string   `json:"manifest"` // path below ROOT
	Digest   string   `json:"manifest_digest"`
	Files    int      `json:"files"`
	Signed   []string `json:"signed"`   // items that were signed
	LeftOut  []string `json:"left_out"` // verify will call these files extra
	Code     []string `json:"code"`
}

func ryeCreate(_ context.Context, c *call) int {
	o := rye.CreateOptions{ID: c.get("--id"), Version: c.get("--version"), Description: c.get("--description"), Entrypoint: c.get("--entrypoint"), SignItems: c.has("--sign-items")}
	err := c.words(1, 1)
	if err == nil && (!c.has("--id") || !c.has("--version")) {
		err = usagef("create needs --id and --version")
	}
	if err == nil {
		o.Key, err = c.signingKey()
	}
	if err == nil {
		o.Time, err = c.sourceEpoch()
	}
	if err == nil && o.Time.IsZero() {
		err = usagef("SOURCE_DATE_EPOCH is not set, so that equal input would give other bytes: SOURCE_DATE_EPOCH=$(git log -1 --format=%%ct)")
	}
	if err != nil {
		return c.fail(err)
	}
	root := c.path(c.args[0])
	src, err := bundle.OpenDirSource(root)
	if err != nil {
		return c.fail(err)
	}
	defer src.Close()
	if o.Keys, err = c.ryeKeys("", src); err != nil {
		return c.fail(err)
	}
	out, faults, err := rye.Create(src, o)
	if err != nil {
		return c.fail(err)
	}
	rep := ryeCreated{Status: "refused", ID: o.ID, Version: o.Version, Signed: []string{}, LeftOut: []string{}, Code: codesOf(faults)}
	if out != nil {
		if err := writeCreation(root, out); err != nil {
			return c.fail(err)
		}
		rep.Status, rep.Manifest, rep.Digest, rep.Files = "created", out.Path, out.Manifest.Digest, len(out.Manifest.Entries)
		rep.Signed = slices.Sorted(maps.Keys(out.Items))
		rep.LeftOut = append(rep.LeftOut, out.LeftOut...)
		for _, p := range out.LeftOut {
			c.say("left out: %s: verify will call it extra", finding.Path(p))
		}
		for _, p := range out.Binary {
			c.say("note: %s is not UTF-8: it is covered, but verifiers before rigward call it tampered", finding.Path(p))
		}
	}
	if c.has("--json") {
		c.json(rep)
	} else if out != nil {
		c.print("created %s %s: %s, %s signed", finding.Path(rep.ID), rep.Version, count(rep.Files, "file"), count(len(rep.Signed), "item"))
		c.print("  %s", finding.Path(rep.Manifest))
		c.print("  manifest_digest %s", rep.Digest)
	}
	c.tellRye(faults, nil)
	return ryeStatus(faults)
}

// writeCreation writes signed items in place, then the manifest.
func writeCreation(root string, out *rye.Creation) error {
	for _, p := range slices.Sorted(maps.Keys(out.Items)) {
		name := filepath.Join(root, filepath.FromSlash(p))
		if err := replaceFile(name, out.Items[p]); err != nil {
			return err
		}
	}
	dirs, err := bundle.OpenDirs(root)
	if err != nil {
		return err
	}
	defer dirs.Close()
	if _, err := dirs.MkdirAll(filepath.ToSlash(filepath.Dir(out.Path))); err != nil {
		return err
	}
	return bundle.WriteFile(filepath.Join(root, filepath.FromSlash(out.Path)), 0o644, writeBytes(out.Text), nil)
}

func writeBytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(data); return err }
}

// replaceFile gives a file new content and keeps its mode.
func replaceFile(name string, data []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return bundle.WriteFile(name, info.Mode().Perm(), writeBytes(data), nil)
}

func ryeSign(_ context.Context, c *call) int {
	err := c.words(1, -1)
	var key ed25519.PrivateKey
	if err == nil {
		key, err = c.signingKey()
	}
	var at time.Time
	if err == nil {
		at, err = c.signingTime()
	}
	if err != nil {
		return c.fail(err)
	}
	var faults []*bundle.Finding
	signed := []string{}
	for _, name := range c.args {
		fault, err := c.signItem(name, key, at)
		if err != nil {
			return c.fail(err)
		}
		if fault != nil {
			faults = append(faults, fault)
			continue
		}
		signed = append(signed, name)
	}
	if c.has("--json") {
		c.json(struct {
			Signed []string `json:"signed"`
			Code   []string `json:"code"`
		}{signed, codesOf(faults)})
	} else {
		for _, name := range signed {
			c.print("signed %s", finding.Path(name))
		}
	}
	c.tellRye(faults, nil)
	return ryeStatus(faults)
}

func (c *call) signItem(name string, key ed25519.PrivateKey, at time.Time) (*bundle.Finding, error) {
	t, err := c.itemType(name)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(c.path(name))
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return bundle.Faultf(rye.SymlinkFound, name, "the item is a link"), nil
	}
	data, err := readItem(c.path(name))
	if err != nil {
		return nil, err
	}
	if len(data) > rye.MaxFile {
		return bundle.Faultf(rye.LimitExceeded, name, "the file has more than %d bytes", rye.MaxFile), nil
	}
	text, fault := rye.Sign(filepath.ToSlash(name), data, t, key, at)
	if fault != nil {
		return fault, nil
	}
	return nil, replaceFile(c.path(name), text)
}
