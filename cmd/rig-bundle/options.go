package main

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/sshsign"
)

// Flags that several verbs share.
var (
	jsonFlag       = flagSpec{name: "--json", help: "print one JSON object on standard output"}
	limitFlag      = flagSpec{name: "--limit", value: "NAME=VALUE", many: true, help: "change one limit, such as total-size=2GiB"}
	strictFlag     = flagSpec{name: "--strict", value: "NAME,…", optional: true, words: rig.StrictNotes(), help: "make notes errors: all that stand for doubt, or those named"}
	extraFlag      = flagSpec{name: "--allow-extra", help: "files that the manifest does not list are a note only"}
	idFlag         = flagSpec{name: "--id", value: "ID", help: "the bundle that is meant, such as acme/greeter; by default the only one there"}
	keyFlag        = flagSpec{name: "--key", value: "FILE", help: "Ed25519 key to sign with, unencrypted PKCS#8 PEM that nobody else can read"}
	spaceFlag      = flagSpec{name: "--space", value: "DIR", help: "folder whose .ai the bundle is installed in, by default the current one"}
	typeFlag       = flagSpec{name: "--type", value: "TYPE", words: []string{"directive", "tool", "knowledge", "config"}, help: "type of the item, by default what its path below .ai says"}
	generationFlag = flagSpec{name: "--generation", value: "NAME", words: []string{"object_hash", "head"}, help: "object_hash (default), or head, the newest: .ai/manifest.yaml"}
	againstRig     = flagSpec{name: "--against", value: "FILE", help: "the committed bundle"}
	targetDir      = flagSpec{name: "--target", value: "DIR", help: "directory that the bundle's files belong to"}

	// common belong to nearly every verb of archives, digestFlags and
	// signatureFlags to those that judge a file.
	common      = []flagSpec{jsonFlag, limitFlag}
	digestFlags = []flagSpec{
		{name: "--sha256-file", value: "FILE", help: "digest file, instead of FILE.sha256 beside the bundle"},
		{name: "--require-checksum", help: "refuse a bundle for which no digest is known, as RigBundles are by default"},
		{name: "--allow-missing-digest", help: "take a bundle without a digest, as agent bundles are by default"},
	}
	signatureFlags = []flagSpec{
		{name: "--allowed-signers", value: "FILE", help: "whose signatures count, as ssh-keygen reads it"},
		{name: "--signer", value: "PRINCIPAL", help: "who must have signed"},
		{name: "--signature", value: "FILE", help: "signature, instead of FILE.sig beside the bundle"},
		{name: "--require-signature", help: "refuse a bundle that nobody has signed"},
	}
	// refFlags say which of the bundles that a reference leads to is meant.
	refFlags = []flagSpec{
		{name: "--mirror", value: "DIR", help: "directory in which gh: references are looked up"},
		{name: "--target", value: "TARGET", help: "where it is to run: linux/amd64/glibc, darwin/arm64"},
	}
	runtimeFlag = flagSpec{name: "--runtime", value: "TYPE@VERSION", help: "what the base image brings, such as node@20.15.1"}
	trustFlags  = []flagSpec{
		{name: "--project", value: "DIR", help: "project whose trust store counts, by default the current folder"},
		{name: "--trust-fingerprint", value: "KEY", many: true, help: "trust this key: 16 or 64 hex digits, or ed25519:BASE64"},
	}
	sourceFlags = []flagSpec{
		{name: "--rig-root", value: "DIR", help: "directory that the rig's own paths belong to, by default that of SPEC"},
		{name: "--source-root", value: "DIR", help: "nothing outside is read; by default the top of the git work tree, or the rig root"},
		{name: "--from", value: "REV", help: "take every file from the blobs of this commit"},
		{name: "--drop-services", help: "leave the rig's services out"},
		{name: "--form", value: "NAME", words: []string{rig.FormRigward, rig.FormOpenRig}, help: "rigward (default) or openrig-0.4, the choices of older packers"},
		{name: "--context-pack", value: "DIR", many: true, help: "carry the context pack in this directory: its manifest and the files that it names"},
	}
)

