package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
)

// A job is the cryptography of one file: bytes to be hashed and a signature.
type job struct {
	raw, hashed, object []byte
	message, signature  []byte
}

// makeRye writes a bundle of n signed tools and texts of 0.5 to 8 KiB in
// 100 folders, and returns the work that verifying it cannot do without.
func makeRye(root string, n int, key ed25519.PrivateKey) (jobs []job, err error) {
	at := time.Unix(1773709321, 0)
	for i := range n {
		p, t, text := fmt.Sprintf(".ai/tools/team/t%02d/tool%d.py", i%50, i), rye.Tool, "x = 'some text'\n"
		if i%4 == 0 {
			p, t, text = fmt.Sprintf(".ai/knowledge/team/k%02d/note%d.md", i%50, i), rye.Knowledge, "Some text of a note.\n"
		}
		data, fault := rye.Sign(p, []byte(strings.Repeat(text, 30+i%16*30)), t, key, at)
		if fault != nil {
			return nil, errors.New(fault.Message)
		}
		if err := put(root, p, data); err != nil {
			return nil, err
		}
		j, err := jobOf(data)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	src, err := bundle.OpenDirs(root)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	out, err := rye.Create(context.Background(), src, rye.CreateOptions{ID: "team/bench", Version: "1.0.0", Time: at, Key: key})
	if err != nil || !out.OK() {
		return nil, fmt.Errorf("create: %w %v", err, out.Findings)
	}
	j, err := jobOf(out.Text)
	if err != nil {
		return nil, err
	}
	return append(jobs, j), put(root, out.Path, out.Text)
}

func put(root, p string, data []byte) error {
	p = filepath.Join(root, filepath.FromSlash(p))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, data, 0o644)
}

// jobOf takes a signed text apart. The object of an object_hash has about 600
// bytes, whatever they are.
func jobOf(data []byte) (job, error) {
	line, text, _ := bytes.Cut(data, []byte("\n"))
	parts := strings.Split(strings.TrimSuffix(string(line), " -->"), ":")
	n := len(parts)
	sig, err := base64.URLEncoding.DecodeString(parts[n-2])
	return job{data, text, make([]byte, 600), []byte(parts[n-3]), sig}, err
}

// alone does the cryptography: three hashes and one signature of each file.
func alone(key ed25519.PublicKey, jobs []job) error {
	for _, j := range jobs {
		sha256.Sum256(j.raw)
		sha256.Sum256(j.hashed)
		sha256.Sum256(j.object)
		if !ed25519.Verify(key, j.message, j.signature) {
			return errors.New("a signature that does not verify")
		}
	}
	return nil
}

func verifyRye(n int, root string, pin rye.Pin) error {
	src, err := bundle.OpenDirs(root)
	if err != nil {
		return err
	}
	defer src.Close()
	r, err := rye.Verify(context.Background(), src, rye.Options{ID: "team/bench", Keys: &rye.Keyring{Pins: []rye.Pin{pin}, Bundle: src}})
	if err != nil || !r.Verified() || r.FilesOK != n {
		return fmt.Errorf("verify: %+v %w", r, err)
	}
	return nil
}

// ryeBundle measures the verification of a large Rye bundle beside the
// cryptography in it alone, in turn; the best of each counts. The bar is a ratio
// of 2: reading, parsing, path checks and the search for extra files together
// may cost no more than the hashes and signatures, which are measured on one
// core. Verify computes on all; GOMAXPROCS=1 takes that help away.
func ryeBundle(flags *flag.FlagSet, args []string) error {
	n := flags.Int("items", 2000, "size of the bundle")
	rounds := flags.Int("rounds", 10, "runs; the best counts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "rigward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	ratio, err := ryeRatio(root, *n, *rounds)
	if err == nil && ratio > 2 {
		err = fmt.Errorf("ratio %.2f, the bar is 2", ratio)
	}
	return err
}

func ryeRatio(root string, n, rounds int) (float64, error) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	key := private.Public().(ed25519.PublicKey)
	pin, err := rye.ParsePin("ed25519:" + base64.StdEncoding.EncodeToString(key))
	if err != nil {
		return 0, err
	}
	jobs, err := makeRye(root, n, private)
	if err != nil {
		return 0, err
	}
	best := [2]time.Duration{time.Hour, time.Hour}
	for range rounds {
		for i, run := range []func() error{func() error { return verifyRye(n, root, pin) }, func() error { return alone(key, jobs) }} {
			start := time.Now()
			if err := run(); err != nil {
				return 0, err
			}
			best[i] = min(best[i], time.Since(start))
		}
	}
	ratio := float64(best[0]) / float64(best[1])
	fmt.Printf("verify of %d items %v, hashes and signatures alone %v, ratio %.2f\n", n, best[0].Round(time.Millisecond), best[1].Round(time.Millisecond), ratio)
	return ratio, nil
}
