package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

func ryeTrustStore(_ context.Context, c *call) int {
	if err := c.words(1, 2); err != nil {
		return c.fail(err)
	}
	root, tier := c.ryeUser(), rye.TrustUser
	if c.has("--project") {
		root, tier = c.path(c.get("--project")), rye.TrustProject
	}
	if root == "" {
		return c.fail(usagef("neither USER_SPACE nor HOME names the user's store, give --project DIR"))
	}
	switch c.args[0] {
	case "list":
		return c.trustList()
	case "add":
		return c.trustAdd(root, tier)
	case "remove":
		return c.trustRemove(root)
	}
	return c.fail(usagef("trust takes %s", c.verb.args))
}

// trustList lists the project's store, the current folder's by default, and
// the user's.
func (c *call) trustList() int {
	if err := c.words(1, 1); err != nil {
		return c.fail(err)
	}
	keys, err := c.ryeKeys("", nil)
	if err != nil {
		return c.fail(err)
	}
	list, err := keys.List()
	if err != nil {
		return c.fail(err)
	}
	if c.has("--json") {
		if list == nil {
			list = []rye.StoredKey{}
		}
		c.json(struct {
			Keys []rye.StoredKey `json:"keys"`
		}{list})
		return exitOK
	}
	for _, k := range list {
		state := "trusted"
		if !k.Trusted {
			state = strings.Join(k.Code, ",")
		}
		c.print("%s %s %s owner %s signed by %s", k.Store, k.Fingerprint, state, finding.QuoteMax(k.Owner, 60), cmp.Or(k.Signer, "-"))
		if k.LongFingerprint != "" {
			c.print("  %s", k.LongFingerprint)
		}
		c.tellRye(k.Findings, nil)
	}
	return exitOK
}

// ryeStored is the JSON object of trust add and trust remove.
type ryeStored struct {
	Status string   `json:"status"` // "added", "removed" or "refused"
	Paths  []string `json:"paths"`  // below the store's root
	Code   []string `json:"code"`
}

func (c *call) trustAdd(root string, tier rye.Trust) int {
	own, err := c.signingKey()
	var at time.Time
	if err == nil {
		at, err = c.signingTime()
	}
	if err != nil {
		return c.fail(err)
	}
	var name string
	var text []byte
	var fault *bundle.Finding
	if len(c.args) == 1 {
		name, text, fault = rye.OwnDocument(own, c.get("--owner"), at)
	} else {
		data, err := readItem(c.path(c.args[1]))
		if err != nil {
			return c.fail(err)
		}
		name, text, fault = rye.TrustDocument(data, own, at)
		if fault == nil {
			if fault, err = c.mayVouch(root, tier, own, name); err != nil {
				return c.fail(err)
			}
		}
	}
	rep := ryeStored{Status: "refused", Paths: []string{}, Code: []string{}}
	var faults []*bundle.Finding
	if fault != nil {
		faults = []*bundle.Finding{fault}
		rep.Code = codesOf(faults)
	} else {
		if err := rye.AddToStore(root, name, text); err != nil {
			return c.fail(err)
		}
		rep.Status, rep.Paths = "added", []string{name}
	}
	if c.has("--json") {
		c.json(rep)
	} else if fault == nil {
		c.print("added %s to the %s store", finding.Path(name), tier)
		if d, _ := rye.ParseKeyDocument(text); d != nil { // it was written by us
			c.print("  key %s = %s, which calls itself %s", rye.Fingerprint(d.Key), rye.LongFingerprint(d.Key), finding.QuoteMax(d.Owner, 60))
		}
	}
	c.tellRye(faults, nil)
	return ryeStatus(faults)
}

// mayVouch reports why the own key cannot sign the document of another: it
// must be in the store itself.
func (c *call) mayVouch(root string, tier rye.Trust, own ed25519.PrivateKey, name string) (*bundle.Finding, error) {
	public := own.Public().(ed25519.PublicKey)
	fp := rye.Fingerprint(public)
	if base := strings.TrimSuffix(filepath.Base(name), ".toml"); base == fp || base == rye.LongFingerprint(public) {
		return nil, nil // the own document
	}
	s, err := rye.OpenStore(tier, root, "")
	if err != nil {
		return nil, err
	}
	key, _, _, err := (&rye.Keyring{Stores: []rye.Store{s}}).Key(fp)
	if err != nil {
		return nil, err
	}
	if !public.Equal(key) {
		f := bundle.Faultf(rye.KeySignerUntrusted, name, "the own key %s is not in the store, so its signature would make nobody trusted", fp)
		f.Hint = "rig-bundle trust add --key " + finding.Path(c.get("--key"))
		return f, nil
	}
	return nil, nil
}

func (c *call) trustRemove(root string) int {
	if err := c.words(2, 2); err != nil {
		return c.fail(err)
	}
	removed, err := rye.RemoveFromStore(root, c.args[1])
	if err != nil {
		return c.fail(usageUnlessPath(err))
	}
	rep := ryeStored{Status: "removed", Paths: append([]string{}, removed...), Code: []string{}}
	var faults []*bundle.Finding
	if len(removed) == 0 {
		faults = []*bundle.Finding{bundle.Faultf(rye.UntrustedKey, "", "the store has no document of %s", c.args[1])}
		rep.Status, rep.Code = "refused", codesOf(faults)
	}
	if c.has("--json") {
		c.json(rep)
	} else {
		for _, p := range removed {
			c.print("removed %s", finding.Path(p))
		}
	}
	c.tellRye(faults, nil)
	return ryeStatus(faults)
}

// usageUnlessPath turns an error that is not one of the file system into one of
// usage.
func usageUnlessPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return err
	}
	return usagef("%v", err)
}
