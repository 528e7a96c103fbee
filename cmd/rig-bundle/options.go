package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/sshsign"
)

// Flags that several verbs share.
var (
	jsonFlag       = cli.Flag{Name: "--json", Help: "print one JSON object on standard output"}
	limitFlag      = cli.Flag{Name: "--limit", Value: "NAME=VALUE", Many: true, Help: "change one limit, such as total-size=2GiB"}
	allowFlag      = cli.Flag{Name: "--allow", Value: "KEY", Many: true, Help: "let a hidden text or a secret be, by the 32 digits that its finding names"}
	strictFlag     = cli.Flag{Name: "--strict", Value: "NAME,…", Optional: true, Values: rig.StrictNotes(), Help: "make notes errors: all that stand for doubt, or those named"}
	extraFlag      = cli.Flag{Name: "--allow-extra", Help: "files that the manifest does not list are a note only"}
	idFlag         = cli.Flag{Name: "--id", Value: "ID", Help: "the bundle that is meant, such as acme/greeter; by default the only one there"}
	keyFlag        = cli.Flag{Name: "--key", Value: "FILE", Help: "Ed25519 key to sign with, unencrypted PKCS#8 PEM that nobody else can read"}
	spaceFlag      = cli.Flag{Name: "--space", Value: "DIR", Help: "folder whose .ai the bundle is installed in, by default the current one"}
	typeFlag       = cli.Flag{Name: "--type", Value: "TYPE", Values: []string{"directive", "tool", "knowledge", "config"}, Help: "type of the item, by default what its path below .ai says"}
	generationFlag = cli.Flag{Name: "--generation", Value: "NAME", Values: []string{"object_hash", "head"}, Help: "object_hash (default), or head, the newest: .ai/manifest.yaml"}
	againstRig     = cli.Flag{Name: "--against", Value: "FILE", Help: "the committed bundle"}
	targetDir      = cli.Flag{Name: "--target", Value: "DIR", Help: "directory that the bundle's files belong to"}

	// common belong to nearly every verb of archives, digestFlags and
	// signatureFlags to those that judge a file.
	common      = []cli.Flag{jsonFlag, limitFlag, allowFlag}
	digestFlags = []cli.Flag{
		{Name: "--sha256-file", Value: "FILE", Help: "digest file, instead of FILE.sha256 beside the bundle"},
		{Name: "--require-checksum", Help: "refuse a bundle for which no digest is known, as RigBundles are by default"},
		{Name: "--allow-missing-digest", Help: "take a bundle without a digest, as agent bundles are by default"},
	}
	signatureFlags = []cli.Flag{
		{Name: "--allowed-signers", Value: "FILE", Help: "whose signatures count, as ssh-keygen reads it"},
		{Name: "--revoked", Value: "FILE", Many: true, Help: "keys that count for nothing: a KRL, or one public key a line"},
		{Name: "--signer", Value: "PRINCIPAL", Help: "who must have signed"},
		{Name: "--signature", Value: "FILE", Help: "signature, instead of FILE.sig beside the bundle"},
		{Name: "--require-signature", Help: "refuse a bundle that nobody has signed"},
	}
	// refFlags say which of the bundles that a reference leads to is meant.
	refFlags = []cli.Flag{
		{Name: "--mirror", Value: "DIR", Help: "directory in which gh: references are looked up"},
		{Name: "--target", Value: "TARGET", Help: "where it is to run: linux/amd64/glibc, darwin/arm64"},
	}
	runtimeFlag = cli.Flag{Name: "--runtime", Value: "TYPE@VERSION", Help: "what the base image brings, such as node@20.15.1"}
	trustFlags  = []cli.Flag{
		{Name: "--project", Value: "DIR", Help: "project whose trust store counts, by default the current folder"},
		{Name: "--trust-fingerprint", Value: "KEY", Many: true, Help: "trust this key: 16 or 64 hex digits, or ed25519:BASE64"},
	}
	sourceFlags = []cli.Flag{
		{Name: "--rig-root", Value: "DIR", Help: "directory that the rig's own paths belong to, by default that of SPEC"},
		{Name: "--source-root", Value: "DIR", Help: "nothing outside is read; by default the top of the git work tree, or the rig root"},
		{Name: "--from", Value: "REV", Help: "take every file from the blobs of this commit"},
		{Name: "--drop-services", Help: "leave the rig's services out"},
		{Name: "--form", Value: "NAME", Values: []string{rig.FormRigward, rig.FormOpenRig}, Help: "rigward (default) or openrig-0.4, the choices of older packers"},
		{Name: "--context-pack", Value: "DIR", Many: true, Help: "carry the context pack in this directory: its manifest and the files that it names"},
	}
)

