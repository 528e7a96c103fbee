package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

func createVerbs() []*verb {
	return []*verb{
		{name: "create", format: "rig", args: "SPEC", short: "pack a rig with all that it refers to", run: create, flags: join(common, sourceFlags, []cli.Flag{strictFlag,
			{Name: "--output", Alias: "-o", Value: "FILE", Help: "bundle to write, its name ends in .rigbundle"},
			{Name: "--name", Value: "NAME", Help: "name of the bundle, by default the rig's"},
			{Name: "--bundle-version", Value: "V", Help: "version of the bundle, by default 0.1.0"},
			{Name: "--created-at", Value: "TIME", Help: "RFC 3339, by default SOURCE_DATE_EPOCH or the commit's time"},
			{Name: "--preset", Value: "NAME", Help: "build a configuration that configurations.yaml offers"},
			{Name: "--seat", Value: "POD.MEMBER=RUNTIME", Many: true, Help: "runtime of one member, within what configurations.yaml offers"},
			{Name: "--notes", Value: "TEXT", Help: "notes in the provenance"},
			{Name: "--provenance", Value: "KEY=VALUE", Many: true, Help: "a field of the provenance"},
			{Name: "--min-daemon-version", Value: "V", Help: "oldest daemon that can run the rig"},
			{Name: "--min-cli-version", Value: "V", Help: "oldest client that can run the rig"}})},
		{name: "create", format: "agent", args: "DIR", short: "pack a directory that holds manifest.json", run: create, flags: join(common, []cli.Flag{
			{Name: "--output", Alias: "-o", Value: "PATH", Help: "directory for the bundle, or its path with the name that the manifest gives"},
			{Name: "--compression", Value: "NAME", Values: []string{"gzip", "zstd"}, Help: "gzip (default) or zstd"}})},
		{name: "create", format: "rye", args: "ROOT", short: "write the signed manifest of the items below ROOT/.ai", run: create, flags: join(trustFlags, []cli.Flag{jsonFlag, allowFlag, idFlag, keyFlag,
			{Name: "--version", Value: "V", Help: "version of the bundle, SemVer"},
			{Name: "--description", Value: "TEXT", Help: "what the bundle is for, in one line"},
			{Name: "--entrypoint", Value: "ITEM", Help: "id of the item to run"},
			{Name: "--sign-items", Help: "sign all items that can be signed"},
			generationFlag,
			{Name: "--publisher", Value: "OWNER", Help: "with --generation head: write PUBLISHER_TRUST.toml, in which OWNER offers the key"}})},
	}
}

func create(ctx context.Context, c *call) (int, error) {
	var f bundle.Format
	var src bundle.Input
	var output string
	o, err := c.options()
	if err != nil {
		return 0, err
	}
	switch c.verb.format {
	case "rig":
		output = c.path(c.Get("--output"))
		f, src, err = c.createRig(ctx, output)
	case "agent":
		output = c.path(cmp.Or(c.Get("--output"), "."))
		f, src, err = c.createAgent(output)
	case "rye":
		output = c.path(c.Words[0])
		f, src, err = c.createRye()
	}
	if err != nil {
		return 0, err
	}
	r, err := f.Create(ctx, src, output, o)
	if err != nil {
		return 0, err
	}
	text := func() { c.printCreation(r.Whole.(*rye.Creation)) }
	switch c.verb.format {
	case "rig":
		text = nil
		if r.File = c.Words[0]; r.OK() {
			r.File = c.Get("--output")
			text = func() { c.print("%s", bundle.EscapeLine(r.File)) }
		}
	case "agent":
		if text = nil; !r.OK() {
			r.File = c.Words[0]
		}
	}
	return c.tell(r, text)
}

func (c *call) createRig(ctx context.Context, output string) (f rig.Format, src bundle.Input, err error) {
	if !strings.HasSuffix(output, rig.Ext) {
		return f, src, usagef("create needs -o FILE%s", rig.Ext)
	}
	if f, src, err = c.rigSource(ctx, c.Words[0], output); err == nil {
		err = c.stamps(&f.Options)
	}
	return f, src, err
}