// join makes the flags of a verb.
func join(lists []flagSpec, more ...[]flagSpec) []flagSpec {
	return slices.Concat(append([][]flagSpec{lists}, more...)...)
}

// options reads the flags that mean the same in all formats.
func (c *call) options() (o bundle.Options, err error) {
	if c.has("--limit") {
		o.Limits = bundle.DefaultLimits()
		if c.verb.format == "agent" {
			o.Limits = agent.DefaultLimits()
		}
		for _, v := range c.all("--limit") {
			if err := o.Limits.Set(v); err != nil {
				return o, usagef("%v", err)
			}
		}
	}
	require, allow := c.has("--require-checksum"), c.has("--allow-missing-digest")
	if require && allow {
		return o, usagef("--require-checksum and --allow-missing-digest contradict each other")
	}
	o.RequireChecksum = require || c.verb.format == "rig" && !allow
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
	o.Plan, o.Backup, o.Now = c.has("--plan") || c.has("--dry-run"), c.has("--backup"), c.Now()
	o.State = c.state()
	o.Signed = bundle.SignatureRules{Signer: c.get("--signer"), Require: c.has("--require-signature"), Now: o.Now}
	switch name := c.get("--allowed-signers"); {
	case name != "":
		data, err := os.ReadFile(c.path(name))
		if err != nil {
			return o, err
		}
		o.Signed.Signers, err = sshsign.ParseSigners(data)
		return o, err
	case c.has("--signer"), c.has("--require-signature"), c.has("--signature"):
		return o, usagef("signatures are judged with --allowed-signers FILE only")
	}
	return o, nil
}

// format is the verb's format, with what the flags say to it.
func (c *call) format() (bundle.Format, error) {
	switch c.verb.format {
	case "agent":
		return c.agentFormat()
	case "rye":
		return c.ryeFormat("")
	}
	return rig.Format{IgnoreStamp: c.has("--ignore-stamp")}, nil
}

func (c *call) agentFormat() (f agent.Format, err error) {
	if s := c.get("--target"); s != "" {
		t, err := agent.ParseTarget(s)
		if err != nil {
			return f, usagef("%v", err)
		}
		f.Target = &t
	}
	if s := c.get("--runtime"); s != "" {
		r, err := agent.ParseRuntime(s)
		if err != nil {
			return f, usagef("%v", err)
		}
		if f.Target == nil {
			return f, usagef("--runtime needs --target")
		}
		f.Runtime = &r
	}
	return f, nil
}

// epoch is SOURCE_DATE_EPOCH, nil if that is not set.
func (c *call) epoch() (*int64, error) {
	s := c.Getenv("SOURCE_DATE_EPOCH")
	n, err := bundle.ParseEpoch(s)
	switch {
	case err != nil:
		return nil, usagef("%v", err)
	case s == "":
		return nil, nil
	}
	return &n, nil
}

// builder is the agent format with the time that is written into bundles.
func (c *call) builder() (agent.Format, error) {
	f, err := c.agentFormat()
	if err == nil {
		var at *int64
		if at, err = c.epoch(); at != nil {
			f.ModTime = *at
		}
	}
	return f, err
}

// ryeUser is the root of the user's trust store, "" if there is none.
func (c *call) ryeUser() string {
	return cmp.Or(c.Getenv("USER_SPACE"), c.Getenv("HOME"), c.Getenv("USERPROFILE"))
}

// ryeFormat opens the trust stores and reads the pins. What lies at or below
// bundleRoot gives no trust.
func (c *call) ryeFormat(bundleRoot string) (*rye.Format, error) {
	if c.has("--id") && c.get("--id") == "" {
		return nil, usagef("--id is empty")
	}
	k := &rye.Keyring{}
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
	s, fault, err := rye.OpenMachineStore(c.Machine, bundleRoot)
	if err != nil {
		return nil, err
	}
	if fault != nil {
		c.say("warning: %s", fault.Message)
		c.say("  fix: %s", fault.Hint)
	}
	if c.Machine != "" {
		k.Stores = append(k.Stores, s)
	}
	return &rye.Format{Options: rye.Options{ID: c.get("--id"), Keys: k, AllowExtra: c.has("--allow-extra")}, AllowDowngrade: c.has("--allow-downgrade")}, nil
}
