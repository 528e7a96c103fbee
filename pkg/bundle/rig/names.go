package rig

import (
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/bundle"
	"golang.org/x/text/unicode/norm"
)

// sensitive reports whether a path names a secret: code sensitive-file
// (docs/spec/rigbundle.md#names). Letters are compared without regard to case.
func sensitive(name string) bool {
	base := ""
	for c := range strings.SplitSeq(strings.ToLower(name), "/") {
		if c == ".git" || base == "" && c == "node_modules" {
			return true
		}
		base = c
	}
	return base == ".env" || strings.HasPrefix(base, ".env.") || strings.HasSuffix(base, ".env") ||
		strings.HasPrefix(base, "credentials.") || strings.HasPrefix(base, "tokens.") ||
		hasSuffix(base, ".pem", ".key", ".p12")
}

// suspect reports whether a path often holds a secret: note sensitive-suspect.
func suspect(name string) bool {
	name = strings.ToLower(name)
	dir, base := path.Split(name)
	switch base {
	case "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "id_rsa_sk", "id_dsa_sk",
		".npmrc", ".netrc", ".pypirc", ".envrc", ".git-credentials", "credentials":
		return true
	}
	if hasSuffix(base, ".pfx", ".jks", ".keystore", ".kdbx") {
		return true
	}
	for _, mid := range []string{".pem.", ".key.", ".p12."} {
		if strings.Contains(base, mid) {
			return true
		}
	}
	for c := range strings.SplitSeq(dir, "/") {
		switch c {
		case ".ssh", ".aws", ".gnupg", ".env", "node_modules":
			return true
		}
	}
	return false
}

func hasSuffix(s string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(x string) bool { return strings.HasSuffix(s, x) })
}

// safeComponent: agent names on create and plugin ids (docs/spec/rigbundle.md#names).
func safeComponent(s string) bool {
	if s == "" || len(s) > 100 || !norm.NFC.IsNormalString(s) || !bundle.Printable(s) || strings.ContainsAny(s, `/\:*?"<>|`) {
		return false
	}
	switch s[0] {
	case '.', '-', ' ':
		return false
	}
	switch s[len(s)-1] {
	case '.', ' ':
		return false
	}
	return !portable.Device(s)
}

// cleanRef is a clean path with one optional leading "./", as rig.yaml and
// agent.yaml may write it; it returns the path without it.
func cleanRef(p string) (string, bool) {
	p = strings.TrimPrefix(p, "./")
	return p, bundle.CleanPath(p)
}

// resolve joins a relative ref to a directory; ok is false if the result
// leaves the root. The root itself is ".".
func resolveRef(dir, rel string) (p string, ok bool) {
	p = path.Join(dir, rel)
	return p, p != ".." && !strings.HasPrefix(p, "../") && !path.IsAbs(p)
}
