package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
)

// TestBundleScripts runs testdata/scripts/bundles with rig-bundle beside
// rig-hook: what one makes, the other judges. key.pem is a key for Rye items.
func TestBundleScripts(t *testing.T) {
	bin := gittest.TempDir(t)
	if err := programs.Build(bin, "rig-bundle"); err != nil {
		t.Fatal(err)
	}
	p := scripts("../../testdata/scripts/bundles")
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("PATH", e.Getenv("PATH")+string(os.PathListSeparator)+bin)
		der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(e.WorkDir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
			return err
		}
		return setup(e)
	}
	testscript.Run(t, p)
}
