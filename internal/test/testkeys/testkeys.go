// Package testkeys makes SSH keys, certificates and signed git objects for
// tests and generators.
//
// Everything is deterministic: a key is a function of its kind and name, a
// signature of its key and message. The keys are public, so nothing may trust
// them. The layout of what is signed is git's: one signature header, the last
// one, with the armor exactly as ssh-keygen writes it.
//
// The package does not use pkg/sshsign, so that tests of pkg/sshsign do not
// compare code with itself; they compare both with ssh-keygen and git.
// Functions panic on what can only be a mistake of the caller.
package testkeys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// A Key is a private key with its public key or certificate. It is an
// ssh.AlgorithmSigner that needs no source of randomness.
type Key struct {
	Name string

	private crypto.Signer // nil for a security key
	public  ssh.PublicKey // the plain key, or the certificate
	plain   ssh.PublicKey
	sk      *securityKey
}

// Ed25519 returns the ssh-ed25519 key of that name.
func Ed25519(name string) *Key {
	seed := sha256.Sum256([]byte("testkeys ed25519 " + name))
	return fromPrivate(name, ed25519.NewKeyFromSeed(seed[:]))
}

// ECDSA returns the ecdsa-sha2-* key of that name on P-256, P-384 or P-521.
func ECDSA(name string, curve elliptic.Curve) *Key {
	return fromPrivate(name, ecdsaKey("testkeys ecdsa "+name, curve))
}

// RSA returns the ssh-rsa key of 1024, 2048 or 3072 bits.
func RSA(bits int) *Key {
	primes, ok := rsaPrimes[bits]
	if !ok {
		panic(fmt.Sprintf("testkeys: no RSA key of %d bits", bits))
	}
	p, q := number(primes[0]), number(primes[1])
	one := big.NewInt(1)
	order := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	k := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: 65537},
		D:         new(big.Int).ModInverse(big.NewInt(65537), order),
		Primes:    []*big.Int{p, q},
	}
	k.Precompute()
	return fromPrivate(fmt.Sprintf("rsa%d", bits), k)
}

// SKEd25519 returns a software stand-in for the sk-ssh-ed25519@openssh.com key
// of that name: what it signs is what a FIDO authenticator signs, with user
// presence.
func SKEd25519(name string) *Key {
	seed := sha256.Sum256([]byte("testkeys sk ed25519 " + name))
	private := ed25519.NewKeyFromSeed(seed[:])
	return fromSK(name, ssh.KeyAlgoSKED25519, private, ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, private.Public().(ed25519.PublicKey), application}))
}

// SKECDSA is SKEd25519 for sk-ecdsa-sha2-nistp256@openssh.com.
func SKECDSA(name string) *Key {
	private := ecdsaKey("testkeys sk ecdsa "+name, elliptic.P256())
	point, err := private.PublicKey.Bytes()
	must(err)
	return fromSK(name, ssh.KeyAlgoSKECDSA256, private, ssh.Marshal(struct {
		Type        string
		Curve       string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKECDSA256, "nistp256", point, application}))
}

// WithFlags returns the security key with other flags in its signatures:
// bit 0 is user presence, bit 2 user verification (OpenSSH PROTOCOL.u2f).
func (k *Key) WithFlags(flags byte) *Key {
	c := *k
	sk := *k.sk
	sk.flags = flags
	c.sk = &sk
	return &c
}

// PublicKey returns the plain public key, or the certificate if k is one.
func (k *Key) PublicKey() ssh.PublicKey { return k.public }

// Plain returns k without its certificate.
func (k *Key) Plain() *Key {
	c := *k
	c.public = k.plain
	return &c
}

// Authorized returns "type base64", as in allowed_signers and *.pub.
func (k *Key) Authorized() string {
	return k.public.Type() + " " + base64.StdEncoding.EncodeToString(k.public.Marshal())
}

// Fingerprint returns "SHA256:" and the fingerprint of the plain key.
func (k *Key) Fingerprint() string { return ssh.FingerprintSHA256(k.plain) }

// Line returns the allowed_signers line that lets k speak for principals;
// options may be "".
func (k *Key) Line(principals, options string) string {
	if options != "" {
		options += " "
	}
	return principals + " " + options + k.Authorized() + "\n"
}

// PEM returns the private key as the unencrypted file that ssh-keygen and git
// read. A security key has none.
func (k *Key) PEM() []byte {
	block, err := ssh.MarshalPrivateKey(k.private, k.Name)
	must(err)
	return pem.EncodeToMemory(block)
}

