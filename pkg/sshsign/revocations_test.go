package sshsign

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/internal/test/testkeys"
)

// certSection returns a list with one certificate section, whose content
// follows the authority.
func certSection(ca []byte, kind byte, data []byte) []byte {
	return krl(krlCertificates, ssh.Marshal(struct {
		CA, Reserved []byte
		Kind         byte
		Data         []byte
	}{ca, []byte("reserved"), kind, data}))
}

// encode returns numbers as uint64 of RFC 4251.
func encode(n []uint64) []byte {
	var b []byte
	for _, n := range n {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// TestRevocations has every kind of entry, with a key or certificate that it
// hits and one that it misses.
func TestRevocations(t *testing.T) {
	ca := authority.PublicKey().Marshal()
	cert := func(k, by *testkeys.Key, serial uint64, id string) ssh.PublicKey {
		return k.Certify(by, testkeys.Cert{Serial: serial, KeyID: id, Principals: []string{"op@example.com"}}).PublicKey()
	}
	keyBlob, strangerBlob := keyA.PublicKey().Marshal(), stranger.PublicKey().Marshal()
	sum1, sum256 := sha1.Sum(keyBlob), sha256.Sum256(keyBlob)
	for _, test := range []struct {
		name    string
		data    []byte
		revoked []ssh.PublicKey
		spared  []ssh.PublicKey
	}{
		{"key list", []byte(" # c\r\n\t" + keyA.Authorized() + " op's\r\n\r\n" + stranger.Authorized()),
			[]ssh.PublicKey{keyA.PublicKey(), stranger.PublicKey(), cert(keyA, authority, 1, ""), cert(keyB, stranger, 1, "")}, []ssh.PublicKey{keyB.PublicKey(), cert(keyB, authority, 1, "")}},
		{"DSA key in a list", []byte("ssh-dss AAAAB3NzaC1kc3M=\n"), nil, []ssh.PublicKey{keyA.PublicKey()}},
		{"empty KRL", krl(krlExplicitKey, nil), nil, []ssh.PublicKey{keyA.PublicKey()}},
		{"explicit keys", krl(krlExplicitKey, ssh.Marshal(struct{ A, B []byte }{keyBlob, strangerBlob})),
			[]ssh.PublicKey{keyA.PublicKey(), stranger.PublicKey(), cert(keyA, authority, 0, ""), cert(keyB, stranger, 0, "")}, []ssh.PublicKey{keyB.PublicKey()}},
		{"SHA-1", krl(krlSHA1, ssh.Marshal(struct{ A []byte }{sum1[:]})), []ssh.PublicKey{keyA.PublicKey(), cert(keyA, authority, 0, "")}, []ssh.PublicKey{keyB.PublicKey()}},
		{"SHA-256", krl(krlSHA256, ssh.Marshal(struct{ A []byte }{sum256[:]})), []ssh.PublicKey{keyA.PublicKey(), cert(keyB, keyA, 0, "")}, []ssh.PublicKey{keyB.PublicKey()}},
		{"serials", certSection(ca, krlSerialList, encode([]uint64{3, 1, 1<<64 - 1})),
			[]ssh.PublicKey{cert(keyA, authority, 1, ""), cert(keyA, authority, 3, ""), cert(keyA, authority, 1<<64-1, "")},
			[]ssh.PublicKey{keyA.PublicKey(), authority.PublicKey(), cert(keyA, authority, 0, ""), cert(keyA, authority, 2, ""), cert(keyA, stranger, 1, "")}},
		{"range", certSection(ca, krlSerialRange, encode([]uint64{5, 7})),
			[]ssh.PublicKey{cert(keyA, authority, 5, ""), cert(keyA, authority, 7, "")}, []ssh.PublicKey{cert(keyA, authority, 4, ""), cert(keyA, authority, 8, "")}},
		{"bitmap", certSection(ca, krlSerialBitmap, append(encode([]uint64{100}), 0, 0, 0, 2, 0x02, 0x01)),
			[]ssh.PublicKey{cert(keyA, authority, 100, ""), cert(keyA, authority, 109, "")}, []ssh.PublicKey{cert(keyA, authority, 99, ""), cert(keyA, authority, 101, ""), cert(keyA, authority, 110, "")}},
		{"bitmap at the end of numbers", certSection(ca, krlSerialBitmap, append(encode([]uint64{1<<64 - 2}), 0, 0, 0, 1, 0x02)),
			[]ssh.PublicKey{cert(keyA, authority, 1<<64-1, "")}, []ssh.PublicKey{cert(keyA, authority, 1<<64-2, ""), cert(keyA, authority, 0, "")}},
		{"key id", certSection(ca, krlKeyID, ssh.Marshal(struct{ A, B string }{"one", ""})),
			[]ssh.PublicKey{cert(keyA, authority, 0, "one"), cert(keyA, authority, 0, "")}, []ssh.PublicKey{cert(keyA, authority, 0, "two"), cert(keyA, stranger, 0, "one")}},
		{"any authority", certSection(nil, krlKeyID, ssh.Marshal(struct{ A string }{"one"})),
			[]ssh.PublicKey{cert(keyA, authority, 0, "one"), cert(keyA, stranger, 0, "one")}, []ssh.PublicKey{cert(keyA, stranger, 0, "two")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := ParseRevocations(test.data)
			if err != nil {
				t.Fatal(err)
			}
			for i, k := range test.revoked {
				if !r.Revokes(k) {
					t.Errorf("%d passes", i)
				}
			}
			for i, k := range test.spared {
				if r.Revokes(k) {
					t.Errorf("%d is revoked: %s", i, r.revokes(k))
				}
			}
		})
	}
	t.Run("in a verdict", func(t *testing.T) {
		s := signers(t, authority.Line("*", "cert-authority")+keyA.Line("op@example.com", ""))
		r, err := ParseRevocations(certSection(ca, krlKeyID, ssh.Marshal(struct{ A string }{"one"})))
		if err != nil {
			t.Fatal(err)
		}
		for id, reason := range map[string]Reason{"one": Revoked, "two": Good} {
			k := keyA.Certify(authority, testkeys.Cert{KeyID: id, Principals: []string{"op@example.com"}})
			want(t, VerifyCommit(testkeys.SignCommit(message, k), SHA1, s, r, Options{}), reason)
		}
		want(t, VerifyCommit(testkeys.SignCommit(message, keyA), SHA1, s, r, Options{}), Good)
	})
	var none *Revocations
	if none.Revokes(keyA.PublicKey()) {
		t.Error("nil revokes something")
	}
}

func TestRevocationsRefused(t *testing.T) {
	ca := authority.PublicKey().Marshal()
	good := krl(krlExplicitKey, ssh.Marshal(struct{ A []byte }{keyA.PublicKey().Marshal()}))
	format := append([]byte(krlMagic), 0, 0, 0, 2)
	for name, data := range map[string][]byte{
		"magic only":                      []byte(krlMagic),
		"magic cut":                       []byte(krlMagic)[:7],
		"magic in another case":           []byte("sshkrl\n\x00"),
		"format 2":                        append(format, good[len(format):]...),
		"byte too many":                   append(good[:len(good):len(good)], 2),
		"unknown section":                 krl(6, nil),
		"section of extensions":           krl(255, nil),
		"signature":                       krl(krlSignature, ca),
		"hash of 19 bytes":                krl(krlSHA1, ssh.Marshal(struct{ A []byte }{make([]byte, 19)})),
		"hash of 33 bytes":                krl(krlSHA256, ssh.Marshal(struct{ A []byte }{make([]byte, 33)})),
		"key cut":                         krl(krlExplicitKey, []byte{0, 0, 0, 9, 1}),
		"authority is junk":               certSection([]byte("junk"), krlKeyID, nil),
		"authority is a certificate":      certSection(keyA.Certify(authority, testkeys.Cert{}).PublicKey().Marshal(), krlKeyID, nil),
		"unknown certificate section":     certSection(ca, 0x24, nil),
		"certificate extension":           certSection(ca, 0x39, nil),
		"serial 0":                        certSection(ca, krlSerialList, encode([]uint64{0})),
		"half a serial":                   certSection(ca, krlSerialList, []byte{1, 2, 3}),
		"range from 0":                    certSection(ca, krlSerialRange, encode([]uint64{0, 5})),
		"range turned round":              certSection(ca, krlSerialRange, encode([]uint64{6, 5})),
		"range too long":                  certSection(ca, krlSerialRange, encode([]uint64{5, 6, 7})),
		"bitmap with bit for 0":           certSection(ca, krlSerialBitmap, append(encode([]uint64{0}), 0, 0, 0, 1, 1)),
		"bitmap that wraps":               certSection(ca, krlSerialBitmap, append(encode([]uint64{1<<64 - 1}), 0, 0, 0, 1, 2)),
		"negative bitmap":                 certSection(ca, krlSerialBitmap, append(encode([]uint64{1}), 0, 0, 0, 1, 0x80)),
		"huge bitmap":                     certSection(ca, krlSerialBitmap, append(append(encode([]uint64{1}), 0, 0, 0x08, 1, 1), make([]byte, maxBitmap)...)),
		"key id with NUL":                 certSection(ca, krlKeyID, ssh.Marshal(struct{ A string }{"a\x00b"})),
		"too large":                       append(good, make([]byte, maxKRL)...),
		"list: fingerprint":               []byte(keyA.Fingerprint() + "\n"),
		"list: options":                   []byte("no-pty " + keyA.Authorized() + "\n"),
		"list: allowed signers":           []byte(keyA.Line("op@example.com", "")),
		"list: certificate":               []byte(keyA.Certify(authority, testkeys.Cert{}).Authorized() + "\n"),
		"list: unknown type":              []byte("ssh-new AAAAB3NzaC1uZXcAAAABeA==\n"),
		"list: other type":                []byte("ssh-rsa" + strings.TrimPrefix(keyA.Authorized(), "ssh-ed25519") + "\n"),
		"list: base64 cut":                []byte(keyA.Authorized()[:40] + "\n"),
		"list: type only":                 []byte("ssh-ed25519\n"),
		"list: NUL":                       []byte(keyA.Authorized() + "\x00\n"),
		"list: CR only":                   []byte("# nothing\r" + keyA.Authorized() + "\r"),
		"list: byte order mark":           []byte("\ufeff" + keyA.Authorized() + "\n"),
		"list: good line, then a bad one": []byte(keyA.Authorized() + "\njunk\n"),
		"list: UTF-16":                    []byte("s\x00s\x00h\x00"),
		"directory listing":               []byte("total 0\n"),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ParseRevocations(data)
			var e *ParseError
			if r != nil || !errors.As(err, &e) {
				t.Fatalf("%v, %v", r, err)
			}
			if e.Message == "" || strings.HasSuffix(e.Message, ".") || strings.ContainsAny(e.Error()+e.Hint, "\x00\n\r") {
				t.Errorf("%q is not one clause", e.Error())
			}
		})
	}
	for i := len(krlMagic); i < len(good); i++ {
		cut := good[:i]
		if r, err := ParseRevocations(cut); err == nil && len(r.keys) > 0 {
			t.Errorf("cut at %d it revokes something", i)
		} else if err == nil && i != len(good)-len(keyA.PublicKey().Marshal())-9 {
			t.Errorf("cut at %d it is accepted", i)
		}
	}
}

// TestLargeKRL is about time and memory, in the long run at the limit.
func TestLargeKRL(t *testing.T) {
	serials := make([]uint64, maxKRL/scaled(64, 8)-100)
	for i := range serials {
		serials[i] = uint64(len(serials)-i) * 2
	}
	start := time.Now()
	r, err := ParseRevocations(certSection(nil, krlSerialList, encode(serials)))
	if err != nil {
		t.Fatal(err)
	}
	for _, serial := range []uint64{1, 2, 3, 1 << 16, 1<<16 + 1} {
		if got := r.certs[""].holds(serial); got != (serial%2 == 0) {
			t.Errorf("serial %d: %v", serial, got)
		}
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("took %v", d)
	}
}
