package rye_test

import (
	"crypto/ed25519"
	"fmt"

	"github.com/rigward/rigward/pkg/bundle/rye"
)

// A key is named by its fingerprint.
func ExampleFingerprint() {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	fmt.Println(len(rye.Fingerprint(key)), rye.ManifestPath("notes"))
	// Output: 16 .ai/bundles/notes/manifest.yaml
}