// join makes the flags of a verb.
func join(lists []cli.Flag, more ...[]cli.Flag) []cli.Flag {
	return slices.Concat(append([][]cli.Flag{lists}, more...)...)
}

// options reads the flags that mean the same in all formats.
func (c *call) options() (o bundle.Options, err error) {
	if c.Has("--limit") {
		o.Limits = bundle.DefaultLimits()
		if c.verb.format == "agent" {
			o.Limits = agent.DefaultLimits()
		}
		for _, v := range c.All("--limit") {
			if err := o.Limits.Set(v); err != nil {
				return o, usagef("%v", err)
			}
		}
	}
	for _, key := range c.All("--allow") {
		if !finding.IsKey(key) {
			return o, usagef("--allow takes the 32 digits that a finding of %s or %s names", bundle.HiddenText, bundle.Secret)
		}
		o.Allow = append(o.Allow, key)
	}
	require, allow := c.Has("--require-checksum"), c.Has("--allow-missing-digest")
	if require && allow {
		return o, usagef("--require-checksum and --allow-missing-digest contradict each other")
	}
	o.RequireChecksum = require || c.verb.format == "rig" && !allow
	if c.Has("--strict") {
		o.Strict = true
		if names := c.Get("--strict"); names != "" {
			o.Only = strings.Split(names, ",")
			for _, n := range o.Only {
				if !slices.Contains(rig.StrictNotes(), n) {
					return o, usagef("--strict knows no note %s, only %s", finding.QuoteMax(n, 60), strings.Join(rig.StrictNotes(), ", "))
				}
			}
		}
	}
	o.Plan, o.Backup, o.Now = c.Has("--plan") || c.Has("--dry-run"), c.Has("--backup"), c.Now()
	o.State, o.Windows = c.state(), c.Windows
	o.Signed = bundle.SignatureRules{Signer: c.Get("--signer"), Require: c.Has("--require-signature"), Now: o.Now}
	switch name := c.Get("--allowed-signers"); {
	case name != "":
		data, err := os.ReadFile(c.path(name))
		if err != nil {
			return o, err
		}
		words := c.Words
		if c.verb.name == "push" {
			words = words[:min(len(words), 1)]
		}
		if slices.ContainsFunc(words, c.isReference) { // a registry that leaves the signature out is not to be believed
			o.Signed.Require = true
		}
		if o.Signed.Signers, err = sshsign.ParseSigners(data); err != nil {
			return o, err
		}
		o.Signed.Revoked, err = c.revoked()
		return o, err
	case c.Has("--revoked"), c.Has("--signer"), c.Has("--require-signature"), c.Has("--signature"):
		return o, usagef("signatures are judged with --allowed-signers FILE only")
	}
	return o, nil
}

// revoked reads the revocation files. One that is missing or cannot be honoured is an
// error (docs/signatures.md#signers).
func (c *call) revoked() (*sshsign.Revocations, error) {
	var lists []*sshsign.Revocations
	for _, name := range c.All("--revoked") {
		data, err := os.ReadFile(c.path(name))
		if err != nil {
			return nil, err
		}
		list, err := sshsign.ParseRevocations(data)
		if err != nil {
			return nil, fmt.Errorf("the revocation file %s: %w", finding.Path(name), err)
		}
		lists = append(lists, list)
	}
	return sshsign.JoinRevocations(lists...), nil
}

// format is the verb's format, with what the flags say to it.
func (c *call) format() (bundle.Format, error) {
	switch c.verb.format {
	case "agent":
		return c.agentFormat()
	case "rye":
		return c.ryeFormat("")
	}
	return rig.Format{IgnoreStamp: c.Has("--ignore-stamp")}, nil
}

func (c *call) agentFormat() (f agent.Format, err error) {
	if s := c.Get("--target"); s != "" {
		t, err := agent.ParseTarget(s)
		if err != nil {
			return f, usagef("%v", err)
		}
		f.Target = &t
	}
	if s := c.Get("--runtime"); s != "" {
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
	k := &rye.Keyring{}
	for _, p := range c.All("--trust-fingerprint") {
		pin, err := rye.ParsePin(p)
		if err != nil {
			return nil, usagef("--trust-fingerprint: %v", err)
		}
		k.Pins = append(k.Pins, pin)
	}
	for _, tier := range []struct {
		trust rye.Trust
		root  string
	}{{rye.TrustProject, c.path(cmp.Or(c.Get("--project"), "."))}, {rye.TrustUser, c.ryeUser()}} {
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
	return &rye.Format{Options: rye.Options{ID: c.Get("--id"), Keys: k, AllowExtra: c.Has("--allow-extra")}, AllowDowngrade: c.Has("--allow-downgrade")}, nil
}
