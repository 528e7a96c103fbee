package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

func trustVerbs() []*verb {
	return []*verb{{name: "trust", format: "rye", args: "list | add [DOC] | remove FINGERPRINT", short: "look at and change a trust store", run: trust, flags: []cli.Flag{jsonFlag, keyFlag,
		{Name: "--project", Value: "DIR", Help: "the store of this project instead of the user's"},
		{Name: "--machine", Help: "the store of this machine, which its administrator keeps, instead of the user's"},
		{Name: "--owner", Value: "NAME", Help: "owner to write into the document of the own key"}}}}
}

func trust(_ context.Context, c *call) (int, error) {
	root, tier := c.ryeUser(), rye.TrustUser
	switch {
	case c.Has("--project") && c.Has("--machine"):
		return 0, usagef("--project and --machine contradict each other")
	case c.Has("--project"):
		root, tier = c.path(c.Get("--project")), rye.TrustProject
	case c.Has("--machine"):
		root, tier = c.Machine, rye.TrustMachine
	}
	switch {
	case root == "" && c.Has("--machine"):
		return 0, usagef("this machine has no place for a store")
	case root == "":
		return 0, usagef("neither USER_SPACE nor HOME names the user's store, give --project DIR")
	}
	switch c.Words[0] {
	case "list":
		return c.trustList()
	case "add":
		return c.trustAdd(root, tier)
	case "remove":
		return c.trustRemove(root, tier)
	}
	return 0, usagef("trust takes %s", c.verb.args)
}

// trustList lists the project's store, the current folder's by default, the
// user's and the machine's.
func (c *call) trustList() (int, error) {
	if err := c.count(1, 1); err != nil {
		return 0, err
	}
	f, err := c.ryeFormat("")
	if err != nil {
		return 0, err
	}
	keys, err := f.Keys.List()
	if err != nil {
		return 0, err
	}
	out := &struct {
		bundle.Result
		Keys []rye.StoredKey `json:"keys"`
	}{bundle.NewResult("trust"), append([]rye.StoredKey{}, keys...)}
	out.Whole = out
	return c.print1(&out.Result, func() {
		for _, k := range keys {
			state := "trusted"
			if !k.Trusted {
				state = strings.Join(k.Code, ",")
			}
			c.print("%s %s %s owner %s signed by %s", k.Store, k.Fingerprint, state, finding.QuoteMax(k.Owner, 60), cmp.Or(k.Signer, "-"))
			if k.LongFingerprint != "" {
				c.print("  %s", k.LongFingerprint)
			}
			c.sayFindings(k.Findings, 0, 0)
		}
	}), nil
}

// stored is what trust add and trust remove tell.
type stored struct {
	bundle.Result
	Status string   `json:"status"` // "added", "removed" or "refused"
	Paths  []string `json:"paths"`  // below the store's root
}

func newStored(status string, fault *bundle.Finding, paths ...string) *stored {
	r := &stored{bundle.NewResult("trust"), status, append([]string{}, paths...)}
	if r.Whole = r; fault != nil {
		r.Fail(fault)
		r.Status, r.Paths = "refused", []string{}
	}
	return r
}

func (c *call) trustAdd(root string, tier rye.Trust) (int, error) {
	own, err := c.signingKey()
	if err != nil {
		return 0, err
	}
	at, err := c.signingTime()
	if err != nil {
		return 0, err
	}
	var name string
	var text []byte
	var fault *bundle.Finding
	if len(c.Words) == 1 {
		name, text, fault = rye.OwnDocument(own, c.Get("--owner"), at)
	} else {
		data, err := readItem(c.path(c.Words[1]))
		if err != nil {
			return 0, err
		}
		name, text, fault = rye.TrustDocument(data, own, at)
		if fault == nil {
			if fault, err = c.mayVouch(root, tier, own, name); err != nil {
				return 0, err
			}
		}
	}
	if fault == nil {
		if err := rye.AddToStore(tier, root, name, text); err != nil {
			return 0, err
		}
	}
	return c.tell(&newStored("added", fault, name).Result, func() {
		if fault != nil {
			return
		}
		c.print("added %s to the %s store", finding.Path(name), tier)
		if d, _ := rye.ParseKeyDocument(text); d != nil { // it was written by us
			c.print("  key %s = %s, which calls itself %s", rye.Fingerprint(d.Key), rye.LongFingerprint(d.Key), finding.QuoteMax(d.Owner, 60))
		}
	})
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
		f.Hint = "rig-bundle trust add --key " + finding.Path(c.Get("--key"))
		return f, nil
	}
	return nil, nil
}

func (c *call) trustRemove(root string, tier rye.Trust) (int, error) {
	if err := c.count(2, 2); err != nil {
		return 0, err
	}
	removed, err := rye.RemoveFromStore(tier, root, c.Words[1])
	if err != nil {
		return 0, usageUnlessPath(err)
	}
	var fault *bundle.Finding
	if len(removed) == 0 {
		fault = bundle.Faultf(rye.UntrustedKey, "", "the store has no document of %s", c.Words[1])
	}
	return c.tell(&newStored("removed", fault, removed...).Result, func() {
		for _, p := range removed {
			c.print("removed %s", finding.Path(p))
		}
	})
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
