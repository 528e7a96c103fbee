// Package ryebundle measures the verification of a large Rye bundle against the
// cryptography in it alone.
//
//	go test -bench . ./internal/bench/ryebundle
//
// The bar is a ratio of 2: reading, parsing, path checks and the search for
// extra files together may cost no more than the hashes and signatures, which
// are measured on one core. Verify computes on all; GOMAXPROCS=1 takes that
// help away. With
// RIGWARD_BENCH=1 the test takes the whole bundle and fails above the bar;
// without, it takes a tenth of it and only says what it measured.
package ryebundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
)

// items is the size of the measured bundle.
const items = 2000

// A job is the cryptography of one file: bytes to be hashed and a signature.
type job struct {
	raw, hashed, object []byte
	message, signature  []byte
}

// makeBundle writes a bundle of n signed tools and texts of 0.5 to 8 KiB in
// 100 folders, and returns the work that verifying it cannot do without.
func makeBundle(tb testing.TB, n int, key ed25519.PrivateKey) (root string, jobs []job) {
	tb.Helper()
	root = tb.TempDir()
	at := time.Unix(1773709321, 0)
	for i := range n {
		p, t, text := fmt.Sprintf(".ai/tools/team/t%02d/tool%d.py", i%50, i), rye.Tool, "x = 'some text'\n"
		if i%4 == 0 {
			p, t, text = fmt.Sprintf(".ai/knowledge/team/k%02d/note%d.md", i%50, i), rye.Knowledge, "Some text of a note.\n"
		}
		data, fault := rye.Sign(p, []byte(strings.Repeat(text, 30+i%16*30)), t, key, at)
		if fault != nil {
			tb.Fatal(fault)
		}
		put(tb, root, p, data)
		jobs = append(jobs, jobOf(tb, data))
	}
	src, err := bundle.OpenDirSource(root)
	if err != nil {
		tb.Fatal(err)
	}
	defer src.Close()
	out, err := rye.Create(tb.Context(), src, rye.CreateOptions{ID: "team/bench", Version: "1.0.0", Time: at, Key: key})
	if err != nil || !out.OK() {
		tb.Fatal(out.Findings, err)
	}
	put(tb, root, out.Path, out.Text)
	return root, append(jobs, jobOf(tb, out.Text))
}

func put(tb testing.TB, root, p string, data []byte) {
	p = filepath.Join(root, filepath.FromSlash(p))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(p, data, 0o644); err != nil {
		tb.Fatal(err)
	}
}

// jobOf takes a signed text apart. The object of an object_hash has about 600
// bytes, whatever they are.
func jobOf(tb testing.TB, data []byte) job {
	line, text, _ := bytes.Cut(data, []byte("\n"))
	parts := strings.Split(strings.TrimSuffix(string(line), " -->"), ":")
	n := len(parts)
	sig, err := base64.URLEncoding.DecodeString(parts[n-2])
	if err != nil {
		tb.Fatal(err)
	}
	return job{data, text, make([]byte, 600), []byte(parts[n-3]), sig}
}

// alone does the cryptography: three hashes and one signature of each file.
func alone(tb testing.TB, key ed25519.PublicKey, jobs []job) {
	for _, j := range jobs {
		sha256.Sum256(j.raw)
		sha256.Sum256(j.hashed)
		sha256.Sum256(j.object)
		if !ed25519.Verify(key, j.message, j.signature) {
			tb.Fatal("a signature that does not verify")
		}
	}
}

func verify(tb testing.TB, n int, root string, pin rye.Pin) {
	src, err := bundle.OpenDirSource(root)
	if err != nil {
		tb.Fatal(err)
	}
	defer src.Close()
	r, err := rye.Verify(tb.Context(), src, rye.Options{ID: "team/bench", Keys: &rye.Keyring{Pins: []rye.Pin{pin}, Bundle: src}})
	if err != nil || !r.Verified() || r.FilesOK != n {
		tb.Fatalf("%+v %v", r, err)
	}
}

func setup(tb testing.TB, n int) (root string, jobs []job, key ed25519.PublicKey, pin rye.Pin) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	key = private.Public().(ed25519.PublicKey)
	pin, err := rye.ParsePin("ed25519:" + base64.StdEncoding.EncodeToString(key))
	if err != nil {
		tb.Fatal(err)
	}
	root, jobs = makeBundle(tb, n, private)
	return root, jobs, key, pin
}

func BenchmarkVerify(b *testing.B) {
	root, _, _, pin := setup(b, items)
	for b.Loop() {
		verify(b, items, root, pin)
	}
}

func BenchmarkCryptographyAlone(b *testing.B) {
	_, jobs, key, _ := setup(b, items)
	for b.Loop() {
		alone(b, key, jobs)
	}
}

// TestRatio measures both in turn and compares the best of each.
func TestRatio(t *testing.T) {
	n, rounds := items/10, 3
	whole := os.Getenv("RIGWARD_BENCH") != ""
	if whole {
		n, rounds = items, 10
	}
	root, jobs, key, pin := setup(t, n)
	best := [2]time.Duration{time.Hour, time.Hour}
	for range rounds {
		for i, run := range []func(){func() { verify(t, n, root, pin) }, func() { alone(t, key, jobs) }} {
			start := time.Now()
			run()
			best[i] = min(best[i], time.Since(start))
		}
	}
	ratio := float64(best[0]) / float64(best[1])
	t.Logf("verify of %d items %v, hashes and signatures alone %v, ratio %.2f", n, best[0].Round(time.Millisecond), best[1].Round(time.Millisecond), ratio)
	if whole && ratio > 2 {
		t.Errorf("ratio %.2f, the bar is 2", ratio)
	}
}