// stamps reads the flags that create writes into the manifest.
func (c *call) stamps(o *rig.Options) (err error) {
	o.Name, o.Version, o.CreatedAt = c.Get("--name"), c.Get("--bundle-version"), c.Get("--created-at")
	if o.CreatedAt != "" {
		if !rig.IsRFC3339(o.CreatedAt) {
			return usagef("--created-at takes an RFC 3339 time, as 2026-01-02T03:04:05Z")
		}
	} else if o.Epoch, err = c.epoch(); err != nil {
		return err
	}
	o.Preset, o.Seats = c.Get("--preset"), c.All("--seat")
	for _, s := range o.Seats {
		if member, runtime, ok := strings.Cut(s, "="); !ok || member == "" || runtime == "" {
			return usagef("--seat takes POD.MEMBER=RUNTIME")
		}
	}
	o.Provenance = map[string]string{}
	for _, kv := range c.All("--provenance") {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || !slices.Contains(rig.ProvenanceKeys(), k) {
			return usagef("--provenance takes KEY=VALUE with KEY one of %s", strings.Join(rig.ProvenanceKeys(), ", "))
		}
		o.Provenance[k] = v
	}
	if c.Has("--notes") {
		o.Provenance["notes"] = c.Get("--notes")
	}
	o.Compatibility = map[string]string{}
	for flag, key := range map[string]string{"--min-daemon-version": "min_daemon_version", "--min-cli-version": "min_cli_version"} {
		if c.Has(flag) {
			o.Compatibility[key] = c.Get(flag)
		}
	}
	return nil
}

func (c *call) createAgent(output string) (f agent.Format, src bundle.Input, err error) {
	if f, err = c.builder(); err != nil {
		return f, src, err
	}
	switch name := c.Get("--compression"); name {
	case "":
	case "gzip":
		f.Compression = bundle.Gzip
	case "zstd":
		f.Compression = bundle.Zstd
	default:
		return f, src, usagef("--compression is gzip or zstd")
	}
	if inside(agent.OutputDir(output), c.path(c.Words[0])) {
		return f, src, usagef("the output would lie in the bundle root and be packed with it, give another directory with -o")
	}
	c.subject = c.Words[0]
	src, err = c.openTree(c.Words[0])
	return f, src, err
}

func (c *call) createRye() (f *rye.Format, src bundle.Input, err error) {
	head, err := c.headGeneration()
	switch {
	case err != nil:
		return nil, src, err
	case !head && (!c.Has("--id") || !c.Has("--version")):
		return nil, src, usagef("create needs --id and --version")
	case !head && c.Has("--publisher"):
		return nil, src, usagef("--publisher needs --generation head")
	case head && c.Has("--entrypoint"):
		return nil, src, usagef("a bundle of the generation head has no entrypoint")
	}
	n := rye.CreateOptions{Head: head, Publisher: c.Get("--publisher"), Version: c.Get("--version"), Description: c.Get("--description"), Entrypoint: c.Get("--entrypoint"), SignItems: c.Has("--sign-items")}
	if n.Key, err = c.signingKey(); err != nil {
		return nil, src, err
	}
	at, err := c.epoch()
	if err != nil {
		return nil, src, err
	}
	if at == nil {
		return nil, src, usagef("SOURCE_DATE_EPOCH is not set, so that equal input would give other bytes: SOURCE_DATE_EPOCH=$(git log -1 --format=%%ct)")
	}
	if f, err = c.ryeFormat(""); err != nil {
		return nil, src, err
	}
	n.Time = time.Unix(*at, 0)
	f.New = n
	src, err = c.open(f, c.Words[0])
	return f, src, err
}

// headGeneration reports whether --generation asks for the newest generation.
func (c *call) headGeneration() (bool, error) {
	switch name := c.Get("--generation"); name {
	case "", "object_hash":
		return false, nil
	case "head":
		return true, nil
	}
	return false, usagef("--generation is object_hash or head")
}

func (c *call) printCreation(r *rye.Creation) {
	for _, p := range r.LeftOut {
		c.say("left out: %s: verify will call it extra", finding.Path(p))
	}
	if !r.OK() {
		return
	}
	c.print("created %s %s: %s, %s signed", finding.Path(r.ID), r.Version, count(r.Files, "file"), count(len(r.Signed), "item"))
	c.print("  %s", finding.Path(r.Path))
	c.print("  manifest_digest %s", r.Digest)
}

// signingKey reads the file of --key.
func (c *call) signingKey() (ed25519.PrivateKey, error) {
	name := c.Get("--key")
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