// Sign signs data with the default algorithm, rsa-sha2-512 for RSA.
func (k *Key) Sign(random io.Reader, data []byte) (*ssh.Signature, error) {
	return k.SignWithAlgorithm(random, data, "")
}

// SignWithAlgorithm signs data. The randomness is not used.
func (k *Key) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if k.sk != nil {
		if algorithm != "" && algorithm != k.plain.Type() {
			return nil, errors.New("testkeys: a security key has one algorithm")
		}
		return k.sk.sign(data)
	}
	if algorithm == "" && k.plain.Type() == ssh.KeyAlgoRSA {
		algorithm = ssh.KeyAlgoRSASHA512
	}
	signer, err := ssh.NewSignerFromSigner(k.private)
	if err != nil {
		return nil, err
	}
	return signer.(ssh.AlgorithmSigner).SignWithAlgorithm(nil, data, algorithm)
}

// A Cert says what a certificate holds. The zero value is a user certificate
// without principals that is always valid.
type Cert struct {
	Serial        uint64
	KeyID         string
	Principals    []string
	After, Before time.Time // zero: no limit
	Host          bool
	Critical      map[string]string // critical options
	Claims        *Key              // the authority it names, if not the one that signs
}

// Certify returns k with a certificate made by ca.
func (k *Key) Certify(ca *Key, c Cert) *Key {
	nonce := sha256.Sum256([]byte("testkeys nonce " + k.Name + " " + c.KeyID))
	cert := &ssh.Certificate{
		Nonce:           nonce[:],
		Key:             k.plain,
		Serial:          c.Serial,
		CertType:        ssh.UserCert,
		KeyId:           c.KeyID,
		ValidPrincipals: c.Principals,
		ValidBefore:     ssh.CertTimeInfinity,
		Permissions:     ssh.Permissions{CriticalOptions: c.Critical},
		SignatureKey:    ca.plain,
	}
	if c.Host {
		cert.CertType = ssh.HostCert
	}
	if !c.After.IsZero() {
		cert.ValidAfter = uint64(c.After.Unix())
	}
	if !c.Before.IsZero() {
		cert.ValidBefore = uint64(c.Before.Unix())
	}
	if c.Claims != nil {
		cert.SignatureKey = c.Claims.plain
	}
	// The signature covers all but itself: an absent one is four zero bytes.
	unsigned := cert.Marshal()
	sig, err := ca.Sign(nil, unsigned[:len(unsigned)-4])
	must(err)
	cert.Signature = sig
	certified := *k
	certified.public = cert
	return &certified
}

// A Signature is an SSHSIG blob (OpenSSH PROTOCOL.sshsig) field by field.
type Signature struct {
	Magic         [6]byte
	Version       uint32
	PublicKey     []byte
	Namespace     string
	Reserved      string
	HashAlgorithm string
	Signature     []byte
}

// Marshal returns the blob.
func (s *Signature) Marshal() []byte { return ssh.Marshal(*s) }

// Sign returns the SSHSIG signature of message, with algorithm "" the key's
// default. hash is "sha256" or "sha512".
func Sign(message []byte, k *Key, namespace, hash, algorithm string) *Signature {
	var sum []byte
	switch hash {
	case "sha256":
		h := sha256.Sum256(message)
		sum = h[:]
	case "sha512":
		h := sha512.Sum512(message)
		sum = h[:]
	default:
		panic("testkeys: hash " + hash)
	}
	sig, err := k.SignWithAlgorithm(nil, ssh.Marshal(struct {
		Magic     [6]byte
		Namespace string
		Reserved  string
		Hash      string
		Sum       []byte
	}{magic, namespace, "", hash, sum}), algorithm)
	must(err)
	return &Signature{magic, 1, k.public.Marshal(), namespace, "", hash, ssh.Marshal(sig)}
}

// Armor returns blob as ssh-keygen writes it: lines of 70 characters, with a
// final newline.
func Armor(blob []byte) []byte {
	var b strings.Builder
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for s := base64.StdEncoding.EncodeToString(blob); s != ""; {
		n := min(70, len(s))
		b.WriteString(s[:n] + "\n")
		s = s[n:]
	}
	b.WriteString("-----END SSH SIGNATURE-----\n")
	return []byte(b.String())
}

// A Commit is what goes into a commit object; every part is used as it is.
type Commit struct {
	Tree      string   // hexadecimal object id; "": the empty tree of SHA-1
	Parents   []string // hexadecimal object ids
	Author    string   // "Name <email> seconds zone"; "": as Committer
	Committer string   // likewise; "": a fixed one
	Headers   string   // whole lines that follow the committer
	Message   string
}

