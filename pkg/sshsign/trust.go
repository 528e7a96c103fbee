package sshsign

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
)

// Judge reports whether key may sign at all under o: its type and length, the
// revocations, the lines that list it, their namespaces and validity. It is
// what a verification does between reading a signature and the mathematics;
// a sender can ask it before signing anything. o.At must be set. key may be a
// certificate.
func (s *Signers) Judge(key ssh.PublicKey, r *Revocations, o Options) Verdict {
	return s.judge(key, nil, r, o)
}

// judge is Judge of a key that is known as listed; nil: it may be, too.
func (s *Signers) judge(key ssh.PublicKey, known *listed, r *Revocations, o Options) Verdict {
	if o = o.withDefaults(); known == nil {
		known = s.key(plain(key).Marshal())
	}
	v := namedAs(key, known)
	if !supportedKey(v.Key.Type()) {
		return v.refuse(UnsupportedType, "a key of type "+finding.QuoteMax(v.Key.Type(), 60))
	}
	if o.At.IsZero() {
		return v.refuse(Expired, "no time is given at which the key would be valid")
	}
	if bits := rsaBits(v.Key); bits > 0 && bits < o.MinRSABits {
		return v.refuse(UnsupportedType, fmt.Sprintf("an RSA key of %d bits; at least %d are required", bits, o.MinRSABits))
	}
	if why := r.revokes(key); why != "" {
		return v.refuse(Revoked, fmt.Sprintf("the key %s: %s", v.Fingerprint, why))
	}
	if v.Certificate != nil {
		return s.judgeCertificate(v, o)
	}
	var refused Verdict
	other := 0
	for _, line := range s.linesOf(known) {
		if line.CertAuthority || !line.covers(o.Namespace) {
			if other == 0 {
				other = line.Line
			}
			continue
		}
		if reason, detail := line.window(o); reason != "" {
			if refused.Reason == "" {
				refused = v.refuse(reason, detail)
				refused.Line = line.Line
			}
			continue
		}
		v = v.admit(line, line.Principals)
	}
	switch {
	case v.Good():
		return v
	case refused.Reason != "":
		return refused
	case other != 0:
		v.Line = other
		return v.refuse(UnknownKey, fmt.Sprintf("the key %s is listed in line %d, but not for signatures in the namespace %s", v.Fingerprint, other, finding.Quote(o.Namespace)))
	}
	return v.refuse(UnknownKey, fmt.Sprintf("no line lists the key %s", v.Fingerprint))
}

// judgeCertificate judges a certificate by the lines of its authority and by
// what it says itself (OpenSSH PROTOCOL.certkeys).
func (s *Signers) judgeCertificate(v Verdict, o Options) Verdict {
	cert := v.Certificate
	authority := ssh.FingerprintSHA256(cert.SignatureKey)
	var lines []*Signer
	for _, line := range s.lookup(cert.SignatureKey) {
		if line.CertAuthority && line.covers(o.Namespace) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return v.refuse(CertificateRefused, fmt.Sprintf("no cert-authority line for %s lists its authority %s", finding.Quote(o.Namespace), authority))
	}
	v.Line = lines[0].Line
	if detail := checkCertificate(cert, o); detail != "" {
		return v.refuse(CertificateRefused, detail)
	}
	var refused Verdict
	for _, line := range lines {
		if reason, detail := line.window(o); reason != "" {
			if refused.Reason == "" {
				refused = v.refuse(reason, detail)
				refused.Line = line.Line
			}
			continue
		}
		for _, p := range cert.ValidPrincipals {
			if !strings.ContainsAny(p, "*?!,") && line.Matches(p) {
				v = v.admit(line, p)
			}
		}
	}
	switch {
	case v.Good():
		return v
	case refused.Reason != "":
		return refused
	}
	return v.refuse(CertificateRefused, fmt.Sprintf("line %d matches none of its principals", lines[0].Line))
}

// checkCertificate returns why a certificate of a listed authority is refused,
// "" if it is not.
func checkCertificate(cert *ssh.Certificate, o Options) string {
	if cert.CertType != ssh.UserCert {
		return "it is not a user certificate"
	}
	if len(cert.CriticalOptions) > 0 {
		return "it has critical options, and none is defined for signatures"
	}
	if len(cert.ValidPrincipals) == 0 {
		return "it names no principals"
	}
	for _, p := range cert.ValidPrincipals {
		if p == "" {
			return "one of its principals is empty"
		}
	}
	for _, at := range o.times() {
		if seconds := at.Unix(); seconds < 0 || uint64(seconds) < cert.ValidAfter {
			return "it is not yet valid at " + stamp(at)
		} else if uint64(seconds) >= cert.ValidBefore {
			return "it has expired at " + stamp(at)
		}
	}
	if bits := rsaBits(cert.SignatureKey); bits > 0 && bits < o.MinRSABits {
		return fmt.Sprintf("its authority has an RSA key of %d bits; at least %d are required", bits, o.MinRSABits)
	}
	if r, _ := checkForm(cert.SignatureKey, cert.Signature); r != "" {
		return "its authority's signature has an algorithm or encoding that is not supported"
	}
	checker := ssh.CertChecker{Clock: func() time.Time { return o.At }}
	if checker.CheckCert(cert.ValidPrincipals[0], cert) != nil {
		return "its authority's signature does not verify"
	}
	return ""
}

// admit returns v as good for one more list of principals.
func (v Verdict) admit(line *Signer, principals string) Verdict {
	if !v.Good() {
		v.Reason, v.Line = Good, line.Line
	}
	v.Principals = append(v.Principals, principals)
	return v
}

// window tells with which reason the line does not hold, "" if it does.
func (s *Signer) window(o Options) (Reason, string) {
	for _, at := range o.times() {
		if !s.ValidAfter.IsZero() && at.Unix() < s.ValidAfter.Unix() {
			return NotYetValid, fmt.Sprintf("line %d holds from %s on, asked for %s", s.Line, stamp(s.ValidAfter), stamp(at))
		}
		if !s.ValidBefore.IsZero() && at.Unix() > s.ValidBefore.Unix() {
			return Expired, fmt.Sprintf("line %d held until %s, asked for %s", s.Line, stamp(s.ValidBefore), stamp(at))
		}
	}
	return "", ""
}

// times returns the instants at which a key must be valid.
func (o Options) times() []time.Time {
	if o.Now.IsZero() {
		return []time.Time{o.At}
	}
	return []time.Time{o.At, o.Now}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// rsaBits returns the length of the modulus, 0 for keys of other types.
func rsaBits(key ssh.PublicKey) int {
	if k := rsaKey(key); k != nil {
		return k.N.BitLen()
	}
	return 0
}
