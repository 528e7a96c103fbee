package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/hiddeco/sshsig"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/sshsign"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

var signKey = flagSpec{name: "--key", value: "FILE", help: "SSH private key, or a public key whose private half is in ssh-agent"}

// sshSign is the verb that writes FILE.sig in a namespace: a detached SSH
// signature of the file's bytes, as ssh-keygen -Y sign makes it.
func sshSign(namespace string) func(context.Context, *call) int {
	return func(_ context.Context, c *call) int {
		err := c.words(1, -1)
		if err == nil && !c.has("--key") {
			err = usagef("sign needs --key FILE")
		}
		if err != nil {
			return c.fail(err)
		}
		signer, done, err := c.sshSigner(c.path(c.get("--key")))
		if err != nil {
			return c.fail(err)
		}
		defer done()
		type signed struct {
			File      string `json:"file"`
			Signature string `json:"signature"`
			Key       string `json:"key"`
		}
		out := struct {
			Schema  string   `json:"schema_version"`
			Command string   `json:"command"`
			Code    string   `json:"code"`
			Message string   `json:"message"`
			Signed  []signed `json:"signed"`
		}{"1.0", "sign", "ok", "ok", nil}
		for _, name := range c.args {
			if err := c.signFile(c.path(name), signer, namespace); err != nil {
				return c.fail(err)
			}
			s := signed{bundle.EscapeLine(name), bundle.EscapeLine(name + ".sig"), ssh.FingerprintSHA256(signer.PublicKey())}
			out.Signed = append(out.Signed, s)
			if !c.has("--json") {
				c.print("%s", s.Signature)
			}
		}
		if c.has("--json") {
			c.json(out)
		}
		return exitOK
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
	return bundle.WriteFile(name+".sig", 0o644, func(w io.Writer) error {
		_, err := w.Write(sshsign.Armor(sig.Marshal()))
		return err
	}, nil)
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
