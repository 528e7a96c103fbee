package rye

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
)

// when is the time of all signatures that tests make.
var when = time.Date(2026, 3, 17, 1, 2, 1, 0, time.UTC)

// testKey returns a key made of one byte.
func testKey(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

var (
	ownKey   = testKey('o')
	otherKey = testKey('x')
)

// testState is the state directory of all tests and of their children.
var testState string

func TestMain(m *testing.M) {
	if testState = os.Getenv("RIGWARD_RYE_STATE"); testState == "" {
		dir, err := os.MkdirTemp("", "rigward-rye-")
		if err != nil {
			panic(err)
		}
		testState = filepath.Join(dir, "state")
		os.Setenv("RIGWARD_RYE_STATE", testState)
		code := m.Run()
		os.RemoveAll(dir)
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func messages(fs []*bundle.Finding) (list []string) {
	for _, f := range fs {
		list = append(list, f.Code+" "+f.Path+": "+f.Message)
	}
	return list
}

func codes(fs []*bundle.Finding) (list []string) {
	for _, f := range fs {
		list = append(list, f.Code)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// writeFiles writes files below a new folder.
func writeFiles(t testing.TB, files map[string]string) string {
	dir := t.TempDir()
	for p, text := range files {
		put(t, dir, p, text)
	}
	return dir
}

func put(t testing.TB, dir, p, text string) {
	t.Helper()
	p = filepath.Join(dir, filepath.FromSlash(p))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, dir, p string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// notesFiles are the items of the test bundle team/notes before signing.
func notesFiles() map[string]string {
	return map[string]string{
		".ai/directives/team/notes/write.md":   "# Write\n\n<directive name=\"write\">\n  <step>Write it down</step>\n</directive>\n\nThen read it again.\n",
		".ai/knowledge/team/notes/style.md":    "---\ntitle: Style\n---\n\nShort sentences.\n",
		".ai/knowledge/team/notes/terms.yaml":  "note: a text\n",
		".ai/tools/team/notes/save.py":         "#!/usr/bin/env python3\nprint('saved')\n",
		".ai/tools/team/notes/show.ts":         "export const show = 1\n",
		".ai/tools/team/notes/package.json":    "{\"name\": \"notes\"}\n",
		".ai/tools/team/notes/paper.png":       "\x89PNG\r\n\x1a\n\xff\xfe",
		".ai/config/notes/notes.yaml":          "folder: notes\n",
		".ai/tools/team/notes-extra/backup.sh": "#!/bin/sh\ntar c notes\n",
	}
}

const notesID = "team/notes"

// writeBundle writes a bundle of the given items, all signed by ownKey.
func writeBundle(t testing.TB, version string, files map[string]string) string {
	t.Helper()
	dir := writeFiles(t, files)
	createBundle(t, dir, version)
	return dir
}

func createBundle(t testing.TB, dir, version string) {
	t.Helper()
	c, err := Create(t.Context(), openDir(t, dir), CreateOptions{ID: notesID, Version: version, Time: when, Key: ownKey, SignItems: true})
	if err != nil || len(c.Findings) > 0 {
		t.Fatal(err, messages(c.Findings))
	}
	for p, data := range c.Items {
		put(t, dir, p, string(data))
	}
	put(t, dir, c.Path, string(c.Text))
}

// resign edits the manifest's body and signs it again with key.
func resign(t testing.TB, dir string, key ed25519.PrivateKey, edit func(body string) string) {
	t.Helper()
	p := ManifestPath(notesID)
	_, body, _ := strings.Cut(get(t, dir, p), "\n")
	if edit != nil {
		body = edit(body)
	}
	put(t, dir, p, signatureLine(hashLine, []byte(body), key, when)+body)
}

// withoutDigest drops the manifest_digest, which an edit would break.
func withoutDigest(body string) string {
	lines := strings.SplitAfter(body, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  manifest_digest:") }), "")
}

// pin trusts keys by their full text.
func pin(t testing.TB, keys ...ed25519.PrivateKey) *Keyring {
	k := &Keyring{}
	for _, key := range keys {
		p, err := ParsePin(keyText(public(key)))
		if err != nil {
			t.Fatal(err)
		}
		k.Pins = append(k.Pins, p)
	}
	return k
}

func verify(t testing.TB, dir string, o Options) *Report {
	t.Helper()
	r, err := Verify(t.Context(), openDir(t, dir), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantCodes(t testing.TB, r *Report, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if !slices.Equal(r.Codes, want) {
		t.Errorf("code %v, want %v: %v", r.Codes, want, messages(r.Findings))
	}
}

// headLine signs a text in the form of the HEAD generation.
func headLine(f lineFormat, text string, key ed25519.PrivateKey) string {
	hash := hexSum([]byte(text))
	sig := base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(hash)))
	return f.prefix + " " + markerHead + "2026-06-01T00:00:00Z:" + hash + ":" + sig + ":" + LongFingerprint(public(key)) + f.suffix + "\n"
}
