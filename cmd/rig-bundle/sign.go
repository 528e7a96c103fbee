package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	bundleagent "github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/sshsign"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func signVerbs() []*verb {
	const short = "write FILE.sig, a detached SSH signature"
	flags := []cli.Flag{jsonFlag, {Name: "--key", Value: "FILE", Help: "SSH private key, or a public key whose private half is in ssh-agent"}}
	return []*verb{
		{name: "sign", format: "rig", args: "FILE…", short: short, run: sshSign(rig.Namespace), flags: flags},
		{name: "sign", format: "agent", args: "FILE…", short: short, run: sshSign(bundleagent.Namespace), flags: flags},
		{name: "sign", format: "rye", args: "FILE…", short: "write a signature line into items", run: signItems, flags: []cli.Flag{jsonFlag, keyFlag, typeFlag, generationFlag}},
	}
}

// signed is one file that sign has written a signature for.
type signed struct {
	File      string `json:"file"`
	Signature string `json:"signature"`
	Key       string `json:"key"`
}

// sshSign is the verb that writes FILE.sig in a namespace: a detached SSH
// signature of the file's bytes, as ssh-keygen -Y sign makes it.
func sshSign(namespace string) func(context.Context, *call) (int, error) {
	return func(_ context.Context, c *call) (int, error) {
		if !c.Has("--key") {
			return 0, usagef("sign needs --key FILE")
		}
		signer, done, err := c.sshSigner(c.path(c.Get("--key")))
		if err != nil {
			return 0, err
		}
		c.after(done)
		out := &struct {
			bundle.Result
			Signed []signed `json:"signed"`
		}{Result: bundle.NewResult("sign")}
		out.Whole = out
		for _, name := range c.Words {
			if err := c.signFile(c.path(name), signer, namespace); err != nil {
				return 0, err
			}
			s := signed{bundle.EscapeLine(name), bundle.EscapeLine(name + ".sig"), ssh.FingerprintSHA256(signer.PublicKey())}
			out.Signed = append(out.Signed, s)
			if !c.Has("--json") {
				c.print("%s", s.Signature)
			}
		}
		return c.print1(&out.Result, func() {}), nil
	}
}

func (c *call) signFile(name string, signer ssh.Signer, namespace string) error {
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	sig, err := sshsig.Sign(io.NewSectionReader(f, 0, size), signer, sshsig.HashSHA512, namespace)
	if err != nil {
		return err
	}
	return bundle.WriteBytes(name+".sig", 0o644, sshsign.Armor(sig.Marshal()))
}

// sshSigner opens a private key, or finds that of a public key in ssh-agent.
func (c *call) sshSigner(name string) (ssh.Signer, func(), error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, err
	}
	none := func() {}
	if pub, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
		return c.agentSigner(pub)
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, nil, fmt.Errorf("%s is locked with a passphrase; load it with ssh-add and name its public key", finding.QuoteMax(name, 200))
	case err != nil:
		return nil, nil, fmt.Errorf("%s is no SSH key", finding.QuoteMax(name, 200))
	}
	return signer, none, nil
}

func (c *call) agentSigner(pub ssh.PublicKey) (ssh.Signer, func(), error) {
	socket := c.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, nil, errors.New("a public key needs ssh-agent, and SSH_AUTH_SOCK is not set")
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, nil, fmt.Errorf("ssh-agent does not answer: %w", err)
	}
	done := func() { conn.Close() }
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("ssh-agent does not answer: %w", err)
	}
	for _, s := range signers {
		if bytes.Equal(s.PublicKey().Marshal(), pub.Marshal()) {
			return s, done, nil
		}
	}
	done()
	return nil, nil, fmt.Errorf("ssh-agent has no key %s", ssh.FingerprintSHA256(pub))
}

// signItems writes a signature line into items of a Rye bundle.
func signItems(_ context.Context, c *call) (int, error) {
	key, err := c.signingKey()
	if err != nil {
		return 0, err
	}
	at, err := c.signingTime()
	if err != nil {
		return 0, err
	}
	head, err := c.headGeneration()
	if err != nil {
		return 0, err
	}
	out := &struct {
		bundle.Result
		Signed []string `json:"signed"`
	}{bundle.NewResult("sign"), []string{}}
	out.Whole = out
	for _, name := range c.Words {
		fault, err := c.signItem(name, head, key, at)
		if err != nil {
			return 0, err
		}
		if fault == nil {
			out.Signed = append(out.Signed, name)
		}
		out.Fail(fault)
	}
	return c.tell(&out.Result, func() {
		for _, name := range out.Signed {
			c.print("signed %s", finding.Path(name))
		}
	})
}

// signingTime is SOURCE_DATE_EPOCH, or now. No signature covers it.
func (c *call) signingTime() (time.Time, error) {
	at, err := c.epoch()
	if at == nil || err != nil {
		return c.Now(), err
	}
	return time.Unix(*at, 0), nil
}

func (c *call) signItem(name string, head bool, key ed25519.PrivateKey, at time.Time) (*bundle.Finding, error) {
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
	var text []byte
	var fault *bundle.Finding
	if head {
		text, fault = rye.SignHead(filepath.ToSlash(name), data, key, at)
	} else {
		t, err := c.itemType(name)
		if err != nil {
			return nil, err
		}
		text, fault = rye.Sign(filepath.ToSlash(name), data, t, key, at)
	}
	if fault != nil {
		return fault, nil
	}
	return nil, bundle.ReplaceFile(c.path(name), text)
}