// EmptyTree and EmptyTree256 are the ids of the tree without entries.
const (
	EmptyTree    = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	EmptyTree256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
)

// Bytes returns the content of the unsigned commit object.
func (c Commit) Bytes() []byte {
	var b strings.Builder
	tree, committer := c.Tree, c.Committer
	if tree == "" {
		tree = EmptyTree
	}
	if committer == "" {
		committer = "Op <op@example.com> 1700000000 +0000"
	}
	author := c.Author
	if author == "" {
		author = committer
	}
	b.WriteString("tree " + tree + "\n")
	for _, p := range c.Parents {
		b.WriteString("parent " + p + "\n")
	}
	b.WriteString("author " + author + "\ncommitter " + committer + "\n")
	b.WriteString(c.Headers + "\n" + c.Message)
	return []byte(b.String())
}

// SignCommit returns the content of the commit object that git commit -S makes
// of the unsigned one. In a SHA-256 repository use SignCommitHeader.
func SignCommit(payload []byte, k *Key) []byte {
	return SignCommitHeader(payload, "gpgsig", Armor(Sign(payload, k, "git", "sha512", "").Marshal()))
}

// SignCommitHeader puts armor into payload as its last header, of that name:
// "gpgsig", or "gpgsig-sha256" in a SHA-256 repository.
func SignCommitHeader(payload []byte, header string, armor []byte) []byte {
	end := strings.Index(string(payload), "\n\n") + 1
	if end == 0 {
		end = len(payload)
	}
	value := strings.ReplaceAll(strings.TrimSuffix(string(armor), "\n"), "\n", "\n ")
	return []byte(string(payload[:end]) + header + " " + value + "\n" + string(payload[end:]))
}

// SignTag returns the content of the tag object that git tag -s makes of the
// unsigned one.
func SignTag(payload []byte, k *Key) []byte {
	return append(payload[:len(payload):len(payload)], Armor(Sign(payload, k, "git", "sha512", "").Marshal())...)
}

const application = "ssh:"

var magic = [6]byte{'S', 'S', 'H', 'S', 'I', 'G'}

func fromPrivate(name string, private crypto.Signer) *Key {
	public, err := ssh.NewPublicKey(private.Public())
	must(err)
	return &Key{Name: name, private: private, public: public, plain: public}
}

func fromSK(name, kind string, private crypto.Signer, blob []byte) *Key {
	public, err := ssh.ParsePublicKey(blob)
	must(err)
	return &Key{Name: name, public: public, plain: public, sk: &securityKey{kind, private, 1, 7}}
}

func ecdsaKey(seed string, curve elliptic.Curve) *ecdsa.PrivateKey {
	sum := sha512.Sum512([]byte(seed))
	bytes := (curve.Params().BitSize + 7) / 8
	scalar := make([]byte, bytes)
	// Below every group order: the first byte stays 0.
	copy(scalar[1:], sum[:])
	private, err := ecdsa.ParseRawPrivateKey(curve, scalar)
	must(err)
	return private
}

// A securityKey signs as in OpenSSH PROTOCOL.u2f, "SSH U2F Signatures".
type securityKey struct {
	kind    string
	private crypto.Signer
	flags   byte
	counter uint32
}

func (s *securityKey) sign(data []byte) (*ssh.Signature, error) {
	app, message := sha256.Sum256([]byte(application)), sha256.Sum256(data)
	rest := binary.BigEndian.AppendUint32([]byte{s.flags}, s.counter)
	signed := append(append(app[:len(app):len(app)], rest...), message[:]...)
	if private, ok := s.private.(ed25519.PrivateKey); ok {
		return &ssh.Signature{Format: s.kind, Blob: ed25519.Sign(private, signed), Rest: rest}, nil
	}
	signer, err := ssh.NewSignerFromSigner(s.private)
	if err != nil {
		return nil, err
	}
	sig, err := signer.Sign(nil, signed)
	if err != nil {
		return nil, err
	}
	return &ssh.Signature{Format: s.kind, Blob: sig.Blob, Rest: rest}, nil
}

func number(hex string) *big.Int {
	n, ok := new(big.Int).SetString(hex, 16)
	if !ok {
		panic("testkeys: not a number")
	}
	return n
}

func must(err error) {
	if err != nil {
		panic("testkeys: " + err.Error())
	}
}
